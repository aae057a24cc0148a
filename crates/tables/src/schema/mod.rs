//! Definitions of tables, indexes and procedures.
//!
//! A [`Schema`] is immutable: a definition makes a new one (`thermocline_statements::define`) and says what changed,
//! so that the storage below can follow and readers keep the one they have. It is written as SQL that
//! a person can read and `thermocline_statements::read_schema` reads back to the same, ids included.

mod definition;
#[cfg(test)]
pub(crate) mod fixture;
mod names;
mod print;
mod procedure;

use std::collections::BTreeMap;
use std::sync::Arc;

use thermocline_types::{Class, Result, Value};

pub use definition::{
    CheckDefinition, ColumnDefinition, IndexColumn, IndexDefinition, IndexId, IndexKind, TableDefinition, TableId,
};
pub use names::{NAME_BYTES_MAX, write_identifier};
pub use procedure::{Argument, Language, ProcedureDefinition};

/// The most tables of a database.
pub const TABLES_MAX: usize = 10_000;
/// The most columns of a table.
pub const COLUMNS_MAX: usize = 1_000;
/// The most indexes of a table.
pub const INDEXES_MAX: usize = 64;

/// All definitions.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Schema {
    tables: BTreeMap<Box<str>, Arc<TableDefinition>>,
    procedures: BTreeMap<Box<str>, Arc<ProcedureDefinition>>,
}

/// Change that a definition made, for holders of rows or prepared statements.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// Nothing: `IF NOT EXISTS` met an object, or `IF EXISTS` none.
    None,
    /// A table, empty.
    CreateTable(Arc<TableDefinition>),
    /// A table is gone.
    DropTable(Arc<TableDefinition>),
    /// A table is gone, and there is an empty one with its definition.
    TruncateTable {
        /// The table that is gone.
        before: Arc<TableDefinition>,
        /// The table as it is now.
        table: Arc<TableDefinition>,
    },
    /// An index, to be built from the table's rows.
    CreateIndex {
        /// The table as it is now.
        table: Arc<TableDefinition>,
        /// Its new index.
        index: IndexId,
    },
    /// An index is gone.
    DropIndex {
        /// The table as it is now.
        table: Arc<TableDefinition>,
        /// The index that it had.
        index: IndexId,
    },
    /// A column after all others.
    AddColumn {
        /// The table as it is now.
        table: Arc<TableDefinition>,
        /// Its value in all rows there are.
        fill: Value,
    },
    /// A procedure is new or has a new version.
    CreateProcedure(Arc<ProcedureDefinition>),
    /// A procedure is gone.
    DropProcedure(Arc<ProcedureDefinition>),
}

impl Schema {
    /// The table with this name.
    pub fn table(&self, name: &str) -> Result<&Arc<TableDefinition>> {
        self.tables
            .get(name)
            .ok_or_else(|| Class::UndefinedTable.error(format_args!("table \"{name}\" does not exist")))
    }

    /// The table with this id.
    pub fn table_by_id(&self, id: TableId) -> Option<&Arc<TableDefinition>> {
        self.tables.values().find(|table| table.id == id)
    }

    /// All tables in the order of their names.
    pub fn tables(&self) -> impl Iterator<Item = &Arc<TableDefinition>> {
        self.tables.values()
    }

    /// The procedure with this name.
    pub fn procedure(&self, name: &str) -> Result<&Arc<ProcedureDefinition>> {
        self.procedures
            .get(name)
            .ok_or_else(|| Class::UndefinedFunction.error(format_args!("procedure \"{name}\" does not exist")))
    }

    /// All procedures in the order of their names.
    pub fn procedures(&self) -> impl Iterator<Item = &Arc<ProcedureDefinition>> {
        self.procedures.values()
    }

    /// The table that has an index with this name, and the index.
    pub fn index(&self, name: &str) -> Option<(&Arc<TableDefinition>, &IndexDefinition)> {
        self.tables.values().find_map(|table| {
            let index = table.indexes.iter().find(|index| &*index.name == name)?;
            Some((table, index))
        })
    }

    /// Puts a table in, in the place of the one with its name.
    pub fn put_table(&mut self, table: Arc<TableDefinition>) {
        self.tables.insert(table.name.clone(), table);
    }

    /// Takes the table with this name out.
    pub fn take_table(&mut self, name: &str) -> Option<Arc<TableDefinition>> {
        self.tables.remove(name)
    }

    /// Puts a procedure in, in the place of the one with its name.
    pub fn put_procedure(&mut self, procedure: Arc<ProcedureDefinition>) {
        self.procedures.insert(procedure.name.clone(), procedure);
    }

    /// Takes the procedure with this name out.
    pub fn take_procedure(&mut self, name: &str) -> Option<Arc<ProcedureDefinition>> {
        self.procedures.remove(name)
    }

    /// Definitions that make this schema, in an order that works.
    pub fn to_sql(&self) -> String {
        print::schema(self)
    }

    /// The lowest id that no table has. It depends on nothing but the schema, so that a log of
    /// definitions gives the same ids when it is replayed on a snapshot.
    pub fn next_table_id(&self) -> Result<TableId> {
        if self.tables.len() >= TABLES_MAX {
            return Err(Class::LimitExceeded.error(format_args!("more than {TABLES_MAX} tables")));
        }
        Ok(definition::lowest_free(self.tables.values().map(|table| table.id.0)).map_or(TableId(0), TableId))
    }
}
