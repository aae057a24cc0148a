//! Rows of another engine as values of row tables.

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Float64Array, Int64Array,
    RecordBatch, StringViewArray, TimestampMicrosecondArray,
};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Field, Float64Type, Int64Type, TimeUnit, TimestampMicrosecondType,
    TimestampNanosecondType,
};
use datafusion::common::{Result, exec_datafusion_err, exec_err, plan_err};
use thermocline_transactions::types::{DataType as RowType, Decimal, Value};

/// The kind of values that an Arrow type becomes; `None` where a row table has no such values.
fn kind(arrow: &DataType) -> Option<RowType> {
    Some(match arrow {
        DataType::Null | DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => RowType::Text,
        DataType::Dictionary(_, values) => return kind(values),
        DataType::Boolean => RowType::Boolean,
        arrow if arrow.is_integer() => RowType::BigInt,
        DataType::Float16 | DataType::Float32 | DataType::Float64 => RowType::Double,
        DataType::Decimal32(..) | DataType::Decimal64(..) | DataType::Decimal128(..) | DataType::Decimal256(..) => {
            RowType::Numeric
        }
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
            RowType::Bytea
        }
        DataType::Date32 => RowType::Date,
        DataType::Timestamp(_, None) => RowType::Timestamp,
        _ => return None,
    })
}

/// An error unless values of a column of a query may be stored in a column of a table.
pub fn check_assignment(from: &Field, table: &str, column: &str, to: RowType) -> Result<()> {
    let (name, arrow) = (from.name(), from.data_type());
    match kind(arrow) {
        _ if *arrow == DataType::Null => Ok(()),
        Some(kind) if kind.assigns_to(to) => Ok(()),
        Some(_) => plan_err!(
            "column \"{column}\" of table \"{table}\" is of type {to}, but \"{name}\" of the query is {arrow}: \
             write a CAST"
        ),
        None => plan_err!(
            "\"{name}\" of the query is {arrow}, of which no row table has values (column \"{column}\" of table \
             \"{table}\" is {to}): write a CAST"
        ),
    }
}

/// A batch of another engine's rows, ready to be taken row by row.
pub struct Source {
    columns: Vec<Values>,
}

enum Values {
    Null,
    Boolean(BooleanArray),
    Int(Int64Array),
    Float(Float64Array),
    Decimal(Decimal128Array, u8),
    Text(StringViewArray),
    Bytes(BinaryArray),
    Date(Date32Array),
    Timestamp(TimestampMicrosecondArray),
}

impl Source {
    /// The values of a batch.
    ///
    /// # Errors
    /// If one of them cannot be held exactly; the error names its column.
    pub fn new(batch: &RecordBatch) -> Result<Self> {
        let schema = batch.schema();
        let columns = schema.fields().iter().zip(batch.columns()).map(|(field, array)| {
            Values::new(array).map_err(|error| error.context(format!("\"{}\" of the query", field.name())))
        });
        Ok(Self { columns: columns.collect::<Result<_>>()? })
    }

    /// The values of one row.
    ///
    /// # Errors
    /// If a decimal has more than 38 digits.
    pub fn row(&self, row: usize) -> Result<Vec<Value>> {
        self.columns.iter().map(|column| column.value(row)).collect()
    }
}

impl Values {
    fn new(array: &ArrayRef) -> Result<Self> {
        let options = CastOptions { safe: false, ..CastOptions::default() };
        let to = |data_type: &DataType| cast_with_options(array, data_type, &options);
        let Some(kind) = kind(array.data_type()) else {
            return exec_err!("{} is no type of row tables", array.data_type());
        };
        if *array.data_type() == DataType::Null {
            return Ok(Self::Null);
        }
        Ok(match kind {
            RowType::Boolean => Self::Boolean(to(&DataType::Boolean)?.as_boolean().clone()),
            RowType::BigInt => Self::Int(to(&DataType::Int64)?.as_primitive::<Int64Type>().clone()),
            RowType::Double => Self::Float(to(&DataType::Float64)?.as_primitive::<Float64Type>().clone()),
            RowType::Numeric => {
                let scale = match array.data_type() {
                    DataType::Decimal32(_, scale)
                    | DataType::Decimal64(_, scale)
                    | DataType::Decimal128(_, scale)
                    | DataType::Decimal256(_, scale) => u8::try_from(*scale).unwrap_or(0),
                    _ => 0,
                };
                let array = to(&DataType::Decimal128(38, scale.cast_signed()))?;
                Self::Decimal(array.as_primitive::<Decimal128Type>().clone(), scale)
            }
            RowType::Bytea => Self::Bytes(to(&DataType::Binary)?.as_binary::<i32>().clone()),
            RowType::Date => Self::Date(to(&DataType::Date32)?.as_primitive::<Date32Type>().clone()),
            RowType::Timestamp => {
                whole_microseconds(array)?;
                let array = to(&DataType::Timestamp(TimeUnit::Microsecond, None))?;
                Self::Timestamp(array.as_primitive::<TimestampMicrosecondType>().clone())
            }
            _ => Self::Text(to(&DataType::Utf8View)?.as_string_view().clone()),
        })
    }

    fn value(&self, row: usize) -> Result<Value> {
        let array: &dyn Array = match self {
            Self::Null => return Ok(Value::Null),
            Self::Boolean(array) => array,
            Self::Int(array) => array,
            Self::Float(array) => array,
            Self::Decimal(array, _) => array,
            Self::Text(array) => array,
            Self::Bytes(array) => array,
            Self::Date(array) => array,
            Self::Timestamp(array) => array,
        };
        if array.is_null(row) {
            return Ok(Value::Null);
        }
        Ok(match self {
            Self::Null => Value::Null,
            Self::Boolean(array) => Value::Boolean(array.value(row)),
            Self::Int(array) => Value::Int(array.value(row)),
            Self::Float(array) => Value::Float(array.value(row)),
            Self::Decimal(array, scale) => Value::Decimal(
                Decimal::new(array.value(row), *scale)
                    .map_err(|error| exec_datafusion_err!("a decimal of the query: {error}"))?,
            ),
            Self::Text(array) => Value::Text(array.value(row).into()),
            Self::Bytes(array) => Value::Bytes(array.value(row).into()),
            Self::Date(array) => Value::Date(array.value(row)),
            Self::Timestamp(array) => Value::Timestamp(array.value(row)),
        })
    }
}

/// An error if a time is finer than row tables hold.
fn whole_microseconds(array: &ArrayRef) -> Result<()> {
    if let DataType::Timestamp(TimeUnit::Nanosecond, _) = array.data_type() {
        let array = array.as_primitive::<TimestampNanosecondType>();
        if array.iter().flatten().any(|nanoseconds| nanoseconds % 1000 != 0) {
            return exec_err!(
                "a time finer than a microsecond, which a TIMESTAMP does not hold: round it with \
                 date_trunc('microsecond', ...)"
            );
        }
    }
    Ok(())
}
