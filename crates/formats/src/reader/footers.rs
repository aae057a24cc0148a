//! Decoded footers of Parquet objects, shared by all readers of an object.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use datafusion::common::runtime::SpawnedTask;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation, UnboundedMemoryPool};
use parking_lot::Mutex;
use parquet::file::metadata::ParquetMetaData;
use thermocline_pushdown::NodeError;
use thermocline_pushdown::wire::{ErrorKind, ObjectEntry};

use super::parquet::{decode_footer, fetch_footer, with_page_index};
use crate::RangeSource;

/// Largest observed ratio of decoded to stored bytes of a footer; this much is reserved before decoding.
const DECODED_PER_STORED: usize = 12;
/// Longer footers are decoded away from the threads that serve requests.
const DECODED_IN_PLACE_BYTES: usize = 256 << 10;

/// Decoded footers by object version, within a number of bytes.
///
/// Invariants, under the lock:
/// * `bytes` = sum of `kept` footers' bytes <= `bytes_max`
/// * `order` holds the keys of kept footers and no other, by their last use
///
/// A footer that is not kept (it is larger than the limit, or was evicted) is still shared by its holders. Concurrent
/// requests share one load; if its owner gives up, another takes over.
pub struct FooterCache {
    bytes_max: AtomicUsize,
    pool: Arc<dyn MemoryPool>,
    /// Whether the pool was given, and counts towards a limit.
    charged: bool,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    /// Grows with each use.
    tick: u64,
    bytes: usize,
    slots: HashMap<Arc<FooterKey>, Held>,
    order: BTreeMap<u64, Arc<FooterKey>>,
}

/// An object of one node.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct FooterKey {
    scope: Arc<str>,
    object: ObjectEntry,
}

struct Held {
    slot: Arc<Slot>,
    /// Its last use, its bytes and the footer; `None` if it is not kept.
    kept: Option<(u64, usize, Arc<Footer>)>,
}

impl Held {
    /// Whether the footer is held or being loaded.
    fn is_used(&self) -> bool {
        self.kept.is_some() || Arc::strong_count(&self.slot) > 1 || self.slot.loaded.lock().strong_count() > 0
    }
}

/// Footer of one object while it is held.
#[derive(Default)]
struct Slot {
    loading: tokio::sync::Mutex<()>,
    loaded: Mutex<Weak<Footer>>,
}

impl Slot {
    /// The footer, if it is there with the requested parts.
    fn get(&self, pages: bool) -> Option<Arc<Footer>> {
        self.loaded.lock().upgrade().filter(|footer| footer.pages || !pages)
    }
}

/// A decoded footer, charged while it is held.
#[derive(Debug)]
pub struct Footer {
    metadata: Arc<ParquetMetaData>,
    /// Whether the page index was requested; it may be missing nevertheless.
    pages: bool,
    memory: MemoryReservation,
}

impl Footer {
    /// The decoded metadata.
    pub fn metadata(&self) -> &Arc<ParquetMetaData> {
        &self.metadata
    }
}

impl fmt::Debug for FooterCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = self.known.lock();
        write!(f, "FooterCache({} footers, {} of {} bytes)", known.order.len(), known.bytes, self.limit())
    }
}

impl FooterCache {
    /// A cache of at most `bytes_max` bytes. With a pool, every footer is charged to it, even one that is only in use.
    pub fn new(bytes_max: usize, pool: Option<Arc<dyn MemoryPool>>) -> Arc<Self> {
        let charged = pool.is_some();
        let pool = pool.unwrap_or_else(|| Arc::new(UnboundedMemoryPool::default()));
        Arc::new(Self { bytes_max: AtomicUsize::new(bytes_max), pool, charged, known: Mutex::default() })
    }

    /// Limit of the kept footers, in bytes.
    pub fn limit(&self) -> usize {
        self.bytes_max.load(Ordering::Relaxed)
    }

    /// Changes that limit.
    pub fn set_limit(&self, bytes_max: usize) {
        let mut known = self.known.lock();
        self.bytes_max.store(bytes_max, Ordering::Relaxed);
        while known.bytes > bytes_max && known.let_go() {}
    }

    /// Bytes of the kept footers.
    pub fn bytes(&self) -> usize {
        self.known.lock().bytes
    }

    /// Bytes of kept footers charged to a pool.
    pub(crate) fn bytes_charged(&self) -> usize {
        if self.charged { self.bytes() } else { 0 }
    }

    fn slot(&self, key: &Arc<FooterKey>) -> Arc<Slot> {
        let mut known = self.known.lock();
        let known = &mut *known;
        known.tick += 1;
        if let Some(held) = known.slots.get_mut(key) {
            if let Some((used, ..)) = &mut held.kept {
                known.order.remove(used);
                *used = known.tick;
                known.order.insert(known.tick, Arc::clone(key));
            }
            return Arc::clone(&held.slot);
        }
        // Unused slots are removed once they outnumber the others.
        if known.slots.len() > 2 * known.order.len() + 64 {
            known.slots.retain(|_, held| held.is_used());
        }
        let slot = Arc::new(Slot::default());
        known.slots.insert(Arc::clone(key), Held { slot: Arc::clone(&slot), kept: None });
        slot
    }

    /// Keeps a loaded footer, and evicts others for it.
    fn keep(&self, key: &Arc<FooterKey>, slot: &Arc<Slot>, footer: Arc<Footer>) {
        let mut known = self.known.lock();
        let known = &mut *known;
        let current = known.slots.get_mut(key).filter(|held| Arc::ptr_eq(&held.slot, slot));
        let Some(held) = current else { return };
        if let Some((used, bytes, _)) = held.kept.take() {
            known.order.remove(&used);
            known.bytes -= bytes;
        }
        let bytes = footer.memory.size();
        if bytes > self.limit() {
            return;
        }
        known.tick += 1;
        held.kept = Some((known.tick, bytes, footer));
        known.order.insert(known.tick, Arc::clone(key));
        known.bytes += bytes;
        while known.bytes > self.limit() && known.let_go() {}
    }

    /// Reserves memory for a footer, evicting kept ones if necessary.
    fn reserve(&self, object: &ObjectEntry, bytes: usize) -> Result<MemoryReservation, NodeError> {
        let memory = MemoryConsumer::new("Parquet footer").register(&self.pool);
        loop {
            match memory.try_grow(bytes) {
                Ok(()) => return Ok(memory),
                Err(error) if !self.known.lock().let_go() => {
                    return Err(NodeError::from(error).context(format!("the footer of {}", object.path)));
                }
                Err(_) => {}
            }
        }
    }
}

impl Known {
    /// Evicts the least recently used footer; `false` if none is kept.
    fn let_go(&mut self) -> bool {
        let Some((_, key)) = self.order.pop_first() else { return false };
        if let Some((_, bytes, _)) = self.slots.get_mut(&key).and_then(|held| held.kept.take()) {
            self.bytes -= bytes;
        }
        true
    }
}

/// The footers of one node's objects in a [`FooterCache`], which several nodes may share.
#[derive(Debug, Clone)]
pub struct Footers {
    cache: Arc<FooterCache>,
    scope: Arc<str>,
}

impl Footers {
    /// Those of the node that `scope` names.
    pub fn new(cache: Arc<FooterCache>, scope: &str) -> Self {
        Self { cache, scope: scope.into() }
    }

    /// The footer of the source's object, with its page index if requested and not disproportionately large; loaded
    /// unless it is here.
    ///
    /// # Errors
    /// [`NodeError`] if it cannot be read or decoded, or there is no memory for it.
    pub async fn get(&self, source: &Arc<dyn RangeSource>, pages: bool) -> Result<Arc<Footer>, NodeError> {
        let key = self.key(source.object());
        let slot = self.cache.slot(&key);
        if let Some(footer) = slot.get(pages) {
            return Ok(footer);
        }
        // A task of its own: others wait for the lock, and whoever asked may not be polled until its rows are wanted.
        let (this, source) = (self.clone(), Arc::clone(source));
        let task = SpawnedTask::spawn(async move {
            let _only_one = slot.loading.lock().await;
            if let Some(footer) = slot.get(pages) {
                return Ok(footer);
            }
            let loaded = this.load(&source, pages, slot.get(false)).await?;
            this.put_into(&key, &slot, loaded)
        });
        let failed = |error| NodeError::new(ErrorKind::Internal, format!("the task of a footer failed: {error}"));
        task.join().await.map_err(failed)?
    }

    /// Keeps a footer that was decoded elsewhere.
    pub fn put(&self, object: &ObjectEntry, metadata: Arc<ParquetMetaData>) {
        let key = self.key(object);
        let slot = self.cache.slot(&key);
        if slot.get(false).is_none() {
            // Without memory for it, it is loaded when needed.
            let _kept = self.put_into(&key, &slot, (metadata, false));
        }
    }

    /// Bytes of the kept footers, if they are charged to a pool.
    pub fn bytes_charged(&self) -> usize {
        self.cache.bytes_charged()
    }

    fn key(&self, object: &ObjectEntry) -> Arc<FooterKey> {
        Arc::new(FooterKey { scope: Arc::clone(&self.scope), object: object.clone() })
    }

    fn put_into(
        &self,
        key: &Arc<FooterKey>,
        slot: &Arc<Slot>,
        (metadata, pages): (Arc<ParquetMetaData>, bool),
    ) -> Result<Arc<Footer>, NodeError> {
        let memory = self.cache.reserve(&key.object, metadata.memory_size())?;
        let footer = Arc::new(Footer { metadata, pages, memory });
        *slot.loaded.lock() = Arc::downgrade(&footer);
        self.cache.keep(key, slot, Arc::clone(&footer));
        Ok(footer)
    }

    async fn load(
        &self,
        source: &Arc<dyn RangeSource>,
        pages: bool,
        bare: Option<Arc<Footer>>,
    ) -> Result<(Arc<ParquetMetaData>, bool), NodeError> {
        let object = source.object();
        let (metadata, _while_decoded) = match bare {
            Some(footer) => (Arc::clone(&footer.metadata), None),
            None => {
                let stored = fetch_footer(source.as_ref()).await?;
                let memory = self.cache.reserve(object, stored.len().saturating_mul(DECODED_PER_STORED))?;
                let path = object.path.clone();
                let metadata = if stored.len() <= DECODED_IN_PLACE_BYTES {
                    decode_footer(&path, &stored)?
                } else {
                    let decoded = tokio::task::spawn_blocking(move || decode_footer(&path, &stored)).await;
                    decoded.map_err(|error| {
                        NodeError::new(ErrorKind::Internal, format!("decoding a footer failed: {error}"))
                    })??
                };
                (Arc::new(metadata), Some(memory))
            }
        };
        if !pages {
            return Ok((metadata, false));
        }
        Ok((with_page_index(source, metadata).await?, true))
    }
}
