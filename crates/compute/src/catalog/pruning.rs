//! Partition pruning by min/max, before any request is sent.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, UInt64Array, new_null_array};
use arrow::datatypes::SchemaRef;
use datafusion::common::pruning::PruningStatistics;
use datafusion::common::{Column, ScalarValue};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_optimizer::pruning::PruningPredicateBuilder;

use super::partition::{ColumnRange, Partition};

/// Per partition, whether a row in it may pass `predicate` (over the columns of `schema`, the
/// table's). Whatever cannot be decided may.
pub fn prune(partitions: &[Arc<Partition>], predicate: &Arc<dyn PhysicalExpr>, schema: &SchemaRef) -> Vec<bool> {
    let all = || vec![true; partitions.len()];
    if partitions.is_empty() {
        return all();
    }
    let Ok(pruning) =
        PruningPredicateBuilder::new().with_file_schema(Arc::clone(schema)).try_build(Arc::clone(predicate))
    else {
        return all();
    };
    if pruning.always_true() {
        return all();
    }
    pruning.prune(&PartitionStatistics { partitions, schema }).unwrap_or_else(|_| all())
}

struct PartitionStatistics<'a> {
    partitions: &'a [Arc<Partition>],
    schema: &'a SchemaRef,
}

impl PartitionStatistics<'_> {
    fn values(&self, column: &Column, pick: impl Fn(ColumnRange) -> ScalarValue) -> Option<ArrayRef> {
        let (position, field) = self.schema.column_with_name(&column.name)?;
        let null = ScalarValue::try_from(field.data_type()).ok()?;
        let values: Vec<ScalarValue> = self
            .partitions
            .iter()
            .map(|partition| partition.range_of(position).map_or_else(|| null.clone(), &pick))
            .collect();
        let known = values.iter().any(|value| !value.is_null());
        if known {
            ScalarValue::iter_to_array(values).ok()
        } else {
            Some(new_null_array(field.data_type(), self.partitions.len()))
        }
    }
}

impl PruningStatistics for PartitionStatistics<'_> {
    fn min_values(&self, column: &Column) -> Option<ArrayRef> {
        self.values(column, |range| range.min)
    }

    fn max_values(&self, column: &Column) -> Option<ArrayRef> {
        self.values(column, |range| range.max)
    }

    fn num_containers(&self) -> usize {
        self.partitions.len()
    }

    fn null_counts(&self, column: &Column) -> Option<ArrayRef> {
        let (position, _) = self.schema.column_with_name(&column.name)?;
        let counts: UInt64Array =
            self.partitions.iter().map(|partition| partition.range_of(position)?.null_count).collect();
        Some(Arc::new(counts))
    }

    fn row_counts(&self) -> Option<ArrayRef> {
        let counts: UInt64Array = self.partitions.iter().map(|partition| Some(partition.rows)).collect();
        Some(Arc::new(counts))
    }

    fn contained(&self, _: &Column, _: &HashSet<ScalarValue>) -> Option<BooleanArray> {
        None
    }
}
