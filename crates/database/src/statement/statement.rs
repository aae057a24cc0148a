//! One statement of a script: tree, original text with position, and statements made from its parts.

use std::path::Path;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::format::ExplainStatementOptions;
use datafusion::sql::parser::Statement as AnalyticStatement;
use datafusion::sql::sqlparser::ast::{
    CopySource, FromTable, Insert, Statement as Ast, TableFactor, TableObject, TableWithJoins,
};
use datafusion::sql::sqlparser::tokenizer::Location;
use thermocline_syntax::Statement as Sql;
use thermocline_transactions::database::Source;

use super::column_names::name_columns;
use super::headings::Headings;
use super::names::simple;
use super::parsed::Parsed;
use super::printed::printed;
use super::script::{Script, in_script};
use super::windows::resolve_windows;
use crate::error::{Error, Known};

/// A parsed statement of a script, not yet dispatched to an engine.
#[derive(Debug, Clone)]
pub struct Statement {
    /// Text as written, without leading comments and the semicolon.
    pub text: Arc<str>,
    /// Its text and position in the script.
    written: Written,
    /// Syntax tree, for both engines.
    pub(crate) parsed: Arc<Parsed>,
    /// Length of its longest chain of operators.
    operators: u32,
}

/// Original text of a statement, which positions of errors refer to.
#[derive(Debug, Clone)]
pub struct Written {
    /// Text.
    pub text: Arc<str>,
    /// Its beginning in the script.
    pub at: Location,
}

impl Statement {
    /// The line in the script where it begins, from 1.
    pub const fn line(&self) -> u64 {
        self.written.at.line
    }

    /// Whether it is EXPLAIN of another statement.
    pub fn is_explain(&self) -> bool {
        self.parsed.is_explain()
    }

    /// The original text.
    pub(crate) fn written(&self) -> Written {
        self.written.clone()
    }

    /// A statement that is part of this one, or made from its parts.
    ///
    /// # Errors
    /// Errors of [`printed`].
    pub(crate) fn part(&self, mut ast: Ast) -> Result<Self> {
        let (text, operators) = printed(&mut ast)?;
        let (text, written) = (text.into(), self.written.clone());
        Ok(Self { text, written, parsed: Arc::new(Parsed::from(ast)), operators })
    }

    /// Replaces EXECUTE, also below EXPLAIN, by the result of `executed`; returns other statements unchanged.
    ///
    /// # Errors
    /// Errors of `executed` and of [`printed`].
    pub(crate) fn executing(self, executed: impl FnOnce(&Ast) -> Result<Ast>) -> Result<Self> {
        match (self.ast(), self.explained()) {
            (Some(execute @ Ast::Execute { .. }), _) => self.part(executed(execute)?),
            (_, Some((Sql::Sql(execute, _), options))) if matches!(execute.as_ref(), Ast::Execute { .. }) => {
                Ok(self.part(executed(execute)?)?.under_explain(options.clone()))
            }
            _ => Ok(self),
        }
    }

    /// `EXPLAIN` of this statement; unchanged if it has no plain [tree](Self::ast).
    pub(crate) fn under_explain(self, options: ExplainStatementOptions) -> Self {
        let Some(ast) = self.ast() else { return self };
        let parsed = Parsed::explain_of(Box::new(ast.clone()), options);
        Self { text: format!("EXPLAIN {}", self.text).into(), parsed: Arc::new(parsed), ..self }
    }

    /// Parses a script into statements. Semicolons in strings, comments and bodies of procedures do not separate
    /// statements.
    ///
    /// # Errors
    /// Syntax errors, with line and column.
    pub fn parse(script: &str) -> Result<Vec<Self>, Error> {
        Script::statements(script)
    }

    /// Parses a statement that begins at `at` in its script.
    pub(super) fn cut(text: &str, at: Location) -> Result<Self, Error> {
        Self::parsed(text, at).map_err(|error| Error::from(in_script(error, at)).explained(text, at, &Nothing))
    }

    fn parsed(text: &str, at: Location) -> Result<Self> {
        let (parsed, operators) = Parsed::of(text)?;
        let text: Arc<str> = text.into();
        let written = Written { text: Arc::clone(&text), at };
        let statement = Self { text, written, parsed: Arc::new(parsed), operators };
        match statement.parsed.insert_of_with() {
            Some(insert) => statement.part(insert),
            None => Ok(statement),
        }
    }

    /// The syntax tree, unless the statement is EXPLAIN or specific to one engine.
    pub(crate) fn ast(&self) -> Option<&Ast> {
        self.parsed.ast()
    }

    /// The statement below EXPLAIN, and the options of EXPLAIN.
    pub(crate) fn explained(&self) -> Option<(&Sql, &ExplainStatementOptions)> {
        match self.parsed.as_ref() {
            Parsed::Explain(Sql::Explain(explained), options) => Some((explained, options)),
            _ => None,
        }
    }

    /// The statement for a session of the row engine.
    pub(crate) fn source(&self) -> Source<'_> {
        match self.parsed.of_rows() {
            Some(tree) => Source::parsed(&self.text, tree, self.operators),
            None => Source::from(&*self.text),
        }
    }

    /// The form for the analytic engine, with names for columns that are referred to, and its windows resolved; `None`
    /// if that engine cannot run the statement.
    ///
    /// # Errors
    /// Those of [`resolve_windows`].
    pub(crate) fn into_analytic(self) -> Result<Option<AnalyticStatement>> {
        let Some(mut statement) = Arc::unwrap_or_clone(self.parsed).into_analytic() else { return Ok(None) };
        resolve_windows(&mut statement)?;
        name_columns(&mut statement);
        Ok(Some(statement))
    }

    /// The name of the table that it creates or changes, if that may be a row table, and whether it creates it.
    pub(crate) fn row_target(&self) -> Option<(String, bool)> {
        let factor = |table: &TableWithJoins| match &table.relation {
            TableFactor::Table { name, .. } => simple(name),
            _ => None,
        };
        match self.ast()? {
            Ast::CreateTable(table) => Some((simple(&table.name)?, true)),
            Ast::Insert(Insert { table: TableObject::TableName(name), .. }) => Some((simple(name)?, false)),
            Ast::Copy { source: CopySource::Table { table_name, .. }, to: false, .. } => {
                Some((simple(table_name)?, false))
            }
            Ast::Update(update) => Some((factor(&update.table)?, false)),
            Ast::Delete(delete) => {
                let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &delete.from;
                Some((factor(from.first()?)?, false))
            }
            _ => None,
        }
    }

    /// Displayed column names.
    pub(crate) fn headings(&self) -> Headings {
        self.ast().map_or_else(Headings::default, Headings::of)
    }

    /// The directory of `BACKUP TO 'directory'`; `None` for other statements.
    pub(crate) fn backup_to(&self) -> Option<&Path> {
        match self.parsed.as_ref() {
            Parsed::Backup(directory) => Some(directory),
            _ => None,
        }
    }

    /// Whether it is COMMIT or ROLLBACK, also to a savepoint.
    pub(crate) fn ends_transaction(&self) -> bool {
        matches!(self.ast(), Some(Ast::Commit { .. } | Ast::Rollback { .. }))
    }
}

/// No known names, for errors before a database is involved.
struct Nothing;

impl Known for Nothing {
    fn tables(&self) -> Vec<String> {
        vec![]
    }

    fn columns(&self, _: &str) -> Vec<String> {
        vec![]
    }

    fn functions(&self) -> Vec<String> {
        vec![]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Texts of statements, and whether the analytic engine can run each.
    fn texts(script: &str) -> Vec<(String, bool)> {
        let statements = Statement::parse(script).unwrap();
        statements.into_iter().map(|one| (one.text.to_string(), one.into_analytic().unwrap().is_some())).collect()
    }

    #[test]
    fn scripts_are_cut_where_statements_end() {
        let script = "-- first\nSELECT 'a;ü' ; ;\nCREATE PROCEDURE p(k BIGINT) LANGUAGE SQL AS $$ SELECT 1; SELECT 2; $$;\n\
                      CALL p(1); create or replace procedure p() language sql as 'select 1' ;\n\
                      CREATE TABLE t (k BIGINT PRIMARY KEY) PARTITION BY (k) WITH (evictable = false);\n\
                      INSERT INTO t VALUES (1) ON CONFLICT (k) DO NOTHING; SELECT `x;` -- end";
        let texts = texts(script);
        let expected = [
            ("SELECT 'a;ü'", true),
            ("CREATE PROCEDURE p(k BIGINT) LANGUAGE SQL AS $$ SELECT 1; SELECT 2; $$", false),
            ("CALL p(1)", false),
            ("create or replace procedure p() language sql as 'select 1'", false),
            ("CREATE TABLE t (k BIGINT PRIMARY KEY) PARTITION BY (k) WITH (evictable = false)", false),
            ("INSERT INTO t VALUES (1) ON CONFLICT (k) DO NOTHING", true),
            ("SELECT `x;` -- end", true),
        ];
        assert_eq!(texts.len(), expected.len(), "{texts:?}");
        for ((text, parsed), (expected, analytic)) in texts.iter().zip(expected) {
            assert_eq!((text.as_str(), *parsed), (expected, analytic));
        }
        assert!(Statement::parse(" ; -- nothing\n").unwrap().is_empty());
    }

    #[test]
    fn errors_name_their_place_in_the_script() {
        let error = Statement::parse("SELECT 1;\n  SELEC 2; SELECT 3").unwrap_err().to_string();
        assert!(error.contains("line 2, column 3"), "{error}");
    }
}
