//! One JSON object per line. Unlike with Arrow's writer, decimals are exact numbers.
//!
//! | value | JSON |
//! |---|---|
//! | NULL | `null` |
//! | integers, decimals | numbers, all digits |
//! | floats | the shortest number that reads back the same; `"NaN"`, `"Infinity"`, `"-Infinity"` as PostgreSQL |
//! | booleans | `true`, `false` |
//! | lists; structs and maps | arrays; objects |
//! | JSON documents | as they are |
//! | everything else | strings, dates and times in ISO 8601, binary in hex |

use std::collections::HashSet;
use std::fmt::Write;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, FixedSizeListArray, GenericListArray, MapArray, OffsetSizeTrait, RecordBatch, StructArray,
};
use arrow::compute::cast;
use arrow::datatypes::{DataType, FieldRef, Fields, Float32Type, Float64Type, Schema};
use arrow::error::ArrowError;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use thermocline_pushdown::is_jsonb;

use thermocline_pushdown::with_sql_texts;

/// Appends a line per row; `schema` has the names of the columns.
///
/// # Errors
/// If a value has no text.
pub fn rows(schema: &Schema, batch: &RecordBatch, text: &mut String) -> Result<(), ArrowError> {
    let columns = batch.columns().iter().map(|array| materialised(array)).collect::<Result<Vec<_>, _>>()?;
    let columns = columns.iter().map(Values::new).collect::<Result<Vec<_>, _>>()?;
    let keys = keys(schema.fields());
    for row in 0..batch.num_rows() {
        object(&keys, &columns, row, text)?;
        text.push('\n');
    }
    Ok(())
}

/// Formatter of one column's values.
pub enum Values<'a> {
    /// Written unquoted: integers, decimals, booleans.
    Bare(&'a dyn Array, ArrayFormatter<'a>),
    /// Quoted.
    Text(&'a dyn Array, ArrayFormatter<'a>),
    Float32(&'a arrow::array::Float32Array),
    Float64(&'a arrow::array::Float64Array),
    List(&'a GenericListArray<i32>),
    LargeList(&'a GenericListArray<i64>),
    FixedSizeList(&'a FixedSizeListArray),
    Struct(&'a dyn Array, Vec<String>, Vec<Values<'a>>),
    Map(&'a MapArray),
}

impl<'a> Values<'a> {
    /// A formatter of an array of [`materialised`].
    ///
    /// # Errors
    /// If values of the type have no text.
    pub fn new(array: &'a ArrayRef) -> Result<Self, ArrowError> {
        let array = array.as_ref();
        let options = FormatOptions::new().with_display_error(false);
        Ok(match array.data_type() {
            DataType::Float32 => Self::Float32(array.as_primitive::<Float32Type>()),
            DataType::Float64 => Self::Float64(array.as_primitive::<Float64Type>()),
            DataType::List(_) => Self::List(array.as_list()),
            DataType::LargeList(_) => Self::LargeList(array.as_list()),
            DataType::FixedSizeList(..) => Self::FixedSizeList(array.as_fixed_size_list()),
            DataType::Map(..) => Self::Map(array.as_map()),
            // A document is written as its text.
            of if is_jsonb(of) => match array.as_struct().columns() {
                [texts] => Self::Bare(array, ArrayFormatter::try_new(texts.as_ref(), &options)?),
                _ => Self::Text(array, ArrayFormatter::try_new(array, &options)?),
            },
            DataType::Struct(fields) => {
                let values =
                    array.as_struct().columns().iter().map(Self::new).collect::<Result<Vec<_>, ArrowError>>()?;
                Self::Struct(array, keys(fields), values)
            }
            kind if kind.is_integer() || kind.is_decimal() || *kind == DataType::Boolean => {
                Self::Bare(array, ArrayFormatter::try_new(array, &options)?)
            }
            _ => Self::Text(array, ArrayFormatter::try_new(array, &options)?),
        })
    }

    fn is_null(&self, row: usize) -> bool {
        match self {
            Self::Bare(array, _) | Self::Text(array, _) | Self::Struct(array, ..) => {
                array.is_null(row) || *array.data_type() == DataType::Null
            }
            Self::Float32(array) => array.is_null(row),
            Self::Float64(array) => array.is_null(row),
            Self::List(array) => array.is_null(row),
            Self::LargeList(array) => array.is_null(row),
            Self::FixedSizeList(array) => array.is_null(row),
            Self::Map(array) => array.is_null(row),
        }
    }

    /// Appends the value of a row.
    ///
    /// # Errors
    /// If it has no text.
    pub fn write(&self, row: usize, text: &mut String) -> Result<(), ArrowError> {
        if self.is_null(row) {
            text.push_str("null");
            return Ok(());
        }
        let failed = |_| ArrowError::CastError("a value cannot be shown as text".to_owned());
        match self {
            Self::Bare(_, values) => write!(text, "{}", values.value(row)).map_err(failed)?,
            Self::Text(_, values) => {
                let value = values.value(row).try_to_string()?;
                string(&value, text);
            }
            Self::Float32(array) => {
                let value = array.value(row);
                float(f64::from(value), serde_json::to_string(&value), text);
            }
            Self::Float64(array) => float(array.value(row), serde_json::to_string(&array.value(row)), text),
            Self::List(array) => list(array, row, text)?,
            Self::LargeList(array) => list(array, row, text)?,
            Self::FixedSizeList(array) => elements(&array.value(row), text)?,
            Self::Struct(_, keys, values) => object(keys, values, row, text)?,
            Self::Map(array) => entries(&array.value(row), text)?,
        }
        Ok(())
    }
}

/// Unpacks dictionaries and run ends, and converts intervals and UUIDs to text, in a column and in its structs.
///
/// # Errors
/// If a value has no text.
pub fn materialised(array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    match array.data_type() {
        DataType::Dictionary(_, values) => cast(array, values),
        DataType::RunEndEncoded(_, values) => cast(array, values.data_type()),
        // A document is not converted.
        of if is_jsonb(of) => Ok(ArrayRef::clone(array)),
        DataType::Struct(fields) => {
            let record = array.as_struct();
            let columns = record.columns().iter().map(materialised).collect::<Result<Vec<_>, _>>()?;
            let field = |(field, column): (&FieldRef, &ArrayRef)| {
                field.as_ref().clone().with_data_type(column.data_type().clone())
            };
            let fields: Fields = fields.iter().zip(&columns).map(field).collect();
            let made = StructArray::try_new_with_length(fields, columns, record.nulls().cloned(), record.len())?;
            Ok(Arc::new(made))
        }
        _ => Ok(with_sql_texts(array)?),
    }
}

fn object(keys: &[String], values: &[Values<'_>], row: usize, text: &mut String) -> Result<(), ArrowError> {
    text.push('{');
    for (i, (key, value)) in keys.iter().zip(values).enumerate() {
        if i > 0 {
            text.push(',');
        }
        text.push_str(key);
        value.write(row, text)?;
    }
    text.push('}');
    Ok(())
}

fn list<O: OffsetSizeTrait>(array: &GenericListArray<O>, row: usize, text: &mut String) -> Result<(), ArrowError> {
    elements(&array.value(row), text)
}

fn elements(array: &ArrayRef, text: &mut String) -> Result<(), ArrowError> {
    let array = materialised(array)?;
    let values = Values::new(&array)?;
    text.push('[');
    for i in 0..array.len() {
        if i > 0 {
            text.push(',');
        }
        values.write(i, text)?;
    }
    text.push(']');
    Ok(())
}

/// The entries of a map, as an object.
fn entries(of: &StructArray, text: &mut String) -> Result<(), ArrowError> {
    let [keys, values] = of.columns() else {
        return Err(ArrowError::CastError("a map has keys and values".to_owned()));
    };
    let (keys, values) = (with_sql_texts(keys)?, materialised(values)?);
    let options = FormatOptions::new().with_display_error(false);
    let (keys, values) = (ArrayFormatter::try_new(keys.as_ref(), &options)?, Values::new(&values)?);
    text.push('{');
    for row in 0..of.len() {
        if row > 0 {
            text.push(',');
        }
        string(&keys.value(row).try_to_string()?, text);
        text.push(':');
        values.write(row, text)?;
    }
    text.push('}');
    Ok(())
}

/// A finite `value` as `number`, another by its name.
fn float(value: f64, number: serde_json::Result<String>, text: &mut String) {
    match number {
        Ok(number) if value.is_finite() => text.push_str(&number),
        _ if value.is_nan() => text.push_str("\"NaN\""),
        _ if value > 0.0 => text.push_str("\"Infinity\""),
        _ => text.push_str("\"-Infinity\""),
    }
}

fn string(value: &str, text: &mut String) {
    text.push_str(&serde_json::Value::from(value).to_string());
}

/// `"name":` for each field. SQL may give two columns one name, JSON should not: later ones get a number.
fn keys(fields: &Fields) -> Vec<String> {
    let mut taken: HashSet<String> = fields.iter().map(|field| field.name().clone()).collect();
    let mut seen = HashSet::new();
    fields
        .iter()
        .map(|field| {
            let mut name = field.name().clone();
            if !seen.insert(name.clone()) {
                let free = (1..).map(|i| format!("{name}_{i}")).find(|candidate| !taken.contains(candidate));
                name = free.unwrap_or(name);
                taken.insert(name.clone());
            }
            let mut key = String::new();
            string(&name, &mut key);
            key.push(':');
            key
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use arrow::array::builder::{Int32Builder, MapBuilder, StringBuilder};
    use arrow::array::{FixedSizeBinaryArray, Int32Array, ListArray, NullArray};
    use arrow::datatypes::{Field, Int32Type};

    use super::super::samples;
    use super::*;

    #[test]
    fn values_are_exact() {
        let mut text = String::new();
        let batch = samples::kinds();
        rows(&batch.schema(), &batch, &mut text).unwrap();
        let expected = [
            r#"{"i":9223372036854775807,"f":0.1,"d":-123.45,"b":true,"s":"a,\"b\"\nc","v":"größe","k":"x","day":"1970-01-01","at":"1970-01-01T00:00:01.500Z"}"#,
            r#"{"i":null,"f":null,"d":null,"b":null,"s":null,"v":null,"k":null,"day":null,"at":null}"#,
            r#"{"i":-9223372036854775808,"f":"NaN","d":0.07,"b":false,"s":"","v":"\u0001","k":"x","day":"1969-12-31","at":"1970-01-01T00:00:00Z"}"#,
            "",
        ];
        assert_eq!(text, expected.join("\n"));
        for line in text.lines() {
            serde_json::from_str::<serde_json::Value>(line).unwrap();
        }
    }

    #[test]
    fn nested_values() {
        let list = ListArray::from_iter_primitive::<Int32Type, _, _>(vec![Some(vec![Some(1), None]), None]);
        let inner: ArrayRef = Arc::new(Int32Array::from(vec![1, 2]));
        let record = StructArray::from(vec![(Arc::new(Field::new("x", DataType::Int32, true)), inner)]);
        let batch = samples::batch(vec![
            ("l", Arc::new(list) as _),
            ("r", Arc::new(record) as _),
            ("n", Arc::new(NullArray::new(2)) as _),
        ]);
        let mut text = String::new();
        rows(&batch.schema(), &batch, &mut text).unwrap();
        assert_eq!(text, "{\"l\":[1,null],\"r\":{\"x\":1},\"n\":null}\n{\"l\":null,\"r\":{\"x\":2},\"n\":null}\n");
    }

    #[test]
    fn maps_are_objects_and_uuids_in_records_have_dashes() {
        let mut map = MapBuilder::new(None, StringBuilder::new(), Int32Builder::new());
        map.keys().append_value("a\"b");
        map.values().append_value(1);
        map.keys().append_value("c");
        map.values().append_null();
        map.append(true).unwrap();
        map.append(false).unwrap();
        let uuids: ArrayRef = Arc::new(FixedSizeBinaryArray::try_from_iter([[0xa0_u8; 16], [1; 16]].iter()).unwrap());
        let record =
            StructArray::from(vec![(Arc::new(Field::new("u", uuids.data_type().clone(), true)), Arc::clone(&uuids))]);
        let batch = samples::batch(vec![("m", Arc::new(map.finish()) as _), ("r", Arc::new(record) as _)]);
        let mut text = String::new();
        rows(&batch.schema(), &batch, &mut text).unwrap();
        let expected = [
            r#"{"m":{"a\"b":1,"c":null},"r":{"u":"a0a0a0a0-a0a0-a0a0-a0a0-a0a0a0a0a0a0"}}"#,
            r#"{"m":null,"r":{"u":"01010101-0101-0101-0101-010101010101"}}"#,
            "",
        ];
        assert_eq!(text, expected.join("\n"));
    }

    #[test]
    fn names_are_unique() {
        let fields = ["a", "a", "a_1", "a"].map(|name| Field::new(name, DataType::Int32, true));
        let schema = Schema::new(fields.to_vec());
        assert_eq!(keys(schema.fields()), ["\"a\":", "\"a_2\":", "\"a_1\":", "\"a_3\":"]);
    }
}
