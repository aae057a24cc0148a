//! The scan as an operator of a plan.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, OnceLock};

use arrow::datatypes::SchemaRef;
use datafusion::common::config::ConfigOptions;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result, Statistics};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::utils::{collect_columns, reassign_expr_columns};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr, conjunction_opt};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, SchedulingType};
use datafusion::physical_plan::filter::FilterExecBuilder;
use datafusion::physical_plan::filter_pushdown::{
    ChildPushdownResult, FilterPushdownPhase, FilterPushdownPropagation, PushedDown,
};
use datafusion::physical_plan::limit::LocalLimitExec;
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties,
    ReplaceChildrenOptions,
};
use datafusion::prelude::SessionConfig;
use futures::{FutureExt, StreamExt, TryStreamExt};
use thermocline_catalog::{ExternalTable, Partition, PartitionSet, PlannedObject, Snapshot};
use thermocline_pushdown::wire::encode_schema;
use thermocline_pushdown::{FileFormat, Fragment, Limits, Mode, node_functions};
use thermocline_storage::{Capabilities, NodeClient};
use tokio::sync::OnceCell;

use super::dynamic_filter::{
    Bloom, DynamicFilter, PASSING_SET_MAX, WAIT_MAX, all_ready, current_predicate, lists, without_lists,
};
use super::morsels::MORSEL_ROWS;
use super::router;
use super::run::{ScanRun, output};
use crate::join::FilterMaker;
use crate::learning::{Expected, Shape};
use crate::query::{QueryContext, ScanMetrics};
use crate::settings::QuerySettings;

/// All partitions of a table, each by the route that the router picks for it, with the fragment
/// applied on whichever side the partition is processed.
///
/// ```text
///                      +-- pushdown --> storage node runs the fragment --------+
///                      +-- bitmap ----> both sides, each with some columns ----+
///  partitions - route -+-- local, load --> cached columns --+                  +--> merge --> rows
///                      +-- pullup ------> stored bytes -----+-> fragment here -+
/// ```
///
/// The merge is the stream itself: partial results of partitions come in any order, and what
/// stands above (a final aggregate, a top-K) does not depend on it.
#[derive(Debug, Clone)]
pub struct HybridScanExec {
    source: Arc<Source>,
    fragment: Fragment,
    /// Fragment that runs here instead, with other filters of joins: both yield every row that the joins
    /// keep. `None` for the fragment itself.
    here: Option<Fragment>,
    /// The fragment for the wire; `None` if it cannot travel.
    encoded: Option<Arc<Vec<u8>>>,
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
    properties: Arc<PlanProperties>,
    statistics: Arc<Statistics>,
    metrics: ScanMetrics,
    /// Filters that operators above (joins, a top-K) make while the query runs.
    dynamic: Vec<DynamicFilter>,
    /// Made by the first output partition that is polled, shared by all.
    run: Arc<OnceCell<Arc<ScanRun>>>,
}

/// The part of a scan that does not change as operators are absorbed.
#[derive(Debug, Clone)]
struct Source {
    table: Arc<str>,
    table_schema: SchemaRef,
    encoded_schema: Arc<Vec<u8>>,
    format: FileFormat,
    /// The table's storages, of which all must be able to run what is pushed.
    storages: Arc<[NodeClient]>,
    /// Positions of the needed columns in the table, and their names.
    columns: Vec<usize>,
    column_names: Vec<Arc<str>>,
    partitions: Vec<(Arc<PlannedObject>, Arc<Partition>)>,
    /// The same partitions, for what is known of all of them.
    set: PartitionSet,
    partitions_pruned: usize,
    outputs: usize,
    query: Arc<QueryContext>,
}

impl Source {
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

impl HybridScanExec {
    /// A scan of `output` (positions in the table) of the rows that pass `predicate` (over the
    /// whole table's columns).
    ///
    /// # Errors
    /// If the predicate does not fit the table.
    pub fn new(
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
        let partitions: Vec<_> = snapshot
            .partitions()
            .zip(kept)
            .filter(|(_, kept)| *kept)
            .map(|((object, partition), _)| (Arc::clone(object), Arc::clone(partition)))
            .collect();

        // Partitions of an object follow each other.
        let mut checked: Option<&Arc<PlannedObject>> = None;
        for (object, _) in &partitions {
            if !checked.is_some_and(|checked| Arc::ptr_eq(checked, object)) {
                object.check_columns(&columns)?;
                checked = Some(object);
            }
        }

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
                    let column: Arc<dyn PhysicalExpr> =
                        Arc::new(datafusion::physical_expr::expressions::Column::new(&name, position));
                    (column, name)
                })
                .collect::<Vec<_>>();
            let projection =
                datafusion::physical_plan::projection::ProjectionExec::try_new(kept, Arc::clone(fragment.root()))?;
            let projection: Arc<dyn ExecutionPlan> = Arc::new(projection);
            fragment = fragment.with_operator(&projection)?;
        }
        let rows: u64 = partitions.iter().map(|(_, partition)| partition.rows).sum();
        // What is cached is shared out by morsels, so that a single partition occupies all cores.
        let units = partitions.len().max(rows.div_ceil(MORSEL_ROWS as u64) as usize);
        let outputs = config.target_partitions().min(units).max(1);
        let column_names =
            columns.iter().map(|column| Arc::from(table_schema.field(*column).name().as_str())).collect();
        let source = Source {
            table: table.definition.name.as_str().into(),
            encoded_schema: Arc::new(encode_schema(&table_schema)?),
            table_schema,
            format: table.definition.format.clone(),
            storages: table.storages().cloned().collect(),
            columns,
            column_names,
            partitions_pruned: total - partitions.len(),
            partitions,
            set,
            outputs,
            query,
        };
        Self::build(Arc::new(source), fragment, None, false)
    }

    fn build(source: Arc<Source>, fragment: Fragment, fetch: Option<usize>, closed: bool) -> Result<Self> {
        let shape = Shape::of(&source.table, &fragment);
        let (encoded, not_pushed) = match source.travelling(&fragment) {
            Ok(bytes) => (Some(bytes), None),
            Err(why) => (None, Some(why.into())),
        };
        let properties = PlanProperties::new(
            EquivalenceProperties::new(fragment.schema()),
            Partitioning::UnknownPartitioning(source.outputs),
            EmissionType::Incremental,
            Boundedness::Bounded,
        )
        .with_scheduling_type(SchedulingType::Cooperative);
        let statistics = fragment.statistics()?;
        let metrics = ScanMetrics::new();
        metrics.partitions_pruned.add(source.partitions_pruned);
        Ok(Self {
            source,
            fragment,
            here: None,
            encoded: encoded.map(Arc::new),
            not_pushed,
            shape,
            expected: OnceLock::new(),
            fetch,
            closed,
            properties: Arc::new(properties),
            statistics,
            metrics,
            dynamic: vec![],
            run: Arc::default(),
        })
    }

    /// The scan as it is now that joins have made their filters: fewer partitions, fewer rows.
    fn narrowed(&self) -> Result<Self> {
        let predicate = current_predicate(&self.dynamic)?;
        let mut partitions = self.source.partitions.clone();
        let mut set = self.source.set.clone();
        if let Some(predicate) = &predicate {
            let (pruned, kept) = set.prune(predicate);
            set = pruned;
            let mut kept = kept.into_iter();
            partitions.retain(|_| kept.next().unwrap_or(true));
        }
        let blooms = self.useful_blooms(&partitions, &set)?;
        let input = self.fragment.input_schema();
        let keys_here = self.keys_here(&set, &input)?;
        if predicate.is_none() && blooms.is_empty() && keys_here.is_none() {
            return Ok(self.clone());
        }
        self.metrics.partitions_pruned.add(self.source.partitions.len() - partitions.len());
        self.metrics.bloom_filters.add(blooms.len());
        let mut here =
            self.fragment.with_statistics(input_statistics(&input, &self.source.columns, &partitions, &set))?;
        let (plain, mut there) = (here.clone(), here.clone());
        // The keys are tested first; what is left of a list prunes row groups and pages.
        let mut keyed = keys_here.map(|keys| here.with_filter_below(keys)).transpose()?;
        if let Some(predicate) = predicate {
            let reassigned = reassign_expr_columns(Arc::clone(&predicate), &input)?;
            there = here.with_filter_below(Arc::clone(&reassigned))?;
            if self.expects_less(&here, &predicate, &set)? {
                here = there.clone();
                keyed = keyed.map(|keyed| keyed.with_filter_below(reassigned)).transpose()?;
            }
        }
        // Values of one execution are not part of what is remembered of the fragment.
        let mut shape = self.shape;
        for bloom in &blooms {
            shape = shape.in_case_of(bloom.single_column());
            there = there.with_filter_below(bloom.predicate(&input)?)?;
        }
        let source = Arc::new(Source { partitions, set, ..self.source.as_ref().clone() });
        let fragment = if blooms.is_empty() { here.clone() } else { there };
        let mut narrowed = Self::build(Arc::clone(&source), fragment, self.fetch, self.closed)?;
        let mut here = keyed.or_else(|| (!blooms.is_empty()).then_some(here));
        if narrowed.encoded.is_none() && self.encoded.is_some() {
            // The fragment travels without the joins' filters, which are applied here alone.
            here = here.or_else(|| Some(narrowed.fragment.clone()));
            narrowed = Self::build(source, plain, self.fetch, self.closed)?;
            shape = self.shape;
        }
        let not_pushed = narrowed.not_pushed.clone().or_else(|| self.not_pushed.clone());
        Ok(Self { here, shape, not_pushed, metrics: self.metrics.clone(), ..narrowed })
    }

    /// Whether at most half of the rows that `fragment` yields are expected to pass `predicate` too.
    /// A filter that keeps most rows costs a copy of them here and saves little on the wire; the
    /// join drops the rest anyway.
    fn expects_less(&self, fragment: &Fragment, predicate: &Arc<dyn PhysicalExpr>, set: &PartitionSet) -> Result<bool> {
        let listed = |(column, values)| share_of(column, values, set).is_some_and(|share| share <= 0.5);
        if lists(predicate).into_iter().any(listed) {
            return Ok(true);
        }
        let Some(ranges) = without_lists(predicate) else {
            return Ok(false);
        };
        let filtered = fragment.with_filter_below(reassign_expr_columns(ranges, &fragment.input_schema())?)?;
        let rows = |fragment: &Fragment| Ok::<_, DataFusionError>(fragment.statistics()?.num_rows.get_value().copied());
        Ok(match (rows(&filtered)?, rows(fragment)?) {
            (Some(filtered), Some(all)) => filtered <= all / 2,
            _ => false,
        })
    }

    /// The Bloom filters that are expected to pay, the most selective first.
    ///
    /// One goes to every node once, so it has to save four times its bytes of what the filters before it
    /// leave of a node's answers; it is sent as small as pays best. One that holds more than half of the
    /// values between the probe column's bounds drops too little.
    fn useful_blooms(
        &self,
        partitions: &[(Arc<PlannedObject>, Arc<Partition>)],
        set: &PartitionSet,
    ) -> Result<Vec<Bloom>> {
        if !self.sends_bloom_filters() {
            return Ok(vec![]);
        }
        let mut blooms = vec![];
        for filter in &self.dynamic {
            let Some(bloom) = filter.bloom()? else { continue };
            let share = bloom.single_column().and_then(|column| share_of(column, bloom.key_count(), set));
            let share = share.unwrap_or(0.25);
            if share <= 0.5 {
                blooms.push((share, bloom));
            }
        }
        blooms.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        let stored: u64 = partitions.iter().map(|(_, partition)| partition.stored_bytes(&self.source.columns)).sum();
        let rows: u64 = partitions.iter().map(|(_, partition)| partition.rows).sum();
        let nodes: HashSet<&str> = partitions.iter().map(|(object, _)| object.node.label()).collect();
        let of_each = |bytes: f64| bytes / nodes.len().max(1) as f64;
        // Without filters, a node's answers are what they were seen to be, and never more than is stored.
        let observed = self.query().resources().experience.observed(self.shape, self.expected(), None).answer_bytes;
        let mut answers = of_each(observed.map_or(stored as f64, |bytes| (bytes * rows as f64).min(stored as f64)));
        let mut request_bytes_left = Limits::default().encoded_bytes_max / 2;
        let mut useful = vec![];
        for (share, bloom) in blooms {
            let bloom = bloom.fitted(answers, share);
            let saved = answers * (1.0 - share);
            let pays = bloom.bytes() as f64 * 4.0 <= saved;
            if let (true, Some(left)) = (pays, request_bytes_left.checked_sub(bloom.bytes())) {
                request_bytes_left = left;
                answers -= saved;
                useful.push(bloom);
            }
        }
        Ok(useful)
    }

    /// Filters from keys of joins over rows that are here, the most selective first; `None` for nothing that is
    /// expected to pay. A set of keys is tested in less time than a join takes to look one up. Where there
    /// is none, a Bloom filter saves work between the scan and its join, if there is any.
    fn keys_here(&self, set: &PartitionSet, input: &SchemaRef) -> Result<Option<Arc<dyn PhysicalExpr>>> {
        let mut terms: Vec<(f64, Arc<dyn PhysicalExpr>)> = vec![];
        for filter in &self.dynamic {
            if let Some(keys) = filter.key_set() {
                let share = keys.column().and_then(|column| share_of(column, keys.count(), set)).unwrap_or(0.5);
                if share <= PASSING_SET_MAX {
                    terms.push((share, keys.predicate(input)?));
                    self.metrics.key_sets.add(1);
                }
            } else if filter.saves_work()
                && let Some(bloom) = filter.bloom()?
            {
                let share = bloom.single_column().and_then(|column| share_of(column, bloom.key_count(), set));
                let share = share.unwrap_or(0.25);
                if share <= 0.25 {
                    terms.push((share, bloom.predicate_here(input)?));
                    self.metrics.bloom_filters.add(1);
                }
            }
        }
        terms.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        Ok(conjunction_opt(terms.into_iter().map(|(_, term)| term)))
    }

    /// The scan, waiting for the filters that `makers` (by the filters' ids) make.
    pub(crate) fn awaiting(&self, makers: &HashMap<u64, FilterMaker>) -> Self {
        let dynamic = self.dynamic.iter().map(|filter| filter.awaited_if(makers)).collect();
        Self { dynamic, run: Arc::default(), ..self.clone() }
    }

    /// Ids of the filters that somebody above makes while the query runs.
    pub(crate) fn dynamic_filters(&self) -> Vec<u64> {
        self.dynamic.iter().filter_map(|filter| filter.expression().expression_id()).collect()
    }

    /// The settings of the query.
    pub(crate) fn settings(&self) -> &QuerySettings {
        self.query().settings()
    }

    /// The scan with `operator` as part of its fragment. With `copied`, the operator also stays
    /// above, so that nothing more may be absorbed.
    ///
    /// # Errors
    /// If the operator does not fit the fragment's columns.
    pub fn with_operator(&self, operator: &Arc<dyn ExecutionPlan>, copied: bool) -> Result<Self> {
        let fragment = self.fragment.with_operator(operator)?;
        let fetch = if copied { self.fetch } else { operator.fetch().or(self.fetch) };
        let scan = Self::build(Arc::clone(&self.source), fragment, fetch, copied)?;
        Ok(Self { dynamic: self.dynamic.clone(), ..scan })
    }

    /// The same scan, with the reason why the operator above is not part of its fragment.
    pub(crate) fn below_refused(&self, reason: &str) -> Self {
        Self { not_pushed: Some(reason.into()), run: Arc::default(), ..self.clone() }
    }

    /// Why the fragment cannot travel; `None` if it can.
    pub(crate) fn why_not_pushed(&self) -> Option<&Arc<str>> {
        self.not_pushed.as_ref().filter(|_| self.encoded.is_none())
    }

    /// Whether an operator above may still become part of the fragment.
    pub fn is_open(&self) -> bool {
        !self.closed && self.fetch.is_none()
    }

    /// The piece of the plan that runs on either side.
    pub fn fragment(&self) -> &Fragment {
        &self.fragment
    }

    /// The fragment as it runs over rows that are here.
    pub(super) fn fragment_here(&self) -> &Fragment {
        self.here.as_ref().unwrap_or(&self.fragment)
    }

    pub(super) fn encoded(&self) -> Option<&Arc<Vec<u8>>> {
        self.encoded.as_ref()
    }

    /// Key by which executions of the fragment are remembered.
    pub(super) fn shape(&self) -> Shape {
        self.shape
    }

    /// Expectations from statistics, over all partitions.
    pub(super) fn expected(&self) -> Expected {
        *self.expected.get_or_init(|| {
            let rows: u64 = self.partitions().iter().map(|(_, partition)| partition.rows).sum();
            let filtered = self.fragment.filter_alone().and_then(|filter| filter.statistics());
            let filtered = filtered.ok().and_then(|statistics| statistics.num_rows.get_value().copied());
            let selectivity = match filtered {
                Some(selected) if rows > 0 => (selected as f64 / rows as f64).clamp(0.0, 1.0),
                _ => 1.0,
            };
            Expected { selectivity, answers_rows: !self.fragment.condenses() }
        })
    }

    /// Whether nothing is saved by sending less: no link lies in between, and the mode leaves the
    /// choice to us. An answer is then a copy more than the rows themselves.
    pub(super) fn link_is_free(&self) -> bool {
        self.settings().mode == Mode::Hybrid
            && !self.source.partitions.iter().any(|(object, _)| object.node.capabilities().crosses_link)
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

    /// Whether Bloom filters of joins' keys may travel with the fragment, and save bytes on the way back.
    pub(crate) fn sends_bloom_filters(&self) -> bool {
        self.encoded.is_some()
            && self.settings().mode.pushes()
            && !self.link_is_free()
            && self.source.all(|capabilities| capabilities.bloom_filters)
    }

    /// `fragment` for the wire; `None` if it may not run at one of the table's storages.
    pub(super) fn travelling(&self, fragment: &Fragment) -> Option<Vec<u8>> {
        self.source.travelling(fragment).ok()
    }

    pub(super) fn query(&self) -> &Arc<QueryContext> {
        &self.source.query
    }

    pub(super) fn table_name(&self) -> &Arc<str> {
        &self.source.table
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

    pub(super) fn outputs(&self) -> usize {
        self.source.outputs
    }

    pub(super) fn scan_metrics(&self) -> &ScanMetrics {
        &self.metrics
    }
}

/// Share of the values between a table column's bounds that `values` of them make up; `None` if the
/// bounds are not known or cannot be counted.
fn share_of(column: usize, values: u64, set: &PartitionSet) -> Option<f64> {
    let range = set.range_of(column)?;
    if range.max.data_type().is_floating() {
        return None;
    }
    let width = range.max.distance_u64(&range.min)?.saturating_add(1);
    Some(values as f64 / width as f64)
}

/// Rows and ranges of the needed columns, over all partitions that are left.
fn input_statistics(
    schema: &SchemaRef,
    columns: &[usize],
    partitions: &[(Arc<PlannedObject>, Arc<Partition>)],
    set: &PartitionSet,
) -> Statistics {
    let rows: u64 = partitions.iter().map(|(_, partition)| partition.rows).sum();
    let mut statistics = Statistics::new_unknown(schema);
    statistics.num_rows = Precision::Exact(rows as usize);
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

impl DisplayAs for HybridScanExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let routes: Vec<_> =
            router::preview(self).into_iter().map(|(route, count)| format!("{route}={count}")).collect();
        let total = self.source.partitions.len() + self.source.partitions_pruned;
        let separator = if matches!(format, DisplayFormatType::TreeRender) { "\n" } else { ", " };
        write!(f, "HybridScanExec: table={}{separator}fragment=[{}]", self.source.table, self.fragment)?;
        write!(f, "{separator}partitions={} of {total}", self.source.partitions.len())?;
        write!(f, "{separator}mode={}{separator}routes=[{}]", self.query().settings().mode, routes.join(" "))?;
        if let Some(fetch) = self.fetch {
            write!(f, "{separator}fetch={fetch}")?;
        }
        if let Some(reason) = &self.not_pushed {
            write!(f, "{separator}not pushed=[{reason}]")?;
        }
        if !self.dynamic.is_empty() {
            let filters: Vec<_> = self.dynamic.iter().map(|filter| filter.expression().to_string()).collect();
            write!(f, "{separator}filters of joins=[{}]", filters.join(", "))?;
        }
        Ok(())
    }
}

impl ExecutionPlan for HybridScanExec {
    fn name(&self) -> &str {
        "HybridScanExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![]
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        for operator in self.fragment.chain() {
            if operator.apply_expressions(f)? == TreeNodeRecursion::Stop {
                return Ok(TreeNodeRecursion::Stop);
            }
        }
        for filter in &self.dynamic {
            if f(filter.expression())? == TreeNodeRecursion::Stop {
                return Ok(TreeNodeRecursion::Stop);
            }
        }
        Ok(TreeNodeRecursion::Continue)
    }

    fn handle_child_pushdown_result(
        &self,
        phase: FilterPushdownPhase,
        result: ChildPushdownResult,
        _: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn ExecutionPlan>>> {
        // Whoever offers a filter keeps applying it: here it only saves work.
        let answers = result.parent_filters.iter().map(|_| PushedDown::No).collect();
        let propagation = FilterPushdownPropagation::with_parent_pushdown_result(answers);
        if phase != FilterPushdownPhase::Post || !self.is_open() {
            return Ok(propagation);
        }
        let mut dynamic = self.dynamic.clone();
        for offered in &result.parent_filters {
            dynamic.extend(DynamicFilter::new(&offered.filter, &self.source.table_schema)?);
        }
        if dynamic.len() == self.dynamic.len() {
            return Ok(propagation);
        }
        let scan: Arc<dyn ExecutionPlan> = Arc::new(Self { dynamic, run: Arc::default(), ..self.clone() });
        Ok(propagation.with_updated_node(scan))
    }

    fn replace_children(
        self: Arc<Self>,
        _: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(Self { run: Arc::default(), ..self.as_ref().clone() }))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        tracing::trace!(partition, table = %self.source.table, fragment = %self.fragment, "scan starts");
        let scan = self.clone();
        let schema = self.schema();
        let rows = async move {
            let run = scan
                .run
                .get_or_try_init(|| async {
                    if !all_ready(&scan.dynamic, WAIT_MAX).await {
                        tracing::debug!(table = %scan.source.table, fragment = %scan.fragment, "a join's filter did not come in time");
                        scan.metrics.filters_missed.add(1);
                    }
                    Ok::<_, DataFusionError>(Arc::new(ScanRun::new(&scan.narrowed()?, &context)?))
                })
                .await?;
            output(Arc::clone(run), context)
        };
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows.into_stream().try_flatten().boxed())))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.snapshot())
    }

    fn statistics_from_inputs(&self, _: &[Arc<Statistics>], args: &StatisticsArgs) -> Result<Arc<Statistics>> {
        Ok(match args.partition() {
            None => Arc::clone(&self.statistics),
            // Output partitions take data partitions as they come.
            Some(_) => Arc::new(Statistics::new_unknown(&self.schema())),
        })
    }

    fn with_fetch(&self, limit: Option<usize>) -> Option<Arc<dyn ExecutionPlan>> {
        let limit = limit?;
        if !self.is_open() {
            return None;
        }
        let operator: Arc<dyn ExecutionPlan> = Arc::new(LocalLimitExec::new(Arc::clone(self.fragment.root()), limit));
        let fragment = self.fragment.with_operator(&operator).ok()?;
        let mut scan = Self::build(Arc::clone(&self.source), fragment, Some(limit), false).ok()?;
        if let (Some(why), Some(_)) = (scan.why_not_pushed().cloned(), &self.encoded) {
            // The output stops all the same, and what runs there goes on doing so.
            scan = Self { fetch: Some(limit), not_pushed: Some(why), run: Arc::default(), ..self.clone() };
        }
        Some(Arc::new(Self { dynamic: self.dynamic.clone(), ..scan }))
    }

    fn fetch(&self) -> Option<usize> {
        self.fetch
    }
}
