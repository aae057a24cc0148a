//! Shares of reads and updates: workloads A, B and C, or percentages.

use std::fmt;
use std::str::FromStr;

/// Share of read-only calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mix {
    reads_percent: u8,
}

impl Mix {
    /// Half reads, half updates: the original's workload A, and the write-heavy one of Anti-Caching 2013.
    pub const A: Self = Self { reads_percent: 50 };
    /// 95 % reads.
    pub const B: Self = Self { reads_percent: 95 };
    /// Only reads; the read-only one of Anti-Caching 2013.
    pub const C: Self = Self { reads_percent: 100 };
    /// 90 % reads: the read-heavy one of Anti-Caching 2013.
    pub const READ_HEAVY: Self = Self { reads_percent: 90 };

    /// The share of reads.
    pub const fn reads_percent(self) -> u8 {
        self.reads_percent
    }
}

/// `A`, `B`, `C`, or the percentages of reads and updates, such as `90/10`.
impl FromStr for Mix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "A" | "a" => return Ok(Self::A),
            "B" | "b" => return Ok(Self::B),
            "C" | "c" => return Ok(Self::C),
            _ => {}
        }
        let wrong = || format!("\"{text}\" is no mix: A, B, C, or percentages of reads and updates such as 90/10");
        let (reads, updates) = text.split_once('/').ok_or_else(wrong)?;
        match (reads.parse::<u8>(), updates.parse::<u8>()) {
            (Ok(reads_percent @ 0..=100), Ok(updates)) if updates == 100 - reads_percent => Ok(Self { reads_percent }),
            _ => Err(wrong()),
        }
    }
}

/// The percentages.
impl fmt::Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.reads_percent, 100 - self.reads_percent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mixes_are_read_and_printed() {
        for (text, mix) in [("A", Mix::A), ("b", Mix::B), ("C", Mix::C), ("90/10", Mix::READ_HEAVY), ("100/0", Mix::C)]
        {
            assert_eq!(text.parse(), Ok(mix));
            assert_eq!(mix.to_string().parse(), Ok(mix));
        }
        for wrong in ["", "D", "90", "90/20", "101/-1", "-10/110", "300/56"] {
            assert!(wrong.parse::<Mix>().unwrap_err().contains("is no mix"), "{wrong}");
        }
    }
}
