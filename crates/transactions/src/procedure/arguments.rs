use std::sync::Arc;

use super::Compiled;
use crate::engine::Weigh;
use crate::error::{Class, Result};
use crate::schema::{Argument, Schema};
use crate::sql::{Binder, Environment, Expr, Frame, settle};
use crate::table::{Budget, StatementMemory};
use crate::types::{DataType, Value, assign};

/// The arguments of a written `CALL`, as expressions over parameters.
#[derive(Debug)]
pub(crate) struct CallArguments {
    /// Each with the type that the procedure wants.
    arguments: Vec<(Expr, DataType)>,
    parameters: Vec<DataType>,
}

impl CallArguments {
    /// Binds what stands between the parentheses; `of` are the arguments of the procedure in which the
    /// call stands.
    pub fn bind(
        schema: &Schema,
        compiled: &Compiled,
        written: &[sqlparser::ast::Expr],
        of: &[Argument],
    ) -> Result<Self> {
        if written.len() != compiled.arguments.len() {
            return Err(compiled.wrong_count(written.len()));
        }
        let mut binder = Binder::new(schema, of);
        let mut arguments = Vec::with_capacity(written.len());
        for (written, argument) in written.iter().zip(&compiled.arguments) {
            let typed = binder.expression(written)?;
            let bound = binder.assignable(typed, argument.data_type, &argument.name)?;
            if bound.is_volatile() {
                let message = format!("argument \"{}\" of CALL depends on more than parameters", argument.name);
                return Err(Class::Unsupported.error(message));
            }
            arguments.push((bound, argument.data_type));
        }
        Ok(Self { arguments, parameters: binder.into_parameters() })
    }

    /// The values; what it takes to make them is told to this budget.
    pub fn evaluate(&self, parameters: &[Value], budget: &Arc<Budget>) -> Result<Vec<Value>> {
        if parameters.len() != self.parameters.len() {
            return Err(Class::UndefinedParameter.error(format_args!(
                "the statement has {} parameters and was given {}",
                self.parameters.len(),
                parameters.len()
            )));
        }
        let parameters = settle(parameters, self.parameters.iter().copied())?;
        let is_plain = |(expr, _): &(Expr, DataType)| matches!(expr, Expr::Literal(_) | Expr::Parameter(_));
        let memory = (!self.arguments.iter().all(is_plain)).then(|| Box::new(StatementMemory::new(budget)));
        let environment = Environment::new(0, 0, 0).with_memory(memory);
        let frame = Frame::new(&parameters, &environment);
        let value = |(expr, data_type): &(Expr, DataType)| {
            let value = expr.evaluate(&frame)?;
            let assigned = assign(value.get(), *data_type)?;
            environment.text(assigned.heap_bytes())?;
            Ok(assigned.to_value())
        };
        self.arguments.iter().map(value).collect()
    }
}

impl Weigh for CallArguments {
    fn heap_bytes(&self) -> usize {
        let Self { arguments, parameters } = self;
        arguments.heap_bytes() + parameters.heap_bytes()
    }
}
