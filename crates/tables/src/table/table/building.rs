//! Building an index or further columns in steps: see [`Building`].

use super::*;
use crate::schema::Change;
use crate::table::blocks::{Blocks, BlocksReader, ReadBlock};
use crate::table::building::{Build, BuildStep, Building, Built, BuiltRows, Replaced};

impl Table {
    /// Whether a build is in progress.
    pub fn is_building(&self) -> bool {
        self.building.as_ref().is_some_and(|building| !building.build().is_given_up())
    }

    /// Whether this build is in progress.
    pub fn has_build(&self, build: &Arc<Build>) -> bool {
        self.building.as_ref().is_some_and(|building| Arc::ptr_eq(building.build(), build))
    }

    /// Begins to build an index or columns for a definition of this table.
    pub fn begin_build(&mut self, build: &Arc<Build>, change: &Change) -> Result<()> {
        let building = Building::new(build, change, (&self.layout, self.seed), self.id_bound())?;
        self.drop_build();
        self.building = Some(Box::new(building));
        Ok(())
    }

    /// Adds up to `rows` rows to the build. Between transactions only.
    ///
    /// # Errors
    /// If the rows violate it, or there is no memory for it. The build is dropped then.
    pub fn build_step(&mut self, build: &Arc<Build>, blocks: Option<&dyn Blocks>, rows: u32) -> Result<BuildStep> {
        let Some(mut building) = self.building.take_if(|building| Arc::ptr_eq(building.build(), build)) else {
            let message = format!("table \"{}\" was changed while a definition of it ran", self.definition.name);
            return Err(Class::ObjectInUse.error(message));
        };
        let step = building.fill(self, blocks, &self.budget, rows);
        self.building = Some(building);
        if step.is_err() {
            self.drop_build();
        }
        step
    }

    /// Blocks to be read for the next [step](Self::build_step) of a build, which [takes](Self::take_build_blocks) them;
    /// `None` if it needs none. Between transactions only.
    ///
    /// # Errors
    /// As of a step.
    pub(crate) fn build_reads(
        &mut self,
        build: &Arc<Build>,
        blocks: Option<&dyn Blocks>,
    ) -> Result<Option<BlocksReader>> {
        let taken = self.building.take_if(|building| Arc::ptr_eq(building.build(), build));
        let Some(mut building) = taken else { return Ok(None) };
        let reads = building.reads(self, blocks, &self.budget);
        self.building = Some(building);
        if reads.is_err() {
            self.drop_build();
        }
        reads
    }

    /// Takes blocks that were read for a build.
    pub(crate) fn take_build_blocks(&mut self, build: &Arc<Build>, read: Vec<ReadBlock>) {
        if let Some(building) = self.building.as_mut().filter(|building| Arc::ptr_eq(building.build(), build)) {
            building.take_read(read);
        }
    }

    /// An error unless the build for the definition is complete and the rows satisfy it. Between transactions only.
    pub fn check_build(&self, build: &Arc<Build>, blocks: Option<&dyn Blocks>, change: &Change) -> Result<()> {
        match self.building.as_ref().filter(|building| Arc::ptr_eq(building.build(), build)) {
            Some(building) => {
                building.check_complete(&self.definition, change)?;
                match change {
                    Change::AddColumn { table, fill } => self.check_evicted_fit(&Layout::new(table)?, fill, blocks),
                    _ => Ok(()),
                }
            }
            None => Err(Error::internal(format_args!("nothing is being built of table \"{}\"", self.definition.name))),
        }
    }

    /// Makes a [checked](Table::check_build) build part of the table, which takes this definition. Returns the replaced
    /// rows, if any.
    pub fn install_build(&mut self, definition: Arc<TableDefinition>, blocks: Option<&dyn Blocks>) -> Option<Replaced> {
        match self.building.take()?.into_built() {
            Built::Index(index) => {
                self.add_built(definition, index);
                None
            }
            Built::Rows(BuiltRows { layout, mut rows, mut locators, fill }) => {
                self.keep_layout_of_evicted(fill, blocks);
                self.exchange_rows(definition, layout, (&mut rows, &mut locators));
                self.budget.resize_rows(rows.bytes(), 0);
                self.budget.resize(locators.bytes(), 0);
                Some(Replaced::new(rows, locators))
            }
        }
    }

    /// Drops a build that was given up.
    pub(crate) fn drop_build_given_up(&mut self) {
        if !self.is_building() {
            self.drop_build();
        }
    }

    /// Drops the build.
    pub(super) fn drop_build(&mut self) {
        if let Some(building) = self.building.take() {
            building.release(&self.budget);
        }
    }

    /// Notes a row that may be about to change for the build.
    #[cold]
    pub(super) fn note(&mut self, id: TupleId, item: Item) {
        if let (Some(building), Some(image)) = (&mut self.building, self.rows.get_from(item, HEADER_BYTES)) {
            building.note(id, Row::new(&self.layout, image));
        }
    }
}
