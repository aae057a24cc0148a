-- Clause 2.7. The result is a JSON array of the delivered orders: district, order.
CREATE PROCEDURE delivery(p_w_id INT, p_carrier_id INT) MODIFIES SQL DATA
BEGIN
    DECLARE v_d_id INT DEFAULT 0;
    DECLARE v_o_id INT;
    DECLARE v_orders VARCHAR(400) DEFAULT '';
    DECLARE EXIT HANDLER FOR SQLEXCEPTION
    BEGIN
        ROLLBACK;
        RESIGNAL;
    END;
    -- A district without an order is skipped.
    DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_o_id = NULL;

    START TRANSACTION;
    WHILE v_d_id < 10 DO
        SET v_d_id = v_d_id + 1;
        SELECT no_o_id INTO v_o_id FROM new_order WHERE no_w_id = p_w_id AND no_d_id = v_d_id
        ORDER BY no_o_id LIMIT 1 FOR UPDATE;
        IF v_o_id IS NOT NULL THEN
            SET v_orders = CONCAT(v_orders, IF(v_orders = '', '[', ',['), v_d_id, ',', v_o_id, ']');
        END IF;
    END WHILE;
    SET v_orders = CONCAT('[', v_orders, ']');
    DELETE new_order
    FROM JSON_TABLE(v_orders, '$[*]' COLUMNS (district INT PATH '$[0]', id INT PATH '$[1]')) AS delivered
        STRAIGHT_JOIN new_order ON no_w_id = p_w_id AND no_d_id = district AND no_o_id = id;
    UPDATE JSON_TABLE(v_orders, '$[*]' COLUMNS (district INT PATH '$[0]', id INT PATH '$[1]')) AS delivered
        STRAIGHT_JOIN orders ON o_w_id = p_w_id AND o_d_id = district AND o_id = id
    SET o_carrier_id = p_carrier_id;
    UPDATE JSON_TABLE(v_orders, '$[*]' COLUMNS (district INT PATH '$[0]', id INT PATH '$[1]')) AS delivered
        STRAIGHT_JOIN order_line ON ol_w_id = p_w_id AND ol_d_id = district AND ol_o_id = id
    SET ol_delivery_d = NOW();
    UPDATE JSON_TABLE(v_orders, '$[*]' COLUMNS (district INT PATH '$[0]', id INT PATH '$[1]')) AS delivered
        STRAIGHT_JOIN orders ON o_w_id = p_w_id AND o_d_id = district AND o_id = id
        STRAIGHT_JOIN customer ON c_w_id = p_w_id AND c_d_id = district AND c_id = o_c_id
    SET c_balance = c_balance + (
            SELECT SUM(ol_amount) FROM order_line WHERE ol_w_id = p_w_id AND ol_d_id = district AND ol_o_id = id
        ),
        c_delivery_cnt = c_delivery_cnt + 1;
    COMMIT;

    SELECT v_orders AS delivered;
END
