use thermocline_syntax::Statement;

/// A statement as a session takes it.
///
/// The text is the key under which the session keeps what it makes of the statement, and goes into the log. A tree
/// spares parsing the text; it has to be the text's.
#[derive(Debug, Clone, Copy)]
pub struct Source<'a> {
    pub(super) text: &'a str,
    /// With the operators that follow each other at the most: see [`Tokens::operators`](thermocline_syntax::Tokens).
    pub(super) tree: Option<(&'a Statement, u32)>,
}

impl<'a> Source<'a> {
    /// A text with its tree, in which at most `operators` operators follow each other.
    pub const fn parsed(text: &'a str, tree: &'a Statement, operators: u32) -> Self {
        Self { text, tree: Some((tree, operators)) }
    }
}

impl<'a> From<&'a str> for Source<'a> {
    /// A text that is parsed when it is needed.
    fn from(text: &'a str) -> Self {
        Self { text, tree: None }
    }
}
