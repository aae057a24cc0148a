//! Some partitions of a snapshot: pruning by min/max before any request is sent, and their ranges.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, UInt32Array, UInt64Array};
use arrow::compute::{sum, take};
use arrow::datatypes::SchemaRef;
use datafusion::common::pruning::PruningStatistics;
use datafusion::common::{Column, Result, ScalarValue};
use datafusion::functions_aggregate::min_max::{MaxAccumulator, MinAccumulator};
use datafusion::logical_expr::Accumulator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_optimizer::pruning::PruningPredicateBuilder;

use super::column_range::ColumnRange;
use super::statistics::{ColumnArrays, SnapshotStatistics};

/// Some partitions of a snapshot, by their positions in it.
#[derive(Debug, Clone)]
pub struct PartitionSet {
    statistics: Arc<SnapshotStatistics>,
    schema: SchemaRef,
    /// `None` for all.
    positions: Option<Arc<UInt32Array>>,
}

impl PartitionSet {
    pub(super) fn all(statistics: Arc<SnapshotStatistics>, schema: SchemaRef) -> Self {
        Self { statistics, schema, positions: None }
    }

    /// Columns of the table.
    pub(super) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Number of partitions in the set.
    pub fn len(&self) -> usize {
        self.positions.as_ref().map_or(self.statistics.len(), |positions| positions.len())
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Those for which `kept`, one for each of the set, is true.
    pub fn filtered(&self, kept: &[bool]) -> Self {
        let positions: UInt32Array = match &self.positions {
            None => (0..).zip(kept).filter(|(_, kept)| **kept).map(|(position, _)| position).collect::<Vec<u32>>(),
            Some(positions) => {
                positions.values().iter().zip(kept).filter(|(_, kept)| **kept).map(|(position, _)| *position).collect()
            }
        }
        .into();
        Self { positions: Some(Arc::new(positions)), ..self.clone() }
    }

    /// Those in which a row may pass `predicate` (over the table's columns), and for each of the set
    /// whether it is among them. Whatever cannot be decided may.
    pub fn prune(&self, predicate: &Arc<dyn PhysicalExpr>) -> (Self, Vec<bool>) {
        let all = || (self.clone(), vec![true; self.len()]);
        if self.is_empty() {
            return all();
        }
        let schema = Arc::clone(&self.schema);
        let Ok(pruning) = PruningPredicateBuilder::new().with_file_schema(schema).try_build(Arc::clone(predicate))
        else {
            return all();
        };
        if pruning.always_true() {
            return all();
        }
        match pruning.prune(self) {
            Ok(kept) if kept.iter().all(|kept| *kept) => all(),
            Ok(kept) => (self.filtered(&kept), kept),
            Err(_) => all(),
        }
    }

    /// The range of a column of the table over all of them; `None` if that of one is not known.
    pub fn range_of(&self, column: usize) -> Option<ColumnRange> {
        let arrays = self.statistics.column(column, &self.schema)?;
        let (min, max, null_counts) =
            (self.taken(&arrays.min)?, self.taken(&arrays.max)?, self.taken(&arrays.null_counts)?);
        if self.is_empty() || min.null_count() > 0 || max.null_count() > 0 {
            return None;
        }
        let smallest = || -> Result<ScalarValue> {
            let mut smallest = MinAccumulator::try_new(min.data_type())?;
            smallest.update_batch(&[Arc::clone(&min)])?;
            smallest.evaluate()
        };
        let largest = || -> Result<ScalarValue> {
            let mut largest = MaxAccumulator::try_new(max.data_type())?;
            largest.update_batch(&[Arc::clone(&max)])?;
            largest.evaluate()
        };
        let null_count = (null_counts.null_count() == 0)
            .then(|| null_counts.as_any().downcast_ref::<UInt64Array>().and_then(sum))
            .flatten();
        Some(ColumnRange { min: smallest().ok()?, max: largest().ok()?, null_count })
    }

    /// Of an array of the snapshot, the values of the set.
    fn taken(&self, array: &ArrayRef) -> Option<ArrayRef> {
        match &self.positions {
            None => Some(Arc::clone(array)),
            Some(positions) => take(array.as_ref(), positions.as_ref(), None).ok(),
        }
    }

    fn of_column(&self, column: &Column, pick: fn(&ColumnArrays) -> &ArrayRef) -> Option<ArrayRef> {
        let (position, _) = self.schema.column_with_name(&column.name)?;
        self.taken(pick(self.statistics.column(position, &self.schema)?.as_ref()))
    }
}

impl PruningStatistics for PartitionSet {
    fn min_values(&self, column: &Column) -> Option<ArrayRef> {
        self.of_column(column, |arrays| &arrays.min)
    }

    fn max_values(&self, column: &Column) -> Option<ArrayRef> {
        self.of_column(column, |arrays| &arrays.max)
    }

    fn num_containers(&self) -> usize {
        self.len()
    }

    fn null_counts(&self, column: &Column) -> Option<ArrayRef> {
        self.of_column(column, |arrays| &arrays.null_counts)
    }

    fn row_counts(&self) -> Option<ArrayRef> {
        self.taken(&self.statistics.rows)
    }

    fn contained(&self, _: &Column, _: &HashSet<ScalarValue>) -> Option<BooleanArray> {
        None
    }
}
