use thermocline_transactions::Result;
use thermocline_transactions::procedure::Context;
use thermocline_transactions::types::Value;

use super::result::int;
use crate::tpcc::draw::unexpected;

/// The customers of a district with a last name.
pub const BY_NAME: &str =
    "SELECT c_id FROM customer WHERE c_w_id = $1 AND c_d_id = $2 AND c_last = $3 ORDER BY c_first";

/// The customer's number: the given one, or that of the middle one of those with the last name. `statement` is the
/// position of [`BY_NAME`].
pub fn customer_id(
    context: &mut Context<'_, '_>,
    statement: usize,
    [warehouse, district]: [&Value; 2],
    id: &Value,
    last_name: &Value,
) -> Result<Value> {
    if !id.is_null() {
        return Ok(id.clone());
    }
    let found = context.execute(statement, &[warehouse.clone(), district.clone(), last_name.clone()])?.rows;
    match found.len() {
        0 => Err(unexpected(format_args!("no customer of district ({warehouse}, {district}) is called {last_name}"))),
        count => int(&found, (count - 1) / 2, 0).map(Value::Int),
    }
}
