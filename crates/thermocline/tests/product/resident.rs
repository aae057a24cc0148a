//! Resident memory of the program with rows of any length: never above the limit of row tables, a twentieth of it, and
//! 100 MiB (docs/transactions.md#memory).

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Lines, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

const LIMIT_MIB: u64 = 32;
/// Stated in the documentation: pages of the program, stacks, and what the allocator keeps.
const BESIDE_BYTES: u64 = 100 << 20;
const BOUND_BYTES: u64 = (LIMIT_MIB << 20) + (LIMIT_MIB << 20) / 20 + BESIDE_BYTES;

/// The program with one database, whose statements end with a line of their own.
struct Program {
    child: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
    statements: u32,
    /// Bytes that the documentation allows a statement besides the bound.
    beside: u64,
}

impl Program {
    fn open(database: &Path) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_thermocline"));
        command.arg("sql").arg(database).args([
            "--format",
            "csv",
            "--set",
            &format!("row_memory_limit={LIMIT_MIB}MiB"),
        ]);
        command.args(["--set", "executor_partitions=2"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, input, output, statements: 0, beside: 0 }
    }

    /// Runs a statement and returns its lines.
    fn run(&mut self, sql: &str) -> Vec<String> {
        self.statements += 1;
        let end = format!("end {}", self.statements);
        // The client's text is not the matter here.
        writeln!(self.input, "{sql};\nSELECT '{end}' AS mark;").unwrap();
        self.input.flush().unwrap();
        let mut lines = Vec::new();
        loop {
            let line = self.output.next().unwrap_or_else(|| panic!("{sql:.200}: the program has ended")).unwrap();
            if line == end {
                // Without the header of the mark.
                lines.pop();
                return lines;
            }
            lines.push(line);
        }
    }

    /// Runs a statement, and checks its rows and what was resident until then.
    fn check(&mut self, what: &str, sql: &str, expected: &[&str]) -> u64 {
        let lines = self.run(sql);
        assert_eq!(lines, expected, "{what}: {sql:.200}");
        let resident = self.resident_bytes_max();
        let allowed = BOUND_BYTES + self.beside;
        assert!(
            resident <= allowed,
            "{what}: {} MiB were resident, of {} MiB allowed: {sql:.200}",
            resident >> 20,
            allowed >> 20
        );
        resident
    }

    fn resident_bytes_max(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().strip_suffix(" kB").unwrap().trim().parse::<u64>().unwrap() << 10
    }

    fn close(mut self) {
        drop(self.input);
        assert!(self.child.wait().unwrap().success());
    }
}

/// Rows of `length` bytes each, more than the limit together with their copies; every kind of statement that reads or copies all of
/// them, in either engine.
fn rows_of(length: u64, rows: u64) {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (database, file) = (folder.path().join("db"), folder.path().join("rows.csv"));
    let mut told = String::new();
    let table = |name: &str| format!("CREATE TABLE {name} (k BIGINT PRIMARY KEY, v TEXT NOT NULL) PARTITION BY (k)");
    let text = format!("repeat(chr(CAST(97 + i % 26 AS INT)), {length})");
    let source = format!("generate_series(1, {rows}) AS s(i)");
    let count = "SELECT count(*) AS n, sum(length(v)) AS s, min(length(v)) AS l FROM";
    let sums = format!("{rows},{},{length}", rows * length);
    let counted = ["n,s,l", sums.as_str()];
    let mut program = Program::open(&database);
    let mut step = |program: &mut Program, what: &str, sql: &str, expected: &[&str]| {
        let what = format!("{what}, rows of {length} bytes");
        let resident = program.check(&what, sql, expected);
        writeln!(told, "{what}: {} MiB", resident >> 20).unwrap();
    };
    for name in ["t", "u", "c"] {
        program.run(&table(name));
    }
    step(&mut program, "INSERT of computed rows", &format!("INSERT INTO t SELECT i, {text} FROM {source}"), &[]);
    step(&mut program, "aggregate in the row engine", &format!("{count} t"), &counted);
    let with = "WITH w AS (SELECT k, v FROM t)";
    step(&mut program, "aggregate in the analytic engine", &format!("{with} {count} w"), &counted);
    step(&mut program, "aggregate behind a filter", &format!("{with} {count} w WHERE v <> 'a' AND k > 0"), &counted);
    step(&mut program, "maximum", &format!("{with} SELECT max(v) = repeat('z', {length}) AS m FROM w"), &["m", "true"]);
    step(&mut program, "INSERT of a table's rows", "INSERT INTO u SELECT k, v FROM t", &[]);
    step(&mut program, "aggregate of the copy", &format!("{count} u"), &counted);
    let path = file.display();
    step(&mut program, "COPY TO", &format!("COPY t TO '{path}' (FORMAT csv)"), &[]);
    step(&mut program, "COPY FROM", &format!("COPY c FROM '{path}' (FORMAT csv)"), &[]);
    step(&mut program, "aggregate of the file", &format!("{count} c"), &counted);
    program.close();
    // After an opening, everything is in blocks.
    let mut program = Program::open(&database);
    step(&mut program, "aggregate after an opening", &format!("{with} {count} w"), &counted);
    // What DataFusion keeps to order them comes on top: four times the first row and another one, in each of two
    // partitions at least.
    program.beside = 2 * 4 * 2 * length;
    let first = (1..=rows).find(|key| key % 26 == 25).unwrap_or_default();
    let top = format!("{first},{length}");
    let ordered = "SELECT k, length(v) AS l FROM";
    step(&mut program, "top row in the row engine", &format!("{ordered} t ORDER BY v DESC, k LIMIT 1"), &["k,l", &top]);
    let sql = format!("{with} {ordered} w ORDER BY v DESC, k LIMIT 1");
    step(&mut program, "top row in the analytic engine", &sql, &["k,l", &top]);
    program.close();
    print!("{told}");
}

#[test]
fn rows_of_100_bytes_stay_within_the_bound() {
    // Of more rows, not even the keys would fit.
    rows_of(100, 120_000);
}

#[test]
fn rows_of_2_kilobytes_stay_within_the_bound() {
    rows_of(2_000, 40_000);
}

#[test]
fn rows_of_64_kilobytes_stay_within_the_bound() {
    rows_of(64_000, 1_500);
}

#[test]
fn rows_of_700_kilobytes_stay_within_the_bound() {
    rows_of(700_000, 130);
}

#[test]
fn rows_of_2_megabytes_stay_within_the_bound() {
    rows_of(2_000_000, 60);
}
