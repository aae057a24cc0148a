use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::program::BINARY;

/// The shell in a terminal.
pub struct Terminal {
    process: Child,
    said: Arc<Mutex<String>>,
}

impl Terminal {
    /// A shell with additional options of `thermocline sql`.
    pub fn open(database: &Path, options: &str) -> Self {
        Self::started(&format!("exec {BINARY} sql {} {options}", database.display()), database, &[])
    }

    /// A shell in a terminal of so many columns.
    pub fn sized(database: &Path, columns: usize) -> Self {
        let command = format!("stty columns {columns} rows 40; exec {BINARY} sql {}", database.display());
        Self::started(&command, database, &[])
    }

    /// A shell with an editor for `\e`.
    pub fn with_editor(database: &Path, editor: &str) -> Self {
        Self::started(&format!("exec {BINARY} sql {}", database.display()), database, &[("EDITOR", editor)])
    }

    /// A shell in a terminal that marks what is pasted.
    pub fn with_pastes(database: &Path) -> Self {
        Self::started(&format!("exec {BINARY} sql {}", database.display()), database, &[("TERM", "xterm")])
    }

    fn started(command: &str, database: &Path, environment: &[(&str, &str)]) -> Self {
        let mut process = Command::new("script")
            .args(["--quiet", "--flush", "--return", "--command", command, "/dev/null"])
            .env("TERM", "dumb")
            .env("XDG_STATE_HOME", database)
            .env_remove("PSQL_EDITOR")
            .env_remove("VISUAL")
            .envs(environment.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let said = Arc::new(Mutex::new(String::new()));
        let (mut output, heard) = (process.stdout.take().unwrap(), Arc::clone(&said));
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(read @ 1..) = output.read(&mut buffer) {
                heard.lock().unwrap().push_str(&String::from_utf8_lossy(&buffer[..read]));
            }
        });
        Self { process, said }
    }

    pub fn types(&mut self, text: &str) {
        let input = self.process.stdin.as_mut().unwrap();
        input.write_all(text.as_bytes()).unwrap();
        input.flush().unwrap();
    }

    /// Types a text of several lines at once, and Enter.
    pub fn pastes(&mut self, text: &str) {
        self.types(&format!("\x1b[200~{}\x1b[201~", text.replace('\n', "\r")));
        self.types("\r");
    }

    /// Waits for this output since the last call; returns all output since then.
    pub fn hears(&self, part: &str) -> String {
        let began = Instant::now();
        loop {
            let mut said = self.said.lock().unwrap();
            if let Some(at) = said.find(part) {
                let rest = said.split_off(at + part.len());
                return std::mem::replace(&mut said, rest);
            }
            assert!(began.elapsed() < Duration::from_secs(60), "waited for {part} in: {said}");
            drop(said);
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Quits at the next prompt, and waits for the end. The input stays open until then, so that `script` types nothing
    /// of its own.
    pub fn quits(mut self) {
        self.hears("thermocline> ");
        self.types("\\q\r");
        let input = self.process.stdin.take();
        let status = self.process.wait().unwrap();
        drop(input);
        assert!(status.success(), "{status}: {}", self.said.lock().unwrap());
    }

    /// Waits for the end of a shell that ends by itself; returns its exit code.
    pub fn ends(mut self) -> Option<i32> {
        let input = self.process.stdin.take();
        let status = self.process.wait().unwrap();
        drop(input);
        status.code()
    }
}
