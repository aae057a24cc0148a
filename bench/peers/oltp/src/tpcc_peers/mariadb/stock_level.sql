-- Clause 2.8: the number of items in the district's last twenty orders of which less than the threshold is in stock.
CREATE PROCEDURE stock_level(p_w_id INT, p_d_id INT, p_threshold INT) READS SQL DATA
BEGIN
    DECLARE v_next INT;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION
    BEGIN
        ROLLBACK;
        RESIGNAL;
    END;
    DECLARE EXIT HANDLER FOR NOT FOUND
    BEGIN
        ROLLBACK;
        SIGNAL SQLSTATE '22023' SET MESSAGE_TEXT = 'stock_level: there is no such district';
    END;

    START TRANSACTION READ ONLY;
    SELECT d_next_o_id INTO v_next FROM district WHERE d_w_id = p_w_id AND d_id = p_d_id;
    SELECT COUNT(DISTINCT s_i_id)
    FROM order_line STRAIGHT_JOIN stock ON s_w_id = ol_w_id AND s_i_id = ol_i_id
    WHERE ol_w_id = p_w_id AND ol_d_id = p_d_id AND ol_o_id >= v_next - 20 AND ol_o_id < v_next
        AND s_quantity < p_threshold;
    COMMIT;
END
