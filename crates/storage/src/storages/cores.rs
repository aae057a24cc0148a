//! Cores of this machine that a node may share with this process.

use std::fs;
use std::net::IpAddr;

/// Whether a node at `address` (`host:port`) computes on the cores of this process: it is reached without leaving this
/// machine, and this process may run on all cores of the machine or the container. A process that is confined to some cores
/// is taken to leave the others to the node.
pub(super) fn shared_with(address: &str) -> bool {
    is_this_machine(address) && !is_confined()
}

fn is_this_machine(address: &str) -> bool {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host).trim_matches(['[', ']']);
    host.eq_ignore_ascii_case("localhost") || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Whether this process may run on fewer cores than the first process. Not where `/proc` does not tell.
fn is_confined() -> bool {
    let allowed = |process: &str| {
        let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
        let mask = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed:"))?.to_owned();
        Some(mask.chars().filter_map(|digit| digit.to_digit(16)).map(u32::count_ones).sum::<u32>())
    };
    allowed("self").zip(allowed("1")).is_some_and(|(own, all)| own < all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_at_loopback_addresses_are_on_this_machine() {
        for address in ["localhost:1", "LOCALHOST:1", "127.0.0.1:80", "127.9.9.9:80", "[::1]:80"] {
            assert!(is_this_machine(address), "{address}");
        }
        for address in ["10.0.0.1:80", "localhost.example:1", "[2001:db8::1]:80", ""] {
            assert!(!is_this_machine(address), "{address}");
        }
    }
}
