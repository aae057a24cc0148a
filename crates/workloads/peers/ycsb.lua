-- YCSB for sysbench: the same table, keys and mix as `thermocline bench ycsb`, with prepared statements.

sysbench.cmdline.options = {
   rows = {"Rows of the table", 1000000},
   reads = {"Percent of reads", 50},
   skew = {"Exponent of the Zipf distribution of keys, not 1", 0.99},
}

local FIELDS, BYTES = 10, 100

local function connect()
   return sysbench.sql.driver():connect()
end

-- A permutation that parts neighbours, as KeyChooser has it.
local function spreading_factor(rows)
   local function divisor(a, b)
      while b ~= 0 do a, b = b, a % b end
      return a
   end
   local factor = math.max(1, math.floor(rows * 0.618033988749895))
   while divisor(factor, rows) ~= 1 do factor = factor + 1 end
   return factor
end

-- Rejection-inversion, as Zipf has it; without the care that an exponent of 1 needs.
local function zipf(n, s)
   local function integral(x) return (x ^ (1 - s) - 1) / (1 - s) end
   local function inverse(x) return (1 + x * (1 - s)) ^ (1 / (1 - s)) end
   local from, to = integral(1.5) - 1, integral(n + 0.5)
   local squeeze = 2 - inverse(integral(2.5) - 2 ^ -s)
   return function()
      while true do
         local area = to + sysbench.rand.uniform_double() * (from - to)
         local point = inverse(area)
         local rank = math.max(1, math.min(n, math.floor(point + 0.5)))
         if rank - point <= squeeze or area >= integral(rank + 0.5) - rank ^ -s then return rank end
      end
   end
end

local function text()
   return sysbench.rand.string(string.rep("@", BYTES))
end

function prepare()
   local connection = connect()
   local fields = {}
   for field = 0, FIELDS - 1 do
      fields[#fields + 1] = string.format("field%d VARCHAR(%d) NOT NULL", field, BYTES)
   end
   connection:query("CREATE TABLE usertable (ycsb_key BIGINT PRIMARY KEY, " .. table.concat(fields, ", ") .. ")")
   connection:bulk_insert_init("INSERT INTO usertable VALUES")
   for key = 0, sysbench.opt.rows - 1 do
      local values = {}
      for field = 1, FIELDS do values[field] = "'" .. text() .. "'" end
      connection:bulk_insert_next(string.format("(%d, %s)", key, table.concat(values, ", ")))
   end
   connection:bulk_insert_done()
end

function thread_init()
   con = connect()
   rows, factor = sysbench.opt.rows, spreading_factor(sysbench.opt.rows)
   local columns = {}
   for field = 0, FIELDS - 1 do columns[#columns + 1] = "field" .. field end
   read = con:prepare("SELECT " .. table.concat(columns, ", ") .. " FROM usertable WHERE ycsb_key = ?")
   read_key = read:bind_create(sysbench.sql.type.BIGINT)
   read:bind_param(read_key)
   updates, texts = {}, {}
   for field = 0, FIELDS - 1 do
      local statement = con:prepare("UPDATE usertable SET field" .. field .. " = ? WHERE ycsb_key = ?")
      local value = statement:bind_create(sysbench.sql.type.VARCHAR, BYTES)
      local key = statement:bind_create(sysbench.sql.type.BIGINT)
      statement:bind_param(value, key)
      updates[field] = {statement = statement, value = value, key = key}
   end
   for number = 1, 256 do texts[number] = text() end
   rank = zipf(rows, sysbench.opt.skew)
end

function event()
   -- Ranks from 1; the product stays below 2^53 for tables of up to 90 million rows.
   local key = (rank() - 1) * factor % rows
   if sysbench.rand.uniform(1, 100) <= sysbench.opt.reads then
      read_key:set(key)
      local result = read:execute()
      result:free()
   else
      local update = updates[sysbench.rand.uniform(0, FIELDS - 1)]
      update.value:set(texts[sysbench.rand.uniform(1, #texts)])
      update.key:set(key)
      update.statement:execute()
   end
end

function thread_done()
   con:disconnect()
end
