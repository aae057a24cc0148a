use thermocline_transactions::Result;
use thermocline_transactions::database::StatementResult;
use thermocline_transactions::error::Class;
use thermocline_transactions::procedure::{Context, Procedure};
use thermocline_transactions::types::Value;

use super::result::{first, int, only};

pub const HEAD: &str = "stock_level(w_id INTEGER, d_id INTEGER, threshold INTEGER) PARTITION ON (w_id)";

const DISTRICT: usize = 0;
const COUNT: usize = 1;

const STATEMENTS: [&str; 2] = [
    "SELECT d_next_o_id FROM district WHERE d_w_id = $1 AND d_id = $2",
    "SELECT count(DISTINCT s_i_id) FROM order_line JOIN stock ON s_w_id = ol_w_id AND s_i_id = ol_i_id \
     WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id >= $4 - 20 AND ol_o_id < $4 AND s_quantity < $3",
];

/// Clause 2.8: number of items in the district's last twenty orders of which less than the threshold is in stock.
pub struct StockLevel;

impl Procedure for StockLevel {
    fn statements(&self) -> &[&str] {
        &STATEMENTS
    }

    fn run(&self, context: &mut Context<'_, '_>, arguments: &[Value]) -> Result<StatementResult> {
        let [w, d, threshold] = arguments else {
            return Err(Class::Procedure.error("stock_level takes three arguments"));
        };
        let place = first(2, arguments);
        let district = context.execute(DISTRICT, place)?.rows;
        let next = int(only(&district, "district", place)?, 0, 0)?;
        Ok(context.execute(COUNT, &[w.clone(), d.clone(), threshold.clone(), Value::Int(next)])?.into())
    }
}
