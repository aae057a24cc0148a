//! External tables as DataFusion sees them.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, DataFusionError, Result, plan_err};
use datafusion::logical_expr::execution_props::ExecutionProps;
use datafusion::logical_expr::expr_rewriter::unnormalize_col;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_expr::create_physical_expr;
use datafusion::physical_plan::ExecutionPlan;
use futures::TryStreamExt;
use parking_lot::Mutex;
use thermocline_pushdown::validate::check_predicate;
use thermocline_pushdown::{FileFormat, Limits, balanced};
use thermocline_storage::csv_options;

use super::definition::{TableDefinition, views};
use super::location::{Location, Nodes};
use super::partition::PlannedObject;
use super::snapshot::{Listing, Snapshot, parquet_schema};
use crate::scan::HybridScanExec;
use crate::session::QueryContext;
use crate::settings::Settings;

/// Bytes of a CSV object from which its columns' types are inferred.
const SAMPLE_BYTES: u64 = 1 << 20;
/// Records of them.
const SAMPLE_ROWS: usize = 10_000;

/// A table over objects at storage nodes.
#[derive(Debug)]
pub struct ExternalTable {
    /// What the user said.
    pub definition: TableDefinition,
    schema: SchemaRef,
    locations: Vec<Location>,
    /// The objects as last seen; the next query asks only about what is new.
    latest: Mutex<(u64, Arc<Snapshot>)>,
}

impl ExternalTable {
    /// Finds the table's objects and, unless given, its columns.
    ///
    /// # Errors
    /// If a location is missing, empty or unreachable, or objects differ in their columns.
    pub async fn create(definition: TableDefinition, nodes: &Nodes, settings: &Settings) -> Result<Self> {
        let options = thermocline_storage::RemoteOptions {
            request_timeout: settings.request_timeout,
            ..thermocline_storage::RemoteOptions::default()
        };
        let locations = definition
            .locations
            .iter()
            .map(|location| nodes.resolve(location, &options))
            .collect::<Result<Vec<_>>>()?;
        let listing = Listing::fetch(&locations, &definition.format).await?;
        if listing.len() == 0 {
            return plan_err!(
                "table {}: no {} objects at {}",
                definition.name,
                definition.format.name(),
                definition.locations.join(", ")
            );
        }
        let schema = match &definition.columns {
            Some(columns) => Arc::clone(columns),
            None => infer_schema(&definition, &listing, settings).await?,
        };
        if schema.fields().is_empty() {
            return plan_err!("table {}: its objects have no columns", definition.name);
        }
        let latest = Mutex::new((settings.partition_size, Snapshot::empty(&schema)));
        let table = Self { definition, schema, locations, latest };
        table.snapshot(settings).await?;
        Ok(table)
    }

    /// The table's objects as they are now.
    ///
    /// # Errors
    /// If a node cannot be reached or an object is corrupt or has other columns.
    pub async fn snapshot(&self, settings: &Settings) -> Result<Arc<Snapshot>> {
        let listing = Listing::fetch(&self.locations, &self.definition.format).await?;
        let (partition_size, known) = self.latest.lock().clone();
        let known = if partition_size == settings.partition_size { known } else { Snapshot::empty(&self.schema) };
        let snapshot = Snapshot::plan(
            listing,
            &known,
            &self.definition.format,
            &self.schema,
            settings.partition_size,
            self.definition.columns.is_none(),
        )
        .await?;
        *self.latest.lock() = (settings.partition_size, Arc::clone(&snapshot));
        Ok(snapshot)
    }

    /// The objects as last seen, for `system.partitions`.
    pub fn latest(&self) -> Arc<Snapshot> {
        Arc::clone(&self.latest.lock().1)
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
        let query = QueryContext::of(state.config());
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

async fn infer_schema(definition: &TableDefinition, listing: &Listing, settings: &Settings) -> Result<SchemaRef> {
    let Some((node, entry)) =
        listing.nodes.iter().find_map(|(node, entries)| entries.first().map(|entry| (node, entry)))
    else {
        return plan_err!("table {}: it has no objects", definition.name);
    };
    let request = thermocline_pushdown::wire::DescribeRequest {
        objects: vec![entry.clone()],
        format: Some((&definition.format).into()),
        partition_bytes: settings.partition_size,
    };
    match &definition.format {
        FileFormat::Parquet => {
            let description = node.describe(request).try_next().await?.unwrap_or_default();
            let no_columns = Arc::new(Schema::empty());
            let (object, footer) = PlannedObject::plan(
                node.clone(),
                entry.clone(),
                description,
                &definition.format,
                &no_columns,
                u64::MAX,
            )?;
            let Some(footer) = footer else {
                return plan_err!("{}: no Parquet footer", entry.path);
            };
            parquet_schema(&object, &footer)
        }
        FileFormat::Csv(csv) => {
            let sample = crate::scan::read_range(node, entry, 0..entry.size.min(SAMPLE_BYTES)).await?;
            let sample = whole_records(&sample, entry.size <= SAMPLE_BYTES);
            let options = csv_options(csv);
            let mut format =
                arrow::csv::reader::Format::default().with_header(options.has_header).with_delimiter(options.delimiter);
            if let Some(quote) = options.quote {
                format = format.with_quote(quote);
            }
            if let Some(escape) = options.escape {
                format = format.with_escape(escape);
            }
            let (schema, rows) = format
                .infer_schema(sample, Some(SAMPLE_ROWS))
                .map_err(|error| DataFusionError::Plan(format!("{}: {error}", entry.path)))?;
            if rows == 0 && schema.fields().is_empty() {
                return plan_err!("{}: no columns can be inferred from an empty file", entry.path);
            }
            // Values past the sample may be missing; a column of nothing but NULLs is text.
            let fields: Vec<Field> = schema
                .fields()
                .iter()
                .map(|field| {
                    let data_type = match field.data_type() {
                        DataType::Null => DataType::Utf8,
                        other => other.clone(),
                    };
                    Field::new(field.name(), data_type, true)
                })
                .collect();
            Ok(views(&Schema::new(fields)))
        }
    }
}

/// The sample up to its last line end, so that inference does not see half a value.
fn whole_records(sample: &[u8], complete: bool) -> &[u8] {
    if complete {
        return sample;
    }
    let end = sample.iter().rposition(|byte| *byte == b'\n').map_or(sample.len(), |at| at + 1);
    sample.get(..end).unwrap_or(sample)
}
