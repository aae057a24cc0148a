//! Files that a statement names by their path.

use std::path::Path;

use datafusion::common::Result;
use thermocline_pushdown::{CsvFormat, FileFormat, TextCompression, user_err, user_error};

use super::glob::Glob;

/// Endings of names that say the format of an object.
pub(super) const ENDINGS: &str = ".parquet, .pq, .csv and .tsv, the last two also with .gz, .zst or .bz2 behind them";

/// The path of an object, of a folder of objects, or a pattern of paths, as a statement names it in the place of a
/// table: `'a.parquet'`, `'data/*.csv'`, `'s3://bucket/x/**/*.parquet'`, `'thermocline://host:port/t'`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FilePath {
    /// All of it; of local files absolute.
    text: String,
    /// The folder that a pattern begins in; the path itself if it is no pattern.
    base: String,
    /// The pattern below it.
    pattern: Option<String>,
}

impl FilePath {
    /// Understands a path. One without a scheme is below the working directory of the process.
    ///
    /// # Errors
    /// If it is empty, or there is no working directory.
    pub fn parse(written: &str) -> Result<Self> {
        let is_local = |scheme: &str| scheme.eq_ignore_ascii_case("file");
        let (text, start) = match written.split_once("://") {
            Some((scheme, rest)) if !is_local(scheme) => {
                // Patterns begin behind the host or the bucket.
                let host = rest.find('/').map_or(rest.len(), |end| end + 1);
                (written.to_owned(), scheme.len() + "://".len() + host)
            }
            named => {
                let path = named.map_or(written, |(_, path)| path);
                if path.trim().is_empty() {
                    return user_err!(Syntax, "the path of a file is empty");
                }
                let absolute = std::path::absolute(path)
                    .map_err(|error| user_error!(UndefinedFile, "the path '{path}' has no beginning: {error}"))?;
                let Some(text) = absolute.to_str() else {
                    return user_err!(Unsupported, "the path {} is not UTF-8", absolute.display());
                };
                (text.to_owned(), usize::from(text.starts_with('/')))
            }
        };
        Ok(Self::with_pattern(text, start))
    }

    /// A path whose pattern, if it is one, begins behind `start` or later.
    fn with_pattern(text: String, start: usize) -> Self {
        let mut at = start;
        for part in text.get(start..).unwrap_or_default().split('/') {
            if Glob::is_pattern(part) {
                let (base, pattern) = text.split_at_checked(at).unwrap_or((&text, ""));
                let base = if at > start { base.trim_end_matches('/') } else { base };
                return Self { base: base.to_owned(), pattern: Some(pattern.to_owned()), text };
            }
            at += part.len() + 1;
        }
        Self { base: text.clone(), text, pattern: None }
    }

    /// The same as no pattern, if it is one and a local file has this very name.
    pub(super) fn as_named(&self) -> Option<Self> {
        let is_there = self.pattern.is_some() && !self.text.contains("://") && Path::new(&self.text).exists();
        is_there.then(|| Self { text: self.text.clone(), base: self.text.clone(), pattern: None })
    }

    /// All of it, as it is understood: of local files absolute.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Where it leads at the widest: the place that must be allowed.
    pub(super) fn base(&self) -> &str {
        &self.base
    }

    /// The pattern below [`FilePath::base`]; `None` if the path names what it means.
    pub(super) fn glob(&self) -> Option<Glob> {
        self.pattern.as_deref().map(Glob::new)
    }

    /// The folder that is looked in, for people.
    pub(super) fn folder(&self) -> &str {
        match (&self.pattern, self.base.rsplit_once('/')) {
            (None, Some(("", _))) => "/",
            (None, Some((folder, _))) if !folder.ends_with('/') => folder,
            _ => &self.base,
        }
    }

    /// The name that its columns can be qualified with: that of the file up to its first point, in lower case. `None`
    /// for patterns, whose columns are qualified with the pattern itself.
    pub fn short_name(&self) -> Option<String> {
        let name = self.text.trim_end_matches('/').rsplit('/').next().filter(|_| self.pattern.is_none())?;
        let stem = name.split('.').next().filter(|stem| !stem.is_empty())?;
        Some(stem.to_lowercase())
    }

    /// The format that the ending of its name says.
    pub(super) fn format(&self) -> Option<FileFormat> {
        format_of_name(&self.text)
    }
}

/// The format that the ending of a name says; `None` if it is not one of [`ENDINGS`].
pub(super) fn format_of_name(path: &str) -> Option<FileFormat> {
    let name = path.rsplit('/').next().unwrap_or(path).to_ascii_lowercase();
    if name.ends_with(".parquet") || name.ends_with(".pq") {
        return Some(FileFormat::Parquet);
    }
    let (stem, _) = TextCompression::split(&name);
    match stem.rsplit_once('.')?.1 {
        "csv" => Some(FileFormat::Csv(CsvFormat::default())),
        "tsv" => Some(FileFormat::Csv(CsvFormat { delimiter: b'\t', ..CsvFormat::default() })),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_begin_behind_the_folders_that_are_named() {
        for (text, base, pattern, folder) in [
            ("/a/b.csv", "/a/b.csv", None, "/a"),
            ("/b.csv", "/b.csv", None, "/"),
            ("/*.csv", "/", Some("*.csv"), "/"),
            ("/a/*.csv", "/a", Some("*.csv"), "/a"),
            ("/a/b*/c/*.csv", "/a", Some("b*/c/*.csv"), "/a"),
            ("file:///a/*.csv", "/a", Some("*.csv"), "/a"),
            ("s3://bucket/x/**/*.parquet", "s3://bucket/x", Some("**/*.parquet"), "s3://bucket/x"),
            ("s3://bucket/*.parquet", "s3://bucket/", Some("*.parquet"), "s3://bucket/"),
            ("s3://b*/x.parquet", "s3://b*/x.parquet", None, "s3://b*"),
            ("thermocline://host:1/t", "thermocline://host:1/t", None, "thermocline://host:1"),
            ("thermocline://host:1", "thermocline://host:1", None, "thermocline://host:1"),
        ] {
            let path = FilePath::parse(text).unwrap();
            assert_eq!((path.base(), path.pattern.as_deref()), (base, pattern), "{text}");
            assert_eq!(path.folder(), folder, "{text}");
        }
        let relative = FilePath::parse("x/*.csv").unwrap();
        assert_eq!(relative.text(), std::env::current_dir().unwrap().join("x/*.csv").to_str().unwrap());
        assert!(FilePath::parse(" ").is_err() && FilePath::parse("file://").is_err());
    }

    #[test]
    fn what_is_there_is_no_pattern() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a[1].csv");
        let parsed = FilePath::parse(path.to_str().unwrap()).unwrap();
        assert_eq!((parsed.pattern.as_deref(), parsed.as_named()), (Some("a[1].csv"), None));
        std::fs::write(&path, "x\n1\n").unwrap();
        assert_eq!(parsed.as_named().unwrap().base(), path.to_str().unwrap());
    }

    #[test]
    fn names_say_what_files_are_called_and_hold() {
        for (text, name, format) in [
            ("/a/Orders.2024.parquet", Some("orders"), Some("PARQUET")),
            ("/a/t.CSV.gz", Some("t"), Some("CSV")),
            ("/a/t.tsv", Some("t"), Some("CSV")),
            ("/a/.csv", None, Some("CSV")),
            ("/a/*.pq", None, Some("PARQUET")),
            ("/a/t/", Some("t"), None),
            ("/a/t.parquet.gz", Some("t"), None),
            ("/a/t.log", Some("t"), None),
        ] {
            let path = FilePath::parse(text).unwrap();
            assert_eq!(path.short_name().as_deref(), name, "{text}");
            assert_eq!(path.format().map(|format| format.name()), format, "{text}");
        }
    }
}
