//! What a calibration has found.

use serde::{Deserialize, Serialize};
use thermocline_pushdown::Mode;

use super::identity::{HereIdentity, NodeIdentity};

/// Names of formats.
const PARQUET: &str = "parquet";
const CSV: &str = "csv";

/// Rates of a storage and of this side, as queries have shown them.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rates {
    /// Bytes a second over the link; `None` without one.
    pub bytes_per_s: Option<f64>,
    /// Seconds of a round trip; `None` without a link.
    pub round_trip_s: Option<f64>,
    /// Fragments at once.
    pub slots: f64,
    /// Seconds of storage for a second of this side's cores.
    pub slowness: f64,
    /// Seconds of a core here for a byte that is decoded: one in memory, or one of text.
    pub decode_s_per_byte: f64,
}

/// Absolute percentage errors on queries that were not fitted (thesis equation 4.13), in per cent.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FittedErrors {
    /// Mean (MAPE).
    pub mean: f64,
    /// Median.
    pub median: f64,
    /// 80th percentile.
    pub p80: f64,
    /// 90th percentile.
    pub p90: f64,
}

/// Parameters of one mode (thesis equations 4.7 to 4.9), and how well they fit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FittedMode {
    /// Name of the mode: caching, pushdown or hybrid.
    pub mode: String,
    /// T_overhead: seconds of a query beside its work.
    pub overhead_s: f64,
    /// 1 / BW_network-achieved: seconds for a byte that is fetched (caching) or answered (pushdown, hybrid).
    pub link_s_per_byte: f64,
    /// 1 / BW_storage: seconds for a stored byte that storage processes; 0 in caching.
    pub storage_s_per_byte: f64,
    /// 1 / BW_compute: seconds for a byte of selected rows, as they are in memory; 0 in pushdown.
    pub here_s_per_byte: f64,
    /// Seconds for a row that is filtered here, a term that the thesis does not have; 0 in pushdown.
    pub here_s_per_row: f64,
    /// Share of the shorter resources' time that does not overlap with the longest: 0 for the maximum of all resources, 1
    /// for their sum, as in equations 4.1 and 4.2.
    pub serial_share: f64,
    /// Coefficient of determination over the queries that were fitted.
    pub r2: f64,
    /// Errors on the others.
    pub errors: FittedErrors,
    /// Queries that were fitted.
    pub fitted: u64,
    /// Queries that were not.
    pub validated: u64,
}

/// Calibration of a storage, for tables of one format.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Calibration {
    /// The storage's name.
    pub node: String,
    /// What the storage was; `None` if it does not tell.
    pub identity: Option<NodeIdentity>,
    /// What this side was.
    pub here: HereIdentity,
    /// The table that was measured.
    pub table: String,
    /// Its format: `parquet` or `csv`.
    pub format: String,
    /// When, in seconds since 1970.
    pub taken_at: u64,
    /// R: stored bytes for a byte in memory.
    pub stored_per_memory: f64,
    /// What the model of `auto` begins with.
    pub rates: Rates,
    /// The thesis's model.
    pub modes: Vec<FittedMode>,
}

impl FittedMode {
    /// Checks that numbers are what they can be.
    fn check(&self) -> Result<(), String> {
        let known = [Mode::Caching, Mode::Pushdown, Mode::Hybrid].map(Mode::name);
        if !known.contains(&self.mode.as_str()) {
            return Err(format!("'{}' is not a mode that is calibrated", self.mode));
        }
        let FittedErrors { mean, median, p80, p90 } = self.errors;
        let numbers = [
            ("overhead_s", self.overhead_s),
            ("link_s_per_byte", self.link_s_per_byte),
            ("storage_s_per_byte", self.storage_s_per_byte),
            ("here_s_per_byte", self.here_s_per_byte),
            ("here_s_per_row", self.here_s_per_row),
            ("serial_share", self.serial_share),
            ("errors.mean", mean),
            ("errors.median", median),
            ("errors.p80", p80),
            ("errors.p90", p90),
        ];
        let wrong = numbers.into_iter().find(|(_, number)| !number.is_finite() || *number < 0.0);
        match wrong {
            Some((name, number)) => Err(format!("{name} of mode {} is {number}", self.mode)),
            None if !self.r2.is_finite() => Err(format!("r2 of mode {} is {}", self.mode, self.r2)),
            None => Ok(()),
        }
    }
}

impl Calibration {
    /// Checks that numbers are what they can be: what is read from a file or fitted seeds estimates.
    ///
    /// # Errors
    /// A sentence that names the number.
    pub fn check(&self) -> Result<(), String> {
        let Rates { bytes_per_s, round_trip_s, slots, slowness, decode_s_per_byte } = self.rates;
        let numbers = [
            ("bytes_per_s", bytes_per_s.unwrap_or(1.0)),
            ("round_trip_s", round_trip_s.unwrap_or(1.0)),
            ("slots", slots),
            ("slowness", slowness),
            ("decode_s_per_byte", decode_s_per_byte),
            ("stored_per_memory", self.stored_per_memory),
        ];
        if let Some((name, number)) = numbers.into_iter().find(|(_, number)| !number.is_finite() || *number <= 0.0) {
            return Err(format!("{name} of {} is {number}", self.node));
        }
        if ![PARQUET, CSV].contains(&self.format.as_str()) {
            return Err(format!("'{}' is not a known format", self.format));
        }
        self.modes.iter().try_for_each(FittedMode::check)
    }

    /// Whether its tables are text.
    pub(in crate::model) fn is_text(&self) -> bool {
        self.format == CSV
    }

    /// The command that makes it anew for the database in `directory`.
    pub fn command(&self, directory: &str) -> String {
        format!("thermocline calibrate {directory} --table {}", self.table)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// One of node `node`.
    pub(in crate::model) fn calibration(node: &str) -> Calibration {
        Calibration {
            node: node.to_owned(),
            identity: Some(NodeIdentity {
                version: "1.0.0".into(),
                machine: "Xeon \"x\"\n".into(),
                cores: 2,
                pushdown_slots: 4,
                egress_bytes_per_s: 25_000_000,
                compute_permille: 1000,
            }),
            here: HereIdentity::current(),
            table: "lineorder".into(),
            format: "parquet".into(),
            taken_at: 1_700_000_000,
            stored_per_memory: 0.25,
            rates: Rates {
                bytes_per_s: Some(25e6),
                round_trip_s: Some(0.0005),
                slots: 2.5,
                slowness: 1.5,
                decode_s_per_byte: 0.5e-8,
            },
            modes: vec![FittedMode {
                mode: "caching".into(),
                overhead_s: 0.002,
                link_s_per_byte: 4e-8,
                storage_s_per_byte: 0.0,
                here_s_per_byte: 1e-10,
                here_s_per_row: 2e-9,
                serial_share: 0.125,
                r2: 0.99,
                errors: FittedErrors { mean: 4.0, median: 3.0, p80: 6.0, p90: 8.0 },
                fitted: 70,
                validated: 30,
            }],
        }
    }

    #[test]
    fn impossible_numbers_are_named() {
        let good = calibration("n");
        assert_eq!(good.check(), Ok(()));
        let mut wrong = good.clone();
        wrong.rates.slots = 0.0;
        assert_eq!(wrong.check(), Err("slots of n is 0".to_owned()));
        let mut wrong = good.clone();
        wrong.rates.bytes_per_s = Some(f64::NAN);
        assert_eq!(wrong.check(), Err("bytes_per_s of n is NaN".to_owned()));
        let mut wrong = good.clone();
        wrong.modes[0].link_s_per_byte = -1.0;
        assert_eq!(wrong.check(), Err("link_s_per_byte of mode caching is -1".to_owned()));
        let mut wrong = good.clone();
        wrong.modes[0].mode = "auto".into();
        assert!(wrong.check().unwrap_err().contains("'auto'"));
        let wrong = Calibration { format: "orc".into(), ..good };
        assert!(wrong.check().unwrap_err().contains("'orc'"));
    }
}
