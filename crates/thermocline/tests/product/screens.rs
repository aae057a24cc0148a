//! What a shell shows in terminals of several widths, what it asks, and what programs get instead.

use std::fs;
use std::process::Command;

use crate::support::program::{BINARY, rows, text};
use crate::support::terminal::Terminal;

/// Output of a statement in a format, without a database.
fn printed(format: &str, sql: &str) -> String {
    let done = Command::new(BINARY).args(["sql", "--format", format, "-c", sql]).output().unwrap();
    assert!(done.status.success(), "{sql}: {}", text(&done.stderr));
    text(&done.stdout)
}

#[test]
fn a_shell_asks_before_it_creates_a_database() {
    let folder = tempfile::tempdir().unwrap();
    rows(Some(&folder.path().join("orders_db")), "SELECT 1 AS one");
    fs::create_dir(folder.path().join("order_d")).unwrap();
    let mistyped = folder.path().join("order_db");
    for answer in ["\r", "n\r", "what\r"] {
        let mut shell = Terminal::open(&mistyped, "");
        let asked = shell.hears("Create it? [y/N] ");
        assert!(asked.contains(&format!("There is no database {}", mistyped.display())), "{asked}");
        let meant = folder.path().join("orders_db");
        assert!(asked.contains(&format!("; did you mean {}?", meant.display())), "{asked}");
        shell.types(answer);
        shell.hears("is not created");
        assert_eq!(shell.ends(), Some(1));
        assert!(!mistyped.exists(), "{answer:?}");
    }
    let mut shell = Terminal::open(&folder.path().join("quite_another"), "");
    assert!(!shell.hears("Create it? [y/N] ").contains("did you mean"));
    shell.types("y\r");
    shell.quits();
    assert!(folder.path().join("quite_another").exists());
    // A directory with files, none of which is a database's: most likely a wrong one.
    let lake = folder.path().join("lake");
    fs::create_dir(&lake).unwrap();
    fs::write(lake.join("0.csv"), "id\n1\n").unwrap();
    let mut shell = Terminal::open(&lake, "");
    let asked = shell.hears("Create it? [y/N] ");
    assert!(
        asked.contains(&format!("There is no database {}: the directory has other files", lake.display())),
        "{asked}"
    );
    shell.types("\r");
    shell.hears("is not created");
    assert_eq!(shell.ends(), Some(1));
    assert_eq!(fs::read_dir(&lake).unwrap().count(), 1, "nothing was added");
    // Nobody is asked about one that exists, an empty directory, or when a script runs.
    let mut shell = Terminal::open(&folder.path().join("order_d"), "");
    assert!(!shell.hears("thermocline> ").contains("Create it"));
    shell.types("SELECT 'at ' || 'end' AS t;\r");
    shell.hears("at end");
    shell.quits();
    let mut shell = Terminal::open(&folder.path().join("order_d"), "");
    assert!(!shell.hears("thermocline> ").contains("Create it"), "it is a database now");
    shell.types("SELECT 'at ' || 'last' AS t;\r");
    shell.hears("at last");
    shell.quits();
    rows(Some(&mistyped), "SELECT 1 AS one");
    assert!(mistyped.exists());
}

#[test]
fn tables_fit_the_terminal_of_a_shell() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("db");
    let wide = "SELECT 1234567890123456789 AS number, repeat('ab ', 60) AS prose, repeat('x', 50) AS word, '' AS e, \
                NULL AS n";
    rows(Some(&database), "CREATE TABLE t (k BIGINT PRIMARY KEY)");
    for columns in [80, 140] {
        let mut shell = Terminal::sized(&database, columns);
        shell.hears("thermocline> ");
        shell.types("\\timing off\r");
        shell.hears("not shown");
        shell.hears("thermocline> ");
        shell.types(&format!("{wide};\r"));
        shell.hears("number ");
        let shown = shell.hears("(1 row, texts cut, \\x for all)");
        let lines: Vec<&str> = shown.lines().skip(1).collect();
        assert!(lines.iter().all(|line| line.trim_end().chars().count() <= columns), "{columns}: {shown}");
        let row = lines.iter().find(|line| line.contains("1234567890123456789")).unwrap();
        assert!(row.contains("ab ab") && row.contains("…") && row.contains("NULL"), "{row}");
        // A number is not cut, and columns that do not fit are counted.
        let many: Vec<String> = (10..40).map(|n| format!("{n}00000 AS c{n}")).collect();
        shell.types(&format!("SELECT {};\r", many.join(", ")));
        let shown = shell.hears("left out, \\x for all)");
        assert!(shown.contains("1000000 | 1100000 |"), "{shown}");
        shell.hears("thermocline> ");
        // A plan is whole.
        let long = "long ".repeat(40);
        shell.types(&format!("EXPLAIN SELECT '{long}' || value AS t FROM generate_series(1, 9);\r"));
        let shown = shell.hears("thermocline> ");
        let mut plan = shown.lines().skip(1).filter(|line| line.contains("long "));
        assert!(plan.next().is_some_and(|line| line.contains(&long)) && !shown.contains("…"), "{shown}");
        shell.types("\\x auto\r");
        shell.hears("wider than the terminal");
        shell.hears("thermocline> ");
        shell.types(&format!("{wide};\r"));
        shell.hears("-[ RECORD 1 ]");
        shell.hears("prose  | ab ab");
        shell.hears("thermocline> ");
        shell.types("SELECT 'not ' || 'wide' AS t;\r");
        assert!(!shell.hears("not wide").contains("RECORD"));
        shell.quits();
    }
    // Elsewhere nothing is cut.
    let piped = printed("table", wide);
    assert!(piped.contains(&"ab ".repeat(60)) && piped.contains(&"x".repeat(50)), "{piped}");
}

#[test]
fn a_description_has_all_columns_and_controls_no_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("db");
    let columns: Vec<String> = (1..30).map(|n| format!("c{n} BIGINT")).collect();
    rows(Some(&database), &format!("CREATE TABLE wide (k BIGINT PRIMARY KEY, {})", columns.join(", ")));
    rows(
        Some(&database),
        "CREATE TABLE \"odd\x1b]0;x\" (k BIGINT PRIMARY KEY); CREATE VIEW v AS SELECT '\x1b[2J' AS t",
    );
    let mut shell = Terminal::sized(&database, 80);
    shell.hears("thermocline> ");
    shell.types(".maxrows 3\r");
    shell.hears("thermocline> ");
    shell.types("\\d wide\r");
    let shown = shell.hears("Replicated");
    assert!(shown.contains("c29 ") && shown.contains("is_nullable"), "{shown}");
    shell.hears("thermocline> ");
    for (command, part) in [("\\d odd*", "odd\\u{1b}]0;x"), ("\\d v", "Definition:"), (".schema", "odd\\u{1b}]0;x")] {
        shell.types(&format!("{command}\r"));
        let shown = shell.hears("thermocline> ");
        assert!(shown.contains(part) && !shown.contains('\x1b'), "{command}: {shown:?}");
    }
    // For another prompt.
    shell.types(".maxrows 3\r");
    shell.quits();
    // What is left out is said.
    let mut shell = Terminal::sized(&database, 30);
    shell.hears("thermocline> ");
    shell.types("\\d wide\r");
    shell.hears("left out");
    shell.hears("Replicated");
    shell.quits();
}

#[test]
fn a_shell_shows_the_first_of_many_rows_and_counts_all() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("db");
    rows(Some(&database), "CREATE TABLE t (k BIGINT PRIMARY KEY)");
    let many = "SELECT 'row ' || value AS r FROM generate_series(1, 2500) ORDER BY value";
    let mut shell = Terminal::open(&database, "");
    shell.hears("thermocline> ");
    shell.types(&format!("{many};\r"));
    let shown = shell.hears("(2500 rows, 1000 shown, .maxrows 0 for all");
    assert!(shown.contains("row 1000\r") && !shown.contains("row 1001\r"));
    shell.hears("thermocline> ");
    shell.types(".maxrows 5\r");
    shell.hears("thermocline> ");
    shell.types(&format!("{many};\r"));
    let shown = shell.hears("(2500 rows, 5 shown");
    assert!(shown.contains("row 5\r") && !shown.contains("row 6\r"), "{shown}");
    shell.hears("thermocline> ");
    shell.types(".maxrows 0\r");
    shell.hears("thermocline> ");
    shell.types(&format!("{many};\r"));
    let shown = shell.hears("(2500 rows,");
    assert!(shown.contains("row 2500\r"));
    // Programs get all, in every format, and in the shell as well.
    shell.hears("thermocline> ");
    shell.types(".maxrows 5\r");
    shell.hears("thermocline> ");
    shell.types(".mode csv\r");
    shell.hears("thermocline> ");
    shell.types(&format!("{many};\r"));
    shell.hears("row 2500\r");
    shell.quits();
    for format in ["table", "csv", "json"] {
        assert!(printed(format, many).contains("row 2500"), "{format}");
    }
}

#[test]
fn null_is_not_an_empty_text() {
    let sql = "SELECT '' AS e, CAST(NULL AS TEXT) AS n, CAST(NULL AS BIGINT) AS i";
    assert_eq!(printed("table", sql), " e | n    |    i\n---+------+------\n   | NULL | NULL\n");
    assert_eq!(printed("csv", sql), "e,n,i\n\"\",,\n");
    assert_eq!(printed("json", sql), "{\"e\":\"\",\"n\":null,\"i\":null}\n");
}

#[test]
fn nested_values_are_json() {
    let uuid = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11";
    let sql = format!(
        "SELECT named_struct('a', 1, 'u', CAST('{uuid}' AS UUID), 't', 'x \"y\"') AS s, \
         map(make_array('k', 'l'), make_array(1, NULL)) AS m, \
         make_array(CAST('{uuid}' AS UUID), CAST(NULL AS UUID)) AS l, CAST('{uuid}' AS UUID) AS u"
    );
    let json: serde_json::Value = serde_json::from_str(&printed("json", &sql)).unwrap();
    let nested = serde_json::json!({
        "s": {"a": 1, "u": uuid, "t": "x \"y\""},
        "m": {"k": 1, "l": null},
        "l": [uuid, null],
        "u": uuid,
    });
    assert_eq!(json, nested);
    let quoted = |json: &str| format!("\"{}\"", json.replace('"', "\"\""));
    let record = quoted(&format!(r#"{{"a":1,"u":"{uuid}","t":"x \"y\""}}"#));
    let (map, list) = (quoted(r#"{"k":1,"l":null}"#), quoted(&format!(r#"["{uuid}",null]"#)));
    assert_eq!(printed("csv", &sql), format!("s,m,l,u\n{record},{map},{list},{uuid}\n"));
    assert!(printed("table", &sql).contains(&format!("[\"{uuid}\",null]")));
}

#[test]
fn types_have_their_names_in_sql() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("0.csv"), "id,price,day,note\n1,1.5,2024-02-29,x\n").unwrap();
    let script = format!(
        "CREATE EXTERNAL TABLE t STORED AS CSV LOCATION '{}'; CREATE VIEW v AS SELECT id, note FROM t; DESCRIBE t; \
         DESCRIBE v; DESC v",
        folder.path().display()
    );
    let head = "column_name,data_type,is_nullable\n";
    let view = format!("{head}id,BIGINT,YES\nnote,TEXT,YES\n");
    let table = format!("{head}id,BIGINT,YES\nprice,DOUBLE PRECISION,YES\nday,DATE,YES\nnote,TEXT,YES\n");
    assert_eq!(printed("csv", &script), format!("{table}{view}{view}"));
}
