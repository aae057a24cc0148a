//! Patterns of paths.

use thermocline_types::matches_wildcards;

/// A pattern of paths below a folder:
///
/// ```text
/// *        any characters but /
/// ?        one of them
/// [a-c_]   one of these; [!a-c_] one that is none of these
/// **       any number of folders, as a part of its own
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Glob {
    parts: Vec<Part>,
}

/// What stands between two slashes.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    /// `**`
    Folders,
    Name(Vec<Piece>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Character(char),
    One,
    Many,
    /// Characters from the first of a pair to the second.
    Class {
        ranges: Vec<(char, char)>,
        is_negated: bool,
    },
}

impl Piece {
    fn is(&self, c: char) -> bool {
        match self {
            Self::Character(own) => *own == c,
            Self::One | Self::Many => true,
            Self::Class { ranges, is_negated } => {
                ranges.iter().any(|(first, last)| (*first..=*last).contains(&c)) != *is_negated
            }
        }
    }
}

impl Glob {
    /// Understands a pattern; a bracket that is not closed means itself.
    pub(super) fn new(pattern: &str) -> Self {
        let part = |part: &str| if part == "**" { Part::Folders } else { Part::Name(pieces(part)) };
        Self { parts: pattern.split('/').filter(|part| !part.is_empty()).map(part).collect() }
    }

    /// Whether a part of a path is a pattern.
    pub(super) fn is_pattern(part: &str) -> bool {
        part == "**" || pieces(part).iter().any(|piece| !matches!(piece, Piece::Character(_)))
    }

    /// Levels of folders on which it finds something; `None` for all.
    pub(super) fn levels(&self) -> Option<usize> {
        (!self.parts.contains(&Part::Folders)).then_some(self.parts.len())
    }

    /// Whether it is the pattern of `path`, a path below the folder.
    pub(super) fn matches(&self, path: &str) -> bool {
        let folders: Vec<&str> = path.split('/').collect();
        let is_part = |part: &Part, name: &&str| match part {
            Part::Folders => true,
            Part::Name(pieces) => {
                let name: Vec<char> = name.chars().collect();
                matches_wildcards(pieces, &name, |piece| *piece == Piece::Many, |piece, c| piece.is(*c))
            }
        };
        matches_wildcards(&self.parts, &folders, |part| *part == Part::Folders, is_part)
    }
}

fn pieces(part: &str) -> Vec<Piece> {
    let mut pieces = vec![];
    let mut rest = part.chars();
    while let Some(c) = rest.next() {
        let piece = match c {
            '*' => Piece::Many,
            '?' => Piece::One,
            '[' => match class(rest.as_str()) {
                Some((class, after)) => {
                    rest = after.chars();
                    class
                }
                None => Piece::Character(c),
            },
            c => Piece::Character(c),
        };
        // A second star in a row changes nothing.
        if piece != Piece::Many || pieces.last() != Some(&Piece::Many) {
            pieces.push(piece);
        }
    }
    pieces
}

/// The class whose bracket was opened before `text`, and what follows it; `None` if it is not closed.
fn class(text: &str) -> Option<(Piece, &str)> {
    let negated = text.strip_prefix(['!', '^']);
    let inner = negated.unwrap_or(text);
    // The first character may be a closing bracket.
    let first = inner.chars().next()?;
    let end = inner.get(first.len_utf8()..)?.find(']')? + first.len_utf8();
    let (inside, after) = (inner.get(..end)?, inner.get(end + 1..)?);
    let mut ranges = vec![];
    let mut characters = inside.chars();
    while let Some(first) = characters.next() {
        let mut ahead = characters.clone();
        match (ahead.next(), ahead.next()) {
            (Some('-'), Some(last)) => {
                ranges.push((first, last));
                characters = ahead;
            }
            _ => ranges.push((first, first)),
        }
    }
    Some((Piece::Class { ranges, is_negated: negated.is_some() }, after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_found_by_patterns() {
        for (pattern, path, found) in [
            ("*.csv", "a.csv", true),
            ("*.csv", "a.csv.gz", false),
            ("*.csv", "b/a.csv", false),
            ("*/*.csv", "b/a.csv", true),
            ("**/*.csv", "a.csv", true),
            ("**/*.csv", "b/c/d/a.csv", true),
            ("**/*.csv", "b/c/d/a.txt", false),
            ("**", "b/c.csv", true),
            ("b/**/c/*", "b/c/x", true),
            ("b/**/c/*", "b/x/c/y/c/x", true),
            ("b/**/c/*", "b/x/c", false),
            ("a**b", "axxb", true),
            ("a**b", "ax/b", false),
            ("?", "ü", true),
            ("?", "", false),
            ("[a-c]x", "bx", true),
            ("[!a-c]x", "bx", false),
            ("[^a-c]x", "dx", true),
            ("[]a]", "]", true),
            ("[a-]", "-", true),
            ("a[b", "a[b", true),
            ("[z-a]", "m", false),
            ("*a*b*c*", "xxaxxbxxcxx", true),
            ("*a*b*c*", "xxaxxcxxb", false),
            ("a.csv", "a.csv", true),
            ("a.csv", "A.csv", false),
        ] {
            assert_eq!(Glob::new(pattern).matches(path), found, "{pattern} {path}");
        }
        // Nobody waits for a pattern.
        assert!(!Glob::new(&"*a".repeat(2000)).matches(&"a".repeat(1999)));
        assert!(!Glob::new(&"**/a/".repeat(500)).matches(&"a/".repeat(400)));
    }

    #[test]
    fn levels_are_those_of_the_parts() {
        assert_eq!(Glob::new("*.csv").levels(), Some(1));
        assert_eq!(Glob::new("x*/y/*.csv").levels(), Some(3));
        assert_eq!(Glob::new("x/**/*.csv").levels(), None);
        for (part, is_pattern) in
            [("a", false), ("a[b", false), ("a[b]", true), ("**", true), ("a?", true), ("", false)]
        {
            assert_eq!(Glob::is_pattern(part), is_pattern, "{part}");
        }
    }
}
