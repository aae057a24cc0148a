//! File formats of external tables.

/// How an object's bytes encode rows.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum FileFormat {
    /// Apache Parquet.
    Parquet,
    /// Delimited text.
    Csv(CsvFormat),
}

impl FileFormat {
    /// Upper-case name, as `STORED AS` spells it.
    pub fn name(&self) -> &'static str {
        match self {
            FileFormat::Parquet => "PARQUET",
            FileFormat::Csv(_) => "CSV",
        }
    }
}

/// The dialect of a CSV object.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CsvFormat {
    /// Byte between fields.
    pub delimiter: u8,
    /// Byte around fields that hold delimiters or newlines; `None` turns quoting off.
    pub quote: Option<u8>,
    /// Byte before a quote that is data; `None` means that quotes are doubled instead.
    pub escape: Option<u8>,
    /// Whether the first record names the columns.
    pub has_header: bool,
    /// The unquoted text that means NULL.
    pub null_text: String,
}

impl Default for CsvFormat {
    fn default() -> Self {
        Self { delimiter: b',', quote: Some(b'"'), escape: None, has_header: true, null_text: String::new() }
    }
}
