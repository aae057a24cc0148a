//! The choice between pushdown, bitmap and pullup.

use std::collections::HashMap;
use std::sync::Arc;

use thermocline_catalog::{Partition, PlannedObject};
use thermocline_pushdown::{Bitmap, Route, Selection};

use super::super::pushdown::pushdown_pays;
use super::super::scan_plan::ScanPlan;
use super::plan::BitmapPlan;
use crate::learning::Place;

/// Partitions of more rows take no bitmap: at 8 MiB it would fill half of the largest request (16 MiB).
const ROWS_MAX: u64 = 64 << 20;

/// A filter that statistics expect to select a smaller share of the rows is pushed down: its ranges
/// leave the storage node few pages to read, whereas a bitmap is made of all rows (TPC-H Q12 with a
/// range of one day: 0.01 s against 0.1 s).
const SELECTIVITY_MIN: f64 = 1e-3;

/// A route, with its plan where it has one.
#[derive(Debug, Clone)]
pub(in super::super) enum Choice {
    Local,
    Answered,
    Load,
    Pushdown,
    Bitmap(Arc<BitmapPlan>),
    Pullup,
}

impl Choice {
    pub(in super::super) fn route(&self) -> Route {
        match self {
            Self::Local => Route::Local,
            Self::Answered => Route::Answered,
            Self::Load => Route::Load,
            Self::Pushdown => Route::Pushdown,
            Self::Bitmap(_) => Route::Bitmap,
            Self::Pullup => Route::Pullup,
        }
    }
}

/// The two plans for one set of cached columns.
#[derive(Debug, Clone, Default)]
struct Plans {
    of_fragment: Option<Arc<BitmapPlan>>,
    of_rows: Option<Arc<BitmapPlan>>,
}

/// Chooses between pushdown, bitmap and pullup by expected bytes, partition by partition.
///
/// *Rows*: the missing columns of the selected rows come, so that the cached ones save their bytes.
/// It is chosen if what moves in both directions, bitmaps included, is not expected to be more than
/// pushdown of the fragment would move. An aggregate or a limit moves little in pushdown, so that a
/// bitmap only competes once an execution has shown how much.
///
/// *Fragment*: the storage node answers what it would answer to pushdown, but reads fewer columns.
/// It is chosen if the bitmap sent is not expected to be larger than the columns that it saves.
///
/// Expectations come from what earlier executions selected and sent ([`Experience`](crate::learning::Experience));
/// without any, from the optimizer's statistics and the columns' sizes in memory.
#[derive(Debug)]
pub(in super::super) struct Chooser<'a> {
    scan: &'a ScanPlan,
    /// `None` if no bitmap may be used.
    selection: Option<Selection>,
    /// Share of the partition's rows that pass the filter, as executions observed it or, before there
    /// were any, as statistics expect it.
    selectivity: f64,
    /// Bytes per row that pushdown of the partition was seen to move.
    answer_bytes: Option<f64>,
    plans: HashMap<Vec<bool>, Plans>,
}

impl<'a> Chooser<'a> {
    pub(in super::super) fn new(scan: &'a ScanPlan) -> Self {
        let selection = scan
            .uses_bitmaps()
            .then(|| scan.fragment().selection().ok())
            .flatten()
            .filter(|selection| selection.predicate.is_some());
        Self { scan, selection, selectivity: 1.0, answer_bytes: None, plans: HashMap::new() }
    }

    /// Chooses for `partition`, of which these needed columns are `cached`.
    pub(in super::super) fn choose(
        &mut self,
        object: &PlannedObject,
        partition: &Partition,
        cached: &[bool],
    ) -> Choice {
        let pushes = pushdown_pays(self.scan, object, partition);
        let otherwise = if pushes { Choice::Pushdown } else { Choice::Pullup };
        if self.selection.is_none() || !cached.contains(&true) || partition.rows > ROWS_MAX || !self.scan.reads(object)
        {
            return otherwise;
        }
        let expected = self.scan.expected();
        if pushes && expected.selectivity < SELECTIVITY_MIN {
            return otherwise;
        }
        let experience = &self.scan.query().resources().experience;
        let place = Place::new(&object.path, partition.range);
        let observed = experience.observed(self.scan.shape(), expected, Some(place));
        self.selectivity = observed.selectivity.unwrap_or(expected.selectivity);
        self.answer_bytes = observed.answer_bytes;
        let Plans { of_fragment, of_rows } = self.plans_for(cached);
        let raw_is_smaller = |plan: &Arc<BitmapPlan>| experience.raw_is_smaller(plan.shape, expected, place);
        let pushdown_bytes = self.pushdown_bytes(partition);
        let pullup_bytes = partition.stored_bytes(&missing(self.scan, cached)) as f64;
        let (mut choice, mut bytes) = if pushes { (otherwise, pushdown_bytes) } else { (otherwise, pullup_bytes) };
        if of_fragment.iter().chain(&of_rows).any(raw_is_smaller) && pullup_bytes < bytes {
            (choice, bytes) = (Choice::Pullup, pullup_bytes);
        }
        // Without an aggregate, the fragment's answer holds all that the rows' answer holds.
        let reduces = self.selection.as_ref().is_some_and(|selection| selection.above.reduces());
        if !reduces && of_rows.as_ref().is_some_and(raw_is_smaller) {
            return choice;
        }
        if let Some(plan) = of_fragment.filter(|plan| pushes && !raw_is_smaller(plan))
            && self.sent_bytes(&plan, partition) <= self.unread_bytes(&plan, partition)
        {
            choice = Choice::Bitmap(plan);
        }
        if let Some(plan) = of_rows.filter(|plan| !raw_is_smaller(plan))
            && self.rows_bytes(&plan, partition, pushdown_bytes) <= bytes
        {
            choice = Choice::Bitmap(plan);
        }
        choice
    }

    fn plans_for(&mut self, cached: &[bool]) -> Plans {
        let (scan, selection) = (self.scan, &self.selection);
        let make = || match selection {
            None => Plans::default(),
            Some(selection) => Plans {
                of_fragment: BitmapPlan::of_fragment(scan, selection, cached).map(Arc::new),
                of_rows: BitmapPlan::of_rows(scan, selection, cached).map(Arc::new),
            },
        };
        self.plans.entry(cached.to_vec()).or_insert_with(make).clone()
    }

    /// Bytes that pushdown of the whole fragment is expected to move.
    fn pushdown_bytes(&self, partition: &Partition) -> f64 {
        match (&self.selection, self.answer_bytes) {
            (_, Some(bytes)) => bytes * partition.rows as f64,
            (Some(selection), None) if !selection.above.reduces() => {
                self.selectivity * self.memory_bytes(partition, &selection.output)
            }
            _ => 0.0,
        }
    }

    /// Bytes that the missing columns of the selected rows and the bitmaps are expected to move.
    fn rows_bytes(&self, plan: &BitmapPlan, partition: &Partition, pushdown_bytes: f64) -> f64 {
        let Some(selection) = &self.selection else { return f64::INFINITY };
        let answered = self.memory_bytes(partition, &plan.asked);
        let columns = if selection.above.reduces() {
            self.selectivity * answered
        } else {
            // In proportion to what pushdown moves, which compression has made smaller.
            pushdown_bytes * answered / self.memory_bytes(partition, &selection.output).max(1.0)
        };
        let returned = if plan.returns_bitmap { bitmap_bytes(partition, self.selectivity) } else { 0.0 };
        columns + returned + self.sent_bytes(plan, partition)
    }

    fn sent_bytes(&self, plan: &BitmapPlan, partition: &Partition) -> f64 {
        match (&plan.here, plan.evaluates_there) {
            (None, _) => 0.0,
            (Some(_), false) => bitmap_bytes(partition, self.selectivity),
            // How many rows this side's part of the predicate selects is not known.
            (Some(_), true) => bitmap_bytes(partition, 1.0),
        }
    }

    /// Bytes of the columns that the storage node does not read thanks to the bitmap. A text's
    /// columns are all read but not converted, which is measured by what they convert to.
    fn unread_bytes(&self, plan: &BitmapPlan, partition: &Partition) -> f64 {
        let unread: Vec<usize> =
            (0..self.scan.columns().len()).filter(|position| !plan.there.contains(position)).collect();
        if partition.is_row_oriented() {
            self.memory_bytes(partition, &unread)
        } else {
            partition.stored_bytes(&in_table(self.scan, &unread)) as f64
        }
    }

    fn memory_bytes(&self, partition: &Partition, positions: &[usize]) -> f64 {
        in_table(self.scan, positions).into_iter().map(|column| partition.memory_bytes(column) as f64).sum()
    }
}

/// Bytes of an encoded bitmap that selects this share of a partition's rows.
fn bitmap_bytes(partition: &Partition, selectivity: f64) -> f64 {
    /// Two bytes of clear run, one of set run.
    const RUN_BYTES: f64 = 3.0;
    let plain = Bitmap::encoded_bytes_max(partition.rows as usize) as f64;
    plain.min(selectivity * partition.rows as f64 * RUN_BYTES)
}

/// Columns of the table at `positions` of the needed ones.
fn in_table(scan: &ScanPlan, positions: &[usize]) -> Vec<usize> {
    positions.iter().filter_map(|position| scan.columns().get(*position).copied()).collect()
}

/// Needed columns of the table that are not cached.
fn missing(scan: &ScanPlan, cached: &[bool]) -> Vec<usize> {
    scan.columns().iter().zip(cached).filter(|(_, cached)| !**cached).map(|(column, _)| *column).collect()
}
