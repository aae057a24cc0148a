//! Results of queries, which must be the same in every mode and engine.

use std::collections::HashMap;

use arrow::array::{Array, RecordBatch};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::common::{Result, exec_err};

use super::order::SortKeys;
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
    hash: Option<String>,
    /// In the order of the result.
    rows: Vec<Row>,
    /// Which columns are floats, whose last digits depend on the order in which an engine computes.
    floats: Vec<bool>,
    keys: SortKeys,
}

impl Results {
    /// Remembers or compares the result of a record.
    ///
    /// # Errors
    /// If its query had another result before; the error names both modes.
    pub fn check(&mut self, record: &Record, batches: &[RecordBatch]) -> Result<()> {
        let Record { query, sql, mode, result_hash, .. } = record;
        match self.known.get(sql) {
            Some(known) if known.hash != *result_hash => exec_err!(
                "query {query} has another result in {mode} ({}) than in {} ({})",
                result_hash.as_deref().unwrap_or("no hash"),
                known.mode,
                known.hash.as_deref().unwrap_or("no hash")
            ),
            Some(_) => Ok(()),
            None => {
                let (mode, hash) = (mode.clone(), result_hash.clone());
                let fields = batches.first().map(|batch| batch.schema().fields().clone()).unwrap_or_default();
                let floats = fields.iter().map(|field| field.data_type().is_floating()).collect();
                let known = Known { mode, hash, rows: rows(batches)?, floats, keys: sort_keys(sql, batches) };
                self.known.insert(sql.clone(), known);
                Ok(())
            }
        }
    }

    /// Compares a result of an engine with types of its own: exact numbers to our last digit, floats to nine digits.
    /// Rows are compared in the order required by the query. Without `rows`, only their number is compared.
    ///
    /// # Errors
    /// If the query (name and SQL) had another result before, or none.
    pub fn check_rows(&self, (query, sql): (&str, &str), mode: &str, count: u64, rows: Option<&[Row]>) -> Result<()> {
        let Some(known) = self.known.get(sql) else {
            return exec_err!("query {query} was run in {mode} and nowhere else");
        };
        let counts = [Some(count), rows.map(|rows| rows.len() as u64)];
        if let Some(count) = counts.into_iter().flatten().find(|count| *count != known.rows.len() as u64) {
            return exec_err!("query {query} has {count} rows in {mode} and {} in {}", known.rows.len(), known.mode);
        }
        let Some(rows) = rows else { return Ok(()) };
        let mut rows = rows.iter();
        for ours in known.keys.runs(&known.rows) {
            let theirs = sorted(rows.by_ref().take(ours.len()));
            for (theirs, ours) in theirs.into_iter().zip(sorted(ours)) {
                let mut cells = ours.iter().zip(theirs).zip(&known.floats);
                if ours.len() != theirs.len() || !cells.all(|((ours, theirs), float)| same(ours, theirs, *float)) {
                    return exec_err!("query {query} has the row {theirs:?} in {mode} and {ours:?} in {}", known.mode);
                }
            }
        }
        Ok(())
    }
}

/// Sort keys of a query over its result.
pub(super) fn sort_keys(sql: &str, batches: &[RecordBatch]) -> SortKeys {
    let schema = batches.first().map(RecordBatch::schema_ref);
    let names: Vec<&str> =
        schema.iter().flat_map(|schema| schema.fields()).map(|field| field.name().as_str()).collect();
    SortKeys::of(sql, &names)
}

/// All rows as text.
///
/// # Errors
/// If a column has a type that cannot be printed.
pub(super) fn rows(batches: &[RecordBatch]) -> Result<Vec<Row>> {
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

/// Sorts rows so that numbers of different types and precisions compare alike.
fn sorted<'a>(rows: impl IntoIterator<Item = &'a Row>) -> Vec<&'a Row> {
    let key = |cell: &Option<String>| match cell {
        None => (0, String::new()),
        Some(text) => match text.parse::<f64>() {
            Ok(number) => (1, format!("{number:+.6e}")),
            Err(_) => (2, text.clone()),
        },
    };
    let mut rows: Vec<&Row> = rows.into_iter().collect();
    rows.sort_by_cached_key(|row| row.iter().map(key).collect::<Vec<_>>());
    rows
}

fn same(ours: &Option<String>, theirs: &Option<String>, is_float: bool) -> bool {
    let (Some(ours), Some(theirs)) = (ours, theirs) else { return ours == theirs };
    if ours == theirs {
        return true;
    }
    let (Ok(x), Ok(y)) = (ours.parse::<f64>(), theirs.parse::<f64>()) else { return false };
    if is_float {
        return (x - y).abs() <= 1e-9 * x.abs();
    }
    // Significant digits after the point.
    let digits = |text: &str| text.split_once('.').map_or(0, |(_, digits)| digits.trim_end_matches('0').len());
    let scale = ours.split_once('.').map_or(0, |(_, digits)| digits.len());
    match theirs.contains('e') || digits(theirs) > scale {
        true => (x - y).abs() <= 10f64.powi(-(scale as i32)).max(1e-9 * x.abs()),
        // Exact numbers may differ only in trailing zeros.
        false => trimmed(ours) == trimmed(theirs),
    }
}

fn trimmed(number: &str) -> &str {
    if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.') } else { number }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Decimal128Array, Float64Array, Int64Array};

    use super::super::driver::Measurement;
    use super::super::record::{Counts, result_hash};
    use super::*;
    use crate::Workload;
    use crate::generate::Format;

    fn batch(numbers: &[i64], cents: &[i128]) -> RecordBatch {
        let cents: Decimal128Array = cents.iter().copied().map(Some).collect();
        let cents: ArrayRef = Arc::new(cents.with_precision_and_scale(15, 2).unwrap());
        let numbers: ArrayRef = Arc::new(Int64Array::from(numbers.to_vec()));
        RecordBatch::try_from_iter([("n", numbers), ("c", cents)]).unwrap()
    }

    const QUERY: (&str, &str) = ("Q1", "SELECT n, c FROM t");
    const SORTED: (&str, &str) = ("Q2", "SELECT n, c FROM t ORDER BY c");

    fn check(results: &mut Results, query: (&str, &str), mode: &str, batches: &[RecordBatch]) -> Result<()> {
        let measurement =
            Measurement { workload: Workload::SSB, scale: 1.0, format: Format::Csv, egress_bytes_per_s: None };
        let hash = result_hash(query.1, batches)?;
        let record = Record { result_hash: Some(hash), ..measurement.record(mode, query, "timed") };
        results.check(&record, batches)
    }

    fn row(number: &str, cents: &str) -> Row {
        vec![Some(number.to_owned()), Some(cents.to_owned())]
    }

    #[test]
    fn another_result_is_an_error_that_names_both() {
        let mut results = Results::default();
        check(&mut results, QUERY, "pullup", &[batch(&[1, 2], &[100, 205])]).unwrap();
        // Rows have no order, and batch boundaries no meaning.
        let apart = [batch(&[2], &[205]), batch(&[1], &[100])];
        check(&mut results, QUERY, "hybrid", &apart).unwrap();
        let wrong = check(&mut results, QUERY, "hybrid", &[batch(&[1, 2], &[100, 206])]);
        let error = wrong.unwrap_err().to_string();
        assert!(error.contains("Q1") && error.contains("hybrid") && error.contains("pullup"), "{error}");
    }

    #[test]
    fn the_order_of_rows_counts_where_the_query_sorts() {
        let mut results = Results::default();
        check(&mut results, SORTED, "pullup", &[batch(&[1, 2, 3], &[100, 100, 205])]).unwrap();
        check(&mut results, SORTED, "hybrid", &[batch(&[2, 1], &[100, 100]), batch(&[3], &[205])]).unwrap();
        check(&mut results, SORTED, "hybrid", &[batch(&[3, 2, 1], &[205, 100, 100])]).unwrap_err();
        let of_duckdb = |rows: [(&str, &str); 3]| {
            results.check_rows(SORTED, "duckdb", 3, Some(&rows.map(|(number, cents)| row(number, cents))))
        };
        of_duckdb([("2", "1"), ("1", "1"), ("3", "2.05")]).unwrap();
        of_duckdb([("3", "2.05"), ("2", "1"), ("1", "1")]).unwrap_err();
    }

    #[test]
    fn rows_of_another_engine_are_compared_to_the_last_digit() {
        let mut results = Results::default();
        check(&mut results, QUERY, "pullup", &[batch(&[1, 2], &[100, 205])]).unwrap();
        let of_duckdb = |rows: [Row; 2]| results.check_rows(QUERY, "duckdb", 2, Some(&rows));
        of_duckdb([row("2", "2.05"), row("1", "1")]).unwrap();
        of_duckdb([row("2", "2.0499999999"), row("1", "1.0")]).unwrap();
        of_duckdb([row("2", "2.06"), row("1", "1")]).unwrap_err();
        of_duckdb([row("3", "2.05"), row("1", "1")]).unwrap_err();
        results.check_rows(QUERY, "duckdb", 2, None).unwrap();
        results.check_rows(QUERY, "duckdb", 1, None).unwrap_err();
        results.check_rows(QUERY, "duckdb", 2, Some(&[row("1", "1")])).unwrap_err();
        results.check_rows(("Q1", "SELECT 2"), "duckdb", 2, None).expect_err("nothing to compare with");
    }

    #[test]
    fn floats_of_another_engine_differ_in_their_last_digits() {
        let mut results = Results::default();
        let averages: ArrayRef = Arc::new(Float64Array::from(vec![Some(0.049996586053704085), None]));
        check(&mut results, QUERY, "pullup", &[RecordBatch::try_from_iter([("a", averages)]).unwrap()]).unwrap();
        let of_duckdb =
            |average: &str| results.check_rows(QUERY, "duckdb", 2, Some(&[vec![Some(average.to_owned())], vec![None]]));
        of_duckdb("0.04999658605370408").unwrap();
        of_duckdb("0.04999659").unwrap_err();
        of_duckdb("4.9996586053704085e-2").unwrap();
    }

    #[test]
    fn what_nobody_counted_is_null() {
        let measurement =
            Measurement { workload: Workload::SSB, scale: 1.0, format: Format::Csv, egress_bytes_per_s: Some(1) };
        let record = measurement.record("duckdb-files", QUERY, "timed");
        let counted = Record { counts: Some(Counts::default()), ..record.clone() };
        let [record, counted] = [record, counted].map(|record| serde_json::to_value(record).unwrap());
        let names = |value: &serde_json::Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&record), names(&counted), "all fields are there");
        for field in ["bytes_from_storage", "dollars", "cache_bytes", "policy", "egress_bytes_per_s", "result_hash"] {
            assert!(record[field].is_null(), "{field} in {record}");
        }
        assert_eq!(counted["bytes_from_storage"], 0);
    }
}
