//! Options of COPY: CSV or text, header, delimiter, NULL, quote and escape.

use datafusion::sql::sqlparser::ast::{CopyLegacyCsvOption, CopyLegacyOption, CopyOption, CopyTarget};
use thermocline_types::{Class, Error, Result};

/// File format of rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyFormat {
    /// CSV; otherwise the text format, with backslash escapes.
    pub is_csv: bool,
    /// Whether the first row contains the column names.
    pub has_header: bool,
    /// Whether a first row of exactly the names of the columns is no row: of a file that is CSV by its name.
    pub may_have_header: bool,
    /// Separator of fields.
    pub delimiter: u8,
    /// Text of NULL.
    pub null: String,
    /// Quote around CSV fields.
    pub quote: u8,
    /// Escape of a quote inside quotes.
    pub escape: u8,
}

impl CopyFormat {
    /// Reads options in `WITH (...)`, or in the syntax of PostgreSQL before 9. Without a format, a file whose name ends in
    /// `.csv`, or `.csv.gz`, is CSV.
    ///
    /// # Errors
    /// Unsupported, repeated and conflicting options.
    pub fn of(options: &[CopyOption], legacy: &[CopyLegacyOption], target: &CopyTarget) -> Result<Self> {
        let mut written = Written::default();
        options.iter().try_for_each(|option| written.add(option))?;
        legacy.iter().try_for_each(|option| written.add_legacy(option))?;
        let is_csv = match target {
            CopyTarget::File { filename } => {
                let name = filename.to_ascii_lowercase();
                name.strip_suffix(".gz").unwrap_or(&name).ends_with(".csv")
            }
            _ => false,
        };
        let may_have_header = is_csv && written.is_csv.is_none() && written.has_header.is_none();
        written.is_csv = written.is_csv.or(is_csv.then_some(true));
        Ok(Self { may_have_header, ..written.format()? })
    }
}

/// Options as written; `None` if omitted.
#[derive(Debug, Default)]
struct Written {
    is_csv: Option<bool>,
    has_header: Option<bool>,
    delimiter: Option<char>,
    null: Option<String>,
    quote: Option<char>,
    escape: Option<char>,
}

impl Written {
    fn add(&mut self, option: &CopyOption) -> Result<()> {
        match option {
            CopyOption::Format(name) => match name.value.to_lowercase().as_str() {
                "csv" => set(&mut self.is_csv, true, "FORMAT"),
                "text" => set(&mut self.is_csv, false, "FORMAT"),
                "binary" => Err(unsupported("FORMAT binary")),
                "parquet" | "json" => Err(Class::Unsupported.error(
                    "COPY FROM reads csv and text: INSERT INTO t SELECT * FROM 'file.parquet' reads other formats",
                )),
                other => Err(Class::InvalidParameter.error(format_args!("COPY format \"{other}\" not recognized"))),
            },
            CopyOption::Delimiter(delimiter) => set(&mut self.delimiter, *delimiter, "DELIMITER"),
            CopyOption::Null(null) => set(&mut self.null, null.clone(), "NULL"),
            CopyOption::Header(header) => set(&mut self.has_header, *header, "HEADER"),
            CopyOption::Quote(quote) => set(&mut self.quote, *quote, "QUOTE"),
            CopyOption::Escape(escape) => set(&mut self.escape, *escape, "ESCAPE"),
            CopyOption::Encoding(name) if ["utf8", "utf-8"].contains(&name.to_lowercase().as_str()) => Ok(()),
            CopyOption::Freeze(false) => Ok(()),
            other => Err(unsupported(&other.to_string())),
        }
    }

    fn add_legacy(&mut self, option: &CopyLegacyOption) -> Result<()> {
        match option {
            CopyLegacyOption::Delimiter(delimiter) => set(&mut self.delimiter, *delimiter, "DELIMITER"),
            CopyLegacyOption::Null(null) => set(&mut self.null, null.clone(), "NULL"),
            CopyLegacyOption::Header => set(&mut self.has_header, true, "HEADER"),
            CopyLegacyOption::Csv(options) => {
                set(&mut self.is_csv, true, "CSV")?;
                options.iter().try_for_each(|option| match option {
                    CopyLegacyCsvOption::Header => set(&mut self.has_header, true, "HEADER"),
                    CopyLegacyCsvOption::Quote(quote) => set(&mut self.quote, *quote, "QUOTE"),
                    CopyLegacyCsvOption::Escape(escape) => set(&mut self.escape, *escape, "ESCAPE"),
                    other => Err(unsupported(&other.to_string())),
                })
            }
            other => Err(unsupported(&other.to_string())),
        }
    }

    fn format(self) -> Result<CopyFormat> {
        let is_csv = self.is_csv.unwrap_or(false);
        if !is_csv && (self.quote.is_some() || self.escape.is_some()) {
            return Err(unsupported("QUOTE or ESCAPE without FORMAT csv"));
        }
        let byte = |given: Option<char>, usual: u8, option: &str| match given {
            None => Ok(usual),
            Some(given) => u8::try_from(given)
                .ok()
                .filter(|byte| byte.is_ascii() && !matches!(byte, b'\n' | b'\r'))
                .ok_or_else(|| invalid(format_args!("COPY {option} must be a single one-byte character"))),
        };
        let quote = byte(self.quote, b'"', "QUOTE")?;
        let format = CopyFormat {
            is_csv,
            has_header: self.has_header.unwrap_or(false),
            may_have_header: false,
            delimiter: byte(self.delimiter, if is_csv { b',' } else { b'\t' }, "DELIMITER")?,
            null: self.null.unwrap_or_else(|| if is_csv { String::new() } else { "\\N".to_owned() }),
            quote,
            escape: byte(self.escape, quote, "ESCAPE")?,
        };
        format.check()?;
        Ok(format)
    }
}

impl CopyFormat {
    fn check(&self) -> Result<()> {
        let delimiter = self.delimiter;
        if !self.is_csv && (matches!(delimiter, b'\\' | b'.' | b'a'..=b'z' | b'0'..=b'9')) {
            return Err(invalid(format_args!("COPY delimiter cannot be \"{}\"", char::from(delimiter))));
        }
        if self.is_csv && self.quote == delimiter {
            return Err(invalid(format_args!("COPY delimiter and quote must be different")));
        }
        let splits = |byte: u8| byte == delimiter || matches!(byte, b'\n' | b'\r') || self.is_csv && byte == self.quote;
        if self.null.bytes().any(splits) {
            return Err(invalid(format_args!("COPY NULL cannot contain a delimiter, a quote or the end of a line")));
        }
        Ok(())
    }
}

fn set<T>(place: &mut Option<T>, value: T, option: &str) -> Result<()> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(Class::Syntax.error(format_args!("COPY option {option} is there twice"))),
    }
}

fn invalid(message: std::fmt::Arguments<'_>) -> Error {
    Class::InvalidParameter.error(message)
}

fn unsupported(option: &str) -> Error {
    Class::Unsupported.error(format_args!("COPY with {option} is not supported"))
}
