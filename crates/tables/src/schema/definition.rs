//! Definitions of tables.

use std::collections::BTreeSet;

use thermocline_types::{Class, DataType, Result};

use super::print;
use crate::key::KeyColumn;

/// Id of a table; reused only after the table was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableId(pub u32);

/// Id of an index within its table; the primary key's is 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IndexId(pub u32);

impl IndexId {
    /// The index of the primary key.
    pub const PRIMARY: Self = Self(0);
}

/// A table.
#[derive(Debug, Clone, PartialEq)]
pub struct TableDefinition {
    /// Its id.
    pub id: TableId,
    /// Its name, in lower case unless it was quoted.
    pub name: Box<str>,
    /// Columns, at most [`COLUMNS_MAX`](super::COLUMNS_MAX). Their positions never change.
    pub columns: Vec<ColumnDefinition>,
    /// Indexes by ascending id, the primary key's first.
    pub indexes: Vec<IndexDefinition>,
    /// The column whose value determines a row's partition; `None` for a replicated table.
    pub partition_by: Option<usize>,
    /// Whether rows may be evicted from memory.
    pub evictable: bool,
    /// CHECK conditions.
    pub checks: Vec<CheckDefinition>,
    /// Whether its first column is a key that the engine gives to each row, because the table was created without one.
    /// That column is in no list of columns, and neither is its index among indexes; expressions can name it.
    pub has_row_key: bool,
}

/// A column.
#[derive(Debug, Clone, PartialEq)]
pub struct ColumnDefinition {
    /// Its name, in lower case unless it was quoted.
    pub name: Box<str>,
    /// The type of its values.
    pub data_type: DataType,
    /// Whether it may be NULL.
    pub nullable: bool,
    /// Value of an INSERT without one, as SQL; `None` for NULL.
    pub default: Option<Box<str>>,
}

/// Search methods of an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IndexKind {
    /// By whole keys only; smaller and faster.
    Hash,
    /// By whole keys, leading columns and ranges, in order.
    Ordered,
}

/// An index.
#[derive(Debug, Clone, PartialEq)]
pub struct IndexDefinition {
    /// Its id.
    pub id: IndexId,
    /// Its name, unique among the indexes of the database.
    pub name: Box<str>,
    /// How it is searched.
    pub kind: IndexKind,
    /// Whether no two rows may share a key; keys that contain NULL are never equal.
    pub unique: bool,
    /// Its columns.
    pub columns: Vec<IndexColumn>,
}

/// A column of an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexColumn {
    /// Position in the table.
    pub column: usize,
    /// Whether larger values come first.
    pub descending: bool,
}

/// A condition on rows.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckDefinition {
    /// Its name, unique among the checks of the table.
    pub name: Box<str>,
    /// The condition as SQL.
    pub condition: Box<str>,
}

impl TableDefinition {
    /// The position of a column.
    pub fn column(&self, name: &str) -> Result<usize> {
        self.columns.iter().position(|column| &*column.name == name).ok_or_else(|| {
            Class::UndefinedColumn.error(format_args!("column \"{name}\" of table \"{}\" does not exist", self.name))
        })
    }

    /// Columns that users have given it, with their positions.
    pub fn listed_columns(&self) -> impl Iterator<Item = (usize, &ColumnDefinition)> {
        self.columns.iter().enumerate().skip(usize::from(self.has_row_key))
    }

    /// Indexes that users have given it.
    pub fn listed_indexes(&self) -> impl Iterator<Item = &IndexDefinition> {
        self.indexes.iter().skip(usize::from(self.has_row_key))
    }

    /// The position of a column that users have given it, for a definition, which may name no other.
    pub fn listed_column(&self, name: &str) -> Result<usize> {
        match self.column(name)? {
            0 if self.has_row_key => Err(Class::InvalidTableDefinition.error(format_args!(
                "column \"{name}\" of table \"{}\" is the key that rows have because the table has none: no definition can \
                 name it",
                self.name
            ))),
            position => Ok(position),
        }
    }

    /// The statements that create it and its indexes; ids are included only if they differ from the default.
    pub fn to_sql(&self) -> String {
        print::table(self)
    }

    /// The index with this id.
    pub fn index(&self, id: IndexId) -> Option<&IndexDefinition> {
        self.indexes.iter().find(|index| index.id == id)
    }

    /// Encoding of an index's columns as key bytes.
    pub fn key_columns(&self, index: &IndexDefinition) -> Vec<KeyColumn> {
        index
            .columns
            .iter()
            .filter_map(|key| {
                let column = self.columns.get(key.column)?;
                let descending = key.descending;
                Some(KeyColumn { data_type: column.data_type, nullable: column.nullable, descending })
            })
            .collect()
    }

    /// The lowest index id that is free.
    pub fn next_index_id(&self) -> IndexId {
        IndexId(lowest_free(self.indexes.iter().map(|index| index.id.0)).unwrap_or(0))
    }
}

/// The lowest number that is not among `taken`.
pub(super) fn lowest_free(taken: impl Iterator<Item = u32>) -> Option<u32> {
    let taken: BTreeSet<u32> = taken.collect();
    (0..=u32::MAX).find(|id| !taken.contains(id))
}
