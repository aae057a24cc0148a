-- The part of the library that is in Lua. Runs once in each machine.
local native, string, table, math, db, decimal, date, timestamp, result, statement, lua, threads = ...
local check, keys, metafield, random = native.check, native.keys, native.metafield, native.random
local error, rawget, select, setmetatable, type = lua.error, lua.rawget, lua.select, lua.setmetatable, lua.type

-- An error that has ended the transaction is raised again by whoever catches it.
local function caught(ok, ...)
  if not ok then check() end
  return ok, ...
end

local lua_pcall, lua_xpcall, lua_resume, lua_close = lua.pcall, lua.xpcall, threads.resume, threads.close

local function pcall(f, ...) return caught(lua_pcall(f, ...)) end
local function xpcall(f, handler, ...) return caught(lua_xpcall(f, handler, ...)) end
local function resume(thread, ...) return caught(lua_resume(thread, ...)) end
local function close(thread) return caught(lua_close(thread)) end

-- A table that nobody can change.
local function frozen(name, content)
  return setmetatable({}, {
    __index = content,
    __newindex = function(_, key) error(name .. " cannot be changed", 2) end,
    __metatable = false,
  })
end

local function bad(position, name, expected, value)
  error("bad argument #" .. position .. " to '" .. name .. "' (" .. expected .. " expected, got " .. type(value) .. ")", 3)
end

-- By order of keys: false, true, numbers, strings.
local function pairs(t)
  local custom = metafield(t, "__pairs")
  if custom then
    local f, s, k = custom(t)
    return f, s, k
  end
  if type(t) ~= "table" then bad(1, "pairs", "table", t) end
  local order, position = keys(t), 0
  return function()
    while true do
      position = position + 1
      local key = order[position]
      if key == nil then return nil end
      local value = rawget(t, key)
      if value ~= nil then return key, value end
    end
  end, t, nil
end

function table.insert(t, ...)
  if type(t) ~= "table" then bad(1, "insert", "table", t) end
  local count = select("#", ...)
  local last = #t + 1
  if count == 1 then
    t[last] = (...)
  elseif count == 2 then
    local position, value = ...
    if math.type(position) ~= "integer" then bad(2, "insert", "integer", position) end
    if position < 1 or position > last then error("bad argument #2 to 'insert' (position out of bounds)", 2) end
    for i = last, position + 1, -1 do t[i] = t[i - 1] end
    t[position] = value
  else
    error("wrong number of arguments to 'insert'", 2)
  end
end

function table.remove(t, position)
  if type(t) ~= "table" then bad(1, "remove", "table", t) end
  local size = #t
  if position == nil then position = size end
  if math.type(position) ~= "integer" then bad(2, "remove", "integer", position) end
  if position ~= size and (position < 1 or position > size + 1) then
    error("bad argument #2 to 'remove' (position out of bounds)", 2)
  end
  local value = t[position]
  while position < size do
    t[position] = t[position + 1]
    position = position + 1
  end
  t[position] = nil
  return value
end

function table.move(from, first, last, to, into)
  into = into or from
  if type(from) ~= "table" then bad(1, "move", "table", from) end
  if type(into) ~= "table" then bad(5, "move", "table", into) end
  if to > last or to <= first or into ~= from then
    for i = 0, last - first do into[to + i] = from[first + i] end
  else
    for i = last - first, 0, -1 do into[to + i] = from[first + i] end
  end
  return into
end

function table.pack(...) return { n = select("#", ...), ... } end

local function below(a, b) return a < b end

-- A merge sort: equal values stay in their order, and a comparison that contradicts itself gives some
-- order and nothing worse.
function table.sort(t, less)
  if type(t) ~= "table" then bad(1, "sort", "table", t) end
  if less == nil then less = below elseif type(less) ~= "function" then bad(2, "sort", "function", less) end
  local size, width = #t, 1
  local from, to = {}, {}
  for i = 1, size do from[i] = t[i] end
  while width < size do
    local start = 1
    while start <= size do
      local middle, stop = start + width, start + 2 * width
      if middle > size + 1 then middle = size + 1 end
      if stop > size + 1 then stop = size + 1 end
      local a, b, k = start, middle, start
      while a < middle and b < stop do
        local left, right = from[a], from[b]
        if less(right, left) then
          to[k] = right
          b = b + 1
        else
          to[k] = left
          a = a + 1
        end
        k = k + 1
      end
      while a < middle do
        to[k] = from[a]
        a, k = a + 1, k + 1
      end
      while b < stop do
        to[k] = from[b]
        b, k = b + 1, k + 1
      end
      start = start + 2 * width
    end
    from, to, width = to, from, 2 * width
  end
  for i = 1, size do t[i] = from[i] end
end

local gmatch_from = native.gmatch_from

function string.gmatch(text, pattern)
  local position, last = 1, 0
  local function found(start, ...)
    if start == nil then return nil end
    position, last = start, start
    return ...
  end
  -- What is wrong with the arguments is said here, and not in the loop.
  string.find(text, "", 1, true)
  string.find("", pattern)
  return function() return found(gmatch_from(text, pattern, position, last)) end
end

function math.max(first, ...)
  if first == nil then bad(1, "max", "value", first) end
  for i = 1, select("#", ...) do
    local value = (select(i, ...))
    if first < value then first = value end
  end
  return first
end

function math.min(first, ...)
  if first == nil then bad(1, "min", "value", first) end
  for i = 1, select("#", ...) do
    local value = (select(i, ...))
    if value < first then first = value end
  end
  return first
end

math.random = random
math.pi = 3.141592653589793
math.huge = 1 / 0
math.maxinteger = 0x7fffffffffffffff
math.mininteger = -0x8000000000000000

for name, content in lua.next, { decimal = decimal, date = date, timestamp = timestamp, statement = statement } do
  content.__metatable = false
  content.__name = name
end
decimal.__index = function(_, key) return decimal[key] end
statement.__index = function(_, key) return statement[key] end
result.__metatable = false
result.__name = "result"

local base = {
  _VERSION = lua._VERSION,
  assert = lua.assert,
  error = error,
  ipairs = lua.ipairs,
  rawequal = lua.rawequal,
  rawget = rawget,
  rawlen = lua.rawlen,
  select = select,
  tonumber = lua.tonumber,
  type = type,
  getmetatable = native.getmetatable,
  next = native.next,
  pairs = pairs,
  pcall = pcall,
  rawset = native.rawset,
  setmetatable = native.setmetatable,
  tostring = native.tostring,
  xpcall = xpcall,
  coroutine = frozen("coroutine", {
    close = close,
    create = threads.create,
    isyieldable = threads.isyieldable,
    resume = resume,
    running = threads.running,
    status = threads.status,
    wrap = threads.wrap,
    yield = threads.yield,
  }),
  db = frozen("db", db),
  math = frozen("math", math),
  string = frozen("string", string),
  table = frozen("table", table),
}
setmetatable(base, { __index = native.missing })

local globals = { __index = base, __newindex = native.set_global, __metatable = false }
local strings = { __index = string, __metatable = false, __name = "string" }

return strings, statement, result, timestamp, date, decimal, globals
