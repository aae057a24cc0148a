//! Damage at every place of a file of blocks: what can be read stays, what is lost is named, and each message has a
//! command that works.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use thermocline_transactions::backup::restore;
use thermocline_transactions::check::Report;
use thermocline_transactions::database::{RestoreTo, Restored, RowEngine, RowSession};
use thermocline_transactions::disk::{Disk, Faults, SimulatedDisk, read_file};
use thermocline_transactions::ids::Sequence;
use thermocline_transactions::types::{Value, ValueRef};
use thermocline_transactions::{Error, Result};

use crate::evicting::{LIMIT, int, open, run, settings, text};

#[path = "common/evicting.rs"]
mod evicting;

const ROWS: i64 = 30_000;

/// First bytes of the first block in a file: its header, and its first row.
const BLOCK: usize = 4096;
const ROW: usize = BLOCK + 28;
/// A byte of a row's text.
const TEXT: usize = ROW + 500;

type Content = BTreeMap<i64, i64>;

/// A database that was closed right after a snapshot, and one in whose log are a few records behind it.
struct Files {
    disk: SimulatedDisk,
    /// The file to be damaged.
    name: String,
    whole: Vec<u8>,
    content: Content,
}

fn create(session: &mut RowSession, options: &str) {
    run(session, &format!("CREATE TABLE t (k BIGINT PRIMARY KEY, n BIGINT NOT NULL, v TEXT NOT NULL){options}"), &[]);
}

fn files(seed: u64, options: &str) -> Files {
    let disk = SimulatedDisk::new(seed, Faults::default());
    let database = open(&disk, LIMIT);
    let mut session = database.session();
    create(&mut session, options);
    for k in 0..ROWS {
        run(&mut session, "INSERT INTO t VALUES ($1, $1, $2)", &[Value::Int(k), text(1000, k)]);
    }
    drop(session);
    database.snapshot().unwrap();
    drop(database);
    let name = disk.list().unwrap().into_iter().find(|name| name.starts_with("blocks-")).unwrap();
    let whole = read_file(&disk, &name, 1 << 30).unwrap();
    Files { disk, name, whole, content: (0..ROWS).map(|k| (k, k)).collect() }
}

impl Files {
    /// The same files on another disk.
    fn copy(&self) -> Self {
        let disk = SimulatedDisk::new(77, Faults::default());
        for name in self.disk.list().unwrap() {
            disk.overwrite(&name, read_file(&self.disk, &name, 1 << 30).unwrap());
        }
        Self { disk, name: self.name.clone(), whole: self.whole.clone(), content: self.content.clone() }
    }

    fn damage(&self, places: &[usize]) {
        let mut bytes = self.whole.clone();
        places.iter().for_each(|at| bytes[*at] ^= 1);
        self.disk.overwrite(&self.name, bytes);
    }

    /// The places of the directories' checksums.
    fn key_areas(&self) -> Vec<usize> {
        let starts = (0..self.whole.len()).step_by(4096).filter(|at| &self.whole[*at..*at + 4] == b"bdir");
        starts.map(|at| at + 8).collect()
    }

    /// Changes rows by key, a record each.
    fn update(&mut self, keys: &[i64]) {
        let database = open(&self.disk, LIMIT);
        let mut session = database.session();
        for key in keys {
            run(&mut session, "UPDATE t SET n = n + 100000 WHERE k = $1", &[Value::Int(*key)]);
            *self.content.get_mut(key).unwrap() += 100_000;
        }
        drop(session);
        drop(database);
    }

    fn restored(&self, to: RestoreTo) -> Result<(SimulatedDisk, Restored)> {
        let (from, into): (Arc<dyn Disk>, _) = (Arc::new(self.disk.clone()), SimulatedDisk::new(5, Faults::default()));
        let before = bytes_of(&self.disk);
        let restored = RowEngine::restore_until(&from, Arc::new(into.clone()), Vec::new(), to, &mut |_| {});
        assert!(bytes_of(&self.disk) == before, "the damaged database is as it was");
        Ok((into, restored?))
    }

    /// Runs the command in a message, word for word.
    fn commanded(&self, message: &str) -> Result<(SimulatedDisk, Restored)> {
        let (_, command) = message.split_once("'thermocline restore DB NEWDB").unwrap_or_else(|| panic!("{message}"));
        let (command, _) = command.split_once('\'').unwrap();
        let mut to = RestoreTo::default();
        let mut words = command.split_whitespace();
        while let Some(word) = words.next() {
            match word {
                "--until" => to.until = Some(Sequence(words.next().unwrap().parse().unwrap())),
                "--lose-rows" => to.loses_rows = true,
                other => panic!("{other}: {message}"),
            }
        }
        self.restored(to)
    }

    fn refused(&self) -> String {
        RowEngine::open(Arc::new(self.disk.clone()), settings(LIMIT)).unwrap_err().to_string()
    }
}

fn bytes_of(disk: &SimulatedDisk) -> Vec<(String, Vec<u8>)> {
    let read = |name: String| (name.clone(), read_file(disk, &name, 1 << 30).unwrap());
    disk.list().unwrap().into_iter().map(read).collect()
}

fn check(disk: &SimulatedDisk) -> Report {
    RowEngine::check(Arc::new(disk.clone()), Vec::new(), &mut |_| {}).unwrap()
}

/// The keys that a check names as those of lost rows.
fn named_keys(report: &Report) -> BTreeSet<i64> {
    let keys = report.problems.iter().filter_map(|problem| Some(problem.split_once("with the key")?.1));
    let keys = keys.map(|keys| keys.trim_start_matches(['s', ' ']));
    keys.flat_map(|keys| keys.split(", ").map(|key| key.trim_matches(['(', ')']).parse().unwrap())).collect()
}

/// Rows read by a scan.
fn scanned(session: &mut RowSession) -> Result<Content> {
    let answer = session.execute("SELECT k, n FROM t WHERE length(v) = 1000", &[])?;
    let int = |row, column| match answer.rows.value(row, column) {
        ValueRef::Int(value) => value,
        other => panic!("{other:?}"),
    };
    Ok((0..answer.rows.len()).map(|row| (int(row, 0), int(row, 1))).collect())
}

/// Rows read by key, and the keys of those that cannot be read.
fn by_keys(session: &mut RowSession, name: &str) -> (Content, BTreeSet<i64>) {
    let (mut rows, mut lost) = (Content::new(), BTreeSet::new());
    for k in 0..ROWS {
        match session.execute("SELECT n, length(v) FROM t WHERE k = $1", &[Value::Int(k)]) {
            Ok(answer) if answer.rows.is_empty() => {}
            Ok(answer) => drop(rows.insert(k, int(&answer))),
            Err(error) => {
                let said = error.to_string();
                assert!(error.sqlstate() == "XX001" && said.contains(name) && said.contains("table \"t\""), "{said}");
                lost.insert(k);
            }
        }
    }
    (rows, lost)
}

fn without(content: &Content, lost: &BTreeSet<i64>) -> Content {
    content.iter().filter(|(key, _)| !lost.contains(key)).map(|(key, value)| (*key, *value)).collect()
}

/// A database with these rows and no others, that is sound, has a backup, and goes on.
#[track_caller]
fn is_whole(disk: &SimulatedDisk, expected: &Content) {
    let report = check(disk);
    assert!(report.is_sound(), "{report}");
    let database = open(disk, LIMIT);
    assert!(scanned(&mut database.session()).unwrap() == *expected);
    let (there, back) = (SimulatedDisk::new(8, Faults::default()), SimulatedDisk::new(9, Faults::default()));
    database.backup(&there).unwrap();
    restore(&there, &back).unwrap();
    run(&mut database.session(), "INSERT INTO t VALUES (-1, 0, 'new') ON CONFLICT DO NOTHING", &[]);
    drop(database);
    assert!(scanned(&mut open(disk, LIMIT).session()).unwrap() == *expected);
    assert!(check(&back).is_sound());
    assert!(scanned(&mut open(&back, LIMIT).session()).unwrap() == *expected);
}

/// The keys of the rows of the first block that these places of it make unreadable.
fn lost_with(files: &Files, places: &[usize]) -> BTreeSet<i64> {
    files.damage(places);
    let lost = named_keys(&check(&files.disk));
    files.disk.overwrite(&files.name, files.whole.clone());
    lost
}

const PARTITIONED: &str = " PARTITION BY (k)";

/// A row is lost, and the log's end needs it: the message names it, its command works, and there is a way on from there.
#[test]
fn a_lost_row_that_the_log_needs() {
    let before = files(1, PARTITIONED);
    for places in [[ROW].as_slice(), &[TEXT], &[BLOCK, TEXT]] {
        let lost = lost_with(&before, places);
        assert_eq!(lost.len(), 1, "{places:?}");
        let key = *lost.first().unwrap();
        let others: Vec<i64> = (0..ROWS).step_by(4000).filter(|k| *k != key).collect();
        let mut files = before.copy();
        files.update(&others);
        let shown = files.content.clone();
        files.update(&[key, others[0]]);
        files.damage(places);

        let database = open(&files.disk, LIMIT);
        let message = database.read_only().unwrap().to_string();
        for part in [&files.name, "table \"t\"", &format!("with the keys ({key})"), "block ", "(UPDATE t SET n = n"] {
            assert!(message.contains(part), "{part}: {message}");
        }
        let (rows, unread) = by_keys(&mut database.session(), &files.name);
        assert!(rows == without(&shown, &lost) && unread == lost);
        drop(database);

        // As it is, with the row that cannot be read.
        let (disk, restored) = files.commanded(&message).unwrap();
        assert_eq!(restored.to_string(), "");
        assert_eq!(named_keys(&check(&disk)), lost);
        let database = open(&disk, LIMIT);
        let mut session = database.session();
        let (rows, unread) = by_keys(&mut session, &files.name);
        assert!(rows == without(&shown, &lost) && unread == lost);
        let said = database.backup(&SimulatedDisk::new(6, Faults::default())).unwrap_err().to_string();
        assert!(said.contains("--lose-rows") && said.contains(&format!("({key})")), "{said}");
        assert_eq!(run(&mut session, "DELETE FROM t WHERE k = $1", &[Value::Int(key)]).affected, 1);
        drop((session, database));
        is_whole(&disk, &without(&shown, &lost));

        // Without it: not further than the log goes without it.
        let all = RestoreTo { until: None, loses_rows: true };
        let said = files.restored(all).unwrap_err().to_string();
        assert!(said.contains("the last log record cannot be reached") && said.contains(&files.name), "{said}");
        let (disk, restored) = files.commanded(&said).unwrap();
        assert_eq!(restored.lost.len(), 1);
        let report = restored.to_string();
        for part in [&format!("1 row of table \"t\" is lost, with the key ({key}): "), &*files.name] {
            assert!(report.contains(part), "{part}: {report}");
        }
        is_whole(&disk, &without(&shown, &lost));

        // With the whole file, nothing is lost.
        files.disk.overwrite(&files.name, files.whole.clone());
        is_whole(&files.disk, &files.content);
    }
}

/// A row is lost that no record needs: the database opens, and all of the log can be restored without it.
#[test]
fn a_lost_row_that_the_log_does_not_need() {
    let mut files = files(2, PARTITIONED);
    let places = [ROW, TEXT + 5000];
    let lost = lost_with(&files, &places);
    assert!(lost.len() >= 2, "{lost:?}");
    let others: Vec<i64> = (0..ROWS).step_by(3000).filter(|k| !lost.contains(k)).collect();
    files.update(&others);
    files.damage(&places);
    let database = open(&files.disk, LIMIT);
    assert_eq!(database.read_only(), None);
    let (rows, unread) = by_keys(&mut database.session(), &files.name);
    assert!(rows == without(&files.content, &lost) && unread == lost);
    let said = scanned(&mut database.session()).unwrap_err().to_string();
    assert!(said.contains(&files.name) && said.contains("table \"t\""), "{said}");
    drop(database);
    let said = check(&files.disk).problems[0].clone();
    let (disk, restored) = files.commanded(&said).unwrap();
    let named: BTreeSet<i64> = restored
        .lost
        .iter()
        .flat_map(|lost| &lost.rows)
        .map(|(_, key)| key.as_ref().unwrap().trim_matches(['(', ')']).parse().unwrap())
        .collect();
    assert_eq!(named, lost);
    is_whole(&disk, &without(&files.content, &lost));
}

/// Bytes that nobody needs: the header of the file, of a block, and keys, which are in the rows as well.
#[test]
fn damage_where_no_row_is_does_no_harm() {
    let mut files = files(3, PARTITIONED);
    files.update(&[5, 17_000]);
    let key_areas = files.key_areas();
    assert!(!key_areas.is_empty());
    for places in [[100].as_slice(), &[BLOCK], &key_areas, &[&key_areas, [BLOCK].as_slice()].concat()] {
        let files = files.copy();
        files.damage(places);
        let report = check(&files.disk);
        assert!(report.is_sound() && report.notes.iter().any(|note| note.contains(&files.name)), "{report}");
        let (disk, restored) = files.restored(RestoreTo::default()).unwrap();
        assert_eq!(restored.lost, []);
        is_whole(&disk, &files.content);
        is_whole(&files.disk, &files.content);
    }
}

/// Keys are lost with their rows: the database does not open, and says so; the rest can be restored.
#[test]
fn lost_keys_of_lost_rows() {
    let mut files = files(4, PARTITIONED);
    let lost = lost_with(&files, &[TEXT]);
    let key = *lost.first().unwrap();
    let places = [files.key_areas(), vec![TEXT]].concat();
    let shown = files.content.clone();
    for needs in [false, true] {
        if needs {
            files.update(&[key]);
        }
        files.damage(&places);
        let said = files.refused();
        for part in ["table \"t\"", &files.name, "1 row there is lost, and its key"] {
            assert!(said.contains(part), "{part}: {said}");
        }
        let restored = files.commanded(&said);
        let (disk, restored) = if needs {
            // Without its key, the record does not find the row.
            let said = restored.unwrap_err().to_string();
            assert!(said.contains("changes other rows than when it ran first"), "{said}");
            files.commanded(&said).unwrap()
        } else {
            restored.unwrap()
        };
        let report = restored.to_string();
        assert!(
            report.starts_with("1 row of table \"t\" is lost, with an unknown key: table \"t\": blocks-"),
            "{report}"
        );
        is_whole(&disk, &without(&shown, &lost));
        files.disk.overwrite(&files.name, files.whole.clone());
    }
}

/// A file that is missing, or ends too early.
#[test]
fn files_that_are_not_all_there() {
    let mut files = files(5, PARTITIONED);
    files.update(&[ROWS - 1, ROWS - 2]);
    for length in
        [None, Some(0), Some(BLOCK), Some(ROW + 2000), Some(files.whole.len() / 2), Some(files.whole.len() - 1)]
    {
        match length {
            None => files.disk.remove(&files.name).unwrap(),
            Some(length) => files.disk.overwrite(&files.name, files.whole[..length].to_vec()),
        }
        let said = files.refused();
        assert!(said.contains("table \"t\"") && said.contains(&files.name), "{length:?}: {said}");
        assert!(check(&files.disk).problems[0].contains(&files.name));
        let (disk, restored) = files.commanded(&said).unwrap();
        let rows: usize = restored.lost.iter().map(|lost| lost.rows.len()).sum();
        let database = open(&disk, LIMIT);
        let left = scanned(&mut database.session()).unwrap();
        drop(database);
        assert_eq!(left.len() + rows, ROWS as usize, "{length:?}");
        assert_eq!(rows > 0, length != Some(files.whole.len() - 1), "{length:?}: {rows}");
        assert!(rows < 1000, "{length:?}: {rows}");
        assert!(left.iter().all(|(key, value)| files.content[key] == *value));
        assert!(rows == 0 || restored.to_string().contains(&files.name), "{restored}");
        is_whole(&disk, &left);
    }
    files.disk.overwrite(&files.name, files.whole.clone());
    is_whole(&files.disk, &files.content);

    // A record that needs one of its rows.
    let before = files.content.clone();
    let key = *lost_with(&files, &[TEXT]).first().unwrap();
    files.update(&[key, ROWS - 3]);
    files.disk.remove(&files.name).unwrap();
    let said = files.commanded(&files.refused()).unwrap_err().to_string();
    assert!(said.contains("(UPDATE t SET n = n"), "{said}");
    let (disk, _) = files.commanded(&said).unwrap();
    let left = scanned(&mut open(&disk, LIMIT).session()).unwrap();
    assert!(left.iter().all(|(key, value)| before[key] == *value) && !left.contains_key(&key));
    is_whole(&disk, &left);
}

/// A block of rows that are in every partition.
#[test]
fn a_lost_row_of_a_replicated_table() {
    let files = files(6, "");
    let lost = lost_with(&files, &[TEXT]);
    assert_eq!(lost.len(), 1);
    files.damage(&[TEXT]);
    let said = files.refused();
    assert!(said.contains("table \"t\"") && said.contains(&files.name), "{said}");
    let (disk, restored) = files.commanded(&said).unwrap();
    assert!(restored.to_string().contains(&format!("({})", lost.first().unwrap())), "{restored}");
    is_whole(&disk, &without(&files.content, &lost));
}

/// Files to which no snapshot refers are not read.
#[test]
fn newer_blocks_are_not_needed() {
    let mut files = files(7, PARTITIONED);
    let there = files.disk.list().unwrap();
    let database = open(&files.disk, LIMIT);
    let mut session = database.session();
    for k in ROWS..ROWS + 10_000 {
        run(&mut session, "INSERT INTO t VALUES ($1, $1, $2)", &[Value::Int(k), text(1000, k)]);
        files.content.insert(k, k);
    }
    drop(session);
    // As after a crash: what the end of the process would remove is there.
    let newer: Vec<_> = bytes_of(&files.disk).into_iter().filter(|(name, _)| !there.contains(name)).collect();
    drop(database);
    let mut damaged = 0;
    for (name, mut bytes) in newer.into_iter().filter(|(name, _)| name.starts_with("blocks-")) {
        bytes.iter_mut().for_each(|byte| *byte ^= 0xff);
        files.disk.overwrite(&name, bytes);
        damaged += 1;
    }
    assert!(damaged > 0);
    assert!(check(&files.disk).is_sound());
    is_whole(&files.restored(RestoreTo::default()).unwrap().0, &files.content);
    is_whole(&files.disk, &files.content);
}

/// A damaged backup is not restored as it is, and can be without the rows that are lost.
#[test]
fn a_damaged_backup() {
    let files = files(8, PARTITIONED);
    let database = open(&files.disk, LIMIT);
    let there = SimulatedDisk::new(11, Faults::default());
    database.backup(&there).unwrap();
    drop(database);
    let copy = Files { disk: there, ..files.copy() };
    let lost = lost_with(&copy, &[TEXT]);
    copy.damage(&[TEXT]);
    let error = restore(&copy.disk, &SimulatedDisk::new(12, Faults::default())).unwrap_err();
    assert!(matches!(error, Error::Corrupt(_)), "{error}");
    let (disk, _) = copy.commanded(&error.to_string()).unwrap();
    is_whole(&disk, &without(&copy.content, &lost));
}
