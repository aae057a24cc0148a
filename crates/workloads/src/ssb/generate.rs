//! Generates all five tables as objects.

use super::customer::Customer;
use super::dates::Dates;
use super::lineorder::Lineorder;
use super::part::Part;
use super::sizes::Sizes;
use super::supplier::Supplier;
use crate::generate::{self, GenerateError, GenerateOptions, Progress, Summary};

/// Checks that a scale is supported.
///
/// # Errors
/// [`GenerateError::Scale`] if it is not.
pub fn check_scale(scale: f64) -> Result<(), GenerateError> {
    Sizes::new(scale).map(|_| ())
}

/// Generates all tables as `out/<table>/<table>-00000.<format>` and so on.
///
/// The bytes depend only on scale, format and partition size. `progress` is called after each few thousand rows, from
/// several threads. Memory is about 70 MB a thread for Parquet and 10 MB for CSV, at any scale.
///
/// # Errors
/// See [`GenerateError`]. After an error, finished objects stay; unfinished ones do not.
pub fn generate(options: &GenerateOptions, progress: &(dyn Fn(Progress) + Sync)) -> Result<Summary, GenerateError> {
    let sizes = Sizes::new(options.scale)?;
    let lineorder = Lineorder::new(sizes);
    let customer = Customer::new(sizes.customers);
    let supplier = Supplier::new(sizes.suppliers);
    let part = Part::new(sizes.parts);
    generate::generate(&[&lineorder, &customer, &supplier, &part, &Dates::new()], options, progress)
}
