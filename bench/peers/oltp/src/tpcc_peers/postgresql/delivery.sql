-- Clause 2.7. The result has a row for each district with a delivered order: district, order.
CREATE FUNCTION delivery(p_w_id INTEGER, p_carrier_id INTEGER)
RETURNS TABLE (district_id INTEGER, id INTEGER) LANGUAGE plpgsql AS $$
DECLARE
    v_c_id INTEGER;
    v_amount NUMERIC;
BEGIN
    FOR number IN 1..10 LOOP
        district_id := number;
        LOOP
            SELECT no_o_id INTO id FROM new_order WHERE no_w_id = p_w_id AND no_d_id = number ORDER BY no_o_id LIMIT 1;
            EXIT WHEN NOT FOUND;
            -- Another delivery may have been faster.
            DELETE FROM new_order WHERE no_w_id = p_w_id AND no_d_id = number AND no_o_id = id;
            EXIT WHEN FOUND;
        END LOOP;
        -- A district without an order is skipped.
        CONTINUE WHEN id IS NULL;
        UPDATE orders SET o_carrier_id = p_carrier_id WHERE o_w_id = p_w_id AND o_d_id = number AND o_id = id
        RETURNING o_c_id INTO STRICT v_c_id;
        WITH delivered AS (
            UPDATE order_line SET ol_delivery_d = LOCALTIMESTAMP
            WHERE ol_w_id = p_w_id AND ol_d_id = number AND ol_o_id = id
            RETURNING ol_amount
        )
        SELECT sum(ol_amount) INTO v_amount FROM delivered;
        UPDATE customer SET c_balance = c_balance + v_amount, c_delivery_cnt = c_delivery_cnt + 1
        WHERE c_w_id = p_w_id AND c_d_id = number AND c_id = v_c_id;
        RETURN NEXT;
    END LOOP;
END
$$
