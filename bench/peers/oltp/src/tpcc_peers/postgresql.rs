//! PostgreSQL: a function for each transaction.

use std::hint::black_box;
use std::io::Write;

use postgres::error::SqlState;
use postgres::types::{ToSql, Type};
use postgres::{Client, SimpleQueryMessage, Statement};
use thermocline_transactions::types::{Decimal, Value};

use super::lines::OrderLines;
use super::peer::{CHECK_INDEXES, LineLoader, RESTARTS_MAX, TpccPeer, definition, too_many_restarts, unknown};
use crate::drive::{Caller, End, Executed};
use crate::oltp::Call;
use crate::peer::Failure;
use crate::postgresql::PostgreSql;
use crate::tpcc::{Answer, DEFINITIONS, INDEXES, Queries, TABLES};

/// The five transactions, in the order of the workload's.
const FUNCTIONS: [&str; 5] = [
    include_str!("postgresql/new_order.sql"),
    include_str!("postgresql/payment.sql"),
    include_str!("postgresql/order_status.sql"),
    include_str!("postgresql/delivery.sql"),
    include_str!("postgresql/stock_level.sql"),
];

const CALLS: [&str; 5] = [
    "SELECT * FROM new_order($1, $2, $3, $4, $5, $6)",
    "SELECT * FROM payment($1, $2, $3, $4, $5, $6, $7)",
    "SELECT * FROM order_status($1, $2, $3, $4)",
    "SELECT * FROM delivery($1, $2)",
    "SELECT * FROM stock_level($1, $2, $3)",
];

/// State of an error that a function raises on purpose.
const RAISED: &str = "45000";

impl TpccPeer for PostgreSql {
    fn define(&self) -> Result<(), Failure> {
        let mut client = self.open()?;
        let tables = DEFINITIONS.iter().map(definition);
        let mut all = tables.chain(INDEXES.into_iter().chain(FUNCTIONS).map(str::to_owned));
        Ok(all.try_for_each(|sql| client.batch_execute(&sql))?)
    }

    fn loader(&self) -> Result<Box<dyn LineLoader>, Failure> {
        Ok(Box::new(PostgreSqlLoader(self.open()?)))
    }

    fn settle(&self) -> Result<(), Failure> {
        let mut client = self.open()?;
        // Hint bits are set, and all pages are written.
        client.batch_execute(&format!("VACUUM (ANALYZE) {}", TABLES.join(", ")))?;
        Ok(client.batch_execute("CHECKPOINT")?)
    }

    fn data_bytes(&self) -> Result<u64, Failure> {
        let mut client = self.open()?;
        let mut bytes_of = |table: &&str| {
            let row = client.query_one(&format!("SELECT pg_total_relation_size('{table}')"), &[])?;
            Ok(u64::try_from(row.try_get::<_, i64>(0)?)?)
        };
        TABLES.iter().map(&mut bytes_of).sum()
    }

    fn connect(&self) -> Result<Box<dyn Caller>, Failure> {
        let mut client = self.open()?;
        let calls = CALLS.iter().map(|call| client.prepare(call)).collect::<Result<_, _>>()?;
        Ok(Box::new(PostgreSqlCaller { client, calls }))
    }

    fn prepare_check(&self) -> Result<(), Failure> {
        let mut client = self.open()?;
        Ok(CHECK_INDEXES.iter().try_for_each(|index| client.batch_execute(index))?)
    }

    fn queries(&self) -> Result<Box<dyn Queries<Error = Failure>>, Failure> {
        Ok(Box::new(PostgreSqlQueries(self.open()?)))
    }
}

struct PostgreSqlLoader(Client);

impl LineLoader for PostgreSqlLoader {
    fn load(&mut self, table: &str, rows: u64, lines: &[u8]) -> Result<(), Failure> {
        let mut writer = self.0.copy_in(&format!("COPY {table} FROM STDIN"))?;
        writer.write_all(lines)?;
        match writer.finish()? {
            loaded if loaded == rows => Ok(()),
            loaded => Err(format!("{loaded} of {rows} rows of {table} were loaded").into()),
        }
    }
}

struct PostgreSqlCaller {
    client: Client,
    /// In the order of the workload's transactions.
    calls: Vec<Statement>,
}

impl Caller for PostgreSqlCaller {
    fn execute(&mut self, call: &Call) -> Result<Executed, Failure> {
        let statement = self.calls.get(call.procedure).ok_or_else(|| unknown(call))?;
        let parameters = parameters(call, statement.params())?;
        let parameters: Vec<&(dyn ToSql + Sync)> = parameters.iter().map(Box::as_ref).collect();
        let mut restarts = 0;
        loop {
            let error = match self.client.query(statement, &parameters) {
                Ok(rows) => {
                    black_box(rows);
                    return Ok(Executed { end: End::Committed(None), restarts });
                }
                Err(error) => error,
            };
            match error.code() {
                Some(state) if state.code() == RAISED => return Ok(Executed { end: End::Aborted, restarts }),
                Some(state) if is_restarted(state) => restarts += 1,
                _ => return Err(error.into()),
            }
            if restarts == RESTARTS_MAX {
                return Err(too_many_restarts(&error));
            }
        }
    }
}

/// Whether the transaction runs again after this error.
fn is_restarted(state: &SqlState) -> bool {
    [SqlState::T_R_DEADLOCK_DETECTED, SqlState::T_R_SERIALIZATION_FAILURE].contains(state)
}

/// Parameters of the call's function, which takes integers and texts.
fn parameters(call: &Call, types: &[Type]) -> Result<Vec<Box<dyn ToSql + Sync>>, Failure> {
    let arguments = match (call.procedure, &*call.arguments) {
        (0, [warehouse @ Value::Int(home), district, customer, Value::Text(lines), _]) => {
            let lines = OrderLines::parse(*home, lines).ok_or_else(|| unknown(call))?;
            let order = [Value::Int(lines.count.into()), Value::Int(lines.is_local.into()), lines.json.into()];
            [warehouse, district, customer].into_iter().cloned().chain(order).collect()
        }
        (_, arguments) => arguments.to_vec(),
    };
    let parameter = |(value, of_type): (Value, &Type)| -> Result<Box<dyn ToSql + Sync>, Failure> {
        Ok(match value {
            Value::Null if *of_type == Type::INT4 => Box::new(None::<i32>),
            Value::Null => Box::new(None::<String>),
            Value::Int(number) => Box::new(i32::try_from(number)?),
            Value::Text(text) => Box::new(String::from(text)),
            Value::Decimal(number) => Box::new(number.to_string()),
            _ => return Err(unknown(call)),
        })
    };
    arguments.into_iter().zip(types).map(parameter).collect()
}

struct PostgreSqlQueries(Client);

impl Queries for PostgreSqlQueries {
    type Error = Failure;

    fn query(&mut self, query: &str, parameters: &[Value]) -> Result<Answer, Failure> {
        // Numbers, all of them.
        let mut sql = query.to_owned();
        for (number, value) in (1..).zip(parameters) {
            sql = sql.replace(&format!("${number}"), &value.to_string());
        }
        let mut answer = Answer::default();
        for message in self.0.simple_query(&sql)? {
            match message {
                SimpleQueryMessage::RowDescription(columns) => {
                    answer.columns = columns.iter().map(|column| column.name().to_owned()).collect();
                }
                SimpleQueryMessage::Row(row) => {
                    answer.rows.push((0..row.len()).map(|column| value(row.get(column))).collect());
                }
                _ => {}
            }
        }
        Ok(answer)
    }
}

/// A number, or what is none as text.
fn value(text: Option<&str>) -> Value {
    let number = |text: &str| text.parse().map(Value::Int).ok().or(Decimal::parse(text).map(Value::Decimal));
    text.map_or(Value::Null, |text| number(text).unwrap_or_else(|| text.into()))
}
