//! CPU time of processes, as the kernel counts it.

use std::fs;

/// Ticks per second in `/proc`: the same for every program, whatever the kernel's own are.
const TICKS_PER_S: f64 = 100.0;
/// Fields between the name of the program and its ticks in user mode.
const FIELDS_BEFORE: usize = 11;

/// Seconds that all threads of a process have spent on a core, in user mode and in the kernel, in steps of 10 ms;
/// `None` if there is no such process or this system has no `/proc`.
pub fn cpu_seconds(process: u32) -> Option<f64> {
    seconds_of(&fs::read_to_string(format!("/proc/{process}/stat")).ok()?)
}

fn seconds_of(stat: &str) -> Option<f64> {
    // The name is in parentheses and may contain anything, even parentheses and blanks.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(FIELDS_BEFORE);
    let ticks = fields.next()?.parse::<u64>().ok()? + fields.next()?.parse::<u64>().ok()?;
    Some(ticks as f64 / TICKS_PER_S)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_follow_the_name_of_the_program() {
        let stat = "4021 (a) R (b 1) S 1 2 3 4 5 6 7 8 9 10 250 75 1000 1000 20 0 8 0 99";
        assert_eq!(seconds_of(stat), Some(3.25));
        assert_eq!(seconds_of("4021 (short) S 1 2 3"), None);
        assert_eq!(seconds_of(""), None);
    }

    #[test]
    fn only_a_process_has_cpu_time() {
        assert!(cpu_seconds(std::process::id()).is_some());
        assert_eq!(cpu_seconds(u32::MAX), None);
    }
}
