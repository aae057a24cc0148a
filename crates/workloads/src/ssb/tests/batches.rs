//! Query batches.

use std::collections::HashSet;

use crate::ssb::{BatchQuery, QUERIES, batch, reshuffle, wlfu_batch};

fn counts_from_1998(queries: &[BatchQuery]) -> Vec<usize> {
    let of_year = |year| queries.iter().filter(|query| query.year == year).count();
    (1992..=1998).rev().map(of_year).collect()
}

#[test]
fn years_get_their_exact_shares() {
    assert_eq!(counts_from_1998(&batch(70, 0.0, 1)), [10; 7]);
    // 363/140 is the harmonic number of 7, so these are exact.
    assert_eq!(counts_from_1998(&batch(363, 1.0, 1)), [140, 70, 47, 35, 28, 23, 20]);
    assert_eq!(counts_from_1998(&batch(50, f64::INFINITY, 1)), [50, 0, 0, 0, 0, 0, 0]);
    assert_eq!(counts_from_1998(&batch(14, f64::NAN, 1)), [2; 7]);
    for n in 0..200 {
        assert_eq!(batch(n, 0.7, 3).len(), n);
        assert_eq!(counts_from_1998(&wlfu_batch(n, 0.7, 3)), counts_from_1998(&batch(n, 0.7, 4)));
    }
}

#[test]
fn batches_depend_on_the_seed_alone() {
    assert_eq!(batch(50, 1.0, 7), batch(50, 1.0, 7));
    assert_ne!(batch(50, 1.0, 7), batch(50, 1.0, 8));
    assert_eq!(wlfu_batch(50, 1.0, 7), wlfu_batch(50, 1.0, 7));
    assert_ne!(wlfu_batch(50, 1.0, 7), wlfu_batch(50, 1.0, 8));
}

#[test]
fn reshuffling_keeps_the_queries() {
    let queries = batch(50, 1.0, 7);
    let shuffled = reshuffle(&queries, 9);
    assert_ne!(queries, shuffled);
    assert_eq!(shuffled, reshuffle(&queries, 9));
    let sorted = |queries: &[BatchQuery]| {
        let mut texts: Vec<String> = queries.iter().map(|query| query.sql.clone()).collect();
        texts.sort();
        texts
    };
    assert_eq!(sorted(&queries), sorted(&shuffled));
}

#[test]
fn every_template_occurs_with_its_year_and_one_range() {
    let queries = batch(1000, 0.5, 5);
    let names: HashSet<&str> = queries.iter().map(|query| query.name.as_str()).collect();
    let templates: HashSet<&str> = QUERIES.iter().map(|(name, _)| *name).skip(3).collect();
    assert_eq!(names, templates);
    let mut discounts = 0;
    for BatchQuery { sql, year, .. } in &queries {
        assert!(sql.contains(&format!("lo_orderdate between {year}0101 and {year}1231")), "{sql}");
        assert!(sql.contains("lo_orderdate = d_datekey"), "{sql}");
        let discount = sql.contains("lo_discount between ");
        assert_ne!(discount, sql.contains("lo_quantity between "), "{sql}");
        discounts += usize::from(discount);
    }
    assert!((400..600).contains(&discounts), "{discounts} of 1000 filter the discount");
}

#[test]
fn wlfu_queries_alternate() {
    let queries = wlfu_batch(400, 0.5, 2);
    for pair in queries.chunks(2) {
        let names: Vec<&str> = pair.iter().map(|query| query.name.as_str()).collect();
        assert!(matches!(
            names.as_slice(),
            [first, second] if first.ends_with("lo_quantity") && second.ends_with("lo_discount")
        ));
    }
    let names: HashSet<&str> = queries.iter().map(|query| query.name.as_str()).collect();
    assert_eq!(names.len(), 3 * 2, "three dimensions with either predicate: {names:?}");
    for BatchQuery { name, sql, year } in &queries {
        let [_, table, column] = name.split('-').collect::<Vec<_>>()[..] else { panic!("{name}") };
        assert!(sql.contains(&format!("from lineorder, {table}\n")), "{sql}");
        assert!(sql.contains(&format!("lo_orderdate between {year}0101 and {year}1231")), "{sql}");
        assert_eq!(sql.contains("lo_quantity = "), column == "lo_quantity", "{sql}");
        assert_eq!(sql.contains("lo_discount "), column == "lo_discount", "{sql}");
        let grouped = sql.lines().find_map(|line| line.strip_prefix("group by ")).unwrap();
        assert!(table.starts_with(&grouped[..1]), "{grouped} is an attribute of {table}");
    }
}
