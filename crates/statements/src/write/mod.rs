//! `INSERT`, `UPDATE`, `DELETE`.

mod delete;
mod insert;
mod plain;
mod row_maker;
mod shares;
mod touched;
mod update;

use std::sync::Arc;

use smallvec::SmallVec;
use sqlparser::ast::{Assignment as AstAssignment, AssignmentTarget, SelectItem};
use thermocline_tables::schema::{ColumnDefinition, Schema, TableDefinition};
use thermocline_tables::table::{IntegerPlace, Layout};
use thermocline_types::{Class, Error, Result, Value, ValueRef, assign};

use super::bind::Binder;
use super::expression::{Environment, Expr, Frame, IntegerExpr, Source};
use super::rows::{OutputColumn, Rows};
use super::select::{outputs, push_outputs};
use crate::definition::bind_check;
use crate::heap_size::heap_size;
use crate::names::object;

pub(crate) use delete::Delete;
pub(crate) use insert::Insert;
pub use row_maker::RowMaker;
pub(crate) use update::Update;

/// Values of a row, or its changes; inline for up to 12 columns, as most rows have.
type OfRow<T> = SmallVec<[T; 12]>;

/// `SET column = value`.
#[derive(Debug, Clone)]
pub(crate) struct Assignment {
    pub column: usize,
    pub value: Expr,
    /// Whether the value is the same for all rows of a statement.
    pub fixed: bool,
    /// Compiled form, if the column and all parts of the value are integers.
    pub integers: Option<IntegerAssignment>,
}

/// Assignment of an integer in the image of a row.
#[derive(Debug, Clone)]
pub(crate) struct IntegerAssignment {
    pub place: IntegerPlace,
    pub value: IntegerExpr,
}

impl IntegerAssignment {
    /// The new integer for a row with this image; `None` if the value is not an integer or does not fit the column.
    #[inline]
    fn integer(&self, image: &[u8], parameters: &[Value]) -> Option<i64> {
        self.value.value(image, parameters).filter(|number| self.place.holds(*number))
    }
}

/// A CHECK over slot 0.
#[derive(Debug, Clone)]
pub(crate) struct Check {
    pub name: Box<str>,
    pub condition: Expr,
}

/// `RETURNING` over slot 0.
#[derive(Debug, Clone, Default)]
pub(crate) struct Returning {
    pub outputs: Vec<Expr>,
}

fn bind_returning(binder: &mut Binder<'_>, items: Option<&Vec<SelectItem>>) -> Result<(Returning, Vec<OutputColumn>)> {
    let Some(items) = items else { return Ok((Returning::default(), Vec::new())) };
    let bound = outputs(binder, items)?;
    Ok((Returning { outputs: bound.exprs }, bound.columns))
}

impl Returning {
    fn push(&self, rows: &mut Rows, source: Source<'_>, parameters: &[Value], environment: &Environment) -> Result<()> {
        if self.outputs.is_empty() {
            return Ok(());
        }
        if let Source::Row(row) = source {
            return push_outputs(self.outputs.iter(), (0, row), rows, parameters, environment);
        }
        let mut frame = Frame::new(parameters, environment);
        frame.set(0, source);
        for output in &self.outputs {
            output.push_to(&frame, rows)?;
        }
        Ok(())
    }
}

/// The checks that read a changed column; all checks if `changed` is `None`.
fn bind_checks(schema: &Schema, table: &Arc<TableDefinition>, changed: Option<&[Assignment]>) -> Result<Vec<Check>> {
    let mut checks = Vec::with_capacity(table.checks.len());
    for check in &table.checks {
        let condition = bind_check(schema, table, &check.condition)?;
        let mut concerned = changed.is_none();
        condition.walk(&mut |part| {
            if let (Expr::Column { column, .. }, Some(changed)) = (part, changed) {
                concerned |= changed.iter().any(|assignment| assignment.column == *column);
            }
        });
        if concerned {
            checks.push(Check { name: check.name.clone(), condition });
        }
    }
    Ok(checks)
}

/// Returns an error if a check is FALSE for the row; NULL passes.
fn check_row(checks: &[Check], table: &TableDefinition, source: Source<'_>, environment: &Environment) -> Result<()> {
    if checks.is_empty() {
        return Ok(());
    }
    let mut frame = Frame::new(&[], environment);
    frame.set(0, source);
    for check in checks {
        if matches!(check.condition.evaluate(&frame)?.get(), ValueRef::Boolean(false)) {
            return Err(Class::CheckViolation.error(format_args!(
                "new row for table \"{}\" violates check constraint \"{}\"",
                table.name, check.name
            )));
        }
    }
    Ok(())
}

/// The value as the column stores it.
#[inline]
fn store<'v>(table: &TableDefinition, column: &ColumnDefinition, value: ValueRef<'v>) -> Result<ValueRef<'v>> {
    if value.is_null() && !column.nullable {
        return Err(null_violation(table, column));
    }
    assign(value, column.data_type).map_err(|error| in_column(error, table, column))
}

#[cold]
fn null_violation(table: &TableDefinition, column: &ColumnDefinition) -> Error {
    Class::NotNullViolation.error(format_args!(
        "null value in column \"{}\" of table \"{}\" violates not-null constraint",
        column.name, table.name
    ))
}

#[cold]
fn in_column(error: Error, table: &TableDefinition, column: &ColumnDefinition) -> Error {
    match error {
        Error::User(class, message) => {
            class.error(format_args!("column \"{}\" of table \"{}\": {message}", column.name, table.name))
        }
        other => other,
    }
}

/// Binds `SET a = 1, b = a + 1` for the table in slot 0.
fn bind_assignments(
    binder: &mut Binder<'_>,
    table: &TableDefinition,
    written: &[AstAssignment],
) -> Result<Vec<Assignment>> {
    let mut assignments: Vec<Assignment> = Vec::with_capacity(written.len());
    let layout = Layout::new(table)?;
    for assignment in written {
        let AssignmentTarget::ColumnName(name) = &assignment.target else {
            return Err(Error::unsupported("an assignment to several columns"));
        };
        let column = table.column(&object(name)?)?;
        let Some(definition) = table.columns.get(column) else { continue };
        if assignments.iter().any(|known| known.column == column) {
            let message = format!("multiple assignments to same column \"{}\"", definition.name);
            return Err(Class::DuplicateColumn.error(message));
        }
        if table.partition_by == Some(column) {
            let message =
                format!("the partition column \"{}\" cannot change: delete the row, insert a new one", definition.name);
            return Err(Class::Unsupported.error(message));
        }
        let value = bind_value(binder, &assignment.value, definition)?;
        let fixed = value.is_constant() && !value.is_volatile();
        let place = layout.integer_place(column);
        let integers =
            place.and_then(|place| IntegerExpr::new(&value, &layout).map(|value| IntegerAssignment { place, value }));
        assignments.push(Assignment { column, value, fixed, integers });
    }
    Ok(assignments)
}

/// Binds the value of a column; DEFAULT denotes its default.
fn bind_value(binder: &mut Binder<'_>, written: &sqlparser::ast::Expr, column: &ColumnDefinition) -> Result<Expr> {
    if let sqlparser::ast::Expr::Identifier(word) = written
        && word.quote_style.is_none()
        && word.value.eq_ignore_ascii_case("default")
    {
        return crate::definition::bind_default(binder.schema(), column);
    }
    let typed = binder.expression(written)?;
    binder.assigned(typed, column.data_type, &column.name)
}

heap_size! {
    Assignment: value integers;
    IntegerAssignment: value;
    Check: name condition;
    Returning: outputs;
}
