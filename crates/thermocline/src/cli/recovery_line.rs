//! Progress of a long recovery, on standard error.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use thermocline_transactions::recovery::Progress;

use super::failure::notice;

/// Recoveries shorter than this show nothing.
const DELAY: Duration = Duration::from_secs(1);
/// Interval between two lines.
const INTERVAL: Duration = Duration::from_secs(2);
/// MiB of a log from which its progress is shown in MiB.
const UNITS_MIN: u64 = 10;

/// Lines about one recovery.
#[derive(Debug)]
pub struct RecoveryLine {
    directory: PathBuf,
    next: Instant,
}

impl RecoveryLine {
    /// A reporter for the database in a directory, starting now.
    pub fn new(directory: Option<&Path>) -> Self {
        Self { directory: directory.unwrap_or(Path::new("")).to_owned(), next: Instant::now() + DELAY }
    }

    /// Prints the progress, unless it did so a moment ago.
    pub fn show(&mut self, progress: &Progress) {
        if Instant::now() >= self.next {
            self.next = Instant::now() + INTERVAL;
            notice(format_args!("recovering {}: {}", self.directory.display(), text(progress)));
        }
    }
}

fn text(progress: &Progress) -> String {
    let Progress { rows, rows_total, log_bytes, log_bytes_total, records } = *progress;
    if log_bytes == 0 && rows < rows_total {
        return format!("{rows} of {rows_total} rows of the snapshot");
    }
    // The unit of which there are enough to see progress.
    let (unit, bytes) = if log_bytes_total < UNITS_MIN << 20 { ("KiB", 1 << 10) } else { ("MiB", 1 << 20) };
    let (done, total) = (log_bytes / bytes, log_bytes_total.div_ceil(bytes));
    format!("{done} of {total} {unit} of the log, {records} transactions")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_snapshot_comes_before_the_log() {
        let progress = Progress { rows: 5, rows_total: 10, log_bytes_total: 3 << 20, ..Progress::default() };
        assert_eq!(text(&progress), "5 of 10 rows of the snapshot");
        let progress = Progress { rows: 10, log_bytes: 1 << 20, records: 7, ..progress };
        assert_eq!(text(&progress), "1024 of 3072 KiB of the log, 7 transactions");
        let progress = Progress { log_bytes_total: (30 << 20) + 1, ..progress };
        assert_eq!(text(&progress), "1 of 31 MiB of the log, 7 transactions");
    }
}
