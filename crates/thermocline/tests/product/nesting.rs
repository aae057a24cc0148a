//! Statements of many levels must take time and memory in proportion to their length: parser, binder and names must not
//! double their work with each level, nor recurse without a limit.

use thermocline_database::Database;

fn within(open: &str, of: &str, close: &str, levels: usize) -> String {
    format!("{}{of}{}", open.repeat(levels), close.repeat(levels))
}

#[tokio::test(flavor = "multi_thread")]
async fn levels_double_nothing() {
    let session = Database::in_memory().await.unwrap().session();
    session.run("CREATE TABLE nested (k BIGINT PRIMARY KEY)").await.unwrap();
    session.run("INSERT INTO nested VALUES (1)").await.unwrap();
    // Without a table, by the row engine, and by the analytic one.
    for from in ["", " FROM nested", ", count(*) OVER () FROM nested"] {
        let k = if from.is_empty() { "1" } else { "k" };
        for levels in [20, 40, 48, 400] {
            for expression in [
                within("abs(", k, ")", levels),
                within("coalesce(", k, ", 1)", levels),
                within("lower(", "'x'", ")", levels),
                within("cast(", k, " AS BIGINT)", levels),
                within("cast(", k, " AS )", levels),
                within("case ", k, " WHEN 1 THEN 2 WHEN 2 THEN 1 END", levels),
                within("(", "true", " BETWEEN false AND true)", levels),
                within("extract(year FROM ", "now()", ")", levels),
                within("(", k, ")", levels),
                within("(SELECT ", k, ")", levels),
                within("(WITH c AS (SELECT 1 AS a) SELECT ", k, " FROM c)", levels),
                within("(WITH c AS (SELECT ", k, " AS a) SELECT a FROM c)", levels),
                format!("now(){}", " AT TIME ZONE 'utc'".repeat(levels.min(48))),
                format!("{}'1 day'", "interval ".repeat(levels * 10)),
            ] {
                // An answer or an error: only a hang or crash would matter.
                drop(session.run(&format!("SELECT {expression}{from}")).await);
            }
        }
        let deep = format!("SELECT {}{from}", within("abs(", k, ")", 40));
        assert_eq!(session.run(&deep).await.unwrap().rows(), 1);
    }
    let explained = format!("{}SELECT 1", "EXPLAIN ".repeat(30_000));
    let error = session.run(&explained).await.unwrap_err().to_string();
    assert!(error.contains("times EXPLAIN"), "{error}");
}

/// A window that refers to another has a copy of its keys: those of a short text are bounded.
#[tokio::test]
async fn windows_that_refer_to_windows_are_bounded() {
    let session = Database::in_memory().await.unwrap().session();
    let sql = |count: usize, over: &str| {
        let items = vec![format!("count(*) OVER {over}"); count].join(", ");
        let keys = vec!["a"; count].join(", ");
        format!("SELECT {items} FROM (VALUES (1)) AS t(a) WINDOW w AS (PARTITION BY {keys})")
    };
    for over in ["w", "(w ORDER BY a)"] {
        session.run(&sql(50, over)).await.unwrap();
        let error = session.run(&sql(6000, over)).await.unwrap_err();
        assert_eq!(error.sqlstate(), "54000", "{error}");
    }
    let names: Vec<String> = (0..20_000).map(|number| format!("w{number} AS (ORDER BY a)")).collect();
    session
        .run(&format!("SELECT count(*) OVER w7 FROM (VALUES (1)) AS t(a) WINDOW {}", names.join(", ")))
        .await
        .unwrap();
}
