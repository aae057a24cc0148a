//! Resources that all queries of a database share: cache, nodes, definitions, observations, finished queries.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use datafusion::common::Result;
use parking_lot::{Mutex, RwLock};
use thermocline_cache::SegmentCache;
use thermocline_catalog::{Access, AllowedLocations, ExternalTable, Nodes, Snapshot, SqlFile};
use thermocline_pushdown::{FileFormat, QueryId, user_err};
use thermocline_replay::trace::{Header, RecordedPartition};
use thermocline_storage::{NodeClient, RemoteOptions};

use super::admission::Admission;
use super::cpu_load::CpuLoad;
use super::file_tables::{FileTables, FilesKey};
use super::memory_watch::{HeapGauges, MemoryWatch};
use super::query_context::QueryStats;
use super::trace_recorder::TraceRecorder;
use crate::index::{IndexDefinition, Indexes};
use crate::learning::{Experience, Shape};
use crate::model::{Calibrations, Rates, RuntimeModel};
use crate::settings::EngineSettings;

/// Finished queries that `system.queries` remembers.
const QUERIES_MAX: usize = 10_000;
/// Bytes of their texts and errors, together.
const QUERIES_BYTES_MAX: usize = 16 << 20;

/// Resources that all queries of a database share.
///
/// Order of its locks: whoever holds one takes only those further right, and nobody waits for a query or
/// a storage node while holding one.
///
/// ```text
///   changing -> definitions -> locks of `indexes`: defined -> keepers -> current -> paused
///   the cache's, `nodes`', `files`', `experience`'s, `model`'s, `trace`'s, `queries`', `settings`' and `admission`'s locks: alone
/// ```
#[derive(Debug)]
pub struct Resources {
    /// Cached segments.
    pub cache: Arc<SegmentCache>,
    /// Storage nodes.
    pub nodes: Arc<Nodes>,
    /// Rows and bytes that earlier executions of fragments selected and sent.
    pub(crate) experience: Experience,
    /// Recording of lookups in the cache; `None` while nobody asked for one.
    trace: Mutex<Option<TraceRecorder>>,
    /// Rates of storages and of reading here.
    pub(crate) model: RuntimeModel,
    /// What was measured of storages before.
    calibrations: Calibrations,
    /// Held by whoever changes `definitions` or the set of `indexes`, until the catalog file says the
    /// same; readers of `definitions` do not wait for the file.
    changing: Mutex<()>,
    definitions: RwLock<Definitions>,
    /// Tables of files that statements named.
    files: Mutex<FileTables>,
    /// Indexes of the tables.
    pub(crate) indexes: Arc<Indexes>,
    catalog: Option<SqlFile>,
    queries: Mutex<History>,
    next_query: AtomicU64,
    /// Distinguishes this process's queries from others' in a storage node's log.
    process: String,
    /// Share of the cores in use, sent to storage nodes, which push less work back to a busy caller.
    pub(crate) load: CpuLoad,
    /// Watch over the memory of queries; `None` where it is not counted.
    pub(crate) memory: Option<Arc<MemoryWatch>>,
    /// Limits, as they are now.
    settings: RwLock<EngineSettings>,
    /// Turns of queries.
    pub(crate) admission: Arc<Admission>,
    /// Scans that run.
    scans: AtomicUsize,
}

/// A scan that runs, until this is dropped.
#[derive(Debug)]
pub(crate) struct RunningScan(Arc<Resources>);

impl RunningScan {
    /// The stored bytes that it may have in flight: an equal share of what all scans may that run now, and no more than
    /// `own`. Those that began before keep theirs.
    pub(crate) fn bytes_in_flight(&self, own: u64) -> u64 {
        let running = self.0.scans.load(Ordering::Relaxed).max(1) as u64;
        own.min(self.0.settings.read().total_bytes_in_flight / running)
    }
}

impl Drop for RunningScan {
    fn drop(&mut self) {
        self.0.scans.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A lookup of files. If it ends without a table, as when nobody waits for it any more, or if others were forgotten for
/// its table, there may be storages now that no table has.
struct Lookup<'a> {
    resources: &'a Resources,
    /// Whether it ends like this.
    forgets: bool,
}

impl Drop for Lookup<'_> {
    fn drop(&mut self) {
        if self.forgets {
            self.resources.forget_storages();
        }
    }
}

/// Definitions as in the catalog file, but for indexes.
#[derive(Debug, Clone, Default)]
struct Definitions {
    tables: BTreeMap<String, Arc<ExternalTable>>,
    /// Tables and views of the catalog that could not be restored, by name.
    absent: BTreeMap<String, Absent>,
    /// Views as SQL, in the order of their creation.
    views: Vec<(String, String)>,
}

impl Definitions {
    fn has_table(&self, name: &str) -> bool {
        self.tables.contains_key(name) || self.absent.get(name).is_some_and(|absent| absent.table_sql.is_some())
    }
}

/// A definition that cannot be used until the database is opened again.
#[derive(Debug, Clone)]
pub(crate) struct Absent {
    /// The definition of a table; `None` for a view, which is among the other views.
    pub(crate) table_sql: Option<String>,
    /// Why.
    pub(crate) error: String,
}

/// One finished query.
#[derive(Debug, Clone)]
pub struct QueryRecord {
    /// Its id.
    pub id: QueryId,
    /// The statement.
    pub sql: String,
    /// The mode that it ran in.
    pub mode: &'static str,
    /// Time from the start of planning to the last row.
    pub seconds: f64,
    /// Rows of the result.
    pub rows: u64,
    /// Sums over its scans.
    pub stats: QueryStats,
    /// Cost under the configured prices.
    pub dollars: f64,
    /// Why it failed; `None` if it did not.
    pub error: Option<String>,
}

/// Finished queries, oldest first.
#[derive(Debug, Default)]
struct History {
    records: VecDeque<QueryRecord>,
    /// Of the texts and errors of all of them.
    bytes: usize,
}

impl History {
    /// Adds a query, and forgets the oldest while there are too many, or their texts are too long. The newest stays.
    fn add(&mut self, record: QueryRecord) {
        let bytes = |record: &QueryRecord| record.sql.len() + record.error.as_ref().map_or(0, String::len);
        self.bytes += bytes(&record);
        self.records.push_back(record);
        while self.records.len() > QUERIES_MAX || self.bytes > QUERIES_BYTES_MAX && self.records.len() > 1 {
            let Some(oldest) = self.records.pop_front() else { return };
            self.bytes -= bytes(&oldest);
        }
    }
}

impl Resources {
    /// Those of a database whose definitions are kept in `catalog`, or nowhere, and whose tables are at `nodes`, which
    /// `calibrations` are of.
    pub fn new(
        settings: EngineSettings,
        catalog: Option<SqlFile>,
        nodes: Arc<Nodes>,
        calibrations: Calibrations,
        heap: Option<HeapGauges>,
    ) -> Arc<Self> {
        let started = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .map_or(0, |since| since.as_millis() as u64);
        let cache = SegmentCache::new(settings.cache_size, Arc::clone(settings.cache_policy.policy()));
        let memory = heap.map(|heap| {
            let (cache, nodes) = (Arc::clone(&cache), Arc::clone(&nodes));
            let elsewhere = move || {
                let (cached, loading) = cache.bytes();
                cached + loading + nodes.embedded_bytes()
            };
            MemoryWatch::new(heap, elsewhere)
        });
        Arc::new(Self {
            cache,
            nodes,
            experience: Experience::default(),
            trace: Mutex::default(),
            model: RuntimeModel::default(),
            calibrations,
            changing: Mutex::default(),
            definitions: RwLock::default(),
            files: Mutex::default(),
            indexes: Arc::default(),
            catalog,
            queries: Mutex::default(),
            next_query: AtomicU64::new(1),
            process: format!("{:x}-{started:x}", std::process::id()),
            load: CpuLoad::new(),
            memory,
            admission: Admission::new(settings.queries_in_flight),
            settings: RwLock::new(settings),
            scans: AtomicUsize::new(0),
        })
    }

    /// The limits as they are now.
    pub fn settings(&self) -> EngineSettings {
        self.settings.read().clone()
    }

    /// Changes the limits of what is here.
    pub(crate) fn apply(&self, settings: EngineSettings) {
        self.cache.set_policy(Arc::clone(settings.cache_policy.policy()));
        if self.nodes.footers().limit() != settings.footer_cache_size {
            self.nodes.footers().set_limit(settings.footer_cache_size);
        }
        if self.cache.limit() != settings.cache_size {
            self.cache.set_limit(settings.cache_size);
        }
        self.admission.set_limit(settings.queries_in_flight);
        *self.settings.write() = settings;
    }

    /// What was measured of storages before.
    pub fn calibrations(&self) -> &Calibrations {
        &self.calibrations
    }

    /// Has the model begin with what was measured of `node`, if that was not done yet.
    pub(crate) async fn calibrate(&self, node: &NodeClient) {
        self.calibrations.seed(node, &self.model).await;
    }

    /// Rates of `node`, and of reading `table`, as queries of this process have shown them.
    pub fn rates(&self, node: &NodeClient, table: &ExternalTable) -> Rates {
        let is_text = matches!(table.definition.format, FileFormat::Csv(_));
        let of_table = (Shape::table_of(&table.definition.name), is_text);
        self.model.rates(node.label(), node.capabilities().crosses_link, of_table)
    }

    /// Records all lookups in the segment cache from now on in a new file at `path`, in place of a recording under way.
    ///
    /// # Errors
    /// Those of the file.
    pub fn record_trace(&self, path: &Path, header: &Header) -> io::Result<()> {
        let recorder = TraceRecorder::create(path, header)?;
        *self.trace.lock() = Some(recorder);
        Ok(())
    }

    /// Ends the recording, if there is one.
    ///
    /// # Errors
    /// The first error of its file.
    pub fn end_trace(&self) -> io::Result<()> {
        let recorder = self.trace.lock().take();
        recorder.map_or(Ok(()), TraceRecorder::finish)
    }

    /// Whether lookups are recorded.
    pub(crate) fn is_traced(&self) -> bool {
        self.trace.lock().is_some()
    }

    /// Adds a lookup to the recording.
    pub(crate) fn trace_lookup(&self, query: &QueryId, partitions: &[RecordedPartition<String>]) {
        if let Some(recorder) = self.trace.lock().as_mut() {
            recorder.lookup(query, partitions);
        }
    }

    /// Counts a scan as one that runs.
    pub(crate) fn begin_scan(self: &Arc<Self>) -> RunningScan {
        self.scans.fetch_add(1, Ordering::Relaxed);
        RunningScan(Arc::clone(self))
    }

    pub(crate) fn next_query_id(&self) -> QueryId {
        QueryId::new(format!("{}-{}", self.process, self.next_query.fetch_add(1, Ordering::Relaxed)))
    }

    /// Remembers a finished query, forgetting the oldest if there are too many.
    pub(crate) fn finished(&self, record: QueryRecord) {
        self.queries.lock().add(record);
    }

    /// Finished queries, oldest first.
    pub fn queries(&self) -> Vec<QueryRecord> {
        self.queries.lock().records.iter().cloned().collect()
    }

    /// All external tables, by name.
    pub fn tables(&self) -> Vec<Arc<ExternalTable>> {
        self.definitions.read().tables.values().cloned().collect()
    }

    /// The external table of that name.
    pub(crate) fn table(&self, name: &str) -> Option<Arc<ExternalTable>> {
        self.definitions.read().tables.get(name).cloned()
    }

    /// The table of files that a statement names, and its objects as they are now: the one of the statement before, if
    /// they have its columns still.
    ///
    /// # Errors
    /// Those of [`ExternalTable::of_files`].
    pub(crate) async fn table_of_files(
        &self,
        key: FilesKey,
        allowed: &AllowedLocations,
    ) -> Result<(Arc<ExternalTable>, Arc<Snapshot>)> {
        let options = RemoteOptions { request_timeout: key.request_timeout, ..RemoteOptions::default() };
        let partition_size = self.settings().partition_size;
        let access = Access { nodes: &self.nodes, allowed, options: &options, partition_size };
        let mut lookup = Lookup { resources: self, forgets: true };
        let known = self.files.lock().get(&key);
        let before = known.as_ref().map(|known| known.latest());
        let (table, snapshot) = ExternalTable::of_files(&key.reading, known, access).await?;
        for gone in before.iter().flat_map(|before| before.objects_not_in(&snapshot)) {
            self.cache.remove_version(table.reader(), &gone.path, &gone.version);
        }
        let forgotten = self.files.lock().put(key, Arc::clone(&table), snapshot.own_bytes());
        lookup.forgets = !forgotten.is_empty();
        drop(forgotten);
        Ok((table, snapshot))
    }

    /// Forgets the storages that no table has, and, if there are many, the rates of those.
    fn forget_storages(&self) {
        self.nodes.forget_unused();
        self.model.forget_storages(|| self.nodes.all().iter().map(|node| node.label().to_owned()).collect());
    }

    /// Keeps a definition that could not be restored: it stays in the catalog, and its use is an error that says why.
    pub(crate) fn set_absent(&self, name: String, absent: Absent) {
        let _one_at_a_time = self.changing.lock();
        self.definitions.write().absent.insert(name, absent);
    }

    /// The definition of this name, if it could not be restored.
    pub(crate) fn absent(&self, name: &str) -> Option<Absent> {
        self.definitions.read().absent.get(name).cloned()
    }

    /// Definitions that could not be restored, each with the reason.
    pub(crate) fn absents(&self) -> Vec<(String, String)> {
        let definitions = self.definitions.read();
        definitions.absent.iter().map(|(name, absent)| (name.clone(), absent.error.clone())).collect()
    }

    /// Names and definitions of views, in the order in which they were created.
    pub(crate) fn views(&self) -> Vec<(String, String)> {
        self.definitions.read().views.clone()
    }

    /// The catalog file's statements.
    pub(crate) fn saved_catalog(&self) -> Result<String> {
        self.catalog.as_ref().map_or_else(|| Ok(String::new()), SqlFile::read)
    }

    /// Adds a table. With `keep`, the definition is written to the catalog first, so that a table
    /// that was announced survives.
    pub(crate) fn add_table(&self, table: Arc<ExternalTable>, replace: bool, keep: bool) -> Result<()> {
        let name = table.definition.name.clone();
        self.change(keep, |definitions| {
            if definitions.tables.contains_key(&name) && !replace {
                return user_err!(DuplicateTable, "table {name} already exists");
            }
            definitions.absent.remove(&name);
            definitions.tables.insert(name.clone(), table);
            Ok(())
        })?;
        // Its objects may be other ones, or the same read in another way.
        self.indexes.of_table(&name).iter().for_each(|index| self.indexes.forget(&index.name));
        self.cache.remove_table(&name);
        self.experience.forget_table(&name);
        Ok(())
    }

    /// Removes a table and the definitions of its indexes; `false` if there is none of that name.
    pub(crate) fn drop_table(&self, name: &str) -> Result<bool> {
        let _one_at_a_time = self.changing.lock();
        if !self.definitions.read().has_table(name) {
            return Ok(false);
        }
        self.change_alone(true, |definitions| {
            definitions.tables.remove(name);
            definitions.absent.remove(name);
            Ok(())
        })?;
        // The catalog has forgotten them with the table.
        self.indexes.of_table(name).iter().for_each(|index| drop(self.indexes.remove(&index.name)));
        self.cache.remove_table(name);
        self.experience.forget_table(name);
        Ok(true)
    }

    /// Adds an index; with `keep`, to the catalog too.
    pub(crate) fn add_index(&self, definition: IndexDefinition, keep: bool) -> Result<()> {
        let _one_at_a_time = self.changing.lock();
        let definitions = self.definitions.read();
        let name = definition.name.clone();
        if !definitions.has_table(&definition.table) {
            return user_err!(UndefinedTable, "index {name}: table \"{}\" does not exist", definition.table);
        }
        self.indexes.add(definition)?;
        if keep && let Err(error) = self.save(&definitions) {
            self.indexes.remove(&name);
            return Err(error);
        }
        Ok(())
    }

    /// Forgets an index; `None` if there is none of that name. Its objects stay where they are.
    pub(crate) fn drop_index(&self, name: &str) -> Result<Option<IndexDefinition>> {
        let _one_at_a_time = self.changing.lock();
        let Some(definition) = self.indexes.remove(name) else {
            return Ok(None);
        };
        if let Err(error) = self.save(&self.definitions.read()) {
            self.indexes.add(definition)?;
            return Err(error);
        }
        Ok(Some(definition))
    }

    /// Records (`Some`) or forgets (`None`) a view's definition.
    pub(crate) fn set_view(&self, name: &str, sql: Option<String>, keep: bool) -> Result<()> {
        self.change(keep, |definitions| {
            definitions.absent.remove(name);
            let known = definitions.views.iter().position(|(known, _)| known == name);
            match (known.and_then(|at| definitions.views.get_mut(at)), sql) {
                // Before the views that read it.
                (Some((_, before)), Some(sql)) => *before = sql,
                (None, Some(sql)) => definitions.views.push((name.to_owned(), sql)),
                (_, None) => definitions.views.retain(|(known, _)| known != name),
            }
            Ok(())
        })
    }

    /// Applies `change`; with `keep`, once the catalog file says the same. If either fails, nothing has changed.
    fn change<T>(&self, keep: bool, change: impl FnOnce(&mut Definitions) -> Result<T>) -> Result<T> {
        let _one_at_a_time = self.changing.lock();
        self.change_alone(keep, change)
    }

    /// The same for who holds `changing`.
    fn change_alone<T>(&self, keep: bool, change: impl FnOnce(&mut Definitions) -> Result<T>) -> Result<T> {
        if !keep {
            return change(&mut self.definitions.write());
        }
        let mut next = self.definitions.read().clone();
        let done = change(&mut next)?;
        self.save(&next)?;
        *self.definitions.write() = next;
        Ok(done)
    }

    /// Writes the catalog file. Indexes whose table is gone are left out.
    fn save(&self, definitions: &Definitions) -> Result<()> {
        let Some(catalog) = &self.catalog else {
            return Ok(());
        };
        let tables = definitions.tables.values().map(|table| table.definition.sql.clone());
        let absent = definitions.absent.values().filter_map(|absent| absent.table_sql.clone());
        let views = definitions.views.iter().map(|(_, sql)| sql.clone());
        let mut indexes = self.indexes.all();
        indexes.retain(|index| definitions.has_table(&index.table));
        let indexes = indexes.iter().map(IndexDefinition::sql);
        // Definitions are texts of several origins.
        let ended = |sql: String| format!("{};", sql.trim_end().trim_end_matches(';'));
        catalog
            .write(tables.chain(absent).chain(views).chain(indexes).map(ended))
            .map_err(|error| error.context("the definition is not kept"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finished_queries_are_remembered_up_to_a_number_and_a_size() {
        let record = |id: usize, bytes: usize| QueryRecord {
            id: QueryId::new(id.to_string()),
            sql: "x".repeat(bytes),
            mode: "auto",
            seconds: 0.0,
            rows: 0,
            stats: QueryStats::default(),
            dollars: 0.0,
            error: None,
        };
        let mut history = History::default();
        (0..=QUERIES_MAX).for_each(|id| history.add(record(id, 10)));
        assert_eq!((history.records.len(), history.bytes), (QUERIES_MAX, QUERIES_MAX * 10));
        (0..100).for_each(|id| history.add(record(id, 1 << 20)));
        assert_eq!((history.records.len(), history.bytes), (16, 16 << 20));
        history.add(record(0, 20 << 20));
        assert_eq!((history.records.len(), history.bytes), (1, 20 << 20), "the newest stays");
        history.add(record(1, 1));
        assert_eq!(history.bytes, 1);
    }
}
