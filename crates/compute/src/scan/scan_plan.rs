//! The plan of a scan, as data: objects of a table in their versions, the partitions left of them, and the fragment.

use std::sync::{Arc, OnceLock};

use arrow::datatypes::SchemaRef;
use datafusion::common::stats::Precision;
use datafusion::common::{Result, Statistics};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::{collect_columns, reassign_expr_columns};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::FilterExecBuilder;
use datafusion::physical_plan::limit::LocalLimitExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::prelude::SessionConfig;
use thermocline_catalog::{ExternalTable, Partition, PartitionSet, PlannedObject, Snapshot};
use thermocline_pushdown::wire::encode_schema;
use thermocline_pushdown::{FileFormat, Fragment, Limits, Mode, node_functions};
use thermocline_storage::{Capabilities, Content, NodeClient};

use super::answers::answer_digest;
use super::morsels::MORSEL_ROWS;
use crate::learning::{Expected, Shape};
use crate::query::QueryContext;
use crate::settings::QuerySettings;

/// Input and computation of a scan, and its query. Routes, segments and counters of an execution are not in it: the
/// operator ([`HybridScanExec`]), the router and the run are made from it.
///
/// [`HybridScanExec`]: super::HybridScanExec
#[derive(Debug, Clone)]
pub(super) struct ScanPlan {
    source: Arc<Source>,
    fragment: Fragment,
    /// Fragment that runs here instead, with other filters of joins: both yield every row that the joins
    /// keep. `None` for the fragment itself.
    here: Option<Fragment>,
    /// The fragment for the wire; `None` if it cannot travel.
    encoded: Option<Content>,
    /// Why the fragment cannot travel, or the operator above it is not part of it; `None` if there is
    /// nothing that the table's storages would not do.
    not_pushed: Option<Arc<str>>,
    /// Key by which executions of the fragment are remembered.
    shape: Shape,
    /// Expectations from statistics; made when first asked for.
    expected: OnceLock<Expected>,
    /// Rows per output partition at the most; `None` for all.
    fetch: Option<usize>,
    /// Whether an operator above has a copy in the fragment, so that no further one may follow.
    closed: bool,
    query: Arc<QueryContext>,
}

/// Partitions with their objects; those of one object follow each other.
pub(super) type Partitions = Vec<(Arc<PlannedObject>, Arc<Partition>)>;

/// Numbers of a scan beside its table, partitions and fragment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pieces {
    /// Rows per output partition at the most; `None` for all.
    pub(super) fetch: Option<usize>,
    /// Whether an operator above has a copy in the fragment, so that no further one may follow.
    pub(super) closed: bool,
    /// Output partitions.
    pub(super) outputs: usize,
    /// Partitions that the predicate has excluded.
    pub(super) partitions_pruned: usize,
}

/// The part of a scan that stays as operators are absorbed.
#[derive(Debug, Clone)]
struct Source {
    table: Arc<str>,
    /// The table's name in keys of segments.
    reader: Arc<str>,
    table_schema: SchemaRef,
    encoded_schema: Arc<Vec<u8>>,
    format: FileFormat,
    /// The table's storages, of which all must be able to run what is pushed.
    storages: Arc<[NodeClient]>,
    /// Positions of the needed columns in the table, and their names.
    columns: Vec<usize>,
    column_names: Vec<Arc<str>>,
    partitions: Partitions,
    /// The same partitions, for what is known of all of them.
    set: PartitionSet,
    partitions_pruned: usize,
    outputs: usize,
}

impl Source {
    /// # Errors
    /// If an object has a column that cannot be read.
    fn new(
        table: &ExternalTable,
        columns: Vec<usize>,
        (partitions, set): (Partitions, PartitionSet),
        partitions_pruned: usize,
        outputs: usize,
    ) -> Result<Self> {
        // Partitions of an object follow each other.
        let mut checked: Option<&Arc<PlannedObject>> = None;
        for (object, _) in &partitions {
            if !checked.is_some_and(|checked| Arc::ptr_eq(checked, object)) {
                object.check_columns(&columns)?;
                checked = Some(object);
            }
        }

        let table_schema = Arc::clone(table.schema());
        let column_names =
            columns.iter().map(|column| Arc::from(table_schema.field(*column).name().as_str())).collect();
        Ok(Self {
            table: table.definition.name.as_str().into(),
            reader: Arc::clone(table.reader()),
            encoded_schema: Arc::new(encode_schema(&table_schema)?),
            table_schema,
            format: table.definition.format.clone(),
            storages: table.storages().cloned().collect(),
            columns,
            column_names,
            partitions,
            set,
            partitions_pruned,
            outputs,
        })
    }

    /// `fragment` for the wire.
    ///
    /// # Errors
    /// Why it runs here instead: a storage lacks an operator, or would refuse it (a function that it does not run, an
    /// expression that is too deep).
    fn travelling(&self, fragment: &Fragment) -> Result<Vec<u8>, String> {
        let refusal = |storage: &NodeClient| {
            let why = storage.capabilities().refusal(fragment, &self.format)?;
            Some(format!("{} {why}", storage.label()))
        };
        if let Some(refusal) = self.storages.iter().find_map(refusal) {
            return Err(refusal);
        }
        let bytes = fragment.encode().map_err(|error| error.to_string())?;
        Fragment::decode(&bytes, node_functions(), &Limits::default()).map_err(|error| error.to_string())?;
        Ok(bytes)
    }

    /// Whether all of the table's storages have a capability.
    fn all(&self, has: impl Fn(&Capabilities) -> bool) -> bool {
        self.storages.iter().all(|storage| has(storage.capabilities()))
    }
}

impl ScanPlan {
    /// A scan of `output` (positions in the table) of the rows that pass `predicate` (over the
    /// whole table's columns).
    ///
    /// # Errors
    /// If the predicate does not fit the table, or an object has a needed column that cannot be read.
    pub(super) fn new(
        table: &ExternalTable,
        snapshot: &Snapshot,
        output: &[usize],
        predicate: Option<Arc<dyn PhysicalExpr>>,
        config: &SessionConfig,
        query: Arc<QueryContext>,
    ) -> Result<Self> {
        let table_schema = Arc::clone(table.schema());
        let mut columns: Vec<usize> = output.to_vec();
        if let Some(predicate) = &predicate {
            columns.extend(collect_columns(predicate).iter().map(|column| column.index()));
        }
        columns.sort_unstable();
        columns.dedup();

        let mut set = snapshot.partition_set().clone();
        let total = set.len();
        let mut kept = None;
        if let Some(predicate) = &predicate {
            let (pruned, some) = set.prune(predicate);
            (set, kept) = (pruned, Some(some));
        }
        let kept = kept.into_iter().flatten().chain(std::iter::repeat(true));
        let partitions: Partitions = snapshot
            .partitions()
            .zip(kept)
            .filter(|(_, kept)| *kept)
            .map(|((object, partition), _)| (Arc::clone(object), Arc::clone(partition)))
            .collect();

        let input = Arc::new(table_schema.project(&columns)?);
        let statistics = input_statistics(&input, &columns, &partitions, &set);
        let mut fragment = Fragment::scan_with_statistics(Arc::clone(&input), statistics);
        if let Some(predicate) = predicate {
            let predicate = reassign_expr_columns(predicate, &input)?;
            let kept: Vec<usize> = output.iter().filter_map(|column| columns.binary_search(column).ok()).collect();
            let filter = FilterExecBuilder::new(predicate, Arc::clone(fragment.root()))
                .apply_projection(Some(kept))?
                .with_batch_size(config.batch_size())
                .build()?;
            let filter: Arc<dyn ExecutionPlan> = Arc::new(filter);
            fragment = fragment.with_operator(&filter)?;
        } else if columns != output {
            let kept = output
                .iter()
                .filter_map(|column| columns.binary_search(column).ok())
                .map(|position| {
                    let name = input.field(position).name().clone();
                    let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new(&name, position));
                    (column, name)
                })
                .collect::<Vec<_>>();
            let projection: Arc<dyn ExecutionPlan> =
                Arc::new(ProjectionExec::try_new(kept, Arc::clone(fragment.root()))?);
            fragment = fragment.with_operator(&projection)?;
        }
        let rows: u64 = partitions.iter().map(|(_, partition)| partition.rows).sum();
        // What is cached is shared out by morsels, so that a single partition occupies all cores.
        let units = partitions.len().max(rows.div_ceil(MORSEL_ROWS as u64) as usize);
        let outputs = config.target_partitions().min(units).max(1);
        let pruned = total - partitions.len();
        let source = Source::new(table, columns, (partitions, set), pruned, outputs)?;
        Ok(Self::over(Arc::new(source), fragment, query))
    }

    /// A scan of which all is known: the needed `columns` of partitions, in the order of the table's, through
    /// `fragment`.
    ///
    /// # Errors
    /// If an object has a column that cannot be read, or the fragment does not fit.
    pub(super) fn of_pieces(
        table: &ExternalTable,
        columns: Vec<usize>,
        (partitions, set): (Partitions, PartitionSet),
        fragment: Fragment,
        pieces: Pieces,
        query: Arc<QueryContext>,
    ) -> Result<Self> {
        let Pieces { fetch, closed, outputs, partitions_pruned } = pieces;
        let statistics = input_statistics(&fragment.input_schema(), &columns, &partitions, &set);
        let fragment = fragment.with_statistics(statistics)?;
        let source = Source::new(table, columns, (partitions, set), partitions_pruned, outputs)?;
        Ok(Self { fetch, closed, ..Self::over(Arc::new(source), fragment, query) })
    }

    pub(super) fn pieces(&self) -> Pieces {
        let Source { outputs, partitions_pruned, .. } = *self.source;
        Pieces { fetch: self.fetch, closed: self.closed, outputs, partitions_pruned }
    }

    /// All rows of `source` through `fragment`.
    fn over(source: Arc<Source>, fragment: Fragment, query: Arc<QueryContext>) -> Self {
        let shape = Shape::of(&source.table, &fragment);
        let (encoded, not_pushed) = match source.travelling(&fragment) {
            Ok(bytes) => (Some(Content::fragment(Arc::new(bytes))), None),
            Err(why) => (None, Some(why.into())),
        };
        Self {
            source,
            fragment,
            here: None,
            encoded,
            not_pushed,
            shape,
            expected: OnceLock::new(),
            fetch: None,
            closed: false,
            query,
        }
    }

    /// The same rows through another fragment, of which nothing is known yet.
    fn with_fragment(&self, fragment: Fragment) -> Self {
        let scan = Self::over(Arc::clone(&self.source), fragment, Arc::clone(&self.query));
        Self { fetch: self.fetch, closed: self.closed, ..scan }
    }

    /// The scan with `operator` as part of its fragment. With `copied`, the operator also stays
    /// above, so that nothing more may be absorbed.
    ///
    /// # Errors
    /// If the operator does not fit the fragment's columns.
    pub(super) fn with_operator(&self, operator: &Arc<dyn ExecutionPlan>, copied: bool) -> Result<Self> {
        let scan = self.with_fragment(self.fragment.with_operator(operator)?);
        let fetch = if copied { self.fetch } else { operator.fetch().or(self.fetch) };
        Ok(Self { fetch, closed: copied, ..scan })
    }

    /// The scan, of which each output partition stops after `limit` rows. The fragment stops as well where it then
    /// still travels.
    ///
    /// # Errors
    /// If the fragment takes no limit.
    pub(super) fn with_limit(&self, limit: usize) -> Result<Self> {
        let operator: Arc<dyn ExecutionPlan> = Arc::new(LocalLimitExec::new(Arc::clone(self.fragment.root()), limit));
        let scan = self.with_operator(&operator, false)?;
        Ok(match (scan.why_not_pushed(), &self.encoded) {
            (Some(why), Some(_)) => Self { fetch: Some(limit), not_pushed: Some(Arc::clone(why)), ..self.clone() },
            _ => scan,
        })
    }

    /// The same scan, with the reason why the operator above is not part of its fragment.
    pub(super) fn below_refused(&self, reason: &str) -> Self {
        Self { not_pushed: Some(reason.into()), ..self.clone() }
    }

    /// The scan of `partitions` alone, which are some of its own and those of `set`, with filters of joins: `there`
    /// runs at storage under `shape`, and `here` over rows that are here, if it is another.
    pub(super) fn narrowed(&self, narrowing: Narrowing) -> Self {
        let Narrowing { partitions, set, plain, there, mut here, mut shape, selectivity } = narrowing;
        let source = Arc::new(Source { partitions, set, ..self.source.as_ref().clone() });
        let of_source = Self { source, ..self.clone() };
        let mut scan = of_source.with_fragment(there);
        if scan.encoded.is_none() && self.encoded.is_some() {
            // The fragment travels without the joins' filters, which are applied here alone.
            here = here.or_else(|| Some(scan.fragment.clone()));
            scan = of_source.with_fragment(plain);
            shape = self.shape;
        } else {
            let answers_rows = !scan.fragment.condenses();
            scan.expected = OnceLock::from(Expected { selectivity, answers_rows });
        }
        let not_pushed = scan.not_pushed.clone().or_else(|| self.not_pushed.clone());
        Self { here, shape, not_pushed, ..scan }
    }

    /// Why the fragment cannot travel; `None` if it can.
    pub(super) fn why_not_pushed(&self) -> Option<&Arc<str>> {
        self.not_pushed.as_ref().filter(|_| self.encoded.is_none())
    }

    /// Why the fragment cannot travel, or the operator above is not part of it.
    pub(super) fn not_pushed(&self) -> Option<&Arc<str>> {
        self.not_pushed.as_ref()
    }

    /// Rows per output partition at the most; `None` for all.
    pub(super) fn fetch(&self) -> Option<usize> {
        self.fetch
    }

    /// Whether an operator above may still become part of the fragment.
    pub(super) fn is_open(&self) -> bool {
        !self.closed && self.fetch.is_none()
    }

    /// The piece of the plan that runs on either side.
    pub(super) fn fragment(&self) -> &Fragment {
        &self.fragment
    }

    /// The fragment as it runs over rows that are here.
    pub(super) fn fragment_here(&self) -> &Fragment {
        self.here.as_ref().unwrap_or(&self.fragment)
    }

    pub(super) fn encoded(&self) -> Option<&Content> {
        self.encoded.as_ref()
    }

    /// Key by which executions of the fragment are remembered.
    pub(super) fn shape(&self) -> Shape {
        self.shape
    }

    /// Expectations from statistics, over all partitions.
    pub(super) fn expected(&self) -> Expected {
        *self.expected.get_or_init(|| {
            let selectivity = selectivity(&self.fragment, rows_of(self.partitions()));
            Expected { selectivity, answers_rows: !self.fragment.condenses() }
        })
    }

    /// Whether nothing is saved by sending less: no link lies in between, and the mode leaves the
    /// choice to us. An answer is then a copy more than the rows themselves.
    pub(super) fn link_is_free(&self) -> bool {
        matches!(self.settings().mode, Mode::Auto | Mode::Hybrid)
            && !self.source.partitions.iter().any(|(object, _)| object.node.capabilities().crosses_link)
    }

    /// Whether the runtime model chooses the routes.
    pub(super) fn is_routed_by_model(&self) -> bool {
        self.settings().mode == Mode::Auto && !self.link_is_free()
    }

    /// Whether the fragment may run at the storage of `object`.
    pub(super) fn may_push(&self, object: &PlannedObject) -> bool {
        self.settings().mode.pushes() && self.encoded.is_some() && self.reads(object)
    }

    /// Whether fragments run over `object` where it is, whatever they are.
    pub(super) fn reads(&self, object: &PlannedObject) -> bool {
        object.node.capabilities().reads(&self.source.format, &object.entry.path)
    }

    /// Whether both sides may evaluate parts of the filter.
    pub(super) fn uses_bitmaps(&self) -> bool {
        let settings = self.settings();
        settings.bitmaps
            && settings.mode.pushes()
            && settings.mode.caches()
            && self.source.all(|capabilities| capabilities.bitmaps)
    }

    /// Whether indexes may find rows where the objects are.
    pub(super) fn uses_indexes(&self) -> bool {
        self.settings().indexes && self.source.all(|capabilities| capabilities.indexes)
    }

    /// The digest under which the cache keeps answers to the fragment; `None` if it keeps none.
    pub(super) fn answer_digest(&self) -> Option<Arc<str>> {
        let keeps = self.settings().cached_answers && self.is_routed_by_model();
        self.encoded.as_ref().filter(|_| keeps).and_then(|encoded| answer_digest(&self.fragment, encoded))
    }

    /// Whether Bloom filters of joins' keys may travel with the fragment, and save bytes on the way back.
    pub(super) fn sends_bloom_filters(&self) -> bool {
        self.encoded.is_some()
            && self.settings().mode.pushes()
            && !self.link_is_free()
            && self.source.all(|capabilities| capabilities.bloom_filters)
    }

    /// `fragment` for the wire; `None` if it may not run at one of the table's storages.
    pub(super) fn travelling(&self, fragment: &Fragment) -> Option<Vec<u8>> {
        self.source.travelling(fragment).ok()
    }

    pub(super) fn settings(&self) -> &QuerySettings {
        self.query.settings()
    }

    pub(super) fn query(&self) -> &Arc<QueryContext> {
        &self.query
    }

    pub(super) fn table_name(&self) -> &Arc<str> {
        &self.source.table
    }

    /// The table's name in keys of segments.
    pub(super) fn reader(&self) -> &Arc<str> {
        &self.source.reader
    }

    pub(super) fn table_schema(&self) -> &SchemaRef {
        &self.source.table_schema
    }

    pub(super) fn encoded_schema(&self) -> &Arc<Vec<u8>> {
        &self.source.encoded_schema
    }

    pub(super) fn format(&self) -> &FileFormat {
        &self.source.format
    }

    pub(super) fn columns(&self) -> &[usize] {
        &self.source.columns
    }

    pub(super) fn column_names(&self) -> &[Arc<str>] {
        &self.source.column_names
    }

    pub(super) fn partitions(&self) -> &[(Arc<PlannedObject>, Arc<Partition>)] {
        &self.source.partitions
    }

    /// The partitions, for what is known of all of them.
    pub(super) fn partition_set(&self) -> &PartitionSet {
        &self.source.set
    }

    /// Number of partitions that the predicate has excluded.
    pub(super) fn partitions_pruned(&self) -> usize {
        self.source.partitions_pruned
    }

    pub(super) fn outputs(&self) -> usize {
        self.source.outputs
    }
}

/// What the filters of joins leave of a scan.
pub(super) struct Narrowing {
    /// The partitions that are left, and the same as a set.
    pub(super) partitions: Partitions,
    pub(super) set: PartitionSet,
    /// The fragment without filters of joins, over the rows that are left.
    pub(super) plain: Fragment,
    /// The fragment with the filters that storage applies.
    pub(super) there: Fragment,
    /// The fragment with those that are applied here; `None` if they are the same.
    pub(super) here: Option<Fragment>,
    /// Key by which executions of `there` are remembered.
    pub(super) shape: Shape,
    /// Share of the rows that are left that `there` is expected to select.
    pub(super) selectivity: f64,
}

/// Number of rows of partitions.
pub(super) fn rows_of(partitions: &[(Arc<PlannedObject>, Arc<Partition>)]) -> u64 {
    partitions.iter().map(|(_, partition)| partition.rows).sum()
}

/// Share of `rows` rows that the filter of `fragment` selects, as far as statistics tell.
pub(super) fn selectivity(fragment: &Fragment, rows: u64) -> f64 {
    let filtered = fragment.filter_alone().and_then(|filter| filter.statistics());
    let filtered = filtered.ok().and_then(|statistics| statistics.num_rows.get_value().copied());
    match filtered {
        Some(selected) if rows > 0 => (selected as f64 / rows as f64).clamp(0.0, 1.0),
        _ => 1.0,
    }
}

/// Rows, bytes in memory and ranges of the needed columns, over all partitions that are left.
pub(super) fn input_statistics(
    schema: &SchemaRef,
    columns: &[usize],
    partitions: &[(Arc<PlannedObject>, Arc<Partition>)],
    set: &PartitionSet,
) -> Statistics {
    let mut statistics = Statistics::new_unknown(schema);
    statistics.num_rows = Precision::Exact(rows_of(partitions) as usize);
    let bytes: usize =
        partitions.iter().flat_map(|(_, partition)| columns.iter().map(|column| partition.memory_bytes(*column))).sum();
    statistics.total_byte_size = Precision::Inexact(bytes);
    for (position, column) in columns.iter().enumerate() {
        if let (Some(range), Some(slot)) = (set.range_of(*column), statistics.column_statistics.get_mut(position)) {
            *slot = (&range).into();
        }
    }
    statistics
}
