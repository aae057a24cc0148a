//! Pushback slots between the answer `PushedBack` and the end of the transfer that follows it.
//!
//! ```text
//!            begin                end, all bytes sent
//!  granted ---------> under way ---------------------> free
//!     ^                  |  end, bytes left
//!     +------------------+
//!     |                  |
//!     |                  +-- no reader for longer than the limit --> free
//!     +-- silent for longer than the limit --> free
//! ```
//!
//! A transfer whose slot went to somebody else while its reader was away goes on without one: a slot
//! stands for a share of the link, of which it then takes what is left.

use std::collections::HashMap;

use thermocline_pushdown::PushbackToken;

use super::schedule::RequestId;

#[derive(Debug)]
struct Lease {
    request: RequestId,
    /// Stored bytes that the caller still has to fetch.
    bytes_left: u64,
    /// Transfers under way.
    transfers: usize,
    /// Those of them whose reader waits for bytes.
    at_work: usize,
    /// When a transfer last began or ended, or its reader came or went; at first, when the lease began.
    silent_since: f64,
}

/// Leases by token, at most one per pushback slot.
#[derive(Debug)]
pub(crate) struct Leases {
    of: HashMap<PushbackToken, Lease>,
    next: u64,
    /// Seconds without a transfer after which a lease ends.
    silence_max: f64,
    /// Seconds without a reader for any of the transfers under way.
    absence_max: f64,
}

impl Leases {
    /// `first` is where tokens begin: chosen at random, so that a token of an earlier process means
    /// nothing to this one.
    pub(crate) fn new(silence_max: f64, absence_max: f64, first: u64) -> Self {
        Self { of: HashMap::new(), next: first, silence_max, absence_max }
    }

    /// A slot for the transfer of `bytes` stored bytes.
    pub(crate) fn grant(&mut self, request: RequestId, bytes: u64, now: f64) -> PushbackToken {
        let token = loop {
            self.next = self.next.wrapping_add(1);
            match PushbackToken::new(self.next) {
                Some(token) if !self.of.contains_key(&token) => break token,
                _ => {}
            }
        };
        self.of.insert(token, Lease { request, bytes_left: bytes, transfers: 0, at_work: 0, silent_since: now });
        token
    }

    /// A transfer under `token` begins; `false` if there is no such lease (any more).
    pub(crate) fn begin(&mut self, token: PushbackToken, now: f64) -> bool {
        match self.of.get_mut(&token) {
            Some(lease) => {
                lease.transfers += 1;
                lease.silent_since = now;
                true
            }
            None => false,
        }
    }

    /// The reader of a transfer waits for bytes (`true`), or is handed some and may not come back.
    pub(crate) fn set_at_work(&mut self, token: PushbackToken, at_work: bool, now: f64) {
        if let Some(lease) = self.of.get_mut(&token) {
            lease.at_work = if at_work { lease.at_work + 1 } else { lease.at_work.saturating_sub(1) };
            lease.silent_since = now;
        }
    }

    /// A transfer of `bytes` ends, complete or not. Returns the request whose slot is free now.
    pub(crate) fn end(&mut self, token: PushbackToken, bytes: u64, now: f64) -> Option<RequestId> {
        let lease = self.of.get_mut(&token)?;
        lease.transfers = lease.transfers.saturating_sub(1);
        lease.bytes_left = lease.bytes_left.saturating_sub(bytes);
        lease.silent_since = now;
        if lease.transfers > 0 || lease.bytes_left > 0 {
            return None;
        }
        self.of.remove(&token).map(|lease| lease.request)
    }

    /// Ends a lease that nobody was told of, or that expired. Returns the request whose slot is free now.
    pub(crate) fn revoke(&mut self, token: PushbackToken) -> Option<RequestId> {
        self.of.remove(&token).map(|lease| lease.request)
    }

    /// Ends leases that were silent for too long.
    pub(crate) fn expire(&mut self, now: f64) -> Vec<RequestId> {
        let over = |lease: &Lease| {
            let max = if lease.transfers == 0 { self.silence_max } else { self.absence_max };
            lease.at_work == 0 && now - lease.silent_since >= max
        };
        let expired: Vec<PushbackToken> =
            self.of.iter().filter(|(_, lease)| over(lease)).map(|(token, _)| *token).collect();
        expired.into_iter().filter_map(|token| self.revoke(token)).collect()
    }
}
