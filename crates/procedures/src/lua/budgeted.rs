use std::cell::{Cell, RefCell};
use std::rc::Rc;

use thermocline_lua::{Budget, Meter};
use thermocline_tables::table::{Charge, Full, StatementMemory, Working};

/// Bytes that a machine requests at once.
const STEP_BYTES: usize = 256 << 10;

/// Charges the database's budget for the memory that a machine's scripts hold.
#[derive(Debug, Default)]
pub(super) struct Budgeted {
    inner: Rc<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    charge: RefCell<Charge>,
    /// The refusal of more memory, if any.
    refused: Cell<Option<Full>>,
}

impl Budgeted {
    /// Charges the statements' budget for the memory counted by the meter; charges nothing if it is `None`, as in
    /// replay.
    pub fn begin(&self, meter: &Meter, memory: Option<&StatementMemory>) {
        self.inner.refused.set(None);
        let same = match (self.inner.charge.borrow().budget(), memory) {
            (Some(budget), Some(memory)) => memory.is_of(budget),
            (None, None) => true,
            _ => false,
        };
        if !same {
            self.inner.charge.replace(memory.map(|memory| memory.charge(Working::Lua)).unwrap_or_default());
            meter.set_budget(memory.map(|_| Box::new(Told(Rc::clone(&self.inner))) as Box<dyn Budget>));
        }
    }

    /// The refusal of more memory; `None` if there was none.
    pub fn refused(&self) -> Option<Full> {
        self.inner.refused.get()
    }
}

struct Told(Rc<Inner>);

impl Budget for Told {
    fn ask(&self, held: usize) -> Option<usize> {
        let granted = held.saturating_add(STEP_BYTES);
        match self.0.charge.borrow_mut().resize_exactly(granted) {
            Ok(()) => Some(granted),
            Err(full) => {
                self.0.refused.set(Some(full));
                None
            }
        }
    }

    fn tell(&self, held: usize) {
        self.0.charge.borrow_mut().set(held);
    }
}
