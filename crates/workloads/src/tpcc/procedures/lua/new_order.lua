local w_tax = db.value('SELECT w_tax FROM warehouse WHERE w_id = $1', w_id)
local d_tax, o_id = db.values([[UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = $1 AND d_id = $2
    RETURNING d_tax, d_next_o_id - 1]], w_id, d_id)
local discount, last, credit = db.values([[SELECT c_discount, c_last, c_credit FROM customer
    WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3]], w_id, d_id, c_id)
if not (w_tax and d_tax and discount) then
    db.abort('new_order: there is no such warehouse, district or customer', '22023')
end

local asked, all_local = {}, 1
for item, supplier, quantity in string.gmatch(lines, '(%d+):(%d+):(%d+)') do
    local line = {item = math.tointeger(item), supplier = math.tointeger(supplier), quantity = math.tointeger(quantity)}
    if line.supplier ~= w_id then all_local = 0 end
    asked[#asked + 1] = line
end
db.execute('INSERT INTO new_order VALUES ($1, $2, $3)', w_id, d_id, o_id)
db.execute('INSERT INTO orders VALUES ($1, $2, $3, $4, now(), NULL, $5, $6)', w_id, d_id, o_id, c_id, #asked, all_local)

local take_from_stock = [[UPDATE stock SET s_quantity = CASE WHEN s_quantity >= $3 + 10 THEN s_quantity - $3
    ELSE s_quantity - $3 + 91 END, s_ytd = s_ytd + $3, s_order_cnt = s_order_cnt + 1, s_remote_cnt = s_remote_cnt + $4
    WHERE s_w_id = $1 AND s_i_id = $2 RETURNING s_quantity, s_data, s_dist_]] .. string.format('%02d', d_id)
local out, total = {}, db.decimal(0)
for number, line in ipairs(asked) do
    local price, name, data = db.values('SELECT i_price, i_name, i_data FROM item WHERE i_id = $1', line.item)
    -- Clause 2.4.1.4: the user's mistake, after which nothing of the order may remain.
    if not price then db.abort('Item number is not valid') end
    local remote = line.supplier == w_id and 0 or 1
    local left, s_data, info = db.values(take_from_stock, line.supplier, line.item, line.quantity, remote)
    local amount = price * line.quantity
    db.execute('INSERT INTO order_line VALUES ($1, $2, $3, $4, $5, $6, NULL, $7, $8, $9)',
        w_id, d_id, o_id, number, line.item, line.supplier, line.quantity, amount, info)
    total = total + amount
    local original = string.find(data, 'ORIGINAL', 1, true) and string.find(s_data, 'ORIGINAL', 1, true)
    out[number] = {o_id, last, credit, discount, w_tax, d_tax, false, line.supplier, line.item, name, line.quantity,
        left, original and 'B' or 'G', price, amount}
end
total = total * (1 - discount) * (1 + w_tax + d_tax)
for _, row in ipairs(out) do row[7] = total end
return db.rows({'o_id', 'c_last', 'c_credit', 'c_discount', 'w_tax', 'd_tax', 'total', 'ol_supply_w_id', 'ol_i_id',
    'i_name', 'ol_quantity', 's_quantity', 'brand_generic', 'i_price', 'ol_amount'}, out)
