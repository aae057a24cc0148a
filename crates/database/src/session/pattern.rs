//! Patterns of names, as of `psql`'s commands.

use thermocline_compute::SCHEMA;
use thermocline_types::matches_wildcards;

/// A pattern of a name, which may have a schema in front. `*` stands for any characters and `?` for one, except in
/// double quotes; letters outside of quotes are lower case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    /// `None` for the schemas of users' tables.
    schema: Option<Glob>,
    name: Glob,
}

/// A pattern of one name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Glob(Vec<Part>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Any,
    One,
    Is(char),
}

impl Pattern {
    /// Reads a pattern; an empty one matches all names.
    pub fn of(text: &str) -> Self {
        let (mut globs, mut is_quoted) = (vec![Glob::default()], false);
        let mut letters = text.trim().chars().peekable();
        while let Some(letter) = letters.next() {
            let parts: Vec<Part> = match letter {
                '"' if is_quoted && letters.next_if_eq(&'"').is_some() => vec![Part::Is('"')],
                '"' => {
                    is_quoted = !is_quoted;
                    continue;
                }
                '.' if !is_quoted => {
                    globs.push(Glob::default());
                    continue;
                }
                '*' if !is_quoted => vec![Part::Any],
                '?' if !is_quoted => vec![Part::One],
                letter if is_quoted => vec![Part::Is(letter)],
                letter => letter.to_lowercase().map(Part::Is).collect(),
            };
            if let Some(glob) = globs.last_mut() {
                glob.0.extend(parts);
            }
        }
        let name = globs.pop().unwrap_or_default();
        let name = if name.0.is_empty() { Glob(vec![Part::Any]) } else { name };
        Self { schema: globs.pop(), name }
    }

    /// Whether a name in a schema matches. Without a schema in the pattern, only users' names do: those in `public`.
    pub fn matches(&self, schema: &str, name: &str) -> bool {
        let is_in = self.schema.as_ref().map_or(schema == SCHEMA, |pattern| pattern.matches(schema));
        is_in && self.name.matches(name)
    }

    /// Whether a name without a schema matches.
    pub fn matches_name(&self, name: &str) -> bool {
        self.name.matches(name)
    }
}

impl Glob {
    fn matches(&self, name: &str) -> bool {
        let name: Vec<char> = name.chars().collect();
        let is = |part: &Part, letter: &char| match part {
            Part::Any | Part::One => true,
            Part::Is(wanted) => wanted == letter,
        };
        matches_wildcards(&self.0, &name, |part| *part == Part::Any, is)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_psqls() {
        for (pattern, schema, name, expected) in [
            ("", "public", "orders", true),
            ("", "system", "queries", false),
            ("orders", "public", "orders", true),
            ("ORDERS", "public", "orders", true),
            ("\"Orders\"", "public", "Orders", true),
            ("\"Orders\"", "public", "orders", false),
            ("order", "public", "orders", false),
            ("o*s", "public", "orders", true),
            ("*d*d*", "public", "orders", false),
            ("*r*s", "public", "orders", true),
            ("order?", "public", "orders", true),
            ("\"order?\"", "public", "orders", false),
            ("public.orders", "public", "orders", true),
            ("system.*", "system", "queries", true),
            ("system.", "system", "queries", true),
            ("*.queries", "system", "queries", true),
            ("\"a.b\"", "public", "a.b", true),
            ("\"a\"\"b\"", "public", "a\"b", true),
        ] {
            assert_eq!(Pattern::of(pattern).matches(schema, name), expected, "{pattern} {schema}.{name}");
        }
    }
}
