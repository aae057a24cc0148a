//! Commands of the shell and of scripts, as opposed to statements.

use std::path::{Path, PathBuf};

/// A command.
#[derive(Debug, PartialEq, Eq)]
pub enum Order<'a> {
    /// End the shell or the script.
    Quit,
    /// List the commands.
    Help,
    /// Switch the display of times.
    Timing,
    /// List tables.
    Tables,
    /// Describe a table.
    Describe(&'a str),
    /// Run a script.
    Include {
        /// Its file; empty if none was named.
        file: &'a str,
        /// Whether the name is relative to the script with the command, and not to the process's directory.
        beside: bool,
    },
    /// An unknown command.
    Unknown(&'a str),
}

impl<'a> Order<'a> {
    /// `None` for statements.
    pub fn of(text: &'a str) -> Option<Self> {
        let text = text.trim().trim_end_matches(';').trim_end();
        let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        Some(match (word.to_ascii_lowercase().as_str(), rest.trim()) {
            ("\\q" | "quit" | "exit", "") => Self::Quit,
            ("\\?" | "\\h" | "help", "") => Self::Help,
            ("\\timing", "") => Self::Timing,
            ("\\d" | "\\dt", "") => Self::Tables,
            ("\\d", name) => Self::Describe(name),
            ("\\i" | "\\include", file) => Self::Include { file: unquoted(file), beside: false },
            ("\\ir" | "\\include_relative", file) => Self::Include { file: unquoted(file), beside: true },
            (command, _) if command.starts_with('\\') => Self::Unknown(text),
            _ => return None,
        })
    }
}

/// Unquotes a name, which may be quoted if it contains spaces.
fn unquoted(name: &str) -> &str {
    name.strip_prefix('\'').and_then(|name| name.strip_suffix('\'')).unwrap_or(name)
}

/// Path of a script: below `folder` if that is given and the name is relative; `~/` is the home directory.
pub fn path_of(file: &str, folder: Option<&Path>) -> PathBuf {
    let home = || file.strip_prefix("~/").and_then(|rest| Some(std::env::home_dir()?.join(rest)));
    home().unwrap_or_else(|| folder.map_or_else(|| file.into(), |folder| folder.join(file)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_told_from_statements() {
        let include = |file, beside| Some(Order::Include { file, beside });
        for (text, expected) in [
            ("\\q", Some(Order::Quit)),
            ("exit;", Some(Order::Quit)),
            ("QUIT", Some(Order::Quit)),
            ("\\d", Some(Order::Tables)),
            ("\\d lineorder ", Some(Order::Describe("lineorder"))),
            ("\\d system.queries;", Some(Order::Describe("system.queries"))),
            ("\\i a b.sql ", include("a b.sql", false)),
            ("\\i 'a b.sql';", include("a b.sql", false)),
            ("\\ir ../x.sql", include("../x.sql", true)),
            ("\\i", include("", false)),
            ("\\x y", Some(Order::Unknown("\\x y"))),
            ("exit from x", None),
            ("select 1;", None),
        ] {
            assert_eq!(Order::of(text), expected, "{text}");
        }
    }

    #[test]
    fn paths_are_relative_to_a_folder_unless_absolute() {
        assert_eq!(path_of("x.sql", None), Path::new("x.sql"));
        assert_eq!(path_of("x.sql", Some(Path::new("/a"))), Path::new("/a/x.sql"));
        assert_eq!(path_of("/b/x.sql", Some(Path::new("/a"))), Path::new("/b/x.sql"));
        assert!(path_of("~/x.sql", Some(Path::new("/a"))).ends_with("x.sql"));
    }
}
