//! Commands of the shell and of scripts, as opposed to statements: those of `psql`, which begin with a backslash, and
//! some of DuckDB's and SQLite's, which begin with a period.

use std::path::{Path, PathBuf};

use thermocline_database::Listing;

use super::output::Format;

/// A command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order<'a> {
    /// End the shell or the script.
    Quit,
    /// List the commands.
    Help,
    /// Show times of statements, or not.
    Timing(Switch),
    /// Show a line for each value, or a row.
    Expanded(Switch),
    /// List tables, functions and the like whose names match a pattern.
    List(Listing, &'a str),
    /// Describe the tables that match a pattern.
    Describe(&'a str),
    /// Show the statements that create the tables that match a pattern.
    Definitions(&'a str),
    /// Change the output format of rows; `None` shows it.
    Mode(Option<Mode>),
    /// Show at most so many rows of a result in the shell; 0 for all.
    RowsMax(usize),
    /// Write rows to a file, see [`file_of`]; to standard output if it is empty.
    Output(&'a str),
    /// Set a variable, the first word, to the rest; list all if it is empty.
    Set(&'a str),
    /// Remove a variable.
    Unset(&'a str),
    /// Print words.
    Echo(&'a str),
    /// COPY with a file or standard stream of this process; see [`copy_of`].
    Copy(&'a str),
    /// Repeat the last statement.
    Watch(&'a str),
    /// Edit a file, see [`script_of`], or the last statement if it is empty, and run it.
    Edit(&'a str),
    /// Run a script.
    Include {
        /// Its file, see [`script_of`]; empty if none was named.
        file: &'a str,
        /// Whether the name is relative to the script with the command, and not to the process's directory.
        beside: bool,
    },
    /// A known command with an argument that it does not take, and those that it does.
    Wrong(&'a str, &'static str),
    /// An unknown command.
    Unknown(&'a str),
}

/// A new state of something that is on or off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Switch {
    /// The other one.
    Toggle,
    /// On.
    On,
    /// Off.
    Off,
    /// On where it is better.
    Auto,
}

/// An output format of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// As of `--format`.
    Rows(Format),
    /// A table with a line for each value.
    Lines,
}

const MODES: &str = "table, line, csv, json or markdown";
const ON_OFF: &str = "on or off";
const ON_OFF_AUTO: &str = "on, off or auto";

impl<'a> Order<'a> {
    /// The command that an input of the shell is. `None` for statements, and for several lines, as of a paste: each of
    /// them is a command or part of a statement by itself.
    pub fn typed(text: &'a str) -> Option<Self> {
        Self::of(text).filter(|_| !text.trim().contains('\n'))
    }

    /// `None` for statements.
    pub fn of(text: &'a str) -> Option<Self> {
        let text = text.trim().trim_end_matches(';').trim_end();
        let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        let (word, rest) = (word.to_ascii_lowercase(), rest.trim());
        // `\d+` says no more than `\d`, which says all.
        let plain = if word.starts_with("\\d") { word.trim_end_matches('+') } else { word.as_str() };
        Some(match (plain, rest) {
            ("\\q" | "quit" | "exit" | ".quit" | ".exit", "") => Self::Quit,
            ("\\?" | "\\h" | "help" | ".help", "") => Self::Help,
            ("\\timing" | ".timer", switch) => {
                let switch = Switch::of(switch).filter(|switch| *switch != Switch::Auto);
                switch.map_or(Self::Wrong(text, ON_OFF), Self::Timing)
            }
            ("\\x", switch) => Switch::of(switch).map_or(Self::Wrong(text, ON_OFF_AUTO), Self::Expanded),
            ("\\d", "") => Self::List(Listing::Relations, ""),
            ("\\d", pattern) => Self::Describe(pattern),
            (".tables", pattern) => Self::List(Listing::Relations, pattern),
            ("\\dt", pattern) => Self::List(Listing::Tables, pattern),
            ("\\dv", pattern) => Self::List(Listing::Views, pattern),
            ("\\di" | ".indexes" | ".indices", pattern) => Self::List(Listing::Indexes, pattern),
            ("\\df", pattern) => Self::List(Listing::Functions, pattern),
            ("\\dn", pattern) => Self::List(Listing::Schemas, pattern),
            ("\\du" | "\\dg", pattern) => Self::List(Listing::Roles, pattern),
            ("\\l" | "\\list" | ".databases", pattern) => Self::List(Listing::Databases, pattern),
            (".schema", pattern) => Self::Definitions(pattern),
            (".mode", "") => Self::Mode(None),
            (".mode", name) => Mode::of(name).map_or(Self::Wrong(text, MODES), |mode| Self::Mode(Some(mode))),
            (".maxrows", count) => {
                count.parse().map_or(Self::Wrong(text, "a number of rows, 0 for all"), Self::RowsMax)
            }
            (".output", "stdout") => Self::Output(""),
            ("\\o" | "\\out" | ".output", file) => Self::Output(file),
            ("\\set", rest) => Self::Set(rest),
            ("\\unset", name) => Self::Unset(name),
            ("\\echo" | ".print", rest) => Self::Echo(rest),
            ("\\copy", rest) => Self::Copy(rest),
            ("\\watch", rest) => Self::Watch(rest),
            ("\\e" | "\\edit", file) => Self::Edit(file),
            ("\\i" | "\\include" | ".read", file) => Self::Include { file, beside: false },
            ("\\ir" | "\\include_relative", file) => Self::Include { file, beside: true },
            (command, _) if command.starts_with('\\') => Self::Unknown(text),
            (command, _) if command.strip_prefix('.').is_some_and(|name| name.starts_with(char::is_alphabetic)) => {
                Self::Unknown(text)
            }
            _ => return None,
        })
    }
}

impl Switch {
    fn of(text: &str) -> Option<Self> {
        Some(match text.to_ascii_lowercase().as_str() {
            "" => Self::Toggle,
            "on" | "true" | "1" => Self::On,
            "off" | "false" | "0" => Self::Off,
            "auto" => Self::Auto,
            _ => return None,
        })
    }
}

impl Mode {
    /// By our names, DuckDB's and SQLite's.
    fn of(name: &str) -> Option<Self> {
        Some(match name.to_ascii_lowercase().as_str() {
            "table" | "box" | "column" | "duckbox" => Self::Rows(Format::Table),
            "csv" => Self::Rows(Format::Csv),
            "json" | "jsonlines" => Self::Rows(Format::Json),
            "markdown" => Self::Rows(Format::Markdown),
            "line" | "lines" => Self::Lines,
            _ => return None,
        })
    }
}

/// The file that a command's rest names: one word, which may be in single or double quotes.
///
/// # Errors
/// What the rest is instead.
pub fn file_of(rest: &str) -> Result<String, String> {
    if rest.starts_with(':') {
        return Err(no_variable(rest));
    }
    match split(rest, &['\'', '"']) {
        (mut words, false) if words.len() == 1 => Ok(words.pop().unwrap_or_default()),
        _ => Err(format!("expected the name of a file, in quotes if it has blanks, not {rest}")),
    }
}

/// The script that a command's rest names: a word as of [`file_of`] if it is quoted, and else all of the rest, which
/// may have blanks.
///
/// # Errors
/// Those of [`file_of`].
pub fn script_of(rest: &str) -> Result<String, String> {
    if rest.starts_with(['\'', '"', ':']) { file_of(rest) } else { Ok(rest.to_owned()) }
}

/// The COPY statement of a `\copy`, whose file may be without quotes.
///
/// # Errors
/// If it has neither FROM nor TO with a file behind it, or runs a program.
pub fn copy_of(rest: &str) -> Result<String, String> {
    let (mut depth, mut within, mut direction) = (0_u32, None::<char>, None);
    let mut starts_word = true;
    for (at, letter) in rest.char_indices() {
        match (within, letter) {
            (Some(quote), letter) if letter == quote => within = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => within = Some(letter),
            (None, '(') => depth += 1,
            (None, ')') => depth = depth.saturating_sub(1),
            _ => {}
        }
        if starts_word && depth == 0 && within.is_none() && direction.is_none() {
            let word: String = rest.get(at..).unwrap_or_default().chars().take_while(|c| !c.is_whitespace()).collect();
            if word.eq_ignore_ascii_case("from") || word.eq_ignore_ascii_case("to") {
                direction = Some(at + word.len());
            }
        }
        starts_word = letter.is_whitespace() || letter == ')';
    }
    let wrong =
        || format!("expected TABLE [(COLUMNS)] FROM FILE, or TABLE or (QUERY) TO FILE, with options, not {rest}");
    let (head, tail) = rest.split_at_checked(direction.ok_or_else(wrong)?).ok_or_else(wrong)?;
    let tail = tail.trim_start();
    if tail.starts_with('\'') {
        return Ok(format!("COPY {head} {tail}"));
    }
    let (file, options) = tail.split_once(char::is_whitespace).unwrap_or((tail, ""));
    match file.to_ascii_lowercase().as_str() {
        "" => Err(wrong()),
        "program" => Err("it takes a file, not a program".to_owned()),
        "stdin" | "pstdin" => Ok(format!("COPY {head} STDIN {options}")),
        "stdout" | "pstdout" => Ok(format!("COPY {head} STDOUT {options}")),
        _ => Ok(format!("COPY {head} '{}' {options}", file.replace('\'', "''"))),
    }
}

/// The complaint about a reference to a variable that is not set.
pub fn no_variable(reference: &str) -> String {
    format!("there is no variable {reference}; a text that begins with a colon needs quotes")
}

/// The words of a command's rest, without their single quotes, within which a doubled one stands for one.
pub fn words(rest: &str) -> Vec<String> {
    split(rest, &['\'']).0
}

/// The words of a text, without these quotes, within which a doubled one stands for one, and whether the last quote is
/// open.
fn split(text: &str, quotes: &[char]) -> (Vec<String>, bool) {
    let (mut words, mut word, mut within) = (vec![], None::<String>, None::<char>);
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match within {
            Some(quote) if letter == quote => match letters.next_if_eq(&quote) {
                Some(_) => word.get_or_insert_default().push(quote),
                None => within = None,
            },
            None if quotes.contains(&letter) => {
                within = Some(letter);
                word.get_or_insert_default();
            }
            None if letter.is_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    (words, within.is_some())
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
            (".quit", Some(Order::Quit)),
            ("\\d", Some(Order::List(Listing::Relations, ""))),
            ("\\dt o*", Some(Order::List(Listing::Tables, "o*"))),
            ("\\df+", Some(Order::List(Listing::Functions, ""))),
            (".tables", Some(Order::List(Listing::Relations, ""))),
            ("\\d lineorder ", Some(Order::Describe("lineorder"))),
            ("\\d+ system.queries;", Some(Order::Describe("system.queries"))),
            (".schema t", Some(Order::Definitions("t"))),
            (".mode CSV", Some(Order::Mode(Some(Mode::Rows(Format::Csv))))),
            (".mode yaml", Some(Order::Wrong(".mode yaml", MODES))),
            ("\\echo a  'b c'", Some(Order::Echo("a  'b c'"))),
            ("\\copy t from x.csv csv;", Some(Order::Copy("t from x.csv csv"))),
            ("\\timing", Some(Order::Timing(Switch::Toggle))),
            ("\\timing off", Some(Order::Timing(Switch::Off))),
            ("\\timing auto", Some(Order::Wrong("\\timing auto", ON_OFF))),
            ("\\x auto", Some(Order::Expanded(Switch::Auto))),
            ("\\o 'a b.txt'", Some(Order::Output("'a b.txt'"))),
            ("\\o stdout", Some(Order::Output("stdout"))),
            (".output stdout", Some(Order::Output(""))),
            ("\\set n 1", Some(Order::Set("n 1"))),
            ("\\i a b.sql ", include("a b.sql", false)),
            ("\\i 'a b.sql';", include("'a b.sql'", false)),
            ("\\ir ../x.sql", include("../x.sql", true)),
            (".read x.sql", include("x.sql", false)),
            ("\\i", include("", false)),
            ("\\y z", Some(Order::Unknown("\\y z"))),
            (".nothing", Some(Order::Unknown(".nothing"))),
            ("exit from x", None),
            (".5", None),
            ("select 1;", None),
        ] {
            assert_eq!(Order::of(text), expected, "{text}");
        }
    }

    #[test]
    fn several_lines_are_no_single_command() {
        assert_eq!(Order::typed("\\timing on\n"), Some(Order::Timing(Switch::On)));
        assert_eq!(Order::typed("exit"), Some(Order::Quit));
        for pasted in ["\\timing on\nSELECT 1;", "\\o x.csv\nSELECT 1;\n\\o", "\\set d 1\nDELETE FROM t WHERE d = :d;"]
        {
            assert_eq!(Order::typed(pasted), None, "{pasted}");
        }
    }

    #[test]
    fn words_may_be_quoted() {
        assert_eq!(words(" a  'b c''d' e'f'g '' "), ["a", "b c'd", "efg", ""]);
        assert_eq!(words(""), Vec::<String>::new());
        assert_eq!(words("\"a b\""), ["\"a", "b\""]);
    }

    #[test]
    fn a_file_is_one_word_or_quoted() {
        for (rest, expected) in [
            ("r.csv", Some("r.csv")),
            ("'it''s.csv'", Some("it's.csv")),
            ("\"my file.csv\"", Some("my file.csv")),
            ("\"it's\"", Some("it's")),
            ("':a'", Some(":a")),
            (":a", None),
            (":'a'", None),
            ("'open", None),
            ("r.csv -- report", None),
        ] {
            assert_eq!(file_of(rest).ok().as_deref(), expected, "{rest}");
        }
        assert_eq!(script_of("a b.sql").as_deref(), Ok("a b.sql"));
        assert_eq!(script_of("\"a b.sql\"").as_deref(), Ok("a b.sql"));
        assert!(script_of("'a' b").is_err() && script_of(":a").is_err());
    }

    #[test]
    fn files_of_copies_may_be_without_quotes() {
        for (rest, statement) in [
            ("t FROM x.csv CSV HEADER", "COPY t FROM 'x.csv' CSV HEADER"),
            ("t (a, b) from 'a b.csv' with (format csv)", "COPY t (a, b) from 'a b.csv' with (format csv)"),
            ("(SELECT 1 FROM t) To /tmp/it's", "COPY (SELECT 1 FROM t) To '/tmp/it''s' "),
            ("(SELECT ' to ' AS \"from\")to stdout", "COPY (SELECT ' to ' AS \"from\")to STDOUT "),
            ("\"from to\" from pstdin csv", "COPY \"from to\" from STDIN csv"),
        ] {
            assert_eq!(copy_of(rest).as_deref(), Ok(statement));
        }
        for rest in ["", "t", "t to", "t to program 'ls'", "(select 1 from t)"] {
            assert!(copy_of(rest).is_err(), "{rest}");
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
