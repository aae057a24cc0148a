//! What a database under YCSB offers: a table, and connections that read and update it.

use std::path::PathBuf;

use thermocline_transactions::types::Value;

use crate::ycsb::{FIELDS, TABLE};

/// Any error; the program ends with its message.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Address of a server on this machine.
#[derive(Debug, Clone)]
pub enum Address {
    /// Unix socket.
    Socket(PathBuf),
    /// TCP port of 127.0.0.1.
    Port(u16),
}

impl Address {
    /// The socket or, without one, the port; `None` without either.
    pub fn new(socket: Option<PathBuf>, port: Option<u16>) -> Option<Self> {
        socket.map(Self::Socket).or(port.map(Self::Port))
    }
}

/// A server, or a library in its place.
pub trait Engine: Sync {
    /// Name and version, as in `mariadb 10.11.6`.
    ///
    /// # Errors
    /// If the server does not answer.
    fn engine(&self) -> Result<String, Failure>;
}

/// A database under YCSB.
pub trait Peer: Engine {
    /// Creates the table.
    ///
    /// # Errors
    /// If it exists already.
    fn define(&self) -> Result<(), Failure>;

    /// A new connection for insertions only.
    ///
    /// # Errors
    /// If the server refuses it.
    fn loader(&self) -> Result<Box<dyn Loader>, Failure>;

    /// Writes out what the load left to be done, so that it is not measured.
    ///
    /// # Errors
    /// If the server cannot.
    fn settle(&self) -> Result<(), Failure>;

    /// Fills a cache in front of the database, right after the load. `draw` gives keys of a table of this many rows,
    /// the hot ones more often. Nothing to do without a cache.
    ///
    /// # Errors
    /// If the cache does not answer.
    fn preload(&self, _rows: u64, _draw: &mut dyn FnMut() -> i64) -> Result<(), Failure> {
        Ok(())
    }

    /// Bytes of the table and its index on the disk.
    ///
    /// # Errors
    /// If the server does not answer.
    fn data_bytes(&self) -> Result<u64, Failure>;

    /// A new connection with its prepared statements.
    ///
    /// # Errors
    /// If the server refuses it.
    fn connect(&self) -> Result<Box<dyn Connection>, Failure>;
}

/// A connection that inserts.
pub trait Loader: Send {
    /// Inserts rows in one transaction.
    ///
    /// # Errors
    /// If the server refuses them.
    fn insert(&mut self, rows: &[Vec<Value>]) -> Result<(), Failure>;
}

/// Origin of a row that was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// The database itself.
    Database,
    /// The cache in front of it.
    Cache,
}

/// A connection that reads and updates.
pub trait Connection: Send {
    /// Appends the fields of a row.
    ///
    /// # Errors
    /// If there is no such row, or the server fails.
    fn read(&mut self, key: i64, fields: &mut Vec<u8>) -> Result<Origin, Failure>;

    /// Gives one field another value, durably.
    ///
    /// # Errors
    /// If there is no such row or field, or the server fails.
    fn update(&mut self, key: i64, field: usize, value: &str) -> Result<(), Failure>;
}

/// The error of a key that no row has.
pub fn missing(key: i64) -> Failure {
    format!("no row has the key {key}").into()
}

/// The error of a field that the table does not have.
pub fn no_field(field: usize) -> Failure {
    format!("no field has the number {field}").into()
}

/// The statement that reads a row; `place` is the parameter's.
pub fn select(place: &str) -> String {
    let fields: Vec<String> = (0..FIELDS).map(|field| format!("field{field}")).collect();
    format!("SELECT {} FROM {TABLE} WHERE ycsb_key = {place}", fields.join(", "))
}

/// The statement that updates a field.
pub fn update(field: usize, value: &str, key: &str) -> String {
    format!("UPDATE {TABLE} SET field{field} = {value} WHERE ycsb_key = {key}")
}

/// The statement that inserts this many rows; `place` gives a parameter's text by its number, from 1.
pub fn insert(rows: usize, place: impl Fn(usize) -> String) -> String {
    let width = FIELDS + 1;
    let row = |row: usize| (1..=width).map(|column| place(row * width + column)).collect::<Vec<_>>().join(", ");
    let rows: Vec<String> = (0..rows).map(|number| format!("({})", row(number))).collect();
    format!("INSERT INTO {TABLE} VALUES {}", rows.join(", "))
}

/// The definition of the table, with this type of a field and this end.
pub fn table(field_type: &str, end: &str) -> String {
    let fields: String = (0..FIELDS).map(|field| format!(", field{field} {field_type} NOT NULL")).collect();
    format!("CREATE TABLE {TABLE} (ycsb_key BIGINT NOT NULL PRIMARY KEY{fields}){end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_numbered_over_all_rows() {
        let sql = insert(2, |number| format!("${number}"));
        assert!(sql.contains("VALUES ($1, $2,"), "{sql}");
        assert!(sql.contains("$11), ($12,"), "{sql}");
        assert!(sql.ends_with("$22)"), "{sql}");
    }
}
