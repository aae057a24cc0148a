//! Content of the rows.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::error::Error;
use std::hash::Hash;

use super::read::{Generated, TestResult, ints, longs, strings};
use crate::ssb::calendar::{DAYS, Day};
use crate::ssb::part::price;
use crate::ssb::sizes::Sizes;
use crate::ssb::{CUSTOMER, DATES, Format, LINEORDER, PART, SUPPLIER};

#[test]
fn row_counts_follow_the_scale() -> TestResult {
    let generated = Generated::new(Format::Parquet)?;
    let rows: Vec<u64> = generated.summary.tables.iter().map(|table| table.rows).collect();
    let (lineorder, dimensions) = rows.split_first().ok_or("no tables")?;
    assert_eq!(dimensions, [300, 50, 2000, 2557]);
    assert!((59_000..61_000).contains(lineorder), "{lineorder} rows");
    let orderkeys = longs(&generated.read(LINEORDER)?, "lo_orderkey")?;
    assert_eq!(orderkeys.len() as u64, *lineorder);
    assert_eq!(orderkeys.into_iter().collect::<HashSet<_>>().len(), 15_000);
    Ok(())
}

#[test]
fn parts_grow_with_the_logarithm_of_the_scale() -> TestResult {
    for (scale, parts) in [(0.1, 20_000), (1.0, 200_000), (2.0, 400_000), (100.0, 1_400_000)] {
        assert_eq!(Sizes::new(scale)?.parts, parts, "scale {scale}");
    }
    assert_eq!(
        Sizes::new(100.0)?,
        Sizes { customers: 3_000_000, suppliers: 200_000, parts: 1_400_000, orders: 150_000_000 }
    );
    Ok(())
}

#[test]
fn dimension_keys_are_dense() -> TestResult {
    let generated = Generated::new(Format::Parquet)?;
    for (table, key) in [(CUSTOMER, "c_custkey"), (SUPPLIER, "s_suppkey"), (PART, "p_partkey")] {
        let keys = ints(&generated.read(table)?, key)?;
        assert!(keys.iter().copied().eq(1..=keys.len() as i32), "{table}");
    }
    Ok(())
}

#[test]
fn lineorder_is_sorted_and_refers_to_existing_rows() -> TestResult {
    let generated = Generated::new(Format::Parquet)?;
    let lineorder = generated.read(LINEORDER)?;
    assert!(ints(&lineorder, "lo_orderdate")?.is_sorted());
    for (column, table, key) in [
        ("lo_custkey", CUSTOMER, "c_custkey"),
        ("lo_suppkey", SUPPLIER, "s_suppkey"),
        ("lo_partkey", PART, "p_partkey"),
        ("lo_orderdate", DATES, "d_datekey"),
        ("lo_commitdate", DATES, "d_datekey"),
    ] {
        let keys: HashSet<i32> = ints(&generated.read(table)?, key)?.into_iter().collect();
        let references = ints(&lineorder, column)?;
        assert!(references.iter().all(|reference| keys.contains(reference)), "{column}");
    }
    Ok(())
}

#[test]
fn prices_follow_from_the_parts() -> TestResult {
    let generated = Generated::new(Format::Parquet)?;
    let lineorder = generated.read(LINEORDER)?;
    let int = |name: &str| Ok::<_, Box<dyn Error>>(ints(&lineorder, name)?.into_iter());
    let prices = int("lo_partkey")?.map(price);
    let extended = prices.clone().zip(int("lo_quantity")?).map(|(price, quantity)| price * quantity);
    assert!(int("lo_extendedprice")?.eq(extended.clone()));
    assert!(int("lo_supplycost")?.eq(prices.map(|price| 6 * price / 10)));
    let revenue = extended
        .zip(int("lo_discount")?)
        .map(|(price, discount)| (i64::from(price) * i64::from(100 - discount) / 100) as i32);
    assert!(int("lo_revenue")?.eq(revenue.clone()));

    let orderkeys = longs(&lineorder, "lo_orderkey")?;
    let taxed = revenue.zip(int("lo_tax")?).map(|(revenue, tax)| i64::from(revenue) * i64::from(100 + tax) / 100);
    let mut totals: HashMap<i64, i64> = HashMap::new();
    let mut next_line: HashMap<i64, i32> = HashMap::new();
    for ((key, taxed), line) in orderkeys.iter().zip(taxed).zip(int("lo_linenumber")?) {
        *totals.entry(*key).or_default() += taxed;
        let next = next_line.entry(*key).or_default();
        *next += 1;
        assert_eq!(*next, line, "order {key}");
    }
    for (key, total) in orderkeys.iter().zip(int("lo_ordtotalprice")?) {
        assert_eq!(totals.get(key), Some(&i64::from(total)), "order {key}");
    }
    Ok(())
}

/// Each of `count` values occurs, and none `tolerance` (relative) more or less than the mean.
fn assert_uniform<T: Ord + Hash>(name: &str, values: Vec<T>, count: usize, tolerance: f64) {
    let mean = values.len() as f64 / count as f64;
    let mut counts: BTreeMap<T, u32> = BTreeMap::new();
    for value in values {
        *counts.entry(value).or_default() += 1;
    }
    assert_eq!(counts.len(), count, "{name}");
    for occurrences in counts.into_values() {
        let deviation = (f64::from(occurrences) / mean - 1.0).abs();
        assert!(deviation < tolerance, "{name}: {occurrences} occurrences, the mean is {mean}");
    }
}

#[test]
fn columns_are_uniform() -> TestResult {
    let generated = Generated::new(Format::Parquet)?;
    let lineorder = generated.read(LINEORDER)?;
    // Five standard deviations of a value's count, at 60,000 lines of 15,000 orders.
    assert_uniform("quantity", ints(&lineorder, "lo_quantity")?, 50, 0.15);
    assert_uniform("discount", ints(&lineorder, "lo_discount")?, 11, 0.07);
    assert_uniform("tax", ints(&lineorder, "lo_tax")?, 9, 0.07);
    assert_uniform("shipmode", strings(&lineorder, "lo_shipmode")?, 7, 0.06);
    assert_uniform("priority", strings(&lineorder, "lo_orderpriority")?, 5, 0.1);
    assert_uniform("suppkey", ints(&lineorder, "lo_suppkey")?, 50, 0.15);
    let years = ints(&lineorder, "lo_orderdate")?.into_iter().map(|date| date / 10_000);
    assert_uniform("year", years.filter(|year| *year < 1998).collect(), 6, 0.1);
    let part = generated.read(PART)?;
    assert_uniform("mfgr", strings(&part, "p_mfgr")?, 5, 0.25);
    assert_uniform("category", strings(&part, "p_category")?, 25, 0.6);
    let customer = generated.read(CUSTOMER)?;
    assert_uniform("region", strings(&customer, "c_region")?, 5, 0.6);
    Ok(())
}

#[test]
fn words_nest() -> TestResult {
    let generated = Generated::new(Format::Parquet)?;
    let part = generated.read(PART)?;
    let (mfgr, category) = (strings(&part, "p_mfgr")?, strings(&part, "p_category")?);
    let brands = strings(&part, "p_brand1")?;
    for ((mfgr, category), brand) in mfgr.iter().zip(&category).zip(&brands) {
        assert_eq!((mfgr.len(), category.len(), brand.len()), (6, 7, 9));
        assert!(category.starts_with(mfgr.as_str()) && brand.starts_with(category.as_str()));
    }
    let customer = generated.read(CUSTOMER)?;
    let nations = strings(&customer, "c_nation")?;
    for (city, nation) in strings(&customer, "c_city")?.iter().zip(&nations) {
        let prefix = city.get(..9).ok_or("short city")?;
        assert_eq!(city.len(), 10);
        assert!(nation.starts_with(prefix.trim_end()));
    }
    let home: HashSet<_> = nations.into_iter().zip(strings(&customer, "c_region")?).collect();
    let expected = [("CHINA", "ASIA"), ("UNITED STATES", "AMERICA"), ("IRAN", "MIDDLE EAST")];
    for (nation, region) in expected {
        assert!(home.contains(&(nation.into(), region.into())), "{nation} in {region}");
    }
    assert!(home.len() <= 25, "a nation has one region");
    Ok(())
}

#[test]
fn the_calendar_is_right() {
    let days: Vec<Day> = (0..DAYS).map(Day::new).collect();
    assert!(days.iter().map(|day| day.key()).is_sorted_by(|a, b| a < b));
    let keys: HashSet<i32> = days.iter().map(|day| day.key()).collect();
    let lengths = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    for year in 1992..=1998 {
        for (month, length) in (1..).zip(lengths) {
            let leap = i32::from(month == 2 && year % 4 == 0);
            for day in 1..=length + leap {
                assert!(keys.contains(&(year * 10_000 + month * 100 + day)));
            }
        }
    }
    assert_eq!(Day::new(2405).key(), 19_980_802);
    assert_eq!(Day::new(2405).day_of_week, 1, "a Sunday");
    assert_eq!(Day::new(DAYS - 1).key(), 19_981_231);
    assert_eq!(Day::new(DAYS - 1).day_of_year, 365);
}

#[test]
fn dates_have_the_attributes_that_queries_use() -> TestResult {
    let dates = Generated::new(Format::Csv)?.read(DATES)?;
    let count = |name: &str, wanted: i32| -> Result<usize, Box<dyn Error>> {
        Ok(ints(&dates, name)?.into_iter().filter(|value| *value == wanted).count())
    };
    assert_eq!(count("d_year", 1993)?, 365);
    assert_eq!(count("d_yearmonthnum", 199_401)?, 31);
    assert_eq!(count("d_weeknuminyear", 6)?, 7 * 7);
    assert_eq!(count("d_lastdayinmonthfl", 1)?, 84);
    assert_eq!(count("d_holidayfl", 1)?, 70);
    let months = strings(&dates, "d_yearmonth")?;
    assert_eq!(months.iter().filter(|month| *month == "Dec1997").count(), 31);
    assert!(strings(&dates, "d_date")?.contains(&"February 29 1996".to_owned()));
    Ok(())
}
