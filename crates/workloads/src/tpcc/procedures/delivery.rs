use thermocline_transactions::Result;
use thermocline_transactions::database::Answer;
use thermocline_transactions::error::Class;
use thermocline_transactions::procedure::{Context, Procedure};
use thermocline_transactions::sql::Rows;
use thermocline_transactions::types::{Decimal, Value, ValueRef};

use super::result::{decimal, int, only};
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

/// Clause 2.7. Its result has a row for each district with an order that was delivered: district, order. A
/// district without one is skipped.
pub struct Delivery;

impl Procedure for Delivery {
    fn statements(&self) -> &[&str] {
        &STATEMENTS
    }

    fn run(&self, context: &mut Context<'_, '_>, arguments: &[Value]) -> Result<Answer> {
        let [warehouse, carrier] = arguments else {
            return Err(Class::Procedure.error("delivery takes two arguments"));
        };
        let mut rows = Rows::new(2);
        for district in 1..=i64::from(DISTRICTS) {
            let place = [warehouse.clone(), Value::Int(district)];
            let oldest = context.execute(OLDEST, &place)?.rows;
            if oldest.is_empty() {
                continue;
            }
            let order = int(&oldest, 0, 0)?;
            let [w, d] = place;
            let key = [w, d, Value::Int(order)];
            context.execute(TAKE, &key)?;
            let amounts = context.execute(LINES, &key)?.rows;
            let amount =
                (0..amounts.len()).try_fold(Decimal::ZERO, |sum, line| sum.plus(decimal(&amounts, line, 0)?))?;
            let [w, d, o] = key;
            let with_carrier = [w, d, o, carrier.clone()];
            let customer = context.execute(ORDER, &with_carrier)?.rows;
            let customer = int(only(&customer, "orders", &with_carrier)?, 0, 0)?;
            let [w, d, ..] = with_carrier;
            context.execute(CUSTOMER, &[w, d, Value::Int(customer), amount.into()])?;
            rows.push(ValueRef::Int(district))?;
            rows.push(ValueRef::Int(order))?;
        }
        Ok(Answer { affected: rows.len() as u64, rows, ..Answer::default() })
    }
}
