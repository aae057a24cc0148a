//! What a database under TPC-C offers.

use crate::drive::Caller;
use crate::oltp::Call;
use crate::peer::{Engine, Failure};
use crate::tpcc::{Queries, Table};

/// A database under TPC-C.
pub trait TpccPeer: Engine {
    /// Creates tables, indexes and procedures.
    ///
    /// # Errors
    /// If one of them exists already.
    fn define(&self) -> Result<(), Failure>;

    /// A new connection for the load only.
    ///
    /// # Errors
    /// If the server refuses it.
    fn loader(&self) -> Result<Box<dyn LineLoader>, Failure>;

    /// Writes out what the load left to be done, so that it is not measured.
    ///
    /// # Errors
    /// If the server cannot.
    fn settle(&self) -> Result<(), Failure>;

    /// Bytes of the tables and their indexes on the disk.
    ///
    /// # Errors
    /// If the server does not answer.
    fn data_bytes(&self) -> Result<u64, Failure>;

    /// A new connection with its prepared calls.
    ///
    /// # Errors
    /// If the server refuses it.
    fn connect(&self) -> Result<Box<dyn Caller>, Failure>;

    /// Creates the indexes that only the check needs.
    ///
    /// # Errors
    /// If the server cannot.
    fn prepare_check(&self) -> Result<(), Failure>;

    /// A new connection for the check's queries.
    ///
    /// # Errors
    /// If the server refuses it.
    fn queries(&self) -> Result<Box<dyn Queries<Error = Failure>>, Failure>;
}

/// A connection that loads rows as lines of text: values between tabs, `\N` for NULL.
pub trait LineLoader: Send {
    /// Inserts this many rows in one transaction.
    ///
    /// # Errors
    /// If the server refuses one of them.
    fn load(&mut self, table: &str, rows: u64, lines: &[u8]) -> Result<(), Failure>;
}

/// The definition of a table in standard SQL. HISTORY has no key, as in the standard, so that it is only appended to.
pub fn definition(table: &Table) -> String {
    let key = if table.name == "history" { String::new() } else { format!(", PRIMARY KEY ({})", table.key) };
    format!("CREATE TABLE {} ({}{key})", table.name, table.columns)
}

/// Indexes of HISTORY for the check. The conditions read it by warehouse; transactions only append to it.
pub const CHECK_INDEXES: [&str; 2] = [
    "CREATE INDEX history_by_district ON history (h_w_id, h_d_id, h_amount)",
    "CREATE INDEX history_by_customer ON history (h_c_w_id, h_c_d_id, h_c_id, h_amount)",
];

/// Consecutive runs of one transaction that the server may end for a deadlock.
pub const RESTARTS_MAX: u64 = 1000;

/// The error of a transaction with more of them.
pub fn too_many_restarts(why: &dyn std::fmt::Display) -> Failure {
    format!("a transaction did not commit in {RESTARTS_MAX} runs: {why}").into()
}

/// The error of a call that TPC-C does not have.
pub fn unknown(call: &Call) -> Failure {
    format!("an unknown call of procedure {}: {:?}", call.procedure, call.arguments).into()
}
