//! A fragment in two parts: the filter that selects rows, and the operators over the selected ones.

use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::{DataFusionError, Result};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::utils::reassign_expr_columns;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::{FilterExec, FilterExecBuilder};
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};

use crate::Fragment;

/// The filter directly above a fragment's input, and the operators above the filter.
///
/// ```text
///   partial aggregate  \
///     projection        } above: a fragment over the filter's output columns B
///       filter         <- predicate over columns A; output = positions of B in the input
///         FragmentInput
/// ```
#[derive(Debug, Clone)]
pub struct Selection {
    /// Selects the rows, in terms of the fragment's input; `None` if the fragment has no filter.
    pub predicate: Option<Arc<dyn PhysicalExpr>>,
    /// Positions in the fragment's input of the columns that the selected rows keep.
    pub output: Vec<usize>,
    /// The operators over the selected rows.
    pub above: Fragment,
}

impl Fragment {
    /// Takes the fragment apart.
    ///
    /// # Errors
    /// If an operator cannot be copied.
    pub fn selection(&self) -> Result<Selection> {
        let input = self.input_schema();
        let all = (0..input.fields().len()).collect();
        let mut operators = self.chain().into_iter().rev().skip(1).peekable();
        let filter = operators
            .peek()
            .and_then(|operator| operator.downcast_ref::<FilterExec>())
            // A limit within the filter counts the rows of this filter only.
            .filter(|filter| filter.fetch().is_none());
        let Some(filter) = filter else {
            return Ok(Selection { predicate: None, output: all, above: self.clone() });
        };
        let predicate = Arc::clone(filter.predicate());
        let output = filter.projection().as_ref().map_or(all, |kept| kept.to_vec());
        let mut above = Fragment::scan(filter.schema());
        operators.next();
        for operator in operators {
            above = above.with_operator(operator)?;
        }
        Ok(Selection { predicate: Some(predicate), output, above })
    }

    /// The filter directly above the input, without what stands on it; the bare input if there is
    /// none.
    ///
    /// # Errors
    /// If the filter cannot be copied.
    pub fn filter_alone(&self) -> Result<Self> {
        let mut operators = self.chain().into_iter().rev();
        let Some(leaf) = operators.next() else {
            return Ok(self.clone());
        };
        let known = StatisticsContext::new().compute(leaf.as_ref(), &StatisticsArgs::new())?;
        let bare = Fragment::scan_with_statistics(leaf.schema(), known.as_ref().clone());
        match operators.next().filter(|operator| operator.downcast_ref::<FilterExec>().is_some()) {
            Some(filter) => bare.with_operator(filter),
            None => Ok(bare),
        }
    }

    /// The fragment `columns -> filter`: rows of `columns` that pass `predicate` (over columns of
    /// these names), of which those at the positions `output` are kept.
    ///
    /// # Errors
    /// If the predicate does not fit the columns.
    pub fn filtered(columns: SchemaRef, predicate: &Arc<dyn PhysicalExpr>, output: Vec<usize>) -> Result<Self> {
        let predicate = reassign_expr_columns(Arc::clone(predicate), &columns)?;
        let scan = Fragment::scan(columns);
        let filter =
            FilterExecBuilder::new(predicate, Arc::clone(scan.root())).apply_projection(Some(output))?.build()?;
        scan.with_operator(&(Arc::new(filter) as Arc<dyn ExecutionPlan>))
    }

    /// The operators of `above` on top of this fragment.
    ///
    /// # Errors
    /// If they do not fit the columns that this fragment yields.
    pub fn below(self, above: &Fragment) -> Result<Self> {
        if self.schema().fields().len() != above.input_schema().fields().len() {
            return Err(DataFusionError::Internal("two fragments with other columns are stacked".into()));
        }
        above.chain().into_iter().rev().skip(1).try_fold(self, |fragment, operator| fragment.with_operator(operator))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::datatypes::{DataType, Field, Schema};
    use datafusion::logical_expr::Operator;
    use datafusion::physical_expr::expressions::{BinaryExpr, col, lit};
    use datafusion::physical_plan::limit::LocalLimitExec;

    fn columns() -> SchemaRef {
        let field = |name| Field::new(name, DataType::Int64, true);
        Arc::new(Schema::new(vec![field("a"), field("b"), field("c")]))
    }

    #[test]
    fn apart_and_together_again() {
        let columns = columns();
        let predicate: Arc<dyn PhysicalExpr> =
            Arc::new(BinaryExpr::new(col("b", &columns).unwrap(), Operator::Gt, lit(5_i64)));
        let filtered = Fragment::filtered(Arc::clone(&columns), &predicate, vec![2, 0]).unwrap();
        let limit: Arc<dyn ExecutionPlan> = Arc::new(LocalLimitExec::new(Arc::clone(filtered.root()), 3));
        let whole = filtered.with_operator(&limit).unwrap();

        let Selection { predicate, output, above } = whole.selection().unwrap();
        assert_eq!(output, [2, 0]);
        assert_eq!(above.to_string(), "FragmentInput: columns=[c, a] -> LocalLimitExec: fetch=3");
        let again = Fragment::filtered(columns, &predicate.unwrap(), output).unwrap().below(&above).unwrap();
        assert_eq!(again.to_string(), whole.to_string());
    }

    #[test]
    fn without_a_filter_everything_is_above() {
        let scan = Fragment::scan(columns());
        let selection = scan.selection().unwrap();
        assert!(selection.predicate.is_none());
        assert_eq!(selection.output, [0, 1, 2]);
        assert_eq!(selection.above.to_string(), scan.to_string());
    }
}
