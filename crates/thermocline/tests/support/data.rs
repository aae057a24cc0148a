//! Data sets of the workloads, generated once.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{LazyLock, Mutex};

use thermocline_workloads::Workload;
use thermocline_workloads::generate::{Format, GenerateOptions, create_duckdb_sql, create_table_sql};

/// Scale of a workload's data: 0.02 for SSB, 0.01 for TPC-H, unless `THERMOCLINE_SSB_SCALE` or
/// `THERMOCLINE_TPCH_SCALE` says otherwise.
pub fn scale(workload: &Workload) -> f64 {
    let variable = format!("THERMOCLINE_{}_SCALE", workload.name.to_ascii_uppercase());
    let default = if workload.name == Workload::SSB.name { 0.02 } else { 0.01 };
    std::env::var(variable).map_or(default, |scale| scale.parse().expect("a scale"))
}

/// The SSB data in `format`, one folder per table.
pub fn ssb(format: Format) -> &'static Path {
    made(&Workload::SSB, format)
}

/// The workload's data in `format`, one folder per table.
pub fn made(workload: &Workload, format: Format) -> &'static Path {
    static MADE: LazyLock<Mutex<HashMap<(&str, Format), &'static Path>>> = LazyLock::new(Mutex::default);
    let mut made = MADE.lock().expect("no data set failed before");
    let make = || {
        let scale = scale(workload);
        // Kept between runs: the generators are deterministic.
        let name = format!("{}-{scale}-{}", workload.name, format.extension());
        let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let done = out.join("complete");
        if !done.exists() {
            let _ = std::fs::remove_dir_all(&out);
            let partition_size = if scale < 0.5 { 256 << 10 } else { 16 << 20 };
            let options = GenerateOptions { scale, format, partition_size, out: out.clone(), threads: 0 };
            (workload.generate)(&options, &|_| {}).expect("the workload's data");
            std::fs::write(done, "").unwrap();
        }
        // One folder per workload and format, until the process ends.
        let leaked: &'static Path = Box::leak(out.into_boxed_path());
        leaked
    };
    made.entry((workload.name, format)).or_insert_with(make)
}

/// Statements that make DuckDB read the same files.
pub fn duckdb_views(workload: &Workload, format: Format, directory: &Path) -> Vec<String> {
    workload
        .tables
        .iter()
        .map(|table| {
            let files = format!("{}/{table}/*.{}", directory.display(), format.extension());
            create_duckdb_sql(*table, format, "VIEW", &files)
        })
        .collect()
}

/// Statements that define the workload's tables at `location` followed by the table's name.
pub fn definitions(workload: &Workload, format: Format, location: &str) -> Vec<String> {
    workload.tables.iter().map(|table| create_table_sql(*table, format, &format!("{location}/{table}"))).collect()
}
