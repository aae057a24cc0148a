//! The ways of evaluating an expression here.

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{DataType, TimeUnit, TimestampNanosecondType};
use arrow::util::display::array_value_to_string;
use tempfile::TempDir;
use thermocline_database::{Database, QueryResult, Session};
use thermocline_pushdown::{Column, UTC, is_jsonb};
use thermocline_transactions::types::ValueRef;

use super::Outcome;
use super::expressions::Expression;
use super::report::{Difference, Report};
use super::values;

/// Rows evaluated one by one, for each expression and way.
const ALONE_MAX: usize = 8;

/// Evaluator of an expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Way {
    /// The row engine, which finds the row in the index.
    Index,
    /// The row engine, which scans the table.
    Scan,
    /// The analytic engine over the row table.
    Analytic,
    /// The analytic engine over a Parquet object.
    Objects,
}

impl Way {
    pub const ALL: [Self; 4] = [Self::Index, Self::Scan, Self::Analytic, Self::Objects];

    const fn is_analytic(self) -> bool {
        matches!(self, Self::Analytic | Self::Objects)
    }

    /// A query for the expression over rows of the table.
    fn query(self, expression: &str, rows: &[i64]) -> String {
        let list = rows.iter().map(i64::to_string).collect::<Vec<_>>().join(", ");
        match (self, rows) {
            (Self::Index, [row]) => format!("SELECT {expression} AS e FROM p WHERE id = {row}"),
            (Self::Index | Self::Scan, _) => {
                format!("SELECT {expression} AS e FROM p WHERE id + 0 IN ({list}) ORDER BY id")
            }
            (Self::Analytic, _) => {
                format!("WITH q AS (SELECT * FROM p WHERE id IN ({list})) SELECT {expression} AS e FROM q ORDER BY id")
            }
            (Self::Objects, _) => format!("SELECT {expression} AS e FROM objects WHERE id IN ({list}) ORDER BY id"),
        }
    }
}

pub struct Engines {
    session: Session,
    _directory: TempDir,
}

impl Engines {
    pub async fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let session = Database::in_memory().await.unwrap().session();
        for create in [values::create_table("p"), values::create_table("indexed")] {
            session.run(&create).await.unwrap();
        }
        for of in values::TYPES.iter().filter(|of| values::is_key(of)) {
            session.run(&format!("CREATE INDEX indexed_{0} ON indexed (l_{0})", of.name)).await.unwrap();
        }
        for insert in values::inserts() {
            session.run(&insert).await.unwrap();
        }
        session.run("INSERT INTO indexed SELECT * FROM p").await.unwrap();
        let file = directory.path().join("p/p.parquet");
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        session.run(&format!("COPY (SELECT * FROM p) TO '{}' STORED AS PARQUET", file.display())).await.unwrap();
        let location = directory.path().join("p");
        let create = format!("CREATE EXTERNAL TABLE object STORED AS PARQUET LOCATION '{}'", location.display());
        session.run(&create).await.unwrap();
        session.run(&values::create_view("objects", "object")).await.unwrap();
        // One object for each value of the left columns, so that statistics are selective.
        let pieces = directory.path().join("pieces");
        std::fs::create_dir_all(&pieces).unwrap();
        for piece in 0..values::VALUES {
            let (file, rows) = (pieces.join(format!("{piece}.parquet")), values::VALUES);
            let query = format!("SELECT * FROM p WHERE id / {rows} = {piece}");
            session.run(&format!("COPY ({query}) TO '{}' STORED AS PARQUET", file.display())).await.unwrap();
        }
        let create = format!("CREATE EXTERNAL TABLE piece STORED AS PARQUET LOCATION '{}'", pieces.display());
        session.run(&create).await.unwrap();
        session.run(&values::create_view("pieces", "piece")).await.unwrap();
        session.set("mode", "pushdown").unwrap();
        Self { session, _directory: directory }
    }

    async fn run(&self, way: Way, expression: &str, rows: &[i64]) -> Result<(String, Vec<Option<String>>), String> {
        let result = self.session.run(&way.query(expression, rows)).await;
        let result = result.map_err(|error| format!("{} {error}", error.sqlstate()))?;
        let of = type_name(result.schema.field(0).data_type());
        let values = result.batches.iter().flat_map(column).collect();
        Ok((of, values))
    }

    /// Session of the engines here.
    pub const fn session(&self) -> &Session {
        &self.session
    }

    /// The rows of a query.
    pub async fn rows(&self, sql: &str) -> Result<Vec<Vec<Option<String>>>, String> {
        self.session.run(sql).await.map(|result| texts(&result)).map_err(|error| error.to_string())
    }

    /// Type of an expression, or its error.
    pub async fn type_of(&self, way: Way, expression: &str) -> Result<String, String> {
        self.run(way, expression, &[0]).await.map(|(of, _)| of)
    }

    /// Compares the values: of all rows without an error in one query, and of some rows of each kind one by one.
    pub async fn compare_values(
        &self,
        way: Way,
        expression: &Expression,
        expected: &[(i64, Outcome)],
        report: &mut Report,
    ) {
        let is_value = |outcome: &Outcome| matches!(outcome, Outcome::Value(_));
        let (values, errors): (Vec<_>, Vec<_>) = expected.iter().partition(|(_, outcome)| is_value(outcome));
        let mut alone: Vec<&(i64, Outcome)> = errors.into_iter().take(ALONE_MAX).collect();
        let rows: Vec<i64> = values.iter().map(|(id, _)| *id).collect();
        if way == Way::Index {
            alone.extend(values.iter().step_by(values.len().div_ceil(ALONE_MAX).max(1)));
        } else if !rows.is_empty() {
            match self.run(way, &expression.sql, &rows).await {
                Ok((_, found)) => {
                    assert_eq!(found.len(), rows.len(), "{way:?}: {}", expression.sql);
                    for ((row, outcome), found) in values.iter().zip(found) {
                        judge(way, expression, (*row, outcome), Ok(found), report);
                    }
                }
                // The failing row is found one by one.
                Err(_) => alone.extend(values),
            }
        }
        for (row, outcome) in alone {
            let found = self.run(way, &expression.sql, &[*row]).await;
            let found = found.map(|(_, values)| values.into_iter().next().flatten());
            judge(way, expression, (*row, outcome), found, report);
        }
    }
}

/// Judges the result of a row.
fn judge(
    way: Way,
    expression: &Expression,
    (row, expected): (i64, &Outcome),
    found: Result<Option<String>, String>,
    report: &mut Report,
) {
    report.evaluations += 1;
    let is_same = match (expected, &found) {
        // Errors of the analytic engine have no SQLSTATE yet, except those from our own rules.
        (Outcome::Error(state), Err(error)) => way.is_analytic() || error.starts_with(state.as_str()),
        (Outcome::Value(expected), Ok(found)) => is_same(expected.as_deref(), found.as_deref()),
        _ => false,
    };
    if !is_same {
        report.add(expression, way, &Difference::Value { row, expected: expected.clone(), found });
    }
}

/// Equal texts, or numbers that are equal.
fn is_same(expected: Option<&str>, found: Option<&str>) -> bool {
    match (expected, found) {
        (Some(expected), Some(found)) if expected != found => {
            let is_number = |text: &str| text.parse::<f64>().is_ok() && !text.is_empty();
            if !is_number(expected) || !is_number(found) {
                return false;
            }
            let (one, other) = (plain(expected), plain(found));
            match (one.parse::<f64>(), other.parse::<f64>()) {
                (Ok(one), Ok(other)) if expected.contains(['e', 'N', 'I']) || found.contains(['e', 'N', 'I']) => {
                    one == other || (one.is_nan() && other.is_nan())
                }
                (Ok(number), Ok(same)) if of_doubles(expected) && of_doubles(found) => number == same,
                _ => one == other,
            }
        }
        (expected, found) => expected == found,
    }
}

/// Whether a number has no more digits than distinguish doubles: two shortest texts of one double are both right.
fn of_doubles(number: &str) -> bool {
    number.bytes().filter(u8::is_ascii_digit).count() <= 17
}

/// A decimal without zeros at its end.
pub fn plain(text: &str) -> String {
    let text =
        if text.contains('.') && !text.contains('e') { text.trim_end_matches('0').trim_end_matches('.') } else { text };
    if text == "-0" || text.is_empty() { "0".to_owned() } else { text.to_owned() }
}

fn type_name(of: &DataType) -> String {
    match of {
        DataType::Boolean => "boolean".into(),
        DataType::Int16 => "smallint".into(),
        DataType::Int32 => "integer".into(),
        DataType::Int64 => "bigint".into(),
        DataType::Float32 => "real".into(),
        DataType::Float64 => "double precision".into(),
        DataType::Decimal128(..) | DataType::Decimal256(..) => "numeric".into(),
        DataType::Utf8 | DataType::Utf8View | DataType::LargeUtf8 => "text".into(),
        DataType::Binary | DataType::BinaryView | DataType::LargeBinary => "bytea".into(),
        DataType::Date32 => "date".into(),
        DataType::Timestamp(TimeUnit::Microsecond, None) => "timestamp".into(),
        DataType::Timestamp(TimeUnit::Microsecond, Some(zone)) if zone.as_ref() == UTC => {
            "timestamp with time zone".into()
        }
        DataType::Interval(_) => "interval".into(),
        DataType::FixedSizeBinary(16) => "uuid".into(),
        DataType::Null => "text".into(),
        other if is_jsonb(other) => "jsonb".into(),
        other => other.to_string(),
    }
}

/// The rows of a result, as PostgreSQL's casts to text write their values.
pub fn texts(result: &QueryResult) -> Vec<Vec<Option<String>>> {
    let value = |column: &ArrayRef, row| (!column.is_null(row)).then(|| text(column, row));
    let rows = result.batches.iter().flat_map(|batch| {
        (0..batch.num_rows()).map(|row| batch.columns().iter().map(|column| value(column, row)).collect())
    });
    rows.collect()
}

/// The values of the first column, as PostgreSQL's cast to text writes them.
fn column(batch: &RecordBatch) -> Vec<Option<String>> {
    let column = batch.column(0);
    (0..batch.num_rows()).map(|row| (!column.is_null(row)).then(|| text(column, row))).collect()
}

fn text(column: &ArrayRef, row: usize) -> String {
    match (column.data_type(), Column::new(column)) {
        (DataType::Boolean, _) => column.as_boolean().value(row).to_string(),
        (DataType::Timestamp(TimeUnit::Nanosecond, None), _) => {
            ValueRef::Timestamp(column.as_primitive::<TimestampNanosecondType>().value(row) / 1000).to_string()
        }
        (_, Ok(values)) => values.value(row).unwrap().to_string(),
        // Decimals with more digits.
        (_, Err(_)) => array_value_to_string(column, row).unwrap(),
    }
}
