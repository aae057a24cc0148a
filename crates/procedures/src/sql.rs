//! `LANGUAGE SQL`: a sequence of statements.

use std::sync::Arc;

use thermocline_statements::object;
use thermocline_statements::{CallArguments, OutputColumn, Prepared, StatementResult, parse, split};
use thermocline_syntax::Statement;
use thermocline_tables::schema::{ProcedureDefinition, Schema};
use thermocline_tables::table::HeapSize;
use thermocline_types::{Class, Error, Result, Value};

use super::Context;
use super::context::limit_without_order;

/// A body in SQL. The result of its last statement is the procedure's result.
#[derive(Debug)]
pub(super) struct SqlProcedure {
    steps: Vec<Step>,
}

#[derive(Debug)]
struct Step {
    /// Line of the body on which it begins, from 1.
    line: u32,
    action: Action,
}

#[derive(Debug)]
enum Action {
    Statement(Box<Prepared>, Arc<[OutputColumn]>),
    Call { procedure: Box<str>, arguments: CallArguments },
}

impl SqlProcedure {
    pub fn compile(schema: &Schema, definition: &ProcedureDefinition) -> Result<Self> {
        let body = &*definition.body;
        let mut steps = Vec::new();
        let (mut wrote, mut limited) = (false, None);
        for text in split(body).map_err(|error| error.in_procedure(&definition.name, 0))? {
            let line = line_of(body, text);
            let action = compile_step(schema, definition, text);
            let action = action.map_err(|error| error.in_procedure(&definition.name, line))?;
            if let Action::Statement(prepared, _) = &action {
                wrote |= !prepared.is_read_only();
                if prepared.limits_without_order() {
                    limited.get_or_insert(line);
                }
            }
            steps.push(Step { line, action });
        }
        match limited {
            Some(line) if wrote => Err(limit_without_order().in_procedure(&definition.name, line)),
            _ => Ok(Self { steps }),
        }
    }

    /// Runs the steps. One that needs evicted rows does not end the pre-pass (Anti-Caching 2013, section 3.4): steps
    /// have no values of earlier ones but what these have changed, so most later ones need the same rows without them.
    pub fn run(&self, context: &mut Context<'_, '_>, name: &str, arguments: &[Value]) -> Result<StatementResult> {
        let (mut last, mut is_short) = (StatementResult::default(), false);
        for step in &self.steps {
            // Only the last result is returned; dropping this one frees its memory for the next.
            drop(std::mem::take(&mut last));
            let result = match &step.action {
                Action::Statement(prepared, columns) => context.run(prepared, arguments).map(|outcome| {
                    StatementResult { columns: Arc::clone(columns), rows: outcome.rows, affected: outcome.affected }
                }),
                Action::Call { procedure, arguments: written } => {
                    let environment = context.environment();
                    let values = written.evaluate_in(environment, arguments);
                    values.and_then(|values| environment.keeping_texts(|| context.call(procedure, &values)))
                }
            };
            match result {
                Ok(done) => last = done,
                Err(Error::Evicted) if context.seeks_more() => is_short = true,
                // It may be one of the rows that are missing.
                Err(_) if is_short => break,
                Err(error) => return Err(error.in_procedure(name, step.line)),
            }
        }
        if is_short { Err(Error::Evicted) } else { Ok(last) }
    }
}

impl HeapSize for SqlProcedure {
    fn heap_bytes(&self) -> usize {
        let of = |step: &Step| match &step.action {
            Action::Statement(prepared, _) => prepared.heap_bytes(),
            Action::Call { arguments, .. } => arguments.heap_bytes(),
        };
        self.steps.iter().map(|step| size_of::<Step>() + of(step)).sum()
    }
}

fn compile_step(schema: &Schema, definition: &ProcedureDefinition, text: &str) -> Result<Action> {
    match parse(text)? {
        Statement::Call { name, arguments: written } => {
            // Bound at run time: the called procedure may be this one, or be created later.
            let arguments = CallArguments::bind_late(schema, &written, &definition.arguments)?;
            if arguments.parameters().len() != definition.arguments.len() {
                return Err(Class::UndefinedParameter.error("a parameter that is no argument of the procedure"));
            }
            Ok(Action::Call { procedure: object(&name)?, arguments })
        }
        statement @ (Statement::Sql(..) | Statement::Explain(_)) => {
            let prepared = Prepared::bind(schema, &statement, &definition.arguments)?;
            if prepared.parameters().len() != definition.arguments.len() {
                return Err(Class::UndefinedParameter.error("a parameter that is no argument of the procedure"));
            }
            let columns = prepared.columns().into();
            Ok(Action::Statement(Box::new(prepared), columns))
        }
        Statement::CreateProcedure(_) | Statement::DropProcedure { .. } => {
            Err(Class::InvalidFunctionDefinition.error("a definition inside of a procedure"))
        }
    }
}

/// Line on which a part of a text begins.
fn line_of(body: &str, part: &str) -> u32 {
    let offset = (part.as_ptr() as usize).saturating_sub(body.as_ptr() as usize);
    let before = body.get(..offset).unwrap_or_default();
    u32::try_from(before.matches('\n').count()).unwrap_or(u32::MAX).saturating_add(1)
}
