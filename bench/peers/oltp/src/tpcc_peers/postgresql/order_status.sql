-- Clause 2.6. One of p_c_id and p_c_last is NULL. The first row of the result has the customer and the last order, the
-- others the order's lines. A STABLE function reads as of one moment.
CREATE FUNCTION order_status(p_w_id INTEGER, p_d_id INTEGER, p_c_id INTEGER, p_c_last TEXT)
RETURNS SETOF TEXT LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_o_id INTEGER;
    v_order TEXT;
BEGIN
    IF p_c_id IS NULL THEN
        SELECT (array_agg(c_id ORDER BY c_first))[(count(*) + 1) / 2] INTO p_c_id
        FROM customer WHERE c_w_id = p_w_id AND c_d_id = p_d_id AND c_last = p_c_last;
    END IF;
    SELECT o_id, concat_ws(E'\t', o_id, o_entry_d, o_carrier_id) INTO STRICT v_o_id, v_order
    FROM orders WHERE o_w_id = p_w_id AND o_d_id = p_d_id AND o_c_id = p_c_id
    ORDER BY o_id DESC LIMIT 1;
    RETURN QUERY SELECT concat_ws(E'\t', c_id, c_first, c_middle, c_last, c_balance, v_order)
    FROM customer WHERE c_w_id = p_w_id AND c_d_id = p_d_id AND c_id = p_c_id;
    RETURN QUERY SELECT concat_ws(E'\t', ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d)
    FROM order_line WHERE ol_w_id = p_w_id AND ol_d_id = p_d_id AND ol_o_id = v_o_id
    ORDER BY ol_number;
END
$$
