//! Statements, procedures and batches of loads as programs that executors run.

use std::borrow::Cow;
use std::sync::Arc;

use thermocline_durability::log::{Batch, Head, Images};
use thermocline_durability::recovery::insert_hidden;
use thermocline_machine::ids::LoadId;
use thermocline_procedures::{Compiled, Context, Definitions};
use thermocline_statements::{
    Environment, Outcome, OutputColumn, Prepared, StatementResult, charge_statement, check_depth, check_length, parse,
    parse_bytes,
};
use thermocline_syntax::Statement;
use thermocline_tables::PartitionHash;
use thermocline_tables::partition::{Participants, Scope, being_built};
use thermocline_tables::schema::TableDefinition;
use thermocline_tables::table::{Budget, Charge, HeapSize, Table, TableLoad, Working, allocated, out_of_memory};
use thermocline_types::{Class, Error, Result, Value};

use super::catalog::Catalog;
use super::memory::Room;
use super::source::Source;
use crate::engine::Program;

/// A prepared statement, a procedure or a batch of a load as the engine runs it; a statement is charged to the budget
/// while it exists.
#[derive(Debug)]
pub struct Work {
    catalog: Arc<Catalog>,
    definitions: Arc<Definitions>,
    kind: Kind,
    charge: Charge,
}

/// Tree of a statement. The charge covers parsing and binding; the caller keeps it until the statement is bound.
///
/// # Errors
/// If there is no memory for it although rows are evicted, before it is parsed; if it does not parse, or is longer or deeper than this engine
/// takes.
pub(super) fn read<'a>(source: Source<'a>, room: &mut Room<'_>) -> Result<(Cow<'a, Statement>, Charge)> {
    let text = source.text;
    check_length(text)?;
    let mut charge = Charge::shared(room.budget, Working::Queries);
    let bytes = parse_bytes(text);
    let taken = room.take(|| charge.resize(bytes));
    taken.map_err(|full| out_of_memory(&format!("reading a statement of {} bytes", text.len()), full))?;
    let statement = match source.tree {
        Some((statement, operators)) => {
            check_depth(operators)?;
            Cow::Borrowed(statement)
        }
        None => Cow::Owned(parse(text)?),
    };
    Ok((statement, charge))
}

#[derive(Debug)]
enum Kind {
    /// With the number of rows that it may read, if another engine takes over queries that read more.
    Statement {
        sql: Arc<str>,
        prepared: Arc<Prepared>,
        columns: Arc<[OutputColumn]>,
        rows_max: Option<u64>,
    },
    Procedure(Arc<Compiled>),
    Load(LoadBatch),
}

/// A batch of rows of a bulk load, for one partition, or for all if the table is replicated.
#[derive(Debug)]
pub(crate) struct LoadBatch {
    pub load: LoadId,
    pub table: Arc<TableDefinition>,
    /// Their partition; `None` for every partition.
    pub hash: Option<PartitionHash>,
    pub count: u32,
    /// Images in the format of [`Images`].
    pub images: Vec<u8>,
}

impl LoadBatch {
    fn of(&self) -> (TableLoad, Images<'_>) {
        (TableLoad { table: self.table.id, load: self.load }, Images::new(self.count, &self.images))
    }

    fn run(&self, scope: &mut Scope<'_>) -> Result<StatementResult> {
        let known = scope.any()?.0.table(self.table.id).ok();
        if known.is_none_or(|known| **known.definition() != *self.table) {
            let message = format!("table \"{}\" was changed while rows were loaded into it", self.table.name);
            return Err(Class::ObjectInUse.error(message));
        }
        if known.is_some_and(Table::is_building) {
            let message = format!("{}; try again when it is", being_built(&self.table));
            return Err(Class::ObjectInUse.error(message));
        }
        let (load, images) = self.of();
        insert_hidden(scope, load, images)?;
        Ok(StatementResult { affected: self.count.into(), ..StatementResult::default() })
    }
}

impl Work {
    /// Rows of a bulk load.
    pub(crate) fn load(catalog: &Arc<Catalog>, definitions: &Arc<Definitions>, batch: LoadBatch) -> Self {
        let (catalog, definitions) = (Arc::clone(catalog), Arc::clone(definitions));
        Self { catalog, definitions, kind: Kind::Load(batch), charge: Charge::default() }
    }

    /// A statement for the current schema.
    pub fn new(catalog: &Arc<Catalog>, definitions: Arc<Definitions>, sql: &str, budget: &Arc<Budget>) -> Result<Self> {
        Self::new_with_room(catalog, definitions, sql, Room { budget, make: &mut || false })
    }

    /// [`Work::new`] that has rows evicted where there is no memory for it.
    pub(super) fn new_with_room(
        catalog: &Arc<Catalog>,
        definitions: Arc<Definitions>,
        sql: &str,
        mut room: Room<'_>,
    ) -> Result<Self> {
        let (statement, parsing) = read(sql.into(), &mut room)?;
        Self::statement(catalog, definitions, sql, (&statement, parsing), |bytes| {
            let mut charge = Charge::shared(room.budget, Working::Statements);
            let taken = room.take(|| charge.resize_exactly(bytes));
            taken.map_err(|full| out_of_memory("prepared statements", full))?;
            charge_statement(bytes, charge)
        })
    }

    /// [`Work::new`] for a parsed statement; `charge` charges its bytes.
    pub(super) fn statement(
        catalog: &Arc<Catalog>,
        definitions: Arc<Definitions>,
        sql: &str,
        (statement, mut parsing): (&Statement, Charge),
        charge: impl FnOnce(usize) -> Result<Charge>,
    ) -> Result<Self> {
        let prepared = Prepared::bind_charged(&definitions.schema, statement, &[], Some(&mut parsing))?;
        if !prepared.is_read_only() && prepared.limits_without_order() {
            let message = "a statement that writes what LIMIT takes needs an ORDER BY: which rows would it be?";
            return Err(Class::Unsupported.error(message));
        }
        if !prepared.is_read_only() {
            definitions.check_writable()?;
        }
        // The text is kept twice: here, and in the statement cache.
        let bytes =
            size_of::<Self>() + size_of::<Prepared>() + HeapSize::heap_bytes(&prepared) + 2 * allocated(sql.len());
        let charge = charge(bytes)?;
        let columns = prepared.columns().into();
        let kind = Kind::Statement { sql: sql.into(), prepared: Arc::new(prepared), columns, rows_max: None };
        Ok(Self { catalog: Arc::clone(catalog), definitions, kind, charge })
    }

    /// The same query with a limit on rows: see [`Settings::query_rows_max`](super::Settings::query_rows_max). `None`
    /// if it is not a query.
    pub(super) fn bounded(&self, rows_max: u64) -> Option<Self> {
        let Kind::Statement { sql, prepared, columns, .. } = &self.kind else { return None };
        let (catalog, definitions) = (Arc::clone(&self.catalog), Arc::clone(&self.definitions));
        let (sql, columns, rows_max) = (Arc::clone(sql), Arc::clone(columns), Some(rows_max));
        let kind = Kind::Statement { sql, prepared: Arc::clone(prepared), columns, rows_max };
        prepared.is_read_only().then_some(Self { catalog, definitions, kind, charge: Charge::default() })
    }

    /// A procedure for the current schema.
    pub fn procedure(catalog: &Arc<Catalog>, definitions: Arc<Definitions>, name: &str) -> Result<Self> {
        let kind = Kind::Procedure(Arc::clone(definitions.procedure(name)?));
        Ok(Self { catalog: Arc::clone(catalog), definitions, kind, charge: Charge::default() })
    }

    /// Whether it may be kept: it is charged as a prepared statement, not as a running one.
    pub(super) fn may_be_kept(&self) -> bool {
        self.charge.is_of(Working::Statements)
    }

    /// Bytes charged for it.
    pub(super) const fn bytes(&self) -> usize {
        self.charge.bytes()
    }

    /// Whether the schema has changed since this was made.
    pub fn is_outdated(&self) -> bool {
        self.catalog.version() != self.definitions.version
    }
}

impl Program for Work {
    type Outcome = StatementResult;

    fn participants(&self, arguments: &[Value]) -> Result<Participants> {
        match &self.kind {
            Kind::Statement { prepared, .. } => prepared.participants(arguments),
            Kind::Procedure(compiled) => compiled.participants(arguments),
            Kind::Load(batch) => Ok(batch.hash.map_or(Participants::All, Participants::One)),
        }
    }

    fn run(&self, scope: &mut Scope<'_>, arguments: &[Value]) -> Result<StatementResult> {
        if self.is_outdated() && !matches!(self.kind, Kind::Load(_)) {
            return Err(Error::Retry("the schema has changed".into()));
        }
        run(&self.definitions, &self.kind, scope, arguments)
    }

    fn record(&self, batch: &mut Batch, head: &Head<'_>, arguments: &[Value]) -> Result<()> {
        match &self.kind {
            Kind::Statement { sql, .. } => batch.statement(head, sql, arguments),
            Kind::Procedure(compiled) => batch.call(head, &compiled.name, compiled.version, arguments),
            Kind::Load(rows) => {
                let (load, images) = rows.of();
                batch.load(head, load, images)
            }
        }
    }
}

fn run(definitions: &Definitions, kind: &Kind, scope: &mut Scope<'_>, arguments: &[Value]) -> Result<StatementResult> {
    let rows_max = match kind {
        Kind::Statement { rows_max, .. } => *rows_max,
        Kind::Procedure(_) => Some(definitions.limits.rows_max),
        Kind::Load(_) => None,
    };
    let mut environment = environment(scope, rows_max.unwrap_or(u64::MAX)).with_memory(scope.lend_memory());
    if let Kind::Statement { rows_max: Some(_), .. } = kind {
        environment = environment.of_bounded_query();
    }
    let answer = match kind {
        Kind::Statement { prepared, columns, .. } => {
            let outcome = prepared.run(scope, &environment, arguments);
            outcome.map(|Outcome { rows, affected }| StatementResult { columns: Arc::clone(columns), rows, affected })
        }
        Kind::Procedure(compiled) => compiled.run(&mut Context::new(scope, &environment, definitions), arguments),
        Kind::Load(batch) => batch.run(scope),
    };
    scope.give_back(environment.into_memory());
    answer
}

/// Environment of a statement: time, seed, and the number of rows that it may read.
///
/// A session's transaction has one seed and many statements; mixing in the number of changes so far gives each
/// statement after a change other random numbers.
pub(super) fn environment(scope: &Scope<'_>, rows_max: u64) -> Environment {
    let head = scope.head();
    let seed = head.seed.wrapping_add((scope.changes() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    Environment::new(head.timestamp.0, seed, rows_max)
        .with_interrupt(scope.interrupt())
        .with_returned(scope.returned_rows())
}
