//! Limits on how much there is to plan, before the planner or any rule of the optimizer looks at it.

use std::collections::HashMap;
use std::fmt;
use std::ops::ControlFlow;
use std::rc::Rc;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DataFusionError, Result};
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::sql::parser::{CopyToSource, Statement};
use datafusion::sql::sqlparser::ast::{self, ObjectName, ObjectNamePart, Query, Visit, Visitor};
use thermocline_pushdown::external;
use thermocline_types::Class;

use thermocline_syntax::folded;

/// Operators of a plan in which every view and every CTE stands wherever it is used.
const NODES_MAX: u64 = 50_000;

/// Operators on top of each other: plans are planned and dropped by recursion.
const LEVELS_MAX: u32 = 4000;

/// Terms of a condition in which every column is written out as what the queries below compute for it.
const TERMS_MAX: u64 = 500_000;

/// Subqueries of expressions and WITH clauses within each other. Every level of the first nearly doubles what the
/// optimizer does, every level of the others what the planner does to find the tables.
const DOUBLING_LEVELS_MAX: u32 = 12;

/// Checks that a statement is small enough to be made a plan: the planner rewrites every CTE wherever it is used.
///
/// # Errors
/// 54001 if it has more than `NODES_MAX` queries and tables with its CTEs written out, or more than
/// `DOUBLING_LEVELS_MAX` subqueries of expressions and WITH clauses within each other.
pub fn check_statement_size(statement: &Statement) -> Result<()> {
    let mut sizes = QuerySizes::default();
    let _: ControlFlow<()> = match statement {
        Statement::Statement(ast) => ast.visit(&mut sizes),
        Statement::CopyTo(copy) => match &copy.source {
            CopyToSource::Query(query) => query.visit(&mut sizes),
            CopyToSource::Relation(_) => return Ok(()),
        },
        Statement::Explain(explain) => return check_statement_size(&explain.statement),
        _ => return Ok(()),
    };
    match sizes.whole {
        _ if sizes.is_too_deep => {
            let message =
                format!("more than {DOUBLING_LEVELS_MAX} subqueries of expressions and WITH clauses within each other");
            Err(external(Class::TooDeep.error(message)))
        }
        nodes if nodes <= NODES_MAX => Ok(()),
        _ => Err(too_large(format_args!("{NODES_MAX} operators"))),
    }
}

/// Whether an expression is a query, or compares with the rows of one.
pub(super) fn is_subquery(expression: &ast::Expr) -> bool {
    use ast::Expr::{Exists, InSubquery, Subquery};
    matches!(expression, Subquery(_) | Exists { .. } | InSubquery { .. })
}

/// Sizes of the queries that a visitor is in, with the outermost first.
#[derive(Default)]
struct QuerySizes {
    open: Vec<QuerySize>,
    /// Of all that have no other around them.
    whole: u64,
    /// Subqueries of expressions and WITH clauses that the visitor is in.
    doubling_levels: u32,
    is_too_deep: bool,
}

impl QuerySizes {
    fn enter(&mut self, is_doubling_level: bool) -> ControlFlow<()> {
        self.doubling_levels += u32::from(is_doubling_level);
        self.is_too_deep |= self.doubling_levels > DOUBLING_LEVELS_MAX;
        if self.is_too_deep { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// A query, of which a part has been visited. Its CTEs come first.
struct QuerySize {
    nodes: u64,
    /// Of its CTEs, by address, the names.
    names: HashMap<*const Query, String>,
    /// Of those that were visited, the sizes.
    ctes: HashMap<String, u64>,
}

impl Visitor for QuerySizes {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        let ctes = query.with.iter().flat_map(|with| &with.cte_tables);
        let names = ctes.map(|cte| (std::ptr::from_ref(cte.query.as_ref()), folded(&cte.alias.name)));
        self.open.push(QuerySize { nodes: 1, names: names.collect(), ctes: HashMap::new() });
        self.enter(query.with.is_some())
    }

    fn post_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        self.doubling_levels -= u32::from(query.with.is_some());
        let Some(QuerySize { nodes, .. }) = self.open.pop() else { return ControlFlow::Continue(()) };
        match self.open.last_mut() {
            None => self.whole = self.whole.saturating_add(nodes),
            Some(outer) => match outer.names.remove(&std::ptr::from_ref(query)) {
                Some(name) => drop(outer.ctes.insert(name, nodes)),
                None => outer.nodes = outer.nodes.saturating_add(nodes),
            },
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expression: &ast::Expr) -> ControlFlow<()> {
        self.enter(is_subquery(expression))
    }

    fn post_visit_expr(&mut self, expression: &ast::Expr) -> ControlFlow<()> {
        self.doubling_levels -= u32::from(is_subquery(expression));
        ControlFlow::Continue(())
    }

    fn pre_visit_relation(&mut self, relation: &ObjectName) -> ControlFlow<()> {
        let cte = match relation.0.as_slice() {
            [ObjectNamePart::Identifier(name)] => {
                let name = folded(name);
                self.open.iter().rev().find_map(|query| query.ctes.get(&name).copied())
            }
            _ => None,
        };
        if let Some(query) = self.open.last_mut() {
            query.nodes = query.nodes.saturating_add(cte.unwrap_or(1));
        }
        ControlFlow::Continue(())
    }
}

/// Checks that a plan is small enough to be optimized. Views and CTEs that are used several times are shared in
/// memory until a rule rewrites them, and a condition that is moved below a projection has the projection's
/// expressions in place of its columns. Of 30 views, each of which reads the one before twice, or adds a column
/// of the one before to itself, rules make a billion operators or terms, and nothing can stop them meanwhile.
///
/// # Errors
/// 54001 if it has more than `NODES_MAX` operators, more than `LEVELS_MAX` on top of each other, or a condition
/// of more than `TERMS_MAX` terms.
pub fn check_plan_size(plan: &LogicalPlan) -> Result<()> {
    match Sizes::default().of(plan, 0)?.nodes {
        nodes if nodes <= NODES_MAX => Ok(()),
        _ => Err(too_large(format_args!("{NODES_MAX} operators"))),
    }
}

fn too_large(what: fmt::Arguments<'_>) -> DataFusionError {
    external(Class::TooDeep.error(format_args!(
        "the statement is too large to be planned: with its views, CTEs and computed columns written out wherever \
         they are used, it has more than {what}"
    )))
}

/// Size of a plan.
#[derive(Debug, Clone, Default)]
struct Size {
    /// Operators of it and of its subqueries, each as often as it is used.
    nodes: u64,
    /// Terms of its computed columns, by name. Columns that are not in it have one. Of columns with the same
    /// name the largest counts.
    terms: Rc<HashMap<String, u64>>,
}

/// Sizes of plans that have been looked at, by address: the plan that is checked keeps them where they are.
#[derive(Default)]
struct Sizes(HashMap<*const LogicalPlan, Size>);

impl Sizes {
    fn of(&mut self, plan: &LogicalPlan, level: u32) -> Result<Size> {
        if let Some(size) = self.0.get(&std::ptr::from_ref(plan)) {
            return Ok(size.clone());
        }
        if level == LEVELS_MAX {
            return Err(too_large(format_args!("{LEVELS_MAX} levels")));
        }
        let mut nodes = 1_u64;
        let mut below = Rc::<HashMap<String, u64>>::default();
        for input in plan.inputs() {
            let input = self.of(input, level + 1)?;
            nodes = nodes.saturating_add(input.nodes);
            below = united(below, input.terms);
        }
        plan.apply_subqueries(|subquery| {
            // Made for this call, so that only what it holds has an address that lasts.
            if let LogicalPlan::Subquery(subquery) = subquery {
                nodes = nodes.saturating_add(self.of(&subquery.subquery, level + 1)?.nodes);
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        if matches!(plan, LogicalPlan::Filter(_) | LogicalPlan::Join(_)) {
            plan.apply_expressions(|condition| match terms(condition, &below)? {
                count if count <= TERMS_MAX => Ok(TreeNodeRecursion::Continue),
                _ => Err(too_large(format_args!("{TERMS_MAX} terms in a condition"))),
            })?;
        }
        let size = Size { nodes, terms: above(plan, below)? };
        self.0.insert(std::ptr::from_ref(plan), size.clone());
        Ok(size)
    }
}

/// Terms of computed columns of two inputs.
fn united(left: Rc<HashMap<String, u64>>, right: Rc<HashMap<String, u64>>) -> Rc<HashMap<String, u64>> {
    if right.is_empty() || Rc::ptr_eq(&left, &right) {
        return left;
    }
    if left.is_empty() {
        return right;
    }
    let mut all = (*left).clone();
    for (name, count) in right.iter() {
        let largest = all.entry(name.clone()).or_default();
        *largest = (*count).max(*largest);
    }
    Rc::new(all)
}

/// Terms of the computed columns that an operator hands on.
fn above(plan: &LogicalPlan, below: Rc<HashMap<String, u64>>) -> Result<Rc<HashMap<String, u64>>> {
    let (LogicalPlan::Projection(_) | LogicalPlan::Aggregate(_)) = plan else {
        return Ok(below);
    };
    let mut computed = HashMap::new();
    plan.apply_expressions(|expression| {
        let count = terms(expression, &below)?;
        if count > 1 {
            let largest = computed.entry(expression.qualified_name().1).or_default();
            *largest = count.max(*largest);
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(Rc::new(computed))
}

/// Terms of an expression with its columns written out.
fn terms(expression: &Expr, below: &HashMap<String, u64>) -> Result<u64> {
    let mut count = 0_u64;
    expression.apply(|part| {
        count = count.saturating_add(match part {
            Expr::Column(column) => below.get(&column.name).copied().unwrap_or(1),
            // An alias of nothing but a column computes nothing.
            Expr::Alias(_) => 0,
            _ => 1,
        });
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(count)
}
