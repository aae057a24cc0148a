use std::sync::Arc;

use super::catalog::{Catalog, Definitions};
use crate::engine::{Program, Route, Weigh};
use crate::error::{Class, Error, Result};
use crate::log::{Batch, Head};
use crate::partition::Scope;
use crate::procedure::{Compiled, Context};
use crate::sql::{Environment, Outcome, OutputColumn, Prepared, Rows};
use crate::types::Value;

/// What a statement or a procedure gives back.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Answer {
    /// The columns of its rows; none if it gives no rows, or if a procedure in Rust does not name them.
    pub columns: Arc<[OutputColumn]>,
    /// The rows.
    pub rows: Rows,
    /// How many rows were inserted, updated or deleted, or are in the result.
    pub affected: u64,
}

impl Weigh for Answer {
    fn heap_bytes(&self) -> usize {
        self.rows.memory_bytes()
    }
}

impl From<Outcome> for Answer {
    fn from(Outcome { rows, affected }: Outcome) -> Self {
        Self { columns: Arc::default(), rows, affected }
    }
}

/// A prepared statement or a procedure as the engine runs it.
#[derive(Debug)]
pub struct Work {
    catalog: Arc<Catalog>,
    definitions: Arc<Definitions>,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Statement { sql: Box<str>, prepared: Box<Prepared>, columns: Arc<[OutputColumn]> },
    Procedure(Arc<Compiled>),
}

impl Work {
    /// A statement of the schema as it is now.
    pub(crate) fn statement(catalog: &Arc<Catalog>, definitions: Arc<Definitions>, sql: &str) -> Result<Self> {
        let prepared = Prepared::new(&definitions.schema, sql)?;
        if !prepared.is_read_only() && prepared.limits_without_order() {
            let message = "a statement that writes what LIMIT takes needs an ORDER BY: which rows would it be?";
            return Err(Class::Unsupported.error(message));
        }
        if !prepared.is_read_only() {
            definitions.check_writable()?;
        }
        let columns = prepared.columns().into();
        let kind = Kind::Statement { sql: sql.into(), prepared: Box::new(prepared), columns };
        Ok(Self { catalog: Arc::clone(catalog), definitions, kind })
    }

    /// A procedure of the schema as it is now.
    pub(crate) fn procedure(catalog: &Arc<Catalog>, definitions: Arc<Definitions>, name: &str) -> Result<Self> {
        let kind = Kind::Procedure(Arc::clone(definitions.procedure(name)?));
        Ok(Self { catalog: Arc::clone(catalog), definitions, kind })
    }

    /// Whether the schema has changed since this was made.
    pub fn is_outdated(&self) -> bool {
        self.catalog.version() != self.definitions.version
    }
}

impl Program for Work {
    type Outcome = Answer;

    fn route(&self, arguments: &[Value]) -> Result<Route> {
        match &self.kind {
            Kind::Statement { prepared, .. } => prepared.route(arguments),
            Kind::Procedure(compiled) => compiled.route(arguments),
        }
    }

    fn run(&self, scope: &mut Scope<'_>, arguments: &[Value]) -> Result<Answer> {
        if self.is_outdated() {
            return Err(Error::Retry("the schema has changed".into()));
        }
        run(&self.definitions, &self.kind, scope, arguments)
    }

    fn record(&self, batch: &mut Batch, head: &Head<'_>, arguments: &[Value]) -> Result<()> {
        match &self.kind {
            Kind::Statement { sql, .. } => batch.statement(head, sql, arguments),
            Kind::Procedure(compiled) => batch.call(head, &compiled.name, compiled.version, arguments),
        }
    }
}

fn run(definitions: &Definitions, kind: &Kind, scope: &mut Scope<'_>, arguments: &[Value]) -> Result<Answer> {
    let environment = environment(scope, definitions);
    match kind {
        Kind::Statement { prepared, columns, .. } => {
            let Outcome { rows, affected } = prepared.run(scope, &environment, arguments)?;
            Ok(Answer { columns: Arc::clone(columns), rows, affected })
        }
        Kind::Procedure(compiled) => compiled.run(&mut Context::new(scope, &environment, definitions), arguments),
    }
}

/// What a statement knows of the world.
///
/// A session's transaction has one seed and many statements; each gets random numbers of its own from
/// what the ones before changed.
pub(super) fn environment(scope: &Scope<'_>, definitions: &Definitions) -> Environment {
    let head = scope.head();
    let seed = head.seed.wrapping_add((scope.changes() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    Environment::new(head.timestamp.0, seed, definitions.limits.rows_max).with_interrupt(scope.interrupt())
}
