//! The text of CSV objects, decompressed if necessary.
//!
//! A compressed object has no byte ranges of its own: offsets refer to its text, and reading a range decompresses
//! everything before it. So it is one partition.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use thermocline_pushdown::wire::{ErrorKind, ObjectEntry};
use thermocline_pushdown::{NodeError, TextCompression};

use super::decompress::{self, Decompressor};
use crate::RangeSource;

/// Bytes per read: small enough that the first batch comes soon.
const CHUNK_BYTES: u64 = 4 << 20;
/// Reads in flight, so that a large partition is fetched by several concurrent requests.
const CHUNKS_AHEAD: usize = 3;
/// Decompressed bytes handed on at once.
const PIECE_BYTES: usize = 1 << 20;

/// Bytes `range` of the object's text, in order. The decoder's memory is charged to `memory`.
pub fn text(
    source: Arc<dyn RangeSource>,
    range: Range<u64>,
    memory: &Arc<dyn MemoryPool>,
) -> BoxStream<'static, Result<Bytes, NodeError>> {
    let object = source.object().clone();
    let compression = TextCompression::of_path(&object.path);
    if compression == TextCompression::None {
        return chunks(source, range);
    }
    let inflating = Inflating {
        stored: chunks(source, 0..object.size),
        memory: MemoryConsumer::new("decompression").register(memory),
        decompressed: Decompressed::new(object.path, object.size, compression),
        range,
    };
    stream::try_unfold(
        inflating,
        |mut inflating| async move { Ok(inflating.next().await?.map(|piece| (piece, inflating))) },
    )
    .boxed()
}

/// Upper bound of the object's text length.
pub fn text_bytes_max(object: &ObjectEntry) -> u64 {
    match TextCompression::of_path(&object.path) {
        TextCompression::None => object.size,
        _ => decompress::text_bytes_max(object.size),
    }
}

/// Up to `bytes_max` bytes of the text of an object whose first bytes, or with `is_whole` all bytes, are `stored`; and
/// whether that is the whole text.
///
/// # Errors
/// [`ErrorKind::BadData`] if they are not compressed as the object's path implies.
pub fn text_sample(path: &str, stored: Bytes, is_whole: bool, bytes_max: usize) -> Result<(Bytes, bool), NodeError> {
    let compression = TextCompression::of_path(path);
    if compression == TextCompression::None {
        let is_all = is_whole && stored.len() <= bytes_max;
        return Ok((stored.slice(..stored.len().min(bytes_max)), is_all));
    }
    let mut decompressed = Decompressed::new(path.to_owned(), stored.len() as u64, compression);
    decompressed.input = stored;
    let mut text = vec![];
    while text.len() < bytes_max {
        let piece = decompressed.piece((bytes_max - text.len()).min(PIECE_BYTES))?;
        if piece.is_empty() {
            if is_whole {
                decompressed.check_end()?;
            }
            return Ok((text.into(), is_whole));
        }
        text.extend_from_slice(&piece);
    }
    Ok((text.into(), false))
}

/// An object's stored bytes, read ahead of their use.
fn chunks(source: Arc<dyn RangeSource>, range: Range<u64>) -> BoxStream<'static, Result<Bytes, NodeError>> {
    let count = range.end.saturating_sub(range.start).div_ceil(CHUNK_BYTES);
    let reads = (0..count).map(move |chunk| {
        let source = Arc::clone(&source);
        let start = range.start + chunk * CHUNK_BYTES;
        let chunk = start..range.end.min(start + CHUNK_BYTES);
        async move {
            let read = source.read(std::slice::from_ref(&chunk)).await?;
            Ok(read.into_iter().next().unwrap_or_default())
        }
    });
    stream::iter(reads).buffered(CHUNKS_AHEAD).boxed()
}

/// Text being decompressed from stored bytes as they come.
struct Inflating {
    stored: BoxStream<'static, Result<Bytes, NodeError>>,
    decompressed: Decompressed,
    memory: MemoryReservation,
    /// Wanted range of the text.
    range: Range<u64>,
}

impl Inflating {
    /// The next piece of the wanted range.
    async fn next(&mut self) -> Result<Option<Bytes>, NodeError> {
        while self.decompressed.offset < self.range.end {
            let start = self.decompressed.offset;
            let piece = self.decompressed.piece(PIECE_BYTES)?;
            self.memory.try_resize(self.decompressed.decompressor.memory_bytes() + PIECE_BYTES)?;
            if piece.is_empty() {
                match self.stored.try_next().await? {
                    Some(chunk) => self.decompressed.input = chunk,
                    None => {
                        self.decompressed.check_end()?;
                        return Ok(None);
                    }
                }
                continue;
            }
            let from = self.range.start.saturating_sub(start).min(piece.len() as u64);
            let to = (self.range.end - start).min(piece.len() as u64);
            if from < to {
                return Ok(Some(piece.slice(from as usize..to as usize)));
            }
            // Skipping takes time to decompress; other tasks may run in between.
            tokio::task::yield_now().await;
        }
        Ok(None)
    }
}

/// A decoder with its remaining input, and its position.
struct Decompressed {
    object: String,
    decompressor: Decompressor,
    input: Bytes,
    /// Bytes of the text so far.
    offset: u64,
    bytes_max: u64,
}

impl Decompressed {
    fn new(object: String, stored_bytes: u64, compression: TextCompression) -> Self {
        Self {
            object,
            decompressor: Decompressor::new(compression),
            input: Bytes::new(),
            offset: 0,
            bytes_max: decompress::text_bytes_max(stored_bytes),
        }
    }

    /// Up to `bytes_max` bytes of the text; none if more input is needed.
    fn piece(&mut self, bytes_max: usize) -> Result<Bytes, NodeError> {
        let mut output = vec![0; bytes_max];
        let mut filled = 0;
        while let Some(room) = output.get_mut(filled..).filter(|room| !room.is_empty()) {
            let progress = self.decompressor.step(&self.input, room).map_err(|error| self.corrupt(&error))?;
            let _done = self.input.split_to(progress.consumed.min(self.input.len()));
            filled += progress.produced;
            if (progress.consumed, progress.produced) == (0, 0) {
                if !self.input.is_empty() {
                    return Err(self.corrupt(&std::io::ErrorKind::InvalidData.into()));
                }
                break;
            }
        }
        output.truncate(filled);
        self.offset += filled as u64;
        if self.offset > self.bytes_max {
            let why = format!(
                "it decompresses to more than {} bytes, which no text of its size is: not read any further",
                self.bytes_max
            );
            return Err(self.bad(&why));
        }
        Ok(output.into())
    }

    /// Handles the end of the stored bytes.
    fn check_end(&self) -> Result<(), NodeError> {
        match self.decompressor.is_at_end() && self.input.is_empty() {
            true => Ok(()),
            false => Err(self.bad(&"it is cut short: the compressed data goes on behind its end")),
        }
    }

    fn corrupt(&self, error: &std::io::Error) -> NodeError {
        let name = TextCompression::of_path(&self.object).name();
        self.bad(&format!("not compressed with {name}, or damaged behind byte {} of the text: {error}", self.offset))
    }

    fn bad(&self, why: &dyn std::fmt::Display) -> NodeError {
        NodeError::new(ErrorKind::BadData, format!("{}: {why}", self.object))
    }
}
