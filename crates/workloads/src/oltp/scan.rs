//! Reading of a whole table while clients run.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use thermocline_transactions::database::{RowEngine, TableReader};
use thermocline_transactions::reader::{ReadRequest, ReadStep, RowSink};
use thermocline_transactions::table::Row;
use thermocline_transactions::types::ValueRef;
use thermocline_transactions::{Error, Result};

/// Tuple ids that a partition visits in one step, between two transactions.
const STEP_IDS: u32 = 1024;
/// Pause of a reader before it asks a partition with a full queue again.
const BUSY_PAUSE: Duration = Duration::from_micros(200);

/// Aggregates of a table as of one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Scan {
    /// Number of rows.
    pub rows: u64,
    /// Sum of the first column, an integer, modulo 2^64.
    pub sum: i64,
    /// From the request to the last row.
    pub took: Duration,
}

struct Sum {
    total: Arc<Mutex<Scan>>,
    of_partition: Scan,
}

impl RowSink for Sum {
    fn row(&mut self, row: Row<'_>) -> Result<()> {
        self.of_partition.rows += 1;
        if let ValueRef::Int(value) = row.value(0) {
            self.of_partition.sum = self.of_partition.sum.wrapping_add(value);
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        let mut total = self.total.lock().unwrap_or_else(PoisonError::into_inner);
        total.rows += self.of_partition.rows;
        total.sum = total.sum.wrapping_add(self.of_partition.sum);
        Ok(())
    }
}

/// Reads a table as of one moment; `None` if `stop` became true meanwhile.
///
/// # Errors
/// If the table does not exist, or a row cannot be read.
pub fn scan(database: &RowEngine, table: &str, stop: &AtomicBool) -> Result<Option<Scan>> {
    let begin = Instant::now();
    let schema = database.schema();
    let total = Arc::new(Mutex::new(Scan::default()));
    let of_sinks = Arc::clone(&total);
    let sink =
        move |_| Box::new(Sum { total: Arc::clone(&of_sinks), of_partition: Scan::default() }) as Box<dyn RowSink>;
    let request = ReadRequest { table: Arc::clone(schema.table(table)?), sink: Box::new(sink) };
    for reader in database.session().read_tables(vec![request])?.iter_mut().flatten() {
        if !read_all(reader, stop)? {
            return Ok(None);
        }
    }
    let total = *total.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(Some(Scan { took: begin.elapsed(), ..total }))
}

/// Reads to the end; false if `stop` became true.
fn read_all(reader: &mut TableReader, stop: &AtomicBool) -> Result<bool> {
    loop {
        match reader.step(STEP_IDS)? {
            ReadStep::Done => return Ok(true),
            _ if stop.load(Ordering::Relaxed) => return Ok(false),
            ReadStep::Busy => std::thread::sleep(BUSY_PAUSE),
            ReadStep::More => {}
        }
    }
}

/// Stops scans when it is dropped, also by a panic.
struct Stop<'s>(&'s AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Reads a table again and again while `work` runs, and returns what was read to its end. The first scan is, even if
/// `work` ends before it.
///
/// # Errors
/// Those of `work`, and of [`scan`].
pub fn scanning<T>(database: &RowEngine, table: &str, work: impl FnOnce() -> Result<T>) -> Result<(T, Vec<Scan>)> {
    let (stop, never) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let scans = scope.spawn(|| {
            let mut scans = Vec::new();
            scans.extend(scan(database, table, &never)?);
            while !stop.load(Ordering::Relaxed) {
                scans.extend(scan(database, table, &stop)?);
            }
            Ok(scans)
        });
        let stopped = Stop(&stop);
        let done = work();
        drop(stopped);
        let scans = scans.join().unwrap_or_else(|_| Err(Error::internal("a scan has panicked")))?;
        Ok((done?, scans))
    })
}
