//! Random JSON documents: parsing, printing, and access to their parts.

use thermocline_transactions::random::Random;
use thermocline_transactions::types::{DataType, ValueRef, cast};

use super::engines::Engines;
use super::postgres::Postgres;

/// Number of texts read, and of pairs used in expressions.
const TEXTS: usize = 2000;
const PAIRS: usize = 600;

/// Expressions over two documents that have a value for any documents.
const EXPRESSIONS: &[&str] = &[
    "a",
    "a = b",
    "a < b",
    "a @> b",
    "b <@ a",
    "a || b",
    "a -> 'a'",
    "a ->> 'a'",
    "a -> 0",
    "a ->> -1",
    "a #> '{a,0}'",
    "a #>> '{0,a}'",
    "a ? 'a'",
    "a ?| '{b,\"\"}'",
    "a ?& '{a,b}'",
    "jsonb_typeof(a)",
    "greatest(a, b)",
    "nullif(a, b)",
    "CASE a WHEN b THEN 1 ELSE 2 END",
];

/// Queries that find equal documents, over a table `t` of pairs.
const QUERIES: &[&str] = &[
    "SELECT count(*) AS c0 FROM t GROUP BY a ORDER BY count(*)",
    "SELECT count(*) AS c0, sum(id) AS c1 FROM t GROUP BY a, b ORDER BY sum(id), count(*)",
    "SELECT count(DISTINCT a) AS c0 FROM t",
    "SELECT count(*) AS c0 FROM (SELECT DISTINCT a FROM t) AS d",
    "SELECT count(*) AS c0 FROM t AS one JOIN t AS other ON one.a = other.b",
    "SELECT count(*) AS c0 FROM t WHERE a IN (SELECT b FROM t)",
    "SELECT count(*) AS c0 FROM t WHERE a NOT IN (SELECT b FROM t)",
    "SELECT count(*) AS c0 FROM t WHERE a > ALL (SELECT b FROM t WHERE id < 3)",
    "SELECT count(*) AS c0 FROM (SELECT a FROM t UNION SELECT b FROM t) AS u",
    "SELECT count(*) AS c0 FROM (SELECT a FROM t INTERSECT SELECT b FROM t) AS u",
    "SELECT count(*) AS c0 FROM (SELECT a FROM t EXCEPT SELECT b FROM t) AS u",
    "SELECT row_number() OVER (PARTITION BY a ORDER BY b, id) AS c0 FROM t ORDER BY id",
    "SELECT id AS c0 FROM t ORDER BY a = b, a IN (b, '1'), a BETWEEN '[]' AND b, CASE a WHEN b THEN 1 ELSE 2 END, id",
    "SELECT id AS c0 FROM t ORDER BY greatest(a, b) DESC, nullif(a, b), id",
    "SELECT DISTINCT ON (id % 7) id AS c0 FROM t ORDER BY id % 7, a, id",
    "SELECT DISTINCT ON (a < b) id AS c0 FROM t ORDER BY a < b, b DESC, id",
];

/// Compares random texts as documents, and expressions over them.
///
/// # Panics
/// If anything differs here.
pub async fn compare_documents(postgres: &mut Postgres, engines: &Engines) {
    let mut random = Random::new(7);
    let texts: Vec<String> = (0..TEXTS).map(|_| text(&mut random)).collect();
    let rows: Vec<String> =
        texts.iter().enumerate().map(|(number, text)| format!("({number}, {})", literal(text))).collect();
    let query = format!(
        "SELECT t[1] AS c0, t[2] AS c1 FROM (SELECT n, try(quote_literal(d) || '::jsonb', 0) AS t FROM (VALUES {}) AS v (n, d) ORDER BY n) AS s",
        rows.join(", ")
    );
    let expected = postgres.rows(&query, 2).unwrap();
    let mut documents = vec![];
    for (text, row) in texts.iter().zip(expected) {
        let found = match cast(ValueRef::Text(text), DataType::Jsonb) {
            Ok(document) => {
                documents.push(text);
                ["value".to_owned(), document.to_string()]
            }
            Err(error) => ["error".to_owned(), error.sqlstate().to_owned()],
        };
        assert_eq!(row, found.map(Some), "{text}");
    }
    assert!(documents.len() > TEXTS / 2 && documents.len() < TEXTS, "{} of {TEXTS} are documents", documents.len());
    let pairs: Vec<String> = (0..PAIRS)
        .map(|id| {
            let mut any = || literal(documents[random.below(documents.len() as u64) as usize]);
            format!("({id}, {}, {})", any(), any())
        })
        .collect();
    let create = "CREATE TABLE documents (id BIGINT PRIMARY KEY, a JSONB, b JSONB)";
    let insert = format!("INSERT INTO documents VALUES {}", pairs.join(", "));
    for sql in [create, &insert] {
        postgres.run(sql);
        engines.rows(sql).await.unwrap();
    }
    for expression in EXPRESSIONS.iter().copied().chain(["id"]) {
        let order = if expression == "id" { "a, id" } else { "id" };
        let sql = |from: &str| format!("SELECT {expression} AS c0 FROM {from} ORDER BY {order}");
        let expected = postgres.rows(&sql("documents"), 1).unwrap();
        for sql in [sql("documents"), format!("WITH q AS (SELECT * FROM documents) {}", sql("q"))] {
            let found = engines.rows(&sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
            for (id, (expected, found)) in expected.iter().zip(&found).enumerate() {
                assert_eq!(expected, found, "{sql}: row {id}: {}", pairs[id]);
            }
        }
    }
    for query in QUERIES {
        let sql = |table: &str| query.replace(" t", &format!(" {table}"));
        let columns = query.matches(" AS c").count();
        let expected = postgres.rows(&sql("documents"), columns).unwrap();
        for sql in [sql("documents"), format!("WITH q AS (SELECT * FROM documents) {}", sql("q"))] {
            let found = engines.rows(&sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
            assert_eq!(expected, found, "{sql}");
        }
    }
    println!("{TEXTS} texts, of which {} are documents; {PAIRS} pairs", documents.len());
}

fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// A document, sometimes with an error.
fn text(random: &mut Random) -> String {
    let mut text = String::new();
    put(&mut text, random, 0);
    if random.one_in(6) {
        let characters: Vec<char> = text.chars().collect();
        let at = random.below(characters.len() as u64 + 1) as usize;
        let noise = one_of(random, &["", "x", "\"", ",", "1", "]", "}", ":", "\\", "e", "\t", "\\u0000", "\\ud800"]);
        let skipped = random.below(2) as usize;
        let (before, behind) = characters.split_at(at);
        text = before.iter().collect::<String>() + noise + &behind.iter().skip(skipped).collect::<String>();
    }
    text
}

fn put(out: &mut String, random: &mut Random, depth: u32) {
    let kinds = if depth < 4 { 8 } else { 5 };
    match random.below(kinds) {
        0 => out.push_str(one_of(random, &["null", "true", "false"])),
        1 | 2 => number(out, random),
        3 | 4 => string(out, random),
        5 => {
            out.push('[');
            items(out, random, |out, random| put(out, random, depth + 1));
            out.push(']');
        }
        _ => {
            out.push('{');
            items(out, random, |out, random| {
                string(out, random);
                blank(out, random);
                out.push(':');
                blank(out, random);
                put(out, random, depth + 1);
            });
            out.push('}');
        }
    }
}

fn items(out: &mut String, random: &mut Random, mut item: impl FnMut(&mut String, &mut Random)) {
    blank(out, random);
    for place in 0..random.below(4) {
        if place > 0 {
            out.push(',');
            blank(out, random);
        }
        item(out, random);
        blank(out, random);
    }
}

fn blank(out: &mut String, random: &mut Random) {
    out.push_str(one_of(random, &["", "", " ", "\t", "  "]));
}

fn number(out: &mut String, random: &mut Random) {
    out.push_str(one_of(random, &["", "", "-"]));
    out.push_str(one_of(random, &["0", "1", "2", "10", "120", "12345678901234567890123456789012345678901234567890"]));
    out.push_str(one_of(random, &["", "", ".0", ".50", ".001"]));
    out.push_str(one_of(random, &["", "", "", "e2", "E-3", "e+0", "e40", "e-40"]));
}

fn string(out: &mut String, random: &mut Random) {
    out.push('"');
    for _ in 0..random.below(3) {
        out.push_str(one_of(
            random,
            &[
                "a",
                "b",
                "a",
                "ab",
                "\\n",
                "\\\"",
                "\\\\",
                "\\/",
                "\\u0061",
                "\\u00e4",
                "ä",
                "\\ud83d\\ude00",
                "\\u0001",
                "😀",
                " ",
            ],
        ));
    }
    out.push('"');
}

fn one_of<T: Copy>(random: &mut Random, of: &[T]) -> T {
    of[random.below(of.len() as u64) as usize]
}
