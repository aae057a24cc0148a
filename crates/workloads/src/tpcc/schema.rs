//! Definitions of tables, indexes, and procedures in Lua.

use thermocline_transactions::Result;
use thermocline_transactions::database::RowSession;

use super::procedures::definitions;
use crate::oltp::Language;

/// The nine tables.
pub const TABLES: [&str; 9] =
    ["item", "warehouse", "district", "customer", "history", "orders", "new_order", "order_line", "stock"];

/// Definition of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Table {
    /// Its name.
    pub name: &'static str,
    /// Columns with their types, in standard SQL.
    pub columns: &'static str,
    /// Columns of the primary key.
    pub key: &'static str,
    /// Index of the primary key; empty for a tree.
    using: &'static str,
    /// Partitioning, and whether rows may be evicted.
    end: &'static str,
}

/// The nine tables, in the order of [`TABLES`].
pub const DEFINITIONS: [Table; 9] = [
    Table {
        name: "item",
        columns: "i_id INTEGER, i_im_id INTEGER NOT NULL, i_name VARCHAR(24) NOT NULL, i_price DECIMAL(5, 2) NOT NULL, \
                  i_data VARCHAR(50) NOT NULL",
        key: "i_id",
        using: "USING HASH",
        end: "",
    },
    Table {
        name: "warehouse",
        columns: "w_id INTEGER, w_name VARCHAR(10) NOT NULL, w_street_1 VARCHAR(20) NOT NULL, \
                  w_street_2 VARCHAR(20) NOT NULL, w_city VARCHAR(20) NOT NULL, w_state VARCHAR(2) NOT NULL, \
                  w_zip VARCHAR(9) NOT NULL, w_tax DECIMAL(4, 4) NOT NULL, w_ytd DECIMAL(12, 2) NOT NULL",
        key: "w_id",
        using: "USING HASH",
        end: "PARTITION BY (w_id) WITH (evictable = false)",
    },
    Table {
        name: "district",
        columns: "d_w_id INTEGER, d_id INTEGER, d_name VARCHAR(10) NOT NULL, d_street_1 VARCHAR(20) NOT NULL, \
                  d_street_2 VARCHAR(20) NOT NULL, d_city VARCHAR(20) NOT NULL, d_state VARCHAR(2) NOT NULL, \
                  d_zip VARCHAR(9) NOT NULL, d_tax DECIMAL(4, 4) NOT NULL, d_ytd DECIMAL(12, 2) NOT NULL, \
                  d_next_o_id INTEGER NOT NULL",
        key: "d_w_id, d_id",
        using: "USING HASH",
        end: "PARTITION BY (d_w_id) WITH (evictable = false)",
    },
    Table {
        name: "customer",
        columns: "c_w_id INTEGER, c_d_id INTEGER, c_id INTEGER, c_first VARCHAR(16) NOT NULL, \
                  c_middle VARCHAR(2) NOT NULL, c_last VARCHAR(16) NOT NULL, c_street_1 VARCHAR(20) NOT NULL, \
                  c_street_2 VARCHAR(20) NOT NULL, c_city VARCHAR(20) NOT NULL, c_state VARCHAR(2) NOT NULL, \
                  c_zip VARCHAR(9) NOT NULL, c_phone VARCHAR(16) NOT NULL, c_since TIMESTAMP NOT NULL, \
                  c_credit VARCHAR(2) NOT NULL, c_credit_lim DECIMAL(12, 2) NOT NULL, \
                  c_discount DECIMAL(4, 4) NOT NULL, c_balance DECIMAL(12, 2) NOT NULL, \
                  c_ytd_payment DECIMAL(12, 2) NOT NULL, c_payment_cnt INTEGER NOT NULL, \
                  c_delivery_cnt INTEGER NOT NULL, c_data VARCHAR(500) NOT NULL",
        key: "c_w_id, c_d_id, c_id",
        using: "USING HASH",
        end: "PARTITION BY (c_w_id)",
    },
    Table {
        name: "history",
        columns: "h_c_id INTEGER, h_c_d_id INTEGER, h_c_w_id INTEGER, h_d_id INTEGER NOT NULL, h_w_id INTEGER, \
                  h_date TIMESTAMP NOT NULL, h_amount DECIMAL(6, 2) NOT NULL, h_data VARCHAR(24) NOT NULL, \
                  h_c_payment_cnt INTEGER",
        key: "h_w_id, h_c_w_id, h_c_d_id, h_c_id, h_c_payment_cnt",
        using: "USING HASH",
        end: "PARTITION BY (h_w_id)",
    },
    Table {
        name: "orders",
        columns: "o_w_id INTEGER, o_d_id INTEGER, o_id INTEGER, o_c_id INTEGER NOT NULL, o_entry_d TIMESTAMP NOT NULL, \
                  o_carrier_id INTEGER, o_ol_cnt INTEGER NOT NULL, o_all_local INTEGER NOT NULL",
        key: "o_w_id, o_d_id, o_id",
        using: "",
        end: "PARTITION BY (o_w_id)",
    },
    Table {
        name: "new_order",
        columns: "no_w_id INTEGER, no_d_id INTEGER, no_o_id INTEGER",
        key: "no_w_id, no_d_id, no_o_id",
        using: "",
        end: "PARTITION BY (no_w_id)",
    },
    Table {
        name: "order_line",
        columns: "ol_w_id INTEGER, ol_d_id INTEGER, ol_o_id INTEGER, ol_number INTEGER, ol_i_id INTEGER NOT NULL, \
                  ol_supply_w_id INTEGER NOT NULL, ol_delivery_d TIMESTAMP, ol_quantity INTEGER NOT NULL, \
                  ol_amount DECIMAL(6, 2) NOT NULL, ol_dist_info VARCHAR(24) NOT NULL",
        key: "ol_w_id, ol_d_id, ol_o_id, ol_number",
        using: "",
        end: "PARTITION BY (ol_w_id)",
    },
    Table {
        name: "stock",
        columns: "s_w_id INTEGER, s_i_id INTEGER, s_quantity INTEGER NOT NULL, s_dist_01 VARCHAR(24) NOT NULL, \
                  s_dist_02 VARCHAR(24) NOT NULL, s_dist_03 VARCHAR(24) NOT NULL, s_dist_04 VARCHAR(24) NOT NULL, \
                  s_dist_05 VARCHAR(24) NOT NULL, s_dist_06 VARCHAR(24) NOT NULL, s_dist_07 VARCHAR(24) NOT NULL, \
                  s_dist_08 VARCHAR(24) NOT NULL, s_dist_09 VARCHAR(24) NOT NULL, s_dist_10 VARCHAR(24) NOT NULL, \
                  s_ytd INTEGER NOT NULL, s_order_cnt INTEGER NOT NULL, s_remote_cnt INTEGER NOT NULL, \
                  s_data VARCHAR(50) NOT NULL",
        key: "s_w_id, s_i_id",
        using: "USING HASH",
        end: "PARTITION BY (s_w_id)",
    },
];

/// The two indexes, in standard SQL.
pub const INDEXES: [&str; 2] = [
    "CREATE INDEX customer_by_name ON customer (c_w_id, c_d_id, c_last, c_first)",
    "CREATE INDEX orders_by_customer ON orders (o_w_id, o_d_id, o_c_id, o_id)",
];

impl Table {
    fn definition(&self) -> String {
        let Self { name, columns, key, using, end } = self;
        format!("CREATE TABLE {name} ({columns}, PRIMARY KEY ({key}) {using}) {end}")
    }
}

/// Creates the tables and indexes, and the procedures if they are in Lua. Procedures in Rust are
/// [`registrations`](super::registrations), given when the database is opened.
///
/// # Errors
/// If one of them exists already, or there are no procedures in this language.
pub fn define(session: &mut RowSession, language: Language) -> Result<()> {
    let procedures = definitions(language)?;
    let tables = DEFINITIONS.iter().map(Table::definition);
    let mut definitions = tables.chain(INDEXES.map(str::to_owned)).chain(procedures);
    definitions.try_for_each(|definition| session.execute(&definition, &[]).map(drop))
}
