local w_tax = db.value('SELECT w_tax FROM warehouse WHERE w_id = $1', w_id)
local d_tax, o_id = db.values([[UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = $1 AND d_id = $2
    RETURNING d_tax, d_next_o_id - 1]], w_id, d_id)
local discount, last, credit = db.values([[SELECT c_discount, c_last, c_credit FROM customer
    WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3]], w_id, d_id, c_id)
if not (w_tax and d_tax and discount) then
    db.abort('new_order: there is no such warehouse, district or customer', '22023')
end

-- Parameters of the statements below, line by line.
local keys, taken, written, all_local = {}, {}, {}, 1
for item, supplier, quantity in string.gmatch(lines, '(%d+):(%d+):(%d+)') do
    item, supplier, quantity = math.tointeger(item), math.tointeger(supplier), math.tointeger(quantity)
    local remote = supplier == w_id and 0 or 1
    if remote == 1 then all_local = 0 end
    keys[#keys + 1] = {item}
    taken[#taken + 1] = {supplier, item, quantity, remote}
end
db.execute('INSERT INTO new_order VALUES ($1, $2, $3)', w_id, d_id, o_id)
db.execute('INSERT INTO orders VALUES ($1, $2, $3, $4, now(), NULL, $5, $6)', w_id, d_id, o_id, c_id, #keys, all_local)

local items = db.query_each('SELECT i_price, i_name, i_data, i_id FROM item WHERE i_id = $1', keys)
-- Clause 2.4.2.3: all is done but for a line whose item there is not.
if #items < #keys then
    local found, known = {}, {}
    for row = 1, #items do found[items[row].i_id] = true end
    for _, line in ipairs(taken) do
        if found[line[2]] then known[#known + 1] = line end
    end
    taken = known
end
local stocks = db.query_each([[UPDATE stock SET s_quantity = CASE WHEN s_quantity >= $3 + 10 THEN s_quantity - $3
    ELSE s_quantity - $3 + 91 END, s_ytd = s_ytd + $3, s_order_cnt = s_order_cnt + 1, s_remote_cnt = s_remote_cnt + $4
    WHERE s_w_id = $1 AND s_i_id = $2 RETURNING s_quantity, s_data, s_dist_]] .. string.format('%02d', d_id), taken)
if #stocks < #taken then db.abort('new_order: there is no such stock', '22023') end

local out, total = {}, db.decimal(0)
for number, line in ipairs(taken) do
    local supplier, item, quantity = line[1], line[2], line[3]
    local price, name, data = db.values(items, number)
    local left, s_data, info = db.values(stocks, number)
    local amount = price * quantity
    written[number] = {w_id, d_id, o_id, number, item, supplier, quantity, amount, info}
    total = total + amount
    local original = string.find(data, 'ORIGINAL', 1, true) and string.find(s_data, 'ORIGINAL', 1, true)
    out[number] = {o_id, last, credit, discount, w_tax, d_tax, false, supplier, item, name, quantity, left,
        original and 'B' or 'G', price, amount}
end
db.execute_each('INSERT INTO order_line VALUES ($1, $2, $3, $4, $5, $6, NULL, $7, $8, $9)', written)
-- Clause 2.4.1.4: the user's mistake, after which nothing of the order may remain.
if #taken < #keys then db.abort('Item number is not valid') end
total = total * (1 - discount) * (1 + w_tax + d_tax)
for _, row in ipairs(out) do row[7] = total end
return db.rows({'o_id', 'c_last', 'c_credit', 'c_discount', 'w_tax', 'd_tax', 'total', 'ol_supply_w_id', 'ol_i_id',
    'i_name', 'ol_quantity', 's_quantity', 'brand_generic', 'i_price', 'ol_amount'}, out)
