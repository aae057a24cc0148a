//! Parsing and applying of definitions.

use std::sync::Arc;

use sqlparser::ast::{
    self, AlterTableOperation, ColumnDef, ColumnOption, CreateIndex, CreateTable, CreateTableOptions, IndexOption,
    IndexType, ObjectType, SqlOption, TableConstraint, Truncate, TruncateTableTarget,
};
use thermocline_syntax::{CreateProcedure, Statement};
use thermocline_types::{Class, DataType, Error, Result, Value, assign};

use crate::names::{fold, object};
use crate::{Binder, Environment, Frame, data_type, parse, split};
use thermocline_tables::schema::{
    Argument, COLUMNS_MAX, Change, CheckDefinition, ColumnDefinition, INDEXES_MAX, IndexColumn, IndexDefinition,
    IndexId, IndexKind, Language, ProcedureDefinition, Schema, TableDefinition, TableId,
};

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
            ast::Statement::AlterTable(alter) => match alter.operations.as_slice() {
                [AlterTableOperation::AddColumn { if_not_exists, column_def, column_position: None, .. }] => {
                    add_column(schema, &object(&alter.name)?, column_def, *if_not_exists)
                }
                _ => Err(unsupported("of ALTER TABLE, anything but ADD COLUMN")),
            },
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

fn unsupported(what: &str) -> Error {
    Class::Unsupported.error(format_args!("{what} is not supported"))
}

fn create_table(schema: &mut Schema, written: &CreateTable, behind: Vec<SqlOption>) -> Result<Change> {
    let name = object(&written.name)?;
    if schema.table(&name).is_ok() {
        return match written.if_not_exists {
            true => Ok(Change::None),
            false => Err(Class::DuplicateTable.error(format_args!("table \"{name}\" already exists"))),
        };
    }
    if let Some(query) = &written.query {
        return Err(Class::InvalidTableDefinition.error(format_args!(
            "table \"{name}\" needs a PRIMARY KEY, which a query does not give it: \
             CREATE TABLE {name} (..., PRIMARY KEY (...)), then INSERT INTO {name} {query}"
        )));
    }
    if written.temporary || written.or_replace || written.like.is_some() {
        return Err(unsupported("CREATE TABLE with TEMPORARY, OR REPLACE or LIKE"));
    }
    let mut options = behind;
    match &written.table_options {
        CreateTableOptions::None => {}
        CreateTableOptions::With(more) => options.extend(more.iter().cloned()),
        _ => return Err(unsupported("this option of CREATE TABLE")),
    }
    let mut table = TableDefinition {
        id: schema.next_table_id()?,
        name,
        columns: Vec::new(),
        indexes: Vec::new(),
        partition_by: None,
        evictable: true,
        checks: Vec::new(),
    };
    for option in &options {
        match read_option(option)? {
            ("evictable", Value::Boolean(evictable)) => table.evictable = evictable,
            ("id", Value::Int(id)) => table.id = TableId(u32::try_from(id).map_err(|_| unsupported("this id"))?),
            (other, _) => return Err(Class::InvalidParameter.error(format_args!("table option \"{other}\""))),
        }
    }
    if schema.table_by_id(table.id).is_some() {
        return Err(Class::DuplicateObject.error(format_args!("table id {} is taken", table.id.0)));
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
    let primary = primary.ok_or_else(|| {
        Class::InvalidTableDefinition.error(format_args!("table \"{}\" needs a PRIMARY KEY", table.name))
    })?;
    if let Some(by) = &written.partition_by {
        table.partition_by = Some(partition_column(&table, by)?);
    }
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
    Ok(Change::CreateTable(put(schema, table)))
}

/// Name and value of an option.
fn read_option(option: &SqlOption) -> Result<(&'static str, Value)> {
    let invalid = || Class::InvalidParameter.error(format_args!("option {option}"));
    let SqlOption::KeyValue { key, value } = option else { return Err(invalid()) };
    let known = ["evictable", "id", "version"].into_iter().find(|known| key.value.eq_ignore_ascii_case(known));
    let ast::Expr::Value(value) = value else { return Err(invalid()) };
    let value = match &value.value {
        ast::Value::Boolean(value) => Value::Boolean(*value),
        ast::Value::Number(digits, _) => Value::Int(digits.parse().map_err(|_| invalid())?),
        _ => return Err(invalid()),
    };
    Ok((known.ok_or_else(invalid)?, value))
}

fn push_column(table: &mut TableDefinition, written: &ColumnDef) -> Result<()> {
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
            ColumnOption::Default(value) => column.default = Some(value.to_string().into()),
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

fn push_check(
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
    table.checks.push(CheckDefinition { name, condition: condition.to_string().into() });
    Ok(())
}

/// PRIMARY KEY and UNIQUE of a column.
fn column_indexes(
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
            ColumnOption::Unique(_) => others.push(unique(table, name, None, columns()?)?),
            _ => {}
        }
    }
    Ok(())
}

fn read_constraint(
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
            others.push(unique(table, name, using(key.index_type.as_ref(), &key.index_options)?, columns)?);
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
fn using<'a>(before: Option<&'a IndexType>, behind: &'a [IndexOption]) -> Result<Option<&'a IndexType>> {
    match (before, behind) {
        (kind, []) => Ok(kind),
        (None, [IndexOption::Using(kind)]) => Ok(Some(kind)),
        _ => Err(unsupported("this option of a key")),
    }
}

/// Sets the primary key. By default it is a hash index if it has one column, and an ordered index if it has several,
/// because queries often give only the first ones.
fn set_primary(
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
    let name = name.unwrap_or_else(|| format!("{}_pkey", table.name).into());
    *primary =
        Some(IndexDefinition { id: IndexId::PRIMARY, name, kind: index_kind(kind, usual)?, unique: true, columns });
    Ok(())
}

fn unique(
    table: &TableDefinition,
    name: Option<Box<str>>,
    kind: Option<&IndexType>,
    columns: Vec<IndexColumn>,
) -> Result<IndexDefinition> {
    let name = name.unwrap_or_else(|| index_name(table, &columns, "key"));
    // `push_index` sets the id.
    Ok(IndexDefinition {
        id: IndexId::PRIMARY,
        name,
        kind: index_kind(kind, IndexKind::Ordered)?,
        unique: true,
        columns,
    })
}

/// Default name of an index, as in PostgreSQL: table_column_key.
fn index_name(table: &TableDefinition, columns: &[IndexColumn], suffix: &str) -> Box<str> {
    let columns = columns.iter().filter_map(|key| table.columns.get(key.column)).map(|column| &*column.name);
    let parts: Vec<&str> = [&*table.name].into_iter().chain(columns).chain([suffix]).collect();
    parts.join("_").into()
}

fn index_kind(written: Option<&IndexType>, usual: IndexKind) -> Result<IndexKind> {
    match written {
        None => Ok(usual),
        Some(IndexType::Hash) => Ok(IndexKind::Hash),
        Some(IndexType::BTree) => Ok(IndexKind::Ordered),
        Some(other) => Err(unsupported(&format!("an index USING {other}"))),
    }
}

fn index_columns(table: &TableDefinition, written: &[ast::IndexColumn]) -> Result<Vec<IndexColumn>> {
    let mut columns: Vec<IndexColumn> = Vec::with_capacity(written.len());
    for key in written {
        let ast::Expr::Identifier(name) = &key.column.expr else {
            return Err(unsupported("an index on an expression"));
        };
        let column = table.column(&fold(name)?)?;
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

fn partition_column(table: &TableDefinition, written: &ast::Expr) -> Result<usize> {
    match written {
        ast::Expr::Nested(inner) => partition_column(table, inner),
        ast::Expr::Identifier(name) => table.column(&fold(name)?),
        _ => Err(unsupported("PARTITION BY more than a column")),
    }
}

/// Rejects INTERVAL and JSONB keys: values that compare equal, such as one month and 30 days, or 1.0 and 1.00, would
/// have different keys.
fn check_key(column: &ColumnDefinition) -> Result<()> {
    match column.data_type {
        of @ (DataType::Interval | DataType::Jsonb) => {
            Err(unsupported(&format!("column \"{}\" of type {of} as a key", column.name)))
        }
        _ => Ok(()),
    }
}

/// Checks an index, sets its id, and adds it to the table.
fn push_index(schema: &Schema, table: &mut TableDefinition, mut index: IndexDefinition) -> Result<IndexId> {
    let keys = index.columns.iter().filter_map(|key| table.columns.get(key.column));
    keys.chain(table.partition_by.and_then(|by| table.columns.get(by))).try_for_each(check_key)?;
    if table.indexes.len() >= INDEXES_MAX {
        return Err(Class::LimitExceeded.error(format_args!("a table has at most {INDEXES_MAX} indexes")));
    }
    if index.id == IndexId::PRIMARY {
        index.id = table.next_index_id();
    }
    let taken = table.indexes.iter().any(|known| known.name == index.name || known.id == index.id);
    if taken || schema.index(&index.name).is_some() || schema.table(&index.name).is_ok() {
        return Err(Class::DuplicateTable.error(format_args!("relation \"{}\" already exists", index.name)));
    }
    // Uniqueness is checked within a partition; rows with equal keys could be in different partitions.
    if let Some(by) = table.partition_by
        && index.unique
        && !index.columns.iter().any(|key| key.column == by)
    {
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

fn create_index(schema: &mut Schema, written: &CreateIndex) -> Result<Change> {
    let mut table = (**schema.table(&object(&written.table_name)?)?).clone();
    let columns = index_columns(&table, &written.columns)?;
    let name = match &written.name {
        Some(name) => object(name)?,
        None => index_name(&table, &columns, "idx"),
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

/// Puts a table into the schema, replacing the table of the same name.
fn put(schema: &mut Schema, table: TableDefinition) -> Arc<TableDefinition> {
    let table = Arc::new(table);
    schema.put_table(Arc::clone(&table));
    table
}

fn add_column(schema: &mut Schema, name: &str, written: &ColumnDef, if_not_exists: bool) -> Result<Change> {
    let mut table = (**schema.table(name)?).clone();
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
        let message = format!("column \"{}\" of table \"{name}\" is NOT NULL and needs a default", column.name);
        return Err(Class::NotNullViolation.error(message));
    }
    if table.checks.len() > checks {
        return Err(unsupported("adding a column with a CHECK"));
    }
    let table = put(schema, table);
    Ok(Change::AddColumn { table, fill })
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
    Ok(Change::TruncateTable { before, table })
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

/// Checks that the condition depends on the row only.
fn validate_check(schema: &Schema, table: &TableDefinition, check: &CheckDefinition) -> Result<()> {
    let condition = bind_check(schema, &Arc::new(table.clone()), &check.condition)?;
    if condition.is_volatile() {
        return Err(
            Class::InvalidTableDefinition.error(format_args!("CHECK \"{}\" is not of the row alone", check.name))
        );
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
fn validate_default(schema: &Schema, column: &ColumnDefinition) -> Result<Option<Value>> {
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
