use std::fmt;
use std::str::FromStr;

/// Language of a workload's procedures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Language {
    /// Registered when the database is opened.
    Rust,
    /// `LANGUAGE lua`.
    Lua,
    /// `LANGUAGE sql`.
    Sql,
}

/// Their names on the command line and in records.
impl fmt::Display for Language {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Rust => "rust",
            Self::Lua => "lua",
            Self::Sql => "sql",
        })
    }
}

impl FromStr for Language {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "rust" => Ok(Self::Rust),
            "lua" => Ok(Self::Lua),
            "sql" => Ok(Self::Sql),
            _ => Err(format!("\"{text}\" is none of rust, lua, sql")),
        }
    }
}
