//! Binding of functions and aggregates.

use sqlparser::ast::{self, DuplicateTreatment, FunctionArg, FunctionArgExpr, FunctionArguments};
use thermocline_types::{self as types, Class, DataType, Error, Field, Result, Value};

use super::expression::{folded_cast, in_range};
use super::literal::field_name;
use super::{AGGREGATES_FROM, Binder, Typed};
use crate::expression::{Expr, Function, Signature};
use crate::names::object;

/// An aggregate over the rows of a group.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Aggregate {
    pub kind: AggregateKind,
    /// The aggregated expression; `None` for `count(*)`.
    pub argument: Option<Expr>,
    /// `DISTINCT`.
    pub distinct: bool,
    /// `FILTER`.
    pub filter: Option<Expr>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AggregateKind {
    Count,
    Sum,
    Average,
    Min,
    Max,
    /// `bool_and`, `every`.
    All,
    /// `bool_or`.
    Any,
}

impl AggregateKind {
    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "count" => Self::Count,
            "sum" => Self::Sum,
            "avg" => Self::Average,
            "min" => Self::Min,
            "max" => Self::Max,
            "bool_and" | "every" => Self::All,
            "bool_or" => Self::Any,
            _ => return None,
        })
    }
}

impl Binder<'_> {
    pub(super) fn function(&mut self, function: &ast::Function) -> Result<Typed> {
        let name = object(&function.name)?;
        let known = function.over.is_none()
            && function.within_group.is_empty()
            && function.null_treatment.is_none()
            && matches!(function.parameters, FunctionArguments::None);
        if !known {
            return Err(Error::unsupported(function));
        }
        let (arguments, distinct) = match &function.args {
            FunctionArguments::None => (Vec::new(), false),
            FunctionArguments::List(list) if list.clauses.is_empty() => {
                (plain(&list.args)?, list.duplicate_treatment == Some(DuplicateTreatment::Distinct))
            }
            _ => return Err(Error::unsupported(function)),
        };
        if let Some(kind) = AggregateKind::named(&name) {
            return self.aggregate(kind, &arguments, distinct, function.filter.as_deref());
        }
        if distinct || function.filter.is_some() {
            return Err(Class::Syntax.error(format_args!("DISTINCT or FILTER, but {name} is no aggregate")));
        }
        let arguments: Option<Vec<&ast::Expr>> = arguments.into_iter().collect();
        let arguments = arguments.ok_or_else(|| Class::Syntax.error(format_args!("{name}(*) is no aggregate")))?;
        match (&*name, arguments.as_slice()) {
            ("date_trunc", [field, moment]) => {
                let field = self.literal_field(field)?;
                self.call(Function::Of(types::Function::Truncate(field)), &[moment])
            }
            ("date_part", [field, moment]) => {
                let field = self.literal_field(field)?;
                self.call(Function::Of(types::Function::Part(field)), &[moment])
            }
            _ => match Function::named(&name, arguments.len())
                .or_else(|| types::Function::named(&name, arguments.len()).map(Function::Of))
            {
                Some(function) => self.call(function, &arguments),
                // The analytic engine has more functions.
                None => Err(Error::unsupported(format_args!("function {name} with {} arguments", arguments.len()))),
            },
        }
    }

    fn literal_field(&mut self, field: &ast::Expr) -> Result<Field> {
        match self.expression(field)?.expr {
            Expr::Literal(Value::Text(name)) => Field::named(&name),
            _ => Err(Error::unsupported("a field of a date that is not a literal")),
        }
    }

    pub fn extract(&mut self, field: &ast::DateTimeField, moment: &ast::Expr) -> Result<Typed> {
        let field = Field::named(&field_name(field)?)?;
        self.call(Function::Of(types::Function::Extract(field)), &[moment])
    }

    fn null_if(&mut self, typed: Vec<Typed>) -> Result<Typed> {
        let ways = match typed.as_slice() {
            [Typed { data_type: Some(first), .. }, Typed { data_type: Some(second), .. }] => {
                types::null_if(*first, *second)
            }
            _ => None,
        };
        let Some((compared, result)) = ways else {
            let (arguments, data_type) = self.alike(typed, "function argument")?;
            return Ok(Typed { expr: Expr::Call(Function::NullIf, arguments), data_type });
        };
        let arguments = typed.into_iter().map(|argument| folded_cast(argument.expr, compared)).collect();
        Ok(Typed::new(folded_cast(Expr::Call(Function::NullIf, arguments), result), result))
    }

    /// Checks the arguments and derives the result type.
    pub fn call(&mut self, function: Function, arguments: &[&ast::Expr]) -> Result<Typed> {
        let mut typed = Vec::with_capacity(arguments.len());
        for argument in arguments {
            typed.push(self.expression(argument)?);
        }
        self.call_of(function, typed)
    }

    /// [`Self::call`] with bound arguments.
    pub(super) fn call_of(&mut self, function: Function, typed: Vec<Typed>) -> Result<Typed> {
        match function.signature() {
            Signature::Alike if function == Function::NullIf => self.null_if(typed),
            Signature::Alike => {
                let (arguments, data_type) = self.alike(typed, "function argument")?;
                Ok(Typed { expr: Expr::Call(function, arguments), data_type })
            }
            Signature::Of(of) => {
                let types: Vec<Option<DataType>> = typed.iter().map(Typed::operand_type).collect();
                let resolved = of.resolve(&types)?;
                let function = Function::Of(resolved.function);
                let mut settled = Vec::with_capacity(typed.len());
                for (argument, to) in typed.into_iter().zip(resolved.arguments) {
                    settled.push(self.settle(argument, to)?.expr);
                }
                Ok(in_range(Expr::Call(function, settled), resolved.result))
            }
            Signature::Fixed(expected, result) => {
                let is_of_bytes = function.is_of_bytes(typed.len())
                    && typed.first().is_some_and(|first| first.data_type == Some(DataType::Bytea));
                let of_bytes = |of| if is_of_bytes && of == DataType::Text { DataType::Bytea } else { of };
                let mut settled = Vec::with_capacity(typed.len());
                for (position, argument) in typed.into_iter().enumerate() {
                    let to = expected.get(position).or(expected.last()).copied().unwrap_or(DataType::Text);
                    let to = of_bytes(to);
                    let argument = self.settle(argument, to)?;
                    let from = argument.type_or_text();
                    let fits = from.is_like(to)
                        || (from == DataType::Date && to == DataType::Timestamp)
                        || (from.is_number() && to == DataType::Double);
                    if !fits {
                        return Err(wrong_argument(function, from));
                    }
                    settled.push(argument.expr);
                }
                Ok(Typed::new(Expr::Call(function, settled), of_bytes(result)))
            }
        }
    }

    fn aggregate(
        &mut self,
        kind: AggregateKind,
        arguments: &[Option<&ast::Expr>],
        distinct: bool,
        filter: Option<&ast::Expr>,
    ) -> Result<Typed> {
        let Some(mut found) = self.aggregates.take() else {
            return Err(Class::Grouping.error("aggregate functions are not allowed here"));
        };
        // Aggregates do not nest.
        let filter = filter.map(|filter| self.condition(filter, "FILTER")).transpose();
        let argument = match arguments {
            [None] if kind == AggregateKind::Count && !distinct => Ok(None),
            [Some(argument)] => self.expression(argument).map(Some),
            _ => Err(Class::UndefinedFunction.error("an aggregate takes one argument")),
        };
        let (filter, argument) = (filter?, argument?);
        let data_type = aggregate_type(kind, argument.as_ref())?;
        let argument = match argument {
            Some(argument) if argument.data_type.is_none() => Some(self.settle(argument, data_type)?.expr),
            Some(argument) => Some(argument.expr),
            None => None,
        };
        // DISTINCT does not change MIN and MAX.
        let distinct = distinct && matches!(kind, AggregateKind::Count | AggregateKind::Sum | AggregateKind::Average);
        let aggregate = Aggregate { kind, argument, distinct, filter };
        let position = found.iter().position(|known| *known == aggregate).unwrap_or_else(|| {
            found.push(aggregate);
            found.len() - 1
        });
        self.aggregates = Some(found);
        Ok(Typed::new(Expr::Computed(AGGREGATES_FROM + position), data_type))
    }
}

/// Positional arguments; `None` for `*`.
fn plain(arguments: &[FunctionArg]) -> Result<Vec<Option<&ast::Expr>>> {
    arguments
        .iter()
        .map(|argument| match argument {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Ok(Some(expr)),
            FunctionArg::Unnamed(FunctionArgExpr::Wildcard) => Ok(None),
            other => Err(Error::unsupported(format_args!("argument {other}"))),
        })
        .collect()
}

fn wrong_argument(function: Function, data_type: DataType) -> Error {
    Class::UndefinedFunction.error(format_args!("function {function:?} does not take an argument of type {data_type}"))
}

fn aggregate_type(kind: AggregateKind, argument: Option<&Typed>) -> Result<DataType> {
    let given = argument.map_or(DataType::BigInt, Typed::type_or_text);
    let unknown = argument.is_some_and(|argument| argument.data_type.is_none());
    let number = given.is_number() || unknown;
    Ok(match kind {
        AggregateKind::Count => DataType::BigInt,
        // PostgreSQL 15 has no MIN and MAX of UUID and JSONB, although both are ordered.
        AggregateKind::Min | AggregateKind::Max if !matches!(given, DataType::Uuid | DataType::Jsonb) => given,
        AggregateKind::Sum if number => match given {
            DataType::Real | DataType::Double => DataType::Double,
            decimal if decimal.is_decimal() => DataType::Numeric,
            _ => DataType::BigInt,
        },
        AggregateKind::Average if number => DataType::Double,
        AggregateKind::All | AggregateKind::Any if given == DataType::Boolean || unknown => DataType::Boolean,
        _ => return Err(Class::UndefinedFunction.error(format_args!("no aggregate {kind:?} of type {given}"))),
    })
}
