//! Writing an index object, and searching in one. Everything here blocks.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use prost::Message;
use thermocline_pushdown::wire::{IndexReport, ObjectEntry};
use thermocline_pushdown::{BITMAP_ROWS_MAX, PartitionRange};

use super::format::{
    BLOCK_BYTES, Block, BlockWriter, Directory, FORMAT_VERSION, Piece, Position, Root, RunBlocks, Section, TAIL_BYTES,
    checksum, parse_tail, read_block, tail,
};
use super::key::KeyRanges;
use super::run::Run;
use super::store::{Identity, IndexPlace};

/// Bytes at the end of an index object that are read first: tail, and the root of most.
const END_BYTES: u64 = 4 << 10;
/// Neighbouring blocks are read together up to this many bytes.
const READ_BYTES_MAX: u64 = 1 << 20;

/// An index object in the making. Nobody sees it before [`IndexWriter::finish`].
#[derive(Debug)]
pub(crate) struct IndexWriter {
    file: BufWriter<File>,
    aside: Aside,
    offset: u64,
    root: Root,
    section: Option<Section>,
    directory: Directory,
}

/// A file under a name that is not final; removed unless it is renamed.
#[derive(Debug)]
struct Aside {
    path: PathBuf,
    to: PathBuf,
}

impl Drop for Aside {
    fn drop(&mut self) {
        // Gone if it was renamed.
        let _already_gone = fs::remove_file(&self.path);
    }
}

impl IndexWriter {
    /// Begins the file that will be at `place`. Until then it is beside it.
    pub(crate) fn create(place: IndexPlace, identity: &Identity, object: ObjectEntry) -> io::Result<Self> {
        let IndexPlace { aside, to, owner } = place;
        let file = BufWriter::with_capacity(256 << 10, File::create_new(&aside)?);
        Ok(Self {
            file,
            aside: Aside { path: aside, to },
            offset: 0,
            root: Root { identity: identity.as_str().to_owned(), object, sections: vec![], owner },
            section: None,
            directory: Directory::default(),
        })
    }

    /// Begins the section of `range`.
    pub(crate) fn begin_section(&mut self, range: PartitionRange) {
        self.section = Some(Section { range: range.into(), ..Section::default() });
        self.directory = Directory::default();
    }

    /// Adds a run to the section, and clears it.
    pub(crate) fn add_run(&mut self, run: &mut Run) -> io::Result<()> {
        let section = self.section.as_mut().ok_or_else(|| io::Error::other("a run without a section"))?;
        let (base, with_length) = (section.base(), !section.range.row_groups);
        run.sort();
        let mut blocks = vec![];
        let mut block = BlockWriter::default();
        let mut distinct = 0;
        let mut last: Option<&[u8]> = None;
        for (key, position) in run.iter() {
            if last != Some(key) {
                distinct += 1;
                last = Some(key);
            }
            block.push(key, position, base, with_length);
            if block.bytes.len() >= BLOCK_BYTES {
                blocks.push(write_block(&mut self.file, &mut self.offset, &mut block)?);
            }
        }
        if block.entries > 0 {
            blocks.push(write_block(&mut self.file, &mut self.offset, &mut block)?);
        }
        section.distinct = section.distinct.max(distinct);
        section.entries += blocks.iter().map(|block| block.entries).sum::<u64>();
        self.directory.runs.push(RunBlocks { blocks });
        run.clear();
        Ok(())
    }

    /// Ends the section, which has `rows` rows.
    pub(crate) fn end_section(&mut self, rows: u64) -> io::Result<()> {
        let Some(section) = self.section.take() else {
            return Err(io::Error::other("a section ends that has not begun"));
        };
        let directory = write_piece(&mut self.file, &mut self.offset, &self.directory.encode_to_vec())?;
        self.root.sections.push(Section { rows, directory, ..section });
        Ok(())
    }

    /// Bytes written so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.offset
    }

    /// Makes the index object durable, then visible, in place of an older one.
    pub(crate) fn finish(mut self) -> io::Result<IndexReport> {
        let root = write_piece(&mut self.file, &mut self.offset, &self.root.encode_to_vec())?;
        write_piece(&mut self.file, &mut self.offset, &tail(root))?;
        self.file.flush()?;
        self.file.get_ref().sync_all()?;
        fs::rename(&self.aside.path, &self.aside.to)?;
        if let Some(directory) = self.aside.to.parent() {
            File::open(directory)?.sync_all()?;
        }
        Ok(report(&self.root, self.offset))
    }
}

fn write_block(file: &mut impl Write, offset: &mut u64, block: &mut BlockWriter) -> io::Result<Block> {
    let block = std::mem::take(block);
    let piece = write_piece(file, offset, &block.bytes)?;
    Ok(Block { piece, first_key: block.first_key, entries: block.entries })
}

fn write_piece(file: &mut impl Write, offset: &mut u64, bytes: &[u8]) -> io::Result<Piece> {
    file.write_all(bytes)?;
    let piece = Piece { offset: *offset, length: bytes.len() as u64, checksum: checksum(bytes) };
    *offset += piece.length;
    Ok(piece)
}

fn report(root: &Root, bytes: u64) -> IndexReport {
    let sum = |of: fn(&Section) -> u64| root.sections.iter().map(of).fold(0, u64::saturating_add);
    let rows = sum(|section| section.entries);
    IndexReport { rows, bytes, rows_per_value: rows as f64 / sum(|section| section.distinct).max(1) as f64 }
}

/// Why an index object cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unusable {
    /// It is of another version of the object or of the format.
    #[error("it is stale: {0}")]
    Stale(String),
    /// Its bytes are not those that were written.
    #[error("it is damaged: {0}")]
    Damaged(String),
}

fn damaged(what: impl std::fmt::Display) -> Unusable {
    Unusable::Damaged(what.to_string())
}

/// Result of a search in a part of an object.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// Where the keys are, in no order. Of a Parquet object, rows count from the first one of the
    /// part.
    Positions(Vec<Position>),
    /// More keys than were wanted.
    TooMany,
}

/// An index object of the right version, open for searches.
#[derive(Debug)]
pub(crate) struct IndexFile {
    file: File,
    size: u64,
    root: Root,
    /// Bytes read from it so far.
    pub(crate) bytes_read: u64,
    /// Whether checksums count; only a fuzzer, which could not guess them, looks behind them.
    verified: bool,
}

impl IndexFile {
    /// Opens the file at `path`; `None` if there is none.
    ///
    /// # Errors
    /// [`Unusable`] if it is not an index object of this object, in its version and this format's.
    pub(crate) fn open(path: &Path, identity: &Identity, object: &ObjectEntry) -> Result<Option<Self>, Unusable> {
        let Some(index) = Self::open_any(path)? else {
            return Ok(None);
        };
        if index.root.identity != identity.as_str() {
            return Err(Unusable::Stale(format!("it is an index of {}", index.root.identity)));
        }
        if index.root.object != *object {
            return Err(Unusable::Stale(format!(
                "it is of version {} of {}, which is now {}",
                index.root.object.version, object.path, object.version
            )));
        }
        Ok(Some(index))
    }

    /// Owner of the index object at `path`, if it names one.
    pub(crate) fn owner(path: &Path) -> Option<String> {
        Some(Self::open_any(path).ok()??.root.owner)
    }

    /// Opens the file at `path`, whatever it is an index of; `None` if there is none.
    fn open_any(path: &Path) -> Result<Option<Self>, Unusable> {
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                return Ok(None);
            }
            Err(error) => return Err(damaged(error)),
        };
        Self::parse(file, true).map(Some)
    }

    /// The file as an index object of whatever it says that it is of.
    pub(crate) fn parse(file: File, verified: bool) -> Result<Self, Unusable> {
        let size = file.metadata().map_err(damaged)?.len();
        if size < TAIL_BYTES as u64 {
            return Err(damaged(format!("{size} bytes are too few")));
        }
        let mut index = Self { file, size, root: Root::default(), bytes_read: 0, verified };
        let start = size.saturating_sub(END_BYTES);
        let end = index.read(start..size)?;
        let (before, tail) = end.split_at_checked(end.len() - TAIL_BYTES).unwrap_or((&[], &end));
        let (version, piece) = parse_tail(tail).ok_or_else(|| damaged("it does not end as an index object does"))?;
        if version != FORMAT_VERSION {
            return Err(Unusable::Stale(format!("it is of format {version}, this node writes {FORMAT_VERSION}")));
        }
        let at_hand = piece.offset.checked_sub(start).and_then(|from| {
            let from = usize::try_from(from).ok()?;
            before.get(from..from.checked_add(usize::try_from(piece.length).ok()?)?)
        });
        let root = match at_hand {
            Some(root) => index.checked(root, piece)?.to_vec(),
            None => index.piece(piece)?,
        };
        index.root = Root::decode(root.as_slice()).map_err(damaged)?;
        if index.root.sections.iter().any(|section| section.rows > BITMAP_ROWS_MAX) {
            return Err(damaged("a section has more rows than there can be"));
        }
        Ok(index)
    }

    /// What it says of itself.
    pub(crate) fn report(&self) -> IndexReport {
        report(&self.root, self.size)
    }

    /// Looks for `keys` in `range` of the object, until there are more than `limit`.
    ///
    /// # Errors
    /// [`Unusable`] if what is read is damaged or does not cover the range.
    pub(crate) fn search(&mut self, range: PartitionRange, keys: &KeyRanges, limit: usize) -> Result<Found, Unusable> {
        if keys.len() > limit {
            return Ok(Found::TooMany);
        }
        let mut positions = vec![];
        let mut first_row = 0;
        for section in self.sections(range)? {
            let directory = Directory::decode(self.piece(section.directory)?.as_slice()).map_err(damaged)?;
            for run in &directory.runs {
                let (wanted, certain) = candidates(&run.blocks, keys);
                if certain > limit as u64 || !self.collect(&section, &wanted, keys, limit, &mut positions, first_row)? {
                    return Ok(Found::TooMany);
                }
            }
            first_row = section.rows.saturating_add(first_row);
        }
        if let PartitionRange::Bytes { start, end, .. } = range {
            positions.retain(|position| (start..end).contains(&position.at));
        }
        Ok(Found::Positions(positions))
    }

    /// Rows of the sections in `range`: of a Parquet object, exactly its rows.
    ///
    /// # Errors
    /// As [`IndexFile::search`].
    pub(crate) fn rows(&self, range: PartitionRange) -> Result<u64, Unusable> {
        Ok(self.sections(range)?.iter().map(|section| section.rows).fold(0, u64::saturating_add))
    }

    /// The sections that `range` touches, which together must cover it.
    fn sections(&self, range: PartitionRange) -> Result<Vec<Section>, Unusable> {
        let (row_groups, start, end) = match range {
            PartitionRange::RowGroups { start, end } => (true, u64::from(start), u64::from(end)),
            PartitionRange::Bytes { start, end, .. } => (false, start, end),
        };
        let mut covered = start;
        let mut found = vec![];
        for section in &self.root.sections {
            let here = section.range;
            if here.row_groups == row_groups && here.start < end && start < here.end && here.start <= covered {
                covered = covered.max(here.end);
                found.push(section.clone());
            }
        }
        if covered < end { Err(damaged(format!("it does not cover {range}"))) } else { Ok(found) }
    }

    /// Adds the positions of the keys in `blocks`; `false` if they become more than `limit`.
    fn collect(
        &mut self,
        section: &Section,
        blocks: &[&Block],
        keys: &KeyRanges,
        limit: usize,
        positions: &mut Vec<Position>,
        first_row: u64,
    ) -> Result<bool, Unusable> {
        let with_length = !section.range.row_groups;
        let moved = if with_length { 0 } else { first_row };
        let mut rest = blocks;
        while let Some(first) = rest.first() {
            let start = first.piece.offset;
            let mut end = start;
            let adjacent = rest.iter().take_while(|block| {
                let adjacent = block.piece.offset == end;
                end = block.piece.end();
                adjacent && (end - start <= READ_BYTES_MAX || block.piece.offset == start)
            });
            let count = adjacent.count();
            let (now, later) = rest.split_at_checked(count).unwrap_or((rest, &[]));
            rest = later;
            let bytes = self.read(start..now.last().map_or(start, |block| block.piece.end()))?;
            for block in now {
                let from = (block.piece.offset - start) as usize;
                let bytes = bytes.get(from..from + block.piece.length as usize).unwrap_or_default();
                let take = |key: &[u8], position: Position| {
                    if keys.contain(key) {
                        positions.push(Position { at: position.at.saturating_add(moved), ..position });
                    }
                };
                read_block(self.checked(bytes, block.piece)?, section.base(), with_length, take)
                    .ok_or_else(|| damaged("a block has an entry that is none"))?;
            }
            if positions.len() > limit {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The bytes of a piece, if they are those that were written.
    fn piece(&mut self, piece: Piece) -> Result<Vec<u8>, Unusable> {
        let bytes = self.read(piece.offset..piece.end())?;
        self.checked(&bytes, piece)?;
        Ok(bytes)
    }

    fn read(&mut self, range: Range<u64>) -> Result<Vec<u8>, Unusable> {
        if range.start > range.end || range.end > self.size {
            return Err(damaged(format!("bytes {}..{} are not in {}", range.start, range.end, self.size)));
        }
        let mut bytes = vec![0; (range.end - range.start) as usize];
        self.file.read_exact_at(&mut bytes, range.start).map_err(damaged)?;
        self.bytes_read += bytes.len() as u64;
        Ok(bytes)
    }

    fn checked<'b>(&self, bytes: &'b [u8], piece: Piece) -> Result<&'b [u8], Unusable> {
        if bytes.len() as u64 == piece.length && (!self.verified || checksum(bytes) == piece.checksum) {
            Ok(bytes)
        } else {
            Err(damaged(format!("the checksum of bytes at {} is wrong", piece.offset)))
        }
    }
}

/// The blocks that may hold one of `keys`, and how many entries surely are among these keys: those
/// of blocks within a range, neither its first nor its last.
fn candidates<'a>(blocks: &'a [Block], keys: &KeyRanges) -> (Vec<&'a Block>, u64) {
    let mut wanted: Vec<&Block> = vec![];
    let mut certain = 0;
    let mut taken = 0;
    for (low, high) in keys.bounds() {
        // Equal keys may begin in the block before the first that begins with them.
        let first = blocks.partition_point(|block| block.first_key.as_slice() < low).saturating_sub(1);
        let last = high.map_or(blocks.len(), |high| blocks.partition_point(|block| block.first_key.as_slice() <= high));
        let inside = blocks.get(first.max(taken)..last).unwrap_or_default();
        wanted.extend(inside);
        taken = taken.max(last);
        if let [_, between @ .., _] = inside {
            certain = between.iter().map(|block| block.entries).fold(certain, u64::saturating_add);
        }
    }
    (wanted, certain)
}
