//! The `lineorder` table, in order of `lo_orderdate`.
//!
//! ```text
//! day_start:  0        612       1240     ...            orders      (orders before each day)
//!             | day 0   | day 1   | day 2  ...  | day 2405 |
//! order number 0 1 2 ... 612 613 ...                             unit of this source
//! ```

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Int64Array, RecordBatch};
use arrow::error::ArrowError;

use super::calendar::{COMMIT_DAYS_MAX, Day, ORDER_DAYS};
use super::part::price;
use super::random::{Rng, Stream};
use super::schema::LINEORDER;
use super::sizes::Sizes;
use crate::generate::{Source, Table, Words, integers};

const PRIORITIES: [&str; 5] = ["1-URGENT", "2-HIGH", "3-MEDIUM", "4-NOT SPECIFIED", "5-LOW"];
const SHIP_PRIORITY: &str = "0";
const SHIP_MODES: [&str; 7] = ["REG AIR", "AIR", "RAIL", "TRUCK", "MAIL", "FOB", "SHIP"];

const LINES_MAX: u32 = 7;

/// One customer of three never orders.
const CUSTOMER_MORTALITY: i32 = 3;

pub(super) struct Lineorder {
    sizes: Sizes,
    rows: u64,
    /// Element d is the number of orders before day d; one more element than days.
    day_start: Vec<u64>,
    priorities: Words,
    ship_priorities: Words,
    ship_modes: Words,
}

impl Lineorder {
    /// Draws the number of orders of each day, in time proportional to the number of orders
    /// (about 2 ns each) and memory proportional to the number of days.
    pub(super) fn new(sizes: Sizes) -> Self {
        let mut orders_of_day = vec![0u64; ORDER_DAYS as usize];
        let mut rows = 0;
        for order in 0..sizes.orders {
            let day = Rng::new(Stream::OrderDay, order).below(ORDER_DAYS);
            if let Some(orders) = orders_of_day.get_mut(day as usize) {
                *orders += 1;
            }
            rows += u64::from(lines(order));
        }
        let mut day_start = vec![0];
        day_start.extend(orders_of_day.iter().scan(0, |before, orders| {
            *before += orders;
            Some(*before)
        }));
        Self {
            sizes,
            rows,
            day_start,
            priorities: Words::new(PRIORITIES),
            ship_priorities: Words::new([SHIP_PRIORITY]),
            ship_modes: Words::new(SHIP_MODES),
        }
    }

    /// The day of `order`, and the number of earlier orders of that day.
    fn day_and_rank(&self, order: u64) -> (u32, u64) {
        let day = self.day_start.partition_point(|start| *start <= order).saturating_sub(1);
        (day as u32, order - self.day_start.get(day).copied().unwrap_or(0))
    }

    fn push_order(&self, order: u64, columns: &mut Columns) {
        let (day, rank) = self.day_and_rank(order);
        let mut rng = Rng::new(Stream::Order, order);
        let lines = lines(order) as usize;
        columns.orderkey.extend(std::iter::repeat_n(order_key(day, rank), lines));
        columns.orderdate.extend(std::iter::repeat_n(Day::new(day).key(), lines));
        let custkey = ordering_customer(&mut rng, self.sizes.customers as i32);
        columns.custkey.extend(std::iter::repeat_n(custkey, lines));
        let priority = rng.key(self.priorities.len());
        columns.orderpriority.extend(std::iter::repeat_n(priority, lines));
        let mut total = 0;
        for line in 1..=lines as i32 {
            total += self.push_line(line, day, &mut rng, columns);
        }
        columns.ordtotalprice.extend(std::iter::repeat_n(total, lines));
    }

    /// Pushes the columns that differ between the lines of an order, and returns the line's
    /// price after discount and tax, in cents.
    fn push_line(&self, line: i32, day: u32, rng: &mut Rng, columns: &mut Columns) -> i32 {
        let partkey = rng.between(1, self.sizes.parts as i32);
        let quantity = rng.between(1, 50);
        let discount = rng.between(0, 10);
        let tax = rng.between(0, 8);
        let price = price(partkey);
        let extended_price = quantity * price;
        let revenue = discounted(extended_price, discount);
        columns.linenumber.push(line);
        columns.partkey.push(partkey);
        columns.suppkey.push(rng.between(1, self.sizes.suppliers as i32));
        columns.quantity.push(quantity);
        columns.extendedprice.push(extended_price);
        columns.discount.push(discount);
        columns.revenue.push(revenue);
        columns.supplycost.push(6 * price / 10);
        columns.tax.push(tax);
        columns.commitdate.push(Day::new(day + rng.between(30, COMMIT_DAYS_MAX) as u32).key());
        columns.shipmode.push(rng.key(self.ship_modes.len()));
        taxed(revenue, tax)
    }
}

/// Number of lines of an order, 1 to 7.
fn lines(order: u64) -> u32 {
    1 + Rng::new(Stream::OrderLines, order).below(LINES_MAX)
}

/// Order `rank` of `day` has one of the [`ORDER_DAYS`] keys of that rank, a different one for
/// each day. So keys are unique, spread over the whole domain for every day, and ascend within a
/// day, as `dbgen`'s do once sorted by date. They are not dense, as `dbgen`'s are not.
fn order_key(day: u32, rank: u64) -> i64 {
    let days = u64::from(ORDER_DAYS);
    let shift = Rng::new(Stream::OrderKey, rank).below(ORDER_DAYS);
    (rank * days + u64::from(day + shift) % days) as i64 + 1
}

/// A customer whose key is no multiple of [`CUSTOMER_MORTALITY`].
fn ordering_customer(rng: &mut Rng, customers: i32) -> i32 {
    let custkey = rng.between(1, customers);
    if custkey % CUSTOMER_MORTALITY != 0 {
        custkey
    } else if custkey == customers {
        custkey - 1
    } else {
        custkey + 1
    }
}

fn discounted(price: i32, percent: i32) -> i32 {
    (i64::from(price) * i64::from(100 - percent) / 100) as i32
}

fn taxed(price: i32, percent: i32) -> i32 {
    (i64::from(price) * i64::from(100 + percent) / 100) as i32
}

#[derive(Default)]
struct Columns {
    orderkey: Vec<i64>,
    linenumber: Vec<i32>,
    custkey: Vec<i32>,
    partkey: Vec<i32>,
    suppkey: Vec<i32>,
    orderdate: Vec<i32>,
    orderpriority: Vec<u16>,
    quantity: Vec<i32>,
    extendedprice: Vec<i32>,
    ordtotalprice: Vec<i32>,
    discount: Vec<i32>,
    revenue: Vec<i32>,
    supplycost: Vec<i32>,
    tax: Vec<i32>,
    commitdate: Vec<i32>,
    shipmode: Vec<u16>,
}

impl Source for Lineorder {
    fn table(&self) -> Table {
        LINEORDER
    }

    fn units(&self) -> u64 {
        self.sizes.orders
    }

    fn rows(&self) -> u64 {
        self.rows
    }

    fn batch(&self, units: Range<u64>) -> Result<RecordBatch, ArrowError> {
        let mut columns = Columns::default();
        for order in units {
            self.push_order(order, &mut columns);
        }
        let rows = columns.orderkey.len();
        RecordBatch::try_new(
            LINEORDER.generated_schema(),
            vec![
                Arc::new(Int64Array::from(columns.orderkey)),
                integers(columns.linenumber),
                integers(columns.custkey),
                integers(columns.partkey),
                integers(columns.suppkey),
                integers(columns.orderdate),
                self.priorities.column(columns.orderpriority)?,
                self.ship_priorities.column(vec![0; rows])?,
                integers(columns.quantity),
                integers(columns.extendedprice),
                integers(columns.ordtotalprice),
                integers(columns.discount),
                integers(columns.revenue),
                integers(columns.supplycost),
                integers(columns.tax),
                integers(columns.commitdate),
                self.ship_modes.column(columns.shipmode)?,
            ],
        )
    }
}
