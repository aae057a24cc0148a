//! Comparison of JSON documents.

use std::sync::Arc;

use arrow::datatypes::DataType as ArrowType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::common::{Column, DFSchema, DataFusionError, Result};
use datafusion::functions_aggregate::first_last::first_value_udaf;
use datafusion::logical_expr::expr::{
    AggregateFunction, Between, BinaryExpr, Case, InList, InSubquery, ScalarFunction, SetComparison, Sort,
    WindowFunction,
};
use datafusion::logical_expr::logical_plan::{Aggregate, Distinct, Subquery};
use datafusion::logical_expr::utils::grouping_set_to_exprlist;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder};
use datafusion::optimizer::AnalyzerRule;
use thermocline_pushdown::{external, is_jsonb, jsonb_key, sql_cast};
use thermocline_types::Class;

use super::expressions::{all_columns, compares, rewrite_expressions, with_sort_keys};

/// Compares, sorts and groups documents by their keys, because equal documents may have different texts. Runs after
/// type coercion.
///
/// ```text
/// GROUP BY document    Projection: first document AS document, ...
///                        Aggregate: GROUP BY key(document); first_value(document), ...
/// ```
#[derive(Debug)]
pub struct DocumentOrder;

impl AnalyzerRule for DocumentOrder {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(|node| match node {
            LogicalPlan::Distinct(Distinct::On(on))
                if on.on_expr.iter().any(|key| is_document(key, on.input.schema())) =>
            {
                Err(unsupported("DISTINCT ON of JSONB"))
            }
            node @ (LogicalPlan::Sort(_) | LogicalPlan::Distinct(Distinct::On(_))) => {
                let rewritten = rewrite_expressions(node, by_key)?;
                let is_rewritten = rewritten.transformed;
                let sorted = with_sort_keys(rewritten.data, sort_key);
                Ok(Transformed::new_transformed(sorted.data, is_rewritten || sorted.transformed))
            }
            LogicalPlan::Copy(mut copy) if has_documents(copy.input.schema()) => {
                copy.input = Arc::new(with_texts(&copy.input)?);
                Ok(Transformed::yes(LogicalPlan::Copy(copy)))
            }
            LogicalPlan::Join(mut join) => {
                let mut is_changed = false;
                for (left, right) in &mut join.on {
                    if is_document(left, join.left.schema()) && is_document(right, join.right.schema()) {
                        (*left, *right) = (jsonb_key(left.clone()), jsonb_key(right.clone()));
                        is_changed = true;
                    }
                }
                let rewritten = rewrite_expressions(LogicalPlan::Join(join), by_key)?;
                Ok(Transformed::new_transformed(rewritten.data, is_changed || rewritten.transformed))
            }
            LogicalPlan::Aggregate(aggregate) => {
                match rewrite_expressions(LogicalPlan::Aggregate(aggregate), by_key)? {
                    Transformed { data: LogicalPlan::Aggregate(aggregate), .. } if has_key(&aggregate) => {
                        grouped(&aggregate).map(Transformed::yes)
                    }
                    rewritten => Ok(rewritten),
                }
            }
            LogicalPlan::Distinct(Distinct::All(input)) if has_documents(input.schema()) => {
                let columns = all_columns(input.schema());
                grouped(&Aggregate::try_new(input, columns, vec![])?).map(Transformed::yes)
            }
            LogicalPlan::RecursiveQuery(query) if query.is_distinct && has_documents(query.static_term.schema()) => {
                Err(unsupported("UNION of JSONB in a recursive query"))
            }
            node => rewrite_expressions(node, by_key),
        })
        .data()
    }

    fn name(&self) -> &str {
        "document_order"
    }
}

fn has_key(aggregate: &Aggregate) -> bool {
    let keys = grouping_set_to_exprlist(&aggregate.group_expr).unwrap_or_default();
    keys.into_iter().any(|key| is_document(key, aggregate.input.schema()))
}

/// Groups by the keys of documents; each group returns its first document.
fn grouped(aggregate: &Aggregate) -> Result<LogicalPlan> {
    if aggregate.group_expr.iter().any(|key| matches!(key, Expr::GroupingSet(_))) {
        return Err(unsupported("GROUPING SETS, CUBE and ROLLUP of JSONB"));
    }
    let schema = aggregate.input.schema();
    let name = |what: &str, position: usize| format!("__{what}_{position}");
    let mut aggregates = aggregate.aggr_expr.clone();
    let mut keys = vec![];
    for (position, key) in aggregate.group_expr.iter().enumerate() {
        keys.push(match is_document(key, schema) {
            true => {
                let first = first_value_udaf().call(vec![key.clone().unalias()]);
                aggregates.push(first.alias(name("document", position)));
                jsonb_key(key.clone().unalias()).alias(name("key", position))
            }
            false => key.clone(),
        });
    }
    let by_key = LogicalPlan::Aggregate(Aggregate::try_new(Arc::clone(&aggregate.input), keys, aggregates)?);
    let columns = by_key.schema().columns();
    let of_groups = aggregate.group_expr.len();
    let output = aggregate.schema.iter().enumerate().map(|(position, (table, field))| {
        let is_first = position < of_groups && is_jsonb(field.data_type());
        let column = match (is_first, columns.get(position)) {
            (false, Some(column)) => column.clone(),
            _ => Column::new_unqualified(name("document", position)),
        };
        Expr::Column(column).alias_qualified(table.cloned(), field.name())
    });
    let output: Vec<Expr> = output.collect();
    LogicalPlanBuilder::from(by_key).project(output)?.build()
}

fn by_key(expression: &Expr, schema: &DFSchema) -> Result<Option<Expr>> {
    let boxed = |of: &Expr| Box::new(jsonb_key(of.clone()));
    Ok(match expression {
        Expr::BinaryExpr(BinaryExpr { left, op, right })
            if compares(*op) && is_document(left, schema) && is_document(right, schema) =>
        {
            Some(Expr::BinaryExpr(BinaryExpr::new(boxed(left), *op, boxed(right))))
        }
        Expr::Between(Between { expr, negated, low, high }) if is_document(expr, schema) => {
            Some(Expr::Between(Between::new(boxed(expr), *negated, boxed(low), boxed(high))))
        }
        Expr::InList(InList { expr, list, negated }) if is_document(expr, schema) => {
            let list = list.iter().cloned().map(jsonb_key).collect();
            Some(Expr::InList(InList::new(boxed(expr), list, *negated)))
        }
        Expr::Case(Case { expr: Some(base), when_then_expr, else_expr }) if is_document(base, schema) => {
            let branches = when_then_expr.iter().map(|(when, then)| (boxed(when), then.clone())).collect();
            Some(Expr::Case(Case::new(Some(boxed(base)), branches, else_expr.clone())))
        }
        Expr::InSubquery(InSubquery { expr, subquery, negated }) if is_document(expr, schema) => {
            Some(Expr::InSubquery(InSubquery::new(boxed(expr), keys_of(subquery)?, *negated)))
        }
        Expr::SetComparison(SetComparison { expr, subquery, op, quantifier }) if is_document(expr, schema) => {
            let subquery = keys_of(subquery)?;
            Some(Expr::SetComparison(SetComparison::new(boxed(expr), subquery, *op, *quantifier)))
        }
        // `= ANY (ARRAY[...])`
        Expr::ScalarFunction(ScalarFunction { func, args }) if matches!(func.name(), "array_has") => {
            match args.as_slice() {
                [Expr::ScalarFunction(array), item]
                    if is_document(item, schema) && array.func.name() == "make_array" =>
                {
                    let keys = array.args.iter().cloned().map(jsonb_key).collect();
                    let array = Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(&array.func), keys));
                    let args = vec![array, jsonb_key(item.clone())];
                    Some(Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(func), args)))
                }
                [_, item] if is_document(item, schema) => return Err(unsupported("= ANY of an array of JSONB")),
                _ => None,
            }
        }
        Expr::AggregateFunction(AggregateFunction { func, params }) => {
            let mut params = params.clone();
            let mut is_changed = sorted_by_keys(&mut params.order_by, schema);
            if params.distinct && params.args.iter().any(|value| is_document(value, schema)) {
                if func.name() != "count" {
                    return Err(unsupported(format_args!("{}(DISTINCT ...) of JSONB", func.name())));
                }
                params.args = params.args.into_iter().map(|value| keyed(value, schema)).collect();
                is_changed = true;
            }
            is_changed.then(|| Expr::AggregateFunction(AggregateFunction { func: Arc::clone(func), params }))
        }
        Expr::WindowFunction(function) => {
            let WindowFunction { fun, params } = function.as_ref();
            let mut params = params.clone();
            if params.distinct && params.args.iter().any(|value| is_document(value, schema)) {
                return Err(unsupported("DISTINCT of JSONB in a window"));
            }
            let mut is_changed = sorted_by_keys(&mut params.order_by, schema);
            is_changed |= params.partition_by.iter().any(|key| is_document(key, schema));
            params.partition_by = params.partition_by.into_iter().map(|key| keyed(key, schema)).collect();
            is_changed.then(|| Expr::WindowFunction(Box::new(WindowFunction { fun: fun.clone(), params })))
        }
        _ => None,
    })
}

/// The subquery with keys in place of its documents.
fn keys_of(subquery: &Subquery) -> Result<Subquery> {
    let column = Expr::Column(Column::from(subquery.subquery.schema().qualified_field(0)));
    let plan = LogicalPlanBuilder::from(Arc::clone(&subquery.subquery)).project([jsonb_key(column).alias("__item")])?;
    Ok(subquery.with_plan(Arc::new(plan.build()?)))
}

fn keyed(value: Expr, schema: &DFSchema) -> Expr {
    if is_document(&value, schema) { jsonb_key(value) } else { value }
}

fn sort_key(of: &Expr, schema: &DFSchema) -> Option<Expr> {
    is_document(of, schema).then(|| jsonb_key(of.clone()))
}

/// Replaces documents among sort keys by their keys; returns whether there was one.
fn sorted_by_keys(sorts: &mut [Sort], schema: &DFSchema) -> bool {
    let mut is_changed = false;
    for sort in sorts.iter_mut().filter(|sort| is_document(&sort.expr, schema)) {
        sort.expr = jsonb_key(sort.expr.clone());
        is_changed = true;
    }
    is_changed
}

/// The rows with documents as texts, the form in files.
fn with_texts(input: &Arc<LogicalPlan>) -> Result<LogicalPlan> {
    let columns = input.schema().columns().into_iter().map(|column| {
        let name = column.name.clone();
        let field = Expr::Column(column);
        Ok(match is_document(&field, input.schema()) {
            true => sql_cast(field, &ArrowType::Utf8View)?.alias(name),
            false => field,
        })
    });
    LogicalPlanBuilder::from(Arc::clone(input)).project(columns.collect::<Result<Vec<_>>>()?)?.build()
}

/// Whether an expression is a document.
pub(super) fn is_document(of: &Expr, schema: &DFSchema) -> bool {
    of.get_type(schema).is_ok_and(|of| is_jsonb(&of))
}

fn has_documents(schema: &DFSchema) -> bool {
    schema.fields().iter().any(|field| is_jsonb(field.data_type()))
}

fn unsupported(what: impl std::fmt::Display) -> DataFusionError {
    external(Class::Unsupported.error(what))
}
