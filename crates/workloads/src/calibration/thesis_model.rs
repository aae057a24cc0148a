//! The thesis's complete model (thesis equations 4.7 to 4.9).

use thermocline_pushdown::Mode;

/// Parameters of the model, and inputs that a map does not vary.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ThesisModel {
    /// BW_network-achieved, in bytes a second.
    pub network: f64,
    /// BW_storage, in bytes a second.
    pub storage: f64,
    /// BW_compute, in bytes a second.
    pub compute: f64,
    /// T_storage-overhead, in seconds.
    pub storage_overhead_s: f64,
    /// T_compute-overhead, in seconds.
    pub compute_overhead_s: f64,
    /// S: stored bytes.
    pub stored_bytes: f64,
    /// R: stored bytes for a byte in memory.
    pub stored_per_memory: f64,
}

/// What a query selects.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Selectivity {
    /// r: share of the rows.
    pub rows: f64,
    /// c: share of the bytes of all columns.
    pub columns: f64,
}

impl ThesisModel {
    /// Seconds of a query in a mode, with the share `hit` (h) cached.
    pub fn seconds(&self, mode: Mode, Selectivity { rows, columns }: Selectivity, hit: f64) -> f64 {
        let Self { network, storage, compute, storage_overhead_s, compute_overhead_s, stored_bytes, .. } = *self;
        let selected = rows * columns;
        let in_memory = selected * stored_bytes / self.stored_per_memory;
        let storage_and_transfer = |missed: f64| {
            missed * stored_bytes / storage + storage_overhead_s + missed * selected * stored_bytes / network
        };
        match mode {
            // Nothing is cached in this mode: h is 0.
            Mode::Pushdown => storage_and_transfer(1.0),
            Mode::Hybrid => (hit * in_memory / compute + compute_overhead_s).max(storage_and_transfer(1.0 - hit)),
            Mode::Auto | Mode::Caching | Mode::Pullup => {
                (1.0 - hit) * stored_bytes / network + in_memory / compute + compute_overhead_s
            }
        }
    }

    /// The fastest of `caching`, `pushdown` and `hybrid`; of equally fast ones, the first.
    pub fn fastest(&self, selectivity: Selectivity, hit: f64) -> Mode {
        let modes = [Mode::Caching, Mode::Pushdown, Mode::Hybrid];
        let seconds = |mode: &Mode| self.seconds(*mode, selectivity, hit);
        modes.into_iter().min_by(|a, b| seconds(a).total_cmp(&seconds(b))).unwrap_or(Mode::Hybrid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The thesis's: BW_storage of 20 GB/s, others relative to it.
    fn model(network: f64, compute: f64) -> ThesisModel {
        ThesisModel {
            network: network * 20e9,
            storage: 20e9,
            compute: compute * 20e9,
            storage_overhead_s: 0.45,
            compute_overhead_s: 0.1,
            stored_bytes: 15e9,
            stored_per_memory: 1.3,
        }
    }

    #[test]
    fn equations_are_the_thesis_s() {
        let half = Selectivity { rows: 0.5, columns: 0.5 };
        let model = model(0.5, 2.0);
        let near = |mode, hit, expected: f64| {
            let seconds = model.seconds(mode, half, hit);
            assert!((seconds - expected).abs() < 1e-9, "{mode} {hit}: {seconds} instead of {expected}");
        };
        // 7.5 GB at 10 GB/s, 2.885 GB at 40 GB/s, overhead.
        near(Mode::Caching, 0.5, 0.75 + 0.25 * 15.0 / 1.3 / 40.0 + 0.1);
        // 15 GB at 20 GB/s, overhead, 3.75 GB at 10 GB/s, whatever is cached.
        near(Mode::Pushdown, 0.5, 0.75 + 0.45 + 0.375);
        near(Mode::Hybrid, 0.5, 0.375 + 0.45 + 0.1875);
        near(Mode::Hybrid, 1.0, 0.45);
    }

    /// What sections 4.5.1 to 4.5.3 say of figures 4-4 to 4-6.
    #[test]
    fn maps_have_the_thesis_s_regions() {
        let ratios = || (1..=20).map(|step| f64::from(step) / 10.0);
        let modes = |selectivity, hit| -> Vec<Mode> {
            let map = ratios().flat_map(|network| ratios().map(move |compute| model(network, compute)));
            map.map(|model| model.fastest(selectivity, hit)).collect()
        };
        for hit in [0.25, 0.5, 0.75] {
            let low = modes(Selectivity { rows: 0.1, columns: 0.1 }, hit);
            assert!(!low.contains(&Mode::Pushdown) && low.contains(&Mode::Caching) && low.contains(&Mode::Hybrid));
            let medium = modes(Selectivity { rows: 0.5, columns: 0.5 }, hit);
            assert!(!medium.contains(&Mode::Pushdown), "at {hit}");
        }
        let high = Selectivity { rows: 0.8, columns: 0.8 };
        assert!(!modes(high, 0.25).contains(&Mode::Pushdown), "figure 4-6a");
        assert!(modes(high, 0.75).contains(&Mode::Pushdown), "figure 4-6c");
        // A faster link favours caching, at lower ratios with more of it cached.
        let crossing = |hit: f64| {
            let low = Selectivity { rows: 0.1, columns: 0.1 };
            ratios().find(|network| model(*network, 1.0).fastest(low, hit) == Mode::Caching).unwrap()
        };
        assert!(crossing(0.25) >= crossing(0.5) && crossing(0.5) >= crossing(0.75));
    }
}
