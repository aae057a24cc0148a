//! No call can change the start state of a later one.

use thermocline_transactions::disk::Crash;

use crate::bench::{Bench, new_disk, open, outcome, run};

/// Statements by which a call could leave something for a later one.
const LEAVES: &[&str] = &[
    "_ENV = {}",
    "_ENV = setmetatable({}, {__index = function() return 7 end})",
    "_ENV.x = 1 _ENV = nil",
    "local function f() _ENV = {x = 5} end f()",
    "x = 1 y = {} function string_upper() end",
    "local _ENV = _ENV db, string, table, pairs, tostring = nil, 1, 2, 3, 4",
    "rawset(_ENV, 'x', 1) rawset(_ENV, 'db', {})",
    "rawset(_ENV, 'string', {upper = function() return 'leaked' end})",
    "pcall(rawset, string, 'upper', 1) pcall(table.insert, table, 1) pcall(table.move, {1, 2}, 1, 2, 1, math)",
    "pcall(setmetatable, string, {}) pcall(setmetatable, _ENV, {}) pcall(function() getmetatable('').__index = nil end)",
    "pcall(function() db.prepare('SELECT 1').value = 1 end) pcall(function() db.decimal(1).x = 1 end)",
    "pcall(rawset, db.prepare('SELECT 1'), 'x', 1) pcall(setmetatable, db.decimal(1), {})",
    "pcall(function() db.query('SELECT 1').x = 1 end) db.prepare('one', 'SELECT 1')",
    "local co = coroutine.wrap(function() coroutine.yield() x = 9 end) co() kept = co",
    "x = coroutine.running() y = coroutine.create(function() _ENV = {x = 1} coroutine.yield() end) coroutine.resume(y)",
    "local f f = function() x = f _ENV = {} return f end f()",
    "local t = setmetatable({}, {__close = function() _ENV = {} x = 1 end}) local y <close> = t",
    "local t = {} for i = 1, 5000 do t['x' .. i] = i end x = t error(t)",
    "for w in ('a b'):gmatch('%a') do x = w end pcall(math.random, 1, 0) math.random()",
    "while true do x = {x} end",
    "pcall(function() _ENV = {} error('x') end) error('y')",
    "local s = db.prepare('SELECT 1') local ok, f = pcall(function() return s.__gc end) if ok and f then f(s) end",
    "local d = db.decimal(1) local ok, f = pcall(function() return d.__index end) if ok and f then pcall(f, d, 'x') end",
];

/// Inspects everything that a script can reach.
const LOOKS: &str = "
    local out = {}
    local function say(...) for i = 1, select('#', ...) do out[#out + 1] = tostring((select(i, ...))) end end
    say(x, y, kept, string_upper, getmetatable(''), getmetatable(string), getmetatable(_ENV), getmetatable(db.decimal(1)))
    say(('x'):upper(), string.upper('y'), #string.rep('x', 3), table.concat({1, 2}, ','), math.max(1, 2), select('#', 1, 2))
    for k in pairs(_ENV) do say(k) end
    for _, t in ipairs{string, table, math, db, coroutine} do for k in pairs(t) do say(k) end end
    say(pcall(db.value, 'SELECT 1'), db.value('SELECT count(*) FROM t'), db.decimal('1.5') + 1, #db.uuid())
    say(db.prepare('SELECT 2'):value(), db.query('SELECT 3')[1], db.date('2024-01-01').year)
    say(coroutine.isyieldable(), (select(2, coroutine.running())), coroutine.status(coroutine.create(say)))
    local depth, m = 0, {} m.__concat = function(a, b) depth = depth + 1 return a .. b end
    pcall(function() return setmetatable({}, m) .. 1 end) say(depth)
    depth = 0 local m = {} m.__index = function(t) depth = depth + 1 return t.x end
    pcall(function() return setmetatable({}, m).x end) say(depth)
    local objects, lengths = {}, {}
    for i = 1, 40 do
      local t = {}
      for j = 1, i do t[j] = j t[{}] = 1 if j % 3 == 0 then t[j - 1] = nil end end
      lengths[i] = #t
    end
    say(table.concat(lengths, ' '))
    return table.concat(out, ';')";

#[test]
fn nothing_that_is_left_is_found() {
    let fresh = outcome(&mut Bench::new(), LOOKS);
    assert!(fresh.starts_with("nil;nil;nil;nil;false;"), "{fresh}");
    let mut bench = Bench::new();
    let create =
        |name: &str, body: &str| format!("CREATE OR REPLACE PROCEDURE {name} LANGUAGE lua AS $lua${body}$lua$");
    for leaves in LEAVES {
        // In the same procedure, whose chunk has run before, and in another procedure.
        let body = format!("if leave then {leaves} else {LOOKS} end");
        run(&mut bench.session, &create("both(leave BOOLEAN)", &body));
        run(&mut bench.session, &create("other()", LOOKS));
        let mut call = |sql: &str| match bench.session.execute(sql, &[]) {
            Ok(answer) => answer.rows.row(0).map(|value| value.to_string()).collect::<Vec<_>>().join("|"),
            Err(error) => error.to_string(),
        };
        for _ in 0..2 {
            let left = call_quietly(&mut call);
            assert_eq!(call("CALL both(false)"), fresh, "{leaves} {left}");
            assert_eq!(call("CALL other()"), fresh, "{leaves}");
        }
    }
}

fn call_quietly(call: &mut impl FnMut(&str) -> String) -> String {
    // It may fail; only its traces matter.
    call("CALL both(true)")
}

/// Nested calls must not change each other.
#[test]
fn procedures_share_nothing() {
    let mut bench = Bench::new();
    for (name, body) in [
        ("callee()", "local before = x x = 1 _ENV = {} return before"),
        (
            "caller()",
            "x = 5 local one = db.call('callee')[1].callee x = x + 1 local two = db.call('callee')[1].callee return one, two, x, type(db)",
        ),
    ] {
        run(&mut bench.session, &format!("CREATE PROCEDURE {name} LANGUAGE lua AS $lua${body}$lua$"));
    }
    for _ in 0..3 {
        let answer = run(&mut bench.session, "CALL caller()");
        let row: Vec<_> = answer.rows.row(0).map(|value| value.to_string()).collect();
        assert_eq!(row, ["NULL", "NULL", "6", "table"]);
    }
}

/// Calls that try to leave something, repeatedly, and the result of replaying the log.
#[test]
fn replay_finds_what_was_written() {
    let disk = new_disk();
    let database = open(&disk);
    let mut session = database.session();
    run(&mut session, "CREATE TABLE seen (id BIGINT PRIMARY KEY, what TEXT) PARTITION BY (id)");
    run(
        &mut session,
        "CREATE PROCEDURE note(id BIGINT, fails BOOLEAN) PARTITION ON (id) LANGUAGE lua AS $lua$
           local insert, tostring, concat, length = db.execute, tostring, table.concat, nil
           local t = {}
           for j = 1, id % 50 do t[j] = j t[{}] = 1 if j % 3 == 0 then t[j - 1] = nil end end
           insert('INSERT INTO seen VALUES ($1, $2)', id, concat({tostring(x), tostring(#t), type(string), type(pairs)}, ' '))
           if fails then x = id _ENV = {x = id} error('left') end
           _ENV = {string = 'mine', x = id}
         $lua$",
    );
    for id in 0..300 {
        // Failed calls are not in the log: their traces must not affect later calls.
        let _ = session.execute(&format!("CALL note({id}, {})", id % 3 == 0), &[]);
    }
    let all = "SELECT * FROM seen ORDER BY id";
    let before = run(&mut session, all);
    assert_eq!(before.rows.len(), 200);
    drop(session);
    drop(database);
    disk.restart(Crash::Power);
    let database = open(&disk);
    let after = run(&mut database.session(), all);
    assert_eq!(before, after);
}
