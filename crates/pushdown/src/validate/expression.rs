//! Expressions on the wire.

use datafusion_proto::protobuf;
use datafusion_proto::protobuf::physical_expr_node::ExprType;
use datafusion_proto_common::protobuf_common::scalar_value::Value;

use super::Limits;
use super::functions::{Growth, growth_of, is_operator};
use super::literal::check_literal;
use super::types::check_type;

/// Bytes that each character of a format may become.
const FORMATTED_BYTES: u64 = 16;
/// Operands of a concatenation that a function which doubles a text counts as.
const MULTIPLIED_OPERANDS: u64 = 16;
/// Bytes of a pattern.
const PATTERN_BYTES_MAX: usize = 4 << 10;
/// Regular expressions of a fragment, each of which may become an automaton of ten MiB, which is
/// where its compiler stops. Patterns of LIKE have no counted repetitions and stay small.
const REGEX_MAX: usize = 16;

/// Checks all expressions of a fragment, which share some limits.
pub(super) struct ExpressionCheck<'a> {
    limits: &'a Limits,
    expressions: usize,
    row_bytes: u64,
    concatenated: u64,
    regexes: usize,
}

/// Whether a literal at this place becomes a column. Comparisons take it as it is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// It does.
    Column,
    /// It does not.
    Operand,
}

type Checked<T = ()> = Result<T, String>;

impl<'a> ExpressionCheck<'a> {
    pub(super) fn new(limits: &'a Limits) -> Self {
        Self { limits, expressions: 0, row_bytes: 0, concatenated: 0, regexes: 0 }
    }

    /// Adds to what one row may take.
    pub(super) fn add_row_bytes(&mut self, bytes: u64) -> Checked {
        self.row_bytes = self.row_bytes.saturating_add(bytes);
        let limit = self.limits.row_bytes_max;
        if self.row_bytes <= limit {
            return Ok(());
        }
        Err(format!("a row would grow by {} bytes, the limit is {limit}", self.row_bytes))
    }

    /// Checks an expression over `columns` columns.
    pub(super) fn check(
        &mut self,
        expression: Option<&protobuf::PhysicalExprNode>,
        columns: usize,
        place: Place,
    ) -> Checked {
        let bytes = self.walk(expression, columns, place, self.limits.expression_depth_max)?;
        self.add_row_bytes(bytes)
    }

    /// Returns the bytes that a row of the expression adds. `depth` levels are left.
    fn walk(
        &mut self,
        expression: Option<&protobuf::PhysicalExprNode>,
        columns: usize,
        place: Place,
        depth: usize,
    ) -> Checked<u64> {
        self.expressions += 1;
        if self.expressions > self.limits.expressions_max {
            return Err(format!("the fragment has more than {} expressions", self.limits.expressions_max));
        }
        let Some(depth) = depth.checked_sub(1) else {
            return Err(format!("an expression is nested deeper than {} levels", self.limits.expression_depth_max));
        };
        let kind = expression.and_then(|expression| expression.expr_type.as_ref());
        let kind = kind.ok_or("an expression is missing or unknown")?;
        match kind {
            ExprType::Column(column) if (column.index as usize) < columns => Ok(0),
            ExprType::Column(column) => {
                Err(format!("column {} at position {} is not among the {columns}", column.name, column.index))
            }
            ExprType::Literal(literal) => {
                let bytes = check_literal(literal, self.limits.literal_bytes_max)?;
                Ok(if place == Place::Column { bytes } else { 0 })
            }
            ExprType::BinaryExpr(binary) => self.binary(binary, columns, depth),
            ExprType::IsNullExpr(is) => self.walk(is.expr.as_deref(), columns, Place::Operand, depth),
            ExprType::IsNotNullExpr(is) => self.walk(is.expr.as_deref(), columns, Place::Operand, depth),
            ExprType::NotExpr(not) => self.walk(not.expr.as_deref(), columns, place, depth),
            ExprType::Negative(negative) => self.walk(negative.expr.as_deref(), columns, place, depth),
            ExprType::Cast(cast) => {
                let bytes = check_type(cast.arrow_type.as_ref())?;
                Ok(self.walk(cast.expr.as_deref(), columns, place, depth)?.saturating_add(bytes))
            }
            ExprType::TryCast(cast) => {
                let bytes = check_type(cast.arrow_type.as_ref())?;
                Ok(self.walk(cast.expr.as_deref(), columns, place, depth)?.saturating_add(bytes))
            }
            ExprType::InList(list) => {
                let mut bytes = self.walk(list.expr.as_deref(), columns, Place::Operand, depth)?;
                for value in &list.list {
                    bytes = bytes.saturating_add(self.walk(Some(value), columns, Place::Operand, depth)?);
                }
                Ok(bytes)
            }
            ExprType::LikeExpr(like) => {
                pattern_text(like.pattern.as_deref())?;
                let text = self.walk(like.expr.as_deref(), columns, Place::Operand, depth)?;
                Ok(text.saturating_add(self.walk(like.pattern.as_deref(), columns, Place::Operand, depth)?))
            }
            ExprType::Case(case) => self.case(case, columns, depth),
            ExprType::ScalarUdf(call) => self.call(call, columns, depth),
            ExprType::Extension(extension) => {
                let mut bytes = 0_u64;
                for input in &extension.inputs {
                    bytes = bytes.saturating_add(self.walk(Some(input), columns, Place::Column, depth)?);
                }
                Ok(bytes)
            }
            ExprType::AggregateExpr(_) => Err("an aggregate stands within an expression".into()),
            ExprType::Sort(_) => Err("a sort order stands within an expression".into()),
            ExprType::WindowExpr(_) => Err("window functions need more rows than a partition's".into()),
            ExprType::UnknownColumn(column) => Err(format!("column {} is not known", column.name)),
            ExprType::HashExpr(_) | ExprType::RangeExpr(_) => Err("hash and range partitioning".into()),
            ExprType::ScalarSubquery(_) => Err("a sub-query reads other tables".into()),
            ExprType::DynamicFilter(_) => Err("a dynamic filter travels as its current value".into()),
            ExprType::HigherOrderUdf(_) | ExprType::Lambda(_) | ExprType::LambdaVariable(_) => {
                Err("functions of functions do not run at storage".into())
            }
        }
    }

    fn binary(&mut self, binary: &protobuf::PhysicalBinaryExprNode, columns: usize, depth: usize) -> Checked<u64> {
        if !is_operator(&binary.op) {
            return Err(format!("operator '{}' does not run at storage", binary.op));
        }
        let operands: Vec<_> = match binary.operands.as_slice() {
            [] => vec![binary.l.as_deref(), binary.r.as_deref()],
            [_] => return Err(format!("operator {} has one operand", binary.op)),
            operands => operands.iter().map(Some).collect(),
        };
        let place = match binary.op.as_str() {
            "StringConcat" => {
                self.concatenate(operands.len() as u64)?;
                Place::Column
            }
            op if op.starts_with("Regex") => {
                operands.iter().skip(1).try_for_each(|pattern| self.regex(*pattern))?;
                Place::Operand
            }
            op if op.ends_with("LikeMatch") => {
                operands.iter().skip(1).try_for_each(|pattern| pattern_text(*pattern))?;
                Place::Operand
            }
            _ => Place::Operand,
        };
        // Operands of a chain become a tree that leans to the left: the first two are the deepest.
        let mut bytes = 0_u64;
        let count = operands.len();
        for (position, operand) in operands.into_iter().enumerate() {
            let above = if position == 0 { count - 2 } else { count - 1 - position };
            let below = depth.saturating_sub(above);
            bytes = bytes.saturating_add(self.walk(operand, columns, place, below)?);
        }
        Ok(bytes)
    }

    /// Counts the widest branch: only one makes a row.
    fn case(&mut self, case: &protobuf::PhysicalCaseNode, columns: usize, depth: usize) -> Checked<u64> {
        let mut bytes = match &case.expr {
            Some(expression) => self.walk(Some(expression), columns, Place::Operand, depth)?,
            None => 0,
        };
        let mut widest = 0;
        for branch in &case.when_then_expr {
            bytes = bytes.saturating_add(self.walk(branch.when_expr.as_ref(), columns, Place::Operand, depth)?);
            widest = self.walk(branch.then_expr.as_ref(), columns, Place::Column, depth)?.max(widest);
        }
        if let Some(otherwise) = &case.else_expr {
            widest = self.walk(Some(otherwise), columns, Place::Column, depth)?.max(widest);
        }
        Ok(bytes.saturating_add(widest))
    }

    fn call(&mut self, call: &protobuf::PhysicalScalarUdfNode, columns: usize, depth: usize) -> Checked<u64> {
        let name = &call.name;
        let Some(growth) = growth_of(name) else {
            return Err(format!("function {} does not run at storage", shown(name)));
        };
        if call.fun_definition.as_ref().is_some_and(|definition| !definition.is_empty()) {
            return Err(format!("function {name} brings a definition of its own"));
        }
        // Some look at their first argument before anybody has counted them.
        if call.args.is_empty() && name != "pi" {
            return Err(format!("function {name} has no arguments"));
        }
        let mut bytes = check_type(call.return_type.as_ref())?;
        for argument in &call.args {
            bytes = bytes.saturating_add(self.walk(Some(argument), columns, Place::Column, depth)?);
        }
        let text = |position: usize| call.args.get(position).and_then(literal_text);
        match growth {
            Growth::Bounded => {
                if name.starts_with("regexp") {
                    self.regex(call.args.get(1))?;
                }
            }
            Growth::Sum => self.concatenate(call.args.len() as u64)?,
            Growth::Multiplied => self.concatenate(MULTIPLIED_OPERANDS)?,
            Growth::Padded => {
                let length = call.args.get(1).and_then(literal_integer);
                let length = length.ok_or_else(|| format!("the length that {name} pads to is not a literal"))?;
                // Four bytes a character at the most.
                bytes = bytes.saturating_add(length.saturating_mul(4));
            }
            Growth::Replaced => match (text(1), text(2)) {
                (Some(from), Some(to)) if !from.is_empty() && to.len() <= from.len() => {}
                _ => return Err(format!("{name} may make a text longer")),
            },
            Growth::ReplacedByPattern => {
                self.regex(call.args.get(1))?;
                if !text(2).is_some_and(is_part_of_match) {
                    return Err(format!("{name} may make a text longer"));
                }
            }
            Growth::Formatted => {
                let format = text(1).ok_or_else(|| format!("the format of {name} is not a literal"))?;
                bytes = bytes.saturating_add((format.len() as u64).saturating_mul(FORMATTED_BYTES));
            }
        }
        Ok(bytes)
    }

    fn concatenate(&mut self, operands: u64) -> Checked {
        self.concatenated = self.concatenated.saturating_add(operands);
        let limit = self.limits.concatenations_max;
        if self.concatenated <= limit { Ok(()) } else { Err(format!("more than {limit} texts are concatenated")) }
    }

    fn regex(&mut self, pattern: Option<&protobuf::PhysicalExprNode>) -> Checked {
        self.regexes += 1;
        if self.regexes > REGEX_MAX {
            return Err(format!("the fragment has more than {REGEX_MAX} regular expressions"));
        }
        pattern_text(pattern)
    }
}

/// Checks the length of a pattern, unless it comes from the data.
fn pattern_text(pattern: Option<&protobuf::PhysicalExprNode>) -> Checked {
    match pattern.and_then(literal_text) {
        Some(text) if text.len() > PATTERN_BYTES_MAX => {
            Err(format!("a pattern of {} bytes passes the limit of {PATTERN_BYTES_MAX}", text.len()))
        }
        _ => Ok(()),
    }
}

fn shown(name: &str) -> String {
    name.chars().take(64).collect::<String>().escape_debug().to_string()
}

fn literal(expression: &protobuf::PhysicalExprNode) -> Option<&Value> {
    match &expression.expr_type {
        Some(ExprType::Literal(literal)) => literal.value.as_ref(),
        _ => None,
    }
}

fn literal_text(expression: &protobuf::PhysicalExprNode) -> Option<&str> {
    match literal(expression)? {
        Value::Utf8Value(text) | Value::LargeUtf8Value(text) | Value::Utf8ViewValue(text) => Some(text),
        _ => None,
    }
}

/// A literal integer; a negative one is 0, as padding functions take it.
fn literal_integer(expression: &protobuf::PhysicalExprNode) -> Option<u64> {
    match literal(expression)? {
        Value::Int8Value(value) | Value::Int16Value(value) | Value::Int32Value(value) => {
            Some(u64::try_from(*value).unwrap_or(0))
        }
        Value::Int64Value(value) => Some(u64::try_from(*value).unwrap_or(0)),
        Value::Uint8Value(value) | Value::Uint16Value(value) | Value::Uint32Value(value) => Some(u64::from(*value)),
        Value::Uint64Value(value) => Some(*value),
        _ => None,
    }
}

/// Whether what is put for a match is nothing, or one part of the match.
fn is_part_of_match(replacement: &str) -> bool {
    let group = replacement.strip_prefix(['\\', '$']).unwrap_or("0");
    let group = group.strip_prefix('{').and_then(|group| group.strip_suffix('}')).unwrap_or(group);
    replacement.is_empty()
        || (replacement.starts_with(['\\', '$']) && group.len() <= 2 && group.bytes().all(|byte| byte.is_ascii_digit()))
}
