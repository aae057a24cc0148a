//! Random queries over the tables as currently defined.

use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

use super::named::{Named, columns, flat, pick};
use super::predicates::{parts, predicate};
use super::query::{From, Item, Join, Out, Predicate, Query};
use super::schema::Table;
use super::values::Kind;

fn item(sql: String, out: Out) -> Item {
    Item { sql, aggregate: false, out }
}

fn plain(column: &Named<'_>) -> Item {
    item(column.sql.clone(), Out::exact(column.kind))
}

/// A column, or a part of a nested one.
fn part(rng: &mut StdRng, column: &Named<'_>) -> Item {
    let parts = parts(&column.sql, column.kind);
    let (sql, kind) = pick(rng, &parts);
    item(sql.clone(), Out::exact(kind))
}

fn aggregate(rng: &mut StdRng, columns: &[Named<'_>]) -> Item {
    let call = |sql: String, out: Out| Item { sql, aggregate: true, out };
    let column = pick(rng, columns);
    let (c, kind) = (&column.sql, column.kind);
    if kind.is_nested() || rng.random_bool(0.15) {
        return call(format!("count({c})"), Out::number());
    }
    if rng.random_bool(0.1) {
        return call(format!("count(DISTINCT {c})"), Out::number());
    }
    if rng.random_bool(0.1) {
        // No subquery is allowed there.
        let filters = std::iter::repeat_with(|| predicate(rng, columns, 1).sql());
        let filter = { filters }.find(|filter| !filter.contains("(SELECT")).unwrap();
        return call(format!("count(*) FILTER (WHERE {filter})"), Out::number());
    }
    if rng.random_bool(0.4) {
        let name = *pick(rng, &["min", "max"]);
        return call(format!("{name}({c})"), Out::exact(kind));
    }
    match kind {
        // DuckDB sums these in 128 bits, others in 64.
        Kind::Int { bits: 64, signed: false } => call(format!("sum({c} % CAST(1000 AS ⟨u64⟩))"), Out::number()),
        Kind::Int { .. } if rng.random_bool(0.7) => call(format!("sum(CAST({c} AS ⟨i64⟩) % 1000)"), Out::number()),
        Kind::Int { .. } => call(format!("avg(CAST(CAST({c} AS ⟨i64⟩) % 1000 AS DOUBLE))"), Out::about(1e-9)),
        // Aggregates that do not depend on the order of addition.
        Kind::Float { .. } => {
            let name = *pick(rng, &["sum", "avg"]);
            let tame = format!("CASE WHEN {c} BETWEEN CAST(-1000000 AS DOUBLE) AND CAST(1000000 AS DOUBLE)");
            call(format!("{name}({tame} THEN CAST({c} AS DOUBLE) END)"), Out::about(1e-9))
        }
        Kind::Decimal { precision, .. } if *precision <= 18 && rng.random_bool(0.7) => {
            call(format!("sum({c})"), Out::number())
        }
        // Decimals with four digits more than the objects' in one engine, floats in the other.
        Kind::Decimal { precision, .. } if *precision <= 18 => call(format!("avg({c})"), Out::about(2e-4)),
        Kind::Bool => call(format!("{}({c})", pick(rng, &["bool_and", "bool_or"])), Out::exact(kind)),
        _ => call(format!("count({c})"), Out::number()),
    }
}

fn aggregates(rng: &mut StdRng, columns: &[Named<'_>]) -> Vec<Item> {
    let mut items = vec![Item { sql: "count(*)".into(), aggregate: true, out: Out::number() }];
    for _ in 0..rng.random_range(0..4) {
        items.push(aggregate(rng, columns));
    }
    items
}

/// A key to group or sort by.
fn key(rng: &mut StdRng, column: &Named<'_>) -> Item {
    let c = &column.sql;
    if rng.random_bool(0.6) {
        return plain(column);
    }
    match column.kind {
        Kind::Int { bits: 64, signed: false } => plain(column),
        Kind::Int { .. } => item(format!("CAST({c} AS ⟨i64⟩) % 7"), Out::number()),
        Kind::Text => item(format!("coalesce({c}, 'none')"), Out::exact(&Kind::Text)),
        Kind::Date => item(format!("extract(year FROM {c})"), Out::number()),
        Kind::Float { bits: 32 } => item(format!("CAST({c} AS DOUBLE)"), Out::exact(&Kind::DOUBLE)),
        _ => item(format!("{c} IS NULL"), Out::exact(&Kind::Bool)),
    }
}

fn keys(rng: &mut StdRng, columns: &[Named<'_>]) -> Vec<Item> {
    let flat = flat(columns);
    let mut keys: Vec<Item> = vec![];
    for _ in 0..rng.random_range(1..3) {
        let column = *pick(rng, &flat);
        let key = key(rng, column);
        if keys.iter().all(|other| other.sql != key.sql) {
            keys.push(key);
        }
    }
    keys
}

/// Conditions under which rows of both tables match: the same columns, by name.
fn conditions(rng: &mut StdRng, left: &Table, right: &Table, inequality: bool) -> Vec<String> {
    let shared: Vec<_> = left
        .columns
        .iter()
        .zip(&left.definition.kinds)
        .filter(|(column, kind)| {
            let other = right.columns.iter().position(|other| other.name == column.name);
            let other = other.map(|position| &right.definition.kinds[position]);
            !kind.is_nested() && other.is_some_and(|other| other == *kind || other.is_integer() && kind.is_integer())
        })
        .map(|(column, _)| &column.name)
        .collect();
    let count = if inequality { 1 } else { rng.random_range(1..=2) };
    let operator = if inequality { *pick(rng, &["<", ">=", "<>"]) } else { "=" };
    shared
        .choose_multiple(rng, count)
        .map(|name| format!("{}.{name} {operator} {}.{name}", left.name, right.name))
        .collect()
}

/// A random query over `r` alone or `r` and `p`.
pub fn query(rng: &mut StdRng, r: &Table, p: Option<&Table>) -> Query {
    let of_r = columns(r);
    let filter = rng.random_bool(0.8).then(|| predicate(rng, &of_r, 3));
    let mut query = Query {
        distinct: false,
        items: vec![],
        from: From { table: r.name.clone(), join: None },
        filter,
        grouped: false,
        having: None,
        order: vec![],
        limit: None,
        set: None,
    };
    let some = |rng: &mut StdRng, columns: &[Named<'_>]| {
        let count = rng.random_range(1..=4);
        let some: Vec<_> = columns.choose_multiple(rng, count).collect();
        some.into_iter().map(|column| part(rng, column)).collect::<Vec<_>>()
    };
    match (rng.random_range(0..16), p) {
        (0..=2, _) => query.items = some(rng, &of_r),
        (3 | 4, _) => query.items = aggregates(rng, &of_r),
        (5 | 6, _) => {
            query.items = keys(rng, &of_r);
            query.items.extend(aggregates(rng, &of_r));
            query.grouped = true;
            query.having = rng.random_bool(0.2).then(|| "count(*) > 1".into());
        }
        (7 | 8, _) => {
            let flat = flat(&of_r);
            let by = pick(rng, &flat);
            query.items = vec![plain(by), plain(&of_r[0])];
            query.items.push(plain(pick(rng, &of_r)));
            let direction = *pick(rng, &["ASC", "DESC"]);
            let nulls = *pick(rng, &["FIRST", "LAST"]);
            query.order = vec![format!("{} {direction} NULLS {nulls}", by.sql), of_r[0].sql.clone()];
            query.limit = rng.random_bool(0.8).then(|| (rng.random_range(0..30), *pick(rng, &[0, 0, 3])));
            rename_order(&mut query);
        }
        (9, _) => {
            query.items = keys(rng, &of_r);
            query.distinct = true;
        }
        (10, _) => {
            let flat = flat(&of_r);
            let (first, second) = (pick(rng, &flat), pick(rng, &flat));
            query.items = vec![plain(first), plain(second)];
            let operation = *pick(rng, &["UNION", "UNION ALL", "INTERSECT", "EXCEPT"]);
            query.set = Some((operation, predicate(rng, &of_r, 1)));
        }
        (11, _) => window(rng, &mut query, &of_r),
        (12, Some(p)) => semi_join(rng, &mut query, r, p),
        (13, Some(p)) if rng.random_bool(0.5) => scalar_subquery(rng, &mut query, r, p),
        (_, Some(p)) => join(rng, &mut query, r, p),
        (_, None) => query.items = some(rng, &of_r),
    }
    query
}

/// Sorts by the names of the result's columns, because a set operation has no others.
fn rename_order(query: &mut Query) {
    let items = &query.items;
    for key in &mut query.order {
        let (sql, rest) =
            key.split_once(' ').map_or((key.as_str(), String::new()), |(sql, rest)| (sql, format!(" {rest}")));
        if let Some(n) = items.iter().position(|item| item.sql == sql) {
            *key = format!("o{n}{rest}");
        }
    }
}

fn window(rng: &mut StdRng, query: &mut Query, columns: &[Named<'_>]) {
    let flat = flat(columns);
    let (by, of) = (pick(rng, &flat), pick(rng, &flat));
    let id = &columns[0].sql;
    query.items = vec![plain(&columns[0])];
    query.items.push(match rng.random_range(0..4) {
        0 => item(format!("row_number() OVER (PARTITION BY {} ORDER BY {id})", by.sql), Out::number()),
        1 => item(format!("count({}) OVER (PARTITION BY {})", of.sql, by.sql), Out::number()),
        2 => item(format!("lag({}) OVER (ORDER BY {id})", of.sql), Out::exact(of.kind)),
        _ => item(format!("max({}) OVER (PARTITION BY {})", of.sql, by.sql), Out::exact(of.kind)),
    });
}

fn semi_join(rng: &mut StdRng, query: &mut Query, r: &Table, p: &Table) {
    let filter = predicate(rng, &columns(p), 1).sql();
    let not = *pick(rng, &["", "NOT "]);
    let condition = conditions(rng, r, p, false);
    let Some(first) = condition.first() else { return query.items = vec![plain(&columns(r)[0])] };
    let leaf = match rng.random_bool(0.5) {
        true => format!("{not}EXISTS (SELECT 1 FROM p WHERE {filter} AND {})", condition.join(" AND ")),
        false => {
            let (left, right) = first.split_once(" = ").unwrap();
            format!("{left} {not}IN (SELECT {right} FROM p WHERE {filter})")
        }
    };
    let leaf = Predicate::Leaf(leaf);
    query.filter = Some(match query.filter.take() {
        Some(filter) => Predicate::And(filter.into(), leaf.into()),
        None => leaf,
    });
    query.items = vec![plain(&columns(r)[0]), plain(pick(rng, &columns(r)))];
}

fn scalar_subquery(rng: &mut StdRng, query: &mut Query, r: &Table, p: &Table) {
    let (of_r, of_p) = (columns(r), columns(p));
    let comparable: Vec<_> = of_r
        .iter()
        .filter_map(|left| {
            let same = |right: &&Named<'_>| right.sql.split('.').nth(1) == left.sql.split('.').nth(1);
            let right = of_p.iter().find(same)?;
            (right.kind == left.kind && !left.kind.is_nested()).then_some((left, right))
        })
        .collect();
    let (left, right) = pick(rng, &comparable);
    let name = *pick(rng, &["min", "max"]);
    let comparison = *pick(rng, &["<", ">=", "="]);
    let sql = format!("{} {comparison} (SELECT {name}({}) FROM p)", left.sql, right.sql);
    query.filter = Some(Predicate::Leaf(sql));
    query.items = vec![plain(&of_r[0]), plain(left)];
}

fn join(rng: &mut StdRng, query: &mut Query, r: &Table, p: &Table) {
    let inequality = rng.random_bool(0.2);
    let on = conditions(rng, r, p, inequality);
    let all: Vec<_> = columns(r).into_iter().chain(columns(p)).collect();
    let kind = *pick(rng, &["INNER", "INNER", "INNER", "LEFT", "RIGHT", "FULL"]);
    let filter = rng.random_bool(0.6).then(|| predicate(rng, &columns(p), 1));
    // Filters over both tables apply only to rows that come from both.
    if kind != "INNER" || rng.random_bool(0.5) {
        query.filter = (kind == "INNER" && rng.random_bool(0.5)).then(|| predicate(rng, &all, 2));
    }
    query.from.join = Some(Join { kind, table: p.name.clone(), on, filter, swapped: rng.random_bool(0.5) });
    match rng.random_range(0..3) {
        0 if !inequality => query.items = vec![plain(&columns(r)[0]), plain(&columns(p)[0]), plain(pick(rng, &all))],
        1 => query.items = aggregates(rng, &all),
        _ => {
            query.items = keys(rng, &all);
            query.items.extend(aggregates(rng, &all));
            query.grouped = true;
        }
    }
}
