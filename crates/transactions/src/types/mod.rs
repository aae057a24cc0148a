//! Values: what a column can hold, how it is compared, converted, printed, and turned into the
//! bytes of an index key.

mod calendar;
mod cast;
mod data_type;
mod decimal;
pub mod key;
mod placement;
mod value;

pub use calendar::{
    MICROS_PER_DAY, days_in_month, format_date, format_timestamp, from_civil, parse_date, parse_timestamp, to_civil,
};
pub use cast::{Rounded, assign, cast, parse_text, round_into};
pub use data_type::DataType;
pub use decimal::{Decimal, PRECISION_MAX};
pub use placement::PartitionHash;
pub use value::{Value, ValueRef, write_literal};
