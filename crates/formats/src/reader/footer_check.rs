//! Checks Parquet footers before they are decoded.
//!
//! The decoder allocates as many row groups as a list claims, recurses as deep as a schema is nested, and trusts each
//! field's number whatever type was written. A footer comes from the writer of the object, and at a compute node
//! through a storage node. So it is walked first: Thrift's compact protocol, with the types of `parquet.thrift`, and
//! without allocations.

/// Deepest nesting of a schema: lists and structs take two levels each.
const SCHEMA_DEPTH_MAX: usize = 100;
/// Deepest nesting of unknown values.
const DEPTH_MAX: usize = 32;
/// Row groups have numbers of 16 bits.
const ROW_GROUPS_MAX: usize = 1 << 15;
/// Elements of all lists of a footer, each of which takes up to a few hundred bytes.
const ELEMENTS_MAX: usize = 1 << 24;

/// Types of the compact protocol.
const TRUE: u8 = 1;
const FALSE: u8 = 2;
const BYTE: u8 = 3;
const I16: u8 = 4;
const I32: u8 = 5;
const I64: u8 = 6;
const DOUBLE: u8 = 7;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const SET: u8 = 10;
const MAP: u8 = 11;
const STRUCT: u8 = 12;
const UUID: u8 = 13;

/// Type that the decoder expects of a field.
#[derive(Clone, Copy)]
enum Kind {
    Bool,
    /// A type without parts.
    Plain(u8),
    Struct(&'static [(i16, Kind)]),
    List(&'static Kind),
}

const EMPTY: Kind = Kind::Struct(&[]);
const NUMBER: Kind = Kind::Plain(I32);
const LONG: Kind = Kind::Plain(I64);
const TEXT: Kind = Kind::Plain(BINARY);
const UNIT: Kind = Kind::Struct(&[(1, EMPTY), (2, EMPTY), (3, EMPTY)]);
const TIME: Kind = Kind::Struct(&[(1, Kind::Bool), (2, UNIT)]);
const LOGICAL_TYPE: Kind = Kind::Struct(&[
    (1, EMPTY),
    (2, EMPTY),
    (3, EMPTY),
    (4, EMPTY),
    (5, Kind::Struct(&[(1, NUMBER), (2, NUMBER)])),
    (6, EMPTY),
    (7, TIME),
    (8, TIME),
    (10, Kind::Struct(&[(1, Kind::Plain(BYTE)), (2, Kind::Bool)])),
    (11, EMPTY),
    (12, EMPTY),
    (13, EMPTY),
    (14, EMPTY),
    (15, EMPTY),
    (16, Kind::Struct(&[(1, Kind::Plain(BYTE))])),
    (17, Kind::Struct(&[(1, TEXT)])),
    (18, Kind::Struct(&[(1, TEXT), (2, NUMBER)])),
]);
/// Field of a schema element that says whether it is required, optional or repeated.
const REPETITION: i16 = 3;
/// Field of a schema element that holds the number of its children among the following elements.
const CHILDREN: i16 = 5;
/// Fields of a schema element that say what a group stands for: by number, of which the first are maps and
/// lists, and by name.
const CONVERTED_TYPE: i16 = 6;
const LOGICAL_TYPE_OF_ELEMENT: i16 = 10;
/// Numbers of maps, their entries, and lists.
const NESTED_TYPES: std::ops::RangeInclusive<i64> = 1..=3;
const SCHEMA_ELEMENT: Kind = Kind::Struct(&[
    (1, NUMBER),
    (2, NUMBER),
    (REPETITION, NUMBER),
    (4, TEXT),
    (CHILDREN, NUMBER),
    (CONVERTED_TYPE, NUMBER),
    (7, NUMBER),
    (8, NUMBER),
    (9, NUMBER),
    (LOGICAL_TYPE_OF_ELEMENT, LOGICAL_TYPE),
]);
const KEY_VALUE: Kind = Kind::Struct(&[(1, TEXT), (2, TEXT)]);
const STATISTICS: Kind = Kind::Struct(&[
    (1, TEXT),
    (2, TEXT),
    (3, LONG),
    (4, LONG),
    (5, TEXT),
    (6, TEXT),
    (7, Kind::Bool),
    (8, Kind::Bool),
    (9, LONG),
]);
const SIZES: Kind = Kind::Struct(&[(1, LONG), (2, Kind::List(&LONG)), (3, Kind::List(&LONG))]);
const BOX: Kind = Kind::Struct(&[
    (1, Kind::Plain(DOUBLE)),
    (2, Kind::Plain(DOUBLE)),
    (3, Kind::Plain(DOUBLE)),
    (4, Kind::Plain(DOUBLE)),
    (5, Kind::Plain(DOUBLE)),
    (6, Kind::Plain(DOUBLE)),
    (7, Kind::Plain(DOUBLE)),
    (8, Kind::Plain(DOUBLE)),
]);
const COLUMN_METADATA: Kind = Kind::Struct(&[
    (1, NUMBER),
    (2, Kind::List(&NUMBER)),
    (3, Kind::List(&TEXT)),
    (4, NUMBER),
    (5, LONG),
    (6, LONG),
    (7, LONG),
    (8, Kind::List(&KEY_VALUE)),
    (9, LONG),
    (10, LONG),
    (11, LONG),
    (12, STATISTICS),
    (13, Kind::List(&Kind::Struct(&[(1, NUMBER), (2, NUMBER), (3, NUMBER)]))),
    (14, LONG),
    (15, NUMBER),
    (16, SIZES),
    (17, Kind::Struct(&[(1, BOX), (2, Kind::List(&NUMBER))])),
]);
const COLUMN_CHUNK: Kind = Kind::Struct(&[
    (1, TEXT),
    (2, LONG),
    (3, COLUMN_METADATA),
    (4, LONG),
    (5, NUMBER),
    (6, LONG),
    (7, NUMBER),
    (9, TEXT),
]);
const SORTING: Kind = Kind::Struct(&[(1, NUMBER), (2, Kind::Bool), (3, Kind::Bool)]);
const ROW_GROUP: Kind = Kind::Struct(&[
    (1, Kind::List(&COLUMN_CHUNK)),
    (2, LONG),
    (3, LONG),
    (4, Kind::List(&SORTING)),
    (5, LONG),
    (6, LONG),
    (7, Kind::Plain(I16)),
]);
/// Fields of the file metadata that hold the schema's elements and the row groups.
const SCHEMA: i16 = 2;
const ROW_GROUPS: i16 = 4;
const FILE_METADATA: &[(i16, Kind)] = &[
    (1, NUMBER),
    (SCHEMA, Kind::List(&SCHEMA_ELEMENT)),
    (3, LONG),
    (ROW_GROUPS, Kind::List(&ROW_GROUP)),
    (5, Kind::List(&KEY_VALUE)),
    (6, TEXT),
    (7, Kind::List(&Kind::Struct(&[(1, EMPTY), (2, EMPTY)]))),
];

type Checked<T = ()> = Result<T, String>;

/// Place of a schema element.
#[derive(Default)]
struct Place {
    children: i64,
    has_repetition: bool,
    /// It is a list or a map, or has a logical type.
    is_annotated: bool,
}

/// Checks that a footer has no more in it than its bytes can hold, and nests no deeper than a schema
/// does.
///
/// # Errors
/// A sentence that describes the problem.
pub(super) fn check_footer(footer: &[u8]) -> Checked {
    let mut walk = Walk { rest: footer, elements: 0, is_root: true, children: vec![] };
    let mut last = 0;
    while let Some((id, wire)) = walk.field(last)? {
        last = id;
        match FILE_METADATA.iter().find(|(known, _)| *known == id) {
            Some((_, kind)) => walk.known(*kind, wire, 0, id)?,
            None => walk.skip(wire, 0)?,
        }
    }
    Ok(())
}

struct Walk<'a> {
    rest: &'a [u8],
    elements: usize,
    /// Whether the schema's next element is its first.
    is_root: bool,
    /// Of the schema's open groups, how many children are to come.
    children: Vec<usize>,
}

impl Walk<'_> {
    fn byte(&mut self) -> Checked<u8> {
        let (first, rest) = self.rest.split_first().ok_or("it is cut short")?;
        self.rest = rest;
        Ok(*first)
    }

    fn bytes(&mut self, count: u64) -> Checked {
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        self.rest = self.rest.get(count..).ok_or("it is cut short")?;
        Ok(())
    }

    fn number(&mut self) -> Checked<u64> {
        let mut value = 0_u64;
        for shift in (0..u64::BITS).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err("a number is too long".into())
    }

    fn signed(&mut self) -> Checked<i64> {
        let value = self.number()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    /// Number and type of the next field; `None` at the end of the struct.
    fn field(&mut self, last: i16) -> Checked<Option<(i16, u8)>> {
        let header = self.byte()?;
        let wire = header & 0xf;
        if wire == 0 {
            return Ok(None);
        }
        let id = match i16::from(header >> 4) {
            0 => i16::try_from(self.signed()?).ok(),
            delta => last.checked_add(delta),
        };
        Ok(Some((id.ok_or("a field has no number")?, wire)))
    }

    /// Number and type of the elements of a list.
    fn list(&mut self) -> Checked<(usize, u8)> {
        let header = self.byte()?;
        let count = match header >> 4 {
            15 => self.number()?,
            count => u64::from(count),
        };
        let wire = header & 0xf;
        // Every element takes a byte at least; the decoder takes none for a truth value.
        let count = usize::try_from(count).ok().filter(|count| *count <= self.rest.len());
        let count = count.ok_or("a list is longer than the footer")?;
        if count > 0 && matches!(wire, TRUE | FALSE) {
            return Err("a list of truth values".into());
        }
        self.elements += count;
        if self.elements > ELEMENTS_MAX {
            return Err(format!("its lists have more than {ELEMENTS_MAX} elements"));
        }
        Ok((count, wire))
    }

    fn known(&mut self, kind: Kind, wire: u8, depth: usize, of_file: i16) -> Checked {
        match kind {
            Kind::Bool if matches!(wire, TRUE | FALSE) => Ok(()),
            Kind::Plain(expected) if wire == expected => self.skip(wire, depth),
            Kind::Struct(fields) if wire == STRUCT => self.structure(fields, depth, of_file).map(|_| ()),
            Kind::List(element) if matches!(wire, LIST | SET) => {
                let (count, wire) = self.list()?;
                if depth == 0 && of_file == ROW_GROUPS && count > ROW_GROUPS_MAX {
                    return Err(format!("{count} row groups, more than the {ROW_GROUPS_MAX} that are read"));
                }
                for _ in 0..count {
                    if depth == 0 && of_file == SCHEMA {
                        self.element(*element, wire)?;
                    } else {
                        self.known(*element, wire, depth + 1, 0)?;
                    }
                }
                Ok(())
            }
            _ => Err(format!("a field has the type {wire} instead of its own")),
        }
    }

    /// A struct's fields; what those of a schema's element say of its place.
    fn structure(&mut self, fields: &'static [(i16, Kind)], depth: usize, of_file: i16) -> Checked<Place> {
        let (mut last, mut place) = (0, Place::default());
        while let Some((id, wire)) = self.field(last)? {
            last = id;
            if of_file == SCHEMA {
                place.has_repetition |= id == REPETITION;
                place.is_annotated |= id == LOGICAL_TYPE_OF_ELEMENT;
            }
            match fields.iter().find(|(known, _)| *known == id) {
                Some((CHILDREN, Kind::Plain(I32))) if of_file == SCHEMA && wire == I32 => {
                    place.children = self.signed()?;
                }
                Some((CONVERTED_TYPE, Kind::Plain(I32))) if of_file == SCHEMA && wire == I32 => {
                    place.is_annotated |= NESTED_TYPES.contains(&self.signed()?);
                }
                Some((_, kind)) => self.known(*kind, wire, depth + 1, 0)?,
                None => self.skip(wire, depth + 1)?,
            }
        }
        Ok(place)
    }

    /// An element of the schema, at its place below the groups that are still open.
    fn element(&mut self, kind: Kind, wire: u8) -> Checked {
        let Kind::Struct(fields) = kind else { return Ok(()) };
        if wire != STRUCT {
            return Err(format!("an element of the schema has the type {wire}"));
        }
        let place = self.structure(fields, 1, SCHEMA)?;
        if std::mem::take(&mut self.is_root) {
            if place.is_annotated {
                return Err("the schema itself is a list, a map or a value".into());
            }
        } else if !place.has_repetition {
            return Err("an element of the schema is neither required, optional nor repeated".into());
        }
        let children = usize::try_from(place.children).ok().filter(|children| *children <= self.elements);
        let children = children.ok_or("a group of the schema has more columns than there are")?;
        if let Some(open) = self.children.last_mut() {
            *open -= 1;
        }
        if children > 0 {
            self.children.push(children);
        }
        if self.children.len() > SCHEMA_DEPTH_MAX {
            return Err(format!("the schema is nested deeper than {SCHEMA_DEPTH_MAX} levels"));
        }
        while self.children.last() == Some(&0) {
            self.children.pop();
        }
        Ok(())
    }

    /// A value of which only the type is known.
    fn skip(&mut self, wire: u8, depth: usize) -> Checked {
        if depth > DEPTH_MAX {
            return Err(format!("it is nested deeper than {DEPTH_MAX} levels"));
        }
        match wire {
            TRUE | FALSE => Ok(()),
            BYTE => self.bytes(1),
            I16 | I32 | I64 => self.number().map(|_| ()),
            DOUBLE => self.bytes(8),
            UUID => self.bytes(16),
            BINARY => {
                let length = self.number()?;
                self.bytes(length)
            }
            LIST | SET => {
                let (count, wire) = self.list()?;
                (0..count).try_for_each(|_| self.skip(wire, depth + 1))
            }
            MAP => {
                let count = self.number()?;
                if count == 0 {
                    return Ok(());
                }
                let kinds = self.byte()?;
                let pairs = [kinds >> 4, kinds & 0xf];
                if count > self.rest.len() as u64 || pairs.iter().any(|wire| matches!(*wire, TRUE | FALSE)) {
                    return Err("a map is longer than the footer".into());
                }
                (0..count).try_for_each(|_| pairs.iter().try_for_each(|wire| self.skip(*wire, depth + 1)))
            }
            STRUCT => self.structure(&[], depth, 0).map(|_| ()),
            _ => Err(format!("a field has the unknown type {wire}")),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int64Array, ListArray, RecordBatch, StringArray, StructArray};
    use arrow::datatypes::{DataType, Field, Int64Type};
    use parquet::arrow::ArrowWriter;

    use super::*;
    use crate::decode_footer;

    /// The footer of an object with lists, structs and a page index.
    fn honest() -> Vec<u8> {
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..1000));
        let texts: ArrayRef = Arc::new(StringArray::from_iter_values((0..1000).map(|n| format!("text {n}"))));
        let lists: ArrayRef =
            Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>((0..1000).map(|n| Some(vec![Some(n), None]))));
        let structs: ArrayRef = Arc::new(StructArray::from(vec![(
            Arc::new(Field::new("inner", DataType::Int64, true)),
            Arc::clone(&numbers),
        )]));
        let batch = RecordBatch::try_from_iter([("n", numbers), ("t", texts), ("l", lists), ("s", structs)]).unwrap();
        let mut file = vec![];
        let mut writer = ArrowWriter::try_new(&mut file, batch.schema(), None).unwrap();
        writer.write(&batch).unwrap();
        writer.flush().unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        let length = u32::from_le_bytes(file[file.len() - 8..file.len() - 4].try_into().unwrap()) as usize;
        file[file.len() - 8 - length..file.len() - 8].to_vec()
    }

    fn refused(footer: &[u8], why: &str) {
        let error = decode_footer("t.parquet", footer).unwrap_err().to_string();
        assert!(error.contains("t.parquet") && error.contains(why), "{error}");
    }

    #[test]
    fn what_writers_write_passes() {
        let footer = honest();
        check_footer(&footer).unwrap();
        assert_eq!(decode_footer("t.parquet", &footer).unwrap().num_row_groups(), 2);
    }

    #[test]
    fn lists_that_claim_more_than_there_is() {
        // Version 1, an empty schema, then 2^31 - 1 row groups.
        let root = [0x48, 0x01, b'r', 0x00];
        let schema = [&[0x15, 0x02, 0x19, 0x1c][..], &root].concat();
        refused(
            &[&schema[..], &[0x16, 0x00, 0x19, 0xfc, 0xff, 0xff, 0xff, 0xff, 0x07]].concat(),
            "longer than the footer",
        );
        let some = [&schema[..], &[0x16, 0x00, 0x19, 0xfc, 0xff, 0xff, 0x03], &[0; 70_000]].concat();
        refused(&some, "65535 row groups");
        // A list of truth values takes no bytes, 2^31 times.
        refused(&[0x15, 0x02, 0x89, 0xf1, 0xff, 0xff, 0xff, 0xff, 0x07, 0, 0], "longer than the footer");
        refused(&[0x15, 0x02, 0x89, 0x21, 0, 0, 0], "truth values");
    }

    #[test]
    fn a_schema_deeper_than_the_stack() {
        let group = [0x35, 0x02, 0x18, 0x01, b'g', 0x15, 0x02, 0x00];
        let count = 100_000_u32;
        let mut footer = vec![0x15, 0x02, 0x19, 0xfc];
        footer.extend([(count & 0x7f) as u8 | 0x80, (count >> 7 & 0x7f) as u8 | 0x80, (count >> 14) as u8]);
        (0..count).for_each(|_| footer.extend(group));
        refused(&footer, "nested deeper");
        // A list's group that does not say whether it is required.
        let list = [0x48, 0x04, b'l', b'i', b's', b't', 0x15, 0x02, 0x00];
        refused(&[&[0x15, 0x02, 0x19, 0x2c, 0x48, 0x01, b'r', 0x15, 0x02, 0x00][..], &list].concat(), "nor repeated");
        // A root that is a map (1), and one that is a list by its logical type.
        let item = [0x35, 0x02, 0x18, 0x01, b'i', 0x00];
        for kind in [&[0x15, 0x02, 0x00][..], &[0x5c, 0x3c, 0x00, 0x00, 0x00]] {
            let root = [&[0x15, 0x02, 0x19, 0x2c, 0x48, 0x01, b'r', 0x15, 0x02][..], kind].concat();
            refused(&[&root[..], &item].concat(), "itself is a list");
        }
        // 2^31 - 1 children of the root.
        refused(
            &[0x15, 0x02, 0x19, 0x1c, 0x48, 0x01, b'r', 0x15, 0xfe, 0xff, 0xff, 0xff, 0x0f, 0x00],
            "more columns than there are",
        );
    }

    #[test]
    fn a_field_of_another_type_does_not_hide_a_list() {
        // The name of an element, written as a number.
        refused(&[0x15, 0x02, 0x19, 0x1c, 0x45, 0x02, 0x00], "instead of its own");
    }

    /// Any bytes give an error or a footer, and no panic.
    #[test]
    fn damaged_footers() {
        use rand::{Rng, SeedableRng};
        let seed = 0x5eed_f007;
        println!("seed {seed:#x}");
        let mut random = rand::rngs::StdRng::seed_from_u64(seed);
        let honest = honest();
        for _ in 0..20_000 {
            let mut footer = honest.clone();
            for _ in 0..random.random_range(1..4) {
                let at = random.random_range(0..footer.len());
                footer[at] = if random.random() { random.random() } else { 0xff };
            }
            if random.random_range(0..8) == 0 {
                footer.truncate(random.random_range(0..footer.len()));
            }
            if let Ok(decoded) = decode_footer("t.parquet", &footer) {
                decoded.row_groups().iter().flat_map(|group| group.columns()).for_each(|column| {
                    let _panics_if_negative = column.byte_range();
                });
            }
        }
    }
}
