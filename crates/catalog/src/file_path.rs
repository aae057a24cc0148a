//! Files that a statement names by their path.

use std::path::Path;

use datafusion::common::Result;
use thermocline_pushdown::{TextCompression, user_err, user_error};

use super::glob::Glob;

/// Endings of names that say the format of an object.
pub(super) const ENDINGS: &str =
    ".parquet, .pq, .csv, .tsv, .psv, .tbl and .txt, those of text also with .gz, .zst or .bz2 behind them";

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
    /// Understands a path. One without a scheme is below the working directory of the process. What is there by its
    /// very name, as the folder `[id]`, is no pattern if it is local.
    ///
    /// # Errors
    /// If it is empty, or there is no working directory.
    pub fn parse(written: &str) -> Result<Self> {
        let is_local = |scheme: &str| scheme.eq_ignore_ascii_case("file");
        match written.split_once("://") {
            Some((scheme, rest)) if !is_local(scheme) => {
                // Patterns begin behind the host or the bucket.
                let host = rest.find('/').map_or(rest.len(), |end| end + 1);
                Ok(Self::of_address(written.to_owned(), scheme.len() + "://".len() + host))
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
                // The working directory is meant by its name, whatever that is.
                let working = if Path::new(path).is_relative() { std::env::current_dir().ok() } else { None };
                let working = working.as_deref().and_then(Path::to_str).unwrap_or_default().trim_end_matches('/');
                let start = if text.starts_with(working) { working.len() } else { 0 };
                Ok(Self::of_local(text.to_owned(), start))
            }
        }
    }

    /// The path of an address whose pattern, if it is one, begins behind `start` or later.
    fn of_address(text: String, start: usize) -> Self {
        let pattern = parts_from(&text, start).find(|(_, part)| Glob::is_pattern(part)).map(|(at, _)| at);
        Self::with_pattern(text, pattern, start)
    }

    /// An absolute path, whose pattern begins behind `start` or later, with a part that is not there by its name.
    fn of_local(text: String, start: usize) -> Self {
        let is_there = |end: usize| text.get(..end).is_some_and(|path| Path::new(path).exists());
        let is_pattern = |at: usize, part: &str| Glob::is_pattern(part) && !is_there(at + part.len());
        let pattern = parts_from(&text, start).find(|(at, part)| is_pattern(*at, part)).map(|(at, _)| at);
        Self::with_pattern(text, pattern, "/".len())
    }

    /// A path of which all behind `at` is a pattern. The slash in front of that stays if it is at the end of the root.
    fn with_pattern(text: String, at: Option<usize>, root: usize) -> Self {
        let Some((base, pattern)) = at.and_then(|at| text.split_at_checked(at)) else {
            return Self { base: text.clone(), text, pattern: None };
        };
        let base = if base.len() > root { base.trim_end_matches('/') } else { base };
        Self { base: base.to_owned(), pattern: Some(pattern.to_owned()), text }
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

    /// The ending of its name, if that says a format.
    pub(super) fn ending(&self) -> Option<Ending> {
        Ending::of_name(&self.text)
    }
}

/// The parts of a path between its slashes, behind `start`, each with its place.
fn parts_from(text: &str, start: usize) -> impl Iterator<Item = (usize, &str)> {
    let mut next = start;
    text.get(start..).unwrap_or_default().split('/').map(move |part| {
        let at = next;
        next += part.len() + 1;
        (at, part)
    })
}

/// An ending of a name that says what a file holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// `.parquet` or `.pq`.
    Parquet,
    /// `.csv`, perhaps compressed.
    Csv,
    /// `.tsv`, perhaps compressed.
    Tsv,
    /// `.psv`, perhaps compressed.
    Psv,
    /// `.tbl`, perhaps compressed.
    Tbl,
    /// `.txt`, perhaps compressed.
    Txt,
}

impl Ending {
    /// The ending of a name; `None` if it is not one of [`ENDINGS`].
    pub(super) fn of_name(path: &str) -> Option<Self> {
        let name = path.rsplit('/').next().unwrap_or(path).to_ascii_lowercase();
        if name.ends_with(".parquet") || name.ends_with(".pq") {
            return Some(Self::Parquet);
        }
        let (stem, _) = TextCompression::split(&name);
        match stem.rsplit_once('.')?.1 {
            "csv" => Some(Self::Csv),
            "tsv" => Some(Self::Tsv),
            "psv" => Some(Self::Psv),
            "tbl" => Some(Self::Tbl),
            "txt" => Some(Self::Txt),
            _ => None,
        }
    }

    /// Whether nothing but tables has it: other texts are called `README.txt` too.
    pub(super) fn is_of_tables(self) -> bool {
        match self {
            Self::Parquet | Self::Csv | Self::Tsv => true,
            Self::Psv | Self::Tbl | Self::Txt => false,
        }
    }

    /// Whether it is one of Parquet files; the others are of text.
    pub(super) fn is_parquet(self) -> bool {
        self == Self::Parquet
    }

    /// The delimiter that text with it usually has.
    pub(super) fn delimiter(self) -> u8 {
        match self {
            Self::Tsv => b'\t',
            Self::Psv | Self::Tbl => b'|',
            Self::Parquet | Self::Csv | Self::Txt => b',',
        }
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
        let at = |path: &str| folder.path().join(path).to_str().unwrap().to_owned();
        let parsed = |path: &str| {
            let parsed = FilePath::parse(&at(path)).unwrap();
            (parsed.base().to_owned(), parsed.pattern)
        };
        let pattern = |base: &str, pattern: &str| (at(base).trim_end_matches('/').to_owned(), Some(pattern.to_owned()));
        assert_eq!(parsed("a[1].csv"), pattern("", "a[1].csv"));
        std::fs::write(at("a[1].csv"), "x\n1\n").unwrap();
        assert_eq!(parsed("a[1].csv"), (at("a[1].csv"), None));
        assert_eq!(parsed("[id]/b?/*.csv"), pattern("", "[id]/b?/*.csv"));
        std::fs::create_dir_all(at("[id]/b?")).unwrap();
        assert_eq!(parsed("[id]/b?/*.csv"), pattern("[id]/b?", "*.csv"));
        assert_eq!(parsed("[id]/c?/*.csv"), pattern("[id]", "c?/*.csv"));
        assert_eq!(parsed("[id]/../[id]/*.csv"), pattern("[id]/../[id]", "*.csv"));
        assert_eq!(parsed("[id]/b?/c"), (at("[id]/b?/c"), None));
    }

    #[test]
    fn behind_the_folder_that_is_meant_by_its_name_a_pattern_begins() {
        let path = FilePath::of_local("/nowhere/[id]/x/*.csv".into(), "/nowhere/[id]".len());
        assert_eq!((path.base(), path.pattern.as_deref()), ("/nowhere/[id]/x", Some("*.csv")));
        let path = FilePath::of_local("/nowhere/[id]/*.csv".into(), "/nowhere/[id]".len());
        assert_eq!((path.base(), path.pattern.as_deref()), ("/nowhere/[id]", Some("*.csv")));
        let path = FilePath::of_local("/*.csv".into(), 0);
        assert_eq!((path.base(), path.pattern.as_deref()), ("/", Some("*.csv")));
    }

    #[test]
    fn names_say_what_files_are_called_and_hold() {
        for (text, name, ending) in [
            ("/a/Orders.2024.parquet", Some("orders"), Some(Ending::Parquet)),
            ("/a/t.CSV.gz", Some("t"), Some(Ending::Csv)),
            ("/a/t.tsv", Some("t"), Some(Ending::Tsv)),
            ("/a/.csv", None, Some(Ending::Csv)),
            ("/a/*.pq", None, Some(Ending::Parquet)),
            ("/a/t/", Some("t"), None),
            ("/a/t.parquet.gz", Some("t"), None),
            ("/a/t.psv", Some("t"), Some(Ending::Psv)),
            ("/a/lineitem.tbl.zst", Some("lineitem"), Some(Ending::Tbl)),
            ("/a/t.TXT", Some("t"), Some(Ending::Txt)),
            ("/a/t.log", Some("t"), None),
        ] {
            let path = FilePath::parse(text).unwrap();
            assert_eq!(path.short_name().as_deref(), name, "{text}");
            assert_eq!(path.ending(), ending, "{text}");
        }
    }
}
