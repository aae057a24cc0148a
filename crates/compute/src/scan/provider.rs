//! External tables as DataFusion sees them.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
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
use thermocline_catalog::ExternalTable;
use thermocline_pushdown::{Limits, balanced, check_predicate};

use super::hybrid_scan::HybridScanExec;
use super::sample::PartitionSample;
use crate::query::QueryContext;

/// An external table of the catalog as DataFusion scans it.
#[derive(Debug)]
pub(crate) struct ExternalScan(pub Arc<ExternalTable>);

#[async_trait]
impl TableProvider for ExternalScan {
    fn schema(&self) -> SchemaRef {
        Arc::clone(self.0.schema())
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn get_table_definition(&self) -> Option<&str> {
        Some(&self.0.definition.sql)
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        filters
            .iter()
            .map(|filter| {
                Ok(if is_pushable(self.0.schema(), filter)? {
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
        for node in self.0.storages() {
            query.resources().calibrate(node).await;
        }
        let snapshot = PartitionSample::seen(query.snapshot(&self.0).await?, state.config());
        let output: Vec<usize> = projection.cloned().unwrap_or_else(|| (0..self.0.schema().fields().len()).collect());
        let predicate = match conjunction(filters.iter().cloned()) {
            None => None,
            Some(filter) => {
                let columns = DFSchema::try_from(Arc::clone(self.0.schema()))?;
                Some(balanced(&state.create_physical_expr(filter, &columns)?)?)
            }
        };
        let scan = HybridScanExec::new(&self.0, &snapshot, &output, predicate, state.config(), query)?;
        scan.begin_probes();
        Ok(Arc::new(scan))
    }
}

/// Whether a filter can be part of a fragment: deterministic, without sub-queries, and nothing that
/// a storage node would refuse.
fn is_pushable(schema: &SchemaRef, filter: &Expr) -> Result<bool> {
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
    let positions = filter.column_refs().into_iter().map(|column| schema.index_of(column.name()));
    let mut positions = positions.collect::<std::result::Result<Vec<_>, _>>()?;
    positions.sort_unstable();
    let columns = Arc::new(schema.project(&positions)?);
    let context = PhysicalPlanningContext::default();
    let predicate = DFSchema::try_from(Arc::clone(&columns))
        .and_then(|schema| create_physical_expr(&filter, &schema, &ExecutionProps::new(), &context));
    // What cannot be judged by itself is evaluated above the scan.
    Ok(predicate.is_ok_and(|predicate| check_predicate(&predicate, &columns, &Limits::default()).is_ok()))
}
