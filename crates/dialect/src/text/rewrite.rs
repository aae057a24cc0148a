//! Rewrites of syntax that DataFusion's planner understands differently.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::sync::LazyLock;

use datafusion::common::Result;
use datafusion::sql::parser::{CopyToSource, Statement};
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CastKind, CharacterLength, DataType, ExactNumberInfo, Expr, Function, FunctionArg, FunctionArgExpr,
    FunctionArguments, GroupByExpr, Ident, Interval, ObjectNamePart, OrderBy, OrderByKind, Query, Select, SelectItem,
    SetExpr, Statement as Ast, TableFactor, TableWithJoins, TimezoneInfo, TypedString, UnaryOperator, Value, VisitMut,
    VisitorMut,
};
use thermocline_pushdown::{SQL_EXTRACT, external, user_err, written_functions};
use thermocline_types::{Class, Error, Interval as Span};

use super::any_expression;
use super::calls::call;
use super::other_names::renamed;
use super::plan_size::is_subquery;
use super::row_comparisons::RowComparisons;
use super::using_columns::{NESTED_JOINS_MAX, incomplete_wildcard, merge, nest, order_star, qualify, qualify_order};
use crate::rules::{DISTINCT, NOT_DISTINCT, POSITION, POSITIVE, is_stand_in, merges_columns};

/// Limit on digits of a decimal.
const DIGITS_MAX: usize = 76;
/// Digits after the point of a TIMESTAMP's seconds, as in PostgreSQL; DataFusion's has nine.
const MICROSECONDS: u64 = 6;
/// Limit on items of an IN with columns.
const IN_ITEMS_MAX: usize = 2000;

/// Rewrites a statement for DataFusion's planner. Numbers with an exponent become doubles; others with a point are
/// decimals, as in the SQL standard. Binds `^` and truncates texts as SQL does, gives timestamps microseconds and
/// intervals a plain form, makes calls of syntax that DataFusion plans differently, compares rows by their columns,
/// puts RIGHT and FULL JOINs with USING or NATURAL into parentheses for [`crate::rules::MergedColumns`], and qualifies
/// and orders the columns of USING.
///
/// # Errors
/// If there are more than 100 such joins, a `table.*` beside one, a number with too many digits, an invalid interval, a
/// LIKE pattern that ends with its escape, or rows that do not compare.
pub fn in_our_dialect(mut statement: Statement) -> Result<Statement> {
    let mut inner = &mut statement;
    while let Statement::Explain(explain) = inner {
        inner = explain.statement.as_mut();
    }
    if let Statement::Statement(ast) = &mut *inner
        && let Ast::Query(query) = ast.as_mut()
    {
        distinguish(&mut query.body);
    }
    let mut dialect = Dialect::default();
    let _: ControlFlow<()> = match inner {
        // Values of settings are passed as texts.
        Statement::Statement(ast) if matches!(ast.as_ref(), Ast::Set(_)) => ControlFlow::Continue(()),
        Statement::Statement(ast) => ast.visit(&mut dialect),
        Statement::CopyTo(copy) => match &mut copy.source {
            CopyToSource::Query(query) => query.visit(&mut dialect),
            CopyToSource::Relation(_) => ControlFlow::Continue(()),
        },
        Statement::CreateExternalTable(table) => {
            table.columns.iter_mut().for_each(|column| plain_type(&mut column.data_type));
            ControlFlow::Continue(())
        }
        _ => ControlFlow::Continue(()),
    };
    if let Some(error) = dialect.refused {
        return Err(external(error));
    }
    if let Some(table) = dialect.incomplete {
        return user_err!(
            Unsupported,
            "{table}.* beside a RIGHT or FULL JOIN with USING or NATURAL: name the columns, or join with ON"
        );
    }
    match dialect.nested_joins {
        ..=NESTED_JOINS_MAX => Ok(statement),
        more => user_err!(TooDeep, "{more} RIGHT and FULL JOINs with USING or NATURAL, more than {NESTED_JOINS_MAX}"),
    }
}

#[derive(Default)]
struct Dialect {
    nested_joins: usize,
    /// The first error.
    refused: Option<Error>,
    /// A table in `table.*` whose columns may be incomplete.
    incomplete: Option<String>,
    rows: RowComparisons,
}

impl VisitorMut for Dialect {
    type Break = ();

    fn post_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<()> {
        if let Expr::Cast { data_type, .. } | Expr::TypedString(TypedString { data_type, .. }) = expression {
            plain_type(data_type);
        }
        timestamp_in_microseconds(expression);
        if let Expr::Interval(written) = expression
            && let Err(error) = plain_interval(written)
        {
            self.refused = Some(error);
            return ControlFlow::Break(());
        }
        if let Err(error) = no_long_in(expression)
            .and_then(|()| no_whole_rows(expression))
            .and_then(|()| plain_pattern(expression))
            .and_then(|()| self.rows.rewrite(expression))
        {
            self.refused = Some(error);
            return ControlFlow::Break(());
        }
        if let Some(other) = rebound(expression).or_else(|| cut(expression)).or_else(|| called(expression)) {
            *expression = other;
            by_own_name(expression);
            return ControlFlow::Continue(());
        }
        by_own_name(expression);
        let Expr::Value(value) = &*expression else { return ControlFlow::Continue(()) };
        let Value::Number(text, _) = &value.value else { return ControlFlow::Continue(()) };
        let digits = text.bytes().filter(u8::is_ascii_digit).count();
        if !text.contains(['e', 'E']) && digits > DIGITS_MAX {
            let error = Class::OutOfRange.error(format_args!("{text} has more than {DIGITS_MAX} digits"));
            self.refused = Some(error);
            return ControlFlow::Break(());
        }
        if text.contains(['e', 'E']) {
            let text = Value::SingleQuotedString(text.replace('_', ""));
            *expression = Expr::Cast {
                kind: CastKind::Cast,
                expr: Box::new(Expr::value(text)),
                data_type: DataType::Double(ExactNumberInfo::None),
                array: false,
                format: None,
            };
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        by_aggregates(query);
        if let Some(OrderBy { kind: OrderByKind::All(_), .. }) = &query.order_by
            && !matches!(query.body.as_ref(), SetExpr::Select(_))
        {
            // DataFusion would not sort at all.
            let why = "ORDER BY ALL of a set operation with *: list the columns";
            self.refused = Some(Class::Unsupported.error(why));
            return ControlFlow::Break(());
        }
        for cte in query.with.iter_mut().flat_map(|with| &mut with.cte_tables) {
            if !cte.alias.columns.is_empty() {
                distinguish(&mut cte.query.body);
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if let TableFactor::Derived { subquery, alias: Some(alias), .. } = factor
            && !alias.columns.is_empty()
        {
            distinguish(&mut subquery.body);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        by_own_columns(select);
        merge(select);
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        select.from.iter_mut().for_each(|from| self.nest(from, false));
        qualify(select);
        order_star(select);
        if let Some(table) = incomplete_wildcard(select) {
            self.incomplete = Some(table.to_string());
        }
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        if let (SetExpr::Select(select), Some(order)) = (query.body.as_ref(), &mut query.order_by) {
            qualify_order(select, order);
        }
        ControlFlow::Continue(())
    }

    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if let TableFactor::NestedJoin { table_with_joins, .. } = factor {
            self.nest(table_with_joins, true);
        }
        ControlFlow::Continue(())
    }
}

/// Aggregate functions.
static AGGREGATES: LazyLock<HashSet<String>> = LazyLock::new(|| {
    let functions = datafusion::functions_aggregate::all_default_aggregate_functions();
    let names = functions.iter().flat_map(|function| [&[function.name().to_owned()], function.aliases()].concat());
    names.chain(["list".to_owned()]).collect()
});

/// Rewrites `GROUP BY ALL` to the columns without aggregates and windows, and positions in `GROUP BY` to their columns,
/// in queries that list their columns: DataFusion refuses to sort by an expression of an aggregate beside either.
fn by_own_columns(select: &mut Select) {
    if matches!(&select.group_by, GroupByExpr::Expressions(groups, _) if groups.is_empty()) {
        return;
    }
    let column = |item: &SelectItem| match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr.clone()),
        _ => None,
    };
    let Some(columns) = select.projection.iter().map(column).collect::<Option<Vec<_>>>() else { return };
    let is_number = |expr: &Expr| matches!(expr, Expr::Value(value) if matches!(value.value, Value::Number(..)));
    match &mut select.group_by {
        GroupByExpr::All(modifiers) => {
            let is_group = |column: &Expr| !is_number(column) && !any_expression(column, is_computed);
            let groups = columns.into_iter().filter(is_group).collect();
            select.group_by = GroupByExpr::Expressions(groups, std::mem::take(modifiers));
        }
        GroupByExpr::Expressions(groups, _) => {
            for group in groups {
                let Expr::Value(value) = &*group else { continue };
                let Value::Number(text, _) = &value.value else { continue };
                let position = text.parse::<usize>().ok().and_then(|position| position.checked_sub(1));
                // A number would be taken for a position again.
                if let Some(column) = position.and_then(|at| columns.get(at)).filter(|column| !is_number(column)) {
                    *group = column.clone();
                }
            }
        }
    }
}

/// Rewrites positions in `ORDER BY` of columns without a name that are computed of aggregates or windows to these columns,
/// for DataFusion refuses to sort by the position of `sum(x) + 1`.
fn by_aggregates(query: &mut Query) {
    let Some(OrderBy { kind: OrderByKind::Expressions(order), .. }) = &mut query.order_by else { return };
    let SetExpr::Select(select) = query.body.as_ref() else { return };
    let is_listed = |item: &SelectItem| matches!(item, SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. });
    if select.distinct.is_some() || !select.projection.iter().all(is_listed) {
        return;
    }
    for key in order {
        let Expr::Value(value) = &key.expr else { continue };
        let Value::Number(text, _) = &value.value else { continue };
        let position = text.parse::<usize>().ok().and_then(|position| position.checked_sub(1));
        if let Some(SelectItem::UnnamedExpr(column)) = position.and_then(|at| select.projection.get(at))
            && !matches!(column, Expr::Function(_))
            && any_expression(column, is_computed)
        {
            key.expr = column.clone();
        }
    }
}

/// Whether an expression is of an aggregate or a window.
fn is_computed(part: &Expr) -> bool {
    match part {
        Expr::Function(function) => {
            function.over.is_some() || AGGREGATES.contains(&function.name.to_string().to_ascii_lowercase())
        }
        _ => false,
    }
}

/// Rejects a long IN with a column among its items: it becomes as many comparisons, which are planned and dropped by
/// recursion.
fn no_long_in(expression: &Expr) -> Result<(), Error> {
    let Expr::InList { list, .. } = expression else { return Ok(()) };
    let is_column = |part: &Expr| matches!(part, Expr::Identifier(_) | Expr::CompoundIdentifier(_));
    match list.len() > IN_ITEMS_MAX && any_expression(list, is_column) {
        true => Err(Class::TooDeep.error(format_args!("IN of more than {IN_ITEMS_MAX} items with columns among them"))),
        false => Ok(()),
    }
}

/// Rejects functions of `t.*`, which DataFusion treats as `*`.
fn no_whole_rows(expression: &Expr) -> Result<(), Error> {
    let Expr::Function(Function { name, args: FunctionArguments::List(list), .. }) = expression else { return Ok(()) };
    let is_row = |argument: &FunctionArg| match argument {
        FunctionArg::Unnamed(argument) => matches!(argument, FunctionArgExpr::QualifiedWildcard(_)),
        _ => false,
    };
    match list.args.iter().find(|argument| is_row(argument)) {
        Some(row) => Err(Class::Unsupported.error(format_args!("{name}({row}): name a column in the place of {row}"))),
        None => Ok(()),
    }
}

/// Rewrites a constant LIKE pattern to DataFusion's escape, a backslash, and rejects one that ends with its escape.
fn plain_pattern(expression: &mut Expr) -> Result<(), Error> {
    let (Expr::Like { pattern, escape_char, any: false, .. } | Expr::ILike { pattern, escape_char, any: false, .. }) =
        expression
    else {
        return Ok(());
    };
    let escape = match escape_char.as_ref().map(|escape| escape.value.clone().into_string()) {
        None => Some('\\'),
        Some(Some(text)) if text.chars().count() <= 1 => text.chars().next(),
        Some(_) => return Err(Class::InvalidEscape.error("invalid escape string: it is empty or one character")),
    };
    let mut written = pattern.as_mut();
    while let Expr::Nested(inner) = written {
        written = inner.as_mut();
    }
    let constant = match written {
        Expr::Value(value) => value.value.clone().into_string(),
        _ => None,
    };
    match constant {
        Some(constant) => *written = Expr::value(Value::SingleQuotedString(with_backslashes(&constant, escape)?)),
        None if escape == Some('\\') => {}
        None => {
            return Err(Class::Unsupported.error("LIKE with ESCAPE of a pattern that is no constant is not supported"));
        }
    }
    *escape_char = None;
    Ok(())
}

/// The equivalent pattern with a backslash as the escape.
fn with_backslashes(pattern: &str, escape: Option<char>) -> Result<String, Error> {
    let mut plain = String::with_capacity(pattern.len());
    let mut characters = pattern.chars();
    while let Some(next) = characters.next() {
        let literal = match next {
            _ if Some(next) == escape => characters
                .next()
                .ok_or_else(|| Class::InvalidEscape.error("LIKE pattern must not end with escape character"))?,
            '\\' => next,
            _ => {
                plain.push(next);
                continue;
            }
        };
        if matches!(literal, '%' | '_' | '\\') {
            plain.push('\\');
        }
        plain.push(literal);
    }
    Ok(plain)
}

/// Adds an alias to result columns whose text repeats an earlier one, because DataFusion distinguishes columns by name.
/// The displayed names are derived from the text.
fn distinguish(body: &mut SetExpr) {
    match body {
        SetExpr::Select(select) => {
            let (mut written, mut names, mut unqualified) = (HashSet::new(), HashSet::new(), HashSet::new());
            for (position, item) in select.projection.iter_mut().enumerate() {
                let SelectItem::UnnamedExpr(expr) = item else { continue };
                // DataFusion gives a literal and its cast the same name.
                let mut named = &*expr;
                while let Expr::Cast { expr: inner, .. } | Expr::Nested(inner) = named {
                    named = inner;
                }
                let text = match named {
                    Expr::TypedString(typed) => typed.value.to_string(),
                    _ => named.to_string(),
                };
                let name = match named {
                    Expr::CompoundIdentifier(parts) => parts.last().map(Ident::to_string).unwrap_or_default(),
                    _ => text.clone(),
                };
                // `t.a` and `a` denote the same column.
                let is_qualified = name != text;
                let other = if is_qualified { &unqualified } else { &names };
                // All subqueries have the same name.
                let is_known = written.contains(&text) || other.contains(&name) || any_expression(named, is_subquery);
                if is_known {
                    let alias = Ident::with_quote('"', format!("{name}:{position}"));
                    *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
                } else if !is_qualified {
                    unqualified.insert(name.clone());
                }
                names.insert(name);
                written.insert(text);
            }
        }
        SetExpr::Query(inner) => distinguish(&mut inner.body),
        SetExpr::SetOperation { left, right, .. } => {
            distinguish(left);
            distinguish(right);
        }
        _ => {}
    }
}

/// Replaces a type name by its synonym that DataFusion knows.
fn plain_type(data_type: &mut DataType) {
    *data_type = match data_type {
        DataType::Dec(info) => DataType::Decimal(*info),
        DataType::CharacterVarying(length) | DataType::CharVarying(length) => DataType::Varchar(*length),
        _ => return,
    };
}

/// Gives a TIMESTAMP microseconds, unless its literal has more digits.
fn timestamp_in_microseconds(expression: &mut Expr) {
    let (data_type, text) = match expression {
        Expr::TypedString(TypedString { data_type, value, .. }) => (data_type, value.value.clone().into_string()),
        Expr::Cast { data_type, expr, .. } => match expr.as_ref() {
            Expr::Value(value) => (data_type, value.value.clone().into_string()),
            _ => (data_type, None),
        },
        _ => return,
    };
    let digits = text
        .as_deref()
        .and_then(|text| text.rsplit_once('.'))
        .map_or(0, |(_, rest)| rest.bytes().take_while(u8::is_ascii_digit).count() as u64);
    if let DataType::Timestamp(precision @ None, _) = data_type
        && digits <= MICROSECONDS
    {
        *precision = Some(MICROSECONDS);
    }
}

/// Writes an interval in months, days and microseconds, which DataFusion parses exactly; it supports few of
/// PostgreSQL's other forms.
fn plain_interval(written: &mut Interval) -> Result<(), Error> {
    let unit = written.leading_field.as_ref().map(|field| field.to_string().to_ascii_lowercase());
    let Expr::Value(value) = written.value.as_ref() else { return Ok(()) };
    let text = match &value.value {
        Value::Number(digits, _) => digits.clone(),
        other => match other.clone().into_string() {
            Some(text) => text,
            None => return Ok(()),
        },
    };
    if written.last_field.is_some() || written.leading_precision.is_some() {
        return Err(Class::Unsupported.error(format_args!("{written} is not supported")));
    }
    let Span { months, days, micros } = Span::parse(&text, unit.as_deref())?;
    let text = format!("{months} months {days} days {micros} microseconds");
    *written.value = Expr::value(Value::SingleQuotedString(text));
    written.leading_field = None;
    Ok(())
}

/// Rewrites `-a ^ b` to `(-a) ^ b`; the parser applies the sign to the power.
fn rebound(expression: &Expr) -> Option<Expr> {
    let Expr::UnaryOp { op: UnaryOperator::Minus, expr } = expression else { return None };
    match expr.as_ref() {
        Expr::BinaryOp { left, op: op @ (BinaryOperator::BitwiseXor | BinaryOperator::PGExp), right } => {
            let left = Box::new(Expr::UnaryOp { op: UnaryOperator::Minus, expr: left.clone() });
            Some(Expr::BinaryOp { left, op: op.clone(), right: right.clone() })
        }
        _ => None,
    }
}

/// Rewrites a cast to VARCHAR(n) or CHAR(n) to truncate the text, or trim its blanks; DataFusion has one text type.
fn cut(expression: &Expr) -> Option<Expr> {
    let (kind, expr, data_type) = match expression {
        Expr::Cast { kind: kind @ (CastKind::Cast | CastKind::DoubleColon), expr, data_type, array: false, .. } => {
            (kind.clone(), expr.clone(), data_type)
        }
        Expr::TypedString(TypedString { data_type, value, .. }) => {
            (CastKind::Cast, Box::new(Expr::Value(value.clone())), data_type)
        }
        _ => return None,
    };
    let limited = limited_text(data_type)?;
    let text = Expr::Cast { kind, expr, data_type: DataType::Varchar(None), array: false, format: None };
    let number = |number: u64| Some(Box::new(Expr::value(Value::Number(number.to_string(), false))));
    let text = match limited.length {
        None => text,
        length => Expr::Substring {
            expr: Box::new(text),
            substring_from: number(1),
            substring_for: length.and_then(number),
            special: false,
            shorthand: false,
        },
    };
    Some(if limited.has_no_blanks { call("rtrim", &[&text]) } else { text })
}

/// A text type with restrictions.
struct LimitedText {
    /// Limit on characters; `None` without one.
    length: Option<u64>,
    /// Whether trailing blanks are removed.
    has_no_blanks: bool,
}

fn limited_text(written: &DataType) -> Option<LimitedText> {
    let characters = |length: &CharacterLength| match length {
        CharacterLength::IntegerLength { length, unit: None } => Some(*length),
        _ => None,
    };
    let (length, has_no_blanks) = match written {
        DataType::Varchar(Some(length)) => (Some(characters(length)?), false),
        DataType::Char(None) | DataType::Character(None) => (Some(1), true),
        DataType::Char(Some(length)) | DataType::Character(Some(length)) => (Some(characters(length)?), true),
        DataType::Custom(name, modifiers) if name.to_string().eq_ignore_ascii_case("bpchar") => {
            match modifiers.as_slice() {
                [] => (None, true),
                [length] => (Some(length.parse().ok()?), true),
                _ => return None,
            }
        }
        _ => return None,
    };
    Some(LimitedText { length, has_no_blanks })
}

/// Rewrites special syntax to a function call: EXTRACT has fractions and further fields, SUBSTRING and POSITION also
/// take bytes, and operators give a literal the type of the other side.
fn called(expression: &Expr) -> Option<Expr> {
    let is_text =
        |side: &Expr| matches!(side, Expr::Value(value) if matches!(value.value, Value::SingleQuotedString(_)));
    Some(match expression {
        Expr::Extract { field, expr, .. } => {
            let field = field.to_string().trim_matches('\'').to_ascii_lowercase();
            call(SQL_EXTRACT, &[&Expr::value(Value::SingleQuotedString(field)), expr])
        }
        Expr::Substring { expr, substring_from, substring_for, .. } => {
            let first = Expr::value(Value::Number("1".into(), false));
            let from = substring_from.as_deref().unwrap_or(&first);
            let arguments: Vec<&Expr> = [expr.as_ref(), from].into_iter().chain(substring_for.as_deref()).collect();
            call("substr", &arguments)
        }
        Expr::Position { expr, r#in } => call(POSITION, &[r#in, expr]),
        Expr::AtTimeZone { timestamp, time_zone } => call("timezone", &[time_zone, timestamp]),
        Expr::Function(function) => return now(function).or_else(|| renamed(function)),
        // Reserved words of PostgreSQL's, as `current_user`, which the parser knows as functions.
        Expr::Identifier(word)
            if word.quote_style.is_none()
                && ["current_schema", "current_role"].iter().any(|name| word.value.eq_ignore_ascii_case(name)) =>
        {
            call(&word.value.to_ascii_lowercase(), &[])
        }
        Expr::UnaryOp { op: UnaryOperator::Plus, expr } if !matches!(expr.as_ref(), Expr::Value(_)) => {
            call(POSITIVE, &[expr])
        }
        Expr::IsDistinctFrom(left, right) if is_text(left) || is_text(right) => call(DISTINCT, &[left, right]),
        Expr::IsNotDistinctFrom(left, right) if is_text(left) || is_text(right) => call(NOT_DISTINCT, &[left, right]),
        _ => return None,
    })
}

/// The time of the transaction in microseconds; DataFusion's `now` returns nanoseconds.
fn now(function: &Function) -> Option<Expr> {
    let has_arguments = match &function.args {
        FunctionArguments::None => false,
        FunctionArguments::List(list) => !list.args.is_empty(),
        FunctionArguments::Subquery(_) => true,
    };
    let name = function.name.to_string().to_ascii_lowercase();
    let zone = match name.as_str() {
        "now" | "current_timestamp" | "transaction_timestamp" => TimezoneInfo::WithTimeZone,
        "localtimestamp" => TimezoneInfo::None,
        _ => return None,
    };
    (!has_arguments).then(|| Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(call("now", &[])),
        data_type: DataType::Timestamp(Some(MICROSECONDS), zone),
        array: false,
        format: None,
    })
}

/// Primary names of functions, by alias; without aliases that name a placeholder.
static OWN_NAMES: LazyLock<HashMap<String, String>> = LazyLock::new(|| {
    let names = written_functions().flat_map(|function| {
        let own = function.name().to_owned();
        function.aliases().to_vec().into_iter().map(move |alias| (alias, own.clone()))
    });
    names.filter(|(alias, _)| !is_stand_in(alias)).collect()
});

/// Replaces an alias of a function by its primary name, except in calls with OVER or FILTER. For calls by an alias,
/// DataFusion keeps the text of the call including its arguments, which doubles with each level of nested calls.
fn by_own_name(expression: &mut Expr) {
    let Expr::Function(function) = expression else { return };
    let [ObjectNamePart::Identifier(name)] = function.name.0.as_mut_slice() else { return };
    // DuckDB's name, which may have any clauses.
    if name.quote_style.is_none() && name.value.eq_ignore_ascii_case("list") {
        *name = Ident::new("array_agg");
    }
    if function.over.is_some() || function.filter.is_some() {
        return;
    }
    let called = if name.quote_style.is_some() { name.value.clone() } else { name.value.to_ascii_lowercase() };
    if let Some(own) = OWN_NAMES.get(&called) {
        *name = Ident::new(own);
    }
}

impl Dialect {
    /// Adds parentheses: `((a JOIN b ...) RIGHT JOIN c USING ...) JOIN d ...`.
    fn nest(&mut self, from: &mut TableWithJoins, in_parentheses: bool) {
        let count = from.joins.iter().filter(|join| merges_columns(&join.join_operator).is_some()).count();
        self.nested_joins += count;
        // Nothing to do, done already, or rejected later.
        if count == 0 || (count == 1 && from.joins.len() == 1 && in_parentheses) || self.nested_joins > NESTED_JOINS_MAX
        {
            return;
        }
        nest(from, |join| merges_columns(&join.join_operator).is_some(), false);
    }
}
