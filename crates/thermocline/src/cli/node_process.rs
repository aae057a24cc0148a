//! A storage node as a process of its own, for the demonstration and the benches.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use datafusion::common::{Result, exec_datafusion_err};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use super::bench::rate;

/// Options of a node besides its ROOT.
#[derive(Debug, Clone, Default, PartialEq, clap::Args)]
pub struct NodeOptions {
    /// Limit of the storage node's link, such as 1Gbps; without it the node is in this process
    #[arg(long, value_parser = rate)]
    pub egress_limit: Option<String>,
    /// Fragments that the storage node runs at once
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub pushdown_slots: Option<u32>,
    /// Concurrent transfers after pushbacks; 0 for eager pushdown
    #[arg(long, value_parser = clap::value_parser!(u32).range(0..=65_536))]
    pub pushback_slots: Option<u32>,
    /// Order of waiting fragments: pa-aware or fifo
    #[arg(long, value_parser = ["pa-aware", "fifo"])]
    pub arbitration: Option<String>,
    /// Compute power of a running fragment, as a share of a core.
    #[arg(skip)]
    pub compute_power: Option<f64>,
    /// Core of the node; `None` for all cores.
    #[arg(skip)]
    pub core: Option<usize>,
    /// Directory of its indexes; `None` for one below its root.
    #[arg(skip)]
    pub index_dir: Option<PathBuf>,
}

impl NodeOptions {
    /// Whether a node in this process suffices.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    fn arguments(&self) -> Vec<String> {
        let given = [
            ("--egress-limit", self.egress_limit.clone()),
            ("--pushdown-slots", self.pushdown_slots.map(|slots| slots.to_string())),
            ("--pushback-slots", self.pushback_slots.map(|slots| slots.to_string())),
            ("--arbitration", self.arbitration.clone()),
            ("--index-dir", self.index_dir.as_ref().map(|folder| folder.display().to_string())),
            ("--compute-power", self.compute_power.map(|power| power.to_string())),
        ];
        given.into_iter().filter_map(|(name, value)| Some([name.to_owned(), value?])).flatten().collect()
    }
}

/// A running node; it ends when this is dropped.
#[derive(Debug)]
pub struct NodeProcess {
    process: Child,
    /// `host:port`.
    pub address: String,
}

impl NodeProcess {
    /// Starts this program as a storage node over `root` on a free port.
    ///
    /// # Errors
    /// If it does not start.
    pub async fn start(root: &Path, options: &NodeOptions) -> Result<Self> {
        Self::start_at("127.0.0.1:0", root, options).await
    }

    /// Ends this node and starts one with other `options` over `root` at its address.
    ///
    /// # Errors
    /// If it does not start.
    pub async fn restart(mut self, root: &Path, options: &NodeOptions) -> Result<Self> {
        self.process.kill().await?;
        Self::start_at(&self.address, root, options).await
    }

    async fn start_at(listen: &str, root: &Path, options: &NodeOptions) -> Result<Self> {
        let failed = |why: String| exec_datafusion_err!("the storage node does not start: {why}");
        let program = std::env::current_exe().map_err(|error| failed(error.to_string()))?;
        let mut command = match options.core {
            None => Command::new(program),
            Some(core) => {
                let mut command = Command::new("taskset");
                command.args(["--cpu-list", &core.to_string()]).arg(program);
                command
            }
        };
        command.arg("storage").arg(root).args(["--listen", listen, "--until-stdin-ends"]).args(options.arguments());
        // The pipe ends with this process, even if it is killed.
        let mut process = command
            .stdin(Stdio::piped())
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
        Ok(Self { process, address })
    }

    /// Its process id; `None` once it has ended.
    pub fn id(&self) -> Option<u32> {
        self.process.id()
    }
}

/// Pins this process, with all its threads, to one core, so that a storage node has another for itself.
///
/// # Errors
/// A sentence that says why that is impossible.
pub fn pin_this_process(core: usize) -> std::result::Result<(), String> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    if cores < 2 {
        return Err("there is only one".to_owned());
    }
    let pinned = std::process::Command::new("taskset")
        .args(["--all-tasks", "--cpu-list", "--pid", &core.to_string(), &std::process::id().to_string()])
        .stdout(Stdio::null())
        .status();
    match pinned {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("taskset ended with {status}")),
        Err(error) => Err(format!("taskset: {error}")),
    }
}
