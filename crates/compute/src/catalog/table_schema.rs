//! One schema over objects whose columns differ.

use std::cmp::max;
use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Fields, Schema, SchemaRef, TimeUnit};

/// Most digits of a [`DataType::Decimal128`].
const DECIMAL128_DIGITS: u8 = 38;
/// Most digits of a [`DataType::Decimal256`].
const DECIMAL256_DIGITS: u8 = 76;

/// The union of the objects' columns, in the order in which they first appear.
///
/// A column's type is the one to which the types of all objects widen without loss. If there is none,
/// it is the type of the objects that came first; a query that needs the column of another object fails.
/// Every column may be NULL: the next object may lack it.
#[derive(Debug, Default)]
pub(super) struct SchemaUnion {
    fields: Vec<(String, DataType)>,
    positions: HashMap<String, usize>,
    /// The schema added last: most objects have that of their neighbour.
    last: Option<SchemaRef>,
}

impl SchemaUnion {
    /// Adds the columns of an object, in its own types.
    pub(super) fn add(&mut self, schema: &SchemaRef) {
        if self.last.as_ref().is_some_and(|last| Arc::ptr_eq(last, schema) || last.fields() == schema.fields()) {
            return;
        }
        for field in schema.fields() {
            match self.positions.get(field.name()).and_then(|position| self.fields.get_mut(*position)) {
                Some((_, known)) => {
                    if let Some(wider) = widened(known, field.data_type()) {
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

/// The type in which a table has values of `data_type`. Strings are views, which is what the readers
/// yield: short strings need no indirection, and a Parquet dictionary's values are shared rather than
/// copied.
pub(super) fn table_type(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Utf8 | DataType::LargeUtf8 => DataType::Utf8View,
        DataType::Binary | DataType::LargeBinary => DataType::BinaryView,
        DataType::Dictionary(_, values) => table_type(values),
        DataType::RunEndEncoded(_, values) => table_type(values.data_type()),
        DataType::Decimal32(precision, scale) | DataType::Decimal64(precision, scale) => {
            DataType::Decimal128(*precision, *scale)
        }
        DataType::Float16 => DataType::Float32,
        other => other.clone(),
    }
}

/// Whether the reader can yield values of an object's type as the table's: those that widen without
/// loss, and timestamps in any unit, of which a coarser one drops the digits that it has no room for.
pub(super) fn reads_as(object: &DataType, table: &DataType) -> bool {
    match (object, table) {
        (DataType::Timestamp(_, object), DataType::Timestamp(_, table)) => object.is_some() == table.is_some(),
        _ => widened(object, table).as_ref() == Some(table),
    }
}

/// The narrowest type that holds every value of both types exactly; `None` if there is none.
pub(super) fn widened(a: &DataType, b: &DataType) -> Option<DataType> {
    use DataType::{
        BinaryView, Date32, Date64, FixedSizeBinary, Float32, Float64, LargeList, List, Null, Struct, Time32, Time64,
        Timestamp,
    };
    let (a, b) = (table_type(a), table_type(b));
    Some(match (&a, &b) {
        _ if a == b => a,
        (Null, other) | (other, Null) => other.clone(),
        (Float32, Float64) | (Float64, Float32) => Float64,
        (Float32 | Float64, integer) if integer.is_integer() => float_and_integer(&a, integer)?,
        (integer, Float32 | Float64) if integer.is_integer() => float_and_integer(&b, integer)?,
        (Date32, Date64) | (Date64, Date32) => Date64,
        (Timestamp(unit, zone), Timestamp(other, of_other)) if zone.is_some() == of_other.is_some() => {
            // Both are instants; the zone is only how they are shown.
            Timestamp(finer(*unit, *other), zone.clone())
        }
        (Time32(_) | Time64(_), Time32(_) | Time64(_)) => match (time_unit(&a)?, time_unit(&b)?) {
            (TimeUnit::Nanosecond, _) | (_, TimeUnit::Nanosecond) => Time64(TimeUnit::Nanosecond),
            (TimeUnit::Microsecond, _) | (_, TimeUnit::Microsecond) => Time64(TimeUnit::Microsecond),
            _ => Time32(TimeUnit::Millisecond),
        },
        (FixedSizeBinary(_), BinaryView | FixedSizeBinary(_)) | (BinaryView, FixedSizeBinary(_)) => BinaryView,
        (List(item), List(other)) => List(Arc::new(widened_field(item, other)?)),
        (LargeList(item), LargeList(other) | List(other)) | (List(item), LargeList(other)) => {
            LargeList(Arc::new(widened_field(item, other)?))
        }
        (Struct(fields), Struct(others)) => Struct(widened_struct(fields, others)?),
        _ if is_number(&a) && is_number(&b) => match (integer_range(&a), integer_range(&b)) {
            (Some(a), Some(b)) => integer_of(a.0.max(b.0), a.1.max(b.1))?,
            _ => decimal_of(digits(&a)?, digits(&b)?)?,
        },
        _ => return None,
    })
}

/// A list's item or a struct's field.
fn widened_field(field: &Field, other: &Field) -> Option<Field> {
    let data_type = match field.data_type() == other.data_type() {
        true => field.data_type().clone(),
        false => widened(field.data_type(), other.data_type())?,
    };
    Some(Field::new(field.name(), data_type, field.is_nullable() || other.is_nullable()))
}

/// Structs with fields of the same names in the same order.
fn widened_struct(fields: &Fields, others: &Fields) -> Option<Fields> {
    let alike = fields.len() == others.len() && fields.iter().zip(others).all(|(a, b)| a.name() == b.name());
    alike
        .then(|| fields.iter().zip(others).map(|(a, b)| widened_field(a, b)).collect::<Option<Vec<_>>>())?
        .map(Fields::from)
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

fn time_unit(data_type: &DataType) -> Option<TimeUnit> {
    match data_type {
        DataType::Time32(unit) | DataType::Time64(unit) => Some(*unit),
        _ => None,
    }
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
        assert!(!reads_as(&Int64, &Int32) && !reads_as(&Decimal128(9, 4), &Decimal128(9, 2)));
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
