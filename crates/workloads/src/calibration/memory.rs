//! Memory that this process may use.

use std::path::{Path, PathBuf};

/// Share of the memory that a calibration may fill with cached columns: queries, the page cache and everything else of
/// the machine share the rest.
const CACHED_SHARE: f64 = 0.5;

/// Most bytes of columns that a calibration may cache: half of what this process may use, or `otherwise` where the
/// system does not tell how much that is.
pub fn cached_bytes_max(otherwise: u64) -> u64 {
    limit(Path::new("/")).map_or(otherwise, |limit| (limit as f64 * CACHED_SHARE) as u64)
}

/// Bytes that this process may use, by the files of Linux below `root`: the least of the machine's memory and the limits
/// of its control groups. `None` without such files.
fn limit(root: &Path) -> Option<u64> {
    let read = |path: &Path| std::fs::read_to_string(root.join(path)).ok();
    let machine = read(Path::new("proc/meminfo")).as_deref().and_then(total);
    let groups = read(Path::new("proc/self/cgroup")).unwrap_or_default();
    // A group without a limit says "max", which does not parse.
    let limits = groups.lines().flat_map(limit_files).filter_map(|path| read(&path)?.trim().parse::<u64>().ok());
    machine.into_iter().chain(limits).min()
}

/// The machine's memory in the text of `/proc/meminfo`.
fn total(told: &str) -> Option<u64> {
    let line = told.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// Files with the limits of a group and of all above it, by its line in `/proc/self/cgroup`: `0::/a/b` in version 2 of
/// control groups, `4:cpu,memory:/a/b` in version 1. In a container, the topmost group is often the container's own, and
/// the path is that of the host.
fn limit_files(line: &str) -> Vec<PathBuf> {
    let mut fields = line.splitn(3, ':');
    let (Some(_), Some(controllers), Some(group)) = (fields.next(), fields.next(), fields.next()) else {
        return vec![];
    };
    let (mount, file) = match controllers {
        "" => ("sys/fs/cgroup", "memory.max"),
        controllers if controllers.split(',').any(|name| name == "memory") => {
            ("sys/fs/cgroup/memory", "memory.limit_in_bytes")
        }
        _ => return vec![],
    };
    let group = Path::new(group.trim_start_matches('/'));
    group.ancestors().map(|group| Path::new(mount).join(group).join(file)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A root directory with these files.
    fn root(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        root
    }

    const MACHINE: (&str, &str) = ("proc/meminfo", "MemTotal:       1000 kB\nMemFree:         10 kB\n");

    #[test]
    fn the_least_limit_counts() {
        let version_2 = ("proc/self/cgroup", "0::/user/session\n");
        let version_1 = ("proc/self/cgroup", "5:cpu:/fast\n4:memory,hugetlb:/docker/x\n0::/\n");
        let limit_of = |files: &[(&str, &str)]| limit(root(files).path());
        assert_eq!(limit_of(&[]), None);
        assert_eq!(limit_of(&[("proc/meminfo", "MemFree: 7 kB\n")]), None);
        assert_eq!(limit_of(&[MACHINE]), Some(1_024_000));
        assert_eq!(
            limit_of(&[MACHINE, version_2, ("sys/fs/cgroup/user/session/memory.max", "max\n")]),
            Some(1_024_000)
        );
        assert_eq!(
            limit_of(&[MACHINE, version_2, ("sys/fs/cgroup/user/session/memory.max", "500000\n")]),
            Some(500_000)
        );
        assert_eq!(limit_of(&[MACHINE, version_2, ("sys/fs/cgroup/user/memory.max", "400000\n")]), Some(400_000));
        assert_eq!(limit_of(&[MACHINE, version_2, ("sys/fs/cgroup/memory.max", "300000\n")]), Some(300_000));
        // A limit above the machine's memory, as version 1 has without one.
        let unlimited = ("sys/fs/cgroup/memory/docker/x/memory.limit_in_bytes", "9223372036854771712\n");
        assert_eq!(limit_of(&[MACHINE, version_1, unlimited]), Some(1_024_000));
        let of_container = ("sys/fs/cgroup/memory/memory.limit_in_bytes", "200000\n");
        assert_eq!(limit_of(&[MACHINE, version_1, unlimited, of_container]), Some(200_000));
        assert_eq!(
            limit_of(&[MACHINE, version_1, ("sys/fs/cgroup/memory/fast/memory.limit_in_bytes", "1")]),
            Some(1_024_000)
        );
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn half_of_this_machine_s_memory_may_be_cached() {
        let bytes = cached_bytes_max(7);
        assert!(bytes > 1 << 20 && bytes < 1 << 50, "{bytes}");
        assert_eq!(bytes, limit(Path::new("/")).unwrap() / 2);
    }
}
