//! Selectivities, sizes of answers and times, by fragment, by shape and by partition.

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hash};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use thermocline_pushdown::{ObjectPath, PartitionRange};

use super::Shape;

/// Fragments that are remembered, and shapes.
const SHAPES_MAX: usize = 20_000;
/// Partitions that are remembered because a fragment behaved differently there than elsewhere.
const EXCEPTIONS_MAX: usize = 100_000;
/// Weight of the newest observation.
const WEIGHT: f64 = 0.5;
/// Smallest share of rows that anything is compared with.
const SHARE_MIN: f64 = 1e-6;
/// A partition is remembered by itself if what it showed differs by more than this factor.
const EXCEPTION_FACTOR: f64 = 2.0;
/// Time for which stored bytes are taken to be smaller than an answer after that was first found; it doubles
/// each time that it is found again.
const RETRY_MIN: Duration = Duration::from_secs(60);
/// Upper bound of that time.
const RETRY_MAX: Duration = Duration::from_secs(3600);
/// Factor by which storage must have become slower for that to be doubted when it has run nothing for [`DOUBT_MIN`]: it may be
/// asked for nothing any more, so that nothing tells that it is as fast as before.
const DOUBT_FACTOR: f64 = 2.0;
/// See [`DOUBT_FACTOR`]; it doubles each time that storage is still slow, up to [`RETRY_MAX`].
const DOUBT_MIN: Duration = Duration::from_secs(10);

/// Observations of earlier executions of fragments, at three levels:
///
/// ```text
///   exception   this fragment over this partition, where that differs
///   fragment    with its literals
///   shape       without them: how far statistics were off, applied to those of the new literals
/// ```
///
/// The first that knows something answers. A full level forgets the less recently used half.
#[derive(Debug, Default)]
pub(crate) struct Experience {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    fragments: Recent<u64>,
    shapes: Recent<u64>,
    exceptions: Recent<(u64, Place)>,
}

/// A partition of an object, in whatever version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Place(u64);

impl Place {
    /// The partition `range` of the object at `path`.
    pub(crate) fn new(path: &ObjectPath, range: PartitionRange) -> Self {
        Self(BuildHasherDefault::<DefaultHasher>::default().hash_one((path, range)))
    }
}

/// An execution as statistics expect it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Expected {
    /// Share of rows that pass the fragment's filter.
    pub(crate) selectivity: f64,
    /// Whether the answer holds those rows, rather than what an aggregate or a limit makes of them.
    pub(crate) answers_rows: bool,
}

/// Rows selected, bytes sent and time taken by executions, per row of the partitions. `None` where no execution has shown
/// it.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Observed {
    /// Rows that passed the fragment's filter.
    pub(crate) selectivity: Option<f64>,
    /// Bytes of the answer that a storage node gave to the whole fragment.
    pub(crate) answer_bytes: Option<f64>,
    /// Seconds that storage took for the fragment, in one of its slots.
    pub(crate) storage_s: Option<f64>,
    /// Seconds that the fragment took here, on one core, beside reading.
    pub(crate) here_s: Option<f64>,
    /// Ratio of the time, from routing to the last row, of a scan that did not use the cache to that of its work.
    pub(crate) uncached: Option<f64>,
    /// Ratio of that time to the time that was expected of a scan that storage answered for all partitions.
    pub(crate) pushed: Option<f64>,
    /// The same of a scan whose columns were fetched for all partitions.
    pub(crate) fetched: Option<f64>,
}

/// Totals that an execution over some partitions has shown; `None` where it has not.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Seen {
    /// Rows that passed the fragment's filter.
    pub(crate) selected: Option<u64>,
    /// Bytes of the answer that a storage node gave to the whole fragment.
    pub(crate) answer_bytes: Option<u64>,
    /// See [`Observed::storage_s`].
    pub(crate) storage_s: Option<f64>,
    /// See [`Observed::here_s`].
    pub(crate) here_s: Option<f64>,
    /// See [`Observed::uncached`].
    pub(crate) uncached: Option<f64>,
    /// See [`Observed::pushed`].
    pub(crate) pushed: Option<f64>,
    /// See [`Observed::fetched`].
    pub(crate) fetched: Option<f64>,
}

/// One level's knowledge of one key. What a shape has is relative to what statistics expected.
#[derive(Debug, Clone, Copy, Default)]
struct Learnt {
    /// [`Shape::table`].
    table: u64,
    observed: Observed,
    /// Share of recent answers that were larger than the stored bytes; `None` before the first.
    refused: Option<f64>,
    /// Share of rows that statistics expected when the last answer was refused.
    refused_at: f64,
    /// When to try again, and how long to wait if that is in vain too.
    retry: Option<(Instant, Duration)>,
    /// The least that [`Observed::storage_s`] was.
    storage_s_min: Option<f64>,
    /// When a storage that has become slower is tried again, and how long to wait if that is in vain too.
    doubt: Option<(Instant, Duration)>,
}

impl Learnt {
    fn add(&mut self, observed: Observed, now: Instant) {
        let recent = |known: Option<f64>, now: Option<f64>| match (known, now) {
            (Some(known), Some(now)) => Some(known + WEIGHT * (now - known)),
            (known, now) => now.or(known),
        };
        self.observed.selectivity = recent(self.observed.selectivity, observed.selectivity);
        self.observed.answer_bytes = recent(self.observed.answer_bytes, observed.answer_bytes);
        self.observed.storage_s = recent(self.observed.storage_s, observed.storage_s);
        self.observed.here_s = recent(self.observed.here_s, observed.here_s);
        self.observed.uncached = recent(self.observed.uncached, observed.uncached);
        self.observed.pushed = recent(self.observed.pushed, observed.pushed);
        self.observed.fetched = recent(self.observed.fetched, observed.fetched);
        if let Some((seen, known)) = observed.storage_s.zip(self.observed.storage_s) {
            let least = self.storage_s_min.map_or(seen, |least| least.min(seen));
            self.storage_s_min = Some(least);
            self.doubt = match self.doubt {
                _ if known <= least * DOUBT_FACTOR => None,
                None => Some((now + DOUBT_MIN, DOUBT_MIN)),
                Some((at, wait)) => {
                    let wait = if now >= at { RETRY_MAX.min(wait * 2) } else { wait };
                    Some((now + wait, wait))
                }
            };
        }
    }

    /// What was observed. Storage that was slow long ago is taken to be as fast as before.
    fn observed(&self, now: Instant) -> Observed {
        let is_doubted = self.doubt.is_some_and(|(at, _)| now >= at);
        let storage_s = if is_doubted { self.storage_s_min } else { self.observed.storage_s };
        Observed { storage_s, ..self.observed }
    }

    /// Records that a node answered, or found that the stored bytes are smaller.
    fn verdict(&mut self, refused: bool, expected: f64, now: Instant) {
        let seen = if refused { 1.0 } else { 0.0 };
        let share = self.refused.map_or(seen, |known| known + WEIGHT * (seen - known));
        self.refused = Some(share);
        if !refused {
            self.retry = self.retry.filter(|_| share > 0.5);
            return;
        }
        self.refused_at = expected;
        // Answers that were under way together are one attempt.
        if self.retry.is_none_or(|(at, _)| now >= at) {
            let wait = self.retry.map_or(RETRY_MIN, |(_, wait)| RETRY_MAX.min(wait * 2));
            self.retry = Some((now + wait, wait));
        }
    }

    /// Whether answers are expected to be larger than the stored bytes; `None` if none was seen.
    fn refuses(&self, now: Instant) -> Option<bool> {
        let refused = self.refused? > 0.5;
        Some(refused && self.retry.is_some_and(|(at, _)| now < at))
    }
}

impl Experience {
    /// Forgets a table that is gone: one of the same name may hold other data.
    pub(crate) fn forget_table(&self, table: &str) {
        let gone = Shape::table_of(table);
        let mut state = self.state.lock();
        state.fragments.known.retain(|_, (learnt, _)| learnt.table != gone);
        state.shapes.known.retain(|_, (learnt, _)| learnt.table != gone);
        state.exceptions.known.retain(|_, (learnt, _)| learnt.table != gone);
    }

    /// Selectivity and answer expected of `shape` at `place`, or at any if that is `None`; statistics
    /// expect `expected`.
    pub(crate) fn observed(&self, shape: Shape, expected: Expected, place: Option<Place>) -> Observed {
        self.observed_at(shape, expected, place, Instant::now())
    }

    fn observed_at(&self, shape: Shape, expected: Expected, place: Option<Place>, now: Instant) -> Observed {
        let mut state = self.state.lock();
        let exception =
            place.and_then(|place| state.exceptions.get(&(shape.exact(), place)).map(|known| known.observed(now)));
        let exact = state.fragments.get(&shape.exact()).map(|known| known.observed(now)).unwrap_or_default();
        let general = state.shapes.get(&shape.general()).map(|known| known.observed(now)).unwrap_or_default();
        let general = Observed {
            selectivity: general.selectivity.map(|factor| (factor * base(expected.selectivity)).min(1.0)),
            answer_bytes: general.answer_bytes.map(|factor| factor * expected.of_answer()),
            ..general
        };
        exception.unwrap_or_default().or(exact).or(general)
    }

    /// Remembers what an execution over `places`, `rows` rows together, has shown.
    pub(crate) fn observe(&self, shape: Shape, expected: Expected, (places, rows): (&[Place], u64), seen: Seen) {
        self.observe_at(shape, expected, (places, rows), seen, Instant::now());
    }

    fn observe_at(&self, shape: Shape, expected: Expected, (places, rows): (&[Place], u64), seen: Seen, now: Instant) {
        if rows == 0 {
            return;
        }
        let per_row = |value: f64| value / rows as f64;
        let seen = Observed {
            selectivity: seen.selected.map(|rows| per_row(rows as f64)),
            answer_bytes: seen.answer_bytes.map(|bytes| per_row(bytes as f64)),
            storage_s: seen.storage_s.map(per_row),
            here_s: seen.here_s.map(per_row),
            uncached: seen.uncached,
            pushed: seen.pushed,
            fetched: seen.fetched,
        };
        let relative = Observed {
            selectivity: seen.selectivity.map(|share| share / base(expected.selectivity)),
            answer_bytes: seen.answer_bytes.map(|bytes| bytes / expected.of_answer()),
            ..seen
        };
        let mut state = self.state.lock();
        let fragment = state.fragments.entry(shape.exact(), SHAPES_MAX, shape.table());
        let unusual = fragment.observed.differs(seen);
        fragment.add(seen, now);
        state.shapes.entry(shape.general(), SHAPES_MAX, shape.table()).add(relative, now);
        for place in places {
            if let Some(exception) = state.exception(shape, *place, unusual) {
                exception.add(seen, now);
            }
        }
    }

    /// Whether the answer over the partition at `place` is expected to be larger than its stored
    /// columns.
    pub(crate) fn raw_is_smaller(&self, shape: Shape, expected: Expected, place: Place) -> bool {
        self.raw_is_smaller_at(shape, expected, place, Instant::now())
    }

    fn raw_is_smaller_at(&self, shape: Shape, expected: Expected, place: Place, now: Instant) -> bool {
        let mut state = self.state.lock();
        let exception = state.exceptions.get(&(shape.exact(), place)).and_then(|known| known.refuses(now));
        let exact = exception.or_else(|| state.fragments.get(&shape.exact()).and_then(|known| known.refuses(now)));
        exact.unwrap_or_else(|| {
            let Some(general) = state.shapes.get(&shape.general()) else { return false };
            // Literals that are expected to select far less than those that were refused are tried.
            let alike = expected.selectivity * EXCEPTION_FACTOR >= general.refused_at;
            alike && general.refuses(now).unwrap_or(false)
        })
    }

    /// Remembers whether one answer over the partitions at `places` was larger than their stored
    /// columns.
    pub(crate) fn learn_raw_is_smaller(&self, shape: Shape, expected: Expected, places: &[Place], smaller: bool) {
        self.learn_raw_is_smaller_at(shape, expected, places, smaller, Instant::now());
    }

    fn learn_raw_is_smaller_at(&self, shape: Shape, expected: Expected, places: &[Place], smaller: bool, now: Instant) {
        let mut state = self.state.lock();
        let fragment = state.fragments.entry(shape.exact(), SHAPES_MAX, shape.table());
        let unusual = fragment.refused.is_some_and(|share| (share > 0.5) != smaller);
        fragment.verdict(smaller, expected.selectivity, now);
        state.shapes.entry(shape.general(), SHAPES_MAX, shape.table()).verdict(smaller, expected.selectivity, now);
        for place in places {
            if let Some(exception) = state.exception(shape, *place, unusual) {
                exception.verdict(smaller, expected.selectivity, now);
            }
        }
    }
}

impl State {
    /// The exception of `shape` at `place`, made if the observation is `unusual`; `None` if there is none.
    fn exception(&mut self, shape: Shape, place: Place, unusual: bool) -> Option<&mut Learnt> {
        let key = (shape.exact(), place);
        (unusual || self.exceptions.get(&key).is_some())
            .then(|| self.exceptions.entry(key, EXCEPTIONS_MAX, shape.table()))
    }
}

impl Observed {
    fn or(self, other: Self) -> Self {
        Self {
            selectivity: self.selectivity.or(other.selectivity),
            answer_bytes: self.answer_bytes.or(other.answer_bytes),
            storage_s: self.storage_s.or(other.storage_s),
            here_s: self.here_s.or(other.here_s),
            uncached: self.uncached.or(other.uncached),
            pushed: self.pushed.or(other.pushed),
            fetched: self.fetched.or(other.fetched),
        }
    }

    /// Whether something that both know differs by more than [`EXCEPTION_FACTOR`].
    fn differs(self, other: Self) -> bool {
        let differ = |a: Option<f64>, b: Option<f64>| {
            a.zip(b).is_some_and(|(a, b)| {
                let (a, b) = (a.max(SHARE_MIN), b.max(SHARE_MIN));
                a > b * EXCEPTION_FACTOR || b > a * EXCEPTION_FACTOR
            })
        };
        differ(self.selectivity, other.selectivity) || differ(self.answer_bytes, other.answer_bytes)
    }
}

impl Expected {
    /// The quantity that the size of an answer is proportional to.
    fn of_answer(self) -> f64 {
        if self.answers_rows { base(self.selectivity) } else { 1.0 }
    }
}

fn base(share: f64) -> f64 {
    share.clamp(SHARE_MIN, 1.0)
}

/// A map that forgets its least recently used half when it is full.
#[derive(Debug)]
struct Recent<K> {
    known: HashMap<K, (Learnt, u64)>,
    tick: u64,
}

impl<K> Default for Recent<K> {
    fn default() -> Self {
        Self { known: HashMap::new(), tick: 0 }
    }
}

impl<K: Hash + Eq> Recent<K> {
    fn get(&mut self, key: &K) -> Option<&Learnt> {
        self.tick += 1;
        let (learnt, used) = self.known.get_mut(key)?;
        *used = self.tick;
        Some(learnt)
    }

    fn entry(&mut self, key: K, max: usize, table: u64) -> &mut Learnt {
        self.tick += 1;
        if self.known.len() >= max && !self.known.contains_key(&key) {
            let mut used: Vec<u64> = self.known.values().map(|(_, used)| *used).collect();
            let (_, median, _) = used.select_nth_unstable(max / 2);
            let median = *median;
            self.known.retain(|_, (_, used)| *used > median);
        }
        let (learnt, used) = self.known.entry(key).or_default();
        *used = self.tick;
        learnt.table = table;
        learnt
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    fn shape(literal: u64) -> Shape {
        Shape::from_parts(literal, 1)
    }

    fn place(partition: u32) -> Place {
        Place::new(&ObjectPath::new("t/0.parquet"), PartitionRange::RowGroups { start: partition, end: partition + 1 })
    }

    fn rows(selectivity: f64) -> Expected {
        Expected { selectivity, answers_rows: true }
    }

    fn seen(selected: Option<u64>, answer_bytes: Option<u64>) -> Seen {
        Seen { selected, answer_bytes, ..Seen::default() }
    }

    fn close(seen: Option<f64>, expected: f64) {
        let seen = seen.unwrap();
        assert!((seen - expected).abs() < 1e-9, "{seen} is not {expected}");
    }

    #[test]
    fn other_literals_profit_in_proportion_to_their_statistics() {
        let known = Experience::default();
        // Statistics expect a tenth; it is a fifth, at 2 bytes a row.
        known.observe(shape(1), rows(0.1), (&[place(0)], 1000), seen(Some(200), Some(2000)));
        let same = known.observed(shape(1), rows(0.1), None);
        close(same.selectivity, 0.2);
        close(same.answer_bytes, 2.0);
        let other = known.observed(shape(2), rows(0.01), None);
        close(other.selectivity, 0.02);
        close(other.answer_bytes, 0.2);
        close(known.observed(shape(2), rows(0.9), None).selectivity, 1.0);
        // Once it was seen itself, a fragment goes by that.
        known.observe(shape(2), rows(0.01), (&[place(0)], 1000), seen(Some(500), None));
        close(known.observed(shape(2), rows(0.01), None).selectivity, 0.5);
        // What an aggregate sends does not follow the selectivity.
        let aggregate = |selectivity| Expected { selectivity, answers_rows: false };
        let groups = |literal: u64| Shape::from_parts(10 + literal, 2);
        known.observe(groups(1), aggregate(0.1), (&[place(0)], 1000), seen(None, Some(100)));
        close(known.observed(groups(2), aggregate(0.9), None).answer_bytes, 0.1);
        assert_eq!(known.observed(Shape::from_parts(20, 3), rows(0.5), None), Observed::default());
    }

    #[test]
    fn a_storage_that_was_slow_is_tried_again_at_longer_and_longer_intervals() {
        let known = Experience::default();
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let took = |storage_s, now| {
            let seen = Seen { storage_s: Some(storage_s), ..Seen::default() };
            known.observe_at(shape(1), rows(0.1), (&[], 1000), seen, now);
        };
        let expected = |now| known.observed_at(shape(1), rows(0.1), None, now).storage_s.unwrap() * 1000.0;
        took(0.1, after(0));
        assert!((expected(after(100)) - 0.1).abs() < 1e-9);
        took(1.1, after(100));
        assert!((expected(after(109)) - 0.6).abs() < 1e-9);
        assert!((expected(after(110)) - 0.1).abs() < 1e-9, "it may be fast again");
        (0..24).for_each(|_| took(1.1, after(110)));
        assert!(expected(after(129)) > 1.0 && expected(after(130)) < 0.11, "after twice the time");
        (0..24).for_each(|_| took(0.1, after(130)));
        assert!(expected(after(130)) < 0.11 && expected(after(1000)) < 0.11);
    }

    #[test]
    fn a_table_that_is_gone_is_forgotten_and_no_other() {
        let known = Experience::default();
        let (gone, kept) = (Shape::of_table("gone", 1), Shape::of_table("kept", 2));
        for shape in [gone, kept] {
            for selected in [1, 900] {
                known.observe(shape, rows(0.5), (&[place(0)], 1000), seen(Some(selected), None));
            }
            known.learn_raw_is_smaller(shape, rows(0.5), &[place(0)], true);
        }
        known.forget_table("gone");
        assert_eq!(known.observed(gone, rows(0.5), Some(place(0))), Observed::default());
        assert!(!known.raw_is_smaller(gone, rows(0.5), place(0)));
        assert_ne!(known.observed(kept, rows(0.5), Some(place(0))), Observed::default());
        assert!(known.raw_is_smaller(kept, rows(0.5), place(0)));
    }

    #[test]
    fn a_partition_that_differs_is_remembered_by_itself() {
        let known = Experience::default();
        for partition in 0..10 {
            let selected = if partition == 7 { 900 } else { 10 };
            known.observe(shape(1), rows(0.01), (&[place(partition)], 1000), seen(Some(selected), None));
            known.observe(shape(1), rows(0.01), (&[place(0)], 1000), seen(Some(10), None));
        }
        close(known.observed(shape(1), rows(0.01), Some(place(7))).selectivity, 0.9);
        assert!(known.observed(shape(1), rows(0.01), Some(place(3))).selectivity.unwrap() < 0.1);
    }

    #[test]
    fn one_unselective_literal_does_not_stop_pushdown() {
        let (known, now) = (Experience::default(), Instant::now());
        let (much, little) = (rows(0.8), rows(0.05));
        known.learn_raw_is_smaller_at(shape(1), much, &[place(0)], true, now);
        assert!(known.raw_is_smaller_at(shape(1), much, place(1), now));
        // Literals that select as much are not tried, those that select less are.
        assert!(known.raw_is_smaller_at(shape(2), rows(0.7), place(0), now));
        assert!(!known.raw_is_smaller_at(shape(3), little, place(0), now));
        known.learn_raw_is_smaller_at(shape(3), little, &[place(0)], false, now);
        assert!(!known.raw_is_smaller_at(shape(3), little, place(1), now));
        assert!(known.raw_is_smaller_at(shape(1), much, place(1), now));
    }

    #[test]
    fn a_partition_whose_verdict_differs_keeps_it() {
        let (known, now) = (Experience::default(), Instant::now());
        for partition in (0..20).filter(|partition| *partition != 7) {
            known.learn_raw_is_smaller_at(shape(1), rows(0.5), &[place(partition)], false, now);
        }
        known.learn_raw_is_smaller_at(shape(1), rows(0.5), &[place(7)], true, now);
        known.learn_raw_is_smaller_at(shape(1), rows(0.5), &[place(0)], false, now);
        assert!(known.raw_is_smaller_at(shape(1), rows(0.5), place(7), now));
        assert!(!known.raw_is_smaller_at(shape(1), rows(0.5), place(8), now));
    }

    #[test]
    fn a_refusal_is_tried_again_ever_more_rarely() {
        let (known, mut now) = (Experience::default(), Instant::now());
        let mut waits = vec![];
        for _ in 0..10 {
            // Answers of partitions that were under way together.
            (0..8).for_each(|partition| {
                known.learn_raw_is_smaller_at(shape(1), rows(0.5), &[place(partition)], true, now)
            });
            let began = now;
            while known.raw_is_smaller_at(shape(1), rows(0.5), place(0), now) {
                now += Duration::from_secs(1);
            }
            waits.push((now - began).as_secs());
        }
        assert_eq!(waits, [60, 120, 240, 480, 960, 1920, 3600, 3600, 3600, 3600]);
        // An answer that was small enough ends it.
        known.learn_raw_is_smaller_at(shape(1), rows(0.5), &[place(0)], false, now);
        assert!(!known.raw_is_smaller_at(shape(1), rows(0.5), place(1), now));
    }

    #[test]
    fn what_is_used_stays_and_the_rest_is_bounded() {
        let known = Experience::default();
        known.observe(shape(0), rows(0.5), (&[place(0)], 1000), seen(Some(1), None));
        for literal in 1..100_000 {
            known.observe(
                shape(literal),
                rows(0.5),
                (&[place(literal as u32)], 1000),
                seen(Some(literal % 1000), None),
            );
            known.observe(
                Shape::from_parts(0, literal),
                rows(0.5),
                (&[place(literal as u32)], 1000),
                seen(Some(1), None),
            );
            if literal % 1000 == 0 {
                assert!(known.observed(shape(0), rows(0.5), None).selectivity.is_some());
            }
        }
        let state = known.state.lock();
        assert!(state.fragments.known.contains_key(&0));
        assert!(state.fragments.known.len() <= SHAPES_MAX);
        assert!(state.shapes.known.len() <= SHAPES_MAX);
        assert!(state.exceptions.known.len() <= EXCEPTIONS_MAX);
        assert!(state.fragments.known.len() >= SHAPES_MAX / 2, "half is kept");
    }
}
