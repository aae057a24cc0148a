//! What a statement says of the files that it reads.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef};
use thermocline_formats::csv::Unknown;
use thermocline_pushdown::CsvFormat;

use super::file_path::{Ending, FilePath};

/// Files that a statement reads, and how.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FileReading {
    /// Its name in plans and messages, which two readings share only if they are equal.
    pub name: String,
    /// The paths of the files, at least one; rows follow each other in this order.
    pub paths: Vec<FilePath>,
    /// How they are read.
    pub reader: FileReader,
}

/// How files are read.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum FileReader {
    /// As the endings of their names say.
    Named,
    /// As Parquet.
    Parquet,
    /// As delimited text.
    Csv(CsvReading),
}

/// How delimited text is read. `None` is what the statement does not say.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CsvReading {
    /// Byte between fields; `None`: as the first file shows.
    pub delimiter: Option<u8>,
    /// Byte around fields that hold delimiters or newlines; `None` turns quoting off.
    pub quote: Option<u8>,
    /// Byte before a quote that is data; `None` means that quotes are doubled instead.
    pub escape: Option<u8>,
    /// Whether the first record names the columns; `None`: as the first file shows.
    pub has_header: Option<bool>,
    /// The unquoted text that means NULL.
    pub null_text: String,
    /// The columns, which are the fields in their order; `None` to infer them.
    pub columns: Option<SchemaRef>,
    /// Whether all columns that are inferred are text.
    pub is_all_text: bool,
}

impl Default for CsvReading {
    fn default() -> Self {
        let CsvFormat { quote, escape, null_text, .. } = CsvFormat::default();
        Self { delimiter: None, quote, escape, has_header: None, null_text, columns: None, is_all_text: false }
    }
}

impl FileReading {
    /// The files at a path in the place of a table.
    pub fn named(path: FilePath) -> Self {
        Self { name: path.text().to_owned(), paths: vec![path], reader: FileReader::Named }
    }
}

impl CsvReading {
    /// The columns of a table of this format, whose objects suggest `inferred`. Without a header they are named as in
    /// DuckDB: `column0`, `column1` and so on, with as many digits as the last one.
    pub(super) fn of_inferred(&self, inferred: &SchemaRef, format: &CsvFormat) -> SchemaRef {
        let count = inferred.fields().len();
        let digits = count.saturating_sub(1).to_string().len();
        let field = |(position, field): (usize, &FieldRef)| {
            let name = match format.has_header {
                true => field.name().clone(),
                false => format!("column{position:0digits$}"),
            };
            let data_type = if self.is_all_text { DataType::Utf8View } else { field.data_type().clone() };
            Field::new(name, data_type, field.is_nullable())
        };
        Arc::new(Schema::new(inferred.fields().iter().enumerate().map(field).collect::<Fields>()))
    }

    /// The format of files of this ending. What is not said is what is usual, until the files are looked at.
    pub(super) fn format(&self, ending: Option<Ending>) -> CsvFormat {
        let usual = CsvFormat::default();
        CsvFormat {
            delimiter: self.delimiter.unwrap_or_else(|| ending.map_or(usual.delimiter, Ending::delimiter)),
            quote: self.quote,
            escape: self.escape,
            has_header: self.has_header.unwrap_or(usual.has_header),
            null_text: self.null_text.clone(),
            fields: None,
        }
    }

    /// What the files are to show.
    pub(super) fn unknown(&self) -> Unknown<'_> {
        Unknown {
            delimiter: self.delimiter.is_none(),
            header: self.has_header.is_none(),
            columns: self.columns.as_deref(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_without_a_header_are_numbered() {
        let names = |count: usize, has_header| {
            let fields = (0..count).map(|number| Field::new(format!("f{number}"), DataType::Int64, true));
            let inferred = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
            let format = CsvFormat { has_header, ..CsvFormat::default() };
            let columns = CsvReading::default().of_inferred(&inferred, &format);
            columns.fields().iter().map(|field| field.name().clone()).collect::<Vec<_>>()
        };
        assert_eq!(names(2, true), ["f0", "f1"]);
        assert_eq!(names(2, false), ["column0", "column1"]);
        assert_eq!(names(10, false)[9], "column9");
        assert_eq!((names(11, false)[0].as_str(), names(11, false)[10].as_str()), ("column00", "column10"));
    }
}
