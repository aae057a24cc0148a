//! Arguments of a written `CALL`.

use std::sync::Arc;

use sqlparser::ast;
use thermocline_tables::schema::{Argument, Schema};
use thermocline_tables::table::{Budget, HeapSize, StatementMemory};
use thermocline_types::{Class, DataType, Result, Value, assign};

use crate::bind::Binder;
use crate::expression::{Environment, Expr, Frame};
use crate::prepared::{check_count, settle};

/// The arguments of a written `CALL`, as expressions over parameters.
#[derive(Debug)]
pub struct CallArguments {
    /// Each with the declared type of the argument; `None` if the procedure is looked up when the call runs.
    arguments: Vec<(Expr, Option<DataType>)>,
    parameters: Vec<DataType>,
}

impl CallArguments {
    /// Binds the written arguments of a session's CALL; there are as many as the procedure declares, which the caller has
    /// checked.
    ///
    /// # Errors
    /// If an argument is not assignable to its declared type, or depends on more than parameters.
    pub fn bind(schema: &Schema, wanted: &[Argument], written: &[ast::Expr]) -> Result<Self> {
        let mut binder = Binder::new(schema, &[]);
        let mut arguments = Vec::with_capacity(written.len());
        for (written, argument) in written.iter().zip(wanted) {
            let typed = binder.expression(written)?;
            let bound = binder.assignable(typed, argument.data_type, &argument.name)?;
            if bound.is_volatile() {
                let message = format!("argument \"{}\" of CALL depends on more than parameters", argument.name);
                return Err(Class::Unsupported.error(message));
            }
            arguments.push((bound, Some(argument.data_type)));
        }
        Ok(Self { arguments, parameters: binder.into_parameters() })
    }

    /// Binds arguments of a procedure that is looked up when the call runs; they are assigned to its types then.
    ///
    /// # Errors
    /// If an argument is not an expression over the arguments of the procedure that contains the call.
    pub fn bind_late(schema: &Schema, written: &[ast::Expr], of: &[Argument]) -> Result<Self> {
        let mut binder = Binder::new(schema, of);
        let bound = written.iter().map(|expr| Ok((binder.expression(expr)?.expr, None)));
        let arguments = bound.collect::<Result<Vec<_>>>()?;
        Ok(Self { arguments, parameters: binder.into_parameters() })
    }

    /// The types of the parameters.
    pub fn parameters(&self) -> &[DataType] {
        &self.parameters
    }

    /// Evaluates the arguments and charges the memory for it to `budget`.
    ///
    /// # Errors
    /// If parameters are missing or have other types, or if an expression fails.
    pub fn evaluate(&self, parameters: &[Value], budget: &Arc<Budget>) -> Result<Vec<Value>> {
        check_count(self.parameters.len(), parameters.len())?;
        let parameters = settle(parameters, self.parameters.iter().copied())?;
        let is_plain = |(expr, _): &(Expr, _)| matches!(expr, Expr::Literal(_) | Expr::Parameter(_));
        let memory = (!self.arguments.iter().all(is_plain)).then(|| Box::new(StatementMemory::new(budget)));
        self.evaluate_in(&Environment::new(0, 0, 0).with_memory(memory), &parameters)
    }

    /// Evaluates the arguments in the transaction of the calling procedure, whose arguments are the parameters.
    ///
    /// # Errors
    /// If an expression fails.
    pub fn evaluate_in(&self, environment: &Environment, parameters: &[Value]) -> Result<Vec<Value>> {
        let frame = Frame::new(parameters, environment);
        let value = |(expr, data_type): &(Expr, Option<DataType>)| {
            let value = expr.evaluate(&frame)?;
            let Some(data_type) = data_type else { return value.into_value(environment) };
            let assigned = assign(value.get(), *data_type)?;
            environment.text(assigned.heap_bytes())?;
            Ok(assigned.to_value())
        };
        self.arguments.iter().map(value).collect()
    }
}

impl HeapSize for CallArguments {
    fn heap_bytes(&self) -> usize {
        let Self { arguments, parameters } = self;
        arguments.heap_bytes() + parameters.heap_bytes()
    }
}
