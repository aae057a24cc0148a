//! Procedures that read and update one row, in all languages.

use thermocline_transactions::Result;
use thermocline_transactions::database::StatementResult;
use thermocline_transactions::error::Class;
use thermocline_transactions::procedure::{Context, Procedure, Registration};
use thermocline_transactions::types::Value;

use super::schema::{FIELDS, TABLE};
use crate::oltp::Language;

/// Position of the procedure that reads.
pub(super) const READ: usize = 0;
/// Position of the procedure that updates; in SQL the first of ten, because statements there name their columns.
pub(super) const UPDATE: usize = 1;

/// The procedures by position, as [`YcsbCalls`](super::YcsbCalls) calls them.
pub fn procedures(language: Language) -> Vec<String> {
    match language {
        Language::Rust | Language::Lua => vec!["ycsb_read".to_owned(), "ycsb_update".to_owned()],
        Language::Sql => {
            let updates = (0..FIELDS).map(|field| format!("ycsb_update_{field}"));
            std::iter::once("ycsb_read".to_owned()).chain(updates).collect()
        }
    }
}

/// The procedures in Rust, for [`Settings::procedures`](thermocline_transactions::database::Settings); none for another
/// language, whose procedures have the same names.
///
/// # Errors
/// None that a caller could cause.
pub fn registrations(language: Language) -> Result<Vec<Registration>> {
    match language {
        Language::Rust => Ok(vec![Registration::new(READ_HEAD, 1, Read)?, Registration::new(UPDATE_HEAD, 1, Update)?]),
        Language::Lua | Language::Sql => Ok(Vec::new()),
    }
}

/// Statements that define them; none for those in Rust.
pub(super) fn definitions(language: Language) -> Vec<String> {
    let read = read();
    match language {
        Language::Rust => Vec::new(),
        Language::Lua => {
            let update = format!("'UPDATE {TABLE} SET field' .. field .. ' = $2 WHERE ycsb_key = $1'");
            vec![
                format!("CREATE PROCEDURE {READ_HEAD} LANGUAGE lua AS $$return db.query('{read}', key)$$"),
                format!("CREATE PROCEDURE {UPDATE_HEAD} LANGUAGE lua AS $$return db.execute({update}, key, value)$$"),
            ]
        }
        Language::Sql => {
            let updates = (0..FIELDS).map(|field| {
                let statement = format!("UPDATE {TABLE} SET field{field} = $2 WHERE ycsb_key = $1");
                let head = format!("ycsb_update_{field}(key BIGINT, value VARCHAR) PARTITION ON (key)");
                format!("CREATE PROCEDURE {head} LANGUAGE sql AS $${statement}$$")
            });
            let read = format!("CREATE PROCEDURE {READ_HEAD} LANGUAGE sql AS $${read}$$");
            std::iter::once(read).chain(updates).collect()
        }
    }
}

const READ_HEAD: &str = "ycsb_read(key BIGINT) PARTITION ON (key)";
const UPDATE_HEAD: &str = "ycsb_update(key BIGINT, value VARCHAR, field INTEGER) PARTITION ON (key)";

fn read() -> String {
    let fields: Vec<String> = (0..FIELDS).map(|number| format!("field{number}")).collect();
    format!("SELECT {} FROM {TABLE} WHERE ycsb_key = $1", fields.join(", "))
}

struct Read;

impl Procedure for Read {
    fn statements(&self) -> &[&str] {
        &["SELECT field0, field1, field2, field3, field4, field5, field6, field7, field8, field9 FROM usertable \
           WHERE ycsb_key = $1"]
    }

    fn run(&self, context: &mut Context<'_, '_>, arguments: &[Value]) -> Result<StatementResult> {
        Ok(context.execute(0, arguments)?.into())
    }
}

struct Update;

impl Procedure for Update {
    fn statements(&self) -> &[&str] {
        &[
            "UPDATE usertable SET field0 = $2 WHERE ycsb_key = $1",
            "UPDATE usertable SET field1 = $2 WHERE ycsb_key = $1",
            "UPDATE usertable SET field2 = $2 WHERE ycsb_key = $1",
            "UPDATE usertable SET field3 = $2 WHERE ycsb_key = $1",
            "UPDATE usertable SET field4 = $2 WHERE ycsb_key = $1",
            "UPDATE usertable SET field5 = $2 WHERE ycsb_key = $1",
            "UPDATE usertable SET field6 = $2 WHERE ycsb_key = $1",
            "UPDATE usertable SET field7 = $2 WHERE ycsb_key = $1",
            "UPDATE usertable SET field8 = $2 WHERE ycsb_key = $1",
            "UPDATE usertable SET field9 = $2 WHERE ycsb_key = $1",
        ]
    }

    fn run(&self, context: &mut Context<'_, '_>, arguments: &[Value]) -> Result<StatementResult> {
        let (Some(of_statement), Some(Value::Int(field))) = (arguments.get(..2), arguments.get(2)) else {
            return Err(Class::Procedure.error("ycsb_update takes a key, a value and the number of a field"));
        };
        let field = usize::try_from(*field).ok().filter(|field| *field < FIELDS);
        let field = field.ok_or_else(|| Class::OutOfRange.error(format_args!("fields are 0 to {}", FIELDS - 1)))?;
        Ok(context.execute(field, of_statement)?.into())
    }
}
