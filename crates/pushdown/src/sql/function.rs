//! Functions that are not DataFusion's.

use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{Array, ArrayRef, AsArray, Float64Array};
use datafusion::arrow::compute::{DatePart, date_part};
use datafusion::arrow::datatypes::{
    DECIMAL128_MAX_PRECISION, DataType as ArrowType, Field as ArrowField, FieldRef, Float64Type, TimeUnit,
};
use datafusion::common::{Result, ScalarValue, exec_err, plan_err};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use thermocline_types::{DataType, Field, Function, Value, ValueRef, parse_text};

use super::column::{Column, array_of};
use super::external;
use super::types::{UTC, arrow_type, is_utc, sql_type};

/// Decimal digits of the integers of 64 bits, with and without a sign.
const BIGINT_DIGITS: u8 = 20;

/// Name of the function that is EXTRACT: the field as a literal, and what it is of.
pub const SQL_EXTRACT: &str = "sql_extract";

/// Computation of a function in a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Computed {
    Named(Function),
    /// `EXTRACT`: the first argument is the field.
    Extract,
    /// `date_part`: likewise.
    Part,
    /// `date_trunc`: likewise.
    Truncate,
}

/// All functions, with what SQL calls them.
static FUNCTIONS: LazyLock<Vec<(Arc<ScalarUDF>, &'static [&'static str])>> = LazyLock::new(|| {
    let named = Function::NAMED.iter().map(|(function, names)| (Computed::Named(*function), *names));
    let of_moments: [(Computed, &'static [&'static str]); 3] =
        [(Computed::Extract, &["extract"]), (Computed::Part, &["date_part"]), (Computed::Truncate, &["date_trunc"])];
    named
        .chain(of_moments)
        .map(|(computed, names)| {
            let written = names.first().copied().unwrap_or_default();
            let signature = Signature::variadic_any(Volatility::Immutable);
            let function = SqlFunction { computed, written, name: format!("sql_{written}"), signature };
            (Arc::new(ScalarUDF::from(function)), names)
        })
        .collect()
});

/// The functions under names of their own, by which plans refer to them.
pub(crate) fn sql_functions() -> impl Iterator<Item = &'static Arc<ScalarUDF>> {
    FUNCTIONS.iter().map(|(function, _)| function)
}

/// The functions under the names that SQL has for them, which DataFusion's may have, too.
pub fn written_functions() -> impl Iterator<Item = ScalarUDF> {
    FUNCTIONS.iter().map(|(function, names)| function.as_ref().clone().with_aliases(names.iter().copied()))
}

/// A call of a function that has a name.
///
/// # Errors
/// If it has none.
pub fn call_function(function: Function, arguments: Vec<Expr>) -> Result<Expr> {
    let place = Function::NAMED.iter().position(|(named, _)| *named == function);
    match place.and_then(|place| FUNCTIONS.get(place)) {
        Some((called, _)) => Ok(Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(called), arguments))),
        None => plan_err!("{function:?} has no name"),
    }
}

/// A function. Columns and EXPLAIN show it as it is written.
#[derive(Debug, PartialEq, Eq, Hash)]
struct SqlFunction {
    computed: Computed,
    written: &'static str,
    name: String,
    signature: Signature,
}

impl SqlFunction {
    fn shown(&self, arguments: &[Expr], name: impl Fn(&Expr) -> String) -> String {
        format!("{}({})", self.written, arguments.iter().map(name).collect::<Vec<_>>().join(","))
    }

    /// The function, and its arguments behind the field.
    fn function(&self, first: Option<&ScalarValue>) -> Result<(Function, usize)> {
        let field = || match first.map(ScalarValue::try_as_str) {
            Some(Some(Some(name))) => Field::named(name).map_err(external),
            _ => plan_err!("{}: the field has to be a literal", self.written),
        };
        Ok(match self.computed {
            Computed::Named(function) => (function, 0),
            Computed::Extract => (Function::Extract(field()?), 1),
            Computed::Part => (Function::Part(field()?), 1),
            Computed::Truncate => (Function::Truncate(field()?), 1),
        })
    }
}

impl ScalarUDFImpl for SqlFunction {
    fn name(&self) -> &str {
        &self.name
    }

    fn display_name(&self, arguments: &[Expr]) -> Result<String> {
        Ok(self.shown(arguments, Expr::to_string))
    }

    fn schema_name(&self, arguments: &[Expr]) -> Result<String> {
        Ok(self.shown(arguments, |argument| argument.schema_name().to_string()))
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[ArrowType]) -> Result<ArrowType> {
        exec_err!("{}: the type depends on the arguments", self.name)
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs) -> Result<FieldRef> {
        let (function, skipped) = self.function(arguments.scalar_arguments.first().copied().flatten())?;
        let fields = arguments.arg_fields.get(skipped..).unwrap_or_default();
        let expected = Function::named(self.written, fields.len());
        if matches!(self.computed, Computed::Named(_)) && expected != Some(function) {
            return plan_err!("{} does not take {} arguments", self.written, fields.len());
        }
        let mut types = vec![];
        for (position, field) in fields.iter().enumerate() {
            let is_literal = matches!(arguments.scalar_arguments.get(position + skipped), Some(Some(_)));
            types.push(match (field.data_type(), sql_type(field.data_type())) {
                (ArrowType::Null, _) => None,
                (ArrowType::Utf8, _) if is_literal => None,
                // As an operand.
                (ArrowType::Int64, _) if is_literal => Some(DataType::Integer),
                (_, Some(of)) => Some(of),
                (of, None) if !function.is_strict() => return plan_err!("{} does not take {of}", self.written),
                (of, None) => match widened(of) {
                    Some(of) => Some(of),
                    None => return plan_err!("{} does not take {of}", self.written),
                },
            });
        }
        let call = function.resolve(&types).map_err(external)?;
        let digits = match arguments.scalar_arguments.get(1) {
            Some(Some(ScalarValue::Int64(Some(digits)))) => Some(*digits),
            _ => None,
        };
        let result = column_type(function, call.result, digits, fields.iter().map(|field| field.data_type()));
        let nullable = function.is_strict() && fields.iter().any(|field| field.is_nullable()) || function.gives_null();
        Ok(Arc::new(ArrowField::new(&self.name, result, nullable)))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let first = match arguments.args.first() {
            Some(ColumnarValue::Scalar(value)) => Some(value),
            _ => None,
        };
        let (function, skipped) = self.function(first)?;
        let values = arguments.args.get(skipped..).unwrap_or_default();
        let to = arguments.return_field.data_type();
        if let ([ColumnarValue::Array(array)], ArrowType::Float64, ArrowType::Float64) =
            (values, values.first().map_or(ArrowType::Null, ColumnarValue::data_type), to)
        {
            let floats: Float64Array = array.as_primitive::<Float64Type>().try_unary(|value| {
                match function.call(&[ValueRef::Float(value)]) {
                    Ok(Value::Float(result)) => Ok(result),
                    Ok(other) => exec_err!("{} of a double gives {other}", self.written),
                    Err(error) => Err(external(error)),
                }
            })?;
            return Ok(ColumnarValue::Array(Arc::new(floats)));
        }
        if let (Function::Extract(field), [ColumnarValue::Array(array)]) = (function, values)
            && let Some(part) = arrow_part(field)
        {
            return Ok(ColumnarValue::Array(date_part(array, part)?));
        }
        let types: Vec<_> = values.iter().map(settled).collect();
        let call = function.resolve(&types).map_err(external)?;
        let sources = values.iter().zip(&call.arguments).map(|(value, to)| Argument::new(value, *to));
        let sources: Vec<Argument> = sources.collect::<Result<_>>()?;
        let is_one = values.iter().all(|value| matches!(value, ColumnarValue::Scalar(_)));
        let rows = if is_one { 1 } else { arguments.number_rows };
        let mut row_values: Vec<ValueRef<'_>> = Vec::with_capacity(sources.len());
        let array = array_of(to, rows, |row| {
            row_values.clear();
            for source in &sources {
                row_values.push(source.value(row)?);
            }
            call.function.call(&row_values).map_err(external)
        })?;
        Ok(match is_one {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&array, 0)?),
            false => ColumnarValue::Array(array),
        })
    }
}

/// Values of an argument.
enum Argument {
    One(Value),
    Column(Column),
}

impl Argument {
    /// The values of an argument that is taken for one of `to`: a literal text stands for a value of any type.
    fn new(of: &ColumnarValue, to: DataType) -> Result<Self> {
        let column = |array: &ArrayRef| Column::new(&in_64_bits(array)?);
        Ok(match of {
            ColumnarValue::Array(array) => Self::Column(column(array)?),
            ColumnarValue::Scalar(value) => Self::One(match column(&value.to_array()?)?.value(0)? {
                ValueRef::Text(text) if !to.is_text() => parse_text(text, to).map_err(external)?,
                value => value.to_value(),
            }),
        })
    }

    fn value(&self, row: usize) -> Result<ValueRef<'_>> {
        match self {
            Self::One(value) => Ok(value.as_ref()),
            Self::Column(column) => column.value(row),
        }
    }
}

/// The part that Arrow's kernel extracts as SQL does; `None` if it does not.
fn arrow_part(field: Field) -> Option<DatePart> {
    Some(match field {
        Field::Year => DatePart::Year,
        Field::Quarter => DatePart::Quarter,
        Field::Month => DatePart::Month,
        Field::Week => DatePart::Week,
        Field::Day => DatePart::Day,
        Field::Hour => DatePart::Hour,
        Field::Minute => DatePart::Minute,
        Field::DayOfWeek => DatePart::DayOfWeekSunday0,
        Field::DayOfYear => DatePart::DayOfYear,
        _ => return None,
    })
}

/// The type of an argument; `None` of a literal text or NULL.
fn settled(value: &ColumnarValue) -> Option<DataType> {
    match value {
        ColumnarValue::Scalar(ScalarValue::Utf8(_) | ScalarValue::Null) => None,
        ColumnarValue::Scalar(ScalarValue::Int64(Some(number))) if DataType::Integer.holds(*number) => {
            Some(DataType::Integer)
        }
        value => {
            let of = value.data_type();
            sql_type(&of).or_else(|| widened(&of))
        }
    }
}

/// SQL's type with room for values of a number's type that is not SQL's.
fn widened(of: &ArrowType) -> Option<DataType> {
    Some(match of {
        ArrowType::Int8 | ArrowType::UInt8 => DataType::SmallInt,
        ArrowType::UInt16 => DataType::Integer,
        ArrowType::UInt32 => DataType::BigInt,
        ArrowType::UInt64 => DataType::Decimal { precision: 20, scale: 0 },
        ArrowType::Float16 => DataType::Double,
        ArrowType::Timestamp(_, Some(zone)) if is_utc(zone) => DataType::TimestampTz,
        ArrowType::Date64 | ArrowType::Timestamp(_, _) => DataType::Timestamp,
        _ => return None,
    })
}

/// A column of one of SQL's types.
fn in_64_bits(array: &ArrayRef) -> Result<ArrayRef> {
    let to = match widened(array.data_type()) {
        _ if sql_type(array.data_type()).is_some() => return Ok(Arc::clone(array)),
        Some(DataType::SmallInt | DataType::Integer | DataType::BigInt) => ArrowType::Int64,
        Some(DataType::Double) => ArrowType::Float64,
        Some(DataType::Decimal { precision, scale }) => ArrowType::Decimal128(precision, scale.cast_signed()),
        Some(DataType::Timestamp) => ArrowType::Timestamp(TimeUnit::Microsecond, None),
        Some(DataType::TimestampTz) => ArrowType::Timestamp(TimeUnit::Microsecond, Some(UTC.into())),
        _ => return Ok(Arc::clone(array)),
    };
    Ok(datafusion::arrow::compute::cast(array, &to)?)
}

/// The type of a column of results. One of decimals has one scale; `digits` are those to which they are rounded, if that
/// is written.
fn column_type<'a>(
    function: Function,
    result: DataType,
    digits: Option<i64>,
    arguments: impl Iterator<Item = &'a ArrowType>,
) -> ArrowType {
    arrow_type(result).unwrap_or_else(|| {
        let (precision, scale) = decimal_size(function, digits, &arguments.map(size_of).collect::<Vec<_>>());
        ArrowType::Decimal128(precision.min(DECIMAL128_MAX_PRECISION), scale)
    })
}

/// Precision and scale of an argument.
fn size_of(argument: &ArrowType) -> (u8, i8) {
    match argument {
        ArrowType::Decimal128(precision, scale) => (*precision, *scale),
        _ => (BIGINT_DIGITS, 0),
    }
}

/// Precision and scale of a function's decimals.
fn decimal_size(function: Function, digits: Option<i64>, arguments: &[(u8, i8)]) -> (u8, i8) {
    let (precision, scale) = arguments.first().copied().unwrap_or((DECIMAL128_MAX_PRECISION, 0));
    match function {
        Function::Abs => (precision, scale),
        Function::Round | Function::Trunc if arguments.len() == 2 => {
            let kept = digits.map_or(scale, |digits| i8::try_from(digits.clamp(0, i64::from(scale))).unwrap_or(scale));
            (precision.saturating_sub((scale - kept).unsigned_abs()) + 1, kept)
        }
        Function::Ceiling | Function::Floor | Function::Round | Function::Trunc | Function::Sign => {
            (precision.saturating_sub(scale.unsigned_abs()) + 1, 0)
        }
        Function::Quotient => (DECIMAL128_MAX_PRECISION, 0),
        _ => (DECIMAL128_MAX_PRECISION, arguments.iter().map(|(_, scale)| *scale).max().unwrap_or(0)),
    }
}
