local id = c_id
if not id then
    local named = db.query([[SELECT c_id FROM customer WHERE c_w_id = $1 AND c_d_id = $2 AND c_last = $3
        ORDER BY c_first]], c_w_id, c_d_id, c_last)
    if #named == 0 then db.abort('payment: no customer of the district has this name', '22023') end
    id = named[(#named + 1) // 2].c_id
end
local customer = db.row([[UPDATE customer SET c_balance = c_balance - $4, c_ytd_payment = c_ytd_payment + $4,
    c_payment_cnt = c_payment_cnt + 1 WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3
    RETURNING c_payment_cnt, c_credit, c_first, c_middle, c_last, c_street_1, c_street_2, c_city, c_state, c_zip,
    c_phone, c_since, c_credit_lim, c_discount, c_balance]], c_w_id, c_d_id, id, amount)
if not customer then db.abort('payment: there is no such customer', '22023') end
local data
if customer.c_credit == 'BC' then
    local entry = id .. ' ' .. c_d_id .. ' ' .. c_w_id .. ' ' .. d_id .. ' ' .. w_id .. ' ' .. amount .. ' | '
    data = db.value([[UPDATE customer SET c_data = left($4 || c_data, 500)
        WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3 RETURNING left(c_data, 200)]], c_w_id, c_d_id, id, entry)
end
local warehouse = db.row([[UPDATE warehouse SET w_ytd = w_ytd + $2 WHERE w_id = $1
    RETURNING w_name, w_street_1, w_street_2, w_city, w_state, w_zip]], w_id, amount)
local district = db.row([[UPDATE district SET d_ytd = d_ytd + $3 WHERE d_w_id = $1 AND d_id = $2
    RETURNING d_name, d_street_1, d_street_2, d_city, d_state, d_zip]], w_id, d_id, amount)
if not (warehouse and district) then db.abort('payment: there is no such warehouse or district', '22023') end
db.execute('INSERT INTO history VALUES ($1, $2, $3, $4, $5, now(), $6, $7, $8)', id, c_d_id, c_w_id, d_id, w_id,
    amount, warehouse.w_name .. '    ' .. district.d_name, customer.c_payment_cnt)
return id, customer.c_credit, customer.c_first, customer.c_middle, customer.c_last, customer.c_street_1,
    customer.c_street_2, customer.c_city, customer.c_state, customer.c_zip, customer.c_phone, customer.c_since,
    customer.c_credit_lim, customer.c_discount, customer.c_balance, data,
    warehouse.w_name, warehouse.w_street_1, warehouse.w_street_2, warehouse.w_city, warehouse.w_state, warehouse.w_zip,
    district.d_name, district.d_street_1, district.d_street_2, district.d_city, district.d_state, district.d_zip
