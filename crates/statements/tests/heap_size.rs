//! Compares `heap_bytes` of statements with the allocator's count.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test that cannot go on fails")]
#![expect(unsafe_code, reason = "an allocator that counts")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use thermocline_statements::{Prepared, define, parse_bytes};
use thermocline_tables::schema::Schema;
use thermocline_tables::table::HeapSize;
use thermocline_tables::table::allocated;

thread_local! {
    // Far from 0: a thread may free memory that another has allocated.
    static HELD: Cell<usize> = const { Cell::new(1 << 40) };
    static PEAK: Cell<usize> = const { Cell::new(0) };
}

/// The system allocator, which also counts the bytes held by this thread.
struct Counting;

fn note(before: usize, after: usize) {
    HELD.set(HELD.get() + allocated(after) - allocated(before));
    PEAK.set(PEAK.get().max(HELD.get()));
}

// SAFETY: forwards to the system allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(0, layout.size());
        // SAFETY: same contract as this function.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        note(layout.size(), 0);
        // SAFETY: same contract as this function.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note(layout.size(), size);
        // SAFETY: same contract as this function.
        unsafe { System.realloc(block, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn schema() -> Schema {
    let schema = Schema::default();
    let (schema, _) =
        define(&schema, "CREATE TABLE t (k BIGINT PRIMARY KEY, n INTEGER, d DECIMAL(12, 2), v TEXT) PARTITION BY (k)")
            .unwrap();
    let (schema, _) =
        define(&schema, "CREATE TABLE u (a BIGINT, b BIGINT, v TEXT, PRIMARY KEY (a, b)) PARTITION BY (a)").unwrap();
    schema
}

/// Statements of each shape, small and large.
fn statements() -> Vec<(&'static str, String)> {
    let list = |count: usize, part: &dyn Fn(usize) -> String| (0..count).map(part).collect::<Vec<_>>().join(",");
    let mut all = vec![
        ("point", "SELECT * FROM t WHERE k = $1".to_owned()),
        (
            "join",
            "SELECT t.v, u.v FROM t JOIN u ON u.a = t.k WHERE t.k = $1 AND u.b > 3 ORDER BY u.b DESC LIMIT 10"
                .to_owned(),
        ),
        (
            "group",
            "SELECT n % 7, count(*), sum(d), min(v) FROM t WHERE v LIKE 'a%' GROUP BY n % 7 HAVING count(*) > 1"
                .to_owned(),
        ),
        ("update", "UPDATE t SET n = n + 1, v = v || $2 WHERE k = $1 RETURNING v".to_owned()),
        ("delete", "DELETE FROM t WHERE k = $1".to_owned()),
        ("upsert", "INSERT INTO t VALUES ($1, 1, 2.5, 'x') ON CONFLICT (k) DO UPDATE SET n = t.n + 1".to_owned()),
        ("explain", "EXPLAIN SELECT * FROM t".to_owned()),
        ("operators", format!("SELECT k{} FROM t", " + 1".repeat(350))),
        ("parentheses", format!("SELECT {}k{} FROM t", "(".repeat(40), ")".repeat(40))),
        (
            "case",
            format!(
                "SELECT CASE {} ELSE 0 END FROM t",
                (0..390).map(|n| format!("WHEN k = {n} THEN {n}")).collect::<Vec<_>>().join(" ")
            ),
        ),
    ];
    for count in [100, 30_000] {
        all.extend([
            ("numbers", format!("SELECT * FROM t WHERE k IN ({})", list(count, &|number| (number % 10).to_string()))),
            ("texts", format!("SELECT * FROM t WHERE v IN ({})", list(count, &|number| format!("'{}'", number % 10)))),
            ("decimals", format!("SELECT * FROM t WHERE d IN ({})", list(count, &|number| format!("{number}.25")))),
            ("parameters", format!("SELECT * FROM t WHERE k IN ({})", list(count, &|_| "$1".to_owned()))),
            ("negative", format!("SELECT * FROM t WHERE k IN ({})", list(count, &|_| "-1".to_owned()))),
            ("nulls", format!("SELECT * FROM t WHERE k IN ({})", list(count, &|_| "NULL".to_owned()))),
            ("rows", format!("INSERT INTO t VALUES {}", list(count, &|number| format!("({number}, 1, 2.5, 'text')")))),
            ("narrow rows", format!("INSERT INTO t (k) VALUES {}", list(count, &|number| format!("({number})")))),
            ("casts", format!("SELECT * FROM t WHERE k IN ({})", list(count, &|_| "CAST(n AS BIGINT)".to_owned()))),
            ("calls", format!("SELECT * FROM t WHERE k IN ({})", list(count, &|_| "abs(n)".to_owned()))),
            ("columns", format!("SELECT {} FROM t", list(count.min(1500), &|number| format!("k AS c{number}")))),
            ("stars", format!("SELECT {} FROM t", list(count.min(300), &|_| "*".to_owned()))),
            ("blanks", format!("SELECT 1{}", " ".repeat(count * 10))),
            ("comment", format!("SELECT 1 -- {}", "x".repeat(count * 10))),
            ("literal", format!("SELECT v || '{}' FROM t", "x".repeat(count * 100))),
            ("literal filter", format!("SELECT v FROM t WHERE v = '{}'", "x".repeat(count * 100))),
            ("literal change", format!("UPDATE t SET v = '{0}' WHERE v = '{0}'", "x".repeat(count * 100))),
            ("pattern", format!("SELECT v FROM t WHERE v LIKE '{}%'", "x".repeat(count * 10))),
            ("quotes", format!("SELECT '{}' FROM t", "''".repeat(count * 10))),
        ]);
    }
    all
}

#[test]
fn a_plan_weighs_what_it_takes() {
    let schema = schema();
    for (name, sql) in statements() {
        let before = HELD.get();
        let Ok(prepared) = Prepared::new(&schema, &sql) else { continue };
        let (takes, said) = (HELD.get().wrapping_sub(before), prepared.heap_bytes());
        println!("{name}: {} bytes of text, takes {takes}, said {said}", sql.len());
        assert!(said <= takes + takes / 8 && takes <= said + said / 8 + 512, "{name}: takes {takes}, said {said}");
        drop(prepared);
    }
}

/// Bytes that binding charges itself: for columns of a star, and for patterns.
fn added_bytes(name: &str, sql: &str) -> usize {
    const COLUMNS: usize = 4;
    match name {
        "narrow rows" => sql.matches('(').count() * COLUMNS * 288,
        "stars" => sql.matches('*').count() * COLUMNS * 288,
        "pattern" => sql.len() * 12,
        _ => 0,
    }
}

#[test]
fn parsing_takes_no_more_than_was_said() {
    let schema = schema();
    let mut wrong = Vec::new();
    for (name, sql) in statements() {
        let before = HELD.get();
        PEAK.set(before);
        let prepared = Prepared::new(&schema, &sql);
        let (takes, said) = (PEAK.get().wrapping_sub(before), parse_bytes(&sql) + added_bytes(name, &sql));
        let result = prepared.as_ref().map_or_else(ToString::to_string, |_| "prepared".to_owned());
        println!(
            "{name}: {} bytes of text, takes {takes}, said {said}: {}",
            sql.len(),
            &result[..result.len().min(60)]
        );
        drop(prepared);
        if takes > said + (64 << 10) {
            wrong.push(format!("{name}: takes {takes}, said {said}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
