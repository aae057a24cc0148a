/// A value, with text borrowed from Lua.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind<'k> {
    /// `nil`, or nothing.
    Nil,
    /// `true` or `false`.
    Boolean(bool),
    /// An integer.
    Integer(i64),
    /// A float.
    Float(f64),
    /// A string of any bytes.
    Text(&'k [u8]),
    /// A table.
    Table,
    /// A function.
    Function,
    /// A value of Rust.
    User,
    /// A coroutine.
    Thread,
}

impl Kind<'_> {
    /// Name by `type`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nil => "nil",
            Self::Boolean(_) => "boolean",
            Self::Integer(_) | Self::Float(_) => "number",
            Self::Text(_) => "string",
            Self::Table => "table",
            Self::Function => "function",
            Self::User => "userdata",
            Self::Thread => "thread",
        }
    }
}
