//! The types of columns and expressions.

use std::fmt;

use crate::PRECISION_MAX;

/// The type of a column, an argument or an expression.
///
/// Values of all integer types are held in 64 bits; the range of the narrower ones is checked where a value is
/// computed, stored or cast.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DataType {
    /// TRUE or FALSE.
    Boolean,
    /// 16 bits.
    SmallInt,
    /// 32 bits.
    Integer,
    /// 64 bits.
    BigInt,
    /// IEEE 754, 32 bits; ordered as `Double`.
    Real,
    /// IEEE 754, 64 bits; NaN equals itself and is larger than all else, as in PostgreSQL.
    Double,
    /// Exact, with this many digits, of which `scale` stand after the point.
    Decimal {
        /// Digits in all, at most [`PRECISION_MAX`].
        precision: u8,
        /// Digits after the point, at most `precision`.
        scale: u8,
    },
    /// Exact, each value with a scale of its own: the type of computed values, not of columns.
    Numeric,
    /// UTF-8, compared byte by byte.
    Text,
    /// UTF-8 with at most this many characters.
    Varchar(u32),
    /// UTF-8 with at most this many characters, [`CHAR_UNBOUNDED`](Self::CHAR_UNBOUNDED) for any number. Blanks at the
    /// end do not count, and values have none.
    Char(u32),
    /// Bytes.
    Bytea,
    /// A day of the years 1 to 9999.
    Date,
    /// Microseconds since 1970, without a time zone.
    Timestamp,
    /// Microseconds since 1970 UTC; read and written in UTC if no other zone is named.
    TimestampTz,
    /// Months, days and microseconds.
    Interval,
    /// 16 bytes.
    Uuid,
    /// A JSON document: see [`json`](crate::json).
    Jsonb,
}

impl DataType {
    /// The length of `BPCHAR`, a `CHAR` of any length.
    pub const CHAR_UNBOUNDED: u32 = u32::MAX;

    /// Whether the type is one of the integers.
    pub const fn is_integer(self) -> bool {
        matches!(self, Self::SmallInt | Self::Integer | Self::BigInt)
    }

    /// Whether the type is an exact decimal.
    pub const fn is_decimal(self) -> bool {
        matches!(self, Self::Decimal { .. } | Self::Numeric)
    }

    /// Whether the type is an inexact number.
    pub const fn is_float(self) -> bool {
        matches!(self, Self::Real | Self::Double)
    }

    /// Whether all values take the same number of bytes in a row.
    pub const fn is_of_fixed_width(self) -> bool {
        !matches!(self, Self::Numeric | Self::Text | Self::Varchar(_) | Self::Char(_) | Self::Bytea | Self::Jsonb)
    }

    /// Whether arithmetic is defined on the type.
    pub const fn is_number(self) -> bool {
        self.is_integer() || self.is_decimal() || self.is_float()
    }

    /// Whether the type is text, of limited length or not.
    pub const fn is_text(self) -> bool {
        matches!(self, Self::Text | Self::Varchar(_) | Self::Char(_))
    }

    /// Whether the type is a day or a moment.
    pub const fn is_moment(self) -> bool {
        matches!(self, Self::Date | Self::Timestamp | Self::TimestampTz)
    }

    /// Whether values of the two types are held in the same variant of [`Value`](crate::Value),
    /// so that they compare without a conversion.
    pub fn is_like(self, other: Self) -> bool {
        self == other
            || (self.is_integer() && other.is_integer())
            || (self.is_decimal() && other.is_decimal())
            || (self.is_text() && other.is_text())
    }

    /// Whether equal values of the two types fall into one partition: see `PartitionHash` of the row engine.
    pub fn is_placed_like(self, other: Self) -> bool {
        let exact = |data_type: Self| data_type.is_integer() || data_type.is_decimal();
        self.is_like(other) || (exact(self) && exact(other))
    }

    /// Whether values of this type are assigned to the other without an explicit cast, and whether the two compare.
    pub fn assigns_to(self, other: Self) -> bool {
        self.is_like(other) || (self.is_number() && other.is_number()) || (self.is_moment() && other.is_moment())
    }

    /// Whether values of the two types compare.
    pub fn compares_to(self, other: Self) -> bool {
        self.assigns_to(other)
    }

    /// Whether there is a cast to the other type.
    pub fn casts_to(self, other: Self) -> bool {
        self.assigns_to(other)
            || self.is_text()
            || other.is_text()
            || matches!((self, other), (Self::Boolean, Self::Integer) | (Self::Integer, Self::Boolean))
            || (self == Self::Jsonb && (other == Self::Boolean || other.is_number()))
    }

    /// The type of the same kind without limits on digits or length.
    #[must_use]
    pub const fn unbounded(self) -> Self {
        match self {
            Self::Decimal { .. } => Self::Numeric,
            Self::Varchar(_) | Self::Char(_) => Self::Text,
            other => other,
        }
    }

    /// Whether an integer is in the range of the type.
    pub const fn holds(self, number: i64) -> bool {
        match self.integer_bounds() {
            Some((least, largest)) => least <= number && number <= largest,
            None => true,
        }
    }

    /// Least and largest value of an integer type.
    pub const fn integer_bounds(self) -> Option<(i64, i64)> {
        match self {
            Self::SmallInt => Some((i16::MIN as i64, i16::MAX as i64)),
            Self::Integer => Some((i32::MIN as i64, i32::MAX as i64)),
            Self::BigInt => Some((i64::MIN, i64::MAX)),
            _ => None,
        }
    }
}

/// As SQL writes it.
impl fmt::Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Boolean => f.write_str("BOOLEAN"),
            Self::SmallInt => f.write_str("SMALLINT"),
            Self::Integer => f.write_str("INTEGER"),
            Self::BigInt => f.write_str("BIGINT"),
            Self::Real => f.write_str("REAL"),
            Self::Double => f.write_str("DOUBLE PRECISION"),
            Self::Decimal { precision, scale } => write!(f, "DECIMAL({precision}, {scale})"),
            Self::Numeric => f.write_str("NUMERIC"),
            Self::Text => f.write_str("TEXT"),
            Self::Varchar(length) => write!(f, "VARCHAR({length})"),
            Self::Char(Self::CHAR_UNBOUNDED) => f.write_str("BPCHAR"),
            Self::Char(length) => write!(f, "CHAR({length})"),
            Self::Bytea => f.write_str("BYTEA"),
            Self::Date => f.write_str("DATE"),
            Self::Timestamp => f.write_str("TIMESTAMP"),
            Self::TimestampTz => f.write_str("TIMESTAMP WITH TIME ZONE"),
            Self::Interval => f.write_str("INTERVAL"),
            Self::Uuid => f.write_str("UUID"),
            Self::Jsonb => f.write_str("JSONB"),
        }
    }
}

const _: () = assert!(PRECISION_MAX == 38, "i128 holds every integer of 38 digits");
