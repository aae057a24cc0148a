//! What a new user does first, each thing in a process of its own, in one folder with one database: `first_hour.txt`.
//!
//! A thing is a heading, a script, and lines that begin with `--` and say what has to come of it:
//!
//! ```text
//! -- duckdb          the last rows are those of the same script in DuckDB
//! -- duckdb: SQL     they are those of this SQL in DuckDB
//! -- says TEXT       the text is in what it prints
//! -- fails TEXT      it fails, and the text is in the error
//! -- not yet: WHY    it fails; the reason is why that is so
//! ```

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::support::compression::gzip;
use crate::support::oracle::{Oracle, Row};
use crate::support::program::{BINARY, text};
use crate::support::rows::same_rows;

const THINGS: &str = include_str!("first_hour.txt");

/// Things that have to work: less is a loss.
const WORKING_MIN: usize = 105;

struct Thing {
    heading: &'static str,
    script: String,
    expected: Vec<&'static str>,
}

fn things() -> Vec<Thing> {
    let blocks = THINGS.split("\n\n").map(str::trim).filter(|block| block.starts_with("# "));
    let thing = |block: &'static str| {
        let mut lines = block.lines();
        let heading = lines.next().unwrap().trim_start_matches("# ");
        let (expected, script): (Vec<&str>, Vec<&str>) = lines.partition(|line| line.starts_with("-- "));
        let expected = expected.into_iter().map(|line| &line[3..]).collect();
        let is_command = script.last().unwrap().starts_with(['\\', '.']);
        let end = if is_command || script.last().unwrap().ends_with(';') { "\n" } else { ";\n" };
        Thing { heading, script: script.join("\n") + end, expected }
    };
    blocks.map(thing).collect()
}

/// The files of a user, most of them written by DuckDB.
fn write_files(folder: &Path, duckdb: &mut Oracle) {
    let orders = "i AS id, i % 5 + 1 AS city_id, CAST(i AS DECIMAL(10, 2)) / 4 AS amount, \
                  TIMESTAMP '2024-01-01' + INTERVAL (i) HOUR AS made";
    duckdb.query(&format!("COPY (SELECT {orders} FROM range(2000) t(i)) TO 'orders.parquet'"));
    duckdb.query(&format!("COPY (SELECT {orders} FROM range(2000, 2500) t(i)) TO 'more.parquet'"));
    for year in [2023, 2024] {
        for month in [1, 2] {
            for sub in [format!("hive/year={year}/month={month}"), format!("deep/{year}/{month}")] {
                fs::create_dir_all(folder.join(&sub)).unwrap();
                duckdb.query(&format!("COPY (SELECT {month} AS x FROM range({month})) TO '{sub}/a.parquet'"));
            }
        }
    }
    for sub in ["sales", "lake"] {
        fs::create_dir(folder.join(sub)).unwrap();
    }
    let cities = "id,city,people\n1,Kiel,246000\n2,Trier,110000\n3,Brest,139000\n4,Oslo,709000\n5,Ghent,265000\n";
    for (name, content) in [
        ("cities.csv", cities),
        ("more_cities.csv", "id,city,people\n6,Turin,\n7,Lodz,670000\n"),
        ("cities.tsv", "id\tcity\n1\tKiel\n2\tTrier\n"),
        ("semicolons.csv", "city;people\nKiel;246000\nTrier;110000\n"),
        ("zips.csv", "zip,city\n01067,Dresden\n24103,Kiel\n"),
        ("sales/jan.csv", "day,n\n2024-01-01,3\n2024-01-02,4\n"),
        ("sales/feb.csv", "day,n\n2024-02-01,5\n"),
        ("odd.dat", "1|x\n2|y\n"),
        ("notes.csv", "made by nobody\non a monday\na,b\n1,2\n3,4\n"),
        ("bad.csv", "a,b\n1,2\nx,y\n3,4\n"),
        ("people.jsonl", "{\"id\": 1, \"name\": \"ann\"}\n{\"id\": 2, \"name\": \"bob\"}\n"),
        ("script.sql", "SELECT 'from a script' AS it;\n"),
    ] {
        fs::write(folder.join(name), content).unwrap();
    }
    fs::write(folder.join("packed.csv.gz"), gzip(b"a,b\n1,2\n3,4\n")).unwrap();
}

/// Runs a script on standard input, as CSV.
fn run(folder: &Path, script: &str) -> Output {
    let mut child = Command::new(BINARY)
        .args(["sql", "db", "--format", "csv"])
        .current_dir(folder)
        .env_remove("AWS_ACCESS_KEY_ID")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

/// Rows of CSV, of which an empty field without quotes is NULL.
fn csv(text: &str) -> Vec<Row> {
    let (mut rows, mut row, mut field, mut quoted) = (vec![], vec![], String::new(), None);
    let mut letters = text.chars().peekable();
    let value = |field: &mut String, quoted: &mut Option<bool>| {
        let was_quoted = quoted.take().is_some();
        let text = std::mem::take(field);
        (was_quoted || !text.is_empty()).then_some(text)
    };
    while let Some(letter) = letters.next() {
        match (letter, quoted) {
            ('"', Some(true)) if letters.next_if_eq(&'"').is_some() => field.push('"'),
            ('"', Some(true)) => quoted = Some(false),
            (letter, Some(true)) => field.push(letter),
            ('"', _) => quoted = Some(true),
            (',', _) => row.push(value(&mut field, &mut quoted)),
            ('\n', _) => {
                row.push(value(&mut field, &mut quoted));
                rows.push(std::mem::take(&mut row));
            }
            (letter, _) => field.push(letter),
        }
    }
    rows
}

/// What is wrong with what came of a script; `None` if nothing is.
fn wrong(folder: &Path, duckdb: &mut Oracle, thing: &Thing) -> Option<String> {
    let done = run(folder, &thing.script);
    let (out, error) = (text(&done.stdout), text(&done.stderr));
    let failed = done.status.code() != Some(0);
    for expected in &thing.expected {
        let (kind, rest) = expected.split_once(' ').unwrap_or((expected, ""));
        let as_expected = match kind {
            "duckdb" | "duckdb:" => {
                let sql = if kind == "duckdb" { thing.script.trim().trim_end_matches(';') } else { rest };
                let rows = duckdb.query(sql);
                let found = csv(&out);
                let last = found.len().saturating_sub(rows.len());
                !failed && found.len() > rows.len() && same_rows(&found[last..], &rows)
            }
            "says" => !failed && (out.contains(rest) || error.contains(rest)),
            "fails" => failed && error.contains(rest),
            "not" => failed,
            _ => panic!("{}: {expected}", thing.heading),
        };
        if !as_expected {
            return Some(format!("{}\n{}\nexpected: {expected}\n{out}{error}", thing.heading, thing.script));
        }
    }
    None
}

#[test]
fn things_that_a_new_user_does() {
    let folder = tempfile::tempdir().unwrap();
    let mut duckdb = Oracle::start_at(folder.path());
    write_files(folder.path(), &mut duckdb);
    let things = things();
    assert!(things.len() >= 120, "{}", things.len());
    let wrong: Vec<String> = things.iter().filter_map(|thing| wrong(folder.path(), &mut duckdb, thing)).collect();
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), things.len(), wrong.join("\n"));
    let missing = things.iter().filter(|thing| thing.expected.iter().any(|line| line.starts_with("not yet"))).count();
    println!("{} of {} things", things.len() - missing, things.len());
    assert!(things.len() - missing >= WORKING_MIN);
}
