//! Building an index in steps: see [`Building`].

use super::*;
use crate::schema::IndexDefinition;
use crate::table::building::{Build, BuildStep, Building};

impl Table {
    /// Whether somebody is building an index.
    pub(crate) fn is_building(&self) -> bool {
        self.building.as_ref().is_some_and(|building| !building.build().is_given_up())
    }

    /// Whether this is who is building an index.
    pub(crate) fn has_build(&self, build: &Arc<Build>) -> bool {
        self.building.as_ref().is_some_and(|building| Arc::ptr_eq(building.build(), build))
    }

    /// Begins to build an index. `definition` is the table's with the index in it.
    pub(crate) fn begin_build(&mut self, build: &Arc<Build>, definition: &TableDefinition, index: &IndexDefinition) {
        self.drop_build();
        let index = Index::new(definition, &self.layout, index, self.seed);
        self.building = Some(Box::new(Building::new(build, index, self.id_bound())));
    }

    /// Adds up to so many rows to the index that is being built. Between transactions only.
    ///
    /// # Errors
    /// If the rows cannot have the index, or there is no memory for it. What was built is gone then.
    pub(crate) fn build_step(&mut self, build: &Arc<Build>, rows: u32) -> Result<BuildStep> {
        let Some(mut building) = self.building.take_if(|building| Arc::ptr_eq(building.build(), build)) else {
            let message = format!("table \"{}\" was changed while an index was built", self.definition.name);
            return Err(Class::ObjectInUse.error(message));
        };
        let step = building.fill(self, &self.budget, rows);
        self.building = Some(building);
        if step.is_err() {
            self.drop_build();
        }
        step
    }

    /// An error unless the index is complete, and the rows can have it. Between transactions only.
    pub(crate) fn check_build(&self, build: &Arc<Build>, index: &IndexDefinition) -> Result<()> {
        let building = self.building.as_ref().filter(|building| Arc::ptr_eq(building.build(), build));
        match building.filter(|building| building.definition() == index) {
            Some(building) => building.check_complete(&self.definition),
            None => Err(Error::internal(format_args!("index \"{}\" is not being built", index.name))),
        }
    }

    /// Makes the index that was built one of the table's, which has been [checked](Table::check_build).
    pub(crate) fn install_build(&mut self, definition: Arc<TableDefinition>) {
        if let Some(building) = self.building.take() {
            self.add_built(definition, building.into_index());
        }
    }

    /// Drops what was built for somebody who does not want it any more.
    pub(crate) fn drop_build_given_up(&mut self) {
        if !self.is_building() {
            self.drop_build();
        }
    }

    /// Drops what was built.
    pub(super) fn drop_build(&mut self) {
        if let Some(building) = self.building.take() {
            building.release(&self.budget);
        }
    }

    /// Tells the index that is being built of a row that may be about to change.
    #[cold]
    pub(super) fn note(&mut self, id: TupleId, item: Item) {
        if let (Some(building), Some(image)) = (&mut self.building, self.rows.get_from(item, HEADER_BYTES)) {
            building.note(id, Row::new(&self.layout, image));
        }
    }
}
