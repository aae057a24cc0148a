//! MariaDB: a stored procedure for each transaction.

use std::hint::black_box;
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

use mysql::consts::ColumnType;
use mysql::prelude::Queryable;
use mysql::{Conn, LocalInfileHandler, Params, Row, Statement, Value as Sql};
use thermocline_transactions::types::{Decimal, Value};

use super::lines::OrderLines;
use super::peer::{CHECK_INDEXES, LineLoader, RESTARTS_MAX, TpccPeer, definition, too_many_restarts, unknown};
use crate::drive::{Caller, End, Executed};
use crate::mariadb::MariaDb;
use crate::oltp::Call;
use crate::peer::Failure;
use crate::tpcc::{Answer, DEFINITIONS, INDEXES, Queries, TABLES, Table};

/// The five transactions, in the order of the workload's.
const PROCEDURES: [&str; 5] = [
    include_str!("mariadb/new_order.sql"),
    include_str!("mariadb/payment.sql"),
    include_str!("mariadb/order_status.sql"),
    include_str!("mariadb/delivery.sql"),
    include_str!("mariadb/stock_level.sql"),
];

/// Isolation of transactions. InnoDB locks no gaps, and each statement sees what was committed before it; a procedure
/// that needs more locks rows before it reads them, or asks for more.
const ISOLATION: &str = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED";

const CALLS: [&str; 5] = [
    "CALL new_order(?, ?, ?, ?, ?, ?, ?)",
    "CALL payment(?, ?, ?, ?, ?, ?, ?)",
    "CALL order_status(?, ?, ?, ?)",
    "CALL delivery(?, ?)",
    "CALL stock_level(?, ?, ?)",
];

/// State of an error that a procedure raises on purpose.
const RAISED: &str = "45000";

/// Errors after which the transaction runs again: a deadlock, and a lock that was waited for too long.
const RESTARTED: [u16; 2] = [1213, 1205];

fn definition_of(table: &Table) -> String {
    format!("{} ENGINE = InnoDB", definition(table).replace(" TIMESTAMP", " DATETIME"))
}

impl TpccPeer for MariaDb {
    fn define(&self) -> Result<(), Failure> {
        self.create()?;
        let mut connection = self.open()?;
        let tables = DEFINITIONS.iter().map(definition_of);
        let others = INDEXES.into_iter().chain(PROCEDURES).map(str::to_owned);
        Ok(tables.chain(others).try_for_each(|sql| connection.query_drop(sql))?)
    }

    fn loader(&self) -> Result<Box<dyn LineLoader>, Failure> {
        let mut connection = self.open()?;
        let lines: Arc<Mutex<Vec<u8>>> = Arc::default();
        let sent = Arc::clone(&lines);
        connection.set_local_infile_handler(Some(LocalInfileHandler::new(move |_, stream| {
            stream.write_all(&sent.lock().unwrap_or_else(PoisonError::into_inner))
        })));
        Ok(Box::new(MariaDbLoader { connection, lines }))
    }

    fn settle(&self) -> Result<(), Failure> {
        self.open()?.query_drop(format!("ANALYZE TABLE {}", TABLES.join(", ")))?;
        self.write_out(&TABLES)
    }

    fn data_bytes(&self) -> Result<u64, Failure> {
        TABLES.iter().map(|table| self.file_bytes(table)).sum()
    }

    fn connect(&self) -> Result<Box<dyn Caller>, Failure> {
        let mut connection = self.open()?;
        connection.query_drop(ISOLATION)?;
        let calls = CALLS.iter().map(|call| connection.prep(call)).collect::<Result<_, _>>()?;
        Ok(Box::new(MariaDbCaller { connection, calls }))
    }

    fn prepare_check(&self) -> Result<(), Failure> {
        let mut connection = self.open()?;
        Ok(CHECK_INDEXES.iter().try_for_each(|index| connection.query_drop(index))?)
    }

    fn queries(&self) -> Result<Box<dyn Queries<Error = Failure>>, Failure> {
        Ok(Box::new(MariaDbQueries(self.open()?)))
    }
}

struct MariaDbLoader {
    connection: Conn,
    /// What the server gets for the file that it asks for.
    lines: Arc<Mutex<Vec<u8>>>,
}

impl LineLoader for MariaDbLoader {
    fn load(&mut self, table: &str, rows: u64, lines: &[u8]) -> Result<(), Failure> {
        lines.clone_into(&mut self.lines.lock().unwrap_or_else(PoisonError::into_inner));
        self.connection
            .query_drop(format!("LOAD DATA LOCAL INFILE 'lines' INTO TABLE {table} CHARACTER SET latin1"))?;
        // A row that it refuses or changes is a warning.
        match (self.connection.affected_rows(), self.connection.warnings()) {
            (loaded, 0) if loaded == rows => Ok(()),
            (loaded, _) => {
                let warning: Option<Row> = self.connection.query_first("SHOW WARNINGS")?;
                Err(format!("{loaded} of {rows} rows of {table} were loaded: {warning:?}").into())
            }
        }
    }
}

struct MariaDbCaller {
    connection: Conn,
    /// In the order of the workload's transactions.
    calls: Vec<Statement>,
}

impl Caller for MariaDbCaller {
    fn execute(&mut self, call: &Call) -> Result<Executed, Failure> {
        let statement = self.calls.get(call.procedure).ok_or_else(|| unknown(call))?;
        let parameters = Params::Positional(parameters(call)?);
        let mut restarts = 0;
        loop {
            match run(&mut self.connection, statement, parameters.clone()) {
                Ok(()) => return Ok(Executed { end: End::Committed(None), restarts }),
                Err(mysql::Error::MySqlError(error)) if error.state == RAISED => {
                    return Ok(Executed { end: End::Aborted, restarts });
                }
                Err(mysql::Error::MySqlError(error)) if RESTARTED.contains(&error.code) => {
                    restarts += 1;
                    if restarts == RESTARTS_MAX {
                        return Err(too_many_restarts(&error));
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Calls a procedure and reads its results.
fn run(connection: &mut Conn, statement: &Statement, parameters: Params) -> mysql::Result<()> {
    let mut results = connection.exec_iter(statement, parameters)?;
    while let Some(rows) = results.iter() {
        for row in rows {
            black_box(row?);
        }
    }
    Ok(())
}

/// Parameters of the call's procedure.
fn parameters(call: &Call) -> Result<Vec<Sql>, Failure> {
    match (call.procedure, &*call.arguments) {
        (0, [warehouse @ Value::Int(home), district, customer, Value::Text(lines), _]) => {
            let lines = OrderLines::parse(*home, lines).ok_or_else(|| unknown(call))?;
            let order =
                [Sql::from(lines.count), Sql::from(lines.is_local), Sql::from(lines.rounds), Sql::from(lines.json)];
            [warehouse, district, customer].into_iter().map(sql).chain(order.map(Ok)).collect()
        }
        (_, arguments) => arguments.iter().map(sql).collect(),
    }
}

fn sql(value: &Value) -> Result<Sql, Failure> {
    match value {
        Value::Null => Ok(Sql::NULL),
        Value::Int(number) => Ok(Sql::Int(*number)),
        Value::Text(text) => Ok(Sql::from(text.as_bytes())),
        Value::Decimal(number) => Ok(Sql::from(number.to_string())),
        _ => Err(format!("a call with the value {value:?}").into()),
    }
}

struct MariaDbQueries(Conn);

impl Queries for MariaDbQueries {
    type Error = Failure;

    fn query(&mut self, query: &str, parameters: &[Value]) -> Result<Answer, Failure> {
        // Each occurs once, in this order.
        let mut places = query.to_owned();
        for number in 1..=parameters.len() {
            places = places.replace(&format!("${number}"), "?");
        }
        let parameters = parameters.iter().map(sql).collect::<Result<_, _>>()?;
        let rows: Vec<Row> = self.0.exec(places, Params::Positional(parameters))?;
        let mut answer = Answer::default();
        for row in rows {
            let columns = row.columns();
            answer.columns = columns.iter().map(|column| column.name_str().into_owned()).collect();
            let types = columns.iter().map(mysql::Column::column_type);
            answer.rows.push(types.zip(row.unwrap_raw()).map(value).collect::<Result<_, _>>()?);
        }
        Ok(answer)
    }
}

fn value((of_type, value): (ColumnType, Option<Sql>)) -> Result<Value, Failure> {
    match value {
        None | Some(Sql::NULL) => Ok(Value::Null),
        Some(Sql::Int(number)) => Ok(Value::Int(number)),
        Some(Sql::UInt(number)) => Ok(Value::Int(number.try_into()?)),
        Some(Sql::Bytes(text)) => {
            let text = String::from_utf8(text)?;
            match of_type {
                ColumnType::MYSQL_TYPE_NEWDECIMAL => {
                    let number = Decimal::parse(&text).ok_or_else(|| format!("{text} is no decimal"))?;
                    Ok(Value::Decimal(number))
                }
                _ => Ok(text.into()),
            }
        }
        Some(other) => Ok(other.as_sql(true).into()),
    }
}
