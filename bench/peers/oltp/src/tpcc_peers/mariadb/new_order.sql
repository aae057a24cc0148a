-- Clause 2.4. p_lines is a list of item:warehouse:quantity, separated by spaces, in the order of warehouses and items, so
-- that orders lock their stock in one order. The result has one row; `order_lines` has a line of text for each of its
-- lines: warehouse, item, item's name, quantity, quantity in stock, brand or generic, price and amount.
CREATE PROCEDURE new_order(
    p_w_id INT, p_d_id INT, p_c_id INT, p_ol_cnt INT, p_all_local INT, p_lines VARCHAR(1000)
) MODIFIES SQL DATA
BEGIN
    DECLARE v_w_tax, v_d_tax, v_discount DECIMAL(4, 4);
    DECLARE v_last VARCHAR(16);
    DECLARE v_credit VARCHAR(2);
    DECLARE v_o_id, v_item, v_supplier, v_quantity, v_stock INT;
    DECLARE v_number INT DEFAULT 0;
    DECLARE v_line VARCHAR(40);
    DECLARE v_price DECIMAL(5, 2);
    DECLARE v_amount DECIMAL(6, 2);
    DECLARE v_sum DECIMAL(12, 2) DEFAULT 0;
    DECLARE v_name, v_info VARCHAR(24);
    DECLARE v_brand CHAR(1);
    DECLARE v_out VARCHAR(2000) DEFAULT '';
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
    SELECT w_tax, c_discount, c_last, c_credit INTO v_w_tax, v_discount, v_last, v_credit
    FROM warehouse STRAIGHT_JOIN customer
    WHERE w_id = p_w_id AND c_w_id = p_w_id AND c_d_id = p_d_id AND c_id = p_c_id;
    SELECT d_tax, d_next_o_id INTO v_d_tax, v_o_id FROM district WHERE d_w_id = p_w_id AND d_id = p_d_id FOR UPDATE;
    UPDATE district SET d_next_o_id = v_o_id + 1 WHERE d_w_id = p_w_id AND d_id = p_d_id;
    INSERT INTO orders VALUES (p_w_id, p_d_id, v_o_id, p_c_id, NOW(), NULL, p_ol_cnt, p_all_local);
    INSERT INTO new_order VALUES (p_w_id, p_d_id, v_o_id);

    WHILE v_number < p_ol_cnt DO
        SET v_number = v_number + 1;
        SET v_line = SUBSTRING_INDEX(p_lines, ' ', 1);
        SET p_lines = SUBSTRING(p_lines, LENGTH(v_line) + 2);
        SET v_item = SUBSTRING_INDEX(v_line, ':', 1);
        SET v_supplier = SUBSTRING_INDEX(SUBSTRING_INDEX(v_line, ':', 2), ':', -1);
        SET v_quantity = SUBSTRING_INDEX(v_line, ':', -1);

        UPDATE stock
        SET s_quantity = IF(s_quantity >= v_quantity + 10, s_quantity - v_quantity, s_quantity - v_quantity + 91),
            s_ytd = s_ytd + v_quantity,
            s_order_cnt = s_order_cnt + 1,
            s_remote_cnt = s_remote_cnt + (v_supplier <> p_w_id)
        WHERE s_w_id = v_supplier AND s_i_id = v_item;
        BEGIN
            -- Clause 2.4.1.4: the user's mistake, after which nothing of the order may remain.
            DECLARE EXIT HANDLER FOR NOT FOUND
            IF EXISTS (SELECT * FROM item WHERE i_id = v_item) THEN
                SIGNAL SQLSTATE '22023' SET MESSAGE_TEXT = 'new_order: there is no such stock';
            ELSE
                SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'Item number is not valid';
            END IF;
            -- One row at most of each table, and this transaction's own version of the stock.
            SELECT i_price, i_name, s_quantity,
                ELT(p_d_id, s_dist_01, s_dist_02, s_dist_03, s_dist_04, s_dist_05, s_dist_06, s_dist_07, s_dist_08,
                    s_dist_09, s_dist_10),
                IF(LOCATE('ORIGINAL', i_data) > 0 AND LOCATE('ORIGINAL', s_data) > 0, 'B', 'G')
            INTO v_price, v_name, v_stock, v_info, v_brand
            FROM item STRAIGHT_JOIN stock
            WHERE i_id = v_item AND s_w_id = v_supplier AND s_i_id = v_item;
        END;
        SET v_amount = v_quantity * v_price;
        SET v_sum = v_sum + v_amount;
        INSERT INTO order_line
        VALUES (p_w_id, p_d_id, v_o_id, v_number, v_item, v_supplier, NULL, v_quantity, v_amount, v_info);
        SET v_out = CONCAT(v_out, v_supplier, '\t', v_item, '\t', v_name, '\t', v_quantity, '\t', v_stock, '\t',
            v_brand, '\t', v_price, '\t', v_amount, '\n');
    END WHILE;
    COMMIT;

    SELECT v_o_id, v_last, v_credit, v_discount, v_w_tax, v_d_tax, NOW(),
        v_sum * (1 - v_discount) * (1 + v_w_tax + v_d_tax) AS total, v_out AS order_lines;
END
