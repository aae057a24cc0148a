//! Parallel work on several partitions that the caller holds.

use std::panic::resume_unwind;
use std::thread;

use parking_lot::Mutex;

/// Runs `first` on this thread, and in parallel `other` with each of the items, on as many threads as there are cores.
/// Returns the results in the order of the items; scheduling does not affect them.
///
/// If no thread can be started, everything runs on this one: logged work must not fail in replay.
pub fn beside<A, I: Send, T: Send>(
    first: impl FnOnce() -> A,
    items: Vec<I>,
    other: impl Fn(I) -> T + Sync,
) -> (A, Vec<T>) {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let threads = items.len().min(cores - 1);
    let (items, results) = (Mutex::new(items.into_iter().enumerate()), Mutex::new(Vec::new()));
    let work = || {
        loop {
            let next = items.lock().next();
            let Some((number, item)) = next else { break };
            let result = other(item);
            results.lock().push((number, result));
        }
    };
    let first = thread::scope(|scope| {
        let spawned = || thread::Builder::new().name("share".into()).spawn_scoped(scope, work);
        let threads: Vec<_> = (0..threads).map_while(|_| spawned().ok()).collect();
        let first = first();
        work();
        for thread in threads {
            if let Err(panic) = thread.join() {
                resume_unwind(panic);
            }
        }
        first
    });
    let mut results = results.into_inner();
    results.sort_unstable_by_key(|(number, _)| *number);
    (first, results.into_iter().map(|(_, result)| result).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::caught;

    #[test]
    fn results_are_in_the_order_of_the_items() {
        let (first, others) = beside(|| "first", (0..100).collect(), |item| item * 2);
        assert_eq!((first, others), ("first", (0..100).map(|item| item * 2).collect()));
    }

    #[test]
    fn a_panic_comes_to_the_caller() {
        let panics = || beside(|| (), vec![1, 2], |item| assert_ne!(item, 2, "of {item}"));
        assert!(caught("it", panics).unwrap_err().to_string().contains("of 2"));
    }
}
