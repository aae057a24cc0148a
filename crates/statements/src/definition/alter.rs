//! `ALTER TABLE`.

use std::ops::ControlFlow;

use sqlparser::ast::{
    AlterColumnOperation, AlterTable, AlterTableOperation, ColumnDef, ColumnOption, Expr, Ident, ObjectName,
    RenameTableNameKind, TableConstraint, visit_expressions_mut,
};
use thermocline_syntax::folded;
use thermocline_tables::schema::{Change, IndexDefinition, IndexId, Schema, TableDefinition};
use thermocline_types::{Class, Error, Result, Value};

use super::elements::{
    push_column, push_index, put, read_constraint, text_of, unsupported, validate_check, validate_default,
};
use crate::names::{fold, object};
use crate::parse_expression;

/// Applies `ALTER TABLE`.
///
/// # Errors
/// If what it changes is not there, or its new form does not fit the schema.
pub(super) fn alter_table(schema: &mut Schema, written: &AlterTable) -> Result<Change> {
    let name = object(&written.name)?;
    if written.if_exists && schema.table(&name).is_err() {
        return Ok(Change::None);
    }
    let table = (**schema.table(&name)?).clone();
    let [operation] = written.operations.as_slice() else {
        return Err(unsupported("ALTER TABLE with several changes"));
    };
    match operation {
        AlterTableOperation::AddColumn { if_not_exists, column_def, column_position: None, .. } => {
            add_column(schema, table, column_def, *if_not_exists)
        }
        AlterTableOperation::AddConstraint { constraint, not_valid: false } => {
            add_constraint(schema, table, constraint)
        }
        AlterTableOperation::RenameTable { table_name: RenameTableNameKind::To(to) | RenameTableNameKind::As(to) } => {
            rename_table(schema, table, to)
        }
        AlterTableOperation::SwapWith { table_name } => swap_tables(schema, table, table_name),
        AlterTableOperation::RenameColumn { old_column_name, new_column_name } => {
            rename_column(schema, table, old_column_name, new_column_name)
        }
        AlterTableOperation::RenameConstraint { old_name, new_name } => {
            rename_constraint(schema, table, old_name, new_name)
        }
        AlterTableOperation::AlterColumn { column_name, op } => alter_column(schema, table, column_name, op),
        AlterTableOperation::DropConstraint { name, if_exists, .. } => drop_constraint(schema, table, name, *if_exists),
        other => Err(unsupported(&format!("ALTER TABLE ... {other}"))),
    }
}

fn add_column(
    schema: &mut Schema,
    mut table: TableDefinition,
    written: &ColumnDef,
    if_not_exists: bool,
) -> Result<Change> {
    if if_not_exists && table.column(&fold(&written.name)?).is_ok() {
        return Ok(Change::None);
    }
    if written.options.iter().any(|o| matches!(o.option, ColumnOption::PrimaryKey(_) | ColumnOption::Unique(_))) {
        return Err(unsupported("adding a column with an index"));
    }
    let checks = table.checks.len();
    push_column(&mut table, written)?;
    for check in table.checks.iter().skip(checks) {
        validate_check(schema, &table, check)?;
    }
    let fill = match table.columns.last() {
        Some(column) => validate_default(schema, column)?,
        None => Some(Value::Null),
    };
    let column = table.columns.last().ok_or_else(|| Error::internal("a table without columns"))?;
    // All existing rows get one value, which is not logged.
    let fill = fill.ok_or_else(|| unsupported("adding a column with a default that is not a constant"))?;
    if fill.is_null() && !column.nullable {
        let message = format!("column \"{}\" of table \"{}\" is NOT NULL and needs a default", column.name, table.name);
        return Err(Class::NotNullViolation.error(message));
    }
    if table.checks.len() > checks {
        return Err(unsupported("adding a column with a CHECK"));
    }
    let table = put(schema, table);
    Ok(Change::AddColumn { table, fill })
}

/// UNIQUE is an index.
fn add_constraint(schema: &mut Schema, mut table: TableDefinition, written: &TableConstraint) -> Result<Change> {
    if !matches!(written, TableConstraint::Unique(_)) {
        return Err(unsupported(&format!("ALTER TABLE ... ADD {written}")));
    }
    let (mut primary, mut others) = (None, Vec::new());
    read_constraint(&mut table, written, &mut primary, &mut others)?;
    let index = others.pop().ok_or_else(|| Error::internal("UNIQUE without an index"))?;
    let index = push_index(schema, &mut table, index)?;
    let table = put(schema, table);
    Ok(Change::CreateIndex { table, index })
}

fn rename_table(schema: &mut Schema, mut table: TableDefinition, to: &ObjectName) -> Result<Change> {
    let to = object(to)?;
    if schema.table(&to).is_ok() || schema.index(&to).is_some() {
        return Err(Class::DuplicateTable.error(format_args!("relation \"{to}\" already exists")));
    }
    schema.take_table(&table.name);
    rename_to(&mut table, &to)?;
    redefined(schema, table)
}

/// Gives a table another name, also where its CHECKs name it.
fn rename_to(table: &mut TableDefinition, to: &str) -> Result<()> {
    let from = std::mem::replace(&mut table.name, to.into());
    rewrite_checks(table, |parts| {
        if let [table, _] = parts
            && folded(table) == *from
        {
            *table = Ident::with_quote('"', to);
        }
    })
}

/// Each of two tables takes the other's name.
fn swap_tables(schema: &mut Schema, mut table: TableDefinition, with: &ObjectName) -> Result<Change> {
    let mut other = (**schema.table(&object(with)?)?).clone();
    if other.id == table.id {
        return Ok(Change::None);
    }
    let (of_table, of_other) = (table.name.clone(), other.name.clone());
    rename_to(&mut table, &of_other)?;
    rename_to(&mut other, &of_table)?;
    Ok(Change::Redefine(vec![put(schema, table), put(schema, other)]))
}

fn rename_column(schema: &mut Schema, mut table: TableDefinition, from: &Ident, to: &Ident) -> Result<Change> {
    let (position, from, to) = (table.listed_column(&fold(from)?)?, fold(from)?, fold(to)?);
    if table.column(&to).is_ok() {
        return Err(
            Class::DuplicateColumn.error(format_args!("column \"{to}\" of table \"{}\" already exists", table.name))
        );
    }
    if let Some(column) = table.columns.get_mut(position) {
        column.name = to.clone();
    }
    rewrite_checks(&mut table, |parts| {
        if let Some(column) = parts.last_mut().filter(|column| folded(column) == *from) {
            *column = Ident::with_quote('"', &*to);
        }
    })?;
    redefined(schema, table)
}

/// Changes the names of columns in the conditions of all CHECKs: `change` gets the parts of each, the column last.
fn rewrite_checks(table: &mut TableDefinition, mut change: impl FnMut(&mut [Ident])) -> Result<()> {
    for check in &mut table.checks {
        let mut condition = parse_expression(&check.condition)?;
        let _ = visit_expressions_mut(&mut condition, |expr| {
            match expr {
                Expr::Identifier(name) => change(std::slice::from_mut(name)),
                Expr::CompoundIdentifier(parts) => change(parts),
                _ => {}
            }
            ControlFlow::<()>::Continue(())
        });
        check.condition = text_of(&condition);
    }
    Ok(())
}

fn rename_constraint(schema: &mut Schema, mut table: TableDefinition, from: &Ident, to: &Ident) -> Result<Change> {
    let (from, to) = (fold(from)?, fold(to)?);
    let is_check = table.checks.iter().any(|check| check.name == from);
    let taken = match is_check {
        true => table.checks.iter().any(|check| check.name == to),
        false => schema.table(&to).is_ok() || schema.index(&to).is_some(),
    };
    if taken {
        return Err(Class::DuplicateObject.error(format_args!("constraint \"{to}\" already exists")));
    }
    let TableDefinition { name: of, checks, indexes, has_row_key, .. } = &mut table;
    let indexes = indexes.iter_mut().skip(usize::from(*has_row_key)).map(|index| &mut index.name);
    let names = checks.iter_mut().map(|check| &mut check.name).chain(indexes);
    let mut names = names.filter(|name| **name == from);
    *names.next().ok_or_else(|| no_constraint(&from, of))? = to;
    redefined(schema, table)
}

fn alter_column(
    schema: &mut Schema,
    mut table: TableDefinition,
    name: &Ident,
    operation: &AlterColumnOperation,
) -> Result<Change> {
    let position = table.listed_column(&fold(name)?)?;
    let column = table.columns.get_mut(position).ok_or_else(|| Error::internal("a column without a place"))?;
    match operation {
        AlterColumnOperation::SetDefault { value } => column.default = Some(text_of(value)),
        AlterColumnOperation::DropDefault => column.default = None,
        AlterColumnOperation::SetNotNull | AlterColumnOperation::DropNotNull => {
            let nullable = matches!(operation, AlterColumnOperation::DropNotNull);
            if column.nullable == nullable {
                return Ok(Change::None);
            }
            let holds = |index: &&IndexDefinition| index.columns.iter().any(|key| key.column == position);
            match table.indexes.iter().find(holds) {
                Some(index) if index.id == IndexId::PRIMARY => {
                    let message = format!("column {name} is in the primary key of table \"{}\"", table.name);
                    return Err(Class::InvalidTableDefinition.error(message));
                }
                // Its keys tell NULL from values, or do not.
                Some(index) => {
                    return Err(unsupported(&format!(
                        "ALTER COLUMN {name} {operation} while index \"{}\" has the column",
                        index.name
                    )));
                }
                None => column.nullable = nullable,
            }
        }
        other => return Err(unsupported(&format!("ALTER TABLE ... ALTER COLUMN {name} {other}"))),
    }
    validate_default(schema, column)?;
    redefined(schema, table)
}

/// A CHECK or UNIQUE.
fn drop_constraint(schema: &mut Schema, mut table: TableDefinition, name: &Ident, if_exists: bool) -> Result<Change> {
    let name = fold(name)?;
    if let Some(position) = table.checks.iter().position(|check| check.name == name) {
        table.checks.remove(position);
        return redefined(schema, table);
    }
    let index = table.listed_indexes().find(|index| index.name == name && index.unique).map(|index| index.id);
    match index {
        Some(IndexId::PRIMARY) => Err(Class::DependentObjects.error(format_args!(
            "cannot drop constraint \"{name}\": it is the primary key of table \"{}\"",
            table.name
        ))),
        Some(index) => {
            table.indexes.retain(|known| known.id != index);
            let table = put(schema, table);
            Ok(Change::DropIndex { table, index })
        }
        None if if_exists => Ok(Change::None),
        None => Err(no_constraint(&name, &table.name)),
    }
}

fn no_constraint(name: &str, table: &str) -> Error {
    Class::UndefinedObject.error(format_args!("constraint \"{name}\" of table \"{table}\" does not exist"))
}

fn redefined(schema: &mut Schema, table: TableDefinition) -> Result<Change> {
    for check in &table.checks {
        validate_check(schema, &table, check)?;
    }
    Ok(Change::Redefine(vec![put(schema, table)]))
}
