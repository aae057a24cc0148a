use thermocline_tables::schema::{Change, IndexId, IndexKind, Schema, TableId};
use thermocline_types::DataType;

use super::*;

const WAREHOUSE: &str = "
CREATE TABLE warehouse (
    w_id INTEGER PRIMARY KEY,
    w_name VARCHAR(10) NOT NULL DEFAULT 'none''s',
    w_tax DECIMAL(4,4) CHECK (w_tax >= 0 AND w_tax < 1),
    w_since TIMESTAMP DEFAULT now(),
    w_open BOOLEAN DEFAULT true
) PARTITION BY (w_id);
CREATE TABLE \"Order Line\" (
    w_id INTEGER, o_id BIGINT, number SMALLINT, \"the text\" TEXT UNIQUE, day DATE,
    PRIMARY KEY (w_id, o_id, number DESC) USING BTREE,
    CONSTRAINT sane CHECK (number > 0)
) WITH (evictable = false);
CREATE INDEX ON \"Order Line\" (day DESC, number);
CREATE INDEX by_hash ON warehouse USING HASH (w_name);
CREATE PROCEDURE pay(w INTEGER, amount DECIMAL(6,2), payer INTEGER) PARTITION ON (w, payer) LANGUAGE lua AS $x$
return '$$' -- not the end: $$
$x$;
";

fn schema(sql: &str) -> Schema {
    read_schema(sql).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn definitions_there_and_back() {
    let first = schema(WAREHOUSE);
    let text = first.to_sql();
    let second = schema(&text);
    assert_eq!(first, second, "{text}");
    assert_eq!(text, second.to_sql());

    let warehouse = first.table("warehouse").unwrap();
    assert_eq!(warehouse.id, TableId(0));
    assert_eq!(warehouse.partition_by, Some(0));
    assert!(!warehouse.columns[0].nullable);
    assert_eq!(warehouse.columns[2].data_type, DataType::Decimal { precision: 4, scale: 4 });
    assert_eq!(warehouse.indexes[0].kind, IndexKind::Hash);
    assert_eq!(&*warehouse.checks[0].name, "warehouse_w_tax_check");
    let lines = first.table("Order Line").unwrap();
    assert_eq!(lines.indexes.len(), 3);
    assert_eq!(lines.indexes[0].kind, IndexKind::Ordered);
    assert!(lines.indexes[0].columns[2].descending);
    assert!(!lines.evictable);
    assert_eq!(first.procedure("pay").unwrap().partition_on, [0, 2]);
}

/// Existing ids survive drops, and the next id follows from them.
#[test]
fn ids_survive_gaps() {
    let mut now = schema(WAREHOUSE);
    for sql in [
        "CREATE TABLE a (x BIGINT PRIMARY KEY, y BIGINT UNIQUE, z BIGINT UNIQUE)",
        "CREATE TABLE b (x BIGINT PRIMARY KEY)",
        "DROP TABLE warehouse",
        "DROP INDEX a_y_key",
    ] {
        now = define(&now, sql).unwrap().0;
    }
    let again = schema(&now.to_sql());
    assert_eq!(now, again, "{}", now.to_sql());
    assert_eq!(again.table("b").unwrap().id, TableId(3));
    let next = "CREATE TABLE c (x BIGINT PRIMARY KEY)";
    let (one, other) = (define(&now, next).unwrap().0, define(&again, next).unwrap().0);
    assert_eq!(one.table("c").unwrap().id, TableId(0));
    assert_eq!(one, other);
    let (after, change) = define(&one, "CREATE INDEX ON a (y, z)").unwrap();
    assert!(matches!(change, Change::CreateIndex { index: IndexId(1), .. }), "{change:?}");
    assert_eq!(schema(&after.to_sql()), after);
}

#[test]
fn changes_leave_the_schema_before_alone() {
    let before = schema("CREATE TABLE t (a BIGINT PRIMARY KEY)");
    let (after, change) = define(&before, "ALTER TABLE t ADD COLUMN b DECIMAL(5,2) NOT NULL DEFAULT 1 + 0.5").unwrap();
    let Change::AddColumn { table, fill } = change else { panic!() };
    assert_eq!(fill.to_string(), "1.50");
    assert_eq!(table.columns.len(), 2);
    assert_eq!(before.table("t").unwrap().columns.len(), 1);
    assert_eq!(schema(&after.to_sql()), after);
    assert_eq!(define(&before, "CREATE TABLE IF NOT EXISTS t (b TEXT)").unwrap().1, Change::None);
    assert_eq!(define(&before, "DROP TABLE IF EXISTS u").unwrap().1, Change::None);
    let (with, _) = define(&before, "CREATE PROCEDURE p() LANGUAGE SQL AS 'SELECT 1'").unwrap();
    let (again, _) = define(&with, "CREATE OR REPLACE PROCEDURE p() LANGUAGE lua AS 'return 1'").unwrap();
    assert_eq!(again.procedure("p").unwrap().version, 2);
    assert_eq!(schema(&again.to_sql()), again);
}

/// Names in conditions follow, also quoted and qualified ones; the text is read as the same definitions.
#[test]
fn tables_are_altered() {
    let mut now = schema(
        "CREATE TABLE t (a BIGINT PRIMARY KEY, b TEXT DEFAULT 'x''''y' CONSTRAINT c CHECK (b <> 'a''''b' AND t.a > - -1),
         \"C d\" BIGINT, f TEXT, CONSTRAINT u UNIQUE (b, \"C d\"), CHECK (a < \"C d\" OR t.\"C d\" IS NULL)); CREATE INDEX i ON t (b);",
    );
    for sql in [
        "ALTER TABLE t RENAME COLUMN a TO \"A\"",
        "ALTER TABLE t RENAME COLUMN \"C d\" TO e",
        "ALTER TABLE IF EXISTS public.t RENAME TO \"T 2\"",
        "ALTER TABLE \"T 2\" ALTER COLUMN e SET DEFAULT 7 - -1",
        "ALTER TABLE \"T 2\" RENAME CONSTRAINT c TO d",
        "ALTER TABLE \"T 2\" ALTER b DROP DEFAULT",
        "ALTER TABLE \"T 2\" ALTER f SET NOT NULL",
        "ALTER TABLE \"T 2\" ALTER COLUMN f DROP NOT NULL",
        "ALTER TABLE \"T 2\" RENAME CONSTRAINT u TO v",
    ] {
        let (after, change) = define(&now, sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
        assert!(matches!(change, Change::Redefine(_)), "{sql}");
        assert_eq!(schema(&after.to_sql()), after, "{sql}");
        now = after;
    }
    let table = now.table("T 2").unwrap();
    let names: Vec<&str> = table.columns.iter().map(|column| &*column.name).collect();
    assert_eq!(names, ["A", "b", "e", "f"]);
    assert_eq!(table.columns[1].default, None);
    let checks: Vec<(&str, &str)> = table.checks.iter().map(|check| (&*check.name, &*check.condition)).collect();
    assert_eq!(
        checks,
        [("d", "b <> $q$a''b$q$ AND \"T 2\".\"A\" > -(-1)"), ("t_check", "\"A\" < \"e\" OR \"T 2\".\"e\" IS NULL")]
    );
    let (_, change) = define(&now, "ALTER TABLE \"T 2\" DROP CONSTRAINT v").unwrap();
    assert!(matches!(change, Change::DropIndex { index: IndexId(1), .. }));
    let (_, change) = define(&now, "ALTER TABLE \"T 2\" ADD CONSTRAINT w UNIQUE (e)").unwrap();
    assert!(matches!(change, Change::CreateIndex { index: IndexId(3), .. }));
    assert_eq!(define(&now, "ALTER TABLE \"T 2\" DROP CONSTRAINT IF EXISTS x").unwrap().1, Change::None);
    assert_eq!(define(&now, "ALTER TABLE IF EXISTS t RENAME TO x").unwrap().1, Change::None);
}

/// The engine gives rows a key where users give none.
#[test]
fn tables_without_a_key() {
    let now = schema(
        "CREATE TABLE a (x BIGINT DEFAULT 1, y TEXT CHECK (y <> ''));
         CREATE TABLE b (rowid BIGINT, y TEXT UNIQUE);
         CREATE TABLE c (x BIGINT) PARTITION BY (x);
         CREATE TABLE d (x BIGINT) WITH (replicated = true, evictable = false);
         CREATE TABLE e (x BIGINT, y BIGINT, UNIQUE (x)) PARTITION BY (x);
         CREATE INDEX i ON a (y);",
    );
    assert_eq!(schema(&now.to_sql()), now, "{}", now.to_sql());
    let by: Vec<(&str, Option<usize>)> = now.tables().map(|table| (&*table.name, table.partition_by)).collect();
    assert_eq!(by, [("a", Some(0)), ("b", None), ("c", Some(1)), ("d", None), ("e", Some(1))]);
    for table in now.tables() {
        assert!(table.has_row_key && table.indexes[0].columns[0].column == 0, "{}", table.name);
        assert!(table.listed_columns().all(|(_, column)| column.data_type != DataType::Uuid));
    }
    assert_eq!(&*now.table("a").unwrap().columns[0].name, "rowid");
    assert_eq!(&*now.table("b").unwrap().columns[0].name, "rowid_1");
    let (after, _) = define(&now, "ALTER TABLE a RENAME TO z").unwrap();
    assert_eq!(schema(&after.to_sql()), after);
    define(&after, "CREATE TABLE a (x BIGINT)").unwrap();
    assert_eq!(define(&now, "ALTER TABLE a ADD COLUMN rowid TEXT").unwrap_err().sqlstate(), "42701");
    for sql in [
        "ALTER TABLE a RENAME COLUMN rowid TO k",
        "ALTER TABLE a ALTER rowid DROP DEFAULT",
        "CREATE INDEX ON a (y, rowid)",
        "CREATE UNIQUE INDEX ON a (y)",
        "CREATE TABLE x (a TEXT, CHECK (x.rowid IS NOT NULL))",
        "CREATE TABLE x (a TEXT) PARTITION BY (rowid)",
    ] {
        assert_eq!(define(&now, sql).unwrap_err().sqlstate(), "42P16", "{sql}");
    }
    // The name of the key follows those of the columns.
    let (after, _) = define(&now, "ALTER TABLE b RENAME COLUMN rowid TO k").unwrap();
    assert_eq!(&*schema(&after.to_sql()).table("b").unwrap().columns[0].name, "rowid");
}

#[test]
fn tables_are_replaced_and_swapped() {
    let now = schema(
        "CREATE TABLE a (x BIGINT PRIMARY KEY, CHECK (a.x > 0)); CREATE INDEX i ON a (x); CREATE TABLE b (y TEXT);",
    );
    let (after, change) =
        define(&now, "CREATE OR REPLACE TABLE a (z TEXT PRIMARY KEY, CONSTRAINT i UNIQUE (z))").unwrap();
    let Change::ReplaceTable { before, table } = change else { panic!() };
    assert_eq!((before.id, table.id), (TableId(0), TableId(2)));
    assert_eq!(&*table.indexes[1].name, "i");
    assert_eq!(schema(&after.to_sql()), after);
    assert!(matches!(define(&now, "CREATE OR REPLACE TABLE c (z TEXT)").unwrap().1, Change::CreateTable(_)));

    let (after, change) = define(&now, "ALTER TABLE b SWAP WITH a").unwrap();
    assert!(matches!(change, Change::Redefine(tables) if tables.len() == 2));
    assert_eq!(after.table("b").unwrap().id, TableId(0));
    assert_eq!(&*after.table("b").unwrap().checks[0].condition, "\"b\".x > 0");
    assert_eq!(schema(&after.to_sql()), after);
    assert_eq!(define(&now, "ALTER TABLE a SWAP WITH a").unwrap().1, Change::None);
}

#[test]
fn what_is_refused() {
    let base = schema(WAREHOUSE);
    for (sql, state) in [
        ("CREATE TABLE t (a BIGINT) PARTITION BY (a) WITH (replicated = true)", "42P16"),
        ("CREATE TABLE t (a BIGINT PRIMARY KEY) WITH (replicated = false)", "42P16"),
        ("CREATE TABLE warehouse (a BIGINT PRIMARY KEY)", "42P07"),
        ("CREATE TABLE t (a BIGINT PRIMARY KEY, a TEXT)", "42701"),
        ("CREATE TABLE t (a BIGINT PRIMARY KEY, b BIGINT PRIMARY KEY)", "42P16"),
        ("CREATE TABLE t (a NUMERIC PRIMARY KEY)", "42P16"),
        ("CREATE TABLE t (a DECIMAL(39,0) PRIMARY KEY)", "22023"),
        ("CREATE TABLE t (a BIGINT PRIMARY KEY, b DECIMAL(5,6))", "22023"),
        ("CREATE TABLE t (a INET PRIMARY KEY)", "0A000"),
        ("CREATE TABLE t (a BIGINT PRIMARY KEY, b BIGINT) PARTITION BY (b)", "42P16"),
        ("CREATE TABLE t (a BIGINT PRIMARY KEY, b BIGINT UNIQUE) PARTITION BY (a)", "42P16"),
        ("CREATE TABLE t (a BIGINT PRIMARY KEY) PARTITION BY (c)", "42703"),
        ("CREATE TABLE t (a BIGINT PRIMARY KEY, CHECK (c > 1))", "42703"),
        ("CREATE TABLE t (a BIGINT PRIMARY KEY, CHECK (a + 1))", "42804"),
        ("CREATE TABLE t (a BIGINT PRIMARY KEY CHECK (random() < 1))", "42P16"),
        ("CREATE TABLE t (a BIGINT PRIMARY KEY DEFAULT 'x')", "22P02"),
        ("CREATE TABLE t (a SMALLINT PRIMARY KEY DEFAULT 100000)", "22003"),
        ("CREATE TABLE t (a BIGINT PRIMARY KEY DEFAULT b)", "42703"),
        ("CREATE TABLE t (a BIGINT PRIMARY KEY) WITH (fast = true)", "22023"),
        ("CREATE TABLE t (a BIGINT REFERENCES warehouse, PRIMARY KEY (a))", "0A000"),
        ("CREATE INDEX i ON nowhere (a)", "42P01"),
        ("CREATE INDEX i ON warehouse (a)", "42703"),
        ("CREATE INDEX by_hash ON warehouse (w_tax)", "42P07"),
        ("CREATE UNIQUE INDEX i ON warehouse (w_name)", "42P16"),
        ("DROP INDEX warehouse_pkey", "2BP01"),
        ("DROP TABLE nowhere", "42P01"),
        ("ALTER TABLE warehouse ADD COLUMN b BIGINT NOT NULL", "23502"),
        ("ALTER TABLE warehouse ADD COLUMN b TIMESTAMP DEFAULT now()", "0A000"),
        ("ALTER TABLE warehouse DROP COLUMN w_name", "0A000"),
        ("ALTER TABLE warehouse RENAME TO \"Order Line\"", "42P07"),
        ("ALTER TABLE warehouse RENAME TO by_hash", "42P07"),
        ("ALTER TABLE warehouse RENAME COLUMN w_tax TO w_name", "42701"),
        ("ALTER TABLE warehouse RENAME COLUMN nothing TO x", "42703"),
        ("ALTER TABLE warehouse RENAME CONSTRAINT nothing TO x", "42704"),
        ("ALTER TABLE warehouse RENAME CONSTRAINT warehouse_pkey TO by_hash", "42710"),
        ("ALTER TABLE warehouse ALTER COLUMN w_tax SET DEFAULT 'much'", "22P02"),
        ("ALTER TABLE warehouse ALTER COLUMN w_tax SET DEFAULT w_id", "42703"),
        ("ALTER TABLE warehouse ALTER w_id DROP NOT NULL", "42P16"),
        ("ALTER TABLE warehouse ALTER w_name DROP NOT NULL", "0A000"),
        ("ALTER TABLE warehouse DROP CONSTRAINT warehouse_pkey", "2BP01"),
        ("ALTER TABLE warehouse DROP CONSTRAINT nothing", "42704"),
        ("ALTER TABLE warehouse ADD UNIQUE (w_name)", "42P16"),
        ("ALTER TABLE nowhere RENAME TO x", "42P01"),
        ("ALTER TABLE warehouse SWAP WITH nowhere", "42P01"),
        ("CREATE OR REPLACE TABLE warehouse (a BIGINT DEFAULT 'x')", "22P02"),
        ("ALTER TABLE warehouse RENAME COLUMN w_tax TO x, DROP CONSTRAINT warehouse_w_tax_check", "0A000"),
        ("CREATE PROCEDURE pay() LANGUAGE SQL AS ''", "42723"),
        ("CREATE PROCEDURE p(a BIGINT) PARTITION ON (b) LANGUAGE SQL AS ''", "42P13"),
        ("CREATE PROCEDURE p(a BIGINT) PARTITION ON (a, A) LANGUAGE SQL AS ''", "42P13"),
        ("CREATE PROCEDURE p() LANGUAGE c AS ''", "42704"),
        ("DROP PROCEDURE p", "42883"),
        ("SELECT 1", "42601"),
    ] {
        match define(&base, sql) {
            Err(error) => assert_eq!(error.sqlstate(), state, "{sql}: {error}"),
            Ok(_) => panic!("{sql}"),
        }
    }
}
