//! One semantics: every expression means the same in the row engine, by index and by scan, in the analytic engine over
//! row tables and over objects, and in PostgreSQL, which the test starts.
//!
//! Every pair of types with every operator, every cast, every function of every type, over values at the edges of the
//! types; then random queries; columns beside constants and parameters as filters. `docs/sql.md` lists deliberate
//! differences.
//!
//! `THERMOCLINE_SEMANTICS_ONLY` chooses the expressions that contain a text. Known disagreements are in `open.txt`,
//! which `THERMOCLINE_SEMANTICS_WRITE` rewrites: the list may only get shorter.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

mod columns;
mod deviations;
mod documents;
mod engines;
mod expressions;
mod filters;
mod mistakes;
mod postgres;
mod queries;
mod report;
mod values;
mod writes;

use std::collections::BTreeSet;

use engines::Engines;
use expressions::Expression;
use postgres::Postgres;
use report::{Difference, Report};

/// Number of tasks that share the expressions, each with engines of its own.
const PARTS: usize = 2;

/// Outcome of an expression in one row: a value in canonical text, or an error with its SQLSTATE.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// Its text; `None` for NULL.
    Value(Option<String>),
    /// The SQLSTATE.
    Error(String),
}

#[tokio::test(flavor = "multi_thread")]
async fn expressions_mean_what_they_mean_to_postgresql() {
    let only = std::env::var("THERMOCLINE_SEMANTICS_ONLY").ok();
    let mut seen = BTreeSet::new();
    let mut parts: [Vec<Expression>; PARTS] = Default::default();
    for expression in expressions::all() {
        let is_chosen = only.as_ref().is_none_or(|only| expression.sql.contains(only.as_str()));
        if is_chosen && seen.insert(expression.sql.clone()) {
            parts[seen.len() % PARTS].push(expression);
        }
    }
    let parts = parts.map(|expressions| {
        tokio::spawn(async move {
            let (mut postgres, engines) = start().await;
            let mut report = Report::default();
            for expression in expressions {
                compare(&mut postgres, &engines, &expression, &mut report).await;
            }
            report
        })
    });
    let mut report = Report::default();
    for part in parts {
        report.merge(part.await.unwrap());
    }
    report.print();
    if only.is_none() {
        report.check();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn random_queries_have_the_rows_that_they_have_to_postgresql() {
    let (mut postgres, engines) = start().await;
    queries::compare_queries(&mut postgres, &engines).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn filters_let_through_what_they_let_through_to_postgresql() {
    let (mut postgres, engines) = start().await;
    filters::compare_filters(&mut postgres, &engines).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn random_documents_are_what_they_are_to_postgresql() {
    let (mut postgres, engines) = start().await;
    documents::compare_documents(&mut postgres, &engines).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn columns_are_those_that_postgresql_has() {
    let (mut postgres, engines) = start().await;
    columns::compare_columns(&mut postgres, &engines).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn mistakes_have_the_sqlstate_that_they_have_to_postgresql() {
    let (mut postgres, engines) = start().await;
    mistakes::compare_mistakes(&mut postgres, &engines).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_leave_what_they_leave_to_postgresql() {
    let (mut postgres, engines) = start().await;
    writes::compare_writes(&mut postgres, &engines).await;
}

/// PostgreSQL and the engines here, with the table's rows.
async fn start() -> (Postgres, Engines) {
    let mut postgres = Postgres::start();
    postgres.run(&values::create_table("p"));
    for insert in values::inserts() {
        postgres.run(&insert);
    }
    (postgres, Engines::start().await)
}

/// Compares one expression everywhere.
async fn compare(postgres: &mut Postgres, engines: &Engines, expression: &Expression, report: &mut Report) {
    report.expressions += 1;
    let expected_type = postgres.type_of(&expression.sql);
    let expected = match &expected_type {
        Ok(_) => postgres.values(&expression.sql, &expression.rows),
        Err(_) => vec![],
    };
    for way in engines::Way::ALL {
        let found_type = engines.type_of(way, &expression.sql).await;
        match (&expected_type, &found_type) {
            (Err(_), Err(_)) => continue,
            (Err(sqlstate), Ok(found)) => {
                let difference = Difference::Accepted { sqlstate: sqlstate.clone(), found: found.clone() };
                report.add(expression, way, &difference);
                continue;
            }
            (Ok(expected), Err(error)) => {
                let difference = Difference::Refused { expected: expected.clone(), error: error.clone() };
                report.add(expression, way, &difference);
                continue;
            }
            (Ok(expected), Ok(found)) if !postgres::is_same_type(expected, found) => {
                let difference = Difference::Type { expected: expected.clone(), found: found.clone() };
                report.add(expression, way, &difference);
            }
            _ => {}
        }
        engines.compare_values(way, expression, &expected, report).await;
    }
}
