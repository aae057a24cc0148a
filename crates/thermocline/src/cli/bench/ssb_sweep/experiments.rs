//! Names of the experiments on the command line.

use clap::ValueEnum;

/// A figure of the paper.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Figure {
    /// Modes over cache size (7a) and over theta (7b)
    #[value(name = "7")]
    Modes,
    /// The same with a link of five times the bandwidth
    #[value(name = "8")]
    ModesOverFastLink,
    /// Speed-up over pullup of the queries that gain more by caching, more by pushdown, or alike
    #[value(name = "9")]
    SpeedUps,
    /// Modes over cache size for Parquet and CSV, at both bandwidths
    #[value(name = "10")]
    Formats,
    /// Cache policies over theta, on two-table joins of mixed selectivity
    #[value(name = "11")]
    Policies,
    /// Modes (12a) and cache policies (12b) over bandwidth
    #[value(name = "12")]
    Links,
    /// All of these
    All,
}

impl Figure {
    /// The chosen figures, each once.
    pub fn chosen(given: &[Self]) -> Vec<Self> {
        let all = [Self::Modes, Self::ModesOverFastLink, Self::SpeedUps, Self::Formats, Self::Policies, Self::Links];
        all.into_iter().filter(|figure| given.contains(figure) || given.contains(&Self::All)).collect()
    }
}

/// A table of the paper, by mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Table {
    /// Bytes on the network
    #[value(name = "2")]
    Network,
    /// CPU seconds with dedicated compute: elapsed seconds times cores, and storage's CPU time
    #[value(name = "3")]
    DedicatedCpu,
    /// CPU seconds with multi-tenant compute: CPU time of both processes
    #[value(name = "4")]
    MultiTenantCpu,
    /// Dollars under the configured prices
    Dollars,
    /// All of these
    All,
}

impl Table {
    /// The chosen tables, each once.
    pub fn chosen(given: &[Self]) -> Vec<Self> {
        let all = [Self::Network, Self::DedicatedCpu, Self::MultiTenantCpu, Self::Dollars];
        all.into_iter().filter(|table| given.contains(table) || given.contains(&Self::All)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_are_all_but_the_word() {
        assert_eq!(Figure::chosen(&[Figure::All]).len() + 1, Figure::value_variants().len());
        assert_eq!(Table::chosen(&[Table::All]).len() + 1, Table::value_variants().len());
        assert_eq!(Figure::chosen(&[Figure::Links, Figure::Modes, Figure::Links]), [Figure::Modes, Figure::Links]);
        assert!(Table::chosen(&[]).is_empty());
    }
}
