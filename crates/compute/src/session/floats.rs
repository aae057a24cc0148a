//! Numbers in statements that are not decimals.

use std::ops::ControlFlow;

use datafusion::sql::parser::{CopyToSource, Statement};
use datafusion::sql::sqlparser::ast::{
    CastKind, DataType, ExactNumberInfo, Expr, Query, SetExpr, Statement as Ast, Value, Values, VisitMut, VisitorMut,
};

/// Most digits of a decimal.
const DIGITS_MAX: usize = 76;

/// Makes doubles of the numbers with an exponent, of those with too many digits for a decimal, and of those
/// in a column of VALUES that has floats. All others with a point are decimals, as in the SQL standard.
pub(super) fn with_floats(mut statement: Statement) -> Statement {
    let mut inner = &mut statement;
    while let Statement::Explain(explain) = inner {
        inner = explain.statement.as_mut();
    }
    let _: ControlFlow<()> = match inner {
        // Values of settings are texts.
        Statement::Statement(ast) if matches!(ast.as_ref(), Ast::Set(_)) => ControlFlow::Continue(()),
        Statement::Statement(ast) => ast.visit(&mut Floats),
        Statement::CopyTo(copy) => match &mut copy.source {
            CopyToSource::Query(query) => query.visit(&mut Floats),
            CopyToSource::Relation(_) => ControlFlow::Continue(()),
        },
        _ => ControlFlow::Continue(()),
    };
    statement
}

struct Floats;

impl VisitorMut for Floats {
    type Break = ();

    fn post_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<()> {
        if let Some(text) = number(expression) {
            let digits = text.bytes().filter(u8::is_ascii_digit).count();
            if text.contains(['e', 'E']) || digits > DIGITS_MAX {
                as_double(expression);
            }
        }
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let mut bodies = vec![query.body.as_mut()];
        while let Some(body) = bodies.pop() {
            match body {
                SetExpr::SetOperation { left, right, .. } => bodies.extend([left.as_mut(), right.as_mut()]),
                SetExpr::Values(values) => columns_with_floats(values),
                _ => {}
            }
        }
        ControlFlow::Continue(())
    }
}

/// DataFusion gives each column of VALUES its type when it plans it.
fn columns_with_floats(values: &mut Values) {
    let width = values.rows.iter().map(|row| row.content.len()).max().unwrap_or_default();
    for position in 0..width {
        let mut column: Vec<_> = values.rows.iter_mut().filter_map(|row| row.content.get_mut(position)).collect();
        if column.iter().any(|expression| is_float(expression)) {
            column.iter_mut().for_each(|expression| as_double(expression));
        }
    }
}

fn is_float(expression: &Expr) -> bool {
    match expression {
        Expr::Cast { data_type, .. } => {
            use DataType::{Double, DoublePrecision, Float, Float4, Float8, Float64, Real};
            matches!(data_type, Double(_) | DoublePrecision | Float(_) | Float4 | Float8 | Float64 | Real)
        }
        Expr::UnaryOp { expr, .. } | Expr::Nested(expr) => is_float(expr),
        _ => false,
    }
}

fn number(expression: &Expr) -> Option<&str> {
    match expression {
        Expr::Value(value) => match &value.value {
            Value::Number(text, _) => Some(text),
            _ => None,
        },
        _ => None,
    }
}

/// Makes a double of a number. Everything else stays as it is.
fn as_double(expression: &mut Expr) {
    match expression {
        Expr::UnaryOp { expr, .. } | Expr::Nested(expr) => as_double(expr),
        Expr::Value(value) => {
            let Value::Number(text, _) = &value.value else { return };
            let text = Value::SingleQuotedString(text.replace('_', ""));
            *expression = Expr::Cast {
                kind: CastKind::Cast,
                expr: Box::new(Expr::value(text)),
                data_type: DataType::Double(ExactNumberInfo::None),
                array: false,
                format: None,
            };
        }
        _ => {}
    }
}
