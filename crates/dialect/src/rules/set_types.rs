//! Column types of UNION, INTERSECT and EXCEPT.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::common::{JoinType, Result};
use datafusion::logical_expr::expr::Alias;
use datafusion::logical_expr::{Distinct, Expr, LogicalPlan, Projection, SubqueryAlias, Union, cast};
use datafusion::optimizer::AnalyzerRule;
use thermocline_pushdown::{arrow_type, external, sql_type};
use thermocline_types::{Class, DataType};

use super::operators::{Operand, operand, settled};
use super::set_counts::{is_set_operation, rejoined};

/// Gives string literals and NULLs in the select lists of UNION, INTERSECT and EXCEPT the types of the other query's
/// columns, and rejects texts in columns of other types. DataFusion converts both to text.
#[derive(Debug)]
pub struct SetTypes;

impl AnalyzerRule for SetTypes {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(|node| match node {
            LogicalPlan::Union(mut union) => Ok(match settle(&mut union.inputs, "UNION")? {
                true => Transformed::yes(LogicalPlan::Union(Union::try_new_with_loose_types(union.inputs)?)),
                false => Transformed::no(LogicalPlan::Union(union)),
            }),
            LogicalPlan::Join(join) if is_set_operation(&join) => {
                let name = if join.join_type == JoinType::LeftSemi { "INTERSECT" } else { "EXCEPT" };
                let mut sides = [Arc::clone(&join.left), Arc::clone(&join.right)];
                if !settle(&mut sides, name)? {
                    return Ok(Transformed::no(LogicalPlan::Join(join)));
                }
                let [left, right] = sides;
                Ok(Transformed::yes(rejoined(join, left, right)?))
            }
            node => Ok(Transformed::no(node)),
        })
        .data()
    }

    fn name(&self) -> &str {
        "set_types"
    }
}

/// Settles the column types of the sides; returns whether one has changed.
fn settle(sides: &mut [Arc<LogicalPlan>], name: &str) -> Result<bool> {
    let width = sides.iter().map(|side| side.schema().fields().len()).min().unwrap_or(0);
    let mut is_changed = false;
    for column in 0..width {
        let (mut text, mut other, mut is_unknown, mut is_foreign) = (false, None, false, false);
        for side in sides.iter() {
            match of_column(side, column) {
                Operand::Unknown => is_unknown = true,
                Operand::Of(DataType::Text | DataType::Varchar(_) | DataType::Char(_)) => text = true,
                // A literal keeps its digits.
                Operand::Of(DataType::Decimal { .. }) => other = other.or(Some(DataType::Numeric)),
                Operand::Of(of) => other = other.or(Some(of)),
                Operand::Other => is_foreign = true,
            }
        }
        let Some(of) = other.filter(|_| !is_foreign) else { continue };
        if text {
            let message = format!("{name} types {of} and TEXT cannot be matched: write a CAST");
            return Err(external(Class::TypeMismatch.error(message)));
        }
        if !is_unknown {
            continue;
        }
        for side in sides.iter_mut() {
            if matches!(of_column(side, column), Operand::Unknown) {
                *side = Arc::new(with_type(side, column, of)?);
                is_changed = true;
            }
        }
    }
    Ok(is_changed)
}

fn of_column(side: &LogicalPlan, column: usize) -> Operand {
    match side {
        LogicalPlan::Distinct(Distinct::All(input)) => of_column(input, column),
        // A side renamed to the columns of the other.
        LogicalPlan::SubqueryAlias(side) => of_column(&side.input, column),
        LogicalPlan::Projection(Projection { expr, input, .. }) => match expr.get(column) {
            Some(Expr::Alias(Alias { expr, .. })) => operand(expr, input.schema()),
            Some(expr) => operand(expr, input.schema()),
            None => Operand::Other,
        },
        other => {
            let of = other.schema().fields().get(column).and_then(|field| sql_type(field.data_type()));
            of.map_or(Operand::Other, Operand::Of)
        }
    }
}

/// Converts the literal in a column of a side to a type.
fn with_type(side: &LogicalPlan, column: usize, of: DataType) -> Result<LogicalPlan> {
    match side {
        LogicalPlan::Distinct(Distinct::All(input)) => {
            Ok(LogicalPlan::Distinct(Distinct::All(Arc::new(with_type(input, column, of)?))))
        }
        LogicalPlan::SubqueryAlias(side) => {
            let input = Arc::new(with_type(&side.input, column, of)?);
            Ok(LogicalPlan::SubqueryAlias(SubqueryAlias::try_new(input, side.alias.clone())?))
        }
        LogicalPlan::Projection(Projection { expr, input, schema, .. }) => {
            let mut list = expr.clone();
            if let Some(item) = list.get_mut(column) {
                let (qualifier, field) = schema.qualified_field(column);
                let literal = settled(&item.clone().unalias(), None, of)?;
                let literal = match (of, arrow_type(of)) {
                    (DataType::SmallInt | DataType::Integer, Some(of)) => cast(literal, of),
                    _ => literal,
                };
                *item = literal.alias_qualified(qualifier.cloned(), field.name());
            }
            Ok(LogicalPlan::Projection(Projection::try_new(list, Arc::clone(input))?))
        }
        other => Ok(other.clone()),
    }
}
