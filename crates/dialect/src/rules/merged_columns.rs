//! Merged columns of joins with USING or NATURAL.

use std::collections::HashSet;

use datafusion::common::{Column, DFSchema, ExprSchema, JoinType, Result, TableReference};
use datafusion::logical_expr::planner::{PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, ScalarUDF};
use datafusion::sql::sqlparser::ast::{Join, JoinConstraint, JoinOperator, TableFactor, TableWithJoins};
use thermocline_pushdown::user_err;

use super::coalesce::Coalesce;

/// Plans `(a RIGHT JOIN b USING (k))` and `(a FULL JOIN b USING (k))`, also NATURAL: `k` is taken from the right side,
/// or for FULL from the side that has a row, and precedes all other columns. DataFusion takes it from the left side,
/// where it is NULL in rows without a left match.
///
/// The result has a single column `k`, so `a.k`, and `b.k` of a FULL JOIN, are rejected; a join with ON has both.
///
/// Plans `((a JOIN b USING (k)))` and `((a LEFT JOIN b USING (k)))` likewise, with `k` from the left side. DataFusion
/// keeps both columns, and expands `*` to the one whose table is first in alphabetical order.
#[derive(Debug)]
pub struct MergedColumns;

/// Type and constraint of a RIGHT or FULL JOIN with USING or NATURAL; `None` for other joins.
pub fn merges_columns(operator: &JoinOperator) -> Option<(JoinType, &JoinConstraint)> {
    by_names(operator).filter(|(of, _)| matches!(of, JoinType::Right | JoinType::Full))
}

/// Type and constraint of a join with USING or NATURAL; `None` for other joins.
pub fn by_names(operator: &JoinOperator) -> Option<(JoinType, &JoinConstraint)> {
    let (of, constraint) = match operator {
        JoinOperator::Join(constraint) | JoinOperator::Inner(constraint) => (JoinType::Inner, constraint),
        JoinOperator::Left(constraint) | JoinOperator::LeftOuter(constraint) => (JoinType::Left, constraint),
        JoinOperator::Right(constraint) | JoinOperator::RightOuter(constraint) => (JoinType::Right, constraint),
        JoinOperator::FullOuter(constraint) => (JoinType::Full, constraint),
        _ => return None,
    };
    matches!(constraint, JoinConstraint::Using(_) | JoinConstraint::Natural).then_some((of, constraint))
}

/// The single join in two pairs of parentheses.
pub fn in_two_pairs(outer: &TableWithJoins) -> Option<&TableWithJoins> {
    match &outer.relation {
        TableFactor::NestedJoin { table_with_joins, alias: None } if outer.joins.is_empty() => {
            (table_with_joins.joins.len() == 1).then_some(table_with_joins)
        }
        _ => None,
    }
}

impl RelationPlanner for MergedColumns {
    fn plan_relation(
        &self,
        relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        let TableFactor::NestedJoin { table_with_joins, alias } = relation else {
            return Ok(RelationPlanning::Original(Box::new(relation)));
        };
        let (inner, is_any) = match in_two_pairs(&table_with_joins) {
            Some(inner) => (inner.clone(), true),
            None => (*table_with_joins, false),
        };
        let TableWithJoins { relation: first, joins } = inner;
        let merging = match joins.as_slice() {
            [join] if is_any => by_names(&join.join_operator).map(|(of, constraint)| (join, of, constraint)),
            [join] => merges_columns(&join.join_operator).map(|(of, constraint)| (join, of, constraint)),
            _ => None,
        };
        let Some((Join { relation: second, .. }, of, constraint)) = merging else {
            let table_with_joins = Box::new(TableWithJoins { relation: first, joins });
            return Ok(RelationPlanning::Original(Box::new(TableFactor::NestedJoin { table_with_joins, alias })));
        };
        let (left, right) = (context.plan(first)?, context.plan(second.clone())?);
        let names = match constraint {
            JoinConstraint::Using(names) => names
                .iter()
                .map(|name| match name.0.as_slice() {
                    [part] if let Some(name) = part.as_ident() => Ok(context.normalize_ident(name.clone())),
                    _ => user_err!(AmbiguousColumn, "USING ({name}): a column has a name without a table"),
                })
                .collect::<Result<_>>()?,
            _ => common_names(left.schema(), right.schema()),
        };
        let plan = merged(left, right, of, &names)?;
        Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(plan, alias))))
    }
}

fn common_names(left: &DFSchema, right: &DFSchema) -> Vec<String> {
    let right: HashSet<_> = right.fields().iter().map(|field| field.name()).collect();
    left.fields().iter().map(|field| field.name()).filter(|name| right.contains(name)).cloned().collect()
}

/// The qualifier of a merged column of two tables: neither table's, and not empty, because DataFusion does not accept
/// an unqualified column beside qualified ones of the same name.
pub fn merged_qualifier(left: &str, right: &str) -> String {
    format!("{left}, {right}")
}

fn both(left: &Column, right: &Column) -> TableReference {
    let of = |column: &Column| column.relation.as_ref().map(|table| table.table().to_owned()).unwrap_or_default();
    TableReference::bare(merged_qualifier(&of(left), &of(right)))
}

/// The join under a projection that merges its columns.
fn merged(left: LogicalPlan, right: LogicalPlan, of: JoinType, names: &[String]) -> Result<LogicalPlan> {
    let column = |plan: &LogicalPlan, name: &String| -> Result<Column> {
        Ok(plan.schema().qualified_field_with_unqualified_name(name)?.into())
    };
    let mut keys = (vec![], vec![]);
    for name in names {
        keys.0.push(column(&left, name)?);
        keys.1.push(column(&right, name)?);
    }
    let mut columns = vec![];
    let others = left.schema().columns().into_iter().filter(|column| !keys.0.contains(column));
    for column in keys.0.iter().cloned().chain(others) {
        let key = keys.0.iter().zip(&keys.1).find(|(key, _)| **key == column);
        let first_of = |first: &Column, second: &Column| {
            ScalarUDF::from(Coalesce::default()).call(vec![Expr::Column(first.clone()), Expr::Column(second.clone())])
        };
        columns.push(match (key, of) {
            (None, _) | (_, JoinType::Inner | JoinType::Left) => Expr::Column(column),
            (Some((key, other)), JoinType::Right) => match same_type(&left, key, &right, other) {
                true => Expr::Column(other.clone()),
                // The right side's value in the common type.
                false => first_of(other, key).alias_qualified(other.relation.clone(), &key.name),
            },
            (Some((key, other)), _) => first_of(key, other).alias_qualified(Some(both(key, other)), &key.name),
        });
    }
    columns.extend(right.schema().columns().into_iter().filter(|column| !keys.1.contains(column)).map(Expr::Column));
    let join = match names {
        [] => LogicalPlanBuilder::from(left).join_on(right, of, [])?,
        _ => LogicalPlanBuilder::from(left).join(right, of, keys, None)?,
    };
    join.project(columns)?.build()
}

fn same_type(left: &LogicalPlan, key: &Column, right: &LogicalPlan, other: &Column) -> bool {
    let of =
        |plan: &LogicalPlan, column| plan.schema().field_from_column(column).map(|field| field.data_type().clone());
    matches!((of(left, key), of(right, other)), (Ok(left), Ok(right)) if left == right)
}
