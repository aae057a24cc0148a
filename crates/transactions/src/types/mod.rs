//! Values: what a column can hold, and how it is turned into the bytes of an index key or a partition's number.

pub mod key;
mod placement;

pub use placement::PartitionHash;
pub use thermocline_types::json;
pub use thermocline_types::{
    DataType, Decimal, Field, Function, Interval, JsonOperator, MICROS_PER_DAY, MONTHS, Operator, PRECISION_MAX,
    Resolved, Rounded, UUID_BYTES, Value, ValueRef, WEEKDAYS, assign, bytes_of_characters, canonical_f32,
    canonical_f64, cast, characters_of_bytes, days_in_month, format_date, format_timestamp, from_civil, is_day, negate,
    null_if, out_of_range, parse_date, parse_text, parse_timestamp, parse_timestamptz, random_uuid, round_into,
    to_civil, wider_integer, write_literal,
};
