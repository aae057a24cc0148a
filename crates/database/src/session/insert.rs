//! INSERT of the rows of a query that the row engine does not run.

use arrow::array::RecordBatch;
use arrow::datatypes::Schema as ArrowSchema;
use datafusion::common::{DataFusionError, Result};
use datafusion::sql::sqlparser::ast::{
    CastKind, Expr, Insert, ObjectName, Query, SelectItem, SetExpr, Statement as Ast, TableObject, Value as Literal,
};
use thermocline_compute::value_bytes;
use thermocline_pushdown::user_err;
use thermocline_syntax::{Statement as Sql, folded};
use thermocline_transactions::database::{Load, RowSession, StatementResult};
use thermocline_transactions::schema::Schema;
use thermocline_transactions::types::{DataType, Value, cast};
use thermocline_types::{Class, Error, Result as RowResult};
use tokio::sync::mpsc::Receiver;

use super::prepared_statements::written_type;
use crate::arrow::{Source, becomes_text, check_assignment};
use crate::bridge::external;
use crate::statement::{Statement, derived, plain_query};

/// Limit on rows of a query that are inserted by one transaction that holds all partitions; for few rows this is faster
/// than the syncs of a load.
const FEW_ROWS: usize = 1024;
/// Limit on their bytes: all of them stay in memory until the transaction is over, and a load needs a batch at a time.
const FEW_BYTES: usize = 1 << 20;

/// `INSERT INTO row_table SELECT ...` of a query that the row engine does not run.
///
/// ```text
/// query --analytic engine--> few rows, in a transaction, --one transaction--> INSERT ... VALUES ($1, ...) for each
///             |              ON CONFLICT, or RETURNING
///             |
///             +------------> any other, as they come ----load----> hidden until all of them are there
/// ```
///
/// The query may read the target table: the rows of a transaction are collected in memory before it begins, and rows of
/// a [load](Load) are invisible until its end.
#[derive(Debug)]
pub struct Plan {
    /// Query.
    pub query: Statement,
    /// Target table.
    pub table: String,
    /// Target columns and their types.
    targets: Vec<(String, DataType)>,
    /// The original statement.
    whole: Statement,
    insert: Box<Insert>,
}

impl Plan {
    /// Analyzes an INSERT, also below EXPLAIN; `None` if the statement does not insert the rows of a query.
    pub fn of(statement: &Statement, schema: &Schema) -> Result<Option<Self>> {
        let ast = match statement.explained() {
            Some((Sql::Sql(explained, _), _)) => Some(explained.as_ref()),
            _ => statement.ast(),
        };
        let Some(Ast::Insert(insert)) = ast else { return Ok(None) };
        let (Some(source), TableObject::TableName(name)) = (&insert.source, &insert.table) else { return Ok(None) };
        if matches!(source.body.as_ref(), SetExpr::Values(_)) {
            return Ok(None);
        }
        let Some(table) = last_name(name).and_then(|name| schema.table(&name).ok()) else { return Ok(None) };
        let targets: Vec<(String, DataType)> = if insert.columns.is_empty() {
            table.listed_columns().map(|(_, column)| (column.name.to_string(), column.data_type)).collect()
        } else {
            let target = |written: &ObjectName| {
                let name = last_name(written).unwrap_or_default();
                let position = table.column(&name).map_err(external)?;
                let data_type = table.columns.get(position).map_or(DataType::Text, |column| column.data_type);
                Ok::<_, DataFusionError>((name, data_type))
            };
            insert.columns.iter().map(target).collect::<Result<_>>()?
        };
        let mut query = source.clone();
        type_literals(&mut query, &targets)?;
        let (query, table) = (statement.part(Ast::Query(query))?, table.name.to_string());
        Ok(Some(Self { query, table, targets, whole: statement.clone(), insert: Box::new(insert.clone()) }))
    }

    /// The query with casts of columns that become text; `None` if there are none.
    ///
    /// # Errors
    /// As [`Plan::check`].
    pub fn query_of_texts(&self, query: &ArrowSchema) -> Result<Option<Statement>> {
        self.check(query)?;
        let targets = self.targets.iter().map(|(_, data_type)| *data_type);
        of_texts(&self.query, targets, query)
    }

    /// Checks that the query's columns fit the table's.
    pub fn check(&self, query: &ArrowSchema) -> Result<()> {
        let (given, wanted) = (query.fields().len(), self.targets.len());
        if given > wanted {
            return user_err!(
                Syntax,
                "INSERT INTO {}: the query has {given} columns, more than the {wanted} to fill",
                self.table
            );
        }
        self.targets
            .iter()
            .zip(query.fields())
            .try_for_each(|((name, data_type), field)| check_assignment(field, &self.table, name, *data_type))
    }

    /// The statement with parameters in place of the query, for one row.
    ///
    /// # Errors
    /// 0A000 if the log cannot keep it.
    pub fn with_parameters(&self, query: &ArrowSchema) -> Result<Statement> {
        let parameters: Vec<String> = (1..=query.fields().len()).map(|number| format!("${number}")).collect();
        let mut insert = self.insert.clone();
        insert.source = Some(plain_query(&format!("VALUES ({})", parameters.join(", ")))?);
        self.whole.part(Ast::Insert(*insert))
    }

    /// Whether its rows can be inserted by a load, which supports neither ON CONFLICT nor RETURNING.
    pub fn is_load(&self) -> bool {
        self.insert.on.is_none() && self.insert.returning.is_none()
    }

    /// Begins a load of the query's columns. Prepares `insert`, the statement with parameters, to check that the row
    /// engine supports it.
    pub fn load(&self, session: &mut RowSession, insert: &Statement, query: &ArrowSchema) -> RowResult<Load> {
        session.prepare(insert.source())?;
        let columns: Vec<&str> = self.targets.iter().take(query.fields().len()).map(|(name, _)| &**name).collect();
        session.load(&self.table, &columns)
    }

    /// Inserts all rows or none, each by the statement with parameters. The caller runs this as one statement, so that
    /// all rows share one deadline.
    pub fn run(
        &self,
        session: &mut RowSession,
        insert: &Statement,
        rows: &[RecordBatch],
    ) -> RowResult<StatementResult> {
        let alone = !session.in_transaction();
        if alone {
            session.execute("BEGIN", &[])?;
        }
        let inserted = insert_all(session, insert, &self.targets, rows);
        match (&inserted, alone) {
            (_, false) => {}
            (Ok(_), true) => drop(session.execute("COMMIT", &[])?),
            (Err(_), true) => drop(session.execute("ROLLBACK", &[])?),
        }
        inserted
    }
}

/// Whether these rows are few enough for one transaction.
pub fn are_few(rows: &[RecordBatch]) -> bool {
    rows.iter().map(RecordBatch::num_rows).sum::<usize>() <= FEW_ROWS
        && rows.iter().flat_map(RecordBatch::columns).map(value_bytes).sum::<usize>() <= FEW_BYTES
}

/// Adds batches to a load as they arrive, up to `None`, finishes it, and returns the number of rows. A channel that
/// closes without `None` means that the query has failed or the statement was dropped; then the load leaves no rows.
pub fn load_all(mut load: Load, mut batches: Receiver<Option<RecordBatch>>) -> RowResult<u64> {
    while let Some(batch) = batches.blocking_recv() {
        let Some(batch) = batch else { return load.finish() };
        let source = Source::new(&batch).map_err(failed)?;
        let mut values = Vec::with_capacity(batch.num_columns());
        for row in 0..batch.num_rows() {
            source.read(row, &mut values).map_err(failed)?;
            load.push(&values)?;
        }
    }
    Err(Error::Cancelled("the query whose rows were to be inserted has ended before its last row".into()))
}

/// The query with casts of columns that become text in the target; `None` if there are none.
///
/// # Errors
/// If `query` is not a query, which is impossible.
pub fn of_texts(
    query: &Statement,
    targets: impl Iterator<Item = DataType>,
    columns: &ArrowSchema,
) -> Result<Option<Statement>> {
    let casts: Vec<bool> = columns.fields().iter().zip(targets).map(|(field, to)| becomes_text(field, to)).collect();
    if !casts.contains(&true) {
        return Ok(None);
    }
    let numbered = |(number, is_cast): (usize, &bool)| match is_cast {
        true => format!("CAST(c{number} AS TEXT)"),
        false => format!("c{number}"),
    };
    let items: Vec<String> = casts.iter().enumerate().map(numbered).collect();
    let names: Vec<String> = (0..casts.len()).map(|number| format!("c{number}")).collect();
    let outer = format!("SELECT {} FROM (SELECT 1) AS query ({})", items.join(", "), names.join(", "));
    let mut outer = plain_query(&outer)?;
    match (derived(&mut outer), query.ast()) {
        (Some(inner), Some(Ast::Query(query))) => inner.clone_from(query),
        _ => return user_err!(Syntax, "{} is not a query", query.text),
    }
    query.part(Ast::Query(outer)).map(Some)
}

/// Casts plain string literals in the select list to the types of their target columns, unless those are texts. Leaves
/// set operations, SELECT DISTINCT, and the items from the first wildcard on as they are.
fn type_literals(query: &mut Query, targets: &[(String, DataType)]) -> Result<()> {
    let SetExpr::Select(select) = query.body.as_mut() else { return Ok(()) };
    if select.distinct.is_some() {
        return Ok(());
    }
    for (item, (_, data_type)) in select.projection.iter_mut().zip(targets) {
        let expr = match item {
            SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => expr,
            // The targets of the items behind a wildcard are not known here.
            _ => break,
        };
        cast_literal(expr, *data_type)?;
    }
    Ok(())
}

/// Casts a plain string literal to the type of the column that it is for, unless that is a text.
pub(super) fn cast_literal(expr: &mut Expr, data_type: DataType) -> Result<()> {
    let mut plain = &*expr;
    // As EXECUTE puts it in the place of a parameter.
    while let Expr::Nested(inner) = plain {
        plain = inner;
    }
    let is_text = matches!(plain, Expr::Value(value) if matches!(
        value.value,
        Literal::SingleQuotedString(_) | Literal::EscapedStringLiteral(_) | Literal::DollarQuotedString(_)
    ));
    if is_text && !data_type.is_text() {
        *expr = cast_to(expr, data_type)?;
    }
    Ok(())
}

/// An expression in the type of a column.
pub(super) fn cast_to(expr: &Expr, data_type: DataType) -> Result<Expr> {
    let (expr, data_type) = (Box::new(expr.clone()), written_type(data_type)?);
    Ok(Expr::Cast { kind: CastKind::Cast, expr, data_type, array: false, format: None })
}

pub(super) fn failed(error: DataFusionError) -> Error {
    Class::OutOfRange.error(error.strip_backtrace())
}

/// A value of a query as a parameter of a statement that assigns it to a column: a float would be converted exactly as a
/// parameter; as a value of a query it is rounded.
pub(super) fn assignable(value: Value, target: DataType) -> RowResult<Value> {
    if matches!(value, Value::Float(_) | Value::Real(_)) && target.is_integer() {
        return cast(value.as_ref(), target);
    }
    Ok(value)
}

fn insert_all(
    session: &mut RowSession,
    insert: &Statement,
    targets: &[(String, DataType)],
    rows: &[RecordBatch],
) -> RowResult<StatementResult> {
    let mut all = StatementResult::default();
    for batch in rows {
        let source = Source::new(batch).map_err(failed)?;
        for row in 0..batch.num_rows() {
            let mut values = source.row(row).map_err(failed)?;
            for (value, (_, target)) in values.iter_mut().zip(targets) {
                *value = assignable(std::mem::take(value), *target)?;
            }
            let result = session.execute_source(insert.source(), &values)?;
            all.affected += result.affected;
            if !result.columns.is_empty() {
                append(&mut all, &result)?;
            }
        }
    }
    Ok(all)
}

/// Appends the rows of RETURNING.
pub(super) fn append(all: &mut StatementResult, result: &StatementResult) -> RowResult<()> {
    if all.columns.is_empty() {
        all.columns = result.columns.clone();
        all.rows = thermocline_transactions::sql::Rows::new(result.columns.len());
    }
    (0..result.rows.len()).try_for_each(|row| all.rows.push_row(&result.rows, row))
}

pub(super) fn last_name(name: &ObjectName) -> Option<String> {
    name.0.last()?.as_ident().map(folded)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Array, ArrayRef, StringArray, StringViewArray};

    use super::*;

    #[test]
    fn few_rows_are_few_bytes_as_well() {
        let texts = vec!["x".repeat(2000); 2000];
        let batch = |column: ArrayRef| RecordBatch::try_from_iter([("v", column)]).unwrap();
        for column in [Arc::new(StringArray::from(texts.clone())) as ArrayRef, Arc::new(StringViewArray::from(texts))] {
            let of = |rows| [batch(column.slice(700, rows))];
            // Whatever else their buffers hold.
            assert!(are_few(&of(500)) && !are_few(&of(600)), "{:?}", column.data_type());
        }
        let numbers = |rows| [batch(Arc::new(arrow::array::Int64Array::from(vec![1; rows])))];
        assert!(are_few(&numbers(FEW_ROWS)) && !are_few(&numbers(FEW_ROWS + 1)));
    }
}
