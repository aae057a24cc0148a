//! Binding of operators and other forms of expressions.

use sqlparser::ast::{self, BinaryOperator, CastKind, CeilFloorKind, TrimWhereField, UnaryOperator};
use thermocline_types::{
    self as types, Class, DataType, Error, JsonOperator, Operator, Resolved, Result, Value, wider_integer,
};

use super::literal::interval;
use super::{Binder, REPEATED_MAX, Typed};
use crate::data_type::data_type;
use crate::expression::{Comparison, Environment, Expr, Frame, Function, Like, Pattern};
use crate::names::fold;

impl Binder<'_> {
    /// Binds an operand once more: CASE and BETWEEN repeat their operand in each comparison. Nested, they would double
    /// the expression with every level, so repeated parts are counted.
    fn again(&mut self, operand: &ast::Expr) -> Result<Typed> {
        let was = std::mem::replace(&mut self.repeated.1, true);
        let bound = self.expression(operand);
        self.repeated.1 = was;
        bound
    }

    pub fn expression(&mut self, ast: &ast::Expr) -> Result<Typed> {
        if self.repeated.1 {
            self.repeated.0 += 1;
            if self.repeated.0 > REPEATED_MAX {
                let message = "operands of CASE and BETWEEN within each other, which are compared too often";
                return Err(Class::TooDeep.error(message));
            }
        }
        match ast {
            ast::Expr::Identifier(name) => self.column(None, &fold(name)?),
            ast::Expr::CompoundIdentifier(parts) => match parts.as_slice() {
                [table, column] => self.column(Some(&*fold(table)?), &fold(column)?),
                _ => Err(Error::unsupported(ast)),
            },
            ast::Expr::Value(value) => self.literal(&value.value),
            ast::Expr::TypedString(typed) => self.typed_string(typed),
            ast::Expr::Nested(inner) => self.expression(inner),
            ast::Expr::BinaryOp { left, op, right } => self.binary(left, op, right),
            ast::Expr::UnaryOp { op, expr } => self.unary(*op, expr),
            ast::Expr::IsNull(inner) => self.is_null(inner),
            ast::Expr::IsNotNull(inner) => self.is_null(inner).map(negated),
            ast::Expr::IsTrue(inner) => self.is(true, inner),
            ast::Expr::IsNotTrue(inner) => self.is(true, inner).map(negated),
            ast::Expr::IsFalse(inner) => self.is(false, inner),
            ast::Expr::IsNotFalse(inner) => self.is(false, inner).map(negated),
            ast::Expr::IsUnknown(inner) => self.is_unknown(inner),
            ast::Expr::IsNotUnknown(inner) => self.is_unknown(inner).map(negated),
            ast::Expr::Interval(written) => interval(written),
            ast::Expr::IsNotDistinctFrom(left, right) => self.same(left, right),
            ast::Expr::IsDistinctFrom(left, right) => self.same(left, right).map(negated),
            ast::Expr::InList { expr, list, negated: not } => self.in_list(expr, list).map(|it| negate_if(*not, it)),
            ast::Expr::Between { expr, negated: not, low, high } => {
                self.between(expr, low, high).map(|it| negate_if(*not, it))
            }
            ast::Expr::Like { negated: not, any: false, expr, pattern, escape_char } => {
                self.like(expr, pattern, escape_char.as_ref(), false).map(|it| negate_if(*not, it))
            }
            ast::Expr::ILike { negated: not, any: false, expr, pattern, escape_char } => {
                self.like(expr, pattern, escape_char.as_ref(), true).map(|it| negate_if(*not, it))
            }
            ast::Expr::Cast {
                kind: CastKind::Cast | CastKind::DoubleColon,
                expr,
                data_type,
                array: false,
                format: None,
            } => self.cast(expr, data_type),
            ast::Expr::Case { operand, conditions, else_result, .. } => {
                self.case(operand.as_deref(), conditions, else_result.as_deref())
            }
            ast::Expr::Function(function) => self.function(function),
            _ => self.function_form(ast),
        }
    }

    /// Functions with a syntax of their own.
    fn function_form(&mut self, ast: &ast::Expr) -> Result<Typed> {
        match ast {
            ast::Expr::Extract { field, expr, .. } => self.extract(field, expr),
            ast::Expr::Ceil { expr, field: CeilFloorKind::DateTimeField(ast::DateTimeField::NoDateTime) } => {
                self.call(Function::Of(types::Function::Ceiling), &[expr])
            }
            ast::Expr::Floor { expr, field: CeilFloorKind::DateTimeField(ast::DateTimeField::NoDateTime) } => {
                self.call(Function::Of(types::Function::Floor), &[expr])
            }
            ast::Expr::AtTimeZone { timestamp, time_zone } => {
                self.call(Function::Of(types::Function::AtTimeZone), &[time_zone, timestamp])
            }
            ast::Expr::Position { expr, r#in } => self.call(Function::Position, &[r#in, expr]),
            ast::Expr::Substring { expr, substring_from, substring_for, .. } => {
                let one = ast::Expr::value(ast::Value::Number("1".to_owned(), false));
                let from = substring_from.as_deref().unwrap_or(&one);
                match substring_for {
                    Some(length) => self.call(Function::Substring, &[expr, from, length]),
                    None => self.call(Function::Substring, &[expr, from]),
                }
            }
            ast::Expr::Trim { trim_where, trim_what, expr, trim_characters: None } => {
                let function = match trim_where {
                    None | Some(TrimWhereField::Both) => Function::Trim,
                    Some(TrimWhereField::Leading) => Function::TrimLeft,
                    Some(TrimWhereField::Trailing) => Function::TrimRight,
                };
                match trim_what {
                    Some(what) => self.call(function, &[expr, what]),
                    None => self.call(function, &[expr]),
                }
            }
            other => Err(Error::unsupported(other)),
        }
    }

    fn binary(&mut self, left: &ast::Expr, operator: &BinaryOperator, right: &ast::Expr) -> Result<Typed> {
        let comparison = |comparison| Ok::<_, Error>(comparison);
        let comparison = match operator {
            BinaryOperator::And => return self.logic(left, right, true),
            BinaryOperator::Or => return self.logic(left, right, false),
            BinaryOperator::Eq => comparison(Comparison::Equal),
            BinaryOperator::NotEq => comparison(Comparison::NotEqual),
            BinaryOperator::Lt => comparison(Comparison::Less),
            BinaryOperator::LtEq => comparison(Comparison::LessOrEqual),
            BinaryOperator::Gt => comparison(Comparison::Greater),
            BinaryOperator::GtEq => comparison(Comparison::GreaterOrEqual),
            BinaryOperator::Plus => return self.arithmetic(left, Operator::Add, right),
            BinaryOperator::Minus => return self.arithmetic(left, Operator::Subtract, right),
            BinaryOperator::Multiply => return self.arithmetic(left, Operator::Multiply, right),
            BinaryOperator::Divide => return self.arithmetic(left, Operator::Divide, right),
            BinaryOperator::Modulo => return self.arithmetic(left, Operator::Remainder, right),
            BinaryOperator::StringConcat => return self.arithmetic(left, Operator::Concatenate, right),
            BinaryOperator::PGExp | BinaryOperator::BitwiseXor => {
                return self.arithmetic(left, Operator::Power, right);
            }
            BinaryOperator::Arrow => return self.json(left, JsonOperator::Part, right),
            BinaryOperator::LongArrow => return self.json(left, JsonOperator::PartText, right),
            BinaryOperator::HashArrow => return self.json(left, JsonOperator::Path, right),
            BinaryOperator::HashLongArrow => return self.json(left, JsonOperator::PathText, right),
            BinaryOperator::AtArrow => return self.json(left, JsonOperator::Contains, right),
            BinaryOperator::ArrowAt => return self.json(left, JsonOperator::Contained, right),
            BinaryOperator::Question => return self.json(left, JsonOperator::Exists, right),
            BinaryOperator::QuestionPipe => return self.json(left, JsonOperator::ExistsAny, right),
            BinaryOperator::QuestionAnd => return self.json(left, JsonOperator::ExistsAll, right),
            other => Err(Error::unsupported(format_args!("operator {other}"))),
        }?;
        let (left, right) = (self.expression(left)?, self.expression(right)?);
        self.compare(comparison, left, right)
    }

    fn json(&mut self, left: &ast::Expr, operator: JsonOperator, right: &ast::Expr) -> Result<Typed> {
        let sides = vec![self.expression(left)?, self.expression(right)?];
        let [left, right] = [0, 1].map(|side| sides.get(side).and_then(Typed::operand_type));
        let function = operator.resolve(left, right)?;
        self.call_of(Function::Of(function), sides)
    }

    fn compare(&mut self, comparison: Comparison, left: Typed, right: Typed) -> Result<Typed> {
        let (left, right) = self.comparable(left, right, comparison.symbol())?;
        Ok(Typed::new(Expr::Compare(comparison, Box::new([left.expr, right.expr])), DataType::Boolean))
    }

    /// Settles two expressions that are compared, and refuses types that do not compare.
    fn comparable(&mut self, left: Typed, right: Typed, symbol: &str) -> Result<(Typed, Typed)> {
        let (left, right) = self.settle_pair(left, right, DataType::Text)?;
        let (one, other) = (left.type_or_text(), right.type_or_text());
        if !one.assigns_to(other) {
            return Err(Class::UndefinedFunction.error(format_args!("operator does not exist: {one} {symbol} {other}")));
        }
        if one == other || !(one.is_float() || other.is_float()) {
            return Ok((left, right));
        }
        Ok((as_float(left), as_float(right)))
    }

    /// Gives an expression of unknown type the type of the other, and `otherwise` to both if neither has a type.
    fn settle_pair(&mut self, left: Typed, right: Typed, otherwise: DataType) -> Result<(Typed, Typed)> {
        let data_type = left.data_type.or(right.data_type).unwrap_or(otherwise);
        let left = self.settle(left, data_type)?;
        // Beside a decimal, a literal or parameter becomes a decimal; beside an integer it may become one.
        Ok((left, self.settle(right, data_type)?))
    }

    /// Flattens chains of AND or OR into one list.
    fn logic(&mut self, left: &ast::Expr, right: &ast::Expr, and: bool) -> Result<Typed> {
        let clause = if and { "AND" } else { "OR" };
        let mut terms = Vec::new();
        for side in [left, right] {
            match (self.condition(side, clause)?, and) {
                (Expr::And(inner), true) | (Expr::Or(inner), false) => terms.extend(inner),
                (other, _) => terms.push(other),
            }
        }
        Ok(Typed::new(if and { Expr::And(terms) } else { Expr::Or(terms) }, DataType::Boolean))
    }

    fn unary(&mut self, operator: UnaryOperator, inner: &ast::Expr) -> Result<Typed> {
        match operator {
            UnaryOperator::Not => Ok(Typed::new(Expr::Not(Box::new(self.condition(inner, "NOT")?)), DataType::Boolean)),
            UnaryOperator::Minus if is_power(inner) => {
                // Unary minus binds more tightly than `^`.
                let ast::Expr::BinaryOp { left, op, right } = inner else { return Err(Error::unsupported(inner)) };
                let left = ast::Expr::UnaryOp { op: operator, expr: left.clone() };
                self.binary(&left, op, right)
            }
            UnaryOperator::Plus | UnaryOperator::Minus => {
                // The smallest integer is not the negation of an integer.
                if let (UnaryOperator::Minus, ast::Expr::Value(value)) = (operator, inner)
                    && let ast::Value::Number(digits, _) = &value.value
                {
                    return self.literal(&ast::Value::Number(format!("-{digits}"), false));
                }
                let typed = self.expression(inner)?;
                let typed = self.settle(typed, DataType::BigInt)?;
                let data_type = typed.type_or_text();
                let is_span = operator == UnaryOperator::Minus && data_type == DataType::Interval;
                if !data_type.is_number() && !is_span {
                    let message = format!("operator does not exist: {operator} {data_type}");
                    return Err(Class::UndefinedFunction.error(message));
                }
                match operator {
                    UnaryOperator::Plus => Ok(typed),
                    _ => Ok(in_range(Expr::Negate(Box::new(typed.expr)), data_type.unbounded())),
                }
            }
            other => Err(Error::unsupported(format_args!("operator {other}"))),
        }
    }

    fn arithmetic(&mut self, left: &ast::Expr, operator: Operator, right: &ast::Expr) -> Result<Typed> {
        let (left, right) = (self.expression(left)?, self.expression(right)?);
        let types = [left.operand_type(), right.operand_type()];
        let [one, other] = types;
        let Resolved { left: one, right: other, result } = operator.resolve(one, other)?;
        let mut sides = [(left, one), (right, other)].map(|(side, to)| {
            let side = self.settle(side, to)?;
            // The operand of `||` that is not text is cast to text.
            let is_cast = operator == Operator::Concatenate && !side.type_or_text().is_like(to);
            Ok(if is_cast { Expr::Cast(Box::new(side.expr), to) } else { side.expr })
        });
        let [left, right] = sides.each_mut().map(|side| std::mem::replace(side, Ok(Expr::Literal(Value::Null))));
        Ok(in_range(Expr::Arithmetic(operator, Box::new([left?, right?])), result))
    }

    fn is_null(&mut self, inner: &ast::Expr) -> Result<Typed> {
        let typed = self.expression(inner)?;
        Ok(Typed::new(Expr::IsNull(Box::new(typed.expr)), DataType::Boolean))
    }

    fn is_unknown(&mut self, inner: &ast::Expr) -> Result<Typed> {
        Ok(Typed::new(Expr::IsNull(Box::new(self.condition(inner, "IS UNKNOWN")?)), DataType::Boolean))
    }

    fn is(&mut self, expected: bool, inner: &ast::Expr) -> Result<Typed> {
        Ok(Typed::new(Expr::Is(expected, Box::new(self.condition(inner, "IS")?)), DataType::Boolean))
    }

    fn same(&mut self, left: &ast::Expr, right: &ast::Expr) -> Result<Typed> {
        let (left, right) = (self.expression(left)?, self.expression(right)?);
        let (left, right) = self.comparable(left, right, "=")?;
        Ok(Typed::new(Expr::Same(Box::new([left.expr, right.expr])), DataType::Boolean))
    }

    fn in_list(&mut self, value: &ast::Expr, list: &[ast::Expr]) -> Result<Typed> {
        let mut value = self.expression(value)?;
        let list: Vec<Typed> = list.iter().map(|item| self.expression(item)).collect::<Result<_>>()?;
        // A value without a type takes the type of the first item that has one.
        if let Some(data_type) = value.data_type.or_else(|| list.iter().find_map(|item| item.data_type)) {
            value = self.settle(value, data_type)?;
        }
        let (constants, others): (Vec<_>, Vec<_>) = list.iter().partition(|item| item.expr.is_constant());
        if constants.len() > 1 && is_common_type_real(constants.iter().copied().chain([&value])) {
            return self.in_reals(value, constants, others);
        }
        let mut items = Vec::with_capacity(list.len());
        for item in list {
            let (settled, item) = self.comparable(value, item, "=")?;
            value = settled;
            items.push(item);
        }
        if value.data_type == Some(DataType::Double) {
            // Includes the items before the one that made the value a float.
            items = items.into_iter().map(as_float).collect();
        }
        let mut items: Vec<Expr> = items.into_iter().map(|item| item.expr).collect();
        let expr = match items.pop() {
            Some(only) if items.is_empty() => Expr::Compare(Comparison::Equal, Box::new([value.expr, only])),
            last => Expr::In(Box::new(value.expr), items.into_iter().chain(last).collect()),
        };
        Ok(Typed::new(expr, DataType::Boolean))
    }

    /// IN whose constants are cast to REAL like the value; other items are compared with the value one by one.
    fn in_reals(&mut self, value: Typed, constants: Vec<&Typed>, others: Vec<&Typed>) -> Result<Typed> {
        let constants = constants.into_iter().map(|item| {
            let item = self.settle(item.clone(), DataType::Real)?;
            Ok(as_type(item, DataType::Real).expr)
        });
        let constants = constants.collect::<Result<_>>()?;
        let mut terms = vec![Expr::In(Box::new(as_type(value.clone(), DataType::Real).expr), constants)];
        for item in others {
            terms.push(self.compare(Comparison::Equal, value.clone(), item.clone())?.expr);
        }
        let expr = match terms.pop() {
            Some(only) if terms.is_empty() => only,
            last => Expr::Or(terms.into_iter().chain(last).collect()),
        };
        Ok(Typed::new(expr, DataType::Boolean))
    }

    /// Binds BETWEEN as two comparisons, so that either can bound an index range.
    fn between(&mut self, ast: &ast::Expr, low: &ast::Expr, high: &ast::Expr) -> Result<Typed> {
        let value = self.expression(ast)?;
        let (low, high) = (self.expression(low)?, self.expression(high)?);
        let data_type = value.data_type.or(low.data_type).or(high.data_type).unwrap_or(DataType::Text);
        let value = self.settle(value, data_type)?;
        let again = self.again(ast)?;
        let again = self.settle(again, data_type)?;
        let from = self.compare(Comparison::GreaterOrEqual, value, low)?;
        let to = self.compare(Comparison::LessOrEqual, again, high)?;
        Ok(Typed::new(Expr::And(vec![from.expr, to.expr]), DataType::Boolean))
    }

    fn like(
        &mut self,
        value: &ast::Expr,
        pattern: &ast::Expr,
        escape: Option<&ast::ValueWithSpan>,
        ignore_case: bool,
    ) -> Result<Typed> {
        let (value, pattern) = (self.expression(value)?, self.expression(pattern)?);
        let (value, pattern) = (self.settle(value, DataType::Text)?, self.settle(pattern, DataType::Text)?);
        if !value.type_or_text().is_text() || !pattern.type_or_text().is_text() {
            let (one, other) = (value.type_or_text(), pattern.type_or_text());
            if one == DataType::Bytea {
                return Err(Error::unsupported("LIKE of bytes"));
            }
            return Err(Class::UndefinedFunction.error(format_args!("operator does not exist: {one} LIKE {other}")));
        }
        let escape = match escape.map(|escape| escape.value.clone().into_string()) {
            None => Some('\\'),
            Some(Some(text)) if text.chars().count() <= 1 => text.chars().next(),
            Some(_) => return Err(Class::InvalidEscape.error("invalid escape string: it is empty or one character")),
        };
        let parsed = match &pattern.expr {
            Expr::Literal(Value::Text(text)) => {
                self.add_bytes(Pattern::bytes_of(text))?;
                Some(Pattern::parse(text, escape, ignore_case)?)
            }
            _ => None,
        };
        let like = Like { value: value.expr, pattern: pattern.expr, parsed, escape, ignore_case };
        Ok(Typed::new(Expr::Like(Box::new(like)), DataType::Boolean))
    }

    fn cast(&mut self, inner: &ast::Expr, written: &ast::DataType) -> Result<Typed> {
        let to = data_type(written)?;
        let inner = self.expression(inner)?;
        let inner = match inner.expr {
            // The cast truncates a text to VARCHAR(n), so its operand must not have that type yet.
            Expr::Parameter(_) => self.settle(inner, to)?,
            _ => inner,
        };
        let from = inner.type_or_text();
        if inner.data_type.is_some() && !from.casts_to(to) {
            return Err(Class::CannotCoerce.error(format_args!("cannot cast type {from} to {to}")));
        }
        Ok(folded(Typed::new(Expr::Cast(Box::new(inner.expr), to), to)))
    }

    fn case(
        &mut self,
        operand: Option<&ast::Expr>,
        conditions: &[ast::CaseWhen],
        otherwise: Option<&ast::Expr>,
    ) -> Result<Typed> {
        let mut tests = Vec::with_capacity(conditions.len());
        let mut results = Vec::with_capacity(conditions.len() + 1);
        for (position, branch) in conditions.iter().enumerate() {
            tests.push(match operand {
                None => self.condition(&branch.condition, "CASE/WHEN")?,
                Some(operand) => {
                    let operand = if position == 0 { self.expression(operand)? } else { self.again(operand)? };
                    let value = self.expression(&branch.condition)?;
                    self.compare(Comparison::Equal, operand, value)?.expr
                }
            });
            results.push(self.expression(&branch.result)?);
        }
        results.push(match otherwise {
            Some(otherwise) => self.expression(otherwise)?,
            None => Typed { expr: Expr::Literal(Value::Null), data_type: None },
        });
        let (mut results, data_type) = self.alike(results, "CASE")?;
        let otherwise = results.pop().unwrap_or(Expr::Literal(Value::Null));
        Ok(Typed { expr: Expr::Case(tests.into_iter().zip(results).collect(), Box::new(otherwise)), data_type })
    }

    /// Casts alternative expressions, one of which becomes the value, to a common type.
    pub fn alike(&mut self, typed: Vec<Typed>, what: &str) -> Result<(Vec<Expr>, Option<DataType>)> {
        let mut common: Option<DataType> = None;
        let is_unknown = |typed: &Typed| typed.data_type.is_none() && !matches!(typed.expr, Expr::Literal(Value::Null));
        let has_unknown = typed.iter().any(is_unknown);
        for data_type in typed.iter().filter_map(|typed| typed.data_type) {
            common = Some(match common {
                // A literal or a parameter may have more digits than the column.
                None if data_type.is_decimal() && has_unknown => DataType::Numeric,
                None => data_type,
                Some(known) => common_type(known, data_type).ok_or_else(|| {
                    Class::TypeMismatch.error(format_args!("{what} types {known} and {data_type} cannot be matched"))
                })?,
            });
        }
        let mut exprs = Vec::with_capacity(typed.len());
        for item in typed {
            let own = item.data_type;
            let item = match common {
                Some(common) => self.settle(item, common)?,
                None => item,
            };
            exprs.push(match (own, common) {
                // All values of a column are of one kind.
                (Some(own), Some(common)) if !own.is_like(common) => folded_cast(item.expr, common),
                _ => item.expr,
            });
        }
        Ok((exprs, common))
    }
}

/// The common type of both; `None` if there is none.
fn common_type(one: DataType, other: DataType) -> Option<DataType> {
    Some(match (one, other) {
        _ if one == other => one,
        _ if one.is_integer() && other.is_integer() => wider_integer(one, other),
        _ if one.is_text() && other.is_text() => DataType::Text,
        (DataType::Double, number) | (number, DataType::Double) if number.is_number() => DataType::Double,
        (DataType::Real, number) | (number, DataType::Real) if number.is_number() => DataType::Real,
        _ if one.is_number() && other.is_number() => DataType::Numeric,
        (DataType::Date, DataType::Timestamp) | (DataType::Timestamp, DataType::Date) => DataType::Timestamp,
        _ if one.is_moment() && other.is_moment() => DataType::TimestampTz,
        _ => return None,
    })
}

/// A computed value, with a range check if it is SMALLINT or INTEGER.
pub fn in_range(expr: Expr, result: DataType) -> Typed {
    let is_narrow = matches!(result, DataType::SmallInt | DataType::Integer);
    folded(Typed::new(if is_narrow { Expr::Cast(Box::new(expr), result) } else { expr }, result))
}

fn is_power(expr: &ast::Expr) -> bool {
    matches!(expr, ast::Expr::BinaryOp { op: BinaryOperator::PGExp | BinaryOperator::BitwiseXor, .. })
}

/// Casts a number that is compared with a float to a float. Floats are ordered differently from exact numbers, so an
/// index on a column cannot serve its comparison with a float.
fn as_float(typed: Typed) -> Typed {
    as_type(typed, DataType::Double)
}

fn as_type(typed: Typed, data_type: DataType) -> Typed {
    match typed.data_type {
        Some(same) if same == data_type => typed,
        _ => Typed::new(folded_cast(typed.expr, data_type), data_type),
    }
}

/// Whether REALs and exact numbers, and nothing else, meet, so that their common type is REAL. Untyped values are
/// ignored.
fn is_common_type_real<'a>(values: impl Iterator<Item = &'a Typed>) -> bool {
    let (mut reals, mut exact) = (false, false);
    for data_type in values.filter_map(|value| value.data_type) {
        match data_type {
            DataType::Real => reals = true,
            other if other.is_integer() || other.is_decimal() => exact = true,
            _ => return false,
        }
    }
    reals && exact
}

fn negated(typed: Typed) -> Typed {
    Typed::new(Expr::Not(Box::new(typed.expr)), DataType::Boolean)
}

fn negate_if(not: bool, typed: Typed) -> Typed {
    if not { negated(typed) } else { typed }
}

pub fn folded_cast(expr: Expr, to: DataType) -> Expr {
    folded(Typed::new(Expr::Cast(Box::new(expr), to), to)).expr
}

/// Folds arithmetic and casts of literals. Errors are left to evaluation, which may never happen.
fn folded(mut typed: Typed) -> Typed {
    let mut literal = true;
    typed.expr.walk(&mut |part| {
        literal &= matches!(part, Expr::Literal(_) | Expr::Negate(_) | Expr::Arithmetic(..) | Expr::Cast(..));
    });
    if literal {
        let environment = Environment::new(0, 0, 0);
        let value =
            typed.expr.evaluate(&Frame::new(&[], &environment)).and_then(|value| value.into_value(&environment));
        if let Ok(value) = value {
            typed.expr = Expr::Literal(value);
        }
    }
    typed
}
