//! Forms of COPY: PostgreSQL's or DataFusion's, with files or with the caller's streams.

use datafusion::sql::sqlparser::ast::{CopyTarget, Statement as Ast};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::Token;
use thermocline_syntax::Tokens;

use super::statement::Statement;

/// Whether a text that begins with COPY has PostgreSQL's form, rather than DataFusion's:
///
/// ```text
/// COPY t FROM ...                              PostgreSQL's
/// COPY t TO STDOUT ...                         PostgreSQL's
/// COPY t TO 'file' WITH ... | (...) | CSV ...  PostgreSQL's
/// COPY t TO 'file' [STORED AS ...]             DataFusion's, which goes by the end of the file's name
/// ```
pub fn is_postgresql_copy(tokens: &Tokens) -> bool {
    let mut depth = 0_u32;
    let mut outer = tokens.iter().filter(|token| match token {
        Token::EOF => false,
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

impl Statement {
    /// Whether it reads rows from standard input, which the caller has to provide.
    pub fn reads_input(&self) -> bool {
        self.copy().is_some_and(|(to, target)| !to && matches!(target, CopyTarget::Stdin))
    }

    /// Whether it writes rows to standard output, which the caller has to provide.
    pub fn writes_output(&self) -> bool {
        self.copy().is_some_and(|(to, target)| to && matches!(target, CopyTarget::Stdout))
    }

    fn copy(&self) -> Option<(bool, &CopyTarget)> {
        match self.ast()? {
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
            assert!(is_postgresql_copy(&Tokens::of(text).unwrap()), "{text}");
            assert!(Statement::parse(text).unwrap()[0].ast().is_some(), "{text}");
        }
        for text in [
            "COPY t TO 'file.csv'",
            "COPY (SELECT a FROM t) TO 'file' STORED AS CSV OPTIONS ('format.has_header' 'true')",
            "COPY (SELECT 1) TO 'file' PARTITIONED BY (a)",
        ] {
            assert!(!is_postgresql_copy(&Tokens::of(text).unwrap()), "{text}");
            assert!(Statement::parse(text).unwrap()[0].ast().is_none(), "{text}");
        }
    }
}
