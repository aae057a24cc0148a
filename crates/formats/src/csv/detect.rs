//! The dialect of a text from its start: which byte is between fields, and whether the first record names them.
//!
//! ```text
//! a;b        every record has the same two or more fields with `;`: that is the delimiter
//! 1,5;2      the values below `a` are numbers, and `a` is none: the first record is a header
//! ```

use arrow::datatypes::{DataType, Schema};

use super::error::CsvError;
use super::infer::{ROWS_MAX, Shape, Start, accepts, content, first_record, shape, type_of};
use super::options::CsvOptions;
use super::records::{RecordIndex, Records};

/// Delimiters that are recognised; of two that are as good, the first.
const DELIMITERS: [u8; 4] = [b',', b'|', b';', b'\t'];

/// What the start of a text is to say.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unknown<'a> {
    /// The delimiter: the one with which all records have the same number of fields, and the most of them. The one that
    /// the options have is taken if there are as many with it, or if there is none with more than one field.
    pub delimiter: bool,
    /// Whether there is a header.
    pub header: bool,
    /// The columns, if they are declared.
    pub columns: Option<&'a Schema>,
}

/// `options` with what is unknown from the text that starts with `sample`. `None` if too few records end within the
/// sample, so that a longer one is needed; never if the sample `is_whole`, that is, ends where the object does.
///
/// The first record is a header if it does not fit the records behind it: a value that is not of its column's type. It
/// is one as well if all columns are text, if it has nothing but NULLs, or if it has the names of the declared columns.
/// What cannot be read as records is left to the reader to refuse.
///
/// # Errors
/// [`CsvError::InvalidOptions`].
pub fn detect(
    sample: &[u8],
    is_whole: bool,
    options: &CsvOptions,
    unknown: Unknown<'_>,
) -> Result<Option<CsvOptions>, CsvError> {
    let mut found = options.clone();
    let start = Start::of(sample, is_whole);
    if unknown.delimiter {
        found.delimiter = delimiter(start.text(), options);
    }
    found.validate()?;
    let Some((from, end)) = first_record(start.text(), &found) else { return Ok(is_whole.then_some(found)) };
    if !unknown.header {
        return Ok(Some(found));
    }
    let (first, body) = start.text().split_at(end);
    let first = first.get(from..).unwrap_or_default();
    let (mut of_first, mut of_body) = (RecordIndex::new(found.dialect()), RecordIndex::new(found.dialect()));
    let columns = of_first.count_fields(first);
    let (first, body) = (of_first.records(first, columns), of_body.records(body, columns));
    if body.rows == 0 && body.defect.is_none() && !is_whole {
        return Ok(None);
    }
    found.has_header = first.defect.is_some() || is_header(&first, &body, columns, &found, unknown.columns);
    Ok(Some(found))
}

/// The delimiter of a text.
fn delimiter(text: &[u8], options: &CsvOptions) -> u8 {
    let mut best: Option<(usize, u8)> = None;
    for delimiter in std::iter::once(options.delimiter).chain(DELIMITERS) {
        let fields = regular_fields(text, &CsvOptions { delimiter, ..options.clone() });
        if fields > best.map_or(1, |(most, _)| most) {
            best = Some((fields, delimiter));
        }
    }
    best.map_or(options.delimiter, |(_, delimiter)| delimiter)
}

/// The number of fields that each record has; 0 if they differ, or there are none.
fn regular_fields(text: &[u8], options: &CsvOptions) -> usize {
    if options.validate().is_err() {
        return 0;
    }
    let Some((from, end)) = first_record(text, options) else { return 0 };
    let mut index = RecordIndex::new(options.dialect());
    let fields = index.count_fields(text.get(from..end).unwrap_or_default());
    let records = index.records(text.get(from..).unwrap_or_default(), fields);
    if records.defect.is_none() { fields } else { 0 }
}

/// Whether the first record is a header of those behind it.
fn is_header(
    first: &Records<'_>,
    body: &Records<'_>,
    columns: usize,
    options: &CsvOptions,
    declared: Option<&Schema>,
) -> bool {
    let mut scratch = Vec::new();
    let mut is_text = true;
    let mut is_null = true;
    let mut is_named = declared.is_some_and(|declared| declared.fields().len() == columns);
    let mut fits = true;
    for column in 0..columns {
        let value = content(first, 0, column, options, &mut scratch);
        let field = declared.and_then(|declared| declared.fields().get(column));
        is_named &= field.is_some_and(|field| field.name().as_bytes() == value);
        let is_missing = value == options.null_text.as_bytes();
        is_null &= is_missing;
        let values = match field {
            Some(field) => Values::of_type(field.data_type()),
            // The only record says its own types.
            None if body.rows == 0 => Values::of(first, column, options),
            None => Values::of(body, column, options),
        };
        is_text &= values == Values::Text;
        fits &= is_missing || values.fit(first, column, options);
    }
    is_text || is_null || is_named || !fits
}

/// What the values of a column have in common.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Values {
    /// They are nothing but text.
    Text,
    /// They are all NULL.
    Missing,
    /// They are of this type, which is not text, as far as that is inferred.
    Typed(DataType),
    /// They are declared to be of this type, which is not text.
    Declared(DataType),
    /// They are read as text, and have one of the forms that other readers give a type.
    Alike(Form),
}

/// A form of values that are read as text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// A word for true or false.
    Truth,
    /// A number too large for its type.
    Number,
    /// `10:20` or `10:20:30.5`.
    Time,
    /// Three numbers that may be a day, with this byte between them, and perhaps a time of day.
    Day { between: u8, is_year_first: bool, has_time: bool },
}

impl Values {
    fn of_type(data_type: &DataType) -> Self {
        match data_type {
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Self::Text,
            other => Self::Declared(other.clone()),
        }
    }

    fn of(records: &Records<'_>, column: usize, options: &CsvOptions) -> Self {
        match type_of(records, column, options) {
            DataType::Null => Self::Missing,
            DataType::Utf8View => forms(records, column, options).map_or(Self::Text, Self::Alike),
            other => Self::Typed(other),
        }
    }

    /// Whether the value of the first record is one of these.
    fn fit(&self, first: &Records<'_>, column: usize, options: &CsvOptions) -> bool {
        let mut scratch = Vec::new();
        let written = content(first, 0, column, options, &mut scratch);
        let value = written.trim_ascii();
        match self {
            Self::Text => true,
            Self::Missing => false,
            Self::Alike(form) => form_of(value) == Some(*form),
            Self::Declared(data_type) => accepts(data_type, first, column, options),
            Self::Typed(DataType::Boolean) => is_truth(value),
            Self::Typed(wanted) => match (type_of(first, column, options), wanted) {
                (found, wanted) if found == *wanted => true,
                (DataType::Int64, DataType::Float64) => true,
                (DataType::Date32, DataType::Timestamp(_, None)) => true,
                (DataType::Timestamp(_, zone), DataType::Timestamp(_, of_wanted)) => zone == *of_wanted,
                // White space around a number, which the reader takes.
                (DataType::Utf8View, DataType::Int64 | DataType::Float64) if value != written => {
                    accepts(wanted, first, column, options)
                }
                _ => false,
            },
        }
    }
}

/// The form of all values of a column of text, if they have one.
fn forms(records: &Records<'_>, column: usize, options: &CsvOptions) -> Option<Form> {
    let mut scratch = Vec::new();
    let mut common = None;
    for row in 0..records.rows.min(ROWS_MAX) {
        let value = content(records, row, column, options, &mut scratch);
        if value == options.null_text.as_bytes() {
            continue;
        }
        let form = form_of(value.trim_ascii())?;
        if *common.get_or_insert(form) != form {
            return None;
        }
    }
    common
}

fn is_truth(value: &[u8]) -> bool {
    ["true", "false", "t", "f", "yes", "no"].iter().any(|word| value.eq_ignore_ascii_case(word.as_bytes()))
}

fn form_of(value: &[u8]) -> Option<Form> {
    if is_truth(value) {
        Some(Form::Truth)
    } else if matches!(shape(value), Shape::Integer | Shape::Float) {
        Some(Form::Number)
    } else if is_time(value) {
        Some(Form::Time)
    } else {
        day(value)
    }
}

fn number_of(digits: &[u8]) -> Option<u32> {
    let is_short = (1..=4).contains(&digits.len()) && digits.iter().all(u8::is_ascii_digit);
    is_short.then(|| digits.iter().fold(0, |number, digit| number * 10 + u32::from(digit - b'0')))
}

/// `H:MM`, or that with `:SS` and perhaps a fraction.
fn is_time(value: &[u8]) -> bool {
    let (clock, fraction) = match value.iter().position(|byte| *byte == b'.') {
        Some(point) => (value.get(..point).unwrap_or_default(), value.get(point + 1..)),
        None => (value, None),
    };
    let parts: Vec<_> = clock.split(|byte| *byte == b':').map(number_of).collect();
    let in_range = match parts.as_slice() {
        [Some(hour), Some(minute)] => fraction.is_none() && *hour < 24 && *minute < 60,
        [Some(hour), Some(minute), Some(second)] => *hour < 24 && *minute < 60 && *second < 60,
        _ => false,
    };
    in_range && fraction.is_none_or(|digits| !digits.is_empty() && digits.iter().all(u8::is_ascii_digit))
}

/// Three numbers of which one may be a year, one a month and one a day, and perhaps a time behind a space.
fn day(value: &[u8]) -> Option<Form> {
    let (date, time) = match value.iter().position(|byte| *byte == b' ') {
        Some(space) => (value.get(..space)?, Some(value.get(space + 1..)?)),
        None => (value, None),
    };
    let between = *date.iter().find(|byte| matches!(byte, b'-' | b'/' | b'.'))?;
    let parts: Vec<_> = date.split(|byte| *byte == between).map(number_of).collect();
    let [Some(a), Some(b), Some(c)] = parts.as_slice() else { return None };
    let is_year_first = date.iter().position(|byte| *byte == between)? == 4;
    let is_date = |month: u32, day: u32| (1..=12).contains(&month) && (1..=31).contains(&day);
    let may_be = match is_year_first {
        true => is_date(*b, *c),
        false => is_date(*b, *a) || is_date(*a, *b),
    };
    let has_time = time.is_some();
    let is_clock = time.is_none_or(|time| is_time(time) && time.iter().filter(|byte| **byte == b':').count() == 2);
    (may_be && *c <= 9999 && (is_clock || is_year_first && time.is_some_and(is_time))).then_some(Form::Day {
        between,
        is_year_first,
        has_time,
    })
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::Field;

    use super::*;

    fn found(text: &str, options: &CsvOptions) -> (char, bool) {
        let unknown = Unknown { delimiter: true, header: true, columns: None };
        let found = detect(text.as_bytes(), true, options, unknown).unwrap().unwrap();
        (char::from(found.delimiter), found.has_header)
    }

    #[test]
    fn delimiters() {
        for (text, expected) in [
            ("a,b\n1,2\n", ','),
            ("a;b\n1;2\n", ';'),
            ("a|b\n1|2\n", '|'),
            ("a\tb\n1\t2\n", '\t'),
            ("a:b\n1:2\n", ','),
            ("a\n1\n", ','),
            ("", ','),
            // The one with the most fields.
            ("a,b;c;d\n1,2;3;4\n", ';'),
            ("a,b;c\n1,2;3\n", ','),
            ("a|b;c;d\n1|2;3;4\n", ';'),
            ("a|b;c\n1|2;3\n", '|'),
            // Records differ with a comma.
            ("a;b\n1,5;2,5\n2;3\n", ';'),
            ("hello, world\nfoo\n", ','),
            ("a,b\n1,2\n3\n", ','),
            // In quotes, a delimiter is none.
            ("a;b\n\"1,2\";3\n", ';'),
            ("\"a,x\";b\n\"1,2\";3\n", ';'),
            ("1|x|2.5|\n2|y|3.5|\n", '|'),
        ] {
            assert_eq!(found(text, &CsvOptions::default()).0, expected, "{text:?}");
        }
        let tabs = CsvOptions { delimiter: b'\t', ..CsvOptions::default() };
        assert_eq!(found("a,b\tc\n1,2\t3\n", &tabs).0, '\t');
        assert_eq!(found("a,b\n1,2\n", &tabs).0, ',');
        assert_eq!(found("a\n1\n", &tabs).0, '\t');
        // Where `|` means NULL, it is between no fields.
        let bars = CsvOptions { null_text: "|".into(), ..CsvOptions::default() };
        assert_eq!(found("a|b\n1|2\n", &bars).0, ',');
    }

    #[test]
    fn headers() {
        for (text, expected) in [
            ("a,b\n1,2\n", true),
            ("1,2\n3,4\n", false),
            ("1,2\n", false),
            ("a,b\n", true),
            ("a,b\nc,d\n", true),
            ("a,1\n1,2\n", true),
            ("x,1\ny,2\n", false),
            ("2020,2021\n1,2\n", false),
            ("id,2020\n1,2\n", true),
            ("1.5,x\n2,y\n3,z\n", true),
            ("1,x\n2.5,y\n", false),
            ("2020-01-01,x\n2020-01-02 10:00:00,y\n", false),
            ("2020-01-01 10:00:00,x\n2020-01-02,y\n", true),
            ("true,x\nfalse,y\n", false),
            ("1,x\ntrue,y\n", true),
            ("t,x\nf,y\n", false),
            ("yes,x\nno,y\n", false),
            ("Y,x\nN,y\n", true),
            ("007,x\n008,y\n", true),
            ("99999999999999999999,x\n8,y\n", true),
            ("99999999999999999999,x\n", false),
            (" 7,x\n8,y\n", false),
            ("01/02/2020,x\n03/04/2021,y\n", false),
            ("d,x\n03/04/2021,y\n", true),
            ("99/99/2020,x\n99/98/2021,y\n", true),
            ("1/2/2020,x\n2020-01-02,y\n", true),
            ("01/02/2020 10:00:00,x\n03/04/2021 11:00:00,y\n", false),
            ("01/02/2020 10:00,x\n03/04/2021 11:00,y\n", true),
            ("2020-01-02 10:00,x\n2021-03-04 11:00,y\n", false),
            ("10:20,x\n10:30,y\n", false),
            ("10:20:30.5,x\n11:00:00,y\n", false),
            ("1 day,x\n2 days,y\n", true),
            (",x\n8,y\n", false),
            (",\n1,2\n", true),
            ("1,x\n,y\n", true),
            ("x,\ny,\n", false),
            ("\"1\",\"2\"\n\"3\",\"4\"\n", false),
            ("\n\na,b\n1,2\n", true),
        ] {
            assert_eq!(found(text, &CsvOptions::default()).1, expected, "{text:?}");
        }
        let null = CsvOptions { null_text: "NA".into(), ..CsvOptions::default() };
        assert!(!found("NA,2\n3,4\n", &null).1);
    }

    #[test]
    fn headers_of_declared_columns() {
        let schema = |columns: &[(&str, DataType)]| {
            Schema::new(columns.iter().map(|(name, of)| Field::new(*name, of.clone(), true)).collect::<Vec<_>>())
        };
        let (int, text) = (DataType::Int32, DataType::Utf8View);
        for (content, columns, expected) in [
            ("a,b\n1,2\n", [("x", int.clone()), ("y", int.clone())], true),
            ("1,2\n3,4\n", [("x", int.clone()), ("y", int.clone())], false),
            ("1,2\n3,4\n", [("1", int.clone()), ("2", int.clone())], true),
            ("1,2\n3,4\n", [("x", text.clone()), ("y", text.clone())], true),
            ("x,1\ny,2\n", [("x", text.clone()), ("y", int.clone())], false),
            ("1.5,2\n3,4\n", [("x", int.clone()), ("y", int.clone())], true),
            ("1.5,2\n3,4\n", [("x", DataType::Float64), ("y", DataType::Decimal128(5, 1))], false),
        ] {
            let columns = schema(&columns);
            let unknown = Unknown { delimiter: false, header: true, columns: Some(&columns) };
            let found = detect(content.as_bytes(), true, &CsvOptions::default(), unknown).unwrap().unwrap();
            assert_eq!(found.has_header, expected, "{content:?} {columns}");
        }
    }

    #[test]
    fn a_sample_without_a_record_behind_the_first_is_too_short() {
        let text = "id;note\n1;\"two\nlines\"\n2;\"x\ny\"\n";
        let unknown = Unknown { delimiter: true, header: true, columns: None };
        for cut in 0..text.len() {
            let found = detect(&text.as_bytes()[..cut], false, &CsvOptions::default(), unknown).unwrap();
            let is_enough = cut > text.find("\n2").unwrap();
            assert_eq!(found.is_some(), is_enough, "{:?}", &text[..cut]);
            assert!(found.is_none_or(|found| found.delimiter == b';' && found.has_header));
        }
    }
}
