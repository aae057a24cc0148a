//! A storage node as a process of its own, for the demonstration and the benches.

use std::path::Path;
use std::process::Stdio;

use datafusion::common::{Result, exec_datafusion_err};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

/// A running node; it ends when this is dropped.
#[derive(Debug)]
pub struct NodeProcess {
    _process: Child,
    /// `host:port`.
    pub address: String,
}

impl NodeProcess {
    /// Starts this program as a storage node over `root` on a free port.
    ///
    /// # Errors
    /// If it does not start.
    pub async fn start(root: &Path, egress: Option<&str>) -> Result<Self> {
        let failed = |why: String| exec_datafusion_err!("the storage node does not start: {why}");
        let program = std::env::current_exe().map_err(|error| failed(error.to_string()))?;
        let mut command = Command::new(program);
        command.arg("storage").arg(root).args(["--listen", "127.0.0.1:0"]);
        if let Some(rate) = egress {
            command.args(["--egress-limit", rate]);
        }
        let mut process = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| failed(error.to_string()))?;
        let output = process.stdout.take().ok_or_else(|| failed("no output".into()))?;
        let line = BufReader::new(output).lines().next_line().await.map_err(|error| failed(error.to_string()))?;
        let address = line.as_deref().and_then(|line| line.rsplit(' ').next()).unwrap_or_default().to_owned();
        if !address.contains(':') {
            return Err(failed("it ended at once".into()));
        }
        Ok(Self { _process: process, address })
    }
}
