//! Messages about unusable databases and scripts, after which nothing is lost.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::support::program::{BINARY, error, output, rows, text};

const TABLE: &str = "CREATE TABLE k (k BIGINT PRIMARY KEY, s TEXT); INSERT INTO k VALUES (1, 'one');";
const COUNT: &str = "SELECT count(*) AS n FROM k";

fn thermocline(arguments: &[&str]) -> Output {
    Command::new(BINARY).args(arguments).output().unwrap()
}

fn check(database: &Path) -> Output {
    thermocline(&["check", database.to_str().unwrap()])
}

/// Checks that the text has all of these parts.
fn says(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{text}\nwithout {part}");
    }
}

/// The files of the log.
fn logs(database: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(database.join("rows")).unwrap().map(|entry| entry.unwrap().path());
    let logs: Vec<_> = files.filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with("log-")).collect();
    assert!(!logs.is_empty());
    logs
}

/// Checks that opening and checking both fail with all of these parts.
fn refused(database: &Path, parts: &[&str]) {
    says(&error(Some(database), "SELECT 1"), parts);
    let checked = check(database);
    assert_eq!(checked.status.code(), Some(1));
    says(&(text(&checked.stdout) + &text(&checked.stderr)), parts);
}

/// Checks that reading works with all of these parts in the notice, that writing fails with them, and so does checking,
/// and that no file changes.
fn read_only(database: &Path, query: &str, expected: &str, parts: &[&str]) {
    let files = || {
        let files = fs::read_dir(database.join("rows")).unwrap().map(|entry| entry.unwrap().path());
        let mut files: Vec<_> = files.filter(|path| path.file_name().unwrap() != "lock").collect();
        files.sort();
        files.into_iter().map(|path| (fs::read(&path).unwrap(), path)).collect::<Vec<_>>()
    };
    let before = files();
    let parts = [parts, &["the database is read-only", "thermocline restore DB NEWDB --until "]].concat();
    let shown = output(Some(database), &[], query);
    assert_eq!((shown.status.code(), text(&shown.stdout).as_str()), (Some(0), expected), "{}", text(&shown.stderr));
    says(&text(&shown.stderr), &[&parts[..], &[database.to_str().unwrap()]].concat());
    for write in ["DELETE FROM k", "CREATE TABLE l (l BIGINT PRIMARY KEY)", "INSERT INTO k SELECT 7, 'seven'"] {
        let refused = error(Some(database), write);
        says(refused.split_once("error: ").unwrap().1, &parts);
    }
    let checked = check(database);
    assert_eq!(checked.status.code(), Some(1));
    says(&(text(&checked.stdout) + &text(&checked.stderr)), &["damaged"]);
    assert!(files() == before, "a file was changed");
}

#[test]
fn checks_look_at_settings() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("db");
    assert!(output(Some(&database), &[], "ALTER DATABASE SET cache_policy = 'lru'").status.success());
    assert!(check(&database).status.success());
    let settings = database.join("settings.sql");
    let written = fs::read_to_string(&settings).unwrap();
    // A trace may be on another machine.
    fs::write(&settings, written.replace("'lru'", "'belady:gone.trace'")).unwrap();
    assert!(check(&database).status.success());
    fs::write(&settings, written.replace("'lru'", "'most recent'")).unwrap();
    refused(&database, &["settings.sql", "most recent"]);
}

#[test]
fn a_file_is_no_database() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    says(&error(Some(&file), "SELECT 1"), &["it is a file", file.to_str().unwrap()]);
    says(&error(Some(&file.join("db")), "SELECT 1"), &["file/db"]);

    let database = folder.path().join("db");
    fs::create_dir(&database).unwrap();
    fs::write(database.join("rows"), "").unwrap();
    says(&error(Some(&database), TABLE), &["db/rows", "not a directory"]);
    says(&text(&check(&folder.path().join("nothing")).stderr), &["nothing", "does not exist"]);
}

#[test]
fn a_directory_that_may_not_be_written() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("db");
    rows(Some(&database), TABLE);
    let files = || {
        let below = fs::read_dir(database.join("rows")).unwrap().chain(fs::read_dir(&database).unwrap());
        below.map(|entry| entry.unwrap().path()).chain([database.clone(), folder.path().to_owned()])
    };
    let allow = |write: u32| {
        files().for_each(|path| {
            let execute = if path.is_dir() { 0o111 } else { 0 };
            fs::set_permissions(path, Permissions::from_mode(0o444 | write | execute)).unwrap();
        });
    };
    allow(0);
    let mut command = Command::new(BINARY);
    command.arg("sql").arg(&database).args(["-c", COUNT]);
    // Root may write everywhere, so another user tries in that case.
    if fs::metadata(folder.path()).unwrap().uid() == 0 {
        command.uid(65_534).gid(65_534);
    }
    let done = command.output().unwrap();
    assert_eq!(done.status.code(), Some(1));
    says(&text(&done.stderr), &[database.to_str().unwrap(), "permission denied"]);
    allow(0o200);
    assert_eq!(rows(Some(&database), COUNT), "n\n1\n");
}

#[test]
fn files_of_a_newer_version() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("db");
    rows(Some(&database), TABLE);
    let log = logs(&database).remove(0);
    let bytes = fs::read(&log).unwrap();
    let mut newer = bytes.clone();
    newer[8] = 9;
    fs::write(&log, newer).unwrap();
    let failed = error(Some(&database), COUNT);
    says(&failed, &[database.to_str().unwrap(), "log-", "version 9", "newer than this program"]);
    fs::write(&log, bytes).unwrap();

    let mark = database.join("rows.id");
    let before = fs::read_to_string(&mark).unwrap();
    fs::write(&mark, before.replace("version 2", "version 7")).unwrap();
    refused(&database, &[mark.to_str().unwrap(), "version 7", "newer than this program"]);
    fs::write(&mark, before).unwrap();
    assert_eq!(rows(Some(&database), COUNT), "n\n1\n");
}

#[test]
fn row_tables_that_are_gone_are_missed() {
    let folder = tempfile::tempdir().unwrap();
    let (database, aside) = (folder.path().join("db"), folder.path().join("aside"));
    let (rows_of, mark) = (database.join("rows"), database.join("rows.id"));
    let name = |path: &Path| path.to_str().unwrap().to_owned();
    rows(Some(&database), "CREATE VIEW v AS SELECT 1 AS one");
    assert!(!mark.exists(), "there are no row tables");
    rows(Some(&database), TABLE);
    let marked = fs::read(&mark).unwrap();

    fs::rename(&rows_of, &aside).unwrap();
    let parts = [&name(&rows_of), "is missing", "Put back", "thermocline restore", &name(&mark)];
    refused(&database, &parts);
    assert!(!rows_of.exists(), "what is refused changes nothing");
    fs::create_dir(&rows_of).unwrap();
    refused(&database, &["rows/control is missing", &name(&mark)]);
    // Those of another database.
    let other = folder.path().join("other");
    rows(Some(&other), &format!("{TABLE} INSERT INTO k VALUES (2, 'two');"));
    fs::remove_dir_all(&rows_of).unwrap();
    fs::rename(other.join("rows"), &rows_of).unwrap();
    refused(&database, &[&name(&rows_of), "is of database", "not of"]);
    fs::remove_dir_all(&rows_of).unwrap();
    fs::rename(&aside, &rows_of).unwrap();
    assert_eq!(rows(Some(&database), COUNT), "n\n1\n");

    // The log alone; a backup leaves a snapshot.
    let backup = folder.path().join("backup");
    rows(Some(&database), &format!("BACKUP TO '{}'; INSERT INTO k VALUES (2, 'two')", backup.display()));
    rows(Some(&database), "INSERT INTO k VALUES (3, 'three')");
    fs::create_dir(&aside).unwrap();
    let mut logs = logs(&database);
    logs.sort();
    let kept = |file: &Path| aside.join(file.file_name().unwrap());
    let put_aside = |file: &PathBuf| fs::rename(file, kept(file)).unwrap();
    let put_back = |file: &PathBuf| fs::rename(kept(file), file).unwrap();
    let newest = logs.last().unwrap().clone();
    let missing = ["the end of the log is missing", "control says", newest.file_name().unwrap().to_str().unwrap()];
    assert!(logs.len() > 1);
    put_aside(&newest);
    read_only(&database, COUNT, "n\n2\n", &missing);
    logs.iter().filter(|log| **log != newest).for_each(put_aside);
    read_only(&database, COUNT, "n\n1\n", &[&missing[..], &["there is none"]].concat());
    // Without its control file it would be a backup.
    let control = rows_of.join("control");
    put_aside(&control);
    refused(&database, &["rows/control is missing", "Put back", &name(&mark)]);
    logs.iter().chain([&control]).for_each(put_back);
    assert_eq!(rows(Some(&database), COUNT), "n\n3\n");
    assert_eq!(fs::read(&mark).unwrap(), marked, "it is written once");

    // A user who gives up the row tables goes on without them.
    fs::remove_dir_all(&rows_of).unwrap();
    fs::remove_file(&mark).unwrap();
    assert_eq!(rows(Some(&database), "SHOW TABLES; SELECT one FROM v"), "table_name,table_type\nv,VIEW\none\n1\n");
}

#[test]
fn what_one_definition_misses_keeps_nobody_from_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let (database, objects, aside) = (folder.path().join("db"), folder.path().join("t"), folder.path().join("aside"));
    fs::create_dir(&objects).unwrap();
    let copy = "COPY (SELECT value AS i FROM generate_series(1, 10)) TO";
    rows(None, &format!("{copy} '{}/t.parquet' STORED AS PARQUET", objects.display()));
    let external = |name: &str| {
        format!("CREATE EXTERNAL TABLE {name} (i BIGINT) STORED AS PARQUET LOCATION '{}';", objects.display())
    };
    let views = "CREATE VIEW v AS SELECT count(*) AS n FROM t; CREATE VIEW w AS SELECT count(*) AS n FROM k;";
    rows(Some(&database), &format!("{TABLE} {} CREATE INDEX t_i ON t (i); {views}", external("t")));

    fs::rename(&objects, &aside).unwrap();
    let opened = output(Some(&database), &[], "SELECT n FROM w");
    assert_eq!(text(&opened.stdout), "n\n1\n", "{}", text(&opened.stderr));
    says(&text(&opened.stderr), &["t is left out", "v is left out", objects.to_str().unwrap()]);
    for query in ["SELECT * FROM t", "SELECT * FROM v"] {
        says(&error(Some(&database), query), &["could not be restored", objects.to_str().unwrap()]);
    }
    says(&rows(Some(&database), ".schema t"), &["CREATE EXTERNAL TABLE t", "CREATE INDEX t_i"]);
    says(&rows(Some(&database), ".schema"), &["CREATE TABLE k", "CREATE EXTERNAL TABLE t", "CREATE VIEW v", "VIEW w"]);
    says(&error(Some(&database), "CREATE TABLE t (k INT PRIMARY KEY)"), &["already"]);
    says(
        &error(Some(&database), "CREATE EXTERNAL TABLE t STORED AS CSV LOCATION '/tmp'"),
        &["t could not be restored"],
    );
    // The catalog is rewritten and complete.
    rows(Some(&database), "CREATE VIEW x AS SELECT 1 AS one");
    fs::rename(&aside, &objects).unwrap();
    let all = "SELECT one, v.n, w.n AS m FROM x, v, w; SELECT index_name FROM system.indexes";
    assert_eq!(rows(Some(&database), all), "one,n,m\n1,10,1\nindex_name\nt_i\n");

    rows(Some(&database), "DROP TABLE k");
    assert_eq!(rows(Some(&database), "SELECT n FROM v"), "n\n10\n");
    says(&error(Some(&database), "SELECT * FROM w"), &["w could not be restored", "k"]);
    rows(Some(&database), TABLE);
    assert_eq!(rows(Some(&database), "SELECT n FROM w"), "n\n1\n");
    rows(Some(&database), "DROP TABLE k");
    rows(Some(&database), "DROP VIEW w");
    assert_eq!(rows(Some(&database), "SHOW TABLES").lines().count(), 1 + 3);

    fs::rename(&objects, &aside).unwrap();
    rows(Some(&database), "DROP TABLE t; DROP VIEW v");
    assert_eq!(rows(Some(&database), "SHOW TABLES"), "table_name,table_type\nx,VIEW\n");
}

#[test]
fn a_restored_backup_is_missed_too() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let (database, backup, again) = (path("db"), path("backup"), path("again"));
    rows(Some(&database), &format!("{TABLE} BACKUP TO '{}'", backup.display()));
    let restored = || thermocline(&["restore", backup.to_str().unwrap(), again.to_str().unwrap()]);
    assert!(restored().status.success());
    fs::rename(again.join("rows"), path("aside")).unwrap();
    refused(&again, &["again/rows", "is missing"]);
    fs::rename(path("aside"), again.join("rows")).unwrap();
    // There is no log before the first write, and there must be one afterwards.
    assert_eq!(rows(Some(&again), COUNT), "n\n1\n");
    assert_eq!(rows(Some(&again), &format!("INSERT INTO k VALUES (2, 'two'); {COUNT}")), "n\n2\n");
    logs(&again).iter().for_each(|log| fs::remove_file(log).unwrap());
    read_only(&again, COUNT, "n\n1\n", &["the end of the log is missing", "there is none"]);

    let empty = path("empty");
    says(&error(Some(&empty), &format!("BACKUP TO '{}'", path("b").display())), &["nothing to back up"]);
    let missing = thermocline(&["restore", path("nothing").to_str().unwrap(), path("x").to_str().unwrap()]);
    says(&text(&missing.stderr), &["nothing", "no such directory"]);
    fs::remove_dir_all(&again).unwrap();
    // A damaged backup restores nothing, instead of a part.
    let snapshot = fs::read_dir(backup.join("rows")).unwrap().map(|entry| entry.unwrap().path());
    let largest = snapshot.max_by_key(|path| (path.to_str().unwrap().contains("rows-"), path.clone())).unwrap();
    let mut bytes = fs::read(&largest).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&largest, &bytes).unwrap();
    assert_eq!(restored().status.code(), Some(1));
    assert!(!again.join("rows").exists() && !again.join("rows.id").exists());
    bytes[middle] ^= 1;
    fs::write(&largest, &bytes).unwrap();
    assert!(restored().status.success(), "{}", text(&restored().stderr));
    assert_eq!(rows(Some(&again), COUNT), "n\n1\n");
}

#[test]
fn a_damaged_log_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("db");
    rows(Some(&database), TABLE);
    let log = logs(&database).remove(0);
    let bytes = fs::read(&log).unwrap();
    let log_name = log.file_name().unwrap().to_str().unwrap();
    let place = |what: &str| bytes.windows(what.len()).position(|window| window == what.as_bytes()).unwrap();
    let damage = |place: usize| {
        let mut damaged = bytes.clone();
        damaged[place] ^= 1;
        fs::write(&log, &damaged).unwrap();
    };
    // Inside of a literal.
    damage(place("'one'") + 2);
    read_only(&database, COUNT, "n\n0\n", &[log_name, "offset", "a log record is damaged", "state of log record 1"]);
    let again = folder.path().join("again");
    let restore =
        |until: &str| thermocline(&["restore", database.to_str().unwrap(), again.to_str().unwrap(), "--until", until]);
    let failed = restore("2");
    assert_eq!((failed.status.code(), again.join("rows").exists()), (Some(1), false));
    says(&text(&failed.stderr), &["log record 2 cannot be reached", log_name, "that of record 1"]);
    let restored = restore("1");
    assert!(restored.status.success(), "{}", text(&restored.stderr));
    assert_eq!(rows(Some(&again), "INSERT INTO k VALUES (5, 'five'); SELECT k, s FROM k"), "k,s\n5,five\n");
    assert_eq!(rows(Some(&again), COUNT), "n\n1\n");
    assert!(check(&again).status.success());
    says(&text(&restore("1").stderr), &["is in the way"]);

    // Before that there is nothing to show.
    damage(place("CREATE TABLE k"));
    let failed = error(Some(&database), COUNT);
    says(&failed, &[database.to_str().unwrap(), log_name, "offset", "damaged", "thermocline check"]);
    fs::write(&log, &bytes).unwrap();
    assert_eq!(rows(Some(&database), COUNT), "n\n1\n");

    // From an undamaged database, including its external tables.
    rows(Some(&database), "UPDATE k SET s = 'changed'; CREATE VIEW v AS SELECT s FROM k");
    fs::remove_dir_all(&again).unwrap();
    assert!(restore("2").status.success());
    assert_eq!(rows(Some(&again), "SELECT s FROM v"), "s\none\n");
    says(&text(&restore("99").stderr), &["is in the way"]);
    fs::remove_dir_all(&again).unwrap();
    says(&text(&restore("99").stderr), &["there is no log record 99: the last one is 3"]);
    assert_eq!(rows(Some(&database), "SELECT s FROM v"), "s\nchanged\n");
}

/// Row tables in every released format, kept by the engine's tests.
#[test]
fn row_tables_of_earlier_formats_open() {
    let formats = Path::new(env!("CARGO_MANIFEST_DIR")).join("../transactions/tests/formats");
    for format in fs::read_dir(formats).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()) {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("db");
        fs::create_dir_all(database.join("rows")).unwrap();
        for file in fs::read_dir(format.join("rows")).unwrap().map(Result::unwrap) {
            fs::copy(file.path(), database.join("rows").join(file.file_name())).unwrap();
        }
        let opened = output(Some(&database), &[], "SELECT count(*) AS n, sum(balance) AS s FROM accounts");
        assert_eq!(text(&opened.stdout), "n,s\n7,1000136.85\n", "{}{}", format.display(), text(&opened.stderr));
        assert_eq!(text(&opened.stderr), "", "{}", format.display());
        rows(Some(&database), "CALL transfer(1, 2, 0.25); INSERT INTO late VALUES ('new', 1)");
        let taken = "SELECT failed_total, error, last_record FROM system.snapshots";
        assert_eq!(rows(Some(&database), taken).lines().count(), 2);
        assert!(check(&database).status.success());
    }
}

#[test]
fn a_failed_snapshot_is_shown_and_told() {
    let folder = tempfile::tempdir().unwrap();
    let (database, backup) = (folder.path().join("db"), folder.path().join("backup"));
    rows(Some(&database), TABLE);
    let shown = "SELECT taken_total, failed_total, error FROM system.snapshots";
    assert_eq!(rows(Some(&database), shown), "taken_total,failed_total,error\n0,0,\n");
    // The log has the statement, and the snapshot the rows.
    let insert =
        "INSERT INTO k SELECT value, 'x' FROM generate_series(1000, 1400); UPDATE k SET s = repeat('x', 30000)";
    rows(Some(&database), insert);
    let to = format!("BACKUP TO '{}'", backup.display());
    let failed = limited(1024, &["sql", database.to_str().unwrap(), "-c", &to]);
    says(&text(&failed.stderr), &["a snapshot of the row tables failed", "cannot write to", "snapshot-"]);
    rows(Some(&database), &to);
    let taken =
        rows(Some(&database), &format!("DELETE FROM k WHERE k = 1; BACKUP TO '{0}2'; {shown}", backup.display()));
    assert_eq!(taken, "taken_total,failed_total,error\n1,0,\n");
}

/// Runs the program with a limit of this many KiB on file sizes.
fn limited(kib: u32, arguments: &[&str]) -> Output {
    let script = format!("ulimit -f {kib}; exec \"$0\" \"$@\"");
    Command::new("bash").args(["-c", &script, BINARY]).args(arguments).output().unwrap()
}

#[test]
fn a_full_disk_loses_nothing_that_was_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("db");
    let name = database.to_str().unwrap();
    let inserts: Vec<String> =
        (0..200).map(|k| format!("INSERT INTO k VALUES ({k}, repeat('{k} ', 500)) RETURNING k")).collect();
    rows(Some(&database), "CREATE TABLE k (k BIGINT PRIMARY KEY, s TEXT)");
    let full = limited(16, &["sql", name, "--format", "csv", "-c", &inserts.join(";")]);
    assert_eq!(full.status.code(), Some(1), "{}", text(&full.stderr));
    says(&text(&full.stderr), &["cannot write to", "rows/log-", "larger than"]);
    let printed = text(&full.stdout);
    let told: Vec<&str> = printed.lines().filter(|line| *line != "k").collect();
    assert!(told.len() > 10 && told.len() < 200, "{}", told.len());
    // One more may be there, if it was written before the process ended.
    let kept = rows(Some(&database), "SELECT k FROM k ORDER BY k");
    let kept: Vec<&str> = kept.lines().skip(1).collect();
    assert!(kept.starts_with(&told) && kept.len() <= told.len() + 1, "{kept:?}");
    let checked = check(&database);
    assert!(checked.status.success(), "{}{}", text(&checked.stdout), text(&checked.stderr));

    let backup = folder.path().join("backup");
    let to = format!("BACKUP TO '{}'", backup.display());
    rows(Some(&database), "INSERT INTO k SELECT value, repeat('x', 1000) FROM generate_series(1000, 1400)");
    let full = limited(64, &["sql", name, "-c", &to]);
    assert_eq!(full.status.code(), Some(1));
    says(&text(&full.stderr), &["cannot write to", "larger than"]);
    assert!(!backup.exists(), "half a backup is none");
    rows(Some(&database), &to);
    let again = folder.path().join("again");
    let restore = ["restore", backup.to_str().unwrap(), again.to_str().unwrap()];
    let full = limited(64, &restore);
    assert_eq!(full.status.code(), Some(1), "{}", text(&full.stderr));
    assert!(!again.join("rows").exists());
    assert!(thermocline(&restore).status.success());
    let count = kept.len() + 401;
    assert_eq!(rows(Some(&again), COUNT), format!("n\n{count}\n"));
}

#[test]
fn scripts_that_are_no_text_and_input_that_is_closed() {
    let folder = tempfile::tempdir().unwrap();
    let (database, script) = (folder.path().join("db"), folder.path().join("script.sql"));
    fs::write(&script, b"SELECT 1;\nSELECT 'gr\xf6\xdfe';\n").unwrap();
    let failed = thermocline(&["sql", database.to_str().unwrap(), "--format", "csv", "-f", script.to_str().unwrap()]);
    assert_eq!(failed.status.code(), Some(1));
    assert_eq!(text(&failed.stdout), "?column?\n1\n", "what stands before it runs");
    says(&text(&failed.stderr), &["script.sql", "line 2", "UTF-8", "0xf6"]);

    let closed = |arguments: &str| {
        let script = format!("exec \"$0\" sql \"$1\" {arguments} <&-");
        Command::new("bash").args(["-c", &script, BINARY, database.to_str().unwrap()]).output().unwrap()
    };
    let done = closed("");
    assert!(done.status.success() && done.stdout.is_empty(), "{}", text(&done.stderr));
    let done = closed("--format csv -c 'SELECT 1 AS one'");
    assert_eq!((done.status.code(), text(&done.stdout).as_str()), (Some(0), "one\n1\n"), "{}", text(&done.stderr));
    let set = output(Some(&database), &["commit_interval=soon"], "SELECT 1");
    assert_eq!(set.status.code(), Some(2));
    says(&text(&set.stderr), &["commit_interval", "soon"]);
}

#[test]
fn statements_reach_only_what_the_operator_allows() {
    let folder = tempfile::tempdir().unwrap();
    let [inside, outside, database] = ["inside", "outside", "db"].map(|name| folder.path().join(name));
    for directory in [&inside, &outside] {
        fs::create_dir(directory).unwrap();
    }
    let at = |directory: &Path, name: &str| directory.join(name).display().to_string();
    let set_up = format!(
        "{TABLE} COPY (SELECT * FROM k) TO '{}' STORED AS PARQUET; \
         CREATE EXTERNAL TABLE o STORED AS PARQUET LOCATION '{}';",
        at(&outside, "o.parquet"),
        outside.display()
    );
    assert_eq!(output(Some(&database), &["executor_partitions=2"], &set_up).status.code(), Some(0));

    let allowed = format!("allowed_locations={}", inside.display());
    let run = |script: &str| output(Some(&database), &["executor_partitions=2", &allowed], script);
    let refused = [
        format!("CREATE EXTERNAL TABLE e STORED AS PARQUET LOCATION '{}'", outside.display()),
        format!("CREATE EXTERNAL TABLE e STORED AS PARQUET LOCATION 'file://{}'", at(&outside, "o.parquet")),
        "CREATE EXTERNAL TABLE e STORED AS PARQUET LOCATION 's3://bucket/prefix'".to_owned(),
        "CREATE EXTERNAL TABLE e STORED AS PARQUET LOCATION 'thermocline://127.0.0.1:1/prefix'".to_owned(),
        format!("COPY (SELECT 1) TO '{}' STORED AS PARQUET", at(&outside, "new.parquet")),
        format!("COPY (SELECT 1) TO '{}' STORED AS CSV", at(&inside, "../outside/new.csv")),
        format!("EXPLAIN ANALYZE COPY (SELECT 1) TO '{}' STORED AS PARQUET", at(&outside, "new.parquet")),
        format!("COPY (SELECT 1) TO '{}' WITH (FORMAT csv)", at(&outside, "new.csv")),
        format!("CREATE TABLE r (k BIGINT PRIMARY KEY); COPY r FROM '{}'", at(&outside, "o.parquet")),
        format!("BACKUP TO '{}'", at(&outside, "backup")),
        // Refused before it is read, whether there is such a file or not.
        format!("ALTER DATABASE SET cache_policy = 'belady:{}'", at(&outside, "o.parquet")),
        format!("ALTER DATABASE SET cache_policy = 'belady:{}'", at(&inside, "../outside/none.trace")),
        "ALTER DATABASE SET thermocline.cache_policy = 'Belady:/etc/passwd'".to_owned(),
        format!("ALTER DATABASE SET cache_policy = 'belady: {}'", at(&outside, "o.parquet")),
        // Tables created before exist, but are not read.
        "SELECT * FROM o".to_owned(),
    ];
    for statement in &refused {
        let shown = run(statement);
        assert_eq!(shown.status.code(), Some(1), "{statement}");
        says(&text(&shown.stderr), &["allowed_locations", inside.to_str().unwrap()]);
    }
    for wider in ["all", "/", outside.to_str().unwrap()] {
        let shown = run(&format!("SET thermocline.allowed_locations = '{wider}'"));
        assert_eq!(shown.status.code(), Some(1), "{wider}");
        says(&text(&shown.stderr), &["allowed_locations", "is more than"]);
    }
    let shown = run(&format!("RESET thermocline.allowed_locations; BACKUP TO '{}'", at(&outside, "backup")));
    assert_eq!(shown.status.code(), Some(1));
    let left: Vec<_> = fs::read_dir(&outside).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["o.parquet"]);

    let script = format!(
        "COPY (SELECT * FROM k) TO '{0}' STORED AS PARQUET; \
         CREATE EXTERNAL TABLE i STORED AS PARQUET LOCATION '{0}'; SELECT k FROM i; BACKUP TO '{1}'; \
         SET thermocline.allowed_locations = 'none';",
        at(&inside, "i.parquet"),
        at(&inside, "backup")
    );
    let shown = run(&script);
    assert_eq!(shown.status.code(), Some(0), "{}", text(&shown.stderr));
    let narrowed = run(&format!("SET thermocline.allowed_locations = 'none'; BACKUP TO '{}'", at(&inside, "second")));
    assert_eq!(narrowed.status.code(), Some(1));
    says(&text(&narrowed.stderr), &["allowed_locations is none"]);
    // A trace that is allowed is read, and kept; once it is not allowed any more, or gone, the database opens without it.
    let (trace, kept) =
        (at(&inside, "ssb.trace"), "SELECT value, source FROM system.settings WHERE name LIKE '%cache_policy'");
    let lines = concat!(
        "{\"version\":1,\"workload\":\"ssb\",\"scale\":1.0,\"format\":\"parquet\"}\n",
        "{\"query\":0,\"name\":\"Q1.1\",\"partitions\":[]}\n"
    );
    fs::write(&trace, lines).unwrap();
    let shown = run(&format!("ALTER DATABASE SET cache_policy = 'belady:{trace}'; {kept}"));
    let expected = format!("value,source\nbelady:{trace},database\n");
    assert!(text(&shown.stdout).ends_with(&expected), "{}{}", text(&shown.stdout), text(&shown.stderr));
    let shown = run(kept);
    assert_eq!((text(&shown.stdout), text(&shown.stderr).contains("cache_policy")), (expected.clone(), false));
    let narrowed = output(Some(&database), &["executor_partitions=2", "allowed_locations=none"], kept);
    assert_eq!((narrowed.status.code(), text(&narrowed.stdout)), (Some(0), expected.clone()));
    says(&text(&narrowed.stderr), &["settings.sql", "the cache follows lfu", "allowed_locations is none"]);
    fs::remove_file(&trace).unwrap();
    let shown = run(kept);
    assert_eq!((shown.status.code(), text(&shown.stdout)), (Some(0), expected));
    says(&text(&shown.stderr), &["settings.sql", "the cache follows lfu", &trace, "No such file"]);
    let reset = run(&format!("ALTER DATABASE RESET cache_policy; {kept}"));
    assert!(text(&reset.stdout).ends_with("value,source\nlfu,default\n"), "{}", text(&reset.stderr));
    // The refusal has lost nothing.
    assert_eq!(rows(Some(&database), "SELECT s FROM o"), "s\none\n");
}
