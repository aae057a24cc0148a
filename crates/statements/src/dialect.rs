//! What is SQL to the parser.

use std::cell::Cell;

use sqlparser::ast::Expr;
use sqlparser::dialect::{Dialect, PostgreSqlDialect, Precedence};
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::Token;

const POSTGRES: PostgreSqlDialect = PostgreSqlDialect {};

/// Operands that a text of no bytes may have, and each of its bytes.
const STEPS: u64 = 4096;
const STEPS_PER_BYTE: u64 = 64;

/// The syntax of sqlparser's dialect of PostgreSQL, with `IS DISTINCT FROM` as PostgreSQL binds it.
///
/// The parser reads what may be one thing or another twice, at each level of an expression: of 30 levels it may read the
/// innermost a billion times. So it is stopped after as many operands as no text of the length has otherwise.
#[derive(Debug)]
pub(super) struct SqlDialect {
    steps_left: Cell<u64>,
}

impl SqlDialect {
    /// The syntax of a text of so many bytes.
    pub fn of(bytes: usize) -> Self {
        let steps = STEPS.saturating_add(STEPS_PER_BYTE.saturating_mul(bytes as u64));
        Self { steps_left: Cell::new(steps) }
    }
}

/// Passes questions on.
macro_rules! as_postgres {
    ($($question:ident,)*) => {
        $(fn $question(&self) -> bool {
            POSTGRES.$question()
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
        POSTGRES.is_delimited_identifier_start(ch)
    }

    fn is_identifier_start(&self, ch: char) -> bool {
        POSTGRES.is_identifier_start(ch)
    }

    fn is_identifier_part(&self, ch: char) -> bool {
        POSTGRES.is_identifier_part(ch)
    }

    fn is_reserved_for_identifier(&self, keyword: Keyword) -> bool {
        POSTGRES.is_reserved_for_identifier(keyword)
    }

    fn is_custom_operator_part(&self, ch: char) -> bool {
        POSTGRES.is_custom_operator_part(ch)
    }

    fn get_next_precedence(&self, parser: &Parser<'_>) -> Option<Result<u8, ParserError>> {
        POSTGRES.get_next_precedence(parser)
    }

    fn prec_value(&self, of: Precedence) -> u8 {
        POSTGRES.prec_value(of)
    }

    /// Before every operand. `INTERVAL INTERVAL ...` is a recursion that the parser does not limit.
    fn parse_prefix(&self, parser: &mut Parser<'_>) -> Option<Result<Expr, ParserError>> {
        let is_interval = |token: &Token| matches!(token, Token::Word(word) if word.keyword == Keyword::INTERVAL);
        if is_interval(&parser.peek_token_ref().token) && is_interval(&parser.peek_nth_token_ref(1).token) {
            return Some(Err(ParserError::ParserError("an INTERVAL of an INTERVAL".into())));
        }
        match self.steps_left.get().checked_sub(1) {
            Some(left) => {
                self.steps_left.set(left);
                None
            }
            None => Some(Err(ParserError::RecursionLimitExceeded)),
        }
    }

    /// `IS DISTINCT FROM`, behind which the parser would take AND and OR for parts of the right operand.
    fn parse_infix(&self, parser: &mut Parser<'_>, left: &Expr, _: u8) -> Option<Result<Expr, ParserError>> {
        let is_distinct = parser.parse_keywords(&[Keyword::IS, Keyword::DISTINCT, Keyword::FROM]);
        if !is_distinct && !parser.parse_keywords(&[Keyword::IS, Keyword::NOT, Keyword::DISTINCT, Keyword::FROM]) {
            return None;
        }
        let (left, right) = (Box::new(left.clone()), parser.parse_subexpr(self.prec_value(Precedence::Is)));
        let compared = if is_distinct { Expr::IsDistinctFrom } else { Expr::IsNotDistinctFrom };
        Some(right.map(|right| compared(left, Box::new(right))))
    }

    as_postgres! {
        supports_unicode_string_literal,
        supports_filter_during_aggregation,
        supports_group_by_expr,
        allow_extract_custom,
        allow_extract_single_quotes,
        supports_create_index_with_clause,
        supports_explain_with_utility_options,
        supports_listen_notify,
        supports_factorial_operator,
        supports_bitwise_shift_operators,
        supports_comment_on,
        supports_load_extension,
        supports_named_fn_args_with_colon_operator,
        supports_empty_projections,
        supports_nested_comments,
        supports_string_escape_constant,
        supports_numeric_literal_underscores,
        supports_array_typedef_with_brackets,
        supports_geometric_types,
        supports_set_names,
        supports_alter_column_type_using,
        supports_notnull_operator,
        supports_interval_options,
        supports_insert_table_alias,
        supports_create_table_like_parenthesized,
        supports_select_wildcard_with_alias,
        supports_comma_separated_trim,
        supports_xml_expressions,
        supports_comment_optimizer_hint,
    }
}
