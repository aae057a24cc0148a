//! Random values of clauses 2.1.6 and 4.3.2.

use thermocline_transactions::random::Random;
use thermocline_transactions::types::{Decimal, Value};
use thermocline_transactions::{Error, Result};

const SYLLABLES: [&str; 10] = ["BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"];
/// Constant of NURand for last names when data is loaded; any number up to 255 would do.
const LAST_NAME_LOAD: u32 = 123;

/// The last name for a number of three digits.
pub fn last_name(number: u32) -> String {
    [number / 100, number / 10, number]
        .iter()
        .filter_map(|digit| SYLLABLES.get((digit % 10) as usize))
        .copied()
        .collect()
}

/// Draws values.
#[derive(Debug, Clone)]
pub(super) struct Draw(Random);

impl Draw {
    pub const fn new(seed: u64) -> Self {
        Self(Random::new(seed))
    }

    /// A generator for the rows of one part of one table, independent of all others.
    pub fn of(table: u64, warehouse: u32, district: u32) -> Self {
        let mut random = Random::new(table << 56 ^ u64::from(warehouse) << 16 ^ u64::from(district));
        Self(random.fork())
    }

    /// Uniform, including both ends.
    pub fn between(&mut self, low: u32, high: u32) -> u32 {
        low + self.0.below(u64::from(high - low) + 1) as u32
    }

    pub fn int(&mut self, low: u32, high: u32) -> Value {
        Value::Int(self.between(low, high).into())
    }

    /// True in this many of a hundred cases.
    pub fn percent(&mut self, percent: u32) -> bool {
        self.between(1, 100) <= percent
    }

    /// A decimal between these numbers of units of its last digit.
    pub fn decimal(&mut self, low: u32, high: u32, scale: u8) -> Result<Value> {
        let units = self.between(low, high);
        Decimal::new(units.into(), scale).map(Value::Decimal)
    }

    fn characters(&mut self, low: u32, high: u32, alphabet: &[u8]) -> String {
        let length = self.between(low, high);
        (0..length).filter_map(|_| self.0.pick(alphabet)).map(|byte| char::from(*byte)).collect()
    }

    /// Letters and digits.
    pub fn text(&mut self, low: u32, high: u32) -> String {
        const ALPHABET: &[u8] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
        self.characters(low, high, ALPHABET)
    }

    pub fn letters(&mut self, length: u32) -> String {
        self.characters(length, length, b"ABCDEFGHIJKLMNOPQRSTUVWXYZ")
    }

    pub fn digits(&mut self, length: u32) -> String {
        self.characters(length, length, b"0123456789")
    }

    /// I_DATA and S_DATA: one in ten contains `ORIGINAL`.
    pub fn data(&mut self) -> String {
        let mut text = self.text(26, 50);
        if self.percent(10) {
            const WORD: &str = "ORIGINAL";
            let at = self.between(0, text.len() as u32 - WORD.len() as u32) as usize;
            text.replace_range(at..at + WORD.len(), WORD);
        }
        text
    }

    pub fn zip(&mut self) -> String {
        self.digits(4) + "11111"
    }

    /// Two streets, city, state and zip.
    pub fn address(&mut self) -> [Value; 5] {
        [self.text(10, 20), self.text(10, 20), self.text(10, 20), self.letters(2), self.zip()].map(Value::from)
    }

    /// Numbers 1 to `n` in random order.
    pub fn permutation(&mut self, n: u32) -> Vec<u32> {
        let mut numbers: Vec<u32> = (1..=n).collect();
        for last in (1..numbers.len()).rev() {
            numbers.swap(last, self.0.index(last + 1));
        }
        numbers
    }

    /// NURand(A, low, high) with this constant C.
    fn skewed(&mut self, a: u32, low: u32, high: u32, c: u32) -> u32 {
        ((self.between(0, a) | self.between(low, high)) + c) % (high - low + 1) + low
    }

    /// The last name of a customer at load.
    pub fn loaded_last_name(&mut self, names: u32) -> String {
        last_name(self.skewed(255, 0, names - 1, LAST_NAME_LOAD))
    }
}

/// The constants C of NURand for one run (clause 2.1.6.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RunConstants {
    last_name: u32,
    customer: u32,
    item: u32,
}

impl RunConstants {
    /// Constants of a run; all its terminals have the same.
    pub fn draw(draw: &mut Draw) -> Self {
        let last_name = loop {
            let drawn = draw.between(0, 255);
            if fits_load(drawn) {
                break drawn;
            }
        };
        Self { last_name, customer: draw.between(0, 1023), item: draw.between(0, 8191) }
    }

    pub fn last_name(&self, draw: &mut Draw, names: u32) -> String {
        last_name(draw.skewed(255, 0, names - 1, self.last_name))
    }

    pub fn customer(&self, draw: &mut Draw, customers: u32) -> u32 {
        draw.skewed(1023, 1, customers, self.customer)
    }

    pub fn item(&self, draw: &mut Draw, items: u32) -> u32 {
        draw.skewed(8191, 1, items, self.item)
    }
}

/// Whether a run may use this constant for last names: it must differ from the load's, so that the hot names are
/// others, but not so that they are rare ones.
const fn fits_load(constant: u32) -> bool {
    let apart = constant.abs_diff(LAST_NAME_LOAD);
    apart >= 65 && apart <= 119 && apart != 96 && apart != 112
}

/// Error of a value that no table loaded by this crate contains.
pub(super) fn unexpected(what: impl std::fmt::Display) -> Error {
    Error::internal(format_args!("TPC-C: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_names() {
        assert_eq!([0, 1, 371, 999].map(last_name), ["BARBARBAR", "BARBAROUGHT", "PRICALLYOUGHT", "EINGEINGEING"]);
    }

    #[test]
    fn constants_of_a_run_follow_the_rule() {
        for seed in 0..1000 {
            let constants = RunConstants::draw(&mut Draw::new(seed));
            assert!(fits_load(constants.last_name) && constants.last_name <= 255);
        }
        assert_eq!([58, 188, 219, 235, 242, 243].map(fits_load), [true, true, false, false, true, false]);
    }

    #[test]
    fn skewed_numbers_stay_within_and_are_skewed() {
        let mut draw = Draw::new(1);
        let mut seen = vec![0_u32; 3001];
        for _ in 0..300_000 {
            seen[draw.skewed(1023, 1, 3000, 77) as usize] += 1;
        }
        assert_eq!(seen[0], 0);
        // A uniform distribution would have no customer with twice the mean, 100.
        assert!(seen.iter().filter(|count| **count > 200).count() > 100);
    }

    #[test]
    fn originals_are_one_in_ten() {
        let mut draw = Draw::new(2);
        let originals = (0..10_000).filter(|_| draw.data().contains("ORIGINAL")).count();
        assert!((900..1100).contains(&originals), "{originals}");
        let mut numbers = draw.permutation(100);
        assert_ne!(numbers, (1..=100).collect::<Vec<_>>());
        numbers.sort_unstable();
        assert_eq!(numbers, (1..=100).collect::<Vec<_>>());
    }
}
