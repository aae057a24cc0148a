//! Limits on texts in one batch.

use std::sync::Arc;

use arrow::datatypes::{DataType as ArrowType, FieldRef};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, Like, LogicalPlan, Operator, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility,
};
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};
use thermocline_pushdown::external;
use thermocline_types::Class;

use super::expressions::{compares, map_named};
use super::result_sizes::{BATCH_BYTES_MAX, lengths};

/// Constants up to this many bytes fit in every row of any batch.
const LONG_BYTES: usize = 64 << 10;
/// Concatenations of at most this many texts of a table are not checked: batches of tables seldom have long texts. If
/// they do, Arrow's error ends the query (22003).
const FEW_TEXTS: usize = 16;

/// Makes long constants and concatenations of texts in projections, filters, aggregates and window functions return an
/// error if a batch of them would be too large: Arrow's arrays hold 2 GiB, and DataFusion panics beyond.
#[derive(Debug)]
pub(crate) struct BatchLimits;

impl OptimizerRule for BatchLimits {
    fn name(&self) -> &'static str {
        "batch_limits"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::TopDown)
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let (LogicalPlan::Projection(_) | LogicalPlan::Filter(_) | LogicalPlan::Aggregate(_) | LogicalPlan::Window(_)) =
            plan
        else {
            return Ok(Transformed::no(plan));
        };
        let reads_table = plan.inputs().into_iter().all(|input| matches!(input, LogicalPlan::TableScan(_)));
        map_named(plan, |expression| expression.transform_down(|part| limited(part, reads_table)))
    }
}

fn limited(part: Expr, reads_table: bool) -> Result<Transformed<Expr>> {
    match part {
        Expr::Literal(ref value, _) if bytes(value) > LONG_BYTES => {
            let constant = ScalarUDF::from(Fitting::of(FITTING_CONSTANT)).call(vec![part]);
            Ok(Transformed::new(constant, true, TreeNodeRecursion::Jump))
        }
        // Values are compared with constants one by one.
        Expr::BinaryExpr(BinaryExpr { left, op, right })
            if compares(op) && (is_constant(&left) || is_constant(&right)) =>
        {
            let (left, right) = (beside(left, reads_table)?, beside(right, reads_table)?);
            let transformed = left.transformed || right.transformed;
            let expression = Expr::BinaryExpr(BinaryExpr::new(left.data, op, right.data));
            Ok(Transformed::new(expression, transformed, TreeNodeRecursion::Jump))
        }
        Expr::Like(like) if is_constant(&like.pattern) => {
            let compared = beside(like.expr, reads_table)?;
            let expression = Expr::Like(Like { expr: compared.data, ..like });
            Ok(Transformed::new(expression, compared.transformed, TreeNodeRecursion::Jump))
        }
        Expr::InList(list) if list.list.iter().all(is_constant) => {
            let compared = beside(list.expr, reads_table)?;
            let expression = Expr::InList(InList { expr: compared.data, ..list });
            Ok(Transformed::new(expression, compared.transformed, TreeNodeRecursion::Jump))
        }
        Expr::ScalarFunction(ref function) if function.func.name() == FITTING_CONSTANT => {
            Ok(Transformed::new(part, false, TreeNodeRecursion::Jump))
        }
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::StringConcat, right })
            if !is_fitting(&left) && (!reads_table || texts(&left) + texts(&right) > FEW_TEXTS) =>
        {
            let [left, right] =
                [left, right].map(|side| Box::new(ScalarUDF::from(Fitting::of(FITTING)).call(vec![*side])));
            Ok(Transformed::yes(Expr::BinaryExpr(BinaryExpr::new(left, Operator::StringConcat, right))))
        }
        part => Ok(Transformed::no(part)),
    }
}

/// A side of a comparison with a constant: that itself as it is, or what is compared with it.
fn beside(side: Box<Expr>, reads_table: bool) -> Result<Transformed<Box<Expr>>> {
    match is_constant(&side) {
        true => Ok(Transformed::no(side)),
        false => Ok((*side).transform_down(|part| limited(part, reads_table))?.update_data(Box::new)),
    }
}

fn is_constant(expression: &Expr) -> bool {
    matches!(expression, Expr::Literal(..))
}

fn is_fitting(expression: &Expr) -> bool {
    matches!(expression, Expr::ScalarFunction(function) if function.func.name() == FITTING)
}

/// Number of concatenated texts.
fn texts(expression: &Expr) -> usize {
    match expression {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::StringConcat, right }) => texts(left) + texts(right),
        _ => 1,
    }
}

fn bytes(value: &ScalarValue) -> usize {
    use ScalarValue::{Binary, BinaryView, LargeBinary, LargeUtf8, Utf8, Utf8View};
    match value {
        Utf8(Some(text)) | LargeUtf8(Some(text)) | Utf8View(Some(text)) => text.len(),
        Binary(Some(bytes)) | LargeBinary(Some(bytes)) | BinaryView(Some(bytes)) => bytes.len(),
        _ => 0,
    }
}

const FITTING: &str = "fitting";
const FITTING_CONSTANT: &str = "fitting_constant";

/// Identity function that returns an error if its argument is too large for one batch, or, as one of two concatenated
/// texts, for half of it. Volatile for constants, so that they are not folded.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Fitting {
    name: &'static str,
    signature: Signature,
    bytes_max: u64,
}

impl Fitting {
    fn of(name: &'static str) -> Self {
        let (volatility, bytes_max) = match name {
            FITTING => (Volatility::Immutable, BATCH_BYTES_MAX / 2),
            _ => (Volatility::Volatile, BATCH_BYTES_MAX),
        };
        Self { name, signature: Signature::any(1, volatility), bytes_max }
    }
}

impl ScalarUDFImpl for Fitting {
    fn name(&self) -> &'static str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[ArrowType]) -> Result<ArrowType> {
        types.first().map_or_else(|| exec_err!("{} takes an argument", self.name), |of| Ok(of.clone()))
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs) -> Result<FieldRef> {
        let first = arguments.arg_fields.first();
        first.map_or_else(|| exec_err!("{} takes an argument", self.name), |of| Ok(Arc::clone(of)))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let (rows, most) = (arguments.number_rows, self.bytes_max);
        let Some(argument) = arguments.args.into_iter().next() else {
            return exec_err!("{} takes an argument", self.name);
        };
        let all: u64 = match &argument {
            ColumnarValue::Array(array) => lengths(array).into_iter().sum(),
            ColumnarValue::Scalar(value) => (bytes(value) as u64).saturating_mul(rows as u64),
        };
        if all > most {
            let message = format!("texts of {all} bytes in {rows} rows, more than {most} at a time");
            return Err(external(Class::LimitExceeded.error(message)));
        }
        Ok(argument)
    }
}
