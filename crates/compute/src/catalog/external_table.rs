//! External tables as DataFusion sees them.

use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::execution_props::ExecutionProps;
use datafusion::logical_expr::expr_rewriter::unnormalize_col;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_expr::create_physical_expr;
use datafusion::physical_plan::ExecutionPlan;
use parking_lot::Mutex;
use thermocline_pushdown::{FileFormat, Limits, balanced};
use thermocline_pushdown::{user_err, user_error, validate::check_predicate};
use thermocline_storage::csv::CsvDecoder;
use thermocline_storage::csv_options;

use super::csv_schema::infer_csv_schema;
use super::definition::TableDefinition;
use super::location::{Location, Nodes};
use super::snapshot::{Listing, Snapshot};
use super::unread::UnreadObjects;
use crate::query::QueryContext;
use crate::scan::HybridScanExec;
use crate::settings::QuerySettings;

/// A table over objects at storage nodes.
#[derive(Debug)]
pub struct ExternalTable {
    /// The statement that defined it.
    pub definition: TableDefinition,
    schema: SchemaRef,
    locations: Vec<Location>,
    /// The objects as last seen; the next query asks only about what is new.
    latest: Mutex<(u64, Arc<Snapshot>)>,
    /// Entries of its locations that it does not read, as last seen.
    unread: Mutex<UnreadObjects>,
}

impl ExternalTable {
    /// Finds the table's objects and, unless given, its columns.
    ///
    /// # Errors
    /// If a location is not allowed, missing or unreachable, no location holds an object of the format, or an object is
    /// corrupt.
    pub async fn create(
        definition: TableDefinition,
        nodes: &Nodes,
        settings: &QuerySettings,
        partition_size: u64,
    ) -> Result<Self> {
        definition.locations.iter().try_for_each(|location| settings.allowed_locations.check(location))?;
        let options = thermocline_storage::RemoteOptions {
            request_timeout: settings.request_timeout,
            ..thermocline_storage::RemoteOptions::default()
        };
        let locations = definition
            .locations
            .iter()
            .map(|location| nodes.resolve(location, &options))
            .collect::<Result<Vec<_>>>()?;
        let nothing = Snapshot::empty(&Arc::new(Schema::empty()));
        let listing = Listing::fetch(&locations, &definition.format, &nothing).await?;
        if listing.len() == 0 {
            return user_err!(
                InvalidTableDefinition,
                "table {}: no {} objects at {}",
                definition.name,
                definition.format.name(),
                definition.locations.join(", ")
            );
        }
        let schema = match (&definition.columns, &definition.format) {
            (Some(columns), _) => Arc::clone(columns),
            (None, FileFormat::Parquet) => listing.parquet_schema(partition_size).await?,
            (None, FileFormat::Csv(csv)) => infer_csv_schema(&definition.name, &listing, &csv_options(csv)).await?,
        };
        if schema.fields().is_empty() {
            return user_err!(InvalidTableDefinition, "table {}: its objects have no columns", definition.name);
        }
        if let FileFormat::Csv(csv) = &definition.format {
            let all = (0..schema.fields().len()).collect();
            let readable = CsvDecoder::try_new(Arc::clone(&schema), &csv_options(csv), all, 1);
            readable.map_err(|error| user_error!(InvalidTableDefinition, "table {}: {error}", definition.name))?;
        }
        let latest = Mutex::new((partition_size, Snapshot::empty(&schema)));
        let table = Self { definition, schema, locations, latest, unread: Mutex::default() };
        table.snapshot(partition_size).await?;
        Ok(table)
    }

    /// The table's objects as they are now.
    ///
    /// # Errors
    /// If a node cannot be reached or an object is corrupt.
    pub async fn snapshot(&self, partition_size: u64) -> Result<Arc<Snapshot>> {
        let (known_size, known) = self.latest.lock().clone();
        let listed = Listing::fetch(&self.locations, &self.definition.format, &known).await;
        let mut listing = listed.map_err(|error| error.context(format!("table {}", self.definition.name)))?;
        *self.unread.lock() = std::mem::take(&mut listing.unread);
        let known = if known_size == partition_size { known } else { Snapshot::empty(&self.schema) };
        let snapshot = Snapshot::plan(
            listing,
            &known,
            &self.definition.format,
            &self.schema,
            partition_size,
            self.definition.columns.is_none(),
        )
        .await?;
        *self.latest.lock() = (partition_size, Arc::clone(&snapshot));
        Ok(snapshot)
    }

    /// The objects as last seen, for `system.partitions`.
    pub fn latest(&self) -> Arc<Snapshot> {
        Arc::clone(&self.latest.lock().1)
    }

    /// Entries of its locations that it does not read, as last seen.
    pub fn unread(&self) -> UnreadObjects {
        self.unread.lock().clone()
    }

    /// The columns for the wire.
    ///
    /// # Errors
    /// If a type has no encoding.
    pub(crate) fn encoded_schema(&self) -> Result<Vec<u8>> {
        thermocline_pushdown::wire::encode_schema(&self.schema)
    }

    /// Whether a filter can be part of a fragment: deterministic, without sub-queries, and nothing that
    /// a storage node would refuse.
    fn is_pushable(&self, filter: &Expr) -> Result<bool> {
        let mut pushable = !filter.is_volatile();
        filter.apply(|node| {
            if matches!(
                node,
                Expr::ScalarSubquery(_) | Expr::InSubquery(_) | Expr::Exists(_) | Expr::OuterReferenceColumn(..)
            ) {
                pushable = false;
                return Ok(TreeNodeRecursion::Stop);
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        if !pushable {
            return Ok(false);
        }
        let filter = unnormalize_col(filter.clone());
        let positions = filter.column_refs().into_iter().map(|column| self.schema.index_of(column.name()));
        let mut positions = positions.collect::<std::result::Result<Vec<_>, _>>()?;
        positions.sort_unstable();
        let columns = Arc::new(self.schema.project(&positions)?);
        let context = PhysicalPlanningContext::default();
        let predicate = DFSchema::try_from(Arc::clone(&columns))
            .and_then(|schema| create_physical_expr(&filter, &schema, &ExecutionProps::new(), &context));
        // What cannot be judged by itself is evaluated above the scan.
        Ok(predicate.is_ok_and(|predicate| check_predicate(&predicate, &columns, &Limits::default()).is_ok()))
    }

    /// Whether fragments may run where the objects are.
    pub fn pushes(&self) -> bool {
        self.locations.iter().all(|location| location.pushes)
    }
}

#[async_trait]
impl TableProvider for ExternalTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn get_table_definition(&self) -> Option<&str> {
        Some(&self.definition.sql)
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        filters
            .iter()
            .map(|filter| {
                Ok(if self.is_pushable(filter)? {
                    TableProviderFilterPushDown::Exact
                } else {
                    TableProviderFilterPushDown::Unsupported
                })
            })
            .collect()
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        _limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let query = QueryContext::of(state.config())?;
        let snapshot = query.snapshot(self).await?;
        let output: Vec<usize> = projection.cloned().unwrap_or_else(|| (0..self.schema.fields().len()).collect());
        let predicate = match conjunction(filters.iter().cloned()) {
            None => None,
            Some(filter) => {
                let columns = DFSchema::try_from(Arc::clone(&self.schema))?;
                Some(balanced(&state.create_physical_expr(filter, &columns)?)?)
            }
        };
        let scan = HybridScanExec::new(self, &snapshot, &output, predicate, state.config(), query)?;
        Ok(Arc::new(scan))
    }
}
