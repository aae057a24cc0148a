//! Reads side by side, by a thread that waits for all of them.

use std::sync::mpsc;
use std::thread;

use parking_lot::Mutex;
use thermocline_tables::table::{ReadRow, RowReader};
use thermocline_types::{Error, Result};

/// Does reads in as many threads at once, of which the caller's is one, and returns what each has read, in their order.
pub(super) fn read_together<R: Send, T: Send>(
    reads: impl ExactSizeIterator<Item = R> + Send,
    at_once: usize,
    read: impl Fn(R) -> T + Sync,
) -> Vec<T> {
    let threads = at_once.min(reads.len());
    if threads <= 1 {
        return reads.map(read).collect();
    }
    let done = Mutex::new(Vec::with_capacity(reads.len()));
    let rest = Mutex::new(reads.enumerate());
    let work = || {
        loop {
            let next = rest.lock().next();
            let Some((place, one)) = next else { return };
            let result = read(one);
            done.lock().push((place, result));
        }
    };
    thread::scope(|scope| {
        for _ in 1..threads {
            // Where the system has no thread left, the others do its share.
            if thread::Builder::new().name("reads".to_owned()).spawn_scoped(scope, work).is_err() {
                break;
            }
        }
        work();
    });
    let mut done = done.into_inner();
    done.sort_unstable_by_key(|(place, _)| *place);
    done.into_iter().map(|(_, result)| result).collect()
}

/// Reads rows: those that the disk reads by itself all at once, the others in threads.
pub(super) fn read_rows(reads: Vec<RowReader>, at_once: usize) -> Vec<Result<ReadRow>> {
    if !reads.iter().any(|read| read.is_asynchronous()) {
        return read_together(reads.into_iter(), at_once, |read: RowReader| read.read());
    }
    let mut rows: Vec<Option<Result<ReadRow>>> = reads.iter().map(|_| None).collect();
    let (sender, read) = mpsc::channel();
    for (place, reader) in reads.into_iter().enumerate() {
        let sender = sender.clone();
        reader.start(Box::new(move |row| {
            // The receiver waits until the last of these is gone.
            let _received = sender.send((place, row));
        }));
    }
    drop(sender);
    for (place, row) in read {
        if let Some(slot) = rows.get_mut(place) {
            *slot = Some(row);
        }
    }
    let missing = || Err(Error::Io("the thread that reads blocks has ended".into()));
    rows.into_iter().map(|row| row.unwrap_or_else(missing)).collect()
}
