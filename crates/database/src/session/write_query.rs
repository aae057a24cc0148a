//! UPDATE, DELETE and MERGE of rows that a query finds.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use arrow::array::{AsArray, BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;
use arrow::datatypes::{Int64Type, Schema as ArrowSchema, SchemaRef};
use datafusion::common::Result;
use datafusion::sql::sqlparser::ast::{
    Assignment, AssignmentTarget, Delete, Expr, FromTable, Ident, Merge, MergeAction, MergeClause, MergeClauseKind,
    MergeInsertExpr, MergeInsertKind, ObjectName, ObjectNamePart, SelectItem, SelectItemQualifiedWildcardKind, SetExpr,
    Statement as Ast, TableFactor, TableWithJoins, Update, UpdateTableFromKind, Value as Literal,
    WildcardAdditionalOptions, With, visit_expressions, visit_expressions_mut,
};
use thermocline_pushdown::user_err;
use thermocline_syntax::{Statement as Sql, folded, make_printable};
use thermocline_transactions::database::{RowSession, StatementResult};
use thermocline_transactions::schema::{ColumnDefinition, IndexId, Schema, TableDefinition};
use thermocline_transactions::types::{DataType, Value};
use thermocline_types::{Class, Error, Result as RowResult};

use super::insert::{append, assignable, cast_literal, cast_to, failed, last_name, of_texts};
use super::prepared_statements::varying;
use crate::arrow::{Source, check_assignment};
use crate::bridge::external;
use crate::rows::{ROW_KEY, with_row_key};
use crate::statement::{Headings, Statement, plain_query, plain_statement, simple};

/// An `UPDATE ... FROM`, a `DELETE ... USING`, either of them with subqueries, or a `MERGE`, of a row table.
///
/// ```text
/// key of each row to change, new values --analytic engine--> all of them --one statement for each--> row engine
///            query                                in memory      by key, with parameters
///      +----------------------------------- in one transaction ------------------------------------+
/// ```
///
/// The transaction holds the partitions that the query reads until it is over, so the rows are still what they were.
#[derive(Debug)]
pub struct Plan {
    /// The query: columns of the target's key; in a MERGE the number of the action, from 1, or 0 for none; values of the
    /// actions; what a DELETE returns.
    pub query: Statement,
    /// `UPDATE`, `DELETE` or `MERGE`.
    pub kind: &'static str,
    /// The table that is changed.
    pub table: String,
    /// Types of the columns of its key.
    keys: Vec<DataType>,
    actions: Vec<Action>,
    repeats: Repeats,
    /// First column of the query that is returned, and the names of all those.
    returned: Option<(usize, Headings)>,
}

/// A change of one row.
#[derive(Debug)]
struct Action {
    /// With parameters: the values, then the key unless it is an INSERT.
    statement: Statement,
    /// First column of the values in the query.
    values_from: usize,
    values: Vec<Assigned>,
    has_key: bool,
    /// Whether it has RETURNING.
    returns: bool,
}

/// A column that takes a value of the query.
#[derive(Debug)]
struct Assigned {
    column: String,
    data_type: DataType,
    /// The value as written.
    value: String,
}

/// Rows of the changed table that the query finds several times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Repeats {
    /// None.
    Never,
    /// The first time counts, as in PostgreSQL's UPDATE and DELETE.
    First,
    /// An error, as in the standard's MERGE.
    Refused,
}

impl Plan {
    /// Analyzes a statement, also below EXPLAIN or WITH; `None` if it is none of these, or not of a row table.
    ///
    /// # Errors
    /// If it has a clause that is not supported here, or names a column that does not exist.
    pub fn of(statement: &Statement, schema: &Schema) -> Result<Option<Self>> {
        let ast = match statement.explained() {
            Some((Sql::Sql(explained, _), _)) => Some(explained.as_ref()),
            _ => statement.ast(),
        };
        let Some(mut ast) = ast.cloned() else { return Ok(None) };
        make_printable(&mut ast);
        let (with, ast) = match ast {
            Ast::Query(query) => match *query.body {
                SetExpr::Update(inner) | SetExpr::Delete(inner) | SetExpr::Merge(inner) => (query.with, inner),
                _ => return Ok(None),
            },
            ast => (None, ast),
        };
        let maker = Maker { statement, schema, with };
        match ast {
            Ast::Update(update) => maker.update(&update),
            Ast::Delete(delete) => maker.delete(&delete),
            Ast::Merge(merge) => maker.merge(&merge),
            _ => Ok(None),
        }
    }

    /// The query with casts of columns that become text; `None` if there are none.
    ///
    /// # Errors
    /// If a value does not fit its column.
    pub fn query_of_texts(&self, query: &ArrowSchema) -> Result<Option<Statement>> {
        let mut types: Vec<DataType> = self.keys.clone();
        if self.has_numbers() {
            types.push(DataType::BigInt);
        }
        for action in &self.actions {
            for (number, value) in action.values.iter().enumerate() {
                if let Some(field) = query.fields().get(action.values_from + number) {
                    let named = field.as_ref().clone().with_name(&value.value);
                    check_assignment(&named, &self.table, &value.column, value.data_type)?;
                }
                types.push(value.data_type);
            }
        }
        match self.returned {
            // Its columns have names that users see, and none is assigned.
            Some(_) => Ok(None),
            None => of_texts(&self.query, types.into_iter(), query),
        }
    }

    /// The columns of the query that are returned; `None` if those of the changes are, or nothing is.
    ///
    /// # Errors
    /// If the query lacks them, which is impossible.
    pub fn returned(&self, query: &ArrowSchema) -> Result<Option<SchemaRef>> {
        let Some((from, headings)) = &self.returned else { return Ok(None) };
        let columns: Vec<usize> = (*from..query.fields().len()).collect();
        Ok(Some(headings.of_schema(&Arc::new(query.project(&columns)?))))
    }

    /// Whether a column has the number of the action.
    fn has_numbers(&self) -> bool {
        self.repeats == Repeats::Refused
    }

    /// Changes the rows that the query has found, in their order. Returns what RETURNING of an UPDATE gives; and for a
    /// DELETE, the rows of the query of which each was deleted.
    ///
    /// # Errors
    /// Of the changes, after which some have been made: the transaction must be undone.
    pub fn run(
        &self,
        session: &mut RowSession,
        rows: &[RecordBatch],
    ) -> RowResult<(StatementResult, Vec<RecordBatch>)> {
        let (mut all, mut returned) = (StatementResult::default(), Vec::new());
        let mut seen = BTreeSet::new();
        for batch in rows {
            let changed = self.run_batch(session, batch, &mut seen, &mut all)?;
            if let Some((from, _)) = &self.returned {
                let columns: Vec<usize> = (*from..batch.num_columns()).collect();
                let kept = filter_record_batch(batch, &changed).and_then(|batch| batch.project(&columns));
                returned.push(kept.map_err(Error::internal)?);
            }
        }
        if all.columns.is_empty()
            && let [action] = self.actions.as_slice()
            && action.returns
        {
            // Columns without rows: no row has a key of NULL.
            let nulls = vec![Value::Null; action.values.len() + self.keys.len()];
            all = session.execute_source(action.statement.source(), &nulls)?;
        }
        Ok((all, returned))
    }

    /// The columns of a batch that are keys and values, with the names that errors should have.
    fn named(&self, batch: &RecordBatch) -> RowResult<RecordBatch> {
        let end = self.returned.as_ref().map_or(batch.num_columns(), |(from, _)| *from);
        let first_value = self.keys.len() + usize::from(self.has_numbers());
        let values: Vec<&str> =
            self.actions.iter().flat_map(|action| &action.values).map(|value| value.value.as_str()).collect();
        let schema = batch.schema();
        let fields = schema.fields().iter().take(end).enumerate().map(|(at, field)| {
            let name = at.checked_sub(first_value).and_then(|at| values.get(at).copied()).unwrap_or("the key");
            field.as_ref().clone().with_name(name)
        });
        let columns = batch.columns().iter().take(end).cloned().collect();
        RecordBatch::try_new(Arc::new(ArrowSchema::new(fields.collect::<Vec<_>>())), columns).map_err(Error::internal)
    }

    /// Changes the rows of a batch; says which rows of the batch have changed one.
    fn run_batch(
        &self,
        session: &mut RowSession,
        batch: &RecordBatch,
        seen: &mut BTreeSet<Vec<Value>>,
        all: &mut StatementResult,
    ) -> RowResult<BooleanArray> {
        let keys = self.keys.len();
        let source = Source::new(&self.named(batch)?).map_err(failed)?;
        let numbers = match self.has_numbers() {
            true => batch.columns().get(keys).and_then(|column| column.as_primitive_opt::<Int64Type>()),
            false => None,
        };
        let mut changed = Vec::with_capacity(batch.num_rows());
        for row in 0..batch.num_rows() {
            let number = numbers.map_or(1, |numbers| numbers.value(row));
            let action = usize::try_from(number).ok().and_then(|number| self.actions.get(number.checked_sub(1)?));
            let Some(action) = action else {
                changed.push(false);
                continue;
            };
            let mut values = source.row(row).map_err(failed)?;
            let rest = values.split_off(keys.min(values.len()));
            let key = values;
            if action.has_key && self.repeats != Repeats::Never && !seen.insert(key.clone()) {
                if self.repeats == Repeats::Refused {
                    return Err(Class::Cardinality.error(format_args!(
                        "MERGE cannot change a row of \"{}\" twice: several rows of the source match one with the key ({})",
                        self.table,
                        key.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
                    )));
                }
                changed.push(false);
                continue;
            }
            let mut parameters = Vec::with_capacity(action.values.len() + keys);
            for (value, of) in rest.into_iter().skip(action.values_from - keys).zip(&action.values) {
                parameters.push(assignable(value, of.data_type)?);
            }
            if action.has_key {
                parameters.extend(key);
            }
            let result = session.execute_source(action.statement.source(), &parameters)?;
            all.affected += result.affected;
            changed.push(result.affected > 0);
            if !result.columns.is_empty() {
                append(all, &result)?;
            }
        }
        Ok(changed.into())
    }

    /// The statements that change rows, for the row engine to say what is wrong with them before the query runs.
    ///
    /// # Errors
    /// If the row engine cannot run them.
    pub fn prepare(&self, session: &mut RowSession) -> RowResult<()> {
        self.actions.iter().try_for_each(|action| session.prepare(action.statement.source()))
    }
}

/// Columns of the query.
#[derive(Default)]
struct Columns(Vec<String>);

impl Columns {
    /// Adds an expression under a name that no table has.
    fn add(&mut self, expr: &str) {
        let number = self.0.len();
        self.0.push(format!("{expr} AS \"?{number}?\""));
    }
}

/// The table that a statement changes.
struct Changed<'a> {
    table: &'a TableDefinition,
    /// Its name or alias, in front of columns.
    qualifier: Ident,
    /// Its name and alias in statements of the row engine.
    target: String,
    /// The same in queries: no query of WITH hides it.
    source: String,
    /// Columns of its key, qualified, with their types.
    keys: Vec<(String, DataType)>,
    /// The same in queries, where a row key has a name that no column has.
    keys_in_queries: Vec<String>,
}

impl<'a> Changed<'a> {
    /// `None` if it is no row table with a key.
    fn of(factor: &TableFactor, schema: &'a Schema) -> Result<Option<Self>> {
        let TableFactor::Table { name, alias, args: None, .. } = factor else { return Ok(None) };
        let Some(table) = simple(name).and_then(|name| schema.table(&name).ok()) else { return Ok(None) };
        let name = quoted(&table.name);
        let (qualifier, target) = match alias {
            Some(alias) if alias.columns.is_empty() => (alias.name.clone(), format!("{name} AS {}", alias.name)),
            Some(_) => return Ok(None),
            None => (name.clone(), name.to_string()),
        };
        let source = match table.has_row_key {
            true => format!("public.{} AS {qualifier}", quoted(&with_row_key(table))),
            false => format!("public.{name} AS {qualifier}"),
        };
        let Some(primary) = table.index(IndexId::PRIMARY) else { return Ok(None) };
        let mut keys = Vec::with_capacity(primary.columns.len());
        for column in primary.columns.iter().filter_map(|held| table.columns.get(held.column)) {
            keys.push((format!("{qualifier}.{}", quoted(&column.name)), column.data_type));
        }
        let keys_in_queries = match table.has_row_key {
            true => vec![format!("{qualifier}.{}", quoted(ROW_KEY))],
            false => keys.iter().map(|(key, _)| key.clone()).collect(),
        };
        Ok(Some(Self { table, qualifier, target, source, keys, keys_in_queries }))
    }

    /// The query's columns for its key.
    fn columns(&self) -> Columns {
        let mut columns = Columns::default();
        self.keys_in_queries.iter().for_each(|key| columns.add(key));
        columns
    }

    /// An item of RETURNING in the query; a row key is in no wildcard.
    fn returned(&self, item: &SelectItem) -> Result<String> {
        let (SelectItem::Wildcard(options) | SelectItem::QualifiedWildcard(_, options)) = item else {
            return Ok(item.to_string());
        };
        if !self.table.has_row_key {
            return Ok(item.to_string());
        }
        if *options != WildcardAdditionalOptions::default() {
            return user_err!(Unsupported, "{item} in RETURNING of a table without a key: list the columns");
        }
        let is_ours = |of: &ObjectName| last_name(of).is_some_and(|name| name == folded(&self.qualifier));
        let of_others = match item {
            SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(of), _) => !is_ours(of),
            _ => false,
        };
        Ok(if of_others { item.to_string() } else { format!("{item} EXCLUDE ({})", quoted(ROW_KEY)) })
    }

    /// A condition that a row has the key of these parameters and those behind.
    fn by_key(&self, first: usize) -> String {
        let equal = self.keys.iter().zip(first..).map(|((key, _), number)| format!("{key} = ${number}"));
        equal.collect::<Vec<_>>().join(" AND ")
    }

    fn assigned(&self, name: &str, value: &Expr) -> Result<Assigned> {
        let position = self.table.column(name).map_err(external)?;
        let data_type = self.table.columns.get(position).map_or(DataType::Text, |column| column.data_type);
        Ok(Assigned { column: name.to_owned(), data_type, value: value.to_string() })
    }
}

/// Values of one action: those of the query, and the text of each, which is its parameter or DEFAULT.
#[derive(Default)]
struct Values {
    of_query: Vec<(Assigned, String)>,
    texts: Vec<(String, String)>,
}

impl Values {
    /// Adds the value of a column.
    fn add(&mut self, changed: &Changed<'_>, name: &ObjectName, value: &Expr) -> Result<()> {
        let column = last_name(name).unwrap_or_default();
        let assigned = changed.assigned(&column, value)?;
        let text = if is_default(value) {
            "DEFAULT".to_owned()
        } else {
            let mut typed = value.clone();
            match value {
                // A parameter has no other context.
                Expr::Value(written) if matches!(written.value, Literal::Placeholder(_)) => {
                    typed = cast_to(value, assigned.data_type.unbounded())?;
                }
                _ => cast_literal(&mut typed, assigned.data_type)?,
            }
            self.of_query.push((assigned, typed.to_string()));
            format!("${}", self.of_query.len())
        };
        self.texts.push((quoted(&column).to_string(), text));
        Ok(())
    }

    fn of_assignments(changed: &Changed<'_>, assignments: &[Assignment]) -> Result<Self> {
        let mut values = Self::default();
        for Assignment { target, value } in assignments {
            match target {
                AssignmentTarget::ColumnName(name) => values.add(changed, name, value)?,
                AssignmentTarget::Tuple(_) => {
                    return user_err!(Unsupported, "an assignment to several columns: assign each of them");
                }
            }
        }
        Ok(values)
    }

    /// `c = $1, d = DEFAULT`.
    fn set(&self) -> String {
        self.texts.iter().map(|(column, value)| format!("{column} = {value}")).collect::<Vec<_>>().join(", ")
    }
}

/// Maker of a plan.
struct Maker<'a> {
    statement: &'a Statement,
    schema: &'a Schema,
    with: Option<With>,
}

impl Maker<'_> {
    fn update(&self, update: &Update) -> Result<Option<Plan>> {
        let Update { table, assignments, from, selection, returning, output, or, order_by, limit, .. } = update;
        let is_plain = output.is_none() && or.is_none() && order_by.is_empty() && limit.is_none();
        if !table.joins.is_empty() || !is_plain {
            return Ok(None);
        }
        let Some(changed) = Changed::of(&table.relation, self.schema)? else { return Ok(None) };
        let others = match from {
            None => None,
            Some(UpdateTableFromKind::AfterSet(others)) => Some(others.as_slice()),
            Some(UpdateTableFromKind::BeforeSet(_)) => return Ok(None),
        };
        let values = Values::of_assignments(&changed, assignments)?;
        let set = values.set();
        let mut columns = changed.columns();
        let values_from = columns.0.len();
        values.of_query.iter().for_each(|(_, value)| columns.add(value));
        let by_key = changed.by_key(values.of_query.len() + 1);
        let change = format!("UPDATE {} SET {set} WHERE {by_key}{}", changed.target, list(" RETURNING ", returning));
        let action = self.action(&change, values, values_from, (true, returning.is_some()))?;
        let query = self.query(&columns, &changed, others, selection.as_ref());
        let repeats = if others.is_some() { Repeats::First } else { Repeats::Never };
        self.plan("UPDATE", &changed, query, vec![action], (repeats, None)).map(Some)
    }

    fn delete(&self, delete: &Delete) -> Result<Option<Plan>> {
        let Delete { tables, from, using, selection, returning, output, order_by, limit, .. } = delete;
        let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = from;
        let is_plain = tables.is_empty() && output.is_none() && order_by.is_empty() && limit.is_none();
        let ([table], true) = (from.as_slice(), is_plain) else { return Ok(None) };
        if !table.joins.is_empty() {
            return Ok(None);
        }
        let Some(changed) = Changed::of(&table.relation, self.schema)? else { return Ok(None) };
        let change = format!("DELETE FROM {} WHERE {}", changed.target, changed.by_key(1));
        let mut columns = changed.columns();
        let values_from = columns.0.len();
        // A deleted row is what the query has read.
        for item in returning.iter().flatten() {
            columns.0.push(changed.returned(item)?);
        }
        let action = self.action(&change, Values::default(), values_from, (true, false))?;
        let query = self.query(&columns, &changed, using.as_deref(), selection.as_ref());
        let repeats = if using.is_some() { Repeats::First } else { Repeats::Never };
        let returned = returning.as_ref().map(|items| (values_from, Headings::of_items(items)));
        self.plan("DELETE", &changed, query, vec![action], (repeats, returned)).map(Some)
    }

    fn merge(&self, merge: &Merge) -> Result<Option<Plan>> {
        let Merge { table, source, on, clauses, output, .. } = merge;
        if output.is_some() {
            return user_err!(Unsupported, "OUTPUT of a MERGE");
        }
        let Some(changed) = Changed::of(table, self.schema)? else { return Ok(None) };
        let Some(key) = changed.keys_in_queries.first() else { return Ok(None) };
        if clauses.is_empty() {
            return user_err!(Syntax, "MERGE needs a WHEN: WHEN MATCHED THEN ... or WHEN NOT MATCHED THEN ...");
        }
        // The action and each of its values would be of different draws.
        for predicate in clauses.iter().filter_map(|clause| clause.predicate.as_ref()) {
            if let Some(function) = varying(predicate) {
                return user_err!(Unsupported, "{function}() in a WHEN of a MERGE: compute it in the source");
            }
        }
        let mut clauses = clauses.clone();
        for clause in clauses.iter_mut().filter(|clause| clause.clause_kind != MergeClauseKind::Matched) {
            of_source(clause, source, &changed)?;
        }
        let mut number = "CASE".to_owned();
        for (at, MergeClause { clause_kind, predicate, .. }) in clauses.iter().enumerate() {
            let met = match clause_kind {
                MergeClauseKind::Matched => "IS NOT NULL",
                MergeClauseKind::NotMatched | MergeClauseKind::NotMatchedByTarget => "IS NULL",
                MergeClauseKind::NotMatchedBySource => {
                    return user_err!(
                        Unsupported,
                        "WHEN NOT MATCHED BY SOURCE: use a DELETE or an UPDATE for these rows"
                    );
                }
            };
            let further = predicate.as_ref().map(|predicate| format!(" AND ({predicate})")).unwrap_or_default();
            number += &format!(" WHEN {key} {met}{further} THEN {}", at + 1);
        }
        number += " ELSE 0 END";
        let mut columns = changed.columns();
        columns.add(&format!("CAST({number} AS BIGINT)"));
        let mut actions = Vec::with_capacity(clauses.len());
        for (at, clause) in clauses.iter().enumerate() {
            let values_from = columns.0.len();
            let is_matched = clause.clause_kind == MergeClauseKind::Matched;
            let (values, change) = match (&clause.action, is_matched) {
                (MergeAction::Update(update), true)
                    if update.update_predicate.is_none() && update.delete_predicate.is_none() =>
                {
                    let values = Values::of_assignments(&changed, &update.assignments)?;
                    let by_key = changed.by_key(values.of_query.len() + 1);
                    let change = format!("UPDATE {} SET {} WHERE {by_key}", changed.target, values.set());
                    (values, change)
                }
                (MergeAction::Delete { .. }, true) => {
                    (Values::default(), format!("DELETE FROM {} WHERE {}", changed.target, changed.by_key(1)))
                }
                (MergeAction::Insert(insert), false) if insert.insert_predicate.is_none() => {
                    inserted(&changed, insert)?
                }
                _ => return user_err!(Syntax, "{clause} is not possible in a MERGE"),
            };
            // No other row has a value that may fail.
            let value = |value: &str| format!("CASE ({number}) WHEN {} THEN {value} END", at + 1);
            values.of_query.iter().for_each(|(_, text)| columns.add(&value(text)));
            actions.push(self.action(&change, values, values_from, (is_matched, false))?);
        }
        let select = columns.0.join(", ");
        let query = format!("{}SELECT {select} FROM {source} LEFT JOIN {} ON {on}", self.with(), changed.source);
        self.plan("MERGE", &changed, query, actions, (Repeats::Refused, None)).map(Some)
    }

    fn with(&self) -> String {
        self.with.as_ref().map(|with| format!("{with} ")).unwrap_or_default()
    }

    /// The query over the changed table and others.
    fn query(
        &self,
        columns: &Columns,
        changed: &Changed<'_>,
        others: Option<&[TableWithJoins]>,
        condition: Option<&Expr>,
    ) -> String {
        let others: String = others.into_iter().flatten().map(|table| format!(", {table}")).collect();
        let condition = condition.map(|condition| format!(" WHERE {condition}")).unwrap_or_default();
        format!("{}SELECT {} FROM {}{others}{condition}", self.with(), columns.0.join(", "), changed.source)
    }

    fn action(
        &self,
        change: &str,
        values: Values,
        values_from: usize,
        (has_key, returns): (bool, bool),
    ) -> Result<Action> {
        let statement = self.statement.part(plain_statement(change)?)?;
        let values = values.of_query.into_iter().map(|(assigned, _)| assigned).collect();
        Ok(Action { statement, values_from, values, has_key, returns })
    }

    fn plan(
        &self,
        kind: &'static str,
        changed: &Changed<'_>,
        query: String,
        actions: Vec<Action>,
        (repeats, returned): (Repeats, Option<(usize, Headings)>),
    ) -> Result<Plan> {
        let query = self.statement.part(Ast::Query(plain_query(&query)?))?;
        let keys = changed.keys.iter().map(|(_, data_type)| *data_type).collect();
        Ok(Plan { query, kind, table: changed.table.name.to_string(), keys, actions, repeats, returned })
    }
}

/// Has the condition and the values of a WHEN NOT MATCHED, which see the source alone, name its columns in full.
///
/// # Errors
/// 42P01 if they name the changed table.
fn of_source(clause: &mut MergeClause, source: &TableFactor, changed: &Changed<'_>) -> Result<()> {
    let name = match source {
        TableFactor::Table { alias: Some(alias), .. }
        | TableFactor::Derived { alias: Some(alias), .. }
        | TableFactor::Function { alias: Some(alias), .. } => Some(alias.name.clone()),
        TableFactor::Table { name, alias: None, .. } => name.0.last().and_then(ObjectNamePart::as_ident).cloned(),
        _ => None,
    };
    let mut exprs: Vec<&mut Expr> = clause.predicate.iter_mut().collect();
    if let MergeAction::Insert(MergeInsertExpr { kind: MergeInsertKind::Values(values), .. }) = &mut clause.action {
        exprs.extend(values.rows.iter_mut().flat_map(|row| row.content.iter_mut()));
    }
    for expr in exprs.into_iter().filter(|expr| !is_default(expr)) {
        let has_query = visit_expressions(expr, |part| match part {
            Expr::Subquery(_) | Expr::Exists { .. } | Expr::InSubquery { .. } => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        });
        if has_query.is_break() {
            // Its own tables have columns, too.
            continue;
        }
        let named = visit_expressions_mut(expr, |part| {
            match part {
                Expr::Identifier(column) => {
                    if let Some(name) = &name {
                        *part = Expr::CompoundIdentifier(vec![name.clone(), column.clone()]);
                    }
                }
                Expr::CompoundIdentifier(names)
                    if names.first().is_some_and(|first| folded(first) == folded(&changed.qualifier)) =>
                {
                    return ControlFlow::Break(());
                }
                _ => {}
            }
            ControlFlow::Continue(())
        });
        if named.is_break() {
            return user_err!(
                UndefinedTable,
                "invalid reference to \"{}\": WHEN NOT MATCHED has no row of it",
                changed.table.name
            );
        }
    }
    Ok(())
}

/// The values of `INSERT (columns) VALUES (values)`, and the statement with parameters.
fn inserted(changed: &Changed<'_>, insert: &MergeInsertExpr) -> Result<(Values, String)> {
    let MergeInsertKind::Values(rows) = &insert.kind else {
        return user_err!(Unsupported, "INSERT ROW: list columns and values");
    };
    let [row] = rows.rows.as_slice() else {
        return user_err!(Syntax, "an INSERT of a MERGE has one row of VALUES");
    };
    let row = &row.content;
    let all: Vec<ObjectName>;
    let columns: &[ObjectName] = match insert.columns.as_slice() {
        [] => {
            let name = |column: &ColumnDefinition| ObjectName::from(vec![quoted(&column.name)]);
            all = changed.table.listed_columns().take(row.len()).map(|(_, column)| name(column)).collect();
            &all
        }
        columns => columns,
    };
    if columns.len() != row.len() {
        return user_err!(
            Syntax,
            "INSERT into {} of a MERGE has {} columns and {} values",
            changed.table.name,
            columns.len(),
            row.len()
        );
    }
    let mut values = Values::default();
    for (column, value) in columns.iter().zip(row) {
        values.add(changed, column, value)?;
    }
    let (names, texts): (Vec<&str>, Vec<&str>) =
        values.texts.iter().map(|(column, value)| (column.as_str(), value.as_str())).unzip();
    let table = quoted(&changed.table.name);
    let change = format!("INSERT INTO {table} ({}) VALUES ({})", names.join(", "), texts.join(", "));
    Ok((values, change))
}

/// A name as it is.
fn quoted(name: &str) -> Ident {
    Ident::with_quote('"', name)
}

fn is_default(value: &Expr) -> bool {
    matches!(value, Expr::Identifier(word) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case("default"))
}

/// Items with a keyword before them; nothing if there are none.
fn list(keyword: &str, items: &Option<Vec<SelectItem>>) -> String {
    let items: Vec<String> = items.iter().flatten().map(SelectItem::to_string).collect();
    if items.is_empty() { String::new() } else { format!("{keyword}{}", items.join(", ")) }
}
