//! YCSB: the values that each column of each row may have.

use std::collections::BTreeMap;

use thermocline_transactions::database::RowSession;
use thermocline_transactions::types::Value;

use super::clients::{Workload, int, stamp, text};
use super::sent::{Fate, Sent};

/// A key and the number of a column.
type Place = (i64, usize);

/// All values of the table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Registers(BTreeMap<Place, Box<str>>);

/// An update that may have been done.
struct Write<'s> {
    value: &'s str,
    begin: u64,
    end: u64,
    fate: &'s Fate,
    /// A client was told that it is done, or has read it.
    known: bool,
}

impl Registers {
    pub fn read(session: &mut RowSession) -> Self {
        let rows = session.execute("SELECT * FROM usertable", &[]).unwrap().rows;
        let mut values = BTreeMap::new();
        for row in rows.iter() {
            let columns: Vec<_> = row.collect();
            let key = int(columns[0]);
            values.extend(columns[1..].iter().enumerate().map(|(field, value)| ((key, field), text(*value).into())));
        }
        Self(values)
    }

    /// Anomalies after these calls, if these registers were there before them.
    ///
    /// A value must come from an update that was not refused and that no known update followed. One update follows
    /// another if it was made after a client was told of the other.
    pub fn anomalies(&self, after: &Self, sent: &[Sent]) -> Vec<String> {
        let sent: Vec<&Sent> = sent.iter().filter(|sent| sent.workload == Workload::Ycsb).collect();
        let mut writes: BTreeMap<Place, Vec<Write<'_>>> = BTreeMap::new();
        for sent in &sent {
            if let Some((place, value)) = update(sent) {
                let known = matches!(sent.fate, Fate::Committed(_));
                let write = Write { value, begin: sent.begin, end: sent.end, fate: &sent.fate, known };
                writes.entry(place).or_default().push(write);
            }
        }
        let mut found = Vec::new();
        for sent in &sent {
            self.read_by(sent, &mut writes, &mut found);
        }
        let gone = self.0.keys().filter(|place| !after.0.contains_key(place));
        found.extend(gone.map(|(key, field)| format!("field {field} of row {key} is gone")));
        for (place, value) in &after.0 {
            let of_place = writes.get(place).map_or(&[][..], Vec::as_slice);
            found.extend(self.wrong(*place, value, of_place));
        }
        found
    }

    /// A value that a client read was written, whatever its writer was told.
    fn read_by(&self, sent: &Sent, writes: &mut BTreeMap<Place, Vec<Write<'_>>>, found: &mut Vec<String>) {
        let (Fate::Committed(told), [Value::Int(key)]) = (&sent.fate, &*sent.call.arguments) else { return };
        for (field, read) in told.split(',').enumerate() {
            let of_place = writes.get_mut(&(*key, field));
            let write = of_place.and_then(|writes| writes.iter_mut().find(|write| stamp(write.value) == read));
            match write {
                Some(Write { fate: Fate::Refused, .. }) => {
                    found.push(format!("field {field} of row {key} was read as {read}, which was refused"));
                }
                Some(write) => (write.known, write.end) = (true, write.end.min(sent.end)),
                None if self.0.get(&(*key, field)).is_some_and(|before| stamp(before) == read) => {}
                None => found.push(format!("field {field} of row {key} was read as {read}, which nobody wrote")),
            }
        }
    }

    fn wrong(&self, place @ (key, field): Place, value: &str, writes: &[Write<'_>]) -> Option<String> {
        let end = match writes.iter().find(|write| write.value == value) {
            Some(Write { fate: Fate::Refused, .. }) => {
                return Some(format!("field {field} of row {key} is {}, which was refused", stamp(value)));
            }
            Some(write) => write.end,
            None if self.0.get(&place).is_some_and(|before| **before == *value) => 0,
            None => return Some(format!("field {field} of row {key} is what nobody wrote: {value}")),
        };
        let later = writes.iter().find(|write| write.known && write.begin >= end)?;
        let (is, lost) = (stamp(value), stamp(later.value));
        Some(format!("field {field} of row {key} is {is}: the acknowledged {lost} is lost"))
    }
}

/// The place and the value of an update.
fn update(sent: &Sent) -> Option<(Place, &str)> {
    match &*sent.call.arguments {
        [Value::Int(key), Value::Text(value), Value::Int(field)] => Some(((*key, *field as usize), value)),
        // In SQL each column has a procedure of its own, after the reading one.
        [Value::Int(key), Value::Text(value)] => Some(((*key, sent.call.procedure - 1), value)),
        _ => None,
    }
}
