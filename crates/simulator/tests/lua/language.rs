//! The language, its library, and what the engine adds.

use thermocline_transactions::disk::Crash;

use crate::bench::{Bench, new_disk, open, run};

#[test]
fn statements_and_results() {
    let mut bench = Bench::new();
    bench.check("return 1", "1");
    bench.check("return 1, 'two', nil, 2.5, true", "1|two|NULL|2.5|t");
    bench.check("return db.value('SELECT v FROM t WHERE k = $1', 1)", "one");
    bench.check("return db.value('SELECT v FROM t WHERE k = $1', 3)", "NULL");
    bench.check("return db.value('SELECT v FROM t WHERE k = $1', 9)", "NULL");
    bench.check("return db.values('SELECT k, v, m FROM t WHERE k = $1', 2)", "2|two|2.25");
    bench.check("local row = db.row('SELECT * FROM t WHERE k = 2') return row.v .. row.m, row.b", "two2.25|NULL");
    bench.check("return db.query('SELECT k, v FROM t ORDER BY k')", "1|one\n2|two\n3|NULL");
    bench.check(
        "local sum = db.decimal(0)
         for i, row in ipairs(db.query('SELECT k, m FROM t ORDER BY k')) do sum = sum + (row.m or 0) * i end
         return sum",
        "6.00",
    );
    bench.check("return db.execute('UPDATE t SET v = v || $1 WHERE k < 3', '!')", "2");
    bench.check("local r = db.query('SELECT k AS a, v FROM t') return #r, r.columns[1], r[9]", "3|a|NULL");
    bench.check("local s = db.prepare('SELECT v FROM t WHERE k = $1') return s:value(1), db.value(s, 2)", "one!|two!");
    bench.check("db.prepare('get', 'SELECT v FROM t WHERE k = $1') return db.value('get', 1)", "one!");
    bench.fails("return db.value('get', 1)", "42601", "line 1");
    bench.check("return db.rows({'a', 'b'}, {{1, 'x'}, {a = 2}, {b = 'y'}})", "1|x\n2|NULL\nNULL|y");
    bench.check("", "");
}

#[test]
fn statements_run_once_for_each_set_of_parameters() {
    let mut bench = Bench::new();
    bench.check("return db.query_each('SELECT k, v FROM t WHERE k = $1', {{2}, {9}, {1}, {2}})", "2|two\n1|one\n2|two");
    bench.check(
        "return #db.query_each('SELECT k FROM t WHERE k = $1', {}), db.execute_each('DELETE FROM t WHERE k = $1', {})",
        "0|0",
    );
    bench.check(
        "local r = db.query_each('SELECT k, v, b FROM t WHERE k = $1', {{3}, {1}})
         local k, v, b = db.values(r, 1) return k, v, b, select('#', db.values(r, 1)), db.values(r, 2)",
        "3|NULL|NULL|3|1|one|NULL",
    );
    for number in ["0", "-1", "3", "math.mininteger", "math.maxinteger"] {
        bench.check(
            &format!("local r = db.query('SELECT k FROM t WHERE k < 3') return select('#', db.values(r, {number}))"),
            "0",
        );
    }
    bench.fails("return db.values(db.query('SELECT 1'), 'x')", "38000", "integer expected");
    // In order: a set sees the writes of those before it. More sets than are looked up together.
    bench.check(
        "local sets = {} for k = 10, 109 do sets[#sets + 1] = {k, 'v' .. k} end
         local written = db.execute_each('INSERT INTO t (k, v) VALUES ($1, $2)', sets)
         local chain = {} for i = 1, 40 do chain[i] = {109, i .. ','} end
         local s = db.prepare([[UPDATE t SET v = v || $2 WHERE k = $1 AND length(v) < 99 RETURNING length(v)]])
         return written, s:execute_each({}), #s:query_each(chain), db.value('SELECT v FROM t WHERE k = 109')",
        "100|0|35|v1091,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31,32,33,34,35,",
    );
    // NULL at the end and in the middle, texts converted to other types, metatables that are ignored.
    bench.check(
        "db.execute_each('INSERT INTO t (k, v, m) VALUES ($1, $2, $3)', {{200, 'a'}, {201, nil, '2.50'}})
         return db.query('SELECT k, v, m FROM t WHERE k >= 200 ORDER BY k')",
        "200|a|NULL\n201|NULL|2.50",
    );
    bench.check(
        "local sets = setmetatable({{1}}, {__index = function() return {2} end, __len = function() return 2 end})
         return #db.query_each('SELECT 1 FROM t WHERE k = $1', sets)",
        "1",
    );
    let each = "db.query_each('SELECT v FROM t WHERE k = $1', ";
    bench.fails(&format!("return {each}1)"), "38000", "table expected");
    bench.fails(&format!("return {each}nil)"), "38000", "table expected");
    bench.fails(&format!("return {each}{{{{1}}, 2}})"), "42804", "set 2 of parameters is no table");
    bench.fails(&format!("return {each}{{{{1, 2}}}})"), "42P02", "was given 2 in set 1");
    bench.fails(&format!("return {each}{{{{{{}}}}}})"), "42804", "parameter $1");
    bench.fails("db.execute_each('INSERT INTO t (k) VALUES ($1)', {{300}, {1}})", "23505", "line 1");
    bench.check("return db.value('SELECT k FROM t WHERE k = 300')", "NULL");
}

#[test]
fn values_are_those_of_sql() {
    let mut bench = Bench::new();
    bench.check(
        "return 9007199254740993 + 1, math.maxinteger, 7 // 2, 7 / 2, 2^53",
        "9007199254740994|9223372036854775807|3|3.5|9.007199254740992e+15",
    );
    bench.check(
        "return db.decimal('0.1') + db.decimal('0.2'), db.decimal('1.50') * 3, 1 - db.decimal('0.9')",
        "0.3|4.50|0.1",
    );
    bench.check(
        "local d = db.decimal('10.00') return d / 3, d // 3, d % 3, -d, d:round(1), d:scale()",
        "3.3333333333333333|3|1.00|-10.00|10.0|2",
    );
    bench.check(
        "local d = db.decimal('-7.5') return d // 2, d % 2, d:abs(), d:floor(), d:sign(), d:tofloat(), d:tointeger()",
        "-4|0.5|7.5|-8|-1|-7.5|-8",
    );
    bench.check(
        "local a, b = db.decimal('1.0'), db.decimal('1.00') return a == b, a < 2, a <= b, a:equals(1), a:compare(3)",
        "t|t|t|t|-1",
    );
    bench.check(
        "return db.decimal('1.0') == 1, 'x' .. db.decimal('1.50') .. 2, tostring(db.decimal('3'))",
        "f|x1.502|3",
    );
    bench.check("return math.max(db.decimal('1.5'), 2, 1), math.min(3, 2)", "2|2");
    bench.check("local t = {} for _, x in ipairs{'2.5', '1', '10'} do t[#t + 1] = db.decimal(x) end table.sort(t) return t[1], t[3]", "1|10");
    bench.fails("return db.decimal('1') + 0.5", "42804", "line 1");
    bench.fails("return db.decimal(0.5)", "42804", "not exact");
    bench.fails("\n\nreturn db.decimal('1') / 0", "22012", "line 3");
    bench.fails("return db.decimal('1e37') * db.decimal('1e37')", "22003", "38 digits");
    bench.fails("return db.decimal('1x')", "22P02", "1x");
    bench.check("return pcall(function() return db.decimal('1') / 0 end)", "f|p:1: division by zero");

    bench.check("local d = db.date('2024-02-28') return d + 2, d - 1, db.date(2024, 3, 1) - d, d.year, d.month, d.day, d.weekday", "2024-03-01|2024-02-27|2|2024|2|28|3");
    bench.check("local t = db.timestamp('2024-02-28 10:20:30.25') return t.hour, t.minute, t.second, t.microsecond, t.date, t + 1000000", "10|20|30|250000|2024-02-28|2024-02-28 10:20:31.25");
    bench.check(
        "local d = db.date('2024-02-28') return d < d.timestamp + 1, d.timestamp == d.timestamp, 'on ' .. d",
        "t|t|on 2024-02-28",
    );
    bench.fails("return db.date('2024-02-30')", "22007", "2024-02-30");
    bench.fails("return db.date('9999-12-31') + 1", "22007", "9999");
    bench.check("return db.now()", "2024-02-29 12:30:45.5");

    // The columns' types: rounded to two digits, bytes as they are, dates and times as such.
    bench.check(
        "db.execute('INSERT INTO t VALUES ($1, $2, $3, $4, $5, $6, $7)',
                    10, 'ä', db.decimal('1.005'), '\\0\\xff', db.date('2024-01-01'), db.now(), 0.5)
         local row = db.row('SELECT * FROM t WHERE k = 10')
         return row.v, row.m, row.b == '\\0\\xff', row.d, row.ts, row.f",
        "ä|1.01|t|2024-01-01|2024-02-29 12:30:45.5|0.5",
    );
    bench.check("return db.query('SELECT b FROM t WHERE k = 10')", "\\x00ff");
}

#[test]
fn the_library_is_luas() {
    let mut bench = Bench::new();
    for (body, expected) in [
        (
            "return ('hello'):upper(), #'abc', ('abc'):sub(-2), ('abc'):rep(2, '-'), ('abc'):reverse()",
            "HELLO|3|bc|abc-abc|cba",
        ),
        ("return ('abc'):byte(1, -1)", "97|98|99"),
        ("return string.char(104, 105), ('x'):len(), ('aXb'):lower()", "hi|1|axb"),
        ("return ('hello world'):find('o w'), ('hello'):find('l+'), ('a.b'):find('.', 1, true)", "5|3|2|2"),
        ("return ('key = value'):match('^(%w+)%s*=%s*(%w+)$')", "key|value"),
        ("return ('2024-02-29'):match('(%d+)-(%d+)-(%d+)')", "2024|02|29"),
        (
            "return ('THE (quick) fox'):find('%((%a+)%)'), ('f(a(b)c)d'):match('%b()'), ('THE END'):gsub('%f[%a]%a', '<%0>')",
            "5|(a(b)c)|<T>HE <E>ND|2",
        ),
        ("return ('hello world'):gsub('o', '0', 1)", "hell0 world|1"),
        ("return ('hello'):gsub('', '-')", "-h-e-l-l-o-|6"),
        ("return (('$name is $age'):gsub('%$(%w+)', {name = 'Bob', age = 7}))", "Bob is 7"),
        ("return (('abc'):gsub('%w', function(c) if c == 'b' then return c:upper() end end))", "aBc"),
        (
            "local t = {} for k, v in ('a=1, b=2'):gmatch('(%w+)=(%w+)') do t[#t + 1] = k .. v end return table.concat(t, ';')",
            "a1;b2",
        ),
        ("local n = 0 for w in ('one two  three'):gmatch('%a*') do n = n + 1 end return n", "4"),
        ("return ('x'):rep(3), ('x'):rep(0), ('x'):rep(-1)", "xxx||"),
        (
            "return string.format('%5d|%-5d|%05d|%+d|%x|%X|%#x|%o|%c', 42, 42, 42, 42, 255, 255, 255, 8, 65)",
            "   42|42   |00042|+42|ff|FF|0xff|10|A",
        ),
        (
            "return string.format('%.2f|%e|%g|%g|%10.3f|%-8.1f|', 3.14159, 12345.678, 0.0001, 1e20, 2.5, 1.25)",
            "3.14|1.234568e+04|0.0001|1e+20|     2.500|1.2     |",
        ),
        (
            "return string.format('%s %10s %-5s| %.2s %q %%', 'a', 'b', 'c', 'xyz', 'q\"\\n')",
            "a          b c    | xy \"q\\\"\\\n\" %",
        ),
        (
            "return string.format('%.2f', db.decimal('1.005')), string.format('%s', db.date('2024-01-01'))",
            "1.01|2024-01-01",
        ),
        (
            "return table.concat({1, 2, 'x'}, ', '), table.concat({}, 'x'), table.concat({1, 2, 3}, '', 2)",
            "1, 2, x||23",
        ),
        (
            "local t = {1, 2, 3} table.insert(t, 4) table.insert(t, 1, 0) return table.concat(t, ' '), table.remove(t), table.remove(t, 1), #t",
            "0 1 2 3 4|4|0|3",
        ),
        ("return table.unpack({1, 2, 3}, 2)", "2|3"),
        (
            "return select('#', table.unpack({}, 1, 3)), table.pack(1, nil).n, table.concat(table.move({1, 2, 3}, 1, 3, 2), ' ')",
            "3|2|1 1 2 3",
        ),
        (
            "return math.floor(-1.5), math.ceil(1.2), math.abs(-3), math.fmod(-7, 3), math.tointeger(3.0), math.tointeger('8'), math.type(1.0), math.sqrt(16)",
            "-2|2|3|-1|3|8|float|4",
        ),
        (
            "return tostring(nil), tostring(1), tostring(1.0), tostring(-0.0), tostring(1e100), tostring(true), tostring(1/0), tostring(0/0)",
            "nil|1|1.0|-0.0|1e+100|true|inf|nan",
        ),
        (
            "return tonumber('0x10'), tonumber('  12  '), tonumber('z', 36), tonumber('1e1'), tonumber('x')",
            "16|12|35|10|NULL",
        ),
        ("return 1 .. '', 1.5 .. '|', 2^0.5, 2^-1, 10 // 3.0", "1|1.5||1.4142135623730951|0.5|3"),
        ("local ok, e = pcall(error, {code = 7}) return ok, e.code", "f|7"),
        ("local ok, e = pcall(error, 'x', 0) return ok, e", "f|x"),
        ("return select(2, xpcall(function() error('x', 0) end, function(e) return e .. '!' end))", "x!"),
        (
            "local co = coroutine.wrap(function(a) local b = coroutine.yield(a + 1) return b * 2 end) return co(1), co(10)",
            "2|20",
        ),
        (
            "local t = setmetatable({}, {__index = function(_, k) return k .. '?' end, __call = function(_, x) return x end}) return t.a, t(5)",
            "a?|5",
        ),
        ("goto done do return 1 end ::done:: return 2", "2"),
        ("local t <const> = 5 return t", "5"),
        ("local t = {n = 1} for k, v in pairs(t) do t[k] = nil end return next(t)", "NULL"),
        ("global = 5 function double(x) return 2 * x end return double(global)", "10"),
    ] {
        bench.check(body, expected);
    }
}

/// Every way in which a script could see something that changes between runs.
#[test]
fn nothing_depends_on_anything_but_the_log() {
    let mut bench = Bench::new();
    // Keys come in order, whatever the order of insertion.
    bench.check(
        "local t, out = {}, {}
         for _, k in ipairs{'pear', 'apple', 10, 2, 1.5, true, 'fig', -1} do t[k] = 1 end
         for k in pairs(t) do out[#out + 1] = tostring(k) end
         return table.concat(out, ' ')",
        "true -1 1.5 2 10 apple fig pear",
    );
    bench.check("local t = {b = 1, a = 2} local k = next(t) return k, next(t, k), (next(t, 'b'))", "a|b|NULL");
    bench.fails("for k in pairs({[{}] = 1}) do end", "38000", "no order");
    bench.fails("next({[print] = 1})", "38002", "print");
    // Equal values stay where they are.
    bench.check(
        "local t = {}
         for i = 1, 100 do t[i] = {key = i % 3, place = i} end
         table.sort(t, function(a, b) return a.key < b.key end)
         for i = 2, 100 do
           local a, b = t[i - 1], t[i]
           if a.key > b.key or a.key == b.key and a.place > b.place then return false end
         end
         return true",
        "t",
    );
    for comparison in ["true", "false", "math.random() < 0.5", "a < b or b < a"] {
        let body = format!(
            "local t, sum = {{}}, 0
             for i = 1, 500 do t[i] = i end
             table.sort(t, function(a, b) return {comparison} end)
             for i = 1, 500 do sum = sum + t[i] end
             return sum, #t"
        );
        bench.check(&body, "125250|500");
    }
    bench.fails("table.sort({1, 'x', 2})", "38000", "attempt to compare");
    bench.fails("table.sort({3, 2, 1}, function(a, b) error('cannot') end)", "38000", "cannot");
    // No address.
    bench.check("return tostring({}), tostring(pcall), tostring(coroutine.create(pcall))", "table|function|thread");
    bench.check(
        "return string.format('%s', {}), tostring(string), tostring(db.query('SELECT 1'))",
        "table|table|result",
    );
    bench.fails("return string.format('%p', {})", "38000", "%p");
    bench.fails("error({})", "38000", "table value");
    // Random numbers, time and UUIDs come from the transaction.
    let random = "return math.random(), math.random(10), math.random(5, 6), math.random(0) ~= nil, #db.uuid()";
    let text = bench.text(random);
    assert!(text.ends_with("|t|36"), "{text}");
    bench.check(
        "for i = 1, 1000 do local x = math.random(-3, 3) assert(x >= -3 and x <= 3) end return math.random(7, 7)",
        "7",
    );
    bench.check("return math.random(math.mininteger, math.maxinteger) ~= nil", "t");
    bench.fails("return math.random(2, 1)", "38000", "interval is empty");
    bench.fails("math.randomseed(1)", "38000", "randomseed");
    // The collector is invisible.
    bench.fails("setmetatable({}, {__gc = function() end})", "38002", "__gc");
    bench.fails("setmetatable({}, {__mode = 'k'})", "38002", "__mode");
    bench.check(
        "local m = {}
         local weak = setmetatable({}, m)
         m.__mode = 'kv'
         for i = 1, 10 do weak[i] = {} end
         for i = 1, 2000 do local garbage = ('x'):rep(2000) .. i end
         return #weak",
        "10",
    );
    // The length of a table with holes follows from the operations, not from a seed.
    let holes =
        "local t = {} for i = 1, 64 do t[i] = i t['k' .. i * 7] = i end for i = 64, 3, -3 do t[i] = nil end return #t";
    let length = bench.text(holes);
    for _ in 0..5 {
        assert_eq!(Bench::new().text(holes), length);
        let again = std::thread::scope(|scope| scope.spawn(|| Bench::new().text(holes)).join().unwrap());
        assert_eq!(again, length);
    }
}

#[test]
fn nothing_stays_from_call_to_call() {
    let mut bench = Bench::new();
    let body =
        "local before = counter counter = (counter or 0) + 1 function helper() end return before == nil, counter";
    bench.session.execute(&format!("CREATE PROCEDURE count() LANGUAGE lua AS $lua${body}$lua$"), &[]).unwrap();
    for _ in 0..3 {
        let answer = run(&mut bench.session, "CALL count()");
        assert_eq!(answer.rows.row(0).map(|value| value.to_string()).collect::<Vec<_>>(), ["t", "1"]);
    }
    for body in [
        "string.upper = nil",
        "rawset(string, 'x', 1)",
        "db.query = nil",
        "table.insert(math, 1)",
        "setmetatable(string, {})",
        "setmetatable(_ENV, {})",
        "getmetatable('').__index = nil",
        "rawset(_ENV, 'x', 1)",
    ] {
        assert_eq!(bench.error(body).sqlstate(), "38000", "{body}");
    }
    bench.check(
        "return getmetatable(''), getmetatable(string), getmetatable(_ENV), getmetatable(db.decimal(1))",
        "f|f|f|f",
    );
    bench.check("return ('x'):upper(), type(db.query), x == nil", "X|function|t");
    // Names of statements are dropped at the end of the call.
    bench.check("db.prepare('one', 'SELECT 1') return db.value('one')", "1");
    bench.fails("return db.value('one')", "42601", "");
}

#[test]
fn no_way_to_the_host() {
    let mut bench = Bench::new();
    for name in [
        "os",
        "io",
        "debug",
        "load",
        "loadstring",
        "dofile",
        "loadfile",
        "require",
        "package",
        "collectgarbage",
        "print",
        "_G",
    ] {
        bench.fails(&format!("local x = {name}"), "38002", name);
        // Not even inside `pcall`.
        bench.fails(&format!("pcall(function() return {name} end) return 1"), "38002", name);
    }
    bench.check("return string.dump, string.pack, coroutine.running() ~= nil, math.sin", "NULL|NULL|t|NULL");
    bench.fails("\u{1b}Lua", "42601", "line 1");
}

/// A call that the database or a limit has ended stays ended.
#[test]
fn an_abort_cannot_be_caught() {
    let mut bench = Bench::new();
    let abort = "db.execute('INSERT INTO t (k) VALUES (50)') db.abort('enough', 'AB123')";
    for body in [
        abort.to_owned(),
        format!("pcall(function() {abort} end) return 1"),
        format!("local ok = pcall(pcall, function() {abort} end) return 1"),
        format!("xpcall(function() {abort} end, function() return 'handled' end) return 1"),
        format!("coroutine.resume(coroutine.create(function() {abort} end)) return 1"),
        format!("pcall(coroutine.wrap(function() {abort} end)) return 1"),
        format!("local x <close> = setmetatable({{}}, {{__close = function() pcall(db.execute, 'DELETE FROM t') end}}) {abort}"),
        format!("pcall(table.sort, {{2, 1}}, function() {abort} end) return 1"),
        format!("pcall(string.gsub, 'x', 'x', function() {abort} end) return 1"),
        format!("pcall(tostring, setmetatable({{}}, {{__tostring = function() {abort} end}})) return 1"),
        format!("local co = coroutine.create(function() local x <close> = setmetatable({{}}, {{__close = function() {abort} end}}) coroutine.yield() end)
                 coroutine.resume(co) coroutine.close(co) return 1"),
    ] {
        bench.fails(&body, "AB123", "enough");
        bench.fails(&body, "AB123", "(procedure \"p\", line 1)");
        bench.check("return db.value('SELECT count(*) FROM t WHERE k = 50'), db.value('SELECT count(*) FROM t')", "0|3");
    }
    bench.fails("pcall(db.execute, 'INSERT INTO t (k) VALUES (1)') return 1", "23505", "duplicate key");
    bench.fails("pcall(db.query, 'SELEC') return 1", "42601", "");
    bench.fails("pcall(db.row, 'SELECT k FROM t') return 1", "21000", "3 rows");
    bench.fails("db.abort('no reason')", "P0001", "no reason");
    bench.fails("db.abort('x', 'short')", "38000", "five digits");
    // An error of the script's own is its own business.
    bench.check(
        "db.execute('INSERT INTO t (k) VALUES (60)') pcall(error, 'x') return db.value('SELECT count(*) FROM t')",
        "4",
    );
}

#[test]
fn errors_say_where() {
    let mut bench = Bench::new();
    for (body, state, message) in [
        (
            "\n\nlocal x = nil\nreturn x.y",
            "38000",
            "attempt to index a nil value (local 'x') (procedure \"p\", line 4)",
        ),
        ("\nerror('it is wrong')", "38000", "it is wrong (procedure \"p\", line 2)"),
        ("\n\nerror('it is wrong', 0)", "38000", "it is wrong (procedure \"p\", line 3)"),
        (
            "\nlocal f = function()\n db.query('SELECT * FROM nothing') end\nf()",
            "42P01",
            "table \"nothing\" does not exist (procedure \"p\", line 3)",
        ),
        ("\nreturn x x", "42601", "(procedure \"p\", line 2)"),
        ("\n\nif", "42601", "line 3"),
        ("return {}", "42804", "db.rows"),
        ("return db.rows({'a', 'b'}, {{1, 2}, {1, 2, 3}})", "38000", "row 2 has 3 values for 2 columns"),
        ("local t = {} for i = 1, 1001 do t[i] = 'c' .. i end return db.rows(t, {})", "38000", "at most 1000 columns"),
        ("return db.rows({('x'):rep(64)}, {})", "38000", "names of columns have at most 63 bytes"),
        ("return function() end", "42804", "function"),
        ("return '\\xff'", "22P02", "UTF-8"),
        ("return db.value('SELECT k FROM t WHERE k = $1')", "42P02", "1 parameters"),
        ("return db.value('SELECT k FROM t WHERE k = $1', {})", "42804", "parameter $1"),
        ("return db.value('SELECT k FROM t WHERE v = $1', '\\xff')", "22P02", "parameter $1"),
        ("return db.query()", "38000", "bad argument #1 to 'query' (statement expected, got no value)"),
        ("return ('x'):rep(1, {})", "38000", "bad argument #2 to 'rep' (string expected, got table)"),
        ("return ('x'):find('[a')", "38000", "missing ']'"),
        ("return ('x'):match('(')", "38000", "unfinished capture"),
        ("return '10' + 1", "38000", "attempt to perform arithmetic on a string value"),
        ("db.execute('CREATE TABLE u (k BIGINT PRIMARY KEY)')", "0A000", ""),
        ("db.execute('CALL p()')", "42601", ""),
        ("db.call('nobody')", "42883", "nobody"),
    ] {
        bench.fails(body, state, message);
    }
    let sql = "CREATE PROCEDURE q(\"end\" BIGINT) LANGUAGE lua AS 'return 1'";
    assert_eq!(bench.session.execute(sql, &[]).unwrap_err().sqlstate(), "42P13");
}

#[test]
fn limits_are_counts() {
    let mut bench = Bench::new();
    for body in [
        "while true do end",
        "repeat until false",
        "local function f() return f() end f()",
        "while true do pcall(error) end",
        "while true do pcall(function() while true do end end) end",
        "pcall(function() while true do end end) return 1",
        "coroutine.wrap(function() while true do end end)()",
        "while true do coroutine.wrap(function() local x = 1 end)() end",
        "return (('a'):rep(30)):find(('a?'):rep(30) .. ('a'):rep(30))",
        "return (('a'):rep(5000)):find('.-.-.-.-b')",
        "for i = 1, 1e9 do local s = ('x'):rep(100000) end",
        "local t = {} for i = 1, 1000 do t[i] = i end while true do for k in pairs(t) do end end",
        "local t = {} for i = 1, 20000 do t['k' .. i] = i end while true do next(t, 'k1') end",
        "while true do db.value('SELECT 1') end",
        "return table.concat({}, '', 1, 1 << 60) or table.move({}, 1, 1 << 60, 2)",
        "table.move({}, 1, 1 << 60, 2)",
        "local t = setmetatable({}, {__len = function() return 1 << 60 end}) table.insert(t, 1, 1)",
    ] {
        let error = bench.error(body);
        assert!(["57014", "38000"].contains(&error.sqlstate()), "{body}: {error}");
        if !body.contains("concat") {
            assert_eq!(error.sqlstate(), "57014", "{body}: {error}");
        }
    }
    for body in [
        "local t = {} while true do t[#t + 1] = {} end",
        "local s = 'x' while true do s = s .. s end",
        "return ('x'):rep(1 << 30)",
        "pcall(string.rep, 'x', 1 << 30) return 1",
        "local s = ('x'):rep(1 << 20) return (s:gsub('x', s))",
        "local t = {} while true do t[#t + 1] = coroutine.create(function() end) end",
        "local t = {} while true do t[#t + 1] = db.query([[SELECT repeat('x', 1000000)]]) end",
    ] {
        bench.fails(body, "53200", "");
    }
    // Repeated collection of its memory also costs instructions.
    for body in [
        "local t = {} for i = 1, 1 << 20 do t[i] = ('x'):rep(57) .. i end",
        "local t = {} while true do pcall(function() t[#t + 1] = ('x'):rep(1000) .. #t end) end",
    ] {
        let error = bench.error(body);
        assert!(["53200", "57014"].contains(&error.sqlstate()), "{body}: {error}");
    }
    bench.fails("local function f() return 1 + f() end f()", "53200", "");
    bench.fails("local t = setmetatable({}, {}) getmetatable(t).__index = t return t.x", "38000", "possible loop");
    // Afterwards everything is unchanged.
    bench.check("return db.value('SELECT count(*) FROM t')", "3");
}

#[test]
fn procedures_call_procedures() {
    let mut bench = Bench::new();
    for (name, body) in [
        ("twice(x BIGINT)", "x = x * 2 y = x return x"),
        ("outer_one(x BIGINT)", "y = 1 local r = db.call('twice', x) return r[1].twice, y, r.columns[1]"),
        ("itself()", "\nreturn db.call('itself')"),
        ("ping()", "db.call('pong')"),
        ("pong()", "db.call('ping')"),
        ("failing()", "\n\ndb.execute('INSERT INTO t (k) VALUES (1)')"),
        ("calls_failing()", "db.execute('INSERT INTO t (k) VALUES (70)') pcall(db.call, 'failing')"),
        ("inside_coroutine(x BIGINT)", "return coroutine.wrap(function() return db.call('twice', x)[1].twice end)()"),
    ] {
        bench.session.execute(&format!("CREATE PROCEDURE {name} LANGUAGE lua AS $lua${body}$lua$"), &[]).unwrap();
    }
    // Rows of a partition other than the argument's: the call runs again with that partition as well.
    run(
        &mut bench.session,
        "CREATE PROCEDURE elsewhere(x BIGINT) PARTITION ON (x) LANGUAGE lua AS $lua$
           local ok = pcall(db.execute, 'UPDATE t SET v = $1', 'all')
           return db.value('SELECT count(*) FROM t WHERE v = $1', 'all'), ok
         $lua$",
    );
    run(&mut bench.session, "CREATE PROCEDURE in_sql(x BIGINT) LANGUAGE sql AS 'CALL twice(x)'");
    let mut text = |sql: &str| match bench.session.execute(sql, &[]) {
        Ok(answer) => answer.rows.row(0).map(|value| value.to_string()).collect::<Vec<_>>().join("|"),
        Err(error) => format!("{}: {error}", error.sqlstate()),
    };
    assert_eq!(text("CALL outer_one(4)"), "8|1|twice");
    assert_eq!(text("CALL inside_coroutine(4)"), "8");
    assert_eq!(text("CALL in_sql(5)"), "10");
    assert_eq!(text("CALL elsewhere(2)"), "3|t");
    assert_eq!(text("CALL itself()"), "54001: procedure \"itself\" calls itself (procedure \"itself\", line 2)");
    assert_eq!(text("CALL ping()"), "54001: procedure \"ping\" calls itself (procedure \"pong\", line 1)");
    let failed = text("CALL calls_failing()");
    assert!(failed.starts_with("23505") && failed.ends_with("(procedure \"failing\", line 3)"), "{failed}");
    assert_eq!(text("SELECT count(*) FROM t"), "3");
}

#[test]
fn limit_needs_an_order_where_something_is_written() {
    let mut bench = Bench::new();
    bench.check("return db.value('SELECT k FROM t LIMIT 1') ~= nil", "t");
    bench.fails(
        "local k = db.value('SELECT k FROM t LIMIT 1') db.execute('DELETE FROM t WHERE k = $1', k)",
        "42P13",
        "ORDER BY",
    );
    bench.fails(
        "db.execute('DELETE FROM t WHERE k = 1') return db.value('SELECT k FROM t LIMIT 1')",
        "42P13",
        "ORDER BY",
    );
    bench.check("db.execute('DELETE FROM t WHERE k = 1') return db.value('SELECT k FROM t ORDER BY k LIMIT 1')", "2");
}

/// Runs calls, crashes, and checks the result of replay.
#[test]
fn replay_gives_the_same() {
    let disk = new_disk();
    let database = open(&disk);
    let mut session = database.session();
    run(
        &mut session,
        "CREATE TABLE log (id BIGINT PRIMARY KEY, note TEXT, amount DECIMAL(20, 4), at TIMESTAMP, r DOUBLE PRECISION) PARTITION BY (id)",
    );
    run(
        &mut session,
        "CREATE PROCEDURE note(id BIGINT, n BIGINT) PARTITION ON (id) LANGUAGE lua AS $lua$
           words = words or {}
           for i = 1, n do words['k' .. math.random(1000)] = math.random() end
           local out, sum = {}, 0.0
           for k, v in pairs(words) do out[#out + 1] = k .. '=' .. v sum = sum + v end
           table.sort(out, function(a, b) return #a < #b end)
           if n % 7 == 6 then db.abort('unlucky') end
           db.execute('INSERT INTO log VALUES ($1, $2, $3, $4, $5)', id,
                      table.concat(out, ',') .. tostring(words) .. db.uuid() .. 2^0.5, db.decimal('1.0') / 3, db.now(), sum)
           return sum
         $lua$",
    );
    let mut failed = 0;
    for id in 0..100 {
        failed += i64::from(session.execute(&format!("CALL note({id}, {})", id % 20), &[]).is_err());
    }
    assert!(failed > 5);
    let all = "SELECT * FROM log ORDER BY id";
    let before = run(&mut session, all);
    assert_eq!(before.rows.len() as i64, 100 - failed);
    drop(session);
    drop(database);
    disk.restart(Crash::Power);
    // In a new thread, where nothing was compiled or cached.
    let after = std::thread::scope(|scope| {
        scope
            .spawn(|| {
                let database = open(&disk);
                let mut session = database.session();
                run(&mut session, all)
            })
            .join()
            .unwrap()
    });
    assert_eq!(before, after);
}
