//! Memory that the system's allocator keeps after it was freed.
//!
//! glibc's `malloc` has arenas, up to eight for each core, and each thread keeps to one of them. Free memory of an
//! arena stays resident until the free memory at its end exceeds the trim threshold, which grows up to 64 MiB with the
//! sizes of freed blocks. Meanwhile other threads cannot use the memory that one thread allocated and another freed.
//!
//! - [`limit_arenas`]: no more arenas than cores, and fewer with little memory. This bounds the memory at their ends,
//!   at most 64 MiB each, which [`trim`] keeps in all but the first.
//! - [`trim`]: returns free memory between used blocks to the system.
//!
//! Thresholds stay glibc's. Fixed ones would bound the ends better, but then each larger buffer would cost a system
//! call and page faults, and the analytic engine allocates many of some mebibytes.
//!
//! The only file of the crate with `unsafe` code, because neither Rust nor a safe crate provides these two calls. They
//! do nothing if the system's allocator is not glibc's, and are useless if the program uses another one.
#![cfg_attr(all(target_os = "linux", target_env = "gnu"), expect(unsafe_code, reason = "calls of C, see above"))]

pub use imp::{limit_arenas, trim};

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

    /// Number of arenas for a process with this many cores and this much memory.
    fn arenas(cores: u64, memory_bytes: u64) -> u64 {
        (memory_bytes / ARENA_BYTES).max(ARENAS_MIN).min(cores).max(CORE_ARENAS_MIN)
    }

    /// Limits the arenas of the process for this much memory, once: later calls change nothing. A limit set in the
    /// environment takes precedence.
    pub fn limit_arenas(memory_bytes: u64) {
        static LIMITED: Once = Once::new();
        LIMITED.call_once(|| {
            let tunables = std::env::var_os("GLIBC_TUNABLES").unwrap_or_default();
            let is_set = tunables.to_string_lossy().contains("glibc.malloc.arena_max");
            if is_set || std::env::var_os("MALLOC_ARENA_MAX").is_some() {
                return;
            }
            let cores = std::thread::available_parallelism().map_or(1, usize::from);
            let arenas = i32::try_from(arenas(cores as u64, memory_bytes)).unwrap_or(i32::MAX);
            // SAFETY: takes numbers only, and locks what it changes. If it refuses, there are more arenas.
            let _: i32 = unsafe { libc::mallopt(libc::M_ARENA_MAX, arenas) };
        });
    }

    /// Returns free pages of all arenas to the system. Each arena is locked while it is trimmed.
    pub fn trim() {
        // SAFETY: may be called by any thread at any time (MT-Safe), and touches no memory that is in use.
        let _: i32 = unsafe { libc::malloc_trim(0) };
    }

    #[cfg(test)]
    mod tests {
        use super::arenas;

        #[test]
        fn arenas_are_as_many_as_cores_and_keep_half_of_the_memory_at_most() {
            const GIB: u64 = 1 << 30;
            assert_eq!([1, 2, 4, 64].map(|cores| arenas(cores, 64 * GIB)), [2, 2, 4, 64]);
            assert_eq!([GIB / 4, GIB, 2 * GIB, 64 * GIB].map(|bytes| arenas(64, bytes)), [4, 8, 16, 64]);
        }
    }
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
mod imp {
    /// Does nothing: another allocator.
    pub fn limit_arenas(_memory_bytes: u64) {}

    /// Does nothing: another allocator.
    pub fn trim() {}
}
