//! Definitions of procedures.

use thermocline_types::DataType;

/// A stored procedure.
#[derive(Debug, Clone, PartialEq)]
pub struct ProcedureDefinition {
    /// Its name.
    pub name: Box<str>,
    /// Number of definitions under this name; the log records which one ran.
    pub version: u32,
    /// Arguments.
    pub arguments: Vec<Argument>,
    /// Arguments whose values determine the partitions over which it runs; all partitions if empty.
    pub partition_on: Vec<usize>,
    /// Language of its body.
    pub language: Language,
    /// The text between the dollar signs.
    pub body: Box<str>,
}

/// An argument of a procedure.
#[derive(Debug, Clone, PartialEq)]
pub struct Argument {
    /// Its name.
    pub name: Box<str>,
    /// Its type.
    pub data_type: DataType,
}

/// The language of a procedure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    /// Statements, each seeing the arguments as `$1`, `$2` or by name.
    Sql,
    /// Lua 5.4.
    Lua,
}
