//! Runs a case: writes its objects, takes its steps, compares every result with DuckDB's.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;
use thermocline_compute::QueryResult;
use thermocline_database::{Database, OpenOptions, Session};
use thermocline_pushdown::Route;

use super::arrays::cell;
use super::case::{Cache, Case, Run, Step, Topology};
use super::query::{Out, Query, dialect};
use super::schema::Table;
use super::support::oracle::{Oracle, Row};
use super::support::topology::NodeProcess;

/// Time after which a query counts as hung.
const TIME_MAX: Duration = Duration::from_secs(60);

/// Failure of a case.
#[derive(Debug, Clone)]
pub struct Failure {
    /// Number of the step.
    pub step: usize,
    pub run: usize,
    pub what: What,
}

#[derive(Debug, Clone)]
pub enum What {
    /// Other rows than expected, with the difference.
    Rows(String),
    /// An error where rows were expected.
    Error(String),
    /// No answer within [`TIME_MAX`].
    Stall,
}

impl What {
    /// Failures of one class have the same text; shrinking preserves the class.
    pub fn class(&self) -> String {
        match self {
            What::Rows(_) => "rows".into(),
            What::Stall => "stall".into(),
            What::Error(message) => {
                let words = message.split(|c: char| !c.is_ascii_alphabetic()).filter(|word| word.len() > 3);
                words.take(8).collect::<Vec<_>>().join(" ")
            }
        }
    }
}

/// Features exercised by the cases.
#[derive(Debug, Default)]
pub struct Seen {
    pub queries: u64,
    pub executions: u64,
    /// Queries refused by DuckDB, which were compared only between runs.
    pub refused: u64,
    pub empty: u64,
    pub bloom_filters: u64,
    pub bitmap_bytes_to_storage: u64,
    pub bitmap_bytes_from_storage: u64,
    pub routes: BTreeMap<&'static str, u64>,
    pub pushed_back: u64,
}

/// State on which a case's steps work.
struct World<'a> {
    case: &'a Case,
    directory: TempDir,
    tables: Vec<Table>,
    embedded: Session,
    nodes: Option<(Session, [NodeProcess; 2])>,
}

/// Runs a case to its first failure.
pub async fn run(case: &Case, duckdb: &mut Oracle, seen: &mut Seen) -> Result<(), Failure> {
    let mut world = World::new(case).await;
    for (number, step) in case.steps.iter().enumerate() {
        let failed = |run: usize, what: What| Failure { step: number, run, what };
        world.take(step, duckdb).await.map_err(|what| failed(0, what))?;
        if let Step::Query(query, runs) = step {
            seen.queries += 1;
            let mut expected = duckdb.try_query(&query.duckdb());
            seen.refused += u64::from(expected.is_err());
            seen.empty += u64::from(expected.as_ref().is_ok_and(Vec::is_empty));
            if std::env::var_os("THERMOCLINE_VERBOSE").is_some()
                && let Err(error) = &expected
            {
                println!("DuckDB: {error}\n{}", query.duckdb());
            }
            let mut refused = false;
            for (position, run) in runs.iter().enumerate() {
                seen.executions += 1;
                let result = world.query(query, run, seen).await;
                if let Ok(expected) = &expected {
                    let rows = result.map_err(|what| failed(position, what))?;
                    compare(query, rows, expected).map_err(|how| failed(position, What::Rows(how)))?;
                    continue;
                }
                // Only the other runs remain for comparison.
                match result {
                    Ok(rows) if !refused => expected = Ok(rows),
                    Ok(_) => {
                        let what = "rows where another run ended in an error".to_owned();
                        return Err(failed(position, What::Rows(what)));
                    }
                    Err(What::Error(_)) => refused = true,
                    Err(what) => return Err(failed(position, what)),
                }
            }
        }
    }
    world.embedded.close().await.unwrap();
    Ok(())
}

impl<'a> World<'a> {
    async fn new(case: &'a Case) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let two_nodes = case.steps.iter().any(
            |step| matches!(step, Step::Query(_, runs) if runs.iter().any(|run| run.topology == Topology::TwoNodes)),
        );
        let roots = ["embedded", "0", "1"].map(|name| directory.path().join(name));
        for table in &case.tables {
            for root in &roots {
                std::fs::create_dir_all(root.join(&table.name)).unwrap();
            }
        }
        let nodes = if two_nodes {
            let arguments: Vec<&str> = case.node_arguments.iter().map(String::as_str).collect();
            let start = |root: &Path| NodeProcess::start(root.to_str().unwrap(), "127.0.0.1:0", &arguments, &[]);
            Some((open(None).await, [start(&roots[1]), start(&roots[2])]))
        } else {
            None
        };
        let database = case.directory.then(|| directory.path().join("database"));
        let embedded = open(database).await;
        let world = Self { case, directory, tables: case.tables.clone(), embedded, nodes };
        for table in &world.tables {
            for object in &table.objects {
                world.write(table, &object.name);
            }
        }
        world
    }

    /// Writes or removes an object's file wherever it belongs.
    fn write(&self, table: &Table, name: &str) {
        let folder = |root: &str| self.directory.path().join(root).join(&table.name);
        let object = table.objects.iter().find(|object| object.name == name);
        let file = object.map(|object| (object, table.file(object)));
        for root in ["embedded", "0", "1"] {
            let new = file.as_ref().filter(|(object, _)| root == "embedded" || root == ["0", "1"][object.node]);
            let new = new.map(|(_, (file, bytes))| (folder(root).join(file), bytes));
            // The object that it replaces may have another extension.
            for old in std::fs::read_dir(folder(root)).unwrap() {
                let old = old.unwrap().path();
                let is_same =
                    old.file_name().is_some_and(|file| file.to_string_lossy().split('.').next() == Some(name));
                if is_same && new.as_ref().is_none_or(|(path, _)| *path != old) {
                    std::fs::remove_file(old).unwrap();
                }
            }
            if let Some((path, bytes)) = new {
                std::fs::write(path, bytes).unwrap();
            }
        }
    }

    fn session(&self, topology: Topology) -> &Session {
        match (topology, &self.nodes) {
            (Topology::TwoNodes, Some((session, _))) => session,
            _ => &self.embedded,
        }
    }

    /// Takes a step other than a query.
    async fn take(&mut self, step: &Step, duckdb: &mut Oracle) -> Result<(), What> {
        step.apply(&mut self.tables);
        match step {
            Step::Define(number, _) => {
                self.load(*number, duckdb);
                self.define(*number).await
            }
            Step::Put(number, object) => {
                self.write(&self.tables[*number], &object.name);
                self.load(*number, duckdb);
                Ok(())
            }
            Step::Remove(number, name) => {
                self.write(&self.tables[*number], name);
                self.load(*number, duckdb);
                Ok(())
            }
            Step::Reopen if self.case.directory => {
                self.embedded.close().await.map_err(|error| What::Error(error.to_string()))?;
                // The directory is free once the session is dropped.
                self.embedded = open(None).await;
                self.embedded = open(Some(self.directory.path().join("database"))).await;
                Ok(())
            }
            Step::Index(number, column) => {
                let name = &self.tables[*number].name;
                for session in self.sessions() {
                    // It may have been redrawn, or have a type that indexes do not support.
                    let _ = statement(session, &format!("CREATE INDEX {name}_{column} ON {name} ({column})")).await;
                }
                Ok(())
            }
            Step::Reopen | Step::Query(..) => Ok(()),
        }
    }

    fn sessions(&self) -> impl Iterator<Item = &Session> {
        std::iter::once(&self.embedded).chain(self.nodes.iter().map(|(session, _)| session))
    }

    async fn define(&self, number: usize) -> Result<(), What> {
        let table = &self.tables[number];
        let embedded = self.directory.path().join("embedded").join(&table.name).display().to_string();
        let nodes = self.nodes.as_ref().map(|(session, nodes)| {
            (session, format!("thermocline://{},{}/{}", nodes[0].address, nodes[1].address, table.name))
        });
        for (session, location) in std::iter::once((&self.embedded, embedded)).chain(nodes) {
            statement(session, &format!("DROP TABLE IF EXISTS {}", table.name)).await?;
            statement(session, &dialect(&table.create_sql(&location), false)).await?;
        }
        Ok(())
    }

    /// Loads the current table into the oracle.
    fn load(&self, number: usize, duckdb: &mut Oracle) {
        let table = &self.tables[number];
        let file = self.directory.path().join(format!("{}.parquet", table.name));
        std::fs::write(&file, table.reference()).unwrap();
        let (name, file) = (&table.name, file.display());
        duckdb.query(&format!("CREATE OR REPLACE TABLE {name} AS SELECT * FROM read_parquet('{file}')"));
    }

    async fn query(&self, query: &Query, run: &Run, seen: &mut Seen) -> Result<Vec<Row>, What> {
        let session = self.session(run.topology);
        let error = |error: &dyn std::fmt::Display| What::Error(error.to_string());
        match &run.cache {
            Cache::Keep => {}
            Cache::Clear => session.engine().cache().clear(),
            Cache::Only(number, columns) => {
                let (table, read) = (&self.tables[*number], columns.iter().map(|column| format!("count({column})")));
                session.database().set("cache_size", "1GiB").map_err(|why| error(&why))?;
                session.engine().cache().clear();
                session.set("mode", "caching").map_err(|why| error(&why))?;
                let sql = format!("SELECT {} FROM {}", read.collect::<Vec<_>>().join(", "), table.name);
                statement(session, &sql).await?;
            }
        }
        for (name, value) in &run.settings {
            let value = match (name.as_str(), &run.cache) {
                ("thermocline.cache_size", Cache::Only(..)) => session.engine().cache().bytes().0.to_string(),
                // Missing columns are not requested.
                _ => value.clone(),
            };
            let set = if SHARED.contains(&name.as_str()) { "ALTER DATABASE SET" } else { "SET" };
            statement(session, &format!("{set} {name} = '{value}'")).await?;
        }
        let result = statement(session, &query.ours()).await?;
        let limit = session.values().engine.cache_size;
        if session.engine().cache().bytes().0 > limit {
            return Err(error(&"the cache passed its limit"));
        }
        if !session.settings().bitmaps && result.stats.partitions(Route::Bitmap) > 0 {
            return Err(error(&"a bitmap where bitmaps are off"));
        }
        seen.bloom_filters += result.stats.bloom_filters;
        seen.bitmap_bytes_to_storage += result.stats.bitmap_bytes_to_storage;
        seen.bitmap_bytes_from_storage += result.stats.bitmap_bytes_from_storage;
        seen.pushed_back += result.stats.partitions_pushed_back;
        for (name, route) in [
            ("local", Route::Local),
            ("load", Route::Load),
            ("pushdown", Route::Pushdown),
            ("bitmap", Route::Bitmap),
            ("pullup", Route::Pullup),
        ] {
            *seen.routes.entry(name).or_default() += result.stats.partitions(route);
        }
        rows(&result, query)
    }
}

/// Settings that sessions share.
const SHARED: [&str; 3] = ["thermocline.cache_policy", "thermocline.cache_size", "thermocline.partition_size"];

async fn open(directory: Option<PathBuf>) -> Session {
    let options = OpenOptions { directory, ..OpenOptions::default() };
    Database::open(options, |_| {}).await.expect("the database opens").session()
}

/// Runs a statement; a panic is an error.
async fn statement(session: &Session, sql: &str) -> Result<QueryResult, What> {
    let (session, text) = (session.clone(), sql.to_owned());
    let running = tokio::spawn(async move { session.run(&text).await });
    match tokio::time::timeout(TIME_MAX, running).await {
        Err(_) => Err(What::Stall),
        Ok(Err(panic)) => Err(What::Error(format!("panicked: {panic}"))),
        Ok(Ok(Err(error))) => Err(What::Error(format!("{error}\n{sql}"))),
        Ok(Ok(Ok(result))) => Ok(result),
    }
}

fn rows(result: &QueryResult, query: &Query) -> Result<Vec<Row>, What> {
    let mut rows = vec![];
    for batch in &result.batches {
        if batch.num_columns() != query.items.len() {
            return Err(What::Rows(format!("{} columns", batch.num_columns())));
        }
        for row in 0..batch.num_rows() {
            let cells = batch.columns().iter().zip(&query.items);
            rows.push(cells.map(|(column, item)| cell(column, row, item.out.nanos())).collect());
        }
    }
    Ok(rows)
}

/// Compares rows, in any order unless the query sorts.
fn compare(query: &Query, mut actual: Vec<Row>, expected: &[Row]) -> Result<(), String> {
    let mut expected = expected.to_vec();
    if query.order.is_empty() {
        let sort = |rows: &mut Vec<Row>| rows.sort_by_cached_key(|row| sort_key(query, row));
        sort(&mut actual);
        sort(&mut expected);
    }
    let same_row = |a: &Row, b: &Row| {
        query.items.iter().zip(a).zip(b).all(|((item, a), b)| same(&item.out, a.as_deref(), b.as_deref()))
    };
    let differing: Vec<_> = actual.iter().zip(&expected).filter(|(a, b)| !same_row(a, b)).take(3).collect();
    if actual.len() == expected.len() && differing.is_empty() {
        return Ok(());
    }
    let mut how = format!("{} rows, expected {}", actual.len(), expected.len());
    for (actual, expected) in differing {
        how += &format!("\n  {actual:?}, expected {expected:?}");
    }
    if let Some(extra) = actual.get(expected.len()) {
        how += &format!("\n  {extra:?} is not expected");
    }
    if let Some(missing) = expected.get(actual.len()) {
        how += &format!("\n  {missing:?} is missing");
    }
    how.truncate(how.char_indices().nth(2000).map_or(how.len(), |(at, _)| at));
    Err(how)
}

/// Canonical text of a value: numbers without trailing zeros, one zero, one NaN.
fn normal(value: &str, float: bool) -> String {
    if float && let Ok(number) = value.parse::<f64>() {
        return if number == 0.0 { "0.0".into() } else { format!("{number:?}") };
    }
    let digits = value.strip_prefix('-').unwrap_or(value);
    match digits.contains('.') && digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
        true => value.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => value.to_owned(),
    }
}

fn is_float(out: &Out) -> bool {
    matches!(out.kind, Some(super::values::Kind::Float { .. }))
}

/// Sort key of a row: columns that are compared exactly.
fn sort_key(query: &Query, row: &Row) -> Vec<Option<String>> {
    let cells = query.items.iter().zip(row).filter(|(item, _)| item.out.tolerance.is_none());
    cells.map(|(item, cell)| cell.as_ref().map(|cell| normal(cell, is_float(&item.out)))).collect()
}

fn same(out: &Out, a: Option<&str>, b: Option<&str>) -> bool {
    match (a, b, out.tolerance) {
        (None, None, _) => true,
        (Some(a), Some(b), Some(tolerance)) => match (a.parse::<f64>(), b.parse::<f64>()) {
            (Ok(a), Ok(b)) => a == b || a.is_nan() && b.is_nan() || (a - b).abs() <= tolerance + 1e-9 * a.abs(),
            _ => a == b,
        },
        (Some(a), Some(b), None) => a == b || normal(a, is_float(out)) == normal(b, is_float(out)),
        _ => false,
    }
}
