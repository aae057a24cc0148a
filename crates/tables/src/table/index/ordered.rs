//! Ordered sets of byte strings as B+-trees, with fingers at the places of recent inserts.

use std::cmp::Ordering;
use std::ops::Bound;

use super::page::{ENTRY_BYTES_MAX, NONE, PAGE_BYTES, Page, compare, entry_of};
use crate::table::arena::Slots;
use crate::table::budget::{Budget, Full, Growth};

/// Maximum levels of a tree: with four entries to a page, enough for more pages than there can be.
const HEIGHT_MAX: usize = 17;

/// A B+-tree of distinct byte strings, in pages of 4 KiB.
///
/// ```text
///            inner   [ -inf -> A | "k" -> B | "t" -> C ]
///                       |            |          |
///            leaf    A [a c e] <-> B [k m] <-> C [t z]
/// ```
///
/// Invariants: entries ascend within and across leaves; the entries below child i of an inner page are not below its
/// separator, the first of which counts as minus infinity; all leaves are on level 0 and linked both ways; no page but
/// the root is empty. A page is freed when it becomes empty, and not merged with its neighbour before: entries deleted
/// together (a queue's head, an order's lines) were inserted together.
#[derive(Debug)]
pub struct OrderedSet {
    pages: Slots,
    root: u32,
    /// Levels of the tree; 0 while it has no page.
    height: usize,
    entries: usize,
    /// Position after the last inserted entry: the next one is often its neighbour, like the lines of an order.
    finger: Position,
    /// The same per hash of a key's first bytes, mostly its leading columns: orders of a district follow one another,
    /// while orders of other districts come between.
    fingers: [Position; FINGERS],
}

const FINGERS: usize = 64;
/// Leading bytes of a key that choose its finger; a key of no more bytes has none of its own.
const FINGER_BYTES: usize = 8;

/// Finger of an entry whose key has more than [`FINGER_BYTES`] bytes; `None` for others.
#[inline]
fn finger_of(key: &[u8]) -> Option<usize> {
    let (head, rest) = key.split_first_chunk::<FINGER_BYTES>()?;
    // The tuple id follows the columns.
    let hash = u64::from_be_bytes(*head).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - FINGERS.ilog2());
    (rest.len() > size_of::<u32>()).then_some(hash as usize)
}

/// Position before an entry: its page and index; `NONE` after the last entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Position {
    page: u32,
    index: usize,
}

/// Neighbours of a place for an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Beside {
    /// The entry belongs elsewhere.
    Elsewhere,
    /// An entry with the same distinct prefix exists.
    Taken,
    /// The entry belongs here, and no entry has its distinct prefix.
    Free,
}

const END: Position = Position { page: NONE, index: 0 };

/// Path from the root to a leaf: pages and the index taken in each.
struct Path {
    steps: [(u32, usize); HEIGHT_MAX],
    length: usize,
}

impl Path {
    fn push(&mut self, page: u32, index: usize) {
        if let Some(step) = self.steps.get_mut(self.length) {
            *step = (page, index);
            self.length += 1;
        }
    }

    fn pop(&mut self) -> Option<(u32, usize)> {
        self.length = self.length.checked_sub(1)?;
        self.steps.get(self.length).copied()
    }
}

/// Page read in place of one that does not exist.
static NO_PAGE: [u8; PAGE_BYTES] = [0; PAGE_BYTES];

impl OrderedSet {
    /// An empty set.
    pub fn new() -> Self {
        Self { pages: Slots::new(PAGE_BYTES), root: NONE, height: 0, entries: 0, finger: END, fingers: [END; FINGERS] }
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.entries
    }

    /// Bytes of the pages.
    pub fn bytes(&self) -> usize {
        self.pages.bytes()
    }

    #[inline]
    fn page(&self, number: u32) -> Page<&[u8; PAGE_BYTES]> {
        Page(self.pages.get(number).and_then(<[u8]>::first_chunk).unwrap_or(&NO_PAGE))
    }

    fn page_mut(&mut self, number: u32) -> Page<&mut [u8]> {
        Page(self.pages.get_mut(number).unwrap_or(&mut []))
    }

    /// The path to the leaf where `key` belongs, and its position in that leaf.
    fn find(&self, key: &[u8]) -> (Path, Position) {
        let mut path = Path { steps: [(NONE, 0); HEIGHT_MAX], length: 0 };
        let mut number = self.root;
        for _ in 1..self.height {
            let page = self.page(number);
            let index = page.child_index(|separator| compare(separator, key).is_le());
            path.push(number, index);
            number = page.child(index);
        }
        let index = self.page(number).partition_point(0, |entry| compare(entry, key).is_lt());
        path.push(number, index);
        (path, Position { page: number, index })
    }

    /// Checks the neighbours of a finger for an entry whose `prefix` must be unique: whether the entry belongs there,
    /// and whether another one has the prefix.
    #[inline]
    fn beside(&self, finger: Position, prefix: &[u8]) -> Beside {
        let leaf = self.page(finger.page);
        let (index, count) = (finger.index, leaf.count());
        let head = |index: usize| {
            let entry = leaf.entry(index);
            compare(entry.get(..prefix.len()).unwrap_or(entry), prefix)
        };
        if index == 0 || index > count {
            return Beside::Elsewhere;
        }
        match head(index - 1) {
            Ordering::Less => {}
            Ordering::Equal => return Beside::Taken,
            Ordering::Greater => return Beside::Elsewhere,
        }
        if index == count {
            // Entries of the next leaf may come before this one.
            return if leaf.next() == NONE { Beside::Free } else { Beside::Elsewhere };
        }
        match head(index) {
            Ordering::Less => Beside::Elsewhere,
            Ordering::Equal => Beside::Taken,
            Ordering::Greater => Beside::Free,
        }
    }

    /// Position of `key` if it belongs into the finger's leaf and not at an end of it, where it might belong to a
    /// neighbour; the end of the last leaf has none.
    fn find_by_finger(&self, Position { page: number, .. }: Position, key: &[u8]) -> Option<Position> {
        let leaf = Page(self.pages.get(number)?);
        let last = leaf.count().checked_sub(1)?;
        let before = |index: usize| compare(leaf.entry(index), key).is_lt();
        let within = before(0) && !before(last);
        within.then(|| Position { page: number, index: leaf.partition_point(0, |entry| compare(entry, key).is_lt()) })
    }

    /// Whether an entry on either side of a position starts with `prefix`.
    fn is_beside(&self, position: Position, prefix: &[u8]) -> bool {
        let leaf = self.page(position.page);
        let is_one = |entry: &[u8]| entry.get(..prefix.len()).is_some_and(|head| compare(head, prefix).is_eq());
        let behind = if position.index < leaf.count() {
            is_one(leaf.entry(position.index))
        } else {
            leaf.next() != NONE && is_one(self.page(leaf.next()).entry(0))
        };
        let before = match position.index.checked_sub(1) {
            Some(index) => is_one(leaf.entry(index)),
            None if leaf.previous() == NONE => false,
            None => {
                let previous = self.page(leaf.previous());
                is_one(previous.entry(previous.count().saturating_sub(1)))
            }
        };
        behind || before
    }

    /// Adds an entry; returns `false` if an entry with the same first `distinct` bytes exists. Entries are at most
    /// [`ENTRY_BYTES_MAX`] long, less the 4 bytes of a child beside a separator.
    pub fn insert(&mut self, key: &[u8], distinct: usize, budget: &Budget, growth: Growth) -> Result<bool, Full> {
        debug_assert!(key.len() + 4 <= ENTRY_BYTES_MAX, "an entry of {} bytes", key.len());
        if self.height == 0 {
            self.root = self.pages.allocate(budget, growth)?;
            self.height = 1;
            self.page_mut(self.root).clear(0, NONE, NONE);
        }
        let prefix = key.get(..distinct).unwrap_or(key);
        let own = finger_of(key);
        let own_finger = own.and_then(|own| self.fingers.get(own).copied()).unwrap_or(END);
        let mut near = None;
        for finger in [self.finger, own_finger] {
            match self.beside(finger, prefix) {
                Beside::Taken => return Ok(false),
                Beside::Free => {
                    near = Some(finger);
                    break;
                }
                Beside::Elsewhere => {}
            }
        }
        // The finger serves only if there is room: splitting a leaf needs the path from the root.
        let has_room = |at: &Position| self.page(at.page).has_room(key.len());
        let (path, at) = match near.filter(has_room) {
            Some(at) => (None, at),
            None => {
                let within = self.find_by_finger(self.finger, key).filter(has_room);
                let (path, at) = within.map(|at| (None, at)).unwrap_or_else(|| {
                    let (path, at) = self.find(key);
                    (Some(path), at)
                });
                if self.is_beside(at, prefix) {
                    return Ok(false);
                }
                (path, at)
            }
        };
        let at = match path {
            Some(mut path) if !self.page(at.page).has_room(key.len()) => {
                path.pop();
                let mut fresh = self.pages_to_split(&path, budget, growth)?;
                let follows = at == self.finger || at == own_finger;
                let at = self.split(at, key, follows, path, &mut fresh);
                // Short separators may have needed fewer pages than reserved.
                fresh.iter().for_each(|page| self.pages.free(*page, budget));
                at
            }
            _ => {
                self.page_mut(at.page).insert(at.index, key, &[]);
                at
            }
        };
        self.finger = Position { index: at.index + 1, ..at };
        if let Some(finger) = own.and_then(|own| self.fingers.get_mut(own)) {
            *finger = self.finger;
        }
        self.entries += 1;
        Ok(true)
    }

    /// As many new pages as splitting the leaf below the pages of `path` may take.
    fn pages_to_split(&mut self, path: &Path, budget: &Budget, growth: Growth) -> Result<Vec<u32>, Full> {
        let above = path.steps.iter().take(path.length).rev();
        // A separator is at most as long as an entry; a page with room for the longest is not split.
        let full = above.take_while(|(page, _)| !self.page(*page).has_room(ENTRY_BYTES_MAX)).count();
        let root = usize::from(full == path.length);
        let mut fresh = Vec::with_capacity(full + root + 1);
        for _ in 0..full + root + 1 {
            match self.pages.allocate(budget, growth) {
                Ok(page) => fresh.push(page),
                Err(error) => {
                    fresh.iter().for_each(|page| self.pages.free(*page, budget));
                    return Err(error);
                }
            }
        }
        Ok(fresh)
    }

    /// Splits a leaf while inserting an entry, and returns the entry's position.
    fn split(&mut self, at: Position, key: &[u8], follows: bool, path: Path, fresh: &mut Vec<u32>) -> Position {
        let Some(right) = fresh.pop() else { return at };
        let left = self.split_page(at.page, right, at.index, [key, &[]], follows);
        self.enter_page(right, path, fresh);
        match at.index.checked_sub(left) {
            Some(index) => Position { page: right, index },
            None => at,
        }
    }

    /// Enters a new page into the pages above, after the last of the path.
    fn enter_page(&mut self, mut right: u32, mut path: Path, fresh: &mut Vec<u32>) {
        let mut separator = self.page(right).entry(0).to_vec();
        let mut level = 0;
        loop {
            level += 1;
            let child = right.to_le_bytes();
            let Some((parent, at)) = path.pop() else {
                let Some(root) = fresh.pop() else { return };
                let old = self.root;
                let mut page = self.page_mut(root);
                page.clear(level, NONE, NONE);
                page.insert(0, &old.to_le_bytes(), &[]);
                page.insert(1, &child, &separator);
                self.root = root;
                self.height += 1;
                return;
            };
            if self.page(parent).has_room(4 + separator.len()) {
                self.page_mut(parent).insert(at + 1, &child, &separator);
                return;
            }
            let Some(next) = fresh.pop() else { return };
            self.split_page(parent, next, at + 1, [&child, &separator], false);
            right = next;
            separator = self.page(right).separator(0).to_vec();
        }
    }

    /// Splits `left` while inserting an entry before `index`, which [follows](Page::split) the previous insertion or
    /// not; `right` is a new page. Returns the number of entries in `left`.
    fn split_page(&mut self, left: u32, right: u32, index: usize, entry: [&[u8]; 2], follows: bool) -> usize {
        let Some(copy) = self.pages.get(left).and_then(|bytes| <[u8; PAGE_BYTES]>::try_from(bytes).ok()) else {
            return 0;
        };
        let mut copy = Page(copy);
        let next = copy.next();
        let level = copy.level();
        let mut page = self.page_mut(right);
        page.clear(level, left, next);
        let entries = copy.split(&mut page, index, entry, follows);
        if level == 0 {
            copy.set_next(right);
            if next != NONE {
                self.page_mut(next).set_previous(right);
            }
        }
        self.page_mut(left).0.copy_from_slice(&copy.0);
        entries
    }

    /// Removes an entry; returns `false` if it is not there.
    pub fn remove(&mut self, key: &[u8], budget: &Budget) -> bool {
        if self.height == 0 {
            return false;
        }
        let (mut path, Position { page: leaf, index }) = self.find(key);
        if index == self.page(leaf).count() || self.page(leaf).entry(index) != key {
            return false;
        }
        path.pop();
        self.page_mut(leaf).remove(index);
        self.entries -= 1;
        if self.page(leaf).count() == 0 {
            self.drop_page(leaf, path, budget);
        }
        true
    }

    /// Unlinks and frees an empty leaf, and the inner pages that become empty.
    fn drop_page(&mut self, leaf: u32, mut path: Path, budget: &Budget) {
        let (previous, next) = (self.page(leaf).previous(), self.page(leaf).next());
        (self.finger, self.fingers) = (END, [END; FINGERS]);
        let mut empty = leaf;
        while let Some((parent, at)) = path.pop() {
            if empty == leaf {
                if previous != NONE {
                    self.page_mut(previous).set_next(next);
                }
                if next != NONE {
                    self.page_mut(next).set_previous(previous);
                }
            }
            self.pages.free(empty, budget);
            self.page_mut(parent).remove(at);
            empty = parent;
            if self.page(parent).count() > 0 {
                break;
            }
        }
        if self.page(empty).count() == 0 && empty == self.root {
            self.pages.free(empty, budget);
            self.root = NONE;
            self.height = 0;
        }
        while self.height > 1 && self.page(self.root).count() == 1 {
            let child = self.page(self.root).child(0);
            self.pages.free(self.root, budget);
            self.root = child;
            self.height -= 1;
        }
    }

    /// Position before the first entry for which `before` does not hold. `before` must hold for no later entry.
    #[inline]
    fn seek(&self, before: impl Fn(&[u8]) -> bool) -> Position {
        if self.height == 0 {
            return END;
        }
        let mut number = self.root;
        for _ in 1..self.height {
            let page = self.page(number);
            number = page.child(page.child_index(&before));
        }
        let page = self.page(number);
        let index = page.partition_point(0, before);
        if index < page.count() { Position { page: number, index } } else { Position { page: page.next(), index: 0 } }
    }

    fn last_leaf(&self) -> u32 {
        let mut number = self.root;
        for _ in 1..self.height {
            let page = self.page(number);
            number = page.child(page.count().saturating_sub(1));
        }
        number
    }

    /// The first entry with this prefix.
    #[inline]
    pub fn first_with(&self, prefix: &[u8]) -> Option<&[u8]> {
        let position = self.seek(|entry| compare(entry, prefix).is_lt());
        if position == END {
            return None;
        }
        let entry = self.pages.get(position.page).map(|bytes| entry_of(bytes, position.index))?;
        entry.starts_with(prefix).then_some(entry)
    }

    /// Entries between two bounds, in order. A bound stands for all entries with that prefix: `Included` includes them,
    /// `Excluded` excludes them.
    pub fn range(&self, from: Bound<&[u8]>, to: Bound<&[u8]>) -> Range<'_> {
        let start = match from {
            Bound::Unbounded => self.seek(|_| false),
            Bound::Included(from) => self.seek(|entry| compare(entry, from).is_lt()),
            Bound::Excluded(from) => self.seek(|entry| compare(entry, from).is_lt() || entry.starts_with(from)),
        };
        let end = match to {
            Bound::Unbounded => END,
            Bound::Included(to) => self.seek(|entry| compare(entry, to).is_lt() || entry.starts_with(to)),
            Bound::Excluded(to) => self.seek(|entry| compare(entry, to).is_lt()),
        };
        let crossed = match (from, to) {
            (Bound::Included(from), Bound::Excluded(to)) => from >= to,
            (Bound::Included(from), Bound::Included(to)) => from > to && !from.starts_with(to),
            (Bound::Excluded(from), Bound::Included(to)) if from != to && from.starts_with(to) => false,
            (Bound::Excluded(from), Bound::Included(to) | Bound::Excluded(to)) => from >= to || to.starts_with(from),
            _ => false,
        };
        if crossed {
            return Range { set: self, start: END, end: END };
        }
        Range { set: self, start, end }
    }
}

/// Entries of an [`OrderedSet`] from either end.
#[derive(Debug, Clone)]
pub struct Range<'a> {
    set: &'a OrderedSet,
    start: Position,
    end: Position,
}

impl<'a> Iterator for Range<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        if self.start == self.end {
            return None;
        }
        let bytes = self.set.pages.get(self.start.page)?;
        let entry = entry_of(bytes, self.start.index);
        self.start.index += 1;
        let page = Page(bytes);
        if self.start.index >= page.count() {
            self.start = Position { page: page.next(), index: 0 };
        }
        Some(entry)
    }
}

impl DoubleEndedIterator for Range<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        if self.start == self.end {
            return None;
        }
        if self.end.index == 0 {
            let page = if self.end == END { self.set.last_leaf() } else { self.set.page(self.end.page).previous() };
            self.end = Position { page, index: self.set.page(page).count() };
        }
        self.end.index = self.end.index.checked_sub(1)?;
        Some(entry_of(self.set.pages.get(self.end.page)?, self.end.index))
    }
}

#[cfg(test)]
mod tests;
