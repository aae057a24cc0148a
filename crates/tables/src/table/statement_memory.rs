//! Memory that a running statement takes for groups, sorts and texts.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use thermocline_types::{Error, Result};

use super::budget::{Budget, Full, Working};
use super::charge::{Charge, STEP_BYTES};

/// Memory of the running statement besides its result: structures, such as groups, and the texts that its expressions
/// make.
///
/// Texts are only added up, and freed together with the row that they belong to, because it is unknown when a text is
/// dropped. A text that outlives its row is [kept](Self::keep_texts).
///
/// Invariant: `structures + texts <= granted`, of which all but the first `STEP_BYTES` are charged to the budget. A
/// statement that takes no more than these asks for nothing.
#[derive(Debug)]
pub struct StatementMemory {
    structures: Cell<usize>,
    texts: Cell<usize>,
    /// The row of `texts`.
    row: Cell<u64>,
    /// Texts that are not freed with the row.
    kept: Cell<usize>,
    granted: Cell<usize>,
    charge: RefCell<Charge>,
}

impl StatementMemory {
    /// An account charged to this budget.
    pub fn new(budget: &Arc<Budget>) -> Self {
        let (structures, texts, kept) = (Cell::new(0), Cell::new(0), Cell::new(0));
        let charge = RefCell::new(Charge::shared(budget, Working::Queries));
        Self { structures, texts, row: Cell::new(0), kept, granted: Cell::new(STEP_BYTES), charge }
    }

    /// A charge to the same budget for memory that outlives the statement.
    pub fn charge(&self, kind: Working) -> Charge {
        self.charge.borrow().budget().map(|budget| Charge::shared(budget, kind)).unwrap_or_default()
    }

    /// Whether it charges this budget.
    pub fn is_of(&self, budget: &Arc<Budget>) -> bool {
        self.charge.borrow().budget().is_some_and(|own| Arc::ptr_eq(own, budget))
    }

    /// Counts a text about to be made for a row; texts of other rows are gone.
    #[inline]
    pub fn text(&self, row: u64, bytes: usize) -> Result<()> {
        self.go_to(row);
        let texts = self.texts.get().saturating_add(bytes);
        if self.structures.get().saturating_add(texts) > self.granted.get() {
            self.grant(self.structures.get().saturating_add(texts)).map_err(|full| out_of_memory("texts", full))?;
        }
        self.texts.set(texts);
        Ok(())
    }

    /// Ends a row: its texts are gone.
    #[inline]
    pub fn next_row(&self) {
        self.texts.set(self.kept.get());
    }

    #[inline]
    fn go_to(&self, row: u64) {
        if self.row.replace(row) != row {
            self.next_row();
        }
    }

    /// Keeps the texts of a row beyond it; returns the bytes kept without them, for [`StatementMemory::give_back`].
    pub fn keep_texts(&self, row: u64) -> usize {
        self.go_to(row);
        self.kept.replace(self.texts.get())
    }

    /// Frees the kept texts.
    pub fn give_back(&self, kept: usize) {
        self.kept.set(kept);
        self.texts.set(kept);
    }

    /// Ends the transaction and releases its charge.
    #[inline]
    pub fn end(&mut self) {
        (*self.structures.get_mut(), *self.texts.get_mut(), *self.kept.get_mut()) = (0, 0, 0);
        if *self.granted.get_mut() > STEP_BYTES {
            self.give_all_back();
        }
    }

    #[cold]
    fn give_all_back(&mut self) {
        // Shrinking is never refused.
        let _ = self.charge.get_mut().resize_exactly(0);
        *self.granted.get_mut() = STEP_BYTES;
    }

    #[cold]
    fn grant(&self, bytes: usize) -> Result<(), Full> {
        // Slightly more than requested, so that the next requests need not ask.
        let more = bytes.saturating_add(STEP_BYTES.max(bytes / 8));
        let mut charge = self.charge.borrow_mut();
        let granted = match charge.resize_exactly(more) {
            Ok(()) => more,
            Err(_) => charge.resize_exactly(bytes).map(|()| bytes)?,
        };
        self.granted.set(granted);
        Ok(())
    }
}

/// Memory of a structure of the running statement, freed on drop.
#[derive(Debug)]
pub struct Structure<'m> {
    /// `None` if nothing is counted.
    memory: Option<&'m StatementMemory>,
    name: &'static str,
    bytes: usize,
}

impl<'m> Structure<'m> {
    /// An empty structure with a name for errors.
    pub const fn new(memory: Option<&'m StatementMemory>, name: &'static str) -> Self {
        Self { memory, name, bytes: 0 }
    }

    /// Sets its size; an error leaves it unchanged.
    #[inline]
    pub fn resize(&mut self, bytes: usize) -> Result<()> {
        if let Some(memory) = self.memory {
            let structures = (memory.structures.get() - self.bytes).saturating_add(bytes);
            let all = structures.saturating_add(memory.texts.get());
            if bytes > self.bytes && all > memory.granted.get() {
                memory.grant(all).map_err(|full| out_of_memory(self.name, full))?;
            }
            memory.structures.set(structures);
            self.bytes = bytes;
        }
        Ok(())
    }

    /// Adds `more` bytes.
    #[inline]
    pub fn grow(&mut self, more: usize) -> Result<()> {
        self.resize(self.bytes.saturating_add(more))
    }

    /// Makes room for one more item in a list, which doubles when it is full.
    #[inline]
    pub fn make_room<T>(&mut self, list: &mut Vec<T>) -> Result<()> {
        if list.len() == list.capacity() { self.double(list) } else { Ok(()) }
    }

    #[cold]
    fn double<T>(&mut self, list: &mut Vec<T>) -> Result<()> {
        let more = list.capacity().max(8);
        self.grow(more.saturating_mul(size_of::<T>()))?;
        list.reserve_exact(more);
        Ok(())
    }
}

impl Drop for Structure<'_> {
    fn drop(&mut self) {
        if let Some(memory) = self.memory {
            memory.structures.set(memory.structures.get() - self.bytes);
        }
    }
}

/// SQLSTATE 53200 for a refusal.
#[cold]
pub fn out_of_memory(what: &str, full: Full) -> Error {
    Error::OutOfMemory(format!("{what}: {full}").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_go_with_their_row_and_structures_when_they_are_dropped() {
        let budget = Arc::new(Budget::new(64 << 20));
        let mut memory = StatementMemory::new(&budget);
        let told = || budget.working(Working::Queries);
        memory.text(0, 1000).unwrap();
        assert_eq!(told(), 0, "little is not told");
        for row in 0..100 {
            memory.text(row, 1 << 20).unwrap();
        }
        memory.next_row();
        assert!((1 << 20..3 << 20).contains(&told()), "{}", told());
        let kept = {
            memory.text(1, 2 << 20).unwrap();
            memory.keep_texts(1)
        };
        memory.next_row();
        let mut groups = Structure::new(Some(&memory), "groups");
        groups.resize(10 << 20).unwrap();
        assert!(told() >= 12 << 20);
        // The two together have a quarter of the limit.
        let error = groups.grow(5 << 20).unwrap_err();
        assert_eq!(error.sqlstate(), "53200");
        assert!(error.to_string().contains("groups: ") && error.to_string().contains("row_memory_limit"), "{error}");
        drop(groups);
        memory.text(1, 13 << 20).unwrap();
        memory.give_back(kept);
        memory.text(1, 15 << 20).unwrap();
        memory.end();
        assert_eq!(told(), 0);
    }

    #[test]
    fn a_list_asks_before_it_doubles() {
        let budget = Arc::new(Budget::new(4 << 20));
        let memory = StatementMemory::new(&budget);
        let mut structure = Structure::new(Some(&memory), "ids");
        let mut list: Vec<u64> = Vec::new();
        let error = loop {
            match structure.make_room(&mut list) {
                Ok(()) => list.push(0),
                Err(error) => break error,
            }
        };
        assert!(error.to_string().starts_with("out of memory: ids: "), "{error}");
        // A mebibyte, which is a quarter of the limit.
        assert_eq!((list.len(), list.capacity()), (1 << 17, 1 << 17));
        Structure::new(None, "ids").resize(1 << 40).unwrap();
    }
}
