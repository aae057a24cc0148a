//! What scripts find: Lua's library as far as it is deterministic, and `db`.

mod answer;
mod arguments;
mod base;
mod buffer;
mod database;
mod decimal;
mod format;
mod math;
mod moment;
mod pattern;
mod result;
mod string;
mod table;
mod value;

pub use answer::answer;
pub use value::{push_value, utf8};

use super::loaded::StatementHandle;
use super::machine::{L, Machine};
use super::vm::{Function, Library, Raised, Reference, c_name};
use result::ResultSet;

/// The number of the function that sees errors on their way out of a procedure.
pub const HANDLER: usize = 0;

/// The part of the library that is in Lua. It gets the tables of [`MODULES`] in their order, and Lua's own.
const PRELUDE: &str = include_str!("prelude.lua");

type Named = (&'static str, Function<Machine>);

const MODULES: [&[Named]; 10] = [
    base::FUNCTIONS,
    string::FUNCTIONS,
    table::FUNCTIONS,
    math::FUNCTIONS,
    database::FUNCTIONS,
    decimal::FUNCTIONS,
    moment::DATE_FUNCTIONS,
    moment::TIMESTAMP_FUNCTIONS,
    result::FUNCTIONS,
    database::STATEMENT_FUNCTIONS,
];

/// Tables that Rust gives to values.
#[derive(Debug)]
pub struct Metatables {
    /// Of each procedure's globals.
    pub globals: Reference,
    pub decimal: Reference,
    pub date: Reference,
    pub timestamp: Reference,
    pub result: Reference,
    pub statement: Reference,
}

/// All functions, by number.
pub fn functions() -> Vec<Function<Machine>> {
    let modules = MODULES.iter().flat_map(|module| module.iter().map(|(_, function)| *function));
    [base::handler as Function<Machine>].into_iter().chain(modules).collect()
}

/// Fills a new machine.
pub fn open(stack: &L<'_>) -> Result<Metatables, Raised> {
    stack.load(PRELUDE, &c_name("=(library)"))?;
    let mut number = HANDLER + 1;
    for module in MODULES {
        stack.push_table(0, module.len());
        for (name, _) in module {
            stack.push_function(number);
            stack.raw_set_field(-2, name.as_bytes());
            number += 1;
        }
    }
    stack.push_library(Library::Base);
    stack.push_library(Library::Coroutine);
    stack.call(i32::try_from(MODULES.len() + 2).unwrap_or(0), 7, 0)?;
    // On the stack now: the metatables of strings, statements, results, timestamps, dates, decimals, globals.
    let globals = stack.keep();
    let decimal = stack.keep();
    let date = stack.keep();
    let timestamp = stack.keep();
    stack.push_finalizer::<ResultSet>();
    stack.raw_set_field(-2, b"__gc");
    let result = stack.keep();
    stack.push_finalizer::<StatementHandle>();
    stack.raw_set_field(-2, b"__gc");
    let statement = stack.keep();
    // All strings share the metatable.
    stack.push_bytes(b"");
    stack.insert(-2);
    stack.set_metatable(-2);
    Ok(Metatables { globals, decimal, date, timestamp, result, statement })
}
