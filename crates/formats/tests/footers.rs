//! Footers are loaded once, shared, and kept within their limit; those that do not fit are refused.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use async_trait::async_trait;
use bytes::Bytes;
use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryPool};
use futures::future::join_all;
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;
use thermocline_formats::{FooterCache, Footers, RangeSource};
use thermocline_pushdown::NodeError;
use thermocline_pushdown::wire::{ErrorKind, ObjectEntry};

/// An object in memory that counts its reads and can fail the first of them.
#[derive(Debug)]
struct Object {
    entry: ObjectEntry,
    bytes: Bytes,
    reads: AtomicUsize,
    failures: AtomicUsize,
}

#[async_trait]
impl RangeSource for Object {
    fn object(&self) -> &ObjectEntry {
        &self.entry
    }

    async fn read(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>, NodeError> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(Duration::from_millis(20)).await;
        let fails =
            self.failures.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok();
        if fails {
            return Err(NodeError::new(ErrorKind::Unavailable, "not now"));
        }
        Ok(ranges.iter().map(|range| self.bytes.slice(range.start as usize..range.end as usize)).collect())
    }
}

fn object(path: &str, bytes: Bytes) -> Arc<Object> {
    let entry = ObjectEntry { path: path.into(), version: "1".into(), size: bytes.len() as u64 };
    Arc::new(Object { entry, bytes, reads: AtomicUsize::new(0), failures: AtomicUsize::new(0) })
}

/// Parquet of 20 row groups.
fn parquet(columns: usize) -> Bytes {
    let column = |at: usize| {
        let values: ArrayRef = Arc::new(Int64Array::from_iter_values((0..200).map(|row| row * at as i64)));
        (format!("c{at}"), values)
    };
    let batch = RecordBatch::try_from_iter((0..columns).map(column)).unwrap();
    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(10)).build();
    let mut file = vec![];
    let mut writer = ArrowWriter::try_new(&mut file, batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    file.into()
}

fn source(object: &Arc<Object>) -> Arc<dyn RangeSource> {
    Arc::clone(object) as Arc<dyn RangeSource>
}

#[tokio::test]
async fn all_who_ask_at_once_share_one_load() {
    let footers = Footers::new(FooterCache::new(64 << 20, None), "node");
    let object = object("t", parquet(5));
    let source = source(&object);
    let found = join_all((0..50).map(|_| footers.get(&source, false))).await;
    let first = found[0].as_ref().unwrap();
    assert!(found.iter().all(|footer| Arc::ptr_eq(footer.as_ref().unwrap(), first)));
    let loads = object.reads.load(Ordering::Relaxed);
    assert!(loads <= 2, "{loads} reads of one footer");
    assert!(first.metadata().column_index().is_none());

    let with_pages = join_all((0..50).map(|_| footers.get(&source, true))).await;
    assert!(with_pages.iter().all(|footer| footer.as_ref().unwrap().metadata().column_index().is_some()));
    assert!(object.reads.load(Ordering::Relaxed) - loads <= 2);
    // From now on everybody gets the footer with pages.
    assert!(footers.get(&source, false).await.unwrap().metadata().offset_index().is_some());
    assert!(object.reads.load(Ordering::Relaxed) - loads <= 2);
}

#[tokio::test]
async fn a_load_that_fails_or_is_dropped_is_taken_over() {
    let footers = Footers::new(FooterCache::new(64 << 20, None), "node");
    let object = object("t", parquet(5));
    let source = source(&object);
    object.failures.store(1, Ordering::Relaxed);
    let found = join_all((0..4).map(|_| footers.get(&source, false))).await;
    assert_eq!(found.iter().filter(|footer| footer.is_err()).count(), 1, "only the owner's load failed");

    let other =
        Arc::new(Object { entry: ObjectEntry { version: "2".into(), ..object.entry.clone() }, ..copy(&object) });
    let source = self::source(&other);
    let dropped = tokio::time::timeout(Duration::from_millis(5), footers.get(&source, false)).await;
    assert!(dropped.is_err());
    footers.get(&source, false).await.unwrap();
}

fn copy(object: &Object) -> Object {
    let (entry, bytes) = (object.entry.clone(), object.bytes.clone());
    Object { entry, bytes, reads: AtomicUsize::new(0), failures: AtomicUsize::new(0) }
}

#[tokio::test]
async fn footers_stay_within_their_limit_and_the_nodes_memory() {
    let bytes = parquet(5);
    let probe = FooterCache::new(usize::MAX, None);
    Footers::new(Arc::clone(&probe), "node").get(&source(&object("t", bytes.clone())), false).await.unwrap();
    let one = probe.bytes();
    assert!(one > 1000);

    let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(1 << 30));
    let cache = FooterCache::new(3 * one + one / 2, Some(Arc::clone(&pool)));
    let footers = Footers::new(Arc::clone(&cache), "node");
    let objects: Vec<_> = (0..10).map(|at| object(&format!("t{at}"), bytes.clone())).collect();
    for object in &objects {
        footers.get(&source(object), false).await.unwrap();
        assert!(cache.bytes() <= cache.limit());
        assert_eq!(pool.reserved(), cache.bytes());
    }
    assert_eq!(cache.bytes(), 3 * one);
    let reads = |at: usize| objects[at].reads.load(Ordering::Relaxed);
    let before = (reads(0), reads(9));
    footers.get(&source(&objects[9]), false).await.unwrap();
    footers.get(&source(&objects[0]), false).await.unwrap();
    assert!(reads(0) > before.0 && reads(9) == before.1, "the last ones are kept, the first are not");

    // Footers in use count as well, kept or not.
    let held = footers.get(&source(&objects[0]), false).await.unwrap();
    cache.set_limit(0);
    assert_eq!((cache.bytes(), pool.reserved()), (0, one), "of {one}");
    let again = footers.get(&source(&objects[0]), false).await.unwrap();
    assert!(Arc::ptr_eq(&held, &again), "as long as somebody has it, it is shared");
    drop((held, again));
    assert_eq!(pool.reserved(), 0);

    let small: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(one / 2));
    let footers = Footers::new(FooterCache::new(1 << 20, Some(small)), "node");
    let error = footers.get(&source(&objects[0]), false).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::ResourcesExhausted);
    assert!(error.message.contains("t0"), "{error}");
}

#[tokio::test]
async fn a_version_of_an_object_and_a_node_have_footers_of_their_own() {
    let cache = FooterCache::new(64 << 20, None);
    let object = object("t", parquet(3));
    let (here, there) = (Footers::new(Arc::clone(&cache), "here"), Footers::new(cache, "there"));
    here.get(&source(&object), false).await.unwrap();
    let read = object.reads.load(Ordering::Relaxed);
    there.get(&source(&object), false).await.unwrap();
    assert!(object.reads.load(Ordering::Relaxed) > read);
    let newer =
        Arc::new(Object { entry: ObjectEntry { version: "2".into(), ..object.entry.clone() }, ..copy(&object) });
    here.get(&source(&newer), false).await.unwrap();
    assert!(newer.reads.load(Ordering::Relaxed) > 0);
}

#[tokio::test]
async fn footers_that_cannot_be_are_refused_before_they_are_read() {
    let footers = Footers::new(FooterCache::new(64 << 20, None), "node");
    let with_length = |length: u32, size: usize| {
        let mut file = vec![0; size];
        let end = file.len();
        file[..4].copy_from_slice(b"PAR1");
        file[end - 8..end - 4].copy_from_slice(&length.to_le_bytes());
        file[end - 4..].copy_from_slice(b"PAR1");
        Bytes::from(file)
    };
    for (what, bytes, expected) in [
        ("short", Bytes::from_static(b"PAR1"), "too few"),
        ("no Parquet", Bytes::from_static(b"a,b,c\n1,2,3\n4,5,6\n"), "PAR1"),
        ("longer than the file", with_length(5000, 100), "corrupt"),
        ("200 MB", with_length(200 << 20, (200 << 20) + 100), "more than"),
        ("zeros", with_length(50, 100), "corrupt"),
    ] {
        let object = object(what, bytes);
        let error = footers.get(&source(&object), false).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::BadData, "{error}");
        assert!(error.message.contains(what) && error.message.contains(expected), "{error}");
        assert!(object.reads.load(Ordering::Relaxed) <= 1, "{what}");
    }
}
