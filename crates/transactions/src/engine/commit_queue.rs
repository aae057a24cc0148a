//! One partition's results, in the order of the log records that they wait for.

use std::collections::VecDeque;

use thermocline_machine::ids::Sequence;

/// Results that wait until the log is durable up to a sequence, in order of these sequences.
///
/// Invariant: sequences never descend; removed results were durable, or the log has failed.
#[derive(Debug)]
pub struct CommitQueue<R> {
    waiting: VecDeque<(Sequence, R)>,
}

impl<R> Default for CommitQueue<R> {
    fn default() -> Self {
        Self { waiting: VecDeque::new() }
    }
}

impl<R> CommitQueue<R> {
    /// Adds results that may be told once the log is durable up to this sequence.
    pub fn push(&mut self, sequence: Sequence, results: R) {
        debug_assert!(self.waiting.back().is_none_or(|(last, _)| *last <= sequence), "sequences ascend");
        self.waiting.push_back((sequence, results));
    }

    /// Takes the first results that may be told now.
    pub fn release(&mut self, released: Sequence) -> Option<R> {
        self.waiting.pop_front_if(|(sequence, _)| *sequence <= released).map(|(_, results)| results)
    }

    /// Takes the first results after the log has failed; whether they will survive a restart is unknown.
    pub fn fail(&mut self) -> Option<R> {
        self.waiting.pop_front().map(|(_, results)| results)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_told_before_it_is_durable() {
        let mut held = CommitQueue::default();
        for (sequence, result) in [(3, 1), (3, 2), (5, 3)] {
            held.push(Sequence(sequence), result);
        }
        assert_eq!(held.release(Sequence(2)), None);
        let mut told = || held.release(Sequence(4));
        assert_eq!((told(), told(), told()), (Some(1), Some(2), None));
        assert_eq!((held.fail(), held.fail(), held.release(Sequence(9))), (Some(3), None, None));
    }
}
