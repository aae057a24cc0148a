//! Location of a test's objects: in this process, or behind storage node processes.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A storage node process; killed when dropped.
pub struct NodeProcess {
    pub process: Child,
    pub address: String,
}

impl NodeProcess {
    /// `thermocline storage ROOT --listen 127.0.0.1:0` and further arguments.
    pub fn start(root: &str, listen: &str, arguments: &[&str], environment: &[(&str, String)]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_thermocline"));
        command
            .args(["storage", root, "--listen", listen])
            .args(arguments)
            .envs(environment.iter().map(|(name, value)| (*name, value.as_str())));
        Self::started(command)
    }

    /// A node over a directory on a free port, started by the shell's script `limits[2]`, which is given
    /// the command as `$@`.
    pub fn start_with(limits: &[&str; 3], root: &str) -> Self {
        let [shell, option, script] = limits;
        let mut command = Command::new(shell);
        command.args([option, script, "sh", env!("CARGO_BIN_EXE_thermocline")]);
        command.args(["storage", root, "--listen", "127.0.0.1:0"]);
        Self::started(command)
    }

    fn started(mut command: Command) -> Self {
        let mut process = command.stdout(Stdio::piped()).spawn().expect("the storage node starts");
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().rsplit(' ').next().unwrap_or_default().to_owned();
        assert!(address.contains(':'), "the storage node said {line:?}");
        Self { process, address }
    }

    /// A node over a directory on a free port.
    pub fn over(root: &Path) -> Self {
        Self::start(root.to_str().unwrap(), "127.0.0.1:0", &[], &[])
    }
}

impl Drop for NodeProcess {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Spreads the objects of `source` over `parts` directories, keeping their paths: every part gets some objects of every
/// table that has several.
pub fn spread(source: &Path, parts: &[&Path]) {
    let mut turn = 0;
    for table in std::fs::read_dir(source).unwrap().map(Result::unwrap).filter(|entry| entry.path().is_dir()) {
        let mut objects: Vec<_> = std::fs::read_dir(table.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
        objects.sort();
        for object in objects {
            let part = parts[turn % parts.len()].join(table.file_name());
            turn += 1;
            std::fs::create_dir_all(&part).unwrap();
            // Copied, not linked: a node refuses links that lead out of its ROOT.
            std::fs::copy(&object, part.join(object.file_name().unwrap())).unwrap();
        }
    }
}
