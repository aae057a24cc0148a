//! The scripts of `tests/scripts`, in the format of sqllogictest, each on one partition and on three, with the same
//! results.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

mod common;

use std::fs;
use std::path::Path;

use common::RowSession;

/// Expected outcome of one statement.
enum Expected {
    Ok,
    /// Rows that it affects.
    Count(u64),
    /// A part of its message, which begins with the SQLSTATE.
    Error(String),
    /// Its rows, in any order if `sorted`.
    Rows {
        columns: usize,
        sorted: bool,
        rows: Vec<String>,
    },
}

/// Runs the records of a script, which are separated by empty lines.
fn run(script: &str, partitions: u32) -> Result<usize, String> {
    let mut session = RowSession::new(partitions);
    let mut lines = script.lines().enumerate().peekable();
    let mut records = 0;
    while let Some((number, head)) = lines.next() {
        if head.trim().is_empty() || head.starts_with('#') {
            continue;
        }
        let mut record = vec![];
        while let Some((_, line)) = lines.next_if(|(_, line)| !line.trim().is_empty()) {
            record.push(line);
        }
        check(&mut session, head, &record).map_err(|why| format!("line {}: {why}", number + 1))?;
        records += 1;
    }
    Ok(records)
}

fn check(session: &mut RowSession, head: &str, record: &[&str]) -> Result<(), String> {
    let end = record.iter().position(|line| *line == "----").unwrap_or(record.len());
    let sql = record[..end].join("\n");
    let words: Vec<&str> = head.split_whitespace().collect();
    let expected = match words.as_slice() {
        ["statement", "ok"] => Expected::Ok,
        ["statement", "count", count] => Expected::Count(count.parse().map_err(|_| format!("no count: {head}"))?),
        // The format takes a pattern; here it has only escapes.
        ["statement", "error", ..] => {
            Expected::Error(head.trim_start_matches("statement error").trim().replace('\\', ""))
        }
        ["query", types, sort @ ..] => Expected::Rows {
            columns: types.len(),
            sorted: sort.contains(&"rowsort"),
            rows: record.get(end + 1..).unwrap_or_default().iter().map(|row| words_of(row)).collect(),
        },
        _ => return Err(format!("'{head}' begins no record")),
    };
    let result = session.run(&sql);
    session.check();
    match (expected, result) {
        (Expected::Error(part), Err(error)) => {
            let message = format!("{}: {error}", error.sqlstate());
            if message.contains(&part) { Ok(()) } else { Err(format!("{sql}\nsaid {message}\nwithout {part}")) }
        }
        (Expected::Error(part), Ok(_)) => Err(format!("{sql}\nsucceeded, expected {part}")),
        (_, Err(error)) => Err(format!("{sql}\nfailed: {}: {error}", error.sqlstate())),
        (Expected::Ok, Ok(_)) => Ok(()),
        (Expected::Count(count), Ok((outcome, _))) if outcome.affected == count => Ok(()),
        (Expected::Count(count), Ok((outcome, _))) => {
            Err(format!("{sql}\naffected {} rows, not {count}", outcome.affected))
        }
        (Expected::Rows { columns, sorted, mut rows }, Ok((outcome, found))) => {
            let mut got: Vec<String> = outcome
                .rows
                .iter()
                .map(|row| {
                    let values = row.map(|value| match value.to_string() {
                        empty if empty.is_empty() => "(empty)".to_owned(),
                        text => words_of(&text),
                    });
                    values.collect::<Vec<_>>().join(" ")
                })
                .collect();
            if sorted {
                got.sort();
                rows.sort();
            }
            match found == columns && got == rows {
                true => Ok(()),
                false => {
                    Err(format!("{sql}\nfound {found} columns\n{}\nexpected\n{}", got.join("\n"), rows.join("\n")))
                }
            }
        }
    }
}

/// The line with single spaces: values are compared word by word.
fn words_of(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn scripts() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts");
    let mut scripts: Vec<_> = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    scripts.retain(|path| path.extension().is_some_and(|extension| extension == "slt"));
    scripts.sort();
    assert!(scripts.len() >= 9, "scripts are found");
    let mut failures = Vec::new();
    for script in &scripts {
        let text = fs::read_to_string(script).unwrap();
        for partitions in [1, 3] {
            match run(&text, partitions) {
                Ok(records) => assert!(records > 5, "{}: {records} records", script.display()),
                Err(why) => failures.push(format!("{} on {partitions} partitions: {why}", script.display())),
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}
