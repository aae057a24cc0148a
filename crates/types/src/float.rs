//! Canonical form of equal floats.
//!
//! SQL compares -0 and 0 as equal, and all NaNs as one value. Code that compares, hashes or sorts bits must use this
//! form.

/// `number`, with 0 for -0 and a single NaN.
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
