//! Memory that the system's allocator keeps after it was given back.
//!
//! glibc's `malloc` has arenas, up to eight for each core, and each thread keeps to one of them. Free memory of an
//! arena stays resident until as much as the trim threshold is free at its end, and that threshold grows to 64 MiB with
//! the blocks that are freed. What one thread was given and another one gave back is nobody else's meanwhile.
//!
//! - [`limit_arenas`]: no more arenas than cores, and fewer where there is little memory. This bounds what lies at
//!   their ends, at most 64 MiB each, which [`trim`] leaves alone in all but the first.
//! - [`trim`]: what is free between what is in use goes back to the system.
//!
//! Thresholds stay glibc's. Fixed ones would bound the ends better, but each buffer beyond them would be a system call
//! and page faults, and the analytic engine makes many of some mebibytes.
//!
//! The only file of the crate with `unsafe` code. It is needed because neither Rust nor a safe crate has these two
//! calls. They do nothing where the system's allocator is not glibc's, and nothing of use where the program has another
//! one.
#![cfg_attr(all(target_os = "linux", target_env = "gnu"), expect(unsafe_code, reason = "calls of C, see above"))]

pub use imp::{limit_arenas, trim};

#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod imp {
    use std::sync::Once;

    /// Bytes of memory for each arena, twice of what it may keep at its end.
    const ARENA_BYTES: u64 = 128 << 20;
    /// Arenas that there may be in any case, or as many as cores: so that threads need not wait for each other.
    const ARENAS_MIN: u64 = 4;
    /// Fewest arenas, however few the cores.
    const CORE_ARENAS_MIN: u64 = 2;

    /// Arenas of a process with so many cores and so much memory.
    fn arenas(cores: u64, memory_bytes: u64) -> u64 {
        (memory_bytes / ARENA_BYTES).max(ARENAS_MIN).min(cores).max(CORE_ARENAS_MIN)
    }

    /// Limits the arenas of the process for so much memory, once: later calls change nothing. An environment that says
    /// how many there may be is right.
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

    /// Gives pages of free memory back to the system, of all arenas. Each arena is locked while its own go.
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
