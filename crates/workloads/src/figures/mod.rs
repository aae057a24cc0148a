//! Figures of experiments: points in, SVG text out.
//!
//! ```text
//! records -> Point (panel, series, x, y) -> Panels (medians) -> bars, lines or regions -> SVG
//! ```
//!
//! ```
//! use thermocline_workloads::figures::{Caption, Point, bars};
//! let points = [Point::new("cold", "pullup", "Q1", 2.0), Point::new("cold", "pushdown", "Q1", 0.5)];
//! let svg = bars(&Caption { title: "Seconds".into(), subtitle: "tpch, scale 1".into() }, "seconds", &points)?;
//! assert!(svg.starts_with("<svg") && svg.contains("pushdown"));
//! # Ok::<(), datafusion::common::DataFusionError>(())
//! ```
//!
//! Left out: the choice of points for an experiment, and files, both in the binary.

mod axis;
mod bars;
mod beside;
mod caption;
mod lines;
mod panels;
mod point;
mod regions;
mod sheet;

pub use axis::{Axis, Scale};
pub use bars::bars;
pub use beside::beside;
pub use caption::{Caption, bit_rate};
pub use lines::lines;
pub use point::{Point, Quantity};
pub use regions::{Grid, regions};
