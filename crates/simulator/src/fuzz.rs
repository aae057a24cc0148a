//! Bodies of the Lua fuzz targets: each takes arbitrary bytes as a script, a pattern with its text, or a format with
//! its arguments. The test is that the procedure ends, does the same a second time, and leaves a machine that works.
//!
//! The targets in `fuzz/lua` run them without a limit of time and under `AddressSanitizer`; the test `lua` of this
//! crate runs them over the same corpus and a bounded number of mutations.

use std::cell::Cell;
use std::fmt::Write;
use std::sync::Arc;

use thermocline_durability::disk::{Faults, SimulatedDisk};
use thermocline_machine::ids::Micros;
use thermocline_procedures::Limits;
use thermocline_statements::StatementResult;
use thermocline_transactions::database::{RowEngine, RowSession, Settings};
use thermocline_types::{Error, Value};

/// A target's body, which takes any bytes.
pub type Body = fn(&[u8]);

/// Every target by name.
pub const TARGETS: [(&str, Body); 3] = [("script", script), ("pattern", pattern), ("format", format)];

/// Runs before a new database is made, because the log is in memory.
const RUNS_OF_A_DATABASE: u32 = 2000;

/// Words for the bytes of a script, so that mutations are mostly valid syntax; `~~` is a space inside a word.
const WORDS: &str = "and break do else elseif end false for function goto if in local nil not or repeat return then true
until while a b c t f i x y ... ( ) { } [ ] = == ~= < <= > >= + - * / // % ^ # & | ~ << >> .. . , ; : :: 0 1 2 3 -1 10
64 1000 1e9 0.5 1e308 math.maxinteger math.mininteger '' 'a' 'abc' '%a+' '(.-)' '()' '%d' '\\0' [[x]] {} {1,2,3} {a=1}
string.find string.rep string.format string.gsub string.byte string.char string.sub string.match string.gmatch
table.concat table.insert table.remove table.move table.unpack table.pack table.sort math.floor math.max math.type
math.tointeger math.fmod select pcall xpcall error assert pairs ipairs next rawget rawset rawlen rawequal setmetatable
getmetatable tostring tonumber type coroutine.wrap coroutine.create coroutine.resume coroutine.yield coroutine.close
coroutine.status coroutine.running coroutine.isyieldable __index __newindex __call __close __eq __lt __le __add __concat
__len __pairs __tostring __name __metatable __gc __mode _ENV db.value db.query db.row db.execute db.prepare db.rows
db.decimal('1.5') db.date('2024-01-01') db.abort 'SELECT~~1' 'SELECT~~k~~FROM~~t' local~~a= local~~function~~f
function()~~end function(...)~~return~~...~~end for~~i=1,9~~do while~~true~~do if~~x~~then local~~x~~<close>= goto~~l ::l::
return~~... t[#t+1]= (a) f(a) f(...) a.b a[1] pcall(f) setmetatable({},{__index=a}) setmetatable({},{__close=f})
setmetatable({},{__call=a}) setmetatable({},t) t.__index=t t.__call=t coroutine.wrap(f)() ('x'):rep(100) #a -a not~~a";

struct Bench {
    _database: RowEngine,
    session: RowSession,
    runs: u32,
}

thread_local! {
    static BENCH: Cell<Option<Bench>> = const { Cell::new(None) };
}

impl Bench {
    fn new() -> Self {
        let limits = Limits { instructions_max: 50_000, lua_bytes_max: 8 << 20, rows_max: 1000 };
        let settings = Settings {
            partitions: 1,
            limits,
            clock: Box::new(|| Micros(1_709_209_845_500_000)),
            ..Settings::default()
        };
        let disk = Arc::new(SimulatedDisk::new(1, Faults::default()));
        let database = settled(RowEngine::open(disk, settings));
        let mut session = database.session();
        for sql in [
            "CREATE TABLE t (k BIGINT PRIMARY KEY, v TEXT) PARTITION BY (k)",
            "INSERT INTO t VALUES (1, 'one'), (2, 'two')",
            PATTERN,
            FORMAT,
        ] {
            settled(session.execute(sql, &[]));
        }
        Self { _database: database, session, runs: 0 }
    }

    fn with(run: impl FnOnce(&mut Self)) {
        let mut bench = BENCH.take().filter(|bench| bench.runs < RUNS_OF_A_DATABASE).unwrap_or_else(Self::new);
        bench.runs += 1;
        run(&mut bench);
        BENCH.set(Some(bench));
    }

    fn outcome(&mut self, sql: &str, parameters: &[Value]) -> String {
        match self.session.execute(sql, parameters) {
            Ok(answer) => text_of(&answer),
            Err(error) => format!("{}: {error}", error.sqlstate()),
        }
    }

    /// Runs a call twice and returns how it ends.
    fn ends(&mut self, sql: &str, parameters: &[Value]) -> String {
        let (first, second) = (self.outcome(sql, parameters), self.outcome(sql, parameters));
        // The second call starts with other memory held.
        let limited = |outcome: &str| outcome.starts_with("57014") || outcome.starts_with("53200");
        assert!(first == second || limited(&first) || limited(&second), "{first}\n{second}");
        assert!(!first.starts_with("XX"), "{first}");
        let after = self.outcome("CALL format(1, '%d', '', 7)", &[]);
        assert_eq!(after, "7", "the machine afterwards");
        first
    }
}

fn settled<T>(result: Result<T, Error>) -> T {
    result.unwrap_or_else(|error| panic!("{error}"))
}

fn text_of(answer: &StatementResult) -> String {
    let mut text = String::new();
    for row in answer.rows.iter() {
        for value in row {
            let _ = write!(text, "{value}|");
        }
    }
    text.pop();
    text
}

/// A body: text verbatim, or a word for each byte if the first byte is not ASCII.
pub fn script(bytes: &[u8]) {
    let body = match bytes.split_first() {
        Some((first, rest)) if !first.is_ascii() => {
            let words: Vec<&str> = WORDS.split_whitespace().collect();
            let word = |byte: &u8| words.get(usize::from(*byte) % words.len()).copied().unwrap_or_default();
            rest.iter().map(word).collect::<Vec<_>>().join(" ").replace("~~", " ")
        }
        _ => String::from_utf8_lossy(bytes).into_owned(),
    };
    // These give other values in each call.
    if body.len() > 1 << 16 || ["$f$", "random", "uuid"].iter().any(|part| body.contains(part)) {
        return;
    }
    Bench::with(|bench| {
        let sql = format!("CREATE OR REPLACE PROCEDURE p() LANGUAGE lua AS $f${body}$f$");
        match bench.session.execute(&sql, &[]) {
            Ok(_) => drop(bench.ends("CALL p()", &[])),
            Err(error) => assert!(!error.sqlstate().starts_with("XX"), "{error}"),
        }
    });
}

/// A match must be part of the text, and replacing matches by themselves must not change it.
const PATTERN: &str = "CREATE PROCEDURE pattern(op BIGINT, p BYTEA, s BYTEA, r BYTEA) LANGUAGE lua AS $$
  local function found(ok, from, to, ...)
    if not ok then return from end
    if from == nil then return 'none' end
    if not (1 <= from and from <= to + 1 and to <= #s) then db.abort(from .. ' to ' .. to, 'BR001') end
    return from, to, ...
  end
  if op == 0 then return found(pcall(string.find, s, p)) end
  if op == 1 then return found(pcall(string.find, s, p, #r - 3)) end
  if op == 2 then return found(pcall(string.find, s, p, 1, true)) end
  if op == 3 then return pcall(string.match, s, p, -#r) end
  if op == 4 then return pcall(string.gsub, s, p, r) end
  if op == 5 then
    local ok, same = pcall(string.gsub, s, p, function() end)
    if ok and same ~= s then db.abort('replaced', 'BR002') end
    return ok, same
  end
  if op == 6 then return pcall(string.gsub, s, p, { [r] = 'x', a = 1 }) end
  local n = 0
  local ok, e = pcall(function() for a, b in string.gmatch(s, p) do n = n + 1 + #tostring(a) end end)
  return ok, e, n
$$";

/// After a byte for the operation: a pattern, a text and a replacement, separated by `0xff`.
pub fn pattern(bytes: &[u8]) {
    let Some((op, rest)) = bytes.split_first() else { return };
    let mut parts = rest.split(|byte| *byte == 0xff).map(|part| Value::Bytes(part.into()));
    let mut part = || parts.next().unwrap_or_else(|| Value::Bytes(Box::default()));
    let parameters = [Value::Int(i64::from(op % 8)), part(), part(), part()];
    Bench::with(|bench| {
        let outcome = bench.ends("CALL pattern($1, $2, $3, $4)", &parameters);
        assert!(!outcome.starts_with("BR00"), "{outcome}");
    });
}

/// Arguments of all types for a format, in an order given by a number.
const FORMAT: &str = "CREATE PROCEDURE format(op BIGINT, f BYTEA, s BYTEA, n BIGINT) LANGUAGE lua AS $$
  if op == 1 then return string.format(f, n) end
  local m = { __tostring = function() return s .. string.format('%s', n) end, __name = s }
  local values = {
    n, s, n / 3, -n, db.decimal(n), {}, setmetatable({}, m), true, 1 / 0, 0 / 0, math.mininteger, 2 ^ 53, db.date('2024-01-01'),
    setmetatable({}, { __tostring = function() return n end }), function() end, 1e300, -1e-300, s:rep(20),
  }
  local arguments, state = {}, op
  for i = 1, 40 do
    state = (state * 6364136223846793005 + 1442695040888963407)
    arguments[i] = values[(state >> 33) % (#values + 1)]
  end
  return pcall(string.format, f, table.unpack(arguments, 1, 40))
$$";

/// After eight bytes of a number and one byte for the order of the arguments: a format and a text, separated by `0xff`.
pub fn format(bytes: &[u8]) {
    let Some((op, rest)) = bytes.split_first() else { return };
    let Some((number, rest)) = rest.split_first_chunk() else { return };
    let mut parts = rest.splitn(2, |byte| *byte == 0xff).map(|part| Value::Bytes(part.into()));
    let mut part = || parts.next().unwrap_or_else(|| Value::Bytes(Box::default()));
    let parameters = [Value::Int(i64::from(*op) + 2), part(), part(), Value::Int(i64::from_le_bytes(*number))];
    Bench::with(|bench| drop(bench.ends("CALL format($1, $2, $3, $4)", &parameters)));
}
