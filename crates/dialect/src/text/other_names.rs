//! Functions of DuckDB that PostgreSQL has under other names.

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Value,
};
use thermocline_pushdown::SQL_EXTRACT;

use super::calls::call;

/// Fields of a date or a time with functions of their names.
const FIELDS: [(&str, &str); 16] = [
    ("century", "century"),
    ("day", "day"),
    ("dayofmonth", "day"),
    ("dayofweek", "dow"),
    ("dayofyear", "doy"),
    ("decade", "decade"),
    ("epoch", "epoch"),
    ("hour", "hour"),
    ("isodow", "isodow"),
    ("isoyear", "isoyear"),
    ("minute", "minute"),
    ("month", "month"),
    ("quarter", "quarter"),
    ("week", "week"),
    ("weekofyear", "week"),
    ("year", "year"),
];

/// The call by PostgreSQL's name; `None` for any other.
pub fn renamed(function: &Function) -> Option<Expr> {
    let FunctionArguments::List(list) = &function.args else { return None };
    let is_plain = function.over.is_none() && function.filter.is_none() && list.clauses.is_empty();
    let argument = |argument| match argument {
        &FunctionArg::Unnamed(FunctionArgExpr::Expr(ref expr)) => Some(expr),
        _ => None,
    };
    let arguments: Vec<&Expr> = list.args.iter().map(argument).collect::<Option<_>>()?;
    let name = function.name.to_string().to_ascii_lowercase();
    let literal = |text: &str| Expr::value(Value::SingleQuotedString(text.to_owned()));
    Some(match (name.as_str(), arguments.as_slice()) {
        _ if !is_plain => return None,
        ("dayname", [of]) => call("to_char", &[of, &literal("FMDay")]),
        ("monthname", [of]) => call("to_char", &[of, &literal("FMMonth")]),
        ("strftime", [of, format]) => call("date_format", &[of, format]),
        ("regexp_matches", [text, pattern]) => Expr::Nested(Box::new(Expr::BinaryOp {
            left: Box::new((*text).clone()),
            op: BinaryOperator::PGRegexMatch,
            right: Box::new((*pattern).clone()),
        })),
        (name, [of]) => {
            let (_, field) = FIELDS.iter().find(|(function, _)| *function == name)?;
            call(SQL_EXTRACT, &[&literal(field), of])
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use datafusion::sql::parser::Statement;

    use crate::text::{in_our_dialect, parse};

    #[test]
    fn functions_have_postgresqls_names() {
        for (call, renamed) in [
            ("dayname(d)", "to_char(d, 'FMDay')"),
            ("strftime(d, '%Y')", "date_format(d, '%Y')"),
            ("regexp_matches(a || b, 'x')", "(a || b ~ 'x')"),
            ("Year(x)", "EXTRACT(YEAR FROM x)"),
            ("dayofweek(x)", "EXTRACT(DOW FROM x)"),
        ] {
            let rewritten = |expression: &str| {
                let mut statements = parse(&format!("SELECT {expression} FROM t")).unwrap();
                let statement: Statement = in_our_dialect(statements.pop().unwrap()).unwrap();
                statement.to_string()
            };
            assert_eq!(rewritten(call), rewritten(renamed));
        }
    }
}
