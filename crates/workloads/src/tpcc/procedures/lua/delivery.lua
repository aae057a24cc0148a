local districts = {}
for district = 1, 10 do districts[district] = {w_id, district} end
local oldest = db.query_each([[SELECT no_d_id, no_o_id FROM new_order WHERE no_w_id = $1 AND no_d_id = $2
    ORDER BY no_o_id LIMIT 1]], districts)
local orders, carried, out = {}, {}, {}
for row = 1, #oldest do
    local district, o_id = db.values(oldest, row)
    orders[row] = {w_id, district, o_id}
    carried[row] = {w_id, district, o_id, carrier_id}
    out[row] = {district, o_id}
end
db.execute_each('DELETE FROM new_order WHERE no_w_id = $1 AND no_d_id = $2 AND no_o_id = $3', orders)
local lines = db.query_each([[UPDATE order_line SET ol_delivery_d = now()
    WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id = $3 RETURNING ol_d_id, ol_amount]], orders)
local amounts = {}
for row = 1, #lines do
    local district, amount = db.values(lines, row)
    amounts[district] = (amounts[district] or db.decimal(0)) + amount
end
local customers = db.query_each([[UPDATE orders SET o_carrier_id = $4 WHERE o_w_id = $1 AND o_d_id = $2 AND o_id = $3
    RETURNING o_d_id, o_c_id]], carried)
local paid = {}
for row = 1, #customers do
    local district, customer = db.values(customers, row)
    paid[row] = {w_id, district, customer, amounts[district]}
end
db.execute_each([[UPDATE customer SET c_balance = c_balance + $4, c_delivery_cnt = c_delivery_cnt + 1
    WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3]], paid)
return db.rows({'d_id', 'o_id'}, out)
