//! A storage node as a process of its own, for the demonstration and the benches.

use std::path::Path;
use std::process::Stdio;

use datafusion::common::{Result, exec_datafusion_err};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

/// What a node is told beside its ROOT.
#[derive(Debug, Clone, Default, PartialEq, clap::Args)]
pub struct NodeOptions {
    /// Limit of the storage node's link, such as 1Gbps; without it the node is in this process
    #[arg(long)]
    pub egress_limit: Option<String>,
}

impl NodeOptions {
    /// Whether a node in this process does as well.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    fn arguments(&self) -> Vec<&str> {
        self.egress_limit.iter().flat_map(|rate| ["--egress-limit", rate]).collect()
    }
}

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
    pub async fn start(root: &Path, options: &NodeOptions) -> Result<Self> {
        let failed = |why: String| exec_datafusion_err!("the storage node does not start: {why}");
        let program = std::env::current_exe().map_err(|error| failed(error.to_string()))?;
        let mut command = Command::new(program);
        command.arg("storage").arg(root).args(["--listen", "127.0.0.1:0"]).args(options.arguments());
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
