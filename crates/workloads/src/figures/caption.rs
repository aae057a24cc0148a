//! Caption of a figure.

use crate::bench::Measurement;

/// Two lines above a figure.
#[derive(Debug, Clone)]
pub struct Caption {
    /// Title.
    pub title: String,
    /// Conditions of the measurement.
    pub subtitle: String,
}

impl Caption {
    /// A title over the workload, scale, format and link of a measurement.
    pub fn new(title: impl Into<String>, measurement: &Measurement) -> Self {
        let Measurement { workload, scale, format, egress_bytes_per_s } = measurement;
        let link = match egress_bytes_per_s {
            Some(bytes) => format!("link of {}", bit_rate(*bytes)),
            None => "storage node in the process".to_owned(),
        };
        let subtitle = format!("{}, scale {scale}, {}, {link}", workload.name, format.extension());
        Self { title: title.into(), subtitle }
    }
}

/// A rate in bits a second, as captions print it.
pub fn bit_rate(bytes_per_s: u64) -> String {
    let bits = bytes_per_s as f64 * 8.0;
    if bits >= 1e9 { format!("{} Gbit/s", bits / 1e9) } else { format!("{} Mbit/s", bits / 1e6) }
}
