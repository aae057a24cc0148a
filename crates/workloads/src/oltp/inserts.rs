use std::sync::Arc;

use thermocline_transactions::Result;
use thermocline_transactions::database::{Database, Work};
use thermocline_transactions::engine::Client;
use thermocline_transactions::types::Value;

/// Rows on their way at any time: half of the default queue of one partition.
const IN_FLIGHT_MAX: usize = 2048;
/// Rows that are handed to the engine at a time.
const BURST: usize = 256;

/// Loads rows, many statements at a time. Whatever fails ends the load with its error.
pub struct Inserts {
    client: Client<Work>,
    in_flight: usize,
    unsent: usize,
}

impl std::fmt::Debug for Inserts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inserts").field("in_flight", &self.in_flight).finish_non_exhaustive()
    }
}

impl Inserts {
    /// Into this database.
    pub fn new(database: &Database) -> Self {
        Self { client: database.client(), in_flight: 0, unsent: 0 }
    }

    /// Runs a prepared statement some time soon.
    ///
    /// # Errors
    /// That of this statement or of one before.
    pub fn put(&mut self, statement: &Arc<Work>, values: impl Into<Box<[Value]>>) -> Result<()> {
        while self.in_flight >= IN_FLIGHT_MAX {
            self.receive()?;
        }
        self.client.submit(Arc::clone(statement), values.into(), 0)?;
        (self.in_flight, self.unsent) = (self.in_flight + 1, self.unsent + 1);
        if self.unsent >= BURST {
            self.client.send();
            self.unsent = 0;
        }
        Ok(())
    }

    /// Waits for all of them.
    ///
    /// # Errors
    /// That of the first that failed.
    pub fn finish(mut self) -> Result<()> {
        while self.in_flight > 0 {
            self.receive()?;
        }
        Ok(())
    }

    fn receive(&mut self) -> Result<()> {
        self.client.send();
        self.unsent = 0;
        for reply in self.client.receive() {
            self.in_flight -= 1;
            reply.result?;
        }
        Ok(())
    }
}
