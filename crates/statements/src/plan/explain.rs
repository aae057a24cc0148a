//! Text of plans.

use std::fmt::Write;

use thermocline_tables::schema::IndexId;

use super::access::KeyRange;
use super::{Access, Needs, Routing, Step};

/// What a statement does with the rows of its steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    Reads,
    /// All of each row is needed.
    Changes,
    /// The keys of rows are enough. They are read all the same while a snapshot or an analytic query copies rows.
    ChangesUnread,
}

/// One line for the partitions, and one for each step.
pub(crate) fn explain_steps(steps: &[Step], routing: &Routing, work: Work) -> Vec<String> {
    let mut lines = vec![match routing {
        Routing::Any => "partitions: any one".to_owned(),
        Routing::Several(keys) => format!("partitions: those of {} values of the partition column", keys.len()),
        Routing::All => "partitions: all".to_owned(),
        Routing::One(_) | Routing::OneOfOuter(_) => "partitions: one, by the partition column".to_owned(),
    }];
    let touches = |step: &Step| match work {
        Work::Reads => step.needs == Needs::Row,
        Work::Changes => true,
        Work::ChangesUnread => false,
    };
    lines.extend(steps.iter().enumerate().map(|(depth, step)| {
        let mut line = "  ".repeat(depth);
        let name = &step.table.name;
        let index = |id: IndexId| step.table.index(id).map_or("?", |index| &*index.name);
        let written = match &step.access {
            Access::Scan => write!(line, "scan {name}"),
            Access::Key { index: id, unique: true, .. } => write!(line, "row of {name} by unique index {}", index(*id)),
            Access::Key { index: id, .. } => write!(line, "rows of {name} by index {}", index(*id)),
            Access::Range { index: id, parts, bounds, reverse } => {
                let direction = if *reverse { ", backwards" } else { "" };
                let range = if bounds.is_some() { " and a range" } else { "" };
                write!(line, "range of {name} by index {}, {} columns equal{range}{direction}", index(*id), parts.len())
            }
            Access::Union { index: id, ranges, reverse, .. } => {
                let direction = if *reverse { ", backwards" } else { "" };
                let columns = step.table.index(*id).map_or(0, |index| index.columns.len());
                let whole = ranges.iter().all(|range| range.parts.len() == columns);
                let (what, unit) = if whole { ("rows", "keys") } else { ("ranges", "ranges") };
                let count: usize = ranges.iter().map(KeyRange::keys).sum();
                write!(line, "{what} of {name} by index {}, {count} {unit}{direction}", index(*id))
            }
        };
        debug_assert!(written.is_ok(), "a String takes all");
        for (said, present) in [
            ("; left join", step.outer),
            ("; filtered", !step.on.is_empty() || !step.filter.is_empty()),
            ("; may touch evicted rows", step.table.evictable && touches(step)),
            ("; changes evicted rows unread", step.table.evictable && work == Work::ChangesUnread),
        ] {
            if present {
                line.push_str(said);
            }
        }
        line
    }));
    lines
}
