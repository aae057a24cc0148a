//! Files in the place of tables: `SELECT * FROM 'data/*.parquet'`, `SELECT * FROM read_csv('a.txt', delim => '|')`.

use std::collections::{BTreeMap, HashSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::common::{DataFusionError, Result, TableReference, internal_err};
use datafusion::datasource::provider_as_source;
use datafusion::logical_expr::planner::{PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning};
use datafusion::logical_expr::{DdlStatement, DescribeTable, LogicalPlan, LogicalPlanBuilder};
use datafusion::sql::parser::{CopyToSource, CreateExternalTable, Statement};
use datafusion::sql::sqlparser::ast::{
    ColumnDef, Ident, ObjectName, ObjectNamePart, Query, Select, Statement as Ast, TableAlias, TableFactor,
    TableFunctionArgs, TableWithJoins, VisitMut, VisitorMut,
};
use futures::TryStreamExt;
use futures::stream::{self, StreamExt};
use thermocline_catalog::{CsvReading, ExternalTable, FilePath, FileReader, FileReading, TableDefinition};
use thermocline_dialect::{check_depth, in_our_dialect};
use thermocline_pushdown::{user_err, user_error};
use thermocline_syntax::{Tokens, folded, parse_type};

use super::blame::of_statement;
use super::engine::AnalyticEngine;
use super::execution::{Found, is_stale};
use super::options::StatementOptions;
use super::planning::on_a_thread;
use super::reader_call::{Reader, ReaderCall, text_of};
use crate::query::FilesKey;
use crate::scan::ExternalScan;

/// Paths of a statement that are looked up side by side.
const LOOKUPS_AT_ONCE: usize = 8;

/// Tables of the files that a statement names, by the names of their readings, with their objects as they were found.
///
/// ```text
/// FROM 'a.parquet'        --absolute, with a name--> FROM '/data/a.parquet' AS a                     what a view keeps
/// FROM read_csv('a.txt')                             FROM read_csv('/data/a.txt') AS read_csv
///                                                           |
///                             of_files, or as remembered    v
///                                                    ExternalTable --> planned as one that was created
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

    fn table(&self, name: &ObjectName, args: Option<&TableFunctionArgs>) -> Option<(&str, &Arc<ExternalTable>)> {
        let (name, (table, _)) = match args {
            None => self.0.get_key_value(&literal(name)?.value)?,
            Some(args) => self.0.get_key_value(&text_of(Reader::of(name)?, args))?,
        };
        Some((name, table))
    }

    /// The plan of `DESCRIBE 'a.parquet'`; `None` for any other statement.
    ///
    /// # Errors
    /// Those of DataFusion.
    pub(super) fn described(&self, statement: &Statement) -> Result<Option<LogicalPlan>> {
        let Statement::Statement(ast) = statement else { return Ok(None) };
        let Ast::ExplainTable { table_name, .. } = ast.as_ref() else { return Ok(None) };
        let Some((_, table)) = self.table(table_name, None) else { return Ok(None) };
        let output_schema = Arc::new(LogicalPlan::describe_schema().try_into()?);
        Ok(Some(LogicalPlan::DescribeTable(DescribeTable { schema: Arc::clone(table.schema()), output_schema })))
    }
}

impl RelationPlanner for FilesOfStatement {
    fn plan_relation(&self, relation: TableFactor, _: &mut dyn RelationPlannerContext) -> Result<RelationPlanning> {
        if let TableFactor::Table { name, alias, args, .. } = &relation
            && let Some((path, table)) = self.table(name, args.as_ref())
        {
            let source = provider_as_source(Arc::new(ExternalScan(Arc::clone(table))));
            let plan = LogicalPlanBuilder::scan(TableReference::bare(path), source, None)?.build()?;
            return Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(plan, alias.clone()))));
        }
        Ok(RelationPlanning::Original(Box::new(relation)))
    }
}

impl AnalyticEngine {
    /// Finds the files that a statement names in the place of tables, or reads with a function; in the statement their
    /// paths become absolute. The name of a table, a view or a query of WITH in single quotes means that.
    ///
    /// # Errors
    /// If a function is called with arguments that mean nothing, and those of [`ExternalTable::of_files`].
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
        if paths.is_empty() && !named.has_calls {
            return Ok(FilesOfStatement::default());
        }
        let mut replace = Replace { paths: &paths, calls: BTreeMap::new(), is_view: false, error: None };
        visit(statement, &mut replace);
        let Replace { calls, error, .. } = replace;
        if let Some(error) = error {
            return Err(error);
        }
        let settings = options.settings();
        // Two ways to write one path, or one call, are one table.
        let mut readings: BTreeMap<String, FileReading> =
            paths.into_values().map(|path| (path.text().to_owned(), FileReading::named(path))).collect();
        for (name, call) in calls {
            readings.insert(name.clone(), self.reading_of(name, call, options).await?);
        }
        let found = readings.into_iter().map(|(name, reading)| {
            let key = FilesKey { reading, request_timeout: settings.request_timeout };
            let allowed = settings.allowed_locations.clone();
            async move {
                let found = match self.resources.table_of_files(key.clone(), &allowed).await {
                    Err(error) if is_stale(&error) => {
                        tracing::info!("looking again for {name}: {error}");
                        self.resources.table_of_files(key, &allowed).await.map_err(changed_again)
                    }
                    found => found,
                };
                Ok::<_, DataFusionError>((name, found?))
            }
        });
        let found: Vec<_> = stream::iter(found).buffered(LOOKUPS_AT_ONCE).try_collect().await?;
        Ok(FilesOfStatement(found.into_iter().collect()))
    }

    /// What a call reads, with its columns in the types that a definition of a table gives them.
    async fn reading_of(&self, name: String, call: ReaderCall, options: &StatementOptions) -> Result<FileReading> {
        let columns = match &call.columns {
            Some(columns) => {
                let planned = self.declared(call.reader, columns, options).await;
                Some(planned.map_err(|error| error.context(format!("the columns of {}", call.reader)))?)
            }
            None => None,
        };
        let reader = match call.reader {
            Reader::Parquet => FileReader::Parquet,
            Reader::Csv => FileReader::Csv(CsvReading { columns, ..call.csv }),
        };
        Ok(FileReading { name, paths: call.paths, reader })
    }

    /// Columns as `CREATE EXTERNAL TABLE` declares them.
    async fn declared(
        &self,
        reader: Reader,
        columns: &[(String, String)],
        options: &StatementOptions,
    ) -> Result<SchemaRef> {
        let column = |(name, written): &(String, String)| {
            let data_type = Tokens::of(written).map_err(DataFusionError::from).and_then(|tokens| {
                check_depth(&tokens)?;
                Ok(parse_type(tokens)?)
            });
            let data_type = data_type.map_err(|error| {
                user_error!(InvalidParameter, "{reader}: the type of column '{name}' is '{written}': {error}")
            })?;
            Ok(ColumnDef { name: Ident::with_quote('"', name), data_type, options: vec![] })
        };
        let statement = Statement::CreateExternalTable(CreateExternalTable {
            name: ObjectName::from(vec![Ident::new(reader.to_string())]),
            columns: columns.iter().map(column).collect::<Result<_>>()?,
            file_type: "CSV".into(),
            locations: vec!["/".into()],
            table_partition_cols: vec![],
            order_exprs: vec![],
            if_not_exists: false,
            or_replace: false,
            temporary: false,
            unbounded: false,
            options: vec![],
            constraints: vec![],
        });
        let state = self.state(&options.config);
        let planning = async move { state.statement_to_plan(in_our_dialect(statement)?).await.map_err(of_statement) };
        let LogicalPlan::Ddl(DdlStatement::CreateExternalTable(planned)) = on_a_thread(planning).await? else {
            return internal_err!("the definition of a table is planned as something else");
        };
        match TableDefinition::try_from_statement(&planned)?.columns {
            Some(columns) => Ok(columns),
            None => user_err!(InvalidParameter, "{reader}: there are no columns"),
        }
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
    /// Whether there are calls of functions that read files.
    has_calls: bool,
}

impl VisitorMut for Named {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let queries = query.with.iter().flat_map(|with| &with.cte_tables);
        self.queries.extend(queries.map(|query| folded(&query.alias.name)));
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        match factor {
            TableFactor::Table { name, args: None, .. } => {
                self.literals.extend(literal(name).map(|name| name.value.clone()));
            }
            TableFactor::Table { name, args: Some(_), .. } => self.has_calls |= Reader::of(name).is_some(),
            _ => {}
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

/// Makes paths absolute and calls uniform, and gives their relations names of their own.
struct Replace<'a> {
    paths: &'a BTreeMap<String, FilePath>,
    /// The calls of functions that read files, by their texts.
    calls: BTreeMap<String, ReaderCall>,
    /// Whether the statement creates a view.
    is_view: bool,
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

    /// Puts a call into the form of all that mean the same.
    fn uniform(&mut self, reader: Reader, name: &mut ObjectName, args: &mut TableFunctionArgs) -> Result<()> {
        let call = ReaderCall::parse(reader, args)?;
        if self.is_view
            && let Some(text) = call.texts().find(|text| is_misread(text))
        {
            return user_err!(Unsupported, "a view of {reader} with such quotes: {text}");
        }
        *name = ObjectName::from(vec![Ident::new(reader.to_string())]);
        *args = call.arguments();
        self.calls.insert(text_of(reader, args), call);
        Ok(())
    }
}

/// Whether a text is read from a view as another one: texts of views are printed, and the printer takes these quotes
/// for escaped ones.
fn is_misread(text: &str) -> bool {
    text.contains("''") || text.contains(r"\'")
}

impl VisitorMut for Replace<'_> {
    type Break = ();

    fn pre_visit_statement(&mut self, statement: &mut Ast) -> ControlFlow<()> {
        match statement {
            Ast::ExplainTable { table_name, .. } => self.absolute(table_name),
            Ast::CreateView(_) => {
                self.is_view = true;
                if let Some(path) = self.paths.values().find(|path| is_misread(path.text())) {
                    let why = "a view of files whose path has such quotes";
                    self.error = Some(user_error!(Unsupported, "{why}: {}", path.text()));
                    return ControlFlow::Break(());
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        let mut names = vec![];
        each_factor(&mut select.from, &mut |factor| names.extend(name_of(factor, self.paths)));
        each_factor(&mut select.from, &mut |factor| {
            let TableFactor::Table { name, alias: alias @ None, args, .. } = factor else { return };
            let short = match args {
                None => self.path(name).and_then(FilePath::short_name),
                // As of any function.
                Some(_) => Reader::of(name).and(name.0.last()).and_then(ObjectNamePart::as_ident).map(folded),
            };
            let Some(short) = short else { return };
            // Two of one name are told apart by their paths, or by names that the statement gives.
            if names.iter().filter(|name| **name == short).count() == 1 {
                let (name, columns) = (Ident::with_quote('"', short), vec![]);
                *alias = Some(TableAlias { explicit: true, name, columns, at: None });
            }
        });
        ControlFlow::Continue(())
    }

    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        match factor {
            TableFactor::Table { name, args: None, .. } => self.absolute(name),
            TableFactor::Table { name, args: Some(args), .. } => {
                if let Some(reader) = Reader::of(name)
                    && let Err(error) = self.uniform(reader, name, args)
                {
                    self.error = Some(error);
                    return ControlFlow::Break(());
                }
            }
            _ => {}
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
