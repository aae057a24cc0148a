//! Values along the axes of all figures, and those of everything that a figure does not vary.

use thermocline_pushdown::Mode;
use thermocline_workloads::generate::Format;

use super::configuration::{BatchKind, CacheOptions, Configuration};

/// Skew of the batch of mixed selectivity over bandwidths: there, policies differ most without skew.
const MIXED_THETA: f64 = 0.0;

/// Values along the axes.
#[derive(Debug, Clone, PartialEq)]
pub struct Axes {
    pub modes: Vec<Mode>,
    pub policies: Vec<String>,
    /// Policy where policies are not compared.
    pub policy: String,
    /// Cache sizes as shares of the working set.
    pub cache_shares: Vec<f64>,
    /// Cache size where it does not vary.
    pub cache_share: f64,
    pub thetas: Vec<f64>,
    /// Skew where it does not vary.
    pub theta: f64,
    /// Bandwidth where it does not vary, in bytes a second.
    pub link: u64,
    /// Bandwidths as multiples of it.
    pub link_multiples: Vec<f64>,
    /// Format where formats are not compared.
    pub format: Format,
}

impl Axes {
    /// The star joins in a mode, with everything else as where it does not vary.
    pub fn star(&self, mode: Mode) -> Configuration {
        let cache = CacheOptions { share: self.cache_share, policy: self.policy.clone() };
        Configuration {
            batch: BatchKind::Star,
            theta: self.theta,
            format: self.format,
            link: self.link,
            mode,
            cache: mode.caches().then_some(cache),
        }
    }

    /// The joins of mixed selectivity in `hybrid` under a policy, with everything else as where it does not vary.
    pub fn mixed(&self, policy: &str) -> Configuration {
        let cache = CacheOptions { share: self.cache_share, policy: policy.to_owned() };
        Configuration {
            batch: BatchKind::MixedSelectivity,
            theta: MIXED_THETA,
            cache: Some(cache),
            ..self.star(Mode::Hybrid)
        }
    }

    /// Skew of the batch whose segments are the working set of its kind.
    pub fn theta_of_working_set(&self, batch: BatchKind) -> f64 {
        match batch {
            BatchKind::Star => self.theta,
            BatchKind::MixedSelectivity => MIXED_THETA,
        }
    }

    /// A multiple of the bandwidth.
    pub fn link_times(&self, multiple: f64) -> u64 {
        ((self.link as f64 * multiple).round() as u64).max(1)
    }
}
