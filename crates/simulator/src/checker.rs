//! Checks whether a history is strictly serializable, after Elle (Kingsbury and Alvaro, 2020).
//!
//! ```text
//! history --> versions of each key, in their order --> edges between transactions --> a cycle?
//!                 |
//!                 +-- what nobody wrote, who aborted, what was not the last: an anomaly at once
//! ```
//!
//! A list shows the order of its appends, a replaced register its previous version. From these follow the edges ww
//! (wrote the next version), wr (read what the other wrote) and rw (read what the other replaced); rt is real time: one
//! transaction ended before the other began. A committed append that nobody read comes after all that were read. A
//! transaction with an unknown outcome counts as committed at some later time once anybody has read any of it: then all
//! of it must be there. As far as the reads show, a history is strictly serializable exactly if nothing contradicts
//! this and the graph has no cycle.

#![expect(
    clippy::indexing_slicing,
    reason = "numbers of transactions and nodes are those of the history that is checked"
)]

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::fmt;

use super::history::{Outcome, Step, Transaction};

/// Reason why one transaction precedes another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Edge {
    /// It wrote the version before the other's.
    WriteWrite,
    /// It wrote what the other read.
    WriteRead,
    /// It read what the other replaced.
    ReadWrite,
    /// It ended before the other began.
    RealTime,
}

/// Anomaly of a history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Anomaly {
    /// A transaction does not see its own writes, or two versions in turn.
    Internal(String),
    /// A transaction read a write of an aborted one.
    AbortedRead(String),
    /// A transaction read a version that its writer replaced.
    IntermediateRead(String),
    /// A transaction read a value that nobody wrote, or one value twice.
    Phantom(String),
    /// Reads disagree about the order of a list.
    Orders(String),
    /// Transactions each of which must precede the next: a shortest cycle.
    Cycle(Vec<(usize, Edge)>),
}

impl Anomaly {
    /// Adya's name for it.
    pub fn name(&self) -> String {
        match self {
            Self::Internal(_) => "internal".into(),
            Self::AbortedRead(_) => "G1a aborted read".into(),
            Self::IntermediateRead(_) => "G1b intermediate read".into(),
            Self::Phantom(_) => "phantom".into(),
            Self::Orders(_) => "incompatible orders".into(),
            Self::Cycle(cycle) => {
                let has = |edge: Edge| cycle.iter().filter(|(_, of)| *of == edge).count();
                let name = match (has(Edge::ReadWrite), has(Edge::WriteRead)) {
                    (0, 0) => "G0 write cycle",
                    (0, _) => "G1c circular information flow",
                    (1, _) => "G-single",
                    _ => "G2 anti-dependency cycle",
                };
                format!("{name}{}", if has(Edge::RealTime) > 0 { ", real time" } else { "" })
            }
        }
    }

    /// The anomaly and its transactions.
    pub fn describe<'a>(&'a self, history: &'a [Transaction]) -> impl fmt::Display + 'a {
        fmt::from_fn(move |f| {
            writeln!(f, "{}:", self.name())?;
            match self {
                Self::Internal(text)
                | Self::AbortedRead(text)
                | Self::IntermediateRead(text)
                | Self::Phantom(text)
                | Self::Orders(text) => writeln!(f, "  {text}"),
                Self::Cycle(cycle) => cycle.iter().try_for_each(|(transaction, edge)| {
                    writeln!(f, "  T{transaction} {}", history[*transaction])?;
                    let why = match edge {
                        Edge::WriteWrite => "wrote the version before that of",
                        Edge::WriteRead => "wrote what was read by",
                        Edge::ReadWrite => "read what was replaced by",
                        Edge::RealTime => "ended before the begin of",
                    };
                    writeln!(f, "    {why}")
                }),
            }
        })
    }
}

/// Edges between transactions, and through moments: node `n + i` is the i-th end of a transaction in time, so that real
/// time needs only linearly many edges.
struct Graph {
    transactions: usize,
    edges: Vec<Vec<(usize, Edge)>>,
}

impl Graph {
    fn add(&mut self, from: usize, to: usize, edge: Edge) {
        if from != to {
            self.edges[from].push((to, edge));
        }
    }
}

/// Finds an anomaly in a history.
pub fn check(history: &[Transaction]) -> Result<(), Anomaly> {
    let seen = seen_unknown(history);
    let mut graph = Graph { transactions: history.len(), edges: vec![Vec::new(); history.len()] };
    for (number, transaction) in history.iter().enumerate() {
        internal(number, transaction)?;
    }
    lists(history, &seen, &mut graph)?;
    registers(history, &mut graph)?;
    real_time(history, &mut graph);
    match shortest_cycle(&graph) {
        Some(cycle) => Err(Anomaly::Cycle(cycle)),
        None => Ok(()),
    }
}

/// Transactions with an unknown outcome whose appends were read.
fn seen_unknown(history: &[Transaction]) -> HashSet<usize> {
    let mut appended = HashMap::new();
    for (number, transaction) in history.iter().enumerate().filter(|(_, of)| of.outcome == Outcome::Unknown) {
        for step in &transaction.steps {
            if let Step::Append { key, value } = step {
                appended.insert((*key, *value), number);
            }
        }
    }
    let committed = history.iter().filter(|transaction| transaction.outcome == Outcome::Committed);
    let mut seen = HashSet::new();
    for step in committed.flat_map(|transaction| &transaction.steps) {
        if let Step::ReadList { key, list } = step {
            seen.extend(list.iter().filter_map(|value| appended.get(&(*key, *value))));
        }
    }
    seen
}

/// Checks that a transaction sees its own steps so far, and that nothing else changes under it.
fn internal(number: usize, transaction: &Transaction) -> Result<(), Anomaly> {
    if transaction.outcome != Outcome::Committed {
        return Ok(());
    }
    // The end of each list, and all of it where it was read.
    let mut known: HashMap<i64, Vec<i64>> = HashMap::new();
    let mut appended: HashMap<i64, Vec<i64>> = HashMap::new();
    let mut registers: HashMap<i64, i64> = HashMap::new();
    let wrong = |what: &Step| Err(Anomaly::Internal(format!("T{number} {transaction}, at {what:?}")));
    for step in &transaction.steps {
        match step {
            Step::Append { key, value } => {
                if let Some(list) = known.get_mut(key) {
                    list.push(*value);
                }
                appended.entry(*key).or_default().push(*value);
            }
            Step::ReadList { key, list } => {
                let own = appended.get(key).map_or(&[][..], |own| own);
                if known.get(key).is_some_and(|known| known != list) || !list.ends_with(own) {
                    return wrong(step);
                }
                known.insert(*key, list.clone());
            }
            Step::Replace { key, before, value } => {
                if registers.insert(*key, *value).is_some_and(|known| known != *before) {
                    return wrong(step);
                }
            }
            Step::ReadRegister { key, value } => {
                if registers.insert(*key, *value).is_some_and(|known| known != *value) {
                    return wrong(step);
                }
            }
        }
    }
    Ok(())
}

/// Writer of a version, and whether it was the transaction's last of that key.
struct Writer {
    transaction: usize,
    is_last: bool,
}

fn writers(history: &[Transaction], written: impl Fn(&Step) -> Option<(i64, i64)>) -> HashMap<(i64, i64), Writer> {
    let mut writers = HashMap::new();
    for (number, transaction) in history.iter().enumerate() {
        let mut last: HashMap<i64, i64> = HashMap::new();
        for (key, value) in transaction.steps.iter().filter_map(&written) {
            if let Some(before) = last.insert(key, value)
                && let Some(Writer { is_last, .. }) = writers.get_mut(&(key, before))
            {
                *is_last = false;
            }
            let writer = Writer { transaction: number, is_last: true };
            assert!(writers.insert((key, value), writer).is_none(), "a history writes {value} to {key} twice");
        }
    }
    writers
}

/// Writer of a version that a transaction read; an error unless others may see it.
fn seen<'w>(
    history: &[Transaction],
    writers: &'w HashMap<(i64, i64), Writer>,
    reader: usize,
    key: i64,
    value: i64,
) -> Result<&'w Writer, Anomaly> {
    let text = || format!("T{reader} {} sees {value} in {key}", history[reader]);
    let Some(writer) = writers.get(&(key, value)) else { return Err(Anomaly::Phantom(text())) };
    if history[writer.transaction].outcome == Outcome::Aborted {
        return Err(Anomaly::AbortedRead(format!(
            "{} of T{} {}",
            text(),
            writer.transaction,
            history[writer.transaction]
        )));
    }
    Ok(writer)
}

fn intermediate(history: &[Transaction], reader: usize, writer: &Writer, key: i64, value: i64) -> Result<(), Anomaly> {
    if writer.is_last || writer.transaction == reader {
        return Ok(());
    }
    Err(Anomaly::IntermediateRead(format!(
        "T{reader} {} sees {value} in {key}, which T{} {} replaced",
        history[reader], writer.transaction, history[writer.transaction]
    )))
}

fn lists(history: &[Transaction], seen_unknown: &HashSet<usize>, graph: &mut Graph) -> Result<(), Anomaly> {
    let writers = writers(history, |step| match step {
        Step::Append { key, value } => Some((*key, *value)),
        _ => None,
    });
    // Reads of others' appends, by key, without the reader's own appends after them.
    let mut reads: BTreeMap<i64, Vec<(usize, &[i64])>> = BTreeMap::new();
    for (number, transaction) in history.iter().enumerate() {
        if transaction.outcome != Outcome::Committed {
            continue;
        }
        let mut own: HashMap<i64, usize> = HashMap::new();
        for step in &transaction.steps {
            match step {
                Step::Append { key, .. } => *own.entry(*key).or_default() += 1,
                Step::ReadList { key, list } => {
                    let others = &list[..list.len() - own.get(key).copied().unwrap_or(0)];
                    reads.entry(*key).or_default().push((number, others));
                    // The whole list tells an order too.
                    if others.len() < list.len() {
                        reads.entry(*key).or_default().push((usize::MAX, list));
                    }
                }
                _ => {}
            }
        }
    }
    let mut observed = HashSet::new();
    for (key, reads) in &reads {
        let Some((_, order)) = reads.iter().max_by_key(|(_, list)| list.len()) else { continue };
        for (number, list) in reads {
            if !order.starts_with(list) {
                let text = format!("list {key}: {list:?} (T{number}) is no beginning of {order:?}");
                return Err(Anomaly::Orders(text));
            }
        }
        let reader = reads.iter().find(|(number, list)| *number != usize::MAX && list.len() == order.len());
        let reader = reader.map_or_else(
            || writers.get(&(*key, order[order.len() - 1])).map_or(0, |w| w.transaction),
            |(number, _)| *number,
        );
        let mut unique = HashSet::new();
        let mut previous: Option<usize> = None;
        for value in *order {
            let writer = seen(history, &writers, reader, *key, *value)?;
            if !unique.insert(value) {
                return Err(Anomaly::Phantom(format!("list {key} has {value} twice: {order:?}")));
            }
            observed.insert((*key, *value));
            if let Some(previous) = previous {
                graph.add(previous, writer.transaction, Edge::WriteWrite);
            }
            previous = Some(writer.transaction);
        }
        let unseen: Vec<usize> = writers
            .iter()
            .filter(|((of, value), writer)| {
                let is_kept = history[writer.transaction].outcome == Outcome::Committed
                    || seen_unknown.contains(&writer.transaction);
                of == key && !unique.contains(value) && is_kept
            })
            .map(|(_, writer)| writer.transaction)
            .collect();
        for (number, list) in reads.iter().filter(|(number, _)| *number != usize::MAX) {
            if let Some(value) = list.last() {
                let writer = seen(history, &writers, *number, *key, *value)?;
                intermediate(history, *number, writer, *key, *value)?;
                graph.add(writer.transaction, *number, Edge::WriteRead);
            }
            match order.get(list.len()) {
                Some(next) => {
                    let writer = seen(history, &writers, *number, *key, *next)?;
                    graph.add(*number, writer.transaction, Edge::ReadWrite);
                }
                None => unseen.iter().for_each(|writer| graph.add(*number, *writer, Edge::ReadWrite)),
            }
        }
        if let Some(previous) = previous {
            unseen.iter().for_each(|writer| graph.add(previous, *writer, Edge::WriteWrite));
        }
    }
    Ok(())
}

fn registers(history: &[Transaction], graph: &mut Graph) -> Result<(), Anomaly> {
    let writers = writers(history, |step| match step {
        Step::Replace { key, value, .. } => Some((*key, *value)),
        _ => None,
    });
    // Readers of each version written by another transaction, and writers of the next version.
    let mut readers: BTreeMap<(i64, i64), Vec<usize>> = BTreeMap::new();
    let mut next: BTreeMap<(i64, i64), Vec<usize>> = BTreeMap::new();
    for (number, transaction) in history.iter().enumerate() {
        if transaction.outcome != Outcome::Committed {
            continue;
        }
        let mut own = HashSet::new();
        for step in &transaction.steps {
            let (key, value) = match step {
                Step::Replace { key, before, .. } => (*key, *before),
                Step::ReadRegister { key, value } => (*key, *value),
                _ => continue,
            };
            if !own.contains(&key) {
                if value != 0 {
                    let writer = seen(history, &writers, number, key, value)?;
                    intermediate(history, number, writer, key, value)?;
                    graph.add(writer.transaction, number, Edge::WriteRead);
                }
                readers.entry((key, value)).or_default().push(number);
                if matches!(step, Step::Replace { .. }) {
                    next.entry((key, value)).or_default().push(number);
                }
            }
            if matches!(step, Step::Replace { .. }) {
                own.insert(key);
            }
        }
    }
    for ((key, value), next) in &next {
        for after in next {
            if let Some(writer) = writers.get(&(*key, *value)) {
                graph.add(writer.transaction, *after, Edge::WriteWrite);
            }
            for reader in readers.get(&(*key, *value)).into_iter().flatten() {
                graph.add(*reader, *after, Edge::ReadWrite);
            }
        }
    }
    Ok(())
}

fn real_time(history: &[Transaction], graph: &mut Graph) {
    let mut ends: Vec<(u64, usize)> = history
        .iter()
        .enumerate()
        .filter(|(_, transaction)| transaction.outcome == Outcome::Committed)
        .map(|(number, transaction)| (transaction.end, number))
        .collect();
    ends.sort_unstable();
    let first = history.len();
    graph.edges.resize(first + ends.len(), Vec::new());
    for (place, (_, number)) in ends.iter().enumerate() {
        graph.add(*number, first + place, Edge::RealTime);
        if place > 0 {
            graph.add(first + place - 1, first + place, Edge::RealTime);
        }
    }
    for (number, transaction) in history.iter().enumerate() {
        let before = ends.partition_point(|(end, _)| *end < transaction.begin);
        if before > 0 && transaction.outcome != Outcome::Aborted {
            graph.add(first + before - 1, number, Edge::RealTime);
        }
    }
}

/// A shortest cycle of the first strongly connected component that has one, without moments.
fn shortest_cycle(graph: &Graph) -> Option<Vec<(usize, Edge)>> {
    let component = components(graph);
    let mut sizes = vec![0; graph.edges.len()];
    component.iter().for_each(|of| sizes[*of] += 1);
    let cyclic = (0..graph.transactions).find(|node| sizes[component[*node]] > 1)?;
    let nodes = (0..graph.transactions).filter(|node| component[*node] == component[cyclic]);
    let within = |node: usize| component[node] == component[cyclic];
    // A component of a broken history can be all of it: cycles through some of its nodes suffice.
    nodes.take(20).filter_map(|start| cycle_through(graph, start, within)).min_by_key(Vec::len)
}

fn cycle_through(graph: &Graph, start: usize, within: impl Fn(usize) -> bool) -> Option<Vec<(usize, Edge)>> {
    let mut from: HashMap<usize, (usize, Edge)> = HashMap::new();
    let mut queue = VecDeque::from([start]);
    while let Some(node) = queue.pop_front() {
        for (to, edge) in graph.edges[node].iter().filter(|(to, _)| within(*to)) {
            if from.contains_key(to) {
                continue;
            }
            from.insert(*to, (node, *edge));
            if *to == start {
                let mut cycle = vec![from[&start]];
                while cycle[cycle.len() - 1].0 != start {
                    cycle.push(from[&cycle[cycle.len() - 1].0]);
                }
                cycle.reverse();
                return Some(cycle.into_iter().filter(|(node, _)| *node < graph.transactions).collect());
            }
            queue.push_back(*to);
        }
    }
    None
}

/// The strongly connected component of each node (Tarjan's algorithm without recursion).
fn components(graph: &Graph) -> Vec<usize> {
    const NONE: usize = usize::MAX;
    let count = graph.edges.len();
    let (mut index, mut low, mut component) = (vec![NONE; count], vec![0; count], vec![NONE; count]);
    let (mut stack, mut calls, mut next) = (Vec::new(), Vec::new(), 0);
    for root in 0..count {
        if index[root] != NONE {
            continue;
        }
        calls.push((root, 0));
        while let Some((node, edge)) = calls.pop() {
            if edge == 0 {
                (index[node], low[node]) = (next, next);
                next += 1;
                stack.push(node);
            }
            match graph.edges[node].get(edge) {
                Some((to, _)) => {
                    calls.push((node, edge + 1));
                    if index[*to] == NONE {
                        calls.push((*to, 0));
                    } else if component[*to] == NONE {
                        low[node] = low[node].min(index[*to]);
                    }
                }
                None => {
                    if let Some((parent, _)) = calls.last() {
                        low[*parent] = low[*parent].min(low[node]);
                    }
                    if low[node] == index[node] {
                        while let Some(member) = stack.pop() {
                            component[member] = node;
                            if member == node {
                                break;
                            }
                        }
                    }
                }
            }
        }
    }
    component
}
