//! Clients that each repeatedly do something that takes much memory. A request for which there is no memory is refused
//! with SQLSTATE 53200 (or 40001 if it found no room in a queue, 54000 if it exceeds a size limit), and every client
//! goes on.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier};

use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use thermocline_transactions::Error;
use thermocline_transactions::blocks::BlockStoreSettings;
use thermocline_transactions::database::{MemoryReport, RowEngine, RowSession, Settings, StatementResult};
use thermocline_transactions::disk::{Faults, RealDisk, SimulatedDisk};
use thermocline_transactions::types::Value;

pub const KIND: &str = "THERMOCLINE_MEMORY_KIND";
pub const SEED: &str = "THERMOCLINE_MEMORY_CHILD_SEED";
pub const STEPS: &str = "THERMOCLINE_MEMORY_CHILD_STEPS";
pub const LIMIT_BYTES: u64 = 256 << 20;

/// The work of [`gigabyte`].
pub const GIGABYTE: &str = "gigabyte";

/// The work of [`threads`].
pub const THREADS: &str = "threads";

/// The work of [`large_rows`], and its limit.
pub const LARGE_ROWS: &str = "large_rows";
pub const SMALL_LIMIT_BYTES: u64 = 64 << 20;

const CLIENTS: u64 = 6;
/// Rows of the tables that are read.
const ROWS: i64 = 20_000;

/// A step of a client.
pub type Step = fn(&mut Client);

pub const KINDS: [(&str, Step); 17] = [
    ("literals", literals),
    ("inserts", inserts),
    ("lists", lists),
    ("functions", functions),
    ("groups", groups),
    ("sorts", sorts),
    ("distinct", distinct),
    ("results", results),
    ("prepared", prepared),
    ("kept", kept),
    ("effects", effects),
    ("writes", writes),
    ("lua", lua),
    ("lua_statements", lua_statements),
    ("sql_procedures", sql_procedures),
    ("definitions", definitions),
    ("patterns", patterns),
];

pub struct Client {
    pub database: Arc<RowEngine>,
    pub session: RowSession,
    pub random: StdRng,
    pub number: i64,
    /// Outcomes of its steps, by SQLSTATE.
    pub told: BTreeMap<String, u64>,
}

impl Client {
    fn run(&mut self, sql: &str, parameters: &[Value]) -> Option<StatementResult> {
        let result = self.session.execute(sql, parameters);
        self.note(sql, result)
    }

    fn note<T>(&mut self, sql: &str, result: Result<T, Error>) -> Option<T> {
        let state = result.as_ref().map_or_else(|error| error.sqlstate().to_owned(), |_| "ok".to_owned());
        let known = ["ok", "53200", "40001", "54000"].contains(&state.as_str());
        let sql = &sql[..sql.floor_char_boundary(200)];
        if let Err(error) = &result {
            assert!(known, "{sql}: {state} {error}");
            let words = ["row_memory_limit", "prepared", "statement longer"];
            let said = state != "53200" || words.iter().any(|word| error.to_string().contains(word));
            assert!(said || error.to_string().contains("changes"), "{sql}: {error}");
        }
        *self.told.entry(state).or_default() += 1;
        result.ok()
    }

    fn number(&mut self, from: i64, to: i64) -> i64 {
        self.random.random_range(from..to)
    }

    /// A length of text in bytes, more often small than large.
    fn length(&mut self, most: i64) -> i64 {
        let part = self.number(0, 8);
        self.number(1, (most >> part).max(2))
    }

    fn text(&mut self, bytes: i64) -> String {
        let letter = char::from(self.random.random_range(b'a'..=b'z'));
        String::from_iter(std::iter::repeat_n(letter, usize::try_from(bytes).unwrap()))
    }
}

/// One literal that is most of a statement.
fn literals(client: &mut Client) {
    let bytes = client.length(15 << 20);
    let text = client.text(bytes);
    match client.number(0, 3) {
        0 => drop(client.run(&format!("SELECT '{text}'"), &[])),
        1 => drop(client.run(&format!("SELECT length('{text}' || v) FROM small WHERE k < 5"), &[])),
        _ => drop(client.run("SELECT $1 || $1", &[Value::Text(text.into())])),
    }
}

/// Large rows, which are deleted when there is no room for more.
fn inserts(client: &mut Client) {
    let bytes = client.length(1 << 20);
    let (key, text) = (client.number(0, 500), client.text(bytes));
    let sql = format!(
        "INSERT INTO docs VALUES ({key}, {}, '{text}') ON CONFLICT (k) DO UPDATE SET v = excluded.v",
        client.number
    );
    if client.run(&sql, &[]).is_none() {
        let deleted = client.session.execute("DELETE FROM docs WHERE k < 250 AND c = $1", &[Value::Int(client.number)]);
        assert!(deleted.is_ok(), "a DELETE has to work at the limit: {deleted:?}");
    }
}

/// Statements of very many values.
fn lists(client: &mut Client) {
    let count = client.length(400_000);
    let mut sql = String::from("SELECT count(*) FROM small WHERE k < 3 AND k IN (1");
    (0..count).for_each(|number| write!(sql, ",{}", number % 10).unwrap());
    sql.push(')');
    client.run(&sql, &[]);
    let count = client.length(30_000);
    let key = client.number(0, 1 << 40);
    let mut sql = String::from("INSERT INTO many VALUES (0, 0, 'x')");
    (0..count).for_each(|number| write!(sql, ",({}, {number}, 'text')", key + number).unwrap());
    sql.push_str(" ON CONFLICT (k) DO NOTHING");
    client.run(&sql, &[]);
    client.run("DELETE FROM many WHERE n > 10", &[]);
}

/// Texts made by functions.
fn functions(client: &mut Client) {
    let bytes = client.length(16_000_000);
    let long = format!("repeat('x', {bytes})");
    let expression = match client.number(0, 6) {
        0 => vec![long; 30].join(" || "),
        1 => format!("concat({})", vec![long; 30].join(", ")),
        2 => format!("greatest({})", vec![long; 30].join(", ")),
        3 => format!("replace({long}, 'x', 'xyz')"),
        4 => format!("lpad('x', {bytes}) || upper({long}) || rpad('y', {bytes})"),
        _ => (0..8).fold("'x'".to_owned(), |inner, _| format!("CASE WHEN {long} < ({inner}) THEN 'a' ELSE {long} END")),
    };
    client.run(&format!("SELECT length({expression})"), &[]);
    let columns = vec![format!("repeat('x', {bytes})"); 20].join(", ");
    client.run(&format!("SELECT {columns}"), &[]);
}

fn groups(client: &mut Client) {
    let bytes = client.length(20_000);
    let sql = match client.number(0, 3) {
        0 => format!("SELECT k % 7, count(DISTINCT v || repeat('x', {bytes}) || k) FROM small GROUP BY k % 7"),
        1 => format!("SELECT min(repeat(v, {})), count(*) FROM small GROUP BY k", bytes / 100 + 1),
        _ => format!("SELECT count(*) FROM small GROUP BY v || repeat('x', {bytes}) || k HAVING count(*) > 1"),
    };
    client.run(&sql, &[]);
}

fn sorts(client: &mut Client) {
    let bytes = client.length(20_000);
    let sql = match client.number(0, 3) {
        0 => format!("SELECT k, repeat('x', {bytes}) || v AS t FROM small ORDER BY t DESC"),
        1 => format!("SELECT k FROM small ORDER BY repeat('x', {bytes}) || v, k LIMIT 10"),
        _ => "SELECT k, v, k + 1, k + 2, k + 3, k + 4 FROM small ORDER BY v, k DESC".to_owned(),
    };
    client.run(&sql, &[]);
}

fn distinct(client: &mut Client) {
    let bytes = client.length(20_000);
    client.run(&format!("SELECT DISTINCT repeat('x', {bytes}) || k FROM small"), &[]);
    client.run("SELECT DISTINCT k, v, k + 1, k + 2, k + 3 FROM small", &[]);
}

/// Results that are kept for a while, and results that are never received.
fn results(client: &mut Client) {
    let (bytes, rows) = (client.length(10_000), client.number(1, ROWS));
    let mut kept = Vec::new();
    for _ in 0..3 {
        kept.extend(client.run(&format!("SELECT k, repeat('x', {bytes}) FROM small WHERE k < {rows}"), &[]));
    }
    drop(kept);
    let Ok(work) = client.database.prepare("SELECT k, repeat(v, 20) FROM small WHERE k < $1") else { return };
    let mut other = client.database.client();
    let mut sent = 0;
    for tag in 0..40 {
        if other.submit(Arc::clone(&work), vec![Value::Int(rows)].into(), tag).is_ok() {
            sent += 1;
        }
        other.send();
    }
    let mut received = 0;
    while received < sent {
        for reply in other.receive() {
            received += 1;
            client.note("a result that waits", reply.result);
        }
    }
}

/// Statements that a session keeps.
fn prepared(client: &mut Client) {
    let bytes = client.length(300_000);
    for _ in 0..20 {
        let (text, number) = (client.text(bytes), client.number(0, 1 << 40));
        client.run(&format!("SELECT length('{text}') + {number}"), &[]);
    }
    let names: String = (0..bytes.min(3000)).map(|number| format!("k + {number} AS c{number}, ")).collect();
    client.run(&format!("SELECT {names} k FROM small WHERE k < 0"), &[]);
}

/// Statements that a program keeps.
fn kept(client: &mut Client) {
    let bytes = client.length(100_000);
    let mut works = Vec::new();
    for number in 0..10_000 {
        let text = client.text(bytes);
        let result = client.database.prepare(&format!("SELECT length('{text}') + {number}"));
        match client.note("a statement that is kept", result) {
            Some(work) => works.push(work),
            None => break,
        }
        // Statements of others do not fail meanwhile.
        if number % 1000 == 0 {
            client.run("SELECT v FROM small WHERE k = 1", &[]).unwrap();
        }
    }
}

/// A session's transaction, all of whose rows go into the log together.
fn effects(client: &mut Client) {
    let (bytes, count) = (client.length(1000), client.length(20_000));
    client.run("BEGIN", &[]);
    let sql =
        format!("INSERT INTO many SELECT k + {}, k, repeat('y', {bytes}) FROM small", client.number * 100_000_000);
    let inserted = client.run(&format!("{sql} WHERE k < {count} ON CONFLICT (k) DO NOTHING"), &[]).is_some();
    if inserted {
        client.run("UPDATE many SET v = v || 'z' WHERE n % 3 = 0", &[]);
    }
    let ended = client.session.execute(if client.session.has_failed() { "ROLLBACK" } else { "COMMIT" }, &[]);
    client.note("COMMIT", ended);
    client.run("DELETE FROM many WHERE n > 10", &[]);
}

/// Changes of many rows, and their RETURNING.
fn writes(client: &mut Client) {
    let bytes = client.length(2000);
    client.run(&format!("UPDATE small SET v = repeat('v', {})", bytes.min(200)), &[]);
    client.run("UPDATE small SET v = v || 'w' WHERE k % 2 = 0 RETURNING k, repeat(v, 50), v", &[]);
    client.run("UPDATE small SET v = 'short'", &[]);
}

fn lua(client: &mut Client) {
    let (bytes, key) = (client.length(200_000), client.number(0, 1000));
    let call = match client.number(0, 4) {
        0 => format!("CALL strings({key}, {bytes})"),
        1 => format!("CALL queries({key}, {})", bytes / 100 + 1),
        2 => format!("CALL tables({key}, {})", bytes * 10),
        _ => format!("CALL rows_of({key}, {})", bytes / 4),
    };
    client.run(&call, &[]);
}

fn lua_statements(client: &mut Client) {
    let (bytes, key) = (client.length(100_000), client.number(0, 1000));
    client.run(&format!("CALL statements({key}, {bytes})"), &[]);
}

fn sql_procedures(client: &mut Client) {
    let count = client.length(10_000);
    client.run(&format!("CALL several({count})"), &[]);
}

fn definitions(client: &mut Client) {
    let (bytes, name) = (client.length(1 << 20), client.number(0, 30));
    let text = client.text(bytes);
    let body = match client.number(0, 2) {
        0 => format!("LANGUAGE sql AS $$ SELECT length('{text}'), count(*) FROM small WHERE k = a $$"),
        _ => format!("LANGUAGE lua AS $$ local t = '{text}' return #t + a $$"),
    };
    client.run(&format!("CREATE OR REPLACE PROCEDURE p{name}(a BIGINT) {body}"), &[]);
    let result = client.session.execute(&format!("CALL p{name}(1)"), &[]);
    if !matches!(&result, Err(error) if error.sqlstate() == "42883") {
        client.note("CALL", result);
    }
    if client.number(0, 4) == 0 {
        client.run(&format!("DROP PROCEDURE IF EXISTS p{name}"), &[]);
    }
}

fn patterns(client: &mut Client) {
    let bytes = client.length(8_000_000);
    client.run(&format!("SELECT 'x' LIKE repeat('xy', {bytes}), 'x' ILIKE repeat('Xy', {bytes})"), &[]);
    let text = client.text(bytes / 4);
    client.run(&format!("SELECT 'x' LIKE '{text}%'"), &[]);
    client.run(&format!("SELECT count(*) FROM small WHERE v LIKE repeat('%x', {})", bytes / 1000), &[]);
}

const PROCEDURES: [&str; 6] = [
    "CREATE PROCEDURE strings(k BIGINT, n BIGINT) PARTITION ON (k) LANGUAGE lua AS $$
        local t = {}
        for i = 1, 2000 do t[i] = string.rep('x', n) .. i end
        return #table.concat(t)
     $$",
    "CREATE PROCEDURE tables(k BIGINT, n BIGINT) PARTITION ON (k) LANGUAGE lua AS $$
        local t = {}
        for i = 1, n do t[i] = { i, tostring(i), name = i } end
        return #t
     $$",
    "CREATE PROCEDURE queries(k BIGINT, n BIGINT) LANGUAGE lua AS $$
        local kept = {}
        for i = 1, 50 do
            kept[i] = db.query('SELECT k, repeat(v, $1) FROM small WHERE k < 2000', n)
        end
        return kept[50]
     $$",
    "CREATE PROCEDURE rows_of(k BIGINT, n BIGINT) PARTITION ON (k) LANGUAGE lua AS $$
        local t = {}
        for i = 1, n do t[i] = { i, string.rep('y', 300) .. i } end
        return db.rows({ 'a', 'b' }, t)
     $$",
    "CREATE PROCEDURE statements(k BIGINT, n BIGINT) PARTITION ON (k) LANGUAGE lua AS $$
        local sum = 0
        local text = string.rep('z', n)
        for i = 1, 1000 do
            sum = sum + db.value(\"SELECT length('\" .. text .. \"') + \" .. i)
            db.prepare('s' .. i, \"SELECT '\" .. text .. i .. \"'\")
        end
        return sum
     $$",
    "CREATE PROCEDURE several(n BIGINT) LANGUAGE sql AS $$
        SELECT k, repeat(v, 100) FROM small WHERE k < n;
        SELECT v || k, count(*) FROM small WHERE k < n GROUP BY v || k ORDER BY 1;
        UPDATE small SET v = 'several' WHERE k < n;
        SELECT repeat('x', n), k FROM small WHERE k < n;
     $$",
];

/// Runs this many steps of each client, of one kind or of all.
pub fn run(kind: &str, seed: u64, steps: u64) {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let settings = Settings {
        partitions: 2,
        memory_bytes_max: LIMIT_BYTES,
        undo_bytes_max: usize::try_from(LIMIT_BYTES / 4).unwrap(),
        ..Settings::default()
    };
    let database = Arc::new(RowEngine::open(Arc::new(RealDisk::open(directory.path()).unwrap()), settings).unwrap());
    prepare(&database);
    let chosen: Vec<Step> =
        KINDS.iter().filter(|(name, _)| [name, "random"].contains(&kind)).map(|(_, step)| *step).collect();
    assert!(!chosen.is_empty(), "{kind}");
    let (used_max, most) = (AtomicU64::new(0), Mutex::new(None));
    let mut told: BTreeMap<String, u64> = BTreeMap::new();
    std::thread::scope(|scope| {
        let client = |number: u64| {
            let (database, session) = (Arc::clone(&database), database.session());
            let random = StdRng::seed_from_u64(seed << 8 | number);
            let mut client = Client { database, session, random, number: number.cast_signed(), told: BTreeMap::new() };
            let (used_max, most, chosen) = (&used_max, &most, &chosen);
            scope.spawn(move || {
                for _ in 0..steps {
                    chosen[client.random.random_range(0..chosen.len())](&mut client);
                    let report = client.database.memory();
                    if used_max.fetch_max(report.used_bytes(), Ordering::Relaxed) < report.used_bytes() {
                        *most.lock() = Some(report);
                    }
                }
                client.told
            })
        };
        let clients: Vec<_> = (0..CLIENTS).map(client).collect();
        for client in clients {
            for (state, count) in client.join().unwrap() {
                *told.entry(state).or_default() += count;
            }
        }
    });
    let most: Option<MemoryReport> = most.into_inner();
    println!("told {told:?}\nmost {most:?}\nnow {:?}", database.memory());
    println!("resident_bytes {}\nresident_bytes_max {}", status("VmRSS:"), status("VmHWM:"));
    // All memory was freed with its owner.
    Arc::try_unwrap(database).unwrap().close().unwrap();
}

/// Runs a statement of a gigabyte, and checks the resident bytes besides its text.
pub fn gigabyte() {
    let nothing = Arc::new(SimulatedDisk::new(1, Faults::default()));
    let database = RowEngine::open(nothing, Settings { memory_bytes_max: LIMIT_BYTES, ..Settings::default() }).unwrap();
    let mut sql = String::with_capacity((1 << 30) + 100);
    sql.push_str("SELECT '");
    let part = "x".repeat(1 << 20);
    (0..1 << 10).for_each(|_| sql.push_str(&part));
    sql.push('\'');
    let before = status("VmHWM:");
    for result in [database.session().execute(&sql, &[]).map(drop), database.prepare(&sql).map(drop)] {
        let error = result.unwrap_err();
        assert_eq!((error.sqlstate(), error.to_string().contains("statement longer")), ("54000", true), "{error}");
    }
    println!("resident_bytes_max {}", status("VmHWM:") - before);
}

/// Threads that read a long statement one after the other, keep a short one and stay: each gives back most of its
/// memory before the next begins.
pub fn threads() {
    const THREADS: usize = 24;
    let nothing = Arc::new(SimulatedDisk::new(1, Faults::default()));
    let database = RowEngine::open(nothing, Settings { memory_bytes_max: LIMIT_BYTES, ..Settings::default() }).unwrap();
    database.session().execute("CREATE TABLE t (k BIGINT PRIMARY KEY) PARTITION BY (k)", &[]).unwrap();
    let list: String = (0..80_000).fold("1".to_owned(), |list, number| format!("{list},{}", number % 10));
    let long = format!("SELECT count(*) FROM t WHERE k IN ({list})");
    // Like any larger buffer freed by a program, this makes glibc keep more.
    drop(std::hint::black_box(vec![1_u8; 31 << 20]));
    let (turn, over) = (Mutex::new(()), Barrier::new(THREADS));
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let mut session = database.session();
                {
                    let _turn = turn.lock();
                    session.execute(&long, &[]).unwrap();
                    session.execute("SELECT k + 1 FROM t WHERE k = $1", &[Value::Int(1)]).unwrap();
                }
                over.wait();
            });
        }
    });
    println!(
        "now {:?}\nresident_bytes {}\nresident_bytes_max {}",
        database.memory(),
        status("VmRSS:"),
        status("VmHWM:")
    );
}

/// Clients that insert, change and read rows of a mebibyte, many times the limit together.
pub fn large_rows(steps: u64) {
    const LARGE_CLIENTS: u64 = 4;
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let settings = Settings {
        partitions: 2,
        memory_bytes_max: SMALL_LIMIT_BYTES,
        undo_bytes_max: usize::try_from(SMALL_LIMIT_BYTES / 4).unwrap(),
        eviction: Some(BlockStoreSettings::default()),
        ..Settings::default()
    };
    let database = RowEngine::open(Arc::new(RealDisk::open(directory.path()).unwrap()), settings).unwrap();
    let empty = status("VmRSS:");
    let sql = "CREATE TABLE docs (k BIGINT PRIMARY KEY, v TEXT NOT NULL) PARTITION BY (k)";
    database.session().execute(sql, &[]).unwrap();
    let told = Mutex::new(BTreeMap::<String, u64>::new());
    let note = |what: &str, result: Result<StatementResult, Error>| {
        let state = result.as_ref().map_or_else(|error| format!("{what} {error}"), |_| format!("{what} ok"));
        *told.lock().entry(state).or_default() += 1;
    };
    std::thread::scope(|scope| {
        for client in 0..LARGE_CLIENTS {
            let (mut session, note) = (database.session(), &note);
            scope.spawn(move || {
                for step in 0..steps {
                    let key = (client * steps + step).cast_signed();
                    let text = char::from(b'a' + (step % 26) as u8).to_string().repeat(1 << 20);
                    if step % 2 == 0 {
                        let sql = format!("INSERT INTO docs VALUES ({key}, '{text}')");
                        note("literal", session.execute(&sql, &[]));
                    } else {
                        let values = [Value::Int(key), Value::Text(text.into())];
                        note("parameter", session.execute("INSERT INTO docs VALUES ($1, $2)", &values));
                    }
                    let earlier = [Value::Int((client * steps + step / 2).cast_signed())];
                    note("read", session.execute("SELECT v FROM docs WHERE k = $1", &earlier));
                    if step % 5 == 0 {
                        note("update", session.execute("UPDATE docs SET v = upper(v) WHERE k = $1", &earlier));
                    }
                }
            });
        }
    });
    println!("told {:?}\nnow {:?}\nempty {empty}", told.into_inner(), database.memory());
    println!("resident_bytes {}\nresident_bytes_max {}", status("VmRSS:"), status("VmHWM:"));
    database.close().unwrap();
}

fn prepare(database: &Arc<RowEngine>) {
    let mut session = database.session();
    let mut run = |sql: &str| drop(session.execute(sql, &[]).unwrap_or_else(|error| panic!("{sql}: {error}")));
    run("CREATE TABLE docs (k BIGINT PRIMARY KEY, c BIGINT NOT NULL, v TEXT NOT NULL) PARTITION BY (k)");
    run("CREATE TABLE many (k BIGINT PRIMARY KEY, n BIGINT NOT NULL, v TEXT NOT NULL) PARTITION BY (k)");
    run("CREATE TABLE small (k BIGINT PRIMARY KEY, v TEXT NOT NULL) PARTITION BY (k)");
    for first in (0..ROWS).step_by(1000) {
        let rows: Vec<String> = (first..first + 1000).map(|key| format!("({key}, 'value {key}')")).collect();
        run(&format!("INSERT INTO small VALUES {}", rows.join(",")));
    }
    PROCEDURES.iter().for_each(|sql| run(sql));
}

/// Bytes in the process's status.
fn status(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.trim().strip_suffix(" kB").unwrap().trim().parse::<u64>().unwrap() << 10
}
