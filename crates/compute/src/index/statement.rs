//! `CREATE INDEX` and `DROP INDEX`, which DataFusion's planner does not know in full.

use datafusion::common::Result;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast;
use thermocline_pushdown::user_err;
use thermocline_syntax::folded;

use super::IndexDefinition;

/// A statement about indexes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum IndexStatement {
    Create { definition: IndexDefinition, if_not_exists: bool },
    Drop { names: Vec<String>, if_exists: bool },
}

impl IndexStatement {
    /// Understands `statement`; `None` if it is about something else.
    ///
    /// # Errors
    /// A sentence that names the unsupported clause, columns or schema, or says that the index needs a name.
    pub(crate) fn of(statement: &Statement) -> Result<Option<Self>> {
        let Statement::Statement(statement) = statement else {
            return Ok(None);
        };
        match statement.as_ref() {
            ast::Statement::CreateIndex(create) => created(create).map(Some),
            ast::Statement::Drop { object_type: ast::ObjectType::Index, if_exists, names, .. } => {
                let names = names.iter().map(|name| object_name(name, "index")).collect::<Result<_>>()?;
                Ok(Some(Self::Drop { names, if_exists: *if_exists }))
            }
            _ => Ok(None),
        }
    }
}

fn created(create: &ast::CreateIndex) -> Result<IndexStatement> {
    let Some(name) = &create.name else {
        return user_err!(InvalidTableDefinition, "an index needs a name: CREATE INDEX name ON table (column)");
    };
    let name = object_name(name, "index")?;
    let refused = [
        (create.unique, "UNIQUE"),
        (create.concurrently, "CONCURRENTLY"),
        (create.using.is_some(), "USING"),
        (!create.include.is_empty(), "INCLUDE"),
        (create.nulls_distinct.is_some(), "NULLS DISTINCT"),
        (!create.with.is_empty(), "WITH"),
        (create.predicate.is_some(), "WHERE"),
        (!create.index_options.is_empty() || !create.alter_options.is_empty(), "an option after the column"),
    ];
    if let Some((_, clause)) = refused.iter().find(|(there, _)| *there) {
        return user_err!(Unsupported, "index {name}: {clause} is not supported");
    }
    let [column] = create.columns.as_slice() else {
        return user_err!(
            InvalidTableDefinition,
            "index {name}: it has {} columns; an index is of one",
            create.columns.len()
        );
    };
    let ast::Expr::Identifier(column_name) = &column.column.expr else {
        return user_err!(
            InvalidTableDefinition,
            "index {name}: '{}' is not a column; an index is of one column",
            column.column.expr
        );
    };
    if column.to_string() != column_name.to_string() {
        return user_err!(InvalidTableDefinition, "index {name}: '{column}' is more than the name of a column");
    }
    let definition =
        IndexDefinition { table: object_name(&create.table_name, "table")?, column: folded(column_name), name };
    Ok(IndexStatement::Create { definition, if_not_exists: create.if_not_exists })
}

/// An unqualified name, or one in schema `public`.
fn object_name(name: &ast::ObjectName, what: &str) -> Result<String> {
    let parts: Vec<Option<String>> = name.0.iter().map(|part| part.as_ident().map(folded)).collect();
    match parts.as_slice() {
        [Some(name)] => Ok(name.clone()),
        [Some(schema), Some(name)] if schema == "public" => Ok(name.clone()),
        _ => user_err!(InvalidTableDefinition, "{what} {name}: tables and indexes are in schema public"),
    }
}

#[cfg(test)]
mod tests {
    use thermocline_dialect::parse;

    use super::*;

    fn understood(sql: &str) -> Result<Option<IndexStatement>> {
        IndexStatement::of(&parse(sql).unwrap().pop().unwrap())
    }

    #[test]
    fn created_and_dropped() {
        let definition =
            |name: &str, column: &str| IndexDefinition { name: name.into(), table: "t".into(), column: column.into() };
        let create = |definition, if_not_exists| Some(IndexStatement::Create { definition, if_not_exists });
        assert_eq!(understood("CREATE INDEX By_A ON public.T (A)").unwrap(), create(definition("by_a", "a"), false));
        let quoted = definition("By \"A\"", "A");
        assert_eq!(quoted.sql(), "CREATE INDEX \"By \"\"A\"\"\" ON t (\"A\");");
        assert_eq!(understood(&quoted.sql()).unwrap(), create(quoted, false));
        assert_eq!(understood("CREATE INDEX IF NOT EXISTS i ON t (a)").unwrap(), create(definition("i", "a"), true));
        let dropped = IndexStatement::Drop { names: vec!["a".into(), "b".into()], if_exists: true };
        assert_eq!(understood("DROP INDEX IF EXISTS a, B").unwrap(), Some(dropped));
        assert_eq!(understood("DROP TABLE t").unwrap(), None);
        assert_eq!(understood("SELECT 1").unwrap(), None);
    }

    #[test]
    fn what_indexes_do_not_have_is_named() {
        for (sql, named) in [
            ("CREATE UNIQUE INDEX i ON t (a)", "UNIQUE"),
            ("CREATE INDEX i ON t (a, b)", "2 columns"),
            ("CREATE INDEX i ON t (lower(a))", "lower(a)"),
            ("CREATE INDEX i ON t (a DESC)", "a DESC"),
            ("CREATE INDEX i ON t USING hash (a)", "USING"),
            ("CREATE INDEX i ON t (a) WHERE a > 1", "WHERE"),
            ("CREATE INDEX ON t (a)", "needs a name"),
            ("CREATE INDEX i ON system.queries (a)", "system.queries"),
            ("DROP INDEX x.y.z", "x.y.z"),
        ] {
            let error = understood(sql).expect_err(sql).to_string();
            assert!(error.contains(named), "{sql}: {error}");
        }
    }
}
