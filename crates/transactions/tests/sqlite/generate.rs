//! Random statements of the subset with the same meaning in both databases.
//!
//! Left out on purpose, because the two differ by design: division by zero (an error here, NULL there),
//! overflow (an error here, a float there), averages (decimals here, floats there), comparing values of
//! different types, and updates of several rows' unique keys that exchange them.

use rand::Rng;
use rand::rngs::StdRng;

/// Tables: t0 has a composite index; t1 a unique one and a CHECK, and is replicated.
pub const TABLES: [(&str, &str); 7] = [
    ("CREATE TABLE t0 (k BIGINT PRIMARY KEY, a BIGINT, b BIGINT NOT NULL DEFAULT 5, s TEXT)", " PARTITION BY (k)"),
    ("CREATE INDEX t0_ab ON t0 (a, b)", ""),
    ("CREATE TABLE t1 (k BIGINT PRIMARY KEY, a BIGINT, b BIGINT CHECK (b < 60), s TEXT NOT NULL)", ""),
    ("CREATE UNIQUE INDEX t1_a ON t1 (a)", ""),
    ("CREATE INDEX t1_s ON t1 (s)", ""),
    ("CREATE TABLE t2 (k BIGINT PRIMARY KEY, a BIGINT, b BIGINT, s TEXT DEFAULT 'none')", " PARTITION BY (k)"),
    ("CREATE INDEX t2_b ON t2 (b)", ""),
];

pub struct Statement {
    pub sql: String,
    /// Whether the order of the rows is determined.
    pub ordered: bool,
}

pub struct Generator<'r> {
    pub random: &'r mut StdRng,
    /// Tables whose columns may be used.
    tables: Vec<String>,
}

impl<'r> Generator<'r> {
    pub fn new(random: &'r mut StdRng) -> Self {
        Self { random, tables: Vec::new() }
    }

    fn below(&mut self, n: usize) -> usize {
        self.random.random_range(0..n)
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len())]
    }

    pub fn statement(&mut self) -> Statement {
        match self.below(10) {
            0..3 => self.insert(),
            3 => self.update(),
            4 => self.delete(),
            _ => self.select(),
        }
    }

    fn key(&mut self) -> i64 {
        self.random.random_range(0..40)
    }

    fn int(&mut self) -> String {
        match self.random.random_range(-12..50_i64) {
            negative @ ..-10 => format!("({negative})"),
            -10..0 => "NULL".into(),
            other => other.to_string(),
        }
    }

    fn text(&mut self) -> String {
        self.pick(&["'a'", "'b'", "'ab'", "'abc'", "''", "'B'", "'b_c'", "'a%'", "'zz z'", "NULL"]).into()
    }

    fn column(&mut self, names: &[&str]) -> String {
        let (table, name) = (self.below(self.tables.len()), self.pick(names));
        format!("{}.{name}", self.tables[table])
    }

    fn int_expression(&mut self, depth: usize) -> String {
        if depth == 0 {
            return if self.below(3) == 0 { self.int() } else { self.column(&["k", "a", "b"]) };
        }
        let (one, other) = (self.int_expression(depth - 1), self.int_expression(depth - 1));
        match self.below(12) {
            0..2 => format!("({one} + {other})"),
            2 => format!("({one} - {other})"),
            3 => format!("({one} * {other})"),
            4 => format!("({one} / {})", self.random.random_range(1..9)),
            5 => format!("({one} % {})", self.random.random_range(1..9)),
            6 => format!("coalesce({one}, {other})"),
            7 => format!("nullif({one}, {other})"),
            8 => format!("abs({one})"),
            9 => format!("length({})", self.text_expression(depth - 1)),
            10 => format!("CASE WHEN {} THEN {one} ELSE {other} END", self.condition(depth - 1)),
            _ => format!("(- {one})"),
        }
    }

    fn text_expression(&mut self, depth: usize) -> String {
        if depth == 0 {
            return if self.below(3) == 0 { self.text() } else { self.column(&["s"]) };
        }
        let (one, other) = (self.text_expression(depth - 1), self.text_expression(depth - 1));
        match self.below(7) {
            0 => format!("({one} || {other})"),
            1 => format!("upper({one})"),
            2 => format!("lower({one})"),
            3 => format!("coalesce({one}, {other})"),
            4 => format!("substr({one}, {}, {})", 1 + self.below(3), self.below(4)),
            5 => format!("CASE WHEN {} THEN {one} END", self.condition(depth - 1)),
            _ => format!("nullif({one}, {other})"),
        }
    }

    fn condition(&mut self, depth: usize) -> String {
        let operator = self.pick(&["=", "<>", "<", "<=", ">", ">="]);
        if depth == 0 {
            return match self.below(8) {
                0 => format!("{} {operator} {}", self.column(&["s"]), self.text()),
                1 => format!("{} IS NULL", self.column(&["a", "b", "s"])),
                2 => format!("{} IS NOT NULL", self.column(&["a", "b", "s"])),
                3 => format!("{} LIKE {}", self.column(&["s"]), self.pick(&["'a%'", "'%b%'", "'_b'", "'%'", "''"])),
                4 => format!("{} = {}", self.column(&["k"]), self.key()),
                5 => format!("{} BETWEEN {} AND {}", self.column(&["k", "a", "b"]), self.int(), self.int()),
                _ => format!("{} {operator} {}", self.column(&["k", "a", "b"]), self.int()),
            };
        }
        match self.below(9) {
            0..2 => format!("({} AND {})", self.condition(depth - 1), self.condition(depth - 1)),
            2 => format!("({} OR {})", self.condition(depth - 1), self.condition(depth - 1)),
            3 => format!("(NOT {})", self.condition(depth - 1)),
            4 => {
                let list: Vec<_> = (0..1 + self.below(4)).map(|_| self.int()).collect();
                let not = self.pick(&["", "NOT "]);
                format!("{} {not}IN ({})", self.int_expression(depth - 1), list.join(", "))
            }
            5 => format!("{} {operator} {}", self.text_expression(depth - 1), self.text_expression(depth - 1)),
            6 => format!("({} IS NULL)", self.int_expression(depth - 1)),
            _ => format!("{} {operator} {}", self.int_expression(depth - 1), self.int_expression(depth - 1)),
        }
    }

    /// `WHERE ...`, or nothing.
    fn filter(&mut self) -> String {
        if self.below(5) == 0 {
            return String::new();
        }
        let depth = self.below(3);
        format!(" WHERE {}", self.condition(depth))
    }

    pub fn insert(&mut self) -> Statement {
        let table = self.pick(&["t0", "t1", "t2"]);
        self.tables = vec![table.into()];
        let columns = self.pick(&["k, a, b, s", "k, a, b, s", "k, a, b, s", "s, k, a", "b, k, s"]);
        let rows: Vec<String> = (0..1 + self.below(3))
            .map(|_| {
                let values = columns.split(", ").map(|column| match column {
                    "k" => self.key().to_string(),
                    "s" => self.text(),
                    "b" => self.random.random_range(0..62).to_string(),
                    _ => self.int(),
                });
                format!("({})", values.collect::<Vec<_>>().join(", "))
            })
            .collect();
        let conflict = match self.below(6) {
            0 => " ON CONFLICT DO NOTHING".to_owned(),
            1 => " ON CONFLICT (k) DO NOTHING".to_owned(),
            2 => {
                let value = self.pick(&["excluded.b", "7", "coalesce(excluded.a, 1)"]);
                format!(" ON CONFLICT (k) DO UPDATE SET b = {value}")
            }
            3 => {
                let condition = self.condition(1);
                format!(" ON CONFLICT (k) DO UPDATE SET s = 'u', b = {table}.k WHERE {condition}")
            }
            _ => String::new(),
        };
        // An upsert may not touch one row twice here.
        let rows = if conflict.contains("UPDATE") { &rows[..1] } else { &rows[..] };
        let returning = self.pick(&["", "", " RETURNING k, b, s"]);
        let sql = format!("INSERT INTO {table} ({columns}) VALUES {}{conflict}{returning}", rows.join(", "));
        Statement { sql, ordered: false }
    }

    fn update(&mut self) -> Statement {
        let table = self.pick(&["t0", "t1", "t2"]);
        self.tables = vec![table.into()];
        if self.below(4) == 0 {
            // The key of one row.
            let (column, value) = (if table == "t1" { self.pick(&["k", "a"]) } else { "a" }, self.key());
            let sql = format!("UPDATE {table} SET {column} = {value} WHERE k = {}", self.key());
            return Statement { sql, ordered: false };
        }
        let set = match self.below(3) {
            0 => format!("b = ({}) % 59", self.int_expression(2)),
            1 => format!("s = {}", self.text_expression(1)),
            _ => format!("s = {}, b = {}", self.text_expression(1), self.column(&["a", "k"])),
        };
        // Keeps texts from growing without limit.
        let set = if set.starts_with("s = ") && set.contains("||") { "s = 'c'".to_owned() } else { set };
        let returning = self.pick(&["", "", " RETURNING k, b"]);
        let sql = format!("UPDATE {table} SET {set}{}{returning}", self.filter());
        Statement { sql, ordered: false }
    }

    fn delete(&mut self) -> Statement {
        let table = self.pick(&["t0", "t1", "t2"]);
        self.tables = vec![table.into()];
        let condition = self.condition(1);
        let sql = format!("DELETE FROM {table} WHERE {condition} AND {table}.k % 3 = {}", self.below(3));
        Statement { sql, ordered: false }
    }

    fn from(&mut self) -> String {
        let first = self.pick(&["t0", "t1", "t2"]);
        self.tables = vec!["x".into()];
        let mut sql = format!(" FROM {first} x");
        for name in ["y", "z"].iter().take([0, 0, 1, 1, 2][self.below(5)]) {
            let (table, join) = (self.pick(&["t1", "t1", "t1", "t0", "t2"]), self.pick(&["JOIN", "LEFT JOIN"]));
            let other = self.column(&["k", "a", "b"]);
            if table != "t1" && self.below(8) > 0 {
                // Rows of one partition.
                let also = if self.below(2) == 0 { format!(" AND {}", self.condition(0)) } else { String::new() };
                self.tables.push((*name).into());
                sql += &format!(" {join} {table} {name} ON {name}.k = x.k{also}");
                continue;
            }
            self.tables.push((*name).into());
            // Joins are by index.
            let column = match table {
                "t0" => self.pick(&["k", "a"]),
                "t1" => self.pick(&["k", "a"]),
                _ => self.pick(&["k", "b"]),
            };
            sql += &format!(" {join} {table} {name} ON {name}.{column} = {other}");
            if self.below(3) == 0 {
                sql += &format!(" AND {}", self.condition(0));
            }
        }
        sql
    }

    fn select(&mut self) -> Statement {
        let from = self.from();
        let filter = self.filter();
        if self.below(3) == 0 {
            return self.grouped(&from, &filter);
        }
        let mut outputs: Vec<String> = (0..1 + self.below(3))
            .map(|_| match self.below(5) {
                0..3 => self.int_expression(1),
                3 => self.text_expression(1),
                _ => format!("({})", self.condition(1)),
            })
            .collect();
        let distinct = self.pick(&["", "", "DISTINCT "]);
        let ordered = self.below(2) == 0;
        let tail = if ordered { self.order(&mut outputs) } else { String::new() };
        Statement { sql: format!("SELECT {distinct}{}{from}{filter}{tail}", outputs.join(", ")), ordered }
    }

    /// `ORDER BY` all outputs, so that the order is determined, and sometimes `LIMIT`.
    fn order(&mut self, outputs: &mut [String]) -> String {
        let keys: Vec<String> = (1..=outputs.len())
            .map(|number| {
                let way = self.pick(&["ASC NULLS FIRST", "ASC NULLS LAST", "DESC NULLS FIRST", "DESC NULLS LAST"]);
                format!("{number} {way}")
            })
            .collect();
        let limit = match self.below(4) {
            0 => format!(" LIMIT {}", self.below(6)),
            1 => format!(" LIMIT {} OFFSET {}", self.below(6), self.below(4)),
            _ => String::new(),
        };
        format!(" ORDER BY {}{limit}", keys.join(", "))
    }

    fn grouped(&mut self, from: &str, filter: &str) -> Statement {
        let keys: Vec<String> = (0..self.below(3)).map(|_| self.column(&["a", "b", "s"])).collect();
        let mut outputs = keys.clone();
        for _ in 0..1 + self.below(2) {
            let inner = self.int_expression(1);
            let distinct = self.pick(&["", "", "DISTINCT "]);
            outputs.push(match self.below(6) {
                0 => "count(*)".to_owned(),
                1 => format!("count({distinct}{inner})"),
                2 => format!("sum({distinct}{inner})"),
                3 => format!("min({inner})"),
                4 => format!("max({})", self.text_expression(1)),
                _ => format!("coalesce(sum({inner}), 0) + count(*)"),
            });
        }
        let group = if keys.is_empty() { String::new() } else { format!(" GROUP BY {}", keys.join(", ")) };
        let having = match self.below(4) {
            0 if !keys.is_empty() => format!(" HAVING count(*) > {}", self.below(4)),
            1 if !keys.is_empty() => format!(" HAVING min({}) IS NOT NULL", self.column(&["a", "b"])),
            _ => String::new(),
        };
        let ordered = self.below(2) == 0;
        let tail = if ordered { self.order(&mut outputs) } else { String::new() };
        let sql = format!("SELECT {}{from}{filter}{group}{having}{tail}", outputs.join(", "));
        Statement { sql, ordered }
    }
}
