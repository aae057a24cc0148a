//! More of each kind: coroutines, `goto`, metatables, errors that are not text, closing, depth, and memory that runs
//! out at every allocation.

use thermocline_transactions::database::Settings;
use thermocline_transactions::procedure::Limits;

use crate::bench::{Bench, outcome, run, settings};
use crate::hostile::ends;

macro_rules! ends {
    ($($name:ident: $body:expr => $expected:expr;)*) => { $(
        #[test]
        fn $name() {
            ends(&$body, $expected);
        }
    )* };
}

mod coroutines {
    use super::*;

    ends! {
        resumes_itself: "local co co = coroutine.create(function() return coroutine.resume(co) end) return coroutine.resume(co)"
            => "t|f|cannot resume non-suspended coroutine";
        wraps_itself: "local co co = coroutine.wrap(function() return co() end) return pcall(co)" => "cannot resume non-suspended";
        closes_itself: "local co co = coroutine.create(function() return pcall(coroutine.close, co) end) return coroutine.resume(co)"
            => "cannot close a running coroutine";
        closes_its_caller: "local main = coroutine.running() return coroutine.wrap(function() return pcall(coroutine.close, main) end)()"
            => "cannot close a normal coroutine";
        main_cannot_yield: "return pcall(coroutine.yield, 1)" => "outside a coroutine";
        yields_across_a_metamethod: "local m = {__add = function() return coroutine.yield(5) end}
            local co = coroutine.wrap(function() return setmetatable({}, m) + 1 end) return co(), co(7)" => "5|7";
        yields_across_gsub: "return coroutine.resume(coroutine.create(function() return ('x'):gsub('x', function() coroutine.yield() end) end))"
            => "f|attempt to yield across a C-call boundary";
        yields_across_sort: "local co = coroutine.wrap(function() table.sort({2, 1}, function(a, b) coroutine.yield(9) return a < b end) return 'done' end)
            return co(), co()" => "9|done";
        yields_across_format: "return coroutine.resume(coroutine.create(function()
            return string.format('%s', setmetatable({}, {__tostring = function() coroutine.yield() end})) end))" => "across a C-call boundary";
        yields_across_pcall: "local co = coroutine.wrap(function() local ok, e = pcall(function() coroutine.yield(1) error('late', 0) end) return e end)
            return co(), co()" => "1|late";
        yields_in_a_close: "local co = coroutine.wrap(function() do local x <close> = setmetatable({}, {__close = function() coroutine.yield('closing') end}) end return 'closed' end)
            return co(), co()" => "closing|closed";
        nested_too_deep: "local function deeper(n) return coroutine.wrap(function() return deeper(n + 1) end)() end return deeper(1)" => "C stack overflow";
        many_suspended: "local t = {} for i = 1, 2000 do t[i] = coroutine.wrap(function() coroutine.yield(i) end) t[i]() end return #t" => "2000";
        dead_after_an_error: "local co = coroutine.create(function() error({code = 3}) end) local ok, e = coroutine.resume(co)
            return ok, e.code, coroutine.status(co), coroutine.resume(co)" => "f|3|dead|f|cannot resume dead coroutine";
        statement_inside: "local co = coroutine.wrap(function() for i = 1, 3 do coroutine.yield(db.value('SELECT v FROM t WHERE k = $1', i)) end end)
            return co(), co(), co()" => "one|two|NULL";
        abort_inside: "local co = coroutine.create(function() db.abort('inside', 'AB001') end) coroutine.resume(co) coroutine.close(co) return 1" => "AB001: inside";
        fails_while_suspended: "local co = coroutine.wrap(function() local x <close> = setmetatable({}, {__close = function() db.abort('never') end}) coroutine.yield() end)
            co() error('first', 0)" => "38000: first";
    }
}

mod jumps {
    use super::*;

    ends! {
        continues: "local n = 0 for i = 1, 10 do if i % 2 == 0 then goto continue end n = n + i ::continue:: end return n" => "25";
        back_over_closures: "local t = {} do local i = 1 ::again:: local x = i t[i] = function() return x end i = i + 1 if i <= 3 then goto again end end return t[1](), t[3]()" => "1|3";
        back_over_a_close: "local n = 0 do ::again:: local x <close> = setmetatable({}, {__close = function() n = n + 1 end}) if n < 4 then goto again end end return n" => "5";
        out_of_a_pcall: "local n = 0 ::again:: pcall(function() n = n + 1 error() end) if n < 5 then goto again end return n" => "5";
        no_label: "goto nowhere" => "42601";
        into_a_block: "do goto inside end do ::inside:: end" => "42601";
        into_a_local: "goto f local x = 1 ::f:: print(x)" => "42601";
        twice_the_label: "::a:: ::a::" => "42601";
        many_labels: format!("local n = 0 {} return n", (0..500).map(|i| format!("goto a{i} n = 1 ::a{i}::")).collect::<String>()) => "0";
        for_ever_through_labels: "::a:: goto b ::c:: goto a ::b:: goto c" => "57014";
    }
}

mod metatables {
    use super::*;

    ends! {
        protected: "local t = setmetatable({}, {__metatable = 'mine'}) return getmetatable(t), pcall(setmetatable, t, {})" => "mine|f|";
        no_gc: "setmetatable({}, {__gc = true})" => "38002";
        gc_later: "local m = {} local n = 0 for i = 1, 100 do setmetatable({}, m) end m.__gc = function() n = n + 1 end
            for i = 1, 3000 do local x = ('x'):rep(1000) .. i end return n" => "0";
        no_mode: "setmetatable({}, {__mode = 'k'})" => "38002";
        name_of_a_type: "local t = setmetatable({}, {__name = 'Mine'}) return tostring(t), select(2, pcall(function() return t + 1 end))" => "Mine|p:1: attempt to perform arithmetic on a Mine value (upvalue 't')";
        name_that_is_no_text: "return tostring(setmetatable({}, {__name = {}}))" => "table";
        tostring_of_no_text: "return tostring(setmetatable({}, {__tostring = function() return {} end}))" => "'__tostring' must return a string";
        tostring_of_a_number: "return pcall(string.format, '%s', setmetatable({}, {__tostring = function() return 1 end}))" => "must return a string";
        index_of_a_decimal: "local t = setmetatable({}, {__index = db.decimal('1.5')}) return t.abs ~= nil" => "t";
        newindex_of_a_result: "setmetatable({}, {__newindex = db.query('SELECT 1')}).x = 1" => "a result cannot be changed";
        call_of_a_statement: "db.prepare('SELECT 1')()" => "attempt to call a statement value";
        eq_of_decimals: "return db.decimal('1.0') == db.decimal('1.00'), db.decimal(1) == db.date('2024-01-01')" => "42804";
        len_that_is_no_number: "return #setmetatable({}, {__len = function() return 'x' end})" => "x";
        len_that_is_no_number_for_tables: "table.insert(setmetatable({}, {__len = function() return 'x' end}), 1)" => "object length is not an integer";
        pairs_of_its_own: "for k, v in pairs(setmetatable({}, {__pairs = function() return function(_, k) if not k then return 1, 2 end end end})) do return k, v end" => "1|2";
        keys_without_an_order: "local t = {} t[{}] = 1 t[function() end] = 2 t[coroutine.create(type)] = 3 return pcall(pairs, t)" => "a table with a function as a key";
        close_without_a_metamethod: "local x <close> = {}" => "variable 'x' got a non-closable value";
        concat_of_everything: "return pcall(function() return {} .. nil end)" => "attempt to concatenate a";
        lt_of_mixed: "return pcall(function() return {} < 1 end)" => "attempt to compare table with number";
        chain_of_calls: "local f = function(...) return select('#', ...) end for i = 1, 15 do f = setmetatable({}, {__call = f}) end return f()" => "15";
        chain_of_calls_too_long: "local f = type for i = 1, 16 do f = setmetatable({}, {__call = f}) end return f()" => "chain too long";
    }
}

mod errors {
    use super::*;

    ends! {
        a_table: "error({code = 1})" => "the error is a table value";
        nothing: "error()" => "the error is a nil value";
        a_boolean: "error(false)" => "the error is a boolean value";
        a_decimal: "error(db.decimal('1.5'))" => "the error is a userdata value";
        a_coroutine: "error(coroutine.create(type))" => "the error is a thread value";
        a_number: "error(42, 0)" => "38000";
        a_long_text: "error(('x'):rep(100000), 0)" => "38000: xxx";
        a_text_that_is_none: "error('\\xff\\xfe', 0)" => "38000";
        a_text_with_zeros: "error('a\\0b', 0)" => "38000: a\0b";
        of_memory_by_hand: "error('not enough memory', 0)" => "53200";
        by_a_handler: "return xpcall(error, function(e) error('again') end, 'x')" => "f|";
        by_a_handler_for_ever: "local function h(e) return h2(e) end return xpcall(error, h, 'x')" => "f|";
        a_handler_that_is_a_table: "return xpcall(error, setmetatable({}, {__call = function(_, e) return e .. '!' end}), 'x')" => "38000";
        a_handler_that_yields: "return coroutine.wrap(function() return xpcall(error, function() coroutine.yield(1) end) end)()" => "f|";
        in_tostring: "return pcall(tostring, setmetatable({}, {__tostring = function() error('inside', 0) end}))" => "f|inside";
        in_tostring_of_a_format: "return pcall(string.format, '%s', setmetatable({}, {__tostring = function() error({1}) end}))" => "42804";
        in_a_close: "return pcall(function() local x <close> = setmetatable({}, {__close = function() error('closing', 0) end}) end)" => "f|closing";
        in_a_close_after_an_error: "return pcall(function()
            local x <close> = setmetatable({}, {__close = function(_, e) error(e .. ' second', 0) end})
            local y <close> = setmetatable({}, {__close = function(_, e) error(e .. ' third', 0) end}) error('first', 0) end)" => "f|first third second";
        in_many_closes: "local function f(n) local x <close> = setmetatable({}, {__close = function() error(n, 0) end}) if n > 0 then f(n - 1) end error('x', 0) end
            return pcall(f, 150)" => "f|150";
        in_a_close_of_a_coroutine: "local co = coroutine.create(function() local x <close> = setmetatable({}, {__close = function() error('closing', 0) end}) coroutine.yield() end)
            coroutine.resume(co) return coroutine.close(co)" => "f|closing";
        in_a_close_of_a_loop: "local n = 0 pcall(function() for i in function() n = n + 1 if n < 3 then return n end end, nil, nil, setmetatable({}, {__close = function() n = 100 end}) do if i == 2 then error() end end end) return n" => "100";
        in_a_comparison: "return pcall(table.sort, {3, 2, 1}, function() error('cannot', 0) end)" => "f|cannot";
        in_a_replacement: "return pcall(string.gsub, 'abc', '%w', function() error({}) end)" => "42804";
        in_an_index: "return pcall(function() return setmetatable({}, {__index = function(_, k) error(k, 0) end}).key end)" => "f|key";
        of_a_statement_in_a_close: "pcall(function() local x <close> = setmetatable({}, {__close = function() db.value('SELECT 1 / 0') end}) error('first') end) return 1" => "22012";
        of_the_limit_in_a_close: "pcall(function() local x <close> = setmetatable({}, {__close = function() while true do end end}) error('first') end) return 1" => "57014";
        assert_of_nothing: "return pcall(assert)" => "f|bad argument #1 to '?' (value expected)";
        assert_of_a_table: "local ok, e = pcall(assert, false, {7}) return e[1]" => "7";
    }
}

mod depth {
    use super::*;

    /// Runs a body with memory for the deepest stack that Lua has.
    fn deep(body: &str, expected: &str) {
        let limits = Limits { instructions_max: 20_000_000, lua_bytes_max: 128 << 20, ..Limits::default() };
        let bench = || Bench::with(Settings { limits, ..settings() });
        let mut used = bench();
        let first = outcome(&mut used, body);
        assert!(first.contains(expected), "{body}: {first}");
        used.check("return 1", "1");
        assert_eq!(outcome(&mut used, body), first, "{body}");
        assert_eq!(outcome(&mut bench(), body), first, "{body}");
    }

    macro_rules! deep {
        ($($name:ident: $body:expr => $expected:expr;)*) => { $(
            #[test]
            fn $name() {
                deep(&$body, $expected);
            }
        )* };
    }

    deep! {
        in_lua: "local function f() return 1 + f() end return f()" => "stack overflow";
        in_lua_counted: "local n = 0 local function f() n = n + 1 return 1 + f() end pcall(f) return n > 100000" => "t";
        in_lua_of_a_coroutine: "local function f() return 1 + f() end return coroutine.wrap(f)()" => "stack overflow";
        in_a_handler: "local function f() return 1 + f() end return xpcall(f, function(e) return f() end)" => "f|";
        in_a_close: "local function f() return 1 + f() end local x <close> = setmetatable({}, {__close = f}) f()" => "38000";
        by_tail_calls: "local function f(n) if n == 0 then return 'end' end return f(n - 1) end return f(1000000)" => "end";
        in_gsub: "local function f(n) return (('x'):gsub('x', function() return f(n + 1) end)) end return f(1)" => "C stack overflow";
        in_format: "local t = setmetatable({}, {}) getmetatable(t).__tostring = function() return string.format('%s', t) end return tostring(t)" => "C stack overflow";
        in_pcall: "local n = 0 local function f() n = n + 1 return pcall(f) end f() return n < 300, n > 50" => "t|t";
        in_sort: "local function f() table.sort({3, 2, 1}, function(a, b) f() return a < b end) end f()" => "overflow";
        in_pairs: "local t = setmetatable({}, {}) getmetatable(t).__pairs = function() return pairs(t) end pairs(t)" => "overflow";
        in_index_functions: "local m = {} m.__index = function(t, k) return t[k .. 'x'] end return setmetatable({}, m).a" => "C stack overflow";
        in_patterns: "return string.find(('a'):rep(100000), ('(a'):rep(16) .. ('a-'):rep(190) .. 'b' .. (')'):rep(16))" => "38000";
        in_patterns_of_optionals: "return string.find(('a'):rep(300), ('a?'):rep(300) .. 'b')" => "too complex";
        in_closures: "local f = function() return 'end' end for i = 1, 150 do local g = f f = function() return (g()) end end return f()" => "end";
        in_tables: "local t = {} for i = 1, 100000 do t = {t} end return type(t)" => "table";
        while_the_stack_is_full: "local function f(n) local ok, e = pcall(string.format, '%s%s', 1, 2) if not ok then return n, e end return f(n + 1), 1 end
            return (f(1)) > 0" => "t";
        in_nested_parentheses: format!("return {}1{}", "(".repeat(150), ")".repeat(150)) => "1";
        in_too_many_parentheses: format!("return {}1{}", "(".repeat(1000), ")".repeat(1000)) => "42601";
        in_many_more_parentheses: format!("return {}1{}", "(".repeat(200_000), ")".repeat(200_000)) => "42601";
        in_nested_tables: format!("return type({}{})", "{".repeat(150), "}".repeat(150)) => "table";
        in_too_many_tables: format!("return {}{}", "{".repeat(100_000), "}".repeat(100_000)) => "42601";
        in_nested_functions: format!("{}{}", "local function f() ".repeat(150), " end".repeat(150)) => "";
        in_too_many_functions: format!("{}{}", "local function f() ".repeat(1000), " end".repeat(1000)) => "42601";
        in_nested_blocks: format!("{}{}", "do ".repeat(1000), " end".repeat(1000)) => "42601";
        in_concatenations: format!("return #({}'x')", "'x' .. ".repeat(150)) => "151";
        in_too_many_concatenations: format!("return {}'x'", "'x' .. ".repeat(100_000)) => "42601";
        in_nots: format!("return {}true", "not ".repeat(100_000)) => "42601";
        in_powers: format!("return {}1", "2 ^ ".repeat(100_000)) => "42601";
        in_sums: format!("return {}1", "1 + ".repeat(50_000)) => "50001";
        in_ands: format!("return {}1", "true and ".repeat(20_000)) => "1";
        in_elseifs: format!("if nil then {} else return 7 end", "elseif nil then ".repeat(5_000)) => "7";
        of_locals: format!("{} return a0", (0..200).map(|i| format!("local a{i} = {i} ")).collect::<String>()) => "0";
        of_too_many_locals: format!("{} return a0", (0..300).map(|i| format!("local a{i} = {i} ")).collect::<String>()) => "too many local variables";
        of_upvalues: upvalues(255) => "32385";
        of_too_many_upvalues: upvalues(256) => "too many upvalues";
        of_registers: format!("return select('#', f({}))", vec!["1"; 260].join(",")) => "42601";
        of_constants: format!("local t = {{{}}} return #t", (0..70_000).map(|i| format!("'k{i}'")).collect::<Vec<_>>().join(",")) => "70000";
        of_a_long_line: format!("return #'{}'", "x".repeat(300_000)) => "300000";
        of_a_long_name: format!("local {0} = 1 return {0}", "x".repeat(100_000)) => "1";
        of_assignments: format!("{} = 1 return 2", vec!["a"; 150].join(",")) => "2";
        of_too_many_assignments: format!("{} = 1 return 2", vec!["a"; 1000].join(",")) => "42601";
    }

    /// A function with this many upvalues, from more functions than one.
    fn upvalues(count: usize) -> String {
        let names: Vec<_> = (0..count).map(|i| format!("a{i}")).collect();
        let local = |names: &[String], from: usize| {
            names.iter().enumerate().map(|(i, name)| format!("local {name} = {} ", from + i)).collect::<String>()
        };
        let (first, second) = names.split_at(150);
        format!(
            "{} return (function() {} return (function() return {} end)() end)()",
            local(first, 0),
            local(second, 150),
            names.join(" + ")
        )
    }
}

/// 10 million captures, and as many calls.
#[test]
fn captures_by_the_million() {
    let limits = Limits { instructions_max: 400_000_000, lua_bytes_max: 64 << 20, ..Limits::default() };
    let mut bench = Bench::with(Settings { limits, ..settings() });
    let body = "local s, n = ('x'):rep(10000), 0
        for i = 1, 32 do
          local _, count = s:gsub(('()'):rep(32) .. 'x', '')
          n = n + count * 32
        end
        return n";
    bench.check(body, "10240000");
    bench.check(
        "local n = 0 for a, b in (('ab'):rep(100000)):gmatch('(a)(b)') do n = n + #a + #b end return n",
        "200000",
    );
    bench.check("return 1", "1");
}

/// Memory runs out at every allocation of scripts that allocate in every way.
#[test]
fn memory_ends_at_every_allocation() {
    let bodies = [
        "local t = {} for i = 1, 60 do t[i] = {i} t['k' .. i] = ('x'):rep(i * 9) end return #table.concat({('y'):rep(50), 'z'}, '-')",
        "local co = coroutine.wrap(function(...) for i = 1, 9 do coroutine.yield(string.format('%s %d', {}, i)) end end) for i = 1, 9 do co() end",
        "local x <close> = setmetatable({}, {__close = function() local t = {1, 2, 3} end}) pcall(error, {}) return (('abc'):gsub('%w', '%0%0'))",
        "local r = db.query('SELECT k, v, m FROM t ORDER BY k') local out = {} for i, row in ipairs(r) do out[i] = {row.k, row.m} end return db.rows({'k', 'm'}, out)",
        "local sets = {} for i = 1, 40 do sets[i] = {i, ('x'):rep(i)} end local r = db.query_each('SELECT k, v, $2 AS x FROM t WHERE k = $1', sets) return select('#', db.values(r, 2)), db.execute_each('UPDATE t SET v = $2 WHERE k = $1', sets)",
        "local function f(n) if n > 0 then return 1 + f(n - 1) end return 0 end for k, v in pairs({a = 1, b = 2}) do f(90) end table.sort({3, 1, 2})",
        "for w in ('one two three'):gmatch('%a+') do local d = db.decimal('1.5') * 2 .. w end return xpcall(function() error({}) end, function(e) return {e} end)",
    ];
    for body in bodies {
        let mut refused = 0;
        for bytes in (0..24_000).step_by(499) {
            let limits = Limits { lua_bytes_max: bytes, ..settings().limits };
            let mut bench = Bench::with(Settings { limits, ..settings() });
            match bench.call(body) {
                Err(error) if error.sqlstate() == "53200" => refused += 1,
                Err(error) => assert_eq!(error.sqlstate(), "42804", "{body} within {bytes}: {error}"),
                Ok(_) => {}
            }
            assert_eq!(run(&mut bench.session, "SELECT count(*) FROM t").rows.len(), 1);
        }
        assert!(refused > 0, "{body}");
    }
}
