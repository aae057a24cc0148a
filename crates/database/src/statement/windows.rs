//! Windows that refer to windows of the WINDOW clause.

use std::collections::HashMap;
use std::ops::ControlFlow;

use datafusion::common::Result;
use datafusion::sql::parser::{CopyToSource, Statement as Parsed};
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, NamedWindowDefinition, NamedWindowExpr, Query, Select, SetExpr, VisitMut, VisitorMut, WindowSpec,
    WindowType,
};
use thermocline_syntax::folded;
use thermocline_types::{Class, Error};

use crate::bridge::external;

/// Most keys, of PARTITION BY and ORDER BY, that the windows of one statement take from those that they refer to: each
/// reference has a copy of them, so that a short text could make a plan without end.
const KEYS_TAKEN_MAX: usize = 1 << 16;

/// Replaces references to named windows (`OVER w`, `OVER (w ORDER BY a)`, `WINDOW v AS (w ORDER BY a)`) by the windows
/// that they stand for. DataFusion would leave out what a window takes from the one that it extends.
///
/// # Errors
/// PostgreSQL's: 42704 for a window that is not defined, 42P20 for one that cannot be extended so, or is defined twice;
/// and 54000 for windows that take more than [`KEYS_TAKEN_MAX`] keys from others.
pub fn resolve_windows(statement: &mut Parsed) -> Result<()> {
    let mut windows = Windows::default();
    let visited = match statement {
        Parsed::Explain(explain) => return resolve_windows(&mut explain.statement),
        Parsed::CopyTo(copy) => match &mut copy.source {
            CopyToSource::Query(query) => query.visit(&mut windows),
            CopyToSource::Relation(_) => ControlFlow::Continue(()),
        },
        Parsed::Statement(ast) => ast.visit(&mut windows),
        _ => ControlFlow::Continue(()),
    };
    match visited {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(external(error)),
    }
}

/// Named windows, while the tree of a statement is visited.
#[derive(Default)]
struct Windows {
    /// Those of the queries and SELECTs around the current expression, the innermost last. Only these are visible.
    scopes: Vec<HashMap<String, WindowSpec>>,
    /// Keys taken so far.
    taken: usize,
}

impl Windows {
    fn find(&self, name: &Ident) -> Result<&WindowSpec, Error> {
        let folded = folded(name);
        let undefined = || Class::UndefinedObject.error(format_args!("window \"{folded}\" does not exist"));
        self.scopes.last().and_then(|windows| windows.get(&folded)).ok_or_else(undefined)
    }

    /// The window of this name, to be copied.
    fn take(&mut self, name: &Ident) -> Result<WindowSpec, Error> {
        let window = self.find(name)?;
        let taken = self.taken + window.partition_by.len() + window.order_by.len();
        if taken > KEYS_TAKEN_MAX {
            let message = format!("windows that refer to others have more than {KEYS_TAKEN_MAX} keys in all");
            return Err(Class::LimitExceeded.error(message));
        }
        let window = window.clone();
        self.taken = taken;
        Ok(window)
    }

    /// Gives `window` what it takes from the window that it names.
    fn extend(&mut self, window: &mut WindowSpec) -> Result<(), Error> {
        let Some(name) = window.window_name.take() else { return Ok(()) };
        let base = self.take(&name)?;
        let refuse = |why: std::fmt::Arguments<'_>| Err(Class::Windowing.error(why));
        let name = folded(&name);
        if !window.partition_by.is_empty() {
            return refuse(format_args!("cannot override PARTITION BY clause of window \"{name}\""));
        }
        if !window.order_by.is_empty() && !base.order_by.is_empty() {
            return refuse(format_args!("cannot override ORDER BY clause of window \"{name}\""));
        }
        if base.window_frame.is_some() {
            return refuse(format_args!("cannot copy window \"{name}\" because it has a frame clause"));
        }
        window.partition_by = base.partition_by;
        if window.order_by.is_empty() {
            window.order_by = base.order_by;
        }
        Ok(())
    }

    /// Adds the windows of a WINDOW clause, each of which may extend earlier ones.
    fn define(&mut self, definitions: &mut [NamedWindowDefinition]) -> Result<(), Error> {
        self.scopes.push(HashMap::new());
        for NamedWindowDefinition(name, window) in definitions {
            match window {
                NamedWindowExpr::NamedWindow(of) => *window = NamedWindowExpr::WindowSpec(self.take(of)?),
                NamedWindowExpr::WindowSpec(window) => self.extend(window)?,
            }
            let known = folded(name);
            if self.find(name).is_ok() {
                return Err(Class::Windowing.error(format_args!("window \"{known}\" is already defined")));
            }
            if let (Some(windows), NamedWindowExpr::WindowSpec(window)) = (self.scopes.last_mut(), window) {
                windows.insert(known, window.clone());
            }
        }
        Ok(())
    }

    fn resolve(&mut self, window: &mut WindowType) -> Result<(), Error> {
        match window {
            WindowType::WindowSpec(window) => self.extend(window),
            WindowType::NamedWindow(name) => {
                *window = WindowType::WindowSpec(self.take(name)?);
                Ok(())
            }
        }
    }
}

impl VisitorMut for Windows {
    type Break = Error;

    /// ORDER BY of a query sees the windows of its SELECT.
    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
        flow(match query.body.as_ref() {
            SetExpr::Select(select) => self.define(&mut select.named_window.clone()),
            _ => self.define(&mut []),
        })
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<Error> {
        self.scopes.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Error> {
        flow(self.define(&mut select.named_window))
    }

    fn post_visit_select(&mut self, _: &mut Select) -> ControlFlow<Error> {
        self.scopes.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        match expr {
            Expr::Function(function) => flow(function.over.as_mut().map_or(Ok(()), |over| self.resolve(over))),
            _ => ControlFlow::Continue(()),
        }
    }
}

fn flow(done: Result<(), Error>) -> ControlFlow<Error> {
    match done {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => ControlFlow::Break(error),
    }
}
