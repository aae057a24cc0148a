//! SQL names of types.

use sqlparser::ast::{self, CharacterLength, ExactNumberInfo, TimezoneInfo};
use thermocline_types::{Class, DataType, Error, PRECISION_MAX, Result};

/// Limit on n in `VARCHAR(n)` and `CHAR(n)`, as in PostgreSQL.
const VARCHAR_MAX: u64 = 10_485_760;

/// The type that an SQL type denotes; a decimal without precision is [`DataType::Numeric`].
pub fn data_type(written: &ast::DataType) -> Result<DataType> {
    use ast::DataType as Ast;
    Ok(match written {
        Ast::Boolean | Ast::Bool => DataType::Boolean,
        Ast::SmallInt(None) | Ast::Int2(None) => DataType::SmallInt,
        Ast::Integer(None) | Ast::Int(None) | Ast::Int4(None) => DataType::Integer,
        Ast::BigInt(None) | Ast::Int8(None) | Ast::Int64 => DataType::BigInt,
        Ast::Real | Ast::Float4 | Ast::Float(ExactNumberInfo::Precision(1..=24)) => DataType::Real,
        Ast::DoublePrecision | Ast::Double(ExactNumberInfo::None) | Ast::Float8 | Ast::Float64 => DataType::Double,
        Ast::Float(ExactNumberInfo::None | ExactNumberInfo::Precision(25..=53)) => DataType::Double,
        Ast::Decimal(info) | Ast::Numeric(info) | Ast::Dec(info) => decimal(*info)?,
        Ast::Text | Ast::String(None) => DataType::Text,
        Ast::Varchar(length) | Ast::CharacterVarying(length) | Ast::CharVarying(length) => varchar(*length)?,
        Ast::Char(length) | Ast::Character(length) => char(*length)?,
        Ast::Custom(name, modifiers) if is_bpchar(name) => match modifiers.as_slice() {
            [] => DataType::Char(DataType::CHAR_UNBOUNDED),
            [length] => match length.parse() {
                Ok(length) => char(Some(CharacterLength::IntegerLength { length, unit: None }))?,
                Err(_) => return Err(Error::unsupported(format_args!("type {written}"))),
            },
            _ => return Err(Error::unsupported(format_args!("type {written}"))),
        },
        Ast::Bytea => DataType::Bytea,
        Ast::Uuid => DataType::Uuid,
        Ast::Date => DataType::Date,
        Ast::Timestamp(None | Some(6), TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => DataType::Timestamp,
        Ast::Timestamp(None | Some(6), TimezoneInfo::WithTimeZone | TimezoneInfo::Tz) => DataType::TimestampTz,
        Ast::Interval { fields: None, precision: None | Some(6) } => DataType::Interval,
        Ast::JSONB => DataType::Jsonb,
        Ast::JSON => {
            return Err(Class::Unsupported.error("type JSON, which keeps texts as they are written: use JSONB"));
        }
        other => return Err(Error::unsupported(format_args!("type {other}"))),
    })
}

fn decimal(info: ExactNumberInfo) -> Result<DataType> {
    let (precision, scale) = match info {
        ExactNumberInfo::None => return Ok(DataType::Numeric),
        ExactNumberInfo::Precision(precision) => (precision, 0),
        ExactNumberInfo::PrecisionAndScale(precision, scale) => (precision, scale),
    };
    match (u8::try_from(precision), u8::try_from(scale)) {
        (Ok(precision), Ok(scale)) if (1..=PRECISION_MAX).contains(&precision) && scale <= precision => {
            Ok(DataType::Decimal { precision, scale })
        }
        _ => Err(Class::InvalidParameter.error(format_args!(
            "DECIMAL({precision}, {scale}): a precision is 1 to {PRECISION_MAX}, a scale 0 to the precision"
        ))),
    }
}

fn is_bpchar(name: &ast::ObjectName) -> bool {
    name.to_string().eq_ignore_ascii_case("bpchar")
}

fn char(length: Option<CharacterLength>) -> Result<DataType> {
    match length {
        None => Ok(DataType::Char(1)),
        Some(CharacterLength::IntegerLength { length, unit: None }) if (1..=VARCHAR_MAX).contains(&length) => {
            Ok(u32::try_from(length).map_or(DataType::Text, DataType::Char))
        }
        Some(length) => {
            Err(Class::InvalidParameter.error(format_args!("CHAR({length}): a length is 1 to {VARCHAR_MAX}")))
        }
    }
}

fn varchar(length: Option<CharacterLength>) -> Result<DataType> {
    match length {
        None => Ok(DataType::Text),
        Some(CharacterLength::IntegerLength { length, unit: None }) if (1..=VARCHAR_MAX).contains(&length) => {
            Ok(u32::try_from(length).map_or(DataType::Text, DataType::Varchar))
        }
        Some(length) => {
            Err(Class::InvalidParameter.error(format_args!("VARCHAR({length}): a length is 1 to {VARCHAR_MAX}")))
        }
    }
}
