//! Random queries over the table, compared with PostgreSQL.

use std::fmt::Write;

use thermocline_transactions::random::Random;

use super::engines::{Engines, Way};
use super::postgres::Postgres;
use super::values::{TYPES, Values, is_key};

/// Default number of queries.
const QUERIES: u64 = 400;

/// Runs random queries everywhere, as many as `THERMOCLINE_SEMANTICS_QUERIES` says.
///
/// # Panics
/// If the rows of a query differ here.
pub async fn compare_queries(postgres: &mut Postgres, engines: &Engines) {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let queries = number("THERMOCLINE_SEMANTICS_QUERIES").unwrap_or(QUERIES);
    let first = number("THERMOCLINE_SEMANTICS_SEED").unwrap_or(0);
    let mut differences = vec![];
    let (mut evaluations, mut rows, mut refused) = (0, 0, 0);
    for seed in first..first + queries {
        let query = Query::random(seed);
        // Mostly numbers out of range.
        let Ok(expected) = postgres.rows(&query.sql("p"), query.columns) else {
            refused += 1;
            continue;
        };
        rows += expected.len();
        let expected = canonical(expected, query.is_ordered);
        for way in Way::ALL {
            evaluations += 1;
            let sql = match way {
                Way::Index => query.sql("indexed"),
                Way::Scan => query.sql("p"),
                Way::Analytic => format!("WITH q AS (SELECT * FROM p) {}", query.sql("q")),
                Way::Objects => query.sql("objects"),
            };
            match engines.rows(&sql).await.map(|found| canonical(found, query.is_ordered)) {
                Ok(found) if found == expected => {}
                Ok(found) => differences.push(format!(
                    "seed {seed}, {way:?}: {sql}\n  {} rows to PostgreSQL, {} here: {:?}, {:?}",
                    expected.len(),
                    found.len(),
                    only_in(&expected, &found),
                    only_in(&found, &expected)
                )),
                Err(error) => differences.push(format!("seed {seed}, {way:?}: {sql}\n  {error}")),
            }
        }
    }
    println!(
        "{queries} queries, {refused} refused by PostgreSQL; {evaluations} evaluations, {rows} rows of PostgreSQL's"
    );
    assert!(differences.is_empty(), "{} differ:\n{}", differences.len(), differences.join("\n"));
    assert!(rows as u64 > queries, "most queries have rows");
}

type Row = Vec<Option<String>>;

/// Rows in canonical form: equal numbers have one text, and rows without an order are sorted.
fn canonical(mut rows: Vec<Row>, is_ordered: bool) -> Vec<Row> {
    for value in rows.iter_mut().flatten().flatten() {
        let digits = value.split('e').next().unwrap_or_default().bytes().filter(u8::is_ascii_digit).count();
        *value = match value.parse::<f64>() {
            Ok(number) if digits <= 17 => format!("{:e}", number + 0.0),
            Ok(_) => super::engines::plain(value),
            Err(_) => std::mem::take(value),
        };
    }
    if !is_ordered {
        rows.sort();
    }
    rows
}

/// The first rows missing on the other side.
fn only_in(one: &[Row], other: &[Row]) -> Vec<Row> {
    one.iter().filter(|row| !other.contains(row)).take(2).cloned().collect()
}

/// A query.
struct Query {
    /// With `{}` for the table.
    text: String,
    /// Number of columns, `c0` and on.
    columns: usize,
    is_ordered: bool,
}

impl Query {
    fn sql(&self, table: &str) -> String {
        self.text.replace("{}", table)
    }

    fn random(seed: u64) -> Self {
        let mut random = Random::new(seed);
        match random.index(8) {
            0 => Self::rows(&mut random),
            6 => Self::values(&mut random),
            7 => Self::counts_of_values(&mut random),
            1 => Self::groups(&mut random),
            2 => Self::join(&mut random),
            3 => Self::distinct(&mut random),
            4 => Self::set(&mut random),
            _ => Self::first_rows(&mut random),
        }
    }

    fn rows(random: &mut Random) -> Self {
        let columns = 1 + random.index(3);
        let list: Vec<String> = (0..columns).map(|at| format!("{} AS c{at}", scalar(random, "a"))).collect();
        let condition = condition(random, "a", 2);
        Self {
            text: format!("SELECT {} FROM {{}} AS a WHERE {condition}", list.join(", ")),
            columns,
            is_ordered: false,
        }
    }

    /// Subqueries and rows used as values.
    fn values(random: &mut Random) -> Self {
        let list = [truth(random), truth(random), scalar_subquery(random)];
        let list: Vec<String> = list.iter().enumerate().map(|(at, item)| format!("{item} AS c{}", at + 1)).collect();
        let rest = match random.one_in(2) {
            true => format!("WHERE {} ORDER BY a.id", truth(random)),
            false => format!("ORDER BY {} NULLS FIRST, a.id", truth(random)),
        };
        let text = format!("SELECT a.id AS c0, {} FROM {{}} AS a {rest} LIMIT 30", list.join(", "));
        Self { text, columns: 4, is_ordered: true }
    }

    fn counts_of_values(random: &mut Random) -> Self {
        let (key, counted, filter) = (truth(random), truth(random), truth(random));
        let text = format!(
            "SELECT {key} AS c0, sum(CASE WHEN {counted} THEN 1 ELSE 0 END) AS c1, count(*) FILTER (WHERE {filter}) AS c2,
                    max({}) AS c3 FROM {{}} AS a GROUP BY 1",
            scalar_subquery(random)
        );
        Self { text, columns: 4, is_ordered: false }
    }

    fn groups(random: &mut Random) -> Self {
        let keys: Vec<String> = (0..random.index(3)).map(|_| any_column(random)).collect();
        let mut list: Vec<String> = keys.iter().enumerate().map(|(at, key)| format!("{key} AS c{at}")).collect();
        for _ in 0..1 + random.index(3) {
            list.push(format!("{} AS c{}", aggregate(random, "a"), list.len()));
        }
        let mut text = format!("SELECT {} FROM {{}} AS a", list.join(", "));
        if random.one_in(2) {
            write!(text, " WHERE {}", condition(random, "a", 1)).unwrap();
        }
        if !keys.is_empty() {
            write!(text, " GROUP BY {}", keys.join(", ")).unwrap();
            if random.one_in(3) {
                write!(text, " HAVING count(*) > {}", random.index(8)).unwrap();
            }
        }
        Self { text, columns: list.len(), is_ordered: false }
    }

    fn join(random: &mut Random) -> Self {
        let of = any(random);
        let kind = one_of(random, &["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"]);
        let on = format!("a.l_{0} = b.r_{0}", of.name);
        let narrowing = if *kind == "JOIN" && random.one_in(2) {
            format!(" AND {}", plain_comparison(random, "b"))
        } else {
            String::new()
        };
        let list = [aggregate(random, "a"), aggregate(random, "b"), "count(*)".to_owned()];
        let list: Vec<String> = list.iter().enumerate().map(|(at, item)| format!("{item} AS c{at}")).collect();
        let condition = if random.one_in(2) { format!(" WHERE {}", condition(random, "a", 1)) } else { String::new() };
        Self {
            text: format!("SELECT {} FROM {{}} AS a {kind} {{}} AS b ON {on}{narrowing}{condition}", list.join(", ")),
            columns: 3,
            is_ordered: false,
        }
    }

    fn distinct(random: &mut Random) -> Self {
        let columns = 1 + random.index(2);
        let list: Vec<String> = (0..columns).map(|at| format!("{} AS c{at}", any_column(random))).collect();
        Self {
            text: format!("SELECT DISTINCT {} FROM {{}} AS a WHERE {}", list.join(", "), condition(random, "a", 1)),
            columns,
            is_ordered: false,
        }
    }

    fn set(random: &mut Random) -> Self {
        let of = any(random);
        let sides = ["l", "r"].map(|side| {
            format!("SELECT a.{side}_{} AS c0 FROM {{}} AS a WHERE {}", of.name, condition(random, "a", 1))
        });
        let operator = one_of(random, &["UNION", "UNION ALL", "EXCEPT", "INTERSECT", "EXCEPT ALL", "INTERSECT ALL"]);
        let [left, right] = sides;
        Self { text: format!("({left}) {operator} ({right})"), columns: 1, is_ordered: false }
    }

    fn first_rows(random: &mut Random) -> Self {
        let of = any(random);
        let order = one_of(random, &["", " DESC", " NULLS FIRST", " DESC NULLS LAST"]);
        let text = format!(
            "SELECT a.id AS c0, {} AS c1 FROM {{}} AS a WHERE {} ORDER BY a.l_{}{order}, a.id LIMIT {} OFFSET {}",
            scalar(random, "a"),
            condition(random, "a", 1),
            of.name,
            1 + random.index(20),
            random.index(5)
        );
        Self { text, columns: 2, is_ordered: true }
    }
}

fn one_of<'a, T>(random: &mut Random, choices: &'a [T]) -> &'a T {
    random.pick(choices).unwrap()
}

fn any(random: &mut Random) -> &'static Values {
    // The analytic engine does not group documents.
    loop {
        let of = one_of(random, TYPES);
        if is_key(of) {
            return of;
        }
    }
}

fn column(random: &mut Random, table: &str, of: &Values) -> String {
    format!("{table}.{}_{}", one_of(random, &["l", "r"]), of.name)
}

/// A column of the table `a`.
fn any_column(random: &mut Random) -> String {
    let of = any(random);
    column(random, "a", of)
}

fn literal(random: &mut Random, of: &Values) -> String {
    format!("CAST({} AS {})", one_of(random, of.values), of.sql)
}

/// A value that is never out of range.
fn scalar(random: &mut Random, table: &str) -> String {
    let of = any(random);
    let one = column(random, table, of);
    match random.index(5) {
        0 => format!("coalesce({one}, {})", literal(random, of)),
        1 => format!("CASE WHEN {} THEN {one} ELSE {} END", plain_comparison(random, table), column(random, table, of)),
        2 => format!("nullif({one}, {})", literal(random, of)),
        3 if ["i2", "i4", "dec"].contains(&of.name) => format!("CAST({one} AS DECIMAL(20, 4)) * 3 - 1"),
        _ => one,
    }
}

fn aggregate(random: &mut Random, table: &str) -> String {
    let of = any(random);
    let one = column(random, table, of);
    match (random.index(5), of.name) {
        (0, _) => "count(*)".to_owned(),
        (1, _) => format!("count(DISTINCT {one})"),
        (2 | 3, "i2" | "i4" | "dec") => format!("sum({one})"),
        // PostgreSQL has no such function for these types.
        (2 | 3, name) if !["bool", "bytes", "uuid"].contains(&name) => {
            format!("{}({one})", one_of(random, &["min", "max"]))
        }
        _ => format!("count({one})"),
    }
}

fn condition(random: &mut Random, table: &str, depth: usize) -> String {
    if depth == 0 || random.one_in(3) {
        return comparison(random, table);
    }
    let (one, other) = (condition(random, table, depth - 1), condition(random, table, depth - 1));
    match random.index(5) {
        0 => format!("NOT ({one})"),
        1 | 2 => format!("({one} OR {other})"),
        _ => format!("({one} AND {other})"),
    }
}

/// Types of numbers, which compare with each other.
const NUMBERS: [&str; 6] = ["i2", "i4", "i8", "f4", "f8", "dec"];

/// A column of `a`, and a type whose values compare with it.
fn comparable(random: &mut Random) -> (String, &'static str) {
    let of = any(random);
    (column(random, "a", of), paired(random, of.name))
}

/// A type whose values compare with those of another.
fn paired(random: &mut Random, with: &'static str) -> &'static str {
    if NUMBERS.contains(&with) { random.pick(&NUMBERS).copied().unwrap() } else { with }
}

/// A condition with subqueries and rows, outside of a WHERE too.
fn truth(random: &mut Random) -> String {
    let (one, other) = comparable(random);
    let from = random.index(100);
    let not = one_of(random, &["", "NOT "]);
    match random.index(6) {
        0 | 1 => format!("{one} {not}IN (SELECT s.r_{other} FROM {{}} AS s WHERE s.id < {from})"),
        2 => format!("{not}EXISTS (SELECT 1 FROM {{}} AS s WHERE s.l_{other} = {one} AND s.id > {from})"),
        // DataFusion cannot sort by a condition that compares a column with itself.
        3 => {
            let operator = one_of(random, &["=", "<>", "<", "<=", ">", ">="]);
            let (first, second) = (comparable(random).1, comparable(random).1);
            let (other, third) = (paired(random, first), paired(random, second));
            format!("(a.l_{first}, a.l_{second}, a.l_i4) {operator} (a.r_{other}, a.r_{third}, a.r_i4)")
        }
        4 => {
            let second = comparable(random).1;
            let third = paired(random, second);
            format!(
                "(a.l_{other}, a.l_{second}) {not}IN ((a.r_{other}, a.r_{third}), (NULL, a.r_{second}), (NULL, NULL))"
            )
        }
        _ => format!(
            "CASE WHEN {} THEN {} ELSE a.id > {from} END",
            plain_comparison(random, "a"),
            comparison(random, "a")
        ),
    }
}

/// A scalar subquery of a number, correlated by an equality.
fn scalar_subquery(random: &mut Random) -> String {
    let (one, other) = comparable(random);
    let aggregate = one_of(random, &["count(*)", "max(s.id)", "min(s.id)", "sum(s.id)"]);
    let from = random.index(100);
    format!("(SELECT {aggregate} FROM {{}} AS s WHERE s.r_{other} = {one} AND s.id > {from})")
}

/// A comparison, sometimes with a subquery.
fn comparison(random: &mut Random, table: &str) -> String {
    if !random.one_in(5) {
        return plain_comparison(random, table);
    }
    let of = any(random);
    let one = column(random, table, of);
    let from = random.index(100);
    match random.one_in(2) {
        true => format!("{one} IN (SELECT s.l_{} FROM {{}} AS s WHERE s.id < {from})", of.name),
        false => format!("EXISTS (SELECT 1 FROM {{}} AS s WHERE s.l_{} = {one} AND s.id > {from})", of.name),
    }
}

fn plain_comparison(random: &mut Random, table: &str) -> String {
    let of = any(random);
    let one = column(random, table, of);
    let operator = one_of(random, &["=", "<>", "<", "<=", ">", ">="]);
    match random.index(7) {
        0 => format!("{one} IS {}NULL", one_of(random, &["", "NOT "])),
        1 => format!("{one} BETWEEN {} AND {}", literal(random, of), literal(random, of)),
        2 => format!("{one} IN ({}, {}, {})", literal(random, of), literal(random, of), literal(random, of)),
        3 => format!("{one} NOT IN ({}, {})", literal(random, of), literal(random, of)),
        4 => format!("{one} {operator} {}", column(random, table, of)),
        5 => format!("{one} IS DISTINCT FROM {}", literal(random, of)),
        _ => format!("{one} {operator} {}", literal(random, of)),
    }
}
