use std::sync::Arc;

use super::budget::{Budget, Full, Working};

/// Bytes between two questions to the budget, so that what is small costs nothing and no counter is touched for
/// each row.
const STEP_BYTES: usize = 64 << 10;

/// A share of working memory, given back when it is dropped.
///
/// Invariant: the budget was told `charged`, and of `bytes` less than `STEP_BYTES` more, unless they were
/// [settled](Charge::settle).
#[derive(Debug, Default)]
pub struct Charge {
    /// `None` where nobody counts.
    budget: Option<(Arc<Budget>, Working)>,
    bytes: usize,
    charged: usize,
}

impl Charge {
    /// Of nothing yet.
    pub fn new(budget: &Arc<Budget>, kind: Working) -> Self {
        Self { budget: Some((Arc::clone(budget), kind)), bytes: 0, charged: 0 }
    }

    /// Bytes that it is of.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Is of so many bytes from now on; an error leaves it as it was.
    ///
    /// # Errors
    /// If the budget has no room for them.
    #[inline]
    pub fn resize(&mut self, bytes: usize) -> Result<(), Full> {
        if bytes.abs_diff(self.charged) >= STEP_BYTES {
            self.tell(bytes)?;
        }
        self.bytes = bytes;
        Ok(())
    }

    /// The same with more bytes than now.
    #[inline]
    pub fn grow(&mut self, more: usize) -> Result<(), Full> {
        self.resize(self.bytes.saturating_add(more))
    }

    #[cold]
    fn tell(&mut self, bytes: usize) -> Result<(), Full> {
        if let Some((budget, kind)) = &self.budget {
            if let Some(more) = bytes.checked_sub(self.charged) {
                budget.check_working(more)?;
            }
            budget.resize_working(*kind, self.charged, bytes);
            self.charged = bytes;
        }
        Ok(())
    }

    /// Tells the budget of all bytes, and has `more` that it is not asked for.
    pub fn settle(&mut self, more: usize) {
        self.bytes = self.bytes.saturating_add(more);
        if let Some((budget, kind)) = &self.budget {
            budget.resize_working(*kind, self.charged, self.bytes);
            self.charged = self.bytes;
        }
    }

    /// Hands over what it is of, settled; what stays is of nothing.
    #[must_use]
    pub fn take(&mut self) -> Self {
        self.settle(0);
        let budget = self.budget.clone();
        std::mem::replace(self, Self { budget, bytes: 0, charged: 0 })
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        if let Some((budget, kind)) = self.budget.as_ref().filter(|_| self.charged > 0) {
            budget.resize_working(*kind, self.charged, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_charge_asks_and_gives_back() {
        let budget = Arc::new(Budget::new(1 << 20));
        let told = || budget.working(Working::Results);
        let mut charge = Charge::new(&budget, Working::Results);
        charge.grow(1000).unwrap();
        assert_eq!((charge.bytes(), told()), (1000, 0), "little is not told");
        charge.grow(100_000).unwrap();
        assert_eq!((charge.bytes(), told()), (101_000, 101_000));
        assert_eq!(charge.grow(1 << 20).unwrap_err().limit, 1 << 20);
        assert_eq!((charge.bytes(), told()), (101_000, 101_000), "an error leaves it as it was");
        charge.grow(10).unwrap();
        let other = charge.take();
        assert_eq!((charge.bytes(), other.bytes(), told()), (0, 101_010, 101_010));
        charge.settle(2 << 20);
        assert_eq!(told(), 101_010 + (2 << 20));
        drop(charge);
        drop(other);
        assert_eq!(told(), 0);
        let mut uncounted = Charge::default();
        uncounted.grow(usize::MAX).unwrap();
    }
}
