//! Tab completion in the shell.

use rustyline::completion::Completer;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::validate::Validator;
use rustyline::{Context, Helper};
use thermocline_database::{Session, SettingRow};

/// Keywords that people type. The parser knows many more, which would crowd them out.
const KEYWORDS: &[&str] = &[
    "ADD",
    "ALL",
    "ALTER",
    "ANALYZE",
    "AND",
    "AS",
    "ASC",
    "AVG",
    "BEGIN",
    "BETWEEN",
    "BIGINT",
    "BOOLEAN",
    "BY",
    "CALL",
    "CASE",
    "CAST",
    "COALESCE",
    "COLUMN",
    "COMMIT",
    "CONFLICT",
    "COPY",
    "COUNT",
    "CREATE",
    "CROSS",
    "CSV",
    "DATE",
    "DECIMAL",
    "DEFAULT",
    "DELETE",
    "DESC",
    "DESCRIBE",
    "DISTINCT",
    "DOUBLE",
    "DROP",
    "ELSE",
    "END",
    "EXCEPT",
    "EXISTS",
    "EXPLAIN",
    "EXTERNAL",
    "EXTRACT",
    "FALSE",
    "FILTER",
    "FIRST",
    "FROM",
    "FULL",
    "GROUP",
    "GROUPING",
    "HAVING",
    "IF",
    "ILIKE",
    "IN",
    "INDEX",
    "INNER",
    "INSERT",
    "INT",
    "INTERSECT",
    "INTERVAL",
    "INTO",
    "IS",
    "JOIN",
    "KEY",
    "LANGUAGE",
    "LAST",
    "LEFT",
    "LIKE",
    "LIMIT",
    "LOCATION",
    "MAX",
    "MIN",
    "NOT",
    "NULL",
    "NULLS",
    "OFFSET",
    "ON",
    "OPTIONS",
    "OR",
    "ORDER",
    "OUTER",
    "OVER",
    "PARQUET",
    "PARTITION",
    "PRIMARY",
    "PROCEDURE",
    "REPLACE",
    "RETURNING",
    "RIGHT",
    "ROLLBACK",
    "ROLLUP",
    "SELECT",
    "SET",
    "SHOW",
    "STORED",
    "SUBSTRING",
    "SUM",
    "TABLE",
    "TABLES",
    "THEN",
    "TIMESTAMP",
    "TO",
    "TRUE",
    "UNION",
    "UNIQUE",
    "UPDATE",
    "USING",
    "VALUES",
    "VARCHAR",
    "VERBOSE",
    "VIEW",
    "WHEN",
    "WHERE",
    "WITH",
];

/// Tables of the schema `system`.
const SYSTEM_TABLES: &[&str] = &[
    "system.blocks",
    "system.calibration",
    "system.evicted",
    "system.executors",
    "system.indexes",
    "system.memory",
    "system.partitions",
    "system.queries",
    "system.segments",
    "system.settings",
    "system.snapshots",
    "system.storage_nodes",
    "system.tables",
    "system.transactions",
    "system.unread_objects",
];

const COMMANDS: &[&str] = &[
    ".databases",
    ".exit",
    ".help",
    ".maxrows",
    ".indexes",
    ".mode",
    ".output",
    ".quit",
    ".read",
    ".schema",
    ".tables",
    ".timer",
    "\\?",
    "\\copy",
    "\\d",
    "\\df",
    "\\di",
    "\\dn",
    "\\dt",
    "\\du",
    "\\dv",
    "\\e",
    "\\echo",
    "\\i",
    "\\ir",
    "\\l",
    "\\o",
    "\\q",
    "\\set",
    "\\timing",
    "\\unset",
    "\\watch",
    "\\x",
];

/// Completes known words; does nothing else to the line.
#[derive(Debug, Default)]
pub struct Words {
    /// Tables, columns and settings, sorted, without duplicates.
    names: Vec<String>,
}

impl Words {
    /// Updates the tables, columns and settings.
    pub fn refresh(&mut self, session: &Session) {
        self.names.clear();
        self.names.extend(SYSTEM_TABLES.iter().map(|&name| name.to_owned()));
        self.names.extend(SettingRow::all(&session.values()).iter().map(|row| row.plain().to_owned()));
        for table in session.engine().tables() {
            self.names.push(table.definition.name.clone());
            self.names.extend(table.schema().fields().iter().map(|field| field.name().clone()));
        }
        let rows = session.row_schema();
        for table in rows.tables() {
            self.names.push(table.name.to_string());
            self.names.extend(table.listed_columns().map(|(_, column)| column.name.to_string()));
            self.names.extend(table.listed_indexes().map(|index| index.name.to_string()));
        }
        self.names.extend(rows.procedures().map(|procedure| procedure.name.to_string()));
        self.names.sort();
        self.names.dedup();
    }

    /// Start of the word before the cursor, and its completions.
    fn candidates(&self, line: &str) -> (usize, Vec<String>) {
        let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '\\' | '?');
        let start = line.char_indices().rev().take_while(|(_, c)| is_part(*c)).last().map_or(line.len(), |(at, _)| at);
        let word = line.get(start..).unwrap_or_default();
        if word.is_empty() {
            return (start, vec![]);
        }
        if word.starts_with(['\\', '.']) {
            let commands = COMMANDS.iter().filter(|command| start == 0 && command.starts_with(word));
            return (start, commands.map(|&command| command.to_owned()).collect());
        }
        let mut found: Vec<String> =
            self.names.iter().filter(|name| starts_with_ignoring_case(name, word)).cloned().collect();
        // In the case of the typed letters: `sel` becomes `select`, `SEL` becomes `SELECT`.
        let lower = word.chars().any(char::is_lowercase);
        let keywords = KEYWORDS.iter().filter(|keyword| starts_with_ignoring_case(keyword, word));
        found.extend(keywords.map(|keyword| if lower { keyword.to_lowercase() } else { (*keyword).to_owned() }));
        // A column after an alias: `alias.col`.
        if let Some((alias, column)) = word.rsplit_once('.').filter(|_| found.is_empty()) {
            let names = self.names.iter().filter(|name| !name.contains('.') && starts_with_ignoring_case(name, column));
            found.extend(names.map(|name| format!("{alias}.{name}")));
        }
        (start, found)
    }
}

fn starts_with_ignoring_case(name: &str, start: &str) -> bool {
    name.get(..start.len()).is_some_and(|head| head.eq_ignore_ascii_case(start))
}

impl Completer for Words {
    type Candidate = String;

    fn complete(&self, line: &str, pos: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<String>)> {
        Ok(self.candidates(line.get(..pos).unwrap_or_default()))
    }
}

impl Hinter for Words {
    type Hint = String;
}

impl Highlighter for Words {}

/// Statements of several lines are read line by line, each with its prompt, so every line is valid.
impl Validator for Words {}

impl Helper for Words {}

#[cfg(test)]
mod tests {
    use thermocline_database::Database;

    use super::*;

    async fn words() -> Words {
        let mut words = Words::default();
        words.refresh(&Database::in_memory().await.unwrap().session());
        words.names.extend(["lineorder".to_owned(), "lo_orderdate".to_owned()]);
        words
    }

    #[tokio::test]
    async fn words_become_names_and_keywords() {
        let words = words().await;
        assert_eq!(words.candidates("sel"), (0, vec!["select".to_owned()]));
        assert_eq!(words.candidates("SELECT * FROM LINE"), (14, vec!["lineorder".to_owned()]));
        assert_eq!(words.candidates("set thermocline.mo"), (4, vec!["thermocline.mode".to_owned()]));
        assert_eq!(words.candidates("select l.lo_"), (7, vec!["l.lo_orderdate".to_owned()]));
        assert_eq!(words.candidates("\\ti"), (0, vec!["\\timing".to_owned()]));
        assert_eq!(words.candidates("select 'größe "), (16, vec![]));
    }

    #[tokio::test]
    async fn all_system_tables_are_completed() {
        let session = Database::in_memory().await.unwrap().session();
        let names = "SELECT 'system.' || table_name FROM information_schema.tables WHERE table_schema = 'system' \
                     ORDER BY 1";
        let found = session.run(names).await.unwrap().batches;
        let found: Vec<String> = found
            .iter()
            .flat_map(|batch| {
                let names = arrow::compute::cast(batch.column(0), &arrow::datatypes::DataType::Utf8).unwrap();
                let names = arrow::array::AsArray::as_string::<i32>(&names).clone();
                names.iter().flatten().map(str::to_owned).collect::<Vec<_>>()
            })
            .collect();
        assert_eq!(found, SYSTEM_TABLES);
    }

    #[test]
    fn keywords_are_sorted() {
        assert!(KEYWORDS.is_sorted());
    }
}
