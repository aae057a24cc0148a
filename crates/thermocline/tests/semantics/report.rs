//! Disagreements: counted, sorted into deliberate and open ones, and printed.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};

use super::Outcome;
use super::deviations;
use super::engines::Way;
use super::expressions::Expression;

/// Difference of an expression from PostgreSQL.
#[derive(Debug, Clone)]
pub enum Difference {
    /// PostgreSQL refuses the expression.
    Accepted { sqlstate: String, found: String },
    /// The expression is refused here.
    Refused { expected: String, error: String },
    /// Its type differs.
    Type { expected: String, found: String },
    /// Its value in a row differs.
    Value { row: i64, expected: Outcome, found: Result<Option<String>, String> },
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Accepted { sqlstate, found } => write!(f, "refused by PostgreSQL ({sqlstate}), {found} here"),
            Self::Refused { expected, error } => write!(f, "{expected} to PostgreSQL, refused here: {error}"),
            Self::Type { expected, found } => write!(f, "{expected} to PostgreSQL, {found} here"),
            Self::Value { row, expected, found } => write!(f, "row {row}: {expected:?} to PostgreSQL, {found:?} here"),
        }
    }
}

impl Difference {
    fn kind(&self) -> &'static str {
        match self {
            Self::Accepted { .. } => "accepted",
            Self::Refused { .. } => "refused",
            Self::Type { .. } => "type",
            Self::Value { .. } => "value",
        }
    }
}

/// Number of comparisons, and the disagreements.
#[derive(Default)]
pub struct Report {
    pub expressions: usize,
    pub evaluations: usize,
    /// Number of occurrences of each deviation of `docs/sql.md`.
    on_purpose: BTreeMap<&'static str, usize>,
    /// By expression and kind of difference: the ways of evaluation, and the first difference.
    open: BTreeMap<(String, &'static str), (BTreeSet<Way>, String)>,
}

impl Report {
    /// Adds a disagreement.
    pub fn add(&mut self, expression: &Expression, way: Way, difference: &Difference) {
        if let Some(name) = deviations::name(expression, difference) {
            *self.on_purpose.entry(name).or_default() += 1;
            return;
        }
        let key = (expression.class.clone(), difference.kind());
        let example = || format!("{}: {difference}", expression.sql);
        self.open.entry(key).or_insert_with(|| (BTreeSet::new(), example())).0.insert(way);
    }

    /// Adds another report.
    pub fn merge(&mut self, other: Self) {
        self.expressions += other.expressions;
        self.evaluations += other.evaluations;
        for (name, count) in other.on_purpose {
            *self.on_purpose.entry(name).or_default() += count;
        }
        for (key, (ways, example)) in other.open {
            self.open.entry(key).or_insert_with(|| (BTreeSet::new(), example)).0.extend(ways);
        }
    }

    /// Prints the report.
    pub fn print(&self) {
        for ((class, kind), (ways, example)) in &self.open {
            println!("{class} | {kind} | {ways:?} | {}", example.chars().take(400).collect::<String>());
        }
        println!(
            "{} expressions, {} evaluations; on purpose {:?}; open {}",
            self.expressions,
            self.evaluations,
            self.on_purpose,
            self.open.len()
        );
    }

    /// Fails if a disagreement is not in the list of open ones, or one of the list has disappeared.
    pub fn check(&self) {
        let found: BTreeSet<String> =
            self.open.iter().map(|((class, kind), (ways, _))| format!("{class} | {kind} | {ways:?}")).collect();
        let path = open_list();
        if std::env::var("THERMOCLINE_SEMANTICS_WRITE").is_ok() {
            std::fs::write(&path, found.iter().map(|line| format!("{line}\n")).collect::<String>()).unwrap();
        }
        let listed = std::fs::read_to_string(&path).unwrap();
        let listed: BTreeSet<String> = listed.lines().map(str::to_owned).collect();
        let new: Vec<_> = found.difference(&listed).collect();
        assert!(new.is_empty(), "disagreements that are neither on purpose nor known: {new:#?}");
        let gone: Vec<_> = listed.difference(&found).collect();
        assert!(gone.is_empty(), "mended, to be taken out of {}: {gone:#?}", path.display());
    }
}

fn open_list() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/semantics/open.txt")
}
