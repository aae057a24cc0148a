//! Delivery: the oldest new order of each district.

use thermocline_transactions::Result;
use thermocline_transactions::database::StatementResult;
use thermocline_transactions::error::Class;
use thermocline_transactions::procedure::{Context, Procedure};
use thermocline_transactions::sql::Rows;
use thermocline_transactions::types::{Decimal, Value};

use super::result::{decimal, int, one_each};
use crate::tpcc::scale::DISTRICTS;

pub const HEAD: &str = "delivery(w_id INTEGER, carrier_id INTEGER) PARTITION ON (w_id)";

const OLDEST: usize = 0;
const TAKE: usize = 1;
const ORDER: usize = 2;
const LINES: usize = 3;
const CUSTOMER: usize = 4;

const STATEMENTS: [&str; 5] = [
    "SELECT no_o_id FROM new_order WHERE no_w_id = $1 AND no_d_id = $2 ORDER BY no_o_id LIMIT 1",
    "DELETE FROM new_order WHERE no_w_id = $1 AND no_d_id = $2 AND no_o_id = $3",
    "UPDATE orders SET o_carrier_id = $4 WHERE o_w_id = $1 AND o_d_id = $2 AND o_id = $3 RETURNING o_c_id",
    "UPDATE order_line SET ol_delivery_d = now() WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id = $3 \
     RETURNING ol_amount",
    "UPDATE customer SET c_balance = c_balance + $4, c_delivery_cnt = c_delivery_cnt + 1 \
     WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3",
];

/// Clause 2.7. The result has a row for each district with a delivered order: district, order. A district without an
/// order is skipped.
pub struct Delivery;

impl Procedure for Delivery {
    fn statements(&self) -> &[&str] {
        &STATEMENTS
    }

    fn run(&self, context: &mut Context<'_, '_>, arguments: &[Value]) -> Result<StatementResult> {
        let [warehouse, carrier] = arguments else {
            return Err(Class::Procedure.error("delivery takes two arguments"));
        };
        // Each of the five steps runs for all districts before the next one.
        let districts: Vec<[Value; 2]> =
            (1..=i64::from(DISTRICTS)).map(|district| [warehouse.clone(), Value::Int(district)]).collect();
        let oldest = context.execute_batch(OLDEST, &districts)?;
        let mut rows = Rows::with_capacity(2, districts.len());
        let mut orders = Vec::with_capacity(districts.len());
        for (run, [w, d]) in districts.into_iter().enumerate() {
            for row in oldest.rows_of(run) {
                let order = oldest.outcome.rows.value(row, 0);
                rows.push(d.as_ref())?;
                rows.push(order)?;
                orders.push([w.clone(), d.clone(), order.to_value()]);
            }
        }
        context.execute_batch(TAKE, &orders)?;
        let lines = context.execute_batch(LINES, &orders)?;
        let with_carrier: Vec<[Value; 4]> = orders.into_iter().map(|[w, d, o]| [w, d, o, carrier.clone()]).collect();
        let customers = one_each(context.execute_batch(ORDER, &with_carrier)?, "orders")?;
        let mut paid = Vec::with_capacity(with_carrier.len());
        for (run, [w, d, ..]) in with_carrier.into_iter().enumerate() {
            let amounts = lines.rows_of(run).map(|line| decimal(&lines.outcome.rows, line, 0));
            let amount = amounts.into_iter().try_fold(Decimal::ZERO, |sum, amount| sum.plus(amount?))?;
            paid.push([w, d, Value::Int(int(&customers, run, 0)?), amount.into()]);
        }
        context.execute_batch(CUSTOMER, &paid)?;
        Ok(StatementResult { affected: rows.len() as u64, rows, ..StatementResult::default() })
    }
}
