-- Clause 2.7. The result has a line of text for each district with a delivered order: district, order.
CREATE PROCEDURE delivery(p_w_id INT, p_carrier_id INT) MODIFIES SQL DATA
BEGIN
    DECLARE v_d_id INT DEFAULT 0;
    DECLARE v_o_id, v_c_id INT;
    DECLARE v_amount DECIMAL(12, 2);
    DECLARE v_out VARCHAR(200) DEFAULT '';
    DECLARE EXIT HANDLER FOR SQLEXCEPTION
    BEGIN
        ROLLBACK;
        RESIGNAL;
    END;

    START TRANSACTION;
    WHILE v_d_id < 10 DO
        SET v_d_id = v_d_id + 1;
        SET v_o_id = NULL;
        BEGIN
            -- A district without an order is skipped.
            DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
            SELECT no_o_id INTO v_o_id FROM new_order WHERE no_w_id = p_w_id AND no_d_id = v_d_id
            ORDER BY no_o_id LIMIT 1 FOR UPDATE;
        END;
        IF v_o_id IS NOT NULL THEN
            DELETE FROM new_order WHERE no_w_id = p_w_id AND no_d_id = v_d_id AND no_o_id = v_o_id;
            -- The updates come first: reads see this transaction's own versions, however young the order is.
            UPDATE orders SET o_carrier_id = p_carrier_id
            WHERE o_w_id = p_w_id AND o_d_id = v_d_id AND o_id = v_o_id;
            UPDATE order_line SET ol_delivery_d = NOW()
            WHERE ol_w_id = p_w_id AND ol_d_id = v_d_id AND ol_o_id = v_o_id;
            SELECT o_c_id INTO v_c_id FROM orders WHERE o_w_id = p_w_id AND o_d_id = v_d_id AND o_id = v_o_id;
            SELECT SUM(ol_amount) INTO v_amount
            FROM order_line WHERE ol_w_id = p_w_id AND ol_d_id = v_d_id AND ol_o_id = v_o_id;
            UPDATE customer SET c_balance = c_balance + v_amount, c_delivery_cnt = c_delivery_cnt + 1
            WHERE c_w_id = p_w_id AND c_d_id = v_d_id AND c_id = v_c_id;
            SET v_out = CONCAT(v_out, v_d_id, '\t', v_o_id, '\n');
        END IF;
    END WHILE;
    COMMIT;

    SELECT v_out AS delivered;
END
