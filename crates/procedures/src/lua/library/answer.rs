use std::sync::Arc;

use thermocline_lua::Kind;
use thermocline_statements::{OutputColumn, Rows, StatementResult};
use thermocline_tables::schema::COLUMNS_MAX;
use thermocline_types::{Class, DataType, Result};

use super::super::machine::L;
use super::result::ResultSet;
use super::value::value_at;

/// Result of a procedure, from a position to the top of the stack: a result set unchanged, or other values as one row.
pub fn answer(stack: &L<'_>, first: i32, name: &str) -> Result<StatementResult> {
    let values = stack.top() - first + 1;
    if values <= 0 {
        return Ok(StatementResult::default());
    }
    if values == 1
        && let Some(result) = stack.user::<ResultSet>(first)
    {
        return Ok(result.to_answer());
    }
    if usize::try_from(values).is_ok_and(|values| values > COLUMNS_MAX) {
        let message = format!("a procedure returns at most {COLUMNS_MAX} values, and more rows by db.rows");
        return Err(Class::LimitExceeded.error(message));
    }
    let mut rows = Rows::new(usize::try_from(values).unwrap_or(0));
    let mut columns = Vec::new();
    for (number, position) in (1..).zip(first..=stack.top()) {
        if stack.kind(position) == Kind::Table {
            let message = "a procedure returns values, a result of db.query, or db.rows({names}, {rows}), and no table";
            return Err(Class::TypeMismatch.error(message));
        }
        let value = value_at(stack, position, None)?;
        let data_type = value.as_ref().data_type().unwrap_or(DataType::Text);
        let name = if values == 1 { name.into() } else { format!("column{number}").into() };
        columns.push(OutputColumn { name, data_type });
        stack.host().push(&mut rows, value.as_ref())?;
    }
    Ok(StatementResult { columns: Arc::from(columns), affected: rows.len() as u64, rows })
}
