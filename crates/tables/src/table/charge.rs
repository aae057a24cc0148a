//! Charges of working memory to the budget, in steps.

use std::sync::Arc;

use super::budget::{Budget, Full, Reach, Working};

/// Bytes between two requests to the budget, so that small charges cost nothing and no counter is touched for each row.
pub(crate) const STEP_BYTES: usize = 64 << 10;

/// Bytes that an allocation takes, including the allocator's overhead.
pub const fn allocated(bytes: usize) -> usize {
    if bytes == 0 {
        return 0;
    }
    let chunk = (bytes + 8).next_multiple_of(16);
    if chunk < 32 { 32 } else { chunk }
}

/// A charge for working memory, released on drop.
///
/// Invariant: `charged` is reported to the budget, and `bytes` exceeds it by less than `STEP_BYTES`, unless they were
/// [settled](Charge::settle).
#[derive(Debug, Default)]
pub struct Charge {
    /// `None` if nothing is counted.
    budget: Option<(Arc<Budget>, Working, Reach)>,
    bytes: usize,
    charged: usize,
    /// Bytes of its holder that another charge covers.
    elsewhere: usize,
}

impl Charge {
    /// An empty charge.
    pub fn new(budget: &Arc<Budget>, kind: Working) -> Self {
        Self::reaching(budget, kind, Reach::Whole)
    }

    /// An empty charge limited to a [share](Reach::Share).
    pub fn shared(budget: &Arc<Budget>, kind: Working) -> Self {
        Self::reaching(budget, kind, Reach::Share)
    }

    fn reaching(budget: &Arc<Budget>, kind: Working, reach: Reach) -> Self {
        Self { budget: Some((Arc::clone(budget), kind, reach)), bytes: 0, charged: 0, elsewhere: 0 }
    }

    /// Bytes charged, including those of other charges.
    pub const fn bytes(&self) -> usize {
        self.bytes + self.elsewhere
    }

    /// Counts bytes that another charge covers.
    pub const fn include(&mut self, elsewhere: usize) {
        self.elsewhere += elsewhere;
    }

    /// Whether it charges this kind of working memory.
    pub fn is_of(&self, kind: Working) -> bool {
        self.budget.as_ref().is_some_and(|(_, own, _)| *own == kind)
    }

    /// The charged budget.
    pub fn budget(&self) -> Option<&Arc<Budget>> {
        self.budget.as_ref().map(|(budget, ..)| budget)
    }

    /// Sets the charged bytes; an error leaves the charge unchanged.
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

    /// Adds `more` bytes.
    #[inline]
    pub fn grow(&mut self, more: usize) -> Result<(), Full> {
        self.resize(self.bytes.saturating_add(more))
    }

    /// [`Charge::resize`] without rounding, for very many small charges.
    pub fn resize_exactly(&mut self, bytes: usize) -> Result<(), Full> {
        self.tell(bytes)?;
        self.bytes = bytes;
        Ok(())
    }

    /// Sets the charged bytes without asking, for memory that is already in use.
    pub fn set(&mut self, bytes: usize) {
        self.bytes = bytes;
        self.settle(0);
    }

    #[cold]
    fn tell(&mut self, bytes: usize) -> Result<(), Full> {
        if let Some((budget, kind, reach)) = &self.budget {
            match bytes.checked_sub(self.charged) {
                Some(more) => budget.take_working(*kind, *reach, self.charged, more)?,
                None => budget.resize_working(*kind, self.charged, bytes),
            }
            self.charged = bytes;
        }
        Ok(())
    }

    /// Reports all bytes to the budget, plus `more` that cannot be refused.
    pub fn settle(&mut self, more: usize) {
        self.bytes = self.bytes.saturating_add(more);
        if let Some((budget, kind, _)) = &self.budget {
            budget.resize_working(*kind, self.charged, self.bytes);
            self.charged = self.bytes;
        }
    }

    /// Hands over the settled charge; an empty one remains.
    #[must_use]
    pub fn take(&mut self) -> Self {
        self.settle(0);
        let budget = self.budget.clone();
        std::mem::replace(self, Self { budget, bytes: 0, charged: 0, elsewhere: 0 })
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        if let Some((budget, kind, _)) = self.budget.as_ref().filter(|_| self.charged > 0) {
            budget.resize_working(*kind, self.charged, 0);
        }
    }
}

/// Bytes of what is known of evicted rows besides their locators, counted as part of tables; released on drop. They
/// grow where rows leave memory, and so are not asked for.
#[derive(Debug)]
pub struct PlacesCharge {
    budget: Arc<Budget>,
    bytes: usize,
}

impl PlacesCharge {
    /// No bytes.
    pub fn new(budget: &Arc<Budget>) -> Self {
        Self { budget: Arc::clone(budget), bytes: 0 }
    }

    /// Sets the bytes.
    pub fn set(&mut self, bytes: usize) {
        if bytes != self.bytes {
            self.budget.resize(self.bytes, bytes);
            self.bytes = bytes;
        }
    }
}

impl Drop for PlacesCharge {
    fn drop(&mut self) {
        self.set(0);
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
