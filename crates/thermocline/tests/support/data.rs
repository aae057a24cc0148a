//! SSB data sets, made once per process.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use thermocline_workloads::ssb::{Format, SsbOptions, TABLES, Table, create_table_sql, generate, schema};

/// Scale of the SSB data: 0.02 unless `THERMOCLINE_SSB_SCALE` says otherwise.
pub fn scale() -> f64 {
    std::env::var("THERMOCLINE_SSB_SCALE").map_or(0.02, |scale| scale.parse().expect("a scale"))
}

/// The SSB data in `format`, one folder per table.
pub fn ssb(format: Format) -> &'static Path {
    static PARQUET: OnceLock<PathBuf> = OnceLock::new();
    static CSV: OnceLock<PathBuf> = OnceLock::new();
    let made = match format {
        Format::Parquet => &PARQUET,
        Format::Csv => &CSV,
    };
    made.get_or_init(|| {
        let scale = scale();
        // Kept between runs: the generator is deterministic.
        let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("ssb-{scale}-{}", format.extension()));
        let done = out.join("complete");
        if !done.exists() {
            let _ = std::fs::remove_dir_all(&out);
            let partition_size = if scale < 0.5 { 256 << 10 } else { 16 << 20 };
            let options = SsbOptions { scale, format, partition_size, out: out.clone(), threads: 0 };
            generate(&options, &|_| {}).expect("SSB data");
            std::fs::write(done, "").unwrap();
        }
        out
    })
}

/// Statements that make DuckDB read the same files.
pub fn duckdb_views(format: Format, directory: &Path) -> Vec<String> {
    TABLES
        .into_iter()
        .map(|table| {
            let files = format!("{}/{table}/*.{}", directory.display(), format.extension());
            let source = match format {
                Format::Parquet => format!("read_parquet('{files}')"),
                Format::Csv => format!("read_csv('{files}', header = true, columns = {{{}}})", duckdb_columns(table)),
            };
            format!("CREATE OR REPLACE VIEW {table} AS SELECT * FROM {source}")
        })
        .collect()
}

fn duckdb_columns(table: Table) -> String {
    use arrow::datatypes::DataType;
    let columns: Vec<_> = schema(table)
        .fields()
        .iter()
        .map(|field| {
            let name = match field.data_type() {
                DataType::Int32 => "INTEGER",
                DataType::Int64 => "BIGINT",
                _ => "VARCHAR",
            };
            format!("'{}': '{name}'", field.name())
        })
        .collect();
    columns.join(", ")
}

/// Statements that define the tables at `location` followed by the table's name.
pub fn definitions(format: Format, location: &str) -> Vec<String> {
    TABLES.into_iter().map(|table| create_table_sql(table, format, &format!("{location}/{table}"))).collect()
}
