//! The five transactions as procedures, in Rust and in Lua.

mod customer;
mod delivery;
mod new_order;
mod order_status;
mod payment;
mod result;
mod stock_level;

use thermocline_transactions::Result;
use thermocline_transactions::error::Class;
use thermocline_transactions::procedure::Registration;

use crate::oltp::Language;

/// The procedures in Rust, for [`Settings::procedures`](thermocline_transactions::database::Settings); none for another
/// language, whose procedures have the same names.
///
/// # Errors
/// None that a caller could cause.
pub fn registrations(language: Language) -> Result<Vec<Registration>> {
    if language != Language::Rust {
        return Ok(Vec::new());
    }
    Ok(vec![
        Registration::new(new_order::HEAD, 4, new_order::NewOrder)?,
        Registration::new(payment::HEAD, 2, payment::Payment)?,
        Registration::new(order_status::HEAD, 1, order_status::OrderStatus)?,
        Registration::new(delivery::HEAD, 2, delivery::Delivery)?,
        Registration::new(stock_level::HEAD, 1, stock_level::StockLevel)?,
    ])
}

/// Statements that define the procedures; none for those in Rust.
pub(super) fn definitions(language: Language) -> Result<Vec<String>> {
    let lua = [
        (new_order::HEAD, include_str!("lua/new_order.lua")),
        (payment::HEAD, include_str!("lua/payment.lua")),
        (order_status::HEAD, include_str!("lua/order_status.lua")),
        (delivery::HEAD, include_str!("lua/delivery.lua")),
        (stock_level::HEAD, include_str!("lua/stock_level.lua")),
    ];
    let create = |(head, body)| format!("CREATE PROCEDURE {head} LANGUAGE lua AS $lua${body}$lua$");
    match language {
        Language::Rust => Ok(Vec::new()),
        Language::Lua => Ok(lua.map(create).into()),
        Language::Sql => Err(Class::Unsupported.error("TPC-C has procedures in rust and lua; SQL has no loops")),
    }
}
