//! Parts of rows that a step needs.

use thermocline_tables::schema::{IndexId, TableDefinition};
use thermocline_tables::table::{Row, Table};
use thermocline_types::{DataType, Result};

use super::{Access, Step};
use crate::expression::Expr;

/// Part of its rows that a statement needs. An evicted row of which no more than the key is needed stays in its block
/// unread (Anti-Caching 2013, section 6.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Needs {
    Row,
    /// Columns of the index that finds the row.
    Key(IndexId),
    /// Only that the row exists.
    Nothing,
}

impl Needs {
    /// Writes an image with the columns of a row that has this key, in place of the row's own.
    pub fn write<'a>(self, table: &'a Table, key: &[u8], image: &'a mut Vec<u8>) -> Result<Row<'a>> {
        let key = match self {
            Self::Key(index) => Some((index, key)),
            Self::Row | Self::Nothing => None,
        };
        table.write_key_row(key, image)
    }
}

/// Notes in each step of a statement what it needs of its rows; `others` are the statement's expressions besides those
/// of the steps.
pub(crate) fn note_needs(steps: &mut [Step], others: &[&Expr]) {
    for at in 0..steps.len() {
        let Some(Step { slot, table, access, .. }) = steps.get(at) else { return };
        let mut needs = Need { slot: *slot, table, index: access.index(), found: Needs::Nothing };
        others.iter().for_each(|expr| needs.add(expr));
        for step in &*steps {
            step.on.iter().chain(&step.filter).for_each(|expr| needs.add(expr));
            step.access.values(&mut |expr| needs.add(expr));
        }
        let mut is_volatile = false;
        access.values(&mut |expr| is_volatile |= expr.is_volatile());
        // A point look-up evaluates its key a second time.
        let found = if is_volatile { Needs::Row } else { needs.found };
        if let Some(step) = steps.get_mut(at) {
            step.needs = found;
        }
    }
}

impl Step {
    /// The columns of the table's only index, if the step finds rows by it and needs no other columns of them. It takes
    /// these columns from the keys then, so that a change of evicted rows that needs no others need not read them.
    pub fn take_keys(&mut self) -> Option<Vec<usize>> {
        let index = self.access.index()?;
        let [only] = &*self.table.indexes else { return None };
        let mut needs = Need { slot: self.slot, table: &self.table, index: Some(index), found: self.needs };
        let columns: Vec<usize> = only.columns.iter().map(|held| held.column).collect();
        for column in &columns {
            if needs.found != Needs::Row {
                needs.found = needs.of_column(*column);
            }
        }
        let found = needs.found;
        if found == Needs::Row {
            return None;
        }
        self.needs = found;
        Some(columns)
    }
}

struct Need<'a> {
    slot: usize,
    table: &'a TableDefinition,
    index: Option<IndexId>,
    found: Needs,
}

impl Need<'_> {
    fn add(&mut self, expr: &Expr) {
        expr.walk(&mut |part| match part {
            Expr::Column { slot, column } if *slot == self.slot && self.found != Needs::Row => {
                self.found = self.of_column(*column);
            }
            _ => {}
        });
    }

    fn of_column(&self, column: usize) -> Needs {
        let index = self.index.and_then(|id| self.table.index(id));
        let is_held = index.is_some_and(|index| index.columns.iter().any(|held| held.column == column));
        // Keys have one zero and one NaN for all.
        let is_exact = |data_type| !matches!(data_type, DataType::Real | DataType::Double);
        let is_exact = self.table.columns.get(column).is_some_and(|column| is_exact(column.data_type));
        self.index.filter(|_| is_held && is_exact).map_or(Needs::Row, Needs::Key)
    }
}

impl Access {
    /// The index that finds the rows; `None` for a scan.
    fn index(&self) -> Option<IndexId> {
        match self {
            Self::Scan => None,
            Self::Key { index, .. } | Self::Range { index, .. } | Self::Union { index, .. } => Some(*index),
        }
    }

    /// Calls `visit` for the values of keys and bounds.
    fn values(&self, visit: &mut impl FnMut(&Expr)) {
        let (parts, bounds, ranges) = match self {
            Self::Scan => return,
            Self::Key { parts, .. } => (parts.as_slice(), None, [].as_slice()),
            Self::Range { parts, bounds, .. } => (parts.as_slice(), bounds.as_ref(), [].as_slice()),
            Self::Union { ranges, .. } => ([].as_slice(), None, ranges.as_slice()),
        };
        parts.iter().for_each(|part| visit(&part.value));
        ranges.iter().flat_map(|range| &range.parts).flat_map(|part| &part.values).for_each(&mut *visit);
        let bounds = bounds.into_iter().chain(ranges.iter().filter_map(|range| range.bounds.as_ref()));
        for (limit, _) in bounds.flat_map(|bounds| [&bounds.low, &bounds.high]).flatten() {
            visit(limit);
        }
    }
}
