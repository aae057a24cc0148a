//! Shrinks a failing case while it fails in the same way.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use super::case::{Cache, Case, Step};
use super::csv::CsvStyle;
use super::objects::{Object, ParquetStyle};
use super::run::{Failure, Seen, run};
use super::schema::Table;
use super::support::oracle::Oracle;
use super::values::Value;

/// Time limit for one case.
const TIME_MAX: Duration = Duration::from_secs(90);

/// A smaller case that fails in the same way, and its failure.
pub async fn shrink(case: Case, failure: Failure, duckdb: &mut Oracle) -> (Case, Failure) {
    let mut shrinking = Shrinking { smallest: case, failure, started: Instant::now() };
    shrinking.only_what_leads_to_it(duckdb).await;
    loop {
        let mut progress = false;
        for pass in [steps, settings, objects, rows, query_parts, columns, styles, values] {
            progress |= shrinking.pass(pass, duckdb).await;
        }
        if !progress || shrinking.started.elapsed() > TIME_MAX {
            return (shrinking.smallest, shrinking.failure);
        }
    }
}

struct Shrinking {
    smallest: Case,
    failure: Failure,
    started: Instant,
}

impl Shrinking {
    /// Keeps `case` if it fails alike.
    async fn try_case(&mut self, case: Case, duckdb: &mut Oracle) -> bool {
        match run(&case, duckdb, &mut Seen::default()).await {
            Err(failure) if failure.what.class() == self.failure.what.class() => {
                self.smallest = case;
                self.failure = failure;
                true
            }
            _ => false,
        }
    }

    /// Drops everything after the failure, and tries to drop all queries before it, and all other runs.
    async fn only_what_leads_to_it(&mut self, duckdb: &mut Oracle) {
        let mut case = self.smallest.clone();
        case.steps.truncate(self.failure.step + 1);
        if let Some(Step::Query(_, runs)) = case.steps.last_mut() {
            let last = runs[self.failure.run].clone();
            runs.truncate(self.failure.run + 1);
            let mut alone = case.clone();
            alone.steps.retain(|step| !matches!(step, Step::Query(..)));
            if let Some(Step::Query(query, _)) = case.steps.last() {
                alone.steps.push(Step::Query(query.clone(), vec![last]));
            }
            if self.try_case(alone, duckdb).await {
                return;
            }
        }
        self.try_case(case, duckdb).await;
    }

    /// Tries the proposals of a pass, from the start after each success.
    async fn pass(&mut self, proposals: fn(&Case) -> Vec<Case>, duckdb: &mut Oracle) -> bool {
        let mut progress = false;
        'again: while self.started.elapsed() < TIME_MAX {
            for case in proposals(&self.smallest) {
                if self.started.elapsed() > TIME_MAX {
                    break 'again;
                }
                if self.try_case(case, duckdb).await {
                    progress = true;
                    continue 'again;
                }
            }
            break;
        }
        progress
    }
}

fn changed(case: &Case, change: impl FnOnce(&mut Case)) -> Case {
    let mut case = case.clone();
    change(&mut case);
    case
}

/// Fewer steps, and fewer runs of each query.
fn steps(case: &Case) -> Vec<Case> {
    let last = case.steps.len().saturating_sub(1);
    let mut cases = vec![];
    for half in [0..last / 2, last / 2..last] {
        if half.len() > 2 {
            cases.push(changed(case, |case| {
                let mut position = 0;
                case.steps.retain(|step| {
                    position += 1;
                    !half.contains(&(position - 1)) || matches!(step, Step::Define(..))
                });
            }));
        }
    }
    for position in 0..last {
        cases.push(changed(case, |case| drop(case.steps.remove(position))));
    }
    for (position, step) in case.steps.iter().enumerate() {
        if let Step::Query(_, runs) = step
            && runs.len() > 1
        {
            for run in 0..runs.len() {
                cases.push(changed(case, |case| {
                    if let Step::Query(_, runs) = &mut case.steps[position] {
                        runs.remove(run);
                    }
                }));
            }
        }
    }
    if case.directory {
        cases.push(changed(case, |case| case.directory = false));
    }
    cases
}

fn settings(case: &Case) -> Vec<Case> {
    let mut cases = vec![];
    for (position, step) in case.steps.iter().enumerate() {
        let Step::Query(_, runs) = step else { continue };
        for (number, run) in runs.iter().enumerate() {
            let mut push = |change: &dyn Fn(&mut super::case::Run)| {
                cases.push(changed(case, |case| {
                    if let Step::Query(_, runs) = &mut case.steps[position] {
                        change(&mut runs[number]);
                    }
                }));
            };
            if run.topology != super::case::Topology::Embedded {
                push(&|run| run.topology = super::case::Topology::Embedded);
            }
            if run.cache != Cache::Keep {
                push(&|run| run.cache = Cache::Keep);
            }
            if run.settings.len() > 2 {
                push(&|run| run.settings.truncate(2));
            }
            for setting in 0..run.settings.len() {
                push(&|run| drop(run.settings.remove(setting)));
            }
        }
    }
    cases
}

/// Every table of the case and of its steps.
fn each_object(case: &mut Case, mut change: impl FnMut(usize, &mut Object)) {
    for (number, table) in case.tables.iter_mut().enumerate() {
        for object in &mut table.objects {
            change(number, object);
        }
    }
    for step in &mut case.steps {
        if let Step::Put(number, object) = step {
            change(*number, object);
        }
    }
}

fn objects(case: &Case) -> Vec<Case> {
    let mut cases = vec![];
    for (number, table) in case.tables.iter().enumerate() {
        // The table's types may be inferred from the first object.
        for object in table.first_changing()..table.objects.len() {
            cases.push(changed(case, |case| drop(case.tables[number].objects.remove(object))));
        }
    }
    let last = case.tables.len() - 1;
    let unused = case.steps.iter().all(|step| match step {
        Step::Query(query, _) => !query.sql().contains(&format!("{}.", case.tables[last].name)),
        _ => true,
    });
    if last > 0 && unused {
        cases.push(changed(case, |case| {
            case.tables.truncate(last);
            case.steps.retain(|step| match step {
                Step::Define(number, _) | Step::Put(number, _) | Step::Remove(number, _) | Step::Index(number, _) => {
                    *number < last
                }
                Step::Reopen => true,
                Step::Query(..) => true,
            });
            for step in &mut case.steps {
                if let Step::Query(_, runs) = step {
                    for run in runs {
                        if matches!(run.cache, Cache::Only(number, _) if number == last) {
                            run.cache = Cache::Keep;
                        }
                    }
                }
            }
        }));
    }
    cases
}

/// Removes halves, quarters and at last single rows of each object.
fn rows(case: &Case) -> Vec<Case> {
    let mut cases = vec![];
    let mut lengths = vec![];
    each_object(&mut case.clone(), |_, object| lengths.push(object.rows.len()));
    for (target, length) in lengths.into_iter().enumerate() {
        let sizes: &[usize] = if length > 8 { &[2, 4] } else { &[2, 8] };
        for parts in sizes {
            let size = length.div_ceil(*parts).max(1);
            for start in (0..length).step_by(size) {
                cases.push(changed(case, |case| {
                    let mut number = 0;
                    each_object(case, |_, object| {
                        if number == target {
                            object.rows.drain(start..(start + size).min(length));
                        }
                        number += 1;
                    });
                }));
            }
        }
    }
    cases
}

fn query_parts(case: &Case) -> Vec<Case> {
    let mut cases = vec![];
    for (position, step) in case.steps.iter().enumerate().rev() {
        let Step::Query(query, runs) = step else { continue };
        for smaller in query.smaller() {
            cases.push(changed(case, |case| case.steps[position] = Step::Query(smaller, runs.clone())));
        }
    }
    cases
}

/// Removes columns that nothing mentions.
fn columns(case: &Case) -> Vec<Case> {
    let mut mentioned = BTreeSet::new();
    for step in &case.steps {
        match step {
            Step::Query(query, runs) => {
                let sql = query.sql();
                mentioned.extend(sql.split(|c: char| !c.is_ascii_alphanumeric()).map(ToOwned::to_owned));
                for run in runs {
                    if let Cache::Only(_, columns) = &run.cache {
                        mentioned.extend(columns.iter().cloned());
                    }
                }
            }
            Step::Index(_, column) => drop(mentioned.insert(column.clone())),
            _ => {}
        }
    }
    let kept = |table: &Table, position: usize| {
        position == 0 || table.columns.get(position).is_some_and(|column| mentioned.contains(&column.name))
    };
    let smaller = changed(case, |case| {
        for step in &mut case.steps {
            match step {
                Step::Put(number, object) => {
                    for position in (0..case.tables[*number].columns.len()).rev() {
                        if !kept(&case.tables[*number], position) {
                            object.remove_column(position);
                        }
                    }
                }
                Step::Define(number, definition) => {
                    let mut position = 0;
                    definition.kinds.retain(|_| {
                        position += 1;
                        kept(&case.tables[*number], position - 1)
                    });
                }
                _ => {}
            }
        }
        for table in &mut case.tables {
            table.keep_columns(&mentioned);
        }
    });
    let columns = |case: &Case| case.tables.iter().map(|table| table.columns.len()).sum::<usize>();
    if columns(&smaller) < columns(case) { vec![smaller] } else { vec![] }
}

/// Writes objects in the plainest style.
fn styles(case: &Case) -> Vec<Case> {
    let mut cases = vec![];
    let mut propose = |change: &dyn Fn(&mut Object)| {
        let mut before = vec![];
        each_object(&mut case.clone(), |_, object| before.push(format!("{object:?}")));
        for (target, before) in before.iter().enumerate() {
            let mut differs = false;
            let changed = changed(case, |case| {
                let mut number = 0;
                each_object(case, |_, object| {
                    if number == target {
                        change(object);
                        differs = format!("{object:?}") != *before;
                    }
                    number += 1;
                });
            });
            if differs {
                cases.push(changed);
            }
        }
    };
    propose(&|object| object.parquet = ParquetStyle::default());
    propose(&|object| {
        let plain = ParquetStyle::default();
        let rows = object.parquet.row_group_rows;
        object.parquet = ParquetStyle { row_group_rows: rows, ..plain };
    });
    propose(&|object| object.csv = CsvStyle::default());
    propose(&|object| object.order.sort_unstable());
    propose(&|object| object.extra = false);
    cases
}

/// Truncates long texts, which keeps a script readable.
fn values(case: &Case) -> Vec<Case> {
    let shorter = |value: &mut Value| match value {
        Value::Text(text) if text.len() > 1000 => {
            "long".clone_into(text);
            true
        }
        _ => false,
    };
    let mut differs = false;
    let case = changed(case, |case| {
        each_object(case, |_, object| {
            for value in object.rows.iter_mut().flatten() {
                differs |= shorter(value);
            }
        });
    });
    if differs { vec![case] } else { vec![] }
}
