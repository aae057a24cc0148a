//! Text to syntax, within limits, by the parser that analytics uses.

use sqlparser::ast::{Expr, Ident, ObjectName, SqlOption, Statement, Value};
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Location, Token, TokenWithSpan, Tokenizer};
use thermocline_types::{Class, Error, Result};

use super::dialect::SqlDialect;

/// The longest text of a statement.
pub const STATEMENT_BYTES_MAX: usize = 16 << 20;

/// How many operators may follow each other, counted over all open parentheses. A chain of operators
/// is a tree as deep as it is long, and trees are walked by recursion.
const OPERATORS_MAX: u32 = 400;

/// A statement as it is written.
#[derive(Debug, Clone)]
pub enum Parsed {
    /// What the parser knows; a table's options behind `PARTITION BY` beside it.
    Statement(Box<Statement>, Vec<SqlOption>),
    /// `CREATE PROCEDURE`.
    CreateProcedure(Box<CreateProcedure>),
    /// `DROP PROCEDURE`.
    DropProcedure {
        /// Its name.
        name: ObjectName,
        /// Whether it need not exist.
        if_exists: bool,
    },
    /// `CALL name(arguments)`.
    Call {
        /// The procedure.
        name: ObjectName,
        /// Arguments.
        arguments: Vec<Expr>,
    },
    /// `EXPLAIN` of a statement.
    Explain(Box<Self>),
}

/// `CREATE PROCEDURE` as it is written.
#[derive(Debug, Clone)]
pub struct CreateProcedure {
    /// Whether one with this name is replaced.
    pub or_replace: bool,
    /// Its name.
    pub name: ObjectName,
    /// Names and types of its arguments.
    pub arguments: Vec<(Ident, sqlparser::ast::DataType)>,
    /// The arguments in `PARTITION ON`; none without it.
    pub partition_on: Vec<Ident>,
    /// `WITH (...)`.
    pub options: Vec<SqlOption>,
    /// The word behind `LANGUAGE`.
    pub language: Ident,
    /// The text between the quotes.
    pub body: String,
}

/// One statement; a semicolon may follow it.
pub fn parse(sql: &str) -> Result<Parsed> {
    let tokens = tokenize(sql)?;
    limit_depth(&tokens)?;
    let dialect = SqlDialect::of(sql.len());
    let mut parser = Parser::new(&dialect).with_tokens_with_locations(tokens);
    let parsed = statement(&mut parser).map_err(syntax)?;
    while parser.consume_token(&Token::SemiColon) {}
    match &parser.peek_token_ref().token {
        Token::EOF => Ok(parsed),
        other => Err(Class::Syntax.error(format_args!("one statement ends and \"{other}\" follows"))),
    }
}

/// One expression, such as a default.
pub fn parse_expression(sql: &str) -> Result<Expr> {
    let tokens = tokenize(sql)?;
    limit_depth(&tokens)?;
    let dialect = SqlDialect::of(sql.len());
    let mut parser = Parser::new(&dialect).with_tokens_with_locations(tokens);
    let parsed = parser.parse_expr().map_err(syntax)?;
    match &parser.peek_token_ref().token {
        Token::EOF => Ok(parsed),
        other => Err(Class::Syntax.error(format_args!("an expression ends and \"{other}\" follows"))),
    }
}

/// The statements of a text, without the semicolons between them. Semicolons in strings, comments and
/// bodies of procedures do not count.
pub fn split(sql: &str) -> Result<Vec<&str>> {
    let mut statements = Vec::new();
    let (mut place, mut offset) = (Location::new(1, 1), 0);
    let mut start = None;
    for token in tokenize(sql)? {
        if matches!(token.token, Token::Whitespace(_)) {
            continue;
        }
        offset = advance(sql, offset, &mut place, token.span.start);
        match (&token.token, start) {
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

/// The offset of a later place in the text.
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

fn tokenize(sql: &str) -> Result<Vec<TokenWithSpan>> {
    if sql.len() > STATEMENT_BYTES_MAX {
        return Err(Class::LimitExceeded.error(format_args!("a statement longer than {STATEMENT_BYTES_MAX} bytes")));
    }
    Tokenizer::new(&SqlDialect::of(0), sql).tokenize_with_location().map_err(|error| Class::Syntax.error(error))
}

fn limit_depth(tokens: &[TokenWithSpan]) -> Result<()> {
    // Operators since the last comma, for each open parenthesis.
    let mut open: Vec<u32> = vec![0];
    let mut depth = 0;
    for token in tokens {
        match &token.token {
            Token::LParen => open.push(0),
            Token::RParen => depth -= if open.len() > 1 { open.pop().unwrap_or(0) } else { 0 },
            Token::Comma => depth -= open.last_mut().map(std::mem::take).unwrap_or(0),
            Token::SemiColon => (open, depth) = (vec![0], 0),
            token if is_operator(token) => {
                depth += 1;
                if let Some(last) = open.last_mut() {
                    *last += 1;
                }
                if depth > OPERATORS_MAX {
                    return Err(Class::LimitExceeded
                        .error(format_args!("an expression with more than {OPERATORS_MAX} operators in a row")));
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// Whether the parser may make a deeper tree of it. To count too many does no harm.
fn is_operator(token: &Token) -> bool {
    match token {
        Token::Word(word) => matches!(
            word.keyword,
            Keyword::AND
                | Keyword::OR
                | Keyword::NOT
                | Keyword::IS
                | Keyword::IN
                | Keyword::LIKE
                | Keyword::ILIKE
                | Keyword::SIMILAR
                | Keyword::BETWEEN
                | Keyword::COLLATE
                | Keyword::AT
                | Keyword::XOR
                | Keyword::DIV
                | Keyword::OVERLAPS
                | Keyword::OPERATOR
                | Keyword::REGEXP
                | Keyword::RLIKE
                | Keyword::MEMBER
                | Keyword::UNION
                | Keyword::EXCEPT
                | Keyword::INTERSECT
                | Keyword::JOIN
                | Keyword::CASE
                | Keyword::NOTNULL
                | Keyword::EXPLAIN
                | Keyword::SELECT
        ),
        Token::Number(..)
        | Token::SingleQuotedString(_)
        | Token::DollarQuotedString(_)
        | Token::Placeholder(_)
        | Token::Whitespace(_)
        | Token::Period
        | Token::EOF => false,
        _ => true,
    }
}

fn syntax(error: ParserError) -> Error {
    match error {
        ParserError::RecursionLimitExceeded => Class::LimitExceeded.error("the statement is nested too deeply"),
        ParserError::ParserError(message) | ParserError::TokenizerError(message) => Class::Syntax.error(message),
    }
}

fn statement(parser: &mut Parser<'_>) -> Result<Parsed, ParserError> {
    if parser.parse_keyword(Keyword::EXPLAIN) {
        return Ok(Parsed::Explain(Box::new(plain_statement(parser)?)));
    }
    plain_statement(parser)
}

fn plain_statement(parser: &mut Parser<'_>) -> Result<Parsed, ParserError> {
    if parser.parse_keywords(&[Keyword::CREATE, Keyword::PROCEDURE]) {
        return create_procedure(parser, false);
    }
    if parser.parse_keywords(&[Keyword::CREATE, Keyword::OR, Keyword::REPLACE, Keyword::PROCEDURE]) {
        return create_procedure(parser, true);
    }
    if parser.parse_keywords(&[Keyword::DROP, Keyword::PROCEDURE]) {
        let if_exists = parser.parse_keywords(&[Keyword::IF, Keyword::EXISTS]);
        return Ok(Parsed::DropProcedure { name: parser.parse_object_name(false)?, if_exists });
    }
    if parser.parse_keyword(Keyword::CALL) {
        return call(parser);
    }
    let statement = parser.parse_statement()?;
    // The parser takes WITH before PARTITION BY; behind it is the place where it is looked for.
    let options = match &statement {
        Statement::CreateTable(_) => parser.parse_options(Keyword::WITH)?,
        _ => Vec::new(),
    };
    Ok(Parsed::Statement(Box::new(statement), options))
}

fn call(parser: &mut Parser<'_>) -> Result<Parsed, ParserError> {
    let name = parser.parse_object_name(false)?;
    let mut arguments = Vec::new();
    if parser.consume_token(&Token::LParen) && !parser.consume_token(&Token::RParen) {
        arguments = parser.parse_comma_separated(Parser::parse_expr)?;
        parser.expect_token(&Token::RParen)?;
    }
    Ok(Parsed::Call { name, arguments })
}

fn create_procedure(parser: &mut Parser<'_>, or_replace: bool) -> Result<Parsed, ParserError> {
    let name = parser.parse_object_name(false)?;
    let mut arguments = Vec::new();
    parser.expect_token(&Token::LParen)?;
    if !parser.consume_token(&Token::RParen) {
        arguments =
            parser.parse_comma_separated(|parser| Ok((parser.parse_identifier()?, parser.parse_data_type()?)))?;
        parser.expect_token(&Token::RParen)?;
    }
    let mut partition_on = Vec::new();
    if parser.parse_keywords(&[Keyword::PARTITION, Keyword::ON]) {
        parser.expect_token(&Token::LParen)?;
        partition_on = parser.parse_comma_separated(Parser::parse_identifier)?;
        parser.expect_token(&Token::RParen)?;
    }
    let options = parser.parse_options(Keyword::WITH)?;
    parser.expect_keyword_is(Keyword::LANGUAGE)?;
    let language = parser.parse_identifier()?;
    parser.expect_keyword_is(Keyword::AS)?;
    let body = match parser.parse_value()?.value {
        Value::DollarQuotedString(quoted) => quoted.value,
        Value::SingleQuotedString(quoted) => quoted,
        other => return Err(ParserError::ParserError(format!("the body of a procedure is a string, not {other}"))),
    };
    Ok(Parsed::CreateProcedure(Box::new(CreateProcedure {
        or_replace,
        name,
        arguments,
        partition_on,
        options,
        language,
        body,
    })))
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
    fn what_is_no_statement() {
        for text in
            ["", "SELEC 1", "SELECT 'abc", "SELECT 1; SELECT 2", "CREATE PROCEDURE p LANGUAGE lua AS $$$$", "SELECT (1"]
        {
            assert_eq!(parse(text).unwrap_err().sqlstate(), "42601", "{text}");
        }
    }

    #[test]
    fn procedures() {
        let text = "CREATE OR REPLACE PROCEDURE pay(w INTEGER, w2 INTEGER, amount DECIMAL(6,2)) PARTITION ON (w, w2) \
                    WITH (version = 3) LANGUAGE lua AS $body$ return $1 $body$;";
        let Parsed::CreateProcedure(procedure) = parse(text).unwrap() else { panic!() };
        assert!(procedure.or_replace);
        assert_eq!(procedure.arguments.len(), 3);
        assert_eq!(procedure.partition_on, [Ident::new("w"), Ident::new("w2")]);
        assert_eq!(procedure.options.len(), 1);
        assert_eq!(procedure.body, " return $1 ");
        assert!(matches!(parse("CALL pay(1, $2)").unwrap(), Parsed::Call { arguments, .. } if arguments.len() == 2));
        assert!(matches!(parse("EXPLAIN SELECT 1").unwrap(), Parsed::Explain(_)));
    }
}
