//! What is known of one storage: its link, how fast it computes, how busy it is.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::calibration::Rates;
use super::estimate::Estimate;
use super::link::{Link, Transfer};

/// Fragments at once that are assumed until some have run.
const SLOTS: f64 = 2.0;
/// Probes of a link at most; after the last one, its fastest read is taken for the bandwidth. On a busy machine a probe may
/// tell little, so each may take twice as long as the one before.
const PROBES_MAX: u32 = 4;
/// Of these, probes that begin even if no bytes of a query are going to move.
const PROBES_FIRST: u32 = 2;
/// Time of the first one, after which no further read of it begins.
const PROBE_TIME: Duration = Duration::from_millis(25);
/// Bytes of a read that tells the bandwidth by itself.
const PROBE_BYTES: u64 = 1 << 20;
/// Consecutive reads whose rates must differ by at most [`PROBE_ALIKE`] to tell the bandwidth; the last must have taken
/// [`PROBE_READ_MIN`].
const PROBE_READS_ALIKE: usize = 3;
/// See [`PROBE_READS_ALIKE`].
const PROBE_ALIKE: f64 = 1.25;
/// See [`PROBE_READS_ALIKE`].
const PROBE_READ_MIN: Duration = Duration::from_millis(10);
/// Time of a read that tells the bandwidth by itself: no delay is that long.
const PROBE_READ_LONG: Duration = Duration::from_millis(400);
/// Bytes of the first read of a probe; over a link that is known to be slow, and may have become faster, those that take
/// this time.
const PROBE_BYTES_MIN: u64 = 64 << 10;
/// See [`PROBE_BYTES_MIN`].
const RENEWAL_READ_S: f64 = 0.05;
/// Bytes a second of links that need not be found to be faster than was known: 1 Gbit/s.
const RENEWAL_BYTES_PER_S: f64 = 125e6;
/// Time after which a link that is known is probed again, if all that moves is too small to tell whether it has become
/// faster. It doubles with each probe that finds nothing new, up to [`RENEWAL_MAX`].
const RENEWAL_MIN: Duration = Duration::from_secs(5);
/// See [`RENEWAL_MIN`].
const RENEWAL_MAX: Duration = Duration::from_secs(300);
/// Factor by which a link that is probed again must be faster than was known.
const RENEWAL_FACTOR: f64 = 1.5;
/// Time without fragments after which a storage that was slow is taken to be half as slow, in logarithms.
const SLOWNESS_FADES: Duration = Duration::from_secs(30);
/// Weight of the newest answer in the share that is pushed back.
const WEIGHT: f64 = 0.1;
/// Expected seconds of a fragment that tells how fast a storage is: smaller ones tell what each takes beside its rows.
const TELLING_S: f64 = 5e-3;
/// Waits shorter than this share of the work are none.
const WAIT_MIN: f64 = 0.05;

/// Rates of one storage.
#[derive(Debug)]
pub(crate) struct StorageRates {
    link: Link,
    /// Fragments of ours that run at once there.
    slots: Estimate,
    /// Seconds that fragments take there, relative to what is expected of this side's cores.
    slowness: Estimate,
    /// Share of a fragment's time in which a core works on it: fragments that run at once may share cores.
    busy_share: Estimate,
    /// Share of fragments that it pushes back.
    pushed_back: f64,
    /// Fragments that it was asked for and has not answered.
    outstanding: usize,
    /// Probes of the link that were begun, and whether one is under way.
    probes: u32,
    is_probed: bool,
    /// The last look at the link since it is known.
    looked: Option<Looked>,
    /// Slowness that was measured before, and when the last fragment has told it.
    slowness_before: f64,
    slowness_told: Option<Instant>,
}

/// A look at a link, and after what time it is to be looked at again.
#[derive(Debug, Clone, Copy)]
struct Looked {
    at: Instant,
    wait: Duration,
    /// Bytes a second that were known then.
    bytes_per_s: f64,
}

impl Looked {
    fn first(bytes_per_s: f64, at: Instant) -> Self {
        Self { at, wait: RENEWAL_MIN, bytes_per_s }
    }

    /// Whether the link has changed since.
    fn differs(&self, bytes_per_s: f64) -> bool {
        let (less, more) = (self.bytes_per_s.min(bytes_per_s), self.bytes_per_s.max(bytes_per_s));
        more > less * RENEWAL_FACTOR
    }
}

/// A fragment that a storage was asked for, until this is dropped.
#[derive(Debug)]
pub(crate) struct Outstanding {
    rates: Arc<Mutex<StorageRates>>,
    at_once: usize,
}

impl Outstanding {
    /// One more at the storage of `rates`.
    pub(crate) fn new(rates: &Arc<Mutex<StorageRates>>) -> Self {
        let mut known = rates.lock();
        known.outstanding += 1;
        Self { at_once: known.outstanding, rates: Arc::clone(rates) }
    }

    /// The rates of the storage.
    pub(crate) fn rates(&self) -> &Mutex<StorageRates> {
        &self.rates
    }

    /// Fragments of ours that were there when this one came.
    pub(crate) fn at_once(&self) -> usize {
        self.at_once
    }
}

impl Drop for Outstanding {
    fn drop(&mut self) {
        self.rates.lock().outstanding -= 1;
    }
}

/// A transfer over a link, until this is dropped.
#[derive(Debug)]
pub(crate) struct UnderWay<'a>(&'a Mutex<StorageRates>);

impl<'a> UnderWay<'a> {
    /// One more over the link to the storage of `rates`.
    pub(crate) fn new(rates: &'a Mutex<StorageRates>) -> Self {
        rates.lock().link.begin();
        Self(rates)
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.lock().link.end();
    }
}

/// A probe of a link, until this is dropped: reads one after the other, each of twice the bytes of the one before it.
#[derive(Debug)]
pub(crate) struct Probe {
    rates: Arc<Mutex<StorageRates>>,
    time: Duration,
    /// When its first read had ended, and how long that took: the round trip.
    began: Option<(Instant, Duration)>,
    /// Bytes a second of each further read so far.
    reads: Vec<f64>,
    /// Whether the link was known when it began.
    renews: bool,
    /// Whether it has found a bandwidth.
    is_done: bool,
}

impl Probe {
    /// Begins one over the link to the storage of `rates`, unless another one is under way, or the link is known and was
    /// looked at not long ago, or there were enough. `moves` says whether bytes of a query are going to move over the link.
    pub(crate) fn begin(rates: &Arc<Mutex<StorageRates>>, moves: bool) -> Option<Self> {
        Self::begin_at(rates, moves, Instant::now())
    }

    fn begin_at(rates: &Arc<Mutex<StorageRates>>, moves: bool, now: Instant) -> Option<Self> {
        let mut known = rates.lock();
        let most = if moves { PROBES_MAX } else { PROBES_FIRST };
        let renews = known.knows_link();
        let begins = match renews {
            true => moves && known.may_have_changed(now),
            false => known.probes < most,
        };
        (begins && !known.is_probed).then(|| {
            let time = PROBE_TIME * 2_u32.pow(known.probes.min(PROBES_MAX));
            known.probes += u32::from(!renews);
            known.is_probed = true;
            Self { rates: Arc::clone(rates), time, began: None, reads: vec![], renews, is_done: false }
        })
    }

    /// Bytes of the first read after that of next to nothing.
    pub(crate) fn first_bytes(&self) -> u64 {
        let known = self.rates.lock().bytes_per_s();
        if self.renews { ((known * RENEWAL_READ_S) as u64).clamp(1 << 10, PROBE_BYTES_MIN) } else { PROBE_BYTES_MIN }
    }

    /// Counts the first read, of next to nothing.
    pub(crate) fn reached(&mut self, took: Duration) {
        self.began = Some((Instant::now(), took));
    }

    /// Counts a read of `bytes`, twice those of the one before it.
    pub(crate) fn read(&mut self, bytes: u64, took: Duration) {
        let round_trip = self.began.map_or(Duration::ZERO, |(_, round_trip)| round_trip);
        let moving = took.saturating_sub(round_trip).max(took / 2);
        let rate = bytes as f64 / moving.as_secs_f64().max(1e-6);
        self.reads.push(rate);
        self.rates.lock().link.seen(rate);
        if let Some(rate) = self.held_by_link(took) {
            self.found(rate);
        } else if took >= PROBE_READ_LONG || bytes >= PROBE_BYTES {
            self.found(self.fastest());
        }
    }

    /// The rate of the last reads, if they took as much longer as they had more bytes. Cores that are busy delay small and
    /// large reads alike, so that larger ones look faster.
    fn held_by_link(&self, last_took: Duration) -> Option<f64> {
        let first = self.reads.len().checked_sub(PROBE_READS_ALIKE)?;
        let last = self.reads.get(first..).filter(|_| last_took >= PROBE_READ_MIN)?;
        let alike = |pair: &[f64]| matches!(pair, [a, b] if a.max(*b) <= PROBE_ALIKE * a.min(*b));
        last.windows(2).all(alike).then(|| last.last().copied())?
    }

    /// The rate of the fastest of the larger half of its reads: what comes in a burst at any speed is small.
    fn fastest(&self) -> f64 {
        self.reads.iter().skip(self.reads.len() / 2).copied().fold(0.0, f64::max)
    }

    fn found(&mut self, bytes_per_s: f64) {
        self.is_done = true;
        let link = &mut self.rates.lock().link;
        match self.renews {
            true if bytes_per_s > link.bytes_per_s().value() * RENEWAL_FACTOR => link.replace(bytes_per_s),
            // That it has become slower, transfers tell better.
            true => {}
            false => link.found(bytes_per_s),
        }
    }

    /// Whether nothing is left to find out, or the time is up.
    pub(crate) fn is_over(&self) -> bool {
        let is_late = self.began.is_some_and(|(began, _)| began.elapsed() >= self.time);
        self.is_done || is_late || !self.renews && self.rates.lock().knows_link()
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        let is_last = {
            let mut known = self.rates.lock();
            known.is_probed = false;
            if self.renews {
                known.looked_now(Instant::now());
            }
            known.probes >= PROBES_MAX && !known.knows_link()
        };
        if is_last {
            self.found(self.fastest());
        }
    }
}

impl Default for StorageRates {
    fn default() -> Self {
        Self {
            link: Link::default(),
            slots: Estimate::assumed(SLOTS),
            slowness: Estimate::assumed(1.0),
            busy_share: Estimate::assumed(1.0),
            pushed_back: 0.0,
            outstanding: 0,
            probes: 0,
            is_probed: false,
            looked: None,
            slowness_before: 1.0,
            slowness_told: None,
        }
    }
}

impl StorageRates {
    /// Begins with what was measured before.
    pub(super) fn seed(&mut self, rates: &Rates) {
        if let (Some(bytes_per_s), Some(round_trip_s)) = (rates.bytes_per_s, rates.round_trip_s) {
            self.link.seed(bytes_per_s, round_trip_s);
        }
        self.slots = Estimate::known(rates.slots);
        self.slowness = Estimate::known(rates.slowness);
        self.slowness_before = rates.slowness;
    }

    /// Takes into account what has come so far.
    pub(crate) fn settle(&mut self) {
        self.link.settle();
    }

    /// Whether bytes have moved, so that the bandwidth is known.
    fn knows_link(&mut self) -> bool {
        self.settle();
        self.link.bytes_per_s().is_observed()
    }

    /// Whether nothing has told for long whether the link is as fast as is known. From the first question on, time counts.
    fn may_have_changed(&mut self, now: Instant) -> bool {
        let bytes_per_s = self.bytes_per_s();
        if bytes_per_s >= RENEWAL_BYTES_PER_S {
            return false;
        }
        let known = self.looked.get_or_insert_with(|| Looked::first(bytes_per_s, now));
        if known.differs(bytes_per_s) {
            *known = Looked::first(bytes_per_s, known.at);
        }
        now.saturating_duration_since(known.at) >= known.wait
    }

    /// Notes that a probe has ended.
    fn looked_now(&mut self, now: Instant) {
        let first = Looked::first(self.bytes_per_s(), now);
        let same = self.looked.filter(|known| !known.differs(first.bytes_per_s));
        let wait = same.map_or(first.wait, |known| (known.wait * 2).min(RENEWAL_MAX));
        self.looked = Some(Looked { wait, ..first });
    }

    /// Bytes a second over its link.
    pub(crate) fn bytes_per_s(&self) -> f64 {
        self.link.bytes_per_s().value()
    }

    /// Seconds of a round trip.
    pub(crate) fn round_trip_s(&self) -> f64 {
        self.link.round_trip_s().value()
    }

    /// Fragments of ours that run at once there.
    pub(crate) fn slots(&self) -> f64 {
        self.slots.value()
    }

    /// Seconds there for a second of this side's cores.
    pub(crate) fn slowness(&self) -> f64 {
        self.slowness_at(Instant::now())
    }

    /// A storage that was slow may be asked for nothing, so that nothing tells when it is as fast as before.
    fn slowness_at(&self, now: Instant) -> f64 {
        let silent = self.slowness_told.map_or(Duration::ZERO, |told| now.saturating_duration_since(told));
        let more = self.slowness.value() / self.slowness_before;
        let halves = (silent.as_secs() / SLOWNESS_FADES.as_secs()).min(16) as i32;
        if more > 1.0 { self.slowness_before * more.powf(0.5_f64.powi(halves)) } else { self.slowness.value() }
    }

    /// Seconds of its cores for a second of a slot.
    pub(crate) fn busy_share(&self) -> f64 {
        self.busy_share.value().min(1.0)
    }

    /// Share of fragments that it pushes back.
    pub(crate) fn pushed_back(&self) -> f64 {
        self.pushed_back
    }

    /// Learns from bytes that came.
    pub(crate) fn transferred(&mut self, transfer: Transfer) {
        if let Some(looked) = self.looked.as_mut().filter(|_| transfer.bytes >= PROBE_BYTES) {
            looked.at = transfer.ended;
        }
        self.link.observe(transfer);
    }

    /// Learns from a fragment that ran for `storage` after it had waited for a slot, while `at_once` of ours were there;
    /// `expected` seconds of one of this side's cores were expected of it.
    pub(crate) fn answered(&mut self, waited: Duration, storage: Duration, at_once: usize, expected: f64) {
        self.pushed_back -= WEIGHT * self.pushed_back;
        let (waited, storage) = (waited.as_secs_f64(), storage.as_secs_f64());
        if storage <= 0.0 {
            return;
        }
        let running = at_once as f64 * storage / (storage + waited);
        match waited > WAIT_MIN * storage {
            true => self.slots.observe(running.max(1.0)),
            // Nobody had to wait, so there may be more.
            false => self.slots.observe_at_least(running),
        }
        if expected >= TELLING_S {
            self.slowness.observe(storage / expected);
            self.slowness_told = Some(Instant::now());
        }
    }

    /// Learns that a core worked for `busy` on a fragment that ran for `storage`; not at all if that is unknown.
    pub(crate) fn worked(&mut self, storage: Duration, busy: Duration) {
        if storage.as_secs_f64() >= TELLING_S {
            self.busy_share.observe(busy.as_secs_f64() / storage.as_secs_f64());
        }
    }

    /// Learns that the storage was too busy for a fragment.
    pub(crate) fn refused(&mut self) {
        self.pushed_back += WEIGHT * (1.0 - self.pushed_back);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a probe finds over a link of `bytes_per_s`, whose reads are delayed by `delay`, and the reads that it takes.
    fn probed(bytes_per_s: f64, delay: impl Fn(usize) -> Duration) -> (f64, usize) {
        let rates: Arc<Mutex<StorageRates>> = Arc::default();
        let mut probe = Probe::begin(&rates, true).unwrap();
        probe.reached(Duration::from_micros(300));
        for number in 0..5 {
            let bytes = (64 << 10) << number;
            probe.read(bytes, Duration::from_secs_f64(bytes as f64 / bytes_per_s) + delay(number));
            if rates.lock().knows_link() {
                return (rates.lock().bytes_per_s(), number + 1);
            }
        }
        panic!("nothing is known after 1 MiB");
    }

    #[test]
    fn a_probe_tells_a_slow_link_from_delays() {
        for (bytes_per_s, reads_max) in [(6.25e6, 3), (25e6, 4), (125e6, 5)] {
            let (found, reads) = probed(bytes_per_s, |_| Duration::from_micros(300));
            assert!(
                (0.8..1.1).contains(&(found / bytes_per_s)) && reads <= reads_max,
                "{bytes_per_s}: {found}, {reads}"
            );
        }
        // Both ends are busy: 10 to 30 ms for each read, of 3 ms at most over the link.
        for delays in [[10, 30, 15, 25, 12], [30, 10, 10, 20, 30], [15; 5]] {
            let (found, reads) = probed(625e6, |number| Duration::from_millis(delays[number]));
            assert!(found > 30e6 && reads == 5, "{delays:?}: {found}");
        }
    }

    #[test]
    fn probes_end_where_they_tell_nothing() {
        let rates: Arc<Mutex<StorageRates>> = Arc::default();
        for moves in [false, false, true, true] {
            let mut probe = Probe::begin(&rates, moves).unwrap();
            assert!(Probe::begin(&rates, true).is_none(), "one at a time");
            probe.read(64 << 10, Duration::from_millis(20));
            drop(probe);
            assert!(!moves || Probe::begin(&rates, false).is_none(), "only for queries that move bytes");
        }
        assert!(Probe::begin(&rates, true).is_none(), "there were enough");
        assert!(rates.lock().bytes_per_s() < 4e6);
    }

    /// A link that is faster than was known is found by a later probe; one that is not is looked at less and less.
    #[test]
    fn a_known_link_is_probed_again() {
        let rates: Arc<Mutex<StorageRates>> = Arc::default();
        rates.lock().link.found(125e3);
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        assert!(Probe::begin_at(&rates, true, after(0)).is_none(), "time counts from now on");
        assert!(Probe::begin_at(&rates, true, after(4)).is_none(), "it is too early");
        assert!(Probe::begin_at(&rates, false, after(20)).is_none(), "nothing moves");
        let mut probe = Probe::begin_at(&rates, true, after(20)).unwrap();
        probe.reached(Duration::from_millis(1));
        assert!((5_000..8_000).contains(&probe.first_bytes()));
        (0..3).for_each(|number| probe.read(6250 << number, Duration::from_millis(50 << number)));
        assert!(probe.is_done);
        drop(probe);
        assert_eq!(rates.lock().looked.unwrap().wait, 2 * RENEWAL_MIN);
        let mut probe = Probe::begin_at(&rates, true, after(60)).unwrap();
        probe.reached(Duration::from_millis(1));
        for number in 0..5 {
            let bytes = (64 << 10) << number;
            probe.read(bytes, Duration::from_secs_f64(bytes as f64 / 12.5e6) + Duration::from_millis(1));
        }
        assert!(probe.is_done && probe.is_over());
        drop(probe);
        let found = rates.lock().bytes_per_s();
        assert!((10e6..14e6).contains(&found), "{found}");
        assert_eq!(rates.lock().looked.unwrap().wait, RENEWAL_MIN);
        // It is not found to be slower by a probe: both ends may be busy.
        let mut probe = Probe::begin_at(&rates, true, Instant::now() + Duration::from_secs(10)).unwrap();
        probe.reached(Duration::from_millis(1));
        (0..5).for_each(|number| probe.read((64 << 10) << number, Duration::from_secs(1)));
        drop(probe);
        assert_eq!(rates.lock().bytes_per_s(), found);
    }

    /// As long as a link is unknown, it is no faster than what was seen of it.
    #[test]
    fn an_unknown_link_is_as_slow_as_its_fastest_read() {
        let rates: Arc<Mutex<StorageRates>> = Arc::default();
        let mut probe = Probe::begin(&rates, true).unwrap();
        probe.reached(Duration::from_millis(1));
        probe.read(64 << 10, Duration::from_millis(150));
        drop(probe);
        let mut known = rates.lock();
        assert!(!known.knows_link() && known.bytes_per_s() < 450e3, "{known:?}");
        drop(known);
        let mut probe = Probe::begin(&rates, true).unwrap();
        probe.reached(Duration::from_millis(1));
        probe.read(64 << 10, Duration::from_millis(5));
        assert!(rates.lock().bytes_per_s() > 6e6);
        probe.read(128 << 10, Duration::from_millis(450));
        assert!(probe.is_over() && rates.lock().knows_link(), "no delay is that long");
    }

    #[test]
    fn a_storage_that_was_slow_is_tried_again() {
        let mut rates = StorageRates::default();
        (0..20).for_each(|_| rates.answered(Duration::ZERO, Duration::from_secs(1), 1, 0.01));
        let now = Instant::now();
        assert!(rates.slowness_at(now) > 90.0);
        assert!((8.0..11.0).contains(&rates.slowness_at(now + SLOWNESS_FADES)));
        assert!(rates.slowness_at(now + 20 * SLOWNESS_FADES) < 1.1);
    }

    #[test]
    fn waits_tell_how_many_fragments_run_at_once() {
        let mut rates = StorageRates::default();
        let ms = Duration::from_millis;
        // Eight are there at once, of which two run: each waits three times as long as it runs.
        (0..20).for_each(|_| rates.answered(ms(30), ms(10), 8, 0.005));
        assert!((1.9..2.1).contains(&rates.slots()), "{rates:?}");
        assert!((1.9..2.1).contains(&rates.slowness()), "{rates:?}");
        // One at a time that does not wait says nothing of how many could run.
        (0..20).for_each(|_| rates.answered(ms(0), ms(10), 1, 0.0));
        assert!((1.9..2.1).contains(&rates.slots()), "{rates:?}");
        (0..20).for_each(|_| rates.answered(ms(0), ms(10), 6, 0.0));
        assert!((5.5..6.1).contains(&rates.slots()), "{rates:?}");
    }

    #[test]
    fn a_busy_storage_is_remembered_and_forgiven() {
        let mut rates = StorageRates::default();
        (0..30).for_each(|_| rates.refused());
        assert!(rates.pushed_back() > 0.9);
        (0..60).for_each(|_| rates.answered(Duration::ZERO, Duration::from_millis(1), 1, 0.0));
        assert!(rates.pushed_back() < 0.01);
    }
}
