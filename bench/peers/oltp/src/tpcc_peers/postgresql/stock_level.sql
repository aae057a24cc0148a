-- Clause 2.8: the number of items in the district's last twenty orders of which less than the threshold is in stock.
CREATE FUNCTION stock_level(p_w_id INTEGER, p_d_id INTEGER, p_threshold INTEGER)
RETURNS BIGINT LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_next INTEGER;
BEGIN
    SELECT d_next_o_id INTO STRICT v_next FROM district WHERE d_w_id = p_w_id AND d_id = p_d_id;
    RETURN (
        SELECT count(DISTINCT s_i_id) FROM order_line JOIN stock ON s_w_id = ol_w_id AND s_i_id = ol_i_id
        WHERE ol_w_id = p_w_id AND ol_d_id = p_d_id AND ol_o_id >= v_next - 20 AND ol_o_id < v_next
            AND s_quantity < p_threshold
    );
END
$$
