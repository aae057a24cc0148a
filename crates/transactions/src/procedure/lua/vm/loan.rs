//! A transaction's context, for as long as a script runs.

#![expect(unsafe_code, reason = "a borrow that passes through a library in C")]

use std::cell::Cell;
use std::ptr::NonNull;

use crate::procedure::Context;

/// A [`Context`] lent to whoever is called back.
///
/// Invariant: what is in the cell is the only way to the context while [`Loan::lend`] runs, and nothing is
/// in it while somebody uses the context.
#[derive(Debug, Default)]
pub struct Loan {
    context: Cell<Option<NonNull<Context<'static, 'static>>>>,
}

impl Loan {
    /// Runs `run`, during which [`Loan::with`] finds this context.
    pub fn lend<T>(&self, context: &mut Context<'_, '_>, run: impl FnOnce() -> T) -> T {
        /// Puts back what was there, also when a panic goes through.
        struct Back<'l>(&'l Loan, Option<NonNull<Context<'static, 'static>>>);

        impl Drop for Back<'_> {
            fn drop(&mut self) {
                self.0.context.set(self.1);
            }
        }

        let lent = NonNull::from(context).cast();
        let _back = Back(self, self.context.replace(Some(lent)));
        run()
    }

    /// Uses the context; `None` if none is lent, or if it is being used.
    pub fn with<T>(&self, run: impl FnOnce(&mut Context<'_, '_>) -> T) -> Option<T> {
        let mut lent = self.context.take()?;
        // SAFETY: `lend` has the context borrowed for itself and does not use it. Taken out of the cell, the
        // pointer is the only one. `run` takes any lifetimes, so nothing that it borrows gets out.
        let result = run(unsafe { lent.as_mut() });
        self.context.set(Some(lent));
        Some(result)
    }
}
