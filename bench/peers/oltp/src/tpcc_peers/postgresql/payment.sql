-- Clause 2.5. One of p_c_id and p_c_last is NULL. The rows of the warehouse and the district, which other payments wait
-- for, are locked last.
CREATE FUNCTION payment(
    p_w_id INTEGER, p_d_id INTEGER, p_c_w_id INTEGER, p_c_d_id INTEGER, p_c_id INTEGER, p_c_last TEXT, p_amount TEXT
) RETURNS TABLE (of_customer customer, data TEXT, of_warehouse TEXT[], of_district TEXT[]) LANGUAGE plpgsql AS $$
DECLARE
    v_amount NUMERIC := p_amount;
BEGIN
    IF p_c_id IS NULL THEN
        SELECT (array_agg(c_id ORDER BY c_first))[(count(*) + 1) / 2] INTO p_c_id
        FROM customer WHERE c_w_id = p_c_w_id AND c_d_id = p_c_d_id AND c_last = p_c_last;
    END IF;
    UPDATE customer
    SET c_balance = c_balance - v_amount,
        c_ytd_payment = c_ytd_payment + v_amount,
        c_payment_cnt = c_payment_cnt + 1,
        c_data = CASE WHEN c_credit = 'BC'
            THEN left(concat_ws(' ', c_id, c_d_id, c_w_id, p_d_id, p_w_id, v_amount, '| ') || c_data, 500)
            ELSE c_data END
    WHERE c_w_id = p_c_w_id AND c_d_id = p_c_d_id AND c_id = p_c_id
    RETURNING customer.* INTO STRICT of_customer;
    UPDATE district SET d_ytd = d_ytd + v_amount WHERE d_w_id = p_w_id AND d_id = p_d_id
    RETURNING ARRAY[d_name, d_street_1, d_street_2, d_city, d_state, d_zip] INTO STRICT of_district;
    UPDATE warehouse SET w_ytd = w_ytd + v_amount WHERE w_id = p_w_id
    RETURNING ARRAY[w_name, w_street_1, w_street_2, w_city, w_state, w_zip] INTO STRICT of_warehouse;
    INSERT INTO history VALUES (
        p_c_id, p_c_d_id, p_c_w_id, p_d_id, p_w_id, LOCALTIMESTAMP, v_amount,
        of_warehouse[1] || '    ' || of_district[1], of_customer.c_payment_cnt
    );
    IF of_customer.c_credit = 'BC' THEN
        data := left(of_customer.c_data, 200);
    END IF;
    of_customer.c_data := '';
    RETURN NEXT;
END
$$
