use foldhash::fast::RandomState;
use hashbrown::HashMap;
use thermocline_tables::table::{Budget, Charge, Working, out_of_memory};
use thermocline_types::{Error, Result};

/// Statements that are kept at most.
const STATEMENTS_MAX: usize = 512;
/// Bytes of them where there is no budget.
const BYTES_MAX: u64 = 16 << 20;

/// Prepared statements by their texts, of which the least recently used make room for new ones.
///
/// What is kept is charged by whoever prepared it. A cache has at most one part in 64 of the limit, and keeps nothing
/// while all statements together have more than a sixteenth: caches of idle sessions leave the rest to those that run.
#[derive(Debug)]
pub struct StatementCache<V> {
    entries: HashMap<Box<[u8]>, Entry<V>, RandomState>,
    /// Counts uses, so that the last one of each is known.
    uses: u64,
    /// Bytes of all of them.
    bytes: u64,
}

#[derive(Debug)]
struct Entry<V> {
    value: V,
    bytes: u64,
    used: u64,
}

impl<V> Default for StatementCache<V> {
    fn default() -> Self {
        Self { entries: HashMap::default(), uses: 0, bytes: 0 }
    }
}

impl<V> StatementCache<V> {
    /// The statement of a text.
    pub fn get(&mut self, text: &[u8]) -> Option<&V> {
        self.uses += 1;
        let entry = self.entries.get_mut(text)?;
        entry.used = self.uses;
        Some(&entry.value)
    }

    /// Keeps a statement that takes so many bytes, if there is room for it.
    pub fn keep(&mut self, text: &[u8], value: V, bytes: usize, budget: Option<&Budget>) {
        let bytes = bytes as u64;
        let bytes_max = budget.map_or(BYTES_MAX, |budget| budget.limit() / 64);
        let is_crowded = || budget.is_some_and(|budget| budget.working(Working::Statements) > budget.limit() / 16);
        self.forget(text);
        if bytes > bytes_max {
            return;
        }
        while !self.entries.is_empty()
            && (self.entries.len() >= STATEMENTS_MAX || self.bytes + bytes > bytes_max || is_crowded())
        {
            self.forget_oldest();
        }
        if !is_crowded() {
            self.uses += 1;
            self.entries.insert(text.into(), Entry { value, bytes, used: self.uses });
            self.bytes += bytes;
        }
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.bytes = 0;
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.entries.len()
    }

    fn forget(&mut self, text: &[u8]) {
        if let Some(entry) = self.entries.remove(text) {
            self.bytes -= entry.bytes;
        }
    }

    fn forget_oldest(&mut self) {
        // Few enough to look at all: preparing one takes longer.
        let oldest = self.entries.iter().min_by_key(|(_, entry)| entry.used).map(|(text, _)| text.clone());
        if let Some(oldest) = oldest {
            self.forget(&oldest);
        }
    }
}

/// Charges a statement that is kept.
pub fn charge_statement(bytes: usize, mut charge: Charge) -> Result<Charge> {
    // Exactly, for there may be thousands.
    charge.resize_exactly(bytes).map_err(|full| out_of_memory("prepared statements", full))?;
    match charge.budget().map(|budget| check_statements(budget.working(Working::Statements), budget)) {
        Some(Err(error)) => Err(error),
        _ => Ok(charge),
    }
}

/// Whether statements and procedures may have so many bytes together.
pub fn check_statements(all: u64, budget: &Budget) -> Result<()> {
    let most = budget.share();
    if all > most {
        let message = format!(
            "prepared statements and procedures: {all} bytes would be more than {most}, a quarter of \
             thermocline.row_memory_limit"
        );
        return Err(Error::OutOfMemory(message.into()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_is_forgotten() {
        let budget = Budget::new(64 << 10);
        let mut cache = StatementCache::default();
        for text in [b"a", b"b", b"c"] {
            cache.keep(text, (), 300, Some(&budget));
        }
        assert!(cache.get(b"a").is_some());
        cache.keep(b"d", (), 300, Some(&budget));
        let kept = [b"a", b"b", b"c", b"d"].map(|text| cache.get(text).is_some());
        assert_eq!((kept, cache.bytes), ([true, false, true, true], 900));
        cache.keep(b"a", (), 200, Some(&budget));
        assert_eq!((cache.count(), cache.bytes), (3, 800));
        cache.keep(b"large", (), 2000, Some(&budget));
        assert!(cache.get(b"large").is_none());
        budget.resize_working(Working::Statements, 0, 5000);
        cache.keep(b"e", (), 100, Some(&budget));
        assert_eq!((cache.count(), cache.bytes), (0, 0), "all of them together are too many");
        budget.resize_working(Working::Statements, 5000, 0);
        for number in 0..10_000_u32 {
            cache.keep(&number.to_le_bytes(), (), 0, None);
        }
        assert_eq!(cache.count(), STATEMENTS_MAX);
        cache.clear();
        assert_eq!(cache.count(), 0);
    }
}
