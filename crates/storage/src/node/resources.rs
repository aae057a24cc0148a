//! Memory and slots that the nodes of one process share.

use std::sync::Arc;

use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{FairSpillPool, MemoryPool};
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::prelude::{SessionConfig, SessionContext};
use thermocline_pushdown::{NodeError, register_functions};

use super::arbitrator::Arbitrator;
use super::config::NodeConfig;
use super::workers::Workers;
use crate::budget::Budget;

/// Memory and slots. A process with many directories has them once.
#[derive(Debug)]
pub struct Resources {
    /// Where fragments run and get their memory.
    pub(super) context: Arc<TaskContext>,
    pub(super) arbitrator: Arc<Arbitrator>,
    pub(super) budget: Arc<Budget>,
    /// For what fragments read.
    pub(super) reading: Arc<Budget>,
    pub(super) workers: Arc<Workers>,
}

impl Resources {
    /// Memory and slots within the limits of `config`.
    ///
    /// # Errors
    /// If the limits make no runtime.
    pub fn new(config: &NodeConfig) -> Result<Self, NodeError> {
        let pool: Arc<dyn MemoryPool> = Arc::new(FairSpillPool::new(config.fragment_bytes()));
        let runtime: Arc<RuntimeEnv> = RuntimeEnvBuilder::new().with_memory_pool(pool).build_arc()?;
        let session = SessionConfig::new().with_batch_size(config.batch_rows).with_target_partitions(1);
        let context = SessionContext::new_with_config_rt(session, runtime);
        register_functions(&context);
        Ok(Self {
            context: context.task_ctx(),
            arbitrator: Arbitrator::new(config),
            budget: Budget::new(config.budget_bytes()),
            reading: Budget::new(config.reading_bytes()),
            workers: Arc::new(Workers::new(config.fragment_threads)?),
        })
    }

    /// Bytes that are accounted for.
    pub fn memory_used(&self) -> usize {
        memory_used(&self.context, &self.budget, &self.reading)
    }
}

/// Bytes that are accounted for by fragments, by messages and by what fragments read.
pub(super) fn memory_used(context: &TaskContext, budget: &Budget, reading: &Budget) -> usize {
    context.runtime_env().memory_pool.reserved() + budget.used() + reading.used()
}
