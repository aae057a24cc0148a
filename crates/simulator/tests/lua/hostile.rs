//! Scripts that try to break or block the machine: each ends in an answer or a clean error, the same on a fresh machine
//! and on a used one, which keeps working.

use std::time::Duration;

use thermocline_transactions::database::Settings;
use thermocline_transactions::procedure::Limits;

use crate::bench::{Bench, outcome, settings};

/// Checks that a body ends as `expected`: its result, or the beginning of `SQLSTATE: message`.
#[track_caller]
pub fn ends(body: &str, expected: &str) {
    let mut used = Bench::new();
    // Garbage, a grown stack and many strings.
    used.check("local function f(n) if n > 0 then return 1 + f(n - 1) end return 0 end return f(5000)", "5000");
    used.check("local t = {} for i = 1, 3000 do t[i] = {('k'):rep(i % 50) .. i} end return #t", "3000");
    used.check("for i = 1, 9 do coroutine.wrap(function() coroutine.yield(i) end)() end return 1", "1");
    let first = outcome(&mut used, body);
    assert!(
        if expected.len() == 5 { first.starts_with(expected) } else { first == expected || first.contains(expected) },
        "{body}: {first}"
    );
    used.check(
        "local t = {3, 1, 2} table.sort(t) return ('x'):rep(3), #t, db.value('SELECT count(*) FROM t')",
        "xxx|3|3",
    );
    assert_eq!(outcome(&mut used, body), first, "{body}");
    assert_eq!(outcome(&mut Bench::new(), body), first, "{body}");
}

macro_rules! ends {
    ($($name:ident: $body:expr => $expected:expr;)*) => { $(
        #[test]
        fn $name() {
            ends(&$body, $expected);
        }
    )* };
}

/// More values than a function has space for.
mod stack {
    use super::*;

    ends! {
        positions_of_find: "return select('#', string.find('', ('()'):rep(32)))" => "34";
        positions_of_match: "return select('#', string.match('', ('()'):rep(32)))" => "32";
        positions_of_gmatch: "local n for a in string.gmatch('', ('()'):rep(32)) do n = a end return n" => "1";
        positions_in_coroutine: "return coroutine.wrap(function() return select('#', string.find('', ('()'):rep(32))) end)()" => "34";
        positions_of_gsub: "return (string.gsub('', ('()'):rep(32), function(...) return select('#', ...) end))" => "32";
        captures_too_many: "return string.find('', ('()'):rep(33))" => "too many captures";
        captures_at_a_full_stack: "local function f(n, ...) if n == 0 then return select('#', string.find('', ('()'):rep(32))) end return f(n - 1, 1, ...) end return f(240)" => "34";
        find_of_many_arguments: "return string.find('a', 'a', 1, true, table.unpack({}, 1, 5000))" => "1|1";
        bytes_many: "return select('#', string.byte(('x'):rep(100000), 1, -1))" => "100000";
        bytes_too_many: "return select('#', string.byte(('x'):rep(1000001), 1, -1))" => "too long";
        unpack_many: "return select('#', table.unpack({}, 1, 100000))" => "100000";
        unpack_too_many: "return table.unpack({}, 1, 1000001)" => "too many results";
        unpack_extremes: "return table.unpack({}, math.mininteger, math.maxinteger)" => "too many results";
        unpack_to_the_end: "return select('#', table.unpack({}, math.maxinteger - 2, math.maxinteger))" => "3";
        char_of_many: "return #string.char(table.unpack(table.pack(string.byte(('x'):rep(9000), 1, -1))))" => "9000";
        format_of_many: "local t = {} for i = 1, 200 do t[i] = i end return #string.format(('%d'):rep(200), table.unpack(t))" => "492";
        format_of_strings: "local t = {} for i = 1, 200 do t[i] = {} end return #string.format(('%s'):rep(200), table.unpack(t))" => "1000";
        format_of_tostrings: "local m = {__tostring = function() return string.format('%s%s', 1, 2) end}
            local t = {} for i = 1, 200 do t[i] = setmetatable({}, m) end return #string.format(('%s'):rep(200), table.unpack(t))" => "400";
        format_of_too_few: "return string.format(('%d'):rep(200), 1)" => "bad argument #3 to 'format'";
        select_many: "return select('#', select(2, table.unpack({}, 1, 100000)))" => "99999";
        varargs_many: "local function f(...) return select('#', ...) end return f(table.unpack({}, 1, 150000))" => "150000";
        varargs_in_a_table: "local t = {table.unpack({}, 1, 100000)} return #t" => "0";
        results_of_coroutines: "return select('#', coroutine.wrap(function() return table.unpack({}, 1, 100000) end)())" => "100000";
        yields_of_coroutines: "local co = coroutine.wrap(function(...) coroutine.yield(...) end) return select('#', co(table.unpack({}, 1, 50000)))" => "50000";
        results_of_pcall: "return select('#', pcall(table.unpack, {}, 1, 50000))" => "50001";
        results_of_xpcall: "return select('#', xpcall(table.unpack, type, {}, 1, 50000))" => "50001";
        parameters_many: "return db.value('SELECT 1', table.unpack({}, 1, 1000))" => "42";
        parameters_too_many: "return db.value('SELECT 1', table.unpack({}, 1, 200000))" => "42";
        arguments_of_calls: "return db.call('nobody', table.unpack({}, 1, 200000))" => "42883";
        values_returned: "return table.unpack({1}, 1, 300000)" => "54";
        values_of_a_wide_row: "local t = {} for i = 1, 600 do t[i] = i end
            return select('#', db.values('SELECT ' .. table.concat(t, ',')))" => "600";
        uuid_of_many_arguments: "return #db.uuid(table.unpack({}, 1, 5000))" => "36";
        max_of_many: "local t = {} for i = 1, 5000 do t[i] = i end return math.max(table.unpack(t)), math.min(table.unpack(t))" => "5000|1";
        pack_of_many: "return table.pack(table.unpack({}, 1, 100000)).n" => "100000";
        keys_at_a_full_stack: "local function f(...) local n = 0 for k in pairs({a = 1, b = 2, c = 3}) do n = n + 1 end return n end return f(table.unpack({}, 1, 200000))" => "3";
    }
}

/// Loops that execute few or no Lua instructions.
mod loops {
    use super::*;

    ends! {
        call_itself: "local t = setmetatable({}, {}) getmetatable(t).__call = t return t()" => "38000";
        call_itself_tail: "local t = setmetatable({}, {}) getmetatable(t).__call = t local function f() return t() end return f()" => "38000";
        call_itself_caught: "local t = setmetatable({}, {}) getmetatable(t).__call = t while true do pcall(t) end" => "57014";
        call_each_other: "local m, n = {}, {} local a, b = setmetatable({}, m), setmetatable({}, n) m.__call = b n.__call = a return a()" => "38000";
        call_by_pcall: "local t = setmetatable({}, {}) getmetatable(t).__call = pcall return t()" => "C stack overflow";
        index_itself: "local t = setmetatable({}, {}) getmetatable(t).__index = t while true do pcall(function() return t.x end) end" => "57014";
        newindex_itself: "local t = setmetatable({}, {}) getmetatable(t).__newindex = t while true do pcall(function() t.x = 1 end) end" => "57014";
        index_deep: "local t = {} for i = 1, 99 do t = setmetatable({}, {__index = t}) end while true do local x = t.y end" => "57014";
        concat_function: "local m = {} m.__concat = function(a, b) return a .. b end return setmetatable({}, m) .. 1" => "C stack overflow";
        eq_function: "local m = {} m.__eq = function(a, b) return a == b end return setmetatable({}, m) == setmetatable({}, m)" => "C stack overflow";
        lt_function: "local m = {} m.__lt = function(a, b) return a < b end return setmetatable({}, m) < setmetatable({}, m)" => "C stack overflow";
        le_function: "local m = {} m.__le = function(a, b) return a <= b end return setmetatable({}, m) <= setmetatable({}, m)" => "C stack overflow";
        len_function: "local m = {} m.__len = function(a) return #a end return #setmetatable({}, m)" => "C stack overflow";
        index_function: "local m = {} m.__index = function(t, k) return t[k] end return setmetatable({}, m).x" => "C stack overflow";
        call_function: "local m = {} m.__call = function(t) return t() end return setmetatable({}, m)()" => "57014";
        close_for_ever: "local x <close> = setmetatable({}, {__close = function() while true do end end}) return 1" => "57014";
        close_after_the_limit: "local x <close> = setmetatable({}, {__close = function() while true do end end}) while true do end" => "57014";
        close_of_a_wrap: "coroutine.wrap(function() local x <close> = setmetatable({}, {__close = function() while true do end end}) while true do end end)()" => "57014";
        close_of_a_coroutine: "local co = coroutine.create(function()
                local x <close> = setmetatable({}, {__close = function() while true do end end}) while true do end end)
            local y <close> = setmetatable({}, {__close = function() coroutine.close(co) end}) coroutine.resume(co)" => "57014";
        close_of_a_suspended: "local co = coroutine.create(function()
                local x <close> = setmetatable({}, {__close = function() while true do end end}) coroutine.yield() end)
            coroutine.resume(co) coroutine.close(co)" => "57014";
        handler_for_ever: "xpcall(error, function() while true do end end)" => "57014";
        handler_of_handlers: "return xpcall(error, function() error() end)" => "f|";
        handler_of_handlers_for_ever: "while true do xpcall(error, function(e) error(e) end) end" => "57014";
        wraps_inside_pcall: "while true do pcall(coroutine.wrap(function() while true do end end)) end" => "57014";
        wraps_short: "while true do local co = coroutine.wrap(function() for i = 1, 80 do end end) co() end" => "57014";
        goto_in_a_coroutine: "coroutine.wrap(function() ::again:: goto again end)()" => "57014";
        goto_yielding: "local co = coroutine.wrap(function() ::again:: coroutine.yield() goto again end) while true do co() end" => "57014";
        rep_of_nothing: "return #(''):rep(1 << 62)" => "0";
        rep_of_nothing_for_ever: "while true do local x = (''):rep(1 << 62, '') end" => "57014";
        rep_huge: "return ('x'):rep(math.maxinteger)" => "too large";
        rep_large: "return ('x'):rep(1 << 30)" => "53200";
        rep_huge_between: "return ('x'):rep(1 << 40, ('y'):rep(1000))" => "too large";
        rep_huge_caught: "while true do pcall(string.rep, 'x', 1 << 40) end" => "57014";
        rep_large_caught: "while true do pcall(string.rep, 'x', 1 << 30) end" => "53200";
        concat_huge: "return table.concat({}, 'x', 1, 1 << 62)" => "38000";
        concat_empty: "local t = {} for i = 1, 1000 do t[i] = '' end while true do table.concat(t) end" => "57014";
        move_huge: "table.move({}, 1, 1 << 60, 2)" => "57014";
        move_extremes: "table.move({}, math.mininteger, math.maxinteger, 1)" => "38000";
        move_by_metamethods: "table.move(setmetatable({}, {__index = function() return nil end}), 1, 1 << 60, 2)" => "57014";
        unpack_for_ever: "while true do select('#', table.unpack({}, 1, 10000)) end" => "57014";
        select_for_ever: "local function f(...) while true do local n = select('#', ...) end end f(table.unpack({}, 1, 200000))" => "57014";
        sort_for_ever: "local t = {} for i = 1, 20 do t[i] = i end while true do table.sort(t) end" => "57014";
        sort_of_a_long_lie: "table.sort(setmetatable({}, {__len = function() return 1 << 30 end}), function() return true end)" => "57014";
        insert_into_a_long_lie: "table.insert(setmetatable({}, {__len = function() return 1 << 60 end}), 1, 1)" => "57014";
        remove_from_a_long_lie: "table.remove(setmetatable({}, {__len = function() return 1 << 60 end}), 1)" => "57014";
        unpack_of_a_lie: "return table.unpack(setmetatable({}, {__len = function() return 1 << 60 end}))" => "too many results";
        concat_of_a_lie: "return table.concat(setmetatable({}, {__len = function() return 1 << 60 end, __index = function() return '' end}))" => "57014";
        ipairs_for_ever: "for i in ipairs(setmetatable({}, {__index = function() return 1 end})) do end" => "57014";
        pattern_exponential: "return (('a'):rep(30)):find(('a?'):rep(30) .. ('a'):rep(30))" => "57014";
        pattern_of_a_set: "return (('c'):rep(100000)):find('[' .. ('a'):rep(100000) .. ']')" => "57014";
        pattern_of_a_set_gsub: "return (('c'):rep(100000)):gsub('[^' .. ('a'):rep(100000) .. ']', '')" => "57014";
        pattern_of_back_references: "return (('a'):rep(20000)):find('(a*)%1%1b')" => "57014";
        pattern_balanced: "return (('('):rep(20000)):find('%b()')" => "57014";
        find_plain_for_ever: "local s = ('a'):rep(1 << 20) while true do s:find('b', 1, true) end" => "57014";
        find_long_needle: "local s = ('a'):rep(1 << 20) while true do ('x'):find(s) end" => "57014";
        gmatch_for_ever: "local s = ('a'):rep(1 << 16) while true do for w in s:gmatch('b') do end end" => "57014";
        gsub_for_ever: "local s = ('a'):rep(1 << 16) while true do s:gsub('a', '') end" => "57014";
        equal_long_strings: "local a, b = ('x'):rep(1 << 20), ('x'):rep((1 << 20) - 1) .. 'x' while true do local c = a == b end" => "57014";
        rawequal_long_strings: "local a, b = ('x'):rep(1 << 20), ('x'):rep((1 << 20) - 1) .. 'x' while true do rawequal(a, b) end" => "57014";
        less_long_strings: "local a, b = ('x'):rep(1 << 20), ('x'):rep((1 << 20) - 1) .. 'y' while true do local c = a < b end" => "57014";
        long_keys: "local a, b = ('x'):rep(1 << 20), ('x'):rep((1 << 20) - 1) .. 'x' local t = {[a] = 1} while true do local c = t[b] end" => "57014";
        number_of_spaces: "local s = (' '):rep(1 << 20) while true do tonumber(s) end" => "57014";
        number_of_digits: "local s = ('1'):rep(1 << 20) while true do tonumber(s) end" => "57014";
        number_of_base: "local s = ('1'):rep(1 << 20) while true do tonumber(s, 7) end" => "57014";
        bits_of_spaces: "local s = (' '):rep(1 << 20) while true do pcall(function() return s | 1 end) end" => "57014";
        next_of_an_emptied_table: "local t = {} for i = 1, 20000 do t['k' .. i] = i end for i = 1, 20000 do t['k' .. i] = nil end while true do next(t) end" => "57014";
        pairs_of_an_emptied_table: "local t = {} for i = 1, 20000 do t['k' .. i] = i end for i = 1, 20000 do t['k' .. i] = nil end while true do pairs(t) end" => "57014";
        colliding_integers: "local t, m = {}, (1 << 14) - 1 for i = 1, 12000 do t[i * m * 8 + 7] = i end while true do local x = t[7] end" => "57014";
        error_of_a_far_level: "local function f(n) if n > 0 then return 1 + f(n - 1) end while true do pcall(error, 'x', 1000000) end end f(100000)" => "57014";
        upper_for_ever: "local s = ('a'):rep(1 << 20) while true do s:upper() end" => "57014";
        reverse_for_ever: "local s = ('a'):rep(1 << 20) while true do s:reverse() end" => "57014";
        tostring_for_ever: "while true do tostring(setmetatable({}, {__tostring = function() return 'x' end})) end" => "57014";
        format_for_ever: "while true do string.format('%99.99f', 1e300) end" => "57014";
    }

    /// Near the memory limit each allocation traverses all live objects; this is counted, so that it ends.
    #[test]
    fn memory_nearly_full() {
        let body = "local t = {} for i = 1, 70000 do t[i] = {i} end local s = {}
            for i = 1, 1000 do s[i] = ('y'):rep(1000) .. i if i % 16 == 0 then local x = ('z'):rep(100000) end end
            while true do local x = {} x[1] = {} end";
        for mut bench in [Bench::new(), Bench::new()] {
            let first = outcome(&mut bench, body);
            assert!(first.starts_with("53200") || first.starts_with("57014"), "{first}");
            bench.check("return 1", "1");
        }
    }

    /// Without an instruction limit, only the client stops them.
    #[test]
    fn cancelled() {
        let unlimited =
            || Settings { limits: Limits { instructions_max: u64::MAX, ..settings().limits }, ..settings() };
        for body in [
            "while true do end",
            "local t = setmetatable({}, {}) getmetatable(t).__call = t while true do pcall(t) end",
            "while true do pcall(coroutine.wrap(function() while true do end end)) end",
            "coroutine.wrap(function() local x <close> = setmetatable({}, {__close = function() while true do end end}) while true do end end)()",
            "coroutine.wrap(function() ::again:: goto again end)()",
            "xpcall(error, function() while true do end end)",
            "return (('a'):rep(40)):find(('a?'):rep(40) .. ('a'):rep(40))",
            "table.move({}, 1, 1 << 60, 2)",
            "return table.concat(setmetatable({}, {__len = function() return 1 << 60 end, __index = function() return '' end}))",
            "local s = ('a'):rep(1 << 20) while true do ('x'):find(s) end",
            "return (('c'):rep(1000000)):find('[' .. ('a'):rep(1000000) .. ']')",
            "while true do string.rep('x', 1000) end",
            "while true do db.value('SELECT 1') end",
        ] {
            let mut bench = Bench::with(unlimited());
            let canceller = bench.session.canceller();
            let outcome = std::thread::scope(|scope| {
                let running = scope.spawn(|| outcome(&mut bench, body));
                while !running.is_finished() {
                    std::thread::sleep(Duration::from_millis(20));
                    canceller.cancel();
                }
                running.join().unwrap()
            });
            assert!(outcome.contains("user's request"), "{body}: {outcome}");
            bench.check("return 1", "1");
        }
    }
}
