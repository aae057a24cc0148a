//! An index never changes an answer: random conditions over an indexed table and over a table without the indexes.
//!
//! Both have the same rows. `THERMOCLINE_ACCESS_SECONDS` runs it longer than its 5 seconds, `THERMOCLINE_ACCESS_SEED`
//! one seed again.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

mod common;

use std::time::{Duration, Instant};

use common::RowSession;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use thermocline_transactions::sql::Prepared;
use thermocline_transactions::types::{Decimal, Value, ValueRef};

/// Types that compare with each other, and their literals, many at the limits of one numeric type's range or precision.
const FAMILIES: [(&[&str], &[&str]); 4] = [
    (
        &["SMALLINT", "INTEGER", "BIGINT", "DOUBLE PRECISION", "DECIMAL(6, 2)", "DECIMAL(20, 0)", "DECIMAL(38, 20)"],
        &[
            "0",
            "1",
            "2",
            "3",
            "(-1)",
            "(-2)",
            "32767",
            "2147483647",
            "9007199254740991",
            "9007199254740992",
            "9007199254740993",
            "9007199254740994",
            "(-9007199254740993)",
            "9223372036854775807",
            "(-9223372036854775808)",
            "0.1",
            "0.30",
            "0.3",
            "1.5",
            "2.50",
            "(-0.01)",
            "9007199254740992.5",
            "0.30000000000000004",
            "99999999999999999999999999999999999999",
            "CAST(0 AS DOUBLE PRECISION)",
            "CAST('-0' AS DOUBLE PRECISION)",
            "CAST(2 AS DOUBLE PRECISION)",
            "CAST('1.5' AS DOUBLE PRECISION)",
            "CAST('0.1' AS DOUBLE PRECISION)",
            "CAST('0.30000000000000004' AS DOUBLE PRECISION)",
            "CAST('0.3' AS DOUBLE PRECISION)",
            "CAST('5e-324' AS DOUBLE PRECISION)",
            "CAST('1e300' AS DOUBLE PRECISION)",
            "CAST('9007199254740992' AS DOUBLE PRECISION)",
            "CAST('9007199254740994' AS DOUBLE PRECISION)",
            "CAST('9223372036854775808' AS DOUBLE PRECISION)",
            "CAST('NaN' AS DOUBLE PRECISION)",
            "(CAST('Infinity' AS DOUBLE PRECISION) - CAST('Infinity' AS DOUBLE PRECISION))",
            "CAST('Infinity' AS DOUBLE PRECISION)",
            "CAST('-Infinity' AS DOUBLE PRECISION)",
        ],
    ),
    (
        &["TEXT", "VARCHAR(3)", "VARCHAR(8)"],
        &["''", "'a'", "'A'", "'ab'", "'ab '", "'abc'", "'abcd'", "'b'", "'é'", "'a\u{1}'", "CAST('ab' AS VARCHAR(2))"],
    ),
    (
        &["DATE", "TIMESTAMP"],
        &[
            "DATE '2024-02-29'",
            "DATE '2024-03-01'",
            "DATE '0001-01-01'",
            "DATE '9999-12-31'",
            "DATE '1969-12-31'",
            "TIMESTAMP '2024-02-29 00:00:00'",
            "TIMESTAMP '2024-02-29 00:00:00.000001'",
            "TIMESTAMP '2024-02-28 23:59:59.999999'",
            "TIMESTAMP '1969-12-31 12:00:00'",
            "TIMESTAMP '1970-01-01 00:00:00'",
        ],
    ),
    (&["BOOLEAN"], &["TRUE", "FALSE"]),
];

/// Parameters of a family.
fn parameters(family: usize) -> Vec<Value> {
    let decimal = |text| Value::Decimal(Decimal::parse(text).unwrap());
    match family {
        0 => vec![
            Value::Int(1),
            Value::Int(2),
            Value::Int(9_007_199_254_740_993),
            Value::Int(i64::MIN),
            Value::Float(2.0),
            Value::Float(2.5),
            Value::Float(0.1),
            Value::Float(0.1 + 0.2),
            Value::Float(9_007_199_254_740_992.0),
            Value::Float(-0.0),
            decimal("0.30"),
            decimal("1.5"),
            decimal("9007199254740992.5"),
        ],
        1 => vec!["a".into(), "ab".into(), "abcd".into(), "".into()],
        2 => vec![Value::Date(19_782), Value::Timestamp(19_782 * 86_400_000_000), Value::Timestamp(-1)],
        _ => vec![true.into(), false.into()],
    }
}

struct Column {
    name: &'static str,
    family: usize,
    data_type: &'static str,
}

struct Case<'r> {
    random: &'r mut StdRng,
    columns: Vec<Column>,
    parameters: Vec<Value>,
}

impl<'r> Case<'r> {
    fn new(random: &'r mut StdRng) -> Self {
        let columns = ["a", "b", "c"].map(|name| {
            // Mostly numbers, which have the most types.
            let family = *[0, 0, 0, 1, 2, 3].choose(random).unwrap();
            Column { name, family, data_type: FAMILIES[family].0.choose(random).unwrap() }
        });
        Self { random, columns: columns.into(), parameters: Vec::new() }
    }

    fn below(&mut self, n: usize) -> usize {
        self.random.random_range(0..n)
    }

    fn literal(&mut self, family: usize) -> String {
        (*FAMILIES[family].1.choose(self.random).unwrap()).to_owned()
    }

    /// A value to compare with, sometimes NULL or a parameter.
    fn value(&mut self, family: usize) -> String {
        match self.below(16) {
            0 => "NULL".to_owned(),
            1..=2 if self.parameters.len() < 20 => {
                let value = parameters(family).choose(self.random).unwrap().clone();
                self.parameters.push(value);
                format!("${}", self.parameters.len())
            }
            _ => self.literal(family),
        }
    }

    /// A condition of one column.
    fn term(&mut self, place: usize) -> String {
        let Column { name, family, .. } = self.columns[place];
        match self.below(12) {
            0..4 => format!("{name} = {}", self.value(family)),
            4..6 => {
                let operator = *["<", "<=", ">", ">="].choose(self.random).unwrap();
                let value = self.value(family);
                if self.below(4) == 0 {
                    format!("{value} {operator} {name}")
                } else {
                    format!("{name} {operator} {value}")
                }
            }
            6 => format!("{name} BETWEEN {} AND {}", self.value(family), self.value(family)),
            7 => format!("{name} IS NULL"),
            8 => format!("{name} <> {}", self.value(family)),
            _ => {
                let count = 1 + self.below(5);
                let list: Vec<_> = (0..count).map(|_| self.value(family)).collect();
                let not = if self.below(10) == 0 { "NOT " } else { "" };
                format!("{name} {not}IN ({})", list.join(", "))
            }
        }
    }

    /// Terms of the first columns, as keys have them.
    fn chain(&mut self) -> String {
        let length = 1 + self.below(3);
        let terms: Vec<_> = (0..length).map(|place| self.term(place)).collect();
        terms.join(" AND ")
    }

    fn condition(&mut self, depth: usize) -> String {
        if depth == 0 {
            let place = self.below(3);
            return if self.below(2) == 0 { self.chain() } else { self.term(place) };
        }
        let sides = 2 + self.below(2);
        let joined = if self.below(2) == 0 { " OR " } else { " AND " };
        let sides: Vec<_> = (0..sides).map(|_| format!("({})", self.condition(depth - 1))).collect();
        match self.below(12) {
            0 => format!("NOT ({})", sides.join(joined)),
            1 => format!("v < 3{joined}{}", sides.join(joined)),
            _ => sides.join(joined),
        }
    }

    fn indexes(&mut self) -> Vec<String> {
        let all =
            [&["a"][..], &["b"], &["c"], &["a", "b"], &["b", "a"], &["a", "b", "c"], &["c", "a"], &["b", "c", "v"]];
        let count = 1 + self.below(4);
        (0..count)
            .map(|number| {
                let columns = *all.choose(self.random).unwrap();
                let hash = self.below(3) == 0;
                let unique = if columns.contains(&"a") && self.below(4) == 0 { "UNIQUE " } else { "" };
                let columns: Vec<String> = columns
                    .iter()
                    .map(|column| if !hash && self.below(3) == 0 { format!("{column} DESC") } else { (*column).into() })
                    .collect();
                let using = if hash { " USING HASH" } else { "" };
                format!("CREATE {unique}INDEX x_{number} ON x{using} ({})", columns.join(", "))
            })
            .collect()
    }
}

#[derive(Debug, Default)]
struct Counts {
    statements: usize,
    unions: usize,
    some_partitions: usize,
    by_index: usize,
    rows: usize,
    refused: usize,
}

fn run(session: &mut RowSession, sql: &str, parameters: &[Value]) -> Result<(Vec<String>, u64), String> {
    let prepared = Prepared::new(&session.schema, sql).map_err(|error| error.sqlstate().to_owned())?;
    let outcome = session.execute(&prepared, parameters).map_err(|error| error.sqlstate().to_owned())?;
    let text = |value: ValueRef<'_>| match value {
        // The order of two equal zeros is unspecified.
        ValueRef::Float(0.0) => "0".to_owned(),
        other => other.to_string(),
    };
    let row = |row: usize| outcome.rows.row(row).map(text).collect::<Vec<_>>().join(" ");
    Ok(((0..outcome.rows.len()).map(row).collect(), outcome.affected))
}

/// Runs a statement over `x`, which has indexes on these columns, and over `s`, which has none.
fn compare(session: &mut RowSession, sql: &str, ordered: bool, parameters: &[Value], counts: &mut Counts) {
    let name = |table: &str| sql.replace("TABLE", table);
    let explain = run(session, &format!("EXPLAIN {}", name("x")), parameters);
    let explain = explain.map(|(lines, _)| lines.join("\n")).unwrap_or_default();
    let mut answers = ["x", "s"].map(|table| run(session, &name(table), parameters));
    if !ordered {
        answers.iter_mut().flatten().for_each(|(rows, _)| rows.sort());
    }
    let [by_index, by_scan] = answers;
    counts.statements += 1;
    if by_index.as_ref().is_err_and(|state| state == "0A000") {
        // A join without an index.
        counts.refused += 1;
        return;
    }
    counts.unions += usize::from(explain.contains(" keys") || explain.contains(" ranges"));
    counts.some_partitions += usize::from(explain.contains("partitions: those"));
    counts.by_index += usize::from(explain.contains(" by "));
    match &by_scan {
        Ok((rows, _)) => counts.rows += rows.len(),
        Err(_) => counts.refused += 1,
    }
    let differs = by_index.iter().zip(&by_scan).find_map(|((one, _), (other, _))| {
        let place = (0..one.len().max(other.len())).find(|place| one.get(*place) != other.get(*place))?;
        Some(format!("row {place}: {:?} by index, {:?} by scan", one.get(place), other.get(place)))
    });
    assert!(
        by_index == by_scan,
        "{}\n{parameters:?}\n{explain}\n{differs:?} {:?} {:?}",
        name("x"),
        by_index.as_ref().map(|(rows, affected)| (rows.len(), affected)),
        by_scan.as_ref().map(|(rows, affected)| (rows.len(), affected)),
    );
}

fn one_seed(seed: u64, partitions: u32, counts: &mut Counts) {
    let mut random = StdRng::seed_from_u64(seed);
    let mut case = Case::new(&mut random);
    let mut session = RowSession::new(partitions);
    let types: Vec<_> = case.columns.iter().map(|column| column.data_type).collect();
    let nullable = if case.below(2) == 0 { "" } else { " NOT NULL" };
    let columns = format!(
        "id INTEGER, a {} NOT NULL, b {}{nullable}, c {}, v INTEGER, one INTEGER",
        types[0], types[1], types[2]
    );
    // The scanned table is joined through a column with the same value in all rows.
    for sql in [
        format!("CREATE TABLE x ({columns}, PRIMARY KEY (a, id)) PARTITION BY (a)"),
        format!("CREATE TABLE s ({columns}, PRIMARY KEY (id, a)) PARTITION BY (a)"),
        "CREATE INDEX s_one ON s (one)".to_owned(),
        format!("CREATE TABLE o (k INTEGER PRIMARY KEY, p {}, q {}, one INTEGER)", types[1], types[1]),
    ] {
        session.run(&sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
    for sql in case.indexes() {
        // Two indexes of one name are not the subject of this test.
        session.run(&sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
    let families: Vec<_> = case.columns.iter().map(|column| column.family).collect();
    for id in 0..60 {
        let values: Vec<_> = (0..3)
            .map(|place| match case.below(8) {
                0 if place > 0 => "NULL".to_owned(),
                _ => case.literal(families[place]),
            })
            .collect();
        let row = format!("({id}, {}, {}, 1)", values.join(", "), case.below(6));
        // A row that does not fit the columns, or exists already, goes into neither.
        if session.run(&format!("INSERT INTO x VALUES {row}")).is_ok() {
            session.run(&format!("INSERT INTO s VALUES {row}")).unwrap();
        }
        let pair = format!("({id}, {}, {}, 1)", case.literal(families[1]), case.literal(families[1]));
        let _does_not_fit = session.run(&format!("INSERT INTO o VALUES {pair}"));
    }
    for _ in 0..40 {
        case.parameters.clear();
        let depth = case.below(3);
        let condition = case.condition(depth);
        let way = |case: &mut Case<'_>| *["", " DESC"].choose(case.random).unwrap();
        let (sql, ordered) = match case.below(10) {
            0..3 => (format!("SELECT id, a, b FROM TABLE WHERE {condition}"), false),
            3..5 => {
                let keys = *["a, b", "b, c", "a, b, c", "c", "b, a"].choose(case.random).unwrap();
                let keys: Vec<_> = keys.split(", ").map(|key| format!("{key}{}", way(&mut case))).collect();
                let limit = if case.below(2) == 0 { " LIMIT 5" } else { "" };
                let outputs = keys.iter().map(|key| key.trim_end_matches(" DESC").to_owned()).collect::<Vec<_>>();
                let keys = keys.join(", ");
                // Compares only the ordered columns: rows with equal keys may be in any order.
                (format!("SELECT {} FROM TABLE WHERE {condition} ORDER BY {keys}{limit}", outputs.join(", ")), true)
            }
            5 => (format!("SELECT count(*), count(b), min(a), max(c) FROM TABLE WHERE {condition}"), true),
            6 => {
                let list = ["b IN (o.p, o.q)", "b = o.p", "b BETWEEN o.p AND o.q", "(b = o.p OR b < o.q AND c = c)"];
                let list = *list.choose(case.random).unwrap();
                (format!("SELECT o.k, t.id FROM o JOIN TABLE t ON t.one = o.one AND {list} WHERE {condition}"), false)
            }
            7..9 => (format!("UPDATE TABLE SET v = v + id, c = c WHERE {condition} RETURNING id, v"), false),
            _ => (format!("DELETE FROM TABLE WHERE id > 20 AND ({condition}) RETURNING id"), false),
        };
        let parameters = std::mem::take(&mut case.parameters);
        compare(&mut session, &sql, ordered, &parameters, counts);
    }
    session.check();
}

#[test]
fn indexes_and_scans_answer_alike() {
    let seconds = std::env::var("THERMOCLINE_ACCESS_SECONDS").map_or(5, |seconds| seconds.parse().unwrap());
    let mut counts = Counts::default();
    if let Ok(seed) = std::env::var("THERMOCLINE_ACCESS_SEED") {
        let seed = seed.parse().unwrap();
        return one_seed(seed, [1, 3][(seed % 2) as usize], &mut counts);
    }
    let started = Instant::now();
    let first = u64::from(std::process::id()) << 32;
    for seed in (0..).map(|seed| if seed < 100 { seed } else { first + seed }) {
        if started.elapsed() > Duration::from_secs(seconds) && seed >= 20 {
            break;
        }
        let ran = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            one_seed(seed, [1, 3][(seed % 2) as usize], &mut counts);
        }));
        assert!(ran.is_ok(), "seed {seed}");
    }
    println!("{counts:?}");
    assert!(counts.unions * 10 > counts.statements, "{counts:?}");
    assert!(counts.by_index * 3 > counts.statements && counts.some_partitions > 10, "{counts:?}");
    assert!(counts.rows > counts.statements && counts.refused * 10 < counts.statements, "{counts:?}");
}
