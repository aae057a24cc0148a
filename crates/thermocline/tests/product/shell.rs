//! Output of results for people, and the execution of scripts.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use crate::support::program::{BINARY, rows, text};

/// Runs a session without a database, with this on standard input.
fn sql(arguments: &[&str], input: &str) -> Output {
    let mut command = Command::new(BINARY);
    command.args(["sql", "--format", "csv"]).args(arguments);
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = piped.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

#[test]
fn columns_without_a_name_are_headed_as_postgresql_does_in_every_format_and_engine() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("db");
    rows(Some(&database), "CREATE TABLE k (k BIGINT PRIMARY KEY); INSERT INTO k VALUES (1), (2)");
    let print = |format: &str, sql: &str| {
        let done =
            Command::new(BINARY).arg("sql").arg(&database).args(["--format", format, "-c", sql]).output().unwrap();
        assert!(done.status.success(), "{sql}: {}", text(&done.stderr));
        text(&done.stdout)
    };
    let (rows, analytic) = ("FROM k", "FROM (SELECT value AS k FROM generate_series(1, 2)) AS t");
    for from in [rows, analytic] {
        let sql = format!("SELECT 1, 2, sum(k), count(*) AS n, max(k + 1) {from}");
        assert_eq!(print("csv", &sql), "?column?,?column?,sum,n,max\n1,2,3,2,3\n");
        let json: serde_json::Value = serde_json::from_str(&print("json", &sql)).unwrap();
        let all = serde_json::json!({ "?column?": 1, "?column?_1": 2, "sum": 3, "n": 2, "max": 3 });
        assert_eq!(json, all, "{from}: no value is lost");
        let table = print("table", &format!("SELECT 7, *, k * 2 {from} ORDER BY k"));
        assert_eq!(table.lines().next(), Some(" ?column? | k | ?column?"), "{table}");
        assert_eq!(table.lines().count(), 4);
    }
}

/// A script with `SELECT n` for each of these, followed by `SELEC`.
fn failing(numbers: &[u64]) -> String {
    let selects: Vec<String> = numbers.iter().map(|n| format!("SELECT {n} AS n;\n")).collect();
    selects.concat() + "SELEC 9;\nSELECT 10 AS n;\n"
}

#[test]
fn a_script_runs_up_to_its_first_error_also_one_of_syntax() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("script.sql");
    fs::write(&file, failing(&[1, 2, 3, 4])).unwrap();
    let ran = "n\n1\nn\n2\nn\n3\nn\n4\n";
    let done = sql(&["-f", file.to_str().unwrap()], "");
    assert_eq!((done.status.code(), text(&done.stdout).as_str()), (Some(1), ran));
    let said = text(&done.stderr);
    assert!(said.contains("script.sql: ") && said.contains("\nLINE 5: SELEC 9\n        ^\n"), "{said}");
    let done = sql(&[], &failing(&[1, 2, 3, 4]));
    assert_eq!((done.status.code(), text(&done.stdout).as_str()), (Some(1), ran));
    // Text that is cut off.
    let done = sql(&[], "SELECT 1 AS n; SELECT 'two");
    assert_eq!((done.status.code(), text(&done.stdout).as_str()), (Some(1), "n\n1\n"));
    assert!(text(&done.stderr).contains("unterminated string literal"), "{}", text(&done.stderr));
    // An execution error before a syntax error is reported first, with its place.
    let done = sql(&[], "SELECT 1 AS n;\nSELECT x;\nSELEC 2;");
    let said = text(&done.stderr);
    assert!(
        text(&done.stdout) == "n\n1\n" && said.contains("(in statement 2, line 2)") && !said.contains("SELEC 2"),
        "{said}"
    );
    // An argument is parsed completely first.
    let done = sql(&["-c", "SELECT 1 AS n; SELEC 2"], "");
    assert_eq!((done.status.code(), text(&done.stdout).as_str()), (Some(1), ""));
}

#[test]
fn scripts_include_others() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, script: &str| {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, script).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let main = write("main.sql", "SELECT 1 AS n;\n\\ir 'sub/in side.sql'\nSELECT 4 AS n;\n\\q\nSELECT 5 AS n;");
    write("sub/in side.sql", "SELECT 2 AS n; \\ir deep.sql\nSELECT 3 AS n; \\q\nSELECT 33 AS n;");
    write("sub/deep.sql", "SELECT 22 AS n");
    let all = "n\n1\nn\n2\nn\n22\nn\n3\nn\n4\n";
    let printed = |arguments: &[&str], input: &str| {
        let done = sql(arguments, input);
        assert!(done.status.success(), "{}", text(&done.stderr));
        text(&done.stdout)
    };
    assert_eq!(printed(&["-f", &main], ""), all);
    assert_eq!(printed(&[], &format!("\\i {main}\n")), all);
    assert_eq!(printed(&["-c", &format!("\\i {main}"), "-c", "SELECT 6 AS n"], ""), format!("{all}n\n6\n"));

    let broken = write("broken.sql", &failing(&[7]));
    let outer = write("outer.sql", "SELECT 6 AS n;\n\\ir broken.sql\nSELECT 8 AS n;\n");
    let done = sql(&["-f", &outer], "");
    assert_eq!((done.status.code(), text(&done.stdout).as_str()), (Some(1), "n\n6\nn\n7\n"));
    assert!(text(&done.stderr).contains(&format!("outer.sql: {broken}: ")), "{}", text(&done.stderr));
    let endless = write("endless.sql", "\\ir endless.sql");
    for (script, said) in [
        (format!("\\i {endless}"), "more than 16 deep"),
        ("\\i".to_owned(), "needs the name of a file"),
        ("\\i /nowhere/x.sql".to_owned(), "/nowhere/x.sql: No such file"),
        ("\\i 'a\nb'".to_owned(), "line 1: a quote is not closed"),
        ("\\lo_list t".to_owned(), "there is no command \\lo_list t"),
        ("\\copy t".to_owned(), "\\copy: expected TABLE [(COLUMNS)] FROM FILE"),
    ] {
        let done = sql(&[], &format!("SELECT 1 AS n; {script}\n; SELECT 2 AS n"));
        assert_eq!((done.status.code(), text(&done.stdout).as_str()), (Some(1), "n\n1\n"), "{script}");
        assert!(text(&done.stderr).contains(said), "{script}: {}", text(&done.stderr));
    }
}

/// A session whose standard input stays open.
struct Open {
    child: Child,
    lines: Receiver<String>,
}

impl Open {
    fn start() -> Self {
        Self::start_in(None)
    }

    fn start_in(database: Option<&std::path::Path>) -> Self {
        let mut command = Command::new(BINARY);
        command.arg("sql").args(database).args(["--format", "csv"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (sender, lines) = mpsc::channel();
        let output = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || output.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Self { child, lines }
    }

    fn write(&mut self, text: &str) {
        let input = self.child.stdin.as_mut().unwrap();
        input.write_all(text.as_bytes()).unwrap();
        input.flush().unwrap();
    }

    /// The next two lines: a header and a row.
    fn row(&self) -> String {
        let line =
            || self.lines.recv_timeout(Duration::from_secs(60)).expect("a statement waits for what comes behind it");
        format!("{}={}", line(), line())
    }

    fn says_nothing(&self) -> bool {
        self.lines.recv_timeout(Duration::from_millis(300)).is_err()
    }

    /// Maximum bytes of memory so far.
    fn memory_max(&self) -> usize {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() << 10
    }

    /// The end, with standard input still open: exit code and messages.
    fn ends(mut self) -> (Option<i32>, String) {
        let input = self.child.stdin.take();
        let mut said = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        let status = self.child.wait().unwrap();
        drop(input);
        (status.code(), said)
    }
}

#[test]
fn a_statement_runs_as_soon_as_its_end_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("script.sql");
    fs::write(&file, "SELECT 'file' AS f").unwrap();
    let mut open = Open::start();
    open.write("SELECT 1 AS a;");
    assert_eq!(open.row(), "a=1");
    open.write(" CREATE TABLE t (k BIGINT PRIMARY KEY, v TEXT); INSERT INTO t VALUES (1, 'a;\n");
    open.write("SELECT 9 AS no;'); -- SELECT 9 AS no;\n/* SELECT 9 AS no; */ SELECT v AS v");
    assert!(open.says_nothing());
    open.write(" FROM t WHERE k = 1 AND v <> 'SELECT';\n");
    assert_eq!(open.row(), "v=\"a;");
    assert_eq!(open.lines.recv().unwrap(), "SELECT 9 AS no;\"");
    open.write("CREATE PROCEDURE p() LANGUAGE SQL AS $$ SELECT 2 AS p; SELECT 3 AS p; ");
    assert!(open.says_nothing());
    open.write("$$; CALL p();");
    assert_eq!(open.row(), "p=3");
    // A command ends with its line.
    open.write(&format!("SELECT 4 AS a; \\i {}", file.display()));
    assert_eq!(open.row(), "a=4");
    assert!(open.says_nothing());
    open.write("\n");
    assert_eq!(open.row(), "f=file");
    open.write("SELECT 'grö");
    open.write("ße' AS a;");
    assert_eq!(open.row(), "a=größe");
    // The first error ends the script without waiting for the rest.
    open.write("SELECT 5 AS a;\nSELECT x;");
    assert_eq!(open.row(), "a=5");
    let (code, said) = open.ends();
    assert!(code == Some(1) && said.contains("(in statement 10, line 6)"), "{code:?}: {said}");
}

#[test]
fn a_script_on_standard_input_ends_before_its_input_does() {
    for (script, code, says) in [
        ("SELECT 1 AS a; SELEC 2;", 1, "\nLINE 1: SELEC 2\n        ^\n"),
        ("SELECT 1 AS a; \\i /nowhere/x.sql\n", 1, "/nowhere/x.sql: No such file"),
        ("SELECT 1 AS a; \\i -\n", 1, "cannot include itself"),
        ("SELECT 1 AS a; \\i 'x\n", 1, "line 1: a quote is not closed"),
        ("SELECT 1 AS a;\n\\q\n", 0, ""),
    ] {
        let mut open = Open::start();
        open.write(script);
        assert_eq!(open.row(), "a=1", "{script}");
        let (found, said) = open.ends();
        assert!(found == Some(code) && said.contains(says), "{script}: {found:?}: {said}");
    }
    // Bytes that are not text.
    let mut open = Open::start();
    open.child.stdin.as_mut().unwrap().write_all(b"SELECT 1 AS a;\nSELECT '\xff';").unwrap();
    assert_eq!(open.row(), "a=1");
    let (code, said) = open.ends();
    assert!(code == Some(1) && said.contains("standard input: line 2 is not UTF-8 text: byte 0xff"), "{said}");
    // Ctrl-C while it waits for more input.
    let mut open = Open::start();
    open.write("SELECT 1 AS a; SELECT");
    assert_eq!(open.row(), "a=1");
    assert!(Command::new("kill").args(["-INT", &open.child.id().to_string()]).status().unwrap().success());
    assert_eq!(open.ends().0, Some(130));
}

/// SIGTERM while a program waits for its input is the end of it; a statement that it stops is not.
#[test]
fn sigterm_says_whether_it_has_stopped_anything() {
    let endless = "SELECT count(*) FROM generate_series(1, 100000) a, generate_series(1, 100000) b,
                   generate_series(1, 100000) c WHERE a.value + b.value + c.value = 7;";
    for (then, code) in [("", 0), ("DELETE FROM t", 0), (endless, 143)] {
        let folder = tempfile::tempdir().unwrap();
        let mut open = Open::start_in(Some(folder.path()));
        open.write("CREATE TABLE t (k BIGINT PRIMARY KEY); INSERT INTO t VALUES (1); SELECT count(*) AS a FROM t;");
        assert_eq!(open.row(), "a=1");
        open.write(then);
        std::thread::sleep(std::time::Duration::from_millis(500));
        assert!(Command::new("kill").args(["-TERM", &open.child.id().to_string()]).status().unwrap().success());
        // Waiting would close it, which is the end of a script.
        let _input = open.child.stdin.take();
        assert_eq!(open.child.wait().unwrap().code(), Some(code), "{then}");
        assert_eq!(rows(Some(folder.path()), "SELECT count(*) AS a FROM t"), "a\n1\n", "{then}");
    }
}

#[test]
fn a_script_is_not_kept_in_memory() {
    let mut open = Open::start();
    open.write("SELECT 1 AS a;");
    assert_eq!(open.row(), "a=1");
    let before = open.memory_max();
    let comment = format!("/* {} */\n", "x".repeat(1000));
    let statement = format!("SELECT 2 AS b WHERE 'x' <> '{}';\n", "y".repeat(100_000));
    for _ in 0..64 {
        open.write(&comment.repeat(1000));
        open.write(&statement);
    }
    open.write("SELECT 3 AS c;");
    for _ in 0..64 {
        assert_eq!(open.row(), "b=2");
    }
    assert_eq!(open.row(), "c=3");
    let more = open.memory_max() - before;
    assert!(more < 32 << 20, "{more} bytes more for 70 MB of script");
    drop(open.child.stdin.take());
    assert!(open.child.wait().unwrap().success());
}
