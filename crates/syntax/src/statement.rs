//! Tree of a statement.

use sqlparser::ast::{self, DataType, Expr, Ident, ObjectName, SqlOption};

/// A statement as it is written.
#[derive(Debug, Clone)]
pub enum Statement {
    /// Any that the parser knows; a table's options behind `PARTITION BY` beside it.
    Sql(Box<ast::Statement>, Vec<SqlOption>),
    /// `CREATE PROCEDURE`.
    CreateProcedure(Box<CreateProcedure>),
    /// `DROP PROCEDURE`.
    DropProcedure {
        /// Its name.
        name: ObjectName,
        /// Whether it need not exist.
        if_exists: bool,
    },
    /// `CALL name(arguments)`.
    Call {
        /// The procedure.
        name: ObjectName,
        /// Arguments.
        arguments: Vec<Expr>,
    },
    /// `EXPLAIN` of a statement.
    Explain(Box<Self>),
}

/// `CREATE PROCEDURE` as it is written.
#[derive(Debug, Clone)]
pub struct CreateProcedure {
    /// Whether one with this name is replaced.
    pub or_replace: bool,
    /// Its name.
    pub name: ObjectName,
    /// Names and types of its arguments.
    pub arguments: Vec<(Ident, DataType)>,
    /// The arguments in `PARTITION ON`; none without it.
    pub partition_on: Vec<Ident>,
    /// `WITH (...)`.
    pub options: Vec<SqlOption>,
    /// The word behind `LANGUAGE`.
    pub language: Ident,
    /// The text between the quotes.
    pub body: String,
}
