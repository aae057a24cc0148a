//! Values and their semantics in SQL: types, decimals, dates, time zones, intervals, JSON, casts, and errors with their
//! SQLSTATEs.
//!
//! The rules are PostgreSQL's, up to the deviations that `docs/sql.md` lists. The row engine evaluates by them,
//! and the analytic engine's functions call them, so that an expression means the same wherever it runs.
//!
//! ```
//! use thermocline_types::{DataType, ValueRef, cast};
//!
//! assert_eq!(cast(ValueRef::Float(2.5), DataType::Integer)?.to_string(), "2");
//! assert_eq!(cast(ValueRef::Text("abcdef"), DataType::Varchar(3))?.to_string(), "abc");
//! assert_eq!(cast(ValueRef::Text("x"), DataType::Date).unwrap_err().sqlstate(), "22007");
//! # Ok::<(), thermocline_types::Error>(())
//! ```
//!
//! Left out: rows and index keys (`thermocline-tables`), and columns of plans (`thermocline-pushdown`).

mod calendar;
mod cast;
mod data_type;
mod decimal;
pub mod error;
mod float;
mod function;
mod interval;
mod interval_text;
pub mod json;
mod operator;
mod setting;
mod uuid;
mod value;
mod wildcard;
mod zone;

pub use calendar::{
    MICROS_PER_DAY, MONTHS, WEEKDAYS, days_in_month, format_date, format_timestamp, from_civil, is_day, parse_date,
    parse_timestamp, to_civil,
};
pub use cast::{Rounded, assign, cast, parse_text, round_into};
pub use data_type::DataType;
pub use decimal::{Decimal, PRECISION_MAX};
pub use error::{Class, Error, Result};
pub use float::{canonical_f32, canonical_f64};
pub use function::{Call, Field, Function, JsonOperator};
pub use interval::Interval;
pub use operator::{Operator, Resolved, division_by_zero, negate, null_if, out_of_range, wider_integer};
pub use setting::{Scope, Setting, either};
pub use uuid::{UUID_BYTES, format_uuid, parse_uuid, random_uuid};
pub use value::{Value, ValueRef, bytes_of_characters, characters_of_bytes, write_literal};
pub use wildcard::matches_wildcards;
pub use zone::{Zone, format_timestamptz, parse_timestamptz};
