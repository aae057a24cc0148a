//! Splitting of a text into statements.

use sqlparser::parser::ParserError;
use sqlparser::tokenizer::{Location, Token};

use crate::Tokens;

/// Returns the statements of a text, without the semicolons between them. Semicolons in strings, comments and bodies of
/// procedures do not separate statements.
///
/// # Errors
/// Unterminated quotes and comments.
pub fn split(sql: &str) -> Result<Vec<&str>, ParserError> {
    let mut statements = Vec::new();
    let (mut place, mut offset) = (Location::new(1, 1), 0);
    let mut start = None;
    for (token, at) in Tokens::of(sql)?.places() {
        offset = advance(sql, offset, &mut place, at);
        match (token, start) {
            (Token::SemiColon, Some(from)) => {
                statements.extend(sql.get(from..offset));
                start = None;
            }
            (Token::SemiColon, None) => {}
            (_, None) => start = Some(offset),
            (_, Some(_)) => {}
        }
    }
    statements.extend(start.and_then(|from| sql.get(from..)).map(str::trim_end));
    Ok(statements)
}

/// The byte offset of a location in a text.
pub fn offset_of(sql: &str, at: Location) -> usize {
    advance(sql, 0, &mut Location::new(1, 1), at)
}

/// Returns the byte offset of a later location.
fn advance(sql: &str, offset: usize, place: &mut Location, to: Location) -> usize {
    let mut offset = offset;
    for next in sql.get(offset..).unwrap_or_default().chars() {
        if (place.line, place.column) >= (to.line, to.column) {
            break;
        }
        offset += next.len_utf8();
        *place =
            if next == '\n' { Location::new(place.line + 1, 1) } else { Location::new(place.line, place.column + 1) };
    }
    offset
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_are_split_at_semicolons_that_count() {
        let text = "CREATE PROCEDURE p() LANGUAGE lua AS $$ a; b $$;\n\n-- none; here\nSELECT 'ä;' ; ;SELECT \"x;\" FROM t -- end\n";
        let parts = split(text).unwrap();
        assert_eq!(parts.len(), 3, "{parts:?}");
        assert_eq!(parts[0], "CREATE PROCEDURE p() LANGUAGE lua AS $$ a; b $$");
        assert_eq!(parts[1].trim(), "SELECT 'ä;'");
        assert!(parts[2].starts_with("SELECT \"x;\" FROM t"));
        assert!(split("").unwrap().is_empty());
    }
}
