//! Calibrations that a database has kept.

use std::path::Path;

use thermocline_workloads::calibration::kept::CalibrationFile;

use super::super::Failure;
use super::super::output;
use super::report::print_modes;

/// Prints the calibrations of the database in `directory`, which another process may have open.
///
/// # Errors
/// If the file is damaged; the error names it.
pub fn show(directory: &Path) -> Result<(), Failure> {
    let calibrations = CalibrationFile::of(directory).read().map_err(|error| Failure::Failed(error.to_string()))?;
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
        say!("measured with table {}, {} s after 1970 began", calibration.table, calibration.taken_at);
        print_modes(calibration);
    }
    output::flush()
}
