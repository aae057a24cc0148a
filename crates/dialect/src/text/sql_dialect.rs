//! What is SQL to the parser.

use std::cell::Cell;

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr};
use datafusion::sql::sqlparser::dialect::{Dialect, GenericDialect, PostgreSqlDialect, Precedence};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;

/// Operands that a text of no bytes may have, and each of its bytes.
const STEPS: u64 = 4096;
const STEPS_PER_BYTE: u64 = 64;

/// The syntax of sqlparser's generic dialect, whose operators bind as PostgreSQL's: `^` before `*`, `||` behind `+`.
///
/// The parser reads what may be one thing or another twice, at each level of an expression: of 30 levels it may read the
/// innermost a billion times. So it is stopped after as many operands as no text of the length has otherwise.
#[derive(Debug)]
pub struct SqlDialect {
    steps_left: Cell<u64>,
}

impl SqlDialect {
    /// The syntax of a text of so many bytes.
    pub fn of(bytes: usize) -> Self {
        let steps = STEPS.saturating_add(STEPS_PER_BYTE.saturating_mul(bytes as u64));
        Self { steps_left: Cell::new(steps) }
    }
}

/// Passes questions on to the generic dialect.
macro_rules! as_generic {
    ($($question:ident,)*) => {
        $(fn $question(&self) -> bool {
            GenericDialect.$question()
        })*
    };
}

impl Dialect for SqlDialect {
    fn dialect(&self) -> std::any::TypeId {
        GenericDialect.dialect()
    }

    fn is_delimited_identifier_start(&self, ch: char) -> bool {
        GenericDialect.is_delimited_identifier_start(ch)
    }

    fn is_identifier_start(&self, ch: char) -> bool {
        GenericDialect.is_identifier_start(ch)
    }

    fn is_identifier_part(&self, ch: char) -> bool {
        // With the others, `document@>'{}'` and `document#>'{}'` would begin with other names.
        GenericDialect.is_identifier_part(ch) && !matches!(ch, '@' | '#')
    }

    fn prec_value(&self, of: Precedence) -> u8 {
        PostgreSqlDialect {}.prec_value(of)
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

    fn get_next_precedence(&self, parser: &Parser<'_>) -> Option<Result<u8, ParserError>> {
        match &parser.peek_token_ref().token {
            Token::StringConcat | Token::ShiftLeft | Token::ShiftRight | Token::Arrow | Token::LongArrow => {
                Some(Ok(self.prec_value(Precedence::PgOther)))
            }
            Token::Placeholder(mark) if mark == "?" => Some(Ok(self.prec_value(Precedence::PgOther))),
            _ => None,
        }
    }

    /// `?`, `?|` and `?&`, which the parser would take for a parameter, and `IS DISTINCT FROM`, behind which it would take AND
    /// and OR for parts of the right operand.
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

    as_generic! {
            allow_extract_custom,
            allow_extract_single_quotes,
            support_map_literal_syntax,
            supports_array_join_syntax,
            supports_array_typedef_with_brackets,
            supports_asc_desc_in_column_definition,
            supports_bitwise_shift_operators,
            supports_comma_separated_set_assignments,
            supports_comma_separated_trim,
            supports_comment_on,
            supports_comment_optimizer_hint,
            supports_connect_by,
            supports_constraint_keyword_without_name,
            supports_create_index_with_clause,
            supports_create_view_comment_syntax,
            supports_cte_without_as,
            supports_data_type_signed_suffix,
            supports_detach,
            supports_dictionary_syntax,
            supports_empty_projections,
            supports_explain_with_utility_options,
            supports_extract_comma_syntax,
            supports_filter_during_aggregation,
            supports_from_first_select,
            supports_group_by_expr,
            supports_group_by_with_modifier,
            supports_install,
            supports_interpolate,
            supports_interval_options,
            supports_key_column_option,
            supports_left_associative_joins_without_parens,
            supports_limit_by,
            supports_limit_comma,
            supports_load_extension,
            supports_match_against,
            supports_match_recognize,
            supports_multiline_comment_hints,
            supports_named_fn_args_with_assignment_operator,
            supports_nested_comments,
            supports_optimize_table,
            supports_parens_around_table_factor,
            supports_parenthesized_set_variables,
            supports_partition_by_after_order_by,
            supports_pipe_operator,
            supports_prewhere,
            supports_quote_delimited_string,
            supports_select_format,
            supports_select_item_multi_column_alias,
            supports_select_wildcard_except,
            supports_select_wildcard_exclude,
            supports_select_wildcard_ilike,
            supports_select_wildcard_rename,
            supports_select_wildcard_replace,
            supports_set_names,
            supports_settings,
            supports_start_transaction_modifier,
            supports_string_escape_constant,
            supports_struct_literal,
            supports_try_convert,
            supports_unicode_string_literal,
            supports_update_order_by,
            supports_user_host_grantee,
            supports_values_as_table_factor,
            supports_window_clause_named_window_reference,
            supports_window_function_null_treatment_arg,
            supports_with_fill,
            supports_xml_expressions,
    }
}
