//! Loads: segments on their way into the cache, shared by all queries that want them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use arrow::array::{Array, ArrayRef};
use tokio::sync::watch;

use crate::SegmentCache;
use crate::key::Representation;
use crate::segment::{Contents, PinnedSegment, Segment};
use crate::slots::SlotId;
use crate::stored::StoredColumn;

/// One load, shared by all queries that want its segment.
#[derive(Debug)]
pub(crate) struct Load {
    cache: Weak<SegmentCache>,
    pub(crate) slot: SlotId,
    representation: Representation,
    /// Bytes that the segment counts as, at least.
    bytes_min: usize,
    /// Whether a query has claimed the load.
    claimed: AtomicBool,
    done: watch::Sender<Progress>,
}

/// Progress of a load.
#[derive(Debug, Clone)]
enum Progress {
    Underway,
    Failed,
    Done(PinnedSegment),
}

impl Load {
    pub(crate) fn new(
        cache: Weak<SegmentCache>,
        slot: SlotId,
        representation: Representation,
        bytes_min: usize,
    ) -> Self {
        let done = watch::Sender::new(Progress::Underway);
        Self { cache, slot, representation, bytes_min, claimed: AtomicBool::new(false), done }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        if let Some(cache) = self.cache.upgrade() {
            cache.abandon(self);
        }
    }
}

/// One query's share in a load. The room stays reserved until the load ends or the last share is gone.
#[derive(Debug)]
pub struct LoadShare {
    pub(crate) load: Arc<Load>,
}

/// Duty of the holder of a [`LoadShare`].
#[derive(Debug)]
pub enum Claim {
    /// Load the segment: all others wait for it.
    Load(LoadTicket),
    /// Wait: another query is loading it.
    Wait(Pending),
}

impl LoadShare {
    /// Decides who loads: the first to claim. The holder of the ticket must not depend on the progress of others before
    /// completing or dropping it.
    pub fn claim(self) -> Claim {
        if self.load.claimed.swap(true, Ordering::AcqRel) {
            Claim::Wait(Pending { done: self.load.done.subscribe() })
        } else {
            Claim::Load(LoadTicket { load: self.load })
        }
    }
}

/// Obligation to load one segment. Dropping it without [`LoadTicket::complete`] gives back the room and tells the
/// waiters that the load failed.
#[derive(Debug)]
pub struct LoadTicket {
    load: Arc<Load>,
}

impl LoadTicket {
    /// What is to be loaded: arrays for [`LoadTicket::complete`], or bytes for [`LoadTicket::complete_stored`].
    pub fn representation(&self) -> Representation {
        self.load.representation
    }

    /// Reserves at least `bytes` for the segment while it is loaded; returns `false` and keeps the reservation if less
    /// beneficial segments cannot give that much.
    pub fn reserve(&self, bytes: usize) -> bool {
        self.load.cache.upgrade().is_some_and(|cache| cache.reserve(&self.load, bytes))
    }

    /// Hands over the loaded column as arrays for consecutive rows, and returns it pinned, with whether it stays in the
    /// cache. It does not if there is no room for it, because it is larger than its reservation or the limit was
    /// lowered, or if its table or object version was removed meanwhile.
    pub fn complete(self, mut chunks: Vec<ArrayRef>) -> (PinnedSegment, bool) {
        chunks.retain(|chunk| !chunk.is_empty());
        self.finish(Contents::Decoded(chunks.into_boxed_slice()))
    }

    /// The same for a column's stored bytes.
    pub fn complete_stored(self, column: StoredColumn) -> (PinnedSegment, bool) {
        self.finish(Contents::Stored(column))
    }

    fn finish(self, contents: Contents) -> (PinnedSegment, bool) {
        let segment =
            Arc::new(Segment::new(contents, self.load.bytes_min, Weak::clone(&self.load.cache), self.load.slot));
        let pinned = PinnedSegment::new(Arc::clone(&segment));
        let kept = self.load.cache.upgrade().is_some_and(|cache| cache.complete(&self.load, &segment));
        // Waiters get the column even if the cache has no room for it: they requested it.
        self.load.done.send_replace(Progress::Done(pinned.clone()));
        (pinned, kept)
    }
}

impl Drop for LoadTicket {
    fn drop(&mut self) {
        let failed = self.load.done.send_if_modified(|progress| {
            let underway = matches!(progress, Progress::Underway);
            if underway {
                *progress = Progress::Failed;
            }
            underway
        });
        if failed && let Some(cache) = self.load.cache.upgrade() {
            cache.abandon(&self.load);
        }
    }
}

/// A load by another query.
#[derive(Debug)]
pub struct Pending {
    done: watch::Receiver<Progress>,
}

impl Pending {
    /// Waits for the load; `None` if it failed and the caller must fetch the segment itself.
    pub async fn wait(mut self) -> Option<PinnedSegment> {
        let ended = self.done.wait_for(|progress| !matches!(progress, Progress::Underway)).await;
        match ended.as_deref() {
            Ok(Progress::Done(segment)) => Some(segment.clone()),
            _ => None,
        }
    }
}
