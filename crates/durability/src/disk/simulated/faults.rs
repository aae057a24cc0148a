//! Faults of the simulated disk: their frequencies, ends of a run, and counts.

use std::fmt;

/// How often operations fail: each once in this many times; 0 is never.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Faults {
    /// Syncs of files and of the directory that fail.
    pub sync: u32,
    /// Appends that find the disk full halfway.
    pub full: u32,
    /// Reads that fail.
    pub read: u32,
}

/// How a run ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Crash {
    /// The process ends; its writes are in the operating system's cache.
    Process,
    /// The machine loses power, and with it everything that was not synced.
    Power,
}

macro_rules! fault_counts {
    ($($(#[doc = $doc:literal])* $name:ident,)*) => {
        /// How often each kind of fault has happened; every field only grows.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        pub struct FaultCounts {
            $($(#[doc = $doc])* pub $name: u64,)*
        }

        impl FaultCounts {
            /// Adds the counts of another disk.
            pub fn add(&mut self, other: &Self) {
                $(self.$name += other.$name;)*
            }

            /// Name and number of each kind.
            pub fn kinds(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name),)*]
            }
        }
    };
}

fault_counts! {
    /// Processes that were killed.
    process_crashes,
    /// Machines that lost their power.
    power_losses,
    /// Crashes in the middle of creating a file.
    crashes_in_create,
    /// Crashes in the middle of an append.
    crashes_in_append,
    /// Crashes in the middle of a sync of a file.
    crashes_in_sync,
    /// Crashes in the middle of a sync of the directory.
    crashes_in_sync_directory,
    /// Crashes in the middle of a rename.
    crashes_in_rename,
    /// Crashes in the middle of a removal.
    crashes_in_remove,
    /// Unsynced stretches of files, of one write or several before a sync, of which nothing remained.
    lost_writes,
    /// Unsynced stretches of files of which a part remained.
    torn_writes,
    /// Unsynced stretches of files that kept later sectors and lost earlier ones.
    torn_writes_with_holes,
    /// Creations, renames and removals that were lost.
    lost_names,
    /// Syncs that failed.
    sync_failures,
    /// Bytes readable after a failed sync that a power loss removed.
    lost_after_sync_failure,
    /// Appends to a full disk.
    disk_full,
    /// Reads that failed.
    read_failures,
    /// Bits that changed by themselves.
    flipped_bits,
}

/// One kind per line.
impl fmt::Display for FaultCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, count) in self.kinds() {
            writeln!(f, "{name:>26} {count}")?;
        }
        Ok(())
    }
}
