//! Capabilities of a storage.

use std::collections::BTreeSet;
use std::fmt;

use thermocline_pushdown::wire::Compression;
use thermocline_pushdown::{FileFormat, Fragment, OperatorKind, TextCompression};

/// What a storage does beside listing and describing objects and sending their bytes, which all do. Planner and router
/// ask nothing else of a storage than these fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capabilities {
    /// Operators of fragments that it runs; empty if it runs no fragments at all. With any, it also runs the fragment
    /// without operators, which yields some columns of all rows.
    pub operators: BTreeSet<OperatorKind>,
    /// Formats of the objects that it runs fragments over.
    pub formats: BTreeSet<StoredFormat>,
    /// Compressions of its answers. It can leave them uncompressed, whatever this says.
    pub compressions: BTreeSet<Compression>,
    /// Whether it runs fragments over the rows of a bitmap, and sends the bitmap of the rows that a filter selects.
    pub bitmaps: bool,
    /// Whether filters may hold Bloom filters of joins' keys.
    pub bloom_filters: bool,
    /// Whether it makes, keeps and uses indexes.
    pub indexes: bool,
    /// Whether it remembers long fragments and schemas, so that requests name them by their digests.
    pub contents: bool,
    /// Whether a link lies in between, over which bytes take time and requests a round trip.
    pub crosses_link: bool,
    /// Whether it computes on the cores of this process.
    pub shares_cores: bool,
    /// Whether it repeats what fails where that may help, so that its errors are final.
    pub retries: bool,
}

/// A format of objects, as far as reading them differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum StoredFormat {
    /// Apache Parquet.
    Parquet,
    /// Delimited text as it is.
    Csv,
    /// Delimited text that is compressed as a whole.
    CompressedCsv,
}

impl StoredFormat {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Parquet, Self::Csv, Self::CompressedCsv];

    /// The format of the object at `path` in a table of `format`.
    pub fn of(format: &FileFormat, path: &str) -> Self {
        match (format, TextCompression::of_path(path)) {
            (FileFormat::Parquet, _) => Self::Parquet,
            (FileFormat::Csv(_), TextCompression::None) => Self::Csv,
            (FileFormat::Csv(_), _) => Self::CompressedCsv,
        }
    }
}

impl fmt::Display for StoredFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Parquet => "Parquet",
            Self::Csv => "CSV",
            Self::CompressedCsv => "compressed CSV",
        })
    }
}

impl Capabilities {
    /// Those of a storage that does everything, without a link in between.
    pub fn all() -> Self {
        Self {
            operators: OperatorKind::ALL.into(),
            formats: StoredFormat::ALL.into(),
            compressions: [Compression::Lz4, Compression::Zstd].into(),
            bitmaps: true,
            bloom_filters: true,
            indexes: true,
            contents: true,
            crosses_link: false,
            shares_cores: false,
            retries: false,
        }
    }

    /// Those of a storage that only lists and describes objects and sends their bytes, without a link in between.
    pub fn none() -> Self {
        Self {
            operators: BTreeSet::new(),
            formats: BTreeSet::new(),
            compressions: BTreeSet::new(),
            bitmaps: false,
            bloom_filters: false,
            indexes: false,
            contents: false,
            crosses_link: false,
            shares_cores: false,
            retries: false,
        }
    }

    /// Whether it runs fragments with operators of this kind.
    pub fn runs(&self, operator: OperatorKind) -> bool {
        self.operators.contains(&operator)
    }

    /// Why `fragment` cannot run at the storage over objects of a table of `format`, as the rest of a sentence that
    /// begins with its name; `None` if it can. Objects may be compressed, see [`Capabilities::reads`].
    pub fn refusal(&self, fragment: &Fragment, format: &FileFormat) -> Option<String> {
        if self.operators.is_empty() {
            return Some("runs no fragments".to_owned());
        }
        let of_table = |stored: &&StoredFormat| match format {
            FileFormat::Parquet => **stored == StoredFormat::Parquet,
            FileFormat::Csv(_) => **stored != StoredFormat::Parquet,
        };
        if self.formats.iter().find(of_table).is_none() {
            return Some(format!("runs no fragments over {}", format.name()));
        }
        let lacking = fragment.operator_kinds().into_iter().find(|kind| !self.runs(*kind))?;
        Some(format!("runs no {lacking}s"))
    }

    /// Whether it runs fragments over the object at `path` of a table of `format`.
    pub fn reads(&self, format: &FileFormat, path: &str) -> bool {
        self.formats.contains(&StoredFormat::of(format, path))
    }

    /// The compression to ask for where `wanted` would be best: another one if it lacks that, and none if it has none.
    pub fn compression(&self, wanted: Compression) -> Compression {
        if wanted == Compression::None || self.compressions.contains(&wanted) {
            return wanted;
        }
        self.compressions.last().copied().unwrap_or(Compression::None)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::datatypes::{DataType, Field, Schema};
    use datafusion::physical_expr::expressions::lit;
    use datafusion::physical_plan::ExecutionPlan;
    use datafusion::physical_plan::filter::FilterExec;
    use datafusion::physical_plan::limit::LocalLimitExec;
    use thermocline_pushdown::CsvFormat;

    use super::*;

    fn csv() -> FileFormat {
        FileFormat::Csv(CsvFormat::default())
    }

    #[test]
    fn what_is_lacking_is_named() {
        let scan = Fragment::scan(Arc::new(Schema::new(vec![Field::new("a", DataType::Int64, true)])));
        let filter: Arc<dyn ExecutionPlan> = Arc::new(FilterExec::try_new(lit(true), Arc::clone(scan.root())).unwrap());
        let filtered = scan.with_operator(&filter).unwrap();
        let limit: Arc<dyn ExecutionPlan> = Arc::new(LocalLimitExec::new(Arc::clone(filtered.root()), 5));
        let limited = filtered.with_operator(&limit).unwrap();
        let filters = Capabilities {
            operators: [OperatorKind::Filter].into(),
            formats: [StoredFormat::CompressedCsv].into(),
            ..Capabilities::none()
        };
        for (capabilities, fragment, format, refusal) in [
            (&Capabilities::all(), &limited, FileFormat::Parquet, None),
            (&Capabilities::none(), &scan, FileFormat::Parquet, Some("runs no fragments")),
            (&filters, &scan, csv(), None),
            (&filters, &filtered, csv(), None),
            (&filters, &limited, csv(), Some("runs no limits")),
            (&filters, &filtered, FileFormat::Parquet, Some("runs no fragments over PARQUET")),
        ] {
            assert_eq!(capabilities.refusal(fragment, &format).as_deref(), refusal, "{fragment} over {format:?}");
        }
        assert!(filters.reads(&csv(), "a.csv.gz") && !filters.reads(&csv(), "a.csv"));
        assert!(!filters.reads(&FileFormat::Parquet, "a.gz"));
    }

    #[test]
    fn the_compression_is_one_that_there_is() {
        let lz4 = Capabilities { compressions: [Compression::Lz4].into(), ..Capabilities::none() };
        assert_eq!(lz4.compression(Compression::Zstd), Compression::Lz4);
        assert_eq!(lz4.compression(Compression::None), Compression::None);
        assert_eq!(Capabilities::none().compression(Compression::Zstd), Compression::None);
        assert_eq!(Capabilities::all().compression(Compression::Lz4), Compression::Lz4);
    }
}
