//! Numbers of customers, suppliers, parts and orders for a scale factor.

use crate::generate::GenerateError;

/// The largest scale: `c_custkey` and the other dimension keys still fit `Int32`.
const SCALE_MAX: f64 = 1000.0;

/// Below these a region or a category could be empty, and most queries with it.
const CUSTOMERS_MIN: f64 = 100.0;
const SUPPLIERS_MIN: f64 = 50.0;
const PARTS_MIN: f64 = 200.0;
const ORDERS_MIN: f64 = 1.0;

/// Rows of each dimension except `dates`, whose rows do not depend on the scale, and orders (of 1 to 7 `lineorder` rows
/// each).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Sizes {
    pub(super) customers: u32,
    pub(super) suppliers: u32,
    pub(super) parts: u32,
    pub(super) orders: u64,
}

impl Sizes {
    /// The sizes at `scale`.
    ///
    /// # Errors
    /// [`GenerateError::Scale`] unless 0 < scale <= 1000.
    pub(super) fn new(scale: f64) -> Result<Self, GenerateError> {
        if scale.is_nan() || scale <= 0.0 || scale > SCALE_MAX {
            return Err(GenerateError::Scale { scale, range: "above 0 and at most 1000" });
        }
        let parts_factor = if scale < 1.0 { scale } else { (1.0 + scale.log2()).floor() };
        Ok(Self {
            customers: (30_000.0 * scale).round().max(CUSTOMERS_MIN) as u32,
            suppliers: (2_000.0 * scale).round().max(SUPPLIERS_MIN) as u32,
            parts: (200_000.0 * parts_factor).round().max(PARTS_MIN) as u32,
            orders: (1_500_000.0 * scale).round().max(ORDERS_MIN) as u64,
        })
    }
}
