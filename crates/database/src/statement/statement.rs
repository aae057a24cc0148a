use std::path::PathBuf;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::sql::parser::{DFParserBuilder, Statement as Parsed};
use datafusion::sql::sqlparser::ast::{
    CopySource, FromTable, Insert, SetExpr, Statement as Ast, TableFactor, TableObject, TableWithJoins,
};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Location, Token, Tokenizer};
use thermocline_dialect::{SqlDialect, check_depth};
use thermocline_pushdown::user_err;

use super::column_names::name_columns;
use super::copy_statement::{is_postgresql_copy, parse_copy};
use super::headings::Headings;
use super::names::simple;
use super::script::{Script, in_script};
use super::setting_statement::is_alter_database;
use crate::error::{Error, Known};

/// A statement of a script, not yet given to an engine.
#[derive(Debug, Clone)]
pub struct Statement {
    /// As it was written, without comments before it and the semicolon behind it.
    pub text: Arc<str>,
    /// Its text in the script, and where that begins.
    written: Written,
    /// Tree of the analytic engine's parser; `None` for statements that only the row engine knows.
    pub(crate) parsed: Option<Parsed>,
}

/// A statement as somebody has written it: places of errors are places in this text.
#[derive(Debug, Clone)]
pub struct Written {
    /// The text.
    pub text: Arc<str>,
    /// Where it begins in its script.
    pub at: Location,
}

impl Statement {
    /// The line of its script in which it begins, from 1.
    pub const fn line(&self) -> u64 {
        self.written.at.line
    }

    /// The statement as somebody has written it.
    pub(crate) fn written(&self) -> Written {
        self.written.clone()
    }

    /// The same statement in other words.
    pub(crate) fn reworded(self, parsed: Parsed) -> Self {
        Self { text: parsed.to_string().into(), parsed: Some(parsed), ..self }
    }

    /// Cuts a script into statements. Semicolons in strings, comments and bodies of procedures do not
    /// count.
    ///
    /// # Errors
    /// If it does not parse; the error names line and column.
    pub fn parse(script: &str) -> Result<Vec<Self>, Error> {
        Script::statements(script)
    }

    /// The statement whose text begins at a place of its script.
    pub(super) fn cut(text: &str, at: Location) -> Result<Self, Error> {
        Self::parsed(text, at).map_err(|error| Error::from(in_script(error, at)).explained(text, at, &Nothing))
    }

    fn parsed(text: &str, at: Location) -> Result<Self> {
        let text: Arc<str> = text.into();
        let written = Written { text: Arc::clone(&text), at };
        let statement = |parsed| Self { text: Arc::clone(&text), written, parsed };
        if is_of_rows(&text) || is_backup(&text) || is_alter_database(&text) {
            return Ok(statement(None));
        }
        let parsed = if is_postgresql_copy(&text) { parse_copy(&text) } else { parse_one(&text) };
        match parsed {
            Ok(parsed) => match insert_of_with(&parsed) {
                Some(insert) => Ok(statement(None).reworded(Parsed::Statement(Box::new(insert)))),
                None => Ok(statement(Some(parsed))),
            },
            // Such as options that only row tables have.
            Err(_) if thermocline_transactions::sql::parse(&text).is_ok() => Ok(statement(None)),
            Err(error) => Err(error),
        }
    }

    /// The table that it creates or whose rows it changes, if that is a row table, and whether it creates it.
    pub(crate) fn row_target(&self) -> Option<(String, bool)> {
        let Some(Parsed::Statement(ast)) = &self.parsed else { return None };
        let factor = |table: &TableWithJoins| match &table.relation {
            TableFactor::Table { name, .. } => simple(name),
            _ => None,
        };
        match ast.as_ref() {
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

    /// Whether it is EXECUTE, or EXPLAIN of it.
    pub(crate) fn executes(&self) -> bool {
        let mut parsed = self.parsed.as_ref();
        while let Some(Parsed::Explain(explain)) = parsed {
            parsed = Some(&explain.statement);
        }
        matches!(parsed, Some(Parsed::Statement(ast)) if matches!(ast.as_ref(), Ast::Execute { .. }))
    }

    /// Headings of its rows.
    pub(crate) fn headings(&self) -> Headings {
        Headings::of(self.parsed.as_ref())
    }

    /// The directory of `BACKUP TO 'directory'`; `None` for other statements.
    ///
    /// # Errors
    /// If it is a BACKUP of another form.
    pub(crate) fn backup_to(&self) -> Result<Option<PathBuf>> {
        if !is_backup(&self.text) {
            return Ok(None);
        }
        let tokens = Tokenizer::new(&SqlDialect::of(0), &self.text).tokenize().unwrap_or_default();
        let tokens: Vec<_> = tokens.iter().filter(|token| !matches!(token, Token::Whitespace(_))).collect();
        match tokens.as_slice() {
            [_, Token::Word(to), Token::SingleQuotedString(path)] if to.keyword == Keyword::TO && !path.is_empty() => {
                Ok(Some(path.into()))
            }
            _ => user_err!(Syntax, "expected BACKUP TO 'directory', not {}", self.text),
        }
    }

    /// Whether it is COMMIT or ROLLBACK.
    pub(crate) fn ends_transaction(&self) -> bool {
        let Some(Parsed::Statement(ast)) = &self.parsed else { return false };
        matches!(ast.as_ref(), Ast::Commit { .. } | Ast::Rollback { .. })
    }

    /// A statement of the analytic engine.
    pub(crate) fn analytic(text: &str) -> Result<Parsed> {
        parse_one(text)
    }
}

/// Before a database is asked, nothing is known of its names.
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

/// `WITH ... INSERT INTO t SELECT ...` as `INSERT INTO t WITH ... SELECT ...`.
fn insert_of_with(parsed: &Parsed) -> Option<Ast> {
    let Parsed::Statement(ast) = parsed else { return None };
    let Ast::Query(query) = ast.as_ref() else { return None };
    let SetExpr::Insert(Ast::Insert(insert)) = query.body.as_ref() else { return None };
    let mut insert = insert.clone();
    let source = insert.source.as_mut()?;
    if source.with.is_none() {
        source.with = query.with.clone();
        return Some(Ast::Insert(insert));
    }
    None
}

fn is_backup(text: &str) -> bool {
    text.split_whitespace().next().is_some_and(|word| word.eq_ignore_ascii_case("backup"))
}

/// Whether only the row engine knows statements that begin so.
fn is_of_rows(text: &str) -> bool {
    let first = text.split(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or_default();
    if !["call", "create", "drop"].iter().any(|word| first.eq_ignore_ascii_case(word)) {
        return false;
    }
    let tokens = Tokenizer::new(&SqlDialect::of(0), text).tokenize().unwrap_or_default();
    let words = tokens.iter().filter(|token| !matches!(token, Token::Whitespace(_))).take(4).map(|token| match token {
        Token::Word(word) if word.quote_style.is_none() => word.keyword,
        _ => Keyword::NoKeyword,
    });
    matches!(
        words.collect::<Vec<_>>().as_slice(),
        [Keyword::CALL, ..]
            | [Keyword::CREATE | Keyword::DROP, Keyword::PROCEDURE, ..]
            | [Keyword::CREATE, Keyword::OR, Keyword::REPLACE, Keyword::PROCEDURE, ..]
    )
}

fn parse_one(text: &str) -> Result<Parsed> {
    check_depth(text)?;
    let mut parsed =
        DFParserBuilder::new(text).with_dialect(&SqlDialect::of(text.len())).build()?.parse_statements()?;
    match parsed.pop_front().filter(|_| parsed.is_empty()) {
        Some(mut one) => {
            name_columns(&mut one);
            Ok(one)
        }
        None => user_err!(Syntax, "expected one statement: {text}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(script: &str) -> Vec<(String, bool)> {
        let statements = Statement::parse(script).unwrap();
        statements.into_iter().map(|statement| (statement.text.to_string(), statement.parsed.is_some())).collect()
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
