//! The link to a storage: bandwidth and round trip, from the requests that use it.

use std::time::{Duration, Instant};

use super::estimate::Estimate;

/// Bandwidth that is assumed until bytes have moved: 50 Mbit/s. A storage that runs more than it would have to for a fast
/// link costs less than a slow link that is asked for everything.
const BYTES_PER_S: f64 = 6.25e6;
/// Round trip that is assumed until a request was answered.
const ROUND_TRIP_S: f64 = 500e-6;
/// Bytes of a transfer that tells the bandwidth. Smaller ones tell the round trip.
const BYTES_MIN: u64 = 32 << 10;
/// Bytes of a busy period that tells how fast the link is at least, or a smaller number that took [`TIME_MIN`]. Buffers and
/// limits that allow for bursts let less than that pass at any speed.
const SAMPLE_BYTES: u64 = 4 << 20;
/// See [`SAMPLE_BYTES`].
const TIME_MIN: Duration = Duration::from_millis(20);
/// Bytes of a period that counts as one, or a smaller number that took [`PERIOD_MIN`]: a burst tells nothing at all.
const PERIOD_BYTES: u64 = 1 << 20;
/// See [`PERIOD_BYTES`].
const PERIOD_MIN: Duration = Duration::from_millis(5);
/// Bytes of all transfers from which the bandwidth is known although no probe has found it.
const FIRST_BYTES: u64 = 8 << 20;
/// Factor by which the bandwidth may first exceed what was achieved; the middle is taken.
const FIRST_FACTOR_MAX: f64 = 2.0;
/// Time of a busy period that may not be the link's: of the whole, and of each of several transfers one after the other. Both
/// ends compute as well, and bytes that have come may wait for a core; so do small answers, by which the second is twice what
/// these take beyond the shortest.
const DELAY_MAX: Duration = Duration::from_millis(30);
const DELAY_EACH: Duration = Duration::from_millis(5);
/// Time of periods that are taken together to see whether the link is slower than is known.
const TOGETHER: Duration = Duration::from_millis(400);
/// Time after which a busy period ends once no transfer is under way, and although some are.
const PERIOD_MAX: Duration = Duration::from_millis(300);
const PERIOD_LONG: Duration = Duration::from_secs(2);

/// Time that bytes were on their way: those of one answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Transfer {
    /// Bytes on the wire.
    pub(crate) bytes: u64,
    /// When the last of them came.
    pub(crate) ended: Instant,
    /// Time that the request took beside waiting, computing, and a reader who did not read.
    pub(crate) took: Duration,
}

impl Transfer {
    /// Whether so many bytes tell the round trip, and not the bandwidth.
    pub(crate) fn tells_round_trip(bytes: u64) -> bool {
        bytes < BYTES_MIN
    }
}

/// Bandwidth achieved over a link (the thesis's BW_network-achieved) and its round trip.
///
/// Transfers that overlap share the link. So the bytes of all are divided by the time in which any of them was under way: a
/// busy period. The first of several that end together would look slow, and the last fast.
///
/// A period says between which bounds the bandwidth lies: bytes over its whole time, and bytes over what is left of that
/// without delays that are not the link's. An estimate between these stays as it is; so a few small answers on a busy
/// machine do not make a fast link look slow, and many bytes tell it exactly.
#[derive(Debug)]
pub(crate) struct Link {
    bytes_per_s: Estimate,
    round_trip_s: Estimate,
    /// Transfers that were begun and have not ended.
    under_way: usize,
    /// The busy period under way, or the last one.
    period: Option<Period>,
    /// End of the period before it.
    ended: Option<Instant>,
    /// The shortest round trip.
    round_trip_min: Option<Duration>,
    /// Bytes a second of the fastest read of a probe.
    fastest: f64,
    /// All periods before the first observation, and later those that are being taken together.
    periods: Achieved,
}

/// Bytes that came in a time, in some transfers.
#[derive(Debug, Clone, Copy, Default)]
struct Achieved {
    bytes: u64,
    took: Duration,
    transfers: u32,
    /// Sum of the time of each transfer.
    each: Duration,
}

impl Achieved {
    fn plus(self, other: Self) -> Self {
        Self {
            bytes: self.bytes + other.bytes,
            took: self.took + other.took,
            transfers: self.transfers.saturating_add(other.transfers),
            each: self.each + other.each,
        }
    }

    /// The least and the most bytes a second that the link may have; infinite if anything may be.
    fn bounds(&self, delay: Duration) -> (f64, f64) {
        // Those that overlap are delayed at the same time.
        let at_once = (self.each.as_secs_f64() / self.took.as_secs_f64().max(1e-6)).max(1.0);
        let one_after_the_other = f64::from(self.transfers) / at_once;
        let delays = DELAY_MAX.max(DELAY_EACH.max(delay).mul_f64(one_after_the_other));
        let rate = |time: Duration| self.bytes as f64 / time.as_secs_f64().max(1e-6);
        let most = self.took.checked_sub(delays).map_or(f64::INFINITY, rate);
        (rate(self.took), most)
    }
}

/// Time in which transfers overlapped.
#[derive(Debug)]
struct Period {
    began: Instant,
    until: Instant,
    /// Sums over its transfers, without the time, which is the period's.
    transfers: Achieved,
}

impl Period {
    fn length(&self) -> Duration {
        self.until.duration_since(self.began)
    }

    fn achieved(&self) -> Achieved {
        Achieved { took: self.length(), ..self.transfers }
    }
}

impl Default for Link {
    fn default() -> Self {
        Self {
            bytes_per_s: Estimate::assumed(BYTES_PER_S),
            round_trip_s: Estimate::assumed(ROUND_TRIP_S),
            under_way: 0,
            period: None,
            ended: None,
            round_trip_min: None,
            fastest: 0.0,
            periods: Achieved::default(),
        }
    }
}

impl Link {
    /// Bytes a second.
    pub(crate) fn bytes_per_s(&self) -> Estimate {
        self.bytes_per_s
    }

    /// Seconds from a request to the first byte of an answer that takes no work.
    pub(crate) fn round_trip_s(&self) -> Estimate {
        self.round_trip_s
    }

    /// Begins with what was measured before.
    pub(super) fn seed(&mut self, bytes_per_s: f64, round_trip_s: f64) {
        self.bytes_per_s = Estimate::known(bytes_per_s);
        self.round_trip_s = Estimate::known(round_trip_s);
    }

    /// Counts a transfer as under way until [`Link::end`].
    pub(super) fn begin(&mut self) {
        self.under_way += 1;
    }

    /// See [`Link::begin`].
    pub(super) fn end(&mut self) {
        self.under_way = self.under_way.saturating_sub(1);
    }

    /// Learns from a transfer that has ended.
    pub(crate) fn observe(&mut self, transfer: Transfer) {
        let Transfer { bytes, ended, took } = transfer;
        if Transfer::tells_round_trip(bytes) {
            self.round_trip_s.observe(took.as_secs_f64());
            self.round_trip_min = Some(self.round_trip_min.map_or(took, |least| least.min(took)));
            return;
        }
        let took = took.saturating_sub(self.round_trip_min.unwrap_or_default()).max(took / 2);
        let began = ended.checked_sub(took).unwrap_or(ended);
        let (began, bytes) = match self.ended {
            // The part that came during the last period was on its way together with the bytes of that.
            Some(before) if began < before => (before, share_after(before, (began, ended), bytes)),
            _ => (began, bytes),
        };
        let each = ended.saturating_duration_since(began);
        let one = Achieved { bytes, took: Duration::ZERO, transfers: 1, each };
        match &mut self.period {
            Some(period) if began <= period.until => {
                period.until = period.until.max(ended);
                period.transfers = period.transfers.plus(one);
            }
            _ => {
                self.end_period();
                self.period = Some(Period { began, until: began.max(ended), transfers: one });
            }
        }
        if self.period.as_ref().is_some_and(|period| period.length() >= PERIOD_MAX) {
            self.settle();
        }
    }

    fn round_trip(&self) -> Duration {
        Duration::try_from_secs_f64(self.round_trip_s.value()).unwrap_or_default()
    }

    /// What each transfer may be delayed by.
    fn delay(&self) -> Duration {
        self.round_trip().saturating_sub(self.round_trip_min.unwrap_or_default()).saturating_mul(2)
    }

    /// Ends the busy period, so that its bytes count, unless transfers of it go on.
    pub(crate) fn settle(&mut self) {
        if self.under_way == 0 || self.period.as_ref().is_some_and(|period| period.length() >= PERIOD_LONG) {
            self.end_period();
        }
    }

    /// Takes it that the link is no faster than the fastest read of a probe so far, as long as it is not known.
    pub(super) fn seen(&mut self, bytes_per_s: f64) {
        if !self.bytes_per_s.is_observed() && bytes_per_s.is_finite() {
            self.fastest = self.fastest.max(bytes_per_s);
            self.bytes_per_s = Estimate::assumed(BYTES_PER_S.min(self.fastest.max(1.0)));
        }
    }

    /// Forgets what was known for what a probe has found.
    pub(super) fn replace(&mut self, bytes_per_s: f64) {
        self.periods = Achieved::default();
        self.bytes_per_s = Estimate::known(bytes_per_s);
    }

    /// Learns the bandwidth from a probe, if it is not known yet.
    pub(super) fn found(&mut self, bytes_per_s: f64) {
        if !self.bytes_per_s.is_observed() && bytes_per_s > 0.0 {
            self.periods = Achieved::default();
            self.bytes_per_s.observe(bytes_per_s);
        }
    }

    fn end_period(&mut self) {
        let Some(period) = self.period.take() else { return };
        self.ended = Some(period.until);
        let achieved = period.achieved();
        let Achieved { bytes, took, .. } = achieved;
        tracing::trace!(?achieved, round_trip = ?self.round_trip(), known = ?self.bytes_per_s, "transfers over a link");
        let (least, _) = achieved.bounds(self.delay());
        let is_enough = bytes >= SAMPLE_BYTES || took >= TIME_MIN;
        if self.bytes_per_s.is_observed() && self.bytes_per_s.value() < least && is_enough {
            self.bytes_per_s.observe(least);
        }
        // While others are under way, more came in that time than has been counted.
        if self.under_way > 0 || bytes < PERIOD_BYTES && took < PERIOD_MIN {
            return;
        }
        self.periods = self.periods.plus(achieved);
        let together = self.periods;
        let (least, most) = together.bounds(self.delay());
        if !self.bytes_per_s.is_observed() {
            if together.bytes >= FIRST_BYTES {
                self.found((least * most.min(FIRST_FACTOR_MAX * least)).sqrt());
            }
            return;
        }
        if self.bytes_per_s.value() > most {
            self.bytes_per_s.observe(most);
        }
        if together.took >= TOGETHER {
            self.periods = Achieved::default();
        }
    }
}

/// The share of `bytes`, which came between two moments, that came after `moment`.
fn share_after(moment: Instant, (began, ended): (Instant, Instant), bytes: u64) -> u64 {
    let (after, all) = (ended.saturating_duration_since(moment), ended.saturating_duration_since(began));
    (bytes as f64 * after.as_secs_f64() / all.as_secs_f64().max(f64::MIN_POSITIVE)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: u64 = 1_000_000;

    fn transfer(begin: Instant, (from_ms, to_ms): (u64, u64), bytes: u64) -> Transfer {
        let ms = Duration::from_millis;
        Transfer { bytes, ended: begin + ms(to_ms), took: ms(to_ms - from_ms) }
    }

    #[test]
    fn bytes_of_overlapping_transfers_share_the_link() {
        let begin = Instant::now();
        let mut link = Link::default();
        for round in 0..20 {
            let at = round * 1000;
            // Two at once: together 10 MB in 100 ms, 100 MB/s.
            link.observe(transfer(begin, (at, at + 99), 5 * MB));
            link.observe(transfer(begin, (at, at + 100), 5 * MB));
        }
        let rate = link.bytes_per_s().value();
        assert!((9.9e7..1.15e8).contains(&rate), "{rate}");
    }

    #[test]
    fn many_that_end_together_are_one_period() {
        let begin = Instant::now();
        let mut link = Link::default();
        for round in 0..20 {
            let at = round * 1000;
            (0..16).for_each(|number| link.observe(transfer(begin, (at, at + 60 + number), MB)));
        }
        link.settle();
        let rate = link.bytes_per_s().value();
        assert!((2.0e8..2.6e8).contains(&rate), "{rate}");
    }

    #[test]
    fn long_transfers_that_share_a_link_do_not_make_it_look_slow() {
        let begin = Instant::now();
        let mut link = Link::default();
        for round in 0..20 {
            let at = round * 1000;
            // Eight share 50 MB/s for 640 ms and end one after the other.
            (0..8).for_each(|_| link.begin());
            for number in 0..8 {
                link.end();
                link.observe(transfer(begin, (at, at + 640 + number), 4 * MB));
            }
            let rate = link.bytes_per_s().value();
            assert!(!link.bytes_per_s().is_observed() || (3.5e7..8e7).contains(&rate), "round {round}: {rate}");
        }
        assert!(link.bytes_per_s().is_observed());
    }

    #[test]
    fn a_slow_link_is_told_from_a_long_way() {
        let begin = Instant::now();
        let mut link = Link::default();
        for round in 0..20 {
            link.observe(transfer(begin, (round * 1000, round * 1000 + 50), 100));
            link.observe(transfer(begin, (round * 1000 + 100, round * 1000 + 250), MB));
        }
        let trip = link.round_trip_s().value();
        assert!((0.049..0.051).contains(&trip), "{trip}");
        // 100 ms of the 150 are bytes: 10 MB/s.
        let rate = link.bytes_per_s().value();
        assert!((9e6..11e6).contains(&rate), "{rate}");
    }

    #[test]
    fn bursts_of_little_do_not_hide_the_bandwidth() {
        let begin = Instant::now();
        let mut link = Link::default();
        link.seed(25e6, 1e-3);
        for round in 1..100 {
            link.observe(transfer(begin, (round * 1000, round * 1000 + 1), 128 << 10));
        }
        link.settle();
        let rate = link.bytes_per_s().value();
        assert!((2.4e7..2.6e7).contains(&rate), "{rate}");
    }

    #[test]
    fn a_link_that_slows_down_is_followed() {
        let begin = Instant::now();
        let mut link = Link::default();
        (0..10).for_each(|round| link.observe(transfer(begin, (round * 1000, round * 1000 + 10), MB)));
        (10..24).for_each(|round| link.observe(transfer(begin, (round * 1000, round * 1000 + 100), MB)));
        let rate = link.bytes_per_s().value();
        assert!((9e6..14e6).contains(&rate), "{rate}");
    }
}
