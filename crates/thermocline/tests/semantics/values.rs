//! The table over which expressions are evaluated: two columns of each type, with all pairs of their values.

/// A type and its values as SQL literals, NULL first.
pub struct Values {
    /// Prefix of its columns' names.
    pub name: &'static str,
    /// Its name in SQL.
    pub sql: &'static str,
    pub values: &'static [&'static str],
}

/// Whether values of a type are keys of indexes.
pub fn is_key(of: &Values) -> bool {
    of.sql != "JSONB"
}

/// Number of values of a type; rows are their pairs.
pub const VALUES: usize = 10;

pub const TYPES: &[Values] = &[
    Values { name: "bool", sql: "BOOLEAN", values: &["NULL", "TRUE", "FALSE"] },
    Values { name: "i2", sql: "SMALLINT", values: &["NULL", "0", "1", "-1", "7", "32767", "-32768", "100", "-5", "2"] },
    Values {
        name: "i4",
        sql: "INTEGER",
        values: &["NULL", "0", "1", "-2", "10", "2147483647", "-2147483648", "40000", "3", "-15"],
    },
    Values {
        name: "i8",
        sql: "BIGINT",
        values: &[
            "NULL",
            "0",
            "1",
            "-3",
            "9007199254740993",
            "9223372036854775807",
            "-9223372036854775808",
            "86400",
            "5",
            "-25",
        ],
    },
    Values {
        name: "f4",
        sql: "REAL",
        values: &["NULL", "0", "'-0'", "1.1", "2.5", "-3e38", "'NaN'", "'Infinity'", "16777216", "-0.00001"],
    },
    Values {
        name: "f8",
        sql: "DOUBLE PRECISION",
        values: &["NULL", "0", "'-0'", "1.5", "2.5", "-1e300", "'NaN'", "'Infinity'", "9007199254740992", "-0.1"],
    },
    Values {
        name: "dec",
        sql: "DECIMAL(9, 2)",
        values: &["NULL", "0", "1.50", "2.50", "-2.55", "9999999.99", "0.01", "1.00", "-0.50", "3.00"],
    },
    Values {
        name: "wide",
        sql: "DECIMAL(38, 10)",
        values: &[
            "NULL",
            "0",
            "1.5",
            "0.0000000001",
            "-2.5",
            "9999999999999999999999999999.9999999999",
            "9007199254740993",
            "3",
            "-7.25",
            "100",
        ],
    },
    Values {
        name: "txt",
        sql: "TEXT",
        values: &["NULL", "''", "'a'", "'abcdef'", "' 12 '", "'3.5'", "'2024-02-29'", "'true'", "'äöü%_'", "'-7'"],
    },
    Values { name: "vc", sql: "VARCHAR(3)", values: &["NULL", "''", "'b'", "'abc'", "'ß1'", "'  x'", "'12'"] },
    Values {
        name: "ch", sql: "CHAR(4)", values: &["NULL", "''", "'b'", "'abc '", "'abcd'", "' x  '", "'ß1'", "'12'"]
    },
    Values {
        name: "date",
        sql: "DATE",
        values: &[
            "NULL",
            "'2024-02-29'",
            "'1970-01-01'",
            "'0001-01-01'",
            "'9999-12-31'",
            "'2024-12-31'",
            "'1969-07-20'",
            "'2023-01-01'",
        ],
    },
    Values {
        name: "ts",
        sql: "TIMESTAMP",
        values: &[
            "NULL",
            "'2024-02-29 23:59:59.999999'",
            "'1970-01-01 00:00:00'",
            "'0001-01-01 00:00:00'",
            "'9999-12-31 23:59:59'",
            "'1969-12-31 12:34:56.789'",
            "'2024-03-31 01:00:00.5'",
        ],
    },
    Values {
        name: "uuid",
        sql: "UUID",
        values: &[
            "NULL",
            "'00000000-0000-0000-0000-000000000000'",
            "'{A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11}'",
            "'a0eebc999c0b4ef8bb6d6bb9bd380a12'",
            "'7fff-ffff-ffff-ffff-ffff-ffff-ffff-ffff'",
            "'ffffffff-ffff-ffff-ffff-ffffffffffff'",
        ],
    },
    Values {
        name: "tstz",
        sql: "TIMESTAMPTZ",
        values: &[
            "NULL",
            "'2024-02-29 23:59:59.999999+00'",
            "'1970-01-01 02:00:00+02'",
            "'0001-01-01 00:00:00Z'",
            "'9999-12-31 23:59:59'",
            "'1969-12-31 07:04:56.789 -05:30'",
            "'2024-03-31 02:30:00 Europe/Berlin'",
            "'2023-12-31 16:00:00 PST'",
        ],
    },
    Values {
        name: "json",
        sql: "JSONB",
        values: &[
            "NULL",
            "'{}'",
            "'{\"bb\": [1, 2, {\"n\": null}], \"a\": 1}'",
            "'[1, 2.50, \"a\", {\"a\": [3]}]'",
            "'\"a\"'",
            "'1.0'",
            "'1'",
            "'null'",
            "'true'",
            "'[]'",
        ],
    },
    Values { name: "bytes", sql: "BYTEA", values: &["NULL", "'\\x'", "'\\x00'", "'\\x61'", "'\\xff00'", "'\\xc3a4'"] },
];

/// Rows with a pair of values each: index of the left one times [`VALUES`] plus that of the right one.
pub fn pairs(left: &Values, right: &Values) -> Vec<i64> {
    let left = left.values.len();
    let right = right.values.len();
    (0..left).flat_map(|one| (0..right).map(move |other| (one * VALUES + other) as i64)).collect()
}

/// Rows with each value on the left.
pub fn singles(of: &Values) -> Vec<i64> {
    (0..of.values.len()).map(|place| (place * VALUES) as i64).collect()
}

/// The definition of the table under this name.
pub fn create_table(name: &str) -> String {
    let columns = TYPES.iter().map(|of| format!("l_{0} {1}, r_{0} {1}", of.name, of.sql));
    format!("CREATE TABLE {name} (id BIGINT PRIMARY KEY, {})", columns.collect::<Vec<_>>().join(", "))
}

/// The definition of a view over objects with its rows, which store documents as texts.
pub fn create_view(name: &str, objects: &str) -> String {
    let column = |side: &str, of: &Values| match is_key(of) {
        true => format!("{side}_{}", of.name),
        false => format!("CAST({side}_{0} AS {1}) AS {side}_{0}", of.name, of.sql),
    };
    let columns = TYPES.iter().flat_map(|of| [column("l", of), column("r", of)]);
    format!("CREATE VIEW {name} AS SELECT id, {} FROM {objects}", columns.collect::<Vec<_>>().join(", "))
}

/// Its rows.
pub fn inserts() -> Vec<String> {
    let value = |of: &Values, place: usize| of.values.get(place % of.values.len()).copied().unwrap_or("NULL");
    let row = |id: usize| {
        let (left, right) = (id / VALUES, id % VALUES);
        let columns =
            TYPES.iter().flat_map(|of| [left, right].map(|place| format!("CAST({} AS {})", value(of, place), of.sql)));
        format!("INSERT INTO p VALUES ({id}, {})", columns.collect::<Vec<_>>().join(", "))
    };
    (0..VALUES * VALUES).map(row).collect()
}
