use std::sync::Arc;

use thermocline_durability::blocks::{BlockStoreSettings, BlockWrites};
use thermocline_durability::check::{Report, check};
use thermocline_durability::disk::Disk;
use thermocline_durability::recovery::{Plan, Progress, Rebuild};
use thermocline_machine::ids::Identity;
use thermocline_procedures::{Definitions, Limits, Registration};
use thermocline_tables::schema::Schema;
use thermocline_tables::table::Budget;
use thermocline_types::Result;

use super::replay::Replayer;
use super::row_engine::RowEngine;

impl RowEngine {
    /// Checks a database that is not open: every file, and the state that they give together. Changes nothing. Takes as
    /// much memory as the open database.
    ///
    /// # Errors
    /// If a file cannot be read. Damage is in the report.
    pub fn check(
        disk: Arc<dyn Disk>,
        procedures: Vec<Registration>,
        progress: &mut dyn FnMut(&Progress),
    ) -> Result<Report> {
        let _lock = disk.lock_to_read()?;
        let procedures = Arc::new(procedures.into_iter().map(Arc::new).collect());
        let budget = Arc::new(Budget::unlimited());
        let definitions = Definitions::new(Schema::default(), procedures, Limits::unlimited(), &budget)?;
        let replayer = Replayer::new(definitions);
        let rebuild = |plan: &Plan, identity: Identity, stay: bool| {
            let rebuild = Rebuild::new(identity, &budget, usize::MAX, 0, replayer);
            if !stay {
                return Ok(rebuild);
            }
            let (files, settings) = (plan.block_files_to_copy(&disk)?, BlockStoreSettings::default());
            Ok(rebuild.with_blocks(&files, identity.database, settings, &BlockWrites::at_once()))
        };
        check(&*disk, rebuild, progress)
    }
}
