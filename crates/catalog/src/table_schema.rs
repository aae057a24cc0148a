//! One schema over objects whose columns differ.

use std::cmp::max;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef, TimeUnit};

/// Most digits of a [`DataType::Decimal128`].
const DECIMAL128_DIGITS: u8 = 38;
/// Most digits of a [`DataType::Decimal256`].
const DECIMAL256_DIGITS: u8 = 76;

/// The union of the objects' columns, in the order in which they first appear.
///
/// A column's type is the one to which the types of all objects widen without loss. If there is none,
/// it is the type of the objects that came first; a query that needs the column of another object fails.
/// Of text it is then VARCHAR, which holds every value. Every column may be NULL: the next object may
/// lack it.
#[derive(Debug, Default)]
pub(super) struct SchemaUnion {
    fields: Vec<(String, DataType)>,
    positions: HashMap<String, usize>,
    /// The schema added last: most objects have that of their neighbour.
    last: Option<SchemaRef>,
    /// Whether the objects are text, from which types are only inferred.
    is_text: bool,
}

impl SchemaUnion {
    /// A union of the columns of text objects.
    pub(super) fn of_text() -> Self {
        Self { is_text: true, ..Self::default() }
    }

    /// Adds the columns of an object, in its own types.
    pub(super) fn add(&mut self, schema: &SchemaRef) {
        if self.last.as_ref().is_some_and(|last| Arc::ptr_eq(last, schema) || last.fields() == schema.fields()) {
            return;
        }
        for field in schema.fields() {
            match self.positions.get(field.name()).and_then(|position| self.fields.get_mut(*position)) {
                Some((_, known)) => {
                    if self.is_text {
                        *known = of_text(known, field.data_type());
                    } else if let Some(wider) = widened(known, field.data_type()) {
                        *known = wider;
                    }
                }
                None => {
                    self.positions.insert(field.name().clone(), self.fields.len());
                    self.fields.push((field.name().clone(), table_type(field.data_type())));
                }
            }
        }
        self.last = Some(Arc::clone(schema));
    }

    /// The table's columns.
    pub(super) fn finish(self) -> SchemaRef {
        let field = |(name, data_type)| match data_type {
            // Nothing but NULLs so far.
            DataType::Null => Field::new(name, DataType::Utf8View, true),
            data_type => Field::new(name, data_type, true),
        };
        Arc::new(Schema::new(self.fields.into_iter().map(field).collect::<Fields>()))
    }
}

/// The type that is inferred from text with values of both types, as of one object that has them all.
/// Nanoseconds do not hold the years of coarser timestamps.
fn of_text(a: &DataType, b: &DataType) -> DataType {
    use DataType::{Date32, Float64, Int64, Null, Timestamp};
    match (a, b) {
        _ if a == b => a.clone(),
        (Null, other) | (other, Null) => other.clone(),
        (Int64, Float64) | (Float64, Int64) => Float64,
        (Date32, Timestamp(unit, None)) | (Timestamp(unit, None), Date32) if *unit != TimeUnit::Nanosecond => {
            Timestamp(*unit, None)
        }
        (Timestamp(unit, zone), Timestamp(other, of_other))
            if zone == of_other && *unit != TimeUnit::Nanosecond && *other != TimeUnit::Nanosecond =>
        {
            Timestamp(finer(*unit, *other), zone.clone())
        }
        _ => DataType::Utf8View,
    }
}

/// The type in which a table has values of `data_type`. Strings are views, which is what the readers
/// yield: short strings need no indirection, and a Parquet dictionary's values are shared rather than
/// copied. What is nested may be NULL, and has the names that Arrow gives it, whatever the object's writer
/// called it.
pub(super) fn table_type(data_type: &DataType) -> DataType {
    match data_type {
        DataType::List(item) => DataType::List(item_field(item)),
        DataType::LargeList(item) => DataType::LargeList(item_field(item)),
        DataType::FixedSizeList(item, size) => DataType::FixedSizeList(item_field(item), *size),
        DataType::Struct(fields) => {
            DataType::Struct(fields.iter().map(|field| nested_field(field.name(), field.data_type())).collect())
        }
        DataType::Map(entries, sorted) => match map_types(entries) {
            Some((key, value)) => map_of(nested_type(key), nested_type(value), *sorted),
            None => data_type.clone(),
        },
        DataType::Utf8 | DataType::LargeUtf8 => DataType::Utf8View,
        DataType::Binary | DataType::LargeBinary => DataType::BinaryView,
        DataType::Dictionary(_, values) => table_type(values),
        DataType::RunEndEncoded(_, values) => table_type(values.data_type()),
        DataType::Decimal32(precision, scale) | DataType::Decimal64(precision, scale) => {
            DataType::Decimal128(*precision, *scale)
        }
        DataType::Float16 => DataType::Float32,
        // Milliseconds of whole days, and the unit of SQL's TIME: there is no comparison of times in two units,
        // and one of dates in two units is in nanoseconds, which hardly hold a date.
        DataType::Date64 => DataType::Date32,
        DataType::Time32(_) | DataType::Time64(_) => DataType::Time64(TimeUnit::Nanosecond),
        other => other.clone(),
    }
}

/// Whether the reader can yield values of an object's type as the table's: those that widen without
/// loss, and timestamps in any unit, of which a coarser one drops the digits that it has no room for.
/// Fields of a struct are found by name: those that only the object has are left out.
pub(super) fn reads_as(object: &DataType, table: &DataType) -> bool {
    match (object, table) {
        (DataType::Timestamp(_, object), DataType::Timestamp(_, table)) => object.is_some() == table.is_some(),
        (DataType::List(object), DataType::List(table)) | (DataType::LargeList(object), DataType::LargeList(table)) => {
            reads_as(object.data_type(), table.data_type())
        }
        // SQL declares no large lists.
        (DataType::LargeList(object), DataType::List(table)) => {
            by_position(object.data_type(), table.data_type()) && reads_as(object.data_type(), table.data_type())
        }
        (DataType::FixedSizeList(object, size), DataType::FixedSizeList(table, of_table)) => {
            size == of_table && reads_as(object.data_type(), table.data_type())
        }
        (DataType::Struct(fields), DataType::Struct(of_table)) if are_matched_by_name(fields, of_table) => {
            let reads = |column: &FieldRef| match fields.find(column.name()) {
                Some((_, field)) => reads_as(field.data_type(), column.data_type()),
                None => column.is_nullable(),
            };
            of_table.iter().all(reads)
        }
        // Nested texts and bytes are as their writer had them, views or not.
        _ if object.is_string() && table.is_string() => true,
        (_, DataType::Binary | DataType::LargeBinary | DataType::BinaryView) if object.is_binary() => true,
        _ => nested_type(object) == *table || widened(object, table).as_ref() == Some(table),
    }
}

/// The narrowest type that holds every value of both types exactly; `None` if there is none.
pub(super) fn widened(a: &DataType, b: &DataType) -> Option<DataType> {
    use DataType::{
        BinaryView, Duration, FixedSizeBinary, FixedSizeList, Float32, Float64, LargeList, List, Map, Null, Struct,
        Timestamp,
    };
    let (a, b) = (table_type(a), table_type(b));
    Some(match (&a, &b) {
        _ if a == b => a,
        (Null, other) | (other, Null) => other.clone(),
        (Float32, Float64) | (Float64, Float32) => Float64,
        (Float32 | Float64, integer) if integer.is_integer() => float_and_integer(&a, integer)?,
        (integer, Float32 | Float64) if integer.is_integer() => float_and_integer(&b, integer)?,
        (Timestamp(unit, zone), Timestamp(other, of_other)) if zone.is_some() == of_other.is_some() => {
            // Both are instants; the zone is only how they are shown.
            Timestamp(finer(*unit, *other), zone.clone())
        }
        (FixedSizeBinary(_), BinaryView | FixedSizeBinary(_)) | (BinaryView, FixedSizeBinary(_)) => BinaryView,
        (Duration(unit), Duration(other)) => Duration(finer(*unit, *other)),
        (List(item), List(other)) => List(widened_field(item, other)?),
        (LargeList(item), LargeList(other)) => LargeList(widened_field(item, other)?),
        (LargeList(item), List(other)) | (List(item), LargeList(other)) => {
            LargeList(by_position(item.data_type(), other.data_type()).then(|| widened_field(item, other))??)
        }
        (FixedSizeList(item, size), FixedSizeList(other, of_other)) if size == of_other => {
            FixedSizeList(widened_field(item, other)?, *size)
        }
        (Struct(fields), Struct(others)) => Struct(widened_struct(fields, others)?),
        (Map(entries, sorted), Map(others, of_others)) if sorted == of_others => {
            let ((key, value), (other_key, other_value)) = (map_types(entries)?, map_types(others)?);
            let alike = by_position(key, other_key) && by_position(value, other_value);
            let types = || Some((widened_nested(key, other_key)?, widened_nested(value, other_value)?));
            let (key, value) = alike.then(types)??;
            map_of(key, value, *sorted)
        }
        _ if is_number(&a) && is_number(&b) => match (integer_range(&a), integer_range(&b)) {
            (Some(a), Some(b)) => integer_of(a.0.max(b.0), a.1.max(b.1))?,
            _ => decimal_of(digits(&a)?, digits(&b)?)?,
        },
        _ => return None,
    })
}

/// Whether a cast of numbers or timestamps loses anything: values beyond the range, digits, or fractions of
/// a coarser unit.
pub fn narrows(from: &DataType, to: &DataType) -> bool {
    let (from, to) = (table_type(from), table_type(to));
    if let (DataType::Timestamp(from, _), DataType::Timestamp(to, _)) = (&from, &to) {
        return from > to;
    }
    match (integer_range(&from), integer_range(&to)) {
        (Some(from), Some(to)) => from.0 > to.0 || from.1 > to.1,
        _ => match (digits(&from), digits(&to)) {
            (Some(from), Some(to)) => from.0 > to.0 || from.1 > to.1,
            _ => false,
        },
    }
}

/// A list's item of the table.
fn item_field(item: &Field) -> FieldRef {
    nested_field(Field::LIST_FIELD_DEFAULT_NAME, item.data_type())
}

/// A list's item or a struct's field of the table.
fn nested_field(name: &str, data_type: &DataType) -> FieldRef {
    Arc::new(Field::new(name, nested_type(data_type), true))
}

/// The type of what is nested: strings and the like are as the object has them.
fn nested_type(data_type: &DataType) -> DataType {
    if data_type.is_nested() { table_type(data_type) } else { data_type.clone() }
}

fn map_of(key: DataType, value: DataType, sorted: bool) -> DataType {
    let entry = [Field::new("key", key, false), Field::new("value", value, true)];
    DataType::Map(Arc::new(Field::new("entries", DataType::Struct(entry.into_iter().collect()), false)), sorted)
}

/// Types of a map's keys and values.
fn map_types(entries: &Field) -> Option<(&DataType, &DataType)> {
    match entries.data_type() {
        DataType::Struct(fields) => match fields.as_ref() {
            [key, value] => Some((key.data_type(), value.data_type())),
            _ => None,
        },
        _ => None,
    }
}

fn widened_nested(a: &DataType, b: &DataType) -> Option<DataType> {
    let (a, b) = (nested_type(a), nested_type(b));
    if a == b { Some(a) } else { widened(&a, &b) }
}

/// A list's item or a struct's field of the same name.
fn widened_field(field: &Field, other: &Field) -> Option<FieldRef> {
    Some(Arc::new(Field::new(field.name(), widened_nested(field.data_type(), other.data_type())?, true)))
}

/// The fields of both structs, those of the first one first.
fn widened_struct(fields: &Fields, others: &Fields) -> Option<Fields> {
    if !are_matched_by_name(fields, others) {
        return None;
    }
    let widened = fields.iter().map(|field| match others.find(field.name()) {
        Some((_, other)) => widened_field(field, other),
        None => Some(nested_field(field.name(), field.data_type())),
    });
    let added = others.iter().filter(|other| fields.find(other.name()).is_none());
    let added = added.map(|other| Some(nested_field(other.name(), other.data_type())));
    widened.chain(added).collect()
}

/// Whether the reader can tell the fields of structs apart by name: each has one of its own, and at least
/// one is in both.
fn are_matched_by_name(fields: &Fields, others: &Fields) -> bool {
    let distinct =
        |fields: &Fields| fields.iter().map(|field| field.name()).collect::<HashSet<_>>().len() == fields.len();
    distinct(fields) && distinct(others) && fields.iter().any(|field| others.find(field.name()).is_some())
}

/// Whether structs within the types have the same fields in the same order, as values of maps and items of
/// lists that become large ones must: the reader matches those by position.
fn by_position(a: &DataType, b: &DataType) -> bool {
    use DataType::{FixedSizeList, LargeList, List, Map, Struct};
    match (a, b) {
        (Struct(fields), Struct(others)) => {
            fields.len() == others.len()
                && fields
                    .iter()
                    .zip(others)
                    .all(|(a, b)| a.name() == b.name() && by_position(a.data_type(), b.data_type()))
        }
        (List(a) | LargeList(a) | FixedSizeList(a, _), List(b) | LargeList(b) | FixedSizeList(b, _)) => {
            by_position(a.data_type(), b.data_type())
        }
        (Map(a, _), Map(b, _)) => match (map_types(a), map_types(b)) {
            (Some(a), Some(b)) => by_position(a.0, b.0) && by_position(a.1, b.1),
            _ => false,
        },
        _ => true,
    }
}

fn finer(a: TimeUnit, b: TimeUnit) -> TimeUnit {
    let fineness = |unit| match unit {
        TimeUnit::Second => 0,
        TimeUnit::Millisecond => 1,
        TimeUnit::Microsecond => 2,
        TimeUnit::Nanosecond => 3,
    };
    if fineness(a) >= fineness(b) { a } else { b }
}

fn is_number(data_type: &DataType) -> bool {
    data_type.is_integer() || matches!(data_type, DataType::Decimal128(..) | DataType::Decimal256(..))
}

/// A float that holds the integers exactly: those of 16 bits fit 24, those of 32 bits fit 53.
fn float_and_integer(float: &DataType, integer: &DataType) -> Option<DataType> {
    match integer.primitive_width()? {
        1 | 2 => Some(float.clone()),
        4 => Some(DataType::Float64),
        _ => None,
    }
}

/// Bits below zero and above it: an `Int32` is (31, 31), a `UInt32` (0, 32).
fn integer_range(data_type: &DataType) -> Option<(usize, usize)> {
    let bits = data_type.primitive_width()? * 8;
    match data_type {
        _ if data_type.is_signed_integer() => Some((bits - 1, bits - 1)),
        _ if data_type.is_unsigned_integer() => Some((0, bits)),
        _ => None,
    }
}

fn integer_of(below: usize, above: usize) -> Option<DataType> {
    Some(match (below, above) {
        (0, 8) => DataType::UInt8,
        (0, 16) => DataType::UInt16,
        (0, 32) => DataType::UInt32,
        (0, 64) => DataType::UInt64,
        (below, above) => match max(below, above) {
            0..=7 => DataType::Int8,
            8..=15 => DataType::Int16,
            16..=31 => DataType::Int32,
            32..=63 => DataType::Int64,
            64 => DataType::Decimal128(20, 0),
            _ => return None,
        },
    })
}

/// Digits before and after the point.
fn digits(data_type: &DataType) -> Option<(u8, i8)> {
    Some(match data_type {
        DataType::Decimal128(precision, scale) | DataType::Decimal256(precision, scale) => {
            (u8::try_from(i16::from(*precision) - i16::from(*scale)).ok()?, *scale)
        }
        DataType::Int8 | DataType::UInt8 => (3, 0),
        DataType::Int16 | DataType::UInt16 => (5, 0),
        DataType::Int32 | DataType::UInt32 => (10, 0),
        DataType::Int64 => (19, 0),
        DataType::UInt64 => (20, 0),
        _ => return None,
    })
}

fn decimal_of((before, after): (u8, i8), (other_before, other_after): (u8, i8)) -> Option<DataType> {
    let (before, after) = (max(before, other_before), max(after, other_after).max(0));
    let precision = before.checked_add(u8::try_from(after).ok()?)?;
    if precision <= DECIMAL128_DIGITS {
        Some(DataType::Decimal128(precision, after))
    } else {
        (precision <= DECIMAL256_DIGITS).then_some(DataType::Decimal256(precision, after))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use DataType::*;

    #[test]
    fn types_widen_without_loss_or_not_at_all() {
        let micros = Timestamp(TimeUnit::Microsecond, None);
        for (a, b, wider) in [
            (Int8, Int64, Some(Int64)),
            (UInt8, UInt32, Some(UInt32)),
            (UInt8, Int8, Some(Int16)),
            (UInt32, Int8, Some(Int64)),
            (UInt64, Int8, Some(Decimal128(20, 0))),
            (Int32, Decimal128(9, 2), Some(Decimal128(12, 2))),
            (Decimal128(9, 2), Decimal128(9, 4), Some(Decimal128(11, 4))),
            (Decimal128(38, 0), Decimal128(38, 10), Some(Decimal256(48, 10))),
            (Decimal256(76, 0), Decimal128(2, 1), None),
            (Float32, Float64, Some(Float64)),
            (Int16, Float32, Some(Float32)),
            (Int32, Float32, Some(Float64)),
            (Int64, Float64, None),
            (Decimal128(9, 2), Float64, None),
            (Utf8, LargeUtf8, Some(Utf8View)),
            (Utf8, Binary, None),
            (FixedSizeBinary(4), Binary, Some(BinaryView)),
            (Dictionary(Box::new(Int8), Box::new(Int16)), Int32, Some(Int32)),
            (Timestamp(TimeUnit::Millisecond, None), micros.clone(), Some(micros.clone())),
            (Timestamp(TimeUnit::Millisecond, Some("UTC".into())), micros.clone(), None),
            (Date32, micros, None),
            (Boolean, Int8, None),
            (Null, Date32, Some(Date32)),
        ] {
            assert_eq!(widened(&a, &b), wider, "{a} and {b}");
            assert_eq!(widened(&b, &a), wider, "{b} and {a}");
            for narrow in [&a, &b] {
                assert!(wider.as_ref().is_none_or(|wider| reads_as(narrow, wider)), "{narrow}");
            }
        }
        let view = structs(&[("a", structs(&[("b", Utf8View)])), ("c", BinaryView)]);
        let other = structs(&[("a", structs(&[("b", Utf8)])), ("c", Binary)]);
        assert!(reads_as(&view, &other) && reads_as(&other, &view));
        assert!(!reads_as(&Int64, &Int32) && !reads_as(&Decimal128(9, 4), &Decimal128(9, 2)));
    }

    fn structs(fields: &[(&str, DataType)]) -> DataType {
        Struct(fields.iter().map(|(name, of)| Field::new(*name, of.clone(), true)).collect())
    }

    #[test]
    fn nested_types_widen_by_name() {
        let list = |name: &str, of: DataType, nullable| List(Arc::new(Field::new(name, of, nullable)));
        let large = |of| LargeList(Arc::new(Field::new("element", of, false)));
        let map = |names: [&str; 3], value: DataType| {
            let entry = [Field::new(names[1], Utf8, false), Field::new(names[2], value, false)];
            Map(Arc::new(Field::new(names[0], Struct(entry.into_iter().collect()), false)), false)
        };
        let (ab, ba) = (structs(&[("a", Int32), ("b", Utf8)]), structs(&[("b", Utf8), ("a", Int64)]));
        let names = ["key_value", "k", "v"];
        for (a, b, wider) in [
            (list("element", Int32, false), list("item", Int64, true), Some(list("item", Int64, true))),
            (list("x", Utf8, false), list("y", Utf8, false), Some(list("item", Utf8, true))),
            (list("x", Int8, false), large(Int16), Some(table_type(&large(Int16)))),
            (ab.clone(), ba.clone(), Some(structs(&[("a", Int64), ("b", Utf8)]))),
            (
                ab.clone(),
                structs(&[("c", Int8), ("a", Int8)]),
                Some(structs(&[("a", Int32), ("b", Utf8), ("c", Int8)])),
            ),
            (ab.clone(), structs(&[("c", Int8)]), None),
            (ab.clone(), structs(&[("a", Date32), ("b", Utf8)]), None),
            (structs(&[("a", Int32), ("a", Utf8)]), ab.clone(), None),
            (list("x", ab.clone(), true), list("y", ba.clone(), true), {
                Some(list("item", structs(&[("a", Int64), ("b", Utf8)]), true))
            }),
            // The reader would take these fields by position.
            (large(ab.clone()), list("x", ba.clone(), true), None),
            (map(names, ab.clone()), map(names, ba.clone()), None),
            (map(names, Int8), map(["entries", "key", "value"], Int64), Some(map_of(Utf8, Int64, false))),
            (Duration(TimeUnit::Millisecond), Duration(TimeUnit::Microsecond), Some(Duration(TimeUnit::Microsecond))),
        ] {
            assert_eq!(widened(&a, &b), wider, "{a} and {b}");
            for narrow in [&a, &b] {
                assert!(wider.as_ref().is_none_or(|wider| reads_as(narrow, wider)), "{narrow} as {wider:?}");
            }
        }
        // An object may have more fields than the table.
        assert!(reads_as(&structs(&[("z", Int8), ("a", Int32)]), &ab));
        assert!(!reads_as(&structs(&[("a", Int64), ("b", Utf8)]), &ab) && !reads_as(&structs(&[("z", Int8)]), &ab));
    }

    #[test]
    fn text_of_two_objects_is_inferred_as_that_of_one() {
        let inferred = |values: &[&str]| {
            let rows: String = values.iter().map(|value| format!("{value},x\n")).collect();
            let options = thermocline_formats::csv::CsvOptions::default();
            let text = format!("a,b\n{rows}");
            Arc::new(thermocline_formats::csv::infer_schema(text.as_bytes(), true, &options).unwrap().unwrap())
        };
        let values = [
            "",
            "1",
            "2.5",
            "NaN",
            "true",
            "x",
            "2020-01-02",
            "2020-01-02 03:04:05",
            "2020-01-02 03:04:05.123456",
            "2020-01-02 03:04:05+02:00",
            "9999-12-31",
        ];
        for a in values {
            for b in values {
                let mut union = SchemaUnion::of_text();
                union.add(&inferred(&[a]));
                union.add(&inferred(&[b]));
                let mut together = SchemaUnion::of_text();
                together.add(&inferred(&[a, b]));
                assert_eq!(union.finish(), together.finish(), "{a:?} and {b:?}");
            }
        }
        let nanoseconds = inferred(&["2020-01-02 03:04:05.123456789"]);
        let mut union = SchemaUnion::of_text();
        union.add(&nanoseconds);
        assert_eq!(union.fields[0].1, *nanoseconds.field(0).data_type());
        union.add(&inferred(&["9999-12-31"]));
        assert_eq!(union.fields[0].1, Utf8View);
    }

    #[test]
    fn a_union_keeps_the_first_type_of_what_does_not_widen() {
        let object = |fields: &[(&str, DataType)]| {
            Arc::new(Schema::new(
                fields.iter().map(|(name, data_type)| Field::new(*name, data_type.clone(), false)).collect::<Vec<_>>(),
            ))
        };
        let mut union = SchemaUnion::default();
        union.add(&object(&[("a", Int32), ("b", Utf8)]));
        union.add(&object(&[("c", Null), ("b", Int8), ("a", Int64)]));
        let expected = [("a", Int64), ("b", Utf8View), ("c", Utf8View)];
        let expected: Vec<_> = expected.into_iter().map(|(name, of)| Field::new(name, of, true)).collect();
        assert_eq!(union.finish().as_ref(), &Schema::new(expected));
    }
}
