//! Texts of trees, for the log and the catalog, which keep texts and read them again.

use datafusion::common::Result;
use datafusion::sql::sqlparser::ast::Statement as Ast;
use thermocline_dialect::check_depth;
use thermocline_pushdown::user_err;
use thermocline_syntax::{Statement as Sql, Tokens, make_printable};

/// The text of a statement that is made of others' parts, and how many operators follow each other in it at the most;
/// the tree gets the forms that the text has. The row engine keeps plans and its log by the text.
///
/// # Errors
/// If it is too deep to be worked on, or changes rows and would not be read as the tree (0A000): a transaction would
/// change other rows when it is replayed.
pub fn printed(ast: &mut Ast) -> Result<(String, u32)> {
    make_printable(ast);
    let text = ast.to_string();
    let unreadable =
        |text: &str| user_err!(Unsupported, "this statement cannot be kept in the log: its text would be {text}");
    let tokens = match Tokens::of(&text) {
        Ok(tokens) => tokens,
        Err(_) => return unreadable(&text),
    };
    check_depth(&tokens)?;
    let operators = tokens.operators();
    if matches!(ast, Ast::Query(_)) {
        return Ok((text, operators));
    }
    match thermocline_syntax::parse(tokens) {
        Ok(Sql::Sql(read, options)) if read.as_ref() == ast && options.is_empty() => Ok((text, operators)),
        _ => unreadable(&text),
    }
}

#[cfg(test)]
mod tests {
    use super::super::statement::Statement;
    use super::*;

    fn ast(sql: &str) -> Ast {
        Statement::parse(sql).unwrap()[0].ast().unwrap().clone()
    }

    #[test]
    fn texts_are_read_as_the_trees_that_they_are_of() {
        for sql in [
            "INSERT INTO t VALUES (1, 'x''''y', '''', '''''', 'a\\''b', 'a\\', '$q$''''', E'a\\'\\'b\\n', $$it's$$)",
            "INSERT INTO t AS x (a, b) VALUES (- -1, - - -1), (-(-1), a - -1), (- -x ^ 2, - (- 1)::int)",
            "INSERT INTO t VALUES (- - INTERVAL '1' DAY, INTERVAL '1 day', DATE '2024-01-01', CAST('7' AS BIGINT))",
            "INSERT INTO t SELECT - -a, 'x''''y' FROM u AS v WHERE v.a NOT IN (1, 2) AND b IS DISTINCT FROM c",
            "INSERT INTO t (a) VALUES (1) ON CONFLICT (a) DO UPDATE SET b = excluded.b || 'it''s' WHERE t.a > 1 RETURNING *",
            "INSERT INTO t DEFAULT VALUES",
            "UPDATE t AS x SET a = CASE WHEN b THEN - -1 ELSE NULL END, c = x.d::numeric(10, 2) WHERE x.e LIKE 'a\\_%' ESCAPE '\\'",
            "UPDATE t SET a = a + 1, j = j -> 'a' ->> 'b', s = trim(LEADING 'x' FROM s) WHERE a BETWEEN 1 AND 2 RETURNING a AS \"b c\"",
            "UPDATE t x SET (a, b) = (1, 2) WHERE EXTRACT(year FROM d) = 2024 AND s ~* 'a' AND b IS NOT TRUE",
            "DELETE FROM t WHERE k = - -1 OR (a, b) IN (SELECT 1, 2) OR EXISTS (SELECT 1 FROM u WHERE u.k = t.k)",
            "DELETE FROM t AS x WHERE x.v = ARRAY[1, 2][1] AND ts AT TIME ZONE 'UTC' < TIMESTAMP '2024-01-01 00:00:00'",
            "WITH w AS (SELECT 1 AS a) INSERT INTO t SELECT count(*) FILTER (WHERE a > 1), sum(a) OVER (ORDER BY a) FROM w",
        ] {
            printed(&mut ast(sql)).unwrap_or_else(|error| panic!("{sql}: {error}"));
        }
        let (text, _) = printed(&mut ast("UPDATE t SET a = - -1, b = 'x''''y'")).unwrap();
        assert_eq!(text, "UPDATE t SET a = -(-1), b = $q$x''y$q$");
    }

    #[test]
    fn a_text_that_would_be_read_as_another_tree_is_refused() {
        let error = printed(&mut ast(r#"UPDATE "q""""t" SET a = 1"#)).unwrap_err();
        assert_eq!(crate::Error::from(error).sqlstate(), "0A000");
    }
}
