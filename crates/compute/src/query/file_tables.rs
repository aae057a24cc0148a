//! Tables of files that statements named by their paths, for the next statement that does.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use thermocline_catalog::{ExternalTable, FileReading};

/// Tables that are remembered.
const TABLES_MAX: usize = 256;
/// Bytes of all of them together: descriptions of objects with statistics of their columns.
const BYTES_MAX: usize = 128 << 20;

/// What tells tables of files apart: what is read and how, and how remote storages are spoken to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FilesKey {
    /// What is read, and how.
    pub(crate) reading: FileReading,
    /// Longest wait for a remote storage.
    pub(crate) request_timeout: Duration,
}

/// Tables by their readings, the one used last at the end. They save what has not changed since: inferring columns, and
/// descriptions of objects.
#[derive(Debug)]
pub(super) struct FileTables<T = ExternalTable> {
    tables: VecDeque<Remembered<T>>,
}

#[derive(Debug)]
struct Remembered<T> {
    key: FilesKey,
    table: Arc<T>,
    bytes: usize,
}

impl<T> Default for FileTables<T> {
    fn default() -> Self {
        Self { tables: VecDeque::new() }
    }
}

impl<T> FileTables<T> {
    pub(super) fn get(&self, key: &FilesKey) -> Option<Arc<T>> {
        self.tables.iter().find(|known| known.key == *key).map(|known| Arc::clone(&known.table))
    }

    /// Remembers a table of so many bytes as the one used last, unless it alone has too many. Gives back the tables that
    /// are not remembered any more, which may take long to drop.
    pub(super) fn put(&mut self, key: FilesKey, table: Arc<T>, bytes: usize) -> Vec<Arc<T>> {
        let mut forgotten = vec![];
        if let Some(position) = self.tables.iter().position(|known| known.key == key) {
            let known = self.tables.remove(position).map(|known| known.table);
            forgotten.extend(known.filter(|known| !Arc::ptr_eq(known, &table)));
        }
        if bytes > BYTES_MAX {
            forgotten.push(table);
            return forgotten;
        }
        self.tables.push_back(Remembered { key, table, bytes });
        let mut bytes: usize = self.tables.iter().map(|known| known.bytes).sum();
        while self.tables.len() > TABLES_MAX || bytes > BYTES_MAX {
            let Some(oldest) = self.tables.pop_front() else { break };
            bytes = bytes.saturating_sub(oldest.bytes);
            forgotten.push(oldest.table);
        }
        forgotten
    }
}

#[cfg(test)]
mod tests {
    use thermocline_catalog::{CsvReading, FilePath, FileReader};

    use super::*;

    fn key(path: &str) -> FilesKey {
        FilesKey {
            reading: FileReading::named(FilePath::parse(path).unwrap()),
            request_timeout: Duration::from_secs(1),
        }
    }

    #[test]
    fn readings_of_one_file_with_other_options_are_other_tables() {
        let read = |csv: CsvReading| {
            let FilesKey { reading, request_timeout } = key("/t/a.csv");
            FilesKey { reading: FileReading { reader: FileReader::Csv(csv), ..reading }, request_timeout }
        };
        let csv = CsvReading::default;
        let keys = [
            key("/t/a.csv"),
            read(csv()),
            read(CsvReading { delimiter: Some(b','), ..csv() }),
            read(CsvReading { quote: None, ..csv() }),
            read(CsvReading { escape: Some(b'\\'), ..csv() }),
            read(CsvReading { has_header: Some(true), ..csv() }),
            read(CsvReading { has_header: Some(false), ..csv() }),
            read(CsvReading { null_text: "NA".into(), ..csv() }),
            read(CsvReading { is_all_text: true, ..csv() }),
        ];
        let mut tables = FileTables::default();
        for (number, key) in keys.iter().enumerate() {
            assert!(tables.put(key.clone(), Arc::new(number), 1).is_empty(), "{key:?}");
        }
        for (number, key) in keys.iter().enumerate() {
            assert_eq!(tables.get(key), Some(Arc::new(number)), "{key:?}");
        }
    }

    #[test]
    fn tables_are_remembered_up_to_a_number_and_up_to_their_bytes() {
        let mut tables = FileTables::default();
        for number in 0..TABLES_MAX {
            assert!(tables.put(key(&format!("/t/{number}.csv")), Arc::new(number), 100).is_empty());
        }
        // Used again, it is the last to be forgotten.
        let first = tables.get(&key("/t/0.csv")).unwrap();
        assert!(tables.put(key("/t/0.csv"), first, 100).is_empty());
        assert_eq!(tables.put(key("/t/more.csv"), Arc::new(1000), 100), [Arc::new(1)]);
        assert!(tables.get(&key("/t/1.csv")).is_none() && tables.get(&key("/t/0.csv")).is_some());
        // Another table of the same path.
        assert_eq!(tables.put(key("/t/0.csv"), Arc::new(2000), 100), [Arc::new(0)]);
        // Too large, it takes the place of none but the one before of its path.
        let large = tables.put(key("/t/0.csv"), Arc::new(3000), BYTES_MAX + 1);
        assert_eq!(large, [Arc::new(2000), Arc::new(3000)]);
        assert!(tables.get(&key("/t/0.csv")).is_none() && tables.get(&key("/t/2.csv")).is_some());
        // As large as may be, it is alone.
        assert_eq!(tables.put(key("/t/all.csv"), Arc::new(4000), BYTES_MAX).len(), TABLES_MAX - 1);
        assert_eq!(tables.get(&key("/t/all.csv")), Some(Arc::new(4000)));
        assert_eq!(tables.put(key("/t/next.csv"), Arc::new(5000), 1), [Arc::new(4000)]);
    }
}
