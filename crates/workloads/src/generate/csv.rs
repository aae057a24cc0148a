//! CSV text of generated batches: a header line, commas, quotes around texts that need them.
//!
//! The `arrow` writer formats through `dyn` display objects and checks each field for quoting; this one is several
//! times as fast because it knows the generated column types, and checks texts only: words from lists never need
//! quotes.

use arrow::array::{Array, AsArray, DictionaryArray, PrimitiveArray, RecordBatch, StringArray, UInt16Array};
use arrow::datatypes::{ArrowPrimitiveType, Date32Type, Decimal128Type, Int32Type, Int64Type, Schema, UInt16Type};
use arrow::error::ArrowError;

/// Appends the header line.
pub(super) fn write_header(schema: &Schema, out: &mut Vec<u8>) {
    let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
    out.extend_from_slice(names.join(",").as_bytes());
    out.push(b'\n');
}

/// Appends a line for each row of `batch`.
///
/// # Errors
/// If a column is not of a generated type.
pub(super) fn write_batch(batch: &RecordBatch, out: &mut Vec<u8>) -> Result<(), ArrowError> {
    let columns: Vec<Column<'_>> =
        batch.columns().iter().map(|column| Column::new(column)).collect::<Result<_, _>>()?;
    for row in 0..batch.num_rows() {
        for column in &columns {
            column.write(row, out);
            out.push(b',');
        }
        out.pop();
        out.push(b'\n');
    }
    Ok(())
}

/// A column by its type, so that the type is looked up once a batch.
enum Column<'a> {
    Int32(&'a PrimitiveArray<Int32Type>),
    Int64(&'a PrimitiveArray<Int64Type>),
    Hundredths(&'a PrimitiveArray<Decimal128Type>),
    Date(&'a PrimitiveArray<Date32Type>),
    Text(&'a StringArray),
    Word(&'a UInt16Array, &'a StringArray),
}

impl<'a> Column<'a> {
    fn new(array: &'a dyn Array) -> Result<Self, ArrowError> {
        fn primitive<T: ArrowPrimitiveType>(array: &dyn Array) -> Option<&PrimitiveArray<T>> {
            array.as_primitive_opt::<T>()
        }
        let dictionary = |array: &'a dyn Array| {
            let dictionary: &DictionaryArray<UInt16Type> = array.as_dictionary_opt()?;
            Some(Self::Word(dictionary.keys(), dictionary.values().as_string_opt::<i32>()?))
        };
        primitive(array)
            .map(Self::Int32)
            .or_else(|| primitive(array).map(Self::Int64))
            .or_else(|| primitive(array).map(Self::Hundredths))
            .or_else(|| primitive(array).map(Self::Date))
            .or_else(|| array.as_string_opt::<i32>().map(Self::Text))
            .or_else(|| dictionary(array))
            .ok_or_else(|| ArrowError::CsvError(format!("no CSV writer for {}", array.data_type())))
    }

    fn write(&self, row: usize, out: &mut Vec<u8>) {
        match self {
            Self::Int32(values) => write_integer(i64::from(values.value(row)), out),
            Self::Int64(values) => write_integer(values.value(row), out),
            Self::Hundredths(values) => write_hundredths(values.value(row), out),
            Self::Date(values) => write_date(values.value(row), out),
            Self::Text(values) => write_text(values.value(row), out),
            Self::Word(keys, words) => {
                let word = words.value(usize::from(keys.value(row)));
                out.extend_from_slice(word.as_bytes());
            }
        }
    }
}

fn write_text(text: &str, out: &mut Vec<u8>) {
    if text.bytes().any(|byte| matches!(byte, b',' | b'"' | b'\n' | b'\r')) {
        out.push(b'"');
        out.extend_from_slice(text.replace('"', "\"\"").as_bytes());
        out.push(b'"');
    } else {
        out.extend_from_slice(text.as_bytes());
    }
}

/// A decimal of scale 2. Generated values have at most 15 digits and fit an `i64`.
fn write_hundredths(value: i128, out: &mut Vec<u8>) {
    if value < 0 {
        out.push(b'-');
    }
    let value = value.unsigned_abs();
    write_integer((value / 100) as i64, out);
    out.push(b'.');
    write_two_digits((value % 100) as u8, out);
}

fn write_two_digits(value: u8, out: &mut Vec<u8>) {
    out.extend([b'0' + value / 10, b'0' + value % 10]);
}

/// `yyyy-mm-dd` of a number of days since 1970-01-01, by the usual civil-date formula over years
/// that begin in March. Generated dates have years of four digits.
fn write_date(days: i32, out: &mut Vec<u8>) {
    /// Days from 0000-03-01 to 1970-01-01.
    const EPOCH: i64 = 719_468;
    const DAYS_PER_ERA: i64 = 146_097;
    let days = i64::from(days) + EPOCH;
    let (era, day_of_era) = (days.div_euclid(DAYS_PER_ERA), days.rem_euclid(DAYS_PER_ERA));
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    write_integer(era * 400 + year_of_era + i64::from(month <= 2), out);
    for part in [month, day] {
        out.push(b'-');
        write_two_digits(part as u8, out);
    }
}

/// Digits of the longest `u64`.
const DIGITS_MAX: usize = 20;

fn write_integer(value: i64, out: &mut Vec<u8>) {
    if value < 0 {
        out.push(b'-');
    }
    let mut rest = value.unsigned_abs();
    let mut digits = [0u8; DIGITS_MAX];
    let mut used = 0;
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
        used += 1;
        if rest == 0 {
            break;
        }
    }
    out.extend(digits.iter().skip(DIGITS_MAX - used));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(write: impl Fn(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8_lossy(&out).into_owned()
    }

    #[test]
    fn values_are_written_as_they_read() {
        for (value, expected) in
            [(0, "0.00"), (5, "0.05"), (-5, "-0.05"), (-99_999, "-999.99"), (9_045_050, "90450.50")]
        {
            assert_eq!(text(|out| write_hundredths(value, out)), expected);
        }
        let dates = [
            (0, "1970-01-01"),
            (8035, "1992-01-01"),
            (9555, "1996-02-29"),
            (9556, "1996-03-01"),
            (10_591, "1998-12-31"),
        ];
        for (days, expected) in dates {
            assert_eq!(text(|out| write_date(days, out)), expected);
        }
        for (value, expected) in [("a b", "a b"), ("a,b", "\"a,b\""), ("\"", "\"\"\"\"")] {
            assert_eq!(text(|out| write_text(value, out)), expected);
        }
    }
}
