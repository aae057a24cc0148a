//! The SQL dialect of the parser.

use std::cell::Cell;

use sqlparser::ast::{BinaryOperator, Expr};
use sqlparser::dialect::{Dialect, PostgreSqlDialect, Precedence};
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::Token;

const POSTGRES: PostgreSqlDialect = PostgreSqlDialect {};

/// Operands that the parser may start to read: for an empty text, and for each byte.
const STEPS: u64 = 4096;
const STEPS_PER_BYTE: u64 = 64;

/// PostgreSQL's syntax, extended with forms from DuckDB and Spark that have no other meaning in PostgreSQL: `SELECT *
/// EXCLUDE (a)`, `FROM t SELECT a`, `ORDER BY ALL`, `LIMIT 5, 10`, `{'a': 1}`, names in backticks.
///
/// Custom operators are disabled: sqlparser's PostgreSQL dialect reads `a<>-1` as the operator `<>-`; here, as in
/// PostgreSQL, it is a comparison.
///
/// The parser backtracks over ambiguous syntax at each level of an expression, so it may read the innermost of 30
/// levels a billion times. A budget of operands, proportional to the length of the text, stops it.
#[derive(Debug)]
pub struct SqlDialect {
    steps_left: Cell<u64>,
}

impl SqlDialect {
    /// The syntax of a text of this length in bytes.
    pub fn of(bytes: usize) -> Self {
        let steps = STEPS.saturating_add(STEPS_PER_BYTE.saturating_mul(bytes as u64));
        Self { steps_left: Cell::new(steps) }
    }
}

/// Implements the listed methods of `Dialect` to return true.
macro_rules! supports {
    ($($question:ident,)*) => {
        $(fn $question(&self) -> bool {
            true
        })*
    };
}

impl Dialect for SqlDialect {
    fn dialect(&self) -> std::any::TypeId {
        POSTGRES.dialect()
    }

    fn identifier_quote_style(&self, identifier: &str) -> Option<char> {
        POSTGRES.identifier_quote_style(identifier)
    }

    fn is_delimited_identifier_start(&self, ch: char) -> bool {
        matches!(ch, '"' | '`')
    }

    fn is_identifier_start(&self, ch: char) -> bool {
        POSTGRES.is_identifier_start(ch) && !ch.is_whitespace()
    }

    fn is_identifier_part(&self, ch: char) -> bool {
        // PostgreSQL takes a no-break space for a letter; in pasted text it is meant as a space.
        POSTGRES.is_identifier_part(ch) && !ch.is_whitespace()
    }

    fn is_reserved_for_identifier(&self, keyword: Keyword) -> bool {
        POSTGRES.is_reserved_for_identifier(keyword)
    }

    fn prec_value(&self, of: Precedence) -> u8 {
        POSTGRES.prec_value(of)
    }

    /// Called before every operand. Rejects `INTERVAL INTERVAL ...`, whose recursion the parser does not limit, and reads
    /// `interval + 1` as a sum with a column; to the parser it is an interval of +1.
    fn parse_prefix(&self, parser: &mut Parser<'_>) -> Option<Result<Expr, ParserError>> {
        let is_interval = |token: &Token| matches!(token, Token::Word(word) if word.keyword == Keyword::INTERVAL);
        if is_interval(&parser.peek_token_ref().token) {
            match &parser.peek_nth_token_ref(1).token {
                next if is_interval(next) => {
                    return Some(Err(ParserError::ParserError("an INTERVAL of an INTERVAL".into())));
                }
                Token::Word(word) if word.keyword == Keyword::NoKeyword => {}
                Token::Period
                | Token::LParen
                | Token::Number(..)
                | Token::Placeholder(_)
                | Token::SingleQuotedString(_)
                | Token::EscapedStringLiteral(_)
                | Token::DollarQuotedString(_) => {}
                _ => return Some(parser.parse_identifier().map(Expr::Identifier)),
            }
        }
        // A column may be called struct; types and literals of records go on with one of these.
        if matches!(&parser.peek_token_ref().token, Token::Word(word) if word.keyword == Keyword::STRUCT)
            && !matches!(&parser.peek_nth_token_ref(1).token, Token::LParen | Token::Lt | Token::Period)
        {
            return Some(parser.parse_identifier().map(Expr::Identifier));
        }
        match self.steps_left.get().checked_sub(1) {
            Some(left) => {
                self.steps_left.set(left);
                None
            }
            None => Some(Err(ParserError::RecursionLimitExceeded)),
        }
    }

    fn get_next_precedence(&self, parser: &Parser<'_>) -> Option<Result<u8, ParserError>> {
        match &parser.peek_token_ref().token {
            Token::Placeholder(mark) if mark == "?" => Some(Ok(self.prec_value(Precedence::PgOther))),
            _ => POSTGRES.get_next_precedence(parser),
        }
    }

    /// Parses `?`, `?|` and `?&`, which the parser would take for parameters, and `IS DISTINCT FROM`, whose right
    /// operand would otherwise include a following AND or OR.
    fn parse_infix(&self, parser: &mut Parser<'_>, left: &Expr, _: u8) -> Option<Result<Expr, ParserError>> {
        if matches!(&parser.peek_token_ref().token, Token::Placeholder(mark) if mark == "?") {
            parser.next_token();
            let op = match parser.peek_token_ref().token {
                Token::Pipe => BinaryOperator::QuestionPipe,
                Token::Ampersand => BinaryOperator::QuestionAnd,
                _ => BinaryOperator::Question,
            };
            if op != BinaryOperator::Question {
                parser.next_token();
            }
            let right = parser.parse_subexpr(self.prec_value(Precedence::PgOther));
            return Some(right.map(|right| Expr::BinaryOp {
                left: Box::new(left.clone()),
                op,
                right: Box::new(right),
            }));
        }
        let is_distinct = parser.parse_keywords(&[Keyword::IS, Keyword::DISTINCT, Keyword::FROM]);
        if !is_distinct && !parser.parse_keywords(&[Keyword::IS, Keyword::NOT, Keyword::DISTINCT, Keyword::FROM]) {
            return None;
        }
        let (left, right) = (Box::new(left.clone()), parser.parse_subexpr(self.prec_value(Precedence::Is)));
        let compared = if is_distinct { Expr::IsDistinctFrom } else { Expr::IsNotDistinctFrom };
        Some(right.map(|right| compared(left, Box::new(right))))
    }

    supports! {
        // From PostgreSQL.
        allow_extract_custom,
        allow_extract_single_quotes,
        supports_alter_column_type_using,
        supports_array_typedef_with_brackets,
        supports_bitwise_shift_operators,
        supports_comma_separated_trim,
        supports_comment_on,
        supports_comment_optimizer_hint,
        supports_create_index_with_clause,
        supports_create_table_like_parenthesized,
        supports_empty_projections,
        supports_explain_with_utility_options,
        supports_filter_during_aggregation,
        supports_group_by_expr,
        supports_insert_table_alias,
        supports_interval_options,
        supports_load_extension,
        supports_nested_comments,
        supports_notnull_operator,
        supports_numeric_literal_underscores,
        supports_set_names,
        supports_string_escape_constant,
        supports_unicode_string_literal,
        supports_window_clause_named_window_reference,
        supports_window_function_null_treatment_arg,
        supports_xml_expressions,
        // From other databases.
        support_map_literal_syntax,
        supports_asc_desc_in_column_definition,
        supports_comma_separated_set_assignments,
        supports_cte_without_as,
        supports_dictionary_syntax,
        supports_extract_comma_syntax,
        supports_from_first_select,
        supports_left_associative_joins_without_parens,
        supports_limit_comma,
        supports_named_fn_args_with_assignment_operator,
        supports_order_by_all,
        supports_parens_around_table_factor,
        supports_parenthesized_set_variables,
        supports_pipe_operator,
        supports_select_wildcard_except,
        supports_select_wildcard_exclude,
        supports_select_wildcard_rename,
        supports_select_wildcard_replace,
        supports_start_transaction_modifier,
        supports_struct_literal,
        supports_try_convert,
        supports_values_as_table_factor,
    }
}
