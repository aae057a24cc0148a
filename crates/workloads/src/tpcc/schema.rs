//! Definitions of tables, indexes, and procedures in Lua.

use thermocline_transactions::Result;
use thermocline_transactions::database::RowSession;

use super::procedures::definitions;
use crate::oltp::Language;

/// The nine tables.
pub const TABLES: [&str; 9] =
    ["item", "warehouse", "district", "customer", "history", "orders", "new_order", "order_line", "stock"];

const DEFINITIONS: [&str; 11] = [
    "CREATE TABLE item (
        i_id INTEGER, i_im_id INTEGER NOT NULL, i_name VARCHAR(24) NOT NULL,
        i_price DECIMAL(5, 2) NOT NULL, i_data VARCHAR(50) NOT NULL, PRIMARY KEY (i_id) USING HASH)",
    "CREATE TABLE warehouse (
        w_id INTEGER, w_name VARCHAR(10) NOT NULL, w_street_1 VARCHAR(20) NOT NULL,
        w_street_2 VARCHAR(20) NOT NULL, w_city VARCHAR(20) NOT NULL, w_state VARCHAR(2) NOT NULL,
        w_zip VARCHAR(9) NOT NULL, w_tax DECIMAL(4, 4) NOT NULL, w_ytd DECIMAL(12, 2) NOT NULL,
        PRIMARY KEY (w_id) USING HASH)
        PARTITION BY (w_id) WITH (evictable = false)",
    "CREATE TABLE district (
        d_w_id INTEGER, d_id INTEGER, d_name VARCHAR(10) NOT NULL, d_street_1 VARCHAR(20) NOT NULL,
        d_street_2 VARCHAR(20) NOT NULL, d_city VARCHAR(20) NOT NULL, d_state VARCHAR(2) NOT NULL,
        d_zip VARCHAR(9) NOT NULL, d_tax DECIMAL(4, 4) NOT NULL, d_ytd DECIMAL(12, 2) NOT NULL,
        d_next_o_id INTEGER NOT NULL, PRIMARY KEY (d_w_id, d_id) USING HASH)
        PARTITION BY (d_w_id) WITH (evictable = false)",
    "CREATE TABLE customer (
        c_w_id INTEGER, c_d_id INTEGER, c_id INTEGER, c_first VARCHAR(16) NOT NULL, c_middle VARCHAR(2) NOT NULL,
        c_last VARCHAR(16) NOT NULL, c_street_1 VARCHAR(20) NOT NULL, c_street_2 VARCHAR(20) NOT NULL,
        c_city VARCHAR(20) NOT NULL, c_state VARCHAR(2) NOT NULL, c_zip VARCHAR(9) NOT NULL,
        c_phone VARCHAR(16) NOT NULL, c_since TIMESTAMP NOT NULL, c_credit VARCHAR(2) NOT NULL,
        c_credit_lim DECIMAL(12, 2) NOT NULL, c_discount DECIMAL(4, 4) NOT NULL, c_balance DECIMAL(12, 2) NOT NULL,
        c_ytd_payment DECIMAL(12, 2) NOT NULL, c_payment_cnt INTEGER NOT NULL, c_delivery_cnt INTEGER NOT NULL,
        c_data VARCHAR(500) NOT NULL, PRIMARY KEY (c_w_id, c_d_id, c_id) USING HASH)
        PARTITION BY (c_w_id)",
    "CREATE INDEX customer_by_name ON customer (c_w_id, c_d_id, c_last, c_first)",
    "CREATE TABLE history (
        h_c_id INTEGER, h_c_d_id INTEGER, h_c_w_id INTEGER, h_d_id INTEGER NOT NULL, h_w_id INTEGER,
        h_date TIMESTAMP NOT NULL, h_amount DECIMAL(6, 2) NOT NULL, h_data VARCHAR(24) NOT NULL,
        h_c_payment_cnt INTEGER, PRIMARY KEY (h_w_id, h_c_w_id, h_c_d_id, h_c_id, h_c_payment_cnt) USING HASH)
        PARTITION BY (h_w_id)",
    "CREATE TABLE orders (
        o_w_id INTEGER, o_d_id INTEGER, o_id INTEGER, o_c_id INTEGER NOT NULL, o_entry_d TIMESTAMP NOT NULL,
        o_carrier_id INTEGER, o_ol_cnt INTEGER NOT NULL, o_all_local INTEGER NOT NULL,
        PRIMARY KEY (o_w_id, o_d_id, o_id))
        PARTITION BY (o_w_id)",
    "CREATE INDEX orders_by_customer ON orders (o_w_id, o_d_id, o_c_id, o_id)",
    "CREATE TABLE new_order (
        no_w_id INTEGER, no_d_id INTEGER, no_o_id INTEGER, PRIMARY KEY (no_w_id, no_d_id, no_o_id))
        PARTITION BY (no_w_id)",
    "CREATE TABLE order_line (
        ol_w_id INTEGER, ol_d_id INTEGER, ol_o_id INTEGER, ol_number INTEGER, ol_i_id INTEGER NOT NULL,
        ol_supply_w_id INTEGER NOT NULL, ol_delivery_d TIMESTAMP, ol_quantity INTEGER NOT NULL,
        ol_amount DECIMAL(6, 2) NOT NULL, ol_dist_info VARCHAR(24) NOT NULL,
        PRIMARY KEY (ol_w_id, ol_d_id, ol_o_id, ol_number))
        PARTITION BY (ol_w_id)",
    "CREATE TABLE stock (
        s_w_id INTEGER, s_i_id INTEGER, s_quantity INTEGER NOT NULL, s_dist_01 VARCHAR(24) NOT NULL,
        s_dist_02 VARCHAR(24) NOT NULL, s_dist_03 VARCHAR(24) NOT NULL, s_dist_04 VARCHAR(24) NOT NULL,
        s_dist_05 VARCHAR(24) NOT NULL, s_dist_06 VARCHAR(24) NOT NULL, s_dist_07 VARCHAR(24) NOT NULL,
        s_dist_08 VARCHAR(24) NOT NULL, s_dist_09 VARCHAR(24) NOT NULL, s_dist_10 VARCHAR(24) NOT NULL,
        s_ytd INTEGER NOT NULL, s_order_cnt INTEGER NOT NULL, s_remote_cnt INTEGER NOT NULL,
        s_data VARCHAR(50) NOT NULL, PRIMARY KEY (s_w_id, s_i_id) USING HASH)
        PARTITION BY (s_w_id)",
];

/// Creates the tables and indexes, and the procedures if they are in Lua. Procedures in Rust are
/// [`registrations`](super::registrations), given when the database is opened.
///
/// # Errors
/// If one of them exists already, or there are no procedures in this language.
pub fn define(session: &mut RowSession, language: Language) -> Result<()> {
    let procedures = definitions(language)?;
    let mut definitions = DEFINITIONS.into_iter().chain(procedures.iter().map(String::as_str));
    definitions.try_for_each(|definition| session.execute(definition, &[]).map(drop))
}
