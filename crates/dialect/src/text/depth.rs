//! A limit on how deep an expression or a type may be, before anything recurses over it.

use super::sql_dialect::SqlDialect;
use datafusion::common::Result;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};
use thermocline_pushdown::user_err;

/// Operators that may follow each other, counted over all open parentheses and CASEs. A chain of operators
/// is a tree as deep as it is long, and trees are cloned, planned and dropped by recursion: 8 MiB of stack
/// end between 5000 and 8000.
const OPERATORS_MAX: u32 = 4000;

/// How often the word EXPLAIN may stand in a statement.
const EXPLAINS_MAX: u32 = 100;

/// Checks that no expression in `sql` is too deep to be worked on. Text that has no tokens passes: the
/// parser says what is wrong with it.
///
/// # Errors
/// If more than 4000 operators follow each other.
pub fn check_depth(sql: &str) -> Result<()> {
    let Ok(tokens) = Tokenizer::new(&SqlDialect::of(0), sql).tokenize() else {
        return Ok(());
    };
    // Operators since the last separator, at each level that is open.
    let mut open: Vec<u32> = vec![0];
    let mut depth = 0;
    let mut explains = 0;
    for token in &tokens {
        // DataFusion's parser calls itself for each.
        match token {
            Token::Word(word) if word.keyword == Keyword::EXPLAIN => explains += 1,
            Token::SemiColon => explains = 0,
            _ => {}
        }
        if explains > EXPLAINS_MAX {
            return user_err!(TooDeep, "a statement with more than {EXPLAINS_MAX} times EXPLAIN");
        }
        match step(token) {
            Step::Open => open.push(0),
            // Of types, `INT[][]` is an array of arrays, and of values, `a[1][2]` an element of an element.
            Step::Subscript => {
                count_operator(&mut open, &mut depth)?;
                open.push(0);
            }
            Step::Close => depth -= if open.len() > 1 { open.pop().unwrap_or(0) } else { 0 },
            Step::Next => depth -= open.last_mut().map(std::mem::take).unwrap_or(0),
            Step::Statement => (open, depth) = (vec![0], 0),
            Step::Operator => count_operator(&mut open, &mut depth)?,
            Step::Nothing => {}
        }
    }
    Ok(())
}

fn count_operator(open: &mut [u32], depth: &mut u32) -> Result<()> {
    *depth += 1;
    if let Some(last) = open.last_mut() {
        *last += 1;
    }
    match *depth > OPERATORS_MAX {
        true => user_err!(TooDeep, "an expression or a type with more than {OPERATORS_MAX} operators in a row"),
        false => Ok(()),
    }
}

/// Part of a token in the depth of an expression.
enum Step {
    Open,
    /// An operator, with an expression in it.
    Subscript,
    Close,
    /// The next of several expressions at the same level.
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
        // Some of the rest are no operators; to count too many does no harm.
        _ => Step::Operator,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chains_are_bounded_and_lists_are_not() {
        let deep = ["[]", "[1]", "+1", " AND k = 1", " OR k IS NULL", "::BIGINT", "||'x'", " UNION ALL SELECT 1"];
        for part in deep {
            let chain = |terms: usize| format!("SELECT 1 {}", part.repeat(terms));
            check_depth(&chain(1000)).unwrap_or_else(|error| panic!("{part}: {error}"));
            assert!(check_depth(&chain(4001)).is_err(), "{part}");
        }
        let nested = format!("SELECT {}", "(1+1+1+1+".repeat(1001));
        assert!(check_depth(&nested).is_err());
        let case = format!("SELECT CASE {} END", "WHEN k = 1 THEN k + 1 ".repeat(20_000));
        assert!(check_depth(&case).is_ok());
        let list = format!("SELECT 1 IN ({}1)", "1+1, ".repeat(20_000));
        assert!(check_depth(&list).is_ok());
        let values = format!("VALUES {}(1)", "(1+1, -1), ".repeat(20_000));
        assert!(check_depth(&values).is_ok());
        assert!(check_depth(&"SELECT 1+1;".repeat(20_000)).is_ok());
        assert!(check_depth("SELECT 'a").is_ok());
        assert!(check_depth(&"EXPLAIN SELECT 1;".repeat(1000)).is_ok());
        assert!(check_depth(&"EXPLAIN ".repeat(101)).is_err());
    }
}
