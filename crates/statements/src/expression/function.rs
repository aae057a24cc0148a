//! Scalar functions.

use smallvec::SmallVec;
use thermocline_types::{self as types, Class, DataType, Error, MICROS_PER_DAY, Result, Value, ValueRef};

use super::evaluate::{Evaluated, Frame};
use super::{Comparison, Environment, Expr};

/// Limit on bytes of a text that a function returns.
const TEXT_BYTES_MAX: usize = 16 << 20;

macro_rules! functions {
    ($($name:ident $($text:literal)|+ $least:literal .. $most:literal,)*) => {
        /// A function.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Function {
            $($name,)*
            /// A function that depends on its arguments only.
            Of(types::Function),
        }

        impl Function {
            /// The function with this name and number of arguments.
            pub fn named(name: &str, arguments: usize) -> Option<Self> {
                match name {
                    $($($text)|+ if ($least..=$most).contains(&arguments) => Some(Self::$name),)*
                    _ => None,
                }
            }
        }
    };
}

functions! {
    Coalesce "coalesce" 1..100,
    CurrentDate "current_date" 0..0,
    Greatest "greatest" 1..100,
    Least "least" 1..100,
    Left "left" 2..2,
    Lower "lower" 1..1,
    LocalNow "localtimestamp" 0..0,
    Now "now" | "current_timestamp" | "transaction_timestamp" 0..0,
    NullIf "nullif" 2..2,
    PadLeft "lpad" 2..3,
    PadRight "rpad" 2..3,
    Position "position" 2..2,
    Random "random" 0..0,
    Repeat "repeat" 2..2,
    Replace "replace" 3..3,
    Right "right" 2..2,
    StartsWith "starts_with" 2..2,
    TextPosition "strpos" 2..2,
    Substring "substring" | "substr" 2..3,
    Trim "btrim" | "trim" 1..2,
    TrimLeft "ltrim" 1..2,
    TrimRight "rtrim" 1..2,
    Upper "upper" 1..1,
    Uuid "gen_random_uuid" | "uuid" 0..0,
}

/// Argument and result types of a function.
pub(crate) enum Signature {
    /// Argument types, of which the last one repeats, and the result type.
    Fixed(&'static [DataType], DataType),
    /// All arguments have one type, which is the result type.
    Alike,
    /// The signature in `thermocline-types`.
    Of(types::Function),
}

impl Function {
    pub const fn signature(self) -> Signature {
        use DataType::{BigInt, Boolean, Date, Double, Integer, Text, Timestamp, TimestampTz};
        match self {
            Self::Of(function) => Signature::Of(function),
            Self::Coalesce | Self::Greatest | Self::Least | Self::NullIf => Signature::Alike,
            Self::CurrentDate => Signature::Fixed(&[], Date),
            Self::LocalNow => Signature::Fixed(&[], Timestamp),
            Self::Now => Signature::Fixed(&[], TimestampTz),
            Self::Random => Signature::Fixed(&[], Double),
            Self::Uuid => Signature::Fixed(&[], DataType::Uuid),
            Self::Left | Self::Right | Self::Repeat => Signature::Fixed(&[Text, BigInt], Text),
            Self::PadLeft | Self::PadRight => Signature::Fixed(&[Text, BigInt, Text], Text),
            Self::Substring => Signature::Fixed(&[Text, BigInt, BigInt], Text),
            Self::Lower | Self::Upper | Self::Replace | Self::Trim | Self::TrimLeft | Self::TrimRight => {
                Signature::Fixed(&[Text], Text)
            }
            Self::Position | Self::TextPosition => Signature::Fixed(&[Text], Integer),
            Self::StartsWith => Signature::Fixed(&[Text], Boolean),
        }
    }

    /// Whether this text function also takes bytes, with this number of arguments.
    pub const fn is_of_bytes(self, arguments: usize) -> bool {
        match self {
            Self::Position | Self::Substring => true,
            // Bytes have no default trim characters.
            Self::Trim | Self::TrimLeft | Self::TrimRight => arguments == 2,
            _ => false,
        }
    }

    /// Whether each call gives another value.
    pub const fn is_volatile(self) -> bool {
        matches!(self, Self::Random | Self::Uuid)
    }

    /// Whether it depends on the time of the transaction.
    pub const fn is_of_time(self) -> bool {
        matches!(self, Self::LocalNow | Self::Now | Self::CurrentDate)
    }

    pub fn call<'a>(self, arguments: &'a [Expr], frame: &Frame<'a>) -> Result<Evaluated<'a>> {
        match self {
            Self::Coalesce => {
                for argument in arguments {
                    let value = argument.evaluate(frame)?;
                    if !value.get().is_null() {
                        return Ok(value);
                    }
                }
                return Ok(Evaluated::Ref(ValueRef::Null));
            }
            Self::Greatest => return extreme(arguments, frame, Comparison::Greater),
            Self::Least => return extreme(arguments, frame, Comparison::Less),
            Self::Of(function) => return strict(function, arguments, frame),
            Self::LocalNow => return Ok(Evaluated::Ref(ValueRef::Timestamp(frame.environment.timestamp()))),
            Self::Now => return Ok(Evaluated::Ref(ValueRef::TimestampTz(frame.environment.timestamp()))),
            Self::Random => return Ok(Evaluated::Ref(ValueRef::Float(frame.environment.random_float()))),
            Self::Uuid => return Ok(Evaluated::Ref(ValueRef::Uuid(frame.environment.random_uuid()))),
            Self::CurrentDate => {
                let days = frame.environment.timestamp().div_euclid(MICROS_PER_DAY);
                return Ok(Evaluated::Ref(i32::try_from(days).map_or(ValueRef::Null, ValueRef::Date)));
            }
            _ => {}
        }
        let mut values = arguments.iter().map(|argument| argument.evaluate(frame));
        let mut next = || values.next().unwrap_or(Ok(Evaluated::Ref(ValueRef::Null)));
        let (first, second, third) = (next()?, next()?, next()?);
        let given = arguments.len();
        if self == Self::NullIf {
            let equal = first.get().compare(second.get()) == Some(std::cmp::Ordering::Equal);
            return Ok(if equal { Evaluated::Ref(ValueRef::Null) } else { first });
        }
        if (given > 0 && first.get().is_null())
            || (given > 1 && second.get().is_null())
            || (given > 2 && third.get().is_null())
        {
            return Ok(Evaluated::Ref(ValueRef::Null));
        }
        match (first.get(), second.get(), third.get()) {
            (ValueRef::Text(text), second, third) => {
                self.of_text(text, second, third, frame.environment).map(Evaluated::Owned)
            }
            (ValueRef::Bytes(bytes), second, third) => {
                self.of_bytes(bytes, second, third, frame.environment).map(Evaluated::Owned)
            }
            (other, ..) => Err(self.not_of(other)),
        }
    }

    /// Evaluates a text function on bytes, one character for each byte.
    fn of_bytes(
        self,
        bytes: &[u8],
        second: ValueRef<'_>,
        third: ValueRef<'_>,
        environment: &Environment,
    ) -> Result<Value> {
        make_text(environment, bytes.len().saturating_mul(2))?;
        let text = types::characters_of_bytes(bytes);
        let value = match second {
            ValueRef::Bytes(other) => {
                let other = types::characters_of_bytes(other);
                self.of_text(&text, ValueRef::Text(&other), third, environment)?
            }
            second => self.of_text(&text, second, third, environment)?,
        };
        match value {
            Value::Text(part) => {
                types::bytes_of_characters(&part).map(Value::Bytes).ok_or_else(|| self.not_of(ValueRef::Bytes(bytes)))
            }
            value => Ok(value),
        }
    }

    fn of_text(
        self,
        text: &str,
        second: ValueRef<'_>,
        third: ValueRef<'_>,
        environment: &Environment,
    ) -> Result<Value> {
        let part = |part: &str| -> Result<Value> {
            make_text(environment, part.len())?;
            Ok(part.into())
        };
        let other = if let ValueRef::Text(other) = second { other } else { "" };
        let count = if let ValueRef::Int(count) = second { count } else { 0 };
        Ok(match self {
            Self::Lower | Self::Upper => {
                make_text(environment, cased_bytes(text))?;
                if self == Self::Lower { text.to_lowercase().into() } else { text.to_uppercase().into() }
            }
            Self::Position | Self::TextPosition => {
                integer(text.find(other).map_or(0, |at| characters_before(text, at) + 1))
            }
            Self::StartsWith => text.starts_with(other).into(),
            Self::Left => part(characters(text, 0, from_end(text, count)))?,
            Self::Right => {
                let length = text.chars().count();
                let keep = from_end(text, count);
                part(characters(text, length.saturating_sub(keep), keep))?
            }
            Self::Substring => part(substring(text, count, third)?)?,
            Self::Repeat => {
                let times = usize::try_from(count).unwrap_or(0);
                make_text(environment, text.len().saturating_mul(times))?;
                text.repeat(times).into()
            }
            Self::Replace => {
                let with = if let ValueRef::Text(with) = third { with } else { "" };
                if other.is_empty() {
                    return part(text);
                }
                let times = text.matches(other).count();
                make_text(environment, text.len().saturating_add(times.saturating_mul(with.len())))?;
                text.replace(other, with).into()
            }
            Self::PadLeft | Self::PadRight => {
                let fill = if let ValueRef::Text(fill) = third { fill } else { " " };
                pad(text, count, fill, self == Self::PadLeft, environment)?.into()
            }
            Self::Trim | Self::TrimLeft | Self::TrimRight => {
                let set = if second.is_null() { " " } else { other };
                let mut rest = text;
                if self != Self::TrimRight {
                    rest = rest.trim_start_matches(|next| set.contains(next));
                }
                if self != Self::TrimLeft {
                    rest = rest.trim_end_matches(|next| set.contains(next));
                }
                part(rest)?
            }
            _ => return Err(self.not_of(ValueRef::Text(text))),
        })
    }

    fn not_of(self, value: ValueRef<'_>) -> thermocline_types::Error {
        let kind = value.data_type().map_or_else(|| "NULL".to_owned(), |kind| kind.to_string());
        Class::UndefinedFunction.error(format_args!("no function {self:?} takes {kind}"))
    }
}

fn integer(count: usize) -> Value {
    Value::Int(i64::try_from(count).unwrap_or(i64::MAX))
}

/// Counts a text that is about to be made; an error if it is too long.
#[inline]
pub(super) fn make_text(environment: &Environment, bytes: usize) -> Result<()> {
    if bytes > TEXT_BYTES_MAX {
        return Err(too_long());
    }
    environment.text(bytes)
}

#[cold]
fn too_long() -> Error {
    Class::LimitExceeded.error(format_args!("a text of more than {TEXT_BYTES_MAX} bytes"))
}

/// Upper bound on bytes of a text in another case: letters of two bytes may become letters of three.
pub(super) const fn cased_bytes(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { text.len() + text.len() / 2 }
}

fn extreme<'a>(arguments: &'a [Expr], frame: &Frame<'a>, keep: Comparison) -> Result<Evaluated<'a>> {
    let mut best = Evaluated::Ref(ValueRef::Null);
    for argument in arguments {
        let value = argument.evaluate(frame)?;
        let better = match value.get().compare(best.get()) {
            Some(order) => (keep == Comparison::Greater) == order.is_gt() && order.is_ne(),
            None => best.get().is_null(),
        };
        if better {
            best = value;
        }
    }
    Ok(best)
}

/// Number of arguments that fit without a heap allocation.
const ARGUMENTS: usize = 4;

fn strict<'a>(function: types::Function, arguments: &'a [Expr], frame: &Frame<'a>) -> Result<Evaluated<'a>> {
    let values = arguments.iter().map(|argument| argument.evaluate(frame));
    let values: SmallVec<[Evaluated<'_>; ARGUMENTS]> = values.collect::<Result<_>>()?;
    let values: SmallVec<[ValueRef<'_>; ARGUMENTS]> = values.iter().map(Evaluated::get).collect();
    make_text(frame.environment, function.text_bytes_max(&values))?;
    function.call(&values).map(Evaluated::Owned)
}

fn characters_before(text: &str, at: usize) -> usize {
    text.get(..at).map_or(0, |before| before.chars().count())
}

/// `count` characters from position `from`, which starts at 0.
fn characters(text: &str, from: usize, count: usize) -> &str {
    let mut starts = text.char_indices().map(|(at, _)| at).chain([text.len()]);
    let Some(start) = starts.by_ref().nth(from) else { return "" };
    let end = if count == 0 { start } else { starts.nth(count - 1).unwrap_or(text.len()) };
    text.get(start..end).unwrap_or_default()
}

/// Number of characters that `left` and `right` keep: `count`, or all but `-count` if it is negative.
fn from_end(text: &str, count: i64) -> usize {
    match usize::try_from(count) {
        Ok(count) => count,
        Err(_) => {
            let cut = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
            text.chars().count().saturating_sub(cut)
        }
    }
}

/// Positions start at 1; characters before 1 count against the length.
fn substring<'t>(text: &'t str, from: i64, length: ValueRef<'_>) -> Result<&'t str> {
    let start = usize::try_from(from.max(1) - 1).unwrap_or(usize::MAX);
    let count = match length {
        ValueRef::Int(length) if length < 0 => {
            return Err(Class::InvalidSubstring.error("negative substring length not allowed"));
        }
        ValueRef::Int(length) => {
            let end = from.saturating_add(length);
            usize::try_from(end.saturating_sub(from.max(1))).unwrap_or(0)
        }
        _ => usize::MAX,
    };
    Ok(characters(text, start, count))
}

fn pad(text: &str, length: i64, fill: &str, left: bool, environment: &Environment) -> Result<String> {
    let length = usize::try_from(length).unwrap_or(0);
    let present = text.chars().count();
    if present >= length || fill.is_empty() {
        let cut = characters(text, 0, length);
        make_text(environment, cut.len())?;
        return Ok(cut.to_owned());
    }
    let (missing, filling) = (length - present, fill.chars().count());
    let rest = characters(fill, 0, missing % filling);
    let bytes = (missing / filling).saturating_mul(fill.len()).saturating_add(rest.len() + text.len());
    make_text(environment, bytes)?;
    let mut padded = String::with_capacity(bytes);
    if !left {
        padded.push_str(text);
    }
    (0..missing / filling).for_each(|_| padded.push_str(fill));
    padded.push_str(rest);
    if left {
        padded.push_str(text);
    }
    Ok(padded)
}
