//! Paths and lists of keys, for which PostgreSQL uses arrays of text.

use crate::error::{Class, Result};

/// The elements of an array's literal, such as `{a,"b c",NULL}`.
///
/// # Errors
/// If it is not such a literal (22P02), or has several dimensions (0A000).
pub(crate) fn steps_of(literal: &str) -> Result<Vec<Option<String>>> {
    let malformed = || Class::InvalidText.error(format_args!("malformed array literal: \"{literal}\""));
    let inner = literal.trim_matches(is_blank).strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
    let mut rest = inner.ok_or_else(malformed)?.trim_start_matches(is_blank);
    let mut steps = vec![];
    if rest.is_empty() {
        return Ok(steps);
    }
    loop {
        if rest.starts_with('{') {
            return Err(Class::Unsupported.error("arrays of several dimensions as paths"));
        }
        let (step, behind) = match rest.strip_prefix('"') {
            Some(quoted) => quoted_step(quoted).map(|(step, behind)| (Some(step), behind)),
            None => plain_step(rest),
        }
        .ok_or_else(malformed)?;
        steps.push(step);
        match behind.strip_prefix(',') {
            Some(next) => rest = next.trim_start_matches(is_blank),
            None if behind.is_empty() => return Ok(steps),
            None => return Err(malformed()),
        }
    }
}

const fn is_blank(character: char) -> bool {
    matches!(character, ' ' | '\t' | '\n' | '\u{b}' | '\u{c}' | '\r')
}

/// An element after its first quote, and the text after it; `None` if it is unterminated.
fn quoted_step(text: &str) -> Option<(String, &str)> {
    let mut step = String::new();
    let mut rest = text.chars();
    loop {
        match rest.next()? {
            '"' => return Some((step, rest.as_str().trim_start_matches(is_blank))),
            '\\' => step.push(rest.next()?),
            other => step.push(other),
        }
    }
}

/// An element without quotes, or NULL, and the text after it; `None` if it is missing or contains a bracket or a quote.
fn plain_step(text: &str) -> Option<(Option<String>, &str)> {
    let mut step = String::new();
    // Blanks at the end are no part of it, unless they are escaped.
    let (mut kept, mut is_escaped) = (0, false);
    let mut rest = text.chars();
    while let Some(next) = rest.clone().next() {
        if next == ',' {
            break;
        }
        rest.next();
        match next {
            '\\' => {
                step.push(rest.next()?);
                (kept, is_escaped) = (step.len(), true);
            }
            '{' | '}' | '"' => return None,
            other => {
                step.push(other);
                if !is_blank(other) {
                    kept = step.len();
                }
            }
        }
    }
    step.truncate(kept);
    if step.is_empty() {
        return None;
    }
    let is_null = !is_escaped && step.eq_ignore_ascii_case("null");
    Some(((!is_null).then_some(step), rest.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_of_arrays() {
        let of = |steps: &[Option<&str>]| steps.iter().map(|step| step.map(str::to_owned)).collect::<Vec<_>>();
        for (literal, steps) in [
            ("{}", &[][..]),
            (" { } ", &[]),
            ("{a,b}", &[Some("a"), Some("b")]),
            ("{ a b , 0 }", &[Some("a b"), Some("0")]),
            ("{\"a,b\",\"\"}", &[Some("a,b"), Some("")]),
            ("{\"a\\\"b\"}", &[Some("a\"b")]),
            ("{a\\,b}", &[Some("a,b")]),
            ("{NULL,null,\"null\"}", &[None, None, Some("null")]),
            ("{\" a \" , b}", &[Some(" a "), Some("b")]),
        ] {
            assert_eq!(steps_of(literal).unwrap(), of(steps), "{literal}");
        }
        for literal in ["", "a", "{a", "{a,}", "{,a}", "{\"a}", "{a\"b\"}", "{a}}", "{\"a\"b}"] {
            assert_eq!(steps_of(literal).unwrap_err().sqlstate(), "22P02", "{literal}");
        }
        assert_eq!(steps_of("{{a}}").unwrap_err().sqlstate(), "0A000");
    }
}
