//! Results of queries, which must be the same in every mode and engine.

use std::collections::HashMap;

use arrow::array::{Array, RecordBatch};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::common::{Result, exec_err};

use super::record::Record;

/// A row as text; `None` for NULL.
pub type Row = Vec<Option<String>>;

/// The first result of each query, which all later ones must equal.
#[derive(Debug, Default)]
pub struct Results {
    known: HashMap<String, Known>,
}

#[derive(Debug)]
struct Known {
    mode: String,
    hash: String,
    rows: Vec<Row>,
}

impl Results {
    /// Remembers or compares the result of a record.
    ///
    /// # Errors
    /// If its query had another one before; the error names both modes.
    pub fn check(&mut self, record: &Record, batches: &[RecordBatch]) -> Result<()> {
        let Record { query, sql, mode, result_hash, .. } = record;
        match self.known.get(sql) {
            Some(known) if known.hash != *result_hash => exec_err!(
                "query {query} has another result in {mode} ({result_hash}) than in {} ({})",
                known.mode,
                known.hash
            ),
            Some(_) => Ok(()),
            None => {
                let known = Known { mode: mode.clone(), hash: result_hash.clone(), rows: sorted(rows(batches)?) };
                self.known.insert(sql.clone(), known);
                Ok(())
            }
        }
    }

    /// Compares a result of an engine that has types of its own: averages of decimals, say, are floats
    /// there, and are compared to the last digit here. Returns the hash of the equal result. Without
    /// `rows`, only their number is compared.
    ///
    /// # Errors
    /// If the query (name and SQL) had another result before, or none.
    pub fn check_rows(
        &self,
        (query, sql): (&str, &str),
        mode: &str,
        count: u64,
        rows: Option<Vec<Row>>,
    ) -> Result<String> {
        let Some(known) = self.known.get(sql) else {
            return exec_err!("query {query} was run in {mode} and nowhere else");
        };
        if known.rows.len() as u64 != count {
            return exec_err!("query {query} has {count} rows in {mode} and {} in {}", known.rows.len(), known.mode);
        }
        for (theirs, ours) in rows.map(sorted).unwrap_or_default().iter().zip(&known.rows) {
            if ours.len() != theirs.len() || !ours.iter().zip(theirs).all(|(ours, theirs)| same(ours, theirs)) {
                return exec_err!("query {query} has the row {theirs:?} in {mode} and {ours:?} in {}", known.mode);
            }
        }
        Ok(known.hash.clone())
    }
}

fn rows(batches: &[RecordBatch]) -> Result<Vec<Row>> {
    let options = FormatOptions::new();
    let mut rows = vec![];
    for batch in batches {
        let columns = batch.columns().iter().map(|column| ArrayFormatter::try_new(column.as_ref(), &options));
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        for row in 0..batch.num_rows() {
            let cells = batch.columns().iter().zip(&columns);
            rows.push(cells.map(|(array, text)| array.is_valid(row).then(|| text.value(row).to_string())).collect());
        }
    }
    Ok(rows)
}

/// In an order in which numbers of different types and precisions are alike.
fn sorted(mut rows: Vec<Row>) -> Vec<Row> {
    let key = |cell: &Option<String>| match cell {
        None => (0, String::new()),
        Some(text) => match text.parse::<f64>() {
            Ok(number) => (1, format!("{number:+.6e}")),
            Err(_) => (2, text.clone()),
        },
    };
    rows.sort_by_cached_key(|row| row.iter().map(key).collect::<Vec<_>>());
    rows
}

fn same(ours: &Option<String>, theirs: &Option<String>) -> bool {
    let (Some(ours), Some(theirs)) = (ours, theirs) else { return ours == theirs };
    if ours == theirs {
        return true;
    }
    let (Ok(x), Ok(y)) = (ours.parse::<f64>(), theirs.parse::<f64>()) else { return false };
    // Digits after the point that say something.
    let digits = |text: &str| text.split_once('.').map_or(0, |(_, digits)| digits.trim_end_matches('0').len());
    let scale = ours.split_once('.').map_or(0, |(_, digits)| digits.len());
    match theirs.contains('e') || digits(theirs) > scale {
        true => (x - y).abs() <= 10f64.powi(-(scale as i32)).max(1e-9 * x.abs()),
        // Exact numbers differ in zeros at the end only.
        false => trimmed(ours) == trimmed(theirs),
    }
}

fn trimmed(number: &str) -> &str {
    if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.') } else { number }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Decimal128Array, Int64Array};

    use super::super::driver::Measurement;
    use super::super::record::result_hash;
    use super::*;
    use crate::Workload;
    use crate::generate::Format;

    fn batch(numbers: &[i64], cents: &[i128]) -> RecordBatch {
        let cents: Decimal128Array = cents.iter().copied().map(Some).collect();
        let cents: ArrayRef = Arc::new(cents.with_precision_and_scale(15, 2).unwrap());
        let numbers: ArrayRef = Arc::new(Int64Array::from(numbers.to_vec()));
        RecordBatch::try_from_iter([("n", numbers), ("c", cents)]).unwrap()
    }

    const QUERY: (&str, &str) = ("Q1", "SELECT 1");

    fn check(results: &mut Results, mode: &str, batches: &[RecordBatch]) -> Result<String> {
        let measurement =
            Measurement { workload: Workload::SSB, scale: 1.0, format: Format::Csv, egress_bytes_per_s: None };
        let hash = result_hash(batches).unwrap();
        let record = Record { result_hash: hash.clone(), ..measurement.record(mode, QUERY, "timed") };
        results.check(&record, batches).map(|()| hash)
    }

    fn row(number: &str, cents: &str) -> Row {
        vec![Some(number.to_owned()), Some(cents.to_owned())]
    }

    #[test]
    fn another_result_is_an_error_that_names_both() {
        let mut results = Results::default();
        let hash = check(&mut results, "pullup", &[batch(&[1, 2], &[100, 205])]).unwrap();
        // Rows have no order, and batches no meaning.
        let apart = [batch(&[2], &[205]), batch(&[1], &[100])];
        assert_eq!(check(&mut results, "hybrid", &apart).unwrap(), hash);
        let error = check(&mut results, "hybrid", &[batch(&[1, 2], &[100, 206])]).unwrap_err().to_string();
        assert!(error.contains("Q1") && error.contains("hybrid") && error.contains("pullup"), "{error}");
    }

    #[test]
    fn rows_of_another_engine_are_compared_to_the_last_digit() {
        let mut results = Results::default();
        let hash = check(&mut results, "pullup", &[batch(&[1, 2], &[100, 205])]).unwrap();
        let of_duckdb = |rows: Vec<Row>| results.check_rows(QUERY, "duckdb", 2, Some(rows));
        assert_eq!(of_duckdb(vec![row("2", "2.05"), row("1", "1")]).unwrap(), hash);
        assert_eq!(of_duckdb(vec![row("2", "2.0499999999"), row("1", "1.0")]).unwrap(), hash);
        assert!(of_duckdb(vec![row("2", "2.06"), row("1", "1")]).is_err());
        assert!(of_duckdb(vec![row("3", "2.05"), row("1", "1")]).is_err());
        assert!(results.check_rows(QUERY, "duckdb", 1, None).is_err());
        assert!(results.check_rows(("Q1", "SELECT 2"), "duckdb", 2, None).is_err(), "nothing to compare with");
    }
}
