//! Payment: a customer's payment, by number or last name.

use thermocline_transactions::Result;
use thermocline_transactions::database::StatementResult;
use thermocline_transactions::error::Class;
use thermocline_transactions::procedure::{Context, Procedure};
use thermocline_transactions::sql::Rows;
use thermocline_transactions::types::{Value, ValueRef};

use super::customer::{BY_NAME, customer_id};
use super::result::{first, int, only, text};

/// One of `c_id` and `c_last` is NULL.
pub const HEAD: &str = "payment(w_id INTEGER, d_id INTEGER, c_w_id INTEGER, c_d_id INTEGER, c_id INTEGER, \
                        c_last VARCHAR(16), amount DECIMAL(6, 2)) PARTITION ON (w_id, c_w_id)";

const CUSTOMER_BY_NAME: usize = 0;
const CUSTOMER: usize = 1;
const BAD_CREDIT: usize = 2;
const WAREHOUSE: usize = 3;
const DISTRICT: usize = 4;
const HISTORY: usize = 5;

const STATEMENTS: [&str; 6] = [
    BY_NAME,
    "UPDATE customer SET c_balance = c_balance - $4, c_ytd_payment = c_ytd_payment + $4, \
     c_payment_cnt = c_payment_cnt + 1 WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3 \
     RETURNING c_payment_cnt, c_credit, c_first, c_middle, c_last, c_street_1, c_street_2, c_city, c_state, c_zip, \
     c_phone, c_since, c_credit_lim, c_discount, c_balance",
    "UPDATE customer SET c_data = left($4 || c_data, 500) WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3 \
     RETURNING left(c_data, 200)",
    "UPDATE warehouse SET w_ytd = w_ytd + $2 WHERE w_id = $1 \
     RETURNING w_name, w_street_1, w_street_2, w_city, w_state, w_zip",
    "UPDATE district SET d_ytd = d_ytd + $3 WHERE d_w_id = $1 AND d_id = $2 \
     RETURNING d_name, d_street_1, d_street_2, d_city, d_state, d_zip",
    "INSERT INTO history VALUES ($1, $2, $3, $4, $5, now(), $6, $7, $8)",
];

/// Clause 2.5. Its result has one row: the customer's number, credit, name, address, phone and since, credit
/// limit, discount and balance; 200 characters of C_DATA or NULL; the warehouse's and the district's address.
pub struct Payment;

impl Procedure for Payment {
    fn statements(&self) -> &[&str] {
        &STATEMENTS
    }

    fn run(&self, context: &mut Context<'_, '_>, arguments: &[Value]) -> Result<StatementResult> {
        let [w, d, customer_w, customer_d, id, last, amount] = arguments else {
            return Err(Class::Procedure.error("payment takes seven arguments"));
        };
        let id = customer_id(context, CUSTOMER_BY_NAME, [customer_w, customer_d], id, last)?;
        let mut key = [customer_w.clone(), customer_d.clone(), id, amount.clone()];
        let customer = context.execute(CUSTOMER, &key)?.rows;
        let count = int(only(&customer, "customer", first(3, &key))?, 0, 0)?;
        let mut data = None;
        if text(&customer, 0, 1)? == "BC" {
            let [c_w, c_d, c, amount] = &key;
            let entry = Value::from(format!("{c} {c_d} {c_w} {d} {w} {amount} | "));
            let [c_w, c_d, c, amount] = key;
            let with_entry = [c_w, c_d, c, entry];
            data = Some(context.execute(BAD_CREDIT, &with_entry)?.rows);
            let [c_w, c_d, c, _] = with_entry;
            key = [c_w, c_d, c, amount];
        }
        let warehouse = context.execute(WAREHOUSE, &[w.clone(), amount.clone()])?.rows;
        let district = context.execute(DISTRICT, &[w.clone(), d.clone(), amount.clone()])?.rows;
        only(&warehouse, "warehouse", first(1, arguments))?;
        only(&district, "district", first(2, arguments))?;
        let names = Value::from(format!("{}    {}", text(&warehouse, 0, 0)?, text(&district, 0, 0)?));
        let [c_w, c_d, c, amount] = key;
        let shown = c.clone();
        context.execute(HISTORY, &[c, c_d, c_w, d.clone(), w.clone(), amount, names, Value::Int(count)])?;

        let width = 1 + (customer.width() - 1) + 1 + 2 * 6;
        let mut rows = Rows::new(width);
        rows.push(shown.as_ref())?;
        customer.row(0).skip(1).try_for_each(|value| rows.push(value))?;
        rows.push(data.as_ref().map_or(ValueRef::Null, |data| data.value(0, 0)))?;
        warehouse.row(0).chain(district.row(0)).try_for_each(|value| rows.push(value))?;
        Ok(StatementResult { affected: 1, rows, ..StatementResult::default() })
    }
}
