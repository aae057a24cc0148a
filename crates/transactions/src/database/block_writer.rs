//! The thread that writes blocks of evicted rows.

use std::sync::Arc;
use std::thread::JoinHandle;

use thermocline_durability::blocks::{BlockWriter, BlockWrites};
use thermocline_machine::{self as machine, Clock, caught};
use thermocline_types::{Error, Result};

/// The thread; dropping it ends it when nothing waits to be written. If it panics, partitions write their blocks
/// themselves.
#[derive(Debug)]
pub(super) struct BlockWriterThread {
    writes: Arc<BlockWrites>,
    thread: Option<JoinHandle<()>>,
}

impl BlockWriterThread {
    /// Starts it.
    ///
    /// # Errors
    /// If the system refuses another thread.
    pub fn start(writes: &Arc<BlockWrites>) -> Result<Self> {
        let mut writer = BlockWriter::new(writes);
        let clock = Clock::real();
        let run = move || drop(caught("the thread that writes blocks", || machine::run(&mut writer, &clock)));
        let thread = std::thread::Builder::new().name("block writer".into()).spawn(run);
        let thread =
            thread.map_err(|error| Error::Io(format!("cannot start the thread that writes blocks: {error}").into()))?;
        Ok(Self { writes: Arc::clone(writes), thread: Some(thread) })
    }
}

impl Drop for BlockWriterThread {
    fn drop(&mut self) {
        self.writes.close();
        if let Some(thread) = self.thread.take() {
            let joined = thread.join();
            debug_assert!(joined.is_ok(), "its panics are caught");
        }
    }
}
