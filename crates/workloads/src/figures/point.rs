//! Data of a figure.

use crate::bench::Record;

/// One value and its place. Points of one place are repeated measurements: their median is drawn.
#[derive(Debug, Clone, PartialEq)]
pub struct Point<X> {
    /// Title of the panel, which is a chart of its own within the figure.
    pub panel: String,
    /// Name in the legend.
    pub series: String,
    /// A category of bars, or a number.
    pub x: X,
    /// The value; one that is not finite is not drawn.
    pub y: f64,
}

impl<X> Point<X> {
    /// A point.
    pub fn new<I: Into<X>>(panel: impl Into<String>, series: impl Into<String>, x: I, y: f64) -> Self {
        Self { panel: panel.into(), series: series.into(), x: x.into(), y }
    }
}

/// Quantity of a record to be drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quantity {
    /// Seconds.
    Seconds,
    /// MiB from and to storage.
    Bytes,
    /// Dollars under the configured prices, for a thousand runs.
    Dollars,
}

impl Quantity {
    /// Its name, as in names of files.
    pub fn name(self) -> &'static str {
        match self {
            Quantity::Seconds => "seconds",
            Quantity::Bytes => "bytes",
            Quantity::Dollars => "dollars",
        }
    }

    /// Its name in a title.
    pub fn title(self) -> &'static str {
        match self {
            Quantity::Seconds => "Seconds",
            Quantity::Bytes => "Bytes moved",
            Quantity::Dollars => "Dollars",
        }
    }

    /// Label of an axis, with the unit.
    pub fn axis(self) -> &'static str {
        match self {
            Quantity::Seconds => "seconds",
            Quantity::Bytes => "MiB from and to storage",
            Quantity::Dollars => "dollars for 1000 runs",
        }
    }

    /// Its value in a record, in the axis' unit; `None` if it was not counted.
    pub fn of(self, record: &Record) -> Option<f64> {
        match self {
            Quantity::Seconds => Some(record.seconds),
            Quantity::Bytes => record.bytes_moved().map(|bytes| bytes as f64 / (1 << 20) as f64),
            Quantity::Dollars => record.counts.as_ref().map(|counts| counts.dollars * 1000.0),
        }
    }
}
