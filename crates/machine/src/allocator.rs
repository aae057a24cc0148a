//! Memory that the system's allocator keeps after it was freed.
//!
//! glibc's `malloc` has arenas, up to eight for each core, and each thread keeps to one of them. Free memory of an
//! arena stays resident until the free memory at its end exceeds the trim threshold, which grows up to 64 MiB with the
//! sizes of freed blocks. Meanwhile other threads cannot use the memory that one thread allocated and another freed.
//!
//! - [`limit_memory`]: no more arenas than cores, and fewer with little memory; and thresholds in proportion to the
//!   memory. These bound the memory at the ends of arenas, which [`trim`] keeps in all but the first, at a 64th of the
//!   memory each.
//! - [`trim`]: returns free memory between used blocks to the system.
//!
//! A buffer of at least the threshold for mappings costs a system call and page faults, and the analytic engine
//! allocates many of some mebibytes. So that threshold is a 128th of the memory: 8 MiB of the default limit, and from 4
//! GiB on the most that glibc's would become by itself. With 64 MiB of memory, freed buffers of half a mebibyte are
//! returned at once; glibc would keep 64 MiB for each arena.
//!
//! The only file of the crate with `unsafe` code, because neither Rust nor a safe crate provides these two calls. They
//! do nothing if the system's allocator is not glibc's, and are useless if the program uses another one.
#![cfg_attr(all(target_os = "linux", target_env = "gnu"), expect(unsafe_code, reason = "calls of C, see above"))]

pub use imp::{limit_memory, trim};

#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod imp {
    use std::sync::Once;

    /// Memory for each arena: twice the amount that it may keep at its end.
    const ARENA_BYTES: u64 = 128 << 20;
    /// Arenas allowed with any amount of memory, up to the number of cores, so that threads need not wait for each
    /// other.
    const ARENAS_MIN: u64 = 4;
    /// Fewest arenas, however few the cores.
    const CORE_ARENAS_MIN: u64 = 2;

    /// Divisor of the memory for the bytes from which a buffer gets a mapping of its own, and their bounds: glibc's
    /// initial threshold and the largest that it accepts.
    const MAPPED_SHARE: u64 = 128;
    const MAPPED_BYTES: (u64, u64) = (128 << 10, 32 << 20);

    /// Bytes from which a buffer gets a mapping of its own in a process with this much memory. An arena keeps twice as
    /// many at its end.
    fn mapped_bytes(memory_bytes: u64) -> u64 {
        (memory_bytes / MAPPED_SHARE).clamp(MAPPED_BYTES.0, MAPPED_BYTES.1)
    }

    /// Whether the environment sets a parameter.
    fn is_set(tunable: &str, variable: &str) -> bool {
        let tunables = std::env::var_os("GLIBC_TUNABLES").unwrap_or_default();
        tunables.to_string_lossy().contains(tunable) || std::env::var_os(variable).is_some()
    }

    /// Number of arenas for a process with this many cores and this much memory.
    fn arenas(cores: u64, memory_bytes: u64) -> u64 {
        (memory_bytes / ARENA_BYTES).max(ARENAS_MIN).min(cores).max(CORE_ARENAS_MIN)
    }

    /// Limits what the allocator keeps for a process with this much memory, once: later calls change nothing. Parameters
    /// set in the environment take precedence.
    pub fn limit_memory(memory_bytes: u64) {
        static LIMITED: Once = Once::new();
        LIMITED.call_once(|| {
            let cores = std::thread::available_parallelism().map_or(1, usize::from);
            let mapped = mapped_bytes(memory_bytes);
            for (parameter, value, tunable, variable) in [
                (libc::M_ARENA_MAX, arenas(cores as u64, memory_bytes), "glibc.malloc.arena_max", "MALLOC_ARENA_MAX"),
                (libc::M_MMAP_THRESHOLD, mapped, "glibc.malloc.mmap_threshold", "MALLOC_MMAP_THRESHOLD_"),
                (libc::M_TRIM_THRESHOLD, 2 * mapped, "glibc.malloc.trim_threshold", "MALLOC_TRIM_THRESHOLD_"),
            ] {
                if is_set(tunable, variable) {
                    continue;
                }
                let value = i32::try_from(value).unwrap_or(i32::MAX);
                // SAFETY: takes numbers only, and locks what it changes. If it refuses, the allocator keeps more.
                let _: i32 = unsafe { libc::mallopt(parameter, value) };
            }
        });
    }

    /// Returns free pages of all arenas to the system. Each arena is locked while it is trimmed.
    pub fn trim() {
        // SAFETY: may be called by any thread at any time (MT-Safe), and touches no memory that is in use.
        let _: i32 = unsafe { libc::malloc_trim(0) };
    }

    #[cfg(test)]
    mod tests {
        use super::{arenas, mapped_bytes};

        #[test]
        fn arenas_are_as_many_as_cores_and_keep_half_of_the_memory_at_most() {
            const GIB: u64 = 1 << 30;
            assert_eq!([1, 2, 4, 64].map(|cores| arenas(cores, 64 * GIB)), [2, 2, 4, 64]);
            assert_eq!([GIB / 4, GIB, 2 * GIB, 64 * GIB].map(|bytes| arenas(64, bytes)), [4, 8, 16, 64]);
        }

        #[test]
        fn thresholds_are_a_share_of_the_memory_within_those_of_the_allocator() {
            const MIB: u64 = 1 << 20;
            let bytes = [MIB, 64 * MIB, 1024 * MIB, 64 * 1024 * MIB].map(mapped_bytes);
            assert_eq!(bytes, [MIB / 8, MIB / 2, 8 * MIB, 32 * MIB]);
        }
    }
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
mod imp {
    /// Does nothing: another allocator.
    pub fn limit_memory(_memory_bytes: u64) {}

    /// Does nothing: another allocator.
    pub fn trim() {}
}
