//! Binding and planning of queries.

use sqlparser::ast::{
    self, Distinct, GroupByExpr, LimitClause, OrderByExpr, OrderByKind, Query, SelectFlavor, SelectItem,
    SelectItemQualifiedWildcardKind, SetExpr,
};
use thermocline_types::{Class, DataType, Error, Result, Value};

use super::from::bind_from;
use super::{Group, Select, SortKey};
use crate::bind::{AGGREGATES_FROM, Aggregate, AggregateKind, Binder, Typed};
use crate::expression::Expr;
use crate::names::{fold, object};
use crate::output_name;
use crate::plan::{Joined, OrderColumn, Routing, conjuncts, note_needs, plan_joins};
use crate::rows::OutputColumn;

/// Columns of a result and their expressions.
#[derive(Debug, Default)]
pub(crate) struct Outputs {
    pub exprs: Vec<Expr>,
    pub columns: Vec<OutputColumn>,
}

impl Outputs {
    fn push(&mut self, name: Box<str>, typed: Typed) {
        self.columns.push(OutputColumn { name, data_type: typed.type_or_text() });
        self.exprs.push(typed.expr);
    }
}

/// Binds and plans a query.
pub fn bind_select(binder: &mut Binder<'_>, query: &Query) -> Result<(Select, Vec<OutputColumn>)> {
    let simple = query.with.is_none()
        && query.fetch.is_none()
        && query.for_clause.is_none()
        && query.settings.is_none()
        && query.pipe_operators.is_empty();
    let SetExpr::Select(select) = &*query.body else { return Err(Error::unsupported("this kind of query")) };
    let simple = simple
        // Excludes `FROM t` without SELECT, among others.
        && select.flavor == SelectFlavor::Standard
        && select.top.is_none()
        && select.into.is_none()
        && select.exclude.is_none()
        && select.lateral_views.is_empty()
        && select.prewhere.is_none()
        && select.connect_by.is_empty()
        && select.cluster_by.is_empty()
        && select.distribute_by.is_empty()
        && select.sort_by.is_empty()
        && select.named_window.is_empty()
        && select.qualify.is_none();
    if !simple {
        return Err(Error::unsupported("this kind of query"));
    }
    let distinct = match &select.distinct {
        None | Some(Distinct::All) => false,
        Some(Distinct::Distinct) => true,
        Some(Distinct::On(_)) => return Err(Error::unsupported("DISTINCT ON")),
    };
    let tables = bind_from(binder, &select.from)?;
    let condition = select.selection.as_ref().map(|condition| binder.condition(condition, "WHERE")).transpose()?;
    let order_by = match &query.order_by {
        None => &[],
        Some(order) => match &order.kind {
            OrderByKind::Expressions(order) => order.as_slice(),
            OrderByKind::All(_) => return Err(Error::unsupported("ORDER BY ALL")),
        },
    };
    let ((outputs, having, order), aggregates) = binder.with_aggregates(|binder| {
        let outputs = outputs(binder, &select.projection)?;
        let having = select.having.as_ref().map(|having| binder.condition(having, "HAVING")).transpose()?;
        let order = bind_order(binder, order_by, &outputs)?;
        Ok((outputs, having, order))
    })?;
    let keys = group_keys(binder, &select.group_by, &outputs)?;
    let visible = outputs.exprs.len();
    let (exprs, order) = place_order(outputs.exprs, order, distinct)?;
    let (limit, offset) = bind_limit(binder, query.limit_clause.as_ref())?;
    let grouped = !keys.is_empty() || !aggregates.is_empty() || having.is_some();
    let group = grouped.then_some(Group { keys, aggregates, having, first_only: false });
    let filters: Vec<Expr> = condition.clone().map(conjuncts).unwrap_or_default();
    let mut planned = Select {
        steps: Vec::new(),
        filter: if tables.is_empty() { filters.clone() } else { Vec::new() },
        routing: Routing::of(&tables, &filters)?,
        group,
        outputs: exprs,
        visible,
        distinct,
        order,
        ordered: false,
        limit,
        offset,
        point: false,
    };
    regroup(binder, &mut planned)?;
    plan(&mut planned, &tables, condition)?;
    Ok((planned, outputs.columns))
}

/// Chooses indexes and the order of joins.
fn plan(select: &mut Select, tables: &[Joined], condition: Option<Expr>) -> Result<()> {
    let wanted = match &select.group {
        None => wanted_order(select),
        Some(group) => first_of_order(group, tables),
    };
    let hint = wanted.as_ref().map(|(slot, columns)| (*slot, columns.as_slice()));
    let joins = plan_joins(tables, condition, hint)?;
    let sorted = wanted.is_some() && joins.ordered;
    match &mut select.group {
        None => select.ordered = select.order.is_empty() || sorted,
        Some(group) => group.first_only = sorted,
    }
    select.steps = joins.steps;
    let group = select.group.iter();
    let grouped = group.flat_map(|group| {
        let aggregates = group.aggregates.iter().flat_map(|aggregate| [&aggregate.argument, &aggregate.filter]);
        group.keys.iter().chain(aggregates.flatten()).chain(&group.having)
    });
    note_needs(&mut select.steps, &grouped.chain(&select.outputs).collect::<Vec<_>>());
    select.point = matches!(select.steps.as_slice(), [step] if step.is_point())
        && select.group.is_none()
        && !select.distinct
        && select.limit.is_none()
        && select.offset.is_none()
        && matches!(select.routing, Routing::Any | Routing::One(_));
    Ok(())
}

/// The sort columns if all are of one table; `None` if an index cannot give that order.
fn wanted_order(select: &Select) -> Option<(usize, Vec<OrderColumn>)> {
    let mut of = None;
    let mut columns = Vec::with_capacity(select.order.len());
    for key in &select.order {
        let Some(Expr::Column { slot, column }) = select.outputs.get(key.output) else { return None };
        if key.nulls_first != key.descending || of.is_some_and(|of| of != *slot) {
            return None;
        }
        of = Some(*slot);
        columns.push(OrderColumn { column: *column, descending: key.descending });
    }
    Some((of?, columns))
}

/// The order whose first row gives the only aggregate, `MIN(column)` or `MAX(column)`.
fn first_of_order(group: &Group, tables: &[Joined]) -> Option<(usize, Vec<OrderColumn>)> {
    let [Aggregate { kind, argument: Some(Expr::Column { slot, column }), filter: None, .. }] = &*group.aggregates
    else {
        return None;
    };
    let [table] = tables else { return None };
    // NULLs sort last.
    let nullable = table.table.columns.get(*column).is_none_or(|column| column.nullable);
    let descending = match kind {
        AggregateKind::Min => false,
        AggregateKind::Max => true,
        _ => return None,
    };
    (group.keys.is_empty() && !nullable).then(|| (*slot, vec![OrderColumn { column: *column, descending }]))
}

/// Columns of a select list or of `RETURNING`.
pub fn outputs(binder: &mut Binder<'_>, items: &[SelectItem]) -> Result<Outputs> {
    let mut outputs = Outputs::default();
    let columns: usize = binder.tables().iter().map(|table| table.table.columns.len()).sum();
    for item in items {
        if !matches!(item, SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. }) {
            binder.add_expressions(columns)?;
        }
        match item {
            SelectItem::UnnamedExpr(expr) => {
                let typed = binder.expression(expr)?;
                outputs.push(output_name(expr), typed);
            }
            SelectItem::ExprWithAlias { expr, alias } => {
                let typed = binder.expression(expr)?;
                outputs.push(fold(alias)?, typed);
            }
            SelectItem::Wildcard(options) if *options == ast::WildcardAdditionalOptions::default() => {
                if binder.tables().is_empty() {
                    return Err(Class::Syntax.error("SELECT * with no tables specified is not valid"));
                }
                push_columns(binder, &mut outputs, None)?;
            }
            SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), options)
                if *options == ast::WildcardAdditionalOptions::default() =>
            {
                push_columns(binder, &mut outputs, Some(&object(name)?))?;
            }
            other => push_wildcard(binder, &mut outputs, other)?,
        }
    }
    Ok(outputs)
}

/// Adds the columns of a wildcard; one with EXCLUDE, RENAME and the like is unsupported.
fn push_wildcard(binder: &Binder<'_>, outputs: &mut Outputs, item: &SelectItem) -> Result<()> {
    let (name, options) = match item {
        SelectItem::Wildcard(options) => (None, options),
        SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), options) => {
            (Some(object(name)?), options)
        }
        other => return Err(Error::unsupported(other)),
    };
    let plain = options.opt_ilike.is_none()
        && options.opt_exclude.is_none()
        && options.opt_except.is_none()
        && options.opt_replace.is_none()
        && options.opt_rename.is_none();
    if !plain {
        return Err(Error::unsupported(item));
    }
    push_columns(binder, outputs, name.as_deref())
}

fn push_columns(binder: &Binder<'_>, outputs: &mut Outputs, of: Option<&str>) -> Result<()> {
    let mut found = false;
    for (slot, known) in binder.tables().iter().enumerate() {
        let excluded = of.is_none() && &*known.alias == crate::bind::EXCLUDED;
        if excluded || of.is_some_and(|of| of != &*known.alias) {
            continue;
        }
        found = true;
        for (column, definition) in known.table.listed_columns() {
            let typed = Typed::new(Expr::Column { slot, column }, definition.data_type);
            outputs.push(definition.name.clone(), typed);
        }
    }
    match (found, of) {
        (false, Some(of)) => {
            Err(Class::UndefinedTable.error(format_args!("missing FROM-clause entry for table \"{of}\"")))
        }
        _ => Ok(()),
    }
}

/// A sort key before it has a position among the outputs.
enum OrderItem {
    Output(usize),
    Expr(Expr),
}

fn bind_order(
    binder: &mut Binder<'_>,
    order_by: &[OrderByExpr],
    outputs: &Outputs,
) -> Result<Vec<(OrderItem, bool, bool)>> {
    let mut order = Vec::with_capacity(order_by.len());
    for item in order_by {
        if item.with_fill.is_some() {
            return Err(Error::unsupported("WITH FILL"));
        }
        let key = match output_reference(&item.expr, outputs, "ORDER BY")? {
            Some(position) => OrderItem::Output(position),
            None => OrderItem::Expr(binder.expression(&item.expr)?.expr),
        };
        let descending = item.options.asc == Some(false);
        order.push((key, descending, item.options.nulls_first.unwrap_or(descending)));
    }
    Ok(order)
}

/// The output that a number or a name in ORDER BY or GROUP BY refers to.
fn output_reference(expr: &ast::Expr, outputs: &Outputs, clause: &str) -> Result<Option<usize>> {
    match expr {
        ast::Expr::Value(value) => {
            let ast::Value::Number(digits, _) = &value.value else { return Ok(None) };
            match digits.parse::<usize>() {
                Ok(number) if (1..=outputs.exprs.len()).contains(&number) => Ok(Some(number - 1)),
                _ => {
                    let message = format!("{clause} position {digits} is not in select list");
                    Err(Class::InvalidColumnReference.error(message))
                }
            }
        }
        ast::Expr::Identifier(name) => {
            let name = fold(name)?;
            let mut called = outputs.columns.iter().zip(&outputs.exprs).enumerate();
            let Some((first, (_, expr))) = called.find(|(_, (column, _))| column.name == name) else { return Ok(None) };
            match called.any(|(_, (column, other))| column.name == name && other != expr) {
                true => Err(Class::AmbiguousColumn.error(format_args!("{clause} \"{name}\" is ambiguous"))),
                false => Ok(Some(first)),
            }
        }
        _ => Ok(None),
    }
}

/// Appends sort keys that are not in the result as hidden outputs.
fn place_order(
    mut exprs: Vec<Expr>,
    order: Vec<(OrderItem, bool, bool)>,
    distinct: bool,
) -> Result<(Vec<Expr>, Vec<SortKey>)> {
    let mut keys = Vec::with_capacity(order.len());
    for (item, descending, nulls_first) in order {
        let output = match item {
            OrderItem::Output(position) => position,
            OrderItem::Expr(expr) => match exprs.iter().position(|known| *known == expr) {
                Some(position) => position,
                None if distinct => {
                    return Err(Class::InvalidColumnReference
                        .error("for SELECT DISTINCT, ORDER BY expressions must appear in select list"));
                }
                None => {
                    exprs.push(expr);
                    exprs.len() - 1
                }
            },
        };
        keys.push(SortKey { output, descending, nulls_first });
    }
    Ok((exprs, keys))
}

fn group_keys(binder: &mut Binder<'_>, group_by: &GroupByExpr, outputs: &Outputs) -> Result<Vec<Expr>> {
    let GroupByExpr::Expressions(written, modifiers) = group_by else { return Err(Error::unsupported("GROUP BY ALL")) };
    if !modifiers.is_empty() {
        return Err(Error::unsupported("GROUP BY with a modifier"));
    }
    let mut keys = Vec::with_capacity(written.len());
    for expr in written {
        // In GROUP BY, a column name takes precedence over an alias.
        let bound = match binder.expression(expr) {
            Ok(typed) if !matches!(typed.expr, Expr::Literal(Value::Int(_))) => typed.expr,
            other => match output_reference(expr, outputs, "GROUP BY")? {
                Some(position) => outputs.exprs.get(position).cloned().unwrap_or(Expr::Literal(Value::Null)),
                None => other?.expr,
            },
        };
        let mut aggregate = false;
        bound.walk(&mut |part| aggregate |= matches!(part, Expr::Computed(_)));
        if aggregate {
            return Err(Class::Grouping.error("aggregate functions are not allowed in GROUP BY"));
        }
        keys.push(bound);
    }
    Ok(keys)
}

/// Rewrites outputs and HAVING of a grouped query to read keys and aggregates instead of tables.
fn regroup(binder: &Binder<'_>, select: &mut Select) -> Result<()> {
    let Some(group) = &mut select.group else { return Ok(()) };
    let keys = &group.keys;
    let mut change = |expr: &mut Expr| -> Result<bool> {
        if let Some(position) = keys.iter().position(|key| key == expr) {
            *expr = Expr::Computed(position);
            return Ok(false);
        }
        match expr {
            Expr::Computed(position) if *position >= AGGREGATES_FROM => {
                *position = *position - AGGREGATES_FROM + keys.len();
                Ok(false)
            }
            Expr::Column { slot, column } => Err(Class::Grouping.error(format_args!(
                "column \"{}\" must appear in the GROUP BY clause or be used in an aggregate function",
                binder.column_name(*slot, *column)
            ))),
            _ => Ok(true),
        }
    };
    for expr in select.outputs.iter_mut().chain(&mut group.having) {
        expr.rewrite(&mut change)?;
    }
    Ok(())
}

fn bind_limit(binder: &mut Binder<'_>, clause: Option<&LimitClause>) -> Result<(Option<Expr>, Option<Expr>)> {
    let (limit, offset) = match clause {
        None => (None, None),
        Some(LimitClause::LimitOffset { limit, offset, limit_by }) if limit_by.is_empty() => {
            (limit.as_ref(), offset.as_ref().map(|offset| &offset.value))
        }
        Some(_) => return Err(Error::unsupported("this LIMIT")),
    };
    let mut bind = |expr: Option<&ast::Expr>| -> Result<Option<Expr>> {
        let Some(expr) = expr else { return Ok(None) };
        let typed = binder.expression(expr)?;
        let typed = binder.settle(typed, DataType::BigInt)?;
        if !typed.type_or_text().is_integer() || !typed.expr.is_constant() {
            return Err(Class::TypeMismatch.error("LIMIT and OFFSET take integers"));
        }
        Ok(Some(typed.expr))
    };
    Ok((bind(limit)?, bind(offset)?))
}
