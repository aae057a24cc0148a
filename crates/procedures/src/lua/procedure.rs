use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use thermocline_statements::StatementResult;
use thermocline_tables::schema::ProcedureDefinition;
use thermocline_tables::table::{Budget, HeapSize};
use thermocline_types::{Class, Result, Value};

use super::machine::Machine;
use crate::{Context, Limits};

/// Reserved words of Lua, which cannot be names of arguments.
const KEYWORDS: [&str; 22] = [
    "and", "break", "do", "else", "elseif", "end", "false", "for", "function", "goto", "if", "in", "local", "nil",
    "not", "or", "repeat", "return", "then", "true", "until", "while",
];

/// A body in Lua, compiled in each thread that runs it.
#[derive(Debug)]
pub(crate) struct LuaProcedure {
    /// Its name.
    pub(super) name: Box<str>,
    /// The body as a function of the arguments.
    pub(super) source: Box<str>,
    /// Limits of a call.
    pub(super) limits: Limits,
    /// Identifies this procedure of this version of the schema in the machines of all threads, which drop their
    /// compiled function when it is gone.
    pub(super) id: Arc<u64>,
}

impl LuaProcedure {
    /// Compiles a body; a syntax error names the line of the mistake.
    pub fn compile(definition: &ProcedureDefinition, limits: Limits, budget: &Arc<Budget>) -> Result<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let names: Vec<&str> = definition.arguments.iter().map(|argument| &*argument.name).collect();
        if let Some(name) = names.iter().find(|name| !is_name(name)) {
            let message = format!("argument \"{name}\" of procedure \"{}\" is no name in Lua", definition.name);
            return Err(Class::InvalidFunctionDefinition.error(message));
        }
        let head = if names.is_empty() { String::new() } else { format!("local {} = ... ", names.join(", ")) };
        let procedure = Self {
            name: definition.name.clone(),
            // On the body's first line, so that line numbers match.
            source: format!("{head}{}", definition.body).into(),
            limits,
            id: Arc::new(NEXT.fetch_add(1, Ordering::Relaxed)),
        };
        Machine::with(|lua| Machine::check(lua, &procedure, budget))?;
        Ok(procedure)
    }

    /// Runs it.
    pub fn run(&self, context: &mut Context<'_, '_>, arguments: &[Value]) -> Result<StatementResult> {
        Machine::with(|lua| Machine::call(lua, self, context, arguments))
    }
}

impl HeapSize for LuaProcedure {
    fn heap_bytes(&self) -> usize {
        self.source.len()
    }
}

fn is_name(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes.next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && !KEYWORDS.contains(&name)
}
