//! Procedures in Rust that clients call.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use thermocline_procedures::{Context, Procedure, Registration};
use thermocline_statements::{Rows, StatementResult};
use thermocline_types::{Class, Result, Value, ValueRef};

use super::workload::{
    APPEND, Ask, BLANK, GROW, LIST, LOAD_OF, REGISTER, REMOVE, REPLACE, SCAN, SET, SETTING, late, value,
};

/// Runs steps encoded as text.
struct Steps {
    /// An unlogged number added to its writes; `None` unless that bug is planted.
    noise: Option<Arc<AtomicI64>>,
    /// Statements that it runs instead of [`STATEMENTS`].
    statements: [&'static str; STATEMENTS.len()],
}

/// Same order as [`Procedure::statements`].
const STATEMENTS: [&str; 12] =
    [APPEND, LIST, REGISTER, REPLACE, SETTING, SET, GROW, SCAN, LOAD_OF[0], LOAD_OF[1], REMOVE, BLANK];

impl Procedure for Steps {
    fn statements(&self) -> &[&str] {
        &self.statements
    }

    fn run(&self, context: &mut Context<'_, '_>, arguments: &[Value]) -> Result<StatementResult> {
        let Some(Value::Text(text)) = arguments.last() else { return Err(Class::Procedure.error("no steps")) };
        let mut rows = Rows::new(2);
        for ask in text.split(';').map(Ask::decode) {
            if ask == Ask::Abort {
                return Err(Class::Raised.error("on purpose"));
            }
            let mut first = None;
            for (sql, mut parameters) in ask.statements() {
                if let (Some(noise), REPLACE, Some(place)) = (&self.noise, sql, parameters.last_mut()) {
                    *place = Value::Text(noise.fetch_add(1, Ordering::Relaxed).to_string().into());
                }
                let number = STATEMENTS.iter().position(|statement| *statement == sql).unwrap_or(0);
                let rows = context.execute(number, &parameters)?.rows;
                first.get_or_insert(rows);
            }
            let value = first.as_ref().filter(|rows| !rows.is_empty()).map(|rows| value(rows, 0, 0));
            let value = value.unwrap_or(ValueRef::Null);
            rows.push(if matches!(ask, Ask::List(_)) { value } else { ValueRef::Null })?;
            let is_number = matches!(ask, Ask::Register(_) | Ask::Replace(..) | Ask::Loaded(_));
            rows.push(if is_number { value } else { ValueRef::Null })?;
        }
        Ok(StatementResult { rows, ..StatementResult::default() })
    }
}

/// The procedures in Rust.
pub fn registrations(noise: Option<&Arc<AtomicI64>>) -> Result<Vec<Registration>> {
    let steps = || Steps { noise: noise.map(Arc::clone), statements: STATEMENTS };
    let in_sessions = Steps { statements: STATEMENTS.map(late), ..steps() };
    Ok(vec![
        Registration::new("steps_at(k BIGINT, steps TEXT) PARTITION ON (k)", 1, steps())?,
        Registration::new("steps(steps TEXT)", 1, steps())?,
        Registration::new("steps_late(k BIGINT, steps TEXT) PARTITION ON (k)", 1, in_sessions)?,
    ])
}
