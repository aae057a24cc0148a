use datafusion::common::Result;
use datafusion::sql::parser::Statement as Parsed;
use datafusion::sql::sqlparser::ast::{CopyTarget, Statement as Ast};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};
use thermocline_dialect::{SqlDialect, check_depth};
use thermocline_pushdown::user_err;

use super::statement::Statement;

/// Whether a text is COPY in PostgreSQL's form, rather than in DataFusion's:
///
/// ```text
/// COPY t FROM ...                              PostgreSQL's
/// COPY t TO STDOUT ...                         PostgreSQL's
/// COPY t TO 'file' WITH ... | (...) | CSV ...  PostgreSQL's
/// COPY t TO 'file' [STORED AS ...]             DataFusion's, which goes by the end of the file's name
/// ```
pub fn is_postgresql_copy(text: &str) -> bool {
    let first = text.split(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or_default();
    if !first.eq_ignore_ascii_case("copy") {
        return false;
    }
    let tokens = Tokenizer::new(&SqlDialect::of(0), text).tokenize().unwrap_or_default();
    let mut depth = 0_u32;
    let mut outer = tokens.iter().filter(|token| match token {
        Token::Whitespace(_) => false,
        Token::LParen => {
            depth += 1;
            depth == 1
        }
        Token::RParen => {
            depth = depth.saturating_sub(1);
            false
        }
        _ => depth == 0,
    });
    let keyword = |token: &Token| match token {
        Token::Word(word) if word.quote_style.is_none() => word.keyword,
        _ => Keyword::NoKeyword,
    };
    match outer.by_ref().map(keyword).find(|keyword| matches!(keyword, Keyword::FROM | Keyword::TO)) {
        Some(Keyword::FROM) => true,
        Some(_) => match (outer.next(), outer.next()) {
            (Some(Token::Word(_)), _) | (Some(_), Some(Token::LParen)) => true,
            (Some(_), Some(option)) => {
                let option = keyword(option);
                matches!(option, Keyword::WITH | Keyword::CSV | Keyword::HEADER | Keyword::DELIMITER | Keyword::NULL)
            }
            _ => false,
        },
        None => false,
    }
}

/// COPY in PostgreSQL's form.
///
/// # Errors
/// If it does not parse.
pub fn parse_copy(text: &str) -> Result<Parsed> {
    check_depth(text)?;
    let dialect = SqlDialect::of(text.len());
    let mut parser = Parser::new(&dialect).try_with_sql(text)?;
    let copy = parser.parse_statement()?;
    match &parser.peek_token_ref().token {
        Token::EOF => Ok(Parsed::Statement(Box::new(copy))),
        other => user_err!(Syntax, "COPY ends, and {other} follows"),
    }
}

impl Statement {
    /// Whether it reads rows from standard input, so that whoever runs it has to give them.
    pub fn reads_input(&self) -> bool {
        self.copy().is_some_and(|(to, target)| !to && matches!(target, CopyTarget::Stdin))
    }

    /// Whether it writes rows to standard output, so that whoever runs it has to take them.
    pub fn writes_output(&self) -> bool {
        self.copy().is_some_and(|(to, target)| to && matches!(target, CopyTarget::Stdout))
    }

    fn copy(&self) -> Option<(bool, &CopyTarget)> {
        let Some(Parsed::Statement(ast)) = &self.parsed else { return None };
        match ast.as_ref() {
            Ast::Copy { to, target, .. } => Some((*to, target)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_told_from_datafusions() {
        for text in [
            "COPY t FROM 'file'",
            "copy t (a, b) from stdin with (format csv)",
            "COPY t TO STDOUT",
            "COPY (SELECT a FROM t) TO stdout",
            "COPY t TO 'file' WITH (FORMAT csv)",
            "COPY t TO 'file' (FORMAT csv)",
            "COPY t TO 'file' CSV HEADER",
            "COPY t TO 'file' WITH CSV",
        ] {
            assert!(is_postgresql_copy(text), "{text}");
            assert!(parse_copy(text).is_ok(), "{text}");
        }
        for text in [
            "COPY t TO 'file.csv'",
            "COPY (SELECT a FROM t) TO 'file' STORED AS CSV OPTIONS ('format.has_header' 'true')",
            "COPY (SELECT 1) TO 'file' PARTITIONED BY (a)",
            "COPYING",
            "SELECT 1",
        ] {
            assert!(!is_postgresql_copy(text), "{text}");
        }
    }
}
