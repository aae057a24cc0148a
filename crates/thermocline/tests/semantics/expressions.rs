//! The expressions.

use super::values::{TYPES, Values, pairs, singles};

/// An expression over the table's columns.
#[derive(Debug, Clone)]
pub struct Expression {
    pub sql: String,
    /// Its class for the report: the operator or function with its types.
    pub class: String,
    /// Rows over which it is evaluated.
    pub rows: Vec<i64>,
}

const OPERATORS: &[&str] = &[
    "+",
    "-",
    "*",
    "/",
    "%",
    "^",
    "||",
    "=",
    "<>",
    "<",
    "<=",
    "IS DISTINCT FROM",
    "AND",
    "OR",
    "LIKE",
    "->",
    "->>",
    "@>",
    "?",
];

/// Expressions that return one of several values, of any types.
const CHOICES: &[&str] = &[
    "coalesce(x, y)",
    "greatest(x, y)",
    "least(x, y)",
    "nullif(x, y)",
    "CASE WHEN x IS NULL THEN y ELSE x END",
    "CASE x WHEN y THEN 1 ELSE 2 END",
    "x IN (y, y)",
];

/// Literals beside a column; the type of some depends on it.
const LITERALS: &[&str] = &[
    "1",
    "2.5",
    "-3",
    "0",
    "1e3",
    "'1'",
    "'abc'",
    "''",
    "'abc  '",
    "CHAR(5) 'abc'",
    "'2024-01-31'",
    "'t'",
    "NULL",
    "TRUE",
    "40000",
    "3000000000",
    "DATE '2024-01-31'",
    "TIMESTAMP '2024-01-31 12:00:00'",
    "INTERVAL '1 day'",
    "INTERVAL '1 month'",
    "INTERVAL '1.5 hours'",
    "'5 days'",
    "'A0EEBC999C0B4EF8BB6D6BB9BD380A11'",
    "UUID '{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a12}'",
    "TIMESTAMPTZ '2024-01-31 12:00:00+02'",
    "'2024-01-31 12:00:00+02'",
    "'[1]'",
    "'{\"a\": 1}'",
];

const CASTS: &[&str] = &[
    "BOOLEAN",
    "SMALLINT",
    "INTEGER",
    "BIGINT",
    "REAL",
    "DOUBLE PRECISION",
    "DECIMAL(9, 2)",
    "DECIMAL(5, 0)",
    "NUMERIC",
    "DECIMAL(38, 10)",
    "TEXT",
    "VARCHAR(3)",
    "CHAR(3)",
    "CHARACTER",
    "BPCHAR",
    "VARCHAR",
    "DATE",
    "TIMESTAMP",
    "TIMESTAMPTZ",
    "BYTEA",
    "UUID",
    "JSONB",
];

/// Functions with arguments: `x` is the column, `y` the other of its type, `t` text, `n` an integer.
const FUNCTIONS: &[&str] = &[
    "-x",
    "+x",
    "NOT x",
    "x IS NULL",
    "x IS NOT NULL",
    "x IS TRUE",
    "x IS NOT FALSE",
    "x IS UNKNOWN",
    "abs(x)",
    "ceil(x)",
    "ceiling(x)",
    "floor(x)",
    "round(x)",
    "round(x, 1)",
    "round(x, -1)",
    "round(x, 0)",
    "trunc(x)",
    "trunc(x, 1)",
    "trunc(x, -1)",
    "sign(x)",
    "sqrt(x)",
    "cbrt(x)",
    "exp(x)",
    "ln(x)",
    "log(x)",
    "log10(x)",
    "log(2, x)",
    "power(x, 2)",
    "power(2, x)",
    "mod(x, y)",
    "mod(x, 3)",
    "div(x, y)",
    "gcd(x, y)",
    "lcm(x, y)",
    "pi()",
    "sin(x)",
    "cos(x)",
    "tan(x)",
    "asin(x)",
    "acos(x)",
    "atan(x)",
    "atan2(x, y)",
    "degrees(x)",
    "radians(x)",
    "factorial(x)",
    "coalesce(x, 1)",
    "coalesce(x, 2.5)",
    "coalesce(x, 'a')",
    "length(x)",
    "char_length(x)",
    "character_length(x)",
    "octet_length(x)",
    "bit_length(x)",
    "lower(x)",
    "upper(x)",
    "initcap(x)",
    "reverse(x)",
    "left(x, 2)",
    "left(x, -1)",
    "right(x, 2)",
    "right(x, -1)",
    "substring(x, 2)",
    "substr(x, 2, 2)",
    "substring(x FROM 2 FOR 1)",
    "substring(x, -1, 3)",
    "substring(x, 0)",
    "position('b' IN x)",
    "strpos(x, 'b')",
    "trim(x)",
    "btrim(x)",
    "ltrim(x)",
    "rtrim(x)",
    "trim('a' FROM x)",
    "trim(LEADING ' ' FROM x)",
    "ltrim(x, 'ab')",
    "rtrim(x, 'ef')",
    "btrim(x, 'af')",
    "lpad(x, 5)",
    "lpad(x, 5, 'xy')",
    "lpad(x, 2)",
    "rpad(x, 5)",
    "rpad(x, 5, 'xy')",
    "rpad(x, -1)",
    "repeat(x, 2)",
    "repeat(x, 0)",
    "repeat(x, -1)",
    "replace(x, 'b', 'XX')",
    "replace(x, '', 'a')",
    "concat(x)",
    "concat(x, y)",
    "concat(x, NULL, 1)",
    "concat_ws('-', x, y)",
    "split_part(x, 'b', 1)",
    "split_part(x, 'b', -1)",
    "starts_with(x, 'a')",
    "ascii(x)",
    "chr(x)",
    "md5(x)",
    "to_hex(x)",
    "translate(x, 'abc', 'x')",
    "overlay(x PLACING 'ZZ' FROM 2 FOR 1)",
    "encode(x, 'hex')",
    "decode(x, 'hex')",
    "encode(x, 'base64')",
    "encode(x, 'escape')",
    "decode(x, 'base64')",
    "decode(x, 'escape')",
    "sha256(x)",
    "regexp_replace(x, 'b.', 'Z')",
    "regexp_like(x, 'b')",
    "regexp_count(x, 'b')",
    "x ~ 'b'",
    "x ILIKE 'A%'",
    "x LIKE '%_%'",
    "x NOT LIKE 'a%'",
    "x SIMILAR TO 'a%'",
    "x NOT SIMILAR TO '(a|b)[b-d]*_?'",
    "x SIMILAR TO 'a!%' ESCAPE '!'",
    "x BETWEEN y AND y",
    "x NOT BETWEEN 0 AND 5",
    "x BETWEEN 1.1 AND 2.5",
    "x IN (1, 2, 3)",
    "x IN (1, 2.5)",
    "x IN (1.1, 2.5)",
    "x IN (1.1)",
    "x IN (2, y, 1.1)",
    "x IN (2, y, '1.1')",
    "x IN (CAST(1.1 AS REAL), 2.5)",
    "x NOT IN (1.1, 16777217)",
    "x IN (1.1, CAST(2.5 AS DOUBLE PRECISION))",
    "x IN (y, NULL)",
    "x NOT IN (y)",
    "x = ANY (ARRAY[y])",
    "CASE WHEN x = y THEN x ELSE y END",
    "CASE x WHEN y THEN 1 ELSE 2.5 END",
    "CASE WHEN x IS NULL THEN 1 END",
    "CASE WHEN TRUE THEN x ELSE NULL END",
    "EXTRACT(year FROM x)",
    "EXTRACT(quarter FROM x)",
    "EXTRACT(month FROM x)",
    "EXTRACT(week FROM x)",
    "EXTRACT(day FROM x)",
    "EXTRACT(hour FROM x)",
    "EXTRACT(minute FROM x)",
    "EXTRACT(second FROM x)",
    "EXTRACT(dow FROM x)",
    "EXTRACT(isodow FROM x)",
    "EXTRACT(doy FROM x)",
    "EXTRACT(epoch FROM x)",
    "EXTRACT(milliseconds FROM x)",
    "EXTRACT(microseconds FROM x)",
    "EXTRACT(century FROM x)",
    "EXTRACT(decade FROM x)",
    "EXTRACT(millennium FROM x)",
    "EXTRACT(isoyear FROM x)",
    "date_part('year', x)",
    "date_part('second', x)",
    "date_part('epoch', x)",
    "date_part('dow', x)",
    "date_trunc('year', x)",
    "date_trunc('quarter', x)",
    "date_trunc('month', x)",
    "date_trunc('week', x)",
    "date_trunc('day', x)",
    "date_trunc('hour', x)",
    "date_trunc('minute', x)",
    "date_trunc('second', x)",
    "date_trunc('milliseconds', x)",
    "date_trunc('decade', x)",
    "make_date(2024, 2, 29)",
    "EXTRACT(timezone FROM x)",
    "EXTRACT(timezone_hour FROM x)",
    "date_part('timezone_minute', x)",
    "x AT TIME ZONE 'UTC'",
    "x AT TIME ZONE 'Europe/Berlin'",
    "x AT TIME ZONE 'america/new_york'",
    "x AT TIME ZONE 'PST'",
    "x AT TIME ZONE '+02:30'",
    "x AT TIME ZONE 'UTC-2'",
    "x AT TIME ZONE 'Mars/Olympus'",
    "x AT TIME ZONE INTERVAL '2 hours 30 minutes'",
    "x AT TIME ZONE INTERVAL '1 day'",
    "timezone('Asia/Kolkata', x)",
    "x AT TIME ZONE 'UTC' AT TIME ZONE 'Europe/Berlin'",
    "CAST(CAST(date_trunc('second', x) AS TEXT) AS TIMESTAMPTZ)",
    "date_trunc('month', x) AT TIME ZONE 'Australia/Sydney'",
    "to_char(x, 'YYYY-MM-DD')",
    "to_char(x, 'FMDay, DDth FMMonth YYYY, HH12:MI:SS.US am')",
    "to_char(x, 'DAY|day|Dy|MON|mon|RM|rm|Q|CC|J|D|ID|DDD|IDDD|W|WW|IW|IYYY|Y,YYY|YY')",
    "to_char(x, 'HH24:MI:SS,MS P.M. \"at\" TZ OF SSSS')",
    "to_char(x, '999')",
    "to_char(x, '999,999.99')",
    "to_char(x, 'FM999,999.99')",
    "to_char(x, '0000.00S')",
    "to_char(x, 'S999G999D9')",
    "to_char(x, 'FM9990.099')",
    "to_char(x, '9999.99PR')",
    "to_char(x, 'MI99.9')",
    "to_char(x, '99PL.9')",
    "to_char(x, 'RN')",
    "to_char(x, 'FM99th')",
    "to_char(x, '99V99')",
    "to_char(x, '9.99EEEE')",
    "to_char(x, 'L9,999')",
    "to_char(x, '')",
    "x + INTERVAL '1 day'",
    "x - INTERVAL '1 month'",
    "x + INTERVAL '1 year 2 months 3 days 04:05:06.789'",
    "INTERVAL '1 day' + x",
    "x + INTERVAL '1.5 hours'",
    "x + INTERVAL '1' DAY",
    "x + 1",
    "x - 1",
    "x * 2",
    "x / 2",
    "x * 1.1",
    "x + 1.5",
    "x / 3.0",
    "x % 3",
    "x ^ 2",
    "x + 1e2",
    "1 - x",
    "2 / x",
    "10.0 / x",
    "x IN ('a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '{7FFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF}')",
    "x NOT IN ('a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', y)",
    "x BETWEEN '00000000000000000000000000000001' AND 'f0000000000000000000000000000000'",
    "coalesce(x, 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11')",
    "coalesce(NULL, x)",
    "greatest(x, 'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11', y)",
    "least('{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}', x)",
    "nullif(x, 'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11')",
    "nullif('a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', x)",
    "CASE WHEN x IS NULL THEN '00000000-0000-0000-0000-000000000000' ELSE x END",
    "CASE x WHEN 'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11' THEN 1 ELSE 2 END",
    "CASE WHEN x IS NOT NULL THEN x END",
    "CAST(CAST(x AS TEXT) AS UUID)",
    "CAST(concat('A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A1', length(x)) AS UUID)",
    "jsonb_typeof(x)",
    "jsonb_array_length(x)",
    "jsonb_extract_path(x, 'a')",
    "jsonb_extract_path(x, 'bb', '2', 'n')",
    "jsonb_extract_path_text(x, 'bb', '-2')",
    "jsonb_object_field(x, 'a')",
    "jsonb_array_element_text(x, 1)",
    "x -> 'bb' -> 2 ->> 'n' IS NULL",
    "x ->> -1",
    "x #> '{bb,2,n}'",
    "x #> '{}'",
    "x #>> '{3,a,0}'",
    "x #>> '{a,NULL}'",
    "x <@ y",
    "y <@ x",
    "x <@ '[1, 2.5, \"a\", 3]'",
    "x ?| '{a,bb}'",
    "x ?& '{a,bb}'",
    "x - 'a' - 'bb'",
    "x - 0",
    "x || y || '1'",
    "x BETWEEN '1' AND '[1]'",
    "x IN ('1', '{}')",
    "x NOT IN (y, '[]')",
    "CASE x WHEN '1' THEN 'one' WHEN y THEN 'same' END",
    "coalesce(x, '[1]')",
    "greatest(x, '[1]')",
    "least('1', x, y)",
    "nullif(x, '1')",
    "CAST(x -> 'a' AS INTEGER)",
    "CAST(x AS TEXT) LIKE '%a%'",
    "num_nulls(x, y)",
    "num_nonnulls(x, y)",
];

/// Expressions without columns.
const CONSTANTS: &[&str] = &[
    "TIMESTAMPTZ '2024-02-03 04:05:06'",
    "TIMESTAMP WITH TIME ZONE '2024-02-03 04:05:06.25 +02:30'",
    "TIMESTAMPTZ '2024-02-03T04:05:06Z'",
    "TIMESTAMPTZ '2024-02-03 04:05-0530'",
    "TIMESTAMPTZ '2024-02-03 04:05:06+01:02:03'",
    "TIMESTAMPTZ '2024-02-03+02'",
    "TIMESTAMPTZ '2024-02-03 -02'",
    "TIMESTAMPTZ '2024-02-03 04:05:06 Asia/Kathmandu'",
    "TIMESTAMPTZ '2024-03-31 02:30 Europe/Berlin'",
    "TIMESTAMPTZ '2024-10-27 02:30 Europe/Berlin'",
    "TIMESTAMPTZ '2024-10-27 02:30 CEST'",
    "TIMESTAMPTZ '2024-02-03 04:05:06 x'",
    "TIMESTAMPTZ '2024-02-03 04:05:06+16'",
    "TIMESTAMPTZ '2024-02-03 04:05:06 Europe/Nowhere'",
    "TIMESTAMPTZ '2024-02-30 00:00+00'",
    "TIMESTAMP '2150-07-01 12:00' AT TIME ZONE 'America/Los_Angeles'",
    "TIMESTAMPTZ '9990-07-01 12:00Z' AT TIME ZONE 'Australia/Sydney'",
    "TIMESTAMPTZ '1900-01-01 12:00Z' AT TIME ZONE 'Europe/Paris'",
    "CAST(now() - current_timestamp AS TEXT)",
    "now() > TIMESTAMP '2024-01-01 00:00:00'",
    "localtimestamp = now()",
    "TIMESTAMP '2024-02-29 24:00:00'",
    "TIMESTAMP '2024-02-29 24:00:01'",
    "TIMESTAMP '2024-02-29 23:59:60'",
    "TIMESTAMP '2024-02-29 23:59:61'",
    "TIMESTAMPTZ '2024-12-31 24:00:00+02'",
    "TIMESTAMP 'epoch'",
    "TIMESTAMPTZ 'epoch'",
    "DATE 'epoch'",
    "DATE '20240229'",
    "DATE '2024-02-29 24:00:00'",
    "DATE '2024-02-29 23:59:60+02'",
    "DATE '2024-02-29 23:59:59.9999999'",
    "DATE '2024-002-29'",
    "ROW(1, NULL) = ROW(1, 2)",
    "ROW(1, NULL) < (1, 2)",
    "(1, 2) >= ROW(1, NULL)",
    "ROW(1, NULL) IN (ROW(1, 2), ROW(2, 3))",
    "ROW(1, NULL) NOT IN (ROW(2, 2), ROW(2, 3))",
    "ROW(1, NULL) IS DISTINCT FROM ROW(1, NULL)",
    "ROW(1, NULL) IS NULL",
    "ROW(NULL, NULL) IS NULL",
    "DATE '20240230'",
    "TIMESTAMP '20240229 12:30'",
    "CAST('2024-02-29 01:02:03.1234565' AS TIMESTAMP) < '2024-02-29 01:02:03.1234564'",
    "CAST('tr' AS BOOLEAN)",
    "CAST('FAL' AS BOOLEAN)",
    "CAST('of' AS BOOLEAN)",
    "CAST('o' AS BOOLEAN)",
    "CAST('ye' AS BOOLEAN) AND CAST('n' AS BOOLEAN)",
    "CAST('truee' AS BOOLEAN)",
];

pub fn all() -> Vec<Expression> {
    let mut all = vec![];
    for constant in CONSTANTS {
        all.push(Expression { sql: (*constant).to_owned(), class: (*constant).to_owned(), rows: vec![0] });
    }
    for left in TYPES {
        for right in TYPES {
            for operator in OPERATORS {
                let sql = format!("l_{} {operator} r_{}", left.name, right.name);
                all.push(Expression {
                    class: format!("{} {operator} {}", left.name, right.name),
                    sql,
                    rows: pairs(left, right),
                });
            }
            for choice in CHOICES {
                let class = format!("{choice} of {} and {}", left.name, right.name);
                all.push(Expression { class, sql: with_columns(choice, left, right), rows: pairs(left, right) });
            }
        }
    }
    for of in TYPES {
        for operator in OPERATORS {
            for literal in LITERALS {
                all.push(single(of, format!("x {operator} {literal}")));
                all.push(single(of, format!("{literal} {operator} x")));
            }
        }
        for to in CASTS {
            all.push(single(of, format!("CAST(x AS {to})")));
        }
        for function in FUNCTIONS {
            let rows = if has_word(function, 'y') { pairs(of, of) } else { singles(of) };
            all.push(Expression {
                sql: with_columns(function, of, of),
                class: format!("{function} of {}", of.name),
                rows,
            });
        }
    }
    all
}

fn single(of: &Values, template: String) -> Expression {
    Expression { sql: with_columns(&template, of, of), class: format!("{template} of {}", of.name), rows: singles(of) }
}

fn has_word(template: &str, word: char) -> bool {
    words(template).any(|(text, is_word)| is_word && text.len() == 1 && text.starts_with(word))
}

/// Replaces `x` and `y` by the columns, except within strings.
fn with_columns(template: &str, left: &Values, right: &Values) -> String {
    words(template)
        .map(|(text, is_word)| match text {
            "x" if is_word => format!("l_{}", left.name),
            "y" if is_word => format!("r_{}", right.name),
            _ => text.to_owned(),
        })
        .collect()
}

/// Words and the text between them; a string is not a word.
fn words(template: &str) -> impl Iterator<Item = (&str, bool)> {
    let mut rest = template;
    std::iter::from_fn(move || {
        let first = rest.chars().next()?;
        let is_word = first.is_ascii_alphanumeric() || first == '_';
        let end = if first == '\'' {
            rest[1..].find('\'').map_or(rest.len(), |end| end + 2)
        } else {
            let same = |c: char| (c.is_ascii_alphanumeric() || c == '_') == is_word && c != '\'';
            rest.find(|c| !same(c)).unwrap_or(rest.len())
        };
        let (word, others) = rest.split_at(end);
        rest = others;
        Some((word, is_word))
    })
}
