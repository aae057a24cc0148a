//! Measurements of a timed batch.

use thermocline_workloads::bench::{Record, median};

/// A timed batch.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Outcome {
    /// Seconds of each query, in the order of the batch.
    pub seconds: Vec<f64>,
    pub bytes_from_storage: u64,
    pub bytes_to_storage: u64,
    pub dollars: f64,
    /// CPU seconds of this process; `None` if the system does not count them.
    pub cpu_seconds_compute: Option<f64>,
    /// CPU seconds of the storage node.
    pub cpu_seconds_storage: Option<f64>,
}

impl Outcome {
    /// Adds a query.
    pub fn add(&mut self, record: &Record) {
        self.seconds.push(record.seconds);
        if let Some(counts) = &record.counts {
            self.bytes_from_storage += counts.bytes_from_storage;
            self.bytes_to_storage += counts.bytes_to_storage;
            self.dollars += counts.dollars;
        }
    }

    /// Seconds of all queries.
    pub fn seconds_total(&self) -> f64 {
        self.seconds.iter().sum()
    }

    /// Bytes from and to storage.
    pub fn bytes_moved(&self) -> u64 {
        self.bytes_from_storage + self.bytes_to_storage
    }

    /// CPU seconds of compute if its cores belong to the batch as long as it runs.
    pub fn cpu_seconds_dedicated(&self, cores: usize) -> f64 {
        self.seconds_total() * cores as f64
    }
}

/// The median of a measurement over the passes of one configuration; `None` if it was not measured.
pub fn median_of(passes: &[Outcome], of: impl Fn(&Outcome) -> Option<f64>) -> Option<f64> {
    median(&passes.iter().filter_map(of).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passes_have_a_median_of_what_was_measured() {
        let pass = |seconds: &[f64], cpu| Outcome {
            seconds: seconds.to_vec(),
            cpu_seconds_storage: cpu,
            ..Outcome::default()
        };
        let passes = [pass(&[1.0, 2.0], None), pass(&[3.0, 4.0], None), pass(&[2.0, 3.0], Some(0.5))];
        assert_eq!(median_of(&passes, |pass| Some(pass.cpu_seconds_dedicated(2))), Some(10.0));
        assert_eq!(median_of(&passes, |pass| pass.cpu_seconds_storage), Some(0.5));
        assert_eq!(median_of(&passes[..2], |pass| pass.cpu_seconds_storage), None);
    }
}
