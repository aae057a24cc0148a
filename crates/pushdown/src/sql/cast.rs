//! Casts that are not Arrow's.

use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{Array, ArrayRef, AsArray, Float64Array};
use datafusion::arrow::compute::cast_with_options;
use datafusion::arrow::datatypes::{DataType as ArrowType, Decimal128Type, Field, FieldRef};
use datafusion::common::format::DEFAULT_CAST_OPTIONS;
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility, cast,
};
use thermocline_types::{self as types, DataType, Decimal};

use super::column::{Column, apply, array_of};
use super::external;
use super::json::{self, is_jsonb};
use super::types::{is_utc, sql_type};

/// Name of the function.
pub(crate) const SQL_CAST: &str = "sql_cast";

/// Integers up to this are doubles without rounding.
const EXACT_MAX: u128 = 1 << f64::MANTISSA_DIGITS;
/// So are powers of ten up to this one.
const EXACT_SCALE_MAX: u8 = 22;

/// Whether SQL casts values of a type in another way than Arrow, which cuts fractions, rounds decimals to doubles
/// twice, and reads and writes text in other forms.
///
/// A cast between a timestamp with a zone and one without is Arrow's, but moves values by the zone's offset, which
/// optimizer rules that compare with the other type do not see.
pub fn casts_otherwise(from: &ArrowType, to: &ArrowType) -> bool {
    if moves(from, to) {
        return true;
    }
    let (Some(from), Some(to)) = (sql_type(from), sql_type(to)) else { return false };
    match (from, to) {
        (from, to) if to.is_integer() && !from.is_integer() && from.is_number() => true,
        (DataType::Decimal { .. }, to) if to.is_float() => true,
        (from, DataType::Decimal { .. }) if from.is_float() => true,
        (DataType::Double, DataType::Real) => true,
        (DataType::Jsonb, to) | (to, DataType::Jsonb) => to != DataType::Jsonb,
        (DataType::Text, to) => !to.is_text(),
        (
            DataType::Real
            | DataType::Double
            | DataType::Timestamp
            | DataType::TimestampTz
            | DataType::Interval
            | DataType::Bytea
            | DataType::Uuid,
            DataType::Text,
        ) => true,
        _ => false,
    }
}

/// Whether a cast adds or subtracts the offset of a zone.
fn moves(from: &ArrowType, to: &ArrowType) -> bool {
    match (from, to) {
        (ArrowType::Timestamp(_, None), ArrowType::Timestamp(_, Some(zone)))
        | (ArrowType::Timestamp(_, Some(zone)), ArrowType::Timestamp(_, None)) => !is_utc(zone),
        _ => false,
    }
}

/// `CAST(value AS to)` by SQL's rules.
pub fn sql_cast(value: Expr, to: &ArrowType) -> Result<Expr> {
    if is_jsonb(to) {
        return Ok(json::parsed(value));
    }
    let of = Expr::Literal(ScalarValue::try_new_null(to)?, None);
    Ok(Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(&FUNCTION), vec![value, of])))
}

static FUNCTION: LazyLock<Arc<ScalarUDF>> =
    LazyLock::new(|| Arc::new(ScalarUDF::from(SqlCast { signature: Signature::any(2, Volatility::Immutable) })));

pub(super) fn cast_function() -> &'static Arc<ScalarUDF> {
    &FUNCTION
}

/// Casts its first argument to the type of its second one. Columns and EXPLAIN show it as a cast.
#[derive(Debug, PartialEq, Eq, Hash)]
struct SqlCast {
    signature: Signature,
}

impl SqlCast {
    fn written(arguments: &[Expr]) -> Result<Expr> {
        match arguments {
            [value, Expr::Literal(of, _)] => Ok(cast(value.clone(), of.data_type())),
            arguments => exec_err!("{SQL_CAST} takes a value and a NULL of a type, not {arguments:?}"),
        }
    }
}

impl ScalarUDFImpl for SqlCast {
    fn name(&self) -> &str {
        SQL_CAST
    }

    fn display_name(&self, arguments: &[Expr]) -> Result<String> {
        Ok(Self::written(arguments)?.to_string())
    }

    fn schema_name(&self, arguments: &[Expr]) -> Result<String> {
        Ok(Self::written(arguments)?.schema_name().to_string())
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[ArrowType]) -> Result<ArrowType> {
        match arguments {
            [_, to] => Ok(to.clone()),
            arguments => exec_err!("{SQL_CAST} takes two arguments, not {}", arguments.len()),
        }
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs) -> Result<FieldRef> {
        match arguments.arg_fields {
            [value, to] => Ok(Arc::new(Field::new(SQL_CAST, to.data_type().clone(), value.is_nullable()))),
            arguments => exec_err!("{SQL_CAST} takes two arguments, not {}", arguments.len()),
        }
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let to = arguments.return_field.data_type();
        match arguments.args.first() {
            Some(value) => apply(value, |array| converted(array, to)),
            None => exec_err!("{SQL_CAST} takes two arguments, not none"),
        }
    }
}

fn converted(array: &ArrayRef, to: &ArrowType) -> Result<ArrayRef> {
    if let (ArrowType::Decimal128(_, scale @ 0..), ArrowType::Float64) = (array.data_type(), to) {
        return Ok(Arc::new(as_doubles(array, scale.unsigned_abs())?));
    }
    if moves(array.data_type(), to) {
        return Ok(cast_with_options(array, to, &DEFAULT_CAST_OPTIONS)?);
    }
    let Some(of) = sql_type(to) else { return exec_err!("SQL has no type {to}") };
    let column = Column::new(array)?;
    array_of(to, array.len(), |row| types::cast(column.value(row)?, of).map_err(external))
}

/// The nearest doubles.
fn as_doubles(array: &ArrayRef, scale: u8) -> Result<Float64Array> {
    let decimals = array.as_primitive::<Decimal128Type>();
    let power = 10_f64.powi(scale.into());
    decimals.try_unary(|units| {
        #[expect(clippy::cast_precision_loss, reason = "it has no more bits than a double")]
        match units.unsigned_abs() <= EXACT_MAX && scale <= EXACT_SCALE_MAX {
            true => Ok(units as f64 / power),
            false => Decimal::new(units, scale).map(Decimal::to_f64).map_err(external),
        }
    })
}
