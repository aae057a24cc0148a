//! Size limits of functions whose results may be much larger than their arguments.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::{cast, concat};
use arrow::datatypes::{DataType as ArrowType, FieldRef, Int64Type, IntervalMonthDayNanoType, IntervalUnit, TimeUnit};
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::FunctionRegistry;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};
use datafusion::prelude::SessionContext;
use thermocline_pushdown::external;
use thermocline_types::Class;

/// Limit on bytes of a text that a function returns, in either engine.
const TEXT_BYTES_MAX: u64 = 16 << 20;
/// Limit on bytes of results for one batch of rows. Their memory is allocated without asking the memory pool.
pub(super) const BATCH_BYTES_MAX: u64 = 1 << 30;
/// Upper bound on estimated result bytes of rows that are computed together.
const SLICE_BYTES: u64 = 128 << 20;
/// Estimated bytes of a list element.
const ELEMENT_BYTES: u64 = 16;
/// Estimated bytes of a list element as text.
const SMALL_ELEMENT_BYTES: u64 = 4;
/// Largest size of a character, in bytes.
const CHARACTER_BYTES: u64 = 4;

/// Rule for the size of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Growth {
    /// The first argument, repeated as often as the second says.
    Repeated,
    /// As many characters as the second argument says.
    Padded,
    /// The first argument with occurrences of the second replaced by the third.
    Replaced,
    /// [`Self::Replaced`] with a pattern as the second argument.
    ReplacedByPattern,
    /// The concatenated arguments.
    Joined,
    /// Elements of a list, separated by the second argument.
    JoinedList,
    /// A list of the first argument, repeated as often as the second says.
    RepeatedElement,
    /// A list with as many elements as the second argument says.
    ResizedList,
    /// A list from the first to the second argument, in steps of the third.
    Series,
}

const GROWING: [(&str, Growth); 14] = [
    ("repeat", Growth::Repeated),
    ("lpad", Growth::Padded),
    ("rpad", Growth::Padded),
    ("replace", Growth::Replaced),
    ("regexp_replace", Growth::ReplacedByPattern),
    ("concat", Growth::Joined),
    ("concat_ws", Growth::Joined),
    ("array_to_string", Growth::JoinedList),
    ("array_repeat", Growth::RepeatedElement),
    ("array_resize", Growth::ResizedList),
    ("range", Growth::Series),
    ("generate_series", Growth::Series),
    ("overlay", Growth::Joined),
    ("translate", Growth::Joined),
];

/// Replaces DataFusion's functions by limited ones.
///
/// # Errors
/// If DataFusion lacks one of the functions.
pub fn register_growing_functions(context: &SessionContext) -> Result<()> {
    for (name, growth) in GROWING {
        context.register_udf(ScalarUDF::from(Growing { of: context.udf(name)?, growth }));
    }
    Ok(())
}

/// A function with limited results. DataFusion's allocates memory for any size, and ends the process if there is not
/// enough.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Growing {
    of: Arc<ScalarUDF>,
    growth: Growth,
}

impl ScalarUDFImpl for Growing {
    fn name(&self) -> &str {
        self.of.name()
    }

    fn aliases(&self) -> &[String] {
        self.of.aliases()
    }

    fn signature(&self) -> &Signature {
        self.of.signature()
    }

    fn return_type(&self, types: &[ArrowType]) -> Result<ArrowType> {
        self.of.return_type(types)
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs) -> Result<FieldRef> {
        self.of.return_field_from_args(arguments)
    }

    fn coerce_types(&self, types: &[ArrowType]) -> Result<Vec<ArrowType>> {
        self.of.coerce_types(types)
    }

    fn simplify(&self, arguments: Vec<Expr>, context: &SimplifyContext) -> Result<ExprSimplifyResult> {
        Ok(match self.of.simplify(arguments, context)? {
            // DataFusion has simplified the call to its own function with fewer arguments.
            ExprSimplifyResult::Simplified(Expr::ScalarFunction(call)) if call.func.name() == self.of.name() => {
                let limited = Arc::new(ScalarUDF::from(Self { of: Arc::clone(&self.of), growth: self.growth }));
                ExprSimplifyResult::Simplified(Expr::ScalarFunction(ScalarFunction::new_udf(limited, call.args)))
            }
            other => other,
        })
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let are_constant = arguments.args.iter().all(|argument| matches!(argument, ColumnarValue::Scalar(_)));
        let rows = if are_constant { 1 } else { arguments.number_rows };
        let sizes = Sizes::of(self.growth, &arguments.args)?;
        let mut slices = vec![];
        let (mut start, mut together, mut all) = (0, 0_u64, 0_u64);
        for row in 0..rows {
            let bytes = sizes.bytes(row).unwrap_or_default();
            if self.growth.is_exact() && bytes > TEXT_BYTES_MAX {
                return Err(self.refused(format_args!("a text of more than {TEXT_BYTES_MAX} bytes")));
            }
            if bytes > BATCH_BYTES_MAX {
                return Err(self.refused(format_args!("a result that may have {bytes} bytes")));
            }
            if together > 0 && together + bytes > SLICE_BYTES {
                slices.push((start, row - start));
                (start, together) = (row, 0);
            }
            together += bytes;
            all += bytes;
        }
        if slices.is_empty() {
            return self.of.invoke_with_args(arguments);
        }
        if self.growth.is_exact() && all > BATCH_BYTES_MAX {
            return Err(self.refused(format_args!("{all} bytes of {rows} rows")));
        }
        slices.push((start, rows - start));
        self.sliced(&arguments, &slices)
    }
}

impl Growing {
    /// Computes the results slice by slice.
    fn sliced(&self, arguments: &ScalarFunctionArgs, slices: &[(usize, usize)]) -> Result<ColumnarValue> {
        let mut results: Vec<ArrayRef> = vec![];
        let mut bytes = 0_u64;
        for (start, length) in slices.iter().copied() {
            let slice = |argument: &ColumnarValue| match argument {
                ColumnarValue::Array(array) => ColumnarValue::Array(array.slice(start, length)),
                constant @ ColumnarValue::Scalar(_) => constant.clone(),
            };
            let part = ScalarFunctionArgs {
                args: arguments.args.iter().map(slice).collect(),
                number_rows: length,
                ..arguments.clone()
            };
            let result = self.of.invoke_with_args(part)?.into_array(length)?;
            bytes += result.get_array_memory_size() as u64;
            if bytes > BATCH_BYTES_MAX {
                let rows = arguments.number_rows;
                return Err(self.refused(format_args!("more than {BATCH_BYTES_MAX} bytes of {rows} rows")));
            }
            results.push(result);
        }
        let results: Vec<&dyn Array> = results.iter().map(AsRef::as_ref).collect();
        Ok(ColumnarValue::Array(concat(&results)?))
    }

    fn refused(&self, what: std::fmt::Arguments<'_>) -> DataFusionError {
        external(Class::LimitExceeded.error(format_args!("{}: {what}", self.of.name().trim_start_matches("sql_"))))
    }
}

impl Growth {
    /// Whether the estimates for texts are exact, except for the bytes of a character.
    const fn is_exact(self) -> bool {
        matches!(self, Self::Repeated | Self::Padded)
    }
}

/// Estimated sizes of results, by row.
struct Sizes {
    growth: Growth,
    arguments: Vec<Argument>,
}

enum Argument {
    /// Bytes of each value.
    Lengths(Vec<u64>),
    /// Numbers, or bounds and steps of series in a common unit.
    Numbers(Vec<Option<i64>>),
    Other,
}

impl Argument {
    /// The length for a row, or the single one for all rows.
    fn length(&self, row: usize) -> Option<u64> {
        let Self::Lengths(lengths) = self else { return None };
        lengths.get(row).or(lengths.first().filter(|_| lengths.len() == 1)).copied()
    }

    fn number(&self, row: usize) -> Option<i64> {
        let Self::Numbers(numbers) = self else { return None };
        numbers.get(row).or(numbers.first().filter(|_| numbers.len() == 1)).copied().flatten()
    }
}

impl Sizes {
    fn of(growth: Growth, arguments: &[ColumnarValue]) -> Result<Self> {
        let mut known = vec![];
        for (position, argument) in arguments.iter().enumerate() {
            let array = match argument {
                ColumnarValue::Array(array) => Arc::clone(array),
                ColumnarValue::Scalar(scalar) => scalar.to_array()?,
            };
            let is_number = match growth {
                Growth::Series => true,
                Growth::Repeated | Growth::Padded | Growth::RepeatedElement | Growth::ResizedList => position == 1,
                _ => false,
            };
            known.push(if is_number { numbers(&array)? } else { Argument::Lengths(lengths(&array)) });
        }
        Ok(Self { growth, arguments: known })
    }

    fn length(&self, argument: usize, row: usize) -> u64 {
        self.arguments.get(argument).and_then(|argument| argument.length(row)).unwrap_or_default()
    }

    fn number(&self, argument: usize, row: usize) -> Option<i64> {
        self.arguments.get(argument).and_then(|argument| argument.number(row))
    }

    /// Upper bound on bytes of the result for one row; `None` for NULL.
    fn bytes(&self, row: usize) -> Option<u64> {
        let times = |position| Some(self.number(position, row)?.max(0).unsigned_abs());
        let (first, second) = (self.length(0, row), self.length(1, row));
        Some(match self.growth {
            Growth::Repeated => first.saturating_mul(times(1)?),
            Growth::Padded => times(1)?.saturating_mul(if self.length(2, row) > 1 { CHARACTER_BYTES } else { 1 }),
            Growth::Replaced => {
                let found = first.checked_div(second).unwrap_or_default();
                first.saturating_add(found.saturating_mul(self.length(2, row)))
            }
            Growth::ReplacedByPattern => {
                // Each match may be empty, and each reference in the replacement may insert the whole match.
                let replacement = self.length(2, row);
                first.saturating_add(1).saturating_mul(replacement.saturating_add(1)).saturating_add(first)
            }
            Growth::Joined => (0..self.arguments.len()).fold(0, |sum, at| sum.saturating_add(self.length(at, row))),
            Growth::JoinedList => {
                first.saturating_mul(2).saturating_add(first.saturating_mul(second) / SMALL_ELEMENT_BYTES)
            }
            Growth::RepeatedElement => times(1)?.saturating_mul(first.max(ELEMENT_BYTES)),
            Growth::ResizedList => {
                times(1)?.saturating_mul(self.length(2, row).max(ELEMENT_BYTES)).saturating_add(first)
            }
            Growth::Series => self.elements(row)?.saturating_mul(ELEMENT_BYTES),
        })
    }

    fn elements(&self, row: usize) -> Option<u64> {
        let (from, to) = match (self.number(0, row)?, self.number(1, row)) {
            (from, Some(to)) => (from, to),
            (to, None) if self.arguments.len() == 1 => (0, to),
            _ => return None,
        };
        let step = if self.arguments.len() < 3 { 1 } else { self.number(2, row)? };
        Some(from.abs_diff(to) / step.unsigned_abs().max(1) + 1)
    }
}

/// Bytes of each value; for types other than text, an equal share of the array.
pub(super) fn lengths(array: &ArrayRef) -> Vec<u64> {
    let of = |bytes: usize| bytes as u64;
    match array.data_type() {
        ArrowType::Utf8 => array.as_string::<i32>().iter().map(|text| of(text.map_or(0, str::len))).collect(),
        ArrowType::LargeUtf8 => array.as_string::<i64>().iter().map(|text| of(text.map_or(0, str::len))).collect(),
        ArrowType::Utf8View => array.as_string_view().iter().map(|text| of(text.map_or(0, str::len))).collect(),
        _ => {
            let each = array.get_array_memory_size() / array.len().max(1);
            vec![of(each); array.len()]
        }
    }
}

/// Numbers of each row. Dates, timestamps and intervals are in nanoseconds, with months at their shortest.
fn numbers(array: &ArrayRef) -> Result<Argument> {
    const SECOND: i64 = 1_000_000_000;
    const DAY: i64 = 86_400 * SECOND;
    let scaled = |unit: i64| -> Result<Argument> {
        let numbers = cast(array, &ArrowType::Int64)?;
        let numbers = numbers.as_primitive::<Int64Type>().iter();
        Ok(Argument::Numbers(numbers.map(|number| number.map(|number| number.saturating_mul(unit))).collect()))
    };
    match array.data_type() {
        ArrowType::Null => Ok(Argument::Numbers(vec![None; array.len()])),
        of if of.is_integer() => scaled(1),
        ArrowType::Date32 => scaled(DAY),
        ArrowType::Timestamp(unit, _) => scaled(match unit {
            TimeUnit::Second => SECOND,
            TimeUnit::Millisecond => 1_000_000,
            TimeUnit::Microsecond => 1000,
            TimeUnit::Nanosecond => 1,
        }),
        ArrowType::Interval(IntervalUnit::MonthDayNano) => {
            let steps = array.as_primitive::<IntervalMonthDayNanoType>().iter().map(|step| {
                step.map(|step| {
                    let days = i64::from(step.months) * 28 + i64::from(step.days);
                    days.saturating_mul(DAY).saturating_add(step.nanoseconds)
                })
            });
            Ok(Argument::Numbers(steps.collect()))
        }
        _ => Ok(Argument::Other),
    }
}
