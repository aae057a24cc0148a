//! Rows of the tables of schema `system`.

use std::sync::Arc;
use std::time::Duration;

use datafusion::catalog::TableProvider;
use datafusion::common::Result;
use futures::{StreamExt, stream};
use thermocline_cache::SegmentInfo;
use thermocline_catalog::{ExternalTable, Partition, PlannedObject, UnreadObject};
use thermocline_pushdown::Route;
use thermocline_pushdown::wire::NodeStatus;
use thermocline_storage::NodeClient;

use super::columns::Columns;
use super::table::SystemTable;
use crate::index::IndexRow;
use crate::model::{Calibration, CalibrationState, FittedMode, NodeIdentity};
use crate::query::{QueryRecord, QueryStats, Resources};

/// Makes a table.
type Make = fn(&Arc<Resources>) -> Arc<dyn TableProvider>;

/// The tables, by name.
pub(super) const TABLES: &[(&str, Make)] = &[
    ("segments", segments),
    ("partitions", partitions),
    ("unread_objects", unread_objects),
    ("queries", queries),
    ("storage_nodes", storage_nodes),
    ("indexes", indexes),
    ("calibration", calibration),
];

/// A table of rows that this process knows.
fn known<T: Send + Sync + 'static>(
    resources: &Arc<Resources>,
    columns: Columns<T>,
    rows: impl Fn(&Resources) -> Vec<T> + Send + Sync + 'static,
) -> Arc<dyn TableProvider> {
    let resources = Arc::clone(resources);
    Arc::new(SystemTable::new(columns, move |_| std::future::ready(Ok(rows(&resources)))))
}

fn segments(resources: &Arc<Resources>) -> Arc<dyn TableProvider> {
    let columns = Columns::default()
        .text("table_name", |(segment, _): &(SegmentInfo, String)| &segment.key.object.table)
        .text("object", |(segment, _)| segment.key.object.object.as_str())
        .text("version", |(segment, _)| segment.key.object.version.as_str())
        .text("partition", |(_, partition)| partition)
        .text("kind", |(segment, _)| segment.key.kind.name())
        .optional_text("column_name", |(segment, _)| segment.key.kind.column_name())
        .text("representation", |(segment, _)| segment.key.kind.representation().name())
        .optional_text("fragment", |(segment, _)| segment.key.kind.fragment())
        .number("bytes", |(segment, _)| segment.bytes as u64)
        .number("rows", |(segment, _)| segment.rows as u64)
        .number("accesses", |(segment, _)| segment.uses.accesses)
        .float("benefit", |(segment, _)| segment.benefit)
        .float("miss_seconds", |(segment, _)| segment.uses.miss_seconds)
        .optional_float("measured_miss_seconds", |(segment, _)| segment.uses.measured_seconds)
        .boolean("pinned", |(segment, _)| segment.pinned);
    known(resources, columns, |resources| {
        let with_partition = |segment: SegmentInfo| {
            let partition = segment.key.partition.to_string();
            (segment, partition)
        };
        resources.cache.segments().into_iter().map(with_partition).collect()
    })
}

fn partitions(resources: &Arc<Resources>) -> Arc<dyn TableProvider> {
    struct Row {
        table: String,
        object: Arc<PlannedObject>,
        partition: Arc<Partition>,
        range: String,
        stored_bytes: u64,
    }
    let columns = Columns::default()
        .text("table_name", |row: &Row| &row.table)
        .text("node", |row| row.object.node.label())
        .text("object", |row| row.object.entry.path.as_str())
        .text("version", |row| row.object.entry.version.as_str())
        .text("partition", |row| &row.range)
        .number("rows", |row| row.partition.rows)
        .number("stored_bytes", |row| row.stored_bytes);
    known(resources, columns, |resources| {
        let mut rows = vec![];
        for table in resources.tables() {
            let columns: Vec<usize> = (0..table.schema().fields().len()).collect();
            rows.extend(table.latest().partitions().map(|(object, partition)| Row {
                table: table.definition.name.clone(),
                object: Arc::clone(object),
                partition: Arc::clone(partition),
                range: partition.range.to_string(),
                stored_bytes: partition.stored_bytes(&columns),
            }));
        }
        rows
    })
}

fn unread_objects(resources: &Arc<Resources>) -> Arc<dyn TableProvider> {
    let columns = Columns::default()
        .text("table_name", |(table, _): &(String, UnreadObject)| table)
        .text("node", |(_, entry)| &entry.node)
        .text("object", |(_, entry)| &entry.path)
        .number("bytes", |(_, entry)| entry.bytes)
        .text("reason", |(_, entry)| &entry.reason);
    known(resources, columns, |resources| {
        let of = |table: Arc<ExternalTable>| {
            let name = table.definition.name.clone();
            table.unread().entries.into_iter().map(move |entry| (name.clone(), entry))
        };
        resources.tables().into_iter().flat_map(of).collect()
    })
}

fn queries(resources: &Arc<Resources>) -> Arc<dyn TableProvider> {
    let route = |route| move |row: &QueryRecord| row.stats.partitions(route);
    let seconds = |micros: fn(&QueryStats) -> u64| move |row: &QueryRecord| micros(&row.stats) as f64 / 1e6;
    let columns = Columns::default()
        .text("query_id", |row: &QueryRecord| row.id.as_str())
        .text("sql", |row| &row.sql)
        .text("mode", |row| row.mode)
        .float("seconds", |row| row.seconds)
        .number("rows", |row| row.rows)
        .number("bytes_from_storage", |row| row.stats.bytes_from_storage)
        .number("bytes_to_storage", |row| row.stats.bytes_to_storage)
        .number("partitions_local", route(Route::Local))
        .number("partitions_answered", route(Route::Answered))
        .number("partitions_load", route(Route::Load))
        .number("partitions_pushdown", route(Route::Pushdown))
        .number("partitions_bitmap", route(Route::Bitmap))
        .number("partitions_pullup", route(Route::Pullup))
        .number("partitions_pushed_back", |row| row.stats.partitions_pushed_back)
        .number("partitions_indexed", |row| row.stats.partitions_indexed)
        .number("segments_hit", |row| row.stats.segments_hit)
        .number("segments_missed", |row| row.stats.segments_missed)
        .number("segments_admitted", |row| row.stats.segments_admitted)
        .number("segments_evicted", |row| row.stats.segments_evicted)
        .float("computing_seconds", seconds(|stats| stats.computing_us))
        .float("decoding_seconds", seconds(|stats| stats.decoding_us))
        .float("network_seconds", seconds(|stats| stats.network_us))
        .float("storage_seconds", seconds(|stats| stats.storage_us))
        .float("waiting_seconds", seconds(|stats| stats.waiting_us))
        .float("expected_seconds", seconds(|stats| stats.expected_us))
        .float("taken_seconds", seconds(|stats| stats.taken_us))
        .float("dollars", |row| row.dollars)
        .optional_text("error", |row| row.error.as_deref());
    known(resources, columns, Resources::queries)
}

/// The longest wait for a node's status, and the nodes that are asked at once.
const STATUS_WAIT: Duration = Duration::from_secs(2);
const STATUSES_AT_ONCE: usize = 64;

/// A storage and what it says of itself.
struct NodeRow {
    node: NodeClient,
    /// Names of the operators that it runs.
    operators: String,
    status: Result<Option<NodeStatus>, String>,
}

/// Every node; one that cannot be reached is a row as well.
async fn statuses(resources: &Resources) -> Vec<NodeRow> {
    stream::iter(resources.nodes.all())
        .map(|node| async move {
            let status = match tokio::time::timeout(STATUS_WAIT, node.status()).await {
                Ok(status) => status.map_err(|error| error.to_string()),
                Err(_) => Err(format!("storage node {}: no answer within {STATUS_WAIT:?}", node.label())),
            };
            let operators: Vec<_> = node.capabilities().operators.iter().map(ToString::to_string).collect();
            NodeRow { node, operators: operators.join(", "), status }
        })
        .buffered(STATUSES_AT_ONCE)
        .collect()
        .await
}

fn storage_nodes(resources: &Arc<Resources>) -> Arc<dyn TableProvider> {
    let said = |of: fn(&NodeStatus) -> u64| move |row: &NodeRow| row.status.as_ref().ok()?.as_ref().map(of);
    let columns = Columns::default()
        .text("node", |row: &NodeRow| row.node.label())
        .boolean("crosses_link", |row| row.node.capabilities().crosses_link)
        .text("operators", |row| &row.operators)
        .number("requests", |row| row.node.counters().requests)
        .number("failures", |row| row.node.counters().failures)
        .number("data_bytes", |row| row.node.counters().data_bytes)
        .number("planning_bytes", |row| row.node.counters().planning_bytes)
        .optional_number("queue_length", said(|status| status.queue_length))
        .optional_number("queue_max", said(|status| status.queue_max))
        .optional_number("pushdown_slots_used", said(|status| status.pushdown_slots_used))
        .optional_number("pushdown_slots", said(|status| status.pushdown_slots))
        .optional_number("pushback_slots_used", said(|status| status.pushback_slots_used))
        .optional_number("pushback_slots", said(|status| status.pushback_slots))
        .optional_number("admitted", said(|status| status.admitted))
        .optional_number("pushed_back", said(|status| status.pushed_back))
        .optional_number("answers", said(|status| status.answers))
        .optional_number("abandoned", said(|status| status.abandoned))
        .optional_number("bytes_read", said(|status| status.bytes_read))
        .optional_number("memory_used", said(|status| status.memory_used))
        .optional_number("memory_limit", said(|status| status.memory_limit))
        .optional_text("error", |row| row.status.as_ref().err().map(String::as_str));
    let resources = Arc::clone(resources);
    Arc::new(SystemTable::new(columns, move |_| {
        let resources = Arc::clone(&resources);
        async move { Ok(statuses(&resources).await) }
    }))
}

fn indexes(resources: &Arc<Resources>) -> Arc<dyn TableProvider> {
    let columns = Columns::default()
        .text("index_name", |row: &IndexRow| &row.definition.name)
        .text("table_name", |row| &row.definition.table)
        .text("column_name", |row| &row.definition.column)
        .optional_number("objects", |row| row.objects)
        .optional_number("objects_indexed", |row| row.objects_indexed)
        .optional_number("objects_stale", |row| row.objects_stale)
        .optional_number("rows", |row| row.rows)
        .optional_number("bytes", |row| row.bytes)
        .optional_text("error", |row| row.error.as_deref());
    let resources = Arc::clone(resources);
    Arc::new(SystemTable::new(columns, move |_| {
        let resources = Arc::clone(&resources);
        async move {
            let partition_size = resources.settings().partition_size;
            Ok(resources.indexes.rows(&resources.tables(), partition_size).await)
        }
    }))
}

/// A mode of a calibration.
struct CalibratedMode {
    calibration: Calibration,
    mode: FittedMode,
    state: &'static str,
    /// How the storage or this side has changed.
    changes: Option<String>,
}

fn calibration(resources: &Arc<Resources>) -> Arc<dyn TableProvider> {
    let identity = |of: fn(&NodeIdentity) -> u64| move |row: &CalibratedMode| row.calibration.identity.as_ref().map(of);
    let rate = |s_per_byte: f64| (s_per_byte > 0.0).then(|| 1.0 / s_per_byte);
    let columns = Columns::default()
        .text("node", |row: &CalibratedMode| &row.calibration.node)
        .text("format", |row| &row.calibration.format)
        .text("mode", |row| &row.mode.mode)
        .text("state", |row| row.state)
        .optional_text("changes", |row| row.changes.as_deref())
        .text("table_name", |row| &row.calibration.table)
        .number("taken_at", |row| row.calibration.taken_at)
        .optional_text("version", |row| row.calibration.identity.as_ref().map(|node| node.version.as_str()))
        .optional_text("machine", |row| row.calibration.identity.as_ref().map(|node| node.machine.as_str()))
        .optional_number("cores", identity(|node| node.cores))
        .optional_number("pushdown_slots", identity(|node| node.pushdown_slots))
        .optional_number("egress_bytes_per_s", identity(|node| node.egress_bytes_per_s))
        .optional_float("bytes_per_s", |row| row.calibration.rates.bytes_per_s)
        .optional_float("round_trip_s", |row| row.calibration.rates.round_trip_s)
        .float("slots", |row| row.calibration.rates.slots)
        .float("slowness", |row| row.calibration.rates.slowness)
        .float("decode_bytes_per_s", |row| 1.0 / row.calibration.rates.decode_s_per_byte)
        .float("overhead_s", |row| row.mode.overhead_s)
        .optional_float("network_bytes_per_s", move |row| rate(row.mode.link_s_per_byte))
        .optional_float("storage_bytes_per_s", move |row| rate(row.mode.storage_s_per_byte))
        .optional_float("compute_bytes_per_s", move |row| rate(row.mode.here_s_per_byte))
        .float("serial_share", |row| row.mode.serial_share)
        .float("r2", |row| row.mode.r2)
        .float("error_mean", |row| row.mode.errors.mean)
        .float("error_median", |row| row.mode.errors.median)
        .float("error_p80", |row| row.mode.errors.p80)
        .float("error_p90", |row| row.mode.errors.p90);
    known(resources, columns, |resources| {
        let with_mode = |(calibration, state): (Calibration, CalibrationState)| {
            let (state, changes) = match state {
                CalibrationState::Unchecked => ("unchecked", None),
                CalibrationState::Used => ("used", None),
                CalibrationState::Refused(changes) => ("refused", Some(changes)),
            };
            let modes = calibration.modes.clone().into_iter();
            modes.map(move |mode| CalibratedMode {
                calibration: calibration.clone(),
                mode,
                state,
                changes: changes.clone(),
            })
        };
        resources.calibrations().all().into_iter().flat_map(with_mode).collect()
    })
}
