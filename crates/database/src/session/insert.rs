use arrow::array::RecordBatch;
use arrow::datatypes::Schema as ArrowSchema;
use datafusion::common::{DataFusionError, Result, plan_err};
use datafusion::sql::parser::Statement as Parsed;
use datafusion::sql::sqlparser::ast::{Insert, ObjectName, SetExpr, Statement as Ast, TableObject};
use thermocline_transactions::database::{Answer, Session};
use thermocline_transactions::schema::Schema;
use thermocline_transactions::types::DataType;
use thermocline_transactions::{Class, Result as RowResult};

use super::statement::Statement;
use crate::arrow::{Source, check_assignment};
use crate::bridge::external;

/// `INSERT INTO row_table SELECT ...` of a query that the row engine does not run.
///
/// ```text
/// query --analytic engine--> rows, all in memory --one transaction--> INSERT ... VALUES ($1, ...) for each
/// ```
///
/// All rows are there before the transaction begins, because the query may read the table itself.
#[derive(Debug)]
pub struct Plan {
    /// The query.
    pub query: String,
    /// The row table.
    pub table: String,
    /// Where its columns go.
    targets: Vec<(String, DataType)>,
    insert: Box<Insert>,
}

impl Plan {
    /// Understands an INSERT; `None` if it has no query whose rows are to be inserted.
    pub fn of(insert: &Insert, schema: &Schema) -> Result<Option<Self>> {
        let (Some(source), TableObject::TableName(name)) = (&insert.source, &insert.table) else { return Ok(None) };
        if matches!(source.body.as_ref(), SetExpr::Values(_)) {
            return Ok(None);
        }
        let Some(table) = last_name(name).and_then(|name| schema.table(&name).ok()) else { return Ok(None) };
        let targets: Vec<(String, DataType)> = if insert.columns.is_empty() {
            table.columns.iter().map(|column| (column.name.to_string(), column.data_type)).collect()
        } else {
            let target = |written: &ObjectName| {
                let name = last_name(written).unwrap_or_default();
                let position = table.column(&name).map_err(external)?;
                let data_type = table.columns.get(position).map_or(DataType::Text, |column| column.data_type);
                Ok::<_, DataFusionError>((name, data_type))
            };
            insert.columns.iter().map(target).collect::<Result<_>>()?
        };
        let (query, table) = (source.to_string(), table.name.to_string());
        Ok(Some(Self { query, table, targets, insert: Box::new(insert.clone()) }))
    }

    /// An error unless the query's columns fit the table's.
    pub fn check(&self, query: &ArrowSchema) -> Result<()> {
        let (given, wanted) = (query.fields().len(), self.targets.len());
        if given > wanted {
            return plan_err!(
                "INSERT INTO {}: the query has {given} columns, more than the {wanted} to fill",
                self.table
            );
        }
        self.targets
            .iter()
            .zip(query.fields())
            .try_for_each(|((name, data_type), field)| check_assignment(field, &self.table, name, *data_type))
    }

    /// The statement with the values of a row of the query as parameters.
    ///
    /// # Errors
    /// If it does not parse.
    pub fn with_parameters(&self, query: &ArrowSchema) -> Result<String> {
        let parameters: Vec<String> = (1..=query.fields().len()).map(|number| format!("${number}")).collect();
        let values = Statement::analytic(&format!("VALUES ({})", parameters.join(", ")))?;
        let mut insert = self.insert.clone();
        if let Parsed::Statement(values) = values
            && let Ast::Query(values) = *values
        {
            insert.source = Some(values);
        }
        Ok(insert.to_string())
    }

    /// Inserts all rows or none, each by the statement with parameters. For one deadline for all of them it is to be
    /// run as one statement.
    pub fn run(&self, session: &mut Session, insert: &str, rows: &[RecordBatch]) -> RowResult<Answer> {
        let alone = !session.in_transaction();
        if alone {
            session.execute("BEGIN", &[])?;
        }
        let inserted = insert_all(session, insert, rows);
        match (&inserted, alone) {
            (_, false) => {}
            (Ok(_), true) => drop(session.execute("COMMIT", &[])?),
            (Err(_), true) => drop(session.execute("ROLLBACK", &[])?),
        }
        inserted
    }
}

fn insert_all(session: &mut Session, insert: &str, rows: &[RecordBatch]) -> RowResult<Answer> {
    let mut all = Answer::default();
    let failed = |error: DataFusionError| Class::OutOfRange.error(error.strip_backtrace());
    for batch in rows {
        let source = Source::new(batch).map_err(failed)?;
        for row in 0..batch.num_rows() {
            let answer = session.execute(insert, &source.row(row).map_err(failed)?)?;
            all.affected += answer.affected;
            if !answer.columns.is_empty() {
                append(&mut all, &answer)?;
            }
        }
    }
    Ok(all)
}

/// The rows of RETURNING.
fn append(all: &mut Answer, answer: &Answer) -> RowResult<()> {
    if all.columns.is_empty() {
        all.columns = answer.columns.clone();
        all.rows = thermocline_transactions::sql::Rows::new(answer.columns.len());
    }
    (0..answer.rows.len()).try_for_each(|row| all.rows.push_row(&answer.rows, row))
}

fn last_name(name: &ObjectName) -> Option<String> {
    let name = name.0.last()?.as_ident()?;
    Some(if name.quote_style.is_some() { name.value.clone() } else { name.value.to_lowercase() })
}
