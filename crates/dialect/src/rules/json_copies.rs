//! UUIDs in JSON files.

use std::sync::Arc;

use arrow::datatypes::DataType as ArrowType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Column, Result};
use datafusion::logical_expr::dml::CopyTo;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::optimizer::AnalyzerRule;
use thermocline_pushdown::{sql_cast, sql_type};
use thermocline_types::DataType;

/// Casts the UUIDs of a COPY to JSON to text; Arrow would write their bytes in hexadecimal.
#[derive(Debug)]
pub struct JsonCopies;

impl AnalyzerRule for JsonCopies {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let rewritten = |node: LogicalPlan| match node {
            LogicalPlan::Copy(copy) if copy.file_type.get_ext() == "json" => Ok(match with_texts(&copy.input)? {
                Some(input) => Transformed::yes(LogicalPlan::Copy(CopyTo { input: Arc::new(input), ..copy })),
                None => Transformed::no(LogicalPlan::Copy(copy)),
            }),
            node => Ok(Transformed::no(node)),
        };
        plan.transform_up(rewritten).data()
    }

    fn name(&self) -> &str {
        "json_copies"
    }
}

/// The rows with UUIDs as texts; `None` if there are none.
fn with_texts(input: &LogicalPlan) -> Result<Option<LogicalPlan>> {
    let is_uuid = |of: &ArrowType| sql_type(of) == Some(DataType::Uuid);
    if !input.schema().fields().iter().any(|field| is_uuid(field.data_type())) {
        return Ok(None);
    }
    let columns = input.schema().iter().map(|(table, field)| {
        let column = Expr::Column(Column::from((table, field)));
        match is_uuid(field.data_type()) {
            true => Ok(sql_cast(column, &ArrowType::Utf8)?.alias(field.name())),
            false => Ok(column),
        }
    });
    let columns = columns.collect::<Result<Vec<_>>>()?;
    LogicalPlanBuilder::from(input.clone()).project(columns)?.build().map(Some)
}
