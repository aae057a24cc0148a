use std::cell::{Cell, RefCell};
use std::ffi::CString;
use std::hash::BuildHasher;
use std::rc::Rc;
use std::sync::{Arc, Weak};

use foldhash::fast::{FixedState, RandomState};
use hashbrown::{HashMap, HashSet};
use thermocline_lua::{Chunk, Meter};
use thermocline_statements::{Environment, OutputColumn, Prepared, StatementCache, charge_statement, parse_bytes};
use thermocline_tables::schema::Schema;
use thermocline_tables::table::{Charge, HeapSize, Working, allocated};
use thermocline_types::Result;

use super::procedure::LuaProcedure;

/// Texts whose planning a call pays for only once.
const PAID_MAX: usize = 1024;
/// Names for which the emptied table keeps room.
const NAMES_KEPT: usize = 64;
/// Statements found by the address of their text in Lua.
const RECENT: usize = 32;
/// Minimum distance in bytes between the texts of two Lua strings.
const TEXTS_APART: usize = 32;
/// Instructions charged for planning a statement, besides its text.
const INSTRUCTIONS_OF_PLANNING: u64 = 1000;

/// A procedure in one thread: its function and the statements that it has used.
pub(super) struct Loaded {
    pub name: Box<str>,
    /// Chunk name of its source in Lua.
    pub source: CString,
    pub chunk: Chunk,
    pub is_running: Cell<bool>,
    /// The procedure, while the schema has it.
    pub owner: Weak<u64>,
    /// Number of the current call among those that ran here.
    calls: Cell<u64>,
    /// Hashes of the texts that the running call has paid for, including dropped statements.
    paid: RefCell<HashSet<u64, RandomState>>,
    /// Statements by text.
    statements: RefCell<StatementCache<Rc<Statement>>>,
    /// Some of them by the address of their text in Lua: constants of a script do not move.
    recent: RefCell<[Option<Rc<Statement>>; RECENT]>,
    /// Statements that the running call has named.
    named: RefCell<HashMap<Box<[u8]>, Rc<Statement>, RandomState>>,
    /// Bytes that the names take.
    names_bytes: Cell<usize>,
}

/// A planned statement.
pub(super) struct Statement {
    /// Last call that has paid for its planning.
    paid: Cell<u64>,
    text: Box<[u8]>,
    /// Hash of its text.
    hash: u64,
    pub prepared: Prepared,
    pub columns: Arc<[OutputColumn]>,
    /// Charge for its memory.
    charge: Charge,
}

/// A statement held by a script.
pub(super) struct StatementHandle(pub Rc<Statement>);

impl Loaded {
    pub fn new(procedure: &LuaProcedure, source: CString, chunk: Chunk) -> Self {
        Self {
            name: procedure.name.clone(),
            source,
            chunk,
            is_running: Cell::new(false),
            calls: Cell::new(0),
            paid: RefCell::default(),
            statements: RefCell::default(),
            recent: RefCell::new([const { None }; RECENT]),
            named: RefCell::default(),
            names_bytes: Cell::new(0),
            owner: Arc::downgrade(&procedure.id),
        }
    }

    /// Begins a call.
    pub fn begin(&self) {
        self.calls.set(self.calls.get() + 1);
        self.paid.borrow_mut().clear();
    }

    /// Drops what a call has left.
    pub fn end(&self, meter: &Meter) {
        self.is_running.set(false);
        let mut named = self.named.borrow_mut();
        if !named.is_empty() {
            named.clear();
            named.shrink_to(NAMES_KEPT);
            meter.release(self.names_bytes.take(), 0);
        }
    }

    /// Names a statement for the rest of the call.
    pub fn name_statement(&self, name: &[u8], statement: Rc<Statement>, meter: &Meter) {
        let bytes = allocated(name.len()) + size_of::<(Box<[u8]>, Rc<Statement>)>();
        meter.hold(bytes, 0);
        self.names_bytes.set(self.names_bytes.get() + bytes);
        self.named.borrow_mut().insert(name.into(), statement);
    }

    /// The statement with a name, or of a text; a new text is planned.
    ///
    /// A call pays for the planning of each text once, even if an earlier call has planned it, and beyond [`PAID_MAX`]
    /// texts at each use.
    pub fn statement(
        &self,
        schema: &Schema,
        text: &[u8],
        meter: &Meter,
        environment: &Environment,
    ) -> Result<Rc<Statement>> {
        if let Some(statement) = self.named.borrow().get(text) {
            return Ok(Rc::clone(statement));
        }
        let place = (text.as_ptr().addr() / TEXTS_APART) % RECENT;
        let recent = self.recent.borrow().get(place).cloned().flatten().filter(|recent| *recent.text == *text);
        if let Some(statement) = recent {
            self.pay(&statement, text, meter);
            return Ok(statement);
        }
        let known = self.statements.borrow_mut().get(text).map(Rc::clone);
        if let Some(statement) = known {
            self.pay(&statement, text, meter);
            if let Some(place) = self.recent.borrow_mut().get_mut(place) {
                *place = Some(Rc::clone(&statement));
            }
            return Ok(statement);
        }
        // Statements evicted for a new one must not stay here either.
        self.recent.borrow_mut().fill(None);
        let sql = super::library::utf8(text)?;
        let mut parsing = environment.structure("reading a statement");
        parsing.resize(parse_bytes(sql))?;
        let prepared = Prepared::with_arguments(schema, sql, &[])?;
        drop(parsing);
        let columns = prepared.columns().into();
        let bytes = size_of::<Statement>() + prepared.heap_bytes() + 2 * allocated(text.len());
        let charge = environment.memory().map(|memory| memory.charge(Working::Statements)).unwrap_or_default();
        let charge = charge_statement(bytes, charge)?;
        let statement = Rc::new(Statement {
            paid: Cell::new(0),
            text: text.into(),
            hash: FixedState::default().hash_one(text),
            prepared,
            columns,
            charge,
        });
        self.pay(&statement, text, meter);
        let budget = statement.charge.budget().map(|budget| &**budget);
        self.statements.borrow_mut().keep(text, Rc::clone(&statement), bytes, budget);
        Ok(statement)
    }

    /// Charges for planning: once per text, or at every use beyond [`PAID_MAX`] texts. Statements kept from earlier
    /// calls, or dropped for lack of memory, make no difference.
    fn pay(&self, statement: &Statement, text: &[u8], meter: &Meter) {
        if statement.paid.get() == self.calls.get() {
            return;
        }
        let mut paid = self.paid.borrow_mut();
        if !paid.contains(&statement.hash) {
            meter.spend(INSTRUCTIONS_OF_PLANNING + text.len() as u64);
            if paid.len() >= PAID_MAX {
                return;
            }
            paid.insert(statement.hash);
        }
        statement.paid.set(self.calls.get());
    }
}
