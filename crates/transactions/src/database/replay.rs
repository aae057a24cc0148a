//! Runs statements and procedures from the log.

use std::sync::Arc;

use thermocline_durability::recovery::Execute;
use thermocline_procedures::{Context, Definitions};
use thermocline_statements::{Prepared, StatementCache};
use thermocline_tables::partition::Scope;
use thermocline_tables::schema::Schema;
use thermocline_tables::table::{HeapSize, allocated};
use thermocline_types::{Error, Result, Value};

use super::work::environment;

/// Runs the commands of the log with the schema of their time. Statements have no limits; procedures have those of the
/// initial definitions, which should be none, because committed transactions were within the limits of their time.
#[derive(Debug)]
pub struct Replayer {
    definitions: Definitions,
    /// Schema not compiled yet: definitions follow each other when a snapshot is loaded, so compilation waits for the
    /// next command.
    changed: Option<Schema>,
    statements: StatementCache<Arc<Prepared>>,
}

impl Replayer {
    /// A replayer with these initial definitions.
    pub fn new(definitions: Definitions) -> Self {
        Self { definitions, changed: None, statements: StatementCache::default() }
    }

    /// The definitions after the last record.
    pub fn into_definitions(mut self) -> Definitions {
        self.settle();
        self.definitions
    }

    fn settle(&mut self) {
        if let Some(schema) = self.changed.take() {
            self.statements.clear();
            self.definitions = self.definitions.with(schema, self.definitions.limits);
        }
    }
}

impl Execute for Replayer {
    fn call(&mut self, scope: &mut Scope<'_>, procedure: &str, version: u32, arguments: &[Value]) -> Result<()> {
        self.settle();
        if !self.definitions.has_procedure(procedure) {
            return Err(Error::cannot_open(format_args!(
                "the log calls procedure \"{procedure}\", which the program has not registered"
            )));
        }
        let compiled = self.definitions.procedure(procedure)?;
        if compiled.version != version {
            return Err(Error::cannot_open(format_args!(
                "the log calls version {version} of procedure \"{procedure}\"; there is version {}",
                compiled.version
            )));
        }
        let environment = environment(scope, self.definitions.limits.rows_max);
        compiled.run(&mut Context::new(scope, &environment, &self.definitions), arguments).map(|_| ())
    }

    fn statement(&mut self, scope: &mut Scope<'_>, sql: &str, parameters: &[Value]) -> Result<()> {
        self.settle();
        let prepared = match self.statements.get(sql.as_bytes()) {
            Some(prepared) => Arc::clone(prepared),
            None => {
                let prepared = Arc::new(Prepared::new(&self.definitions.schema, sql)?);
                let bytes = size_of::<Prepared>() + prepared.heap_bytes() + allocated(sql.len());
                self.statements.keep(sql.as_bytes(), Arc::clone(&prepared), bytes, None);
                prepared
            }
        };
        prepared.run(scope, &environment(scope, u64::MAX), parameters).map(|_| ())
    }

    fn defined(&mut self, schema: &Schema) {
        self.changed = Some(schema.clone());
    }
}
