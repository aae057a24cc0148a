//! The examples of `docs/procedures.md` give the results that it shows.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

use std::fs;
use std::path::Path;
use std::sync::Arc;

use thermocline_transactions::database::{RowEngine, Settings};
use thermocline_transactions::disk::{Faults, SimulatedDisk};
use thermocline_transactions::sql::split;

/// The fenced blocks of a text, with their languages.
fn blocks(text: &str) -> Vec<(String, String)> {
    let mut blocks = Vec::new();
    let mut open: Option<(String, String)> = None;
    for line in text.lines() {
        match (line.strip_prefix("```"), &mut open) {
            (Some(language), None) => open = Some((language.to_owned(), String::new())),
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (None, Some((_, block))) => {
                block.push_str(line);
                block.push('\n');
            }
            (None, None) => {}
        }
    }
    blocks
}

#[test]
fn examples() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/procedures.md");
    let blocks = blocks(&fs::read_to_string(page).unwrap());
    let disk = Arc::new(SimulatedDisk::new(1, Faults::default()));
    let database = RowEngine::open(disk, Settings { partitions: 2, ..Settings::default() }).unwrap();
    let mut session = database.session();
    let (mut said, mut compared) = (String::new(), 0);
    for (language, block) in &blocks {
        match language.as_str() {
            "sql" => {
                for statement in split(block).unwrap() {
                    said = match session.execute(statement, &[]) {
                        Ok(answer) => answer
                            .rows
                            .iter()
                            .map(|row| row.map(|value| value.to_string()).collect::<Vec<_>>().join(" | ") + "\n")
                            .collect(),
                        Err(error) => format!("ERROR {}: {error}\n", error.sqlstate()),
                    };
                    // Only a statement with a printed result may fail.
                    assert!(
                        !said.starts_with("ERROR")
                            || block.trim_start().starts_with("CALL")
                            || block.contains("stubborn"),
                        "{statement}\n{said}"
                    );
                }
            }
            "text" => {
                assert_eq!(said, *block);
                compared += 1;
            }
            _ => {}
        }
    }
    assert!(compared >= 8, "{compared} answers were compared");
}
