//! Names and types of columns from the start of an object.
//!
//! The shape of a value proposes a type; the converter of that type then reads every value of the sample, and a column
//! that it refuses is text. So no inferred type is refused by the reader for values of the sample.

use std::borrow::Cow;

use arrow::datatypes::{DataType, Field, Schema, TimeUnit};

use super::bom::BomFilter;
use super::convert::{Fields, column};
use super::error::{CsvError, excerpt};
use super::field::{FieldRules, unquote};
use super::options::CsvOptions;
use super::records::{Defect, RecordIndex, Records};
use super::scan::{Scanner, Step};

/// Records from which types are inferred.
pub(super) const ROWS_MAX: usize = 10_000;

/// The columns of an object that starts with `sample`, strings as `Utf8View`, all of them nullable:
/// values behind the sample may be missing. `None` if no record but the header ends within the sample, so that a
/// longer one is needed; never if the sample `is_whole`, that is, ends where the object does.
///
/// Without a header, columns are named `column_1`, `column_2` and so on. A column of nothing but NULLs is of type
/// [`DataType::Null`]. Timestamps that all have an offset from UTC get a type with zone `+00:00`; if only some have
/// one, the column is text.
///
/// # Errors
///
/// [`CsvError::InvalidOptions`], or an error in the sample's records: a record with another number of fields than the
/// first, text after a closing quote, a name that is not UTF-8.
pub fn infer_schema(sample: &[u8], is_whole: bool, options: &CsvOptions) -> Result<Option<Schema>, CsvError> {
    options.validate()?;
    let sample = Start::of(sample, is_whole);
    let (text, skipped) = (sample.text(), sample.skipped as u64);
    let Some((start, end)) = first_record(text, options) else {
        return Ok(is_whole.then(Schema::empty));
    };
    let (first, rest) = text.split_at(end);
    let first = first.get(start..).unwrap_or_default();
    let mut index = RecordIndex::new(options.dialect());
    let columns = index.count_fields(first);
    let names = match options.has_header {
        true => header(&index.records(first, columns), columns, skipped + start as u64, options)?,
        false => (1..=columns).map(|number| format!("column_{number}")).collect(),
    };
    let (body, offset) = if options.has_header { (rest, end) } else { (text, 0) };
    let records = index.records(body, columns);
    if let Some(defect) = records.defect {
        return Err(failure(&records, defect, skipped + offset as u64, columns));
    }
    if records.rows == 0 && !is_whole {
        return Ok(None);
    }
    let types = (0..columns).map(|column| type_of(&records, column, options));
    let fields: Vec<Field> = names.into_iter().zip(types).map(|(name, of)| Field::new(name, of, true)).collect();
    Ok(Some(Schema::new(fields)))
}

/// The start of a text without a byte order mark, its last record ended.
#[derive(Debug)]
pub(super) struct Start<'a> {
    sample: Cow<'a, [u8]>,
    /// Bytes of the mark.
    skipped: usize,
}

impl<'a> Start<'a> {
    /// That of a text that starts with `sample`, or is it if it `is_whole`.
    pub(super) fn of(sample: &'a [u8], is_whole: bool) -> Self {
        let sample = match is_whole && !sample.ends_with(b"\n") {
            true => Cow::Owned([sample, b"\n"].concat()),
            false => Cow::Borrowed(sample),
        };
        let (_, _, found_bom) = BomFilter::new(true).push(&sample);
        let skipped = if found_bom { BomFilter::LEN as usize } else { 0 };
        Self { sample, skipped }
    }

    pub(super) fn text(&self) -> &[u8] {
        self.sample.get(self.skipped..).unwrap_or_default()
    }
}

/// Start and end of the first complete record that is no empty line.
pub(super) fn first_record(text: &[u8], options: &CsvOptions) -> Option<(usize, usize)> {
    let mut scanner = Scanner::new(options.dialect(), 0);
    let mut start = 0;
    for (at, byte) in text.iter().enumerate() {
        if scanner.step(*byte) == Step::Newline {
            if !matches!(text.get(start..=at), Some(b"\n" | b"\r\n")) {
                return Some((start, at + 1));
            }
            start = at + 1;
        }
    }
    None
}

fn header(records: &Records<'_>, columns: usize, offset: u64, options: &CsvOptions) -> Result<Vec<String>, CsvError> {
    if let Some(defect) = records.defect {
        return Err(failure(records, defect, offset, columns));
    }
    let mut scratch = Vec::new();
    (0..columns)
        .map(|column| {
            let (start, end) = records.field(0, column);
            let raw = records.data().get(start..end).unwrap_or_default();
            let name = unquote(raw, options.dialect(), &mut scratch).unwrap_or(raw);
            std::str::from_utf8(name).map(str::to_owned).map_err(|_| CsvError::InvalidUtf8 {
                row: 0,
                offset: offset + start as u64,
                column: (column + 1).to_string(),
                text: excerpt(raw),
            })
        })
        .collect()
}

fn failure(records: &Records<'_>, defect: Defect, offset: u64, columns: usize) -> CsvError {
    let row = records.rows as u64 + 1;
    match defect {
        Defect::TextAfterQuote { at } => CsvError::TextAfterQuote { row, offset: offset + at as u64 },
        Defect::FieldCount { start, end, found } => CsvError::FieldCount {
            row,
            offset: offset + start as u64,
            found,
            expected: columns,
            text: excerpt(records.data().get(start..end).unwrap_or_default().trim_ascii_end()),
        },
    }
}

/// The content of a field, without its quotes.
pub(super) fn content<'a>(
    records: &Records<'a>,
    row: usize,
    column: usize,
    options: &CsvOptions,
    scratch: &'a mut Vec<u8>,
) -> &'a [u8] {
    let (start, end) = records.field(row, column);
    let raw = records.data().get(start..end).unwrap_or_default();
    unquote(raw, options.dialect(), scratch).unwrap_or(raw)
}

/// Whether the converter of a type takes all values of a column.
pub(super) fn accepts(data_type: &DataType, records: &Records<'_>, index: usize, options: &CsvOptions) -> bool {
    let fields = Fields { records: *records, text: None, column: index, rows: 0..records.rows.min(ROWS_MAX) };
    let converter = column(data_type, FieldRules::new(options, true));
    converter.is_some_and(|mut converter| converter.append(&fields).is_ok())
}

/// The type of one column.
pub(super) fn type_of(records: &Records<'_>, index: usize, options: &CsvOptions) -> DataType {
    let fields = Fields { records: *records, text: None, column: index, rows: 0..records.rows.min(ROWS_MAX) };
    let mut seen = Seen::default();
    let mut has_values = false;
    let mut scratch = Vec::new();
    for (_, start, end) in fields.iter() {
        let raw = fields.raw(start, end);
        let content = unquote(raw, options.dialect(), &mut scratch).unwrap_or(raw);
        if content != options.null_text.as_bytes() {
            seen.add(shape(content));
            has_values = true;
        }
    }
    if !has_values {
        return DataType::Null;
    }
    let is_accepted = |data_type: &DataType| accepts(data_type, records, index, options);
    seen.proposed().filter(is_accepted).unwrap_or(DataType::Utf8View)
}

/// Shape of a value's text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    Boolean,
    Integer,
    Float,
    Date,
    Timestamp(TimeUnit, Offset),
    Text,
}

/// Offset from UTC in a timestamp's text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Offset {
    /// Nothing.
    None,
    /// `Z`, which a type without zone takes as well.
    Utc,
    /// Anything else behind the seconds.
    Other,
}

/// The shapes of a column's values.
#[derive(Debug, Default)]
struct Seen {
    boolean: bool,
    integer: bool,
    float: bool,
    date: bool,
    /// The finest unit.
    timestamp: Option<TimeUnit>,
    without_offset: bool,
    with_offset: bool,
    text: bool,
}

impl Seen {
    fn add(&mut self, shape: Shape) {
        match shape {
            Shape::Boolean => self.boolean = true,
            Shape::Integer => self.integer = true,
            Shape::Float => self.float = true,
            Shape::Date => (self.date, self.without_offset) = (true, true),
            Shape::Timestamp(unit, offset) => {
                self.timestamp = self.timestamp.max(Some(unit));
                self.without_offset |= offset == Offset::None;
                self.with_offset |= offset == Offset::Other;
            }
            Shape::Text => self.text = true,
        }
    }

    /// The type that may hold all of them; `None` for text.
    fn proposed(&self) -> Option<DataType> {
        let number = self.integer || self.float;
        let temporal = self.date || self.timestamp.is_some();
        match (self.boolean, number, temporal, self.text) {
            (true, false, false, false) => Some(DataType::Boolean),
            (false, true, false, false) if self.float => Some(DataType::Float64),
            (false, true, false, false) => Some(DataType::Int64),
            (false, false, true, false) => match self.timestamp {
                None => Some(DataType::Date32),
                Some(_) if self.with_offset && self.without_offset => None,
                // Values after the sample may have fractions of a second even if none in it has.
                Some(unit) => {
                    let unit = unit.max(TimeUnit::Microsecond);
                    Some(DataType::Timestamp(unit, self.with_offset.then(|| "+00:00".into())))
                }
            },
            _ => None,
        }
    }
}

pub(super) fn shape(text: &[u8]) -> Shape {
    let is = |word: &[u8]| text.eq_ignore_ascii_case(word);
    if is(b"true") || is(b"false") {
        Shape::Boolean
    } else if matches!(text, b"NaN" | b"nan" | b"inf" | b"-inf") {
        Shape::Float
    } else {
        number(text).or_else(|| temporal(text)).unwrap_or(Shape::Text)
    }
}

/// `-?digits`, or that with a point among the digits, an exponent behind them, or both. A text that begins with a zero
/// and another digit, such as a postal code, is none, as in DuckDB.
fn number(text: &[u8]) -> Option<Shape> {
    if matches!(text, [b'0', b'0'..=b'9', ..]) {
        return None;
    }
    let (whole, rest) = digits(text.strip_prefix(b"-").unwrap_or(text));
    let (fraction, rest) = match rest.strip_prefix(b".") {
        Some(rest) => {
            let (fraction, rest) = digits(rest);
            (Some(fraction), rest)
        }
        None => (None, rest),
    };
    if whole + fraction.unwrap_or(0) == 0 {
        return None;
    }
    match rest {
        [] if fraction.is_none() => Some(Shape::Integer),
        [] => Some(Shape::Float),
        [b'e' | b'E', exponent @ ..] => {
            let exponent = exponent.strip_prefix(b"-").or_else(|| exponent.strip_prefix(b"+")).unwrap_or(exponent);
            matches!(digits(exponent), (1.., [])).then_some(Shape::Float)
        }
        _ => None,
    }
}

/// `YYYY-MM-DD`, or that, a space or `T`, `HH:MM:SS`, perhaps a fraction of one to nine digits, and what follows. The
/// converter decides whether there is such a day.
fn temporal(text: &[u8]) -> Option<Shape> {
    let (date, rest) = text.split_at_checked(10)?;
    if !is_like(date, b"0000-00-00") {
        return None;
    }
    let rest = match rest {
        [] => return Some(Shape::Date),
        [b' ' | b'T', rest @ ..] => rest,
        _ => return None,
    };
    let (time, rest) = rest.split_at_checked(8)?;
    if !is_like(time, b"00:00:00") {
        return None;
    }
    let (unit, rest) = match rest.strip_prefix(b".") {
        None => (TimeUnit::Second, rest),
        Some(rest) => match digits(rest) {
            (1..=3, rest) => (TimeUnit::Millisecond, rest),
            (4..=6, rest) => (TimeUnit::Microsecond, rest),
            (7..=9, rest) => (TimeUnit::Nanosecond, rest),
            _ => return None,
        },
    };
    let offset = match rest {
        [] => Offset::None,
        b"Z" => Offset::Utc,
        _ => Offset::Other,
    };
    Some(Shape::Timestamp(unit, offset))
}

/// Number of digits at the start of `text`, and what follows them.
fn digits(text: &[u8]) -> (usize, &[u8]) {
    let count = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    (count, text.get(count..).unwrap_or_default())
}

/// Whether `text` has digits where `pattern` does, and the same bytes elsewhere.
fn is_like(text: &[u8], pattern: &[u8]) -> bool {
    text.len() == pattern.len()
        && text.iter().zip(pattern).all(|(byte, like)| if *like == b'0' { byte.is_ascii_digit() } else { byte == like })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn types(text: &str, options: &CsvOptions) -> Vec<String> {
        let schema = infer_schema(text.as_bytes(), true, options).unwrap().unwrap();
        schema.fields().iter().map(|field| field.data_type().to_string()).collect()
    }

    fn type_of_values(values: &[&str]) -> String {
        // A second column, so that an empty value does not make an empty line.
        let rows: String = values.iter().map(|value| format!("{value},x\n")).collect();
        types(&format!("a,b\n{rows}"), &CsvOptions::default()).swap_remove(0)
    }

    #[test]
    fn one_type_for_all_values() {
        for (values, expected) in [
            (&["true", "FALSE", ""][..], "Boolean"),
            (&["1", "-9223372036854775808", "\"7\"", ""], "Int64"),
            (&["9223372036854775808"], "Utf8View"),
            (&["1", "1.5", "-.5", "2.", "1e9", "NaN", "-inf"], "Float64"),
            (&["1", "x"], "Utf8View"),
            (&["+1"], "Utf8View"),
            (&["007", "8"], "Utf8View"),
            (&["8", "00"], "Utf8View"),
            (&["00.5"], "Utf8View"),
            (&["-07", "0"], "Int64"),
            (&["0.5", "0"], "Float64"),
            (&[" 1"], "Utf8View"),
            (&["1", "true"], "Utf8View"),
            (&["٣"], "Utf8View"),
            (&["e5"], "Utf8View"),
            (&["."], "Utf8View"),
            (&["1e"], "Utf8View"),
            (&["2020-02-29"], "Date32"),
            (&["2021-02-29"], "Utf8View"),
            (&["2020-01-02 03:04:05", "2020-01-02"], "Timestamp(µs)"),
            (&["2020-01-02T03:04:05Z", "2020-01-02 03:04:05"], "Timestamp(µs)"),
            (&["2020-01-02 03:04:05.25", "2020-01-02 03:04:05.123456"], "Timestamp(µs)"),
            (&["2020-01-02 03:04:05.123456789"], "Timestamp(ns)"),
            // Nanoseconds end in 2262.
            (&["2020-01-02 03:04:05.123456789", "9999-01-01 00:00:00"], "Utf8View"),
            (&["2020-01-02 25:04:05"], "Utf8View"),
            (&["2020-01-02 03:04:05 noon"], "Utf8View"),
            (
                &["2020-01-02 03:04:05+02:00", "2020-01-02 03:04:05.5-0130", "2020-01-02T03:04:05Z"],
                "Timestamp(µs, \"+00:00\")",
            ),
            (&["2020-01-02 03:04:05+02:00", "2020-01-02 03:04:05"], "Utf8View"),
            (&["2020-01-02 03:04:05+02:00", "2020-01-02"], "Utf8View"),
            (&["2020-01-02 03:04:05+02:99"], "Utf8View"),
            (&["", "\"\""], "Null"),
        ] {
            assert_eq!(type_of_values(values), expected, "{values:?}");
        }
    }

    #[test]
    fn the_null_text_is_no_value() {
        let options = CsvOptions { null_text: "NA".into(), ..CsvOptions::default() };
        assert_eq!(types("a,b,c\n1,NA,NA\nNA,2020-01-01,NA\n", &options), ["Int64", "Date32", "Null"]);
        // An empty value is not NULL here, and not a number.
        assert_eq!(types("a,b\n1,x\n,x\n", &options), ["Utf8View", "Utf8View"]);
        let options = CsvOptions { null_text: "0".into(), ..CsvOptions::default() };
        assert_eq!(types("a,b\n0,0\ntrue,x\n", &options), ["Boolean", "Utf8View"]);
    }

    #[test]
    fn only_whole_records_count() {
        let options = CsvOptions::default();
        let text = "id,note\n1,\"two\nlines\"\n2,\"x\ny\"\n";
        for cut in 0..text.len() {
            let schema = infer_schema(&text.as_bytes()[..cut], false, &options).unwrap();
            let record_end = text.find("\n2").unwrap() + 1;
            assert_eq!(schema.is_some(), cut >= record_end, "{:?}", &text[..cut]);
            let types = schema.map(|schema| schema.field(0).data_type().clone());
            assert!(types.is_none_or(|found| found == DataType::Int64), "{:?}", &text[..cut]);
        }
    }

    #[test]
    fn names() {
        let header = CsvOptions::default();
        let none = CsvOptions { has_header: false, ..CsvOptions::default() };
        let names = |text: &str, options| {
            let schema = infer_schema(text.as_bytes(), true, options).unwrap().unwrap();
            schema.fields().iter().map(|field| field.name().clone()).collect::<Vec<_>>()
        };
        assert_eq!(names("\u{feff}\n\"a \"\"x\"\"\",b\r\n", &header), ["a \"x\"", "b"]);
        assert_eq!(names("1,2\n", &none), ["column_1", "column_2"]);
        assert_eq!(names("a,b", &header), ["a", "b"]);
        assert!(names("\n\n", &header).is_empty());
        assert!(names("", &none).is_empty());
        assert_eq!(types("1\n\n2\n", &none), ["Int64"]);
    }

    #[test]
    fn records_that_cannot_be_read() {
        let error = |text: &[u8]| infer_schema(text, true, &CsvOptions::default()).unwrap_err().to_string();
        assert!(error(b"a,b\n1,2\n3\n").contains("row 2, byte 8: found 1 fields, expected 2"));
        assert!(error(b"a,b\n1,\"2\"x\n").contains("row 1"));
        assert!(error(b"a,\xff\n1,2\n").contains("UTF-8"));
    }
}
