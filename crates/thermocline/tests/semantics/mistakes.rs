//! Mistakes of users: the SQLSTATE is PostgreSQL's, the place is that of the mistake, a correction is suggested if one
//! is likely, and no message exposes a library.

use thermocline_database::{Action, Error};

use super::engines::Engines;
use super::postgres::Postgres;

const TABLES: &[&str] = &[
    "CREATE TABLE orders (id BIGINT PRIMARY KEY, customer TEXT NOT NULL, price NUMERIC(10, 2), day DATE, paid BOOLEAN)",
    "CREATE TABLE lines (id BIGINT PRIMARY KEY, product TEXT, quantity INTEGER CHECK (quantity > 0))",
    "INSERT INTO orders VALUES (1, 'ann', 10.50, '2024-01-05', true), (2, 'bob', 7, '2024-02-01', false)",
    "INSERT INTO lines VALUES (1, 'pen', 3), (2, 'ink', 1)",
];

/// A statement, the beginning of the text at its mistake, and a part of the hint.
type Mistake = (&'static str, Option<&'static str>, Option<&'static str>);

/// Statements that PostgreSQL has as well.
const MISTAKES: &[Mistake] = &[
    // Syntax.
    ("SELEC id FROM orders", Some("SELEC"), Some("SELECT")),
    ("SELECT id FORM orders WHERE id = 1", Some("orders"), None),
    ("SELECT id, FROM orders", Some("FROM"), None),
    ("SELECT id FROM orders WHERE", Some(""), None),
    ("SELECT id FROM orders WHERE id = ", Some(""), None),
    ("SELECT (id FROM orders", Some("FROM"), None),
    ("SELECT 'open FROM orders", Some("'open"), None),
    ("SELECT id FROM orders GROUP id", Some("GROUP"), None),
    ("SELECT id FROM orders ORDER id", Some("ORDER"), None),
    ("UPDTE orders SET price = 1", Some("UPDTE"), Some("UPDATE")),
    ("DELETE orders", None, None),
    ("INSERT INTO orders (id customer) VALUES (3, 'x')", Some("customer"), None),
    // Names.
    ("SELECT id FROM order_", Some("order_"), None),
    ("SELECT id FROM ordrs", Some("ordrs"), Some("orders")),
    ("SELECT prise FROM orders", Some("prise"), Some("price")),
    ("SELECT \"Price\" FROM orders", Some("\"Price\""), Some("price")),
    ("SELECT o.prise FROM orders o", Some("prise"), Some("price")),
    ("SELECT x.price FROM orders o", Some("x"), None),
    ("SELECT id FROM orders JOIN lines ON orders.id = lines.id", Some("id"), None),
    ("SELECT customer FROM orders WHERE quantty > 1", Some("quantty"), None),
    ("SELECT customer FROM orders ORDER BY prize", Some("prize"), Some("price")),
    ("SELECT uper(customer) FROM orders", Some("uper"), Some("upper")),
    ("SELECT nofunction(customer) FROM orders", Some("nofunction"), None),
    ("UPDATE orders SET prise = 1 WHERE id = 1", Some("prise"), Some("price")),
    ("UPDATE ordrs SET price = 1", Some("ordrs"), Some("orders")),
    ("DELETE FROM orders WHERE ident = 1", Some("ident"), None),
    ("INSERT INTO orders (id, custmer) VALUES (3, 'x')", Some("custmer"), Some("customer")),
    ("INSERT INTO ordrs VALUES (3)", Some("ordrs"), Some("orders")),
    ("DROP TABLE ordrs", Some("ordrs"), Some("orders")),
    ("DROP VIEW no_view", Some("no_view"), None),
    ("DROP INDEX no_index", Some("no_index"), None),
    ("EXECUTE no_such (1)", Some("no_such"), None),
    ("DEALLOCATE no_such", Some("no_such"), None),
    ("CREATE TABLE orders (id BIGINT PRIMARY KEY)", None, None),
    ("CREATE TABLE twice (id BIGINT PRIMARY KEY, a INT, a TEXT)", None, None),
    ("SELECT a.id FROM orders a JOIN lines a ON true", None, None),
    ("CREATE INDEX by_prise ON orders (prise)", Some("prise"), Some("price")),
    // Groups, aggregates and windows.
    ("SELECT customer, count(*) FROM orders", Some("customer"), None),
    ("SELECT customer, sum(price) FROM orders GROUP BY day", Some("customer"), None),
    ("SELECT id FROM orders WHERE count(*) > 1", None, None),
    ("SELECT row_number() FROM orders", Some("row_number"), None),
    ("SELECT id FROM orders WHERE row_number() OVER () = 1", None, Some("subquery")),
    ("SELECT sum(sum(price)) FROM orders", None, None),
    ("SELECT sum(price) OVER nowindow FROM orders", Some("nowindow"), None),
    ("SELECT sum(price) OVER (nowindow ORDER BY id) FROM orders", Some("nowindow"), None),
    ("SELECT sum(price) OVER (w PARTITION BY id) FROM orders WINDOW w AS (ORDER BY day)", None, None),
    ("SELECT sum(price) OVER (w ORDER BY id) FROM orders WINDOW w AS (ORDER BY day)", None, None),
    ("SELECT sum(price) OVER (w ORDER BY id) FROM orders WINDOW w AS (ROWS 1 PRECEDING)", None, None),
    ("SELECT id FROM orders WINDOW w AS (ORDER BY day), w AS (ORDER BY id)", None, None),
    // Types.
    ("SELECT customer + 1 FROM orders", None, None),
    ("SELECT sum(customer) FROM orders", Some("sum"), None),
    ("SELECT id FROM orders WHERE customer", None, None),
    ("SELECT NOT id FROM orders", None, None),
    ("SELECT id FROM orders WHERE id LIKE 1", None, None),
    ("SELECT id FROM orders WHERE paid = 3", None, None),
    ("SELECT CASE WHEN paid THEN 1 ELSE 'x' END FROM orders", None, None),
    ("SELECT day + price FROM orders", None, None),
    ("SELECT 'abc'::INTEGER", None, None),
    ("SELECT DATE '2024-xx-01'", None, None),
    ("SELECT 1 / 0", None, None),
    ("SELECT id / (id - 1) FROM orders", None, None),
    ("SELECT 9223372036854775807 + id FROM orders", None, None),
    ("SELECT 300000::SMALLINT", None, None),
    ("INSERT INTO orders VALUES (3, 'x', 'cheap', NULL, NULL)", None, None),
    ("INSERT INTO orders (id, customer, price) VALUES (3, 'x', 123456789012)", None, None),
    // Rows.
    ("INSERT INTO orders VALUES (1, 'x', 1, NULL, NULL)", None, None),
    ("INSERT INTO orders (id) VALUES (3)", None, None),
    ("INSERT INTO lines VALUES (3, 'x', -1)", None, None),
    ("INSERT INTO orders VALUES (3, 'x', 1, NULL, NULL, 7)", None, None),
    ("INSERT INTO orders (id, customer) VALUES (3)", None, None),
    ("SELECT (SELECT id FROM orders)", None, None),
    ("SELECT (SELECT id, price FROM orders WHERE id = 1)", None, None),
    ("SELECT id FROM orders UNION SELECT id, product FROM lines", None, None),
    ("SELECT id FROM orders WHERE id IN (SELECT id, product FROM lines)", None, None),
    // Settings and transactions.
    ("SET no_such_setting = 1", Some("no_such_setting"), None),
    ("SHOW no_such_setting", Some("no_such_setting"), None),
];

/// Statements that PostgreSQL does not have, with their SQLSTATE.
const OWN: &[(&str, &str, Option<&str>, Option<&str>)] = &[
    ("SET mod = 'hybrid'", "42704", Some("mod"), Some("mode")),
    ("SET mode = 'fast'", "22023", None, None),
    ("SET cache_size = '1GiB'", "55P02", None, Some("ALTER DATABASE SET cache_size")),
    ("ALTER DATABASE SET cache_size = 'much'", "22023", None, None),
    ("CREATE EXTERNAL TABLE e STORED AS PARQUET LOCATION '/no/such/place'", "58P01", None, None),
    ("CREATE EXTERNAL TABLE e STORED AS ORC LOCATION '/tmp'", "0A000", None, None),
    ("CREATE EXTERNAL TABLE e STORED AS CSV LOCATION ''", "42P16", None, None),
    ("COPY orders FROM '/no/such/file' WITH (FORMAT csv)", "58P01", None, None),
    ("COPY (SELECT 1) TO '/tmp/thermocline-no-format'", "42601", None, Some("STORED AS")),
    ("INSERT INTO goods VALUES (1)", "42809", None, None),
    ("ALTER TABLE goods ADD COLUMN x INT", "0A000", None, None),
    ("SELECT nosuch FROM goods", "42703", Some("nosuch"), None),
    ("SELECT ident FROM goods", "42703", Some("ident"), None),
    ("SELECT id FROM orders LIMIT -1", "22023", None, None),
    ("SELECT id FROM goods LIMIT -1", "22023", None, None),
    ("UPDATE goods SET price = 1", "42809", None, None),
    ("DELETE FROM goods", "42809", None, None),
    ("BACKUP", "42601", None, None),
    ("SHOW STATUS", "42601", None, None),
    ("SELECT |/ id FROM goods", "0A000", None, None),
    ("SELECT id FROM goods LIMIT (SELECT 1)", "0A000", None, None),
    ("CALL no_such(1)", "42883", Some("no_such"), None),
];

/// Texts that no message may contain.
const OF_LIBRARIES: &[&str] = &[
    "DataFusion",
    "datafusion",
    "Arrow",
    "arrow",
    "Utf8",
    "Int64",
    "Int32",
    "Float64",
    "Optimizer",
    "optimizer",
    "Schema error",
    "Candidate",
    "nternal error",
    "bug",
    "ogical",
    "hysical",
    "thermocline.public",
    "TableScan",
    "Expr",
    "Projection",
    "External error",
    "planning",
    "sqlparser",
    "ParserError",
    "coerce",
    "signature",
    "PGSquare",
    "PGBitwise",
    "Some(",
    "None",
    "wildcard",
    "panicked",
];

/// Makes every mistake in both engines and compares the errors.
///
/// # Panics
/// If a SQLSTATE differs from PostgreSQL's, a place or hint is missing, or a message exposes a library.
pub async fn compare_mistakes(postgres: &mut Postgres, engines: &Engines) {
    for sql in TABLES {
        postgres.run(sql);
        engines.rows(sql).await.unwrap();
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("objects.parquet");
    let copy = format!("COPY (SELECT * FROM orders) TO '{}' STORED AS PARQUET", path.display());
    let table = format!("CREATE EXTERNAL TABLE goods STORED AS PARQUET LOCATION '{}'", directory.path().display());
    for sql in [copy, table] {
        engines.rows(&sql).await.unwrap();
    }
    let mut wrong = vec![];
    for (sql, place, hint) in MISTAKES {
        let expected = postgres.sqlstate(sql).unwrap_or_else(|| panic!("PostgreSQL does {sql}"));
        check(engines, sql, &expected, *place, *hint, &mut wrong).await;
        // The same by the analytic engine, which alone reads external tables.
        if sql.starts_with("SELECT")
            && sql.contains("FROM orders")
            && !sql.contains("lines")
            && !sql.contains("orders o")
        {
            let sql = sql.replace("FROM orders", "FROM goods AS orders");
            check(engines, &sql, &expected, *place, *hint, &mut wrong).await;
        }
    }
    for (sql, state, place, hint) in OWN {
        check(engines, sql, state, *place, *hint, &mut wrong).await;
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), MISTAKES.len() + OWN.len(), wrong.join("\n"));
}

async fn check(
    engines: &Engines,
    sql: &str,
    state: &str,
    place: Option<&str>,
    hint: Option<&str>,
    wrong: &mut Vec<String>,
) {
    let error = match engines.session().run(sql).await {
        Ok(_) => return wrong.push(format!("{sql}\n  is no mistake here; {state}")),
        Err(error) => error,
    };
    let mut say = |what: String| wrong.push(format!("{sql}\n  {what}\n  {} {error}", error.sqlstate()));
    if error.sqlstate() != state {
        say(format!("expected {state}"));
    }
    let library = OF_LIBRARIES.iter().find(|word| error.to_string().replace(sql, "").contains(**word));
    if let Some(word) = library {
        say(format!("says {word}"));
    }
    if let Some(place) = place {
        match at(&error) {
            Some(found) if found.starts_with(place) => {}
            found => say(format!("expected a place at {place}, found {found:?}")),
        }
    }
    if let Some(hint) = hint
        && !error.hint().is_some_and(|found| found.contains(hint))
    {
        say(format!("expected a hint with {hint}"));
    }
    if error.action() != Action::Correct {
        say(format!("whoever sees it is to {:?}", error.action()));
    }
}

/// The text at the error's place.
fn at(error: &Error) -> Option<String> {
    let position = error.position()?;
    let column = usize::try_from(position.column.checked_sub(position.start)?).ok()?;
    Some(position.text.chars().skip(column).collect())
}
