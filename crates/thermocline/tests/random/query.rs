//! Queries in parts, so that a failing one can be shrunk.

use std::fmt::Write;

use super::values::Kind;

/// A query. Its columns are called `o0`, `o1` and so on.
#[derive(Debug, Clone)]
pub struct Query {
    pub distinct: bool,
    pub items: Vec<Item>,
    pub from: From,
    pub filter: Option<Predicate>,
    /// Whether all items other than aggregates are keys of `GROUP BY`.
    pub grouped: bool,
    pub having: Option<String>,
    /// Sort keys, which determine the order of rows.
    pub order: Vec<String>,
    /// `LIMIT` and `OFFSET`.
    pub limit: Option<(usize, usize)>,
    /// A set operation, and the filter of its right side.
    pub set: Option<(&'static str, Predicate)>,
}

/// One column of a result.
#[derive(Debug, Clone)]
pub struct Item {
    pub sql: String,
    pub aggregate: bool,
    pub out: Out,
}

/// Comparison of a column's values.
#[derive(Debug, Clone, PartialEq)]
pub struct Out {
    /// Its type, if the oracle must be asked for another form.
    pub kind: Option<Kind>,
    /// Allowed difference of numbers, in addition to a relative 1e-9; `None` for none.
    pub tolerance: Option<f64>,
}

#[derive(Debug, Clone)]
pub struct From {
    pub table: String,
    pub join: Option<Join>,
}

#[derive(Debug, Clone)]
pub struct Join {
    pub kind: &'static str,
    pub table: String,
    pub on: Vec<String>,
    /// Filter below the join, on the joined table.
    pub filter: Option<Predicate>,
    /// Whether the joined table comes first.
    pub swapped: bool,
}

#[derive(Debug, Clone)]
pub enum Predicate {
    And(Box<Predicate>, Box<Predicate>),
    Or(Box<Predicate>, Box<Predicate>),
    Not(Box<Predicate>),
    Leaf(String),
}

impl Out {
    pub fn exact(kind: &Kind) -> Self {
        Self { kind: Some(kind.clone()), tolerance: None }
    }

    pub fn number() -> Self {
        Self { kind: None, tolerance: None }
    }

    pub fn about(tolerance: f64) -> Self {
        Self { kind: None, tolerance: Some(tolerance) }
    }

    pub fn nanos(&self) -> bool {
        matches!(self.kind, Some(Kind::Timestamp { nanos: true, .. }))
    }
}

impl Predicate {
    pub fn sql(&self) -> String {
        match self {
            Predicate::And(a, b) => format!("({} AND {})", a.sql(), b.sql()),
            Predicate::Or(a, b) => format!("({} OR {})", a.sql(), b.sql()),
            Predicate::Not(a) => format!("(NOT {})", a.sql()),
            Predicate::Leaf(sql) => sql.clone(),
        }
    }

    /// Predicates with one part less.
    pub fn smaller(&self) -> Vec<Predicate> {
        match self {
            Predicate::And(a, b) | Predicate::Or(a, b) => {
                let mut smaller = vec![(**a).clone(), (**b).clone()];
                let with = |a: Predicate, b: Predicate| match self {
                    Predicate::And(..) => Predicate::And(a.into(), b.into()),
                    _ => Predicate::Or(a.into(), b.into()),
                };
                smaller.extend(a.smaller().into_iter().map(|a| with(a, (**b).clone())));
                smaller.extend(b.smaller().into_iter().map(|b| with((**a).clone(), b)));
                smaller
            }
            Predicate::Not(a) => {
                let mut smaller = vec![(**a).clone()];
                smaller.extend(a.smaller().into_iter().map(|a| Predicate::Not(a.into())));
                smaller
            }
            Predicate::Leaf(_) => vec![],
        }
    }
}

impl From {
    fn sql(&self) -> String {
        let Some(join) = &self.join else { return self.table.clone() };
        let right = match &join.filter {
            Some(filter) => format!("(SELECT * FROM {0} WHERE {1}) {0}", join.table, filter.sql()),
            None => join.table.clone(),
        };
        let (first, second) = if join.swapped { (&right, &self.table) } else { (&self.table, &right) };
        format!("{first} {} JOIN {second} ON {}", join.kind, join.on.join(" AND "))
    }
}

impl Query {
    /// The statement, with marks.
    pub fn sql(&self) -> String {
        let mut sql = self.side(self.filter.as_ref());
        if let Some((operation, filter)) = &self.set {
            let _infallible = write!(sql, " {operation} {}", self.side(Some(filter)));
        }
        if !self.order.is_empty() {
            let _infallible = write!(sql, " ORDER BY {}", self.order.join(", "));
        }
        if let Some((limit, offset)) = self.limit {
            let _infallible = write!(sql, " LIMIT {limit} OFFSET {offset}");
        }
        sql
    }

    fn side(&self, filter: Option<&Predicate>) -> String {
        let items: Vec<_> = self.items.iter().enumerate().map(|(n, item)| format!("{} AS o{n}", item.sql)).collect();
        let distinct = if self.distinct { "DISTINCT " } else { "" };
        let mut sql = format!("SELECT {distinct}{} FROM {}", items.join(", "), self.from.sql());
        if let Some(filter) = filter {
            let _infallible = write!(sql, " WHERE {}", filter.sql());
        }
        if self.grouped {
            let keys: Vec<_> = self.items.iter().filter(|item| !item.aggregate).map(|item| item.sql.as_str()).collect();
            if !keys.is_empty() {
                let _infallible = write!(sql, " GROUP BY {}", keys.join(", "));
            }
        }
        if let Some(having) = &self.having {
            let _infallible = write!(sql, " HAVING {having}");
        }
        sql
    }

    /// The statement for DuckDB, which returns dates and timestamps as numbers: Python has none before year 1 or after
    /// 9999, and no nanoseconds.
    pub fn duckdb(&self) -> String {
        let items: Vec<_> = self
            .items
            .iter()
            .enumerate()
            .map(|(n, item)| match &item.out.kind {
                Some(Kind::Date) => format!("o{n} - DATE '1970-01-01' AS o{n}"),
                Some(Kind::Timestamp { nanos: true, .. }) => format!("epoch_ns(o{n}) AS o{n}"),
                Some(Kind::Timestamp { .. }) => format!("epoch_us(o{n}) AS o{n}"),
                // With as many digits as ours, see `super::arrays::cell`.
                Some(Kind::Time { .. }) => {
                    format!("rpad(o{n} || if(o{n}::VARCHAR LIKE '%.%', '', '.'), 18, '0') AS o{n}")
                }
                _ => format!("o{n}"),
            })
            .collect();
        dialect(&format!("SELECT {} FROM ({}) q", items.join(", "), self.sql()), true)
    }

    /// The statement for a session.
    pub fn ours(&self) -> String {
        dialect(&self.sql(), false)
    }

    /// Queries with one part less.
    pub fn smaller(&self) -> Vec<Query> {
        let mut smaller = vec![];
        let mut push = |change: &dyn Fn(&mut Query)| {
            let mut query = self.clone();
            change(&mut query);
            smaller.push(query);
        };
        if self.set.is_some() {
            push(&|query| query.set = None);
        }
        if self.from.join.is_some() {
            push(&|query| query.from.join = None);
            push(&|query| {
                if let Some(join) = query.from.join.take() {
                    query.from.table = join.table;
                }
            });
        }
        if self.filter.is_some() {
            push(&|query| query.filter = None);
        }
        if self.having.is_some() {
            push(&|query| query.having = None);
        }
        if self.limit.is_some() {
            push(&|query| query.limit = None);
        }
        if self.limit.is_none() && !self.order.is_empty() {
            push(&|query| query.order.clear());
        }
        if self.distinct {
            push(&|query| query.distinct = false);
        }
        if self.items.len() > 1 {
            for n in 0..self.items.len() {
                push(&|query| {
                    query.items.remove(n);
                });
            }
        }
        for filter in self.filter.iter().flat_map(Predicate::smaller) {
            push(&|query| query.filter = Some(filter.clone()));
        }
        if let Some((_, filter)) = &self.set {
            for filter in filter.smaller() {
                push(&|query| {
                    if let Some((_, right)) = &mut query.set {
                        right.clone_from(&filter);
                    }
                });
            }
        }
        if let Some(join) = &self.from.join {
            let mut change = |change: &dyn Fn(&mut Join)| {
                push(&|query| {
                    if let Some(join) = &mut query.from.join {
                        change(join);
                    }
                });
            };
            if join.filter.is_some() {
                change(&|join| join.filter = None);
            }
            if join.on.len() > 1 {
                for n in 0..join.on.len() {
                    change(&|join| {
                        join.on.remove(n);
                    });
                }
            }
            for filter in join.filter.iter().flat_map(Predicate::smaller) {
                change(&|join| join.filter = Some(filter.clone()));
            }
        }
        smaller
    }
}

/// A mark for text that the engines write differently.
pub fn either(ours: &str, theirs: &str) -> String {
    format!("⟨{ours}≀{theirs}⟩")
}

/// Replaces marks, such as `⟨u64⟩` or `⟨x:00ff⟩`, by an engine's own text.
pub fn dialect(sql: &str, duckdb: bool) -> String {
    let mut text = String::with_capacity(sql.len());
    let mut rest = sql;
    while let Some((before, after)) = rest.split_once('⟨') {
        let (mark, after) = after.split_once('⟩').expect("marks are closed");
        text += before;
        let (ours, theirs) = match mark {
            "i8" => ("TINYINT", "TINYINT"),
            "i16" => ("SMALLINT", "SMALLINT"),
            "i32" => ("INT", "INT"),
            "i64" => ("BIGINT", "BIGINT"),
            "u8" => ("TINYINT UNSIGNED", "UTINYINT"),
            "u16" => ("SMALLINT UNSIGNED", "USMALLINT"),
            "u32" => ("INT UNSIGNED", "UINTEGER"),
            "u64" => ("BIGINT UNSIGNED", "UBIGINT"),
            "ts6" => ("TIMESTAMP(6)", "TIMESTAMP"),
            "ts9" => ("TIMESTAMP", "TIMESTAMP_NS"),
            // The oracle's tables hold moments as timestamps in UTC.
            "tz6" => ("TIMESTAMP(6) WITH TIME ZONE", "TIMESTAMP"),
            "tz9" => ("TIMESTAMP WITH TIME ZONE", "TIMESTAMP_NS"),
            "tm6" => ("TIME", "TIME"),
            "tm9" => ("TIME", "TIME_NS"),
            "bytes" => ("BYTEA", "BLOB"),
            mark if let Some((ours, theirs)) = mark.split_once('≀') => (ours, theirs),
            mark => {
                let bytes = mark.strip_prefix("x:").unwrap_or_else(|| panic!("no mark {mark}"));
                text += &if duckdb { format!("from_hex('{bytes}')") } else { format!("X'{bytes}'") };
                rest = after;
                continue;
            }
        };
        text += if duckdb { theirs } else { ours };
        rest = after;
    }
    text + rest
}
