//! `string`: as Lua's, without `dump`, `pack` and what depends on a locale, and counted.

use memchr::memmem;

use super::super::machine::L;
use super::super::vm::{Kind, Raised};
use super::Named;
use super::arguments::{bad, bytes, count, expected, integer, integer_or, truth};
use super::buffer::Buffer;
use super::pattern::Matcher;
use crate::error::Class;

/// Bytes of which a character of a pattern is one that means something.
const SPECIALS: &[u8] = b"^$*+?.([%-";

pub const FUNCTIONS: &[Named] = &[
    ("byte", byte),
    ("char", char),
    ("find", find),
    ("format", super::format::format),
    ("gsub", gsub),
    ("len", len),
    ("lower", lower),
    ("match", find_match),
    ("rep", rep),
    ("reverse", reverse),
    ("sub", sub),
    ("upper", upper),
];

fn len(stack: &L<'_>) -> Result<i32, Raised> {
    stack.push_integer(count(bytes(stack, 1, "len")?.len()));
    Ok(1)
}

/// The part of a string that positions say, which count from the end if they are negative.
fn part(text: &[u8], first: i64, last: i64) -> &[u8] {
    let length = count(text.len());
    let from = match first {
        first if first > 0 => first,
        0 => 1,
        first if first < -length => 1,
        first => length + first + 1,
    };
    let to = match last {
        last if last > length => length,
        last if last >= 0 => last,
        last if last < -length => 0,
        last => length + last + 1,
    };
    match (usize::try_from(from - 1), usize::try_from(to)) {
        (Ok(from), Ok(to)) => text.get(from..to).unwrap_or_default(),
        _ => &[],
    }
}

fn sub(stack: &L<'_>) -> Result<i32, Raised> {
    let (first, last) = (integer(stack, 2, "sub")?, integer_or(stack, 3, "sub", -1)?);
    let text = bytes(stack, 1, "sub")?;
    stack.push_bytes(part(text, first, last));
    Ok(1)
}

fn byte(stack: &L<'_>) -> Result<i32, Raised> {
    let first = integer_or(stack, 2, "byte", 1)?;
    let last = integer_or(stack, 3, "byte", first)?;
    let text = part(bytes(stack, 1, "byte")?, first, last);
    let length = i32::try_from(text.len()).unwrap_or(i32::MAX);
    stack.host().spend(stack, text.len())?;
    if !stack.has_space(length) {
        return Err(stack.host().raise(stack, Class::LimitExceeded.error("string slice too long")));
    }
    text.iter().for_each(|byte| stack.push_integer((*byte).into()));
    Ok(length)
}

fn char(stack: &L<'_>) -> Result<i32, Raised> {
    let mut text = Vec::new();
    for position in 1..=stack.top() {
        match u8::try_from(integer(stack, position, "char")?) {
            Ok(byte) => text.push(byte),
            Err(_) => return Err(bad(stack, position, "char", "value out of range")),
        }
    }
    stack.push_bytes(&text);
    Ok(1)
}

fn lower(stack: &L<'_>) -> Result<i32, Raised> {
    mapped(stack, "lower", |text| text.make_ascii_lowercase())
}

fn upper(stack: &L<'_>) -> Result<i32, Raised> {
    mapped(stack, "upper", |text| text.make_ascii_uppercase())
}

fn reverse(stack: &L<'_>) -> Result<i32, Raised> {
    mapped(stack, "reverse", <[u8]>::reverse)
}

fn mapped(stack: &L<'_>, name: &str, map: impl Fn(&mut [u8])) -> Result<i32, Raised> {
    let text = bytes(stack, 1, name)?;
    Buffer::new(stack).reserve(text.len())?;
    let mut copy = text.to_vec();
    map(&mut copy);
    stack.push_bytes(&copy);
    Ok(1)
}

fn rep(stack: &L<'_>) -> Result<i32, Raised> {
    let times = usize::try_from(integer(stack, 2, "rep")?).unwrap_or(0);
    let between = if stack.kind(3) == Kind::Nil { &[][..] } else { bytes(stack, 3, "rep")? };
    let text = bytes(stack, 1, "rep")?;
    let mut out = Buffer::new(stack);
    out.reserve(text.len().saturating_mul(times).saturating_add(between.len().saturating_mul(times)))?;
    out.repeat(text, between, times);
    out.finish();
    Ok(1)
}

fn find(stack: &L<'_>) -> Result<i32, Raised> {
    search(stack, "find", true)
}

fn find_match(stack: &L<'_>) -> Result<i32, Raised> {
    search(stack, "match", false)
}

fn search(stack: &L<'_>, name: &str, is_find: bool) -> Result<i32, Raised> {
    let first = integer_or(stack, 3, name, 1)?;
    let plain = is_find && truth(stack, 4);
    let (text, pattern) = (bytes(stack, 1, name)?, bytes(stack, 2, name)?);
    let length = count(text.len());
    let start = if first > 0 { first - 1 } else { (length + first).max(0) * i64::from(first < 0) };
    let Some(start) = usize::try_from(start).ok().filter(|start| *start <= text.len()) else {
        stack.push_nil();
        return Ok(1);
    };
    if plain || is_find && !pattern.iter().any(|byte| SPECIALS.contains(byte)) {
        stack.host().spend(stack, 1 + (text.len() - start) / 16)?;
        return Ok(match memmem::find(text.get(start..).unwrap_or_default(), pattern) {
            Some(at) => {
                stack.push_integer(count(start + at + 1));
                stack.push_integer(count(start + at + pattern.len()));
                2
            }
            None => {
                stack.push_nil();
                1
            }
        });
    }
    let (anchored, pattern) = match pattern.strip_prefix(b"^") {
        Some(pattern) => (true, pattern),
        None => (false, pattern),
    };
    let mut matcher = Matcher::new(stack, text, pattern);
    for from in start..=text.len() {
        if let Some(end) = matcher.run(from)? {
            if is_find {
                stack.push_integer(count(from + 1));
                stack.push_integer(count(end));
                return Ok(2 + matcher.push_captures(None)?);
            }
            return matcher.push_captures(Some((from, end)));
        }
        if anchored {
            break;
        }
    }
    stack.push_nil();
    Ok(1)
}

/// The next match of `string.gmatch`: where it ends, from 1, and its captures. Arguments: the text, the
/// pattern, where to begin, where the last match ended.
pub fn gmatch_from(stack: &L<'_>) -> Result<i32, Raised> {
    let (start, last) = (integer(stack, 3, "gmatch")?, integer(stack, 4, "gmatch")?);
    let (text, pattern) = (bytes(stack, 1, "gmatch")?, bytes(stack, 2, "gmatch")?);
    let mut matcher = Matcher::new(stack, text, pattern);
    for from in usize::try_from(start - 1).unwrap_or(0)..=text.len() {
        if let Some(end) = matcher.run(from)?
            && count(end + 1) != last
        {
            stack.push_integer(count(end + 1));
            return Ok(1 + matcher.push_captures(Some((from, end)))?);
        }
    }
    stack.push_nil();
    Ok(1)
}

fn gsub(stack: &L<'_>) -> Result<i32, Raised> {
    let replacement = match stack.kind(3) {
        Kind::Integer(_) | Kind::Float(_) | Kind::Text(_) | Kind::Table | Kind::Function => stack.kind(3),
        _ => return Err(expected(stack, 3, "gsub", "string/function/table")),
    };
    let written = match replacement {
        Kind::Table | Kind::Function => &[][..],
        _ => bytes(stack, 3, "gsub")?,
    };
    let (text, pattern) = (bytes(stack, 1, "gsub")?, bytes(stack, 2, "gsub")?);
    let times_max = integer_or(stack, 4, "gsub", i64::MAX)?;
    let (anchored, pattern) = match pattern.strip_prefix(b"^") {
        Some(pattern) => (true, pattern),
        None => (false, pattern),
    };
    let mut out = Buffer::new(stack);
    let mut matcher = Matcher::new(stack, text, pattern);
    let (mut from, mut last, mut times) = (0, None, 0);
    while times < times_max {
        let matched = matcher.run(from)?;
        match matched {
            Some(end) if Some(end) != last => {
                times += 1;
                let whole = text.get(from..end).unwrap_or_default();
                match replacement {
                    Kind::Table | Kind::Function => replace(stack, &mut matcher, (from, end), whole, &mut out)?,
                    _ => expand(stack, &mut matcher, (from, end), written, &mut out)?,
                }
                (from, last) = (end, Some(end));
            }
            _ => match text.get(from) {
                Some(byte) => {
                    out.push(std::slice::from_ref(byte))?;
                    from += 1;
                }
                None => break,
            },
        }
        if anchored {
            break;
        }
    }
    out.push(text.get(from..).unwrap_or_default())?;
    out.finish();
    stack.push_integer(times);
    Ok(2)
}

/// Appends what a table or a function says of a match; the match itself if it says nothing.
fn replace(
    stack: &L<'_>,
    matcher: &mut Matcher<'_, '_>,
    range: (usize, usize),
    whole: &[u8],
    out: &mut Buffer<'_, '_>,
) -> Result<(), Raised> {
    let top = stack.top();
    if stack.kind(3) == Kind::Function {
        stack.push_copy(3);
        let captures = matcher.push_captures(Some(range))?;
        stack.call(captures, 1, 0)?;
    } else {
        matcher.push_capture(0, Some(range))?;
        stack.raw_get(3);
    }
    match stack.kind(-1) {
        Kind::Nil | Kind::Boolean(false) => out.push(whole)?,
        Kind::Text(_) | Kind::Integer(_) | Kind::Float(_) => {
            stack.print_number();
            if let Kind::Text(text) = stack.kind(-1) {
                out.push(text)?;
            }
        }
        other => {
            let message = format!("invalid replacement value (a {})", other.name());
            return Err(stack.host().raise(stack, Class::Procedure.error(message)));
        }
    }
    stack.set_top(top);
    Ok(())
}

/// Appends a written replacement, in which `%1` is the first capture.
fn expand(
    stack: &L<'_>,
    matcher: &mut Matcher<'_, '_>,
    range: (usize, usize),
    written: &[u8],
    out: &mut Buffer<'_, '_>,
) -> Result<(), Raised> {
    let mut rest = written;
    while let Some(at) = memchr::memchr(b'%', rest) {
        let (before, after) = rest.split_at(at);
        out.push(before)?;
        match after.get(1) {
            Some(b'%') => out.push(b"%")?,
            Some(b'0') => out.push(matcher.text_of(range))?,
            Some(digit) if digit.is_ascii_digit() => {
                let top = stack.top();
                matcher.push_capture(usize::from(digit - b'1'), Some(range))?;
                super::arguments::print(stack, -1, out)?;
                stack.set_top(top);
            }
            _ => {
                let message = "invalid use of '%' in replacement string";
                return Err(stack.host().raise(stack, Class::InvalidParameter.error(message)));
            }
        }
        rest = after.get(2..).unwrap_or_default();
    }
    out.push(rest)
}
