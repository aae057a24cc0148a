//! Row comparisons, such as `(a, b) < (c, d)`.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, ObjectNamePart, UnaryOperator,
    Value, visit_expressions,
};
use thermocline_types::{Class, Error};

/// Limit on expression parts that a statement's row comparisons repeat.
const REPEATED_MAX: usize = 100_000;

/// Rewrites row comparisons to comparisons of columns. DataFusion compares rows as values, and NULL as one of them.
#[derive(Default)]
pub(super) struct RowComparisons {
    /// Number of repeated parts.
    repeated: usize,
}

impl RowComparisons {
    /// Replaces a comparison of rows by comparisons of columns, with SQL's NULL semantics.
    ///
    /// # Errors
    /// 42601 if the sides differ in length or one is not a row, 0A000 for unsupported operators, 54001 if more than 100
    /// 000 parts would be repeated.
    pub(super) fn rewrite(&mut self, expression: &mut Expr) -> Result<(), Error> {
        write_rows_out(expression);
        if let Some(compared) = self.compared(expression)? {
            *expression = Expr::Nested(Box::new(compared));
        }
        Ok(())
    }

    fn compared(&mut self, expression: &Expr) -> Result<Option<Expr>, Error> {
        use BinaryOperator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
        Ok(Some(match expression {
            Expr::BinaryOp { left, op: op @ (Eq | NotEq | Lt | LtEq | Gt | GtEq), right } => {
                let Some((left, right)) = rows(left, right)? else { return Ok(None) };
                self.by(op, left, right)?
            }
            Expr::BinaryOp { left, op, right }
                if !matches!(op, BinaryOperator::And | BinaryOperator::Or)
                    && (row(left).is_some() || row(right).is_some()) =>
            {
                return Err(Class::Unsupported.error(format_args!("operator {op} of rows is not supported")));
            }
            Expr::IsDistinctFrom(left, right) => {
                let Some((left, right)) = rows(left, right)? else { return Ok(None) };
                any(pairs(left, right, Expr::IsDistinctFrom))
            }
            Expr::IsNotDistinctFrom(left, right) => {
                let Some((left, right)) = rows(left, right)? else { return Ok(None) };
                all(pairs(left, right, Expr::IsNotDistinctFrom))
            }
            Expr::IsNull(of) => {
                let Some(row) = row(of) else { return Ok(None) };
                all(row.iter().map(|part| Expr::IsNull(Box::new(part.clone()))).collect())
            }
            Expr::IsNotNull(of) => {
                let Some(row) = row(of) else { return Ok(None) };
                all(row.iter().map(|part| Expr::IsNotNull(Box::new(part.clone()))).collect())
            }
            Expr::InList { expr, list, negated } => {
                if row(expr).is_none() && !list.iter().any(|one| row(one).is_some()) {
                    return Ok(None);
                }
                let mut equal = Vec::with_capacity(list.len());
                for one in list {
                    let Some((left, right)) = rows(expr, one)? else { return Ok(None) };
                    self.repeat(left)?;
                    equal.push(self.by(&Eq, left, right)?);
                }
                negate_if(*negated, any(equal))
            }
            Expr::Between { expr, negated, low, high } => {
                let (Some((of, low)), Some((_, high))) = (rows(expr, low)?, rows(expr, high)?) else {
                    return Ok(None);
                };
                self.repeat(of)?;
                let within = all(vec![self.by(&GtEq, of, low)?, self.by(&LtEq, of, high)?]);
                negate_if(*negated, within)
            }
            Expr::Case { operand: Some(operand), .. } if row(operand).is_some() => {
                return Err(Class::Unsupported.error("CASE of a row is not supported"));
            }
            _ => return Ok(None),
        }))
    }

    /// Compares two rows of equal length.
    fn by(&mut self, op: &BinaryOperator, left: &[Expr], right: &[Expr]) -> Result<Expr, Error> {
        let strict = match op {
            BinaryOperator::NotEq => return Ok(any(pairs(left, right, |left, right| binary(left, op, right)))),
            BinaryOperator::Lt | BinaryOperator::LtEq => BinaryOperator::Lt,
            BinaryOperator::Gt | BinaryOperator::GtEq => BinaryOperator::Gt,
            _ => return Ok(all(pairs(left, right, |left, right| binary(left, op, right)))),
        };
        self.repeat(left)?;
        self.repeat(right)?;
        // Built from the last column, which keeps the original operator: a < c OR (a = c AND (b < d OR ...)).
        let mut compared = None;
        for (left, right) in left.iter().zip(right).rev() {
            let of = |op: &BinaryOperator| binary(Box::new(left.clone()), op, Box::new(right.clone()));
            compared = Some(match compared {
                None => of(op),
                Some(rest) => any(vec![of(&strict), all(vec![of(&BinaryOperator::Eq), rest])]),
            });
        }
        Ok(compared.unwrap_or_else(|| truth(true)))
    }

    fn repeat(&mut self, row: &[Expr]) -> Result<(), Error> {
        for part in row {
            let _: ControlFlow<()> = visit_expressions(part, |_| {
                self.repeated += 1;
                ControlFlow::Continue(())
            });
        }
        match self.repeated {
            ..=REPEATED_MAX => Ok(()),
            _ => Err(Class::TooDeep.error("rows that are compared within each other, or too often")),
        }
    }
}

/// Replaces `ROW(a, b)` by `(a, b)` on the sides of a possible comparison.
fn write_rows_out(expression: &mut Expr) {
    match expression {
        Expr::BinaryOp { left, right, .. }
        | Expr::IsDistinctFrom(left, right)
        | Expr::IsNotDistinctFrom(left, right) => {
            write_row_out(left);
            write_row_out(right);
        }
        Expr::IsNull(of) | Expr::IsNotNull(of) => write_row_out(of),
        Expr::InList { expr, list, .. } => {
            write_row_out(expr);
            list.iter_mut().for_each(write_row_out);
        }
        Expr::Between { expr, low, high, .. } => [expr, low, high].into_iter().for_each(|of| write_row_out(of)),
        Expr::Case { operand: Some(operand), .. } => write_row_out(operand),
        _ => {}
    }
}

fn write_row_out(mut expression: &mut Expr) {
    while let Expr::Nested(inner) = expression {
        expression = inner;
    }
    let Expr::Function(Function { name, args: FunctionArguments::List(list), .. }) = expression else { return };
    let [ObjectNamePart::Identifier(name)] = name.0.as_slice() else { return };
    let is_row = name.quote_style.is_none() && name.value.eq_ignore_ascii_case("row");
    if !is_row || list.duplicate_treatment.is_some() || !list.clauses.is_empty() {
        return;
    }
    let columns = list.args.iter().map(|argument| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(column)) => Some(column.clone()),
        _ => None,
    });
    if let Some(columns) = columns.collect() {
        *expression = Expr::Tuple(columns);
    }
}

/// The columns of a row expression.
fn row(mut expression: &Expr) -> Option<&[Expr]> {
    while let Expr::Nested(inner) = expression {
        expression = inner;
    }
    match expression {
        Expr::Tuple(columns) => Some(columns),
        _ => None,
    }
}

/// The columns of two rows.
type Sides<'e> = (&'e [Expr], &'e [Expr]);

/// Both sides as rows; `None` if neither is a row.
fn rows<'e>(left: &'e Expr, right: &'e Expr) -> Result<Option<Sides<'e>>, Error> {
    match (row(left), row(right)) {
        (None, None) => Ok(None),
        (Some(left), Some(right)) if left.len() == right.len() => {
            match left.iter().chain(right).any(|part| row(part).is_some()) {
                true => Err(Class::Unsupported.error("rows within rows are not supported")),
                false => Ok(Some((left, right))),
            }
        }
        (Some(_), Some(_)) => Err(Class::Syntax.error("unequal number of entries in row expressions")),
        _ => Err(Class::Unsupported.error("comparison of a row with what is not written out as one is not supported")),
    }
}

fn pairs(left: &[Expr], right: &[Expr], compared: impl Fn(Box<Expr>, Box<Expr>) -> Expr) -> Vec<Expr> {
    let pairs = left.iter().zip(right);
    pairs.map(|(left, right)| compared(Box::new(left.clone()), Box::new(right.clone()))).collect()
}

fn binary(left: Box<Expr>, op: &BinaryOperator, right: Box<Expr>) -> Expr {
    Expr::BinaryOp { left, op: op.clone(), right }
}

fn all(of: Vec<Expr>) -> Expr {
    joined(of, &BinaryOperator::And, true)
}

fn any(of: Vec<Expr>) -> Expr {
    joined(of, &BinaryOperator::Or, false)
}

/// Joins conditions in a balanced tree with parentheses; returns `of_none` without conditions.
fn joined(mut of: Vec<Expr>, op: &BinaryOperator, of_none: bool) -> Expr {
    while of.len() > 1 {
        let mut halved = Vec::with_capacity(of.len().div_ceil(2));
        let mut parts = of.into_iter();
        while let Some(left) = parts.next() {
            halved.push(match parts.next() {
                Some(right) => Expr::Nested(Box::new(binary(Box::new(left), op, Box::new(right)))),
                None => left,
            });
        }
        of = halved;
    }
    of.pop().unwrap_or_else(|| truth(of_none))
}

fn negate_if(is_negated: bool, of: Expr) -> Expr {
    match is_negated {
        true => Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(Expr::Nested(Box::new(of))) },
        false => of,
    }
}

fn truth(value: bool) -> Expr {
    Expr::value(Value::Boolean(value))
}
