//! Upper bound on the depth of syntax trees, computed from tokens before parsing.

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// Depth of the deepest statement of a text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Depth {
    /// Operators in a row, plus open parentheses and CASEs.
    pub operators: u32,
    /// Occurrences of the word EXPLAIN in one statement.
    pub explains: u32,
}

impl Depth {
    pub fn of(tokens: &[TokenWithSpan]) -> Self {
        let mut deepest = Self::default();
        // Operators since the last separator, for each open level.
        let mut open: Vec<u32> = vec![0];
        let (mut depth, mut explains) = (0, 0);
        for TokenWithSpan { token, .. } in tokens {
            match token {
                Token::Word(word) if word.keyword == Keyword::EXPLAIN => explains += 1,
                Token::SemiColon => explains = 0,
                _ => {}
            }
            let step = step(token);
            if matches!(step, Step::Operator | Step::Subscript) {
                depth += 1;
                if let Some(last) = open.last_mut() {
                    *last += 1;
                }
            }
            match step {
                // `INT[][]` is an array of arrays; `a[1][2]` is an element of an element.
                Step::Open | Step::Subscript => open.push(0),
                Step::Close => depth -= if open.len() > 1 { open.pop().unwrap_or(0) } else { 0 },
                Step::Next => depth -= open.last_mut().map(std::mem::take).unwrap_or(0),
                Step::Statement => (open, depth) = (vec![0], 0),
                Step::Operator | Step::Nothing => {}
            }
            deepest.operators = deepest.operators.max(depth + open.len() as u32 - 1);
            deepest.explains = deepest.explains.max(explains);
        }
        deepest
    }
}

/// Effect of a token on the depth of an expression.
enum Step {
    Open,
    /// An operator that encloses an expression.
    Subscript,
    Close,
    /// Separates expressions at the same level.
    Next,
    Statement,
    Operator,
    Nothing,
}

fn step(token: &Token) -> Step {
    match token {
        Token::LParen | Token::LBrace => Step::Open,
        Token::LBracket => Step::Subscript,
        Token::RParen | Token::RBracket | Token::RBrace => Step::Close,
        Token::Comma => Step::Next,
        Token::SemiColon => Step::Statement,
        Token::Word(word) => match word.keyword {
            Keyword::CASE => Step::Open,
            Keyword::END => Step::Close,
            Keyword::WHEN | Keyword::THEN | Keyword::ELSE => Step::Next,
            Keyword::AND
            | Keyword::OR
            | Keyword::XOR
            | Keyword::NOT
            | Keyword::IS
            | Keyword::IN
            | Keyword::LIKE
            | Keyword::ILIKE
            | Keyword::SIMILAR
            | Keyword::BETWEEN
            | Keyword::COLLATE
            | Keyword::AT
            | Keyword::DIV
            | Keyword::OPERATOR
            | Keyword::REGEXP
            | Keyword::RLIKE
            | Keyword::MEMBER
            | Keyword::OVERLAPS
            | Keyword::UNION
            | Keyword::EXCEPT
            | Keyword::INTERSECT
            | Keyword::MINUS
            | Keyword::NOTNULL
            | Keyword::JOIN => Step::Operator,
            _ => Step::Nothing,
        },
        Token::Whitespace(_)
        | Token::Number(..)
        | Token::Char(_)
        | Token::SingleQuotedString(_)
        | Token::DoubleQuotedString(_)
        | Token::DollarQuotedString(_)
        | Token::NationalStringLiteral(_)
        | Token::EscapedStringLiteral(_)
        | Token::HexStringLiteral(_)
        | Token::Placeholder(_)
        | Token::EOF => Step::Nothing,
        // Some of these are not operators; overcounting is harmless.
        _ => Step::Operator,
    }
}

#[cfg(test)]
mod tests {
    use crate::Tokens;

    #[test]
    fn chains_are_deep_and_lists_are_not() {
        let depth = |sql: &str| Tokens::of(sql).unwrap().operators();
        let deep = ["[]", "[1]", "+1", " AND k = 1", " OR k IS NULL", "::BIGINT", "||'x'", " UNION ALL SELECT 1"];
        for part in deep {
            let chain = |terms: usize| format!("SELECT 1 {}", part.repeat(terms));
            assert!((1000..=2001).contains(&depth(&chain(1000))), "{part}");
            assert!(depth(&chain(4001)) > 4000, "{part}");
        }
        for part in ["(1+1+1+1+", "((((", "CASE WHEN CASE WHEN CASE WHEN CASE WHEN "] {
            assert!(depth(&format!("SELECT {}", part.repeat(1001))) > 4000, "{part}");
        }
        let shallow = [
            format!("SELECT CASE {} END", "WHEN k = 1 THEN k + 1 ".repeat(20_000)),
            format!("SELECT 1 IN ({}1)", "1+1, ".repeat(20_000)),
            format!("VALUES {}(1)", "(1+1, -1), ".repeat(20_000)),
            "SELECT 1+1;".repeat(20_000),
        ];
        for sql in shallow {
            assert!(depth(&sql) < 10, "{}", &sql[..40]);
        }
    }

    #[test]
    fn explains_of_one_statement_are_counted() {
        assert_eq!(Tokens::of(&"EXPLAIN SELECT 1;".repeat(1000)).unwrap().explains(), 1);
        assert_eq!(Tokens::of(&"EXPLAIN ".repeat(101)).unwrap().explains(), 101);
    }
}
