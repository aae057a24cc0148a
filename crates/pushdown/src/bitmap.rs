//! Selection bitmaps: which rows of a partition a predicate selects (Enhancing Computation Pushdown
//! section 4.2).

use datafusion::arrow::array::{Array, BooleanArray, BooleanBufferBuilder};
use datafusion::arrow::buffer::BooleanBuffer;

/// Largest number of rows that an encoded bitmap may claim: a few bytes can stand for any number of
/// equal bits, so what they unfold to needs a bound of its own (512 MiB).
pub const BITMAP_ROWS_MAX: u64 = 1 << 32;

const FORM_BYTES: usize = 1;
const ROWS_BYTES: usize = 8;
const HEADER_BYTES: usize = FORM_BYTES + ROWS_BYTES;

const FORM_PLAIN: u8 = 0;
const FORM_RUNS: u8 = 1;

/// Why bytes are not a bitmap of the expected rows.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BitmapError {
    /// It ends within its header, or within a run.
    #[error("a selection bitmap of {bytes} bytes is cut short")]
    Truncated {
        /// Bytes that there are.
        bytes: usize,
    },
    /// The first byte is neither form.
    #[error("a selection bitmap has the unknown form {0}")]
    UnknownForm(u8),
    /// It claims more rows than any partition has.
    #[error("a selection bitmap of {rows} rows passes the limit of {BITMAP_ROWS_MAX}")]
    TooManyRows {
        /// Rows that it claims.
        rows: u64,
    },
    /// It is about another number of rows.
    #[error("a selection bitmap is of {found} rows, {expected} were expected")]
    WrongLength {
        /// Rows of the partition.
        expected: u64,
        /// Rows that it claims.
        found: u64,
    },
    /// Its bits or runs do not add up to its rows.
    #[error("a selection bitmap of {rows} rows has {what}")]
    Inconsistent {
        /// Rows that it claims.
        rows: u64,
        /// The defect.
        what: &'static str,
    },
}

/// One bit per row of a partition, in storage order; set where the row is selected.
///
/// A bit is set if the predicate is definitely TRUE. Neither FALSE nor NULL selects a row, so for
/// the parts of a predicate joined by AND or OR, the bitmaps of the parts combine bitwise to the
/// bitmap of the whole. That does not hold for NOT, which is therefore never split.
///
/// ```text
///   0      1                  9
///  +------+------------------+--------------------------------------------------------------+
///  | form | rows, u64, LE    | body                                                         |
///  +------+------------------+--------------------------------------------------------------+
///    0     plain: row i is bit i % 8 of byte i / 8; the bits after the last row are 0
///    1     runs: LEB128 lengths of runs of clear and set bits in turn, clear first; only the
///          first may be 0, and the last set run ends at the last set bit
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bitmap {
    bits: BooleanBuffer,
}

impl Bitmap {
    /// A bitmap of these bits.
    pub fn new(bits: BooleanBuffer) -> Self {
        Self { bits }
    }

    /// The rows in which a predicate's `values` are TRUE.
    pub fn of_true(values: &BooleanArray) -> Self {
        let bits = match values.nulls() {
            None => values.values().clone(),
            Some(valid) => values.values() & valid.inner(),
        };
        Self { bits }
    }

    /// Rows that it is about.
    pub fn len(&self) -> usize {
        self.bits.len()
    }

    /// Whether it is about no row.
    pub fn is_empty(&self) -> bool {
        self.bits.is_empty()
    }

    /// Rows that are selected.
    pub fn count(&self) -> usize {
        self.bits.count_set_bits()
    }

    /// The bits.
    pub fn bits(&self) -> &BooleanBuffer {
        &self.bits
    }

    /// The bits of rows `offset..offset + length` as a filter.
    ///
    /// # Panics
    /// If the rows are not all in it.
    pub fn mask(&self, offset: usize, length: usize) -> BooleanArray {
        BooleanArray::new(self.bits.slice(offset, length), None)
    }

    /// Rows selected by one or the other.
    ///
    /// # Panics
    /// If they are about different numbers of rows.
    #[must_use]
    pub fn or(&self, other: &Self) -> Self {
        Self { bits: &self.bits | &other.bits }
    }

    /// The selected rows that `among` selects, which has a bit for each selected row only; `None`
    /// if it has another number of bits.
    #[must_use]
    pub fn narrowed(&self, among: &Self) -> Option<Self> {
        if among.len() != self.count() {
            return None;
        }
        let mut bits = BooleanBufferBuilder::new(self.len());
        let mut taken = 0;
        for (start, end) in self.bits.set_slices() {
            bits.append_n(start - bits.len(), false);
            bits.append_buffer(&among.bits.slice(taken, end - start));
            taken += end - start;
        }
        bits.append_n(self.len() - bits.len(), false);
        Some(Self { bits: bits.finish() })
    }

    /// One past the row that is the `count`-th selected one from row `from` on; the number of rows
    /// if there are fewer.
    pub fn end_of(&self, from: usize, count: usize) -> usize {
        self.bits.find_nth_set_bit_position(from.min(self.len()), count)
    }

    /// Bytes that the encoding takes at the most.
    pub fn encoded_bytes_max(rows: usize) -> usize {
        HEADER_BYTES + rows.div_ceil(8)
    }

    /// The bytes for the wire, in whichever form is shorter.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER_BYTES);
        bytes.push(FORM_RUNS);
        bytes.extend_from_slice(&(self.len() as u64).to_le_bytes());
        let mut last = 0;
        for (start, end) in self.bits.set_slices() {
            push_leb128(&mut bytes, (start - last) as u64);
            push_leb128(&mut bytes, (end - start) as u64);
            last = end;
            if bytes.len() >= Self::encoded_bytes_max(self.len()) {
                return self.encode_plain();
            }
        }
        bytes
    }

    fn encode_plain(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(Self::encoded_bytes_max(self.len()));
        bytes.push(FORM_PLAIN);
        bytes.extend_from_slice(&(self.len() as u64).to_le_bytes());
        let mut aligned = BooleanBufferBuilder::new(self.len());
        aligned.append_buffer(&self.bits);
        bytes.extend_from_slice(aligned.as_slice());
        bytes
    }

    /// Rows that an encoded bitmap claims to be about, before anything is made of its body.
    ///
    /// # Errors
    /// [`BitmapError::Truncated`] or [`BitmapError::TooManyRows`].
    pub fn encoded_rows(bytes: &[u8]) -> Result<u64, BitmapError> {
        let (header, _) =
            bytes.split_first_chunk::<HEADER_BYTES>().ok_or(BitmapError::Truncated { bytes: bytes.len() })?;
        let [_, rows @ ..] = *header;
        let rows = u64::from_le_bytes(rows);
        if rows > BITMAP_ROWS_MAX { Err(BitmapError::TooManyRows { rows }) } else { Ok(rows) }
    }

    /// Decodes a bitmap of `rows` rows. Nothing is allocated before the bytes are known to hold one.
    ///
    /// # Errors
    /// [`BitmapError`] of every kind: whatever the bytes are, nothing panics.
    pub fn decode(bytes: &[u8], rows: u64) -> Result<Self, BitmapError> {
        let found = Self::encoded_rows(bytes)?;
        if found != rows {
            return Err(BitmapError::WrongLength { expected: rows, found });
        }
        let length = rows as usize;
        let (header, body) = bytes.split_at(HEADER_BYTES);
        let bits = match header.first() {
            Some(&FORM_PLAIN) => {
                if body.len() != length.div_ceil(8) {
                    return Err(BitmapError::Inconsistent { rows, what: "a body of another length" });
                }
                let used_bits = length % 8;
                if used_bits != 0 && body.last().is_some_and(|last| last >> used_bits != 0) {
                    return Err(BitmapError::Inconsistent { rows, what: "bits after its last row" });
                }
                BooleanBuffer::new(body.to_vec().into(), 0, length)
            }
            Some(&FORM_RUNS) => {
                check_runs(body, rows)?;
                let mut bits = BooleanBufferBuilder::new(length);
                for (position, run) in (Runs { body, rows }).enumerate() {
                    bits.append_n(run? as usize, position % 2 == 1);
                }
                bits.append_n(length - bits.len(), false);
                bits.finish()
            }
            form => return Err(BitmapError::UnknownForm(form.copied().unwrap_or_default())),
        };
        Ok(Self { bits })
    }
}

/// Whether the runs of `body` are well formed and fit `rows`.
fn check_runs(body: &[u8], rows: u64) -> Result<(), BitmapError> {
    let mut covered: u64 = 0;
    let mut runs = 0;
    for run in (Runs { body, rows }) {
        let run = run?;
        if run == 0 && runs > 0 {
            return Err(BitmapError::Inconsistent { rows, what: "an empty run" });
        }
        runs += 1;
        covered = covered
            .checked_add(run)
            .filter(|covered| *covered <= rows)
            .ok_or(BitmapError::Inconsistent { rows, what: "longer runs" })?;
    }
    if runs % 2 == 0 { Ok(()) } else { Err(BitmapError::Inconsistent { rows, what: "a clear run at its end" }) }
}

/// LEB128 numbers, one after the other.
struct Runs<'a> {
    body: &'a [u8],
    /// Rows of the bitmap, for errors.
    rows: u64,
}

impl Iterator for Runs<'_> {
    type Item = Result<u64, BitmapError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.body.is_empty() {
            return None;
        }
        let whole = self.body.len();
        let mut value: u64 = 0;
        for shift in (0..u64::BITS).step_by(7) {
            let Some((byte, rest)) = self.body.split_first() else {
                return Some(Err(BitmapError::Truncated { bytes: HEADER_BYTES + whole }));
            };
            self.body = rest;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                break;
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Some(Ok(value));
            }
        }
        self.body = &[];
        Some(Err(BitmapError::Inconsistent { rows: self.rows, what: "a run that is no 64-bit number" }))
    }
}

fn push_leb128(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    fn bitmap(bits: &[bool]) -> Bitmap {
        Bitmap::new(BooleanBuffer::from(bits))
    }

    /// Bits in random runs, so that both forms occur, within a larger buffer, so that offsets do.
    fn random(rng: &mut StdRng) -> Bitmap {
        let rows = rng.random_range(0..3000);
        let density = rng.random_range(0.0..1.0f64);
        let run_max = *[1usize, 3, 50, 2000].get(rng.random_range(0..4usize)).unwrap();
        let offset = rng.random_range(0..20);
        let mut bits = vec![true; offset];
        while bits.len() < rows + offset {
            let value = rng.random_bool(density);
            for _ in 0..rng.random_range(1..=run_max).min(rows + offset - bits.len()) {
                bits.push(value);
            }
        }
        Bitmap::new(BooleanBuffer::from(bits).slice(offset, rows))
    }

    #[test]
    fn random_bitmaps_survive_the_wire() {
        let seed: u64 = rand::rng().random();
        println!("seed {seed}");
        let mut rng = StdRng::seed_from_u64(seed);
        let mut forms = [0; 2];
        for _ in 0..2000 {
            let sent = random(&mut rng);
            let bytes = sent.encode();
            forms[usize::from(bytes[0])] += 1;
            assert!(bytes.len() <= Bitmap::encoded_bytes_max(sent.len()));
            assert_eq!(Bitmap::encoded_rows(&bytes), Ok(sent.len() as u64));
            assert_eq!(Bitmap::decode(&bytes, sent.len() as u64).unwrap(), sent);
            let wrong = Bitmap::decode(&bytes, sent.len() as u64 + 1);
            assert!(matches!(wrong, Err(BitmapError::WrongLength { .. })), "{wrong:?}");
        }
        assert!(forms.iter().all(|count| *count > 100), "both forms occur: {forms:?}");
    }

    #[test]
    fn the_bytes_are_fixed() {
        let sparse: Vec<bool> = (0..300).map(|row| (130..133).contains(&row)).collect();
        assert_eq!(bitmap(&sparse).encode(), [1, 44, 1, 0, 0, 0, 0, 0, 0, 0x82, 0x01, 3]);
        let dense = [true, false, true, false, true, false, true, false, false, true];
        assert_eq!(bitmap(&dense).encode(), [0, 10, 0, 0, 0, 0, 0, 0, 0, 0b0101_0101, 0b10]);
        assert_eq!(bitmap(&[]).encode(), [1, 0, 0, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn corrupt_bytes_are_refused() {
        let header = |form: u8, rows: u64| [&[form][..], &rows.to_le_bytes()].concat();
        let with = |form, rows, body: &[u8]| [&header(form, rows)[..], body].concat();
        let cases = [
            (vec![], 10, "cut short"),
            (header(0, 10)[..5].to_vec(), 10, "cut short"),
            (with(7, 10, &[0, 0]), 10, "unknown form 7"),
            (with(0, 9, &[0, 0]), 10, "of 9 rows, 10 were expected"),
            (with(1, 1 << 40, &[]), 1 << 40, "passes the limit"),
            (with(0, 10, &[0]), 10, "another length"),
            (with(0, 10, &[0, 0, 0]), 10, "another length"),
            (with(0, 10, &[0, 4]), 10, "bits after its last row"),
            (with(1, 10, &[3]), 10, "a clear run at its end"),
            (with(1, 10, &[3, 0]), 10, "an empty run"),
            (with(1, 10, &[3, 8]), 10, "longer runs"),
            (with(1, 10, &[3, 0x80]), 10, "cut short"),
            (with(1, 10, &[0xff; 12]), 10, "no 64-bit number"),
        ];
        for (bytes, rows, why) in cases {
            let error = Bitmap::decode(&bytes, rows).expect_err(why).to_string();
            assert!(error.contains(why), "{bytes:?}: {error}");
        }
    }

    #[test]
    fn damage_never_panics() {
        let seed: u64 = rand::rng().random();
        println!("seed {seed}");
        let mut rng = StdRng::seed_from_u64(seed);
        for _ in 0..20_000 {
            let sent = random(&mut rng);
            let mut bytes = sent.encode();
            for _ in 0..rng.random_range(1..4) {
                match rng.random_range(0..3) {
                    0 => bytes.truncate(rng.random_range(0..=bytes.len())),
                    1 => bytes.push(rng.random()),
                    _ if bytes.is_empty() => {}
                    _ => {
                        let position = rng.random_range(0..bytes.len());
                        bytes[position] ^= 1 << rng.random_range(0..8);
                    }
                }
            }
            if let Ok(decoded) = Bitmap::decode(&bytes, sent.len() as u64) {
                assert_eq!(decoded.len(), sent.len());
            }
        }
    }

    #[test]
    fn combining_agrees_with_row_by_row() {
        let seed: u64 = rand::rng().random();
        println!("seed {seed}");
        let mut rng = StdRng::seed_from_u64(seed);
        for _ in 0..500 {
            let a = random(&mut rng);
            let b = Bitmap::new(BooleanBuffer::collect_bool(a.len(), |_| rng.random_bool(0.3)));
            let among = BooleanBuffer::collect_bool(a.count(), |_| rng.random_bool(0.5));
            let narrowed = a.narrowed(&Bitmap::new(among.clone())).unwrap();
            assert_eq!(narrowed.len(), a.len());
            let mut selected = 0;
            for row in 0..a.len() {
                let (in_a, in_b) = (a.bits().value(row), b.bits().value(row));
                assert_eq!(a.or(&b).bits().value(row), in_a || in_b);
                assert_eq!(narrowed.bits().value(row), in_a && among.value(selected));
                selected += usize::from(in_a);
            }
            assert!(a.narrowed(&Bitmap::new(BooleanBuffer::new_set(a.count() + 1))).is_none());
            if a.count() > 1 {
                let end = a.end_of(0, 2);
                assert_eq!(a.bits().slice(0, end).count_set_bits(), 2);
                assert!(a.bits().value(end - 1));
            }
            assert_eq!(a.end_of(0, a.count() + 1), a.len());
        }
    }

    #[test]
    fn null_selects_nothing() {
        let values = BooleanArray::from(vec![Some(true), None, Some(false), Some(true)]);
        assert_eq!(Bitmap::of_true(&values), bitmap(&[true, false, false, true]));
        assert_eq!(Bitmap::of_true(&values.slice(1, 3)), bitmap(&[false, false, true]));
    }
}
