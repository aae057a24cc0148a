use foldhash::fast::RandomState;
use hashbrown::HashMap;
use thermocline_tables::table::{Budget, Charge, Working, out_of_memory};
use thermocline_types::{Error, Result};

/// Limit on cached statements.
const STATEMENTS_MAX: usize = 512;
/// Limit on their bytes without a budget.
const BYTES_MAX: u64 = 16 << 20;

/// LRU cache of prepared statements, by text.
///
/// The caller charges what it caches. A cache holds at most 1/64 of the budget's limit, and nothing while all
/// statements together exceed 1/16, so that caches of idle sessions leave memory to running statements.
#[derive(Debug)]
pub struct StatementCache<V> {
    entries: HashMap<Box<[u8]>, Entry<V>, RandomState>,
    /// Use counter, from which entries take their last use.
    uses: u64,
    /// Bytes of all entries.
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
    /// Returns the statement with this text.
    pub fn get(&mut self, text: &[u8]) -> Option<&V> {
        self.uses += 1;
        let entry = self.entries.get_mut(text)?;
        entry.used = self.uses;
        Some(&entry.value)
    }

    /// Caches a statement of `bytes` bytes if there is room for it.
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

    /// Removes all statements.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.bytes = 0;
    }

    /// Number of statements.
    pub fn count(&self) -> usize {
        self.entries.len()
    }

    fn forget(&mut self, text: &[u8]) {
        if let Some(entry) = self.entries.remove(text) {
            self.bytes -= entry.bytes;
        }
    }

    fn forget_oldest(&mut self) {
        // A linear search over few entries; preparing a statement takes longer.
        let oldest = self.entries.iter().min_by_key(|(_, entry)| entry.used).map(|(text, _)| text.clone());
        if let Some(oldest) = oldest {
            self.forget(&oldest);
        }
    }
}

/// Adjusts the charge of a kept statement to its size, and checks the limit on statements.
pub fn charge_statement(bytes: usize, mut charge: Charge) -> Result<Charge> {
    if charge.bytes() != bytes {
        // Exactly, because there may be thousands.
        charge.resize_exactly(bytes).map_err(|full| out_of_memory("prepared statements", full))?;
    }
    match charge.budget().map(|budget| check_statements(budget.working(Working::Statements), budget)) {
        Some(Err(error)) => Err(error),
        _ => Ok(charge),
    }
}

/// Checks that `all` bytes of statements and procedures are within their share of the budget.
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
