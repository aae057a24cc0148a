//! Filters of columns and constants of every type, which indexes, statistics of files and pushed filters may decide
//! without reading rows.

use super::engines::Engines;
use super::postgres::Postgres;
use super::values::{TYPES, Values};

/// Conditions on a column `x` and a constant `c`.
const CONDITIONS: &[&str] =
    &["x = c", "x <> c", "x < c", "x >= c", "x IS DISTINCT FROM c", "x IN (c, c)", "x NOT IN (c)", "x BETWEEN c AND c"];

/// Number of constants of each type.
const CONSTANTS: usize = 5;

/// Maximum differences printed in full.
const TOLD: usize = 30;

/// A relation with the table's rows, and whether the constant is a parameter.
const WAYS: &[(&str, bool)] = &[
    ("indexed", false),
    ("p", false),
    ("(SELECT * FROM p OFFSET 0)", false),
    ("objects", false),
    ("pieces", false),
    ("indexed", true),
    ("pieces", true),
];

/// Runs every condition everywhere.
///
/// # Panics
/// If the rows of a filter differ here, or it is refused only here or only by PostgreSQL.
pub async fn compare_filters(postgres: &mut Postgres, engines: &Engines) {
    let mut differences = vec![];
    let (mut filters, mut refused, mut rows) = (0, 0, 0);
    for left in TYPES {
        for right in TYPES {
            let step = right.values.len().div_ceil(CONSTANTS);
            for constant in right.values.iter().step_by(step) {
                let mut is_refused = false;
                for condition in CONDITIONS {
                    let filter = Filter { condition, left, right, constant };
                    let expected = postgres.rows(&format!("SELECT id AS c0 FROM p WHERE {}", filter.sql()), 1);
                    filters += 1;
                    is_refused = expected.is_err();
                    rows += expected.as_ref().map_or(0, Vec::len);
                    for way in WAYS {
                        differences.extend(filter.difference(*way, &expected, engines).await);
                    }
                    if is_refused {
                        break;
                    }
                }
                if is_refused {
                    refused += 1;
                    break;
                }
            }
        }
    }
    println!("{filters} filters in {} ways each, {refused} pairs of types refused, {rows} rows", WAYS.len());
    let told = differences.iter().take(TOLD).cloned().collect::<Vec<_>>().join("\n");
    assert!(differences.is_empty(), "{} differ:\n{told}", differences.len());
    assert!(rows > filters, "most filters let rows through");
}

/// A condition on a column.
struct Filter<'a> {
    condition: &'a str,
    left: &'a Values,
    right: &'a Values,
    constant: &'a str,
}

impl Filter<'_> {
    fn with_constant(&self, constant: &str) -> String {
        let column = format!("l_{}", self.left.name);
        let ends = [' ', '(', ')', ','];
        let words = self.condition.split_inclusive(ends).map(|word| {
            let (name, end) = word.split_at(word.trim_end_matches(ends).len());
            let name = match name {
                "x" => &column,
                "c" => constant,
                other => other,
            };
            [name, end].concat()
        });
        words.collect()
    }

    fn sql(&self) -> String {
        self.with_constant(&format!("CAST({} AS {})", self.constant, self.right.sql))
    }

    /// Difference of a way of evaluation from the expected rows, if any.
    async fn difference(
        &self,
        (relation, is_parameter): (&str, bool),
        expected: &Result<Vec<Vec<Option<String>>>, String>,
        engines: &Engines,
    ) -> Option<String> {
        let query = |filter: &str| format!("SELECT id FROM {relation} AS r WHERE {filter}");
        let (found, sql) = if is_parameter {
            let prepare = format!("PREPARE filter ({}) AS {}", self.right.sql, query(&self.with_constant("$1")));
            let found = match engines.rows(&prepare).await {
                Ok(_) => {
                    let found = engines.rows(&format!("EXECUTE filter ({})", self.constant)).await;
                    engines.rows("DEALLOCATE filter").await.unwrap();
                    found
                }
                Err(error) => Err(error),
            };
            (found, prepare)
        } else {
            let sql = query(&self.sql());
            (engines.rows(&sql).await, sql)
        };
        let ids = |rows: &[Vec<Option<String>>]| {
            let mut ids: Vec<i64> = rows.iter().map(|row| row[0].as_ref().unwrap().parse().unwrap()).collect();
            ids.sort_unstable();
            ids
        };
        let told = match (expected, found) {
            (Err(_), Err(_)) => return None,
            (Ok(expected), Ok(found)) if ids(expected) == ids(&found) => return None,
            (Ok(expected), Ok(found)) => format!("{:?} to PostgreSQL, {:?} here", ids(expected), ids(&found)),
            (Ok(_), Err(error)) => format!("refused here: {error}"),
            (Err(state), Ok(_)) => format!("refused by PostgreSQL: {state}"),
        };
        Some(format!("{sql}, {}: {told}", self.constant))
    }
}
