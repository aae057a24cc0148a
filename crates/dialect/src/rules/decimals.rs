//! Decimals combined with other numbers.

use std::cell::Cell;
use std::sync::Arc;

use arrow::datatypes::{DataType, Decimal128Type, Decimal256Type, DecimalType};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::common::{DFSchema, NullEquality, Result, ScalarValue};
use datafusion::logical_expr::expr::{
    Between, BinaryExpr, Case, Cast, InList, InSubquery, ScalarFunction, SetComparison,
};
use datafusion::logical_expr::expr_schema::cast_subquery;
use datafusion::logical_expr::logical_plan::Subquery;
use datafusion::logical_expr::type_coercion::binary::type_union_coercion;
use datafusion::logical_expr::{
    AggregateUDF, Expr, ExprSchemable, Join, LogicalPlan, LogicalPlanBuilder, Operator, Union, Values, cast, lit,
};
use datafusion::optimizer::AnalyzerRule;
use thermocline_pushdown::{exact_sum, user_err};

use super::averages::with_quotients;
use super::expressions::{compares, rewrite_expressions};
use super::outer_references::with_current_types;

/// Limit on levels of subqueries; the parser has a lower one.
const LEVELS_MAX: usize = 64;

/// Converts decimals to doubles where they meet floats, or to REALs where a common type is needed and no float is a
/// double. Runs before type coercion.
///
/// DataFusion would convert the floats to `DECIMAL(30, 15)`, which holds neither their small values nor their large
/// ones. Decimals that are compared with text, or multiplied with an interval, become doubles, too: text would be
/// rounded to the decimal's digits, and intervals cannot be multiplied with decimals.
#[derive(Debug)]
pub struct Decimals;

impl AnalyzerRule for Decimals {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let sum = Arc::new(exact_sum());
        let mut plan = with_doubles(plan, false, &sum)?;
        // Subqueries may refer to columns whose types changed; each iteration reaches one level further in.
        for _ in 0..LEVELS_MAX {
            let current = with_current_types(plan)?;
            plan = match current.transformed {
                true => with_doubles(current.data, true, &sum)?,
                false => return Ok(current.data),
            };
        }
        user_err!(TooDeep, "subqueries that refer to columns outside are nested deeper than {LEVELS_MAX} levels")
    }

    fn name(&self) -> &str {
        "decimals"
    }
}

/// Converts decimals in a plan; recomputes all schemas if a type `is_changed`.
fn with_doubles(plan: LogicalPlan, is_changed: bool, sum: &Arc<AggregateUDF>) -> Result<LogicalPlan> {
    // Above a changed expression, types may change, too.
    let is_changed = Cell::new(is_changed);
    let plan = plan.transform_up_with_subqueries(|node| {
        let node = if is_changed.get() { node.recompute_schema()? } else { node };
        let rewritten = rewritten(node, sum)?;
        if rewritten.transformed {
            is_changed.set(true);
            return rewritten.map_data(LogicalPlan::recompute_schema);
        }
        Ok(rewritten)
    });
    plan.data()
}

/// Converts decimals in one operator.
fn rewritten(node: LogicalPlan, sum: &Arc<AggregateUDF>) -> Result<Transformed<LogicalPlan>> {
    let node = match node {
        LogicalPlan::Union(union) => united(union)?,
        LogicalPlan::Values(values) => with_floats(values)?,
        LogicalPlan::Join(join) => Transformed::no(LogicalPlan::Join(with_equal_types(join))),
        node => Transformed::no(node),
    };
    node.transform_data(|node| rewrite_expressions(node, replaced))?.transform_data(|node| with_quotients(node, sum))
}

/// Gives the inputs of a union common types. Until type coercion, its schema has the types of its first input.
fn united(union: Union) -> Result<Transformed<LogicalPlan>> {
    let common: Vec<_> = (0..union.schema.fields().len())
        .map(|position| {
            let fields = union.inputs.iter().filter_map(|input| input.schema().fields().get(position));
            let types: Vec<_> = fields.map(|field| field.data_type()).collect();
            common(types.iter().copied()).or_else(|| coerced(&types))
        })
        .collect();
    if common.iter().all(Option::is_none) {
        let types = |schema: &DFSchema| schema.fields().iter().map(|of| of.data_type().clone()).collect::<Vec<_>>();
        let is_current = union.inputs.first().is_none_or(|first| types(first.schema()) == types(&union.schema));
        return Ok(match is_current {
            true => Transformed::no(LogicalPlan::Union(union)),
            false => Transformed::yes(LogicalPlan::Union(Union::try_new_with_loose_types(union.inputs)?)),
        });
    }
    let mut inputs = vec![];
    for input in union.inputs {
        let columns = input.schema().columns().into_iter().zip(input.schema().fields()).zip(&common);
        let columns = columns.map(|((column, field), common)| match common {
            Some(common) if common != field.data_type() => {
                let name = column.name.clone();
                cast(Expr::Column(column), common.clone()).alias(name)
            }
            _ => Expr::Column(column),
        });
        let columns: Vec<_> = columns.collect();
        inputs.push(Arc::new(LogicalPlanBuilder::from(input).project(columns)?.build()?));
    }
    Ok(Transformed::yes(LogicalPlan::Union(Union::try_new_with_loose_types(inputs)?)))
}

/// The common type of columns that are not all numbers; `None` if they have it already, or there is none.
fn coerced(types: &[&DataType]) -> Option<DataType> {
    let mut values = types.iter().filter(|of| !of.is_null());
    let first = *values.next()?;
    let coerced = values.try_fold(first.clone(), |coerced, of| match (&coerced, *of) {
        // Nanoseconds would cover a few hundred years only.
        (DataType::Date32, moment @ DataType::Timestamp(..)) => Some(moment.clone()),
        (DataType::Timestamp(..), DataType::Date32) => Some(coerced),
        (coerced, of) => type_union_coercion(coerced, of),
    })?;
    types.iter().any(|of| !of.is_null() && **of != coerced).then_some(coerced)
}

/// Makes VALUES columns of floats and decimals doubles. Planning has typed them as decimals and cast their floats,
/// which decimals cannot hold if they are large or small.
fn with_floats(mut values: Values) -> Result<Transformed<LogicalPlan>> {
    let no_columns = DFSchema::empty();
    let width = values.schema.fields().len();
    let mixed: Vec<bool> = (0..width)
        .map(|position| values.values.iter().filter_map(|row| row.get(position)).any(is_coerced_float))
        .collect();
    if !mixed.contains(&true) {
        return Ok(Transformed::no(LogicalPlan::Values(values)));
    }
    let fields = values.schema.iter().zip(&mixed).map(|((qualifier, field), mixed)| {
        let field = match mixed {
            true => Arc::new(field.as_ref().clone().with_data_type(DataType::Float64)),
            false => Arc::clone(field),
        };
        (qualifier.cloned(), field)
    });
    let schema = DFSchema::new_with_metadata(fields.collect(), values.schema.metadata().clone())?;
    for row in &mut values.values {
        for (expression, _) in row.iter_mut().zip(&mixed).filter(|(_, mixed)| **mixed) {
            let written = match std::mem::take(expression) {
                Expr::Cast(Cast { expr, .. }) => *expr,
                other => other,
            };
            *expression = as_double(&written, &no_columns).unwrap_or_else(|| cast(written, DataType::Float64));
        }
    }
    values.schema = Arc::new(schema);
    Ok(Transformed::yes(LogicalPlan::Values(values)))
}

/// Whether this is a float in VALUES that planning has cast to the decimal for its type.
fn is_coerced_float(expression: &Expr) -> bool {
    use DataType::{Decimal128, Decimal256, Float16, Float32, Float64};
    let Expr::Cast(Cast { expr, field }) = expression else { return false };
    matches!(
        (expr.get_type(&DFSchema::empty()), field.data_type()),
        (Ok(Float16), Decimal128(6.., 3..) | Decimal256(6.., 3..))
            | (Ok(Float32), Decimal128(14.., 7..) | Decimal256(14.., 7..))
            | (Ok(Float64), Decimal128(30.., 15..) | Decimal256(30.., 15..))
    )
}

/// Makes the key types of an equi-join comparable, as for USING. Those of INTERSECT and EXCEPT, where NULL equals NULL,
/// have a common type already.
fn with_equal_types(mut join: Join) -> Join {
    for (left, right) in &mut join.on {
        let sides = [(left, join.left.schema()), (right, join.right.schema())];
        let types: Vec<_> = sides.iter().filter_map(|(side, schema)| side.get_type(schema.as_ref()).ok()).collect();
        let are_compared = join.null_equality == NullEquality::NullEqualsNothing;
        if meet(types.iter()) || are_compared && is_real_beside_integer(types.iter()) {
            for (side, schema) in sides {
                if let Some(double) = as_double(side, schema) {
                    *side = double;
                }
            }
        }
    }
    join
}

/// Whether floats meet decimals, or integers that would become decimals.
fn meet<'a>(types: impl Iterator<Item = &'a DataType> + Clone) -> bool {
    let any = |is: fn(&DataType) -> bool| types.clone().any(is);
    any(DataType::is_floating)
        && (any(DataType::is_decimal) || any(|of| matches!(of, DataType::UInt64)) && any(DataType::is_signed_integer))
}

/// Whether REALs are compared with integers, which SQL does as doubles and DataFusion as REALs.
fn is_real_beside_integer<'a>(types: impl Iterator<Item = &'a DataType> + Clone) -> bool {
    types.clone().any(|of| *of == DataType::Float32) && types.clone().any(DataType::is_integer)
}

/// The common type of numbers of several types, ignoring NULLs; `None` if nothing changes.
fn common<'a>(types: impl Iterator<Item = &'a DataType> + Clone) -> Option<DataType> {
    let mut numbers = types.filter(|of| !of.is_null());
    let all = numbers.clone();
    let first = numbers.next()?;
    if !all.clone().all(DataType::is_numeric) || numbers.clone().all(|of| of == first) {
        return None;
    }
    match meet(all.clone()) {
        true if all.clone().any(|of| *of == DataType::Float64) => Some(DataType::Float64),
        true => Some(DataType::Float32),
        false => numbers.try_fold(first.clone(), |common, of| type_union_coercion(&common, of)),
    }
}

/// The expression with doubles in place of decimals; `None` if nothing changes.
///
/// # Errors
/// If a subquery rejects the cast of its column.
fn replaced(expression: &Expr, schema: &DFSchema) -> Result<Option<Expr>> {
    Ok(match expression {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Divide, right }) => quotient(left, right, schema),
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let beside = if compares(*op) { is_text } else { is_interval };
            doubles([left.as_ref(), right.as_ref()], beside, schema)
                .map(|[left, right]| Expr::BinaryExpr(BinaryExpr::new(Box::new(left), *op, Box::new(right))))
        }
        Expr::Between(Between { expr, negated, low, high }) => {
            doubles([expr.as_ref(), low.as_ref(), high.as_ref()], is_text, schema).map(|[expr, low, high]| {
                Expr::Between(Between::new(Box::new(expr), *negated, Box::new(low), Box::new(high)))
            })
        }
        Expr::InList(InList { expr, list, negated }) => {
            let all: Vec<_> = std::iter::once(expr.as_ref()).chain(list).collect();
            doubles_of(&all, is_text, schema).map(|mut all| {
                let list = all.split_off(1);
                Expr::InList(InList::new(all.pop().map_or_else(|| expr.clone(), Box::new), list, *negated))
            })
        }
        Expr::InSubquery(InSubquery { expr, subquery, negated }) => beside_subquery(expr, subquery, schema)?
            .map(|(expr, subquery)| Expr::InSubquery(InSubquery::new(Box::new(expr), subquery, *negated))),
        Expr::SetComparison(SetComparison { expr, subquery, op, quantifier }) => {
            beside_subquery(expr, subquery, schema)?.map(|(expr, subquery)| {
                Expr::SetComparison(SetComparison::new(Box::new(expr), subquery, *op, *quantifier))
            })
        }
        Expr::Case(case) => branches(case, schema),
        Expr::ScalarFunction(ScalarFunction { func, args }) => arguments(func.name(), args, schema)
            .map(|args| Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(func), args))),
        Expr::Cast(Cast { expr, field }) if field.data_type().is_floating() => {
            written(expr).map(|number| cast(lit(number), field.data_type().clone()))
        }
        _ => None,
    })
}

/// The expressions as doubles; `None` if no floats meet decimals, and no decimal literal stands beside a type that
/// matches `beside`.
fn doubles<const N: usize>(
    expressions: [&Expr; N],
    beside: fn(&DataType) -> bool,
    schema: &DFSchema,
) -> Option<[Expr; N]> {
    doubles_of(&expressions, beside, schema)?.try_into().ok()
}

fn doubles_of(expressions: &[&Expr], beside: fn(&DataType) -> bool, schema: &DFSchema) -> Option<Vec<Expr>> {
    let types: Vec<_> = expressions.iter().filter_map(|expression| expression.get_type(schema).ok()).collect();
    let is_written = types.iter().any(beside) && expressions.iter().any(|expression| written(expression).is_some());
    (meet(types.iter()) || is_written).then(|| {
        let double = |expression: &&Expr| as_double(expression, schema).unwrap_or_else(|| (*expression).clone());
        expressions.iter().map(double).collect()
    })
}

fn is_text(of: &DataType) -> bool {
    of.is_string()
}

fn is_interval(of: &DataType) -> bool {
    matches!(of, DataType::Interval(_))
}

/// Converted arguments of a function; `None` if nothing changes.
fn arguments(function: &str, args: &[Expr], schema: &DFSchema) -> Option<Vec<Expr>> {
    let types: Vec<_> = args.iter().map(|arg| arg.get_type(schema)).collect::<Result<_>>().ok()?;
    match (function, types.as_slice()) {
        // Fields of a struct keep their own types.
        ("struct" | "named_struct", _) => None,
        // The result may have one more digit: 9.5 is rounded up to 10.
        ("ceil" | "floor", [DataType::Decimal128(precision @ ..38, scale)]) => {
            let wider = DataType::Decimal128(precision + 1, *scale);
            Some(args.iter().map(|arg| cast(arg.clone(), wider.clone())).collect())
        }
        (_, [DataType::List(item), ..]) if function.starts_with("array_") => {
            let common = common(std::iter::once(item.data_type()).chain(types.iter().skip(1)))?;
            let list = DataType::List(Arc::new(item.as_ref().clone().with_data_type(common.clone())));
            let of = |position| if position == 0 { list.clone() } else { common.clone() };
            types
                .iter()
                .any(DataType::is_decimal)
                .then(|| args.iter().enumerate().map(|(position, arg)| cast(arg.clone(), of(position))).collect())
        }
        _ => {
            let args: Vec<_> = args.iter().collect();
            match function {
                // These return one of their arguments.
                "coalesce" | "nvl" | "ifnull" | "greatest" | "least" if meet(types.iter()) => unified(&args, &types),
                _ => doubles_of(&args, |_| false, schema),
            }
        }
    }
}

/// Numbers of several types in their common type; `None` if nothing changes.
fn unified(numbers: &[&Expr], types: &[DataType]) -> Option<Vec<Expr>> {
    let common = common(types.iter())?;
    let unified = |(number, of): (&&Expr, &DataType)| match nearest(number, &common) {
        Some(nearest) => nearest,
        None if *of == common => (*number).clone(),
        None => cast((*number).clone(), common.clone()),
    };
    Some(numbers.iter().zip(types).map(unified).collect())
}

/// The quotient of decimals, in doubles; `None` for other types.
pub(super) fn quotient(left: &Expr, right: &Expr, schema: &DFSchema) -> Option<Expr> {
    let types = [left.get_type(schema).ok()?, right.get_type(schema).ok()?];
    let is_of_decimals =
        types.iter().any(DataType::is_decimal) && types.iter().all(|of| of.is_numeric() || of.is_null());
    is_of_decimals.then(|| {
        let [left, right] = [left, right].map(|side| as_double(side, schema).unwrap_or_else(|| side.clone()));
        left / right
    })
}

/// A decimal or an integer as a double; `None` for other types.
pub(super) fn as_double(expression: &Expr, schema: &DFSchema) -> Option<Expr> {
    if let Some(number) = written(expression) {
        return Some(lit(number));
    }
    let of = expression.get_type(schema).ok()?;
    (of.is_decimal() || of.is_integer()).then(|| cast(expression.clone(), DataType::Float64))
}

/// The double nearest to a decimal literal.
fn written(expression: &Expr) -> Option<f64> {
    decimal_text(expression)?.parse().ok()
}

/// The float of type `of` nearest to a decimal literal; `None` for other types.
fn nearest(expression: &Expr, of: &DataType) -> Option<Expr> {
    Some(match of {
        DataType::Float64 => lit(written(expression)?),
        DataType::Float32 => lit(decimal_text(expression)?.parse::<f32>().ok()?),
        _ => return None,
    })
}

/// The text of a decimal literal.
fn decimal_text(expression: &Expr) -> Option<String> {
    Some(match expression {
        Expr::Literal(ScalarValue::Decimal128(Some(digits), precision, scale), _) => {
            Decimal128Type::format_decimal(*digits, *precision, *scale)
        }
        Expr::Literal(ScalarValue::Decimal256(Some(digits), precision, scale), _) => {
            Decimal256Type::format_decimal(*digits, *precision, *scale)
        }
        Expr::Negative(of) => {
            let text = decimal_text(of)?;
            text.strip_prefix('-').map_or_else(|| format!("-{text}"), str::to_owned)
        }
        _ => return None,
    })
}

/// An operand and the column of a subquery, either of which becomes a double.
fn beside_subquery(expr: &Expr, subquery: &Subquery, schema: &DFSchema) -> Result<Option<(Expr, Subquery)>> {
    let (Ok(of), [column]) = (expr.get_type(schema), subquery.subquery.schema().fields().iter().as_slice()) else {
        return Ok(None);
    };
    if is_real_beside_integer([&of, column.data_type()].into_iter()) {
        let subquery = cast_subquery(subquery.clone(), &DataType::Float64)?;
        return Ok(Some((cast(expr.clone(), DataType::Float64), subquery)));
    }
    Ok(match (of.is_floating(), of.is_decimal()) {
        (true, _) if column.data_type().is_decimal() => {
            Some((expr.clone(), cast_subquery(subquery.clone(), &DataType::Float64)?))
        }
        (_, true) if column.data_type().is_floating() => as_double(expr, schema).map(|expr| (expr, subquery.clone())),
        _ => None,
    })
}

/// A CASE with a common type of its results and a comparable base. Until type coercion, a CASE has the type of its
/// first result.
fn branches(case: &Case, schema: &DFSchema) -> Option<Expr> {
    let (whens, thens): (Vec<_>, Vec<_>) =
        case.when_then_expr.iter().map(|(when, then)| (when.as_ref(), then.as_ref())).unzip();
    let bases: Vec<_> = case.expr.as_deref().into_iter().chain(whens.iter().copied()).collect();
    let results: Vec<_> = thens.iter().copied().chain(case.else_expr.as_deref()).collect();
    let compared = case.expr.as_ref().and_then(|_| doubles_of(&bases, is_text, schema));
    let types: Vec<_> = results.iter().map(|result| result.get_type(schema)).collect::<Result<_>>().ok()?;
    let unified = unified(&results, &types);
    if compared.is_none() && unified.is_none() {
        return None;
    }
    let owned = |expressions: Vec<&Expr>| expressions.into_iter().cloned().collect::<Vec<_>>();
    let mut bases = compared.unwrap_or_else(|| owned(bases)).into_iter();
    let mut results = unified.unwrap_or_else(|| owned(results)).into_iter();
    let base = if case.expr.is_some() { bases.next().map(Box::new) } else { None };
    let whens = bases.zip(results.by_ref().take(thens.len()).collect::<Vec<_>>());
    let whens = whens.map(|(when, then)| (Box::new(when), Box::new(then))).collect();
    Some(Expr::Case(Case::new(base, whens, results.next().map(Box::new))))
}
