use thermocline_machine::ids::Micros;
use thermocline_statements::{Batch, Environment, Outcome, Prepared, StatementResult};
use thermocline_tables::partition::{Partition, Scope};
use thermocline_tables::schema::Schema;
use thermocline_types::{Class, DataType, Error, Result, Value, ValueRef};

use crate::Definitions;

/// Maximum depth of calls of procedures, including recursion.
pub const CALLS_DEEP_MAX: u32 = 8;

/// Interface of a running procedure to its transaction: statements, calls of other procedures, the transaction's time
/// and its random numbers.
#[derive(Debug)]
pub struct Context<'c, 's> {
    scope: &'c mut Scope<'s>,
    environment: &'c Environment,
    definitions: &'c Definitions,
    /// Statements of the running procedure in Rust.
    statements: &'c [Result<Prepared>],
    depth: u32,
    wrote: bool,
    /// Whether a statement with a LIMIT but no order has run.
    limited: bool,
    /// The first error of a statement or of a procedure that was called.
    failed: Option<Error>,
}

impl<'c, 's> Context<'c, 's> {
    /// Context of the call with which a transaction begins.
    pub fn new(scope: &'c mut Scope<'s>, environment: &'c Environment, definitions: &'c Definitions) -> Self {
        Self { scope, environment, definitions, statements: &[], depth: 1, wrote: false, limited: false, failed: None }
    }

    /// Runs a statement of [`Procedure::statements`](super::Procedure::statements), by its position there.
    ///
    /// # Errors
    /// Any error ends the transaction, even if the procedure ignores it: a statement that found no memory or was
    /// stopped has done part of its work, and would do all of it in replay.
    pub fn execute(&mut self, statement: usize, parameters: &[Value]) -> Result<Outcome> {
        self.unless_failed(|context| {
            let prepared = context.statement(statement)?;
            context.run(prepared, parameters)
        })
    }

    /// Runs a statement once for each set of parameters, in order: faster than separate runs, especially if it looks up
    /// rows by a whole key. Returns the rows of all runs.
    ///
    /// # Errors
    /// As [`Context::execute`]. No run after the failed one has any effect.
    pub fn execute_batch<P: AsRef<[Value]>>(&mut self, statement: usize, sets: &[P]) -> Result<Batch> {
        self.unless_failed(|context| {
            let prepared = context.statement(statement)?;
            context.note(prepared)?;
            prepared.run_batch(context.scope, context.environment, sets)
        })
    }

    /// [`Context::execute_batch`] for borrowed values, such as texts of an earlier result, which an INSERT of one row
    /// of parameters does not copy.
    ///
    /// # Errors
    /// As of [`Context::execute_batch`].
    pub fn execute_batch_borrowed<'v, P: AsRef<[ValueRef<'v>]>>(
        &mut self,
        statement: usize,
        sets: &[P],
    ) -> Result<Batch> {
        self.unless_failed(|context| {
            let prepared = context.statement(statement)?;
            context.note(prepared)?;
            prepared.run_batch_borrowed(context.scope, context.environment, sets)
        })
    }

    /// Calls another procedure as part of this transaction. An error ends the transaction.
    pub fn call(&mut self, procedure: &str, arguments: &[Value]) -> Result<StatementResult> {
        self.unless_failed(|context| context.call_inside(procedure, arguments))
    }

    #[inline]
    fn statement(&self, position: usize) -> Result<&'c Prepared> {
        match self.statements.get(position) {
            Some(Ok(prepared)) => Ok(prepared),
            Some(Err(error)) => Err(error.clone()),
            None => Err(Class::Procedure.error(format_args!("the procedure has no statement {position}"))),
        }
    }

    #[inline]
    fn unless_failed<T>(&mut self, run: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.check()?;
        run(self).inspect_err(|error| self.failed = Some(error.clone()))
    }

    /// The error that has ended the transaction, if any.
    #[inline]
    pub(super) fn check(&self) -> Result<()> {
        self.failed.as_ref().map_or(Ok(()), |error| Err(error.clone()))
    }

    /// Whether a procedure may go on after a step that needs evicted rows, to find out which others need some; see
    /// [`Environment::seeks_more`].
    pub(super) fn seeks_more(&mut self) -> bool {
        if self.failed == Some(Error::Evicted) {
            self.failed = None;
        }
        self.environment.seeks_more(self.scope.members().map(Partition::wanted_rows).sum())
    }

    fn call_inside(&mut self, procedure: &str, arguments: &[Value]) -> Result<StatementResult> {
        if self.depth >= CALLS_DEEP_MAX {
            let message = format!("procedures call each other more than {CALLS_DEEP_MAX} deep");
            return Err(Class::TooDeep.error(message));
        }
        let compiled = self.definitions.procedure(procedure)?;
        self.depth += 1;
        let result = compiled.run(self, arguments);
        self.depth -= 1;
        result
    }

    /// Time of the transaction; the same for every call.
    pub fn now(&self) -> Micros {
        Micros(self.environment.timestamp())
    }

    /// The next random number of the transaction.
    pub fn random(&self) -> u64 {
        self.environment.random()
    }

    /// Schema of the transaction.
    pub(super) const fn schema(&self) -> &'c Schema {
        &self.definitions.schema
    }

    /// The types of a procedure's arguments.
    pub(super) fn argument_types(&self, procedure: &str) -> Result<Vec<DataType>> {
        let compiled = self.definitions.procedure(procedure)?;
        Ok(compiled.arguments.iter().map(|argument| argument.data_type).collect())
    }

    pub(super) const fn environment(&self) -> &'c Environment {
        self.environment
    }

    #[inline]
    pub(super) fn run(&mut self, prepared: &Prepared, parameters: &[Value]) -> Result<Outcome> {
        self.note(prepared)?;
        prepared.run(self.scope, self.environment, parameters)
    }

    #[inline]
    pub(super) fn run_batch_of<P: AsRef<[Value]>>(
        &mut self,
        prepared: &Prepared,
        runs: usize,
        set: impl FnMut(usize) -> Result<P>,
    ) -> Result<Batch> {
        self.note(prepared)?;
        prepared.run_batch_of(self.scope, self.environment, runs, set)
    }

    /// Notes that a statement is about to run; an error if it may not.
    #[inline]
    fn note(&mut self, prepared: &Prepared) -> Result<()> {
        if !prepared.is_read_only() {
            self.definitions.check_writable()?;
            self.wrote = true;
        }
        self.limited |= prepared.limits_without_order();
        if self.wrote && self.limited {
            return Err(limit_without_order());
        }
        Ok(())
    }

    pub(super) fn with_statements<T>(
        &mut self,
        statements: &[Result<Prepared>],
        run: impl FnOnce(&mut Context<'_, 's>) -> Result<T>,
    ) -> Result<T> {
        let mut inner = Context {
            scope: self.scope,
            environment: self.environment,
            definitions: self.definitions,
            statements,
            depth: self.depth,
            wrote: self.wrote,
            limited: self.limited,
            failed: None,
        };
        let result = run(&mut inner).and_then(|done| inner.check().map(|()| done));
        (self.wrote, self.limited) = (inner.wrote, inner.limited);
        result
    }
}

/// Which rows come first without an order depends on the plan, and another version may plan differently; a procedure's
/// writes must not depend on it.
pub(super) fn limit_without_order() -> Error {
    let message = "LIMIT without ORDER BY in a procedure that writes: which rows would it take?";
    Class::InvalidFunctionDefinition.error(message)
}
