//! The whole run: options, checks, threads, progress, summary.

use std::io;
use std::num::NonZero;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;

use super::encode::{EncodeError, Format};
use super::plan::plan;
use super::source::Source;
use super::table::Table;
use super::write::{create_folder, write_object};

/// The smallest partition size, in bytes: smaller objects would be mostly footer.
pub const PARTITION_SIZE_MIN: u64 = 64 * 1024;

/// Data set to generate, and its place.
#[derive(Clone, Debug)]
pub struct GenerateOptions {
    /// Scale factor; the workload defines its range and the number of rows.
    pub scale: f64,
    /// Format of all objects.
    pub format: Format,
    /// Stored bytes of an object, about; at least 65,536.
    pub partition_size: u64,
    /// Folder that gets one folder a table; created if missing.
    pub out: PathBuf,
    /// Number of threads; 0 for one a core. The objects do not depend on it.
    pub threads: usize,
}

/// Progress of one table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The table.
    pub table: Table,
    /// Rows written so far.
    pub rows_done: u64,
    /// Total rows.
    pub rows_total: u64,
}

/// Summary of a generated data set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// One element a table, in the order of the workload's list of tables.
    pub tables: Vec<TableSummary>,
}

/// Summary of one generated table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableSummary {
    /// The table.
    pub table: Table,
    /// Its rows.
    pub rows: u64,
    /// Its objects.
    pub objects: u64,
    /// Their stored bytes together.
    pub bytes: u64,
}

/// Reason why nothing, or not everything, was generated.
#[derive(Debug, thiserror::Error)]
pub enum GenerateError {
    /// The scale is out of range.
    #[error("scale must be {range}, not {scale}")]
    Scale {
        /// The requested value.
        scale: f64,
        /// Range of values, such as `above 0 and at most 1000`.
        range: &'static str,
    },
    /// The partition size, in bytes, is too small.
    #[error("partition size must be at least {PARTITION_SIZE_MIN} bytes, not {0}")]
    PartitionSize(u64),
    /// A table's folder already has something in it.
    #[error("{} is in the way: generate into a new or empty folder", path.display())]
    NotEmpty {
        /// The value found.
        path: PathBuf,
    },
    /// A file or folder could not be created, listed or renamed.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// An object could not be written.
    #[error("{}: {source}", path.display())]
    Write {
        /// The object's temporary file.
        path: PathBuf,
        /// The cause.
        source: EncodeError,
    },
    /// A table's rows could not be encoded to measure them; nothing was written.
    #[error("table {table}: {source}")]
    Plan {
        /// The table.
        table: Table,
        /// The cause.
        source: EncodeError,
    },
}

/// Generates the tables of `sources`, which `options.scale` made, as
/// `out/<table>/<table>-00000.<format>` and so on.
///
/// `progress` is called after each batch, from several threads.
///
/// # Errors
/// See [`GenerateError`]. After an error, finished objects stay; unfinished ones do not.
pub(crate) fn generate(
    sources: &[&dyn Source],
    options: &GenerateOptions,
    progress: &(dyn Fn(Progress) + Sync),
) -> Result<Summary, GenerateError> {
    if options.partition_size < PARTITION_SIZE_MIN {
        return Err(GenerateError::PartitionSize(options.partition_size));
    }
    let outputs = sources.iter().map(|source| Output::new(*source, options)).collect::<Result<Vec<_>, _>>()?;
    let jobs = outputs.iter().map(|output| output.plan(options)).collect::<Result<Vec<_>, _>>()?;
    let jobs: Vec<Job<'_>> = jobs.into_iter().flatten().collect();
    run(&jobs, options, progress)?;
    Ok(Summary { tables: outputs.into_iter().map(Output::summary).collect() })
}

/// A table, its folder, and the objects written so far.
struct Output<'a> {
    source: &'a dyn Source,
    folder: PathBuf,
    rows: AtomicU64,
    objects: AtomicU64,
    bytes: AtomicU64,
}

/// One object to write.
struct Job<'a> {
    output: &'a Output<'a>,
    number: usize,
    units: Range<u64>,
}

impl<'a> Output<'a> {
    fn new(source: &'a dyn Source, options: &GenerateOptions) -> Result<Self, GenerateError> {
        Ok(Self {
            source,
            folder: create_folder(&options.out, source.table())?,
            rows: AtomicU64::new(0),
            objects: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
        })
    }

    fn plan(&self, options: &GenerateOptions) -> Result<Vec<Job<'_>>, GenerateError> {
        let objects = plan(self.source, options.format, options.partition_size)
            .map_err(|source| GenerateError::Plan { table: self.source.table(), source })?;
        let jobs = objects.into_iter().enumerate();
        Ok(jobs.map(|(number, units)| Job { output: self, number, units }).collect())
    }

    fn summary(self) -> TableSummary {
        TableSummary {
            table: self.source.table(),
            rows: self.rows.into_inner(),
            objects: self.objects.into_inner(),
            bytes: self.bytes.into_inner(),
        }
    }
}

impl Job<'_> {
    fn run(&self, format: Format, progress: &(dyn Fn(Progress) + Sync)) -> Result<(), GenerateError> {
        let Output { source, folder, rows, objects, bytes } = self.output;
        let on_rows = |written| {
            progress(Progress {
                table: source.table(),
                rows_done: rows.fetch_add(written, Ordering::Relaxed) + written,
                rows_total: source.rows(),
            });
        };
        let units = self.units.clone();
        let size = write_object(folder, self.number, *source, units, format, &on_rows)?;
        objects.fetch_add(1, Ordering::Relaxed);
        bytes.fetch_add(size, Ordering::Relaxed);
        Ok(())
    }
}

/// Runs all jobs; after the first error no new job starts.
fn run(jobs: &[Job<'_>], options: &GenerateOptions, progress: &(dyn Fn(Progress) + Sync)) -> Result<(), GenerateError> {
    let next = AtomicUsize::new(0);
    let failed = AtomicBool::new(false);
    let work = || -> Result<(), GenerateError> {
        while !failed.load(Ordering::Relaxed)
            && let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed))
        {
            let done = job.run(options.format, progress);
            failed.fetch_or(done.is_err(), Ordering::Relaxed);
            done?;
        }
        Ok(())
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads(options)).map(|_| scope.spawn(work)).collect();
        let results: Vec<_> = workers
            .into_iter()
            .map(|worker| worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect();
        results.into_iter().collect()
    })
}

fn threads(options: &GenerateOptions) -> usize {
    match options.threads {
        0 => thread::available_parallelism().map_or(1, NonZero::get),
        threads => threads,
    }
}
