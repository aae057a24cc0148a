//! Functions of one row: their arguments, results and implementation.
//!
//! Left out: functions that depend on time or randomness, and those whose NULL handling [`Function::is_strict`] cannot
//! describe (`coalesce`, `CASE`).

mod encoding;
mod json;
mod moment;
mod number;
mod similar;
mod text;
mod to_char;

pub(crate) use encoding::Encoding;

pub use json::JsonOperator;
pub use moment::Field;

use crate::error::{Class, Error, Result};
use crate::{DataType, Value, ValueRef, wider_integer};

macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident $($text:literal)|+ $least:literal .. $most:literal,)*) => {
        /// A function whose result depends only on its arguments.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Function {
            $($(#[$doc])* $name,)*
            /// `to_hex` of an INTEGER, whose negative numbers have 32 bits
            Hexadecimal4,
            /// `EXTRACT(field FROM moment)`
            Extract(Field),
            /// `date_part('field', moment)`
            Part(Field),
            /// `date_trunc('field', moment)`
            Truncate(Field),
        }

        impl Function {
            /// The function with this name and number of arguments.
            pub fn named(name: &str, arguments: usize) -> Option<Self> {
                match name {
                    $($($text)|+ if ($least..=$most).contains(&arguments) => Some(Self::$name),)*
                    _ => None,
                }
            }

            /// All that have a name, with all of their names; the first is the one shown.
            pub const NAMED: &[(Self, &'static [&'static str])] = &[$((Self::$name, &[$($text),+]),)*];
        }
    };
}

functions! {
    /// `abs(number)`
    Abs "abs" 1..1,
    /// `acos(number)`, in radians
    ArcCosine "acos" 1..1,
    /// `asin(number)`, in radians
    ArcSine "asin" 1..1,
    /// `atan(number)`, in radians
    ArcTangent "atan" 1..1,
    /// `atan2(y, x)`, in radians
    ArcTangent2 "atan2" 2..2,
    /// `bit_length(text or bytes)`
    BitLength "bit_length" 1..1,
    /// `cbrt(number)`
    CubeRoot "cbrt" 1..1,
    /// `ceil(number)`
    Ceiling "ceil" | "ceiling" 1..1,
    /// `chr(code point)`
    Character "chr" 1..1,
    /// `concat(any, ...)`: NULLs are nothing
    Concat "concat" 1..100,
    /// `concat_ws(separator, any, ...)`: NULLs are left out
    ConcatWith "concat_ws" 2..100,
    /// `cos(radians)`
    Cosine "cos" 1..1,
    /// `decode(text, encoding)`: bytes of `hex`, `base64` or `escape`
    Decode "decode" 2..2,
    /// `degrees(radians)`
    Degrees "degrees" 1..1,
    /// `div(dividend, divisor)`, truncated
    Quotient "div" 2..2,
    /// `encode(bytes, encoding)`: text in `hex`, `base64` or `escape`
    Encode "encode" 2..2,
    /// `exp(number)`
    Exponential "exp" 1..1,
    /// `factorial(integer)`
    Factorial "factorial" 1..1,
    /// `floor(number)`
    Floor "floor" 1..1,
    /// `gcd(number, number)`
    CommonDivisor "gcd" 2..2,
    /// `lcm(number, number)`
    CommonMultiple "lcm" 2..2,
    /// `jsonb_array_element(document, place)`, `document -> place`
    JsonElement "jsonb_array_element" 2..2,
    /// `jsonb_array_element_text(document, place)`, `document ->> place`
    JsonElementText "jsonb_array_element_text" 2..2,
    /// `jsonb_array_length(document)`
    JsonLength "jsonb_array_length" 1..1,
    /// `jsonb_contained(document, document)`, `<@`
    JsonContained "jsonb_contained" 2..2,
    /// `jsonb_contains(document, document)`, `@>`
    JsonContains "jsonb_contains" 2..2,
    /// `jsonb_exists(document, key)`, `?`
    JsonExists "jsonb_exists" 2..2,
    /// `jsonb_exists_all(document, '{key,...}')`, `?&`
    JsonExistsAll "jsonb_exists_all" 2..2,
    /// `jsonb_exists_any(document, '{key,...}')`, `?|`
    JsonExistsAny "jsonb_exists_any" 2..2,
    /// `jsonb_extract_path(document, step, ...)`
    JsonPath "jsonb_extract_path" 2..100,
    /// `document #> '{step,...}'`
    JsonPathArray "jsonb_extract_path_array" 2..2,
    /// `document #>> '{step,...}'`
    JsonPathArrayText "jsonb_extract_path_array_text" 2..2,
    /// `jsonb_extract_path_text(document, step, ...)`
    JsonPathText "jsonb_extract_path_text" 2..100,
    /// `jsonb_object_field(document, key)`, `document -> key`
    JsonField "jsonb_object_field" 2..2,
    /// `jsonb_object_field_text(document, key)`, `document ->> key`
    JsonFieldText "jsonb_object_field_text" 2..2,
    /// `jsonb_typeof(document)`
    JsonTypeof "jsonb_typeof" 1..1,
    /// `length(text or bytes)`, in characters or bytes
    Length "length" 1..1,
    /// `char_length(text)`
    Characters "char_length" | "character_length" 1..1,
    /// `ln(number)`
    NaturalLogarithm "ln" 1..1,
    /// `log(number)` to base 10, `log(base, number)`
    Logarithm "log" | "log10" 1..2,
    /// `mod(dividend, divisor)`
    Remainder "mod" 2..2,
    /// `num_nonnulls(any, ...)`
    CountValues "num_nonnulls" 1..100,
    /// `num_nulls(any, ...)`
    CountNulls "num_nulls" 1..100,
    /// `octet_length(text or bytes)`
    OctetLength "octet_length" 1..1,
    /// `power(base, exponent)`
    Power "power" | "pow" 2..2,
    /// `radians(degrees)`
    Radians "radians" 1..1,
    /// `round(number)`, `round(number, digits)`
    Round "round" 1..2,
    /// `sign(number)`
    Sign "sign" 1..1,
    /// `similar_to_escape(pattern)`, `similar_to_escape(pattern, escape)`: SIMILAR TO's pattern as a regular expression
    SimilarPattern "similar_to_escape" 1..2,
    /// `sin(radians)`
    Sine "sin" 1..1,
    /// `sqrt(number)`
    SquareRoot "sqrt" 1..1,
    /// `tan(radians)`
    Tangent "tan" 1..1,
    /// `timezone(zone, moment)`: `moment AT TIME ZONE zone`
    AtTimeZone "timezone" 2..2,
    /// `to_char(number or moment, template)`
    ToChar "to_char" 2..2,
    /// `to_hex(integer)`
    Hexadecimal "to_hex" 1..1,
    /// `trunc(number)`, `trunc(number, digits)`
    Trunc "trunc" 1..2,
}

/// A function, and the types with which it is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// Implementation; some functions have one for each type.
    pub function: Function,
    /// Types of the arguments, to which others are cast.
    pub arguments: Vec<DataType>,
    /// The type of the result.
    pub result: DataType,
}

impl Function {
    /// Whether the result is NULL if an argument is.
    pub const fn is_strict(self) -> bool {
        !matches!(self, Self::Concat | Self::ConcatWith | Self::CountValues | Self::CountNulls)
    }

    /// Whether the result may be NULL for another reason than a NULL argument of a [strict](Self::is_strict) function.
    pub const fn gives_null(self) -> bool {
        matches!(
            self,
            Self::ConcatWith
                | Self::JsonElement
                | Self::JsonElementText
                | Self::JsonField
                | Self::JsonFieldText
                | Self::JsonPath
                | Self::JsonPathArray
                | Self::JsonPathArrayText
                | Self::JsonPathText
        )
    }

    /// The function with arguments of these types; `None` is that of a string literal, a parameter and NULL.
    ///
    /// # Errors
    /// 42883 if there is no such function, 42725 if several match.
    pub fn resolve(self, arguments: &[Option<DataType>]) -> Result<Call> {
        use DataType::{BigInt, Bytea, Date, Double, Integer, Interval, Numeric, Text, Timestamp, TimestampTz};
        let given = |position: usize| arguments.get(position).copied().flatten();
        let all = |of: DataType| vec![of; arguments.len()];
        let undefined = || Err(self.undefined(arguments));
        let is_number = |position: usize| given(position).is_none_or(DataType::is_number);
        let is_float = |position: usize| given(position).is_some_and(DataType::is_float);
        let first = given(0);
        let call = |arguments: Vec<DataType>, result: DataType| Ok(Call { function: self, arguments, result });
        match self {
            Self::Abs if is_number(0) => {
                let of = first.map_or(Double, DataType::unbounded);
                call(vec![of], of)
            }
            Self::Ceiling | Self::Floor | Self::Sign if is_number(0) => match first {
                Some(of) if of.is_decimal() => call(vec![Numeric], Numeric),
                _ => call(vec![Double], Double),
            },
            Self::Round | Self::Trunc if is_number(0) && arguments.len() == 1 => match first {
                Some(of) if of.is_decimal() => call(vec![Numeric], Numeric),
                _ => call(vec![Double], Double),
            },
            // PostgreSQL rounds doubles to no digits.
            Self::Round | Self::Trunc if is_number(0) && !is_float(0) => match given(1) {
                None | Some(DataType::SmallInt | Integer | BigInt) => call(vec![Numeric, Integer], Numeric),
                _ => undefined(),
            },
            // The logarithm to another base is defined for decimals only.
            Self::Logarithm if arguments.len() == 2 && (is_float(0) || is_float(1)) => undefined(),
            Self::ArcCosine
            | Self::ArcSine
            | Self::ArcTangent
            | Self::ArcTangent2
            | Self::CubeRoot
            | Self::Cosine
            | Self::Degrees
            | Self::Exponential
            | Self::NaturalLogarithm
            | Self::Logarithm
            | Self::Power
            | Self::Radians
            | Self::Sine
            | Self::SquareRoot
            | Self::Tangent
                if (0..arguments.len()).all(is_number) =>
            {
                call(all(Double), Double)
            }
            Self::Remainder | Self::CommonDivisor | Self::CommonMultiple | Self::Quotient
                if (0..arguments.len()).all(|position| is_number(position) && !is_float(position)) =>
            {
                let of = match (first, given(1)) {
                    (Some(one), Some(other)) if one.is_integer() && other.is_integer() => wider_integer(one, other),
                    (Some(of), None) | (None, Some(of)) => of.unbounded(),
                    (None, None) => BigInt,
                    _ => Numeric,
                };
                match (self, of) {
                    (Self::Quotient, _) => call(all(Numeric), Numeric),
                    // There is no version for SMALLINT, and several others match.
                    (Self::CommonDivisor | Self::CommonMultiple, DataType::SmallInt) => Err(self.ambiguous(arguments)),
                    _ => call(all(of), of),
                }
            }
            Self::Concat | Self::ConcatWith => call(all(Text), Text),
            Self::CountValues | Self::CountNulls => {
                call((0..arguments.len()).map(|position| given(position).unwrap_or(Text)).collect(), Integer)
            }
            Self::Length | Self::OctetLength | Self::BitLength => match first {
                None => call(vec![Text], Integer),
                Some(of) if of.is_text() || of == Bytea => call(vec![of.unbounded()], Integer),
                _ => undefined(),
            },
            Self::Character => match first {
                None | Some(DataType::SmallInt | Integer) => call(vec![Integer], Text),
                _ => undefined(),
            },
            Self::Characters => match first {
                None => call(vec![Text], Integer),
                Some(of) if of.is_text() => call(vec![Text], Integer),
                _ => undefined(),
            },
            Self::Factorial => match first {
                None => call(vec![BigInt], Numeric),
                Some(of) if of.is_integer() => call(vec![BigInt], Numeric),
                _ => undefined(),
            },
            Self::Hexadecimal | Self::Hexadecimal4 => match first {
                Some(DataType::SmallInt) => Err(self.ambiguous(arguments)),
                Some(Integer) => Ok(Call { function: Self::Hexadecimal4, arguments: vec![Integer], result: Text }),
                None | Some(BigInt) => call(vec![BigInt], Text),
                _ => undefined(),
            },
            Self::ToChar if given(1).is_none_or(DataType::is_text) => match first {
                None => Err(self.ambiguous(arguments)),
                Some(of @ (Date | Timestamp | TimestampTz)) => call(vec![of, Text], Text),
                Some(DataType::SmallInt) => call(vec![Double, Text], Text),
                Some(of) if of.is_number() || of == Interval => call(vec![of.unbounded(), Text], Text),
                _ => undefined(),
            },
            Self::Encode if given(1).is_none_or(DataType::is_text) => match first {
                None | Some(Bytea) => call(vec![Bytea, Text], Text),
                _ => undefined(),
            },
            Self::Decode if arguments.iter().flatten().all(|of| of.is_text()) => call(all(Text), Bytea),
            Self::SimilarPattern if arguments.iter().flatten().all(|of| of.is_text()) => call(all(Text), Text),
            Self::Extract(field) | Self::Part(field) => {
                let result = match self {
                    Self::Extract(field) => field.extracted_type(),
                    _ => Double,
                };
                match first {
                    Some(Date) if field.is_of_time() => {
                        Err(Class::Unsupported
                            .error(format_args!("unit \"{}\" not supported for type date", field.name())))
                    }
                    Some(of) if field.is_of_zone() && of != TimestampTz => {
                        Err(Class::Unsupported
                            .error(format_args!("unit \"{}\" not supported for type {of}", field.name())))
                    }
                    Some(of @ (Date | Timestamp | TimestampTz | Interval)) => call(vec![of], result),
                    None => call(vec![Timestamp], result),
                    _ => undefined(),
                }
            }
            Self::Truncate(_) => match first {
                None | Some(Timestamp) => call(vec![Timestamp], Timestamp),
                Some(Date | TimestampTz) => call(vec![TimestampTz], TimestampTz),
                Some(Interval) => call(vec![Interval], Interval),
                _ => undefined(),
            },
            Self::AtTimeZone => {
                let zone = match first {
                    None => Text,
                    Some(of) if of.is_text() => Text,
                    Some(Interval) => Interval,
                    Some(_) => return undefined(),
                };
                match given(1) {
                    Some(Timestamp) => call(vec![zone, Timestamp], TimestampTz),
                    None | Some(Date | TimestampTz) => call(vec![zone, TimestampTz], Timestamp),
                    _ => undefined(),
                }
            }
            _ => match json::resolve(self, arguments) {
                Some(call) => Ok(call),
                None => undefined(),
            },
        }
    }

    /// Value of the function for arguments of the types returned by [`Function::resolve`].
    ///
    /// # Errors
    /// If the function has no value for them, or it is out of range.
    pub fn call(self, arguments: &[ValueRef<'_>]) -> Result<Value> {
        if self.is_strict() && arguments.iter().any(|argument| argument.is_null()) {
            return Ok(Value::Null);
        }
        match self {
            Self::Concat
            | Self::ConcatWith
            | Self::CountValues
            | Self::CountNulls
            | Self::Length
            | Self::Characters
            | Self::OctetLength
            | Self::BitLength
            | Self::Character
            | Self::Hexadecimal
            | Self::Hexadecimal4
            | Self::Encode
            | Self::Decode
            | Self::SimilarPattern => text::call(self, arguments),
            Self::Extract(_) | Self::Part(_) | Self::Truncate(_) => moment::call(self, arguments),
            Self::AtTimeZone => moment::at_time_zone(arguments).unwrap_or_else(|| Err(self.not_of(arguments))),
            Self::ToChar => to_char::call(self, arguments),
            Self::JsonElement
            | Self::JsonElementText
            | Self::JsonLength
            | Self::JsonContained
            | Self::JsonContains
            | Self::JsonExists
            | Self::JsonExistsAll
            | Self::JsonExistsAny
            | Self::JsonPath
            | Self::JsonPathArray
            | Self::JsonPathArrayText
            | Self::JsonPathText
            | Self::JsonField
            | Self::JsonFieldText
            | Self::JsonTypeof => json::call(self, arguments),
            _ => number::call(self, arguments),
        }
    }

    /// Maximum bytes of the text made by [`Function::call`]; 0 if it makes none, or a short one.
    pub fn text_bytes_max(self, arguments: &[ValueRef<'_>]) -> usize {
        text::bytes_max(self, arguments)
    }

    fn undefined(self, arguments: &[Option<DataType>]) -> Error {
        Class::UndefinedFunction.error(format_args!("function {} does not exist", self.written(arguments)))
    }

    fn ambiguous(self, arguments: &[Option<DataType>]) -> Error {
        Class::AmbiguousFunction.error(format_args!("function {} is not unique", self.written(arguments)))
    }

    fn written(self, arguments: &[Option<DataType>]) -> String {
        let types = arguments.iter().map(|of| of.map_or_else(|| "unknown".to_owned(), |of| of.to_string()));
        format!("{}({})", self.name(), types.collect::<Vec<_>>().join(", "))
    }

    /// Error of arguments that [`Function::resolve`] would not have passed.
    fn not_of(self, arguments: &[ValueRef<'_>]) -> Error {
        self.undefined(&arguments.iter().map(|argument| argument.data_type()).collect::<Vec<_>>())
    }

    /// Name in SQL.
    pub fn name(self) -> &'static str {
        match self {
            Self::Hexadecimal4 => Self::Hexadecimal.name(),
            Self::Extract(_) => "extract",
            Self::Part(_) => "date_part",
            Self::Truncate(_) => "date_trunc",
            named => Self::NAMED
                .iter()
                .find(|(known, _)| *known == named)
                .and_then(|(_, names)| names.first().copied())
                .unwrap_or("?"),
        }
    }
}
