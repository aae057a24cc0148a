//! `system.snapshots`: one row about snapshots of row tables since the database was opened.

use thermocline_compute::Columns;
use thermocline_transactions::database::{SnapshotReport, SnapshotStatus};

/// Snapshots since the database was opened.
pub struct Row {
    status: SnapshotStatus,
    /// Error of the last attempt; `None` if it succeeded.
    error: Option<String>,
    /// Error of removing obsolete parts of the log; `None` if there is none.
    log_error: Option<String>,
}

pub fn columns() -> Columns<Row> {
    let last = |of: fn(&SnapshotReport) -> u64| move |row: &Row| row.status.last.as_ref().map(of);
    Columns::default()
        .number("taken_total", |row: &Row| row.status.taken_total)
        .number("failed_total", |row| row.status.failed_total)
        .optional_text("error", |row| row.error.as_deref())
        .boolean("running", |row| row.status.is_running)
        .optional_number("last_record", last(|report| report.position.0))
        .optional_number("rows", last(|report| report.rows))
        .optional_number("bytes", last(|report| report.bytes))
        .optional_number("duration_us", last(|report| micros(report.duration)))
        .optional_number("pause_us_max", last(|report| micros(report.pause_max)))
        .number("log_bytes", |row| row.status.log_bytes)
        .optional_text("log_error", |row| row.log_error.as_deref())
}

fn micros(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

pub fn row(status: SnapshotStatus) -> Row {
    let error = status.error.as_ref().map(ToString::to_string);
    let log_error = status.log_error.as_ref().map(ToString::to_string);
    Row { status, error, log_error }
}
