//! Entries of a listing on their way: counted, charged, and given up when nobody waits for them.

use thermocline_pushdown::NodeError;
use thermocline_pushdown::wire::{ErrorKind, ListResponse, ObjectEntry, SkippedEntry};

use crate::blocking::Cancelled;
use crate::budget::Account;

/// Objects that one listing may hold.
pub(crate) const OBJECTS_MAX: usize = 5_000_000;
/// Skipped entries that a listing names; of the others it only says how many there are.
pub(crate) const SKIPPED_MAX: usize = 1000;
/// Bytes that are charged at once.
const CHARGED_AT_ONCE: usize = 256 << 10;
/// What the allocator takes for each entry, with the room that a growing list has to spare.
const ENTRY_BYTES: usize = 64;

/// Bytes that an object takes in a listing.
pub(crate) fn entry_bytes(object: &ObjectEntry) -> usize {
    size_of::<ObjectEntry>() + object.path.len() + object.version.len() + ENTRY_BYTES
}

/// A listing that grows.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    pub(crate) found: ListResponse,
    /// Where its bytes are charged; a listing for this process itself is not.
    account: Option<Account>,
    charged: usize,
    used: usize,
    cancelled: Cancelled,
}

impl Listing {
    /// An empty listing, charged to `account`, until it is `cancelled`.
    pub(crate) fn new(account: Option<Account>, cancelled: &Cancelled) -> Self {
        Self { account, cancelled: cancelled.clone(), ..Self::default() }
    }

    /// Adds an object of `root`.
    ///
    /// # Errors
    /// If there are more than a listing holds, or there is no memory for more, or nobody waits for it.
    pub(crate) fn add(&mut self, object: ObjectEntry, root: &str) -> Result<(), NodeError> {
        self.cancelled.check()?;
        if self.found.objects.len() >= OBJECTS_MAX {
            let why = format!("{root}: more than the {OBJECTS_MAX} objects that a listing holds");
            return Err(NodeError::new(ErrorKind::Refused, why));
        }
        self.charge(entry_bytes(&object))?;
        self.found.objects.push(object);
        Ok(())
    }

    /// Charges bytes that the listing or the walk takes.
    ///
    /// # Errors
    /// If there is no memory for them.
    pub(crate) fn charge(&mut self, bytes: usize) -> Result<(), NodeError> {
        self.used += bytes;
        let Some(account) = &self.account else { return Ok(()) };
        while self.used > self.charged {
            if !account.try_take(CHARGED_AT_ONCE) {
                let count = self.found.objects.len();
                // Whoever comes back finds no more than what it has.
                let kind = if account.has_its_share() { ErrorKind::ResourcesExhausted } else { ErrorKind::Busy };
                let why = format!("the storage node has no memory for a listing of more than {count} objects now");
                return Err(NodeError::new(kind, why));
            }
            self.charged += CHARGED_AT_ONCE;
        }
        Ok(())
    }

    /// Notes what is there and is no object.
    pub(crate) fn skip(&mut self, path: String, size: u64, reason: &str) {
        self.found.skipped_total += 1;
        if self.found.skipped.len() < SKIPPED_MAX {
            self.found.skipped.push(SkippedEntry { path, size, reason: reason.to_owned() });
        }
    }

    /// Whether somebody waits for it.
    ///
    /// # Errors
    /// If nobody does.
    pub(crate) fn check_wanted(&self) -> Result<(), NodeError> {
        self.cancelled.check()
    }
}
