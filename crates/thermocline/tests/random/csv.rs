//! CSV files.

use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

use super::objects::Object;
use super::schema::{Column, Dialect, Traits};
use super::support::compression::{COMPRESSIONS, in_members};
use super::values::{Kind, NANOS_PER_DAY, Value};

/// Style of a CSV file.
#[derive(Debug, Clone, Default)]
pub struct CsvStyle {
    pub crlf: bool,
    pub byte_order_mark: bool,
    pub quote_all: bool,
    /// Whether the last record has no line end.
    pub open_end: bool,
    /// Hours east of UTC in which timestamps with a zone are written.
    pub offset_hours: i8,
    /// Whether they are written in the table's zone, without an offset, if it has one.
    pub local: bool,
    /// Index in [`COMPRESSIONS`], and whether the file has several members.
    pub compression: Option<(usize, bool)>,
}

impl CsvStyle {
    pub fn draw(rng: &mut StdRng, traits: &Traits) -> Self {
        Self {
            crlf: rng.random_bool(0.3),
            byte_order_mark: rng.random_bool(0.2),
            // A quoted field is never NULL.
            quote_all: !traits.null_words && rng.random_bool(0.2),
            open_end: rng.random_bool(0.3),
            offset_hours: *[0, 2, -5].choose(rng).unwrap(),
            // Local time may be in year 0 although UTC is not.
            local: !traits.extremes && rng.random_bool(0.5),
            compression: rng.random_bool(0.25).then(|| (rng.random_range(0..3), rng.random_bool(0.3))),
        }
    }
}

impl Object {
    /// Extension and bytes of a CSV file.
    pub fn csv_file(&self, columns: &[Column], dialect: &Dialect) -> (String, Vec<u8>) {
        let text = self.csv_bytes(columns, dialect);
        let Some((which, members)) = self.csv.compression else { return ("csv".into(), text) };
        let (extension, compress) = COMPRESSIONS[which];
        let packed = if members && !text.is_empty() { in_members(compress, &text) } else { compress(&text) };
        (format!("csv.{extension}"), packed)
    }

    /// The text of a CSV file.
    pub fn csv_bytes(&self, columns: &[Column], dialect: &Dialect) -> Vec<u8> {
        let end = if self.csv.crlf { "\r\n" } else { "\n" };
        let mut lines = vec![];
        let separator = char::from(dialect.delimiter).to_string();
        if dialect.header {
            let names: Vec<_> = columns.iter().map(|column| column.name.as_str()).collect();
            lines.push(names.join(&separator));
        }
        for row in &self.rows {
            let fields: Vec<_> = columns
                .iter()
                .zip(row)
                .map(|(column, value)| match value {
                    Value::Null => dialect.written_null.clone(),
                    value => self.csv_field(&self.csv_text(&column.kind, value, dialect), dialect),
                })
                .collect();
            lines.push(fields.join(&separator));
        }
        let mut text = if self.csv.byte_order_mark { "\u{feff}".to_owned() } else { String::new() };
        text += &lines.join(end);
        if !lines.is_empty() && !self.csv.open_end {
            text += end;
        }
        text.into_bytes()
    }

    fn csv_text(&self, kind: &Kind, value: &Value, dialect: &Dialect) -> String {
        match (kind, value) {
            (Kind::Timestamp { zone: true, .. }, Value::Int(nanos)) => {
                let local =
                    |hours: i8| kind.text(&Value::Int(nanos + i128::from(hours) * (NANOS_PER_DAY / 24))).unwrap();
                match dialect.time_zone {
                    Some(hours) if self.csv.local => local(hours),
                    _ => {
                        // Texts have years of four digits.
                        let offset = local(self.csv.offset_hours);
                        let hours = if offset.starts_with("10000") { 0 } else { self.csv.offset_hours };
                        local(hours) + &offset_text(hours)
                    }
                }
            }
            _ => kind.text(value).unwrap(),
        }
    }

    fn csv_field(&self, text: &str, dialect: &Dialect) -> String {
        let delimiter = char::from(dialect.delimiter);
        let quoted =
            self.csv.quote_all || text.is_empty() || text.trim() != text || text.contains([delimiter, '"', '\n', '\r']);
        if quoted { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_owned() }
    }
}

/// Hours east of UTC as SQL and CSV have them.
pub fn offset_text(hours: i8) -> String {
    format!("{}{:02}:00", if hours < 0 { '-' } else { '+' }, hours.abs())
}
