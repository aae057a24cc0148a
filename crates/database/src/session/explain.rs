//! EXPLAIN of statements that the row engine may run, with measurements for ANALYZE.

use std::sync::Arc;
use std::time::Instant;

use arrow::array::{ArrayRef, RecordBatch, StringArray};
use arrow::compute::concat_batches;
use datafusion::common::Result;
use datafusion::common::format::ExplainStatementOptions;
use datafusion::sql::sqlparser::ast::Statement as Ast;
use thermocline_compute::EngineStream;
use thermocline_pushdown::user_err;
use thermocline_syntax::Statement as Sql;
use thermocline_transactions::database::{RowSession, StatementResult};
use thermocline_transactions::interrupt::Interrupt;
use thermocline_transactions::types::ValueRef;

use super::insert;
use super::session::{Session, is_beyond_rows, is_not_here, is_undefined_table};
use super::write_query;
use crate::bridge::external;
use crate::statement::Statement;

/// `EXPLAIN` of statements that the row engine may run:
///
/// ```text
/// query          the row engine's plan, or the analytic engine's if it runs the query
/// INSERT         the row engine's plan; for rows of external tables, the query's plan below a line about the INSERT
/// UPDATE, DELETE the row engine's plan; where a query finds the rows, and for MERGE, its plan below a line about that
/// ```
///
/// With `ANALYZE`, the statement runs as it would without EXPLAIN, and the measurements follow the plan.
impl Session {
    pub(super) async fn explain(&self, statement: Statement, interrupt: &Arc<Interrupt>) -> Result<EngineStream> {
        let Some((Sql::Sql(inner, _), options)) = statement.explained() else {
            return self.analytic(statement, interrupt).await;
        };
        let (inner, options) = (inner.as_ref(), options.clone());
        let is_query = matches!(inner, Ast::Query(_));
        if is_query && (options.verbose || options.format.is_some()) {
            // Only the analytic engine supports these options.
            return self.analytic(statement, interrupt).await;
        }
        if !matches!(inner, Ast::Query(_) | Ast::Insert(_) | Ast::Update(_) | Ast::Delete(_) | Ast::Merge(_)) {
            return user_err!(Syntax, "EXPLAIN is for queries, INSERT, UPDATE, DELETE and MERGE, not for {inner}");
        }
        if options.format.is_some() {
            return user_err!(Syntax, "EXPLAIN of INSERT, UPDATE, DELETE and MERGE has one format");
        }
        let asked = statement.clone();
        let prepared = self.rows.statement(interrupt, move |session| {
            session.prepare(asked.source())?;
            session.execute_source(asked.source(), &[])
        });
        match prepared.await {
            Ok(plan) if options.analyze => {
                let started = Instant::now();
                let explained = statement.part(inner.clone())?;
                let run = move |session: &mut RowSession| session.execute_source(explained.source(), &[]);
                match self.rows.statement(interrupt, run).await {
                    Ok(result) => self.streamed(&with_measured(plan, &result, started, interrupt)?),
                    // It exceeded the limit on rows while it ran.
                    Err(error) if is_query && is_beyond_rows(&error) => self.analytic(statement, interrupt).await,
                    Err(error) => Err(error),
                }
            }
            Ok(plan) => self.streamed(&plan),
            Err(error) if is_query && is_beyond_rows(&error) => self.analytic(statement, interrupt).await,
            Err(error) if is_not_here(&error) || is_undefined_table(&error) => {
                if let Some(write) = write_query::Plan::of(&statement, &self.row_schema())? {
                    if options.analyze {
                        return user_err!(
                            Unsupported,
                            "EXPLAIN ANALYZE of {} of rows that a query finds is not supported; of the query it is",
                            write.kind
                        );
                    }
                    let what = format!("row table {}, by key, in the transaction of the query", write.table);
                    return self.explain_query((&write.kind.to_lowercase(), what), &write.query, interrupt).await;
                }
                let Some(insert) = insert::Plan::of(&statement, &self.row_schema())? else { return Err(error) };
                if options.analyze {
                    return user_err!(
                        Unsupported,
                        "EXPLAIN ANALYZE of an INSERT of external tables' rows is not supported; of its query it is"
                    );
                }
                self.explain_insert(&insert, interrupt).await
            }
            Err(error) => Err(error),
        }
    }

    /// The plan of the query, below a line about the INSERT of its rows.
    async fn explain_insert(&self, insert: &insert::Plan, interrupt: &Interrupt) -> Result<EngineStream> {
        let way = match self.rows.in_transaction() {
            true => "in the open transaction, which holds the partitions of the rows",
            false => "in one transaction if they are few, otherwise in batches that are seen together at the end",
        };
        let what = format!("into row table {}, {way}", insert.table);
        self.explain_query(("insert", what), &insert.query, interrupt).await
    }

    /// The plan of a query, below a line about what is done with its rows.
    async fn explain_query(
        &self,
        (kind, what): (&str, String),
        query: &Statement,
        interrupt: &Interrupt,
    ) -> Result<EngineStream> {
        let explain = query.clone().under_explain(ExplainStatementOptions::default());
        let below = self.engine().collect(self.analytic(explain, interrupt).await?).await?;
        let first: Vec<ArrayRef> = [kind.to_owned(), what]
            .into_iter()
            .map(|text| Arc::new(StringArray::from(vec![text])) as ArrayRef)
            .collect();
        let first = RecordBatch::try_new(Arc::clone(&below.schema), first)?;
        let all = concat_batches(&below.schema, [first].iter().chain(&below.batches))?;
        Ok(self.engine().rows_of(below.schema, vec![all]))
    }
}

/// Appends the measurements of a run to the plan.
fn with_measured(
    mut plan: StatementResult,
    result: &StatementResult,
    started: Instant,
    interrupt: &Interrupt,
) -> Result<StatementResult> {
    let rows = if result.columns.is_empty() { "rows changed" } else { "rows" };
    let count = if result.columns.is_empty() { result.affected } else { result.rows.len() as u64 };
    let time = started.elapsed().as_secs_f64() * 1e3;
    let held = interrupt.held().as_secs_f64() * 1e3;
    for line in [
        format!("{rows}: {count}"),
        format!("time: {time:.3} ms, until it was durable"),
        format!("held: {held:.3} ms, in which its partitions ran nothing else"),
    ] {
        plan.rows.push(ValueRef::Text(&line)).map_err(external)?;
    }
    plan.affected = plan.rows.len() as u64;
    Ok(plan)
}
