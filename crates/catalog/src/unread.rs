//! Entries of a location that its table does not read, for a notice and for `system.unread_objects`.

use std::collections::BTreeMap;
use std::fmt;

use thermocline_storage::NodeClient;

/// Entries that are remembered of a table's locations.
const UNREAD_MAX: usize = 1000;
/// Examples that a notice names for one reason.
const NAMED_MAX: usize = 3;

/// An entry (a file, a link, a directory) that a table leaves out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnreadObject {
    /// The node that holds it.
    pub node: String,
    /// Path below the node's ROOT.
    pub path: String,
    /// Its bytes; 0 unless it is a file.
    pub bytes: u64,
    /// Why, for people.
    pub reason: String,
}

/// All entries that a table leaves out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UnreadObjects {
    /// The first of them.
    pub entries: Vec<UnreadObject>,
    /// Number of all of them.
    pub total: u64,
}

impl UnreadObjects {
    pub(super) fn add(&mut self, node: &NodeClient, path: String, bytes: u64, reason: &str) {
        self.total += 1;
        if self.entries.len() < UNREAD_MAX {
            let entry = UnreadObject { node: node.label().to_owned(), path, bytes, reason: reason.to_owned() };
            self.entries.push(entry);
        }
    }

    pub(super) fn extend(&mut self, other: Self) {
        self.total += other.total;
        self.entries.extend(other.entries);
        self.entries.truncate(UNREAD_MAX);
    }
}

impl fmt::Display for UnreadObjects {
    /// `5 entries are not read: 3 because its name has another extension (a.md, b.md, c.md), ...`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut by_reason: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for entry in &self.entries {
            by_reason.entry(&entry.reason).or_default().push(&entry.path);
        }
        let reasons: Vec<_> = by_reason
            .iter()
            .map(|(reason, paths)| {
                let named = paths.iter().take(NAMED_MAX).copied().collect::<Vec<_>>().join(", ");
                let more = if paths.len() > NAMED_MAX { ", ..." } else { "" };
                format!("{reason}: {} ({named}{more})", paths.len())
            })
            .collect();
        let entries = if self.total == 1 { "entry is" } else { "entries are" };
        write!(f, "{} {entries} not read ({})", self.total, reasons.join("; "))
    }
}
