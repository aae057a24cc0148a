//! Order-Status: a customer's last order.

use thermocline_transactions::Result;
use thermocline_transactions::database::StatementResult;
use thermocline_transactions::error::Class;
use thermocline_transactions::procedure::{Context, Procedure};
use thermocline_transactions::sql::Rows;
use thermocline_transactions::types::{Value, ValueRef};

use super::customer::{BY_NAME, customer_id};
use super::result::only;

/// One of `c_id` and `c_last` is NULL.
pub const HEAD: &str = "order_status(w_id INTEGER, d_id INTEGER, c_id INTEGER, c_last VARCHAR(16)) PARTITION ON (w_id)";

const CUSTOMER_BY_NAME: usize = 0;
const CUSTOMER: usize = 1;
const LAST_ORDER: usize = 2;
const LINES: usize = 3;

const STATEMENTS: [&str; 4] = [
    BY_NAME,
    "SELECT c_id, c_first, c_middle, c_last, c_balance FROM customer WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3",
    "SELECT o_id, o_entry_d, o_carrier_id FROM orders WHERE o_w_id = $1 AND o_d_id = $2 AND o_c_id = $3 \
     ORDER BY o_id DESC LIMIT 1",
    "SELECT ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d FROM order_line \
     WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id = $3 ORDER BY ol_number",
];

/// Clause 2.6. The first row of its result is the customer's number, name and balance; the second the last
/// order's number, time and carrier; the others are its lines: item, warehouse, quantity, amount, delivery.
pub struct OrderStatus;

impl Procedure for OrderStatus {
    fn statements(&self) -> &[&str] {
        &STATEMENTS
    }

    fn run(&self, context: &mut Context<'_, '_>, arguments: &[Value]) -> Result<StatementResult> {
        let [w, d, id, last] = arguments else {
            return Err(Class::Procedure.error("order_status takes four arguments"));
        };
        let id = customer_id(context, CUSTOMER_BY_NAME, [w, d], id, last)?;
        let key = [w.clone(), d.clone(), id];
        let customer = context.execute(CUSTOMER, &key)?.rows;
        let mut rows = Rows::new(5);
        rows.push_row(only(&customer, "customer", &key)?, 0)?;
        let order = context.execute(LAST_ORDER, &key)?.rows;
        let [w, d, _] = key;
        let key = [w, d, only(&order, "orders of a customer", arguments)?.value(0, 0).to_value()];
        order.row(0).chain([ValueRef::Null; 2]).try_for_each(|value| rows.push(value))?;
        let lines = context.execute(LINES, &key)?.rows;
        (0..lines.len()).try_for_each(|line| rows.push_row(&lines, line))?;
        Ok(StatementResult { affected: rows.len() as u64, rows, ..StatementResult::default() })
    }
}
