use std::collections::BTreeMap;

use thermocline_transactions::database::RowSession;
use thermocline_transactions::types::{Value, ValueRef};

use crate::clients::{int, text};

/// Warehouse, district and number.
pub type OrderKey = (i64, i64, i64);
/// Warehouse, district and number.
pub type CustomerKey = (i64, i64, i64);
/// The customer, and the number of earlier payments.
pub type PaymentKey = (CustomerKey, i64);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    pub customer: i64,
    /// `None` before it is delivered.
    pub carrier: Option<i64>,
    pub lines: Vec<Line>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Line {
    pub number: i64,
    pub item: i64,
    pub supplier: i64,
    pub quantity: i64,
}

/// A row of HISTORY without its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Payment {
    pub warehouse: i64,
    pub district: i64,
    pub amount: Value,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stock {
    pub quantity: i64,
    pub ytd: i64,
    pub orders: i64,
    pub remote_orders: i64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Customer {
    pub last_name: Box<str>,
    pub payments: i64,
    pub deliveries: i64,
}

/// Effects of transactions, as far as the consistency conditions do not cover them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct State {
    pub orders: BTreeMap<OrderKey, Order>,
    pub payments: BTreeMap<PaymentKey, Payment>,
    /// By warehouse and item.
    pub stock: BTreeMap<(i64, i64), Stock>,
    pub customers: BTreeMap<CustomerKey, Customer>,
}

impl State {
    pub fn read(session: &mut RowSession) -> Self {
        let mut state = Self::default();
        each(session, "SELECT o_w_id, o_d_id, o_id, o_c_id, o_carrier_id FROM orders", |row| {
            let carrier = (!row[4].is_null()).then(|| int(row[4]));
            state.orders.insert(key(row), Order { customer: int(row[3]), carrier, lines: Vec::new() });
        });
        let lines = "SELECT ol_w_id, ol_d_id, ol_o_id, ol_number, ol_i_id, ol_supply_w_id, ol_quantity FROM order_line";
        each(session, lines, |row| {
            let [number, item, supplier, quantity] = [3, 4, 5, 6].map(|column| int(row[column]));
            // Lines without an order are what condition 6 finds.
            if let Some(order) = state.orders.get_mut(&key(row)) {
                order.lines.push(Line { number, item, supplier, quantity });
            }
        });
        state.orders.values_mut().for_each(|order| order.lines.sort_unstable());
        let payments = "SELECT h_c_w_id, h_c_d_id, h_c_id, h_c_payment_cnt, h_w_id, h_d_id, h_amount FROM history";
        each(session, payments, |row| {
            let amount = row[6].to_value();
            let payment = Payment { warehouse: int(row[4]), district: int(row[5]), amount };
            let twice = state.payments.insert((key(row), int(row[3])), payment);
            assert!(twice.is_none(), "two payments of one customer have one number: {twice:?}");
        });
        each(session, "SELECT s_w_id, s_i_id, s_quantity, s_ytd, s_order_cnt, s_remote_cnt FROM stock", |row| {
            let [quantity, ytd, orders, remote_orders] = [2, 3, 4, 5].map(|column| int(row[column]));
            state.stock.insert((int(row[0]), int(row[1])), Stock { quantity, ytd, orders, remote_orders });
        });
        let customers = "SELECT c_w_id, c_d_id, c_id, c_last, c_payment_cnt, c_delivery_cnt FROM customer";
        each(session, customers, |row| {
            let [payments, deliveries] = [4, 5].map(|column| int(row[column]));
            let customer = Customer { last_name: text(row[3]).into(), payments, deliveries };
            state.customers.insert(key(row), customer);
        });
        state
    }
}

fn each(session: &mut RowSession, sql: &str, mut row: impl FnMut(&[ValueRef<'_>])) {
    let rows = session.execute(sql, &[]).unwrap_or_else(|error| panic!("{sql}: {error}")).rows;
    rows.iter().for_each(|values| row(&values.collect::<Vec<_>>()));
}

/// The first three columns.
fn key(row: &[ValueRef<'_>]) -> (i64, i64, i64) {
    (int(row[0]), int(row[1]), int(row[2]))
}
