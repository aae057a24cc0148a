//! The one form of equal floats.
//!
//! SQL's comparisons take -0 for 0 and all NaNs for one value. Whatever compares bits, hashes them or sorts by them has
//! to be given this form.

/// `number`, with 0 for -0, and one NaN for all.
#[inline]
pub const fn canonical_f64(number: f64) -> f64 {
    // Adding 0 changes no other number.
    if number.is_nan() { f64::NAN } else { number + 0.0 }
}

/// The same of 32 bits.
#[inline]
pub const fn canonical_f32(number: f32) -> f32 {
    if number.is_nan() { f32::NAN } else { number + 0.0 }
}
