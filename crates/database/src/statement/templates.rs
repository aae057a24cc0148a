//! Generated queries around queries of users.

use datafusion::common::Result;
use datafusion::sql::sqlparser::ast::{Query, SetExpr, Statement as Ast, TableFactor};
use thermocline_pushdown::user_err;
use thermocline_syntax::{Statement as Sql, Tokens};

/// Parses a query.
///
/// # Errors
/// If the text is not a valid query.
pub fn plain_query(text: &str) -> Result<Box<Query>> {
    let Sql::Sql(ast, _) = thermocline_syntax::parse(Tokens::of(text)?)? else {
        return user_err!(Syntax, "{text} is not a query");
    };
    match *ast {
        Ast::Query(query) => Ok(query),
        _ => user_err!(Syntax, "{text} is not a query"),
    }
}

/// Parses a statement of both engines that is no query.
///
/// # Errors
/// If the text is not a valid statement.
pub fn plain_statement(text: &str) -> Result<Ast> {
    match thermocline_syntax::parse(Tokens::of(text)?)? {
        Sql::Sql(ast, _) => Ok(*ast),
        _ => user_err!(Syntax, "{text} is not a statement"),
    }
}

/// The derived table that is first in a query's FROM.
pub fn derived(query: &mut Query) -> Option<&mut Box<Query>> {
    let SetExpr::Select(select) = query.body.as_mut() else { return None };
    match &mut select.from.first_mut()?.relation {
        TableFactor::Derived { subquery, .. } => Some(subquery),
        _ => None,
    }
}
