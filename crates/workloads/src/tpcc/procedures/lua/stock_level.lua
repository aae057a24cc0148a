local next_order = db.value('SELECT d_next_o_id FROM district WHERE d_w_id = $1 AND d_id = $2', w_id, d_id)
if not next_order then db.abort('stock_level: there is no such district', '22023') end
return db.value([[SELECT count(DISTINCT s_i_id) FROM order_line JOIN stock ON s_w_id = ol_w_id AND s_i_id = ol_i_id
    WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id >= $4 - 20 AND ol_o_id < $4 AND s_quantity < $3]],
    w_id, d_id, threshold, next_order)
