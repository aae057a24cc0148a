//! Writes of rows that a query finds: the rows afterwards, what RETURNING gives, and errors are PostgreSQL's.

use super::engines::{self, Engines};
use super::postgres::Postgres;

const TABLES: &[&str] = &[
    "CREATE TABLE account (id BIGINT PRIMARY KEY, owner TEXT NOT NULL, balance NUMERIC(12, 2) DEFAULT 5, opened DATE,
     visits INTEGER)",
    "CREATE TABLE payment (id BIGINT PRIMARY KEY, payer BIGINT, amount NUMERIC(12, 2), note TEXT)",
    "CREATE TABLE region (country TEXT, city TEXT, people BIGINT, PRIMARY KEY (country, city))",
    "INSERT INTO account VALUES (1, 'ann', 10.50, '2024-01-05', 1), (2, 'bob', 7, NULL, 0), (3, 'cyd', NULL, '2023-12-31', 9),
     (4, 'dan', 0, '2022-02-02', NULL), (5, 'eve', -3.25, '2024-01-06', 4)",
    "INSERT INTO payment VALUES (10, 1, 2.25, 'a'), (11, 2, 1, NULL), (12, 2, 1, 'b'), (13, 3, 4, '2020-02-29'),
     (14, 9, 100, 'lost'), (15, NULL, 1, NULL)",
    "INSERT INTO region VALUES ('de', 'kiel', 246), ('de', 'trier', 110), ('fr', 'brest', 139), ('fr', 'kiel', 0)",
];

/// Tables with their keys.
const STATE: [(&str, &str); 3] = [("account", "id"), ("payment", "id"), ("region", "country, city")];

const WRITES: &[&str] = &[
    // UPDATE with other tables.
    "UPDATE account SET balance = balance + p.amount FROM payment p WHERE p.payer = account.id AND p.id <> 12",
    "UPDATE account AS a SET balance = s.total, visits = s.n FROM (SELECT payer, sum(amount) AS total, count(*) AS n
      FROM payment GROUP BY payer) AS s WHERE s.payer = a.id",
    "UPDATE account a SET owner = a.owner || p.note, opened = '2001-02-03' FROM payment p JOIN region r
      ON r.people = 246 WHERE p.payer = a.id AND p.note = 'a'",
    "UPDATE account a SET balance = DEFAULT, visits = NULL FROM payment p WHERE p.payer = a.id AND p.id = 10",
    "UPDATE account SET visits = 1 FROM payment p WHERE p.payer = account.id",
    "UPDATE account a SET visits = b.visits + 1 FROM account b WHERE b.id = a.id + 1",
    "UPDATE account a SET visits = p.amount * 1.5 FROM payment p WHERE p.payer = a.id AND p.id = 13
      RETURNING a.id, a.visits, balance",
    "UPDATE account SET visits = 5 FROM payment p WHERE p.payer = account.id AND p.id = 99 RETURNING account.id",
    "UPDATE region r SET people = r.people + a.id FROM account a WHERE a.owner = 'ann' AND r.country = 'de'",
    "UPDATE account a SET id = a.id + 100 FROM payment p WHERE p.payer = a.id AND p.id IN (10, 11)",
    // With subqueries.
    "UPDATE account SET visits = 100 WHERE id IN (SELECT payer FROM payment WHERE amount > 1)",
    "UPDATE account SET balance = (SELECT sum(amount) FROM payment WHERE payment.payer = account.id)",
    "UPDATE account SET visits = -1 WHERE NOT EXISTS (SELECT 1 FROM payment p WHERE p.payer = account.id)",
    "UPDATE account SET visits = (SELECT max(people) FROM region) WHERE id = 2 RETURNING id, visits",
    "UPDATE account SET owner = 'x' WHERE balance > (SELECT avg(balance) FROM account)",
    "WITH rich AS (SELECT id FROM account WHERE balance > 5) UPDATE account a SET visits = 77 FROM rich
      WHERE rich.id = a.id",
    // DELETE with other tables.
    "DELETE FROM account USING payment p WHERE p.payer = account.id AND p.amount = 1",
    "DELETE FROM account a USING payment p, region r WHERE p.payer = a.id AND r.people = 110 AND p.note = 'a'
      RETURNING a.id, a.owner, a.balance",
    "DELETE FROM payment WHERE payer NOT IN (SELECT id FROM account)",
    "DELETE FROM payment p WHERE payer IS NULL OR EXISTS (SELECT 1 FROM account a WHERE a.id = p.payer
      AND a.visits = 0) RETURNING id",
    "DELETE FROM region r USING region s WHERE r.city = s.city AND r.country > s.country RETURNING r.country",
    "WITH old AS (SELECT id FROM account WHERE opened < '2024-01-01') DELETE FROM account USING old
      WHERE old.id = account.id",
    "DELETE FROM account USING payment p WHERE p.id = 99 RETURNING account.id",
    // MERGE.
    "MERGE INTO account a USING payment p ON a.id = p.payer AND p.id <> 12
      WHEN MATCHED THEN UPDATE SET balance = a.balance + p.amount
      WHEN NOT MATCHED AND p.payer IS NOT NULL AND p.payer = 9 THEN
      INSERT (id, owner, balance) VALUES (p.payer, coalesce(p.note, 'new'), p.amount)",
    "MERGE INTO account USING (VALUES (1, 'ann'), (6, 'fay'), (7, NULL)) AS s (id, name) ON account.id = s.id
      WHEN MATCHED AND s.name = 'ann' THEN DELETE
      WHEN MATCHED THEN UPDATE SET owner = s.name
      WHEN NOT MATCHED AND s.name IS NULL THEN INSERT VALUES (s.id, 'nobody', DEFAULT, '2020-01-01', 3)
      WHEN NOT MATCHED THEN INSERT (owner, id) VALUES (upper(s.name), s.id)",
    "MERGE INTO account a USING (SELECT payer, sum(amount) AS total FROM payment GROUP BY payer) s
      ON s.payer = a.id WHEN MATCHED AND s.total > 3 THEN DELETE WHEN MATCHED THEN UPDATE SET visits = 1 / (a.id - 3)",
    "MERGE INTO region r USING region s ON r.country = s.city WHEN NOT MATCHED THEN
      INSERT (country, city, people) VALUES (s.city, s.country, s.people)",
    "WITH s AS (SELECT id + 100 AS id, owner FROM account) MERGE INTO account a USING s ON a.id = s.id
      WHEN NOT MATCHED THEN INSERT (id, owner) VALUES (s.id, s.owner)",
    "WITH account AS (SELECT 3 AS id) DELETE FROM account",
    "WITH account AS (SELECT 3 AS id) UPDATE account a SET visits = 8 FROM account c WHERE c.id = a.id",
    "UPDATE public.account SET visits = 8 FROM payment p WHERE p.payer = account.id AND p.id = 10",
    "MERGE INTO region USING payment ON city = note WHEN NOT MATCHED AND note IS NOT NULL THEN
      INSERT (country, city, people) VALUES (note, note, amount)",
    "DELETE FROM account a USING payment p WHERE p.payer = a.id AND p.amount > 2 RETURNING 1, a.visits + p.id, max(a.id)",
    // Refused, with nothing changed.
    "MERGE INTO account USING payment p ON account.id = p.payer",
    "MERGE INTO account a USING payment p ON a.id = p.payer WHEN NOT MATCHED THEN INSERT (id, owner) VALUES (a.id, 'x')",
    "UPDATE nowhere SET a = 1 FROM payment p",
    "MERGE INTO account a USING payment p ON a.id = p.payer WHEN MATCHED THEN UPDATE SET balance = p.amount",
    "MERGE INTO account a USING payment p ON false WHEN NOT MATCHED THEN INSERT (id, owner) VALUES (1, 'twice')",
    "UPDATE account a SET id = 1 FROM payment p WHERE p.payer = a.id AND a.id = 2",
    "UPDATE account a SET owner = NULL FROM payment p WHERE p.payer = a.id",
    "UPDATE account a SET visits = 1 / (a.id - 2) FROM payment p WHERE p.payer = a.id",
    "UPDATE account a SET visits = p.note FROM payment p WHERE p.payer = a.id",
    "UPDATE account a SET nothing = 1 FROM payment p WHERE p.payer = a.id",
    "UPDATE account a SET visits = q.amount FROM payment p WHERE p.payer = a.id",
    "DELETE FROM account USING nowhere n WHERE n.id = account.id",
    "UPDATE account SET visits = 1 WHERE id IN (SELECT nothing FROM payment)",
    "UPDATE account SET visits = (SELECT id FROM payment)",
];

/// Runs each write from the same rows: by itself, in a transaction that is kept, and in one that is undone.
pub async fn compare_writes(postgres: &mut Postgres, engines: &Engines) {
    let mut wrong = vec![];
    for sql in TABLES.iter().filter(|sql| sql.starts_with("CREATE")) {
        postgres.run(sql);
        engines.rows(sql).await.unwrap();
    }
    for sql in WRITES {
        for around in [None, Some("COMMIT"), Some("ROLLBACK")] {
            fill(postgres, engines).await;
            if around.is_some() {
                postgres.run("BEGIN");
                engines.rows("BEGIN").await.unwrap();
            }
            let (expected, found) = (sorted(postgres.answer(sql)), sorted(answer(engines, sql).await));
            if expected != found {
                wrong.push(format!("{sql}\n  {around:?} answers {found:?}\n  PostgreSQL: {expected:?}"));
            }
            if let Some(end) = around {
                postgres.run(end);
                // COMMIT says that nothing was kept of a transaction that had failed.
                let ended = engines.rows(end).await;
                assert_eq!(ended.is_err(), found.is_err() && end == "COMMIT", "{sql}: {ended:?}");
            }
            assert!(!engines.session().in_transaction(), "{sql}");
            for (table, key) in STATE {
                let state = format!("SELECT * FROM {table} ORDER BY {key}");
                let (expected, found) = (postgres.answer(&state), answer(engines, &state).await);
                if expected != found {
                    wrong.push(format!("{sql}\n  {around:?} leaves {found:?}\n  PostgreSQL: {expected:?}"));
                }
            }
        }
    }
    // PostgreSQL draws once for each row; here the action and its values would be of different draws.
    let drawn = "MERGE INTO account a USING payment p ON a.id = p.id
                 WHEN NOT MATCHED AND random() < 0.5 THEN INSERT (id, owner) VALUES (p.id, 'x')";
    assert_eq!(answer(engines, drawn).await, Err("0A000".to_owned()));
    for (prepare, execute) in [
        ("UPDATE account a SET visits = $1 FROM payment p WHERE p.payer = a.id AND p.id = $2", "('7', 10)"),
        ("DELETE FROM account a USING payment p WHERE p.payer = a.id AND p.amount = $1 RETURNING a.id, a.owner", "(1)"),
        (
            "MERGE INTO account a USING payment p ON a.id = p.payer AND p.id = $1
          WHEN MATCHED THEN UPDATE SET owner = $2",
            "(10, 'new')",
        ),
    ] {
        fill(postgres, engines).await;
        for sql in [format!("PREPARE w AS {prepare}"), format!("EXECUTE w {execute}"), "DEALLOCATE w".into()] {
            let (expected, found) = (sorted(postgres.answer(&sql)), sorted(answer(engines, &sql).await));
            if expected != found {
                wrong.push(format!("{sql}\n  {found:?}\n  PostgreSQL: {expected:?}"));
            }
        }
        let state = "SELECT * FROM account ORDER BY id";
        let (expected, found) = (postgres.answer(state), answer(engines, state).await);
        if expected != found {
            wrong.push(format!("{prepare}\n  leaves {found:?}\n  PostgreSQL: {expected:?}"));
        }
    }
    assert!(wrong.is_empty(), "{} differences:\n{}", wrong.len(), wrong.join("\n"));
}

/// The rows of an answer, or the SQLSTATE of the error.
async fn answer(engines: &Engines, sql: &str) -> Result<Vec<String>, String> {
    let state = |error: thermocline_database::Error| error.sqlstate().to_owned();
    let result = engines.session().run(sql).await.map_err(state)?;
    let text = |row: Vec<Option<String>>| row.into_iter().map(Option::unwrap_or_default).collect::<Vec<_>>().join("|");
    Ok(engines::texts(&result).into_iter().map(text).collect())
}

/// Rows of RETURNING come in any order.
fn sorted(answer: Result<Vec<String>, String>) -> Result<Vec<String>, String> {
    answer.map(|mut rows| {
        rows.sort();
        rows
    })
}

async fn fill(postgres: &mut Postgres, engines: &Engines) {
    for (table, _) in STATE {
        postgres.run(&format!("TRUNCATE {table}"));
        engines.rows(&format!("TRUNCATE {table}")).await.unwrap();
    }
    for sql in TABLES.iter().filter(|sql| sql.starts_with("INSERT")) {
        postgres.run(sql);
        engines.rows(sql).await.unwrap();
    }
}
