//! Calls of functions in syntax trees.

use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList, FunctionArguments, Ident, ObjectName,
};

/// A plain call.
pub fn call(function: &str, arguments: &[&Expr]) -> Expr {
    let argument = |expr: &&Expr| FunctionArg::Unnamed(FunctionArgExpr::Expr((*expr).clone()));
    let list = FunctionArgumentList {
        duplicate_treatment: None,
        args: arguments.iter().map(argument).collect(),
        clauses: vec![],
    };
    Expr::Function(Function {
        name: ObjectName::from(vec![Ident::new(function)]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(list),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: vec![],
    })
}
