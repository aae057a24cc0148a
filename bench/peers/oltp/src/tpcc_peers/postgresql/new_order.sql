-- Clause 2.4. p_lines is a JSON array of lines: item, warehouse, quantity. They are in the order of warehouses and
-- items, so that orders lock their stock in one order. The result has one row; `order_lines` has a line of text for
-- each: warehouse, item, item's name, quantity, quantity in stock, brand or generic, price and amount.
CREATE FUNCTION new_order(
    p_w_id INTEGER, p_d_id INTEGER, p_c_id INTEGER, p_ol_cnt INTEGER, p_all_local INTEGER, p_lines TEXT
) RETURNS TABLE (
    id INTEGER, last TEXT, credit TEXT, discount NUMERIC, warehouse_tax NUMERIC, district_tax NUMERIC,
    entered TIMESTAMP, total NUMERIC, order_lines TEXT
) LANGUAGE plpgsql AS $$
DECLARE
    v_number INTEGER := 0;
    v_item INTEGER;
    v_supplier INTEGER;
    v_quantity INTEGER;
    v_price NUMERIC;
    v_name TEXT;
    v_i_data TEXT;
    v_stock INTEGER;
    v_s_data TEXT;
    v_info TEXT;
    v_brand TEXT;
BEGIN
    SELECT w_tax, c_discount, c_last, c_credit INTO warehouse_tax, discount, last, credit
    FROM warehouse, customer WHERE w_id = p_w_id AND c_w_id = p_w_id AND c_d_id = p_d_id AND c_id = p_c_id;
    IF NOT FOUND THEN
        RAISE 'new_order: there is no such warehouse or customer' USING ERRCODE = '22023';
    END IF;
    UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = p_w_id AND d_id = p_d_id
    RETURNING d_tax, d_next_o_id - 1 INTO STRICT district_tax, id;
    entered := LOCALTIMESTAMP;
    INSERT INTO orders VALUES (p_w_id, p_d_id, id, p_c_id, entered, NULL, p_ol_cnt, p_all_local);
    INSERT INTO new_order VALUES (p_w_id, p_d_id, id);

    total := 0;
    order_lines := '';
    FOR v_item, v_supplier, v_quantity IN
        SELECT (line ->> 0)::INTEGER, (line ->> 1)::INTEGER, (line ->> 2)::INTEGER
        FROM json_array_elements(p_lines::JSON) AS line
    LOOP
        v_number := v_number + 1;
        SELECT i_price, i_name, i_data INTO v_price, v_name, v_i_data FROM item WHERE i_id = v_item;
        -- Clause 2.4.1.4: the user's mistake, after which nothing of the order may remain.
        IF NOT FOUND THEN
            RAISE 'Item number is not valid' USING ERRCODE = '45000';
        END IF;
        UPDATE stock
        SET s_quantity = CASE WHEN s_quantity >= v_quantity + 10 THEN s_quantity - v_quantity
                ELSE s_quantity - v_quantity + 91 END,
            s_ytd = s_ytd + v_quantity,
            s_order_cnt = s_order_cnt + 1,
            s_remote_cnt = s_remote_cnt + (v_supplier <> p_w_id)::INTEGER
        WHERE s_w_id = v_supplier AND s_i_id = v_item
        RETURNING s_quantity, s_data, CASE p_d_id
            WHEN 1 THEN s_dist_01 WHEN 2 THEN s_dist_02 WHEN 3 THEN s_dist_03 WHEN 4 THEN s_dist_04
            WHEN 5 THEN s_dist_05 WHEN 6 THEN s_dist_06 WHEN 7 THEN s_dist_07 WHEN 8 THEN s_dist_08
            WHEN 9 THEN s_dist_09 ELSE s_dist_10 END
        INTO STRICT v_stock, v_s_data, v_info;
        v_brand := CASE WHEN strpos(v_i_data, 'ORIGINAL') > 0 AND strpos(v_s_data, 'ORIGINAL') > 0
            THEN 'B' ELSE 'G' END;
        INSERT INTO order_line
        VALUES (p_w_id, p_d_id, id, v_number, v_item, v_supplier, NULL, v_quantity, v_quantity * v_price, v_info);
        total := total + v_quantity * v_price;
        order_lines := order_lines || concat_ws(
            E'\t', v_supplier, v_item, v_name, v_quantity, v_stock, v_brand, v_price, v_quantity * v_price
        ) || E'\n';
    END LOOP;
    total := total * (1 - discount) * (1 + warehouse_tax + district_tax);
    RETURN NEXT;
END
$$
