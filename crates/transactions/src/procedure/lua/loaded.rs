use std::cell::{Cell, RefCell};
use std::ffi::CString;
use std::rc::Rc;
use std::sync::{Arc, Weak};

use foldhash::fast::RandomState;
use hashbrown::HashMap;

use super::library::Metatables;
use super::machine::L;
use super::procedure::LuaProcedure;
use super::vm::{Meter, Reference, UserData, c_name};
use crate::error::Result;
use crate::schema::Schema;
use crate::sql::{OutputColumn, Prepared};

/// Statements that are kept planned for a procedure; a procedure that makes its texts as it goes has more.
const STATEMENTS_MAX: usize = 1024;

/// A procedure in one thread: its function, and the statements that it has used.
pub(super) struct Loaded {
    pub name: Box<str>,
    /// What Lua calls its source.
    pub chunk: CString,
    pub function: Reference,
    pub is_running: Cell<bool>,
    /// Whether it has set a global variable.
    pub has_globals: Cell<bool>,
    /// The procedure, as long as the schema has it.
    pub owner: Weak<u64>,
    /// By text.
    statements: RefCell<HashMap<Box<[u8]>, Rc<Statement>, RandomState>>,
    /// What the running call has given a name.
    named: RefCell<HashMap<Box<[u8]>, Rc<Statement>, RandomState>>,
}

/// A planned statement.
pub(super) struct Statement {
    pub prepared: Prepared,
    pub columns: Arc<[OutputColumn]>,
}

/// A statement that a script holds.
pub(super) struct StatementHandle(pub Rc<Statement>);

impl UserData for StatementHandle {
    const KIND: usize = 1;
}

impl Loaded {
    pub fn new(procedure: &LuaProcedure, function: Reference) -> Self {
        Self {
            name: procedure.name.clone(),
            chunk: c_name(&format!("={}", procedure.name)),
            function,
            is_running: Cell::new(false),
            has_globals: Cell::new(false),
            statements: RefCell::default(),
            named: RefCell::default(),
            owner: Arc::downgrade(&procedure.id),
        }
    }

    /// Gives the function globals of its own, with none set.
    pub fn renew_globals(&self, stack: &L<'_>, metatables: &Metatables) {
        stack.push_kept(self.function);
        stack.push_table(0, 0);
        stack.push_kept(metatables.globals);
        stack.set_metatable(-2);
        stack.set_globals();
        stack.pop(1);
        self.has_globals.set(false);
    }

    /// Forgets what a call has left.
    pub fn end(&self, stack: &L<'_>, metatables: &Metatables) {
        self.is_running.set(false);
        if self.has_globals.get() {
            self.renew_globals(stack, metatables);
        }
        let mut named = self.named.borrow_mut();
        if !named.is_empty() {
            named.clear();
        }
    }

    /// Gives a statement a name for the rest of the call.
    pub fn name_statement(&self, name: &[u8], statement: Rc<Statement>) {
        self.named.borrow_mut().insert(name.into(), statement);
    }

    /// The statement of a name, or of a text; one that is new is planned.
    pub fn statement(&self, schema: &Schema, text: &[u8], meter: &Meter) -> Result<Rc<Statement>> {
        if let Some(statement) = self.named.borrow().get(text) {
            return Ok(Rc::clone(statement));
        }
        if let Some(statement) = self.statements.borrow().get(text) {
            return Ok(Rc::clone(statement));
        }
        // What planning takes, next to what instructions take.
        meter.spend(1000 + text.len() as u64);
        let sql = super::library::utf8(text)?;
        let prepared = Prepared::with_arguments(schema, sql, &[])?;
        let columns = prepared.columns().into();
        let statement = Rc::new(Statement { prepared, columns });
        let mut statements = self.statements.borrow_mut();
        if statements.len() >= STATEMENTS_MAX {
            statements.clear();
        }
        statements.insert(text.into(), Rc::clone(&statement));
        Ok(statement)
    }
}
