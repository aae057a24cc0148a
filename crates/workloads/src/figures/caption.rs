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
            Some(bytes) if *bytes >= 125_000_000 => format!("link of {} Gbit/s", *bytes as f64 * 8.0 / 1e9),
            Some(bytes) => format!("link of {} Mbit/s", *bytes as f64 * 8.0 / 1e6),
            None => "storage node in the process".to_owned(),
        };
        let subtitle = format!("{}, scale {scale}, {}, {link}", workload.name, format.extension());
        Self { title: title.into(), subtitle }
    }
}
