//! Index keys: bytes that compare like the values.
//!
//! ```text
//! key     := column*
//! column  := value             of a NOT NULL column
//!          | 00 value          of a nullable column
//!          | 01                NULL: after all values
//! value   := fixed             numbers: big-endian, sign bit flipped; floats also inverted if negative
//!                            and the bytes of UUIDs
//!          | (byte | 00 FF)* 00 00      text and bytes: 00 is followed by FF, the end is 00 00
//! ```
//!
//! A descending column has every byte inverted, so that NULL comes first. In both directions NULL is where PostgreSQL
//! puts it without `NULLS FIRST` or `NULLS LAST`, and an index gives the order of an `ORDER BY` without sorting.
//!
//! Keys are self-delimiting: no value's bytes are a prefix of another's, so the keys that begin with
//! given values are exactly those from [`encode`]'s bytes up to [`successor`]'s.

use thermocline_types::{DataType, Decimal, Error, Result, Value, ValueRef, canonical_f32, canonical_f64};

/// One column of an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyColumn {
    /// Type of its values; the scale of decimals is fixed.
    pub data_type: DataType,
    /// Whether it may be NULL, which costs a byte.
    pub nullable: bool,
    /// Whether larger values come first.
    pub descending: bool,
}

/// A decimal of up to this many digits takes 8 bytes, a longer one 16.
const DIGITS_IN_8_BYTES: u8 = 18;

const NOT_NULL: u8 = 0;
const NULL: u8 = 1;

impl KeyColumn {
    /// Bytes that a value of the column takes, if all values take the same.
    pub const fn width(self) -> Option<usize> {
        if self.nullable {
            return None;
        }
        match self.data_type {
            DataType::Boolean => Some(1),
            DataType::SmallInt => Some(2),
            DataType::Integer | DataType::Real | DataType::Date => Some(4),
            DataType::BigInt | DataType::Double | DataType::Timestamp | DataType::TimestampTz => Some(8),
            DataType::Decimal { precision, .. } if precision <= DIGITS_IN_8_BYTES => Some(8),
            DataType::Decimal { .. } | DataType::Uuid => Some(16),
            DataType::Numeric
            | DataType::Text
            | DataType::Varchar(_)
            | DataType::Char(_)
            | DataType::Bytea
            | DataType::Interval
            | DataType::Jsonb => None,
        }
    }
}

/// Appends one column's value, which must be of the column's type (see
/// [`assign`](thermocline_types::assign)).
#[inline(always)]
pub fn encode(out: &mut Vec<u8>, column: KeyColumn, value: ValueRef<'_>) -> Result<()> {
    // The most common columns.
    if !column.nullable && !column.descending && !value.is_null() {
        return encode_value(out, column.data_type, value);
    }
    encode_any(out, column, value)
}

/// Appends the integer of a column that is never NULL; returns false and appends nothing if the column has another type
/// or the number is out of its range.
#[inline]
pub fn push_integer(out: &mut Vec<u8>, column: KeyColumn, number: i64) -> bool {
    match column.data_type {
        _ if column.nullable || column.descending => return false,
        DataType::BigInt => out.extend_from_slice(&(number ^ i64::MIN).to_be_bytes()),
        DataType::Integer => match i32::try_from(number) {
            Ok(number) => out.extend_from_slice(&integer(number)),
            Err(_) => return false,
        },
        _ => return false,
    }
    true
}

/// Key bytes of an INTEGER in an ascending column that is never NULL.
#[inline]
pub const fn integer(number: i32) -> [u8; 4] {
    (number ^ i32::MIN).to_be_bytes()
}

fn encode_any(out: &mut Vec<u8>, column: KeyColumn, value: ValueRef<'_>) -> Result<()> {
    let start = out.len();
    if value.is_null() {
        if !column.nullable {
            return Err(Error::internal("NULL in a key column that is NOT NULL"));
        }
        out.push(NULL);
    } else {
        if column.nullable {
            out.push(NOT_NULL);
        }
        encode_value(out, column.data_type, value)?;
    }
    if column.descending {
        invert(out.get_mut(start..).unwrap_or_default());
    }
    Ok(())
}

#[inline(always)]
fn encode_value(out: &mut Vec<u8>, data_type: DataType, value: ValueRef<'_>) -> Result<()> {
    match value {
        ValueRef::Int(number)
            if push_integer(out, KeyColumn { data_type, nullable: false, descending: false }, number) =>
        {
            Ok(())
        }
        _ => encode_other(out, data_type, value),
    }
}

/// Values of the less common types, other than INTEGER and BIGINT.
#[inline(never)]
fn encode_other(out: &mut Vec<u8>, data_type: DataType, value: ValueRef<'_>) -> Result<()> {
    match (value, data_type) {
        (ValueRef::Int(number), DataType::SmallInt) => {
            let number = i16::try_from(number).map_err(|_| wrong(value, data_type))?;
            out.extend_from_slice(&(number ^ i16::MIN).to_be_bytes());
        }
        (ValueRef::Text(text), DataType::Text | DataType::Varchar(_) | DataType::Char(_)) => {
            escape(out, text.as_bytes())
        }
        (ValueRef::Bytes(bytes), DataType::Bytea) => escape(out, bytes),
        (ValueRef::Uuid(uuid), DataType::Uuid) => out.extend_from_slice(&uuid),
        (ValueRef::Boolean(value), DataType::Boolean) => out.push(value.into()),
        (ValueRef::Date(days), DataType::Date) => out.extend_from_slice(&(days ^ i32::MIN).to_be_bytes()),
        (ValueRef::Timestamp(micros), DataType::Timestamp) | (ValueRef::TimestampTz(micros), DataType::TimestampTz) => {
            out.extend_from_slice(&(micros ^ i64::MIN).to_be_bytes());
        }
        (ValueRef::Real(number), DataType::Real) => out.extend_from_slice(&real_bits(number).to_be_bytes()),
        (ValueRef::Float(number), DataType::Double) => out.extend_from_slice(&float_bits(number).to_be_bytes()),
        (ValueRef::Decimal(number), DataType::Decimal { precision, scale }) => {
            if number.scale() != scale {
                return Err(wrong(value, data_type));
            }
            let units = number.units();
            if precision <= DIGITS_IN_8_BYTES {
                let units = i64::try_from(units).map_err(|_| wrong(value, data_type))?;
                out.extend_from_slice(&(units ^ i64::MIN).to_be_bytes());
            } else {
                out.extend_from_slice(&(units ^ i128::MIN).to_be_bytes());
            }
        }
        _ => return Err(wrong(value, data_type)),
    }
    Ok(())
}

#[cold]
fn wrong(value: ValueRef<'_>, data_type: DataType) -> Error {
    Error::internal(format_args!("{value} in a key column of type {data_type}"))
}

/// Floats as integers that sort alike: -0 is 0, and every NaN is the largest.
fn float_bits(number: f64) -> u64 {
    let bits = canonical_f64(number).to_bits();
    if bits >> 63 == 0 { bits | 1 << 63 } else { !bits }
}

/// [`float_bits`] for 32 bits.
fn real_bits(number: f32) -> u32 {
    let bits = canonical_f32(number).to_bits();
    if bits >> 31 == 0 { bits | 1 << 31 } else { !bits }
}

fn escape(out: &mut Vec<u8>, bytes: &[u8]) {
    if bytes.contains(&0) {
        for &byte in bytes {
            out.push(byte);
            if byte == 0 {
                out.push(0xff);
            }
        }
    } else {
        out.extend_from_slice(bytes);
    }
    out.extend_from_slice(&[0, 0]);
}

fn invert(bytes: &mut [u8]) {
    for byte in bytes {
        *byte = !*byte;
    }
}

/// Turns the bytes of a prefix into the first bytes after all keys with that prefix; false if there are none, because
/// all its bytes are FF.
pub fn successor(prefix: &mut Vec<u8>) -> bool {
    while let Some(last) = prefix.last_mut() {
        if *last < 0xff {
            *last += 1;
            return true;
        }
        prefix.pop();
    }
    false
}

/// Decodes the values of a key, one per column.
pub fn decode(mut key: &[u8], columns: &[KeyColumn]) -> Result<Vec<Value>> {
    let values = columns.iter().map(|column| decode_one(&mut key, *column)).collect::<Option<Vec<_>>>();
    values.filter(|_| key.is_empty()).ok_or_else(|| Error::internal("an index key that is none of its columns"))
}

/// Bytes of the key that these bytes begin with; `None` if they begin with none of these columns.
pub fn length(bytes: &[u8], columns: &[KeyColumn]) -> Option<usize> {
    let mut rest = bytes;
    columns.iter().try_for_each(|column| decode_one(&mut rest, *column).map(drop))?;
    Some(bytes.len() - rest.len())
}

/// Takes one column's value off the front.
fn decode_one(key: &mut &[u8], column: KeyColumn) -> Option<Value> {
    let flip = if column.descending { 0xff } else { 0 };
    if column.nullable {
        let (tag, rest) = key.split_first()?;
        *key = rest;
        if tag ^ flip == NULL {
            return Some(Value::Null);
        }
    }
    Some(match column.data_type {
        DataType::Boolean => Value::Boolean(fixed::<1>(key, flip)? != [0]),
        DataType::SmallInt => Value::Int((i16::from_be_bytes(fixed(key, flip)?) ^ i16::MIN).into()),
        DataType::Integer => Value::Int((i32::from_be_bytes(fixed(key, flip)?) ^ i32::MIN).into()),
        DataType::BigInt => Value::Int(i64::from_be_bytes(fixed(key, flip)?) ^ i64::MIN),
        DataType::Date => Value::Date(i32::from_be_bytes(fixed(key, flip)?) ^ i32::MIN),
        DataType::Timestamp => Value::Timestamp(i64::from_be_bytes(fixed(key, flip)?) ^ i64::MIN),
        DataType::TimestampTz => Value::TimestampTz(i64::from_be_bytes(fixed(key, flip)?) ^ i64::MIN),
        DataType::Real => {
            let bits = u32::from_be_bytes(fixed(key, flip)?);
            Value::Real(f32::from_bits(if bits >> 31 == 1 { bits & !(1 << 31) } else { !bits }))
        }
        DataType::Double => {
            let bits = u64::from_be_bytes(fixed(key, flip)?);
            Value::Float(f64::from_bits(if bits >> 63 == 1 { bits & !(1 << 63) } else { !bits }))
        }
        DataType::Decimal { precision, scale } => {
            let units = if precision <= DIGITS_IN_8_BYTES {
                (i64::from_be_bytes(fixed(key, flip)?) ^ i64::MIN).into()
            } else {
                i128::from_be_bytes(fixed(key, flip)?) ^ i128::MIN
            };
            Value::Decimal(Decimal::new(units, scale).ok()?)
        }
        DataType::Text | DataType::Varchar(_) | DataType::Char(_) => {
            Value::from(String::from_utf8(unescape(key, flip)?).ok()?)
        }
        DataType::Bytea => Value::Bytes(unescape(key, flip)?.into()),
        DataType::Uuid => Value::Uuid(fixed(key, flip)?),
        DataType::Numeric | DataType::Interval | DataType::Jsonb => return None,
    })
}

fn fixed<const N: usize>(key: &mut &[u8], flip: u8) -> Option<[u8; N]> {
    let (bytes, rest) = key.split_first_chunk::<N>()?;
    *key = rest;
    Some(bytes.map(|byte| byte ^ flip))
}

fn unescape(key: &mut &[u8], flip: u8) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    loop {
        let (byte, rest) = key.split_first()?;
        *key = rest;
        if byte ^ flip == 0 {
            let (mark, rest) = key.split_first()?;
            *key = rest;
            match mark ^ flip {
                0 => return Some(out),
                0xff => {}
                _ => return None,
            }
        }
        out.push(byte ^ flip);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples() -> Vec<(DataType, Vec<Value>)> {
        let decimals = |texts: [&str; 4]| texts.map(|text| Value::from(Decimal::parse(text).unwrap())).to_vec();
        vec![
            (DataType::Boolean, vec![false.into(), true.into()]),
            (DataType::SmallInt, vec![Value::Int(-32768), Value::Int(-1), Value::Int(0), Value::Int(32767)]),
            (DataType::Integer, vec![Value::Int(i32::MIN.into()), Value::Int(-1), Value::Int(1)]),
            (DataType::BigInt, vec![Value::Int(i64::MIN), Value::Int(-2), Value::Int(0), Value::Int(i64::MAX)]),
            (DataType::Date, vec![Value::Date(-5), Value::Date(0), Value::Date(5)]),
            (DataType::Timestamp, vec![Value::Timestamp(-5), Value::Timestamp(0), Value::Timestamp(1 << 50)]),
            (DataType::TimestampTz, vec![Value::TimestampTz(-5), Value::TimestampTz(0), Value::TimestampTz(1 << 50)]),
            (
                DataType::Double,
                [f64::NEG_INFINITY, -1.5, -1e-300, 0.0, 1e-300, 2.0, f64::INFINITY, f64::NAN].map(Value::from).to_vec(),
            ),
            (
                DataType::Real,
                [f32::NEG_INFINITY, -1.5, -1e-30, 0.0, 1e-30, 2.0, f32::INFINITY, f32::NAN].map(Value::from).to_vec(),
            ),
            (DataType::Decimal { precision: 9, scale: 2 }, decimals(["-9999999.99", "-0.01", "0.00", "12.30"])),
            (
                DataType::Decimal { precision: 38, scale: 1 },
                decimals(["-1234567890123456789012.5", "-0.1", "0.0", "7.0"]),
            ),
            (DataType::Text, ["", "\0", "\0\0", "\0a", "a", "a\0", "a\0b", "ab", "b", "é"].map(Value::from).to_vec()),
            (DataType::Uuid, [[0; 16], [7; 16], [0xff; 16]].map(Value::Uuid).to_vec()),
            (DataType::Bytea, [&[][..], &[0], &[0, 0xff], &[1], &[0xff], &[0xff, 0xff]].map(Value::from).to_vec()),
        ]
    }

    fn bytes(columns: &[KeyColumn], values: &[Value]) -> Vec<u8> {
        let mut out = Vec::new();
        for (column, value) in columns.iter().zip(values) {
            encode(&mut out, *column, value.as_ref()).unwrap();
        }
        out
    }

    #[test]
    fn bytes_compare_as_values_do_and_read_back() {
        for (data_type, values) in samples() {
            for nullable in [false, true] {
                for descending in [false, true] {
                    let column = KeyColumn { data_type, nullable, descending };
                    let mut values = values.clone();
                    values.extend(nullable.then_some(Value::Null));
                    let mut keys: Vec<_> =
                        values.iter().map(|value| bytes(&[column], std::slice::from_ref(value))).collect();
                    for (value, key) in values.iter().zip(&keys) {
                        assert_eq!(decode(key, &[column]).unwrap(), std::slice::from_ref(value));
                        assert!(column.width().is_none_or(|width| width == key.len()));
                    }
                    if descending {
                        keys.reverse();
                    }
                    assert!(keys.is_sorted_by(|a, b| a < b), "{column:?}");
                }
            }
        }
    }

    /// Every pair of types, directions and samples: order, reading back, and prefixes.
    #[test]
    fn composite_keys() {
        let samples = samples();
        for (first_type, firsts) in &samples {
            for (second_type, seconds) in &samples {
                for flags in 0..4 {
                    let columns = [
                        KeyColumn { data_type: *first_type, nullable: true, descending: flags & 1 != 0 },
                        KeyColumn { data_type: *second_type, nullable: false, descending: flags & 2 != 0 },
                    ];
                    let rows: Vec<[Value; 2]> = firsts
                        .iter()
                        .chain([&Value::Null])
                        .flat_map(|first| seconds.iter().map(|second| [first.clone(), second.clone()]))
                        .collect();
                    for left in &rows {
                        let key = bytes(&columns, left);
                        assert_eq!(decode(&key, &columns).unwrap(), left);
                        let low = bytes(&columns[..1], &left[..1]);
                        let mut high = low.clone();
                        let bounded = successor(&mut high);
                        for right in &rows {
                            let flip = |order: std::cmp::Ordering, column: KeyColumn| {
                                if column.descending { order.reverse() } else { order }
                            };
                            let order =
                                flip(left[0].cmp(&right[0]), columns[0]).then(flip(left[1].cmp(&right[1]), columns[1]));
                            let other = bytes(&columns, right);
                            assert_eq!(key.cmp(&other), order, "{left:?} {right:?} {columns:?}");
                            let within = other >= low && (!bounded || other < high);
                            assert_eq!(within, left[0] == right[0]);
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn what_is_no_key() {
        let column = KeyColumn { data_type: DataType::Text, nullable: false, descending: false };
        for key in [&b"abc"[..], b"a\0", b"a\0\x01", b"a\0\0b", b"\xff\0\0"] {
            assert!(decode(key, &[column]).is_err());
        }
        assert!(encode(&mut Vec::new(), column, ValueRef::Null).is_err());
        assert!(encode(&mut Vec::new(), column, ValueRef::Int(1)).is_err());
        assert!(!successor(&mut vec![0xff, 0xff]));
    }
}
