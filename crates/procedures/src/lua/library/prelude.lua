-- The part of the library that is in Lua. Runs once in each machine.
local native, db, decimal, date, timestamp, result, statement, lua, threads, math, string, table = ...
local check, keys, metafield = native.check, native.keys, native.metafield
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

-- The first of all, by a comparison; decimals are no numbers of Lua's.
local function extreme(name, before)
  return function(first, ...)
    if first == nil then bad(1, name, "value", first) end
    local count = select("#", ...)
    if count == 1 then
      local other = ...
      if before(other, first) then return other end
      return first
    end
    local others = { ... }
    for i = 1, count do
      if before(others[i], first) then first = others[i] end
    end
    return first
  end
end

math.max = extreme("max", function(a, b) return b < a end)
math.min = extreme("min", below)
math.random = native.random
string.format = native.format

for name, content in lua.next, { decimal = decimal, date = date, timestamp = timestamp, statement = statement } do
  content.__metatable = false
  content.__name = name
  if not content.__index then
    local methods = {}
    for key, method in lua.next, content do
      if type(method) == "function" and string.sub(key, 1, 2) ~= "__" then methods[key] = method end
    end
    content.__index = methods
  end
end
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
  getmetatable = lua.getmetatable,
  next = native.next,
  pairs = pairs,
  pcall = pcall,
  rawset = native.rawset,
  setmetatable = native.setmetatable,
  tostring = lua.tostring,
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

local globals = { __index = base, __metatable = false }
local strings = { __index = string, __metatable = false, __name = "string" }

return strings, statement, result, timestamp, date, decimal, globals, native.handler
