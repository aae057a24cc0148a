//! Loads rows of 100 bytes with a primary key and compares the memory of the process with the bytes
//! that the budget was charged.
//!
//! `cargo bench -p thermocline-transactions --bench memory -- [ROWS]`

#![allow(clippy::unwrap_used, reason = "a bench that cannot go on fails")]

use std::sync::Arc;
use std::time::Instant;

use thermocline_transactions::schema::Schema;
use thermocline_transactions::sql::define;
use thermocline_transactions::table::{Budget, Table, Undo};
use thermocline_transactions::types::ValueRef;

/// Resident bytes of this process.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches("kB").trim().parse::<u64>().unwrap() * 1024
}

fn main() {
    let rows = std::env::args().skip(1).find_map(|argument| argument.parse().ok()).unwrap_or(10_000_000_i64);
    for payload in ["BYTEA", "VARCHAR(100)"] {
        let sql = format!("CREATE TABLE t (id BIGINT PRIMARY KEY, payload {payload} NOT NULL) PARTITION BY (id)");
        let (schema, _) = define(&Schema::default(), &sql).unwrap();
        let budget = Arc::new(Budget::new(64 << 30));
        let mut table = Table::new(Arc::clone(schema.table("t").unwrap()), Arc::clone(&budget), 1).unwrap();
        let mut undo = Undo::new(1 << 20);
        let text = "x".repeat(100 - 8);
        let payload = if payload == "BYTEA" { ValueRef::Bytes(text.as_bytes()) } else { ValueRef::Text(&text) };
        let (before, start, mut slowest) = (resident(), Instant::now(), 0);
        for id in 0..rows {
            let one = Instant::now();
            table.insert(&[ValueRef::Int(id), payload], &mut undo).unwrap();
            undo.clear();
            slowest = slowest.max(one.elapsed().as_micros());
        }
        let (resident, accounted) = ((resident() - before) as f64, budget.used() as f64);
        let each = accounted / rows as f64 - 100.0;
        let seconds = start.elapsed().as_secs_f64();
        println!(
            "{rows} rows: {:.0} MB resident, {:.0} MB accounted ({:.3})",
            resident / 1e6,
            accounted / 1e6,
            resident / accounted
        );
        println!(
            "  {each:.1} bytes per row beyond its 100, {:.0} rows/s, slowest insert {slowest} us",
            rows as f64 / seconds
        );
        println!("  {:?}", table.memory());
    }
}
