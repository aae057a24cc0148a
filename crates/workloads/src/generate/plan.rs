//! Assignment of units to objects.
//!
//! Objects are cut before they are written, so that any thread can write each. The number of units that fill
//! `partition_size` bytes is found by encoding samples from the middle of the table, where keys have their usual number
//! of digits; the samples are discarded.

use std::io;
use std::ops::Range;

use super::encode::{EncodeError, Format, encode};
use super::source::Source;

/// Maximum batches of the second sample. The first, of half a batch, gives the magnitude; the second has the size of an
/// object, because a Parquet object's dictionaries and footer weigh less the more rows it has.
const SECOND_SAMPLE_BATCHES_MAX: u64 = 8;

/// Cuts the units of `source` into objects of about `partition_size` stored bytes, with equally many units each, except
/// for rounding.
///
/// # Errors
/// If a sample cannot be encoded, which is a bug.
pub(super) fn plan(source: &dyn Source, format: Format, partition_size: u64) -> Result<Vec<Range<u64>>, EncodeError> {
    let units = source.units();
    let first = units.min((source.units_per_batch() / 2).max(1));
    let estimate = units_per_object(source, format, partition_size, first)?;
    let second = estimate.clamp(1, units.min(SECOND_SAMPLE_BATCHES_MAX * source.units_per_batch()));
    let per_object = if second == first { estimate } else { units_per_object(source, format, partition_size, second)? };
    let objects = units.div_ceil(per_object.max(1));
    let cut = |object: u64| (u128::from(units) * u128::from(object) / u128::from(objects)) as u64;
    Ok((0..objects).map(|object| cut(object)..cut(object + 1)).collect())
}

fn units_per_object(source: &dyn Source, format: Format, partition_size: u64, sample: u64) -> Result<u64, EncodeError> {
    let start = (source.units() - sample) / 2;
    let bytes = encode(source, start..start + sample, format, io::sink(), &|_| {})?;
    Ok((u128::from(sample) * u128::from(partition_size) / u128::from(bytes)) as u64)
}
