-- Clause 2.5. One of p_c_id and p_c_last is NULL. The rows of the district and the warehouse, which other payments wait
-- for, are locked last; their names and addresses never change.
CREATE PROCEDURE payment(
    p_w_id INT, p_d_id INT, p_c_w_id INT, p_c_d_id INT, p_c_id INT, p_c_last VARCHAR(16), p_amount DECIMAL(6, 2)
) MODIFIES SQL DATA
BEGIN
    DECLARE v_named, v_count INT;
    DECLARE v_d_name, v_w_name VARCHAR(10);
    DECLARE EXIT HANDLER FOR SQLEXCEPTION
    BEGIN
        ROLLBACK;
        RESIGNAL;
    END;
    DECLARE EXIT HANDLER FOR NOT FOUND
    BEGIN
        ROLLBACK;
        SIGNAL SQLSTATE '22023' SET MESSAGE_TEXT = 'payment: there is no such warehouse, district or customer';
    END;

    START TRANSACTION;
    IF p_c_id IS NULL THEN
        SELECT COUNT(*) INTO v_named
        FROM customer WHERE c_w_id = p_c_w_id AND c_d_id = p_c_d_id AND c_last = p_c_last;
        SET v_named = GREATEST(v_named - 1, 0) DIV 2;
        SELECT c_id INTO p_c_id
        FROM customer WHERE c_w_id = p_c_w_id AND c_d_id = p_c_d_id AND c_last = p_c_last
        ORDER BY c_first LIMIT v_named, 1;
    END IF;
    UPDATE customer
    SET c_balance = c_balance - p_amount,
        c_ytd_payment = c_ytd_payment + p_amount,
        c_payment_cnt = c_payment_cnt + 1,
        c_data = IF(c_credit = 'BC',
            LEFT(CONCAT(c_id, ' ', c_d_id, ' ', c_w_id, ' ', p_d_id, ' ', p_w_id, ' ', p_amount, ' | ', c_data), 500),
            c_data)
    WHERE c_w_id = p_c_w_id AND c_d_id = p_c_d_id AND c_id = p_c_id;
    SELECT c_payment_cnt, w_name, d_name INTO v_count, v_w_name, v_d_name
    FROM warehouse STRAIGHT_JOIN district STRAIGHT_JOIN customer
    WHERE w_id = p_w_id AND d_w_id = p_w_id AND d_id = p_d_id
        AND c_w_id = p_c_w_id AND c_d_id = p_c_d_id AND c_id = p_c_id;
    INSERT INTO history VALUES (
        p_c_id, p_c_d_id, p_c_w_id, p_d_id, p_w_id, NOW(), p_amount, CONCAT(v_w_name, '    ', v_d_name), v_count
    );
    SELECT c_id, c_credit, c_first, c_middle, c_last, c_street_1, c_street_2, c_city, c_state, c_zip, c_phone, c_since,
        c_credit_lim, c_discount, c_balance, IF(c_credit = 'BC', LEFT(c_data, 200), NULL),
        w_name, w_street_1, w_street_2, w_city, w_state, w_zip, d_name, d_street_1, d_street_2, d_city, d_state, d_zip
    FROM warehouse STRAIGHT_JOIN district STRAIGHT_JOIN customer
    WHERE w_id = p_w_id AND d_w_id = p_w_id AND d_id = p_d_id
        AND c_w_id = p_c_w_id AND c_d_id = p_c_d_id AND c_id = p_c_id;
    UPDATE district SET d_ytd = d_ytd + p_amount WHERE d_w_id = p_w_id AND d_id = p_d_id;
    UPDATE warehouse SET w_ytd = w_ytd + p_amount WHERE w_id = p_w_id;
    COMMIT;
END
