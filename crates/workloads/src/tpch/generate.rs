//! Generates all eight tables as objects.

use super::source::TpchSource;
use super::tables::{Customer, LineItem, Nation, Orders, Part, PartSupp, Region, Supplier};
use crate::generate::{self, GenerateError, GenerateOptions, Progress, Summary};

/// Below it there are too few suppliers for four different ones a part.
const SCALE_MIN: f64 = 0.001;

/// The largest scale: the number of orders fits `i32`, as `tpchgen` requires.
const SCALE_MAX: f64 = 1000.0;

/// Checks that a scale is supported.
///
/// # Errors
/// [`GenerateError::Scale`] if it is not.
pub fn check_scale(scale: f64) -> Result<(), GenerateError> {
    match (SCALE_MIN..=SCALE_MAX).contains(&scale) {
        true => Ok(()),
        false => Err(GenerateError::Scale { scale, range: "at least 0.001 and at most 1000" }),
    }
}

/// Generates all tables as `out/<table>/<table>-00000.<format>` and so on.
///
/// The rows are those of `dbgen`. The bytes depend only on scale, format and partition size. `progress` is called after
/// each few thousand rows, from several threads. Memory is 300 MB for the text from which comments are cut, and about
/// 100 MB a thread, at any scale.
///
/// # Errors
/// See [`GenerateError`]. After an error, finished objects stay; unfinished ones do not.
pub fn generate(options: &GenerateOptions, progress: &(dyn Fn(Progress) + Sync)) -> Result<Summary, GenerateError> {
    let scale = options.scale;
    check_scale(scale)?;
    generate::generate(
        &[
            &TpchSource::<LineItem>::new(scale),
            &TpchSource::<Orders>::new(scale),
            &TpchSource::<PartSupp>::new(scale),
            &TpchSource::<Part>::new(scale),
            &TpchSource::<Customer>::new(scale),
            &TpchSource::<Supplier>::new(scale),
            &TpchSource::<Nation>::new(scale),
            &TpchSource::<Region>::new(scale),
        ],
        options,
        progress,
    )
}
