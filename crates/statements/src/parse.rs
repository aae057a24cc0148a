//! Parsing within the limits of the row engine.

use sqlparser::ast::Expr;
use thermocline_syntax::{ParserError, Statement, Tokens};
use thermocline_types::{Class, Error, Result};

/// Limit on the text of a statement, in bytes.
pub const STATEMENT_BYTES_MAX: usize = 16 << 20;

/// Limit on operators in a row, summed over open parentheses. The tree of a chain is as deep as the chain is long, and
/// it is bound and evaluated by recursion on stacks of 2 MiB.
const OPERATORS_MAX: u32 = 400;

/// Parses one statement; semicolons may follow it.
///
/// # Errors
/// Syntax errors, and 54000 for texts that are too long or too deep.
pub fn parse(sql: &str) -> Result<Statement> {
    thermocline_syntax::parse(tokens(sql)?).map_err(syntax)
}

/// Parses one expression, such as a default.
///
/// # Errors
/// As [`parse`].
pub fn parse_expression(sql: &str) -> Result<Expr> {
    thermocline_syntax::parse_expression(tokens(sql)?).map_err(syntax)
}

/// Returns the statements of a text, without the semicolons between them. Semicolons in strings, comments and bodies of
/// procedures do not separate statements.
///
/// # Errors
/// Unterminated quotes and comments, and 54000 for texts that are too long.
pub fn split(sql: &str) -> Result<Vec<&str>> {
    check_length(sql)?;
    thermocline_syntax::split(sql).map_err(syntax)
}

/// Checks the depth of a text's tree against the limit of this engine.
///
/// # Errors
/// 54000 if it is deeper.
pub fn check_depth(operators: u32) -> Result<()> {
    if operators > OPERATORS_MAX {
        let message = format!("an expression with more than {OPERATORS_MAX} operators in a row");
        return Err(Class::LimitExceeded.error(message));
    }
    Ok(())
}

/// Checks the length of a text against the limit of this engine.
///
/// # Errors
/// 54000 if it is longer.
pub fn check_length(sql: &str) -> Result<()> {
    if sql.len() > STATEMENT_BYTES_MAX {
        return Err(Class::LimitExceeded.error(format_args!("a statement longer than {STATEMENT_BYTES_MAX} bytes")));
    }
    Ok(())
}

fn tokens(sql: &str) -> Result<Tokens> {
    check_length(sql)?;
    let tokens = Tokens::of(sql).map_err(syntax)?;
    check_depth(tokens.operators())?;
    Ok(tokens)
}

fn syntax(error: ParserError) -> Error {
    match error {
        ParserError::RecursionLimitExceeded => Class::LimitExceeded.error("the statement is nested too deeply"),
        ParserError::ParserError(message) | ParserError::TokenizerError(message) => Class::Syntax.error(message),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deep_statements_are_refused_before_they_are_parsed() {
        let long = |count: usize, part: &str| format!("SELECT 1{}", part.repeat(count));
        for part in [" + 1", " AND 1", " IS NULL", "::bigint", " UNION SELECT 1", " || (1)", " + (1 + 1)"] {
            assert!(parse(&long(100, part)).is_ok(), "{part}");
            assert_eq!(parse(&long(100_000, part)).unwrap_err().sqlstate(), "54000", "{part}");
        }
        for part in ["(", "- ", "NOT ", "CASE WHEN "] {
            assert_eq!(parse(&format!("SELECT {}1", part.repeat(100_000))).unwrap_err().sqlstate(), "54000", "{part}");
        }
        let list = format!("SELECT {}1", "1 + 1, ".repeat(10_000));
        assert!(parse(&list).is_ok());
    }

    #[test]
    fn texts_that_are_no_statement() {
        for text in ["", "SELECT 'abc", "SELECT 1; SELECT 2"] {
            assert_eq!(parse(text).unwrap_err().sqlstate(), "42601", "{text}");
        }
    }
}
