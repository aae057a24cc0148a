//! Lua's patterns. Of our own, because matching can take time exponential in the pattern, which has to be
//! counted.

use super::super::machine::L;
use super::super::vm::Raised;
use super::arguments::count;
use crate::error::Class;

const CAPTURES_MAX: usize = 32;
/// How deep matching may call itself.
const DEPTH_MAX: usize = 200;
/// Steps between two looks at the budget.
const STEPS_OF_A_LOOK: usize = 256;

#[derive(Debug, Clone, Copy)]
struct Capture {
    from: usize,
    length: Length,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Length {
    Open,
    /// `()`: where it is, and no text.
    Position,
    Of(usize),
}

/// A text and a pattern, and what was captured.
pub struct Matcher<'m, 's> {
    stack: &'m L<'s>,
    text: &'m [u8],
    pattern: &'m [u8],
    captures: Vec<Capture>,
    depth: usize,
    steps: usize,
}

impl<'m, 's> Matcher<'m, 's> {
    pub const fn new(stack: &'m L<'s>, text: &'m [u8], pattern: &'m [u8]) -> Self {
        Self { stack, text, pattern, captures: Vec::new(), depth: 0, steps: 0 }
    }

    /// Where a match that begins at `from` ends.
    pub fn run(&mut self, from: usize) -> Result<Option<usize>, Raised> {
        self.captures.clear();
        self.depth = 0;
        self.matches(from, 0)
    }

    /// A part of the text.
    pub fn text_of(&self, (from, to): (usize, usize)) -> &'m [u8] {
        self.text.get(from..to).unwrap_or_default()
    }

    /// Pushes all captures; the whole match if it is given and there are none.
    pub fn push_captures(&mut self, whole: Option<(usize, usize)>) -> Result<i32, Raised> {
        let captures = if self.captures.is_empty() { usize::from(whole.is_some()) } else { self.captures.len() };
        for index in 0..captures {
            self.push_capture(index, whole)?;
        }
        Ok(i32::try_from(captures).unwrap_or(0))
    }

    /// Pushes one capture; the first is the whole match where the pattern has none.
    pub fn push_capture(&mut self, index: usize, whole: Option<(usize, usize)>) -> Result<(), Raised> {
        match (self.captures.get(index).copied(), whole) {
            (Some(Capture { from, length: Length::Of(length) }), _) => {
                self.stack.push_bytes(self.text_of((from, from + length)));
            }
            (Some(Capture { from, length: Length::Position }), _) => self.stack.push_integer(count(from + 1)),
            (Some(Capture { length: Length::Open, .. }), _) => return Err(self.malformed("unfinished capture")),
            (None, Some(range)) if index == 0 => self.stack.push_bytes(self.text_of(range)),
            (None, _) => return Err(self.malformed(&format!("invalid capture index %{}", index + 1))),
        }
        Ok(())
    }

    fn malformed(&self, why: &str) -> Raised {
        self.stack.host().raise(self.stack, Class::InvalidParameter.error(why))
    }

    fn step(&mut self) -> Result<(), Raised> {
        self.steps += 1;
        if self.steps < STEPS_OF_A_LOOK {
            return Ok(());
        }
        self.steps = 0;
        self.stack.host().spend(self.stack, STEPS_OF_A_LOOK)
    }

    fn matches(&mut self, from: usize, at: usize) -> Result<Option<usize>, Raised> {
        if self.depth >= DEPTH_MAX {
            return Err(self.malformed("pattern too complex"));
        }
        self.depth += 1;
        let result = self.matches_here(from, at);
        self.depth -= 1;
        result
    }

    fn matches_here(&mut self, mut from: usize, mut at: usize) -> Result<Option<usize>, Raised> {
        loop {
            self.step()?;
            let Some(byte) = self.pattern.get(at).copied() else { return Ok(Some(from)) };
            match (byte, self.pattern.get(at + 1).copied()) {
                (b'(', Some(b')')) => return self.open(from, at + 2, Length::Position),
                (b'(', _) => return self.open(from, at + 1, Length::Open),
                (b')', _) => return self.close(from, at + 1),
                (b'$', None) => return Ok((from == self.text.len()).then_some(from)),
                (b'%', Some(b'b')) => match self.balanced(from, at + 2)? {
                    Some(end) => (from, at) = (end, at + 4),
                    None => return Ok(None),
                },
                (b'%', Some(b'f')) => {
                    at += 2;
                    if self.pattern.get(at) != Some(&b'[') {
                        return Err(self.malformed("missing '[' after '%f' in pattern"));
                    }
                    let end = self.class_end(at)?;
                    let before = from.checked_sub(1).and_then(|before| self.text.get(before)).copied().unwrap_or(0);
                    let here = self.text.get(from).copied().unwrap_or(0);
                    if self.in_set(before, at, end - 1) || !self.in_set(here, at, end - 1) {
                        return Ok(None);
                    }
                    at = end;
                }
                (b'%', Some(digit)) if digit.is_ascii_digit() => match self.again(from, digit)? {
                    Some(end) => (from, at) = (end, at + 2),
                    None => return Ok(None),
                },
                _ => {
                    let end = self.class_end(at)?;
                    match self.pattern.get(end) {
                        Some(b'?') => {
                            if self.single(from, at, end)
                                && let Some(found) = self.matches(from + 1, end + 1)?
                            {
                                return Ok(Some(found));
                            }
                            at = end + 1;
                        }
                        Some(b'+') if !self.single(from, at, end) => return Ok(None),
                        Some(b'+') => return self.longest(from + 1, at, end),
                        Some(b'*') => return self.longest(from, at, end),
                        Some(b'-') => return self.shortest(from, at, end),
                        _ if !self.single(from, at, end) => return Ok(None),
                        _ => (from, at) = (from + 1, end),
                    }
                }
            }
        }
    }

    fn longest(&mut self, from: usize, at: usize, end: usize) -> Result<Option<usize>, Raised> {
        let mut count = 0;
        while self.single(from + count, at, end) {
            self.step()?;
            count += 1;
        }
        loop {
            if let Some(found) = self.matches(from + count, end + 1)? {
                return Ok(Some(found));
            }
            match count.checked_sub(1) {
                Some(less) => count = less,
                None => return Ok(None),
            }
        }
    }

    fn shortest(&mut self, mut from: usize, at: usize, end: usize) -> Result<Option<usize>, Raised> {
        loop {
            if let Some(found) = self.matches(from, end + 1)? {
                return Ok(Some(found));
            }
            if !self.single(from, at, end) {
                return Ok(None);
            }
            from += 1;
        }
    }

    fn open(&mut self, from: usize, at: usize, length: Length) -> Result<Option<usize>, Raised> {
        if self.captures.len() >= CAPTURES_MAX {
            return Err(self.malformed("too many captures"));
        }
        let level = self.captures.len();
        self.captures.push(Capture { from, length });
        let found = self.matches(from, at)?;
        if found.is_none() {
            self.captures.truncate(level);
        }
        Ok(found)
    }

    fn close(&mut self, from: usize, at: usize) -> Result<Option<usize>, Raised> {
        let Some(level) = self.captures.iter().rposition(|capture| capture.length == Length::Open) else {
            return Err(self.malformed("invalid pattern capture"));
        };
        if let Some(capture) = self.captures.get_mut(level) {
            capture.length = Length::Of(from - capture.from);
        }
        let found = self.matches(from, at)?;
        if found.is_none()
            && let Some(capture) = self.captures.get_mut(level)
        {
            capture.length = Length::Open;
        }
        Ok(found)
    }

    /// What a capture holds, once more.
    fn again(&mut self, from: usize, digit: u8) -> Result<Option<usize>, Raised> {
        let index = usize::from(digit).checked_sub(usize::from(b'1'));
        let capture = index.and_then(|index| self.captures.get(index)).copied();
        let Some(Capture { from: start, length: Length::Of(length) }) = capture else {
            return Err(self.malformed(&format!("invalid capture index %{}", char::from(digit))));
        };
        self.stack.host().spend(self.stack, length / 16)?;
        let is_same = self.text.get(from..from + length) == Some(self.text_of((start, start + length)));
        Ok(is_same.then_some(from + length))
    }

    /// `%b()`.
    fn balanced(&mut self, from: usize, at: usize) -> Result<Option<usize>, Raised> {
        let (Some(open), Some(close)) = (self.pattern.get(at).copied(), self.pattern.get(at + 1).copied()) else {
            return Err(self.malformed("malformed pattern (missing arguments to '%b')"));
        };
        if self.text.get(from) != Some(&open) {
            return Ok(None);
        }
        let mut depth = 1_usize;
        for (index, byte) in self.text.iter().enumerate().skip(from + 1) {
            self.step()?;
            if *byte == close {
                depth -= 1;
                if depth == 0 {
                    return Ok(Some(index + 1));
                }
            } else if *byte == open {
                depth += 1;
            }
        }
        Ok(None)
    }

    /// Where the class of a single character that begins at `at` ends.
    fn class_end(&self, mut at: usize) -> Result<usize, Raised> {
        let first = self.pattern.get(at);
        at += 1;
        match first {
            Some(b'%') if at >= self.pattern.len() => Err(self.malformed("malformed pattern (ends with '%')")),
            Some(b'%') => Ok(at + 1),
            Some(b'[') => {
                if self.pattern.get(at) == Some(&b'^') {
                    at += 1;
                }
                loop {
                    let Some(byte) = self.pattern.get(at) else {
                        return Err(self.malformed("malformed pattern (missing ']')"));
                    };
                    at += 1;
                    if *byte == b'%' {
                        at += 1;
                    }
                    if self.pattern.get(at) == Some(&b']') {
                        return Ok(at + 1);
                    }
                }
            }
            _ => Ok(at),
        }
    }

    fn single(&self, from: usize, at: usize, end: usize) -> bool {
        let (Some(byte), Some(class)) = (self.text.get(from).copied(), self.pattern.get(at).copied()) else {
            return false;
        };
        match class {
            b'.' => true,
            b'%' => self.pattern.get(at + 1).is_some_and(|class| in_class(byte, *class)),
            b'[' => self.in_set(byte, at, end - 1),
            class => class == byte,
        }
    }

    /// Whether a byte is in the set between `[` at `at` and `]` at `end`.
    fn in_set(&self, byte: u8, mut at: usize, end: usize) -> bool {
        let inside = self.pattern.get(at + 1) != Some(&b'^');
        at += if inside { 1 } else { 2 };
        while at < end {
            match (self.pattern.get(at).copied(), self.pattern.get(at + 1).copied()) {
                (Some(b'%'), Some(class)) => {
                    if in_class(byte, class) {
                        return inside;
                    }
                    at += 2;
                }
                (Some(low), Some(b'-')) if at + 2 < end => {
                    let high = self.pattern.get(at + 2).copied().unwrap_or(0);
                    if (low..=high).contains(&byte) {
                        return inside;
                    }
                    at += 3;
                }
                (Some(one), _) => {
                    if one == byte {
                        return inside;
                    }
                    at += 1;
                }
                (None, _) => break,
            }
        }
        !inside
    }
}

/// Whether a byte is of the class that a letter after `%` says; another character says itself.
fn in_class(byte: u8, class: u8) -> bool {
    let is = match class.to_ascii_lowercase() {
        b'a' => byte.is_ascii_alphabetic(),
        b'c' => byte.is_ascii_control(),
        b'd' => byte.is_ascii_digit(),
        b'g' => byte.is_ascii_graphic(),
        b'l' => byte.is_ascii_lowercase(),
        b'p' => byte.is_ascii_punctuation(),
        b's' => byte.is_ascii_whitespace() || byte == 0x0b,
        b'u' => byte.is_ascii_uppercase(),
        b'w' => byte.is_ascii_alphanumeric(),
        b'x' => byte.is_ascii_hexdigit(),
        _ => return class == byte,
    };
    is != class.is_ascii_uppercase()
}
