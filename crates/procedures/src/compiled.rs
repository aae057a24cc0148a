use std::borrow::Cow;
use std::sync::Arc;

use thermocline_statements::{Prepared, StatementResult, settle};
use thermocline_tables::PartitionHash;
use thermocline_tables::partition::Participants;
use thermocline_tables::schema::{Argument, Language, ProcedureDefinition, Schema};
use thermocline_tables::table::{Budget, Charge, HeapSize, Working};
use thermocline_types::{Class, DataType, Error, Result, Value, ValueRef, assign};

use super::Limits;
use super::context::Context;
use super::definitions::compile_bytes;
use super::lua::LuaProcedure;
use super::registration::Registration;
use super::sql::SqlProcedure;

/// A procedure compiled for one version of the schema, ready to run.
#[derive(Debug)]
pub struct Compiled {
    /// Its name.
    pub name: Box<str>,
    /// Its version.
    pub version: u32,
    /// Arguments.
    pub arguments: Vec<Argument>,
    partition_on: Vec<usize>,
    body: Body,
    /// Charge for the memory that it takes while it exists.
    charge: Charge,
}

#[derive(Debug)]
enum Body {
    Sql(SqlProcedure),
    Lua(LuaProcedure),
    /// With its prepared statements; the error of a statement is returned when the statement runs.
    Rust(Arc<Registration>, Vec<Result<Prepared>>),
}

impl HeapSize for Body {
    fn heap_bytes(&self) -> usize {
        match self {
            Self::Sql(procedure) => procedure.heap_bytes(),
            Self::Lua(procedure) => procedure.heap_bytes(),
            // Its statements belong to the program, which has a fixed number of them.
            Self::Rust(..) => 0,
        }
    }
}

impl Compiled {
    /// Bytes charged for it.
    pub(crate) const fn bytes(&self) -> usize {
        self.charge.bytes()
    }

    /// Compiles a procedure of the schema.
    pub(crate) fn stored(
        schema: &Schema,
        definition: &ProcedureDefinition,
        limits: Limits,
        budget: &Arc<Budget>,
    ) -> Result<Self> {
        // The budget does not refuse: the procedure is already defined. `define` asks beforehand.
        let mut parsing = Charge::shared(budget, Working::Queries);
        parsing.settle(compile_bytes(definition));
        let body = match definition.language {
            Language::Sql => Body::Sql(SqlProcedure::compile(schema, definition)?),
            Language::Lua => Body::Lua(LuaProcedure::compile(definition, limits, budget)?),
        };
        let ProcedureDefinition { name, version, arguments, partition_on, .. } = definition.clone();
        let mut charge = Charge::shared(budget, Working::Statements);
        charge.settle(definition.body.len() + body.heap_bytes());
        Ok(Self { name, version, arguments, partition_on, body, charge })
    }

    /// Prepares a procedure in Rust.
    pub(crate) fn registered(schema: &Schema, registration: &Arc<Registration>) -> Self {
        let statements = registration.procedure.statements();
        let prepared = statements.iter().map(|sql| Prepared::with_arguments(schema, sql, &[])).collect();
        Self {
            name: registration.name.clone(),
            version: registration.version,
            arguments: registration.arguments.clone(),
            partition_on: registration.partition_on.clone(),
            body: Body::Rust(Arc::clone(registration), prepared),
            charge: Charge::default(),
        }
    }

    /// The partitions that a call needs.
    pub fn participants(&self, arguments: &[Value]) -> Result<Participants> {
        let arguments = self.settle(arguments)?;
        let value = |position: &usize| arguments.get(*position).unwrap_or(&Value::Null).as_ref();
        match &self.partition_on[..] {
            [] => Ok(Participants::All),
            [one] => Ok(Participants::One(PartitionHash::of(value(one)))),
            several => {
                let values = several.iter().map(value).filter(|value| *value != ValueRef::Null);
                Ok(Participants::to(&values.map(PartitionHash::of).collect::<Vec<_>>()))
            }
        }
    }

    /// Runs it.
    pub fn run(&self, context: &mut Context<'_, '_>, arguments: &[Value]) -> Result<StatementResult> {
        let arguments = self.settle(arguments)?;
        match &self.body {
            Body::Sql(procedure) => procedure.run(context, &self.name, &arguments),
            Body::Lua(procedure) => procedure.run(context, &arguments),
            Body::Rust(registration, statements) => {
                let result =
                    context.with_statements(statements, |context| registration.procedure.run(context, &arguments));
                result.map_err(|error| error.in_procedure(&self.name, 0))
            }
        }
    }

    /// Its arguments, if a call gives this many.
    ///
    /// # Errors
    /// SQLSTATE 42883 for any other number.
    pub fn arguments_for(&self, given: usize) -> Result<&[Argument]> {
        if given == self.arguments.len() { Ok(&self.arguments) } else { Err(self.wrong_count(given)) }
    }

    fn wrong_count(&self, given: usize) -> Error {
        Class::UndefinedFunction.error(format_args!(
            "procedure \"{}\" takes {} arguments and was given {given}",
            self.name,
            self.arguments.len()
        ))
    }

    /// Converts arguments to the declared types.
    fn settle<'a>(&self, arguments: &'a [Value]) -> Result<Cow<'a, [Value]>> {
        self.arguments_for(arguments.len())?;
        let stays = |(value, argument): (&Value, &Argument)| match (value, argument.data_type) {
            (Value::Int(number), DataType::Integer) => i32::try_from(*number).is_ok(),
            (Value::Int(_), DataType::BigInt) | (Value::Text(_), DataType::Text) => true,
            _ => false,
        };
        // The common case.
        if arguments.iter().zip(&self.arguments).all(stays) {
            return Ok(Cow::Borrowed(arguments));
        }
        let mut settled = settle(arguments, self.arguments.iter().map(|argument| argument.data_type))?;
        for (position, argument) in self.arguments.iter().enumerate() {
            let Some(value) = settled.get(position) else { continue };
            let assigned = assign(value.as_ref(), argument.data_type).map_err(|error| match error {
                Error::User(class, message) => class.error(format_args!("argument \"{}\": {message}", argument.name)),
                error => error,
            })?;
            if !same(value.as_ref(), assigned) {
                let assigned = assigned.to_value();
                if let Some(place) = settled.to_mut().get_mut(position) {
                    *place = assigned;
                }
            }
        }
        Ok(settled)
    }
}

/// Whether an assigned value is unchanged, including its scale.
fn same(before: ValueRef<'_>, after: ValueRef<'_>) -> bool {
    match (before, after) {
        (ValueRef::Decimal(before), ValueRef::Decimal(after)) => {
            (before.units(), before.scale()) == (after.units(), after.scale())
        }
        // Assignment may cut trailing blanks beyond a length limit.
        (ValueRef::Text(before), ValueRef::Text(after)) => before.len() == after.len(),
        (before, after) => std::mem::discriminant(&before) == std::mem::discriminant(&after),
    }
}
