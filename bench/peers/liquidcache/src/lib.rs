//! Requests of `run.py`: a JSON object a line on standard input, and an answer a line on standard output.
//!
//! | request | answer |
//! |---|---|
//! | none: the first line | `{"engine": "NAME VERSION"}` |
//! | `{"sql": "..."}` | `{"seconds": s, "rows": [["1.50", null], ...]}`, values as text |
//! | `{"cached": true}` | `{"bytes": n}`, of a server |
//! | any | `{"error": "..."}` if it fails |

use std::error::Error;
use std::io::{BufRead, Write, stdin, stdout};
use std::time::Instant;

use datafusion::arrow::array::{Array, RecordBatch};
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::prelude::SessionContext;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

/// Any error, for a line of text.
pub type Failure = Box<dyn Error + Send + Sync>;

/// Answers requests until standard input ends.
///
/// # Errors
/// If standard input cannot be read or standard output not be written.
pub fn answer_requests(engine: &str, mut answer: impl FnMut(&Value) -> Result<Value, Failure>) -> Result<(), Failure> {
    let mut output = stdout().lock();
    let mut put = |line: &Value| writeln!(output, "{line}").and_then(|()| output.flush());
    put(&json!({ "engine": engine }))?;
    for line in stdin().lock().lines() {
        let request = serde_json::from_str(&line?)?;
        put(&answer(&request).unwrap_or_else(|error| json!({ "error": error.to_string() })))?;
    }
    Ok(())
}

/// Answers requests to run SQL in a context.
///
/// # Errors
/// As [`answer_requests`].
pub fn answer_queries(engine: &str, runtime: &Runtime, context: &SessionContext) -> Result<(), Failure> {
    answer_requests(engine, |request| {
        let sql = request.get("sql").and_then(Value::as_str).ok_or("a request without sql")?;
        let started = Instant::now();
        let batches = runtime.block_on(async { context.sql(sql).await?.collect().await })?;
        let seconds = started.elapsed().as_secs_f64();
        Ok(json!({ "seconds": seconds, "rows": texts(&batches)? }))
    })
}

/// Rows, values as text and NULL as `None`.
fn texts(batches: &[RecordBatch]) -> Result<Vec<Vec<Option<String>>>, Failure> {
    let options = FormatOptions::new();
    let mut rows = vec![];
    for batch in batches {
        let columns = batch.columns().iter();
        let columns = columns.map(|column| Ok((column, ArrayFormatter::try_new(column.as_ref(), &options)?)));
        let columns = columns.collect::<Result<Vec<_>, Failure>>()?;
        for row in 0..batch.num_rows() {
            let cells = columns.iter();
            rows.push(cells.map(|(array, text)| array.is_valid(row).then(|| text.value(row).to_string())).collect());
        }
    }
    Ok(rows)
}
