//! Ctrl-C while a statement of row tables runs: it stops without effect, and the session goes on.

use std::process::{Child, Command};
use std::time::{Duration, Instant};

use crate::support::program::{BINARY, rows, start};
use crate::support::terminal::Terminal;

/// A table, and a procedure that changes it for as long as it may.
const DEFINITIONS: &str = "\
CREATE TABLE n (n BIGINT PRIMARY KEY, v BIGINT) PARTITION BY (n);
INSERT INTO n SELECT value, 0 FROM generate_series(1, 1000);
CREATE PROCEDURE turn() LANGUAGE lua AS $$
    for round = 1, 1000000000 do
        db.query('UPDATE n SET v = v + 1 WHERE n = 1')
    end
$$;";

/// Statements that take minutes.
const ENDLESS: [&str; 5] = [
    "CALL turn()",
    "INSERT INTO n SELECT 1000 + a.value * 10000 + b.value, 1 FROM generate_series(1, 1000) a, \
     generate_series(1, 10000) b",
    "CREATE TABLE made (PRIMARY KEY (n)) AS SELECT a.value * 10000 + b.value AS n FROM generate_series(1, 1000) a, \
     generate_series(1, 10000) b",
    // Joins that yield no row, and a count of more rows than could be counted in time.
    "SELECT count(*) FROM n a, n b, n c, n d WHERE a.n + b.n + c.n + d.n = 7",
    "SELECT count(*) FROM n a, n b, n c, n d",
];
const STATE: &str = "SELECT count(*) AS n, sum(v) AS v FROM n WHERE NOT EXISTS \
                     (SELECT 1 FROM information_schema.tables WHERE table_name = 'made')";
const UNCHANGED: &str = "n,v\n1000,0\n";

fn interrupt(process: &Child) {
    let sent = Command::new("kill").args(["-INT", &process.id().to_string()]).status().unwrap();
    assert!(sent.success());
}

#[test]
fn a_script_ends_and_leaves_nothing_half_done() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("db");
    rows(Some(&database), DEFINITIONS);
    for endless in ENDLESS {
        let mut child = start(&database, "SELECT 1 AS \"done\"", &["-c", endless]);
        std::thread::sleep(Duration::from_millis(700));
        let began = Instant::now();
        interrupt(&child);
        assert_eq!(child.wait().unwrap().code(), Some(130), "{endless}");
        assert!(began.elapsed() < Duration::from_secs(20), "{endless}: {:?}", began.elapsed());
        assert_eq!(rows(Some(&database), STATE), UNCHANGED, "{endless}");
    }
}

#[test]
fn a_statement_ends_when_its_time_is_over() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("db");
    rows(Some(&database), DEFINITIONS);
    for endless in ENDLESS {
        let began = Instant::now();
        let database = database.to_str().unwrap();
        let arguments = ["sql", "--set", "statement_timeout=300ms", "-c", endless, database];
        let output = Command::new(BINARY).args(arguments).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("timeout"), "{endless}: {said}");
        assert!(began.elapsed() < Duration::from_secs(20), "{endless}: {:?}", began.elapsed());
    }
    assert_eq!(rows(Some(&database), STATE), UNCHANGED);
}

#[test]
fn the_shell_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("db");
    rows(Some(&database), DEFINITIONS);
    let mut shell = Terminal::open(&database, "");
    shell.hears("thermocline> ");
    for endless in ENDLESS {
        shell.types(&format!("{endless};\r"));
        std::thread::sleep(Duration::from_millis(700));
        shell.types("\x03");
        let said = shell.hears("thermocline> ");
        assert!(said.contains("cancel"), "{endless}: {said}");
        shell.types("SELECT 'so ' || 'far' AS a, count(*) AS n, sum(v) AS v FROM n;\r");
        shell.hears("so far | 1000 | 0");
        shell.hears("thermocline> ");
    }
    // Inside a transaction it fails the transaction like any other error.
    shell.types("BEGIN; UPDATE n SET v = 7 WHERE n = 2; CALL turn();\r");
    std::thread::sleep(Duration::from_millis(700));
    shell.types("\x03");
    shell.hears("cancel");
    shell.types("SELECT 2;\r");
    shell.hears("nothing but ROLLBACK");
    shell.types("ROLLBACK;\r");
    shell.hears("done");
    shell.types("UPDATE n SET v = 0 WHERE n = 3; SELECT 'at ' || 'last' AS a;\r");
    shell.hears("at last");
    shell.quits();
    assert_eq!(rows(Some(&database), STATE), UNCHANGED);
}

#[test]
fn what_repeats_ends_whenever_it_is_interrupted() {
    let folder = tempfile::tempdir().unwrap();
    let (database, script) = (folder.path().join("db"), folder.path().join("long.sql"));
    rows(Some(&database), DEFINITIONS);
    std::fs::write(&script, "UPDATE n SET v = v + 1 WHERE n = 1;\n".repeat(1_000_000)).unwrap();
    let mut shell = Terminal::open(&database, "");
    shell.hears("thermocline> ");
    // Most of the time of each goes by while it commits.
    shell.types("UPDATE n SET v = v + 1 WHERE n = 1;\r");
    shell.hears("1 row changed");
    for endless in ["\\watch 0".to_owned(), format!("\\i {}", script.display())] {
        shell.hears("thermocline> ");
        shell.types(&format!("{endless}\r"));
        shell.hears("1 row changed");
        std::thread::sleep(Duration::from_millis(300));
        shell.types("\x03");
        shell.hears("thermocline> ");
        shell.types("SELECT 'go' || 'es on' AS a;\r");
        shell.hears("goes on");
    }
    shell.quits();
}

#[test]
fn a_script_in_the_shell_is_run_and_canceled() {
    let folder = tempfile::tempdir().unwrap();
    let (database, script) = (folder.path().join("db"), folder.path().join("a script.sql"));
    rows(Some(&database), DEFINITIONS);
    std::fs::write(&script, "SELECT 'in' || 'side' AS a;\nCALL turn();\nSELECT 'ne' || 'ver' AS a;\n").unwrap();
    let mut shell = Terminal::open(&database, "");
    shell.hears("thermocline> ");
    shell.types(&format!("\\i {}\r", script.display()));
    shell.hears("inside");
    std::thread::sleep(Duration::from_millis(700));
    shell.types("\x03");
    shell.hears("cancel");
    assert!(!shell.hears("thermocline> ").contains("never"), "a script ends where it is canceled");
    // Statements before a syntax error run here too.
    shell.types("SELECT 'be' || 'fore' AS a; SELEC 2;\r");
    shell.hears("before");
    shell.hears("SELEC");
    shell.types("\\timing\r");
    shell.hears("times are not shown");
    shell.types("\\nothing\r");
    shell.hears("there is no command \\nothing");
    shell.quits();
    assert_eq!(rows(Some(&database), STATE), UNCHANGED);
}
