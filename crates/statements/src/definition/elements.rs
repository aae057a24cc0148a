//! Elements of tables: columns, keys, indexes, checks and defaults.

use std::sync::Arc;

use sqlparser::ast::{self, ColumnDef, ColumnOption, CreateTable, IndexOption, IndexType, TableConstraint};
use thermocline_syntax::make_printable;
use thermocline_tables::schema::{
    COLUMNS_MAX, CheckDefinition, ColumnDefinition, INDEXES_MAX, IndexColumn, IndexDefinition, IndexId, IndexKind,
    Schema, TableDefinition,
};
use thermocline_types::{Class, DataType, Error, Result, Value, assign};

use crate::names::fold;
use crate::{Binder, Environment, Frame, data_type};

/// Name of the key that the engine gives to rows of a table without one.
const ROW_KEY: &str = "rowid";

pub(super) fn unsupported(what: &str) -> Error {
    Class::Unsupported.error(format_args!("{what} is not supported"))
}

pub(super) fn push_column(table: &mut TableDefinition, written: &ColumnDef) -> Result<()> {
    let name = fold(&written.name)?;
    if table.columns.iter().any(|column| column.name == name) {
        return Err(Class::DuplicateColumn.error(format_args!("column \"{name}\" specified more than once")));
    }
    if table.columns.len() >= COLUMNS_MAX {
        return Err(Class::LimitExceeded.error(format_args!("a table has at most {COLUMNS_MAX} columns")));
    }
    let data_type = data_type(&written.data_type)?;
    if data_type == DataType::Numeric {
        return Err(Class::InvalidTableDefinition
            .error(format_args!("column \"{name}\" needs a precision and a scale: DECIMAL(p, s)")));
    }
    let mut column = ColumnDefinition { name, data_type, nullable: true, default: None };
    for option in &written.options {
        match &option.option {
            ColumnOption::Null => column.nullable = true,
            ColumnOption::NotNull => column.nullable = false,
            ColumnOption::Default(value) => column.default = Some(text_of(value)),
            ColumnOption::Check(check) => {
                let name = option.name.as_ref().or(check.name.as_ref()).map(fold).transpose()?;
                push_check(table, name, Some(&column.name), &check.expr)?;
            }
            ColumnOption::PrimaryKey(_) | ColumnOption::Unique(_) => {}
            other => return Err(unsupported(&format!("column option {other}"))),
        }
    }
    table.columns.push(column);
    Ok(())
}

/// Whether a table is defined with a primary key.
pub(super) fn has_primary_key(written: &CreateTable) -> bool {
    let of_column =
        |column: &ColumnDef| column.options.iter().any(|option| matches!(option.option, ColumnOption::PrimaryKey(_)));
    written.columns.iter().any(of_column)
        || written.constraints.iter().any(|constraint| matches!(constraint, TableConstraint::PrimaryKey(_)))
}

/// Adds the key that the engine gives to each row, under a name that no column of these has.
pub(super) fn push_row_key(table: &mut TableDefinition, written: &[ColumnDef]) -> Result<()> {
    let taken: Vec<Box<str>> = written.iter().map(|column| fold(&column.name)).collect::<Result<_>>()?;
    let mut name: Box<str> = ROW_KEY.into();
    let mut number = 0;
    while taken.contains(&name) {
        number += 1;
        name = format!("{ROW_KEY}_{number}").into();
    }
    let default = Some("gen_random_uuid()".into());
    table.columns.push(ColumnDefinition { name, data_type: DataType::Uuid, nullable: false, default });
    Ok(())
}

/// The index of that key.
pub(super) fn row_key() -> IndexDefinition {
    IndexDefinition {
        id: IndexId::PRIMARY,
        name: ROW_KEY.into(),
        kind: IndexKind::Hash,
        unique: true,
        columns: vec![IndexColumn { column: 0, descending: false }],
    }
}

pub(super) fn push_check(
    table: &mut TableDefinition,
    name: Option<Box<str>>,
    column: Option<&str>,
    condition: &ast::Expr,
) -> Result<()> {
    let stem = match column {
        Some(column) => format!("{}_{column}_check", table.name),
        None => format!("{}_check", table.name),
    };
    let taken = |name: &str| table.checks.iter().any(|check| &*check.name == name);
    let name = match name {
        Some(name) if taken(&name) => {
            return Err(Class::DuplicateObject.error(format_args!("constraint \"{name}\" already exists")));
        }
        Some(name) => name,
        None => (0..)
            .map(|number| if number == 0 { stem.clone() } else { format!("{stem}{number}") })
            .find(|name| !taken(name))
            .unwrap_or_default()
            .into(),
    };
    table.checks.push(CheckDefinition { name, condition: text_of(condition) });
    Ok(())
}

/// The text of an expression, which is read as the same expression.
pub(super) fn text_of(expression: &ast::Expr) -> Box<str> {
    let mut expression = expression.clone();
    make_printable(&mut expression);
    expression.to_string().into()
}

/// PRIMARY KEY and UNIQUE of a column.
pub(super) fn column_indexes(
    table: &TableDefinition,
    written: &ColumnDef,
    primary: &mut Option<IndexDefinition>,
    others: &mut Vec<IndexDefinition>,
) -> Result<()> {
    let column = fold(&written.name)?;
    let columns = || Ok::<_, Error>(vec![IndexColumn { column: table.column(&column)?, descending: false }]);
    for option in &written.options {
        let name = option.name.as_ref().map(fold).transpose()?;
        match &option.option {
            ColumnOption::PrimaryKey(_) => set_primary(table, primary, name, None, columns()?)?,
            ColumnOption::Unique(_) => others.push(unique(name, None, columns()?)?),
            _ => {}
        }
    }
    Ok(())
}

pub(super) fn read_constraint(
    table: &mut TableDefinition,
    written: &TableConstraint,
    primary: &mut Option<IndexDefinition>,
    others: &mut Vec<IndexDefinition>,
) -> Result<()> {
    match written {
        TableConstraint::PrimaryKey(key) => {
            let name = key.name.as_ref().or(key.index_name.as_ref()).map(fold).transpose()?;
            let columns = index_columns(table, &key.columns)?;
            set_primary(table, primary, name, using(key.index_type.as_ref(), &key.index_options)?, columns)
        }
        TableConstraint::Unique(key) => {
            let name = key.name.as_ref().or(key.index_name.as_ref()).map(fold).transpose()?;
            let columns = index_columns(table, &key.columns)?;
            others.push(unique(name, using(key.index_type.as_ref(), &key.index_options)?, columns)?);
            Ok(())
        }
        TableConstraint::Check(check) => {
            let name = check.name.as_ref().map(fold).transpose()?;
            push_check(table, name, None, &check.expr)
        }
        other => Err(unsupported(&other.to_string())),
    }
}

/// The index kind of a key, written before or behind its columns: `PRIMARY KEY (a, b) USING BTREE`.
pub(super) fn using<'a>(before: Option<&'a IndexType>, behind: &'a [IndexOption]) -> Result<Option<&'a IndexType>> {
    match (before, behind) {
        (kind, []) => Ok(kind),
        (None, [IndexOption::Using(kind)]) => Ok(Some(kind)),
        _ => Err(unsupported("this option of a key")),
    }
}

/// Sets the primary key. By default it is a hash index if it has one column, and an ordered index if it has several,
/// because queries often give only the first ones.
pub(super) fn set_primary(
    table: &TableDefinition,
    primary: &mut Option<IndexDefinition>,
    name: Option<Box<str>>,
    kind: Option<&IndexType>,
    columns: Vec<IndexColumn>,
) -> Result<()> {
    if primary.is_some() {
        let message = format!("multiple primary keys for table \"{}\"", table.name);
        return Err(Class::InvalidTableDefinition.error(message));
    }
    let usual = if columns.len() == 1 { IndexKind::Hash } else { IndexKind::Ordered };
    let name = name.unwrap_or_default();
    *primary =
        Some(IndexDefinition { id: IndexId::PRIMARY, name, kind: index_kind(kind, usual)?, unique: true, columns });
    Ok(())
}

pub(super) fn unique(
    name: Option<Box<str>>,
    kind: Option<&IndexType>,
    columns: Vec<IndexColumn>,
) -> Result<IndexDefinition> {
    let name = name.unwrap_or_default();
    // `push_index` sets the id.
    Ok(IndexDefinition {
        id: IndexId::PRIMARY,
        name,
        kind: index_kind(kind, IndexKind::Ordered)?,
        unique: true,
        columns,
    })
}

/// Default name of an index, as in PostgreSQL: table_column_key, or with the first number that makes it a new one.
pub(super) fn index_name(schema: &Schema, table: &TableDefinition, columns: &[IndexColumn], suffix: &str) -> Box<str> {
    let columns = columns.iter().filter_map(|key| table.columns.get(key.column)).map(|column| &*column.name);
    let parts: Vec<&str> = [&*table.name].into_iter().chain(columns).chain([suffix]).collect();
    free_name(schema, table, &parts.join("_"))
}

/// A name that no table or index has, those of the new table included: the stem, or with a number behind it.
fn free_name(schema: &Schema, table: &TableDefinition, stem: &str) -> Box<str> {
    let is_free = |name: &String| {
        schema.table(name).is_err()
            && schema.index(name).is_none()
            && table.name.as_ref() != name
            && table.listed_indexes().all(|index| index.name.as_ref() != name)
    };
    let mut names = std::iter::once(stem.to_owned()).chain((1..).map(|number| format!("{stem}{number}")));
    names.find(is_free).unwrap_or_default().into()
}

pub(super) fn index_kind(written: Option<&IndexType>, usual: IndexKind) -> Result<IndexKind> {
    match written {
        None => Ok(usual),
        Some(IndexType::Hash) => Ok(IndexKind::Hash),
        Some(IndexType::BTree) => Ok(IndexKind::Ordered),
        Some(other) => Err(unsupported(&format!("an index USING {other}"))),
    }
}

pub(super) fn index_columns(table: &TableDefinition, written: &[ast::IndexColumn]) -> Result<Vec<IndexColumn>> {
    let mut columns: Vec<IndexColumn> = Vec::with_capacity(written.len());
    for key in written {
        let ast::Expr::Identifier(name) = &key.column.expr else {
            return Err(unsupported("an index on an expression"));
        };
        let column = table.listed_column(&fold(name)?)?;
        let descending = key.column.options.asc == Some(false);
        if key.operator_class.is_some() || key.column.options.nulls_first.is_some_and(|first| first != descending) {
            return Err(unsupported("this order of an index"));
        }
        if columns.iter().any(|known| known.column == column) {
            return Err(Class::DuplicateColumn.error(format_args!("column {name} is twice in an index")));
        }
        columns.push(IndexColumn { column, descending });
    }
    Ok(columns)
}

pub(super) fn partition_column(table: &TableDefinition, written: &ast::Expr) -> Result<usize> {
    match written {
        ast::Expr::Nested(inner) => partition_column(table, inner),
        ast::Expr::Identifier(name) => table.listed_column(&fold(name)?),
        _ => Err(unsupported("PARTITION BY more than a column")),
    }
}

/// Rejects INTERVAL and JSONB keys: values that compare equal, such as one month and 30 days, or 1.0 and 1.00, would
/// have different keys.
pub(super) fn check_key(column: &ColumnDefinition) -> Result<()> {
    match column.data_type {
        of @ (DataType::Interval | DataType::Jsonb) => {
            Err(unsupported(&format!("column \"{}\" of type {of} as a key", column.name)))
        }
        _ => Ok(()),
    }
}

/// Checks an index, sets its id and, if it has none, its name, and adds it to the table.
pub(super) fn push_index(schema: &Schema, table: &mut TableDefinition, mut index: IndexDefinition) -> Result<IndexId> {
    let keys = index.columns.iter().filter_map(|key| table.columns.get(key.column));
    keys.chain(table.partition_by.and_then(|by| table.columns.get(by))).try_for_each(check_key)?;
    if table.indexes.len() >= INDEXES_MAX {
        return Err(Class::LimitExceeded.error(format_args!("a table has at most {INDEXES_MAX} indexes")));
    }
    if index.id == IndexId::PRIMARY {
        index.id = table.next_index_id();
    }
    if index.name.is_empty() {
        index.name = match index.id {
            IndexId::PRIMARY => free_name(schema, table, &format!("{}_pkey", table.name)),
            _ => index_name(schema, table, &index.columns, "key"),
        };
    }
    // No name leads to the index of a row key.
    let is_row_key = table.has_row_key && table.indexes.is_empty();
    let taken = table.indexes.iter().any(|known| known.id == index.id)
        || table.listed_indexes().any(|known| known.name == index.name);
    let taken = taken || schema.index(&index.name).is_some() || schema.table(&index.name).is_ok();
    if taken && !is_row_key {
        return Err(Class::DuplicateTable.error(format_args!("relation \"{}\" already exists", index.name)));
    }
    // Uniqueness is checked within a partition; rows with equal keys could be in different partitions, but for keys
    // that the engine makes.
    if let Some(by) = table.partition_by
        && index.unique
        && !is_row_key
        && !index.columns.iter().any(|key| key.column == by)
    {
        if table.has_row_key && by == 0 {
            return Err(Class::InvalidTableDefinition.error(format_args!(
                "unique index \"{}\" needs a table that is replicated, and \"{}\" has neither a key nor PARTITION BY: create \
                 it WITH (replicated = true), or with a UNIQUE constraint",
                index.name, table.name
            )));
        }
        return Err(Class::InvalidTableDefinition.error(format_args!(
            "unique index \"{}\" must include the partition column \"{}\"",
            index.name,
            table.columns.get(by).map_or("", |column| &column.name)
        )));
    }
    let id = index.id;
    table.indexes.push(index);
    table.indexes.sort_by_key(|index| index.id);
    Ok(id)
}

/// Puts a table into the schema, replacing the table of the same name.
pub(super) fn put(schema: &mut Schema, table: TableDefinition) -> Arc<TableDefinition> {
    let table = Arc::new(table);
    schema.put_table(Arc::clone(&table));
    table
}

/// Checks that the condition depends on the row only.
pub(super) fn validate_check(schema: &Schema, table: &TableDefinition, check: &CheckDefinition) -> Result<()> {
    let condition = bind_check(schema, &Arc::new(table.clone()), &check.condition)?;
    if condition.is_volatile() {
        return Err(
            Class::InvalidTableDefinition.error(format_args!("CHECK \"{}\" is not of the row alone", check.name))
        );
    }
    let mut has_row_key = false;
    condition.walk(&mut |part| has_row_key |= matches!(part, crate::Expr::Column { column: 0, .. }));
    if let Some(key) = table.columns.first().filter(|_| has_row_key) {
        table.listed_column(&key.name)?;
    }
    Ok(())
}

/// The bound condition of a CHECK, over slot 0.
pub fn bind_check(schema: &Schema, table: &Arc<TableDefinition>, condition: &str) -> Result<crate::Expr> {
    let mut binder = Binder::new(schema, &[]);
    binder.add_table(table.name.clone(), table.clone())?;
    let bound = binder.condition(&crate::parse_expression(condition)?, "CHECK")?;
    if !binder.into_parameters().is_empty() {
        return Err(Class::InvalidTableDefinition.error("a CHECK has no parameters"));
    }
    Ok(bound)
}

/// The bound default of a column; NULL if it has none.
pub fn bind_default(schema: &Schema, column: &ColumnDefinition) -> Result<crate::Expr> {
    let Some(default) = &column.default else { return Ok(crate::Expr::Literal(Value::Null)) };
    let mut binder = Binder::new(schema, &[]);
    let typed = binder.expression(&crate::parse_expression(default)?)?;
    let bound = binder.assigned(typed, column.data_type, &column.name)?;
    if !binder.into_parameters().is_empty() {
        return Err(Class::InvalidTableDefinition.error("a default has no parameters"));
    }
    Ok(bound)
}

/// Checks a default; returns its value if it is constant.
pub(super) fn validate_default(schema: &Schema, column: &ColumnDefinition) -> Result<Option<Value>> {
    let bound = bind_default(schema, column)?;
    let mut constant = true;
    bound.walk(&mut |part| constant &= !matches!(part, crate::Expr::Call(..)));
    if !constant {
        return Ok(None);
    }
    let environment = Environment::outside();
    let value = bound.evaluate(&Frame::new(&[], &environment))?;
    Ok(Some(assign(value.get(), column.data_type)?.to_value()))
}
