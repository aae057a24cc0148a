//! Random predicates.

use rand::Rng;
use rand::rngs::StdRng;

use super::named::{Named, pick};
use super::query::Predicate;
use super::values::Kind;

/// A predicate over the columns of one or two tables.
pub fn predicate(rng: &mut StdRng, columns: &[Named<'_>], depth: usize) -> Predicate {
    if depth > 0 && rng.random_bool(0.5) {
        let a = predicate(rng, columns, depth - 1);
        return match rng.random_range(0..5) {
            0 => Predicate::Not(a.into()),
            1 | 2 => Predicate::Or(a.into(), predicate(rng, columns, depth - 1).into()),
            _ => Predicate::And(a.into(), predicate(rng, columns, depth - 1).into()),
        };
    }
    Predicate::Leaf(loop {
        let column = pick(rng, columns);
        if let Some(sql) = leaf(rng, column, columns) {
            break sql;
        }
    })
}

fn leaf(rng: &mut StdRng, column: &Named<'_>, columns: &[Named<'_>]) -> Option<String> {
    let c = &column.sql;
    let not = *pick(rng, &["", "", "NOT "]);
    if column.kind.is_nested() {
        return Some(nested(rng, c, column.kind, not));
    }
    if rng.random_bool(0.12) {
        return Some(format!("{c} IS {not}NULL"));
    }
    let comparison = *pick(rng, &["=", "=", "<", "<=", ">", ">=", "<>"]);
    if rng.random_bool(0.1) {
        let others: Vec<_> = columns.iter().filter(|other| column.is_comparable(other)).collect();
        return Some(format!("{c} {comparison} {}", pick(rng, &others).sql));
    }
    if rng.random_bool(0.45) {
        let operand = column.operand(rng, false)?;
        if matches!(column.kind, Kind::Int { .. } | Kind::Decimal { .. }) && rng.random_bool(0.3) {
            return Some(within(rng, c, comparison, &operand));
        }
        return Some(match rng.random_bool(0.2) {
            true => format!("{operand} {comparison} {c}"),
            false => format!("{c} {comparison} {operand}"),
        });
    }
    if rng.random_bool(0.3) {
        return match rng.random_range(0..4) {
            0 => Some(format!("{c} {not}BETWEEN {} AND {}", column.operand(rng, true)?, column.operand(rng, true)?)),
            1 => {
                let count = *pick(rng, &[1, 3, 3, 45]);
                let values: Option<Vec<_>> = (0..count).map(|_| column.operand(rng, true)).collect();
                let null = if rng.random_bool(0.1) { ", NULL" } else { "" };
                Some(format!("{c} {not}IN ({}{null})", values?.join(", ")))
            }
            // In parentheses, because the parser takes a following OR as part of its right side.
            2 => Some(format!("({c} IS {not}DISTINCT FROM {})", column.operand(rng, true)?)),
            _ => {
                // As deep as the parser nests it.
                let values: Option<Vec<_>> = (0..45).map(|_| column.operand(rng, true)).collect();
                let terms: Vec<_> = values?.into_iter().map(|value| format!("{c} = {value}")).collect();
                Some(format!("({})", terms.join(" OR ")))
            }
        };
    }
    let literal = column.literal(rng)?;
    let text = |value: &str| value.trim_start_matches("CAST(").split(" AS ").next().unwrap_or_default().to_owned();
    Some(match column.kind {
        Kind::Bool => match rng.random_range(0..3) {
            0 => c.clone(),
            1 => format!("{c} IS {not}TRUE"),
            _ => format!("CASE WHEN {c} THEN 1 ELSE 2 END = 1"),
        },
        Kind::Text => match rng.random_range(0..6) {
            0 => format!("{c} {not}LIKE 'a%'"),
            1 => format!("{c} {not}LIKE '%e%'"),
            2 => format!("{c} LIKE 'w00__'"),
            3 => format!("length({c}) {comparison} 5"),
            4 => format!("upper({c}) = upper({literal})"),
            _ => format!("coalesce({c}, 'none') {comparison} {literal}"),
        },
        Kind::Int { bits: 64, signed: false } => format!("{c} % CAST(7 AS ⟨u64⟩) = CAST(3 AS ⟨u64⟩)"),
        Kind::Int { .. } => match rng.random_range(0..5) {
            0 => format!("CAST({c} AS ⟨i64⟩) % 7 {comparison} 3"),
            1 => format!(
                "CAST({c} AS VARCHAR) = {}",
                if literal.starts_with('C') { text(&literal) } else { format!("'{literal}'") }
            ),
            2 => format!("CAST({c} AS DOUBLE) {comparison} 20.0"),
            3 => format!("nullif({c}, {literal}) IS {not}NULL"),
            _ => format!("CASE WHEN {c} > {literal} THEN 'more' WHEN {c} IS NULL THEN 'none' ELSE 'less' END = 'more'"),
        },
        Kind::Float { .. } => match rng.random_range(0..3) {
            0 => format!("CAST({c} AS DOUBLE) {comparison} CAST('0.0' AS DOUBLE)"),
            1 => format!("{c} {comparison} CAST('Infinity' AS DOUBLE)"),
            _ => format!("{c} {comparison} CAST('NaN' AS DOUBLE)"),
        },
        Kind::Date => match rng.random_range(0..3) {
            0 => format!("CAST({c} AS VARCHAR) {comparison} {}", text(&literal)),
            1 => format!("extract(year FROM {c}) {comparison} 1991"),
            _ => format!("coalesce({c}, {literal}) {comparison} {literal}"),
        },
        Kind::Time { .. } => format!("extract(hour FROM {c}) {comparison} 12"),
        Kind::Timestamp { zone: false, nanos: false } => match rng.random_range(0..2) {
            0 => format!("CAST({c} AS DATE) {comparison} DATE '1991-09-29'"),
            _ => format!("extract(hour FROM {c}) {comparison} 12"),
        },
        _ => format!("coalesce({c}, {literal}) {comparison} {literal}"),
    })
}

/// A comparison with a number that is not next to the operator.
fn within(rng: &mut StdRng, c: &str, comparison: &str, number: &str) -> String {
    match rng.random_range(0..6) {
        0 => format!("{c} {comparison} (SELECT {number})"),
        1 => format!("{c} IN (SELECT {number})"),
        2 => format!("{c} IN (SELECT v FROM (VALUES ({number})) AS numbers(v))"),
        3 => format!("{c} {comparison} coalesce(NULL, {number})"),
        4 => format!("{c} {comparison} CASE WHEN {c} IS NULL THEN NULL ELSE {number} END"),
        _ => format!("nullif({c}, {number}) IS NULL"),
    }
}

/// Parts of a nested value by their names in both engines, with their kinds: itself, items, fields and values of keys.
pub fn parts(sql: &str, kind: &Kind) -> Vec<(String, Kind)> {
    let mut all = vec![(sql.to_owned(), kind.clone())];
    match kind {
        Kind::List(item) => all.extend(parts(&format!("{sql}[1]"), item)),
        Kind::Struct(fields) => {
            all.extend(fields.iter().flat_map(|(name, kind)| parts(&format!("{sql}['{name}']"), kind)));
        }
        Kind::Map(value) => all.extend(parts(&format!("{sql}['k']"), value)),
        _ => {}
    }
    all
}

fn nested(rng: &mut StdRng, sql: &str, kind: &Kind, not: &str) -> String {
    let parts = parts(sql, kind);
    let (part, kind) = pick(rng, &parts);
    let comparison = *pick(rng, &["=", "<", ">=", "<>"]);
    match kind {
        _ if rng.random_bool(0.3) => format!("{part} IS {not}NULL"),
        Kind::Int { .. } => format!("{part} {comparison} 20"),
        Kind::Decimal { .. } => format!("{part} {comparison} 12.3"),
        Kind::Text => format!("{part} {comparison} 'apple'"),
        Kind::Bool => format!("{not}{part}"),
        Kind::List(_) => format!("array_length({part}) {comparison} 1"),
        Kind::Map(_) => format!("cardinality({part}) {comparison} 1"),
        _ => format!("{part} IS {not}NULL"),
    }
}
