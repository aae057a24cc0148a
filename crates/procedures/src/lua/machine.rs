use std::any::Any;
use std::cell::{Cell, OnceCell, RefCell};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;
use std::sync::Arc;

use foldhash::fast::RandomState;
use hashbrown::HashMap;
use thermocline_lua::{Function, Host, Kind, Lent, Lines, Loan, Meter, Raised, Stack, State, c_name};
use thermocline_statements::{Rows, StatementResult};
use thermocline_tables::table::{Budget, StatementMemory, out_of_memory};
use thermocline_types::{Class, Error, Result, Value, ValueRef};

use super::budgeted::Budgeted;
use super::library::{self, Kept};
use super::loaded::Loaded;
use super::procedure::LuaProcedure;
use crate::{Context, Limits};

/// Garbage that may remain between two calls.
const GARBAGE_BYTES_MAX: usize = 2 << 20;

/// Message that scripts get for an error that they cannot handle.
const FAILED: &[u8] = b"the transaction has failed";

thread_local! {
    static MACHINE: OnceCell<State<Machine>> = const { OnceCell::new() };
}

/// The stack of a library function.
pub(super) type L<'s> = Stack<'s, Machine>;

/// A [`Context`] without its two lifetimes, which a callback does not know.
pub(super) trait AnyContext {
    fn lend(&mut self, run: &mut dyn FnMut(&mut Context<'_, '_>));
}

impl AnyContext for Context<'_, '_> {
    fn lend(&mut self, run: &mut dyn FnMut(&mut Context<'_, '_>)) {
        run(self);
    }
}

struct LentContext;

impl Lent for LentContext {
    type Of<'l> = dyn AnyContext + 'l;
}

/// A thread's Lua, with the procedures that have run there.
///
/// ```text
///   idle --call--> running --db.call--> running a procedure inside of another ...
///    ^                |  a limit, an error of the database: `failure` is set, and nothing can unset it
///    +-- the outermost call ends: globals, names and `failure` are gone
/// ```
pub(super) struct Machine {
    meter: Rc<Meter>,
    /// Charges the budget for the memory of scripts.
    budgeted: Budgeted,
    functions: Vec<Function<Self>>,
    kept: OnceCell<Kept>,
    context: Loan<LentContext>,
    procedures: RefCell<HashMap<u64, Rc<Loaded>, RandomState>>,
    /// The running procedure, innermost.
    current: RefCell<Option<Rc<Loaded>>>,
    limits: Cell<Limits>,
    /// Why the transaction has failed.
    failure: RefCell<Option<Error>>,
    /// The last error of the library that a script may catch, and the message that Lua got for it.
    raised: RefCell<Option<(String, Error)>>,
    /// Line of the last error that left a procedure.
    line: Cell<u32>,
    /// Bytes held after the last collection.
    idle_bytes: Cell<usize>,
    /// A panic of the engine, hidden from the script.
    panic: Cell<Option<Box<dyn Any + Send>>>,
}

impl fmt::Debug for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Machine").field("meter", &self.meter).finish_non_exhaustive()
    }
}

impl Host for Machine {
    fn functions(&self) -> &[Function<Self>] {
        &self.functions
    }

    fn must_stop(&self, lines: Lines<'_>, within_budget: bool) -> Option<&'static [u8]> {
        let error = if self.has_failed() {
            return Some(FAILED);
        } else if self.meter.is_exhausted() || self.meter.is_over() {
            self.out_of_memory()
        } else if within_budget {
            // Interruption by the client or a deadline. The log does not record it, so replay is not stopped.
            match self.with_context(|context| context.environment().check()) {
                Some(Err(error)) => error,
                _ => return None,
            }
        } else {
            let limit = self.limits.get().instructions_max;
            Error::Cancelled(format!("the procedure took more than {limit} instructions").into())
        };
        self.fail(lines, error);
        Some(FAILED)
    }

    fn panicked(&self, lines: Lines<'_>) -> &'static [u8] {
        self.fail(lines, Error::internal("a function of the Lua library panicked"));
        FAILED
    }
}

impl Machine {
    /// Uses this thread's machine, and creates it first if necessary.
    pub fn with<T>(run: impl FnOnce(&State<Self>) -> Result<T>) -> Result<T> {
        MACHINE.with(|machine| {
            if machine.get().is_none() {
                let made = Self::new_state()?;
                // No other code of this thread has set it meanwhile.
                let _ = machine.set(made);
            }
            run(machine.get().ok_or_else(|| Error::internal("no machine for Lua"))?)
        })
    }

    fn new_state() -> Result<State<Self>> {
        let meter = Rc::<Meter>::default();
        let machine = Self {
            meter: Rc::clone(&meter),
            budgeted: Budgeted::default(),
            functions: library::functions(),
            kept: OnceCell::new(),
            context: Loan::default(),
            procedures: RefCell::default(),
            current: RefCell::default(),
            limits: Cell::new(Limits::unlimited()),
            failure: RefCell::default(),
            raised: RefCell::default(),
            line: Cell::new(0),
            idle_bytes: Cell::new(0),
            panic: Cell::default(),
        };
        meter.begin(u64::MAX, usize::MAX);
        let state = State::new(machine, meter);
        let kept = state.enter(|stack| {
            library::open(stack)
                .map_err(|Raised| Error::internal(format_args!("the library of Lua: {:?}", stack.kind(-1))))
        })?;
        let _ = state.host().kept.set(kept);
        Self::collect(&state);
        Ok(state)
    }

    /// Values that the library keeps in Lua.
    pub fn kept(&self) -> Result<&Kept> {
        self.kept.get().ok_or_else(|| Error::internal("a machine without a library"))
    }

    /// Meter of its memory and instructions.
    pub const fn meter_of(&self) -> &Rc<Meter> {
        &self.meter
    }

    /// The running procedure.
    pub fn current(&self) -> Option<Rc<Loaded>> {
        self.current.borrow().clone()
    }

    /// Compiles a procedure to check it; each thread that runs it compiles it again.
    pub fn check(lua: &State<Self>, procedure: &LuaProcedure, budget: &Arc<Budget>) -> Result<()> {
        let machine = lua.host();
        if machine.current.borrow().is_some() {
            return Err(Error::internal("a definition inside of a procedure"));
        }
        machine.begin(procedure.limits, Some(&StatementMemory::new(budget)));
        let result = lua.enter(|stack| {
            machine.load(stack, procedure)?;
            if let Some(loaded) = machine.procedures.borrow_mut().remove(&*procedure.id).and_then(Rc::into_inner) {
                stack.forget(loaded.chunk);
            }
            Ok(())
        });
        Self::collect(lua);
        machine.meter.settle();
        result
    }

    /// Begins a transaction.
    fn begin(&self, limits: Limits, memory: Option<&StatementMemory>) {
        self.limits.set(limits);
        self.meter.begin(limits.instructions_max, limits.lua_bytes_max);
        self.budgeted.begin(&self.meter, memory);
        *self.failure.borrow_mut() = None;
    }

    /// The procedure, compiled in this thread.
    fn load(&self, stack: &L<'_>, procedure: &LuaProcedure) -> Result<Rc<Loaded>> {
        if let Some(loaded) = self.procedures.borrow().get(&*procedure.id) {
            return Ok(Rc::clone(loaded));
        }
        let source = c_name(&format!("={}", procedure.name));
        // Compiling a body of a megabyte takes no more than some hundred megabytes.
        let chunk = stack.load(&procedure.source, &source).map_err(|Raised| {
            if self.meter.is_exhausted() {
                return self.out_of_memory().in_procedure(&procedure.name, 0);
            }
            let text = text_of(stack.kind(-1));
            let (line, message) = placed(&procedure.name, &text).unwrap_or((1, &text));
            Class::Syntax.error(message).in_procedure(&procedure.name, line)
        })?;
        let loaded = Rc::new(Loaded::new(procedure, source, chunk));
        let mut procedures = self.procedures.borrow_mut();
        let is_gone = |old: &Rc<Loaded>| old.owner.strong_count() == 0 && Rc::strong_count(old) == 1;
        for (_, gone) in procedures.extract_if(|_, old| is_gone(old)) {
            if let Some(gone) = Rc::into_inner(gone) {
                stack.forget(gone.chunk);
            }
        }
        procedures.insert(*procedure.id, Rc::clone(&loaded));
        Ok(loaded)
    }

    /// Runs a procedure.
    pub fn call(
        lua: &State<Self>,
        procedure: &LuaProcedure,
        context: &mut Context<'_, '_>,
        arguments: &[Value],
    ) -> Result<StatementResult> {
        let machine = lua.host();
        let result = lua.enter(|stack| machine.call_on(stack, procedure, context, arguments));
        if machine.current.borrow().is_none() {
            *machine.failure.borrow_mut() = None;
            *machine.raised.borrow_mut() = None;
            if machine.meter.held() > machine.idle_bytes.get() + GARBAGE_BYTES_MAX {
                Self::collect(lua);
            }
            machine.meter.settle();
        }
        if let Some(panic) = machine.panic.take() {
            resume_unwind(panic);
        }
        result
    }

    fn call_on(
        &self,
        stack: &L<'_>,
        procedure: &LuaProcedure,
        context: &mut Context<'_, '_>,
        arguments: &[Value],
    ) -> Result<StatementResult> {
        let is_outermost = self.current.borrow().is_none();
        if is_outermost {
            self.begin(procedure.limits, context.environment().memory());
        }
        let loaded = self.load(stack, procedure)?;
        if is_outermost {
            // The call does not pay for compiling: another thread may already have compiled the procedure.
            self.meter.begin(procedure.limits.instructions_max, procedure.limits.lua_bytes_max);
        }
        if loaded.is_running.replace(true) {
            return Err(Class::TooDeep.error(format_args!("procedure \"{}\" calls itself", procedure.name)));
        }
        let before = self.current.replace(Some(Rc::clone(&loaded)));
        loaded.begin();
        let _running = Running { machine: self, loaded: &loaded, before };
        let run = |stack: &L<'_>| Ok(self.context.lend(context, || self.run(stack, &loaded, arguments)));
        let result = stack.scoped(run).unwrap_or_else(|Raised| Err(Error::internal("a call without a result")));
        // The values that the call has set can be freed.
        stack.push_nil();
        stack.push_chunk(&loaded.chunk);
        result
    }

    fn run(&self, stack: &L<'_>, loaded: &Loaded, arguments: &[Value]) -> Result<StatementResult> {
        let base = stack.top();
        let count = i32::try_from(arguments.len()).unwrap_or(i32::MAX);
        if !stack.has_space(count) {
            return Err(Class::LimitExceeded.error("too many arguments"));
        }
        let kept = self.kept()?;
        stack.push_kept(&kept.handler);
        // Fresh globals, whatever an earlier call has done to its `_ENV`.
        stack.push_table(0, 0);
        stack.push_kept(&kept.globals);
        stack.set_metatable(-2);
        stack.push_chunk(&loaded.chunk);
        for argument in arguments {
            library::push_value(stack, argument.as_ref());
        }
        let called = stack.call(count, -1, base + 1);
        if let Some(error) = self.failure.borrow_mut().take() {
            return Err(error);
        }
        if self.meter.is_exhausted() {
            return Err(self.out_of_memory().in_procedure(&loaded.name, self.line.take()));
        }
        match called {
            Ok(()) => {
                library::answer(stack, base + 2, &loaded.name).map_err(|error| error.in_procedure(&loaded.name, 0))
            }
            Err(Raised) => Err(self.uncaught(stack, loaded)),
        }
    }

    /// The error of a script as its caller sees it.
    fn uncaught(&self, stack: &L<'_>, loaded: &Loaded) -> Error {
        let kind = stack.kind(-1);
        let line = self.line.take();
        let Kind::Text(text) = kind else {
            let message = format!("the error is a {} value", kind.name());
            return Class::Procedure.error(message).in_procedure(&loaded.name, line);
        };
        let text = String::from_utf8_lossy(text);
        match self.raised.borrow_mut().take() {
            Some((told, error)) if told == text => error.in_procedure(&loaded.name, line),
            _ => match placed(&loaded.name, &text) {
                Some((line, message)) => Class::Procedure.error(message).in_procedure(&loaded.name, line),
                None => Class::Procedure.error(text).in_procedure(&loaded.name, line),
            },
        }
    }

    /// Current line of the innermost procedure.
    fn line(&self, lines: Lines<'_>) -> u32 {
        self.current().map_or(0, |loaded| lines.line_of(&loaded.source))
    }

    /// Records the line of an error that leaves a procedure.
    pub fn note_line(&self, stack: &L<'_>) {
        self.line.set(self.line(stack.lines()));
    }

    /// Ends the transaction with an error that the script cannot handle.
    pub fn abort(&self, stack: &L<'_>, error: Error) -> Raised {
        self.fail(stack.lines(), error);
        self.stop_again(stack)
    }

    fn fail(&self, lines: Lines<'_>, error: Error) {
        let mut failure = self.failure.borrow_mut();
        if failure.is_none() {
            let name = self.current().map_or_else(Box::default, |loaded| loaded.name.clone());
            *failure = Some(error.in_procedure(&name, self.line(lines)));
        }
    }

    /// Whether the transaction has failed.
    pub fn has_failed(&self) -> bool {
        self.failure.borrow().is_some()
    }

    /// Raises again the error that has ended the transaction.
    pub fn stop_again(&self, stack: &L<'_>) -> Raised {
        stack.push_bytes(FAILED);
        Raised
    }

    /// An error that a script may catch.
    pub fn raise(&self, stack: &L<'_>, error: Error) -> Raised {
        let told = match (self.current(), self.line(stack.lines())) {
            (Some(loaded), line) if line > 0 => format!("{}:{line}: {error}", loaded.name),
            _ => error.to_string(),
        };
        stack.push_bytes(told.as_bytes());
        *self.raised.borrow_mut() = Some((told, error));
        Raised
    }

    /// Spends instructions for work of the library; an error if none are left.
    pub fn spend(&self, stack: &L<'_>, instructions: usize) -> Result<(), Raised> {
        if self.meter.spend(instructions as u64) {
            return Ok(());
        }
        match self.must_stop(stack.lines(), false) {
            Some(_) => Err(self.stop_again(stack)),
            None => Ok(()),
        }
    }

    /// Runs a function in the transaction. An error ends the transaction.
    pub fn transact<T>(&self, stack: &L<'_>, run: impl FnOnce(&mut Context<'_, '_>) -> Result<T>) -> Result<T, Raised> {
        if self.has_failed() {
            return Err(self.stop_again(stack));
        }
        // A panic of the engine resumes after the script has ended: rows may be half changed.
        match catch_unwind(AssertUnwindSafe(|| self.with_context(run))) {
            Ok(Some(Ok(value))) => Ok(value),
            Ok(Some(Err(error))) => Err(self.abort(stack, error)),
            Ok(None) => Err(self.abort(stack, Error::internal("a script without a transaction"))),
            Err(panic) => {
                self.panic.set(Some(panic));
                Err(self.abort(stack, Error::internal("a statement of the script panicked")))
            }
        }
    }

    /// Calls a function with the transaction's context; `None` if there is none, or it is in use.
    pub fn with_context<T>(&self, run: impl FnOnce(&mut Context<'_, '_>) -> T) -> Option<T> {
        let (mut run, mut result) = (Some(run), None);
        self.context.with(|lent| lent.lend(&mut |context| result = run.take().map(|run| run(context))))?;
        result
    }

    /// Appends a value to a result, whose memory counts for the transaction's statements.
    pub fn push(&self, rows: &mut Rows, value: ValueRef<'_>) -> Result<()> {
        let pushed = self.with_context(|context| rows.push_within(value, context.environment().memory()));
        pushed.unwrap_or_else(|| Err(Error::internal("a result outside of a transaction")))
    }

    fn out_of_memory(&self) -> Error {
        if let Some(full) = self.budgeted.refused() {
            return out_of_memory("what the procedure holds", full);
        }
        let limit = self.limits.get().lua_bytes_max;
        Error::OutOfMemory(format!("the procedure holds more than {limit} bytes").into())
    }

    fn collect(lua: &State<Self>) {
        lua.collect();
        let machine = lua.host();
        machine.idle_bytes.set(machine.meter.held());
    }
}

/// Ends a call on drop, also when a panic unwinds.
struct Running<'m> {
    machine: &'m Machine,
    loaded: &'m Loaded,
    before: Option<Rc<Loaded>>,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.loaded.end(&self.machine.meter);
        self.machine.current.replace(self.before.take());
    }
}

fn text_of(kind: Kind<'_>) -> String {
    match kind {
        Kind::Text(text) => String::from_utf8_lossy(text).into_owned(),
        other => format!("a {} value", other.name()),
    }
}

/// The line and the rest of a message that begins with `name:line:`.
fn placed<'t>(name: &str, text: &'t str) -> Option<(u32, &'t str)> {
    // Truncated as Lua truncates names.
    let name = name.get(..name.len().min(59)).unwrap_or(name);
    let (line, message) = text.strip_prefix(name)?.strip_prefix(':')?.split_once(':')?;
    Some((line.parse().ok()?, message.trim_start()))
}
