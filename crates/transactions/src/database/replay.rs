//! Runs statements and procedures from the log.

use std::sync::Arc;

use thermocline_durability::log::Body;
use thermocline_durability::recovery::Execute;
use thermocline_procedures::{Context, Definitions, Limits};
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
    /// For calls before their turn; `None` until one is looked at with the current schema.
    ahead: Option<Definitions>,
}

/// Limits of a command before its turn, which may run on rows that it would not have met. Procedures in Rust do not run
/// then at all: nothing could end them.
const LIMITS_AHEAD: Limits = Limits { rows_max: 10_000, instructions_max: 1_000_000, lua_bytes_max: 16 << 20 };

impl Replayer {
    /// A replayer with these initial definitions.
    pub fn new(definitions: Definitions) -> Self {
        Self { definitions, changed: None, statements: StatementCache::default(), ahead: None }
    }

    /// The definitions after the last record.
    pub fn into_definitions(mut self) -> Definitions {
        self.settle();
        self.definitions
    }

    fn settle(&mut self) {
        if let Some(schema) = self.changed.take() {
            self.statements.clear();
            self.ahead = None;
            self.definitions = self.definitions.with(schema, self.definitions.limits);
        }
    }

    fn prepared(&mut self, sql: &str) -> Result<Arc<Prepared>> {
        if let Some(prepared) = self.statements.get(sql.as_bytes()) {
            return Ok(Arc::clone(prepared));
        }
        let prepared = Arc::new(Prepared::new(&self.definitions.schema, sql)?);
        let bytes = size_of::<Prepared>() + prepared.heap_bytes() + allocated(sql.len());
        self.statements.keep(sql.as_bytes(), Arc::clone(&prepared), bytes, None);
        Ok(prepared)
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
        let prepared = self.prepared(sql)?;
        prepared.run(scope, &environment(scope, u64::MAX), parameters).map(|_| ())
    }

    fn look_ahead(&mut self, scope: &mut Scope<'_>, body: &Body<'_>) -> Result<()> {
        self.settle();
        match body {
            Body::Statement { sql, parameters } => {
                let prepared = self.prepared(sql)?;
                prepared.run(scope, &environment(scope, LIMITS_AHEAD.rows_max), &parameters.to_vec()?).map(drop)
            }
            Body::Call { procedure, version, arguments } => {
                let definitions = match &mut self.ahead {
                    Some(ahead) => ahead,
                    ahead => ahead.insert(self.definitions.without_registered(LIMITS_AHEAD)),
                };
                let compiled = definitions.procedure(procedure)?;
                if compiled.version != *version {
                    return Ok(());
                }
                let environment = environment(scope, LIMITS_AHEAD.rows_max);
                compiled.run(&mut Context::new(scope, &environment, definitions), &arguments.to_vec()?).map(drop)
            }
            _ => Ok(()),
        }
    }

    fn defined(&mut self, schema: &Schema) {
        self.changed = Some(schema.clone());
    }
}
