#![expect(unsafe_code, reason = "a borrow that passes through a library in C")]

use std::cell::Cell;
use std::fmt;
use std::mem::transmute_copy;
use std::ptr::NonNull;

/// A type with a lifetime, which a [`Loan`] lends.
pub trait Lent: 'static {
    /// The type with this lifetime.
    type Of<'l>: ?Sized;
}

/// A value lent to callbacks while a script runs.
///
/// Invariant: while [`Loan::lend`] runs, the cell holds the only pointer to the value, and it is empty while a callback
/// uses the value.
pub struct Loan<C: Lent> {
    lent: Cell<Option<NonNull<C::Of<'static>>>>,
}

impl<C: Lent> Default for Loan<C> {
    fn default() -> Self {
        Self { lent: Cell::new(None) }
    }
}

impl<C: Lent> fmt::Debug for Loan<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Loan").field("is_lent", &self.lent.get().is_some()).finish()
    }
}

impl<C: Lent> Loan<C> {
    /// Runs `run`, during which [`Loan::with`] finds this value.
    pub fn lend<'l, T>(&self, value: &mut C::Of<'l>, run: impl FnOnce() -> T) -> T {
        /// Restores the earlier content, also when a panic unwinds.
        struct Back<'b, C: Lent>(&'b Loan<C>, Option<NonNull<C::Of<'static>>>);

        impl<C: Lent> Drop for Back<'_, C> {
            fn drop(&mut self) {
                self.0.lent.set(self.1);
            }
        }

        let lent: NonNull<C::Of<'l>> = NonNull::from(value);
        // SAFETY: types that differ in a lifetime are laid out alike; `with` lets nobody count on this one.
        let lent = unsafe { transmute_copy::<NonNull<C::Of<'l>>, NonNull<C::Of<'static>>>(&lent) };
        let _back = Back(self, self.lent.replace(Some(lent)));
        run()
    }

    /// Uses the value; `None` if none is lent, or if it is being used.
    pub fn with<T>(&self, run: impl for<'l> FnOnce(&mut C::Of<'l>) -> T) -> Option<T> {
        let mut lent = self.lent.take()?;
        // SAFETY: `lend` has the value borrowed for itself and does not use it. Taken out of the cell, the
        // pointer is the only one. `run` takes any lifetime, so nothing that it borrows gets out.
        let result = run(unsafe { lent.as_mut() });
        self.lent.set(Some(lent));
        Some(result)
    }
}
