//! Row tables through the command line: statements of every kind, both engines in one session, durability, and
//! refusals.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use crate::support::program::{BINARY, error, output, rows, start, text};
use crate::support::terminal::Terminal;

const ACCOUNTS: &str = "\
CREATE TABLE accounts (id BIGINT PRIMARY KEY, owner TEXT, balance DECIMAL(12, 2) NOT NULL) PARTITION BY (id);
CREATE INDEX accounts_owner ON accounts (owner);
INSERT INTO accounts VALUES (1, 'Ada', 100), (2, 'Ben', 20.5), (3, NULL, 0);";

/// Tables, and a Parquet table `t (i BIGINT, s VARCHAR)` with the numbers below 1000.
fn with_external(folder: &Path) -> String {
    let data = folder.join("t/t.parquet");
    std::fs::create_dir_all(data.parent().unwrap()).unwrap();
    if !data.exists() {
        let copy = format!(
            "COPY (SELECT value AS i, 'n' || value AS s FROM generate_series(0, 999)) TO '{}' STORED AS PARQUET",
            data.display()
        );
        rows(None, &copy);
    }
    format!("CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION '{}';", folder.join("t").display())
}

#[test]
fn statements_of_one_session() {
    let script = format!(
        "{ACCOUNTS}
        SELECT * FROM accounts ORDER BY id;
        UPDATE accounts SET balance = balance * 2 WHERE owner = 'Ben' RETURNING id, balance;
        DELETE FROM accounts WHERE id = 1;
        ALTER TABLE accounts ADD COLUMN kind TEXT DEFAULT 'current';
        INSERT INTO accounts (id, balance) VALUES (2, 7) ON CONFLICT (id) DO UPDATE SET balance = 8;
        SELECT id, owner, balance, kind FROM accounts ORDER BY id;
        DROP INDEX accounts_owner;
        DROP TABLE accounts;
        SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'"
    );
    assert_eq!(
        rows(None, &script),
        "id,owner,balance\n1,Ada,100.00\n2,Ben,20.50\n3,,0.00\n\
         id,balance\n2,41.00\n\
         id,owner,balance,kind\n2,Ben,8.00,current\n3,,0.00,current\n\
         table_name\n"
    );
}

#[test]
fn a_transaction_is_kept_whole_or_not_at_all() {
    let script = format!(
        "{ACCOUNTS}
        BEGIN; UPDATE accounts SET balance = 0; SELECT sum(balance) AS s FROM accounts; ROLLBACK;
        BEGIN; DELETE FROM accounts WHERE id = 3; COMMIT;
        SELECT count(*) AS n, sum(balance) AS s FROM accounts;"
    );
    assert_eq!(rows(None, &script), "s\n0.00\nn,s\n2,120.50\n");
    // Also when the other engine reads the transaction's changes.
    let script = format!(
        "{ACCOUNTS} BEGIN; INSERT INTO accounts VALUES (4, 'Cleo', 1);
        SELECT id, row_number() OVER (ORDER BY id DESC) AS place FROM accounts ORDER BY place LIMIT 2; ROLLBACK;
        SELECT count(DISTINCT id) AS n FROM (SELECT id FROM accounts UNION ALL SELECT id FROM accounts)"
    );
    assert_eq!(rows(None, &script), "id,place\n4,1\n3,2\nn\n3\n");
    let failed = error(None, "CREATE TABLE k (k BIGINT PRIMARY KEY); BEGIN; INSERT INTO k VALUES (1), (1)");
    assert!(failed.contains("duplicate key") && failed.contains("k_pkey"), "{failed}");
}

/// Rows removed by a filter cause no errors.
#[test]
fn nothing_is_computed_below_a_filter() {
    let script = "CREATE TABLE t (id BIGINT PRIMARY KEY, a INTEGER, b INTEGER, c TEXT);
        INSERT INTO t VALUES (1, 10, 0, 'x'), (2, 10, 5, '2');
        WITH q AS (SELECT * FROM t WHERE id > 1) SELECT id, a / b AS e FROM q;
        WITH q AS (SELECT * FROM t WHERE id > 1) SELECT id, CAST(c AS INTEGER) + b AS e FROM q ORDER BY id";
    assert_eq!(rows(None, script), "id,e\n2,2\nid,e\n2,7\n");
}

#[test]
fn procedures_are_cut_at_the_right_semicolons() {
    let script = format!(
        "{ACCOUNTS}
        CREATE PROCEDURE pay(source BIGINT, target BIGINT, amount DECIMAL(12, 2)) LANGUAGE SQL AS $$
            UPDATE accounts SET balance = balance - amount WHERE id = source;
            UPDATE accounts SET balance = balance + amount WHERE id = target;
            SELECT id, balance FROM accounts WHERE id IN (source, target) ORDER BY id; -- a comment; with one
        $$;
        CALL pay(1, 2, 30.25);
        DROP PROCEDURE pay;"
    );
    assert_eq!(rows(None, &script), "id,balance\n1,69.75\n2,50.75\n");
    let failed = error(None, "CALL nobody(1)");
    assert!(failed.contains("procedure \"nobody\" does not exist"), "{failed}");
}

#[test]
fn queries_that_the_row_engine_does_not_run() {
    let folder = tempfile::tempdir().unwrap();
    let external = with_external(folder.path());
    let script = format!(
        "{ACCOUNTS} {external}
        SELECT a.owner, t.s FROM accounts a LEFT JOIN t ON t.i = a.id ORDER BY a.id;
        WITH RECURSIVE up(id) AS (SELECT id FROM accounts WHERE id = 1
            UNION ALL SELECT a.id FROM accounts a JOIN up ON a.id = up.id + 1) SELECT count(*) AS n FROM up;
        SELECT owner FROM accounts EXCEPT SELECT 'Ada';
        CREATE VIEW rich AS SELECT owner FROM accounts WHERE balance > 50;
        INSERT INTO accounts VALUES (9, 'Zoe', 99);
        SELECT owner FROM rich ORDER BY 1;"
    );
    let printed = rows(None, &script);
    assert!(printed.starts_with("owner,s\nAda,n1\nBen,n2\n,n3\nn\n3\nowner\n"), "{printed}");
    assert!(printed.ends_with("owner\nAda\nZoe\n"), "{printed}");
}

#[test]
fn rows_of_external_tables_are_inserted_all_or_none() {
    let folder = tempfile::tempdir().unwrap();
    let external = with_external(folder.path());
    let script = format!(
        "CREATE TABLE k (i BIGINT PRIMARY KEY, s VARCHAR(5), n SMALLINT DEFAULT 7) PARTITION BY (i); {external}
        INSERT INTO k (i, s) SELECT i, s FROM t WHERE i < 500;
        INSERT INTO k SELECT i, upper(s), i % 2 FROM t WHERE i BETWEEN 499 AND 501
            ON CONFLICT (i) DO UPDATE SET s = 'again';
        SELECT count(*) AS rows, sum(n) AS n, max(i) AS last FROM k;
        SELECT s FROM k WHERE i >= 499 ORDER BY i;"
    );
    assert_eq!(rows(None, &script), "rows,n,last\n502,3501,501\ns\nagain\nN500\nN501\n");
    let database = folder.path().join("db");
    let table = "CREATE TABLE k (i BIGINT PRIMARY KEY, s VARCHAR(3)) PARTITION BY (i)";
    rows(Some(&database), &format!("{table}; {external}"));
    // The last hundred do not fit, and the first of them ends the statement.
    let failed = error(Some(&database), "INSERT INTO k SELECT i, s FROM t");
    assert!(failed.contains("VARCHAR(3)") || failed.contains("too long"), "{failed}");
    let failed = error(Some(&database), "INSERT INTO k SELECT s, i FROM t");
    assert!(failed.contains("column \"i\"") && failed.contains("BIGINT"), "{failed}");
    assert_eq!(rows(Some(&database), "SELECT count(*) AS n FROM k"), "n\n0\n");
}

#[test]
fn explain_says_which_engine_and_how() {
    let plan = rows(None, &format!("{ACCOUNTS} EXPLAIN SELECT * FROM accounts WHERE id = 2"));
    assert!(plan.contains("accounts_pkey"), "{plan}");
    let plan = rows(None, &format!("{ACCOUNTS} EXPLAIN SELECT id, rank() OVER (ORDER BY id) FROM accounts"));
    assert!(plan.contains("RowScanExec: table=accounts, columns=[id], may touch evicted rows"), "{plan}");
    let stays = ACCOUNTS.replacen("PARTITION BY (id)", "PARTITION BY (id) WITH (evictable = false)", 1);
    let plan = rows(None, &format!("{stays} EXPLAIN SELECT id, rank() OVER (ORDER BY id) FROM accounts"));
    assert!(plan.contains("columns=[id]") && !plan.contains("evicted"), "{plan}");
}

#[test]
fn statements_that_write_are_explained_and_measured() {
    let folder = tempfile::tempdir().unwrap();
    let external = with_external(folder.path());
    let says = |sql: &str, parts: &[&str]| {
        let printed = rows(None, &format!("{ACCOUNTS} {external} {sql}"));
        for part in parts {
            assert!(printed.contains(part), "{sql}\n{printed}\nwithout {part}");
        }
    };
    let unchanged = "SELECT count(*) AS n, sum(balance) AS s FROM accounts";
    for (sql, parts) in [
        ("EXPLAIN UPDATE accounts SET balance = 0 WHERE id = 2", ["unique index accounts_pkey", "partitions: one"]),
        ("EXPLAIN DELETE FROM accounts WHERE owner = 'Ada'", ["index accounts_owner", "partitions: all"]),
        ("EXPLAIN VERBOSE INSERT INTO accounts VALUES (9, 'x', 1)", ["QUERY PLAN", "accounts"]),
        ("EXPLAIN INSERT INTO accounts SELECT i, s, 1 FROM t", ["insert,", "HybridScanExec: table=t"]),
    ] {
        says(&format!("{sql}; {unchanged}"), &[parts[0], parts[1], "n,s\n3,120.50\n"]);
    }
    says(
        "EXPLAIN ANALYZE DELETE FROM accounts WHERE id = 1; SELECT count(*) AS n FROM accounts",
        &["accounts_pkey", "rows changed: 1\n", "time: ", "held: ", "n\n2\n"],
    );
    says("EXPLAIN ANALYZE SELECT * FROM accounts WHERE id < 3", &["rows: 2\n", "partitions: "]);
    says("EXPLAIN ANALYZE SELECT id, rank() OVER (ORDER BY id) FROM accounts", &["RowScanExec", "output_rows=3"]);
    for (sql, part) in [
        ("EXPLAIN CREATE TABLE x (k INT PRIMARY KEY)", "EXPLAIN is for queries"),
        ("EXPLAIN FORMAT TREE UPDATE accounts SET balance = 0", "has one format"),
        ("EXPLAIN ANALYZE INSERT INTO accounts SELECT i, s, 1 FROM t", "of its query it is"),
        ("EXPLAIN UPDATE accounts SET nothing = 1", "nothing"),
    ] {
        let failed = error(None, &format!("{ACCOUNTS} {external} {sql}"));
        assert!(failed.contains(part), "{sql}\n{failed}");
    }
}

#[test]
fn queries_of_many_rows_read_a_snapshot_unseen() {
    let fill = "CREATE TABLE big (k BIGINT, v BIGINT, PRIMARY KEY (k) USING BTREE) PARTITION BY (k);
        INSERT INTO big SELECT value, value % 7 FROM generate_series(1, 30000);";
    let plan = |sql: &str| rows(None, &format!("{fill} EXPLAIN {sql}"));
    // By estimate, and by rows actually read; the second changes engines while it runs.
    assert!(plan("SELECT v, count(*) FROM big GROUP BY v").contains("RowScanExec: table=big"));
    assert!(plan("ANALYZE SELECT sum(v) FROM big WHERE k > 1").contains("RowScanExec: table=big"));
    for by_key in ["SELECT v FROM big WHERE k IN (1, 2, 30000)", "SELECT k FROM big ORDER BY k DESC LIMIT 3"] {
        assert!(plan(by_key).contains("big_pkey"), "{by_key}");
    }
    assert!(plan("UPDATE big SET v = 0").contains("scan big"));
    let queries = "SELECT count(*) AS n, sum(k) AS s FROM big; SELECT sum(v) AS s FROM big WHERE k > 1;
        SELECT v, count(*) AS n FROM big GROUP BY v ORDER BY v LIMIT 2; SELECT k FROM big WHERE v = 3 ORDER BY k LIMIT 2";
    let outside = rows(None, &format!("{fill} {queries}"));
    assert_eq!(outside, "n,s\n30000,450015000\ns\n89999\nv,n\n0,4285\n1,4286\nk\n3\n10\n");
    // Inside a transaction the row engine runs them, and sees the transaction's changes.
    assert_eq!(rows(None, &format!("{fill} BEGIN; {queries}; COMMIT")), outside);
    let changed = "BEGIN; UPDATE big SET v = 0; SELECT sum(v) AS s FROM big; ROLLBACK; SELECT sum(v) > 0 AS s FROM big";
    assert_eq!(rows(None, &format!("{fill} {changed}")), "s\n0\ns\ntrue\n");
}

#[test]
fn row_tables_are_described() {
    let script = format!(
        "{ACCOUNTS} ALTER TABLE accounts ADD COLUMN kind VARCHAR(9) DEFAULT 'current';
        DESCRIBE accounts; SHOW TABLES;
        SELECT column_name, is_nullable FROM information_schema.columns WHERE table_name = 'accounts' ORDER BY 1"
    );
    let expected = "column_name,data_type,is_nullable,column_default,indexes
id,BIGINT,NO,,accounts_pkey
owner,TEXT,YES,,accounts_owner
balance,\"DECIMAL(12, 2)\",NO,,
kind,VARCHAR(9),YES,'current',
table_name,table_type
accounts,BASE TABLE
column_name,is_nullable
balance,NO
id,NO
kind,YES
owner,YES
";
    assert_eq!(rows(None, &script), expected);
    let shown = rows(None, &format!("{ACCOUNTS} SHOW CREATE TABLE accounts"));
    for part in ["CREATE TABLE accounts (", "DECIMAL(12, 2) NOT NULL", "PARTITION BY (", "INDEX accounts_owner"] {
        assert!(shown.contains(part), "{shown}");
    }
    // The key that rows have where users give none is in no list.
    let script = format!(
        "{ACCOUNTS} CREATE TABLE copy AS SELECT id FROM accounts; SELECT * FROM copy ORDER BY ALL; DESCRIBE copy;
         SELECT column_name FROM information_schema.columns WHERE table_name = 'copy'; SHOW CREATE TABLE copy"
    );
    let shown = rows(None, &script);
    assert!(
        shown.starts_with("id\n1\n2\n3\ncolumn_name,data_type,is_nullable,column_default,indexes\nid,BIGINT,YES,,\n"),
        "{shown}"
    );
    assert!(shown.contains("\ncolumn_name\nid\n") && !shown.contains("rowid"), "{shown}");
    let script = "CREATE TABLE t (a INT, b TEXT); CREATE TABLE k (c INT, e TEXT); INSERT INTO k VALUES (1, 'k1');
         INSERT INTO t VALUES (1, 'x'), (2, 'y'), (5, 'v'); DELETE FROM t USING k WHERE k.c = t.a RETURNING *;
         DELETE FROM t X WHERE a IN (SELECT 5) RETURNING x.*; DELETE FROM t WHERE a IN (SELECT 2) RETURNING t.*, 1 AS one";
    assert_eq!(rows(None, script), "a,b,c,e\n1,x,1,k1\na,b\n5,v\na,b,one\n2,y,1\n");
}

#[test]
fn a_failed_transaction_ends_with_rollback() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("db");
    rows(Some(&database), ACCOUNTS);
    let mut shell = Terminal::open(&database, "--format csv");
    shell.types(
        "BEGIN;\nSELECT nothing;\nUPDATE accounts SET balance = 0;\nCOMMIT;\nCOMMIT;\n\
         BEGIN;\nDELETE FROM accounts;\nINSERT INTO accounts VALUES (1, 'x', NULL);\nSELECT 1;\nROLLBACK;\n\
         SELECT 'at ' || 'end' AS a, sum(balance) AS s FROM accounts;\n",
    );
    let said = shell.hears("at end,120.50");
    shell.quits();
    for part in ["COMMIT has rolled it back", "there is no transaction"] {
        assert!(said.contains(part), "{said}\nwithout {part}");
    }
    assert_eq!(said.matches("nothing but ROLLBACK").count(), 2, "{said}");
}

#[test]
fn types_are_the_same_in_both_engines() {
    let script =
        "CREATE TABLE v (k INT PRIMARY KEY, b BOOLEAN, s SMALLINT, l BIGINT, f DOUBLE PRECISION, d DECIMAL(5, 2),
            w DECIMAL(38, 10), t TEXT, y BYTEA, day DATE, at TIMESTAMP);
        INSERT INTO v VALUES (1, true, -32768, 9223372036854775807, 0.1, -1.25, 1234567890123456789012345678.0123456789,
            'größe, \"x\"', '\\x00ff', '2024-02-29', '2024-02-29 23:59:59.123456');
        INSERT INTO v (k) VALUES (2);
        SELECT * FROM v ORDER BY k;
        SELECT v.* FROM v LEFT JOIN (SELECT 1 AS one) ON one = k ORDER BY k;
        SELECT arrow_typeof(d) AS d, arrow_typeof(at) AS at, arrow_typeof(t) AS t FROM v WHERE k = 1";
    let printed = rows(None, script);
    let lines: Vec<&str> = printed.lines().collect();
    assert_eq!(lines.len(), 8, "{printed}");
    assert_eq!(lines[1], lines[4], "{printed}");
    assert_eq!((lines[2], lines[5]), ("2,,,,,,,,,,", "2,,,,,,,,,,"));
    assert!(lines[1].contains("9223372036854775807,0.1,-1.25,1234567890123456789012345678.0123456789"), "{printed}");
    assert_eq!(lines[7], "\"Decimal128(5, 2)\",Timestamp(µs),Utf8View");
}

#[test]
fn names_belong_to_one_engine() {
    let folder = tempfile::tempdir().unwrap();
    let external = with_external(folder.path());
    for (script, part) in [
        (format!("{external} CREATE TABLE t (k INT PRIMARY KEY)"), "t is an external table"),
        (format!("CREATE TABLE t (k INT PRIMARY KEY); {external}"), "table t already exists"),
        (format!("{ACCOUNTS} CREATE VIEW accounts AS SELECT 1"), "accounts is a table already"),
        (format!("{external} INSERT INTO t VALUES (1, 'x')"), "read only"),
        ("INSERT INTO nothing VALUES (1)".to_owned(), "\"nothing\" does not exist"),
        (format!("{ACCOUNTS} SELECT nothing FROM accounts"), "nothing"),
        (format!("{ACCOUNTS} SELECT * FROM accounts; SELECT * FROM accounts WHERE"), "syntax error"),
        (format!("{external} CREATE TABLE n (a BIGINT); ALTER TABLE n RENAME TO t"), "t is an external table"),
        ("COMMIT".to_owned(), "there is no transaction"),
        (format!("{ACCOUNTS} ALTER TABLE accounts DROP COLUMN owner"), "DROP COLUMN owner is not supported"),
        (format!("{ACCOUNTS} UPDATE accounts SET (balance, owner) = (1, 'x')"), "several columns"),
    ] {
        let failed = error(None, &script);
        assert!(failed.contains(part), "{script}\n{failed}");
    }
}

#[test]
fn system_tables_and_settings() {
    let script = format!(
        "{ACCOUNTS} SELECT table_name, partition_by, partitions, rows FROM system.tables;
        SELECT count(*) AS n FROM system.memory WHERE structure = 'index' AND table_name = 'accounts';
        SELECT sum(bytes) = (SELECT bytes FROM system.memory WHERE structure = 'all rows and indexes') AS same
            FROM system.memory WHERE table_name IS NOT NULL;
        BEGIN; INSERT INTO accounts VALUES (9, NULL, 0);
        SELECT rows FROM system.tables;
        SELECT string_agg(structure, ' ') AS kinds FROM system.memory
            WHERE partition IS NULL AND structure <> 'all rows and indexes';
        SELECT bytes > 0 AS undo FROM system.memory WHERE structure = 'undo'; ROLLBACK;
        SELECT count(*) AS n, min(held_ms_max) > 0 AS held FROM system.executors WHERE queued = 0 AND partition < 2;
        SELECT value FROM system.settings WHERE name = 'thermocline.executor_partitions'"
    );
    assert_eq!(
        rows(None, &script),
        "table_name,partition_by,partitions,rows\naccounts,id,2,3\nn\n4\nsame\ntrue\nrows\n4\n\
         kinds\nundo queues log snapshots results queries statements lua indexes blocks\nundo\ntrue\nn,held\n2,true\nvalue\n2\n"
    );
    let failed = error(None, &format!("{ACCOUNTS} ALTER DATABASE SET commit_interval = '1ms'"));
    assert!(failed.contains("commit_interval") && failed.contains("--set"), "{failed}");
    let full = output(
        None,
        &["row_memory_limit=4MiB"],
        "CREATE TABLE k (k BIGINT PRIMARY KEY, s TEXT); \
        INSERT INTO k SELECT value, repeat('x', 1000) FROM generate_series(1, 10000)",
    );
    assert!(text(&full.stderr).contains("out of memory"), "{}", text(&full.stderr));
}

/// Three times as many bytes of rows as memory: both engines see them all, also after the next start.
#[test]
fn more_rows_than_memory() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("db");
    let run = |script: &str| {
        let run = output(Some(&database), &["row_memory_limit=24MiB", "row_block_size=64KiB"], script);
        assert!(run.status.success(), "{script}: {}", text(&run.stderr));
        text(&run.stdout)
    };
    let sum = "SELECT count(*) AS n, sum(k) AS k, sum(length(s)) AS s FROM k";
    let filled = run(&format!(
        "CREATE TABLE k (k BIGINT PRIMARY KEY, s TEXT NOT NULL) PARTITION BY (k);
        INSERT INTO k SELECT value, repeat('x', 900 + value % 100) FROM generate_series(1, 60000);
        {sum};
        UPDATE k SET s = 'short' WHERE k IN (17, 40000, 59999);
        UPDATE k SET s = upper(s) WHERE k IN (18, 30001, 50002);
        DELETE FROM k WHERE k BETWEEN 101 AND 200;
        SELECT s FROM k WHERE k = 40000;
        {sum};
        SELECT sum(live_rows + evicted_rows) AS rows, sum(evicted_rows) > 30000 AS evicted, min(evicted_total) > 0 AS went
            FROM system.evicted;
        SELECT sum(rows) > 30000 AS rows, sum(file_bytes) > 30000000 AS bytes, sum(written_total) > 400 AS written
            FROM system.blocks;
        SELECT sum(waits_total + blocking_reads_total) > 0 AS waited, sum(waiting) AS waiting FROM system.transactions;
        EXPLAIN SELECT s FROM k WHERE k = 1"
    ));
    let mut model: BTreeMap<u64, u64> = (1..=60_000).map(|k| (k, 900 + k % 100)).collect();
    let summed = |model: &BTreeMap<u64, u64>| {
        format!("{},{},{}", model.len(), model.keys().sum::<u64>(), model.values().sum::<u64>())
    };
    let before = summed(&model);
    model.extend([17, 40_000, 59_999].map(|k| (k, "short".len() as u64)));
    model.retain(|k, _| !(101..=200).contains(k));
    let after = summed(&model);
    let seen: Vec<&str> = filled.lines().collect();
    assert_eq!((seen[1], seen[3], seen[5]), (&*before, "short", &*after), "{filled}");
    assert_eq!((seen[7], seen[9], seen[11]), ("59900,true,true", "true,true,true", "true,0"), "{filled}");
    assert!(filled.contains("may touch evicted rows"), "{filled}");
    for _ in 0..2 {
        let again = run(&format!("{sum}; SELECT s FROM k WHERE k IN (17, 150)"));
        assert_eq!(again, format!("n,k,s\n{after}\ns\nshort\n"));
    }
    // Few rows, of which the row engine cannot have all in memory at once.
    let large = run("CREATE TABLE large (k BIGINT PRIMARY KEY, w BIGINT, s TEXT NOT NULL) PARTITION BY (k);
        CREATE INDEX large_w ON large (w);
        INSERT INTO large SELECT value, value, repeat('x', 300000) FROM generate_series(1, 150);
        SELECT count(*) AS n, sum(length(s)) AS s FROM large WHERE w BETWEEN 1 AND 140;
        SELECT count(*) AS n FROM large");
    assert_eq!(large, "n,s\n140,42000000\nn\n150\n");
    // More than one transaction may have in memory.
    let copied = run(&format!(
        "CREATE TABLE copy (k BIGINT PRIMARY KEY, s TEXT NOT NULL) PARTITION BY (k);
        INSERT INTO copy SELECT k, s FROM k;
        {}; DROP TABLE copy",
        sum.replace("FROM k", "FROM copy")
    ));
    assert_eq!(copied, format!("n,k,s\n{after}\n"));
    let check = Command::new(BINARY).args(["check", database.to_str().unwrap()]).output().unwrap();
    assert!(check.status.success(), "{}", text(&check.stderr));
    let refused = output(
        Some(&database),
        &["row_memory_limit=24MiB", "row_eviction=off"],
        "INSERT INTO k SELECT value, repeat('y', 900) FROM generate_series(70001, 80000)",
    );
    assert!(text(&refused.stderr).contains("out of memory"), "{}", text(&refused.stderr));
}

/// The command in a message about a damaged block works as it is printed, and what needs no row of it works all the time.
#[test]
fn the_way_out_of_a_damaged_block_works_as_printed() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("DB");
    let run = |database: &Path, script: &str| output(Some(database), &["row_memory_limit=24MiB"], script);
    let filled = run(
        &database,
        &format!(
            "CREATE TABLE k (k BIGINT PRIMARY KEY, s TEXT NOT NULL) PARTITION BY (k);
            INSERT INTO k SELECT value, repeat('x', 1000) FROM generate_series(1, 60000);
            BACKUP TO '{}'",
            folder.path().join("backup").display()
        ),
    );
    assert!(filled.status.success(), "{}", text(&filled.stderr));
    let files = std::fs::read_dir(database.join("rows")).unwrap().map(|entry| entry.unwrap().path());
    let block = files.filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with("blocks-")).min().unwrap();
    let mut bytes = std::fs::read(&block).unwrap();
    bytes[4096 + 28 + 500] ^= 1;
    std::fs::write(&block, bytes).unwrap();

    let counted = run(&database, "SELECT count(*) AS n FROM k");
    assert_eq!(text(&counted.stdout), "n\n60000\n", "{}", text(&counted.stderr));
    let lengths = "SELECT count(*) AS n, sum(length(s)) AS s FROM k";
    assert!(text(&run(&database, lengths).stderr).contains("table \"k\": blocks-"));
    let check = |database: &Path| Command::new(BINARY).arg("check").arg(database).output().unwrap();
    let damaged = check(&database);
    assert_eq!(damaged.status.code(), Some(1));
    let said = text(&damaged.stdout);
    let (_, command) = said.split_once("'thermocline ").unwrap_or_else(|| panic!("{said}"));
    let (command, _) = command.split_once('\'').unwrap();
    let restored = Command::new(BINARY).args(command.split_whitespace()).current_dir(folder.path()).output().unwrap();
    let lost = text(&restored.stderr);
    assert!(restored.status.success() && lost.contains("1 row of table \"k\" is lost, with the key ("), "{lost}");
    let new = folder.path().join("NEWDB");
    assert!(check(&new).status.success(), "{}", text(&check(&new).stdout));
    assert_eq!(text(&run(&new, lengths).stdout), "n,s\n59999,59999000\n");
}

#[test]
fn what_was_acknowledged_survives_kill_9() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("db");
    for round in 0..5 {
        let script = match round {
            0 => format!("{ACCOUNTS} SELECT 1 AS done"),
            round => format!(
                "BEGIN; INSERT INTO accounts VALUES (1{round}, 'n', 1); COMMIT; \
                 UPDATE accounts SET balance = balance + 1 WHERE id = 3; SELECT 1 AS done"
            ),
        };
        let mut child = start(&database, &script, &["-f", "-"]);
        child.kill().unwrap();
        child.wait().unwrap();
        let expected = format!("n,balance\n{},{round}.00\n", 3 + round);
        let sql = "SELECT count(*) AS n, max(balance) FILTER (WHERE id = 3) AS balance FROM accounts";
        assert_eq!(rows(Some(&database), sql), expected, "round {round}");
    }
}

#[test]
fn a_database_is_for_one_process() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("db");
    let mut child = start(&database, "SELECT 1 AS done", &["-f", "-"]);
    let failed = error(Some(&database), "SELECT 1");
    assert!(failed.contains(&format!("process {} has it open", child.id())), "{failed}");
    assert!(failed.contains(database.to_str().unwrap()), "{failed}");
    assert!(!database.join("rows").exists(), "without row tables there is no row engine");
    child.stdin.take().unwrap().write_all(b"CREATE TABLE k (k BIGINT PRIMARY KEY);").unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(rows(Some(&database), "SELECT count(*) AS n FROM k"), "n\n0\n");
}

#[test]
fn a_backup_is_restored_and_a_long_statement_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let (database, backup, again) =
        (folder.path().join("db"), folder.path().join("backup"), folder.path().join("again"));
    let external = with_external(folder.path());
    let script = format!(
        "{ACCOUNTS} {external} BACKUP TO '{}'; DELETE FROM accounts; SELECT count(*) AS n FROM accounts",
        backup.display()
    );
    assert_eq!(rows(Some(&database), &script), "n\n0\n");
    let restored = Command::new(BINARY).arg("restore").args([&backup, &again]).output().unwrap();
    assert!(restored.status.success(), "{}", text(&restored.stderr));
    let both = "SELECT count(*) AS n, max(t.s) AS s FROM accounts JOIN t ON t.i = id";
    assert_eq!(rows(Some(&again), both), "n,s\n3,n3\n");
    let twice = Command::new(BINARY).arg("restore").args([&backup, &again]).output().unwrap();
    assert!(text(&twice.stderr).contains("is in the way"), "{}", text(&twice.stderr));
    let failed = error(None, &format!("BACKUP TO '{}'", folder.path().join("x").display()));
    assert!(failed.contains("without a directory"), "{failed}");

    let slow = "CREATE TABLE n (n BIGINT PRIMARY KEY);
        INSERT INTO n SELECT value FROM generate_series(1, 30000);
        SET thermocline.statement_timeout = '1ms'; UPDATE n SET n = n + 1000000";
    let stopped = error(None, slow);
    assert!(stopped.contains("cancelled"), "{stopped}");
}

/// The blocks of a page that are fenced with this word.
fn blocks<'a>(page: &'a str, word: &str) -> Vec<&'a str> {
    let fence = format!("```{word}\n");
    page.split(&fence).skip(1).map(|rest| rest.split("```").next().unwrap()).collect()
}

#[test]
fn the_example_of_the_documentation_works_as_printed() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/transactions.md");
    let page = std::fs::read_to_string(page).unwrap();
    let (script, expected) = (blocks(&page, "sh")[0], blocks(&page, "text")[0]);
    let folder = tempfile::tempdir().unwrap();
    let binaries = Path::new(BINARY).parent().unwrap();
    let path = format!("{}:{}", binaries.display(), std::env::var("PATH").unwrap());
    let done = Command::new("timeout")
        .args(["60", "bash", "-c", script])
        .current_dir(folder.path())
        .env("PATH", path)
        .output()
        .unwrap();
    assert!(done.status.success(), "{}", text(&done.stderr));
    let lines = |text: &str| text.lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>();
    assert_eq!(lines(&text(&done.stdout)), lines(expected), "{}", text(&done.stderr));
    let checked = Command::new(BINARY).arg("check").arg(folder.path().join("bank")).output().unwrap();
    assert!(checked.status.success(), "{}{}", text(&checked.stdout), text(&checked.stderr));
}

#[test]
fn check_finds_damage() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("db");
    let check = || Command::new(BINARY).arg("check").arg(&database).output().unwrap();
    assert!(text(&check().stderr).contains("does not exist"));
    rows(Some(&database), "SELECT 1");
    assert_eq!(text(&check().stdout), "no row tables\n");
    rows(Some(&database), ACCOUNTS);
    let sound = check();
    assert!(sound.status.success() && text(&sound.stdout).contains("log segments"), "{}", text(&sound.stderr));
    for entry in std::fs::read_dir(database.join("rows")).unwrap() {
        let path = entry.unwrap().path();
        let mut bytes = std::fs::read(&path).unwrap();
        if bytes.len() > 600 {
            bytes[100] ^= 4;
            std::fs::write(&path, bytes).unwrap();
        }
    }
    let damaged = check();
    assert_eq!(damaged.status.code(), Some(1));
    assert!(text(&damaged.stdout).contains("damaged: "), "{}", text(&damaged.stdout));
    assert!(text(&damaged.stderr).contains("is damaged"));
}
