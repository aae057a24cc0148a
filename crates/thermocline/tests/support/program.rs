//! The program `thermocline`, run as users run it.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

/// Its path.
pub const BINARY: &str = env!("CARGO_BIN_EXE_thermocline");

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Runs a script and returns its output.
pub fn output(directory: Option<&Path>, settings: &[&str], script: &str) -> Output {
    let mut command = Command::new(BINARY);
    command.arg("sql").args(directory).args(["--format", "csv", "-c", script]);
    for setting in settings {
        command.args(["--set", setting]);
    }
    command.output().unwrap()
}

/// Runs a script on a database in a working directory.
pub fn output_at(database: &Path, working: &Path, script: &str) -> Output {
    let mut command = Command::new(BINARY);
    command.arg("sql").arg(database).args(["--format", "csv", "-c", script]).current_dir(working);
    command.output().unwrap()
}

/// The rows that a script prints.
pub fn rows(directory: Option<&Path>, script: &str) -> String {
    let done = output(directory, &["executor_partitions=2"], script);
    assert!(done.status.success(), "{script}\n{}", text(&done.stderr));
    text(&done.stdout)
}

/// The error that ends a script.
pub fn error(directory: Option<&Path>, script: &str) -> String {
    let done = output(directory, &["executor_partitions=2"], script);
    assert_eq!(done.status.code(), Some(1), "{script}\n{}", text(&done.stdout));
    text(&done.stderr)
}

/// A process that has run a script whose first row is `done`, and goes on with `then`: the arguments after the script.
pub fn start(directory: &Path, script: &str, then: &[&str]) -> Child {
    let mut child = Command::new(BINARY)
        .arg("sql")
        .arg(directory)
        .args(["--format", "csv", "--set", "executor_partitions=2", "-c", script])
        .args(then)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    if line != "done\n" {
        let mut said = String::new();
        child.stderr.as_mut().unwrap().read_to_string(&mut said).unwrap();
        panic!("{line}{said}");
    }
    child
}
