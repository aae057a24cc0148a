//! Spans of an index, for access to several keys and ranges.

use std::ops::Range;

use thermocline_tables::key::successor;
use thermocline_tables::table::{OfLookUps, Structure};
use thermocline_types::Result;

use super::access::KeyRange;
use super::key::{Edge, push_value, range_bounds};
use crate::expression::Frame;

/// Ascending spans of an index: each from a key, inclusive, to another key, exclusive. [`Spans::merged`] makes them
/// disjoint. For a hash index, which has no key order, each key begins a span.
pub(super) struct Spans<'m> {
    /// Concatenated keys.
    bytes: Vec<u8>,
    spans: OfLookUps<Span>,
    /// Memory accounting of the spans.
    memory: Structure<'m>,
}

/// Places of the ends of a span in the bytes.
#[derive(Debug, Clone)]
struct Span {
    from: Range<usize>,
    /// `None` if it has no end.
    to: Option<Range<usize>>,
}

impl<'m> Spans<'m> {
    /// The spans of these ranges, with values evaluated in the frame.
    pub fn of(ranges: &[KeyRange], frame: &Frame<'m>) -> Result<Self> {
        let memory = frame.environment.structure("keys to look up");
        let mut spans = Self { bytes: Vec::with_capacity(32 * ranges.len()), spans: OfLookUps::new(), memory };
        for range in ranges {
            frame.environment.spend(range.keys() as u64)?;
            spans.add(range, frame)?;
        }
        let Self { bytes, spans: unsorted, .. } = &mut spans;
        unsorted.sort_unstable_by(|one, other| bytes.get(one.from.clone()).cmp(&bytes.get(other.from.clone())));
        Ok(spans)
    }

    /// Merges spans that touch or overlap.
    #[must_use]
    pub fn merged(mut self) -> Self {
        let bytes = &self.bytes;
        let at = |place: &Range<usize>| bytes.get(place.clone()).unwrap_or_default();
        self.spans.dedup_by(|next, last| {
            let Some(end) = &last.to else { return true };
            if at(&next.from) > at(end) {
                return false;
            }
            if next.to.as_ref().is_none_or(|to| at(to) > at(end)) {
                last.to.clone_from(&next.to);
            }
            true
        });
        self
    }

    /// Adds the spans of all combinations of values of the parts.
    fn add(&mut self, range: &KeyRange, frame: &Frame<'_>) -> Result<()> {
        let (mut low, mut high) = (Vec::new(), Vec::new());
        let Some(edges) = range_bounds(range.bounds.as_ref(), &mut low, &mut high, frame)? else { return Ok(()) };
        // The values of all parts, each encoded once.
        let mut encoded = Vec::new();
        let mut parts = Vec::with_capacity(range.parts.len());
        for part in &range.parts {
            let mut values = OfLookUps::<Range<usize>>::new();
            for value in &part.values {
                let before = encoded.len();
                if push_value(&mut encoded, part.column, value, frame)? {
                    values.push(before..encoded.len());
                }
            }
            if values.is_empty() {
                return Ok(());
            }
            parts.push(values);
        }
        let mut prefix = Vec::with_capacity(32);
        let combinations: usize = parts.iter().map(|values| values.len()).product();
        // Each value is in as many keys as there are combinations of the other parts.
        let of_values: usize = parts
            .iter()
            .map(|values| {
                let bytes: usize = values.iter().map(|place| place.len()).sum();
                bytes * (combinations / values.len().max(1))
            })
            .sum();
        let bytes = 2 * of_values + combinations * (low.len() + high.len());
        self.memory.grow(bytes + combinations * (size_of::<Span>() + size_of::<&[u8]>()) + encoded.len())?;
        self.bytes.reserve(bytes);
        self.spans.reserve(combinations);
        for number in 0..combinations {
            prefix.clear();
            // The combination's number in mixed radix, with one digit for each part.
            let mut rest = number;
            for values in &parts {
                let value = values.get(rest % values.len()).and_then(|place| encoded.get(place.clone()));
                prefix.extend_from_slice(value.unwrap_or_default());
                rest /= values.len();
            }
            self.push(&prefix, (edges.0, &low), (edges.1, &high));
        }
        Ok(())
    }

    /// Adds the span of keys that begin with a prefix and continue between these edges.
    fn push(&mut self, prefix: &[u8], low: (Edge, &[u8]), high: (Edge, &[u8])) {
        let mut end = |(edge, limit): (Edge, &[u8]), behind: Edge| {
            let start = self.bytes.len();
            self.bytes.extend_from_slice(prefix);
            self.bytes.extend_from_slice(limit);
            if edge == behind {
                // The end lies behind all keys that begin with these bytes.
                let mut key = self.bytes.split_off(start);
                let found = successor(&mut key);
                self.bytes.extend_from_slice(&key);
                return found.then_some(start..self.bytes.len());
            }
            Some(start..self.bytes.len())
        };
        let Some(from) = end(low, Edge::Without) else { return };
        let to = end(high, Edge::Within);
        let at = |place: &Range<usize>| self.bytes.get(place.clone());
        if to.as_ref().is_none_or(|to| at(&from) < at(to)) {
            self.spans.push(Span { from, to });
        }
    }

    /// Number of spans.
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// A span: its first key, inclusive, and its end, exclusive; `None` if it has no end.
    pub fn get(&self, place: usize) -> (&[u8], Option<&[u8]>) {
        let at = |place: &Range<usize>| self.bytes.get(place.clone()).unwrap_or_default();
        self.spans.get(place).map_or((&[], None), |span| (at(&span.from), span.to.as_ref().map(at)))
    }

    /// The first keys of the spans, without duplicates.
    pub fn keys(&self) -> OfLookUps<&[u8]> {
        let mut keys: OfLookUps<&[u8]> = (0..self.len()).map(|place| self.get(place).0).collect();
        keys.dedup();
        keys
    }
}
