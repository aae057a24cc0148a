//! Variables of a client, as of `psql`'s `\set`.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::token::{Inside, tail, token};

/// Variables by name, whose values replace references to them in statements and commands:
///
/// ```text
/// :name     the value as it is
/// :'name'   the value as a text literal
/// :"name"   the value as a quoted name
/// ```
///
/// References in quotes and comments, and to names without a variable, stay as they are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Variables(BTreeMap<String, String>);

impl Variables {
    /// Sets a variable; false, without effect, if the name has other characters than letters, digits and underscores.
    pub fn set(&mut self, name: &str, value: &str) -> bool {
        let is_name = !name.is_empty() && name.chars().all(is_part);
        if is_name {
            self.0.insert(name.to_owned(), value.to_owned());
        }
        is_name
    }

    /// Removes a variable.
    pub fn unset(&mut self, name: &str) {
        self.0.remove(name);
    }

    /// Names and values, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// The text with values for references.
    pub fn substituted<'t>(&self, text: &'t str) -> Cow<'t, str> {
        if self.0.is_empty() || !text.contains(':') {
            return Cow::Borrowed(text);
        }
        let (mut out, mut at, mut inside) = (String::with_capacity(text.len()), 0, Inside::Nothing);
        while at < text.len() {
            let rest = tail(text, at);
            if inside != Inside::Nothing {
                let (used, is_over) = inside.pass(rest, true);
                let used = if is_over { used } else { rest.len() };
                out.push_str(rest.get(..used).unwrap_or_default());
                at += used;
                inside = Inside::Nothing;
                continue;
            }
            let (used, value) = match rest.strip_prefix(':') {
                Some(behind) if behind.starts_with([':', '=']) => (2, None),
                Some(behind) => self.reference(behind).map_or((1, None), |(used, value)| (used + 1, Some(value))),
                None => {
                    let Some((used, opened, _)) = token(rest, true) else { break };
                    inside = opened;
                    (used, None)
                }
            };
            out.push_str(value.as_deref().unwrap_or_else(|| rest.get(..used).unwrap_or_default()));
            at += used;
        }
        out.push_str(tail(text, at));
        Cow::Owned(out)
    }

    /// Length and value of the reference behind a colon; `None` if there is none.
    fn reference(&self, behind: &str) -> Option<(usize, String)> {
        let quote = behind.chars().next().filter(|c| matches!(c, '\'' | '"'));
        let name = behind.strip_prefix(['\'', '"']).unwrap_or(behind);
        let length = name.find(|c| !is_part(c)).unwrap_or(name.len());
        let (name, rest) = name.split_at_checked(length)?;
        let value = self.0.get(name)?;
        match quote {
            None => Some((length, value.clone())),
            Some(quote) if rest.starts_with(quote) => {
                let doubled = format!("{quote}{quote}");
                Some((length + 2, format!("{quote}{}{quote}", value.replace(quote, &doubled))))
            }
            Some(_) => None,
        }
    }
}

fn is_part(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_outside_of_quotes_are_replaced() {
        let mut variables = Variables::default();
        assert!(variables.set("n", "7") && variables.set("who", "O'Neil \"x\"") && variables.set("größe", "1 + 1"));
        assert!(!variables.set("a b", "1") && !variables.set("", "1"));
        for (text, expected) in [
            ("SELECT :n", "SELECT 7"),
            ("SELECT :n::text, :'n'", "SELECT 7::text, '7'"),
            ("SELECT :'who' AS :\"who\"", "SELECT 'O''Neil \"x\"' AS \"O'Neil \"\"x\"\"\""),
            ("SELECT ':n', \":n\", $$:n$$ -- :n\n, :n /* :n */", "SELECT ':n', \":n\", $$:n$$ -- :n\n, 7 /* :n */"),
            ("SELECT x::n, a[1:2], :nn, :unknown, :'n", "SELECT x::n, a[1:2], :nn, :unknown, :'n"),
            ("SELECT :größe;", "SELECT 1 + 1;"),
            ("SELECT 'it''s' || :'n' || E'\\':n'", "SELECT 'it''s' || '7' || E'\\':n'"),
            ("x := :n", "x := 7"),
            (":", ":"),
        ] {
            assert_eq!(variables.substituted(text), expected, "{text}");
        }
        variables.unset("n");
        assert_eq!(variables.substituted("SELECT :n"), "SELECT :n");
    }
}
