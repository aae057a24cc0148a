//! Columns of a result, their names, and the resolution of names.

use thermocline_database::Statement;

use super::engines::Engines;
use super::postgres::Postgres;

const TABLES: &[&str] = &[
    "CREATE TABLE ta (x INTEGER PRIMARY KEY, k INTEGER, count INTEGER)",
    "CREATE TABLE tb (y INTEGER PRIMARY KEY, k INTEGER)",
    "CREATE TABLE tc (z INTEGER PRIMARY KEY, k INTEGER, y INTEGER)",
    "INSERT INTO ta VALUES (1, 10, 5), (2, 20, 3), (3, 20, 1), (4, 40, NULL), (5, NULL, 7)",
    "INSERT INTO tb VALUES (1, 10), (2, 20), (3, 50)",
    "INSERT INTO tc VALUES (1, 10, 1), (2, 20, 2), (3, 60, 9)",
];

const QUERIES: &[&str] = &[
    // Columns of joins by name.
    "SELECT * FROM ta JOIN tb USING (k) ORDER BY x",
    "SELECT *, 1 FROM ta AS l LEFT JOIN tb AS r USING (k) ORDER BY x",
    "SELECT * FROM ta RIGHT JOIN tb USING (k) ORDER BY x, y",
    "SELECT * FROM ta FULL JOIN tb USING (k) ORDER BY x, y",
    "SELECT * FROM tb JOIN tc USING (y, k) ORDER BY y",
    "SELECT * FROM tb JOIN tc USING (k, y) ORDER BY y",
    "SELECT * FROM ta JOIN tb USING (k) JOIN tc USING (k) ORDER BY x",
    "SELECT * FROM ta JOIN (SELECT k, y AS w FROM tb) AS q USING (k) ORDER BY x",
    "SELECT * FROM (SELECT k FROM tb) AS p JOIN (SELECT k FROM tc) AS q USING (k) ORDER BY k",
    "SELECT tb.*, x FROM ta JOIN tb USING (k) ORDER BY x",
    "SELECT q.* FROM (SELECT * FROM ta JOIN tb USING (k)) AS q ORDER BY x",
    // Names of columns of inner queries.
    "SELECT count FROM (SELECT count(*) FROM ta) AS q",
    "SELECT q.max + 1 FROM (SELECT max(x), min(x) FROM ta) AS q WHERE q.min = 1",
    "WITH w AS (SELECT k, sum(x) FROM ta GROUP BY k) SELECT sum, k FROM w WHERE sum > 1 ORDER BY k",
    "WITH w (s) AS (SELECT sum(x) FROM ta) SELECT s FROM w",
    "SELECT \"?column?\" FROM (SELECT x + 1 FROM ta) AS q ORDER BY 1",
    "SELECT k FROM (SELECT k::text FROM ta WHERE k > 0) AS q ORDER BY k",
    "SELECT row_number FROM (SELECT *, row_number() OVER (ORDER BY x) FROM tb JOIN ta USING (k)) AS q ORDER BY 1",
    "SELECT \"case\", int4, date FROM (SELECT CASE WHEN x > 1 THEN 1 END, (x + 1)::int, date '2024-01-01' FROM ta) AS q
     ORDER BY int4",
    "SELECT coalesce FROM (SELECT coalesce(k, 0) FROM ta UNION ALL SELECT 3) AS q ORDER BY 1",
    "SELECT q.count FROM (SELECT sum(x) AS count, count(k) FROM ta) AS q",
    "SELECT q.count FROM (SELECT count(*), count(k) FROM ta) AS q",
    "SELECT q.k FROM (SELECT ta.k, tb.k FROM ta, tb) AS q",
    "SELECT * FROM (SELECT sum(x) FROM ta GROUP BY count HAVING count > 1) AS q ORDER BY 1",
    "SELECT q.a FROM (SELECT x AS a, k AS a FROM ta) AS q",
    "SELECT * FROM (SELECT 1 AS a, x AS b FROM ta) AS q ORDER BY a, b",
    "SELECT x FROM ta WHERE k IN (SELECT max FROM (SELECT max(k) FROM tb) AS q) ORDER BY x",
    "SELECT date '2024-01-01', '2024-01-01', timestamptz '2024-01-01', '2024-01-01'::timestamp",
    "SELECT 1::dec(5, 1), 'ab'::character varying, 'ab'::char varying(1), every(x > 0) FROM ta",
    // Windows that refer to windows.
    "SELECT x, sum(x) OVER (w ORDER BY x) FROM ta WINDOW w AS (PARTITION BY k) ORDER BY x",
    "SELECT x, sum(x) OVER v, count(*) OVER w FROM ta WINDOW w AS (PARTITION BY k), v AS (w ORDER BY x DESC) ORDER BY x",
    "SELECT x, sum(x) OVER (w ROWS 1 PRECEDING) FROM ta WINDOW w AS (PARTITION BY k ORDER BY x) ORDER BY x",
    "SELECT x FROM ta WINDOW w AS (PARTITION BY k ORDER BY x) ORDER BY sum(x) OVER w, x",
    "SELECT x, (SELECT sum(y) OVER (w ORDER BY y) FROM tb WINDOW w AS (PARTITION BY k) ORDER BY 1 LIMIT 1), max(x) OVER w
     FROM ta WINDOW w AS () ORDER BY x",
    "SELECT sum(x) OVER (\"W\" ORDER BY x) FROM ta WINDOW \"W\" AS (PARTITION BY k), w AS () UNION ALL
     SELECT sum(x) OVER w FROM ta WINDOW w AS (ORDER BY x) ORDER BY 1",
    // Names in ORDER BY and GROUP BY.
    "SELECT count(*) FROM ta GROUP BY k ORDER BY count, 1",
    "SELECT k, count(*) FROM ta GROUP BY k ORDER BY count DESC, k",
    "SELECT x::text FROM ta ORDER BY x DESC",
    "SELECT -x AS x FROM ta ORDER BY x",
    "SELECT (-x)::int FROM ta ORDER BY int4",
    "SELECT count::text FROM ta ORDER BY count",
    "SELECT sum(x) FROM ta UNION ALL SELECT 1 ORDER BY sum",
    "SELECT count(*), count(k) FROM ta ORDER BY count",
    "SELECT upper(k::text) FROM ta ORDER BY upper",
    "SELECT count(x, k) FROM ta",
    "SELECT count(DISTINCT x, k) FROM ta",
    // Names in expressions of ORDER BY.
    "SELECT x, -k AS k FROM ta ORDER BY k + 0, x",
    "SELECT x, -k AS k FROM ta ORDER BY k + 0, x LIMIT 2",
    "SELECT x, coalesce(k, 100) AS k FROM ta ORDER BY k IS NULL, k DESC, x",
    "SELECT * FROM (SELECT x, -k AS k FROM ta ORDER BY k * 1, 1 LIMIT 2) AS q",
    "SELECT x, -k AS k FROM ta ORDER BY rank() OVER (ORDER BY k), x",
    "SELECT k, max(x) AS x FROM ta GROUP BY k ORDER BY max(x) DESC, k",
    "SELECT k % 20 AS k, sum(x) AS x FROM ta GROUP BY k ORDER BY sum(x), ta.k",
    "SELECT ta.x + 1 AS x FROM ta ORDER BY ta.x DESC",
    "SELECT *, -x AS y FROM ta ORDER BY ta.x + 0, y",
    "SELECT -x AS y FROM ta ORDER BY y + 0",
    "SELECT x AS x, k FROM ta ORDER BY x + k, x",
    // Joins by names of tables that are not in alphabetical order.
    "SELECT * FROM tb NATURAL LEFT JOIN (SELECT z AS y, k AS m FROM tc) AS a ORDER BY y",
    "SELECT * FROM tb LEFT JOIN ta AS a USING (k) LEFT JOIN tc ON tc.y = tb.y ORDER BY 1, 2, 3, 4, 5, 6, 7",
    "SELECT * FROM ta, tb LEFT JOIN tc AS a USING (y) ORDER BY 1, 2, 3, 4, 5, 6, 7",
    "SELECT * FROM (tb LEFT JOIN tc AS a USING (y)) ORDER BY y",
    "SELECT * FROM tc AS x RIGHT JOIN tb USING (y) LEFT JOIN tb AS a USING (y) ORDER BY y",
    "SELECT * FROM tb FULL JOIN tc AS b USING (y) LEFT JOIN tc AS a USING (y) ORDER BY y",
    "SELECT count(y) FROM (SELECT * FROM tb NATURAL LEFT JOIN (SELECT z AS y FROM tc) AS a) AS q",
    "SELECT y FROM tb NATURAL JOIN (SELECT z AS y FROM tc) AS a WHERE y > 1",
    "SELECT count(*) FROM tb JOIN tb AS b USING (y) JOIN tb AS c USING (y) JOIN tb AS d USING (y)",
    "SELECT tb.k, a.k, y FROM tb NATURAL JOIN (SELECT z AS y FROM tc) AS n JOIN tc AS a USING (y)",
    "SELECT * FROM tb JOIN ta USING (K) ORDER BY x",
    "SELECT k FROM tb LEFT JOIN tc AS a USING (k) RIGHT JOIN ta USING (k) ORDER BY k",
    // Types of set operations.
    "SELECT 1.50::decimal(5, 2) AS c EXCEPT SELECT '1.504'",
    "SELECT '1.5' AS c INTERSECT SELECT 1.50::decimal(5, 2)",
    "SELECT '10' AS a UNION ALL SELECT 9 ORDER BY a",
    "SELECT 1 AS a UNION ALL SELECT 'x'",
    "SELECT k FROM ta UNION SELECT '20' ORDER BY k",
    "SELECT NULL AS a UNION ALL SELECT 1 ORDER BY a",
    "SELECT 1 AS a INTERSECT SELECT '1'",
    "SELECT 1 AS a EXCEPT SELECT 'x'",
    "SELECT x FROM ta EXCEPT SELECT '1' ORDER BY x",
    "SELECT x, k FROM ta INTERSECT ALL SELECT '2', 20",
    "SELECT x::text FROM ta UNION SELECT 1",
    "SELECT '2024-01-05' AS a UNION ALL SELECT date '2024-02-01' ORDER BY a",
    "SELECT 'a' AS a UNION ALL SELECT 'b' ORDER BY a",
    "SELECT 'b' AS a UNION ALL SELECT 'a' UNION ALL SELECT 1",
    "SELECT '2.5' AS a UNION ALL SELECT 1.5 ORDER BY a",
    "SELECT x FROM ta UNION ALL SELECT q.a FROM (SELECT '1' AS a) AS q",
    "SELECT x FROM ta WHERE x IN (SELECT 1 UNION SELECT '3') ORDER BY x",
];

/// Compares the columns of queries.
///
/// # Panics
/// If the columns of a query, their order, or the rows differ.
pub async fn compare_columns(postgres: &mut Postgres, engines: &Engines) {
    for sql in TABLES {
        postgres.run(sql);
        engines.rows(sql).await.unwrap();
    }
    let mut differences = vec![];
    for query in QUERIES {
        let query = &query.replace('\n', " ");
        let headings = postgres.headings(query);
        // By the row engine, if possible, and by the analytic one.
        for sql in [query.clone(), analytic(query)] {
            let found = engines.session().run(&sql).await;
            let (Ok(expected), Ok(result)) = (&headings, &found) else {
                if headings.is_ok() || found.is_ok() {
                    let found = found.map(|result| result.schema);
                    differences.push(format!("{sql}\n  expected {headings:?}\n  found    {found:?}"));
                }
                continue;
            };
            let statement = Statement::parse(&sql).unwrap().remove(0);
            let schema = engines.session().headings(&statement).of_schema(&result.schema);
            let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
            if *expected != names {
                differences.push(format!("{sql}\n  expected {expected:?}\n  found    {names:?}"));
                continue;
            }
            let (expected, rows) = (postgres.rows_of(query, names.len()), engines.rows(&sql).await);
            if expected.as_ref().ok() != rows.as_ref().ok() {
                differences.push(format!("{sql}\n  expected {expected:?}\n  found    {rows:?}"));
            }
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

/// The query for the analytic engine: the row engine has no WITH.
fn analytic(query: &str) -> String {
    let tables = ["ta", "tb", "tc"].map(|table| format!("{table} AS (SELECT * FROM {table})")).join(", ");
    match query.strip_prefix("WITH ") {
        Some(rest) => format!("WITH {tables}, {rest}"),
        None => format!("WITH {tables} {query}"),
    }
}
