//! The scripts of `tests/scripts`, in the format of sqllogictest, through a user's session: each in every mode, each
//! query twice, so that the second run finds the first one's cache.
//!
//! In addition to the format's records, `file PATH` writes the following lines to `DIR/PATH`. `DIR` in a statement is a
//! directory of the script's own.

use std::fs;
use std::path::Path;

use arrow::array::Array;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use thermocline_compute::QueryResult;
use thermocline_database::{Database, Session};
use thermocline_pushdown::Mode;

/// Runs the records of a script, which are separated by empty lines; returns their number.
async fn run(script: &str, mode: Mode) -> Result<usize, String> {
    let directory = tempfile::tempdir().unwrap();
    let session = Database::in_memory().await.unwrap().session();
    session.set("mode", mode.name()).unwrap();
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
        check(&session, directory.path(), head, &record).await.map_err(|why| format!("line {}: {why}", number + 1))?;
        records += 1;
    }
    session.close().await.unwrap();
    Ok(records)
}

async fn check(session: &Session, directory: &Path, head: &str, record: &[&str]) -> Result<(), String> {
    let end = record.iter().position(|line| *line == "----").unwrap_or(record.len());
    let sql = record[..end].join("\n").replace("DIR", &directory.display().to_string());
    let words: Vec<&str> = head.split_whitespace().collect();
    match words.as_slice() {
        ["file", path] => {
            let path = directory.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, record.iter().map(|line| format!("{line}\n")).collect::<String>()).unwrap();
            Ok(())
        }
        ["statement", "ok"] => session.run(&sql).await.map(drop).map_err(|error| format!("{sql}\nfailed: {error}")),
        ["statement", "error", ..] => {
            let part = head.trim_start_matches("statement error").trim();
            match session.run(&sql).await {
                Ok(_) => Err(format!("{sql}\nsucceeded, expected {part}")),
                Err(error) if error.to_string().contains(part) => Ok(()),
                Err(error) => Err(format!("{sql}\nsaid {error}\nwithout {part}")),
            }
        }
        ["query", types, sort @ ..] => {
            let sorted = sort.contains(&"rowsort");
            let mut expected: Vec<String> =
                record.get(end + 1..).unwrap_or_default().iter().map(|row| words_of(row)).collect();
            for time in ["first", "second"] {
                let result = session.run(&sql).await.map_err(|error| format!("{sql}\nfailed: {error}"))?;
                let mut found = rows(&result);
                if sorted {
                    found.sort();
                    expected.sort();
                }
                if result.schema.fields().len() != types.len() || found != expected {
                    let columns = result.schema.fields().len();
                    let (found, expected) = (found.join("\n"), expected.join("\n"));
                    return Err(format!(
                        "{sql}\nfound the {time} time {columns} columns\n{found}\nexpected\n{expected}"
                    ));
                }
            }
            Ok(())
        }
        _ => Err(format!("'{head}' begins no record")),
    }
}

fn rows(result: &QueryResult) -> Vec<String> {
    let options = FormatOptions::new();
    let mut rows = vec![];
    for batch in &result.batches {
        let columns: Vec<_> =
            batch.columns().iter().map(|column| ArrayFormatter::try_new(column.as_ref(), &options).unwrap()).collect();
        for row in 0..batch.num_rows() {
            let cells = batch.columns().iter().zip(&columns).map(|(array, text)| match text.value(row).to_string() {
                _ if array.is_null(row) => "NULL".to_owned(),
                empty if empty.is_empty() => "(empty)".to_owned(),
                text => words_of(&text),
            });
            rows.push(cells.collect::<Vec<_>>().join(" "));
        }
    }
    rows
}

/// The line with single spaces: values are compared word by word.
fn words_of(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[tokio::test(flavor = "multi_thread")]
async fn scripts() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts");
    let mut scripts: Vec<_> = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    scripts.retain(|path| path.extension().is_some_and(|extension| extension == "slt"));
    scripts.sort();
    assert!(scripts.len() >= 4, "scripts are found");
    let mut failures = vec![];
    for script in &scripts {
        let text = fs::read_to_string(script).unwrap();
        for mode in Mode::ALL {
            match run(&text, mode).await {
                Ok(records) => assert!(records > 5, "{}: {records} records", script.display()),
                Err(why) => failures.push(format!("{} in {mode}: {why}", script.display())),
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}
