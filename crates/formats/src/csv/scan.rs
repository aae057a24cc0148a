//! Where fields and records end, quotes honoured.
//!
//! [`Scanner`] is one state machine in two speeds: [`Scanner::step`] takes a
//! byte, [`Scanner::scan_block`] takes 64. The fast one works on bitmaps and
//! falls back to the slow one for blocks whose quotes are not where a
//! well-formed file has them (a quote in the middle of an unquoted field, text
//! after a closing quote) and, in a dialect with an escape byte, for every
//! block with quotes or within a quoted field, so both agree on every input.
//!
//! ```text
//!             quote              quote                 other
//! FieldStart ───────► Quoted ◄────────────► QuoteEnd ───────► Broken
//!   ▲   │ other         │  ▲ any             │  │ \r            ▲
//!   │   ▼               ▼  │ (escape)        │  ▼               │ other
//!   │ Unquoted        Escaped                │ QuoteEndCr ──────┘
//!   │   │ delimiter, \n                      │  │ \n
//!   └───┴────────────────────────────────────┴──┘
//! ```

use super::mask::{BLOCK_BYTES, Block, prefix_xor};
use super::options::Dialect;

/// State after the bytes so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum State {
    /// A field starts.
    FieldStart,
    /// Within an unquoted field.
    Unquoted,
    /// Within a quoted field.
    Quoted,
    /// After the escape byte of a quoted field.
    Escaped,
    /// After a quote in a quoted field: it closed the field, or is the first
    /// half of a doubled quote.
    QuoteEnd,
    /// After a closing quote and `\r`.
    QuoteEndCr,
    /// After text behind a closing quote; nothing more is recognised.
    Broken,
}

/// Bytes that end a field, outside quotes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Masks {
    pub(super) delimiters: u64,
    pub(super) newlines: u64,
}

/// Meaning of one byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Data,
    Delimiter,
    Newline,
}

/// Finds field and record ends in bytes given in order.
#[derive(Debug, Clone)]
pub(super) struct Scanner {
    dialect: Dialect,
    state: State,
    /// Offset of the next byte.
    offset: u64,
    /// Offset of the last quote that opened a field.
    opened: u64,
    /// Offset of the first byte after a closing quote that may not be there.
    broken: Option<u64>,
}

impl Scanner {
    /// A scanner at a record start; offsets count from `offset`.
    pub(super) fn new(dialect: Dialect, offset: u64) -> Self {
        Self { dialect, state: State::FieldStart, offset, opened: offset, broken: None }
    }

    /// Forgets everything but the dialect: the next byte starts a record and
    /// has offset 0.
    pub(super) fn restart(&mut self) {
        *self = Self::new(self.dialect, 0);
    }

    /// Offset of the next byte.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// Offset of the text after a closing quote, if there was any.
    pub(super) fn broken(&self) -> Option<u64> {
        self.broken
    }

    /// Offset of the quote that opened the field which is still open.
    pub(super) fn unclosed(&self) -> Option<u64> {
        matches!(self.state, State::Quoted | State::Escaped).then_some(self.opened)
    }

    /// Takes one byte.
    #[inline]
    pub(super) fn step(&mut self, byte: u8) -> Step {
        let Dialect { delimiter, quote, escape } = self.dialect;
        let is_quote = Some(byte) == quote;
        let mut step = Step::Data;
        if byte == delimiter {
            step = Step::Delimiter;
        } else if byte == b'\n' {
            step = Step::Newline;
        }
        let offset = self.offset;
        self.offset += 1;
        self.state = match self.state {
            State::FieldStart if is_quote => {
                self.opened = offset;
                State::Quoted
            }
            State::FieldStart | State::Unquoted => match step {
                Step::Data => State::Unquoted,
                Step::Delimiter | Step::Newline => State::FieldStart,
            },
            State::Quoted => {
                step = Step::Data;
                if Some(byte) == escape {
                    State::Escaped
                } else if is_quote {
                    State::QuoteEnd
                } else {
                    State::Quoted
                }
            }
            State::Escaped => {
                step = Step::Data;
                State::Quoted
            }
            State::QuoteEnd if step != Step::Data => State::FieldStart,
            State::QuoteEnd if is_quote && escape.is_none() => State::Quoted,
            State::QuoteEnd if byte == b'\r' => State::QuoteEndCr,
            State::QuoteEnd => {
                self.broken = Some(offset);
                State::Broken
            }
            State::QuoteEndCr if step == Step::Newline => State::FieldStart,
            State::QuoteEndCr => {
                self.broken = Some(offset - 1);
                step = Step::Data;
                State::Broken
            }
            State::Broken => {
                step = Step::Data;
                State::Broken
            }
        };
        step
    }

    /// Takes 64 bytes.
    #[inline(always)]
    pub(super) fn scan_block<B: Block>(&mut self, bytes: &[u8; BLOCK_BYTES]) -> Masks {
        let block = B::load(bytes);
        let quotes = match self.dialect.quote {
            Some(quote) => block.eq(quote),
            None => 0,
        };
        if quotes != 0 || self.state > State::Unquoted {
            return match self.scan_well_formed(&block, quotes) {
                Some(masks) => masks,
                None => self.scan_partial(bytes),
            };
        }
        let [.., last] = *bytes;
        self.state = if last == self.dialect.delimiter || last == b'\n' { State::FieldStart } else { State::Unquoted };
        self.offset += BLOCK_BYTES as u64;
        Masks { delimiters: block.eq(self.dialect.delimiter), newlines: block.eq(b'\n') }
    }

    /// Takes at most 64 bytes.
    #[inline(never)]
    pub(super) fn scan_partial(&mut self, bytes: &[u8]) -> Masks {
        let mut masks = Masks::default();
        for (i, &byte) in bytes.iter().enumerate() {
            match self.step(byte) {
                Step::Data => {}
                Step::Delimiter => masks.delimiters |= 1 << i,
                Step::Newline => masks.newlines |= 1 << i,
            }
        }
        masks
    }

    /// Takes a block in which every quote opens or closes a quoted field or is
    /// half of a doubled quote. Returns `None`, nothing taken, for any other.
    ///
    /// Parity tells inside from outside only if quotes of unquoted fields do
    /// not take part; that holds when every quote that makes the parity odd
    /// follows a field end or a closing quote (then the two are one doubled
    /// quote).
    #[inline(always)]
    fn scan_well_formed<B: Block>(&mut self, block: &B, quotes: u64) -> Option<Masks> {
        const LAST: u64 = 1 << 63;
        if self.dialect.escape.is_some() || self.state > State::QuoteEnd {
            return None;
        }
        let carried_inside = if self.state == State::Quoted { u64::MAX } else { 0 };
        let carried_start = u64::from(self.state == State::FieldStart);
        let carried_close = u64::from(self.state == State::QuoteEnd);

        let inside = prefix_xor(quotes) ^ carried_inside;
        let opening = quotes & inside;
        let closing = quotes & !inside;
        let masks =
            Masks { delimiters: block.eq(self.dialect.delimiter) & !inside, newlines: block.eq(b'\n') & !inside };
        let ends = masks.delimiters | masks.newlines;

        let after_closing = (closing << 1) | carried_close;
        let after_end = (ends << 1) | carried_start;
        if opening & !(after_end | after_closing) != 0 {
            return None;
        }
        let mut unexplained = after_closing & !(ends | opening);
        if unexplained != 0 {
            let returns = unexplained & block.eq(b'\r');
            // A `\r` in the last byte needs the next block: left to `step`.
            unexplained &= !returns;
            if unexplained != 0 || returns & LAST != 0 || (returns << 1) & !masks.newlines != 0 {
                return None;
            }
        }

        let opening_fields = opening & !after_closing;
        if opening_fields != 0 {
            self.opened = self.offset + u64::from(opening_fields.ilog2());
        }
        self.state = if inside & LAST != 0 {
            State::Quoted
        } else if closing & LAST != 0 {
            State::QuoteEnd
        } else if ends & LAST != 0 {
            State::FieldStart
        } else {
            State::Unquoted
        };
        self.offset += BLOCK_BYTES as u64;
        Some(masks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::csv::mask::{Kernel, dispatch};
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    struct ScanBlock<'a>(&'a mut Scanner, &'a [u8; 64]);

    impl Kernel for ScanBlock<'_> {
        type Output = Masks;

        #[inline(always)]
        fn run<B: Block>(self) -> Masks {
            self.0.scan_block::<B>(self.1)
        }
    }

    fn dialects() -> [Dialect; 3] {
        let dialect = |quote, escape| Dialect { delimiter: b',', quote, escape };
        [dialect(Some(b'"'), None), dialect(Some(b'"'), Some(b'\\')), dialect(None, None)]
    }

    #[test]
    fn blocks_agree_with_steps() {
        const SEED: u64 = 7;
        println!("seed {SEED}");
        let mut rng = StdRng::seed_from_u64(SEED);
        let pieces: [&[u8]; 12] = [
            b"a",
            b",",
            b"\n",
            b"\"",
            b"\"a\"",
            b"\"\"",
            b"\r\n",
            b"\r",
            b"\\",
            b"abcdefgh",
            b",\"x,y\",",
            b"\"p\"\"q\"\r\n",
        ];
        for round in 0..20_000 {
            let dialect = dialects()[round % 3];
            // Few kinds of pieces per round, so that well-formed stretches occur.
            let kinds: Vec<_> = (0..4).map(|_| pieces[rng.random_range(0..12)]).collect();
            let mut bytes = Vec::new();
            while bytes.len() < 256 {
                bytes.extend_from_slice(kinds[rng.random_range(0..4)]);
            }
            let mut fast = Scanner::new(dialect, 0);
            let mut slow = Scanner::new(dialect, 0);
            for block in bytes.as_chunks().0 {
                assert_eq!(dispatch(ScanBlock(&mut fast, block)), slow.scan_partial(block));
                assert_eq!(fast.state, slow.state, "{:?}", String::from_utf8_lossy(&bytes));
                assert_eq!(fast.offset, slow.offset);
                assert_eq!(fast.broken, slow.broken);
                assert_eq!(fast.unclosed(), slow.unclosed());
            }
        }
    }
}
