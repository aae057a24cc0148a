//! One version of the schema with its compiled procedures.

use std::collections::BTreeMap;
use std::sync::Arc;

use thermocline_statements::{STATEMENT_BYTES_MAX, check_statements, define, parse_bytes};
use thermocline_tables::schema::{Change, Language, ProcedureDefinition, Schema};
use thermocline_tables::table::{Budget, Charge, Working, out_of_memory};
use thermocline_types::{Class, Error, Result};

use crate::{Compiled, Limits, Registration};

/// One version of the schema and its procedures.
#[derive(Debug)]
pub struct Definitions {
    /// Number of definitions since the database was opened.
    pub version: u64,
    /// The schema.
    pub schema: Schema,
    /// Procedures by name. An error belongs to a procedure that no longer fits the schema, and is returned to its
    /// callers.
    procedures: BTreeMap<Box<str>, Result<Arc<Compiled>>>,
    registered: Arc<Vec<Arc<Registration>>>,
    /// Limits of one transaction.
    pub limits: Limits,
    /// Error for writers; `None` if the database is writable.
    pub refusal: Option<Error>,
    /// Budget charged for procedures.
    budget: Arc<Budget>,
}

impl Definitions {
    /// The first version.
    pub fn new(
        schema: Schema,
        registered: Arc<Vec<Arc<Registration>>>,
        limits: Limits,
        budget: &Arc<Budget>,
    ) -> Result<Self> {
        for registration in registered.iter() {
            if schema.procedure(&registration.name).is_ok() {
                return Err(taken(&registration.name));
            }
        }
        Ok(Self::compile(0, schema, registered, limits, Arc::clone(budget)))
    }

    fn compile(
        version: u64,
        schema: Schema,
        registered: Arc<Vec<Arc<Registration>>>,
        limits: Limits,
        budget: Arc<Budget>,
    ) -> Self {
        let mut procedures = BTreeMap::new();
        for definition in schema.procedures() {
            let compiled = Compiled::stored(&schema, definition, limits, &budget).map(Arc::new);
            procedures.insert(definition.name.clone(), compiled);
        }
        for registration in registered.iter() {
            let compiled = Compiled::registered(&schema, registration);
            procedures.insert(registration.name.clone(), Ok(Arc::new(compiled)));
        }
        Self { version, schema, procedures, registered, limits, budget, refusal: None }
    }

    /// The version after a definition; an error if a new procedure cannot be compiled.
    pub fn define(&self, sql: &str) -> Result<(Self, Change)> {
        let mut parsing = Charge::shared(&self.budget, Working::Queries);
        let reading = |full| out_of_memory(&format!("reading a definition of {} bytes", sql.len()), full);
        if sql.len() <= STATEMENT_BYTES_MAX {
            parsing.resize(parse_bytes(sql)).map_err(reading)?;
        }
        let (schema, change) = define(&self.schema, sql)?;
        parsing.resize(0).map_err(reading)?;
        if let Change::CreateProcedure(new) = &change {
            // The compiler charges for itself.
            parsing.resize_exactly(compile_bytes(new)).map_err(reading)?;
            parsing.resize_exactly(0).map_err(reading)?;
        }
        let (registered, budget) = (Arc::clone(&self.registered), Arc::clone(&self.budget));
        let after = Self::compile(self.version + 1, schema, registered, self.limits, budget);
        if let Change::CreateProcedure(new) = &change {
            if self.registered.iter().any(|registration| registration.name == new.name) {
                return Err(taken(&new.name));
            }
            let compiled = after.procedure(&new.name)?;
            // Old and new procedures coexist until the swap.
            let all: usize = after.procedures.values().flatten().map(|compiled| compiled.bytes()).sum();
            check_statements(all as u64, &self.budget)?;
            let mut room = Charge::shared(&self.budget, Working::Statements);
            room.resize_exactly(compiled.bytes()).map_err(|full| out_of_memory("procedures", full))?;
        }
        Ok((after, change))
    }

    /// The same procedures with another schema and other limits.
    pub fn with(&self, schema: Schema, limits: Limits) -> Self {
        let budget = Arc::clone(&self.budget);
        Self::compile(self.version + 1, schema, Arc::clone(&self.registered), limits, budget)
    }

    /// The same schema without the procedures of the program, with other limits.
    pub fn without_registered(&self, limits: Limits) -> Self {
        Self::compile(self.version, self.schema.clone(), Arc::default(), limits, Arc::clone(&self.budget))
    }

    /// Whether a procedure of this name exists, even if it does not fit the schema.
    pub fn has_procedure(&self, name: &str) -> bool {
        self.procedures.contains_key(name)
    }

    /// The same definitions, refusing writes with this error.
    pub fn refusing(self, refusal: Option<Error>) -> Self {
        Self { refusal, ..self }
    }

    /// An error if nothing may be written.
    pub fn check_writable(&self) -> Result<()> {
        self.refusal.as_ref().map_or(Ok(()), |refusal| Err(refusal.clone()))
    }

    /// A procedure, ready to run.
    pub fn procedure(&self, name: &str) -> Result<&Arc<Compiled>> {
        match self.procedures.get(name) {
            Some(compiled) => compiled.as_ref().map_err(Clone::clone),
            None => Err(Class::UndefinedFunction.error(format_args!("procedure \"{name}\" does not exist"))),
        }
    }
}

fn taken(name: &str) -> Error {
    Class::DuplicateFunction.error(format_args!("procedure \"{name}\" is registered by the program"))
}

/// Upper bound for the memory that compiling a procedure's body takes.
pub(crate) fn compile_bytes(definition: &ProcedureDefinition) -> usize {
    match definition.language {
        Language::Sql => parse_bytes(&definition.body),
        // Lua's own memory is counted by its meter.
        Language::Lua => definition.body.len(),
    }
}
