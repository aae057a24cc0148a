//! What a statement may know of the world: what the log records of its transaction.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use thermocline_machine::interrupt::Interrupt;
use thermocline_tables::table::{Budget, StatementMemory, Structure};
use thermocline_types::{Error, Result, UUID_BYTES, random_uuid};

/// A transaction's time, its random numbers and its budget. Replaying the transaction with the same
/// timestamp and seed gives the same values.
#[derive(Debug)]
pub struct Environment {
    timestamp: i64,
    random: Cell<u64>,
    steps_left: Cell<u64>,
    /// Whether it is a query that another engine runs if it takes more steps.
    may_go_elsewhere: bool,
    /// Its interrupt; `None` if nothing stops it.
    interrupt: Option<Arc<Interrupt>>,
    /// What is told of the memory that statements take; `None` where nobody counts, as in replay.
    memory: Option<Box<StatementMemory>>,
    /// An empty buffer, so that not every statement allocates one.
    buffer: RefCell<Vec<u8>>,
}

/// What makes environments for other threads; see [`Environment::apart`].
#[derive(Debug)]
pub(crate) struct Apart {
    timestamp: i64,
    random: u64,
    steps_left: u64,
    interrupt: Option<Arc<Interrupt>>,
}

impl Apart {
    /// One of them, which nobody counts the memory of.
    pub fn environment(&self) -> Environment {
        Environment::new(self.timestamp, self.random, self.steps_left).with_interrupt(self.interrupt.as_ref())
    }
}

/// Bytes that the buffer begins with: the keys of a batch.
const BUFFER_BYTES: usize = 256;

/// Steps between two looks at the interrupt: a few microseconds.
const STEPS_BETWEEN: u64 = 128;

impl Environment {
    /// The environment of a transaction that began at `timestamp` (microseconds since 1970), whose
    /// random numbers follow from `seed`, and which may read `steps_max` rows.
    pub const fn new(timestamp: i64, seed: u64, steps_max: u64) -> Self {
        Self {
            timestamp,
            random: Cell::new(seed),
            steps_left: Cell::new(steps_max),
            may_go_elsewhere: false,
            interrupt: None,
            memory: None,
            buffer: RefCell::new(Vec::new()),
        }
    }

    /// The environment of an expression of parameters alone, outside of a transaction and of its memory: texts of
    /// 16 MiB together.
    pub(crate) fn outside() -> Self {
        /// Of which one holder may have a quarter.
        const BYTES: u64 = 64 << 20;
        let memory = StatementMemory::new(&Arc::new(Budget::new(BYTES)));
        Self::new(0, 0, 0).with_memory(Some(Box::new(memory)))
    }

    /// The same, of a transaction that can be stopped.
    #[must_use]
    pub fn with_interrupt(self, interrupt: Option<&Arc<Interrupt>>) -> Self {
        Self { interrupt: interrupt.map(Arc::clone), ..self }
    }

    /// The same, of a query that is for another engine if it would read more rows than it may: see
    /// the setting `query_rows_max`.
    #[must_use]
    pub fn of_bounded_query(self) -> Self {
        Self { may_go_elsewhere: true, ..self }
    }

    /// Whether it may not read any number of rows.
    pub(crate) fn is_bounded(&self) -> bool {
        self.steps_left.get() < u64::MAX / 2
    }

    /// What environments for other threads have of this one, which is not bounded.
    pub(crate) fn apart(&self) -> Apart {
        let Self { timestamp, random, steps_left, interrupt, .. } = self;
        Apart {
            timestamp: *timestamp,
            random: random.get(),
            steps_left: steps_left.get(),
            interrupt: interrupt.clone(),
        }
    }

    /// Sends a bounded query away, before it has read anything, if `estimate` says that it reads too much.
    pub(crate) fn check_bound(&self, estimate: impl FnOnce() -> Result<u64>) -> Result<()> {
        if self.may_go_elsewhere && estimate()? > self.steps_left.get() { Err(self.exceeded()) } else { Ok(()) }
    }

    #[cold]
    fn exceeded(&self) -> Error {
        if self.may_go_elsewhere {
            return Error::unsupported("a query that reads so many rows");
        }
        Error::Cancelled("the transaction read more rows than it may".into())
    }

    /// An error once the transaction is to stop, at the row of this number: looks at some of them.
    #[inline]
    pub(crate) fn check_at(&self, row: usize) -> Result<()> {
        if (row as u64).is_multiple_of(STEPS_BETWEEN) { self.check() } else { Ok(()) }
    }

    /// The same, whose statements' memory is told; it comes back with [`Environment::into_memory`].
    #[must_use]
    pub fn with_memory(self, memory: Option<Box<StatementMemory>>) -> Self {
        Self { memory, ..self }
    }

    /// What was told of the memory.
    pub fn into_memory(self) -> Option<Box<StatementMemory>> {
        self.memory
    }

    /// What is told of the memory; `None` where nobody counts.
    #[inline]
    pub fn memory(&self) -> Option<&StatementMemory> {
        self.memory.as_deref()
    }

    /// Counts a text that is about to be made, until the next row.
    #[inline]
    pub fn text(&self, bytes: usize) -> Result<()> {
        // Each row takes a step, so that what is left says which row it is.
        self.memory.as_ref().map_or(Ok(()), |memory| memory.text(self.steps_left.get(), bytes))
    }

    /// A row is done: texts that were made for it are gone.
    #[inline]
    pub(crate) fn next_row(&self) {
        if let Some(memory) = &self.memory {
            memory.next_row();
        }
    }

    /// Runs with the texts that there are kept.
    pub fn keeping_texts<T>(&self, run: impl FnOnce() -> Result<T>) -> Result<T> {
        let Some(memory) = &self.memory else { return run() };
        let kept = memory.keep_texts(self.steps_left.get());
        let result = run();
        memory.give_back(kept);
        result
    }

    /// Memory of a structure, which errors call so.
    pub fn structure(&self, name: &'static str) -> Structure<'_> {
        Structure::new(self.memory(), name)
    }

    /// An error once the transaction is to stop: for what runs long without [`Environment::spend`].
    pub fn check(&self) -> Result<()> {
        self.interrupt.as_ref().map_or(Ok(()), |interrupt| interrupt.check())
    }

    /// An empty buffer, which may be kept for the next statement with [`Environment::keep`].
    #[inline]
    pub(crate) fn buffer(&self) -> Vec<u8> {
        let buffer = self.buffer.take();
        if buffer.capacity() == 0 { Vec::with_capacity(BUFFER_BYTES) } else { buffer }
    }

    /// Keeps a buffer.
    #[inline]
    pub(crate) fn keep(&self, mut buffer: Vec<u8>) {
        buffer.clear();
        drop(self.buffer.replace(buffer));
    }

    /// `now()`.
    pub const fn timestamp(&self) -> i64 {
        self.timestamp
    }

    /// The next random number (SplitMix64).
    pub fn random(&self) -> u64 {
        let state = self.random.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.random.set(state);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Where the random numbers stand, to go back there with [`Environment::rewind`].
    pub(crate) fn mark(&self) -> u64 {
        self.random.get()
    }

    /// Gives the same random numbers again: to do the same to every copy of a replicated table.
    pub(crate) fn rewind(&self, mark: u64) {
        self.random.set(mark);
    }

    /// At least 0 and less than 1.
    pub fn random_float(&self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "53 bits fit a float")]
        let mantissa = (self.random() >> 11) as f64;
        mantissa / (1_u64 << 53) as f64
    }

    /// A random UUID (version 4).
    pub fn random_uuid(&self) -> [u8; UUID_BYTES] {
        random_uuid(u128::from(self.random()) << 64 | u128::from(self.random()))
    }

    /// Takes steps off the budget: one for each row that is read or written, with which the row before is done.
    #[inline]
    pub fn spend(&self, steps: u64) -> Result<()> {
        match self.steps_left.get().checked_sub(steps) {
            Some(left) => {
                let before = self.steps_left.replace(left);
                if before / STEPS_BETWEEN == left / STEPS_BETWEEN { Ok(()) } else { self.check() }
            }
            None => Err(self.exceeded()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_follows_from_the_seed() {
        let (one, other) = (Environment::new(0, 7, 10), Environment::new(0, 7, 10));
        assert_eq!(one.random_uuid(), other.random_uuid());
        assert_ne!(one.random_uuid(), Environment::new(0, 8, 10).random_uuid());
        assert!((0.0..1.0).contains(&one.random_float()));
        assert!(one.spend(10).is_ok());
        assert_eq!(one.spend(1).unwrap_err().sqlstate(), "57014");
    }
}
