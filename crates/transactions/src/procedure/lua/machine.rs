use std::any::Any;
use std::cell::{Cell, OnceCell, RefCell};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;

use foldhash::fast::RandomState;
use hashbrown::HashMap;

use super::library::{self, Metatables};
use super::procedure::LuaProcedure;
use super::vm::{Active, Function, Host, Kind, Loan, Meter, Raised, Stack, State, c_name};
use crate::database::Answer;
use crate::error::{Class, Error, Result};
use crate::procedure::{Context, Limits};
use crate::types::Value;

use super::loaded::Loaded;

/// Garbage that may lie about between two calls.
const GARBAGE_BYTES_MAX: usize = 2 << 20;

thread_local! {
    static MACHINE: OnceCell<Box<Machine>> = const { OnceCell::new() };
}

/// The stack of a function of the library.
pub(super) type L<'s> = Stack<'s, Machine>;

/// A thread's Lua, with the procedures that have run there.
///
/// ```text
///   idle --call--> running --db.call--> running a procedure inside of another ...
///    ^                |  a limit, an error of the database: `failure` is set, and nothing can unset it
///    +-- the outermost call ends: globals, names and `failure` are gone
/// ```
pub(super) struct Machine {
    // Dropped before what it points to.
    state: OnceCell<(State<Machine>, Metatables)>,
    meter: Rc<Meter>,
    functions: Vec<Function<Machine>>,
    active: Active,
    context: Loan,
    procedures: RefCell<HashMap<u64, Rc<Loaded>, RandomState>>,
    /// The procedure that runs, innermost.
    current: RefCell<Option<Rc<Loaded>>>,
    limits: Cell<Limits>,
    /// Why the transaction has failed.
    failure: RefCell<Option<Error>>,
    /// The last error of the library that a script may catch, and what Lua was told of it.
    raised: RefCell<Option<(String, Error)>>,
    /// The line of the last error that went through a whole procedure.
    line: Cell<u32>,
    /// Bytes held when it was last collected.
    idle_bytes: Cell<usize>,
    /// A panic of the engine, which the script is not told of.
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

    fn meter(&self) -> &Meter {
        &self.meter
    }

    fn active(&self) -> &Active {
        &self.active
    }

    fn must_stop(&self, stack: &Stack<'_, Self>, within_budget: bool) -> bool {
        let error = if self.has_failed() {
            None
        } else if self.meter.is_exhausted() || self.meter.is_over() {
            Some(self.out_of_memory())
        } else if within_budget {
            // Not in the log, so that replay is not stopped: by the client, or at its deadline.
            match self.context.with(|context| context.environment().check()) {
                Some(Err(error)) => Some(error),
                _ => return false,
            }
        } else {
            let limit = self.limits.get().instructions_max;
            Some(Error::Cancelled(format!("the procedure took more than {limit} instructions").into()))
        };
        match error {
            Some(error) => self.abort(stack, error),
            None => self.stop_again(stack),
        };
        true
    }

    fn panicked(&self, stack: &Stack<'_, Self>) {
        self.abort(stack, Error::internal("a function of the Lua library panicked"));
    }
}

impl Machine {
    /// Uses the machine of this thread, and makes it if there is none yet.
    pub fn with<T>(run: impl FnOnce(&Self) -> Result<T>) -> Result<T> {
        MACHINE.with(|machine| {
            if machine.get().is_none() {
                let made = Self::new()?;
                // Nothing else of this thread was here meanwhile.
                let _ = machine.set(made);
            }
            run(machine.get().ok_or_else(|| Error::internal("no machine for Lua"))?)
        })
    }

    fn new() -> Result<Box<Self>> {
        let machine = Box::new(Self {
            state: OnceCell::new(),
            meter: Rc::default(),
            functions: library::functions(),
            active: Active::default(),
            context: Loan::default(),
            procedures: RefCell::default(),
            current: RefCell::default(),
            limits: Cell::new(Limits::unlimited()),
            failure: RefCell::default(),
            raised: RefCell::default(),
            line: Cell::new(0),
            idle_bytes: Cell::new(0),
            panic: Cell::default(),
        });
        let state = State::new(&*machine).ok_or_else(|| Error::OutOfMemory("no memory for Lua".into()))?;
        machine.meter.begin(u64::MAX, usize::MAX);
        let stack = state.stack(&machine);
        let metatables = library::open(&stack)
            .map_err(|Raised| Error::internal(format_args!("the library of Lua: {:?}", stack.kind(-1))))?;
        stack.set_top(0);
        let _ = machine.state.set((state, metatables));
        machine.collect();
        Ok(machine)
    }

    fn state(&self) -> Result<&(State<Self>, Metatables)> {
        self.state.get().ok_or_else(|| Error::internal("a machine without Lua"))
    }

    /// Metatables of the types of Rust.
    pub fn metatables(&self) -> Option<&Metatables> {
        self.state.get().map(|(_, metatables)| metatables)
    }

    /// What memory is counted with.
    pub const fn meter_of(&self) -> &Rc<Meter> {
        &self.meter
    }

    /// The procedure that runs.
    pub fn current(&self) -> Option<Rc<Loaded>> {
        self.current.borrow().clone()
    }

    /// The procedure, compiled in this thread.
    pub fn load(&self, procedure: &LuaProcedure) -> Result<Rc<Loaded>> {
        if let Some(loaded) = self.procedures.borrow().get(&*procedure.id) {
            return Ok(Rc::clone(loaded));
        }
        let (state, metatables) = self.state()?;
        let stack = state.stack(self);
        let top = stack.top();
        // A body of a megabyte is compiled to no more than some hundred of them.
        let loaded = stack.load(&procedure.source, &c_name(&format!("={}", procedure.name)));
        if let Err(Raised) = loaded {
            let text = text_of(stack.kind(-1));
            stack.set_top(top);
            let (line, message) = placed(&procedure.name, &text).unwrap_or((1, &text));
            return Err(Class::Syntax.error(message).in_procedure(&procedure.name, line));
        }
        let loaded = Rc::new(Loaded::new(procedure, stack.keep()));
        loaded.renew_globals(&stack, metatables);
        stack.set_top(top);
        let mut procedures = self.procedures.borrow_mut();
        procedures.retain(|_, old| {
            let keep = old.owner.strong_count() > 0;
            if !keep {
                stack.forget(old.function);
            }
            keep
        });
        procedures.insert(*procedure.id, Rc::clone(&loaded));
        Ok(loaded)
    }

    /// Runs a procedure.
    pub fn call(&self, procedure: &LuaProcedure, context: &mut Context<'_, '_>, arguments: &[Value]) -> Result<Answer> {
        let loaded = self.load(procedure)?;
        if loaded.is_running.replace(true) {
            return Err(Class::TooDeep.error(format_args!("procedure \"{}\" calls itself", procedure.name)));
        }
        let (state, metatables) = self.state()?;
        let before = self.current.replace(Some(Rc::clone(&loaded)));
        if before.is_none() {
            let Limits { instructions_max, lua_bytes_max, .. } = procedure.limits;
            self.limits.set(procedure.limits);
            self.meter.begin(instructions_max, lua_bytes_max);
            *self.failure.borrow_mut() = None;
        }
        let stack = state.stack(self);
        let top = stack.top();
        let result = self.context.lend(context, || self.run(&stack, &loaded, arguments));
        stack.set_top(top);
        loaded.end(&stack, metatables);
        self.current.replace(before);
        if self.current.borrow().is_none() {
            *self.failure.borrow_mut() = None;
            *self.raised.borrow_mut() = None;
            if self.meter.held() > self.idle_bytes.get() + GARBAGE_BYTES_MAX {
                self.collect();
            }
        }
        if let Some(panic) = self.panic.take() {
            resume_unwind(panic);
        }
        result
    }

    fn run(&self, stack: &L<'_>, loaded: &Loaded, arguments: &[Value]) -> Result<Answer> {
        let base = stack.top();
        let count = i32::try_from(arguments.len()).unwrap_or(i32::MAX);
        if !stack.has_space(count) {
            return Err(Class::LimitExceeded.error("too many arguments"));
        }
        stack.push_function(library::HANDLER);
        stack.push_kept(loaded.function);
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

    /// What a script's error is to the caller.
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

    /// The line that runs in the innermost procedure.
    pub fn line(&self, stack: &L<'_>) -> u32 {
        self.current().map_or(0, |loaded| stack.line_of(|chunk| chunk == &*loaded.chunk))
    }

    /// Keeps the line of an error on its way out of a procedure.
    pub fn note_line(&self, stack: &L<'_>) {
        self.line.set(self.line(stack));
    }

    /// Ends the transaction: the script can do nothing about this error.
    pub fn abort(&self, stack: &L<'_>, error: Error) -> Raised {
        let mut failure = self.failure.borrow_mut();
        if failure.is_none() {
            let name = self.current().map_or_else(Box::default, |loaded| loaded.name.clone());
            *failure = Some(error.in_procedure(&name, self.line(stack)));
        }
        drop(failure);
        self.stop_again(stack)
    }

    /// Whether the transaction has failed.
    pub fn has_failed(&self) -> bool {
        self.failure.borrow().is_some()
    }

    /// Raises what has ended the transaction, again.
    pub fn stop_again(&self, stack: &L<'_>) -> Raised {
        stack.push_bytes(b"the transaction has failed");
        Raised
    }

    /// An error that a script may catch.
    pub fn raise(&self, stack: &L<'_>, error: Error) -> Raised {
        let told = match (self.current(), self.line(stack)) {
            (Some(loaded), line) if line > 0 => format!("{}:{line}: {error}", loaded.name),
            _ => error.to_string(),
        };
        stack.push_bytes(told.as_bytes());
        *self.raised.borrow_mut() = Some((told, error));
        Raised
    }

    /// Takes instructions for what the library does; an error if there are none left.
    pub fn spend(&self, stack: &L<'_>, instructions: usize) -> Result<(), Raised> {
        let within = self.meter.spend(instructions as u64);
        if !within && self.must_stop(stack, within) { Err(Raised) } else { Ok(()) }
    }

    /// Does something in the transaction. An error ends the transaction.
    pub fn transact<T>(&self, stack: &L<'_>, run: impl FnOnce(&mut Context<'_, '_>) -> Result<T>) -> Result<T, Raised> {
        if self.has_failed() {
            return Err(self.stop_again(stack));
        }
        // A panic of the engine goes on behind the script: rows may be half changed.
        match catch_unwind(AssertUnwindSafe(|| self.context.with(run))) {
            Ok(Some(Ok(value))) => Ok(value),
            Ok(Some(Err(error))) => Err(self.abort(stack, error)),
            Ok(None) => Err(self.abort(stack, Error::internal("a script without a transaction"))),
            Err(panic) => {
                self.panic.set(Some(panic));
                Err(self.abort(stack, Error::internal("a statement of the script panicked")))
            }
        }
    }

    fn out_of_memory(&self) -> Error {
        let limit = self.limits.get().lua_bytes_max;
        Error::OutOfMemory(format!("the procedure holds more than {limit} bytes").into())
    }

    fn collect(&self) {
        if let Ok((state, _)) = self.state() {
            state.collect();
            self.idle_bytes.set(self.meter.held());
        }
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
    // As Lua cuts names.
    let name = name.get(..name.len().min(59)).unwrap_or(name);
    let (line, message) = text.strip_prefix(name)?.strip_prefix(':')?.split_once(':')?;
    Some((line.parse().ok()?, message.trim_start()))
}
