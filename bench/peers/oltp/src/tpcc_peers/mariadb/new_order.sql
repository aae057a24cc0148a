-- Clause 2.4. p_lines is a JSON array of lines: item, warehouse, quantity, and round, which counts lines of one item
-- and warehouse, because a statement updates a row once. Lines are in the order of warehouses and items, so that orders
-- lock their stock in one order. Statements for all lines take half the time of a loop over them. The result has one
-- row; `order_lines` has a line of text for each: warehouse, item, item's name, quantity, quantity in stock, brand or
-- generic, price and amount.
CREATE PROCEDURE new_order(
    p_w_id INT, p_d_id INT, p_c_id INT, p_ol_cnt INT, p_all_local INT, p_rounds INT, p_lines VARCHAR(1000)
) MODIFIES SQL DATA
BEGIN
    DECLARE v_w_tax, v_d_tax, v_discount DECIMAL(4, 4);
    DECLARE v_last VARCHAR(16);
    DECLARE v_credit VARCHAR(2);
    DECLARE v_o_id, v_found INT;
    DECLARE v_round INT DEFAULT 0;
    DECLARE v_sum DECIMAL(12, 2);
    DECLARE v_out VARCHAR(2000);
    DECLARE EXIT HANDLER FOR SQLEXCEPTION
    BEGIN
        ROLLBACK;
        RESIGNAL;
    END;
    DECLARE EXIT HANDLER FOR NOT FOUND
    BEGIN
        ROLLBACK;
        SIGNAL SQLSTATE '22023' SET MESSAGE_TEXT = 'new_order: there is no such warehouse, district or customer';
    END;

    START TRANSACTION;
    SELECT w_tax INTO v_w_tax FROM warehouse WHERE w_id = p_w_id;
    SELECT c_discount, c_last, c_credit INTO v_discount, v_last, v_credit
    FROM customer WHERE c_w_id = p_w_id AND c_d_id = p_d_id AND c_id = p_c_id;
    SELECT d_tax, d_next_o_id INTO v_d_tax, v_o_id FROM district WHERE d_w_id = p_w_id AND d_id = p_d_id FOR UPDATE;
    UPDATE district SET d_next_o_id = v_o_id + 1 WHERE d_w_id = p_w_id AND d_id = p_d_id;
    INSERT INTO orders VALUES (p_w_id, p_d_id, v_o_id, p_c_id, NOW(), NULL, p_ol_cnt, p_all_local);
    INSERT INTO new_order VALUES (p_w_id, p_d_id, v_o_id);
    WHILE v_round < p_rounds DO
        SET v_round = v_round + 1;
        UPDATE JSON_TABLE(p_lines, '$[*]' COLUMNS (
                item INT PATH '$[0]', supplier INT PATH '$[1]', quantity INT PATH '$[2]', round INT PATH '$[3]'
            )) AS line
            STRAIGHT_JOIN stock ON s_w_id = supplier AND s_i_id = item
        SET s_quantity = IF(s_quantity >= quantity + 10, s_quantity - quantity, s_quantity - quantity + 91),
            s_ytd = s_ytd + quantity,
            s_order_cnt = s_order_cnt + 1,
            s_remote_cnt = s_remote_cnt + (supplier <> p_w_id)
        WHERE round = v_round;
    END WHILE;
    INSERT INTO order_line
    SELECT p_w_id, p_d_id, v_o_id, number, item, supplier, NULL, quantity, quantity * i_price,
        ELT(p_d_id, s_dist_01, s_dist_02, s_dist_03, s_dist_04, s_dist_05, s_dist_06, s_dist_07, s_dist_08,
            s_dist_09, s_dist_10)
    FROM JSON_TABLE(p_lines, '$[*]' COLUMNS (
            number FOR ORDINALITY, item INT PATH '$[0]', supplier INT PATH '$[1]', quantity INT PATH '$[2]'
        )) AS line
        STRAIGHT_JOIN item ON i_id = item
        -- A line without a row of STOCK fails.
        LEFT JOIN stock ON s_w_id = supplier AND s_i_id = item;
    -- Clause 2.4.1.4: the user's mistake, after which nothing of the order may remain.
    IF ROW_COUNT() < p_ol_cnt THEN
        SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'Item number is not valid';
    END IF;
    SELECT SUM(quantity * i_price),
        GROUP_CONCAT(CONCAT_WS('\t', supplier, item, i_name, quantity, s_quantity,
            IF(LOCATE('ORIGINAL', i_data) > 0 AND LOCATE('ORIGINAL', s_data) > 0, 'B', 'G'),
            i_price, quantity * i_price) SEPARATOR '\n')
    INTO v_sum, v_out
    FROM JSON_TABLE(p_lines, '$[*]' COLUMNS (
            item INT PATH '$[0]', supplier INT PATH '$[1]', quantity INT PATH '$[2]'
        )) AS line
        STRAIGHT_JOIN item ON i_id = item
        STRAIGHT_JOIN stock ON s_w_id = supplier AND s_i_id = item;
    COMMIT;

    SELECT v_o_id, v_last, v_credit, v_discount, v_w_tax, v_d_tax, NOW(),
        v_sum * (1 - v_discount) * (1 + v_w_tax + v_d_tax) AS total, v_out AS order_lines;
END
