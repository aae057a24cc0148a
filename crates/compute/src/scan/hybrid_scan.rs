//! The scan as an operator of a plan.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result, Statistics};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, SchedulingType};
use datafusion::physical_plan::filter_pushdown::{
    ChildPushdownResult, FilterPushdownPhase, FilterPushdownPropagation, PushedDown,
};
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties,
    ReplaceChildrenOptions,
};
use datafusion::prelude::SessionConfig;
use futures::{FutureExt, StreamExt, TryStreamExt};
use thermocline_catalog::{ExternalTable, Snapshot};
use thermocline_pushdown::{Fragment, Route};
use tokio::sync::OnceCell;

use super::auto::Estimates;
use super::dynamic_filter::{DynamicFilter, WAIT_MAX, all_ready};
use super::encoded::{decode, encode};
use super::narrow::narrowed;
use super::output::output;
use super::probe::begin_probes;
use super::router::{self, Preview};
use super::run::ScanRun;
use super::scan_plan::ScanPlan;
use crate::join::FilterMaker;
use crate::query::{QueryContext, ScanMetrics};
use crate::settings::QuerySettings;

/// The partitions of a table that the predicate does not exclude, each by the route that the router
/// picks for it, with the fragment applied on whichever side the partition is processed.
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
    scan: ScanPlan,
    properties: Arc<PlanProperties>,
    statistics: Arc<Statistics>,
    metrics: ScanMetrics,
    /// Filters that operators above (joins, a top-K) make while the query runs.
    dynamic: Vec<DynamicFilter>,
    /// Made by the first output partition that is polled, shared by all.
    run: Arc<OnceCell<Arc<ScanRun>>>,
    /// Routes as they were when they were first shown: EXPLAIN shows a plan once for each rule that might change it.
    preview: Arc<OnceLock<Preview>>,
}

impl HybridScanExec {
    /// A scan of `output` (positions in the table) of the rows that pass `predicate` (over the
    /// whole table's columns).
    ///
    /// # Errors
    /// If the predicate does not fit the table, or an object has a needed column that cannot be read.
    pub fn new(
        table: &ExternalTable,
        snapshot: &Snapshot,
        output: &[usize],
        predicate: Option<Arc<dyn PhysicalExpr>>,
        config: &SessionConfig,
        query: Arc<QueryContext>,
    ) -> Result<Self> {
        Self::of(ScanPlan::new(table, snapshot, output, predicate, config, query)?)
    }

    /// The scan as bytes, for another process that has the same table. Filters that operators above make while the
    /// query runs are no part of it: they only save work.
    ///
    /// # Errors
    /// If the fragment has no encoding.
    pub fn encode(&self) -> Result<Vec<u8>> {
        encode(&self.scan)
    }

    /// The scan that [`HybridScanExec::encode`] made bytes of, to be run by `query`, with the storages, the cache and
    /// the settings of its database.
    ///
    /// # Errors
    /// If the bytes are no scan, the database has no such table or one with other columns, or an object has another
    /// version now.
    pub async fn decode(bytes: &[u8], query: &Arc<QueryContext>) -> Result<Self> {
        Self::of(decode(bytes, query).await?)
    }

    fn of(scan: ScanPlan) -> Result<Self> {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(scan.fragment().schema()),
            Partitioning::UnknownPartitioning(scan.outputs()),
            EmissionType::Incremental,
            Boundedness::Bounded,
        )
        .with_scheduling_type(SchedulingType::Cooperative);
        let statistics = scan.fragment().statistics()?;
        let metrics = ScanMetrics::new();
        metrics.partitions_pruned.add(scan.partitions_pruned());
        let properties = Arc::new(properties);
        Ok(Self {
            scan,
            properties,
            statistics,
            metrics,
            dynamic: vec![],
            run: Arc::default(),
            preview: Arc::default(),
        })
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

    /// The routes that the execution has taken, for `EXPLAIN ANALYZE`.
    fn taken(&self) -> Vec<(Route, usize)> {
        let pushed_back = self.metrics.partitions_pushed_back.value();
        let count = |route| match route {
            // What a node has pushed back is pulled up, too.
            Route::Pullup => self.metrics.partitions(route).value().saturating_sub(pushed_back),
            _ => self.metrics.partitions(route).value(),
        };
        Route::ALL.into_iter().map(|route| (route, count(route))).filter(|(_, count)| *count > 0).collect()
    }

    /// The settings of the query.
    pub(crate) fn settings(&self) -> &QuerySettings {
        self.scan.query().settings()
    }

    /// The scan with `operator` as part of its fragment. With `copied`, the operator also stays
    /// above, so that nothing more may be absorbed.
    ///
    /// # Errors
    /// If the operator does not fit the fragment's columns.
    pub fn with_operator(&self, operator: &Arc<dyn ExecutionPlan>, copied: bool) -> Result<Self> {
        Ok(Self { dynamic: self.dynamic.clone(), ..Self::of(self.scan.with_operator(operator, copied)?)? })
    }

    /// The same scan, with the reason why the operator above is not part of its fragment.
    pub(crate) fn below_refused(&self, reason: &str) -> Self {
        Self { scan: self.scan.below_refused(reason), run: Arc::default(), preview: Arc::default(), ..self.clone() }
    }

    /// Why the fragment cannot travel; `None` if it can.
    pub(crate) fn why_not_pushed(&self) -> Option<&Arc<str>> {
        self.scan.why_not_pushed()
    }

    /// Whether an operator above may still become part of the fragment.
    pub fn is_open(&self) -> bool {
        self.scan.is_open()
    }

    /// Begins to look at links of which nothing is known.
    pub(super) fn begin_probes(&self) {
        begin_probes(&self.scan);
    }

    /// The piece of the plan that runs on either side.
    pub fn fragment(&self) -> &Fragment {
        self.scan.fragment()
    }

    /// Whether Bloom filters of joins' keys may travel with the fragment, and save bytes on the way back.
    pub(crate) fn sends_bloom_filters(&self) -> bool {
        self.scan.sends_bloom_filters()
    }
}

impl DisplayAs for HybridScanExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (routes, estimates, took) = match self.run.get() {
            Some(run) => (self.taken(), run.estimates.clone(), Some(run.took())),
            None => {
                let (routes, estimates) = self.preview.get_or_init(|| router::preview(&self.scan)).clone();
                (routes, estimates, None)
            }
        };
        let routes: Vec<_> = routes.into_iter().map(|(route, count)| format!("{route}={count}")).collect();
        let scan = &self.scan;
        let total = scan.partitions().len() + scan.partitions_pruned();
        let separator = if matches!(format, DisplayFormatType::TreeRender) { "\n" } else { ", " };
        write!(f, "HybridScanExec: table={}{separator}fragment=[{}]", scan.table_name(), scan.fragment())?;
        write!(f, "{separator}partitions={} of {total}", scan.partitions().len())?;
        write!(f, "{separator}mode={}{separator}routes=[{}]", self.settings().mode, routes.join(" "))?;
        if let Some(Estimates { by_route, time, .. }) = estimates {
            let chosen = time.seconds();
            let by_route: Vec<_> = by_route.iter().map(|(route, seconds)| format!("{route}={seconds:.4}")).collect();
            write!(f, "{separator}expected_seconds=[{} chosen={chosen:.4}", by_route.join(" "))?;
            match took {
                Some(took) => write!(f, " took={:.4}]", took.as_secs_f64())?,
                None => write!(f, "]")?,
            }
        }
        if let Some(fetch) = scan.fetch() {
            write!(f, "{separator}fetch={fetch}")?;
        }
        if let Some(reason) = scan.not_pushed() {
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
        for operator in self.fragment().chain() {
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
            dynamic.extend(DynamicFilter::new(&offered.filter, self.scan.table_schema())?);
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
        Ok(Arc::new(Self { run: Arc::default(), preview: Arc::default(), ..self.as_ref().clone() }))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        tracing::trace!(partition, table = %self.scan.table_name(), fragment = %self.fragment(), "scan starts");
        let this = self.clone();
        let schema = self.schema();
        let rows = async move {
            let run = this
                .run
                .get_or_try_init(|| async {
                    if !all_ready(&this.dynamic, WAIT_MAX).await {
                        tracing::debug!(table = %this.scan.table_name(), fragment = %this.fragment(), "a join's filter did not come in time");
                        this.metrics.filters_missed.add(1);
                    }
                    let scan = narrowed(&this.scan, &this.dynamic, &this.metrics)?;
                    Ok::<_, DataFusionError>(Arc::new(ScanRun::new(&scan, &this.metrics, &context)?))
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
        let scan = Self::of(self.scan.with_limit(limit).ok()?).ok()?;
        Some(Arc::new(Self { dynamic: self.dynamic.clone(), ..scan }))
    }

    fn fetch(&self) -> Option<usize> {
        self.scan.fetch()
    }
}
