use super::Compiled;
use crate::error::{Class, Result};
use crate::schema::{Argument, Schema};
use crate::sql::{Binder, Environment, Expr, Frame, settle};
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

    /// The values.
    pub fn evaluate(&self, parameters: &[Value]) -> Result<Vec<Value>> {
        if parameters.len() != self.parameters.len() {
            return Err(Class::UndefinedParameter.error(format_args!(
                "the statement has {} parameters and was given {}",
                self.parameters.len(),
                parameters.len()
            )));
        }
        let parameters = settle(parameters, self.parameters.iter().copied())?;
        let environment = Environment::new(0, 0, 0);
        let frame = Frame::new(&parameters, &environment);
        let value =
            |(expr, data_type): &(Expr, DataType)| Ok(assign(expr.evaluate(&frame)?.get(), *data_type)?.to_value());
        self.arguments.iter().map(value).collect()
    }
}
