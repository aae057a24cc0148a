use std::fs;

/// The resident memory of this process, as Linux counts it.
#[derive(Debug)]
pub struct Resident;

impl Resident {
    /// Begins a new maximum. If the system refuses that, the maximum is that of the whole process.
    pub fn begin() -> Self {
        // proc(5): 5 resets the peak of the resident set.
        let _ = fs::write("/proc/self/clear_refs", "5");
        Self
    }

    /// Maximum bytes since it began; `None` if the system does not report it.
    pub fn bytes_max(&self) -> Option<u64> {
        let status = fs::read_to_string("/proc/self/status").ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
        let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
        Some(kibibytes << 10)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn the_maximum_has_what_was_freed() {
        let resident = Resident::begin();
        let before = resident.bytes_max().unwrap();
        drop(std::hint::black_box(vec![1_u8; 64 << 20]));
        assert!(resident.bytes_max().unwrap() >= before + (32 << 20));
    }
}
