//! Size limits of statements and plans, checked before planning and optimization.

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

/// Limit on operators of a plan, counting views and CTEs at each use.
const NODES_MAX: u64 = 50_000;

/// Limit on the depth of a plan: plans are built and dropped by recursion.
const LEVELS_MAX: u32 = 4000;

/// Limit on terms of a condition whose columns are expanded to the expressions of the queries below.
const TERMS_MAX: u64 = 500_000;

/// Limit on the nesting of subqueries in expressions and of WITH clauses. Each level of the former nearly doubles the
/// work of the optimizer, each level of the latter the planner's search for tables.
const DOUBLING_LEVELS_MAX: u32 = 12;

/// Checks that a statement is small enough to plan: the planner expands every CTE at each use.
///
/// # Errors
/// 54001 if it has more than `NODES_MAX` queries and tables with its CTEs expanded, or more than `DOUBLING_LEVELS_MAX`
/// nested subqueries of expressions and WITH clauses.
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

/// Whether an expression is a subquery, EXISTS, or IN with a subquery.
pub(super) fn is_subquery(expression: &ast::Expr) -> bool {
    use ast::Expr::{Exists, InSubquery, Subquery};
    matches!(expression, Subquery(_) | Exists { .. } | InSubquery { .. })
}

/// Sizes of the queries around a visitor's position, outermost first.
#[derive(Default)]
struct QuerySizes {
    open: Vec<QuerySize>,
    /// Total size of the outermost queries.
    whole: u64,
    /// Number of subqueries of expressions and WITH clauses around the position.
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

/// A partly visited query. Its CTEs are visited first.
struct QuerySize {
    nodes: u64,
    /// Names of its CTEs, by address.
    names: HashMap<*const Query, String>,
    /// Sizes of the CTEs visited so far, by name.
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

/// Checks that a plan is small enough to optimize. Views and CTEs that are used several times are shared in memory
/// until a rule rewrites them, and a condition that is pushed below a projection gets the projection's expressions in
/// place of columns. From 30 views, each of which reads the one before twice, or adds a column of it to itself, rules
/// would make a billion operators or terms without a way to cancel.
///
/// # Errors
/// 54001 if it has more than `NODES_MAX` operators, more than `LEVELS_MAX` levels, or a condition of more than
/// `TERMS_MAX` terms.
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
    /// Number of operators, including subqueries, counted at each use.
    nodes: u64,
    /// Terms of its computed columns, by name; columns that are not listed have one. Among columns of the same name,
    /// the largest counts.
    terms: Rc<HashMap<String, u64>>,
}

/// Sizes of visited plans, by address, which is stable while the checked plan exists.
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
            // The node is temporary; only the plan in it has a stable address.
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

/// Merges the terms of two inputs.
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

/// Terms of the output columns of an operator.
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

/// Number of terms of an expression with its columns expanded.
fn terms(expression: &Expr, below: &HashMap<String, u64>) -> Result<u64> {
    let mut count = 0_u64;
    expression.apply(|part| {
        count = count.saturating_add(match part {
            Expr::Column(column) => below.get(&column.name).copied().unwrap_or(1),
            // An alias computes nothing.
            Expr::Alias(_) => 0,
            _ => 1,
        });
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(count)
}
