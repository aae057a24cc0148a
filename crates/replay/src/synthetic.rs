//! Synthetic traces in the manner of SSB: 7 years of orders, a skewed choice of years, ten queries.
//!
//! Orders are sorted by date, so a query reads all partitions of one year. Which year is drawn from a Zipf distribution;
//! in a drifting workload, the years change their places in it at intervals. Each query needs the columns of one of ten
//! templates, and every other one those of a filter by discount or quantity, which also decides how much pushdown
//! returns. Times follow from bandwidths, as in section 4.4 of the FlexPushdownDB paper.

use crate::numbered::Numbered;
use crate::random::Random;
use crate::trace::{Header, Lookup, Need, Partition, Segment, SegmentId, Trace};

/// Parameters of a synthetic trace.
#[derive(Debug, Clone)]
pub struct Synthetic {
    /// Seed of all choices.
    pub seed: u64,
    /// Number of lookups.
    pub lookups: usize,
    /// Partitions of a year.
    pub partitions_per_year: u32,
    /// Rows of a partition.
    pub rows: f64,
    /// Skew of the years: share i^-theta of the queries for the i-th.
    pub theta: f64,
    /// Lookups after which the years change places; `None` if they never do.
    pub drift: Option<usize>,
    /// Bandwidth of the network in bytes per second.
    pub network: f64,
    /// Stored bytes that the storage node scans per second.
    pub scan: f64,
    /// Rows that this side processes per second.
    pub compute: f64,
}

/// Years of SSB.
const YEARS: usize = 7;

/// A column: bytes per row in memory, and part of them in storage.
struct Column {
    name: &'static str,
    bytes: f64,
    stored: f64,
}

const fn column(name: &'static str, bytes: f64, stored: f64) -> Column {
    Column { name, bytes, stored }
}

/// Columns of `lineorder` that the templates need.
const COLUMNS: [Column; 10] = [
    column("lo_orderdate", 4.0, 0.05),
    column("lo_custkey", 4.0, 0.7),
    column("lo_partkey", 4.0, 0.8),
    column("lo_suppkey", 4.0, 0.6),
    column("lo_revenue", 8.0, 0.5),
    column("lo_supplycost", 8.0, 0.4),
    column("lo_extendedprice", 8.0, 0.5),
    column("lo_discount", 4.0, 0.12),
    column("lo_quantity", 4.0, 0.18),
    column("lo_shipmode", 6.0, 0.06),
];
const DISCOUNT: usize = 7;
const QUANTITY: usize = 8;

/// A template: its columns, and the part of the rows that its joins leave.
type Template = (&'static str, &'static [usize], f64);

const TEMPLATES: [Template; 10] = [
    ("Q2.1", &[0, 2, 3, 4], 0.008),
    ("Q2.2", &[0, 2, 3, 4], 0.0016),
    ("Q2.3", &[0, 2, 3, 4], 0.0002),
    ("Q3.1", &[0, 1, 3, 4], 0.034),
    ("Q3.2", &[0, 1, 3, 4], 0.0014),
    ("Q3.3", &[0, 1, 3, 4], 0.00006),
    ("Q3.4", &[0, 1, 3, 4, 9], 0.0000008),
    ("Q4.1", &[0, 1, 2, 3, 4, 5], 0.016),
    ("Q4.2", &[0, 1, 2, 3, 4, 5], 0.0046),
    ("Q4.3", &[0, 1, 2, 3, 4, 5, 6], 0.00009),
];
/// Part of the rows that pushdown returns of those that the joins leave, beside the latter: what Bloom filters let
/// through.
const UNFILTERED: f64 = 0.2;

impl Synthetic {
    /// Years keep their places.
    pub fn stationary(seed: u64) -> Self {
        Self {
            seed,
            lookups: 400,
            partitions_per_year: 12,
            rows: 500_000.0,
            theta: 1.0,
            drift: None,
            network: 125e6,
            scan: 500e6,
            compute: 200e6,
        }
    }

    /// Years change places every 25 lookups.
    pub fn drifting(seed: u64) -> Self {
        Self { drift: Some(25), ..Self::stationary(seed) }
    }

    /// The trace. Equal parameters make equal traces.
    pub fn trace(&self) -> Trace {
        let mut random = Random(self.seed);
        let mut segments = vec![];
        for partition in 0..YEARS as u32 * self.partitions_per_year {
            for Column { name, bytes, stored } in COLUMNS {
                // Partitions differ a little, as row groups do.
                let bytes = bytes * self.rows * (0.9 + 0.2 * random.part());
                let key = format!("lineorder partition {partition} {name}");
                segments.push(Segment { key, bytes: bytes as u64, stored_bytes: (bytes * stored) as u64 });
            }
        }
        let known: Numbered<Segment> = segments.iter().cloned().collect();
        let mut years: Vec<usize> = (0..YEARS).collect();
        let lookups = (0..self.lookups).map(|time| {
            if self.drift.is_some_and(|drift| time > 0 && time % drift == 0) {
                // The hottest year becomes the coldest, and the others shuffle.
                years.rotate_left(1);
                years.swap(0, random.below(YEARS as u64 - 1) as usize);
            }
            let year = years.get(self.rank(&mut random)).copied().unwrap_or(0);
            self.lookup(time, year, &known, &mut random)
        });
        let lookups = lookups.collect();
        let header = Header::new("synthetic", 1.0, "parquet", Some(self.network as u64));
        Trace { header, segments, lookups }
    }

    /// The place of a year, 0 the hottest.
    fn rank(&self, random: &mut Random) -> usize {
        let share = |rank: usize| (rank as f64 + 1.0).powf(-self.theta);
        let mut left = random.part() * (0..YEARS).map(share).sum::<f64>();
        for rank in 0..YEARS {
            left -= share(rank);
            if left < 0.0 {
                return rank;
            }
        }
        YEARS - 1
    }

    fn lookup(&self, time: usize, year: usize, known: &Numbered<Segment>, random: &mut Random) -> Lookup {
        let (name, columns, joined) =
            TEMPLATES.get(random.below(TEMPLATES.len() as u64) as usize).copied().unwrap_or(("", &[], 1.0));
        let (filter, filtered) = match random.below(4) {
            0 => (Some(DISCOUNT), 3.0 / 11.0),
            1 => (Some(QUANTITY), 11.0 / 50.0),
            _ => (None, 1.0),
        };
        let columns: Vec<usize> = columns.iter().copied().chain(filter).collect();
        let returned = (joined + UNFILTERED * joined.powf(0.25)).min(1.0) * filtered;
        let partitions = (0..self.partitions_per_year).map(|partition| {
            let partition = year as u32 * self.partitions_per_year + partition;
            let ids = columns.iter().map(|column| SegmentId(partition * COLUMNS.len() as u32 + *column as u32));
            self.partition(&ids.collect::<Vec<_>>(), returned, known)
        });
        Lookup { query: time as u64, name: name.to_owned(), partitions: partitions.collect() }
    }

    fn partition(&self, ids: &[SegmentId], returned: f64, known: &Numbered<Segment>) -> Partition {
        let stored: f64 = ids.iter().map(|id| known[*id].stored_bytes as f64).sum();
        let memory: f64 = ids.iter().map(|id| known[*id].bytes as f64).sum();
        let local = self.rows / self.compute;
        let storage = stored / self.scan + self.rows / self.compute;
        // Rows cross the network uncompressed.
        let pushdown = storage + returned * memory / self.network;
        let pullup = stored / self.network + local;
        let segments = ids.iter().map(|id| {
            let Segment { bytes, stored_bytes, .. } = &known[*id];
            Need {
                id: *id,
                load_seconds: *stored_bytes as f64 / self.network,
                decode_seconds: 0.0,
                miss_seconds: returned * *bytes as f64 / self.network
                    + *stored_bytes as f64 / self.scan
                    + self.rows / self.compute / ids.len() as f64,
            }
        });
        Partition {
            local_seconds: local,
            other_seconds: pushdown.min(pullup),
            other_bytes: if pushdown < pullup { (returned * memory) as u64 } else { stored as u64 },
            load_seconds_per_segment: 0.0005,
            segments: segments.collect(),
        }
    }
}
