-- Clause 2.6. One of p_c_id and p_c_last is NULL. The first result has the customer and the last order, the second the
-- order's lines, both as of one moment.
CREATE PROCEDURE order_status(p_w_id INT, p_d_id INT, p_c_id INT, p_c_last VARCHAR(16)) READS SQL DATA
BEGIN
    DECLARE v_named, v_o_id, v_carrier INT;
    DECLARE v_entry DATETIME;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION
    BEGIN
        ROLLBACK;
        RESIGNAL;
    END;
    DECLARE EXIT HANDLER FOR NOT FOUND
    BEGIN
        ROLLBACK;
        SIGNAL SQLSTATE '22023' SET MESSAGE_TEXT = 'order_status: there is no such customer, or no order';
    END;

    -- All statements read as of the first one.
    SET TRANSACTION ISOLATION LEVEL REPEATABLE READ;
    START TRANSACTION READ ONLY;
    IF p_c_id IS NULL THEN
        SELECT COUNT(*) INTO v_named
        FROM customer WHERE c_w_id = p_w_id AND c_d_id = p_d_id AND c_last = p_c_last;
        SET v_named = GREATEST(v_named - 1, 0) DIV 2;
        SELECT c_id INTO p_c_id
        FROM customer WHERE c_w_id = p_w_id AND c_d_id = p_d_id AND c_last = p_c_last
        ORDER BY c_first LIMIT v_named, 1;
    END IF;
    SELECT o_id, o_entry_d, o_carrier_id INTO v_o_id, v_entry, v_carrier
    FROM orders WHERE o_w_id = p_w_id AND o_d_id = p_d_id AND o_c_id = p_c_id
    ORDER BY o_id DESC LIMIT 1;
    SELECT c_id, c_first, c_middle, c_last, c_balance, v_o_id, v_entry, v_carrier
    FROM customer WHERE c_w_id = p_w_id AND c_d_id = p_d_id AND c_id = p_c_id;
    SELECT ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d
    FROM order_line WHERE ol_w_id = p_w_id AND ol_d_id = p_d_id AND ol_o_id = v_o_id
    ORDER BY ol_number;
    COMMIT;
END
