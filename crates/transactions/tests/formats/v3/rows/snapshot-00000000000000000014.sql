CREATE TABLE types (
    k BIGINT NOT NULL,
    b BOOLEAN,
    s SMALLINT,
    i INTEGER,
    f DOUBLE PRECISION,
    m DECIMAL(20, 4),
    t TEXT,
    v VARCHAR(10),
    x BYTEA,
    d DATE,
    ts TIMESTAMP,
    CONSTRAINT types_pkey PRIMARY KEY (k) USING HASH
) PARTITION BY (k);

CREATE TABLE accounts (
    "id" BIGINT NOT NULL,
    "owner" TEXT NOT NULL,
    balance DECIMAL(12, 2) NOT NULL,
    opened TIMESTAMP DEFAULT now(),
    token TEXT DEFAULT uuid()::TEXT,
    CONSTRAINT accounts_pkey PRIMARY KEY ("id") USING HASH,
    CONSTRAINT accounts_balance_check CHECK (balance >= 0)
) PARTITION BY ("id");
CREATE INDEX accounts_owner ON accounts USING BTREE ("owner");

CREATE TABLE countries (
    code TEXT NOT NULL,
    "name" TEXT NOT NULL,
    CONSTRAINT countries_pkey PRIMARY KEY (code) USING HASH
);
CREATE UNIQUE INDEX countries_name ON countries USING BTREE ("name");

CREATE TABLE gone (
    k BIGINT NOT NULL,
    CONSTRAINT gone_pkey PRIMARY KEY (k) USING HASH
);

CREATE PROCEDURE open_account("id" BIGINT, "owner" TEXT, balance DECIMAL(12, 2)) PARTITION ON ("id") LANGUAGE lua AS $$
    local words = {}
    for word in owner:gmatch('%a+') do words[#words + 1] = word end
    if #words == 0 then db.abort('no name', 'AC400') end
    db.execute('INSERT INTO accounts (id, owner, balance) VALUES ($1, $2, $3)', id, table.concat(words, ' '), balance)
    return id
$$;

CREATE PROCEDURE transfer("source" BIGINT, "target" BIGINT, amount DECIMAL(12, 2)) LANGUAGE SQL AS $$
    UPDATE accounts SET balance = balance - amount WHERE id = source;
    UPDATE accounts SET balance = balance + amount WHERE id = target;
    SELECT id, balance FROM accounts WHERE id IN (source, target) ORDER BY id;
$$;

