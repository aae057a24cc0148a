//! Random query batches: skewed over years, or contrasting in selectivity.

use super::geography::{CITIES_PER_NATION, NATIONS, REGIONS, city_name};
use super::part::{BRANDS_PER_CATEGORY, CATEGORIES, MANUFACTURERS, brand_name, category_name, manufacturer_name};
use super::random::{Rng, Stream};

const YEAR_MAX: i32 = 1998;
const YEARS: i32 = 7;

/// Brands of a random brand range, as in Q2.2.
const BRAND_RANGE: u16 = 8;

/// One query of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchQuery {
    /// The template: `Q2.1` to `Q4.3`, or `wlfu-<dimension>-<column>`.
    pub name: String,
    /// The query.
    pub sql: String,
    /// The year of order dates that the query reads.
    pub year: i32,
}

/// `n` random queries, each over one year.
///
/// Year number i (1998 is 1, 1992 is 7) gets the share i^-theta / sum over j of j^-theta, rounded by largest remainder;
/// the order is random. `theta` 0 is uniform, and so are negative and NaN. Each query is one of the templates Q2.1 to
/// Q4.3 with random parameters, the year's range of `lo_orderdate` in place of the template's date predicate, and a
/// range of `lo_discount` of width 2 or of `lo_quantity` of width 10. Equal arguments give equal batches.
pub fn batch(n: usize, theta: f64, seed: u64) -> Vec<BatchQuery> {
    let mut rng = Rng::new(Stream::Batch, seed);
    years(n, theta, &mut rng).into_iter().map(|year| star_query(year, &mut rng)).collect()
}

/// `n` two-table queries, each over one year, with the years of [`batch`]: alternately with a very selective predicate
/// (`lo_quantity = x`, 2 % of the year's rows) and an unselective one (on `lo_discount`, 91 %). For cache policies that
/// weigh a segment's use by selectivity (WLFU). Equal arguments give equal batches.
pub fn wlfu_batch(n: usize, theta: f64, seed: u64) -> Vec<BatchQuery> {
    let mut rng = Rng::new(Stream::Wlfu, seed);
    let years = years(n, theta, &mut rng).into_iter().enumerate();
    years.map(|(number, year)| pair_query(year, number % 2 == 0, &mut rng)).collect()
}

/// The same queries in a random order that depends only on their number and `seed`.
pub fn reshuffle(queries: &[BatchQuery], seed: u64) -> Vec<BatchQuery> {
    let mut queries = queries.to_vec();
    Rng::new(Stream::Shuffle, seed).shuffle(&mut queries);
    queries
}

/// The year of each of `n` queries, in a random order.
fn years(n: usize, theta: f64, rng: &mut Rng) -> Vec<i32> {
    let counts = year_counts(n, theta).into_iter();
    let mut years: Vec<i32> = counts.flat_map(|(year, count)| std::iter::repeat_n(year, count)).collect();
    rng.shuffle(&mut years);
    years
}

/// Each year, the most recent first, with its number of queries out of `n`.
fn year_counts(n: usize, theta: f64) -> Vec<(i32, usize)> {
    let weights: Vec<f64> = (1..=YEARS).map(|i| f64::from(i).powf(-theta.max(0.0))).collect();
    let total: f64 = weights.iter().sum();
    let shares: Vec<f64> = weights.iter().map(|weight| n as f64 * weight / total).collect();
    let mut counts: Vec<(i32, usize, f64)> = shares
        .iter()
        .zip((0..YEARS).map(|i| YEAR_MAX - i))
        .map(|(share, year)| (year, share.floor() as usize, share.fract()))
        .collect();
    let missing = n - counts.iter().map(|(_, count, _)| count).sum::<usize>();
    counts.sort_by(|a, b| b.2.total_cmp(&a.2));
    for (_, count, _) in counts.iter_mut().take(missing) {
        *count += 1;
    }
    counts.sort_by_key(|(year, _, _)| -year);
    counts.into_iter().map(|(year, count, _)| (year, count)).collect()
}

/// The joins of a query, and so its tables.
#[derive(Clone, Copy)]
enum Join {
    Customer,
    Supplier,
    Part,
}

impl Join {
    fn table(self) -> &'static str {
        match self {
            Self::Customer => "customer",
            Self::Supplier => "supplier",
            Self::Part => "part",
        }
    }

    fn condition(self) -> &'static str {
        match self {
            Self::Customer => "lo_custkey = c_custkey",
            Self::Supplier => "lo_suppkey = s_suppkey",
            Self::Part => "lo_partkey = p_partkey",
        }
    }
}

/// One of the ten templates: its grouping, computation and order.
struct Template {
    name: &'static str,
    joins: &'static [Join],
    group_by: &'static str,
    measure: &'static str,
    order_by: &'static str,
    /// Random predicates on the dimensions.
    predicates: fn(&mut Rng) -> Vec<String>,
}

const PART_SUPPLIER: &[Join] = &[Join::Part, Join::Supplier];
const CUSTOMER_SUPPLIER: &[Join] = &[Join::Customer, Join::Supplier];
const ALL_JOINS: &[Join] = &[Join::Customer, Join::Supplier, Join::Part];
const REVENUE: &str = "sum(lo_revenue) as revenue";
const PROFIT: &str = "sum(lo_revenue - lo_supplycost) as profit";

const TEMPLATES: [Template; 10] = [
    Template {
        name: "Q2.1",
        joins: PART_SUPPLIER,
        group_by: "d_year, p_brand1",
        measure: REVENUE,
        order_by: "d_year, p_brand1",
        predicates: |rng| vec![category(rng), region("s_region", rng)],
    },
    Template {
        name: "Q2.2",
        joins: PART_SUPPLIER,
        group_by: "d_year, p_brand1",
        measure: REVENUE,
        order_by: "d_year, p_brand1",
        predicates: |rng| vec![brand_range(rng), region("s_region", rng)],
    },
    Template {
        name: "Q2.3",
        joins: PART_SUPPLIER,
        group_by: "d_year, p_brand1",
        measure: REVENUE,
        order_by: "d_year, p_brand1",
        predicates: |rng| vec![brand(rng), region("s_region", rng)],
    },
    Template {
        name: "Q3.1",
        joins: CUSTOMER_SUPPLIER,
        group_by: "c_nation, s_nation, d_year",
        measure: REVENUE,
        order_by: "d_year asc, revenue desc",
        predicates: |rng| vec![region("c_region", rng), region("s_region", rng)],
    },
    Template {
        name: "Q3.2",
        joins: CUSTOMER_SUPPLIER,
        group_by: "c_city, s_city, d_year",
        measure: REVENUE,
        order_by: "d_year asc, revenue desc",
        predicates: |rng| vec![nation("c_nation", rng), nation("s_nation", rng)],
    },
    Template {
        name: "Q3.3",
        joins: CUSTOMER_SUPPLIER,
        group_by: "c_city, s_city, d_year",
        measure: REVENUE,
        order_by: "d_year asc, revenue desc",
        predicates: |rng| vec![two_cities("c_city", rng), two_cities("s_city", rng)],
    },
    // Q3.4 differs from Q3.3 in the date predicate alone, which the year replaces.
    Template {
        name: "Q3.4",
        joins: CUSTOMER_SUPPLIER,
        group_by: "c_city, s_city, d_year",
        measure: REVENUE,
        order_by: "d_year asc, revenue desc",
        predicates: |rng| vec![two_cities("c_city", rng), two_cities("s_city", rng)],
    },
    Template {
        name: "Q4.1",
        joins: ALL_JOINS,
        group_by: "d_year, c_nation",
        measure: PROFIT,
        order_by: "d_year, c_nation",
        predicates: |rng| vec![region("c_region", rng), region("s_region", rng), two_manufacturers(rng)],
    },
    Template {
        name: "Q4.2",
        joins: ALL_JOINS,
        group_by: "d_year, s_nation, p_category",
        measure: PROFIT,
        order_by: "d_year, s_nation, p_category",
        predicates: |rng| vec![region("c_region", rng), region("s_region", rng), two_manufacturers(rng)],
    },
    Template {
        name: "Q4.3",
        joins: ALL_JOINS,
        group_by: "d_year, s_city, p_brand1",
        measure: PROFIT,
        order_by: "d_year, s_city, p_brand1",
        predicates: |rng| vec![region("c_region", rng), nation("s_nation", rng), category(rng)],
    },
];

fn star_query(year: i32, rng: &mut Rng) -> BatchQuery {
    let template = pick(&TEMPLATES, rng);
    let Template { name, joins, group_by, measure, order_by, predicates } = template;
    let tables: Vec<&str> = joins.iter().map(|join| join.table()).collect();
    let mut conditions: Vec<String> = vec!["lo_orderdate = d_datekey".into()];
    conditions.extend(joins.iter().map(|join| join.condition().into()));
    conditions.extend(predicates(rng));
    conditions.push(year_range(year));
    conditions.push(measure_range(rng));
    let sql = format!(
        "select {group_by}, {measure}
from lineorder, dates, {}
where {}
group by {group_by}
order by {order_by}",
        tables.join(", "),
        conditions.join("\n  and "),
    );
    BatchQuery { name: (*name).into(), sql, year }
}

/// Grouping columns of the two-table queries.
const PAIR_GROUPS: [(Join, &str); 6] = [
    (Join::Customer, "c_nation"),
    (Join::Customer, "c_region"),
    (Join::Supplier, "s_nation"),
    (Join::Supplier, "s_region"),
    (Join::Part, "p_mfgr"),
    (Join::Part, "p_category"),
];

const PAIR_MEASURES: [&str; 3] =
    ["sum(lo_revenue) as revenue", "sum(lo_supplycost) as cost", "sum(lo_extendedprice) as price"];

fn pair_query(year: i32, selective: bool, rng: &mut Rng) -> BatchQuery {
    let (join, group_by) = pick(&PAIR_GROUPS, rng);
    let measure = pick(&PAIR_MEASURES, rng);
    let (column, predicate) = if selective {
        ("lo_quantity", format!("lo_quantity = {}", rng.between(1, 50)))
    } else {
        ("lo_discount", (*pick(&["lo_discount >= 1", "lo_discount <= 9"], rng)).into())
    };
    let (table, condition, year_range) = (join.table(), join.condition(), year_range(year));
    let sql = format!(
        "select {group_by}, {measure}
from lineorder, {table}
where {condition}
  and {year_range}
  and {predicate}
group by {group_by}
order by {group_by}"
    );
    BatchQuery { name: format!("wlfu-{table}-{column}"), sql, year }
}

#[expect(clippy::indexing_slicing, reason = "below(len) is an index; no list here is empty")]
fn pick<'a, T>(items: &'a [T], rng: &mut Rng) -> &'a T {
    &items[rng.below(items.len() as u32) as usize]
}

fn region(column: &str, rng: &mut Rng) -> String {
    format!("{column} = '{}'", pick(&REGIONS, rng))
}

fn nation(column: &str, rng: &mut Rng) -> String {
    format!("{column} = '{}'", pick(&NATIONS, rng))
}

/// Two cities of one nation, as in Q3.3.
fn two_cities(column: &str, rng: &mut Rng) -> String {
    let nation = pick(&NATIONS, rng);
    let (first, second) = rng.pair(CITIES_PER_NATION);
    let (first, second) = (city_name(nation, first), city_name(nation, second));
    format!("({column} = '{first}' or {column} = '{second}')")
}

fn two_manufacturers(rng: &mut Rng) -> String {
    let (first, second) = rng.pair(MANUFACTURERS);
    let (first, second) = (manufacturer_name(first), manufacturer_name(second));
    format!("(p_mfgr = '{first}' or p_mfgr = '{second}')")
}

fn category(rng: &mut Rng) -> String {
    format!("p_category = '{}'", category_name(rng.key(CATEGORIES)))
}

fn brand(rng: &mut Rng) -> String {
    format!("p_brand1 = '{}'", brand_name(rng.key(CATEGORIES * BRANDS_PER_CATEGORY)))
}

/// [`BRAND_RANGE`] consecutive brands of one category, as in Q2.2.
fn brand_range(rng: &mut Rng) -> String {
    let category = rng.key(CATEGORIES);
    let first = category * BRANDS_PER_CATEGORY + rng.key(BRANDS_PER_CATEGORY - BRAND_RANGE + 1);
    let last = first + BRAND_RANGE - 1;
    format!("p_brand1 between '{}' and '{}'", brand_name(first), brand_name(last))
}

fn year_range(year: i32) -> String {
    format!("lo_orderdate between {year}0101 and {year}1231")
}

fn measure_range(rng: &mut Rng) -> String {
    let (column, low, width) =
        if rng.below(2) == 0 { ("lo_discount", rng.between(0, 8), 2) } else { ("lo_quantity", rng.between(1, 40), 10) };
    format!("{column} between {low} and {}", low + width)
}
