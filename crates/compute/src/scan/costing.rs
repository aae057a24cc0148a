//! Work of a scan's partitions on each route (thesis equations 4.4 to 4.6), by resource.

use std::cell::Cell;
use std::collections::HashMap;

use datafusion::physical_expr::split_conjunction;
use datafusion::physical_plan::aggregates::AggregateExec;
use thermocline_catalog::{Partition, PlannedObject};
use thermocline_pushdown::{FileFormat, Fragment};

use super::scan_plan::ScanPlan;
use crate::learning::{Expected, Observed, Place};
use crate::model::{Capacity, Cost, DecodeKind, Load, RuntimeModel, Unexpected};

/// Seconds of a core that a fragment takes for a row, until it has run: for any; for each aggregate and for grouping, of the
/// rows that pass its filter. That of the filter is [`PREDICATE_S`] for each of its terms.
const ROW_S: f64 = 5e-9;
const AGGREGATE_S: f64 = 5e-9;
const GROUPING_S: f64 = 20e-9;
/// Seconds of a core per stored byte that crosses a link: at storage, to read, frame and send it; and here, to receive it.
const SENDING_S_PER_BYTE: f64 = 2.5e-9;
const RECEIVING_S_PER_BYTE: f64 = 1.5e-9;
/// The same for the first message of an answer and its batches, by byte.
const ANSWER_S_PER_BYTE: f64 = 1.0 / 1e9;
/// Bytes of an answer for a partition, beside its rows.
const ANSWER_BYTES: f64 = 1000.0;
/// Bytes of an aggregate's answer for a row, until one was seen.
const CONDENSED_BYTES_PER_ROW: f64 = 0.05;
/// Share of the stored bytes that an answer takes at most, until one was seen. Asking for it is cheap: a node of which the
/// answer would take more than what is stored says so, and sends nothing. Fetching what a filter would have thrown away is
/// not, and statistics seldom tell what a filter selects: that of a join they never do.
const UNSEEN_SHARE: f64 = 0.25;
/// Bytes on the wire of an answer's rows, relative to memory, until one was seen.
const COMPRESSED: f64 = 0.5;

/// Seconds of a core that storage takes to decode and plan a byte of an encoded fragment: of long lists of literals.
const FRAGMENT_S_PER_BYTE: f64 = 50e-9;

/// Seconds of a core that a predicate takes for a row, until its fragment has run.
const PREDICATE_S: f64 = 2e-9;

/// Largest factor by which a scan's time on one route is corrected: whoever reads its rows may be slow.
const RATIO_MAX: f64 = 4.0;

/// Ratio of two misses between which policies see a difference.
const STEP: f64 = 1.25;

/// Work that a partition's segments save when they are cached (FlexPushdownDB section 5.4), beside their size.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Miss {
    /// t_scan + t_compute (equations 3 and 4), in seconds.
    storage_s: f64,
    /// Seconds per byte in memory of the selected rows' share: selectivity / BW_net (equation 2).
    net_s_per_byte: f64,
}

impl Miss {
    /// total_work(s) (equation 1) of a segment of `bytes` bytes in memory, in steps of a quarter: otherwise every
    /// correction of a rate would make one of two equal segments worth more than the other, and evict it.
    pub(super) fn seconds(&self, bytes: usize) -> f64 {
        coarse(self.storage_s + self.net_s_per_byte * bytes as f64)
    }
}

/// What is expected of storage for a fragment that was not seen there yet, before that is corrected by what other such
/// fragments have shown.
#[derive(Debug, Clone, Copy)]
pub(super) struct Unseen {
    /// Bytes of the answer per row.
    pub(super) answer_bytes: f64,
    /// Seconds per row, in one slot.
    pub(super) storage_s: f64,
}

/// Work of the partitions of one scan.
#[derive(Debug)]
pub(super) struct Costing<'a> {
    scan: &'a ScanPlan,
    expected: Expected,
    /// What executions of the fragment have shown, wherever.
    observed: Observed,
    /// Terms of the filter.
    predicates: usize,
    /// Seconds of a core that the fragment takes for a row, as far as can be told from its operators.
    row_s: f64,
    /// Seconds of a core for a byte that is decoded: batch by batch, and for a column that is kept.
    decoding_s_per_byte: f64,
    keeping_s_per_byte: f64,
    /// Seconds of a core that storage takes for the fragment of each request.
    request_s: f64,
    /// Factors by which answers and times of unseen fragments differ from expectation.
    unseen: Unexpected,
    /// The storages of the partitions, and their positions by label.
    storages: Vec<Known>,
    positions: HashMap<&'a str, usize>,
    cores: f64,
    /// The partition that was asked for last.
    last: Cell<Option<(Place, Observed)>>,
}

/// A storage as the scan takes it.
#[derive(Debug)]
struct Known {
    capacity: Capacity,
    /// Seconds there for a second of this side's cores.
    slowness: f64,
    /// Share of fragments that it pushes back.
    pushed_back: f64,
}

impl Known {
    fn new(object: &PlannedObject, model: &RuntimeModel) -> Self {
        let rates = model.storage(object.node.label());
        let mut rates = rates.lock();
        rates.settle();
        let crosses_link = object.node.capabilities().crosses_link;
        let capacity = Capacity {
            bytes_per_s: if crosses_link { rates.bytes_per_s() } else { f64::INFINITY },
            slots: rates.slots(),
            round_trip_s: if crosses_link { rates.round_trip_s() } else { 0.0 },
            cores_share: if object.node.capabilities().shares_cores { rates.busy_share() } else { 0.0 },
        };
        Self { capacity, slowness: rates.slowness(), pushed_back: rates.pushed_back() }
    }
}

impl<'a> Costing<'a> {
    pub(super) fn new(scan: &'a ScanPlan) -> Self {
        let resources = scan.query().resources();
        let expected = scan.expected();
        let is_text = matches!(scan.format(), FileFormat::Csv(_));
        let cores = std::thread::available_parallelism().map_or(1, usize::from) as f64;
        let (mut storages, mut positions) = (vec![], HashMap::new());
        for (object, _) in scan.partitions() {
            positions.entry(object.node.label()).or_insert_with(|| {
                storages.push(Known::new(object, &resources.model));
                storages.len() - 1
            });
        }
        let table = scan.shape().table();
        let decoding = |is_kept| resources.model.decoding_s_per_byte(DecodeKind { table, is_text, is_kept });
        let predicates = scan.fragment().predicate().map_or(0, |predicate| split_conjunction(predicate).len());
        let row_s = ROW_S + predicates as f64 * PREDICATE_S + expected.selectivity * aggregates_s(scan.fragment());
        Self {
            scan,
            expected,
            row_s,
            observed: resources.experience.observed(scan.shape(), expected, None),
            predicates,
            request_s: scan.encoded().map_or(0.0, |fragment| fragment.size() as f64 * FRAGMENT_S_PER_BYTE),
            decoding_s_per_byte: decoding(false),
            keeping_s_per_byte: decoding(true),
            unseen: *resources.model.unseen.lock(),
            storages,
            positions,
            cores: (cores / resources.admission.running().max(1) as f64).max(1.0),
            last: Cell::new(None),
        }
    }

    /// The position of an object's storage.
    pub(super) fn storage(&self, object: &PlannedObject) -> usize {
        self.positions.get(object.node.label()).copied().unwrap_or(0)
    }

    /// The storage of an object of the scan.
    fn known_storage(&self, object: &PlannedObject) -> Option<&Known> {
        self.storages.get(self.storage(object))
    }

    /// No work yet, over the storages of all partitions.
    pub(super) fn nothing(&self) -> Load {
        // No more at once than there are partitions.
        let at_most = |number: f64| number.min(self.scan.partitions().len() as f64);
        let capacities = self.storages.iter().map(|Known { capacity, .. }| capacity);
        let capacities = capacities.map(|capacity| Capacity { slots: at_most(capacity.slots), ..*capacity });
        Load::new(capacities.collect(), at_most(self.cores))
    }

    /// What a miss of this partition's segments costs: the work of pushing it down. Filters of joins and bitmaps are part of
    /// the selectivity, which is the observed one where there is any.
    pub(super) fn miss(&self, object: &PlannedObject, partition: &Partition) -> Miss {
        let Some(Known { capacity, slowness, .. }) = self.known_storage(object) else { return Miss::default() };
        let known = self.known(object, partition);
        let rows = partition.rows as f64;
        let work = known.storage_s.map_or_else(
            || {
                let predicates = rows * self.predicates as f64 * PREDICATE_S;
                slowness * (self.decoding_s(partition, self.scan.columns()) + predicates)
            },
            |seconds| seconds * rows,
        );
        let selectivity = known.selectivity.unwrap_or(self.expected.selectivity);
        Miss { storage_s: work / capacity.slots.max(1.0), net_s_per_byte: selectivity / capacity.bytes_per_s.max(1.0) }
    }

    /// The fragment over columns in memory.
    pub(super) fn local(&self, partition: &Partition) -> Cost {
        Cost { here_s: self.fragment_s(partition), ..Cost::default() }
    }

    /// The fragment here, after the columns at `missing` positions of the table were fetched, and decoded together with
    /// those at `stored` positions, whose stored bytes are in memory; all to be `kept`, or none.
    pub(super) fn fetched(
        &self,
        object: &PlannedObject,
        partition: &Partition,
        (missing, stored): (&[usize], &[usize]),
        kept: bool,
    ) -> Cost {
        let s_per_byte = if kept { self.keeping_s_per_byte } else { self.decoding_s_per_byte };
        let bytes = if missing.is_empty() { 0.0 } else { partition.stored_bytes(missing) as f64 };
        let link_bytes = if object.node.capabilities().crosses_link { bytes } else { 0.0 };
        let decoding_s = [missing, stored].into_iter().filter(|columns| !columns.is_empty());
        let decoding_s: f64 = decoding_s.map(|columns| partition.decoding_bytes(columns) as f64 * s_per_byte).sum();
        let sending_s = link_bytes * SENDING_S_PER_BYTE;
        let here_s = link_bytes * RECEIVING_S_PER_BYTE + decoding_s + self.fragment_s(partition);
        // Sending takes cores of the storage: this side's, if they are shared.
        match object.node.capabilities().shares_cores {
            true => Cost { link_bytes, storage_s: 0.0, here_s: here_s + sending_s },
            false => Cost { link_bytes, storage_s: sending_s, here_s },
        }
    }

    /// Of the time that it takes to fetch and decode a column of a partition, the share that fetching takes: what stored
    /// bytes in memory save.
    pub(super) fn fetching_share(&self, object: &PlannedObject, partition: &Partition, column: usize) -> f64 {
        let Some(Known { capacity, .. }) = self.known_storage(object) else { return 0.0 };
        let fetching_s = partition.stored_bytes(&[column]) as f64 / capacity.bytes_per_s.max(1.0);
        let decoding_s = self.decoding_s(partition, &[column]) / self.cores;
        fetching_s / (fetching_s + decoding_s).max(f64::MIN_POSITIVE)
    }

    /// The fragment at storage. What is pushed back is `fetched` instead.
    pub(super) fn pushed(&self, object: &PlannedObject, partition: &Partition, fetched: Option<&Cost>) -> Cost {
        let Some(Known { slowness, pushed_back, .. }) = self.known_storage(object) else { return Cost::default() };
        let known = self.known(object, partition);
        let rows = partition.rows as f64;
        let answer = self.answer_bytes(partition, &known);
        let work = match known.storage_s {
            Some(seconds) => seconds * rows,
            None => (self.here_s(partition) * self.unseen.storage.value() + self.request_s) * slowness,
        };
        let cost = match object.node.capabilities().crosses_link {
            true => Cost { link_bytes: answer, storage_s: work, here_s: answer * ANSWER_S_PER_BYTE },
            // It takes the cores of this side.
            false => Cost { link_bytes: 0.0, storage_s: 0.0, here_s: work + answer * ANSWER_S_PER_BYTE },
        };
        match fetched {
            Some(fetched) if *pushed_back > 0.0 => mixed(&cost, fetched, *pushed_back),
            _ => cost,
        }
    }

    /// The partition if nothing of it were cached.
    pub(super) fn without_cache(&self, object: &PlannedObject, partition: &Partition) -> Cost {
        let fetched = self.fetched(object, partition, (self.scan.columns(), &[]), false).times(self.fetched_ratio());
        match self.scan.may_push(object) && self.scan.fragment().reduces() {
            true => {
                let pushed = self.pushed(object, partition, Some(&fetched)).times(self.pushed_ratio());
                if self.seconds(object, &pushed) <= self.seconds(object, &fetched) { pushed } else { fetched }
            }
            false => fetched,
        }
    }

    /// Bytes in memory that the fragment's answer over a partition is expected to take, and the seconds that keeping it saves.
    pub(super) fn answer(&self, object: &PlannedObject, partition: &Partition) -> (usize, f64) {
        let cost = self.pushed(object, partition, None);
        ((cost.link_bytes / COMPRESSED) as usize, self.seconds(object, &cost))
    }

    /// Seconds that a partition of `object` takes alone.
    pub(super) fn seconds(&self, object: &PlannedObject, cost: &Cost) -> f64 {
        self.known_storage(object).map_or(0.0, |known| known.capacity.seconds(cost, self.cores))
    }

    /// Seconds that one of this side's cores would take for the whole partition, reading included.
    fn here_s(&self, partition: &Partition) -> f64 {
        self.decoding_s(partition, self.scan.columns()) + self.fragment_s(partition)
    }

    /// Seconds that one of this side's cores would take per row of the scan, reading included.
    pub(super) fn here_s_per_row(&self) -> f64 {
        let partitions = self.scan.partitions();
        let seconds: f64 = partitions.iter().map(|(_, partition)| self.here_s(partition)).sum();
        let rows: u64 = partitions.iter().map(|(_, partition)| partition.rows).sum();
        if rows == 0 { 0.0 } else { seconds / rows as f64 }
    }

    /// What executions of the fragment have shown over a partition.
    fn known(&self, object: &PlannedObject, partition: &Partition) -> Observed {
        let place = Place::new(&object.path, partition.range);
        match self.last.get() {
            Some((last, known)) if last == place => known,
            _ => {
                let experience = &self.scan.query().resources().experience;
                let known = experience.observed(self.scan.shape(), self.expected, Some(place));
                self.last.set(Some((place, known)));
                known
            }
        }
    }

    fn fragment_s(&self, partition: &Partition) -> f64 {
        self.observed.here_s.unwrap_or(self.row_s) * partition.rows as f64
    }

    fn decoding_s(&self, partition: &Partition, columns: &[usize]) -> f64 {
        partition.decoding_bytes(columns) as f64 * self.decoding_s_per_byte
    }

    /// Bytes of the fragment's answer over a partition.
    fn answer_bytes(&self, partition: &Partition, known: &Observed) -> f64 {
        let of_rows = match known.answer_bytes {
            Some(per_row) => per_row * partition.rows as f64,
            // A node that would send more than what is stored says so instead.
            None => (self.unseen_answer_bytes(partition, known) * self.unseen.answers.value())
                .min(partition.stored_bytes(self.scan.columns()) as f64),
        };
        of_rows + ANSWER_BYTES
    }

    /// The same without [`ANSWER_BYTES`], as far as can be told from the operators of the fragment and from statistics.
    fn unseen_answer_bytes(&self, partition: &Partition, known: &Observed) -> f64 {
        if self.scan.fragment().condenses() {
            return CONDENSED_BYTES_PER_ROW * partition.rows as f64;
        }
        let selectivity = known.selectivity.unwrap_or(self.expected.selectivity);
        let memory: usize = self.scan.columns().iter().map(|column| partition.memory_bytes(*column)).sum();
        let stored = partition.stored_bytes(self.scan.columns()) as f64;
        (selectivity * memory as f64 * COMPRESSED).min(UNSEEN_SHARE * stored)
    }

    /// What is expected of storage, if the fragment was not seen there yet.
    pub(super) fn unseen(&self) -> Option<Unseen> {
        if self.observed.answer_bytes.is_some() || self.observed.storage_s.is_some() {
            return None;
        }
        let (mut rows, mut answer_bytes, mut storage_s) = (0, 0.0, 0.0);
        for (object, partition) in self.scan.partitions() {
            let slowness = self.known_storage(object).map_or(1.0, |known| known.slowness);
            rows += partition.rows;
            answer_bytes += self.unseen_answer_bytes(partition, &self.observed);
            storage_s += self.here_s(partition) * slowness;
        }
        let per_row = |value: f64| value / rows as f64;
        (rows > 0).then(|| Unseen { answer_bytes: per_row(answer_bytes), storage_s: per_row(storage_s) })
    }

    /// Whether storage has never run the fragment.
    pub(super) fn is_unseen(&self) -> bool {
        self.observed.storage_s.is_none()
    }

    /// Whether the fragment has run here.
    pub(super) fn has_run_here(&self) -> bool {
        self.observed.here_s.is_some()
    }

    /// Seconds that the scan takes for each that is expected of it, where storage answers for all partitions; 1 for a
    /// fragment that it has never run, of which little is known.
    pub(super) fn pushed_ratio(&self) -> f64 {
        if self.is_unseen() {
            return 1.0;
        }
        bounded(self.observed.pushed.unwrap_or(self.unseen.pushed.value()))
    }

    /// The same where columns are fetched for all partitions.
    pub(super) fn fetched_ratio(&self) -> f64 {
        bounded(self.observed.fetched.unwrap_or(self.unseen.fetched.value()))
    }

    /// Ratio of the time that such scans took without the cache to that of their work.
    pub(super) fn uncached(&self) -> Option<f64> {
        self.observed.uncached
    }
}

/// A ratio of times within [`RATIO_MAX`].
fn bounded(ratio: f64) -> f64 {
    ratio.clamp(1.0 / RATIO_MAX, RATIO_MAX)
}

/// Seconds of a core for a row that aggregates take.
fn aggregates_s(fragment: &Fragment) -> f64 {
    let of = |aggregate: &AggregateExec| {
        let grouping_s = if aggregate.group_expr().is_empty() { 0.0 } else { GROUPING_S };
        aggregate.aggr_expr().len() as f64 * AGGREGATE_S + grouping_s
    };
    fragment.chain().iter().filter_map(|operator| operator.downcast_ref::<AggregateExec>()).map(of).sum()
}

/// The power of [`STEP`] that is next to a number.
fn coarse(seconds: f64) -> f64 {
    if seconds > 0.0 { STEP.powf(seconds.log(STEP).round()) } else { 0.0 }
}

/// Cost of a partition of which `share` of all attempts end with `other`.
fn mixed(cost: &Cost, other: &Cost, share: f64) -> Cost {
    let mix = |a: f64, b: f64| a * (1.0 - share) + b * share;
    Cost {
        link_bytes: mix(cost.link_bytes, other.link_bytes),
        storage_s: mix(cost.storage_s, other.storage_s),
        here_s: mix(cost.here_s, other.here_s),
    }
}
