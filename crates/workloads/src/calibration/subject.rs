//! A table at one storage, as a calibration measures it.

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::SchemaRef;
use thermocline_compute::PartitionSample;
use thermocline_pushdown::{FileFormat, Mode, ObjectPath, ObjectVersion, OperatorKind};

use super::error::{CalibrationError, Size};
use super::filter_column::{Sampled, quoted};
use super::run::Runs;

/// Minimum number of partitions: a quarter of half of them is a whole partition.
const PARTITIONS_MIN: usize = 8;
/// Minimum number of rows: a scan of fewer takes no longer than its planning.
const ROWS_MIN: u64 = 50_000;
/// Number of partitions, and of columns in them, that are sampled to find a column to filter by.
const SAMPLE_PARTITIONS: usize = 4;
const SAMPLE_COLUMNS: usize = 32;
/// Unevenness above which a column selects too little or too much of some partitions.
const UNEVENNESS_MAX: f64 = 0.25;
/// Room in the cache over the estimated size of the columns: some encodings of text take more than estimated.
const ESTIMATE_MARGIN: u64 = 4;
/// Shares of the columns that are selected.
const COLUMN_SHARES: [f64; 3] = [0.1, 0.5, 1.0];

/// How much of a table is measured.
#[derive(Debug, Clone, Copy)]
pub(super) struct Extent {
    /// Approximate number of stored bytes; more if they have too few partitions or rows.
    pub(super) stored_bytes: u64,
    /// Maximum size of their columns in memory.
    pub(super) cached_bytes_max: u64,
}

impl Extent {
    /// Limit of the cache for columns that are expected to take `bytes` in memory; `None` if they are too large.
    fn cache_limit(&self, bytes: u64) -> Option<u64> {
        let is_room = bytes <= self.cached_bytes_max;
        is_room.then(|| bytes.saturating_mul(ESTIMATE_MARGIN).min(self.cached_bytes_max))
    }
}

/// A partition, with its sizes per set of columns.
#[derive(Debug, Clone)]
struct Part {
    /// Position in the table's snapshot.
    position: usize,
    path: ObjectPath,
    version: ObjectVersion,
    rows: u64,
    /// Per set: stored bytes of its columns and the filter's.
    stored: Vec<u64>,
    /// Per set: bytes of its columns in memory.
    memory: Vec<u64>,
    /// Per set: bytes to decode for its columns and the filter's.
    decoding: Vec<u64>,
}

/// Columns that queries select.
#[derive(Debug, Clone)]
struct ColumnSet {
    names: Vec<String>,
    /// Their positions in the table.
    selected: Vec<usize>,
    /// These and the filter's.
    needed: Vec<usize>,
}

/// Partitions of a table at one storage, and queries over them.
#[derive(Debug, Clone)]
pub(super) struct Subject {
    pub(super) table: String,
    /// Whether the table is text.
    pub(super) is_text: bool,
    /// Whether a network link leads to the storage.
    pub(super) crosses_link: bool,
    /// Whether filters can run at the storage.
    pub(super) pushes: bool,
    /// R: stored bytes for a byte in memory, of all columns.
    pub(super) stored_per_memory: f64,
    filter: Sampled,
    /// See [`Subject::cache_limit`].
    cache_limit: u64,
    /// The sets of columns, the smallest first.
    sets: Vec<ColumnSet>,
    parts: Vec<Part>,
}

impl Subject {
    /// Chooses partitions of `table` at `node`, as many as `extent` says, and a column to filter by, for which it reads a
    /// few of them.
    ///
    /// # Errors
    /// If there is no such table, it is too small or too large, or no column will do; or if a query fails.
    pub(super) async fn new(
        runs: &Runs<'_>,
        table: &str,
        node: &str,
        extent: Extent,
    ) -> Result<Self, CalibrationError> {
        let resources = runs.engine().resources();
        let known = runs.engine().tables().into_iter().find(|known| known.definition.name == table);
        let known = known.ok_or_else(|| CalibrationError::UnknownTable(table.to_owned()))?;
        let snapshot = known.snapshot(resources.settings().partition_size).await?;
        let snapshot_partitions = snapshot.partitions().enumerate();
        let mut here: Vec<_> = snapshot_partitions
            .filter(|(_, (object, partition))| object.node.label() == node && partition.rows > 0)
            .collect();
        let every_column: Vec<usize> = (0..known.schema().fields().len()).collect();
        let (mut stored, mut rows, mut count) = (0, 0, 0);
        for (_, (_, partition)) in &here {
            stored += partition.stored_bytes(&every_column);
            rows += partition.rows;
            count += 1;
            if stored >= extent.stored_bytes && count >= PARTITIONS_MIN && rows >= ROWS_MIN {
                break;
            }
        }
        here.truncate(count);
        let Some((_, (object, _))) = here.first().filter(|_| count >= PARTITIONS_MIN && rows >= ROWS_MIN) else {
            return Err(CalibrationError::TooSmall {
                table: table.to_owned(),
                node: node.to_owned(),
                partitions: count,
                rows,
                partitions_min: PARTITIONS_MIN,
                rows_min: ROWS_MIN,
            });
        };
        let memory_of =
            |columns: &[usize], of: &dyn Fn(usize) -> usize| -> u64 { columns.iter().map(|at| of(*at) as u64).sum() };
        let memory: u64 = here
            .iter()
            .map(|(_, (_, partition))| memory_of(&every_column, &|at| partition.memory_bytes(at)))
            .sum::<u64>();
        let cache_limit = extent.cache_limit(memory).ok_or_else(|| CalibrationError::TooLarge {
            table: table.to_owned(),
            node: node.to_owned(),
            partitions: count,
            stored: Size(stored),
            needed: Size(memory),
            allowed: Size(extent.cached_bytes_max),
        })?;
        let positions: Vec<usize> = here.iter().map(|(position, _)| *position).collect();
        let filter = choose_filter(runs, table, known.schema(), &positions).await?;
        let sets = column_sets(known.schema(), &filter.name);
        if sets.is_empty() {
            return Err(CalibrationError::NoFilter(table.to_owned()));
        }
        let parts: Vec<Part> = here
            .iter()
            .map(|(position, (object, partition))| Part {
                position: *position,
                path: object.path.clone(),
                version: object.version.clone(),
                rows: partition.rows,
                stored: sets.iter().map(|set| partition.stored_bytes(&set.needed)).collect(),
                decoding: sets.iter().map(|set| partition.decoding_bytes(&set.needed)).collect(),
                memory: sets.iter().map(|set| memory_of(&set.selected, &|at| partition.memory_bytes(at))).collect(),
            })
            .collect();
        let (capabilities, format) = (object.node.capabilities(), &known.definition.format);
        Ok(Self {
            table: table.to_owned(),
            is_text: matches!(format, FileFormat::Csv(_)),
            crosses_link: capabilities.crosses_link,
            // Without a link, pushing a filter down never pays.
            pushes: capabilities.crosses_link
                && capabilities.runs(OperatorKind::Filter)
                && capabilities.reads(format, &object.entry.path),
            stored_per_memory: stored.max(1) as f64 / memory.max(1) as f64,
            filter,
            cache_limit,
            sets,
            parts,
        })
    }

    /// Partitions that are measured.
    pub(super) fn partitions(&self) -> usize {
        self.parts.len()
    }

    /// Stored bytes of the partitions, for the largest set of columns and the filter's.
    pub(super) fn stored_bytes(&self) -> u64 {
        self.parts.iter().filter_map(|part| part.stored.last()).sum()
    }

    /// Limit of the cache that leaves room for all columns of all partitions.
    pub(super) fn cache_limit(&self) -> usize {
        usize::try_from(self.cache_limit).unwrap_or(usize::MAX)
    }

    /// Number of sets of columns.
    pub(super) fn column_sets(&self) -> usize {
        self.sets.len()
    }

    /// Share of a set in the bytes of all columns that can be selected: c.
    pub(super) fn column_selectivity(&self, set: usize) -> f64 {
        let of = |set: usize| self.parts.iter().filter_map(|part| part.memory.get(set)).sum::<u64>();
        of(set) as f64 / of(self.sets.len().saturating_sub(1)).max(1) as f64
    }

    /// Name of the column that queries filter by.
    pub(super) fn filter_name(&self) -> &str {
        &self.filter.name
    }

    /// Query for the columns of a set, with a filter of this selectivity.
    pub(super) fn query(&self, set: usize, selectivity: f64) -> Option<String> {
        let columns: Vec<String> = self.sets.get(set)?.names.iter().map(|name| quoted(name)).collect();
        let predicate = self.filter.predicate(selectivity)?;
        Some(format!("SELECT {} FROM {} WHERE {predicate}", columns.join(", "), quoted(&self.table)))
    }

    /// Query for all rows of the columns that queries over a set read.
    pub(super) fn load_query(&self, set: usize) -> Option<String> {
        let names = self.sets.get(set)?.names.iter().chain([&self.filter.name]);
        let columns: Vec<String> = names.map(|name| quoted(name)).collect();
        Some(format!("SELECT {} FROM {}", columns.join(", "), quoted(&self.table)))
    }

    /// The first `count` partitions.
    pub(super) fn first(&self, count: usize) -> PartitionSample {
        PartitionSample::new(self.parts.iter().take(count).map(|part| part.position))
    }

    /// Rows of the first `count` partitions, their stored bytes for a set, and its bytes in memory.
    pub(super) fn sizes(&self, count: usize, set: usize) -> (u64, u64, u64) {
        let parts = || self.parts.iter().take(count);
        (
            parts().map(|part| part.rows).sum(),
            parts().filter_map(|part| part.stored.get(set)).sum(),
            parts().filter_map(|part| part.memory.get(set)).sum(),
        )
    }

    /// Bytes to decode for a set of columns of the first `count` partitions.
    pub(super) fn decoding_bytes(&self, count: usize, set: usize) -> u64 {
        self.parts.iter().take(count).filter_map(|part| part.decoding.get(set)).sum()
    }

    /// Objects with partitions beyond the first `count`.
    pub(super) fn objects_beyond(&self, count: usize) -> Vec<(ObjectPath, ObjectVersion)> {
        let mut objects: Vec<_> =
            self.parts.iter().skip(count).map(|part| (part.path.clone(), part.version.clone())).collect();
        objects.dedup();
        objects
    }
}

/// The column whose values are spread most evenly over the partitions of a sample.
async fn choose_filter(
    runs: &Runs<'_>,
    table: &str,
    schema: &SchemaRef,
    positions: &[usize],
) -> Result<Sampled, CalibrationError> {
    let candidates = schema.fields().iter().filter_map(|field| Sampled::new(field.name(), field.data_type()));
    let mut candidates: Vec<Sampled> = candidates.take(SAMPLE_COLUMNS).collect();
    if candidates.is_empty() || schema.fields().len() < 2 {
        return Err(CalibrationError::NoFilter(table.to_owned()));
    }
    let names: Vec<String> = candidates.iter().map(|candidate| quoted(&candidate.name)).collect();
    let sql = format!("SELECT {} FROM {}", names.join(", "), quoted(table));
    let step = (positions.len() / SAMPLE_PARTITIONS).max(1);
    for position in positions.iter().step_by(step).take(SAMPLE_PARTITIONS) {
        let mut batches: Vec<RecordBatch> = vec![];
        runs.each(&sql, Mode::Pullup, &PartitionSample::new([*position]), |batch| batches.push(batch)).await?;
        for (column, candidate) in candidates.iter_mut().enumerate() {
            let arrays: Vec<ArrayRef> =
                batches.iter().filter_map(|batch| batch.columns().get(column).cloned()).collect();
            candidate.add(&arrays)?;
        }
    }
    let best = candidates.into_iter().map(|candidate| (candidate.unevenness(), candidate));
    let best = best.min_by(|(a, _), (b, _)| a.total_cmp(b)).filter(|(unevenness, _)| *unevenness <= UNEVENNESS_MAX);
    best.map(|(_, candidate)| candidate).ok_or_else(|| CalibrationError::NoFilter(table.to_owned()))
}

/// Sets of the first columns without the filter's, the smallest first.
fn column_sets(schema: &SchemaRef, filter: &str) -> Vec<ColumnSet> {
    let others: Vec<usize> = (0..schema.fields().len()).filter(|at| schema.field(*at).name() != filter).collect();
    let mut counts: Vec<usize> =
        COLUMN_SHARES.iter().map(|share| (others.len() as f64 * share).ceil() as usize).collect();
    counts.dedup();
    let filter_at = schema.index_of(filter).ok();
    let set = |count: usize| {
        let selected: Vec<usize> = others.iter().take(count).copied().collect();
        let mut needed: Vec<usize> = selected.iter().copied().chain(filter_at).collect();
        needed.sort_unstable();
        let names = selected.iter().map(|at| schema.field(*at).name().clone()).collect();
        ColumnSet { names, selected, needed }
    };
    counts.into_iter().filter(|count| *count > 0).map(set).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::datatypes::{DataType, Field, Schema};

    use super::*;

    #[test]
    fn the_cache_has_room_for_what_is_measured_and_no_more_than_allowed() {
        let extent = Extent { stored_bytes: 1, cached_bytes_max: 1000 };
        let limits = [0, 100, 250, 251, 1000, 1001, u64::MAX].map(|bytes| extent.cache_limit(bytes));
        assert_eq!(limits, [Some(0), Some(400), Some(1000), Some(1000), Some(1000), None, None]);
        let any = Extent { cached_bytes_max: u64::MAX, ..extent };
        assert_eq!(any.cache_limit(u64::MAX), Some(u64::MAX));
    }

    #[test]
    fn sets_of_columns_grow() {
        let field = |name: &str| Field::new(name, DataType::Int64, true);
        let schema = Arc::new(Schema::new(["a", "k", "b", "c", "d"].map(field).to_vec()));
        let sets = column_sets(&schema, "k");
        assert_eq!(sets.iter().map(|set| set.names.join("")).collect::<Vec<_>>(), ["a", "ab", "abcd"]);
        assert_eq!(sets[1].needed, [0, 1, 2]);
        assert!(column_sets(&Arc::new(Schema::new(vec![field("k")])), "k").is_empty());
    }
}
