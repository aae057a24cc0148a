//! Generated data that commands reuse.

use std::path::PathBuf;

use datafusion::common::{Result, exec_datafusion_err};
use thermocline_workloads::Workload;
use thermocline_workloads::generate::{Format, GenerateOptions};

/// The folder with the workload's data of `scale`, generated if missing; below `parent`, or below the user's cache.
///
/// # Errors
/// If it cannot be written.
pub fn workload_data(
    workload: &Workload,
    parent: Option<PathBuf>,
    scale: f64,
    format: Format,
    partition_size: u64,
) -> Result<PathBuf> {
    let parent = parent.unwrap_or_else(user_cache);
    let name = workload.name;
    let out = parent.join(format!("{name}-{scale}-{}-{partition_size}", format.extension()));
    let complete = out.join("complete");
    if complete.exists() {
        return Ok(out);
    }
    let failed = |error: &dyn std::fmt::Display| exec_datafusion_err!("{name} data in {}: {error}", out.display());
    if out.exists() {
        // Remains of a killed run.
        std::fs::remove_dir_all(&out).map_err(|error| failed(&error))?;
    }
    eprintln!("making {name} data of scale {scale} in {} ...", out.display());
    let options = GenerateOptions { scale, format, partition_size, out: out.clone(), threads: 0 };
    (workload.generate)(&options, &|_| {}).map_err(|error| failed(&error))?;
    std::fs::write(&complete, "").map_err(|error| failed(&error))?;
    Ok(out)
}

/// Directory for data that can be generated again.
pub fn user_cache() -> PathBuf {
    let base = std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache")))
        .unwrap_or_else(std::env::temp_dir);
    base.join("thermocline")
}
