//! Calibrations that a database has kept.

use std::path::Path;

use arrow::temporal_conversions::timestamp_s_to_datetime;
use thermocline_workloads::calibration::kept::CalibrationFile;

use super::super::Failure;
use super::super::output;
use super::report::print_modes;

/// Prints the calibrations of the database in `directory`, which another process may have open.
///
/// # Errors
/// If the file is damaged, of a newer version or unreadable; the error names it.
pub fn show(directory: &Path) -> Result<(), Failure> {
    let calibrations = CalibrationFile::of(directory).read();
    let calibrations = calibrations.map_err(|error| Failure::Failed(format!("{error}; {}", error.remedy())))?;
    if calibrations.is_empty() {
        say!("no calibration: auto begins with defaults and a probe of each link");
    }
    for calibration in &calibrations {
        let identity = match &calibration.identity {
            None => "of a version that does not tell".to_owned(),
            Some(node) => {
                let egress = match node.egress_bytes_per_s {
                    0 => String::new(),
                    bytes => format!(", egress limit {} Mbit/s", bytes as f64 * 8.0 / 1e6),
                };
                format!(
                    "version {}, {} cores, {}, {} pushdown slots{egress}",
                    node.version, node.cores, node.machine, node.pushdown_slots
                )
            }
        };
        say!("storage {}, {}: {identity}", calibration.node, calibration.format);
        let taken_at = i64::try_from(calibration.taken_at).ok().and_then(timestamp_s_to_datetime);
        let taken_at = taken_at.map_or_else(|| calibration.taken_at.to_string(), |time| format!("{time} UTC"));
        say!("measured with table {}, {taken_at}", calibration.table);
        print_modes(calibration);
    }
    output::flush()
}
