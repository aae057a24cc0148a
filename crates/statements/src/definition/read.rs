//! Parsing and applying of definitions.

use std::sync::Arc;

use sqlparser::ast::{
    self, CreateIndex, CreateTable, CreateTableOptions, ObjectType, SqlOption, Truncate, TruncateTableTarget,
};
use thermocline_syntax::{CreateProcedure, Statement};
use thermocline_tables::schema::{
    Argument, Change, IndexDefinition, IndexId, IndexKind, Language, ProcedureDefinition, Schema, TableDefinition,
    TableId,
};
use thermocline_types::{Class, Result, Value};

use super::alter::alter_table;
use super::elements::{
    column_indexes, has_primary_key, index_columns, index_kind, index_name, partition_column, push_column, push_index,
    push_row_key, put, read_constraint, row_key, unsupported, validate_check, validate_default,
};
use crate::names::{fold, object};
use crate::{data_type, parse, split};

/// Limit on arguments of a procedure.
const ARGUMENTS_MAX: usize = 1_000;

/// Applies one definition (`CREATE`, `ALTER`, `DROP` or `TRUNCATE`); returns the new schema and the change.
///
/// # Errors
/// If the definition does not fit the schema.
pub fn define(schema: &Schema, sql: &str) -> Result<(Schema, Change)> {
    let mut after = schema.clone();
    let change = apply(&mut after, sql)?;
    Ok((after, change))
}

/// Reads a schema that [`Schema::to_sql`] wrote.
///
/// # Errors
/// If the text does not consist of definitions.
pub fn read_schema(sql: &str) -> Result<Schema> {
    let mut schema = Schema::default();
    for statement in split(sql)? {
        apply(&mut schema, statement)?;
    }
    Ok(schema)
}

/// Applies one definition.
fn apply(schema: &mut Schema, sql: &str) -> Result<Change> {
    match parse(sql)? {
        Statement::CreateProcedure(procedure) => create_procedure(schema, &procedure),
        Statement::DropProcedure { name, if_exists } => drop_procedure(schema, &object(&name)?, if_exists),
        Statement::Sql(statement, options) => match *statement {
            ast::Statement::CreateTable(table) => create_table(schema, &table, options),
            ast::Statement::CreateIndex(index) => create_index(schema, &index),
            ast::Statement::AlterTable(alter) => alter_table(schema, &alter),
            ast::Statement::Drop { object_type, if_exists, names, cascade: false, .. } => {
                match (object_type, &*names) {
                    (ObjectType::Table, [name]) => drop_table(schema, &object(name)?, if_exists),
                    (ObjectType::Index, [name]) => drop_index(schema, &object(name)?, if_exists),
                    _ => Err(unsupported("this DROP")),
                }
            }
            ast::Statement::Truncate(truncate) => truncate_table(schema, &truncate),
            other => Err(Class::Syntax.error(format_args!("not a definition: {other}"))),
        },
        Statement::Call { .. } | Statement::Explain(_) => Err(Class::Syntax.error("not a definition")),
    }
}

fn create_table(schema: &mut Schema, written: &CreateTable, behind: Vec<SqlOption>) -> Result<Change> {
    let name = object(&written.name)?;
    let before = schema.table(&name).ok().cloned();
    if before.is_some() && !written.or_replace {
        return match written.if_not_exists {
            true => Ok(Change::None),
            false => Err(Class::DuplicateTable.error(format_args!("table \"{name}\" already exists"))),
        };
    }
    if written.query.is_some() {
        return Err(unsupported("CREATE TABLE AS in a procedure"));
    }
    if written.temporary || written.like.is_some() {
        return Err(unsupported("CREATE TABLE with TEMPORARY or LIKE"));
    }
    let mut options = behind;
    match &written.table_options {
        CreateTableOptions::None => {}
        CreateTableOptions::With(more) => options.extend(more.iter().cloned()),
        _ => return Err(unsupported("this option of CREATE TABLE")),
    }
    // A new id, also where it replaces a table, so that statements prepared for that one fail to find it.
    let id = schema.next_table_id()?;
    schema.take_table(&name);
    let mut table = TableDefinition {
        id,
        name,
        columns: Vec::new(),
        indexes: Vec::new(),
        partition_by: None,
        evictable: true,
        checks: Vec::new(),
        has_row_key: !has_primary_key(written),
    };
    let mut replicated = None;
    for option in &options {
        match read_option(option)? {
            ("evictable", Value::Boolean(evictable)) => table.evictable = evictable,
            ("replicated", Value::Boolean(value)) => replicated = Some(value),
            ("id", Value::Int(id)) => table.id = TableId(u32::try_from(id).map_err(|_| unsupported("this id"))?),
            (other, _) => return Err(Class::InvalidParameter.error(format_args!("table option \"{other}\""))),
        }
    }
    if schema.table_by_id(table.id).is_some() {
        return Err(Class::DuplicateObject.error(format_args!("table id {} is taken", table.id.0)));
    }
    if table.has_row_key {
        push_row_key(&mut table, &written.columns)?;
    }
    for column in &written.columns {
        push_column(&mut table, column)?;
    }
    // The primary key comes first: its index id is 0.
    let mut primary = None;
    let mut others = Vec::new();
    for column in &written.columns {
        column_indexes(&table, column, &mut primary, &mut others)?;
    }
    for constraint in &written.constraints {
        read_constraint(&mut table, constraint, &mut primary, &mut others)?;
    }
    let primary = primary.unwrap_or_else(row_key);
    table.partition_by = match (&written.partition_by, replicated) {
        (Some(_), Some(true)) => {
            return Err(Class::InvalidTableDefinition.error("a table is replicated, or has PARTITION BY"));
        }
        (Some(by), _) => Some(partition_column(&table, by)?),
        // Uniqueness of other columns is checked within a partition.
        (None, None) => (table.has_row_key && !others.iter().any(|index| index.unique)).then_some(0),
        (None, Some(true)) => None,
        (None, Some(false)) if table.has_row_key => Some(0),
        (None, Some(false)) => {
            return Err(Class::InvalidTableDefinition.error("replicated = false needs PARTITION BY (column)"));
        }
    };
    for key in &primary.columns {
        if let Some(column) = table.columns.get_mut(key.column) {
            column.nullable = false;
        }
    }
    push_index(schema, &mut table, primary)?;
    for index in others {
        push_index(schema, &mut table, index)?;
    }
    for check in &table.checks {
        validate_check(schema, &table, check)?;
    }
    for column in &table.columns {
        validate_default(schema, column)?;
    }
    let table = put(schema, table);
    Ok(match before {
        Some(before) => Change::ReplaceTable { before, table },
        None => Change::CreateTable(table),
    })
}

/// Name and value of an option.
fn read_option(option: &SqlOption) -> Result<(&'static str, Value)> {
    let invalid = || Class::InvalidParameter.error(format_args!("option {option}"));
    let SqlOption::KeyValue { key, value } = option else { return Err(invalid()) };
    let known =
        ["evictable", "id", "replicated", "version"].into_iter().find(|known| key.value.eq_ignore_ascii_case(known));
    let ast::Expr::Value(value) = value else { return Err(invalid()) };
    let value = match &value.value {
        ast::Value::Boolean(value) => Value::Boolean(*value),
        ast::Value::Number(digits, _) => Value::Int(digits.parse().map_err(|_| invalid())?),
        _ => return Err(invalid()),
    };
    Ok((known.ok_or_else(invalid)?, value))
}

fn create_index(schema: &mut Schema, written: &CreateIndex) -> Result<Change> {
    let mut table = (**schema.table(&object(&written.table_name)?)?).clone();
    let columns = index_columns(&table, &written.columns)?;
    let name = match &written.name {
        Some(name) => object(name)?,
        None => index_name(schema, &table, &columns, "idx"),
    };
    if written.if_not_exists && schema.index(&name).is_some() {
        return Ok(Change::None);
    }
    if written.predicate.is_some() || !written.include.is_empty() || written.nulls_distinct == Some(false) {
        return Err(unsupported("this CREATE INDEX"));
    }
    let kind = index_kind(written.using.as_ref(), IndexKind::Ordered)?;
    let mut id = IndexId::PRIMARY;
    for option in &written.with {
        match option {
            ast::Expr::BinaryOp { left, op: ast::BinaryOperator::Eq, right } if left.to_string() == "id" => {
                id = IndexId(right.to_string().parse().map_err(|_| unsupported("this id"))?);
            }
            other => return Err(Class::InvalidParameter.error(format_args!("index option {other}"))),
        }
    }
    let index = push_index(schema, &mut table, IndexDefinition { id, name, kind, unique: written.unique, columns })?;
    let table = put(schema, table);
    Ok(Change::CreateIndex { table, index })
}

fn truncate_table(schema: &mut Schema, written: &Truncate) -> Result<Change> {
    let Truncate { table_names, partitions: None, on_cluster: None, if_exists, .. } = written else {
        return Err(unsupported("TRUNCATE of partitions"));
    };
    let [TruncateTableTarget { name, .. }] = table_names.as_slice() else {
        return Err(unsupported("TRUNCATE of several tables"));
    };
    let name = object(name)?;
    let before = match schema.table(&name) {
        Ok(table) => Arc::clone(table),
        Err(_) if *if_exists => return Ok(Change::None),
        Err(error) => return Err(error),
    };
    // Under a new id, so that statements prepared for the old table fail to find it.
    let table = put(schema, TableDefinition { id: schema.next_table_id()?, ..TableDefinition::clone(&before) });
    Ok(Change::ReplaceTable { before, table })
}

fn drop_table(schema: &mut Schema, name: &str, if_exists: bool) -> Result<Change> {
    match schema.take_table(name) {
        Some(table) => Ok(Change::DropTable(table)),
        None if if_exists => Ok(Change::None),
        None => Err(Class::UndefinedTable.error(format_args!("table \"{name}\" does not exist"))),
    }
}

fn drop_index(schema: &mut Schema, name: &str, if_exists: bool) -> Result<Change> {
    let Some((table, index)) = schema.index(name) else {
        return match if_exists {
            true => Ok(Change::None),
            false => Err(Class::UndefinedObject.error(format_args!("index \"{name}\" does not exist"))),
        };
    };
    let index = index.id;
    if index == IndexId::PRIMARY {
        let message = format!("cannot drop index \"{name}\": it is the primary key of table \"{}\"", table.name);
        return Err(Class::DependentObjects.error(message));
    }
    let mut table = (**table).clone();
    table.indexes.retain(|known| known.id != index);
    let table = put(schema, table);
    Ok(Change::DropIndex { table, index })
}

fn create_procedure(schema: &mut Schema, written: &CreateProcedure) -> Result<Change> {
    let name = object(&written.name)?;
    let before = schema.procedure(&name).ok();
    if before.is_some() && !written.or_replace {
        return Err(Class::DuplicateFunction.error(format_args!("procedure \"{name}\" already exists")));
    }
    let mut version = before.map_or(1, |before| before.version.saturating_add(1));
    for option in &written.options {
        match read_option(option)? {
            ("version", Value::Int(said)) => version = u32::try_from(said).map_err(|_| unsupported("this version"))?,
            (other, _) => return Err(Class::InvalidParameter.error(format_args!("procedure option \"{other}\""))),
        }
    }
    let mut arguments: Vec<Argument> = Vec::with_capacity(written.arguments.len().min(ARGUMENTS_MAX));
    for (name, written) in &written.arguments {
        let argument = Argument { name: fold(name)?, data_type: data_type(written)? };
        if arguments.iter().any(|known| known.name == argument.name) {
            let message = format!("argument \"{}\" specified more than once", argument.name);
            return Err(Class::InvalidFunctionDefinition.error(message));
        }
        arguments.push(argument);
    }
    if arguments.len() > ARGUMENTS_MAX {
        return Err(Class::LimitExceeded.error(format_args!("a procedure has at most {ARGUMENTS_MAX} arguments")));
    }
    let mut partition_on = Vec::with_capacity(written.partition_on.len());
    for on in &written.partition_on {
        let on = fold(on)?;
        let position = arguments.iter().position(|argument| argument.name == on);
        let wrong = |what| Class::InvalidFunctionDefinition.error(format_args!("PARTITION ON ({on}): {what}"));
        let position = position.ok_or_else(|| wrong("no such argument"))?;
        if partition_on.contains(&position) {
            return Err(wrong("specified more than once"));
        }
        partition_on.push(position);
    }
    let language = match written.language.value.to_ascii_lowercase().as_str() {
        "sql" => Language::Sql,
        "lua" => Language::Lua,
        other => return Err(Class::UndefinedObject.error(format_args!("language \"{other}\" does not exist"))),
    };
    let body = written.body.as_str().into();
    let procedure = Arc::new(ProcedureDefinition { name, version, arguments, partition_on, language, body });
    schema.put_procedure(Arc::clone(&procedure));
    Ok(Change::CreateProcedure(procedure))
}

fn drop_procedure(schema: &mut Schema, name: &str, if_exists: bool) -> Result<Change> {
    match schema.take_procedure(name) {
        Some(procedure) => Ok(Change::DropProcedure(procedure)),
        None if if_exists => Ok(Change::None),
        None => Err(Class::UndefinedFunction.error(format_args!("procedure \"{name}\" does not exist"))),
    }
}
