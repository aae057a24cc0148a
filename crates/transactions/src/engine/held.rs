use std::collections::VecDeque;

use crate::error::Error;
use crate::ids::Sequence;

/// Results that wait until the log is durable up to a sequence, in the order of their sequences.
///
/// Invariant: sequences never descend; what is taken out was durable.
#[derive(Debug)]
pub struct Held<R> {
    waiting: VecDeque<(Sequence, Vec<R>)>,
}

impl<R> Default for Held<R> {
    fn default() -> Self {
        Self { waiting: VecDeque::new() }
    }
}

impl<R> Held<R> {
    /// Results that may be told once the log is durable up to here.
    pub fn push(&mut self, sequence: Sequence, results: Vec<R>) {
        debug_assert!(self.waiting.back().is_none_or(|(last, _)| *last <= sequence), "sequences ascend");
        self.waiting.push_back((sequence, results));
    }

    /// Takes what may be told now.
    pub fn release(&mut self, released: Sequence) -> Vec<R> {
        let mut out = Vec::new();
        while let Some((sequence, _)) = self.waiting.front()
            && *sequence <= released
            && let Some((_, results)) = self.waiting.pop_front()
        {
            if out.is_empty() {
                out = results;
            } else {
                out.extend(results);
            }
        }
        out
    }

    /// The log has failed: takes everything, each made an error by the caller, because nobody knows
    /// whether it will be there after a restart.
    pub fn fail(&mut self, mut failed: impl FnMut(R, &Error) -> R, error: &Error) -> Vec<R> {
        self.waiting.drain(..).flat_map(|(_, results)| results).map(|result| failed(result, error)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_told_before_it_is_durable() {
        let mut held = Held::default();
        held.push(Sequence(3), vec![1, 2]);
        held.push(Sequence(3), vec![3]);
        held.push(Sequence(5), vec![4]);
        assert_eq!(held.release(Sequence(2)), [0; 0]);
        assert_eq!(held.release(Sequence(4)), [1, 2, 3]);
        assert_eq!(held.fail(|result, _| -result, &Error::Io("x".into())), [-4]);
        assert_eq!(held.release(Sequence(9)), [0; 0]);
    }
}
