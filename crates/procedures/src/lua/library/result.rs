//! Results of `db.query`, whose rows become tables when a script reads them.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use thermocline_lua::{Kind, Meter, Raised};
use thermocline_statements::{OutputColumn, Rows, StatementResult};
use thermocline_types::Class;

use super::super::machine::L;
use super::Named;
use super::arguments::{count, expected};
use super::value::push_cell;

pub const FUNCTIONS: &[Named] = &[("__index", index), ("__len", len), ("__newindex", newindex)];

/// Rows and their columns.
pub struct ResultSet {
    columns: Arc<[OutputColumn]>,
    rows: RefCell<Rows>,
    /// Meter that counts the memory of `rows`.
    meter: Rc<Meter>,
    bytes: usize,
    /// Part of `bytes` that the rows charge to the budget themselves.
    told: usize,
}

impl Drop for ResultSet {
    fn drop(&mut self) {
        self.meter.release(self.bytes, self.told);
    }
}

impl ResultSet {
    /// A result, counted as memory of the script.
    fn new(stack: &L<'_>, columns: Arc<[OutputColumn]>, rows: Rows) -> Self {
        let (meter, told) = (Rc::clone(stack.host().meter_of()), rows.charged_bytes());
        let bytes = rows.byte_size().max(told);
        meter.hold(bytes, told);
        Self { columns, rows: RefCell::new(rows), meter, bytes, told }
    }

    /// Pushes the values of a row by its number, from 1 on; returns how many, none if there is no such row.
    pub fn push_values(&self, stack: &L<'_>, number: i64) -> Result<i32, Raised> {
        let rows = self.rows.borrow();
        match position(&rows, number) {
            Some(row) => push_cells_of(stack, &rows, row),
            None => Ok(0),
        }
    }

    /// The same result for a client. The script does not use it afterwards.
    pub fn to_answer(&self) -> StatementResult {
        let rows = self.rows.take();
        StatementResult { columns: Arc::clone(&self.columns), affected: rows.len() as u64, rows }
    }
}

/// Pushes the values of a row in order; returns how many.
pub fn push_cells_of(stack: &L<'_>, rows: &Rows, row: usize) -> Result<i32, Raised> {
    let width = i32::try_from(rows.width()).unwrap_or(i32::MAX);
    if !stack.has_space(width) {
        return Err(stack.host().raise(stack, Class::LimitExceeded.error("too many columns for db.values")));
    }
    (0..rows.width()).for_each(|column| push_cell(stack, rows, row, column));
    Ok(width)
}

/// Pushes a result.
pub fn push_result(stack: &L<'_>, columns: Arc<[OutputColumn]>, rows: Rows) -> Result<(), Raised> {
    let result = ResultSet::new(stack, columns, rows);
    match stack.host().kept() {
        Ok(kept) => {
            stack.push_user(result, &kept.result);
            Ok(())
        }
        Err(error) => Err(stack.host().abort(stack, error)),
    }
}

/// Pushes a row as a table with the columns' names.
pub fn push_row(stack: &L<'_>, columns: &[OutputColumn], rows: &Rows, row: usize) {
    stack.push_table(0, columns.len());
    for (number, column) in columns.iter().enumerate().take(rows.width()) {
        if !rows.is_null(row, number) {
            push_cell(stack, rows, row, number);
            stack.raw_set_field(-2, column.name.as_bytes());
        }
    }
}

/// Index of the row with a number, counted from 1.
fn position(rows: &Rows, number: i64) -> Option<usize> {
    let row = usize::try_from(number).ok()?.checked_sub(1)?;
    (row < rows.len()).then_some(row)
}

fn of<'a>(stack: &'a L<'_>) -> Result<&'a ResultSet, Raised> {
    stack.user::<ResultSet>(1).ok_or_else(|| expected(stack, 1, "result", "result"))
}

fn len(stack: &L<'_>) -> Result<i32, Raised> {
    let rows = of(stack)?.rows.borrow().len();
    stack.push_integer(count(rows));
    Ok(1)
}

/// `result[1]` is the first row; `result.columns` holds the names.
fn index(stack: &L<'_>) -> Result<i32, Raised> {
    let result = of(stack)?;
    match stack.kind(2) {
        Kind::Integer(number) => {
            let rows = result.rows.borrow();
            match position(&rows, number) {
                Some(row) => push_row(stack, &result.columns, &rows, row),
                None => stack.push_nil(),
            }
        }
        Kind::Text(b"columns") => {
            stack.push_table(result.columns.len(), 0);
            for (number, column) in (1..).zip(result.columns.iter()) {
                stack.push_bytes(column.name.as_bytes());
                stack.raw_set_index(-2, number);
            }
        }
        _ => {
            let message = "a result has rows, result[1] to result[#result], and result.columns";
            return Err(stack.host().raise(stack, Class::Procedure.error(message)));
        }
    }
    Ok(1)
}

fn newindex(stack: &L<'_>) -> Result<i32, Raised> {
    Err(stack.host().raise(stack, Class::Procedure.error("a result cannot be changed")))
}
