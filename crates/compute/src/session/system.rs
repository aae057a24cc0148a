//! Schemas of the catalog: users' tables, and `system`, the database about itself.

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use arrow::array::{ArrayRef, BooleanArray, Float64Array, RecordBatch, StringArray, UInt64Array};
use arrow::datatypes::{Field, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{MemTable, MemorySchemaProvider, SchemaProvider, Session, TableProvider};
use datafusion::common::{Result, exec_err};
use datafusion::execution::SessionState;
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;
use futures::{StreamExt, stream};
use parking_lot::RwLock;
use thermocline_pushdown::Route;
use thermocline_pushdown::wire::NodeStatus;
use thermocline_storage::NodeClient;

use super::engine::Engine;
use crate::index::IndexRow;
use crate::settings::Settings;

/// External tables of the engine, and this session's views.
#[derive(Debug)]
pub(super) struct PublicSchema {
    engine: Arc<Engine>,
    views: MemorySchemaProvider,
    /// Tables of another engine, if there is one.
    guests: Option<Arc<dyn SchemaProvider>>,
}

impl PublicSchema {
    pub(super) fn new(engine: Arc<Engine>, guests: Option<Arc<dyn SchemaProvider>>) -> Self {
        Self { engine, views: MemorySchemaProvider::new(), guests }
    }

    pub(super) fn has_guest(&self, name: &str) -> bool {
        self.guests.as_ref().is_some_and(|guests| guests.table_exist(name))
    }

    pub(super) fn has_view(&self, name: &str) -> bool {
        self.views.table_exist(name)
    }
}

#[async_trait]
impl SchemaProvider for PublicSchema {
    fn table_names(&self) -> Vec<String> {
        let mut names = self.views.table_names();
        names.extend(self.engine.tables().iter().map(|table| table.definition.name.clone()));
        names.extend(self.guests.iter().flat_map(|guests| guests.table_names()));
        names
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        if let Some(table) = self.engine.tables().into_iter().find(|table| table.definition.name == name) {
            return Ok(Some(table));
        }
        if let Some(guests) = &self.guests
            && let Some(table) = guests.table(name).await?
        {
            return Ok(Some(table));
        }
        self.views.table(name).await
    }

    fn register_table(&self, name: String, table: Arc<dyn TableProvider>) -> Result<Option<Arc<dyn TableProvider>>> {
        if table.table_type() == TableType::View {
            self.views.register_table(name, table)
        } else {
            exec_err!("{name}: tables are made by CREATE EXTERNAL TABLE")
        }
    }

    fn deregister_table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        self.views.deregister_table(name)
    }

    fn table_exist(&self, name: &str) -> bool {
        self.views.table_exist(name) || self.engine.table(name).is_some() || self.has_guest(name)
    }
}

/// The schema `system`.
#[derive(Debug)]
pub(super) struct SystemSchema {
    engine: Arc<Engine>,
    state: StateRef,
    /// Tables about another engine, by name.
    others: Vec<(String, Arc<dyn TableProvider>)>,
}

/// The session whose settings `system.settings` shows.
#[derive(Clone)]
struct StateRef(Weak<RwLock<SessionState>>);

impl fmt::Debug for StateRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StateRef")
    }
}

impl SystemSchema {
    pub(super) fn new(
        engine: Arc<Engine>,
        state: Weak<RwLock<SessionState>>,
        others: Vec<(String, Arc<dyn TableProvider>)>,
    ) -> Self {
        Self { engine, state: StateRef(state), others }
    }
}

#[async_trait]
impl SchemaProvider for SystemSchema {
    fn table_names(&self) -> Vec<String> {
        let others = self.others.iter().map(|(name, _)| name.clone());
        TABLES.iter().map(|(name, _)| (*name).to_owned()).chain(others).collect()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let Some((_, rows)) = TABLES.iter().find(|(known, _)| *known == name) else {
            let other = self.others.iter().find(|(known, _)| known == name);
            return Ok(other.map(|(_, table)| Arc::clone(table)));
        };
        let settings = match self.state.0.upgrade() {
            Some(state) => state.read().config_options().extensions.get::<Settings>().cloned().unwrap_or_default(),
            None => Settings::default(),
        };
        Ok(Some(Arc::new(SystemTable { rows: *rows, engine: Arc::clone(&self.engine), settings })))
    }

    fn table_exist(&self, name: &str) -> bool {
        TABLES.iter().any(|(known, _)| *known == name) || self.others.iter().any(|(known, _)| known == name)
    }
}

/// Where the rows of a system table come from.
#[derive(Clone, Copy)]
enum MakeRows {
    /// This process knows them.
    Known(fn(&Engine, &Settings) -> Result<RecordBatch>),
    /// The storage nodes are asked.
    StorageNodes,
    /// They are asked for index objects.
    Indexes,
}

const TABLES: &[(&str, MakeRows)] = &[
    ("segments", MakeRows::Known(segments)),
    ("partitions", MakeRows::Known(partitions)),
    ("queries", MakeRows::Known(queries)),
    ("storage_nodes", MakeRows::StorageNodes),
    ("indexes", MakeRows::Indexes),
    ("settings", MakeRows::Known(settings)),
];

/// A system table: rows made when a query is planned, not when the table was looked up.
struct SystemTable {
    rows: MakeRows,
    engine: Arc<Engine>,
    settings: Settings,
}

impl fmt::Debug for SystemTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SystemTable")
    }
}

#[async_trait]
impl TableProvider for SystemTable {
    fn schema(&self) -> SchemaRef {
        let rows = match self.rows {
            MakeRows::Known(make) => make(&self.engine, &self.settings),
            MakeRows::StorageNodes => storage_nodes(&[]),
            MakeRows::Indexes => indexes(&[]),
        };
        rows.map_or_else(|_| Arc::new(Schema::empty()), |rows| rows.schema())
    }

    fn table_type(&self) -> TableType {
        TableType::View
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let rows = match self.rows {
            MakeRows::Known(make) => make(&self.engine, &self.settings)?,
            MakeRows::StorageNodes => storage_nodes(&statuses(&self.engine).await)?,
            MakeRows::Indexes => indexes(&self.engine.indexes.rows(&self.engine.tables(), &self.settings).await)?,
        };
        MemTable::try_new(rows.schema(), vec![vec![rows]])?.scan(state, projection, filters, limit).await
    }
}

/// Columns by name.
fn batch(columns: Vec<(&str, ArrayRef)>) -> Result<RecordBatch> {
    let fields: Vec<Field> =
        columns.iter().map(|(name, array)| Field::new(*name, array.data_type().clone(), true)).collect();
    let arrays = columns.into_iter().map(|(_, array)| array).collect();
    Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)?)
}

fn text<T>(rows: &[T], of: impl Fn(&T) -> &str) -> ArrayRef {
    Arc::new(rows.iter().map(|row| Some(of(row))).collect::<StringArray>())
}

fn maybe_text<T>(rows: &[T], of: impl Fn(&T) -> Option<String>) -> ArrayRef {
    Arc::new(rows.iter().map(of).collect::<StringArray>())
}

fn number<T>(rows: &[T], of: impl Fn(&T) -> u64) -> ArrayRef {
    Arc::new(rows.iter().map(|row| Some(of(row))).collect::<UInt64Array>())
}

fn maybe_number<T>(rows: &[T], of: impl Fn(&T) -> Option<u64>) -> ArrayRef {
    Arc::new(rows.iter().map(of).collect::<UInt64Array>())
}

fn float<T>(rows: &[T], of: impl Fn(&T) -> f64) -> ArrayRef {
    Arc::new(rows.iter().map(|row| Some(of(row))).collect::<Float64Array>())
}

fn segments(engine: &Engine, _: &Settings) -> Result<RecordBatch> {
    let rows = engine.cache.segments();
    batch(vec![
        ("table_name", text(&rows, |row| row.key.table.as_ref())),
        ("object", text(&rows, |row| row.key.object.as_str())),
        ("version", text(&rows, |row| row.key.version.as_str())),
        ("partition", maybe_text(&rows, |row| Some(row.key.partition.to_string()))),
        ("column_name", text(&rows, |row| row.key.column.as_ref())),
        ("bytes", number(&rows, |row| row.bytes as u64)),
        ("rows", number(&rows, |row| row.rows as u64)),
        ("accesses", number(&rows, |row| row.uses.accesses)),
        ("benefit", float(&rows, |row| row.benefit)),
        ("pinned", Arc::new(rows.iter().map(|row| Some(row.pinned)).collect::<BooleanArray>())),
    ])
}

fn partitions(engine: &Engine, _: &Settings) -> Result<RecordBatch> {
    let mut rows = vec![];
    for table in engine.tables() {
        let columns: Vec<usize> = (0..table.schema().fields().len()).collect();
        for (object, partition) in table.latest().partitions() {
            rows.push((
                table.definition.name.clone(),
                object.node.label().to_owned(),
                object.entry.clone(),
                partition.range.to_string(),
                partition.rows,
                partition.stored_bytes(&columns),
            ));
        }
    }
    batch(vec![
        ("table_name", text(&rows, |row| row.0.as_str())),
        ("node", text(&rows, |row| row.1.as_str())),
        ("object", text(&rows, |row| row.2.path.as_str())),
        ("version", text(&rows, |row| row.2.version.as_str())),
        ("partition", text(&rows, |row| row.3.as_str())),
        ("rows", number(&rows, |row| row.4)),
        ("stored_bytes", number(&rows, |row| row.5)),
    ])
}

fn queries(engine: &Engine, _: &Settings) -> Result<RecordBatch> {
    let rows = engine.queries();
    let route = |route| number(&rows, move |row| row.stats.partitions(route));
    batch(vec![
        ("query_id", text(&rows, |row| row.id.as_str())),
        ("sql", text(&rows, |row| row.sql.as_str())),
        ("mode", text(&rows, |row| row.mode)),
        ("seconds", float(&rows, |row| row.seconds)),
        ("rows", number(&rows, |row| row.rows)),
        ("bytes_from_storage", number(&rows, |row| row.stats.bytes_from_storage)),
        ("bytes_to_storage", number(&rows, |row| row.stats.bytes_to_storage)),
        ("partitions_local", route(Route::Local)),
        ("partitions_load", route(Route::Load)),
        ("partitions_pushdown", route(Route::Pushdown)),
        ("partitions_bitmap", route(Route::Bitmap)),
        ("partitions_pullup", route(Route::Pullup)),
        ("partitions_pushed_back", number(&rows, |row| row.stats.partitions_pushed_back)),
        ("partitions_indexed", number(&rows, |row| row.stats.partitions_indexed)),
        ("segments_hit", number(&rows, |row| row.stats.segments_hit)),
        ("segments_missed", number(&rows, |row| row.stats.segments_missed)),
        ("segments_admitted", number(&rows, |row| row.stats.segments_admitted)),
        ("segments_evicted", number(&rows, |row| row.stats.segments_evicted)),
        ("dollars", float(&rows, |row| row.dollars)),
        ("error", maybe_text(&rows, |row| row.error.clone())),
    ])
}

/// The longest wait for a node's status, and the nodes that are asked at once.
const STATUS_WAIT: Duration = Duration::from_secs(2);
const STATUSES_AT_ONCE: usize = 64;

/// Every node and what it says of itself; a node that cannot be reached is a row as well.
async fn statuses(engine: &Engine) -> Vec<(NodeClient, Result<NodeStatus, String>)> {
    stream::iter(engine.nodes.all())
        .map(|node| async move {
            let status = match tokio::time::timeout(STATUS_WAIT, node.status()).await {
                Ok(status) => status.map_err(|error| error.to_string()),
                Err(_) => Err(format!("storage node {}: no answer within {STATUS_WAIT:?}", node.label())),
            };
            (node, status)
        })
        .buffered(STATUSES_AT_ONCE)
        .collect()
        .await
}

fn storage_nodes(rows: &[(NodeClient, Result<NodeStatus, String>)]) -> Result<RecordBatch> {
    let said = |of: fn(&NodeStatus) -> u64| -> ArrayRef {
        Arc::new(rows.iter().map(|(_, status)| status.as_ref().ok().map(of)).collect::<UInt64Array>())
    };
    batch(vec![
        ("node", text(rows, |(node, _)| node.label())),
        ("embedded", Arc::new(rows.iter().map(|(node, _)| Some(node.is_embedded())).collect::<BooleanArray>())),
        ("requests", number(rows, |(node, _)| node.counters().requests)),
        ("failures", number(rows, |(node, _)| node.counters().failures)),
        ("data_bytes", number(rows, |(node, _)| node.counters().data_bytes)),
        ("planning_bytes", number(rows, |(node, _)| node.counters().planning_bytes)),
        ("queue_length", said(|status| status.queue_length)),
        ("queue_max", said(|status| status.queue_max)),
        ("pushdown_slots_used", said(|status| status.pushdown_slots_used)),
        ("pushdown_slots", said(|status| status.pushdown_slots)),
        ("pushback_slots_used", said(|status| status.pushback_slots_used)),
        ("pushback_slots", said(|status| status.pushback_slots)),
        ("admitted", said(|status| status.admitted)),
        ("pushed_back", said(|status| status.pushed_back)),
        ("abandoned", said(|status| status.abandoned)),
        ("memory_used", said(|status| status.memory_used)),
        ("memory_limit", said(|status| status.memory_limit)),
        ("error", maybe_text(rows, |(_, status)| status.as_ref().err().cloned())),
    ])
}

fn indexes(rows: &[IndexRow]) -> Result<RecordBatch> {
    batch(vec![
        ("index_name", text(rows, |row| row.definition.name.as_str())),
        ("table_name", text(rows, |row| row.definition.table.as_str())),
        ("column_name", text(rows, |row| row.definition.column.as_str())),
        ("objects", maybe_number(rows, |row| row.objects)),
        ("objects_indexed", maybe_number(rows, |row| row.objects_indexed)),
        ("objects_stale", maybe_number(rows, |row| row.objects_stale)),
        ("rows", maybe_number(rows, |row| row.rows)),
        ("bytes", maybe_number(rows, |row| row.bytes)),
        ("error", maybe_text(rows, |row| row.error.clone())),
    ])
}

fn settings(_: &Engine, settings: &Settings) -> Result<RecordBatch> {
    let rows = settings.rows();
    batch(vec![
        ("name", text(&rows, |row| row.0.as_str())),
        ("value", text(&rows, |row| row.1.as_str())),
        ("description", text(&rows, |row| row.2)),
    ])
}
