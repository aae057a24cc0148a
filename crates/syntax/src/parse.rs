//! Parsing of tokens into trees.

use sqlparser::ast::{self, DataType, Expr, Value};
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::Token;

use crate::{CreateProcedure, Statement, Tokens, order_by_positions};

/// Parses one statement; semicolons may follow it.
///
/// # Errors
/// Syntax errors, with line and column.
pub fn parse(tokens: Tokens) -> Result<Statement, ParserError> {
    // Most statements need no walk through their trees, which may be of millions of values.
    let says_all = tokens.keywords().any(|keyword| keyword == Keyword::ALL);
    tokens.parsed(|parser| {
        let parsed = statement(parser, says_all)?;
        while parser.consume_token(&Token::SemiColon) {}
        ended(parser, parsed)
    })
}

/// Parses one expression, such as a default.
///
/// # Errors
/// As [`parse`].
pub fn parse_expression(tokens: Tokens) -> Result<Expr, ParserError> {
    tokens.parsed(|parser| {
        let parsed = parser.parse_expr()?;
        ended(parser, parsed)
    })
}

/// Parses one type.
///
/// # Errors
/// As [`parse`].
pub fn parse_type(tokens: Tokens) -> Result<DataType, ParserError> {
    tokens.parsed(|parser| {
        let parsed = parser.parse_data_type()?;
        ended(parser, parsed)
    })
}

/// Returns `parsed` if the parser has reached the end of the text.
fn ended<T>(parser: &Parser<'_>, parsed: T) -> Result<T, ParserError> {
    let next = parser.peek_token_ref();
    match &next.token {
        Token::EOF => Ok(parsed),
        other => {
            Err(ParserError::ParserError(format!("Expected: end of statement, found: {other}{}", next.span.start)))
        }
    }
}

fn statement(parser: &mut Parser<'_>, says_all: bool) -> Result<Statement, ParserError> {
    if parser.parse_keyword(Keyword::EXPLAIN) {
        return Ok(Statement::Explain(Box::new(plain_statement(parser, says_all)?)));
    }
    plain_statement(parser, says_all)
}

/// `says_all`: the text has the word ALL, as in `ORDER BY ALL`.
fn plain_statement(parser: &mut Parser<'_>, says_all: bool) -> Result<Statement, ParserError> {
    if parser.parse_keywords(&[Keyword::CREATE, Keyword::PROCEDURE]) {
        return create_procedure(parser, false);
    }
    if parser.parse_keywords(&[Keyword::CREATE, Keyword::OR, Keyword::REPLACE, Keyword::PROCEDURE]) {
        return create_procedure(parser, true);
    }
    if parser.parse_keywords(&[Keyword::DROP, Keyword::PROCEDURE]) {
        let if_exists = parser.parse_keywords(&[Keyword::IF, Keyword::EXISTS]);
        return Ok(Statement::DropProcedure { name: parser.parse_object_name(false)?, if_exists });
    }
    if parser.parse_keyword(Keyword::CALL) {
        return call(parser);
    }
    let mut statement = parser.parse_statement()?;
    if says_all {
        order_by_positions(&mut statement);
    }
    // The parser takes WITH before PARTITION BY only; this accepts it behind PARTITION BY.
    let options = match &statement {
        ast::Statement::CreateTable(_) => parser.parse_options(Keyword::WITH)?,
        _ => Vec::new(),
    };
    Ok(Statement::Sql(Box::new(statement), options))
}

fn call(parser: &mut Parser<'_>) -> Result<Statement, ParserError> {
    let name = parser.parse_object_name(false)?;
    let mut arguments = Vec::new();
    if parser.consume_token(&Token::LParen) && !parser.consume_token(&Token::RParen) {
        arguments = parser.parse_comma_separated(Parser::parse_expr)?;
        parser.expect_token(&Token::RParen)?;
    }
    Ok(Statement::Call { name, arguments })
}

fn create_procedure(parser: &mut Parser<'_>, or_replace: bool) -> Result<Statement, ParserError> {
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
    Ok(Statement::CreateProcedure(Box::new(CreateProcedure {
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

    use sqlparser::ast::Ident;

    fn parsed(text: &str) -> Result<Statement, ParserError> {
        parse(Tokens::of(text)?)
    }

    #[test]
    fn texts_that_are_no_statement() {
        for text in
            ["", "SELEC 1", "SELECT 'abc", "SELECT 1; SELECT 2", "CREATE PROCEDURE p LANGUAGE lua AS $$$$", "SELECT (1"]
        {
            assert!(parsed(text).is_err(), "{text}");
        }
    }

    #[test]
    fn order_by_all_is_by_the_columns_that_are_listed() {
        for (text, ordered) in [
            ("SELECT a, b AS c FROM t ORDER BY ALL DESC NULLS LAST", "ORDER BY 1 DESC NULLS LAST, 2 DESC NULLS LAST"),
            ("SELECT * FROM t UNION SELECT 2, 3 ORDER BY ALL", "ORDER BY 1, 2"),
            ("VALUES (1, 2), (3, 4) ORDER BY ALL", "ORDER BY 1, 2"),
            ("SELECT x FROM (SELECT a FROM t ORDER BY ALL) s", "ORDER BY 1) s"),
            ("(SELECT a FROM t) ORDER BY ALL", "ORDER BY 1"),
            ("SELECT *, 1 FROM t ORDER BY ALL", "ORDER BY ALL"),
        ] {
            let Statement::Sql(statement, _) = parsed(text).unwrap() else { panic!("{text}") };
            assert!(statement.to_string().ends_with(ordered), "{statement}");
        }
    }

    #[test]
    fn procedures() {
        let text = "CREATE OR REPLACE PROCEDURE pay(w INTEGER, w2 INTEGER, amount DECIMAL(6,2)) PARTITION ON (w, w2) \
                    WITH (version = 3) LANGUAGE lua AS $body$ return $1 $body$;";
        let Statement::CreateProcedure(procedure) = parsed(text).unwrap() else { panic!() };
        assert!(procedure.or_replace);
        assert_eq!(procedure.arguments.len(), 3);
        assert_eq!(procedure.partition_on, [Ident::new("w"), Ident::new("w2")]);
        assert_eq!(procedure.options.len(), 1);
        assert_eq!(procedure.body, " return $1 ");
        assert!(
            matches!(parsed("CALL pay(1, $2)").unwrap(), Statement::Call { arguments, .. } if arguments.len() == 2)
        );
        assert!(matches!(parsed("EXPLAIN SELECT 1").unwrap(), Statement::Explain(_)));
    }

    #[test]
    fn operators_of_postgresql_and_forms_of_others() {
        for (sql, expected) in [
            ("SELECT a<>-1, a>=-1, 2^3, 5 # 3, @ -1", "SELECT a <> -1, a >= -1, 2 ^ 3, 5 # 3, @-1"),
            (
                "SELECT a ? 'k', a ?| b, a IS DISTINCT FROM b AND c",
                "SELECT a ? 'k', a ?| b, a IS DISTINCT FROM b AND c",
            ),
            ("WITH w AS MATERIALIZED (SELECT 1) SELECT a FROM w", "WITH w AS MATERIALIZED (SELECT 1) SELECT a FROM w"),
            ("SELECT 1_000, a NOTNULL, EXTRACT(year FROM d)", "SELECT 1_000, a IS NOT NULL, EXTRACT(YEAR FROM d)"),
            ("SELECT * EXCLUDE (a) FROM `t` LIMIT 5, 10", "SELECT * EXCLUDE (a) FROM `t` LIMIT 5, 10"),
            ("FROM t SELECT a", "FROM t SELECT a"),
            ("SELECT struct + 1, struct(1, 2) FROM c", "SELECT struct + 1, STRUCT(1, 2) FROM c"),
            ("SELECT interval + 1, interval AS x FROM c", "SELECT interval + 1, interval AS x FROM c"),
            ("SELECT INTERVAL '1' DAY, c.interval", "SELECT INTERVAL '1' DAY, c.interval"),
        ] {
            let Statement::Sql(ast, _) = parsed(sql).unwrap_or_else(|error| panic!("{sql}: {error}")) else {
                panic!("{sql}")
            };
            assert_eq!(ast.to_string(), expected);
        }
    }
}
