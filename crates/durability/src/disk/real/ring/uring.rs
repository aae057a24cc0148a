//! The only file of the crate with `unsafe` code: entries of an io_uring.
//!
//! Needed because the kernel writes to memory at any time between the submission of a read and its completion, which
//! no type of Rust says; so `push` of the crate `io-uring` is unsafe.
//!
//! Sound because memory of a read belongs to its slot from before the submission until its completion was taken:
//! - [`Uring::begin`] takes the memory, and nothing reads, writes or frees it in the slot.
//! - [`Uring::next`] gives it back, once for each completion; a slot is not used again before that.
//! - Whatever ends otherwise leaks it: [`Uring::abandon`], and dropping this, also in a panic. A ring that is closed
//!   does not wait for its reads.
//!
//! Files need no such care: a descriptor that was closed is an error of the read, or another file's bytes in the same
//! memory. They live in the tag all the same.
#![expect(unsafe_code, reason = "entries of an io_uring, see above")]

use std::io::{self, ErrorKind};
use std::mem;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use io_uring::{IoUring, Probe, opcode, types};

use crate::disk::real::aligned::Aligned;

/// Reads in progress, each with something that has its file.
pub struct Uring<T> {
    ring: IoUring,
    slots: Vec<Option<Slot<T>>>,
    /// Slots without a read.
    free: Vec<usize>,
}

struct Slot<T> {
    memory: Aligned,
    tag: T,
}

/// A read that is over.
pub struct Completed<T> {
    pub tag: T,
    pub memory: Aligned,
    /// Number of bytes, which may be less than was asked for.
    pub read: io::Result<usize>,
}

impl<T: AsFd> Uring<T> {
    /// A ring for this many reads at once, to be used by this thread alone.
    ///
    /// # Errors
    /// If the kernel has none, does not allow it, or cannot read with it.
    pub fn new(depth: u32) -> io::Result<Self> {
        // Completions are only processed when this thread asks for them, which saves interrupts; since Linux 6.1.
        let frugal = IoUring::builder().setup_single_issuer().setup_defer_taskrun().build(depth);
        let ring = frugal.or_else(|_| IoUring::new(depth))?;
        let mut probe = Probe::new();
        ring.submitter().register_probe(&mut probe)?;
        if !probe.is_supported(opcode::Read::CODE) {
            return Err(ErrorKind::Unsupported.into());
        }
        let slots = (0..depth).map(|_| None).collect();
        Ok(Self { ring, slots, free: (0..depth as usize).collect() })
    }

    /// Number of reads that can be begun.
    pub fn room(&self) -> usize {
        self.free.len()
    }

    /// Number of reads in progress.
    pub fn in_flight(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Begins to fill the memory from this offset of the tag's file on, with the next [`wait`](Self::wait). Gives both
    /// back if there is no room.
    pub fn begin(&mut self, offset: u64, mut memory: Aligned, tag: T) -> Result<(), (Aligned, T)> {
        let Some(place) = self.free.pop() else { return Err((memory, tag)) };
        let bytes = memory.as_mut_slice();
        let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let file = types::Fd(tag.as_fd().as_raw_fd());
        let entry = opcode::Read::new(file, bytes.as_mut_ptr(), length).offset(offset).build().user_data(place as u64);
        let Some(slot) = self.slots.get_mut(place) else { return Err((memory, tag)) };
        *slot = Some(Slot { memory, tag });
        // SAFETY: the entry points to `length` bytes of the slot's memory, which do not move with it, and which stay
        // as they are until the completion: see above.
        if unsafe { self.ring.submission().push(&entry) }.is_ok() {
            return Ok(());
        }
        // Not reached: there is an entry for each slot.
        self.free.push(place);
        match slot.take() {
            Some(Slot { memory, tag }) => Err((memory, tag)),
            None => Ok(()),
        }
    }

    /// Whether [`wait`](Self::wait) can be limited.
    pub fn has_timeouts(&self) -> bool {
        self.ring.params().is_feature_ext_arg()
    }

    /// Submits reads that were begun, and waits until one is over, or for at most this long if it
    /// [can](Self::has_timeouts); `None` for no limit.
    ///
    /// # Errors
    /// If the kernel refuses it for good.
    pub fn wait(&mut self, most: Option<Duration>) -> io::Result<()> {
        let waited = match most.map(types::Timespec::from) {
            Some(most) => self.ring.submitter().submit_with_args(1, &types::SubmitArgs::new().timespec(&most)),
            None => self.ring.submit_and_wait(1),
        };
        match waited {
            Ok(_) => Ok(()),
            Err(error) if error.raw_os_error() == Some(libc::ETIME) => Ok(()),
            // Completions have to be taken first, or memory is short; what was not submitted is next time.
            Err(error) if matches!(error.raw_os_error(), Some(libc::EINTR | libc::EBUSY)) => Ok(()),
            Err(error) if error.raw_os_error() == Some(libc::EAGAIN) => {
                std::thread::sleep(std::time::Duration::from_millis(1));
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// A read that is over.
    pub fn next(&mut self) -> Option<Completed<T>> {
        loop {
            let entry = self.ring.completion().next()?;
            let place = entry.user_data() as usize;
            let Some(Slot { memory, tag }) = self.slots.get_mut(place).and_then(Option::take) else { continue };
            self.free.push(place);
            let read = usize::try_from(entry.result()).map_err(|_| io::Error::from_raw_os_error(-entry.result()));
            return Some(Completed { tag, memory, read });
        }
    }

    /// Gives up all reads in progress. Their memory is leaked: the kernel may still write to it.
    pub fn abandon(&mut self) -> Vec<T> {
        let slots = self.slots.drain(..).flatten();
        self.free.clear();
        let leaked = |Slot { memory, tag }| {
            mem::forget(memory);
            tag
        };
        slots.map(leaked).collect()
    }
}

impl<T> Drop for Uring<T> {
    fn drop(&mut self) {
        self.slots.drain(..).flatten().for_each(|slot| mem::forget(slot.memory));
    }
}
