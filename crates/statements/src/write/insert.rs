//! `INSERT`.

use std::sync::Arc;

use smallvec::SmallVec;
use sqlparser::ast::{self, ConflictTarget, OnConflictAction, OnInsert, Query, SelectItem, SetExpr, TableObject};
use thermocline_tables::PartitionHash;
use thermocline_tables::key::{KeyColumn, encode};
use thermocline_tables::partition::{Participants, Partition, Scope, Transaction};
use thermocline_tables::schema::{IndexDefinition, IndexId, TableDefinition};
use thermocline_tables::table::{HeapSize, Parameter, TupleId};
use thermocline_types::{Class, DataType, Error, Result, Value, ValueRef};

use super::plain::Plain;
use super::touched::Touched;
use super::{
    Assignment, Check, OfRow, Returning, bind_assignments, bind_checks, bind_returning, bind_value, check_row, store,
};
use crate::bind::{Binder, EXCLUDED};
use crate::definition::bind_default;
use crate::expression::{Environment, Evaluated, Expr, Frame, Source};
use crate::heap_size::heap_size;
use crate::names::{fold, object};
use crate::parse_expression;
use crate::plan::PartitionKey;
use crate::rows::{Batch, Outcome, OutputColumn, Rows};
use crate::select::{Select, bind_select};

/// A planned `INSERT`.
#[derive(Debug, Clone)]
pub(crate) struct Insert {
    table: Arc<TableDefinition>,
    source: Values,
    checks: Vec<Check>,
    conflict: Option<Conflict>,
    returning: Returning,
    /// Encoder of rows of VALUES that need no further checks, into a partitioned table; see [`Plain`].
    plain: Option<Plain>,
}

/// Source of the rows.
#[derive(Debug, Clone)]
enum Values {
    /// For each row, the value of each column of the table.
    Rows(Vec<Vec<Expr>>),
    /// A query, and for each column of the table a column of the query or a default.
    Query(Box<Select>, Vec<Result<usize, Expr>>),
}

/// `ON CONFLICT`.
#[derive(Debug, Clone)]
struct Conflict {
    /// Indexes that may contain a conflicting row.
    indexes: Vec<UniqueIndex>,
    /// Update of the existing row; `None` for `DO NOTHING`.
    update: Option<ConflictUpdate>,
}

#[derive(Debug, Clone)]
struct UniqueIndex {
    id: IndexId,
    columns: Vec<(usize, KeyColumn)>,
}

/// `DO UPDATE`: the existing row is in slot 0, the excluded row in slot 1.
#[derive(Debug, Clone)]
struct ConflictUpdate {
    assignments: Vec<Assignment>,
    condition: Option<Expr>,
    checks: Vec<Check>,
}

impl Insert {
    pub fn bind(binder: &mut Binder<'_>, insert: &ast::Insert) -> Result<(Self, Vec<OutputColumn>)> {
        let TableObject::TableName(name) = &insert.table else { return Err(Error::unsupported("this INSERT")) };
        let plain = insert.or.is_none()
            && !insert.ignore
            && !insert.overwrite
            && !insert.replace_into
            && insert.assignments.is_empty()
            && insert.partitioned.is_none()
            && insert.after_columns.is_empty()
            && insert.insert_alias.is_none()
            && insert.output.is_none();
        if !plain {
            return Err(Error::unsupported("this INSERT"));
        }
        let table = binder.schema().table(&object(name)?)?.clone();
        let targets = targets(&table, insert)?;
        let source = match &insert.source {
            None => Values::Rows(vec![bind_row(binder, &table, (&[], false), &[])?]),
            Some(query) => bind_source(binder, &table, (&targets, !insert.columns.is_empty()), query)?,
        };
        let alias = match &insert.table_alias {
            Some(alias) => fold(&alias.alias)?,
            None => table.name.clone(),
        };
        binder.add_table(alias, table.clone())?;
        let conflict = match &insert.on {
            None => None,
            Some(OnInsert::OnConflict(conflict)) => Some(bind_conflict(binder, &table, conflict)?),
            Some(_) => return Err(Error::unsupported("ON DUPLICATE KEY")),
        };
        let (returning, columns) = bind_returning(binder, insert.returning.as_ref())?;
        let checks = bind_checks(binder.schema(), &table, None)?;
        let plain = match &source {
            Values::Rows(rows) if checks.is_empty() && conflict.is_none() => match rows.as_slice() {
                [row] => Plain::new(&table, row)?,
                _ => None,
            },
            _ => None,
        };
        Ok((Self { table, source, checks, conflict, returning, plain }, columns))
    }

    pub fn explain(&self) -> Vec<String> {
        let place = match self.table.partition_by {
            None => "partitions: all (replicated table)".to_owned(),
            Some(_) => "partitions: those that the rows belong to".to_owned(),
        };
        vec![place, format!("insert into {}", self.table.name)]
    }

    pub fn participants(&self, parameters: &[Value]) -> Result<Participants> {
        let Some(by) = self.table.partition_by else { return Ok(Participants::All) };
        let Some(column) = self.table.columns.get(by) else { return Ok(Participants::All) };
        let Values::Rows(rows) = &self.source else { return Ok(Participants::All) };
        let mut hashes = SmallVec::<[PartitionHash; 8]>::new();
        for value in rows.iter().filter_map(|row| row.get(by)) {
            if !value.is_of_parameters() {
                return Ok(Participants::All);
            }
            let key = PartitionKey { data_type: column.data_type, value: value.clone() };
            hashes.extend(key.hash_stored(parameters)?);
        }
        Ok(Participants::to(&hashes))
    }

    pub fn run(
        &self,
        scope: &mut Scope<'_>,
        environment: &Environment,
        parameters: &[Value],
        outcome: &mut Outcome,
    ) -> Result<()> {
        let frame = Frame::new(parameters, environment);
        let is_of_many = !matches!(&self.source, Values::Rows(rows) if rows.len() < 2);
        let updates = self.conflict.as_ref().is_some_and(|conflict| conflict.update.is_some());
        let mut touched = (is_of_many && updates).then(|| Touched::new(environment));
        let mut told = (outcome, touched.as_mut());
        match &self.source {
            Values::Rows(rows) => {
                for row in rows {
                    if let Some(plain) = &self.plain {
                        plain.insert(&self.table, row, scope, (parameters, environment), &self.returning, told.0)?;
                        continue;
                    }
                    environment.next_row();
                    // Storage for computed values while the row is made.
                    let mut others: OfRow<Evaluated<'_>> = OfRow::new();
                    for value in row.iter().filter(|value| !matches!(value, Expr::Parameter(_))) {
                        others.push(value.evaluate(&frame)?);
                    }
                    let mut others = others.iter();
                    let refs = self.stored(row.iter().map(|value| match value {
                        Expr::Parameter(position) => parameters.get(*position).map(Value::as_ref).unwrap_or_default(),
                        _ => others.next().map(Evaluated::get).unwrap_or_default(),
                    }))?;
                    environment.keeping_texts(|| self.insert(scope, &refs, parameters, environment, &mut told))?;
                }
            }
            Values::Query(select, columns) => {
                let mut selected = Outcome { rows: Rows::new(select.visible), affected: 0 };
                select.run(scope, environment, parameters, &mut selected)?;
                let selected = selected.rows;
                for row in 0..selected.len() {
                    environment.next_row();
                    let mut values = Vec::with_capacity(columns.len());
                    for column in columns {
                        values.push(match column {
                            Ok(position) => Evaluated::Ref(selected.value(row, *position)),
                            Err(default) => default.evaluate(&frame)?,
                        });
                    }
                    let refs = self.stored(values.iter().map(Evaluated::get))?;
                    environment.keeping_texts(|| self.insert(scope, &refs, parameters, environment, &mut told))?;
                }
            }
        }
        Ok(())
    }

    /// Runs it once for each set of parameters, in order. Returns false, and does nothing, if the statement does not
    /// support batches.
    pub fn run_each<V: Parameter, P: AsRef<[V]>>(
        &self,
        scope: &mut Scope<'_>,
        environment: &Environment,
        sets: &[P],
        batch: &mut Batch,
    ) -> Result<bool> {
        let Some((plain, row)) = self.of_parameters() else { return Ok(false) };
        plain.insert_each(&self.table, row, scope, (sets, environment), &self.returning, batch)?;
        Ok(true)
    }

    /// The inserted row, if it is a single row of parameters and constants that needs no further checks.
    fn of_parameters(&self) -> Option<(&Plain, &[Expr])> {
        let (Some(plain), Values::Rows(rows)) = (&self.plain, &self.source) else { return None };
        match rows.as_slice() {
            [row] if plain.is_of_parameters() => Some((plain, row)),
            _ => None,
        }
    }

    fn stored<'v>(&self, values: impl Iterator<Item = ValueRef<'v>>) -> Result<OfRow<ValueRef<'v>>> {
        let mut stored = OfRow::new();
        for (column, value) in self.table.columns.iter().zip(values) {
            stored.push(store(&self.table, column, value)?);
        }
        Ok(stored)
    }

    fn insert(
        &self,
        scope: &mut Scope<'_>,
        values: &[ValueRef<'_>],
        parameters: &[Value],
        environment: &Environment,
        told: &mut Told<'_, '_>,
    ) -> Result<()> {
        environment.spend(1)?;
        check_row(&self.checks, &self.table, Source::New(values), environment)?;
        match self.table.partition_by.and_then(|by| values.get(by)) {
            Some(value) => {
                let (partition, transaction) = scope.one(PartitionHash::of(*value))?;
                self.insert_into((partition, transaction), values, parameters, environment, (Some(told.0), &mut told.1))
            }
            None => {
                // Inserts into every copy; only the first reports to `outcome`.
                let mark = environment.mark();
                let (outcome, touched) = told;
                let mut tell = Some(&mut **outcome);
                for place in scope.all()? {
                    environment.rewind(mark);
                    self.insert_into(place, values, parameters, environment, (tell.take(), touched))?;
                }
                Ok(())
            }
        }
    }

    fn insert_into(
        &self,
        (partition, transaction): (&mut Partition, &mut Transaction),
        values: &[ValueRef<'_>],
        parameters: &[Value],
        environment: &Environment,
        (outcome, touched): (Option<&mut Outcome>, &mut Option<&mut Touched<'_>>),
    ) -> Result<()> {
        let id = match &self.conflict {
            None => Some(partition.insert(self.table.id, values, transaction)?),
            Some(conflict) => match conflict.find(&self.table, partition, values)? {
                None => Some(partition.insert(self.table.id, values, transaction)?),
                Some(there) => {
                    let row = (there, values, touched.as_deref());
                    conflict.update(&self.table, partition, transaction, row, parameters, environment)?
                }
            },
        };
        if let (Some(id), Some(touched)) = (id, touched) {
            touched.note(partition.id(), id)?;
        }
        if let (Some(id), Some(outcome)) = (id, outcome) {
            outcome.affected += 1;
            if !self.returning.outputs.is_empty() {
                let row = Source::Row(partition.table(self.table.id)?.row(id)?);
                self.returning.push(&mut outcome.rows, row, parameters, environment)?;
            }
        }
        Ok(())
    }
}

/// Progress of an INSERT: its outcome, and the rows that it must not change again.
type Told<'t, 'e> = (&'t mut Outcome, Option<&'t mut Touched<'e>>);

impl Conflict {
    /// Finds an existing row that has a key of the new row.
    fn find(&self, table: &TableDefinition, partition: &Partition, values: &[ValueRef<'_>]) -> Result<Option<TupleId>> {
        let table = partition.table(table.id)?;
        let mut key = Vec::with_capacity(32);
        'indexes: for index in &self.indexes {
            key.clear();
            for (position, column) in &index.columns {
                let value = values.get(*position).copied().unwrap_or_default();
                if value.is_null() {
                    continue 'indexes;
                }
                encode(&mut key, *column, value)?;
            }
            if let Some(id) = table.find_to_insert(index.id, &key)? {
                return Ok(Some(id));
            }
        }
        Ok(None)
    }

    /// Updates the existing row; returns `None` if it is left unchanged.
    fn update(
        &self,
        table: &TableDefinition,
        partition: &mut Partition,
        transaction: &mut Transaction,
        (there, values, touched): (TupleId, &[ValueRef<'_>], Option<&Touched<'_>>),
        parameters: &[Value],
        environment: &Environment,
    ) -> Result<Option<TupleId>> {
        let Some(update) = &self.update else { return Ok(None) };
        if let Some(touched) = touched {
            touched.check(partition.id(), there)?;
        }
        let mut computed: Vec<Value> = Vec::with_capacity(update.assignments.len());
        {
            let mut frame = Frame::new(parameters, environment);
            frame.set(0, Source::Row(partition.table(table.id)?.row(there)?));
            frame.set(1, Source::New(values));
            if let Some(condition) = &update.condition
                && !condition.holds(&frame)?
            {
                return Ok(None);
            }
            for assignment in &update.assignments {
                computed.push(assignment.value.evaluate(&frame)?.into_value(environment)?);
            }
        }
        let mut changes = Vec::with_capacity(computed.len());
        for (assignment, value) in update.assignments.iter().zip(&computed) {
            if let Some(column) = table.columns.get(assignment.column) {
                changes.push((assignment.column, store(table, column, value.as_ref())?));
            }
        }
        let row = partition.table(table.id)?.row(there)?;
        check_row(&update.checks, table, Source::Changed(row, &changes), environment)?;
        partition.update(table.id, there, &changes, transaction)?;
        Ok(Some(there))
    }
}

heap_size! {
    Insert: source checks conflict returning plain;
    Conflict: indexes update;
    ConflictUpdate: assignments condition checks;
}

impl HeapSize for Values {
    fn heap_bytes(&self) -> usize {
        match self {
            Self::Rows(rows) => rows.heap_bytes(),
            Self::Query(select, columns) => {
                let columns = columns
                    .iter()
                    .map(|column| size_of_val(column) + column.as_ref().map_or_else(HeapSize::heap_bytes, |_| 0));
                select.heap_bytes() + columns.sum::<usize>()
            }
        }
    }
}

impl HeapSize for UniqueIndex {
    fn heap_bytes(&self) -> usize {
        self.columns.capacity() * size_of::<(usize, KeyColumn)>()
    }
}

/// Positions of the target columns, in the order of the statement.
fn targets(table: &TableDefinition, insert: &ast::Insert) -> Result<Vec<usize>> {
    if insert.columns.is_empty() {
        return Ok(table.listed_columns().map(|(position, _)| position).collect());
    }
    let mut targets = Vec::with_capacity(insert.columns.len());
    for name in &insert.columns {
        let column = table.column(&object(name)?)?;
        if targets.contains(&column) {
            return Err(Class::DuplicateColumn.error(format_args!("column {name} specified more than once")));
        }
        targets.push(column);
    }
    Ok(targets)
}

/// Checks the number of expressions: one for each column, fewer only if no columns are named.
fn check_count(given: usize, targets: &[usize], named: bool) -> Result<()> {
    if given > targets.len() {
        return Err(Class::Syntax.error("INSERT has more expressions than target columns"));
    }
    if named && given < targets.len() {
        return Err(Class::Syntax.error("INSERT has more target columns than expressions"));
    }
    Ok(())
}

/// Binds the source; `named` says whether the statement names its columns.
fn bind_source(
    binder: &mut Binder<'_>,
    table: &TableDefinition,
    (targets, named): (&[usize], bool),
    query: &Query,
) -> Result<Values> {
    if let SetExpr::Values(values) = &*query.body {
        if query.order_by.is_some() || query.limit_clause.is_some() || query.with.is_some() {
            return Err(Error::unsupported("VALUES with ORDER BY or LIMIT"));
        }
        let rows: Result<Vec<_>> =
            values.rows.iter().map(|row| bind_row(binder, table, (targets, named), &row.content)).collect();
        return rows.map(Values::Rows);
    }
    let typed = with_typed_literals(query, table, targets)?;
    let mut inner = Binder::inside(binder);
    let (select, columns) = bind_select(&mut inner, typed.as_ref().unwrap_or(query))?;
    binder.take_parameters(inner);
    check_count(columns.len(), targets, named)?;
    let mut places = Vec::with_capacity(table.columns.len());
    for (position, column) in table.columns.iter().enumerate() {
        let given = targets.iter().take(columns.len()).position(|target| *target == position);
        places.push(match given {
            Some(given) => {
                let from = columns.get(given).map_or(column.data_type, |column| column.data_type);
                let to = column.data_type;
                if !from.assigns_to(to) && to.is_text() {
                    return Err(Error::unsupported(format_args!("INSERT of a query's {from} as {to}")));
                }
                if !from.assigns_to(to) {
                    return Err(Class::TypeMismatch.error(format_args!(
                        "column \"{}\" is of type {to} but expression is of type {from}",
                        column.name
                    )));
                }
                Ok(given)
            }
            None => Err(bind_default(binder.schema(), column)?),
        });
    }
    Ok(Values::Query(Box::new(select), places))
}

/// The query with casts to the column types around plain literals, NULLs and parameters in its select list; `None` if
/// there are none.
fn with_typed_literals(query: &Query, table: &TableDefinition, targets: &[usize]) -> Result<Option<Query>> {
    let mut typed = None;
    let SetExpr::Select(select) = &*query.body else { return Ok(None) };
    if select.distinct.is_some() {
        return Ok(None);
    }
    for (at, (item, target)) in select.projection.iter().zip(targets).enumerate() {
        let (SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) = item else {
            // The targets of the items behind a wildcard are not known here.
            break;
        };
        let to = table.columns.get(*target).map_or(DataType::Text, |column| column.data_type);
        let is_untyped = matches!(expr, ast::Expr::Value(value) if matches!(
            value.value,
            ast::Value::SingleQuotedString(_)
                | ast::Value::EscapedStringLiteral(_)
                | ast::Value::DollarQuotedString(_)
                | ast::Value::Null
                | ast::Value::Placeholder(_)
        ));
        if !is_untyped || to.is_text() {
            continue;
        }
        let mut cast = parse_expression(&format!("CAST(NULL AS {to})"))?;
        if let ast::Expr::Cast { expr: of, .. } = &mut cast {
            **of = expr.clone();
        }
        if let SetExpr::Select(select) = &mut *typed.get_or_insert_with(|| query.clone()).body
            && let Some(item) = select.projection.get_mut(at)
        {
            *item = SelectItem::UnnamedExpr(cast);
        }
    }
    Ok(typed)
}

/// Binds a row of VALUES to the values of all columns.
fn bind_row(
    binder: &mut Binder<'_>,
    table: &TableDefinition,
    (targets, named): (&[usize], bool),
    written: &[ast::Expr],
) -> Result<Vec<Expr>> {
    check_count(written.len(), targets, named)?;
    binder.add_expressions(table.columns.len())?;
    let mut row = Vec::with_capacity(table.columns.len());
    for (position, column) in table.columns.iter().enumerate() {
        let given = targets.iter().position(|target| *target == position).and_then(|given| written.get(given));
        row.push(match given {
            Some(value) => bind_value(binder, value, column)?,
            None => bind_default(binder.schema(), column)?,
        });
    }
    Ok(row)
}

fn bind_conflict(binder: &mut Binder<'_>, table: &Arc<TableDefinition>, written: &ast::OnConflict) -> Result<Conflict> {
    let indexes = match &written.conflict_target {
        None => table.indexes.iter().filter(|index| index.unique).map(|index| unique_index(table, index)).collect(),
        Some(ConflictTarget::Columns(names)) => {
            let mut columns = Vec::with_capacity(names.len());
            for name in names {
                columns.push(table.column(&fold(name)?)?);
            }
            let same = |index: &&IndexDefinition| {
                index.unique
                    && index.columns.len() == columns.len()
                    && index.columns.iter().all(|key| columns.contains(&key.column))
            };
            let index = table.indexes.iter().find(same).ok_or_else(|| {
                Class::InvalidColumnReference.error("there is no unique index matching the ON CONFLICT specification")
            })?;
            vec![unique_index(table, index)]
        }
        Some(ConflictTarget::OnConstraint(name)) => {
            let name = object(name)?;
            let index = table.indexes.iter().find(|index| index.unique && index.name == name).ok_or_else(|| {
                let message = format!("constraint \"{name}\" for table \"{}\" does not exist", table.name);
                Class::UndefinedObject.error(message)
            })?;
            vec![unique_index(table, index)]
        }
    };
    let update = match &written.action {
        OnConflictAction::DoNothing => None,
        OnConflictAction::DoUpdate(_) if written.conflict_target.is_none() => {
            return Err(
                Class::Syntax.error("ON CONFLICT DO UPDATE requires inference specification or constraint name")
            );
        }
        OnConflictAction::DoUpdate(update) => {
            binder.add_table(EXCLUDED.into(), Arc::clone(table))?;
            let assignments = bind_assignments(binder, table, &update.assignments)?;
            let condition =
                update.selection.as_ref().map(|condition| binder.condition(condition, "WHERE")).transpose()?;
            binder.remove_table();
            let checks = bind_checks(binder.schema(), table, Some(&assignments))?;
            Some(ConflictUpdate { assignments, condition, checks })
        }
    };
    Ok(Conflict { indexes, update })
}

fn unique_index(table: &TableDefinition, index: &IndexDefinition) -> UniqueIndex {
    let columns = index.columns.iter().map(|key| key.column).zip(table.key_columns(index)).collect();
    UniqueIndex { id: index.id, columns }
}

impl Insert {
    /// Whether its query has a LIMIT without ORDER BY.
    pub fn limits_without_order(&self) -> bool {
        matches!(&self.source, Values::Query(select, _) if select.limits_without_order())
    }
}
