//! Everything outside the data that a statement's result may depend on: what the log records of its transaction.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use thermocline_machine::interrupt::Interrupt;
use thermocline_tables::table::{Budget, StatementMemory, Structure};
use thermocline_types::{Error, Result, UUID_BYTES, random_uuid};

/// Time, random numbers and row budget of a transaction. Replay with the same timestamp and seed gives the same values.
#[derive(Debug)]
pub struct Environment {
    timestamp: i64,
    random: Cell<u64>,
    steps_left: Cell<u64>,
    /// Whether the statement is a query that goes to the analytic engine if it exceeds its steps.
    may_go_elsewhere: bool,
    /// Interrupt of the transaction; `None` if nothing can stop it.
    interrupt: Option<Arc<Interrupt>>,
    /// Memory accounting of statements; `None` where memory is not counted, as in replay.
    memory: Option<Box<StatementMemory>>,
    /// Reused buffer, so that not every statement allocates one.
    buffer: RefCell<Vec<u8>>,
    /// Evicted rows that were needed.
    missing: Cell<usize>,
    /// Evicted rows after which the statement need not go on.
    missing_max: Cell<usize>,
    /// The same for a statement of which nothing else is known.
    missing_usual: usize,
}

/// Evicted rows that a statement looks for before it waits for them, the first time.
const MISSING_MAX: usize = 1024;

/// Factory of environments for other threads; see [`Environment::apart`].
#[derive(Debug)]
pub(crate) struct Apart {
    timestamp: i64,
    random: u64,
    steps_left: u64,
    interrupt: Option<Arc<Interrupt>>,
}

impl Apart {
    /// Makes an environment without memory accounting.
    pub fn environment(&self) -> Environment {
        Environment::new(self.timestamp, self.random, self.steps_left).with_interrupt(self.interrupt.as_ref())
    }
}

/// Initial capacity of the buffer, in bytes: enough for the keys of a batch.
const BUFFER_BYTES: usize = 256;

/// Polling interval of the interrupt, in steps: a few microseconds.
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
            missing: Cell::new(0),
            missing_max: Cell::new(MISSING_MAX),
            missing_usual: MISSING_MAX,
        }
    }

    /// Has a transaction that begins again look for as many further evicted rows as have come back for it: it reads what
    /// it has read once more each time, so that these times must not be as many as its rows.
    #[must_use]
    pub fn with_returned(self, rows: usize) -> Self {
        let usual = rows.max(MISSING_MAX);
        Self { missing_max: Cell::new(usual), missing_usual: usual, ..self }
    }

    /// The row, or `None` if it is evicted: the statement goes on without it, only to find out which others it needs
    /// (the pre-pass of Anti-Caching 2013, section 3.4), until it knows of many. [`Environment::complete`] ends it.
    #[inline]
    pub(crate) fn present<T>(&self, row: Result<T>) -> Result<Option<T>> {
        match row {
            Err(Error::Evicted) => {
                self.missing.set(self.missing.get() + 1);
                if self.missing.get() < self.missing_max.get() { Ok(None) } else { Err(Error::Evicted) }
            }
            row => row.map(Some),
        }
    }

    /// Whether a row that was needed is evicted.
    pub(crate) fn is_short(&self) -> bool {
        self.missing.get() > 0
    }

    /// Whether a further statement may look for evicted rows that it needs, after one that has ended without some. None
    /// of them completes. The transaction has needed `wanted` such rows so far: one that several statements need counts
    /// once, so that they may look for as many as a single statement.
    pub fn seeks_more(&self, wanted: usize) -> bool {
        self.missing.set(wanted.max(1));
        self.missing.get() < self.missing_usual
    }

    /// Ends a statement that needs `most` further evicted rows or more: it may need no others.
    pub(crate) fn limit_missing(&self, most: usize) {
        self.missing_max.set(self.missing.get().saturating_add(most).clamp(1, self.missing_usual));
    }

    /// Has a statement go on however many evicted rows it needs: it scans a table for them, which is not to be repeated
    /// for each thousand.
    pub(crate) fn seek_all(&self) {
        self.missing_max.set(usize::MAX);
    }

    /// The result of a statement; [`Error::Evicted`] if it went on without evicted rows, whatever came of that.
    #[inline]
    pub(crate) fn complete<T>(&self, result: Result<T>) -> Result<T> {
        // A limit is of this statement alone.
        self.missing_max.set(self.missing_usual);
        match result {
            // It would read as many rows when all of them are back.
            Err(exceeded @ Error::Unsupported(_)) if self.may_go_elsewhere => Err(exceeded),
            _ if self.is_short() => Err(Error::Evicted),
            result => result,
        }
    }

    /// The environment of expressions over parameters only, outside of a transaction and its memory; texts may take 16
    /// MiB in total.
    pub(crate) fn outside() -> Self {
        /// One holder may have a quarter.
        const BYTES: u64 = 64 << 20;
        let memory = StatementMemory::new(&Arc::new(Budget::new(BYTES)));
        Self::new(0, 0, 0).with_memory(Some(Box::new(memory)))
    }

    /// Sets the interrupt that stops the transaction.
    #[must_use]
    pub fn with_interrupt(self, interrupt: Option<&Arc<Interrupt>>) -> Self {
        Self { interrupt: interrupt.map(Arc::clone), ..self }
    }

    /// Marks a query that goes to the analytic engine if it would read more rows than it may: see the setting
    /// `query_rows_max`.
    #[must_use]
    pub fn of_bounded_query(self) -> Self {
        Self { may_go_elsewhere: true, ..self }
    }

    /// Whether the number of rows that may be read is limited.
    pub(crate) fn is_bounded(&self) -> bool {
        self.steps_left.get() < u64::MAX / 2
    }

    /// Parts of this environment, which must not be bounded, for environments of other threads.
    pub(crate) fn apart(&self) -> Apart {
        let Self { timestamp, random, steps_left, interrupt, .. } = self;
        Apart {
            timestamp: *timestamp,
            random: random.get(),
            steps_left: steps_left.get(),
            interrupt: interrupt.clone(),
        }
    }

    /// Refuses a bounded query before it has read anything if `estimate` exceeds the steps left.
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

    /// [`Self::check`] for the row of this number; checks only every [`STEPS_BETWEEN`] rows.
    #[inline]
    pub(crate) fn check_at(&self, row: usize) -> Result<()> {
        if (row as u64).is_multiple_of(STEPS_BETWEEN) { self.check() } else { Ok(()) }
    }

    /// Sets the memory accounting of statements; [`Environment::into_memory`] returns it.
    #[must_use]
    pub fn with_memory(self, memory: Option<Box<StatementMemory>>) -> Self {
        Self { memory, ..self }
    }

    /// Returns the memory accounting.
    pub fn into_memory(self) -> Option<Box<StatementMemory>> {
        self.memory
    }

    /// Memory accounting; `None` where memory is not counted.
    #[inline]
    pub fn memory(&self) -> Option<&StatementMemory> {
        self.memory.as_deref()
    }

    /// Counts a text that is about to be made; it is freed at the next row.
    #[inline]
    pub fn text(&self, bytes: usize) -> Result<()> {
        // Each row takes a step, so the steps left identify the row.
        self.memory.as_ref().map_or(Ok(()), |memory| memory.text(self.steps_left.get(), bytes))
    }

    /// Ends a row: its texts are freed.
    #[inline]
    pub(crate) fn next_row(&self) {
        if let Some(memory) = &self.memory {
            memory.next_row();
        }
    }

    /// Runs `run` and keeps counting the texts that exist before it.
    pub fn keeping_texts<T>(&self, run: impl FnOnce() -> Result<T>) -> Result<T> {
        let Some(memory) = &self.memory else { return run() };
        let kept = memory.keep_texts(self.steps_left.get());
        let result = run();
        memory.give_back(kept);
        result
    }

    /// Memory accounting of a structure; `name` appears in errors.
    pub fn structure(&self, name: &'static str) -> Structure<'_> {
        Structure::new(self.memory(), name)
    }

    /// Returns an error once the transaction is interrupted. For work that runs long without [`Environment::spend`].
    pub fn check(&self) -> Result<()> {
        self.interrupt.as_ref().map_or(Ok(()), |interrupt| interrupt.check())
    }

    /// Takes an empty buffer; [`Environment::keep`] gives it back for reuse.
    #[inline]
    pub(crate) fn buffer(&self) -> Vec<u8> {
        let buffer = self.buffer.take();
        if buffer.capacity() == 0 { Vec::with_capacity(BUFFER_BYTES) } else { buffer }
    }

    /// Gives a buffer back.
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

    /// State of the random numbers, for [`Environment::rewind`].
    pub(crate) fn mark(&self) -> u64 {
        self.random.get()
    }

    /// Restores the state of the random numbers, so that every copy of a replicated table gets the same values.
    pub(crate) fn rewind(&self, mark: u64) {
        self.random.set(mark);
    }

    /// A random number in [0, 1).
    pub fn random_float(&self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "53 bits fit a float")]
        let mantissa = (self.random() >> 11) as f64;
        mantissa / (1_u64 << 53) as f64
    }

    /// A random UUID (version 4).
    pub fn random_uuid(&self) -> [u8; UUID_BYTES] {
        random_uuid(u128::from(self.random()) << 64 | u128::from(self.random()))
    }

    /// Takes steps off the budget, one for each row that is read or written. Ends the row before.
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
