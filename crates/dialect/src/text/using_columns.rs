//! Qualification of USING columns that DataFusion finds ambiguous.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

use datafusion::common::JoinType;
use datafusion::sql::sqlparser::ast::{
    ExcludeSelectItem, Expr, Ident, Join, JoinConstraint, ObjectName, OrderBy, Query, Select, SelectItem,
    SelectItemQualifiedWildcardKind, TableAlias, TableFactor, TableWithJoins, VisitMut, VisitorMut,
    WildcardAdditionalOptions,
};

use thermocline_syntax::folded;

use super::any_expression;
use crate::rules::{by_names, in_two_pairs, merged_qualifier, merges_columns};

/// Qualifies the USING columns of a SELECT with the table that provides the merged column: the left one for inner and
/// left joins; see [`crate::rules::MergedColumns`] for others. DataFusion does so in the SELECT list only, and finds
/// the columns ambiguous in WHERE, in ORDER BY, and after a second USING.
///
/// Keeps a name if the statement does not determine its table: in a chain of joins whose first USING does not name it,
/// after NATURAL, beside other items of FROM.
pub(super) fn qualify(select: &mut Select) {
    let columns = columns_of(select);
    if columns.is_empty() {
        return;
    }
    // Names in FROM refer to single sides.
    let from = std::mem::take(&mut select.from);
    // After grouping, a name may refer to an output column.
    let mut grouped = (select.having.take(), select.qualify.take());
    let _: ControlFlow<()> = select.visit(&mut Qualifier { columns: &columns, outputs: HashSet::new(), depth: 0 });
    let mut after = Qualifier { columns: &columns, outputs: outputs(select), depth: 0 };
    let _: ControlFlow<()> = grouped.0.visit(&mut after);
    let _: ControlFlow<()> = grouped.1.visit(&mut after);
    (select.having, select.qualify) = grouped;
    select.from = from;
}

/// [`qualify`] for the ORDER BY of a SELECT, where output columns take precedence.
pub(super) fn qualify_order(select: &Select, order: &mut OrderBy) {
    let columns = columns_of(select);
    if !columns.is_empty() {
        let _: ControlFlow<()> = order.visit(&mut Qualifier { columns: &columns, outputs: outputs(select), depth: 0 });
    }
}

/// The first `table.*` in a SELECT list beside a merging join, which may have removed columns of the table; see
/// [`crate::rules::MergedColumns`].
pub(super) fn incomplete_wildcard(select: &Select) -> Option<&ObjectName> {
    if !select.from.iter().any(has_merging_joins) {
        return None;
    }
    select.projection.iter().find_map(|item| match item {
        SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) => Some(name),
        _ => None,
    })
}

/// Limit on joins of a statement that are put into parentheses. Each is a level of the planner's recursion.
pub(super) const NESTED_JOINS_MAX: usize = 100;

/// Puts joins with USING or NATURAL into two pairs of parentheses, for [`crate::rules::MergedColumns`], where
/// DataFusion would take the merged column from the wrong side or find it ambiguous: for a `*` that is not
/// [expanded](order_star), with three or more joins, beside RIGHT and FULL JOINs, and for NATURAL joins unless the
/// statement qualifies columns.
pub(super) fn merge(select: &mut Select) {
    let mut joins = vec![];
    select.from.iter().for_each(|from| collect(from, &mut joins));
    let count = joins.len();
    if count == 0 || count > NESTED_JOINS_MAX {
        return;
    }
    let is_natural = joins.iter().any(|(_, constraint)| **constraint == JoinConstraint::Natural);
    let has_right = joins.iter().any(|(of, _)| matches!(of, JoinType::Right | JoinType::Full));
    let has_star = select.projection.iter().any(|item| matches!(item, SelectItem::Wildcard(_)));
    let is_written = matches!(select.from.as_slice(), [from] if columns_in_order(from).is_some());
    let is_lone_right = has_right && count == 1;
    let is_merged = count > 2
        || ((has_right || is_natural) && count > 1)
        || (has_star && !is_written && !is_lone_right)
        || (is_natural && !is_lone_right && !names_tables(select));
    if is_merged {
        select.from.iter_mut().for_each(parenthesize);
    }
}

fn collect<'a>(from: &'a TableWithJoins, joins: &mut Vec<(JoinType, &'a JoinConstraint)>) {
    let relations = std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation));
    for relation in relations {
        if let TableFactor::NestedJoin { table_with_joins, .. } = relation {
            collect(table_with_joins, joins);
        }
    }
    joins.extend(from.joins.iter().filter_map(|join| by_names(&join.join_operator)));
}

/// Whether a SELECT contains a qualified column or `*`.
fn names_tables(select: &Select) -> bool {
    let is_star = |item: &SelectItem| matches!(item, SelectItem::QualifiedWildcard(..));
    select.projection.iter().any(is_star) || any_expression(select, |part| matches!(part, Expr::CompoundIdentifier(_)))
}

fn parenthesize(from: &mut TableWithJoins) {
    let relations = std::iter::once(&mut from.relation).chain(from.joins.iter_mut().map(|join| &mut join.relation));
    for relation in relations {
        if let TableFactor::NestedJoin { table_with_joins, .. } = relation {
            parenthesize(table_with_joins);
        }
    }
    nest(from, |join| by_names(&join.join_operator).is_some(), true);
}

/// Adds parentheses, `((a JOIN b ...) JOIN c ...) JOIN d ...`, where the second join satisfies `is`; two pairs around
/// the part that ends with it, if `in_two_pairs`.
pub fn nest(from: &mut TableWithJoins, is: impl Fn(&Join) -> bool, in_two_pairs: bool) {
    let mut waiting = vec![];
    for join in std::mem::take(&mut from.joins) {
        let is_one = is(&join);
        if is_one && !waiting.is_empty() {
            in_parentheses(&mut from.relation, std::mem::take(&mut waiting));
        }
        waiting.push(join);
        if is_one {
            in_parentheses(&mut from.relation, std::mem::take(&mut waiting));
            if in_two_pairs {
                in_parentheses(&mut from.relation, vec![]);
            }
        }
    }
    from.joins = waiting;
}

fn in_parentheses(relation: &mut TableFactor, joins: Vec<Join>) {
    let table_with_joins = Box::new(TableWithJoins { relation: relation.clone(), joins });
    *relation = TableFactor::NestedJoin { table_with_joins, alias: None };
}

/// Expands a `*` over a chain of inner and left joins with USING in SQL's order: merged columns, then the others of
/// each table. DataFusion keeps merged columns in the places of their tables.
///
/// Keeps a `*` if the statement does not determine the table of a merged column, as in [`qualify`].
pub(super) fn order_star(select: &mut Select) {
    let [from] = select.from.as_slice() else { return };
    let all = SelectItem::Wildcard(WildcardAdditionalOptions::default());
    let is_star = |item: &SelectItem| *item == all;
    if !select.projection.iter().any(is_star) {
        return;
    }
    let Some(columns) = columns_in_order(from) else { return };
    let projection = std::mem::take(&mut select.projection);
    let written = |item| if is_star(&item) { columns.clone() } else { vec![item] };
    select.projection = projection.into_iter().flat_map(written).collect();
}

fn columns_in_order(from: &TableWithJoins) -> Option<Vec<SelectItem>> {
    struct Merged {
        name: String,
        /// Its table.
        of: ObjectName,
    }
    let mut merged: Vec<Merged> = vec![];
    let mut tables = vec![(path(&from.relation)?, vec![])];
    for join in &from.joins {
        let Some((JoinType::Inner | JoinType::Left, JoinConstraint::Using(names))) = by_names(&join.join_operator)
        else {
            return None;
        };
        let names: Vec<String> = idents(names).map(folded).collect();
        let mut first = vec![];
        for name in &names {
            match (merged.iter().position(|known| known.name == *name), tables.as_mut_slice()) {
                (Some(place), _) => first.push(merged.remove(place)),
                (None, [(only, left_out)]) => {
                    first.push(Merged { name: name.clone(), of: only.clone() });
                    left_out.push(name.clone());
                }
                _ => return None,
            }
        }
        first.append(&mut merged);
        merged = first;
        tables.push((path(&join.relation)?, names));
    }
    let quoted = |name: String| Ident::with_quote('"', name);
    let column = |Merged { name, of }| {
        let table = of.0.into_iter().filter_map(|part| part.as_ident().cloned());
        SelectItem::UnnamedExpr(Expr::CompoundIdentifier(table.chain([quoted(name)]).collect()))
    };
    let rest = |(table, left_out): (ObjectName, Vec<String>)| {
        let left_out = left_out.into_iter().map(|name| ObjectName::from(quoted(name))).collect();
        let options = WildcardAdditionalOptions {
            opt_exclude: Some(ExcludeSelectItem::Multiple(left_out)),
            ..WildcardAdditionalOptions::default()
        };
        SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(table), options)
    };
    (!merged.is_empty()).then(|| merged.into_iter().map(column).chain(tables.into_iter().map(rest)).collect())
}

/// The name of a relation, with its schema if given.
fn path(relation: &TableFactor) -> Option<ObjectName> {
    match relation {
        TableFactor::Table { name, alias: None, .. } => Some(name.clone()),
        other => qualifier(other).map(ObjectName::from),
    }
}

fn has_merging_joins(from: &TableWithJoins) -> bool {
    if in_two_pairs(from).is_some() {
        return true;
    }
    let is_nested = |relation: &TableFactor| match relation {
        TableFactor::NestedJoin { table_with_joins, .. } => has_merging_joins(table_with_joins),
        _ => false,
    };
    let is_merging = |join: &Join| merges_columns(&join.join_operator).is_some() || is_nested(&join.relation);
    is_nested(&from.relation) || from.joins.iter().any(is_merging)
}

/// Qualifiers of merged columns by name.
type Columns = HashMap<String, Ident>;

fn columns_of(select: &Select) -> Columns {
    match select.from.as_slice() {
        [from] if !from.joins.is_empty() || matches!(from.relation, TableFactor::NestedJoin { .. }) => merged(from).0,
        _ => Columns::new(),
    }
}

/// The merged columns of a chain of joins, and its table if it has only one.
fn merged(from: &TableWithJoins) -> (Columns, Option<Ident>) {
    let (mut columns, mut only) = match &from.relation {
        TableFactor::NestedJoin { table_with_joins, alias: None } => merged(table_with_joins),
        relation => (Columns::new(), qualifier(relation)),
    };
    for join in &from.joins {
        let right = qualifier(&join.relation);
        match by_names(&join.join_operator) {
            Some((JoinType::Inner | JoinType::Left, JoinConstraint::Using(names))) => {
                for name in idents(names) {
                    if let Some(left) = &only {
                        columns.entry(folded(name)).or_insert_with(|| left.clone());
                    }
                }
            }
            Some((of, JoinConstraint::Using(names))) => {
                for name in idents(names) {
                    let name = folded(name);
                    let left = columns.remove(&name).or_else(|| only.clone());
                    if let (Some(left), Some(right)) = (left, &right) {
                        let of = match of {
                            JoinType::Full => Ident::with_quote('"', merged_qualifier(&folded(&left), &folded(right))),
                            _ => right.clone(),
                        };
                        columns.insert(name, of);
                    }
                }
            }
            // NATURAL may have merged any column.
            Some((JoinType::Right | JoinType::Full, _)) => columns.clear(),
            _ => {}
        }
        only = None;
    }
    (columns, only)
}

fn idents(names: &[ObjectName]) -> impl Iterator<Item = &Ident> {
    names.iter().filter_map(|name| name.0.last()?.as_ident())
}

/// The qualifier of a relation's columns; `None` if the statement does not determine it.
fn qualifier(relation: &TableFactor) -> Option<Ident> {
    let name = |alias: &TableAlias| alias.name.clone();
    match relation {
        TableFactor::Table { name: table, alias, .. } => {
            alias.as_ref().map(name).or_else(|| table.0.last()?.as_ident().cloned())
        }
        TableFactor::Derived { alias, .. } | TableFactor::NestedJoin { alias, .. } => alias.as_ref().map(name),
        _ => None,
    }
}

/// Column aliases of a SELECT.
fn outputs(select: &Select) -> HashSet<String> {
    let alias = |item: &SelectItem| match item {
        SelectItem::ExprWithAlias { alias, .. } => Some(folded(alias)),
        _ => None,
    };
    select.projection.iter().filter_map(alias).collect()
}

struct Qualifier<'a> {
    columns: &'a Columns,
    /// Names that are kept.
    outputs: HashSet<String>,
    /// Nesting of subqueries, whose names may refer to their own tables.
    depth: usize,
}

impl VisitorMut for Qualifier<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<()> {
        if let Expr::Identifier(name) = &*expression
            && self.depth == 0
            && !self.outputs.contains(&folded(name))
            && let Some(of) = self.columns.get(&folded(name))
        {
            *expression = Expr::CompoundIdentifier(vec![of.clone(), name.clone()]);
        }
        ControlFlow::Continue(())
    }
}
