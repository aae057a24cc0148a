//! Arithmetic on integers and decimals that errs where DataFusion's wraps around.

use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{ArrayRef, AsArray, Datum, new_empty_array};
use datafusion::arrow::compute::kernels::numeric;
use datafusion::arrow::datatypes::{DECIMAL128_MAX_PRECISION, DataType, Decimal128Type, Field, FieldRef};
use datafusion::arrow::error::ArrowError;
use datafusion::common::{DataFusionError, Result, ScalarValue, exec_err};
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, Operator, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Volatility,
};

use crate::sql::{external, sql_type};

/// Name of the function that adds.
pub(crate) const CHECKED_ADD: &str = "checked_add";
/// Name of the function that subtracts.
pub(crate) const CHECKED_SUBTRACT: &str = "checked_subtract";
/// Name of the function that multiplies.
pub(crate) const CHECKED_MULTIPLY: &str = "checked_multiply";
/// Name of the function that divides.
pub(crate) const CHECKED_DIVIDE: &str = "checked_divide";
/// Name of the function of remainders.
pub(crate) const CHECKED_REMAINDER: &str = "checked_remainder";

/// The first integer of more digits than a decimal has.
const LIMIT: u128 = 10_u128.pow(DECIMAL128_MAX_PRECISION as u32);

/// `+ - * / %` of two integers of one type, or of two decimals. A result that its type does not hold is an error.
static FUNCTIONS: LazyLock<[Arc<ScalarUDF>; 5]> = LazyLock::new(|| {
    [Operation::Add, Operation::Subtract, Operation::Multiply, Operation::Divide, Operation::Remainder]
        .map(|operation| Arc::new(ScalarUDF::from(CheckedArithmetic::new(operation))))
});

/// All functions that stand for operators.
pub(crate) fn arithmetic_functions() -> &'static [Arc<ScalarUDF>] {
    FUNCTIONS.as_slice()
}

/// The function that stands for the operator over integers or decimals; `None` for an operator that is not arithmetic.
pub fn checked(operator: Operator) -> Option<&'static Arc<ScalarUDF>> {
    let [add, subtract, multiply, divide, remainder] = &*FUNCTIONS;
    match operator {
        Operator::Plus => Some(add),
        Operator::Minus => Some(subtract),
        Operator::Multiply => Some(multiply),
        Operator::Divide => Some(divide),
        Operator::Modulo => Some(remainder),
        _ => None,
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Operation {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

impl Operation {
    fn operator(self) -> Operator {
        match self {
            Self::Add => Operator::Plus,
            Self::Subtract => Operator::Minus,
            Self::Multiply => Operator::Multiply,
            Self::Divide => Operator::Divide,
            Self::Remainder => Operator::Modulo,
        }
    }

    fn of(self, left: &dyn Datum, right: &dyn Datum) -> Result<ColumnarValue> {
        let result = match self {
            Self::Add => numeric::add(left, right),
            Self::Subtract => numeric::sub(left, right),
            Self::Multiply => numeric::mul(left, right),
            Self::Divide => numeric::div(left, right),
            Self::Remainder => numeric::rem(left, right),
        };
        match result {
            Ok(array) => within_digits(array).map(ColumnarValue::Array),
            Err(ArrowError::ArithmeticOverflow(what)) => {
                // Arrow says `Overflow happened on: 2147483647 + 1`.
                let (_, terms) = what.split_once(": ").unwrap_or(("", &what));
                let of = left.get().0.data_type();
                let of = sql_type(of).map_or_else(|| of.to_string(), |of| of.to_string());
                Err(out_of_range(&format!("number out of range for {of}: {terms}")))
            }
            Err(ArrowError::DivideByZero) => Err(external(thermocline_types::division_by_zero())),
            Err(error) => Err(DataFusionError::from(error)),
        }
    }
}

/// The array, if none of its values is a decimal of more than 38 digits, which Arrow's kernels do not notice.
fn within_digits(array: ArrayRef) -> Result<ArrayRef> {
    if matches!(array.data_type(), DataType::Decimal128(DECIMAL128_MAX_PRECISION, _)) {
        let values = array.as_primitive::<Decimal128Type>();
        if values.iter().flatten().any(|units| units.unsigned_abs() >= LIMIT) {
            return Err(out_of_range("numeric field overflow: more than 38 digits"));
        }
    }
    Ok(array)
}

fn out_of_range(message: &str) -> DataFusionError {
    external(thermocline_types::Class::OutOfRange.error(message))
}

/// One of the [`FUNCTIONS`]. Columns and EXPLAIN show it as its operator.
#[derive(Debug, PartialEq, Eq, Hash)]
struct CheckedArithmetic {
    operation: Operation,
    signature: Signature,
}

impl CheckedArithmetic {
    fn new(operation: Operation) -> Self {
        Self { operation, signature: Signature::any(2, Volatility::Immutable) }
    }

    /// The operator that the function stands for, applied to its arguments; those among them that stand for operators,
    /// too, become these at once. Every operator of a chain is asked for its name, which has that of all before it.
    fn written(&self, arguments: &[Expr]) -> Result<Expr> {
        let plain = |argument: &Expr| match argument {
            Expr::ScalarFunction(inner) => match inner.func.inner().downcast_ref::<Self>() {
                Some(function) => function.written(&inner.args),
                None => Ok(argument.clone()),
            },
            argument => Ok(argument.clone()),
        };
        match arguments {
            [left, right] => Ok(Expr::BinaryExpr(BinaryExpr::new(
                Box::new(plain(left)?),
                self.operation.operator(),
                Box::new(plain(right)?),
            ))),
            arguments => exec_err!("{} takes two arguments, not {}", self.name(), arguments.len()),
        }
    }
}

impl ScalarUDFImpl for CheckedArithmetic {
    fn name(&self) -> &str {
        match self.operation {
            Operation::Add => CHECKED_ADD,
            Operation::Subtract => CHECKED_SUBTRACT,
            Operation::Multiply => CHECKED_MULTIPLY,
            Operation::Divide => CHECKED_DIVIDE,
            Operation::Remainder => CHECKED_REMAINDER,
        }
    }

    fn display_name(&self, arguments: &[Expr]) -> Result<String> {
        Ok(self.written(arguments)?.to_string())
    }

    fn schema_name(&self, arguments: &[Expr]) -> Result<String> {
        Ok(self.written(arguments)?.schema_name().to_string())
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        match arguments {
            [left, right] if left == right && left.is_integer() => Ok(left.clone()),
            [left @ DataType::Decimal128(..), right @ DataType::Decimal128(..)] => {
                let ColumnarValue::Array(result) =
                    self.operation.of(&new_empty_array(left), &new_empty_array(right))?
                else {
                    return exec_err!("{} of two columns is no column", self.name());
                };
                Ok(result.data_type().clone())
            }
            arguments => exec_err!("{} takes two integers of one type or two decimals, not {arguments:?}", self.name()),
        }
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs) -> Result<FieldRef> {
        let types: Vec<DataType> = arguments.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        let nullable = arguments.arg_fields.iter().any(|field| field.is_nullable());
        Ok(Arc::new(Field::new(self.name(), self.return_type(&types)?, nullable)))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let operation = self.operation;
        match arguments.args.as_slice() {
            [ColumnarValue::Array(left), ColumnarValue::Array(right)] => operation.of(left, right),
            [ColumnarValue::Array(left), ColumnarValue::Scalar(right)] => operation.of(left, &right.to_scalar()?),
            [ColumnarValue::Scalar(left), ColumnarValue::Array(right)] => operation.of(&left.to_scalar()?, right),
            [ColumnarValue::Scalar(left), ColumnarValue::Scalar(right)] => {
                let ColumnarValue::Array(one) = operation.of(&left.to_array()?, &right.to_array()?)? else {
                    return exec_err!("{} of two values is no array", self.name());
                };
                Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&one, 0)?))
            }
            arguments => exec_err!("{} takes two arguments, not {}", self.name(), arguments.len()),
        }
    }
}
