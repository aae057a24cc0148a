use std::fmt;

use thermocline_statements::{StatementResult, define};
use thermocline_tables::schema::{Argument, Schema};
use thermocline_types::{Class, Result, Value};

use super::Context;

/// A procedure in Rust.
///
/// It must be deterministic: its changes may depend only on its arguments and on its [`Context`]. The log holds only
/// the call, and another process runs it again, so it must not use clocks, random numbers, files, maps in random order
/// or statics.
///
/// ```
/// use thermocline_procedures::{Context, Procedure};
/// use thermocline_statements::StatementResult;
/// use thermocline_types::{Result, Value};
///
/// struct Add;
///
/// impl Procedure for Add {
///     fn statements(&self) -> &[&str] {
///         &["UPDATE accounts SET balance = balance + $2 WHERE id = $1 RETURNING balance"]
///     }
///
///     fn run(&self, context: &mut Context<'_, '_>, arguments: &[Value]) -> Result<StatementResult> {
///         Ok(context.execute(0, arguments)?.into())
///     }
/// }
/// ```
pub trait Procedure: Send + Sync + 'static {
    /// Statements that it uses, prepared once for each version of the schema.
    fn statements(&self) -> &[&str];

    /// Runs it. An error undoes its changes, and so does an ignored error of a statement or a called procedure. It must
    /// not panic: a panic stops the whole engine, because it may leave anything half done.
    fn run(&self, context: &mut Context<'_, '_>, arguments: &[Value]) -> Result<StatementResult>;
}

/// A procedure in Rust with its name.
pub struct Registration {
    /// Its name.
    pub(crate) name: Box<str>,
    pub(crate) version: u32,
    pub(crate) arguments: Vec<Argument>,
    pub(crate) partition_on: Vec<usize>,
    pub(crate) procedure: Box<dyn Procedure>,
}

impl fmt::Debug for Registration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registration").field("name", &self.name).field("version", &self.version).finish_non_exhaustive()
    }
}

impl Registration {
    /// A procedure with a head as in `CREATE PROCEDURE`: `add(id BIGINT, amount BIGINT) PARTITION ON (id)`. Change the
    /// version whenever the procedure would change other rows, or the same rows in another order: a log that calls
    /// another version is not replayed.
    pub fn new(head: &str, version: u32, procedure: impl Procedure) -> Result<Self> {
        let (schema, _) = define(&Schema::default(), &format!("CREATE PROCEDURE {head} LANGUAGE sql AS ''"))?;
        let definition = schema.procedures().next();
        let definition = definition.ok_or_else(|| Class::Syntax.error(format_args!("the head {head}")))?;
        Ok(Self {
            name: definition.name.clone(),
            version,
            arguments: definition.arguments.clone(),
            partition_on: definition.partition_on.clone(),
            procedure: Box::new(procedure),
        })
    }
}
