//! Files in the place of tables: `SELECT * FROM 'data/*.parquet'`.

use std::collections::{BTreeMap, HashSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::common::{DataFusionError, Result, TableReference};
use datafusion::datasource::provider_as_source;
use datafusion::logical_expr::planner::{PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning};
use datafusion::logical_expr::{DescribeTable, LogicalPlan, LogicalPlanBuilder};
use datafusion::sql::parser::{CopyToSource, Statement};
use datafusion::sql::sqlparser::ast::{
    Ident, ObjectName, ObjectNamePart, Query, Select, Statement as Ast, TableAlias, TableFactor, TableWithJoins,
    VisitMut, VisitorMut,
};
use futures::TryStreamExt;
use futures::stream::{self, StreamExt};
use thermocline_catalog::{ExternalTable, FilePath};
use thermocline_pushdown::user_error;
use thermocline_syntax::folded;

use super::engine::AnalyticEngine;
use super::execution::{Found, is_stale};
use super::options::StatementOptions;
use crate::query::FilesKey;
use crate::scan::ExternalScan;

/// Paths of a statement that are looked up side by side.
const LOOKUPS_AT_ONCE: usize = 8;

/// Tables of the files that a statement names, by their paths, with their objects as they were found.
///
/// ```text
/// FROM 'a.parquet'  --absolute, with a name--> FROM '/data/a.parquet' AS a   what a view keeps
///                                                     |
///                       of_files, or as remembered    v
///                                              ExternalTable --> planned as one that was created
/// ```
#[derive(Debug, Default)]
pub(super) struct FilesOfStatement(BTreeMap<String, Found>);

impl FilesOfStatement {
    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All of them.
    pub(super) fn found(&self) -> Vec<Found> {
        self.0.values().cloned().collect()
    }

    fn table(&self, name: &ObjectName) -> Option<(&str, &Arc<ExternalTable>)> {
        let (path, (table, _)) = self.0.get_key_value(&literal(name)?.value)?;
        Some((path, table))
    }

    /// The plan of `DESCRIBE 'a.parquet'`; `None` for any other statement.
    ///
    /// # Errors
    /// Those of DataFusion.
    pub(super) fn described(&self, statement: &Statement) -> Result<Option<LogicalPlan>> {
        let Statement::Statement(ast) = statement else { return Ok(None) };
        let Ast::ExplainTable { table_name, .. } = ast.as_ref() else { return Ok(None) };
        let Some((_, table)) = self.table(table_name) else { return Ok(None) };
        let output_schema = Arc::new(LogicalPlan::describe_schema().try_into()?);
        Ok(Some(LogicalPlan::DescribeTable(DescribeTable { schema: Arc::clone(table.schema()), output_schema })))
    }
}

impl RelationPlanner for FilesOfStatement {
    fn plan_relation(&self, relation: TableFactor, _: &mut dyn RelationPlannerContext) -> Result<RelationPlanning> {
        if let TableFactor::Table { name, alias, args: None, .. } = &relation
            && let Some((path, table)) = self.table(name)
        {
            let source = provider_as_source(Arc::new(ExternalScan(Arc::clone(table))));
            let plan = LogicalPlanBuilder::scan(TableReference::bare(path), source, None)?.build()?;
            return Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(plan, alias.clone()))));
        }
        Ok(RelationPlanning::Original(Box::new(relation)))
    }
}

impl AnalyticEngine {
    /// Finds the files that a statement names in the place of tables; in the statement their paths become absolute. The
    /// name of a table, a view or a query of WITH in single quotes means that.
    ///
    /// # Errors
    /// Those of [`ExternalTable::of_files`].
    pub(super) async fn files_of(
        &self,
        statement: &mut Statement,
        options: &StatementOptions,
    ) -> Result<FilesOfStatement> {
        let mut named = Named::default();
        visit(statement, &mut named);
        let is_relation =
            |name: &str| named.queries.contains(name) || self.has_relation(name) || self.public.has_guest(name);
        let mut paths = BTreeMap::new();
        for name in named.literals.iter().filter(|name| !is_relation(name)) {
            paths.insert(name.clone(), FilePath::parse(name)?);
        }
        if paths.is_empty() {
            return Ok(FilesOfStatement::default());
        }
        let mut replace = Replace { paths: &paths, error: None };
        visit(statement, &mut replace);
        if let Some(error) = replace.error {
            return Err(error);
        }
        let settings = options.settings();
        // Two ways to write one path are one table.
        let distinct: BTreeMap<String, FilePath> =
            paths.into_values().map(|path| (path.text().to_owned(), path)).collect();
        let found = distinct.into_iter().map(|(path, files)| {
            let key = FilesKey { files, request_timeout: settings.request_timeout };
            let allowed = settings.allowed_locations.clone();
            async move {
                let found = match self.resources.table_of_files(key.clone(), &allowed).await {
                    Err(error) if is_stale(&error) => {
                        tracing::info!("looking again for '{path}': {error}");
                        self.resources.table_of_files(key, &allowed).await.map_err(changed_again)
                    }
                    found => found,
                };
                Ok::<_, DataFusionError>((path, found?))
            }
        });
        let found: Vec<_> = stream::iter(found).buffered(LOOKUPS_AT_ONCE).try_collect().await?;
        Ok(FilesOfStatement(found.into_iter().collect()))
    }
}

fn changed_again(error: DataFusionError) -> DataFusionError {
    match is_stale(&error) {
        true => error.context("a file changed again while it was looked at a second time"),
        false => error,
    }
}

/// Visits a statement, also below EXPLAIN and COPY.
fn visit(mut statement: &mut Statement, visitor: &mut impl VisitorMut<Break = ()>) {
    loop {
        let _: ControlFlow<()> = match statement {
            Statement::Explain(explain) => {
                statement = explain.statement.as_mut();
                continue;
            }
            Statement::Statement(ast) => ast.visit(visitor),
            Statement::CopyTo(copy) => match &mut copy.source {
                CopyToSource::Query(query) => query.visit(visitor),
                CopyToSource::Relation(_) => ControlFlow::Continue(()),
            },
            _ => ControlFlow::Continue(()),
        };
        return;
    }
}

/// The name in single quotes that a relation is.
fn literal(name: &ObjectName) -> Option<&Ident> {
    match name.0.as_slice() {
        [ObjectNamePart::Identifier(name)] if name.quote_style == Some('\'') => Some(name),
        _ => None,
    }
}

/// Names in single quotes in the place of tables, and names of queries.
#[derive(Default)]
struct Named {
    literals: HashSet<String>,
    queries: HashSet<String>,
}

impl VisitorMut for Named {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let queries = query.with.iter().flat_map(|with| &with.cte_tables);
        self.queries.extend(queries.map(|query| folded(&query.alias.name)));
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if let TableFactor::Table { name, args: None, .. } = factor {
            self.literals.extend(literal(name).map(|name| name.value.clone()));
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_statement(&mut self, statement: &mut Ast) -> ControlFlow<()> {
        if let Ast::ExplainTable { table_name, .. } = statement {
            self.literals.extend(literal(table_name).map(|name| name.value.clone()));
        }
        ControlFlow::Continue(())
    }
}

/// Makes paths absolute, and gives their relations names of their own.
struct Replace<'a> {
    paths: &'a BTreeMap<String, FilePath>,
    error: Option<DataFusionError>,
}

impl Replace<'_> {
    fn path(&self, name: &ObjectName) -> Option<&FilePath> {
        self.paths.get(&literal(name)?.value)
    }

    fn absolute(&self, name: &mut ObjectName) {
        if let Some(path) = self.path(name) {
            *name = ObjectName::from(vec![Ident::with_quote('\'', path.text())]);
        }
    }
}

impl VisitorMut for Replace<'_> {
    type Break = ();

    fn pre_visit_statement(&mut self, statement: &mut Ast) -> ControlFlow<()> {
        match statement {
            Ast::ExplainTable { table_name, .. } => self.absolute(table_name),
            // Texts of views are printed, and these would be read as other paths.
            Ast::CreateView(_)
                if let Some(path) = self.paths.values().find(|path| {
                    let text = path.text();
                    text.contains("''") || text.contains(r"\'")
                }) =>
            {
                let why = "a view of files whose path has such quotes";
                self.error = Some(user_error!(Unsupported, "{why}: {}", path.text()));
                return ControlFlow::Break(());
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        let mut names = vec![];
        each_factor(&mut select.from, &mut |factor| names.extend(name_of(factor, self.paths)));
        each_factor(&mut select.from, &mut |factor| {
            let TableFactor::Table { name, alias: alias @ None, args: None, .. } = factor else { return };
            let Some(short) = self.path(name).and_then(FilePath::short_name) else { return };
            // Two of one name are told apart by their paths, or by names that the statement gives.
            if names.iter().filter(|name| **name == short).count() == 1 {
                let (name, columns) = (Ident::with_quote('"', short), vec![]);
                *alias = Some(TableAlias { explicit: true, name, columns, at: None });
            }
        });
        ControlFlow::Continue(())
    }

    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if let TableFactor::Table { name, args: None, .. } = factor {
            self.absolute(name);
        }
        ControlFlow::Continue(())
    }
}

/// The name that a relation of FROM has, or could have.
fn name_of(factor: &TableFactor, paths: &BTreeMap<String, FilePath>) -> Option<String> {
    match factor {
        TableFactor::Table { alias: Some(alias), .. } | TableFactor::Derived { alias: Some(alias), .. } => {
            Some(folded(&alias.name))
        }
        TableFactor::Table { name, .. } => match literal(name).and_then(|name| paths.get(&name.value)) {
            Some(path) => path.short_name(),
            None => name.0.last()?.as_ident().map(folded),
        },
        _ => None,
    }
}

/// The relations that are joined in FROM, those in parentheses too.
fn each_factor(from: &mut [TableWithJoins], work: &mut impl FnMut(&mut TableFactor)) {
    let mut waiting: Vec<&mut TableFactor> = vec![];
    for table in from {
        waiting.push(&mut table.relation);
        waiting.extend(table.joins.iter_mut().map(|join| &mut join.relation));
        while let Some(factor) = waiting.pop() {
            match factor {
                TableFactor::NestedJoin { table_with_joins, .. } => {
                    waiting.push(&mut table_with_joins.relation);
                    waiting.extend(table_with_joins.joins.iter_mut().map(|join| &mut join.relation));
                }
                factor => work(factor),
            }
        }
    }
}
