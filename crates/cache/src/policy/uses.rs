//! Uses of a segment, and how they age.

/// Lookups after which an access counts half. Frequencies are halved in steps, not continuously: between two steps,
/// segments with equally many accesses are equal, so that a repeated scan of more than fits keeps a part cached instead
/// of replacing each segment before its next use.
pub const FREQUENCY_HALF_LIFE: u64 = 4096;

/// Unit of weights in seconds, about a nanosecond. A power of two, so that sums and halves of weights are exact.
pub(super) const WEIGHT_UNIT: f64 = 1.0 / (1_u64 << 30) as f64;

/// Maximum weight in seconds, three months: sums are exact up to 2^53 units.
const WEIGHT_MAX: f64 = (1_u64 << 23) as f64;

/// Accesses of a segment, cached or not.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct SegmentUse {
    /// Accesses so far.
    pub accesses: u64,
    /// Tick of the last access; every lookup of a query's segments is one tick.
    pub last_access: u64,
    /// Accesses, halved once per [`FREQUENCY_HALF_LIFE`] up to the last access, rounded down.
    pub frequency: u64,
    /// Sum of the modelled seconds of a miss at each access, aged like `frequency`.
    pub weight: f64,
    /// Modelled seconds of a miss at the last access; 0 if unknown.
    pub miss_seconds: f64,
    /// Benefit of the last victim before the last access; 0 under policies that do not inflate.
    pub inflation: f64,
    /// Measured seconds of the last miss that was reported; `None` if none was.
    pub measured_seconds: Option<f64>,
}

impl SegmentUse {
    /// Records an access at `tick`, which never decreases. A miss would have taken `miss_seconds`; anything but a
    /// positive number means that this is unknown.
    pub fn record(&mut self, tick: u64, miss_seconds: f64) {
        let halvings = epoch(tick).saturating_sub(self.epoch());
        // In whole numbers, a difference of less than one access disappears. Otherwise two segments in alternating use
        // would evict each other for a whole half-life.
        self.frequency = self.frequency.checked_shr(u32::try_from(halvings).unwrap_or(u32::MAX)).unwrap_or(0) + 1;
        self.miss_seconds = whole_units(miss_seconds);
        self.weight = self.halved_weight(halvings) + self.miss_seconds;
        self.weight = self.weight.min(WEIGHT_MAX);
        self.accesses += 1;
        self.last_access = tick;
    }

    /// The weight after `halvings`, rounded down to a multiple of `miss_seconds`, an access as it weighs now. So what
    /// holds for frequencies holds for weights: segments whose misses cost the same are equal after equally many
    /// accesses, because less than one access disappears at a halving, and because sums of whole units have no rounding
    /// errors, which would make one of two equal segments evict the other.
    fn halved_weight(&self, halvings: u64) -> f64 {
        if halvings == 0 {
            return self.weight;
        }
        let unit = self.miss_seconds.max(WEIGHT_UNIT);
        (self.weight * halved(halvings) / unit).floor() * unit
    }

    /// Number of halvings applied to `frequency` and `weight`.
    pub(super) fn epoch(&self) -> u64 {
        epoch(self.last_access)
    }

    /// What a frequency or weight of 1 has become by tick `now`.
    pub(super) fn ageing(&self, now: u64) -> f64 {
        halved(epoch(now).saturating_sub(self.epoch()))
    }
}

/// Number of halvings before `tick`.
fn epoch(tick: u64) -> u64 {
    tick / FREQUENCY_HALF_LIFE
}

fn halved(times: u64) -> f64 {
    0.5_f64.powf(times as f64)
}

fn whole_units(seconds: f64) -> f64 {
    if seconds > 0.0 { ((seconds.min(WEIGHT_MAX) / WEIGHT_UNIT).round() * WEIGHT_UNIT).max(WEIGHT_UNIT) } else { 0.0 }
}
