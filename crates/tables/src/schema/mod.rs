//! Definitions of tables, indexes and procedures.
//!
//! A [`Schema`] is immutable: a definition creates a new one (`thermocline_statements::define`) and returns the change,
//! so that the storage below can follow and readers keep theirs. It prints as readable SQL that
//! `thermocline_statements::read_schema` reads back to the same schema, including ids.

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

/// Maximum tables of a database.
pub const TABLES_MAX: usize = 10_000;
/// Maximum columns of a table.
pub const COLUMNS_MAX: usize = 1_000;
/// Maximum indexes of a table.
pub const INDEXES_MAX: usize = 64;

/// All definitions.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Schema {
    tables: BTreeMap<Box<str>, Arc<TableDefinition>>,
    procedures: BTreeMap<Box<str>, Arc<ProcedureDefinition>>,
}

/// Change made by a definition, for holders of rows or prepared statements.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// No change: `IF NOT EXISTS` found an object, or `IF EXISTS` none.
    None,
    /// A new, empty table.
    CreateTable(Arc<TableDefinition>),
    /// A table was dropped.
    DropTable(Arc<TableDefinition>),
    /// A table was dropped and replaced by an empty one of the same name, with the same definition or another.
    ReplaceTable {
        /// The dropped table.
        before: Arc<TableDefinition>,
        /// Its replacement.
        table: Arc<TableDefinition>,
    },
    /// An index, to be built from the table's rows.
    CreateIndex {
        /// The table with the index.
        table: Arc<TableDefinition>,
        /// Its new index.
        index: IndexId,
    },
    /// An index was dropped.
    DropIndex {
        /// The table without the index.
        table: Arc<TableDefinition>,
        /// The dropped index.
        index: IndexId,
    },
    /// A column after all others.
    AddColumn {
        /// The table with the column.
        table: Arc<TableDefinition>,
        /// Value of the column in existing rows.
        fill: Value,
    },
    /// Tables have other names, or other names of columns, indexes or checks, other defaults, fewer checks, or columns
    /// that no index holds and that are NOT NULL now, or no longer; their rows stay as they are.
    Redefine(Vec<Arc<TableDefinition>>),
    /// A procedure is new or has a new version.
    CreateProcedure(Arc<ProcedureDefinition>),
    /// A procedure was dropped.
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

    /// The index with this name, and its table; no name leads to the index of a
    /// [row key](TableDefinition::has_row_key).
    pub fn index(&self, name: &str) -> Option<(&Arc<TableDefinition>, &IndexDefinition)> {
        self.tables.values().find_map(|table| {
            let index = table.listed_indexes().find(|index| &*index.name == name)?;
            Some((table, index))
        })
    }

    /// Adds a table, or replaces the one of the same name.
    pub fn put_table(&mut self, table: Arc<TableDefinition>) {
        self.tables.insert(table.name.clone(), table);
    }

    /// Removes the table with this name.
    pub fn take_table(&mut self, name: &str) -> Option<Arc<TableDefinition>> {
        self.tables.remove(name)
    }

    /// Adds a procedure, or replaces the one of the same name.
    pub fn put_procedure(&mut self, procedure: Arc<ProcedureDefinition>) {
        self.procedures.insert(procedure.name.clone(), procedure);
    }

    /// Removes the procedure with this name.
    pub fn take_procedure(&mut self, name: &str) -> Option<Arc<ProcedureDefinition>> {
        self.procedures.remove(name)
    }

    /// Definitions that create this schema, in a valid order.
    pub fn to_sql(&self) -> String {
        print::schema(self)
    }

    /// The lowest free table id. It depends only on the schema, so that replaying a log of definitions on a snapshot
    /// assigns the same ids.
    pub fn next_table_id(&self) -> Result<TableId> {
        if self.tables.len() >= TABLES_MAX {
            return Err(Class::LimitExceeded.error(format_args!("more than {TABLES_MAX} tables")));
        }
        Ok(definition::lowest_free(self.tables.values().map(|table| table.id.0)).map_or(TableId(0), TableId))
    }
}
