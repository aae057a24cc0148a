//! Stored bytes as they are, a bounded read at a time.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow_flight::FlightData;
use bytes::Bytes;
use futures::StreamExt;
use thermocline_formats::RangeSource;
use thermocline_pushdown::wire::{ErrorKind, RANGES_MAX, RangesRequest};
use thermocline_pushdown::{NodeError, PushbackToken};

use super::StorageNode;
use super::arbitrator::Transfer;
use super::reader::{Deadline, Reader};
use super::storage_node::{Answer, required};
use crate::source::{RootSource, check_ranges, coalesced_bytes};

/// Largest read: so much is in memory before its first byte is sent.
const READ_BYTES_MAX: u64 = 16 << 20;
/// Smallest read while memory is short.
pub(super) const READ_BYTES_MIN: u64 = 64 << 10;
/// Ranges of one read.
const READ_RANGES_MAX: usize = 1024;

impl StorageNode {
    /// The bytes of the ranges. Nothing is allocated on their word: what is read at once is bounded,
    /// gaps included, and charged until it is handed over.
    pub(super) fn raw(self: &Arc<Self>, request: RangesRequest, reader: &Reader) -> Result<Answer, NodeError> {
        let object = required(request.object, "object")?;
        let refused = |why: String| NodeError::new(ErrorKind::Refused, format!("{}: {why}", object.path));
        if request.starts.len() != request.ends.len() {
            return Err(refused("a range has a start or an end only".to_owned()));
        }
        if request.starts.len() > RANGES_MAX {
            return Err(refused(format!("{} ranges are more than {RANGES_MAX}", request.starts.len())));
        }
        let ranges: VecDeque<_> = request.starts.into_iter().zip(request.ends).map(|(start, end)| start..end).collect();
        check_ranges(&object, ranges.iter())?;
        let sending = Sending {
            ranges,
            source: RootSource::new(self.root.clone(), object),
            messages: VecDeque::new(),
            gap_bytes: 0,
            deadline: self.deadline(request.origin.as_ref(), reader),
            transfer: self.arbitrator.transfer(PushbackToken::new(request.pushback_token)),
            node: Arc::clone(self),
        };
        let messages = futures::stream::unfold(Some(sending), |sending| async move {
            let mut sending = sending?;
            sending.transfer.works();
            match sending.next().await {
                Ok(Some(body)) => {
                    sending.transfer.sent(body.len());
                    Some((Ok(FlightData { data_body: body, ..FlightData::default() }), Some(sending)))
                }
                Ok(None) => {
                    sending.transfer.complete();
                    sending.node.counters().range_requests.fetch_add(1, Ordering::Relaxed);
                    None
                }
                Err(error) => Some((Err(error), None)),
            }
        });
        Ok(messages.boxed())
    }
}

struct Sending {
    /// Ranges that are still to be read.
    ranges: VecDeque<Range<u64>>,
    source: RootSource,
    /// Bytes that were read and are still to be sent.
    messages: VecDeque<Bytes>,
    /// Bytes that were read between the wanted ones: they are there as long as these.
    gap_bytes: u64,
    deadline: Deadline,
    transfer: Transfer,
    node: Arc<StorageNode>,
}

impl Sending {
    async fn next(&mut self) -> Result<Option<Bytes>, NodeError> {
        loop {
            if let Some(body) = self.messages.pop_front() {
                return Ok(Some(body));
            }
            let account = self.deadline.reader().account().clone();
            account.give_back(std::mem::take(&mut self.gap_bytes) as usize);
            let gap = self.source.gap_bytes();
            let mut read = next_read(&mut self.ranges, READ_BYTES_MAX, gap);
            if read.is_empty() {
                return Ok(None);
            }
            let mut bytes = coalesced_bytes(&read, gap);
            let least = bytes.min(READ_BYTES_MIN);
            let taken = self.deadline.before(account.take_some(least as usize, bytes as usize)).await? as u64;
            if taken < bytes {
                put_back(&mut self.ranges, read);
                read = next_read(&mut self.ranges, taken, gap);
                bytes = coalesced_bytes(&read, gap);
                account.give_back(taken.saturating_sub(bytes) as usize);
            }
            let wanted: u64 = read.iter().map(|range| range.end - range.start).sum();
            self.gap_bytes = bytes.saturating_sub(wanted);
            let message_bytes = self.node.config.message_bytes.max(1);
            let found = self.deadline.before(self.source.read(&read)).await??;
            self.messages = found.into_iter().flat_map(|bytes| pieces(bytes, message_bytes)).collect();
        }
    }
}

/// Takes the next ranges to read together: at most `bytes_max` bytes with the gaps up to `gap` that are read with
/// them, the last one cut if need be. Empty at the end.
fn next_read(ranges: &mut VecDeque<Range<u64>>, bytes_max: u64, gap: u64) -> Vec<Range<u64>> {
    let mut read = vec![];
    let mut bytes = 0;
    while let Some(range) = ranges.front_mut() {
        if !range.is_empty() && (bytes >= bytes_max || read.len() >= READ_RANGES_MAX) {
            break;
        }
        let end = range.end.min(range.start.saturating_add(bytes_max - bytes));
        if !range.is_empty() {
            bytes += end - range.start;
            read.push(range.start..end);
            range.start = end;
        }
        if range.is_empty() {
            ranges.pop_front();
        }
    }
    while read.len() > 1 && coalesced_bytes(&read, gap) > bytes_max {
        put_back(ranges, read.split_off(read.len() / 2));
    }
    read
}

/// The opposite of [`next_read`].
fn put_back(ranges: &mut VecDeque<Range<u64>>, read: Vec<Range<u64>>) {
    for range in read.into_iter().rev() {
        match ranges.front_mut() {
            Some(first) if first.start == range.end => first.start = range.start,
            _ => ranges.push_front(range),
        }
    }
}

fn pieces(bytes: Bytes, length: usize) -> impl Iterator<Item = Bytes> {
    (0..bytes.len()).step_by(length).map(move |start| bytes.slice(start..bytes.len().min(start.saturating_add(length))))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GAP: u64 = 256 << 10;

    /// All reads, each checked against its bound.
    fn reads(ranges: &[Range<u64>], bytes_max: u64) -> Vec<Vec<Range<u64>>> {
        let mut left: VecDeque<_> = ranges.iter().cloned().collect();
        let reads: Vec<_> = std::iter::from_fn(|| {
            let read = next_read(&mut left, bytes_max, GAP);
            (!read.is_empty()).then_some(read)
        })
        .take(10_000)
        .collect();
        for read in &reads {
            assert!(coalesced_bytes(read, GAP) <= bytes_max, "{read:?}");
        }
        reads
    }

    #[test]
    fn reads_are_bounded_with_their_gaps() {
        // One that has no end, of which only the beginning is ever looked at.
        let mut endless: VecDeque<_> = std::iter::once(0..u64::MAX).collect();
        let read = next_read(&mut endless, 100, GAP);
        assert_eq!((read.first(), endless.front()), (Some(&(0..100)), Some(&(100..u64::MAX))));

        // A byte in every 200 KiB is read with all between.
        let sparse: Vec<_> = (0..1000_u64).map(|n| n * (200 << 10)..n * (200 << 10) + 1).collect();
        let made = reads(&sparse, 1 << 20);
        assert_eq!(made.concat(), sparse);
        assert!(made.len() < 1000, "some are read together");
        // In any order, and the same ones again.
        let mut shuffled: Vec<_> = sparse.iter().cloned().cycle().take(3000).collect();
        shuffled.reverse();
        assert_eq!(reads(&shuffled, 1 << 20).concat(), shuffled);

        assert_eq!(reads(&[5..5, 7..7], 10).len(), 0);
        assert_eq!(reads(&[0..25, 30..31], 10).concat(), [0..10, 10..20, 20..25, 30..31]);
    }

    #[test]
    fn what_is_put_back_comes_again() {
        let mut ranges = VecDeque::from([0..100, 1000..1001]);
        let read = next_read(&mut ranges, 60, GAP);
        put_back(&mut ranges, read);
        assert_eq!(ranges, [0..100, 1000..1001]);
    }
}
