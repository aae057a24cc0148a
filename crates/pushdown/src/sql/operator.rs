//! Operators that are not Arrow's.

use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{ArrayRef, AsArray, Datum};
use datafusion::arrow::compute::kernels::numeric;
use datafusion::arrow::datatypes::{
    ArrowPrimitiveType, DataType as ArrowType, Field, FieldRef, Float32Type, Float64Type,
};
use datafusion::common::{Result, ScalarValue, exec_err, plan_err};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use thermocline_types::Operator;

use super::characters::character_functions;
use super::column::{Column, array_of};
use super::interval::interval_function;
use super::json::json_functions;
use super::types::{arrow_type, sql_type};
use super::{cast, external};

/// Operators with a function here, and its name.
const OPERATORS: [(Operator, &str); 7] = [
    (Operator::Add, "sql_add"),
    (Operator::Subtract, "sql_subtract"),
    (Operator::Multiply, "sql_multiply"),
    (Operator::Divide, "sql_divide"),
    (Operator::Remainder, "sql_remainder"),
    (Operator::Power, "sql_raise"),
    (Operator::Concatenate, "sql_concatenate"),
];

static FUNCTIONS: LazyLock<Vec<Arc<ScalarUDF>>> = LazyLock::new(|| {
    let of = |(operator, name)| {
        Arc::new(ScalarUDF::from(SqlOperator { operator, name, signature: Signature::any(2, Volatility::Immutable) }))
    };
    OPERATORS
        .map(of)
        .into_iter()
        .chain([cast::cast_function(), interval_function()].map(Arc::clone))
        .chain(json_functions().map(Arc::clone))
        .chain(character_functions().iter().cloned())
        .collect()
});

/// The functions that stand for operators and casts, and those by which intervals and documents are compared and bytes
/// searched.
pub(crate) fn operator_functions() -> &'static [Arc<ScalarUDF>] {
    &FUNCTIONS
}

/// `left operator right` by SQL's rules, of operands that have got the types that [`Operator::resolve`] says.
///
/// # Errors
/// If no function is for the operator.
pub fn operate(operator: Operator, left: Expr, right: Expr) -> Result<Expr> {
    let place = OPERATORS.iter().position(|(known, _)| *known == operator);
    match place.and_then(|place| FUNCTIONS.get(place)) {
        Some(function) => Ok(Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(function), vec![left, right]))),
        None => plan_err!("no function for {}", operator.symbol()),
    }
}

/// An operator. Columns and EXPLAIN show it as it is written.
#[derive(Debug, PartialEq, Eq, Hash)]
struct SqlOperator {
    operator: Operator,
    name: &'static str,
    signature: Signature,
}

impl SqlOperator {
    fn written(&self, arguments: &[Expr], name: impl Fn(&Expr) -> String) -> Result<String> {
        match arguments {
            [left, right] => {
                // What is computed itself is in parentheses, so that no two expressions have one name.
                let side = |side: &Expr| match side {
                    Expr::BinaryExpr(_) | Expr::ScalarFunction(_) => format!("({})", name(side)),
                    side => name(side),
                };
                Ok(format!("{} {} {}", side(left), self.operator.symbol(), side(right)))
            }
            arguments => exec_err!("{} takes two arguments, not {}", self.name, arguments.len()),
        }
    }
}

impl SqlOperator {
    /// Arrow's result of floats of one type, if it shows no trace of an error; `None` if the rows have to be looked at.
    fn floats(&self, left: &ColumnarValue, right: &ColumnarValue) -> Result<Option<ArrayRef>> {
        let of = left.data_type();
        let is_float = matches!(of, ArrowType::Float32 | ArrowType::Float64) && right.data_type() == of;
        let is_one = |value: &ColumnarValue| matches!(value, ColumnarValue::Scalar(_));
        if !is_float || (is_one(left) && is_one(right)) {
            return Ok(None);
        }
        let kernel = match self.operator {
            Operator::Add => numeric::add,
            Operator::Subtract => numeric::sub,
            Operator::Multiply => numeric::mul,
            Operator::Divide => numeric::div,
            _ => return Ok(None),
        };
        let datum = |value: &ColumnarValue| -> Result<Box<dyn Datum>> {
            Ok(match value {
                ColumnarValue::Array(array) => Box::new(Arc::clone(array)),
                ColumnarValue::Scalar(value) => Box::new(value.to_scalar()?),
            })
        };
        let array = kernel(datum(left)?.as_ref(), datum(right)?.as_ref())?;
        let is_suspect = match of {
            ArrowType::Float32 => self.has_suspects::<Float32Type>(&array, f32::is_infinite, f32::is_normal),
            _ => self.has_suspects::<Float64Type>(&array, f64::is_infinite, f64::is_normal),
        };
        Ok((!is_suspect).then_some(array))
    }

    /// Whether results may be errors of SQL's.
    fn has_suspects<T: ArrowPrimitiveType>(
        &self,
        results: &ArrayRef,
        is_infinite: fn(T::Native) -> bool,
        is_normal: fn(T::Native) -> bool,
    ) -> bool {
        let mut values = results.as_primitive::<T>().iter().flatten();
        match self.operator {
            Operator::Add | Operator::Subtract => values.any(is_infinite),
            _ => values.any(|value| !is_normal(value)),
        }
    }
}

impl ScalarUDFImpl for SqlOperator {
    fn name(&self) -> &str {
        self.name
    }

    fn display_name(&self, arguments: &[Expr]) -> Result<String> {
        self.written(arguments, Expr::to_string)
    }

    fn schema_name(&self, arguments: &[Expr]) -> Result<String> {
        self.written(arguments, |argument| argument.schema_name().to_string())
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[ArrowType]) -> Result<ArrowType> {
        let [left, right] = arguments else {
            return exec_err!("{} takes two arguments, not {}", self.name, arguments.len());
        };
        let resolved = self.operator.resolve(sql_type(left), sql_type(right)).map_err(external)?;
        match arrow_type(resolved.result) {
            Some(of) => Ok(of),
            None => exec_err!("{} gives no {}", self.name, resolved.result),
        }
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs) -> Result<FieldRef> {
        let types: Vec<ArrowType> = arguments.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        let nullable = arguments.arg_fields.iter().any(|field| field.is_nullable());
        Ok(Arc::new(Field::new(self.name, self.return_type(&types)?, nullable)))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [left, right] = arguments.args.as_slice() else {
            return exec_err!("{} takes two arguments, not {}", self.name, arguments.args.len());
        };
        if let Some(array) = self.floats(left, right)? {
            return Ok(ColumnarValue::Array(array));
        }
        let is_scalar = |value: &ColumnarValue| matches!(value, ColumnarValue::Scalar(_));
        let rows = if is_scalar(left) && is_scalar(right) { 1 } else { arguments.number_rows };
        let side = |value: &ColumnarValue| match value {
            ColumnarValue::Array(array) => Ok((Column::new(array)?, false)),
            ColumnarValue::Scalar(value) => {
                Ok::<_, datafusion::common::DataFusionError>((Column::new(&value.to_array()?)?, true))
            }
        };
        let ((left, is_one), (right, is_other)) = (side(left)?, side(right)?);
        let array = array_of(arguments.return_field.data_type(), rows, |row| {
            let left = left.value(if is_one { 0 } else { row })?;
            let right = right.value(if is_other { 0 } else { row })?;
            self.operator.apply(left, right).map_err(external)
        })?;
        Ok(match is_one && is_other {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&array, 0)?),
            false => ColumnarValue::Array(array),
        })
    }
}
