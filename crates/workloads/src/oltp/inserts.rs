//! Pipelined INSERTs for the loads of workloads, with retries while queues are full.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use thermocline_transactions::database::{RowEngine, Work};
use thermocline_transactions::engine::Client;
use thermocline_transactions::types::Value;
use thermocline_transactions::{Error, Result};

/// Maximum rows in flight: half of the default queue of one partition.
const IN_FLIGHT_MAX: usize = 2048;
/// Rows submitted to the engine at a time.
const BURST: usize = 256;

/// Number of consecutive refusals with a retry, and the delay before each: rows of another loader may take the room in
/// the meantime.
const REFUSALS_MAX: u32 = 2000;
const PAUSE: Duration = Duration::from_millis(1);

/// Loads rows, many statements at a time. Statements that find no room in a queue are sent again; any other failure
/// ends the load with its error.
pub struct Inserts {
    client: Client<Work>,
    /// Submitted inserts by tag.
    in_flight: HashMap<u64, (Arc<Work>, Box<[Value]>)>,
    tag_next: u64,
    unsent: usize,
    /// Consecutive rounds without progress.
    refusals: u32,
}

impl std::fmt::Debug for Inserts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inserts").field("in_flight", &self.in_flight.len()).finish_non_exhaustive()
    }
}

impl Inserts {
    /// A load into this database.
    pub fn new(database: &RowEngine) -> Self {
        Self { client: database.client(), in_flight: HashMap::new(), tag_next: 0, unsent: 0, refusals: 0 }
    }

    /// Submits a prepared statement.
    ///
    /// # Errors
    /// That of this statement or of one before.
    pub fn put(&mut self, statement: &Arc<Work>, values: impl Into<Box<[Value]>>) -> Result<()> {
        while self.in_flight.len() >= IN_FLIGHT_MAX {
            self.receive()?;
        }
        self.submit(Arc::clone(statement), values.into())?;
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
        while !self.in_flight.is_empty() {
            self.receive()?;
        }
        Ok(())
    }

    fn submit(&mut self, statement: Arc<Work>, values: Box<[Value]>) -> Result<()> {
        self.client.submit(Arc::clone(&statement), values.clone(), self.tag_next)?;
        self.in_flight.insert(self.tag_next, (statement, values));
        self.tag_next += 1;
        self.unsent += 1;
        Ok(())
    }

    fn receive(&mut self) -> Result<()> {
        self.client.send();
        self.unsent = 0;
        let mut refused = vec![];
        let mut refusal = None;
        for reply in self.client.receive() {
            let row = self.in_flight.remove(&reply.tag);
            match reply.result {
                Ok(_) => self.refusals = 0,
                Err(Error::Retry(why)) => {
                    refused.extend(row);
                    refusal = Some(why);
                }
                Err(error) => return Err(error),
            }
        }
        if let Some(why) = refusal {
            self.refusals += 1;
            if self.refusals > REFUSALS_MAX {
                return Err(Error::Retry(why));
            }
            std::thread::sleep(PAUSE);
        }
        refused.into_iter().try_for_each(|(statement, values)| self.submit(statement, values))
    }
}
