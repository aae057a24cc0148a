local out = {}
for district = 1, 10 do
    local o_id = db.value([[SELECT no_o_id FROM new_order WHERE no_w_id = $1 AND no_d_id = $2
        ORDER BY no_o_id LIMIT 1]], w_id, district)
    if o_id then
        db.execute('DELETE FROM new_order WHERE no_w_id = $1 AND no_d_id = $2 AND no_o_id = $3', w_id, district, o_id)
        local amount = db.decimal(0)
        local lines = db.query([[UPDATE order_line SET ol_delivery_d = now()
            WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id = $3 RETURNING ol_amount]], w_id, district, o_id)
        for _, line in ipairs(lines) do amount = amount + line.ol_amount end
        local customer = db.value([[UPDATE orders SET o_carrier_id = $4 WHERE o_w_id = $1 AND o_d_id = $2 AND o_id = $3
            RETURNING o_c_id]], w_id, district, o_id, carrier_id)
        db.execute([[UPDATE customer SET c_balance = c_balance + $4, c_delivery_cnt = c_delivery_cnt + 1
            WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3]], w_id, district, customer, amount)
        out[#out + 1] = {district, o_id}
    end
end
return db.rows({'d_id', 'o_id'}, out)
