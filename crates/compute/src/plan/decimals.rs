//! Decimals beside other numbers.

use std::cell::Cell;
use std::sync::Arc;

use arrow::datatypes::{DataType, Decimal128Type, Decimal256Type, DecimalType};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::execution::FunctionRegistry;
use datafusion::logical_expr::expr::{
    Between, BinaryExpr, Case, Cast, InList, InSubquery, ScalarFunction, SetComparison,
};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::expr_schema::cast_subquery;
use datafusion::logical_expr::logical_plan::Subquery;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{
    Expr, ExprSchemable, Join, LogicalPlan, LogicalPlanBuilder, Operator, Union, cast, lit,
};
use datafusion::optimizer::AnalyzerRule;
use datafusion::prelude::SessionContext;
use datafusion::sql::sqlparser::ast::BinaryOperator;

use super::expressions::{columns_of, compares};

/// Takes decimals for doubles where they meet floats, before types are coerced.
///
/// DataFusion would take the floats for `DECIMAL(30, 15)`, which neither holds their small values nor their
/// large ones, wherever both are compared or have to become one type. A decimal that is written beside text or
/// an interval is a double, too: text would be rounded to as many digits, and intervals take no decimals.
#[derive(Debug)]
pub(crate) struct Decimals;

impl AnalyzerRule for Decimals {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        // Types of what is above a changed expression may be others, too.
        let is_changed = Cell::new(false);
        let plan = plan.transform_up_with_subqueries(|node| {
            let node = if is_changed.get() { node.recompute_schema()? } else { node };
            let rewritten = rewritten(node)?;
            if rewritten.transformed {
                is_changed.set(true);
                return rewritten.map_data(LogicalPlan::recompute_schema);
            }
            Ok(rewritten)
        });
        plan.data()
    }

    fn name(&self) -> &str {
        "decimals"
    }
}

/// One operator of a plan.
fn rewritten(node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let node = match node {
        LogicalPlan::Union(union) => united(union)?,
        LogicalPlan::Join(join) => Transformed::no(LogicalPlan::Join(with_equal_types(join))),
        node => Transformed::no(node),
    };
    node.transform_data(|node| {
        let schema = columns_of(&node);
        let names = NamePreserver::new(&node);
        node.map_expressions(|expression| {
            let name = names.save(&expression);
            let rewritten = expression.transform_up(|part| {
                Ok(match replaced(&part, &schema)? {
                    Some(part) => Transformed::yes(part),
                    None => Transformed::no(part),
                })
            })?;
            Ok(match rewritten.transformed {
                true => rewritten.update_data(|expression| name.restore(expression)),
                false => rewritten,
            })
        })
    })
}

/// Inputs of a union with doubles in the place of decimals that meet floats.
fn united(union: Union) -> Result<Transformed<LogicalPlan>> {
    let mixed: Vec<bool> = (0..union.schema.fields().len())
        .map(|position| {
            let types = union.inputs.iter().filter_map(|input| input.schema().fields().get(position));
            mixes(types.map(|field| field.data_type()))
        })
        .collect();
    if !mixed.contains(&true) {
        return Ok(Transformed::no(LogicalPlan::Union(union)));
    }
    let mut inputs = vec![];
    for input in union.inputs {
        let columns = input.schema().columns();
        let columns = columns.into_iter().zip(input.schema().fields()).zip(&mixed).map(|((column, field), mixed)| {
            let name = column.name.clone();
            match *mixed && field.data_type().is_decimal() {
                true => cast(Expr::Column(column), DataType::Float64).alias(name),
                false => Expr::Column(column),
            }
        });
        let columns: Vec<_> = columns.collect();
        inputs.push(Arc::new(LogicalPlanBuilder::from(input).project(columns)?.build()?));
    }
    Ok(Transformed::yes(LogicalPlan::Union(Union::try_new_with_loose_types(inputs)?)))
}

/// A join with equal columns, as of USING and INTERSECT, whose types can be compared.
fn with_equal_types(mut join: Join) -> Join {
    for (left, right) in &mut join.on {
        let sides = [(&*left, join.left.schema()), (&*right, join.right.schema())];
        let types = sides.map(|(side, schema)| side.get_type(schema).ok());
        if mixes(types.iter().flatten()) {
            for (side, schema) in [(left, join.left.schema()), (right, join.right.schema())] {
                *side = as_double(side, schema).unwrap_or_else(|| side.clone());
            }
        }
    }
    join
}

/// Whether floats are among the types, and decimals, too.
fn mixes<'a>(types: impl Iterator<Item = &'a DataType> + Clone) -> bool {
    types.clone().any(DataType::is_floating) && { types }.any(DataType::is_decimal)
}

/// `expression` with doubles in the place of decimals; `None` where nothing is to be changed.
///
/// # Errors
/// If a subquery does not take the cast of its column.
fn replaced(expression: &Expr, schema: &DFSchema) -> Result<Option<Expr>> {
    Ok(match expression {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => compared(left, *op, right, schema).or_else(|| {
            let [left, right] = doubles([left.as_ref(), right.as_ref()], schema)?;
            Some(Expr::BinaryExpr(BinaryExpr::new(Box::new(left), *op, Box::new(right))))
        }),
        Expr::Between(Between { expr, negated, low, high }) => {
            doubles([expr.as_ref(), low.as_ref(), high.as_ref()], schema).map(|[expr, low, high]| {
                Expr::Between(Between::new(Box::new(expr), *negated, Box::new(low), Box::new(high)))
            })
        }
        Expr::InList(InList { expr, list, negated }) => {
            let all: Vec<_> = std::iter::once(expr.as_ref()).chain(list).collect();
            doubles_of(&all, schema).map(|mut all| {
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
        // Values of a struct keep types of their own.
        Expr::ScalarFunction(ScalarFunction { func, args }) if !matches!(func.name(), "struct" | "named_struct") => {
            let args: Vec<_> = args.iter().collect();
            let args = doubles_of(&args, schema);
            args.map(|args| Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(func), args)))
        }
        Expr::Cast(Cast { expr, field }) if field.data_type().is_floating() => {
            written(expr).map(|number| cast(lit(number), field.data_type().clone()))
        }
        _ => None,
    })
}

/// The same expressions with doubles in the place of decimals; `None` if they mix none.
fn doubles<const N: usize>(expressions: [&Expr; N], schema: &DFSchema) -> Option<[Expr; N]> {
    doubles_of(&expressions, schema)?.try_into().ok()
}

fn doubles_of(expressions: &[&Expr], schema: &DFSchema) -> Option<Vec<Expr>> {
    let types: Vec<_> = expressions.iter().filter_map(|expression| expression.get_type(schema).ok()).collect();
    let is_beside_literal = |of: &DataType| of.is_string() || matches!(of, DataType::Interval(_));
    let is_double = types.iter().any(is_beside_literal) && expressions.iter().any(|of| written(of).is_some());
    (mixes(types.iter()) || is_double).then(|| {
        let double = |expression: &&Expr| as_double(expression, schema).unwrap_or_else(|| (*expression).clone());
        expressions.iter().map(double).collect()
    })
}

/// A decimal as a double; `None` if it is none.
fn as_double(expression: &Expr, schema: &DFSchema) -> Option<Expr> {
    if let Some(number) = written(expression) {
        return Some(lit(number));
    }
    let of = expression.get_type(schema).ok()?;
    of.is_decimal().then(|| cast(expression.clone(), DataType::Float64))
}

/// The double that is nearest to a decimal that is written.
fn written(expression: &Expr) -> Option<f64> {
    let text = match expression {
        Expr::Literal(ScalarValue::Decimal128(Some(digits), precision, scale), _) => {
            Decimal128Type::format_decimal(*digits, *precision, *scale)
        }
        Expr::Literal(ScalarValue::Decimal256(Some(digits), precision, scale), _) => {
            Decimal256Type::format_decimal(*digits, *precision, *scale)
        }
        Expr::Negative(of) => return written(of).map(|number| -number),
        _ => return None,
    };
    text.parse().ok()
}

/// An operand and the column of a subquery, one of which becomes a double.
fn beside_subquery(expr: &Expr, subquery: &Subquery, schema: &DFSchema) -> Result<Option<(Expr, Subquery)>> {
    let (Ok(of), [column]) = (expr.get_type(schema), subquery.subquery.schema().fields().iter().as_slice()) else {
        return Ok(None);
    };
    Ok(match (of.is_floating(), of.is_decimal()) {
        (true, _) if column.data_type().is_decimal() => {
            Some((expr.clone(), cast_subquery(subquery.clone(), &DataType::Float64)?))
        }
        (_, true) if column.data_type().is_floating() => as_double(expr, schema).map(|expr| (expr, subquery.clone())),
        _ => None,
    })
}

/// A CASE with doubles for results, and for what its base is compared with.
fn branches(case: &Case, schema: &DFSchema) -> Option<Expr> {
    let (whens, thens): (Vec<_>, Vec<_>) =
        case.when_then_expr.iter().map(|(when, then)| (when.as_ref(), then.as_ref())).unzip();
    let bases: Vec<_> = case.expr.as_deref().into_iter().chain(whens.iter().copied()).collect();
    let results: Vec<_> = thens.iter().copied().chain(case.else_expr.as_deref()).collect();
    let compared = case.expr.as_ref().and_then(|_| doubles_of(&bases, schema));
    let types: Vec<_> = results.iter().filter_map(|result| result.get_type(schema).ok()).collect();
    let unified = mixes(types.iter()).then(|| doubles_of(&results, schema)).flatten();
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

/// An integer beside a decimal with digits behind the point, compared with the integers around it: they need
/// no type that holds both, and statistics prune by them. `None` for anything else.
fn compared(left: &Expr, op: Operator, right: &Expr, schema: &DFSchema) -> Option<Expr> {
    use Operator::{Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq};
    let (value, op, literal) = match (left, right) {
        (literal @ Expr::Literal(..), value) => (value, op.swap()?, literal),
        (value, literal) => (value, op, literal),
    };
    if !compares(op) || !value.get_type(schema).ok()?.is_integer() {
        return None;
    }
    let Expr::Literal(ScalarValue::Decimal128(Some(digits), _, scale), _) = literal else { return None };
    let unit = 10_i128.checked_pow(u32::try_from(*scale).ok()?)?;
    let floor = i64::try_from(digits.div_euclid(unit)).ok()?;
    let next = floor.checked_add(1)?;
    let is =
        |op: Operator, bound: i64| Expr::BinaryExpr(BinaryExpr::new(Box::new(value.clone()), op, Box::new(lit(bound))));
    Some(match op {
        _ if digits.rem_euclid(unit) == 0 => return None,
        Lt | LtEq => is(LtEq, floor),
        Gt | GtEq => is(GtEq, next),
        Eq => is(LtEq, floor).and(is(GtEq, next)),
        NotEq => is(LtEq, floor).or(is(GtEq, next)),
        IsDistinctFrom => lit(true),
        IsNotDistinctFrom => lit(false),
        _ => return None,
    })
}

/// Has the planner of `context` take numbers with a point for decimals, and quotients of decimals for
/// doubles. Sessions do, and so does what is compared with them.
///
/// # Errors
/// None that a context gives today.
pub fn register_numbers(context: &SessionContext) -> Result<()> {
    let state = context.state_ref();
    let mut state = state.write();
    state.config_mut().options_mut().sql_parser.parse_float_as_decimal = true;
    state.register_expr_planner(Arc::new(Quotients))
}

/// Divides decimals as doubles. The quotients that DataFusion gives have four more digits than the dividend,
/// and fewer than users expect of `1.0 / 3`.
///
/// This is part of planning, not a rule: the type of what a division is part of depends on it.
#[derive(Debug)]
struct Quotients;

impl ExprPlanner for Quotients {
    fn plan_binary_op(&self, division: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        let is_number = |side: &Expr| side.get_type(schema).is_ok_and(|of| of.is_numeric() || of.is_null());
        let sides = (as_double(&division.left, schema), as_double(&division.right, schema));
        if !matches!(division.op, BinaryOperator::Divide)
            || matches!(sides, (None, None))
            || !is_number(&division.left)
            || !is_number(&division.right)
        {
            return Ok(PlannerResult::Original(division));
        }
        let (left, right) = (sides.0.unwrap_or(division.left), sides.1.unwrap_or(division.right));
        Ok(PlannerResult::Planned(left / right))
    }
}
