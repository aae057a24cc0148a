//! Clients by what they cannot choose themselves: their address.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// The machine at the other end of a connection, or this process. The tenant and the query that a request
/// names divide only what its peer has.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Peer(Arc<str>);

impl Peer {
    /// This process.
    pub(crate) fn local() -> Self {
        Self("".into())
    }

    /// The peer of a connection without an address.
    pub(crate) fn unknown() -> Self {
        Self("an unknown address".into())
    }

    /// The peer at `address`: of IPv6 its network of 64 bits, within which a machine picks addresses of its own.
    pub(crate) fn at(address: SocketAddr) -> Self {
        Self(match address.ip().to_canonical() {
            IpAddr::V4(address) => address.to_string().into(),
            IpAddr::V6(address) => {
                let [a, b, c, d, ..] = address.segments();
                format!("{a:x}:{b:x}:{c:x}:{d:x}::/64").into()
            }
        })
    }

    /// Whether it is this process.
    pub(crate) fn is_local(&self) -> bool {
        self.0.is_empty()
    }

    /// Its name.
    pub(crate) fn name(&self) -> &Arc<str> {
        &self.0
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_local() { "this process" } else { &self.0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_is_a_machine() {
        let peer = |address: &str| Peer::at(address.parse().unwrap());
        assert_eq!(peer("10.0.0.1:1000"), peer("10.0.0.1:2000"));
        assert_eq!(peer("10.0.0.1:1000"), peer("[::ffff:10.0.0.1]:1000"));
        assert_ne!(peer("10.0.0.1:1000"), peer("10.0.0.2:1000"));
        assert_eq!(peer("[2001:db8::1]:1"), peer("[2001:db8::ffff:2]:1"));
        assert_ne!(peer("[2001:db8::1]:1"), peer("[2001:db8:0:1::1]:1"));
        assert_ne!(peer("[::1]:1"), Peer::local());
    }
}
