//! Asynchronous reads: one thread for many at once, where the kernel has io_uring.
//!
//! ```text
//!  DirectRead::start_read --> queue --> thread: begins what fits, waits for one or more,
//!                               |       calls what follows each
//!                               +-- pipe: wakes it, if it waits for the kernel and does not look soon anyway
//! ```
//!
//! To wake a thread costs its waker more than the rest of a read. So while reads are in progress, others that come wait
//! for the first of these to be over, or for [`LINGER`], and begin together then.

#[cfg(test)]
mod tests;
mod uring;

use std::collections::VecDeque;
use std::fmt;
use std::io::{self, ErrorKind, PipeReader, PipeWriter, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use thermocline_machine::caught;
use uring::{Completed, Uring};

use super::RealFile;
use super::aligned::Aligned;
use crate::disk::{ReadFile, WhenRead};

/// Reads at once: what devices do well, and few enough for their memory not to matter.
const DEPTH: u32 = 64;

/// Memory that is kept for the next read of a size.
const KEPT_BYTES: usize = 16 << 10;

/// Longest time that a read waits for another one in progress before it begins: about the time of a read of a fast
/// device.
const LINGER: Duration = Duration::from_micros(100);

/// A read of a file, and what follows it.
pub struct Read {
    pub file: Arc<RealFile>,
    pub offset: u64,
    pub length: usize,
    pub done: WhenRead,
}

/// The thread's other side. It ends when this is dropped, after all reads.
pub struct Ring {
    queue: Arc<Queue>,
}

impl fmt::Debug for Ring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ring").finish_non_exhaustive()
    }
}

struct Queue {
    state: Mutex<State>,
    /// Whether the thread waits for the kernel without a limit, and does not see what is added. Set under the state's
    /// lock.
    sleeps: AtomicBool,
    /// Whether the kernel has refused the ring: the thread reads one after the other.
    is_broken: AtomicBool,
    wake: PipeWriter,
    /// Wakes the thread when there is no ring.
    pushed: Condvar,
}

#[derive(Default)]
struct State {
    reads: VecDeque<Read>,
    is_closed: bool,
}

impl Ring {
    /// Starts the thread.
    ///
    /// # Errors
    /// If the kernel has no io_uring or does not allow it, as in many containers.
    pub fn start() -> io::Result<Arc<Self>> {
        let (woken, wake) = io::pipe()?;
        let queue = Arc::new(Queue::new(wake));
        let (of_thread, (started, is_started)) = (Arc::clone(&queue), mpsc::channel());
        thread::Builder::new().name("reader".to_owned()).spawn(move || match Uring::new(DEPTH) {
            Ok(uring) => {
                let _gone = started.send(Ok(()));
                Driver {
                    uring,
                    queue: of_thread,
                    woken: Arc::new(woken),
                    is_armed: false,
                    has_lingered: false,
                    kept: Vec::new(),
                }
                .run();
            }
            Err(error) => drop(started.send(Err(error))),
        })?;
        is_started.recv().unwrap_or_else(|_| Err(ErrorKind::Unsupported.into()))?;
        Ok(Arc::new(Self { queue }))
    }

    /// Whether reads go on side by side.
    pub fn works(&self) -> bool {
        !self.queue.is_broken.load(Ordering::Relaxed)
    }

    /// Adds a read; what follows it is called in the ring's thread.
    pub fn push(&self, read: Read) {
        self.queue.state.lock().reads.push_back(read);
        self.queue.wake();
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        self.queue.state.lock().is_closed = true;
        self.queue.wake();
    }
}

impl Queue {
    fn new(wake: PipeWriter) -> Self {
        Self { state: Mutex::default(), sleeps: false.into(), is_broken: false.into(), wake, pushed: Condvar::new() }
    }

    fn wake(&self) {
        if !self.sleeps.swap(false, Ordering::SeqCst) {
            return;
        }
        if self.is_broken.load(Ordering::SeqCst) {
            self.pushed.notify_one();
        } else {
            // A pipe that is full wakes it as well.
            let _full = (&self.wake).write(&[0]);
        }
    }
}

/// What a read in the ring is for.
enum Tag {
    Read(Read),
    /// The end of the pipe through which the thread is woken.
    Wake(Arc<PipeReader>),
}

impl AsFd for Tag {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Read(read) => read.file.file.as_fd(),
            Self::Wake(woken) => woken.as_fd(),
        }
    }
}

struct Driver {
    uring: Uring<Tag>,
    queue: Arc<Queue>,
    woken: Arc<PipeReader>,
    /// Whether the ring reads the pipe.
    is_armed: bool,
    /// Whether the last wait ended without a completion: nothing comes soon.
    has_lingered: bool,
    /// Memory for the next reads.
    kept: Vec<Aligned>,
}

impl Driver {
    fn run(mut self) {
        let mut taken = Vec::new();
        loop {
            self.arm();
            let mut state = self.queue.state.lock();
            let room = self.uring.room().min(state.reads.len());
            taken.extend(state.reads.drain(..room));
            let reads = taken.len() + self.uring.in_flight() - usize::from(self.is_armed);
            let may_linger = reads > 0 && (!taken.is_empty() || !self.has_lingered) && self.uring.has_timeouts();
            // It looks again when a read is over, for those that are left as well, or after a while.
            self.queue.sleeps.store(state.reads.is_empty() && !may_linger, Ordering::SeqCst);
            let is_closed = state.is_closed;
            drop(state);
            if is_closed && taken.is_empty() && self.uring.in_flight() == usize::from(self.is_armed) {
                return;
            }
            taken.drain(..).for_each(|read| self.begin(read));
            if self.uring.wait(may_linger.then_some(LINGER)).is_err() {
                return self.go_on_without();
            }
            self.queue.sleeps.store(false, Ordering::SeqCst);
            self.has_lingered = true;
            while let Some(Completed { tag, memory, read }) = self.uring.next() {
                self.has_lingered = false;
                match tag {
                    Tag::Wake(_) => self.is_armed = false,
                    Tag::Read(of) => self.finish(of, memory, read),
                }
            }
        }
    }

    /// Has the ring read the pipe.
    fn arm(&mut self) {
        if !self.is_armed {
            // A pipe has no offsets.
            let begun = self.uring.begin(u64::MAX, Aligned::new(64), Tag::Wake(Arc::clone(&self.woken)));
            self.is_armed = begun.is_ok();
        }
    }

    fn begin(&mut self, read: Read) {
        let mut memory = self.kept.pop().unwrap_or_default();
        memory.set_length(read.length);
        if let Err((memory, Tag::Read(read))) = self.uring.begin(read.offset, memory, Tag::Read(read)) {
            self.finish(read, memory, Err(ErrorKind::WouldBlock.into()));
        }
    }

    /// Reads what the ring has not, and goes on with what follows the read.
    fn finish(&mut self, read: Read, mut memory: Aligned, by_ring: io::Result<usize>) {
        let Read { file, offset, length, done } = read;
        let mut rest = |from: usize| {
            let bytes = memory.as_mut_slice().get_mut(from..).unwrap_or_default();
            file.read_at(offset + from as u64, bytes).map(|bytes| from + bytes)
        };
        let read = match by_ring {
            Ok(bytes) if bytes == length => Ok(bytes),
            // Part of it, and perhaps the end of the file: rare.
            Ok(bytes) => rest(bytes),
            // It may be one of the ring, which the file does not have.
            Err(_) => rest(0),
        };
        let read = read.map(|bytes| memory.as_slice().get(..bytes).unwrap_or_default());
        // A panic is a bug, and printed; whoever waits sees that nothing comes.
        let _printed = caught("what follows a read", || done(read));
        if memory.memory_bytes() <= KEPT_BYTES && self.kept.len() < DEPTH as usize {
            self.kept.push(memory);
        }
    }

    /// Reads without the ring until it is closed.
    fn go_on_without(mut self) {
        self.queue.is_broken.store(true, Ordering::SeqCst);
        let mut left: VecDeque<Read> = VecDeque::new();
        left.extend(self.uring.abandon().into_iter().filter_map(|tag| match tag {
            Tag::Read(read) => Some(read),
            Tag::Wake(_) => None,
        }));
        loop {
            while let Some(read) = left.pop_front() {
                let memory = Aligned::new(read.length);
                self.finish(read, memory, Err(ErrorKind::WouldBlock.into()));
            }
            let mut state = self.queue.state.lock();
            left.append(&mut state.reads);
            self.queue.sleeps.store(left.is_empty(), Ordering::SeqCst);
            if state.is_closed && left.is_empty() {
                return;
            }
            if left.is_empty() {
                // A read of the pipe that the ring has begun may take its bytes.
                self.queue.pushed.wait(&mut state);
            }
        }
    }
}
