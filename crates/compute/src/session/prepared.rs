//! Prepared statements.

use std::collections::HashMap;
use std::ops::ControlFlow;

use datafusion::common::{Result, plan_err};
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    CastKind, DataType, Expr, Statement as Ast, Value, visit_expressions, visit_expressions_mut,
};
use parking_lot::Mutex;

/// Statements with parameters, by name.
///
/// DataFusion plans them once and brings every parameter into the type of what it stands beside: 2.5 for an
/// integer column would be 2. Here EXECUTE is the statement with its parameters written into it.
#[derive(Debug, Default)]
pub(super) struct Prepared(Mutex<HashMap<String, Template>>);

/// A statement with parameters.
#[derive(Debug, Clone)]
pub(super) struct Template {
    types: Vec<DataType>,
    statement: Box<Ast>,
}

impl Prepared {
    /// The statement that EXECUTE stands for, and any other statement as it is. A name that is not known is
    /// for DataFusion to refuse.
    ///
    /// # Errors
    /// If there are fewer or more parameters than the statement has, or one depends on a row.
    pub fn executed(&self, statement: Statement) -> Result<Statement> {
        let Statement::Statement(ast) = &statement else { return Ok(statement) };
        let Ast::Execute { name: Some(name), parameters, using, .. } = ast.as_ref() else { return Ok(statement) };
        let Some(template) = self.0.lock().get(&name.to_string()).cloned() else { return Ok(statement) };
        let parameters: Vec<_> = parameters.iter().chain(using.iter().map(|using| &using.expr)).collect();
        for (position, parameter) in parameters.iter().enumerate() {
            let found = visit_expressions(*parameter, |part| match part {
                Expr::Identifier(_) | Expr::CompoundIdentifier(_) | Expr::Subquery(_) | Expr::Exists { .. } => {
                    ControlFlow::Break(part.to_string())
                }
                _ => ControlFlow::Continue(()),
            });
            if let ControlFlow::Break(part) = found {
                return plan_err!("parameter {} of {name} is {part}, which is not a constant", position + 1);
            }
        }
        let mut used = template.types.len();
        let mut inner = template.statement;
        let _ = visit_expressions_mut(inner.as_mut(), |part| {
            let number = placeholder(part).unwrap_or_default();
            used = used.max(number);
            let value = number.checked_sub(1).and_then(|at| Some((parameters.get(at)?, template.types.get(at))));
            if let Some((value, of)) = value {
                let value = Box::new((*value).clone());
                *part = match of {
                    None => Expr::Nested(value),
                    Some(of) => Expr::Cast {
                        kind: CastKind::Cast,
                        expr: value,
                        data_type: of.clone(),
                        array: false,
                        format: None,
                    },
                };
            }
            ControlFlow::<()>::Continue(())
        });
        if used != parameters.len() {
            return plan_err!("{name} has {used} parameters, and {} are given", parameters.len());
        }
        Ok(Statement::Statement(inner))
    }

    /// What a PREPARE or DEALLOCATE that succeeded changes.
    pub fn apply(&self, preparation: Preparation) {
        let mut named = self.0.lock();
        match preparation {
            Preparation::Added(name, template) => drop(named.insert(name, template)),
            Preparation::Removed(name) => drop(named.remove(&name)),
        }
    }
}

/// What a statement changes of what is prepared.
#[derive(Debug)]
pub(super) enum Preparation {
    Added(String, Template),
    Removed(String),
}

impl Preparation {
    /// `None` of a statement that is neither PREPARE nor DEALLOCATE.
    pub fn of(statement: &Statement) -> Option<Self> {
        let Statement::Statement(ast) = statement else { return None };
        match ast.as_ref() {
            Ast::Prepare { name, data_types, statement } => {
                let template = Template { types: data_types.clone(), statement: statement.clone() };
                Some(Self::Added(name.to_string(), template))
            }
            Ast::Deallocate { name, .. } => Some(Self::Removed(name.to_string())),
            _ => None,
        }
    }
}

/// The number of a parameter, from 1.
fn placeholder(expression: &Expr) -> Option<usize> {
    match expression {
        Expr::Value(value) => match &value.value {
            Value::Placeholder(text) => text.strip_prefix('$')?.parse().ok(),
            _ => None,
        },
        _ => None,
    }
}
