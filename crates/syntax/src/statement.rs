//! Tree of a statement.

use sqlparser::ast::{self, DataType, Expr, Ident, ObjectName, SqlOption};

/// A parsed statement.
#[derive(Debug, Clone)]
pub enum Statement {
    /// Any statement that sqlparser knows, and the options of a table behind `PARTITION BY`.
    Sql(Box<ast::Statement>, Vec<SqlOption>),
    /// `CREATE PROCEDURE`.
    CreateProcedure(Box<CreateProcedure>),
    /// `DROP PROCEDURE`.
    DropProcedure {
        /// Its name.
        name: ObjectName,
        /// `IF EXISTS`.
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

/// A parsed `CREATE PROCEDURE`.
#[derive(Debug, Clone)]
pub struct CreateProcedure {
    /// `OR REPLACE`.
    pub or_replace: bool,
    /// Its name.
    pub name: ObjectName,
    /// Names and types of its arguments.
    pub arguments: Vec<(Ident, DataType)>,
    /// Arguments of `PARTITION ON`; empty without it.
    pub partition_on: Vec<Ident>,
    /// `WITH (...)`.
    pub options: Vec<SqlOption>,
    /// The language.
    pub language: Ident,
    /// The body, without quotes.
    pub body: String,
}
