//! Names of result columns.

use sqlparser::ast::{self, SelectItem, SetExpr, TrimWhereField};
use thermocline_types::DataType;

use super::data_type::data_type;
use crate::names::{fold, object};

/// PostgreSQL's name of a result column without an alias: the name of the column or function, else of the type of a
/// cast, else `?column?`.
pub fn output_name(expr: &ast::Expr) -> Box<str> {
    match name(expr) {
        Some(Name::Own(name) | Name::Other(name)) => name,
        None => "?column?".into(),
    }
}

/// Name of an expression.
enum Name {
    /// Takes precedence over the name of an enclosing cast or CASE.
    Own(Box<str>),
    /// Yields to the name of an enclosing cast or CASE.
    Other(Box<str>),
}

fn name(expr: &ast::Expr) -> Option<Name> {
    use ast::Expr as Ast;
    let own = |name: &str| Some(Name::Own(name.into()));
    match expr {
        Ast::Identifier(name) => fold(name).ok().map(Name::Own),
        Ast::CompoundIdentifier(parts) => parts.last().and_then(|name| fold(name).ok()).map(Name::Own),
        Ast::Function(function) => object(&function.name).ok().map(Name::Own),
        Ast::Nested(expr) => name(expr),
        Ast::Cast { expr, data_type, .. } => own_or(name(expr), || type_name(data_type)),
        Ast::TypedString(typed) => Some(Name::Other(type_name(&typed.data_type))),
        Ast::Interval(_) => Some(Name::Other("interval".into())),
        Ast::Case { else_result, .. } => own_or(else_result.as_deref().and_then(name), || "case".into()),
        Ast::Exists { negated: false, .. } => own("exists"),
        Ast::Subquery(query) => of_query(&query.body),
        Ast::Array(_) => own("array"),
        Ast::Tuple(_) => own("row"),
        Ast::AtTimeZone { .. } => own("timezone"),
        Ast::Substring { .. } => own("substring"),
        Ast::Overlay { .. } => own("overlay"),
        Ast::Extract { .. } => own("extract"),
        Ast::Trim { trim_where: Some(TrimWhereField::Leading), .. } => own("ltrim"),
        Ast::Trim { trim_where: Some(TrimWhereField::Trailing), .. } => own("rtrim"),
        Ast::Trim { .. } => own("btrim"),
        Ast::Ceil { .. } => own("ceil"),
        Ast::Floor { .. } => own("floor"),
        Ast::Position { .. } => own("position"),
        _ => None,
    }
}

/// The name of the inner expression if it takes precedence, else the outer one.
fn own_or(inner: Option<Name>, outer: impl FnOnce() -> Box<str>) -> Option<Name> {
    Some(inner.filter(|inner| matches!(inner, Name::Own(_))).unwrap_or_else(|| Name::Other(outer())))
}

/// The name of a subquery's only column.
fn of_query(body: &SetExpr) -> Option<Name> {
    match body {
        SetExpr::Select(select) => match select.projection.first()? {
            SelectItem::UnnamedExpr(expr) => name(expr),
            SelectItem::ExprWithAlias { alias, .. } => fold(alias).ok().map(Name::Own),
            _ => None,
        },
        SetExpr::Query(query) => of_query(&query.body),
        SetExpr::SetOperation { left, .. } => of_query(left),
        _ => None,
    }
}

/// PostgreSQL's own name of a type.
fn type_name(written: &ast::DataType) -> Box<str> {
    if let ast::DataType::Varchar(_) | ast::DataType::CharacterVarying(_) | ast::DataType::CharVarying(_) = written {
        // Without a length, `data_type` returns TEXT.
        return "varchar".into();
    }
    let name = match data_type(written) {
        Ok(DataType::Boolean) => "bool",
        Ok(DataType::SmallInt) => "int2",
        Ok(DataType::Integer) => "int4",
        Ok(DataType::BigInt) => "int8",
        Ok(DataType::Real) => "float4",
        Ok(DataType::Double) => "float8",
        Ok(DataType::Decimal { .. } | DataType::Numeric) => "numeric",
        Ok(DataType::Text) => "text",
        Ok(DataType::Varchar(_)) => "varchar",
        Ok(DataType::Char(_)) => "bpchar",
        Ok(DataType::Bytea) => "bytea",
        Ok(DataType::Date) => "date",
        Ok(DataType::Timestamp) => "timestamp",
        Ok(DataType::TimestampTz) => "timestamptz",
        Ok(DataType::Interval) => "interval",
        Ok(DataType::Uuid) => "uuid",
        Ok(DataType::Jsonb) => "jsonb",
        Err(_) => return written.to_string().to_lowercase().into(),
    };
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_expression;

    /// Column names that PostgreSQL 15 returns.
    #[test]
    fn columns_are_called_as_in_postgresql() {
        for (sql, expected) in [
            ("1", "?column?"),
            ("a + 1", "?column?"),
            ("t.a", "a"),
            ("((a))", "a"),
            ("exists (select 1)", "exists"),
            ("not exists (select 1)", "?column?"),
            ("(select t.a from t)", "a"),
            ("(select a + 1 from t)", "?column?"),
            ("(select a as z from t union select 2)", "z"),
            ("(select count(*) from t)::bigint", "count"),
            ("1 in (select 1)", "?column?"),
            ("1::bigint", "int8"),
            ("'x'::varchar(3)", "varchar"),
            ("'x'::varchar", "varchar"),
            ("'x'::char(3)", "bpchar"),
            ("cast(1.0 as numeric(4, 2))", "numeric"),
            ("cast(a as text)", "a"),
            ("cast(a + 1 as integer)", "int4"),
            ("sum(a)::int", "sum"),
            ("null::int", "int4"),
            ("date '2024-01-01'", "date"),
            ("interval '1 day'", "interval"),
            ("true", "?column?"),
            ("case when b then 1 end", "case"),
            ("case when b then 1 else a end", "a"),
            ("case when b then 1 else (select a from t) end", "a"),
            ("case when b then a else 2::int end", "case"),
            ("coalesce(a, 1)", "coalesce"),
            ("trim(b)", "btrim"),
            ("trim(leading 'x' from b)", "ltrim"),
            ("trim(trailing 'x' from b)", "rtrim"),
            ("overlay('abc' placing 'x' from 1)", "overlay"),
            ("ts at time zone 'UTC'", "timezone"),
            ("(a, b)", "row"),
            ("'{}'::jsonb -> 'a'", "?column?"),
        ] {
            assert_eq!(&*output_name(&parse_expression(sql).unwrap()), expected, "{sql}");
        }
    }
}
