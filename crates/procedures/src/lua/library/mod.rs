//! The library of scripts: the deterministic part of Lua's own, replacements for the rest, and `db`.
//!
//! | ours | why not Lua's own |
//! |---|---|
//! | `next`, `pairs` | the order of keys is that of memory |
//! | `table.sort` | the order of equal values follows from how it is done, which another version may do otherwise |
//! | `string.format` | libraries of C differ (`%a`, the sign of what is no number, `%p`); it formats decimals exactly |
//! | `math.max`, `math.min` | compare decimals as well |
//! | `math.random` | draws from the transaction's seed |
//! | `setmetatable` | refuses `__gc` and `__mode`, by which a script would see the collector |
//! | `rawset` | refuses the library's tables, which all calls share |
//! | `pcall`, `xpcall`, `coroutine.resume`, `coroutine.close` | call Lua's own, and raise again what has ended the transaction |

mod answer;
mod arguments;
mod base;
mod buffer;
mod database;
mod decimal;
mod format;
mod moment;
mod result;
mod value;

pub use answer::answer;
pub use value::{push_value, utf8};

use thermocline_lua::{Function, Library, Raised, Reference, c_name};

use super::machine::{L, Machine};

/// The part of the library written in Lua. It receives the tables of [`MODULES`] in order, and Lua's own.
const PRELUDE: &str = include_str!("prelude.lua");

type Named = (&'static str, Function<Machine>);

const MODULES: [&[Named]; 7] = [
    base::FUNCTIONS,
    database::FUNCTIONS,
    decimal::FUNCTIONS,
    moment::DATE_FUNCTIONS,
    moment::TIMESTAMP_FUNCTIONS,
    result::FUNCTIONS,
    database::STATEMENT_FUNCTIONS,
];

const LIBRARIES: [Library; 5] = [Library::Base, Library::Coroutine, Library::Math, Library::String, Library::Table];

/// Values that the library keeps in Lua.
#[derive(Debug)]
pub struct Kept {
    /// Message handler for errors on their way out of a procedure.
    pub handler: Reference,
    /// Metatable of each call's globals, and metatables of the values that Rust provides.
    pub globals: Reference,
    pub decimal: Reference,
    pub date: Reference,
    pub timestamp: Reference,
    pub result: Reference,
    pub statement: Reference,
}

/// All functions, by number.
pub fn functions() -> Vec<Function<Machine>> {
    MODULES.iter().flat_map(|module| module.iter().map(|(_, function)| *function)).collect()
}

/// Installs the library in a new machine.
pub fn open(stack: &L<'_>) -> Result<Kept, Raised> {
    let prelude = stack.load(PRELUDE, &c_name("=(library)"))?;
    stack.push_nil();
    stack.push_chunk(&prelude);
    let mut number = 0;
    for module in MODULES {
        stack.push_table(0, module.len());
        for (name, _) in module {
            stack.push_function(number);
            stack.raw_set_field(-2, name.as_bytes());
            number += 1;
        }
    }
    LIBRARIES.iter().for_each(|library| stack.push_library(*library));
    stack.call(i32::try_from(MODULES.len() + LIBRARIES.len()).unwrap_or(0), 8, 0)?;
    stack.forget(prelude);
    // On the stack now, from the top: the handler, then the metatables of globals and of each type.
    let handler = stack.keep();
    let globals = stack.keep();
    let decimal = stack.keep();
    let date = stack.keep();
    let timestamp = stack.keep();
    let result = stack.keep();
    let statement = stack.keep();
    // All strings share the metatable.
    stack.push_bytes(b"");
    stack.insert(-2);
    stack.set_metatable(-2);
    Ok(Kept { handler, globals, decimal, date, timestamp, result, statement })
}
