//! Random statements of one session, compared with SQLite.
//!
//! `THERMOCLINE_SQLITE_SECONDS` runs it longer than its 5 seconds, `THERMOCLINE_SQLITE_SEED` one seed
//! again. SQLite is that of Python's standard library, in a process of its own.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

mod generate;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use generate::{Generator, Statement, TABLES};
use rand::SeedableRng;
use rand::rngs::StdRng;
use thermocline_transactions::database::{RowEngine, RowSession, Settings};
use thermocline_transactions::disk::{Faults, SimulatedDisk};
use thermocline_transactions::types::ValueRef;

/// Statements of a seed.
const STATEMENTS: usize = 150;

/// The first of these, which fill the tables.
const FILLED: usize = 40;

/// Outcome of a statement, in terms of both databases.
#[derive(Debug, PartialEq)]
enum StatementResult {
    Rows(Vec<String>),
    Affected(i64),
    Constraint,
    Error(String),
}

struct Sqlite {
    child: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl Sqlite {
    fn start() -> Self {
        let mut child = Command::new("python3")
            .args(["-c", include_str!("peer.py")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("python3 runs SQLite");
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Self { child, input, output: BufReader::new(output).lines() }
    }

    fn line(&mut self) -> String {
        self.output.next().expect("SQLite goes on").unwrap()
    }

    fn run(&mut self, sql: &str) -> StatementResult {
        assert!(!sql.contains('\n'));
        writeln!(self.input, "{sql}").unwrap();
        self.input.flush().unwrap();
        let line = self.line();
        let words: Vec<&str> = line.splitn(3, ' ').collect();
        match words[..] {
            ["error", "1", _] => StatementResult::Constraint,
            ["error", _, message] => StatementResult::Error(message.into()),
            ["ok", affected, rows] => {
                let rows: Vec<String> = (0..rows.parse().unwrap()).map(|_| self.line()).collect();
                if returns_rows(sql) {
                    StatementResult::Rows(rows)
                } else {
                    StatementResult::Affected(affected.parse().unwrap())
                }
            }
            _ => panic!("{line}"),
        }
    }
}

impl Drop for Sqlite {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn returns_rows(sql: &str) -> bool {
    sql.starts_with("SELECT") || sql.contains("RETURNING")
}

/// In the child's format. SQLite has no booleans, and its sums are integers.
fn text(value: ValueRef<'_>) -> String {
    match value {
        ValueRef::Null => "n".into(),
        ValueRef::Boolean(value) => format!("i{}", u8::from(value)),
        ValueRef::Text(text) => text.bytes().fold("t".to_owned(), |text, byte| text + &format!("{byte:02x}")),
        number => format!("i{number}"),
    }
}

/// Runs a statement; the error is the reason why this engine leaves it to another.
fn run(session: &mut RowSession, sql: &str) -> Result<StatementResult, String> {
    Ok(match session.execute(sql, &[]) {
        Ok(answer) if returns_rows(sql) => {
            let rows = (0..answer.rows.len()).map(|row| {
                let row: Vec<String> = answer.rows.row(row).map(text).collect();
                row.join(" ")
            });
            StatementResult::Rows(rows.collect())
        }
        Ok(answer) => StatementResult::Affected(answer.affected.cast_signed()),
        Err(error) if error.sqlstate() == "0A000" => return Err(error.to_string()),
        Err(error) if matches!(error.sqlstate(), "23505" | "23502" | "23514") => StatementResult::Constraint,
        Err(error) => StatementResult::Error(format!("{} {error}", error.sqlstate())),
    })
}

fn sorted(answer: StatementResult) -> StatementResult {
    match answer {
        StatementResult::Rows(mut rows) => {
            rows.sort_unstable();
            StatementResult::Rows(rows)
        }
        other => other,
    }
}

#[derive(Debug, Default)]
struct Counts {
    statements: usize,
    /// Statements left to another engine, by reason.
    left_out: BTreeMap<String, usize>,
    constraints: usize,
    rows: usize,
}

fn compare(seed: u64, partitions: u16, counts: &mut Counts) {
    let mut random = StdRng::seed_from_u64(seed);
    let mut sqlite = Sqlite::start();
    let settings = Settings { partitions, seed, ..Settings::default() };
    let database = RowEngine::open(Arc::new(SimulatedDisk::new(seed, Faults::default())), settings).unwrap();
    let mut session = database.session();
    for (sql, partition_by) in TABLES {
        session.execute(&format!("{sql}{partition_by}"), &[]).unwrap_or_else(|error| panic!("{sql}: {error}"));
        assert!(matches!(sqlite.run(sql), StatementResult::Affected(_)), "{sql}");
    }
    let mut before = Vec::new();
    for number in 0..STATEMENTS {
        let mut generator = Generator::new(&mut random);
        let Statement { sql, ordered } = if number < FILLED { generator.insert() } else { generator.statement() };
        counts.statements += 1;
        let ours = match run(&mut session, &sql) {
            Ok(ours) => ours,
            Err(reason) => {
                *counts.left_out.entry(reason).or_default() += 1;
                continue;
            }
        };
        let theirs = sqlite.run(&sql);
        let (ours, theirs) = if ordered { (ours, theirs) } else { (sorted(ours), sorted(theirs)) };
        match &ours {
            StatementResult::Constraint => counts.constraints += 1,
            StatementResult::Rows(rows) => counts.rows += rows.len(),
            _ => {}
        }
        if !sql.starts_with("SELECT") {
            before.push(sql.clone());
        }
        assert_eq!(
            ours,
            theirs,
            "left: here, right: SQLite; seed {seed}, {partitions} partitions, statement {number}:\n{sql};\nbehind:\n{}",
            before.join(";\n")
        );
        if number % 10 == 9 {
            for table in ["t0", "t1", "t2"] {
                let sql = format!("SELECT * FROM {table} ORDER BY k");
                let ours = run(&mut session, &sql).unwrap();
                assert_eq!(ours, sqlite.run(&sql), "seed {seed}: {table} behind:\n{}", before.join(";\n"));
            }
        }
    }
}

#[test]
fn answers_are_those_of_sqlite() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
    let mut counts = [Counts::default(), Counts::default()];
    if let Some(seed) = number("THERMOCLINE_SQLITE_SEED") {
        [1, 3].into_iter().zip(&mut counts).for_each(|(partitions, counts)| compare(seed, partitions, counts));
        return;
    }
    let time = Duration::from_secs(number("THERMOCLINE_SQLITE_SECONDS").unwrap_or(5));
    // Other statements in each run; failures print the seed.
    let first = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs() * 1000;
    let start = Instant::now();
    let mut seeds = 0;
    for seed in first.. {
        println!("seed {seed}");
        let which = usize::from(seed % 2 == 1);
        compare(seed, [1, 3][which], &mut counts[which]);
        seeds += 1;
        if start.elapsed() > time && seeds >= 2 {
            break;
        }
    }
    println!("{seeds} seeds: on one partition {:?}, on three {:?}", counts[0], counts[1]);
    for (counts, most) in counts.iter().zip([20, 3]) {
        // Another engine joins rows of several partitions.
        assert!(
            counts.left_out.values().sum::<usize>() * most < counts.statements,
            "too much is left to another engine: {counts:?}"
        );
        assert!(counts.rows > 100 && counts.constraints > 5, "{counts:?}");
    }
}
