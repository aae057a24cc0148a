//! File formats of external tables.

/// Encoding of rows in an object's bytes.
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
    /// Which field of a record each column of the table is, where an object's header says otherwise
    /// than the table; `None`: the fields are the columns, in their order.
    pub fields: Option<CsvFields>,
}

/// Where the columns of a table are among the fields of an object's records.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CsvFields {
    /// Fields of a record.
    pub count: u32,
    /// Per column of the table the position of its field; `None` if the object has none, so that the
    /// column is NULL.
    pub of_columns: Vec<Option<u32>>,
}

impl Default for CsvFormat {
    fn default() -> Self {
        Self {
            delimiter: b',',
            quote: Some(b'"'),
            escape: None,
            has_header: true,
            null_text: String::new(),
            fields: None,
        }
    }
}

/// Compression of a whole text object, which its name says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TextCompression {
    /// Not at all.
    None,
    /// `.gz`
    Gzip,
    /// `.zst`
    Zstd,
    /// `.bz2`
    Bzip2,
}

impl TextCompression {
    /// The compression that the extension of `path` names, in any case.
    pub fn of_path(path: &str) -> Self {
        Self::split(path).1
    }

    /// `path` without the extension of a compression, and which one that is.
    ///
    /// ```
    /// use thermocline_pushdown::TextCompression;
    ///
    /// assert_eq!(TextCompression::split("a/b.csv.GZ"), ("a/b.csv", TextCompression::Gzip));
    /// assert_eq!(TextCompression::split("a/b.csv"), ("a/b.csv", TextCompression::None));
    /// ```
    pub fn split(path: &str) -> (&str, Self) {
        let compressed = path.rsplit_once('.').and_then(|(stem, extension)| {
            let of = |name: &str| extension.eq_ignore_ascii_case(name);
            let compression = match () {
                () if of("gz") => Self::Gzip,
                () if of("zst") => Self::Zstd,
                () if of("bz2") => Self::Bzip2,
                () => return None,
            };
            Some((stem, compression))
        });
        compressed.unwrap_or((path, Self::None))
    }

    /// Its name for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "nothing",
            Self::Gzip => "gzip",
            Self::Zstd => "ZSTD",
            Self::Bzip2 => "bzip2",
        }
    }
}
