use std::cell::{Cell, RefCell};
use std::ffi::CString;
use std::rc::Rc;
use std::sync::{Arc, Weak};

use foldhash::fast::RandomState;
use hashbrown::HashMap;

use thermocline_lua::{Chunk, Meter};

use super::procedure::LuaProcedure;
use crate::error::Result;
use crate::schema::Schema;
use crate::sql::{OutputColumn, Prepared};

/// Statements that are kept planned for a procedure; a procedure that makes its texts as it goes has more.
const STATEMENTS_MAX: usize = 1024;
/// What planning a statement counts as, besides its text.
const INSTRUCTIONS_OF_PLANNING: u64 = 1000;

/// A procedure in one thread: its function, and the statements that it has used.
pub(super) struct Loaded {
    pub name: Box<str>,
    /// What Lua calls its source.
    pub source: CString,
    pub chunk: Chunk,
    pub is_running: Cell<bool>,
    /// The procedure, as long as the schema has it.
    pub owner: Weak<u64>,
    /// Which of the calls that ran here this is.
    calls: Cell<u64>,
    /// How many statements the running call has used.
    used: Cell<usize>,
    /// By text.
    statements: RefCell<HashMap<Box<[u8]>, Rc<Statement>, RandomState>>,
    /// What the running call has given a name.
    named: RefCell<HashMap<Box<[u8]>, Rc<Statement>, RandomState>>,
}

/// A planned statement.
pub(super) struct Statement {
    /// The last call that has paid for its planning.
    paid: Cell<u64>,
    pub prepared: Prepared,
    pub columns: Arc<[OutputColumn]>,
}

/// A statement that a script holds.
pub(super) struct StatementHandle(pub Rc<Statement>);

impl Loaded {
    pub fn new(procedure: &LuaProcedure, source: CString, chunk: Chunk) -> Self {
        Self {
            name: procedure.name.clone(),
            source,
            chunk,
            is_running: Cell::new(false),
            calls: Cell::new(0),
            used: Cell::new(0),
            statements: RefCell::default(),
            named: RefCell::default(),
            owner: Arc::downgrade(&procedure.id),
        }
    }

    /// Begins a call.
    pub fn begin(&self) {
        self.calls.set(self.calls.get() + 1);
        self.used.set(0);
    }

    /// Forgets what a call has left.
    pub fn end(&self) {
        self.is_running.set(false);
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
    ///
    /// A call pays for the planning of each text once, whether an earlier call has had it planned or not.
    pub fn statement(&self, schema: &Schema, text: &[u8], meter: &Meter) -> Result<Rc<Statement>> {
        if let Some(statement) = self.named.borrow().get(text) {
            return Ok(Rc::clone(statement));
        }
        let known = self.statements.borrow().get(text).map(Rc::clone);
        if let Some(statement) = known {
            self.pay(&statement, text, meter);
            return Ok(statement);
        }
        let sql = super::library::utf8(text)?;
        let prepared = Prepared::with_arguments(schema, sql, &[])?;
        let columns = prepared.columns().into();
        let statement = Rc::new(Statement { paid: Cell::new(0), prepared, columns });
        self.pay(&statement, text, meter);
        let mut statements = self.statements.borrow_mut();
        if statements.len() >= STATEMENTS_MAX {
            statements.retain(|_, old| old.paid.get() == self.calls.get());
        }
        if statement.paid.get() == self.calls.get() {
            statements.insert(text.into(), Rc::clone(&statement));
        }
        Ok(statement)
    }

    /// Counts what planning takes. More texts than are kept are paid for each time that they are used.
    fn pay(&self, statement: &Statement, text: &[u8], meter: &Meter) {
        if statement.paid.get() == self.calls.get() {
            return;
        }
        meter.spend(INSTRUCTIONS_OF_PLANNING + text.len() as u64);
        if self.used.get() < STATEMENTS_MAX {
            self.used.set(self.used.get() + 1);
            statement.paid.set(self.calls.get());
        }
    }
}
