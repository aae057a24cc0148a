//! The live rows of a table in the order of their use (Anti-Caching 2013, section 3.1).

use super::budget::{Budget, Full, Growth};
use super::id_words::IdWords;
use super::tuple_ids::TupleId;

/// What stands for the neighbour of a row at an end. No row has this id.
const NONE: u32 = u32::MAX;
const _: () = assert!(NONE > TupleId::MAX.0);

/// Word of a row that is not in the chain. No link is equal to it: both neighbours of a row would be row 0.
const UNLINKED: u64 = 0;

/// LRU chain: the live rows of a table from the one used least recently to the one used last, doubly linked so that a
/// row moves in constant time.
///
/// ```text
/// word of a row     63      32 31      0
///                   | colder  | hotter |
///
/// cold end: evicted next --hotter--> ... --hotter--> hot end: new, read or written, needed from a block
///           <--colder-- ... <--colder--
/// ```
///
/// The links are beside the rows and not in their headers as in the paper: moving a row changes those of three others,
/// which are hardly ever in a cache, and eight of these words share a line.
///
/// Invariants: `length` rows are linked, and they are met from either end in opposite orders.
#[derive(Debug)]
pub struct Chain {
    links: IdWords,
    cold: u32,
    hot: u32,
    length: usize,
}

#[derive(Debug, Clone, Copy)]
struct Link {
    colder: u32,
    hotter: u32,
}

impl Link {
    fn bits(self) -> u64 {
        u64::from(self.colder) << 32 | u64::from(self.hotter)
    }

    fn from_bits(bits: u64) -> Self {
        Self { colder: (bits >> 32) as u32, hotter: bits as u32 }
    }
}

impl Default for Chain {
    fn default() -> Self {
        Self { links: IdWords::default(), cold: NONE, hot: NONE, length: 0 }
    }
}

impl Chain {
    /// Bytes of the links.
    pub fn bytes(&self) -> usize {
        self.links.bytes()
    }

    /// Number of rows in it.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Makes room for the link of `id`, which it keeps for the row that may come back from a block.
    #[inline]
    pub fn reserve(&mut self, id: TupleId, budget: &Budget, growth: Growth) -> Result<(), Full> {
        self.links.reserve(id, budget, growth)
    }

    /// Whether the row is in it.
    pub fn contains(&self, id: TupleId) -> bool {
        self.link(id.0).is_some()
    }

    /// Adds a row, for which there is room, at the hot end.
    pub fn add_hot(&mut self, id: TupleId) {
        self.leave(id);
        let colder = std::mem::replace(&mut self.hot, id.0);
        self.set(id.0, Link { colder, hotter: NONE });
        match self.link(colder) {
            Some(link) => self.set(colder, Link { hotter: id.0, ..link }),
            None => self.cold = id.0,
        }
        self.length += 1;
    }

    /// Adds a row, for which there is room, at the cold end.
    pub fn add_cold(&mut self, id: TupleId) {
        self.leave(id);
        let hotter = std::mem::replace(&mut self.cold, id.0);
        self.set(id.0, Link { colder: NONE, hotter });
        match self.link(hotter) {
            Some(link) => self.set(hotter, Link { colder: id.0, ..link }),
            None => self.hot = id.0,
        }
        self.length += 1;
    }

    /// Moves a row to the hot end, if it is in the chain.
    pub fn touch(&mut self, id: TupleId) {
        if self.hot != id.0 && self.contains(id) {
            self.add_hot(id);
        }
    }

    /// Takes a row out, if it is in the chain.
    pub fn leave(&mut self, id: TupleId) {
        let Some(Link { colder, hotter }) = self.link(id.0) else { return };
        match self.link(colder) {
            Some(link) => self.set(colder, Link { hotter, ..link }),
            None => self.cold = hotter,
        }
        match self.link(hotter) {
            Some(link) => self.set(hotter, Link { colder, ..link }),
            None => self.hot = colder,
        }
        self.links.set(id, UNLINKED);
        self.length -= 1;
    }

    /// The rows from the cold end.
    pub fn coldest_first(&self) -> impl Iterator<Item = TupleId> {
        let some = |id: u32| (id != NONE).then_some(TupleId(id));
        std::iter::successors(some(self.cold), move |id| self.link(id.0).and_then(|link| some(link.hotter)))
    }

    /// Whether it has as many rows as it says, each between those that say so.
    pub fn is_sound(&self) -> bool {
        let (mut colder, mut rows) = (NONE, 0);
        // A circle would not end.
        for id in self.coldest_first().take(self.length + 1) {
            if self.link(id.0).is_none_or(|link| link.colder != colder) {
                return false;
            }
            (colder, rows) = (id.0, rows + 1);
        }
        colder == self.hot && rows == self.length
    }

    fn link(&self, id: u32) -> Option<Link> {
        self.links.get(TupleId(id)).filter(|word| *word != UNLINKED).map(Link::from_bits)
    }

    fn set(&mut self, id: u32, link: Link) {
        self.links.set(TupleId(id), link.bits());
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;

    #[test]
    fn a_chain_is_what_a_queue_is() {
        for seed in 0..8 {
            println!("seed {seed}");
            let mut rng = StdRng::seed_from_u64(seed);
            let budget = Budget::unlimited();
            let (mut chain, mut model) = (Chain::default(), VecDeque::new());
            for step in 0..20_000 {
                // Row 0 and ends are met often; ids of a second chunk as well.
                let id = TupleId(match step % 10 {
                    0 => rng.random_range(0..3),
                    1 => (1 << 18) + rng.random_range(0..3),
                    _ => rng.random_range(0..200),
                });
                let known = model.iter().position(|known| *known == id);
                match rng.random_range(0..5) {
                    0 | 1 => {
                        known.map(|place| model.remove(place));
                        chain.reserve(id, &budget, Growth::Asked).unwrap();
                        chain.add_hot(id);
                        model.push_back(id);
                    }
                    2 => {
                        known.map(|place| model.remove(place));
                        chain.reserve(id, &budget, Growth::Asked).unwrap();
                        chain.add_cold(id);
                        model.push_front(id);
                    }
                    3 => {
                        chain.touch(id);
                        if let Some(row) = known.and_then(|place| model.remove(place)) {
                            model.push_back(row);
                        }
                    }
                    _ => {
                        chain.leave(id);
                        known.map(|place| model.remove(place));
                    }
                }
                assert_eq!(chain.len(), model.len());
                assert_eq!(chain.contains(id), model.contains(&id));
                if step % 50 == 0 || model.len() < 3 {
                    assert!(chain.is_sound() && chain.coldest_first().eq(model.iter().copied()), "step {step}");
                }
                if step % 3000 == 2999 {
                    // From either end until nothing is left.
                    while let Some(id) = if step % 2 == 0 { model.pop_front() } else { model.pop_back() } {
                        chain.leave(id);
                    }
                    assert!(chain.is_sound() && chain.len() == 0);
                }
            }
            assert_eq!(budget.used(), chain.bytes() as u64);
        }
    }

    #[test]
    fn a_full_budget_refuses_links() {
        let mut chain = Chain::default();
        chain.reserve(TupleId(7), &Budget::new(0), Growth::Asked).unwrap_err();
        assert_eq!(chain.bytes(), 0);
    }
}
