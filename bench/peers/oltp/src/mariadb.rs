//! MariaDB: InnoDB, prepared statements, a commit for each.

use mysql::consts::CapabilityFlags;
use mysql::prelude::Queryable;
use mysql::{Conn, OptsBuilder, Params, Row, Statement, Value as Sql};
use thermocline_transactions::types::Value;

use crate::peer::{
    Address, Connection, Engine, Failure, Loader, Origin, Peer, insert, missing, no_field, select, table, update,
};
use crate::ycsb::{FIELD_BYTES, FIELDS, TABLE};

/// A server.
#[derive(Debug)]
pub struct MariaDb {
    options: OptsBuilder,
    database: String,
}

impl MariaDb {
    /// The server at an address.
    pub fn new(address: &Address, user: &str, database: &str) -> Self {
        // With rows found instead of rows changed, an update with the value that is already there is no miss.
        let options = OptsBuilder::new()
            .user(Some(user))
            .prefer_socket(false)
            .additional_capabilities(CapabilityFlags::CLIENT_FOUND_ROWS);
        let options = match address {
            Address::Socket(path) => options.socket(Some(path.to_string_lossy())),
            Address::Port(port) => options.ip_or_hostname(Some("127.0.0.1")).tcp_port(*port),
        };
        Self { options, database: database.to_owned() }
    }

    /// Creates the database if it is missing.
    ///
    /// # Errors
    /// If the server refuses it.
    pub fn create(&self) -> Result<(), Failure> {
        let mut connection = Conn::new(self.options.clone())?;
        // A byte a character, as all of its letters need in the other engines.
        let characters = "CHARACTER SET latin1 COLLATE latin1_bin";
        Ok(connection.query_drop(format!("CREATE DATABASE IF NOT EXISTS {} {characters}", self.database))?)
    }

    /// Waits until all pages of these tables are written.
    ///
    /// # Errors
    /// If the server cannot write them.
    pub fn write_out(&self, tables: &[&str]) -> Result<(), Failure> {
        let mut connection = self.open()?;
        connection.query_drop(format!("FLUSH TABLES {} FOR EXPORT", tables.join(", ")))?;
        Ok(connection.query_drop("UNLOCK TABLES")?)
    }

    /// Bytes of a table's file. `information_schema.tables` has estimates.
    ///
    /// # Errors
    /// If there is no such table.
    pub fn file_bytes(&self, table: &str) -> Result<u64, Failure> {
        let name = format!("{}/{table}", self.database);
        let file = "SELECT file_size FROM information_schema.innodb_sys_tablespaces WHERE name = ?";
        let bytes = self.open()?.exec_first(file, (name,))?;
        bytes.ok_or_else(|| format!("there is no table {table}").into())
    }

    /// A new connection.
    ///
    /// # Errors
    /// If the server refuses it.
    pub fn open(&self) -> Result<Conn, Failure> {
        Ok(Conn::new(self.options.clone().db_name(Some(&self.database)))?)
    }
}

impl Engine for MariaDb {
    fn engine(&self) -> Result<String, Failure> {
        let version: Option<String> = self.open()?.query_first("SELECT VERSION()")?;
        // Without the suffixes of a distribution.
        let version = version.unwrap_or_default();
        Ok(format!("mariadb {}", version.split('-').next().unwrap_or_default()))
    }
}

impl Peer for MariaDb {
    fn define(&self) -> Result<(), Failure> {
        self.create()?;
        Ok(self.open()?.query_drop(table(&format!("VARCHAR({FIELD_BYTES})"), " ENGINE = InnoDB"))?)
    }

    fn loader(&self) -> Result<Box<dyn Loader>, Failure> {
        Ok(Box::new(MariaDbLoader(self.open()?)))
    }

    fn settle(&self) -> Result<(), Failure> {
        self.write_out(&[TABLE])
    }

    fn data_bytes(&self) -> Result<u64, Failure> {
        self.file_bytes(TABLE)
    }

    fn connect(&self) -> Result<Box<dyn Connection>, Failure> {
        let mut connection = self.open()?;
        let read = connection.prep(select("?"))?;
        let updates = (0..FIELDS).map(|field| connection.prep(update(field, "?", "?"))).collect::<Result<_, _>>()?;
        Ok(Box::new(MariaDbConnection { connection, read, updates }))
    }
}

struct MariaDbLoader(Conn);

impl Loader for MariaDbLoader {
    fn insert(&mut self, rows: &[Vec<Value>]) -> Result<(), Failure> {
        // The connection keeps the statement of the last number of rows.
        let statement = self.0.prep(insert(rows.len(), |_| "?".to_owned()))?;
        let values = rows.iter().flatten().map(|value| match value {
            Value::Int(key) => Ok(Sql::Int(*key)),
            Value::Text(text) => Ok(Sql::Bytes(text.as_bytes().to_vec())),
            _ => Err(format!("a row with the value {value:?}")),
        });
        Ok(self.0.exec_drop(&statement, Params::Positional(values.collect::<Result<_, _>>()?))?)
    }
}

struct MariaDbConnection {
    connection: Conn,
    read: Statement,
    /// By field.
    updates: Vec<Statement>,
}

impl Connection for MariaDbConnection {
    fn read(&mut self, key: i64, fields: &mut Vec<u8>) -> Result<Origin, Failure> {
        let row: Row = self.connection.exec_first(&self.read, (key,))?.ok_or_else(|| missing(key))?;
        for value in row.unwrap_raw().into_iter().flatten() {
            if let Sql::Bytes(bytes) = value {
                fields.extend_from_slice(&bytes);
            }
        }
        Ok(Origin::Database)
    }

    fn update(&mut self, key: i64, field: usize, value: &str) -> Result<(), Failure> {
        let statement = self.updates.get(field).ok_or_else(|| no_field(field))?;
        self.connection.exec_drop(statement, (value, key))?;
        if self.connection.affected_rows() == 1 { Ok(()) } else { Err(missing(key)) }
    }
}
