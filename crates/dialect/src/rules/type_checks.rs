//! Type checks that DataFusion's coercion lacks.

use std::sync::Arc;

use arrow::datatypes::DataType as ArrowType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::TransformedResult;
use datafusion::common::{DFSchema, DataFusionError, Result, ScalarValue, plan_err};
use datafusion::logical_expr::expr::{Between, BinaryExpr, Case, InList, Like, ScalarFunction};
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, Operator, ScalarUDF, cast, lit};
use datafusion::optimizer::AnalyzerRule;
use thermocline_pushdown::{
    JsonbChoice, arrow_type, bytes_of_characters, call_function, characters_of_bytes, external, jsonb_choice, sql_cast,
};
use thermocline_types::{Class, DataType, Function};

use super::documents::is_document;
use super::expressions::rewrite_expressions;
use super::operators::{Operand, alike, check_comparable, is_real, operand, settled};
use super::stand_ins::{Choice, DISTINCT, NOT_DISTINCT, POSITIVE, TextOrBytes};

/// Rejects comparisons of text with other types, and text functions with other arguments, which DataFusion would
/// convert to text. Also rejects expressions that have another meaning in DataFusion, such as PostgreSQL's formats of
/// `to_char`. Rewrites LIKE, `overlay`, `substring` and `trim` of bytes to characters, SIMILAR TO to a regular
/// expression, and placeholders to their expressions. Runs before type coercion.
#[derive(Debug)]
pub struct TypeChecks;

/// Functions whose first argument is text.
const TEXT_FUNCTIONS: &[&str] = &[
    "ascii",
    "btrim",
    "initcap",
    "left",
    "lower",
    "lpad",
    "ltrim",
    "overlay",
    "regexp_count",
    "regexp_like",
    "regexp_replace",
    "repeat",
    "replace",
    "reverse",
    "right",
    "rpad",
    "rtrim",
    "split_part",
    "starts_with",
    "strpos",
    "substr",
    "translate",
    "trim",
    "upper",
];

impl AnalyzerRule for TypeChecks {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(|node| rewrite_expressions(node, checked)).data()
    }

    fn name(&self) -> &str {
        "type_checks"
    }
}

/// Checks an expression and returns its replacement; `None` if it is kept.
fn checked(expression: &Expr, schema: &DFSchema) -> Result<Option<Expr>> {
    match expression {
        Expr::BinaryExpr(BinaryExpr { left, op, right })
            if matches!(op, Operator::IsDistinctFrom | Operator::IsNotDistinctFrom) =>
        {
            return compared([left, right], *op, schema).map(Some);
        }
        Expr::Between(Between { expr, low, high, negated }) => {
            check_comparable(expr, low, ">=", schema)?;
            check_comparable(expr, high, "<=", schema)?;
            if [expr, low, high].into_iter().any(|side| is_document(side, schema)) {
                let sides = documents("BETWEEN", [expr.as_ref(), low, high].into_iter(), schema)?;
                if let Ok([expr, low, high]) = <[Expr; 3]>::try_from(sides) {
                    return Ok(Some(Expr::Between(Between::new(expr.into(), *negated, low.into(), high.into()))));
                }
            }
            if let Some([expr, low, high]) = brought([expr.as_ref(), low, high], schema)? {
                return Ok(Some(Expr::Between(Between::new(expr.into(), *negated, low.into(), high.into()))));
            }
            if has_reals_and_others([expr, low, high].into_iter().map(Box::as_ref), schema) {
                let [expr, low, high] = [expr, low, high].map(|side| Box::new(double_of(side)));
                return Ok(Some(Expr::Between(Between { expr, negated: *negated, low, high })));
            }
        }
        Expr::InList(InList { expr, list, negated }) => {
            list.iter().try_for_each(|item| check_comparable(expr, item, "=", schema))?;
            if list.iter().chain([expr.as_ref()]).any(|side| is_document(side, schema)) {
                let mut list = documents("IN", list.iter().chain([expr.as_ref()]), schema)?;
                let expr = list.pop().map_or_else(|| expr.clone(), Box::new);
                return Ok(Some(Expr::InList(InList::new(expr, list, *negated))));
            }
            if let Some(mut list) = read_as_the_others(list.iter().chain([expr.as_ref()]), schema)? {
                let expr = list.pop().map_or_else(|| expr.clone(), Box::new);
                return Ok(Some(Expr::InList(InList::new(expr, list, *negated))));
            }
            if let Some(separate) = constants_as_reals(expr, list, schema) {
                return Ok(Some(if *negated { !separate } else { separate }));
            }
            if has_reals_and_others(list.iter().chain([expr.as_ref()]), schema) {
                let list = list.iter().map(double_of).collect();
                return Ok(Some(Expr::InList(InList::new(Box::new(double_of(expr)), list, *negated))));
            }
        }
        Expr::Case(case) => return branches(case, schema),
        Expr::Like(Like { negated, expr, pattern, escape_char, case_insensitive }) => {
            let sides = [expr.as_ref(), pattern.as_ref()].map(|side| operand(side, schema));
            let is_bytes = |side: &Operand| matches!(side, Operand::Of(DataType::Bytea));
            if sides.iter().any(is_bytes) {
                let is_other = |side: &Operand| !is_bytes(side) && !matches!(side, Operand::Unknown);
                if *case_insensitive || sides.iter().any(is_other) {
                    let operator = if *case_insensitive { "ILIKE" } else { "LIKE" };
                    let message = format!("operator does not exist: {expr} {operator} {pattern}");
                    return Err(external(Class::UndefinedFunction.error(message)));
                }
                let [expr, pattern] = [expr, pattern].map(|side| characters(side, schema));
                return Ok(Some(Expr::Like(Like::new(*negated, expr?.into(), pattern?.into(), *escape_char, false))));
            }
        }
        Expr::SimilarTo(like) => return similar(like, schema).map(Some),
        Expr::ScalarFunction(ScalarFunction { func, args }) => return function(func, args, schema),
        _ => {}
    }
    Ok(None)
}

/// Whether there are REALs and other numbers, so that all are compared as doubles.
fn has_reals_and_others<'a>(expressions: impl Iterator<Item = &'a Expr>, schema: &DFSchema) -> bool {
    let (mut reals, mut others) = (false, false);
    for expression in expressions {
        match is_real(expression, schema) {
            Some(true) => reals = true,
            Some(false) => others = true,
            None => {}
        }
    }
    reals && others
}

/// IN with two or more constants, if their common type with the value is REAL; other items are compared with the value
/// one by one. `None` if the type is another.
fn constants_as_reals(value: &Expr, list: &[Expr], schema: &DFSchema) -> Option<Expr> {
    let (constants, others): (Vec<_>, Vec<_>) = list.iter().partition(|item| !item.any_column_refs());
    if constants.len() < 2 {
        return None;
    }
    let (mut reals, mut exact) = (false, false);
    for expression in constants.iter().copied().chain([value]) {
        match operand(expression, schema) {
            Operand::Of(DataType::Real) => reals = true,
            Operand::Of(of) if of.is_integer() || of.is_decimal() => exact = true,
            Operand::Unknown => {}
            Operand::Of(_) | Operand::Other => return None,
        }
    }
    let real = |number: &Expr| cast(number.clone(), ArrowType::Float32);
    let constants = constants.into_iter().map(real).collect();
    let among = Expr::InList(InList::new(Box::new(real(value)), constants, false));
    let equal = |item: &Expr| match has_reals_and_others([value, item].into_iter(), schema) {
        true => double_of(value).eq(double_of(item)),
        false => value.clone().eq(item.clone()),
    };
    (reals && exact).then(|| others.into_iter().fold(among, |any, item| any.or(equal(item))))
}

fn double_of(number: &Expr) -> Expr {
    cast(number.clone(), ArrowType::Float64)
}

fn function(func: &Arc<ScalarUDF>, args: &[Expr], schema: &DFSchema) -> Result<Option<Expr>> {
    let is_of_bytes = args.first().is_some_and(|first| matches!(operand(first, schema), Operand::Of(DataType::Bytea)));
    if let Some(stand_in) = func.inner().downcast_ref::<TextOrBytes>() {
        let of_text = &stand_in.of_text;
        return match is_of_bytes {
            true => of_bytes(of_text, args, schema).map(Some),
            false => Ok(Some(function(of_text, args, schema)?.unwrap_or_else(|| call(of_text, args.to_vec())))),
        };
    }
    if let Some(Choice { of, .. }) = func.inner().downcast_ref::<Choice>() {
        if args.iter().any(|argument| is_document(argument, schema)) {
            let args = documents(func.name(), args.iter(), schema)?;
            if func.name() == "nullif" && args.len() != 2 {
                return Err(undefined("nullif", &vec!["JSONB"; args.len()].join(", ")));
            }
            return Ok(Some(match JsonbChoice::named(func.name()) {
                Some(choice) => jsonb_choice(choice, args),
                None => call(of, args),
            }));
        }
        return Ok(Some(function(of, args, schema)?.unwrap_or_else(|| call(of, args.to_vec()))));
    }
    match func.name() {
        "get_field" if args.first().is_some_and(|first| is_document(first, schema)) => {
            Err(external(Class::Unsupported.error("subscripts of JSONB: write ->")))
        }
        POSITIVE => positive(args, schema).map(Some),
        DISTINCT => distinct(Operator::IsDistinctFrom, args, schema).map(Some),
        NOT_DISTINCT => distinct(Operator::IsNotDistinctFrom, args, schema).map(Some),
        "sha224" | "sha256" | "sha384" | "sha512" => match args.first().map(|first| operand(first, schema)) {
            Some(Operand::Of(of)) if of.is_text() => Err(undefined(func.name(), &of.to_string())),
            _ => Ok(None),
        },
        name @ ("coalesce" | "greatest" | "least") => {
            check_alike(&name.to_ascii_uppercase(), args.iter(), schema)?;
            Ok(read_as_the_others(args.iter(), schema)?.map(|args| call(func, args)))
        }
        "nullif" => null_if(func, args, schema),
        "overlay" if is_of_bytes => of_bytes(func, args, schema).map(Some),
        name if TEXT_FUNCTIONS.contains(&name) => {
            let Some(first) = args.first() else { return Ok(None) };
            let refused = match (operand(first, schema), first.get_type(schema)) {
                (Operand::Of(of), _) if !of.is_text() => of.to_string(),
                (Operand::Other, Ok(of)) if of.is_numeric() => of.to_string(),
                // DataFusion's result is a BIGINT.
                _ if name == "regexp_count" => return Ok(Some(cast(call(func, args.to_vec()), ArrowType::Int32))),
                _ => return Ok(None),
            };
            Err(undefined(name, &refused))
        }
        _ => Ok(None),
    }
}

/// IS DISTINCT FROM, with its operands checked and converted.
fn compared([left, right]: [&Expr; 2], op: Operator, schema: &DFSchema) -> Result<Expr> {
    check_comparable(left, right, op, schema)?;
    let mut sides = alike([left.clone(), right.clone()], schema)?;
    if has_reals_and_others(sides.iter(), schema) {
        sides = sides.map(|side| double_of(&side));
    }
    let [left, right] = sides.map(Box::new);
    Ok(Expr::BinaryExpr(BinaryExpr::new(left, op, right)))
}

/// [`compared`] for the placeholder function.
fn distinct(op: Operator, args: &[Expr], schema: &DFSchema) -> Result<Expr> {
    match args {
        [left, right] => compared([left, right], op, schema),
        args => plan_err!("{op} has two operands, not {}", args.len()),
    }
}

/// `+x`
fn positive(args: &[Expr], schema: &DFSchema) -> Result<Expr> {
    let [of] = args else { return plan_err!("+ has one operand, not {}", args.len()) };
    match operand(of, schema) {
        Operand::Of(known) if !known.is_number() => {
            Err(external(Class::UndefinedFunction.error(format_args!("operator does not exist: + {known}"))))
        }
        _ => Ok(of.clone()),
    }
}

/// `text SIMILAR TO pattern`
fn similar(like: &Like, schema: &DFSchema) -> Result<Expr> {
    let Like { negated, expr, pattern, escape_char, .. } = like;
    for side in [expr, pattern] {
        if let Operand::Of(of) = operand(side, schema)
            && !of.is_text()
        {
            let message = format!("operator does not exist: {expr} SIMILAR TO {pattern}");
            return Err(external(Class::UndefinedFunction.error(message)));
        }
    }
    let mut arguments = vec![pattern.as_ref().clone()];
    arguments.extend(escape_char.map(|escape| lit(escape.to_string())));
    let op = if *negated { Operator::RegexNotMatch } else { Operator::RegexMatch };
    let pattern = call_function(Function::SimilarPattern, arguments)?;
    Ok(Expr::BinaryExpr(BinaryExpr::new(expr.clone(), op, Box::new(pattern))))
}

/// A text function applied to bytes.
fn of_bytes(of_text: &Arc<ScalarUDF>, args: &[Expr], schema: &DFSchema) -> Result<Expr> {
    let name = of_text.name();
    // Bytes have no default trim characters.
    if name.ends_with("trim") && args.len() == 1 {
        return Err(undefined(name, "BYTEA"));
    }
    let args = args.iter().map(|argument| match operand(argument, schema) {
        Operand::Of(DataType::Bytea) | Operand::Unknown => characters(argument, schema),
        Operand::Of(of) if of.is_text() => Err(undefined(name, &format!("BYTEA, {of}"))),
        _ => Ok(argument.clone()),
    });
    let called = call(of_text, args.collect::<Result<_>>()?);
    Ok(if name == "strpos" { called } else { bytes_of_characters(called) })
}

/// `nullif`, with its arguments checked and its result type fixed.
fn null_if(func: &Arc<ScalarUDF>, args: &[Expr], schema: &DFSchema) -> Result<Option<Expr>> {
    let [first, second] = args else { return Ok(None) };
    check_comparable(first, second, "=", schema)?;
    let (Operand::Of(one), Operand::Of(other)) = (operand(first, schema), operand(second, schema)) else {
        return Ok(read_as_the_others(args.iter(), schema)?.map(|args| call(func, args)));
    };
    let Some((compared, result)) = thermocline_types::null_if(one, other) else {
        return Ok(moments_of(args.iter(), schema).map(|args| call(func, args)));
    };
    let to = |of: &Expr, from: DataType, to: DataType| match arrow_type(to).filter(|_| from != to) {
        Some(to) => cast(of.clone(), to),
        None => of.clone(),
    };
    let called = call(func, vec![to(first, one, compared), to(second, other, compared)]);
    Ok(Some(to(&called, compared, result)))
}

/// CASE, with a comparable base and a common type of its results.
fn branches(case: &Case, schema: &DFSchema) -> Result<Option<Expr>> {
    let (whens, thens): (Vec<_>, Vec<_>) =
        case.when_then_expr.iter().map(|(when, then)| (when.as_ref(), then.as_ref())).unzip();
    let base = case.expr.as_deref();
    if let Some(base) = base {
        whens.iter().try_for_each(|when| check_comparable(base, when, "=", schema))?;
    }
    let results: Vec<_> = thens.iter().copied().chain(case.else_expr.as_deref()).collect();
    check_alike("CASE", results.iter().copied(), schema)?;
    let bases: Vec<_> = base.into_iter().chain(whens).collect();
    let compared = match base {
        Some(_) => of_one_type(bases.iter().copied(), schema)?,
        None => None,
    };
    let given = of_one_type(results.iter().copied(), schema)?;
    let is_of_uuids =
        |base: Option<&Expr>| base.is_some_and(|base| matches!(operand(base, schema), Operand::Of(DataType::Uuid)));
    if compared.is_none() && given.is_none() && !is_of_uuids(base) {
        return Ok(None);
    }
    let owned = |expressions: Vec<&Expr>| expressions.into_iter().cloned().map(Box::new).collect::<Vec<_>>();
    let boxed = |expressions: Vec<Expr>| expressions.into_iter().map(Box::new).collect::<Vec<_>>();
    // DataFusion panics on a look-up table of fixed-width literals.
    let text = |of: Box<Expr>| sql_cast(*of, &ArrowType::Utf8View).map(Box::new);
    let bases = compared.map_or_else(|| owned(bases), boxed);
    let mut bases: std::vec::IntoIter<_> =
        if is_of_uuids(base) { bases.into_iter().map(text).collect::<Result<_>>()? } else { bases }.into_iter();
    let mut results = given.map_or_else(|| owned(results), boxed).into_iter();
    let base = base.and_then(|_| bases.next());
    let whens = bases.zip(results.by_ref().take(thens.len())).collect();
    Ok(Some(Expr::Case(Case::new(base, whens, results.next()))))
}

/// Converts expressions to JSONB if one of them is, and literals to the type of the others; `None` if nothing changes.
fn of_one_type<'a>(
    expressions: impl Iterator<Item = &'a Expr> + Clone,
    schema: &DFSchema,
) -> Result<Option<Vec<Expr>>> {
    match expressions.clone().any(|expression| is_document(expression, schema)) {
        true => documents("CASE", expressions, schema).map(Some),
        false => read_as_the_others(expressions, schema),
    }
}

/// Converts literals beside a JSONB value to JSONB; an error for other types.
fn documents<'a>(
    what: &str,
    expressions: impl Iterator<Item = &'a Expr> + Clone,
    schema: &DFSchema,
) -> Result<Vec<Expr>> {
    check_alike(what, expressions.clone(), schema)?;
    let document = |of: &Expr| match operand(of, schema) {
        Operand::Unknown => settled(of, None, DataType::Jsonb),
        _ => Ok(of.clone()),
    };
    expressions.map(document).collect()
}

/// Converts dates and timestamps of several types to timestamps, with a time zone if one of them has it; `None` if all
/// have one type, or if not all timestamps are in microseconds. DataFusion would convert dates to nanoseconds, which do
/// not cover most of SQL's years.
fn moments_of<'a>(expressions: impl Iterator<Item = &'a Expr> + Clone, schema: &DFSchema) -> Option<Vec<Expr>> {
    let type_of = |of: &Expr| match operand(of, schema) {
        Operand::Of(of) if of.is_moment() => Some(of),
        _ => None,
    };
    let any = |wanted| expressions.clone().any(|of| type_of(of) == Some(wanted));
    let common = if any(DataType::TimestampTz) { DataType::TimestampTz } else { DataType::Timestamp };
    let is_other_timestamp =
        |of: &Expr| type_of(of).is_none() && of.get_type(schema).is_ok_and(|of| matches!(of, ArrowType::Timestamp(..)));
    let is_mixed = any(common) && [DataType::Date, DataType::Timestamp].into_iter().any(|of| of != common && any(of));
    if !is_mixed || expressions.clone().any(is_other_timestamp) {
        return None;
    }
    let to = arrow_type(common)?;
    let moment = |of: &Expr| match type_of(of) {
        Some(known) if known != common => cast(of.clone(), to.clone()),
        _ => of.clone(),
    };
    Some(expressions.map(moment).collect())
}

/// Converts literals of unknown type beside UUIDs to UUIDs; `None` if there are not both. DataFusion finds no common
/// type.
fn beside_uuids<'a>(
    expressions: impl Iterator<Item = &'a Expr> + Clone,
    schema: &DFSchema,
) -> Result<Option<Vec<Expr>>> {
    let any = |wanted: fn(Operand) -> bool| expressions.clone().any(|of| wanted(operand(of, schema)));
    let is_mixed = any(|of| matches!(of, Operand::Of(DataType::Uuid))) && any(|of| matches!(of, Operand::Unknown));
    let uuid = |of: &Expr| match operand(of, schema) {
        Operand::Unknown => settled(of, None, DataType::Uuid),
        _ => Ok(of.clone()),
    };
    is_mixed.then(|| expressions.map(uuid).collect()).transpose()
}

/// Converts values to a common type where DataFusion would choose another or none; `None` otherwise.
fn brought_to_one<'a>(
    expressions: impl Iterator<Item = &'a Expr> + Clone,
    schema: &DFSchema,
) -> Result<Option<Vec<Expr>>> {
    match moments_of(expressions.clone(), schema) {
        None => beside_uuids(expressions, schema),
        moments => Ok(moments),
    }
}

/// [`brought_to_one`] that also converts literals of unknown type to the single type of the others; DataFusion would
/// convert numbers beside a text literal to text.
fn read_as_the_others<'a>(
    expressions: impl Iterator<Item = &'a Expr> + Clone,
    schema: &DFSchema,
) -> Result<Option<Vec<Expr>>> {
    let mut known = expressions.clone().map(|of| operand(of, schema)).filter(|of| !matches!(of, Operand::Unknown));
    let to = match known.next() {
        Some(Operand::Of(to)) if !to.is_text() && to != DataType::Bytea => to,
        _ => return brought_to_one(expressions, schema),
    };
    let is_one_type = known.all(|of| matches!(of, Operand::Of(of) if of == to));
    let is_text = |of: &Expr| matches!(of, Expr::Literal(ScalarValue::Utf8(Some(_)), _));
    if !is_one_type || !expressions.clone().any(is_text) {
        return brought_to_one(expressions, schema);
    }
    let read = |of: &Expr| match is_text(of) {
        true => Ok(match arrow_type(to).filter(|_| !to.is_decimal()) {
            Some(arrow) => cast(settled(of, None, to)?, arrow),
            None => settled(of, None, to.unbounded())?,
        }),
        false => Ok(of.clone()),
    };
    expressions.map(read).collect::<Result<_>>().map(Some)
}

/// [`read_as_the_others`] for an array.
fn brought<const N: usize>(expressions: [&Expr; N], schema: &DFSchema) -> Result<Option<[Expr; N]>> {
    Ok(read_as_the_others(expressions.into_iter(), schema)?.and_then(|brought| brought.try_into().ok()))
}

/// Checks that the values among which `what` chooses have a common type in SQL.
fn check_alike<'a>(what: &str, args: impl Iterator<Item = &'a Expr>, schema: &DFSchema) -> Result<()> {
    let mut types = args.filter_map(|argument| match operand(argument, schema) {
        Operand::Of(of) => Some(of),
        Operand::Unknown | Operand::Other => None,
    });
    let Some(first) = types.next() else { return Ok(()) };
    match types.find(|of| !of.compares_to(first)) {
        Some(other) => {
            let message = format!("{what} types {first} and {other} cannot be matched");
            Err(external(Class::TypeMismatch.error(message)))
        }
        None => Ok(()),
    }
}

/// Converts bytes, or a literal of unknown type taken as bytes, to text with one character for each byte.
fn characters(of: &Expr, schema: &DFSchema) -> Result<Expr> {
    Ok(match operand(of, schema) {
        Operand::Unknown => characters_of_bytes(settled(of, None, DataType::Bytea)?),
        _ => characters_of_bytes(of.clone()),
    })
}

fn call(func: &Arc<ScalarUDF>, args: Vec<Expr>) -> Expr {
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(func), args))
}

fn undefined(function: &str, argument: &str) -> DataFusionError {
    external(Class::UndefinedFunction.error(format_args!("function {function}({argument}) does not exist")))
}
