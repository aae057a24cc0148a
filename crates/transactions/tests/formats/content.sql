-- What a database of the tests of formats holds: statements one behind the other, each ended by a line with
-- nothing but a semicolon. Nothing in it may depend on semantics that are known to change.
CREATE TABLE types (
    k BIGINT PRIMARY KEY, b BOOLEAN, s SMALLINT, i INTEGER, f DOUBLE PRECISION, m DECIMAL(20, 4), t TEXT,
    v VARCHAR(10), x BYTEA, d DATE, ts TIMESTAMP
) PARTITION BY (k)
;
INSERT INTO types VALUES
    (1, true, -32768, 2147483647, 0.1, 1234567890123456.7891, 'Grüße, 世界', 'ten chars.', '\x00ff10', '2024-02-29',
     '1969-12-31 23:59:59.999999'),
    (2, false, 32767, -2147483648, -1e300, -0.0001, '', '', '\x', '0001-01-01', '9999-12-31 00:00:00'),
    (9223372036854775807, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
    (-9223372036854775808, true, 0, 0, 0, 0, 'it''s', 'a|b', '\x61', '1970-01-01', '1970-01-01 00:00:00')
;
CREATE TABLE accounts (
    id BIGINT PRIMARY KEY, owner TEXT NOT NULL, balance DECIMAL(12, 2) NOT NULL CHECK (balance >= 0),
    opened TIMESTAMP DEFAULT now(), token TEXT DEFAULT uuid()::text
) PARTITION BY (id)
;
CREATE INDEX accounts_owner ON accounts (owner)
;
CREATE TABLE countries (code TEXT PRIMARY KEY, name TEXT NOT NULL)
;
CREATE UNIQUE INDEX countries_name ON countries (name)
;
INSERT INTO countries VALUES ('de', 'Germany'), ('fr', 'France'), ('jp', 'Japan')
;
CREATE PROCEDURE transfer(source BIGINT, target BIGINT, amount DECIMAL(12, 2)) LANGUAGE SQL AS $$
    UPDATE accounts SET balance = balance - amount WHERE id = source;
    UPDATE accounts SET balance = balance + amount WHERE id = target;
    SELECT id, balance FROM accounts WHERE id IN (source, target) ORDER BY id;
$$
;
CREATE PROCEDURE open_account(id BIGINT, owner TEXT, balance DECIMAL(12, 2)) PARTITION ON (id) LANGUAGE lua AS $$
    local words = {}
    for word in owner:gmatch('%a+') do words[#words + 1] = word end
    if #words == 0 then db.abort('no name', 'AC400') end
    db.execute('INSERT INTO accounts (id, owner, balance) VALUES ($1, $2, $3)', id, table.concat(words, ' '), balance)
    return id
$$
;
CALL open_account(1, 'Ada,  Lovelace', 100.50)
;
CALL open_account(2, 'Grace Hopper', 20)
;
CALL open_account(3, 'Ada Byron', 0)
;
CALL open_account(10, 'Alan Turing', 7.25)
;
CREATE TABLE gone (k BIGINT PRIMARY KEY)
;
-- snapshot
CALL transfer(1, 3, 30.25)
;
CALL open_account(11, 'Kurt Gödel', 1000000.01)
;
UPDATE accounts SET balance = balance + 1 WHERE owner = 'Grace Hopper'
;
DROP TABLE gone
;
BEGIN
;
INSERT INTO accounts (id, owner, balance) VALUES (20, 'Emmy Noether', 1), (21, 'David Hilbert', 2)
;
UPDATE countries SET name = 'Deutschland' WHERE code = 'de'
;
DELETE FROM accounts WHERE id = 10
;
COMMIT
;
ALTER TABLE accounts ADD COLUMN country TEXT DEFAULT 'fr'
;
UPDATE accounts SET country = 'jp' WHERE id = 11
;
CREATE OR REPLACE PROCEDURE open_account(id BIGINT, owner TEXT, balance DECIMAL(12, 2)) PARTITION ON (id) LANGUAGE lua AS $$
    db.execute('INSERT INTO accounts (id, owner, balance, country) VALUES ($1, upper($2), $3, $4)', id, owner, balance, 'de')
$$
;
CALL open_account(12, 'Felix Klein', 12.34)
;
DELETE FROM types WHERE k = 2
;
UPDATE types SET t = t || '!', m = m + 0.0001, ts = now() WHERE k = 1
;
CREATE TABLE late (a TEXT, b INTEGER, PRIMARY KEY (a, b)) PARTITION BY (a)
;
INSERT INTO late VALUES ('x', 1), ('x', 2), ('y', 1) ON CONFLICT DO NOTHING
;
INSERT INTO late VALUES ('x', 1), ('z', 3) ON CONFLICT DO NOTHING
;
