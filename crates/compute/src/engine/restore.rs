//! Restores the objects of a database's catalog when it is opened.

use datafusion::common::{DataFusionError, Result, exec_err};
use datafusion::logical_expr::{DdlStatement, LogicalPlan};
use datafusion::sql::parser::{ResetStatement, Statement};
use datafusion::sql::sqlparser::ast::{self, Expr, Set};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::Token;
use thermocline_catalog::TableDefinition;
use thermocline_dialect::parse;
use thermocline_syntax::{Tokens, folded, folded_word, split};

use super::engine::AnalyticEngine;
use super::options::StatementOptions;
use super::statements::with_time_zone;
use crate::index::IndexStatement;
use crate::query::Absent;

impl AnalyticEngine {
    /// Restores what the catalog defines. A definition that cannot be used, because its objects cannot be reached or it
    /// is not one of this version, keeps neither the others nor another engine's tables from being used.
    pub(super) async fn restore(&self, mut options: StatementOptions) -> Result<()> {
        let saved = self.resources.saved_catalog()?;
        let default_zone = options.config.options().execution.time_zone.clone();
        let mut views = vec![];
        for sql in split(&saved).map_err(|error| DataFusionError::from(error).context("catalog.sql"))? {
            let restored = match parse(sql).map(|mut statements| statements.pop()) {
                Ok(None) => Ok(()),
                Ok(Some(statement)) => match (time_zone(&statement), view_name(&statement)) {
                    (Some(zone), _) => {
                        options.config.options_mut().execution.time_zone = zone.or_else(|| default_zone.clone());
                        Ok(())
                    }
                    (None, Some(name)) => {
                        views.push((name, statement, options.clone()));
                        Ok(())
                    }
                    (None, None) => self.restore_one(statement, &options).await,
                },
                Err(error) => Err(error),
            };
            restored
                .or_else(|error| self.leave_out_unread(sql, error, &options))
                .map_err(|error| error.context(format!("catalog.sql: {sql}")))?;
        }
        self.restore_views(views).await
    }

    /// Restores views, each after those that it reads. The file has them in the order of their first definitions, which
    /// is another one where a view that others read was replaced or created again.
    async fn restore_views(&self, mut views: Vec<(String, Statement, StatementOptions)>) -> Result<()> {
        loop {
            let before = views.len();
            let mut left = vec![];
            for (name, statement, options) in views {
                if let Err(error) = self.restore_one(statement.clone(), &options).await {
                    left.push((name, statement, options, error));
                }
            }
            if left.len() == before {
                return left.into_iter().try_for_each(|(name, statement, options, error)| {
                    self.leave_out_view(name, &statement.to_string(), &error, &options)
                });
            }
            views = left.into_iter().map(|(name, statement, options, _)| (name, statement, options)).collect();
        }
    }

    /// Keeps a definition that cannot be read, such as one that an earlier version took, under the name that it gives.
    ///
    /// # Errors
    /// `error` if it gives none.
    fn leave_out_unread(&self, sql: &str, error: DataFusionError, options: &StatementOptions) -> Result<()> {
        match defined(&Tokens::of(sql)?) {
            Some(Defined::View(name)) => self.leave_out_view(name, sql, &error, options),
            Some(Defined::Table(name)) => self.leave_out(name, Some(sql.to_owned()), &error),
            None => Err(error),
        }
    }

    /// Restores one definition of the catalog file. A table whose objects cannot be reached is kept as one that cannot
    /// be used.
    async fn restore_one(&self, statement: Statement, options: &StatementOptions) -> Result<()> {
        if let Some(index) = IndexStatement::of(&statement)? {
            return self.index_statement(index, false, options).await;
        }
        match self.plan(statement, options).await? {
            LogicalPlan::Ddl(DdlStatement::CreateExternalTable(statement)) => {
                let TableDefinition { name, sql, .. } = TableDefinition::try_from_statement(&statement)?;
                let created = self.create_table(&statement, false, options).await;
                created.or_else(|error| self.leave_out(name, Some(sql), &error))
            }
            LogicalPlan::Ddl(DdlStatement::CreateView(view)) => {
                self.define(DdlStatement::CreateView(view), false, options).await
            }
            _ => exec_err!("it defines nothing that a catalog has"),
        }
    }

    fn leave_out_view(
        &self,
        name: String,
        sql: &str,
        error: &DataFusionError,
        options: &StatementOptions,
    ) -> Result<()> {
        self.resources.set_view(&name, Some(with_time_zone(sql, options)), false)?;
        self.leave_out(name, None, error)
    }

    fn leave_out(&self, name: String, table_sql: Option<String>, error: &DataFusionError) -> Result<()> {
        let error = error.strip_backtrace();
        tracing::warn!("{name} is left out until the database is opened again: {error}");
        self.resources.set_absent(name, Absent { table_sql, error });
        Ok(())
    }
}

/// The time zone of the definitions that follow a statement, if it sets one; `Some(None)` for the default.
fn time_zone(statement: &Statement) -> Option<Option<String>> {
    const NAME: &str = "datafusion.execution.time_zone";
    match statement {
        Statement::Reset(ResetStatement::Variable(name)) if name.to_string() == NAME => Some(None),
        Statement::Statement(ast) => match ast.as_ref() {
            ast::Statement::Set(Set::SingleAssignment { variable, values, .. }) if variable.to_string() == NAME => {
                let [Expr::Value(zone)] = values.as_slice() else { return None };
                Some(zone.value.clone().into_string())
            }
            _ => None,
        },
        _ => None,
    }
}

/// The relation that a text begins to define.
enum Defined {
    Table(String),
    View(String),
}

/// The relation that a text defines if it begins like a definition; the rest of it is not read.
fn defined(tokens: &Tokens) -> Option<Defined> {
    const WORDS_BEFORE_MAX: usize = 8;
    if !tokens.begin_with(&[Keyword::CREATE]) {
        return None;
    }
    let mut words = tokens.iter().zip(tokens.keywords()).take(WORDS_BEFORE_MAX);
    let of: fn(String) -> Defined = words.find_map(|(_, keyword)| match keyword {
        Keyword::TABLE => Some(Defined::Table as fn(String) -> Defined),
        Keyword::VIEW => Some(Defined::View as fn(String) -> Defined),
        _ => None,
    })?;
    let before_a_name = [Keyword::IF, Keyword::NOT, Keyword::EXISTS];
    match words.find(|(_, keyword)| !before_a_name.contains(keyword))? {
        (Token::Word(word), _) => Some(of(folded_word(word))),
        _ => None,
    }
}

/// The view that a statement defines; `None` if it defines something else.
fn view_name(statement: &Statement) -> Option<String> {
    let Statement::Statement(inner) = statement else { return None };
    let ast::Statement::CreateView(view) = inner.as_ref() else { return None };
    let name = view.name.0.last()?.as_ident()?;
    Some(folded(name))
}
