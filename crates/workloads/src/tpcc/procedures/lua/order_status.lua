local id = c_id
if not id then
    local named = db.query([[SELECT c_id FROM customer WHERE c_w_id = $1 AND c_d_id = $2 AND c_last = $3
        ORDER BY c_first]], w_id, d_id, c_last)
    if #named == 0 then db.abort('order_status: no customer of the district has this name', '22023') end
    id = named[(#named + 1) // 2].c_id
end
local customer = db.row([[SELECT c_first, c_middle, c_last, c_balance FROM customer
    WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3]], w_id, d_id, id)
local o_id, entry, carrier = db.values([[SELECT o_id, o_entry_d, o_carrier_id FROM orders
    WHERE o_w_id = $1 AND o_d_id = $2 AND o_c_id = $3 ORDER BY o_id DESC LIMIT 1]], w_id, d_id, id)
if not (customer and o_id) then db.abort('order_status: there is no such customer', '22023') end
local lines = db.query([[SELECT ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d FROM order_line
    WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id = $3 ORDER BY ol_number]], w_id, d_id, o_id)
local out = {}
for number, line in ipairs(lines) do
    line.c_id, line.c_first, line.c_middle, line.c_last = id, customer.c_first, customer.c_middle, customer.c_last
    line.c_balance, line.o_id, line.o_entry_d, line.o_carrier_id = customer.c_balance, o_id, entry, carrier
    out[number] = line
end
return db.rows({'c_id', 'c_first', 'c_middle', 'c_last', 'c_balance', 'o_id', 'o_entry_d', 'o_carrier_id', 'ol_i_id',
    'ol_supply_w_id', 'ol_quantity', 'ol_amount', 'ol_delivery_d'}, out)
