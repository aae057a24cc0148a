//! PostgreSQL: prepared statements, a commit for each.

use std::path::PathBuf;

use postgres::types::ToSql;
use postgres::{Client, Config, NoTls, Statement};
use thermocline_transactions::types::Value;

use crate::peer::{
    Connection, Engine, Failure, Loader, Origin, Peer, insert, missing, no_field, select, table, update,
};
use crate::ycsb::{FIELD_BYTES, FIELDS, TABLE};

/// A server.
#[derive(Debug)]
pub struct PostgreSql {
    config: Config,
}

impl PostgreSql {
    /// The server with its socket in this directory, or at a port of 127.0.0.1.
    pub fn new(directory: Option<PathBuf>, port: Option<u16>, user: &str, database: &str) -> Self {
        let mut config = Config::new();
        config.user(user).dbname(database);
        match directory {
            Some(directory) => config.host_path(directory),
            None => config.host("127.0.0.1"),
        };
        if let Some(port) = port {
            config.port(port);
        }
        Self { config }
    }

    /// A new connection.
    ///
    /// # Errors
    /// If the server refuses it.
    pub fn open(&self) -> Result<Client, Failure> {
        Ok(self.config.connect(NoTls)?)
    }
}

impl Engine for PostgreSql {
    fn engine(&self) -> Result<String, Failure> {
        let row = self.open()?.query_one("SHOW server_version", &[])?;
        let version: &str = row.try_get(0)?;
        // Without the suffix of a distribution.
        Ok(format!("postgresql {}", version.split_whitespace().next().unwrap_or_default()))
    }
}

impl Peer for PostgreSql {
    fn define(&self) -> Result<(), Failure> {
        Ok(self.open()?.batch_execute(&table(&format!("VARCHAR({FIELD_BYTES})"), ""))?)
    }

    fn loader(&self) -> Result<Box<dyn Loader>, Failure> {
        Ok(Box::new(PostgreSqlLoader { client: self.open()?, statement: None }))
    }

    fn settle(&self) -> Result<(), Failure> {
        let mut client = self.open()?;
        // Hint bits are set, and all pages are written.
        client.batch_execute(&format!("VACUUM (ANALYZE) {TABLE}"))?;
        Ok(client.batch_execute("CHECKPOINT")?)
    }

    fn data_bytes(&self) -> Result<u64, Failure> {
        let row = self.open()?.query_one(&format!("SELECT pg_total_relation_size('{TABLE}')"), &[])?;
        Ok(u64::try_from(row.try_get::<_, i64>(0)?)?)
    }

    fn connect(&self) -> Result<Box<dyn Connection>, Failure> {
        let mut client = self.open()?;
        let read = client.prepare(&select("$1"))?;
        let updates = (0..FIELDS).map(|field| client.prepare(&update(field, "$1", "$2"))).collect::<Result<_, _>>()?;
        Ok(Box::new(PostgreSqlConnection { client, read, updates }))
    }
}

struct PostgreSqlLoader {
    client: Client,
    /// The last statement, and its number of rows.
    statement: Option<(usize, Statement)>,
}

impl Loader for PostgreSqlLoader {
    fn insert(&mut self, rows: &[Vec<Value>]) -> Result<(), Failure> {
        let statement = match &self.statement {
            Some((count, statement)) if *count == rows.len() => statement.clone(),
            _ => {
                let statement = self.client.prepare(&insert(rows.len(), |number| format!("${number}")))?;
                self.statement = Some((rows.len(), statement.clone()));
                statement
            }
        };
        let values = rows.iter().flatten().map(|value| match value {
            Value::Int(key) => Ok(key as &(dyn ToSql + Sync)),
            Value::Text(text) => Ok(text as &(dyn ToSql + Sync)),
            _ => Err(format!("a row with the value {value:?}")),
        });
        self.client.execute(&statement, &values.collect::<Result<Vec<_>, _>>()?)?;
        Ok(())
    }
}

struct PostgreSqlConnection {
    client: Client,
    read: Statement,
    /// By field.
    updates: Vec<Statement>,
}

impl Connection for PostgreSqlConnection {
    fn read(&mut self, key: i64, fields: &mut Vec<u8>) -> Result<Origin, Failure> {
        let row = self.client.query_opt(&self.read, &[&key])?.ok_or_else(|| missing(key))?;
        for field in 0..FIELDS {
            fields.extend_from_slice(row.try_get::<_, &str>(field)?.as_bytes());
        }
        Ok(Origin::Database)
    }

    fn update(&mut self, key: i64, field: usize, value: &str) -> Result<(), Failure> {
        let statement = self.updates.get(field).ok_or_else(|| no_field(field))?;
        match self.client.execute(statement, &[&value, &key])? {
            1 => Ok(()),
            _ => Err(missing(key)),
        }
    }
}
