//! How the rows to be evicted are found.

use std::fmt;
use std::str::FromStr;

use thermocline_machine::random::Random;
use thermocline_types::either;

/// Policy that chooses the rows of a table to be evicted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Victims {
    /// Rows that were used in the fewest rounds of searches that pass all of them: four bits for each row.
    #[default]
    Sampled,
    /// Rows that were used least recently by sampled transactions: an LRU chain.
    Chain,
}

impl Victims {
    /// Its name in settings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sampled => "sampled",
            Self::Chain => "chain",
        }
    }
}

impl FromStr for Victims {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        either(text, [Self::Sampled, Self::Chain], Self::name)
    }
}

/// Share of the transactions that are sampled, above 0 and at most 1: alpha of Anti-Caching 2013, section 3.1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SamplingRate {
    billionths: u32,
}

/// Billionths of all.
const ALL: u32 = 1_000_000_000;

impl SamplingRate {
    /// Every transaction.
    pub const ALL: Self = Self { billionths: ALL };

    /// The share as a number.
    pub fn share(self) -> f64 {
        f64::from(self.billionths) / f64::from(ALL)
    }
}

impl Default for SamplingRate {
    /// One transaction in a hundred, as in the paper.
    fn default() -> Self {
        Self { billionths: ALL / 100 }
    }
}

impl fmt::Display for SamplingRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.share(), f)
    }
}

impl FromStr for SamplingRate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let billionths = text.parse::<f64>().ok().filter(|share| *share > 0.0 && *share <= 1.0);
        let billionths = billionths.map(|share| (share * f64::from(ALL)).round() as u32);
        let rate = billionths.filter(|billionths| *billionths > 0).map(|billionths| Self { billionths });
        rate.ok_or_else(|| format!("\"{text}\" is no sampling rate: from 0.000000001 to 1"))
    }
}

/// Generator that says which transactions are sampled. It is seeded, so that a simulation repeats; taking every n-th
/// instead would see only a part of a workload that repeats itself as often.
#[derive(Debug)]
pub struct Sampler {
    random: Random,
    /// The largest number that is drawn for a sampled transaction.
    last: u64,
}

impl Sampler {
    /// Draws with this rate.
    pub fn new(rate: SamplingRate, seed: u64) -> Self {
        let numbers = (u128::from(rate.billionths) << 64) / u128::from(ALL);
        Self { random: Random::new(seed), last: (numbers - 1) as u64 }
    }

    /// Whether the next transaction is sampled.
    #[inline]
    pub fn draw(&mut self) -> bool {
        self.random.next() <= self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_what_their_texts_say() {
        for text in ["0.01", "1", "0.000000001", "0.125", "0.7"] {
            let rate: SamplingRate = text.parse().unwrap();
            assert_eq!(rate.to_string(), text);
        }
        assert_eq!("0.01".parse(), Ok(SamplingRate::default()));
        for text in ["0", "-0.5", "1.01", "nan", "inf", "", "often", "0.0000000001"] {
            let error = text.parse::<SamplingRate>().unwrap_err();
            assert!(error.contains(text) && error.contains("from 0.000000001 to 1"), "{error}");
        }
        for victims in [Victims::Sampled, Victims::Chain] {
            assert_eq!(victims.name().parse(), Ok(victims));
        }
        assert!("lru".parse::<Victims>().unwrap_err().contains("neither sampled nor chain"));
    }

    #[test]
    fn as_many_are_sampled_as_the_rate_says() {
        for (rate, least, most) in [("1", 100_000, 100_000), ("0.01", 900, 1100), ("0.7", 69_000, 71_000)] {
            let rate: SamplingRate = rate.parse().unwrap();
            let (mut sampler, mut again) = (Sampler::new(rate, 7), Sampler::new(rate, 7));
            let draws: Vec<bool> = (0..100_000).map(|_| sampler.draw()).collect();
            let sampled = draws.iter().filter(|is_sampled| **is_sampled).count();
            assert!((least..=most).contains(&sampled), "{sampled} of 100000 at {rate}");
            assert!(draws.iter().all(|draw| *draw == again.draw()));
        }
    }
}
