//! Little-endian numbers in bytes.

use thermocline_types::{Decimal, Interval, Value, ValueRef};

/// Takes numbers and bytes off the front of a slice; every method gives `None` if it is too short.
#[derive(Debug, Clone, Copy)]
pub struct Bytes<'a> {
    rest: &'a [u8],
}

impl<'a> Bytes<'a> {
    /// All of a slice.
    pub const fn new(rest: &'a [u8]) -> Self {
        Self { rest }
    }

    /// Bytes not taken yet.
    pub const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Whether all bytes have been taken.
    pub const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next `count` bytes.
    pub fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        Some(taken)
    }

    /// The next `N` bytes.
    pub fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(*taken)
    }

    /// A byte.
    pub fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_le_bytes)
    }

    /// Two bytes.
    pub fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    /// Four bytes.
    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    /// Eight bytes.
    pub fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// Eight bytes, signed.
    pub fn i64(&mut self) -> Option<i64> {
        self.array().map(i64::from_le_bytes)
    }

    /// Bytes preceded by their count in four bytes.
    pub fn counted(&mut self) -> Option<&'a [u8]> {
        let count = self.u32()?;
        self.take(usize::try_from(count).ok()?)
    }

    /// Text preceded by its length in four bytes.
    pub fn text(&mut self) -> Option<&'a str> {
        std::str::from_utf8(self.counted()?).ok()
    }

    /// A value written by [`put_value`].
    pub fn value(&mut self) -> Option<ValueRef<'a>> {
        Some(match self.u8()? {
            tag::NULL => ValueRef::Null,
            tag::FALSE => ValueRef::Boolean(false),
            tag::TRUE => ValueRef::Boolean(true),
            tag::INT_1 => ValueRef::Int(i8::from_le_bytes(self.array()?).into()),
            tag::INT_4 => ValueRef::Int(i32::from_le_bytes(self.array()?).into()),
            tag::INT_8 => ValueRef::Int(self.i64()?),
            tag::REAL => ValueRef::Real(f32::from_bits(self.u32()?)),
            tag::FLOAT => ValueRef::Float(f64::from_bits(self.u64()?)),
            tag::DECIMAL => {
                let scale = self.u8()?;
                ValueRef::Decimal(Decimal::new(i128::from_le_bytes(self.array()?), scale).ok()?)
            }
            tag::TEXT => ValueRef::Text(self.text()?),
            tag::BYTES => ValueRef::Bytes(self.counted()?),
            tag::DATE => ValueRef::Date(i32::from_le_bytes(self.array()?)),
            tag::TIMESTAMP => ValueRef::Timestamp(self.i64()?),
            tag::TIMESTAMP_TZ => ValueRef::TimestampTz(self.i64()?),
            tag::INTERVAL => ValueRef::Interval(Interval::from_le_bytes(self.array()?)),
            tag::UUID => ValueRef::Uuid(self.array()?),
            tag::JSONB => ValueRef::Jsonb(self.text()?),
            _ => return None,
        })
    }
}

/// Type tags in front of values. Part of the stored format.
mod tag {
    pub const NULL: u8 = 0;
    pub const FALSE: u8 = 1;
    pub const TRUE: u8 = 2;
    pub const INT_1: u8 = 3;
    pub const INT_4: u8 = 4;
    pub const INT_8: u8 = 5;
    pub const FLOAT: u8 = 6;
    pub const DECIMAL: u8 = 7;
    pub const TEXT: u8 = 8;
    pub const BYTES: u8 = 9;
    pub const DATE: u8 = 10;
    pub const TIMESTAMP: u8 = 11;
    pub const INTERVAL: u8 = 12;
    pub const REAL: u8 = 13;
    pub const UUID: u8 = 14;
    pub const JSONB: u8 = 15;
    pub const TIMESTAMP_TZ: u8 = 16;
}

/// Appends a value: a byte for its type, then the value; integers in 1, 4 or 8 bytes.
pub fn put_value(out: &mut Vec<u8>, value: ValueRef<'_>) {
    match value {
        ValueRef::Null => out.push(tag::NULL),
        ValueRef::Boolean(value) => out.push(if value { tag::TRUE } else { tag::FALSE }),
        ValueRef::Int(value) => {
            if let Ok(value) = i8::try_from(value) {
                out.push(tag::INT_1);
                out.extend_from_slice(&value.to_le_bytes());
            } else if let Ok(value) = i32::try_from(value) {
                out.push(tag::INT_4);
                out.extend_from_slice(&value.to_le_bytes());
            } else {
                out.push(tag::INT_8);
                out.extend_from_slice(&value.to_le_bytes());
            }
        }
        ValueRef::Real(value) => {
            out.push(tag::REAL);
            out.extend_from_slice(&value.to_bits().to_le_bytes());
        }
        ValueRef::Float(value) => {
            out.push(tag::FLOAT);
            out.extend_from_slice(&value.to_bits().to_le_bytes());
        }
        ValueRef::Decimal(value) => {
            out.extend_from_slice(&[tag::DECIMAL, value.scale()]);
            out.extend_from_slice(&value.units().to_le_bytes());
        }
        ValueRef::Text(value) => {
            out.push(tag::TEXT);
            put_counted(out, value.as_bytes());
        }
        ValueRef::Jsonb(value) => {
            out.push(tag::JSONB);
            put_counted(out, value.as_bytes());
        }
        ValueRef::Bytes(value) => {
            out.push(tag::BYTES);
            put_counted(out, value);
        }
        ValueRef::Date(value) => {
            out.push(tag::DATE);
            out.extend_from_slice(&value.to_le_bytes());
        }
        ValueRef::Timestamp(value) => {
            out.push(tag::TIMESTAMP);
            out.extend_from_slice(&value.to_le_bytes());
        }
        ValueRef::TimestampTz(value) => {
            out.push(tag::TIMESTAMP_TZ);
            out.extend_from_slice(&value.to_le_bytes());
        }
        ValueRef::Interval(value) => {
            out.push(tag::INTERVAL);
            out.extend_from_slice(&value.to_le_bytes());
        }
        ValueRef::Uuid(value) => {
            out.push(tag::UUID);
            out.extend_from_slice(&value);
        }
    }
}

/// Appends bytes preceded by their count. The caller checks that the whole file has less than 4 GiB.
pub fn put_counted(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_le_bytes());
    out.extend_from_slice(bytes);
}

/// Overwrites existing bytes.
pub fn put_at(out: &mut [u8], at: usize, bytes: &[u8]) {
    if let Some(place) = out.get_mut(at..at + bytes.len()) {
        place.copy_from_slice(bytes);
    }
}

/// Encoded values, one after the other.
#[derive(Debug, Clone, Copy)]
pub struct Values<'a> {
    count: u16,
    bytes: Bytes<'a>,
}

impl<'a> Values<'a> {
    /// Reads the count; the values follow.
    pub(super) fn new(mut bytes: Bytes<'a>) -> Option<Self> {
        Some(Self { count: bytes.u16()?, bytes })
    }

    /// Number of values.
    pub const fn count(&self) -> usize {
        self.count as usize
    }

    /// Decodes the values; an error if the bytes do not encode values.
    pub fn to_vec(&self) -> thermocline_types::Result<Vec<Value>> {
        let mut bytes = self.bytes;
        let values: Option<Vec<Value>> = (0..self.count).map(|_| bytes.value().map(ValueRef::to_value)).collect();
        values
            .filter(|_| bytes.is_empty())
            .ok_or_else(|| thermocline_types::Error::corrupt("the arguments of a log record cannot be read"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_back() {
        let decimal = Decimal::parse("-123.4500").unwrap();
        let values = [
            Value::Null,
            Value::Boolean(false),
            Value::Boolean(true),
            Value::Int(-128),
            Value::Int(128),
            Value::Int(i64::from(i32::MIN)),
            Value::Int(i64::MAX),
            Value::Float(f64::NAN),
            Value::Float(-0.0),
            Value::Real(1.1),
            Value::Decimal(decimal),
            Value::Text("Straße".into()),
            Value::Jsonb("{\"a\": 1.50}".into()),
            Value::Bytes([0, 255].into()),
            Value::Date(-1),
            Value::Timestamp(i64::MIN),
            Value::TimestampTz(i64::MAX),
            Value::Interval(Interval { months: i32::MIN, days: -1, micros: i64::MAX }),
            Value::Uuid(*b"a universal name"),
        ];
        let mut out = u16::try_from(values.len()).unwrap().to_le_bytes().to_vec();
        for value in &values {
            put_value(&mut out, value.as_ref());
        }
        let read = Values::new(Bytes::new(&out)).unwrap();
        assert_eq!((read.count(), read.to_vec().unwrap()), (values.len(), values.to_vec()));
        for cut in 2..out.len() {
            let read = Values::new(Bytes::new(&out[..cut])).unwrap();
            assert!(read.to_vec().is_err(), "{cut} bytes");
        }
    }
}
