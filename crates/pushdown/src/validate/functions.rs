//! Functions by name. What is not listed here does not run at storage.

use crate::arithmetic::{CHECKED_ADD, CHECKED_DIVIDE, CHECKED_MULTIPLY, CHECKED_REMAINDER, CHECKED_SUBTRACT};
use crate::as_computed::AS_COMPUTED;
use crate::float_order::{CANONICAL_FLOAT, FLOAT_KEY, FLOAT_OF_KEY};
use crate::sql::SQL_CAST;

/// Size of a scalar function's result, in terms of its arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Growth {
    /// At most a small multiple of one argument, or a fixed size.
    Bounded,
    /// The sum of all arguments.
    Sum,
    /// A few times the argument.
    Multiplied,
    /// The second argument says how many characters.
    Padded,
    /// The second argument is a pattern, the third takes the place of what it finds.
    Replaced,
    /// The second argument is a regular expression, the third takes the place of what it finds.
    ReplacedByPattern,
    /// The second argument is a format, each character of which may become a dozen.
    Formatted,
}

/// Scalar functions: deterministic, linear in their arguments. Not among them are those that make
/// rows or lists (`generate_series`, `range`, `make_array`, `string_to_array`), that repeat
/// (`repeat`, `array_repeat`), that take the square of a text's length (`levenshtein`), or that
/// depend on time, chance or the session (`now`, `random`, `uuid`, `version`).
const SCALAR: &[(Growth, &[&str])] = &[
    (
        Growth::Bounded,
        &[
            "abs",
            "acos",
            "acosh",
            "array_element",
            "array_has",
            "array_has_all",
            "array_has_any",
            "array_length",
            "array_ndims",
            "array_position",
            AS_COMPUTED,
            "ascii",
            "asin",
            "asinh",
            "atan",
            "atan2",
            "atanh",
            "bit_length",
            "btrim",
            CANONICAL_FLOAT,
            "cardinality",
            "cbrt",
            "ceil",
            "character_length",
            CHECKED_ADD,
            CHECKED_DIVIDE,
            CHECKED_MULTIPLY,
            CHECKED_REMAINDER,
            CHECKED_SUBTRACT,
            "chr",
            "coalesce",
            "contains",
            "cos",
            "cosh",
            "cot",
            "date_bin",
            "date_part",
            "date_trunc",
            "decode",
            "degrees",
            "digest",
            "empty",
            "ends_with",
            "exp",
            "factorial",
            "find_in_set",
            FLOAT_KEY,
            FLOAT_OF_KEY,
            "floor",
            "from_unixtime",
            "gcd",
            "get_field",
            "greatest",
            "initcap",
            "isnan",
            "iszero",
            "lcm",
            "least",
            "left",
            "ln",
            "log",
            "log10",
            "log2",
            "lower",
            "ltrim",
            "make_date",
            "make_time",
            "md5",
            "nanvl",
            "nullif",
            "nvl",
            "nvl2",
            "octet_length",
            "pi",
            "power",
            "radians",
            "regexp_count",
            "regexp_instr",
            "regexp_like",
            "regexp_match",
            "reverse",
            "right",
            "round",
            "rtrim",
            "sha224",
            "sha256",
            "sha384",
            "sha512",
            "signum",
            "sin",
            "sinh",
            "split_part",
            "sql_abs",
            "sql_acos",
            "sql_add",
            "sql_asin",
            "sql_atan",
            "sql_atan2",
            "sql_bit_length",
            SQL_CAST,
            "sql_cbrt",
            "sql_ceil",
            "sql_chr",
            "sql_cos",
            "sql_date_part",
            "sql_date_trunc",
            "sql_degrees",
            "sql_div",
            "sql_divide",
            "sql_exp",
            "sql_extract",
            "sql_floor",
            "sql_gcd",
            "sql_jsonb_array_element",
            "sql_jsonb_array_element_text",
            "sql_jsonb_array_length",
            "sql_jsonb_contained",
            "sql_jsonb_contains",
            "sql_jsonb_exists",
            "sql_jsonb_exists_all",
            "sql_jsonb_exists_any",
            "sql_jsonb_extract_path",
            "sql_jsonb_extract_path_array",
            "sql_jsonb_extract_path_array_text",
            "sql_jsonb_extract_path_text",
            "sql_jsonb_object_field",
            "sql_jsonb_object_field_text",
            "sql_jsonb_typeof",
            "sql_lcm",
            "sql_length",
            "sql_decode",
            "sql_ln",
            "sql_log",
            "sql_mod",
            "sql_multiply",
            "sql_num_nonnulls",
            "sql_num_nulls",
            "sql_octet_length",
            "sql_power",
            "sql_raise",
            "sql_radians",
            "sql_remainder",
            "sql_round",
            "sql_sign",
            "sql_sin",
            "sql_sqrt",
            "sql_subtract",
            "sql_tan",
            "sql_timezone",
            "sql_to_hex",
            "sql_trunc",
            "sqrt",
            "starts_with",
            "strpos",
            "substr",
            "substr_index",
            "tan",
            "tanh",
            "to_date",
            "to_hex",
            "to_local_time",
            "to_time",
            "to_timestamp",
            "to_timestamp_micros",
            "to_timestamp_millis",
            "to_timestamp_nanos",
            "to_timestamp_seconds",
            "to_unixtime",
            "translate",
            "trunc",
            "upper",
        ],
    ),
    (Growth::Sum, &["concat", "concat_ws", "overlay", "sql_concat", "sql_concat_ws", "sql_concatenate"]),
    (Growth::Multiplied, &["encode", "sql_encode", "sql_jsonb", "sql_jsonb_key", "sql_similar_to_escape"]),
    (Growth::Padded, &["lpad", "rpad"]),
    (Growth::Replaced, &["replace"]),
    (Growth::ReplacedByPattern, &["regexp_replace"]),
    (Growth::Formatted, &["sql_to_char", "to_char"]),
];

/// Aggregate functions whose partial state is of a fixed size, or holds no more than the rows
/// that it has seen and is charged to the node's memory.
const AGGREGATE: &[&str] = &[
    "approx_distinct",
    "approx_median",
    "approx_percentile_cont",
    "array_agg",
    "avg",
    "bit_and",
    "bit_or",
    "bit_xor",
    "bool_and",
    "bool_or",
    "corr",
    "count",
    "covar_pop",
    "covar_samp",
    "first_value",
    "grouping",
    "last_value",
    "max",
    "median",
    "min",
    "percentile_cont",
    "regr_avgx",
    "regr_avgy",
    "regr_count",
    "regr_intercept",
    "regr_r2",
    "regr_slope",
    "regr_sxx",
    "regr_sxy",
    "regr_syy",
    "stddev",
    "stddev_pop",
    "string_agg",
    "sum",
    "var",
    "var_pop",
];

/// Binary operators, as the wire names them.
const OPERATORS: &[&str] = &[
    "And",
    "BitwiseAnd",
    "BitwiseOr",
    "BitwiseShiftLeft",
    "BitwiseShiftRight",
    "BitwiseXor",
    "Divide",
    "Eq",
    "Gt",
    "GtEq",
    "ILikeMatch",
    "IsDistinctFrom",
    "IsNotDistinctFrom",
    "LikeMatch",
    "Lt",
    "LtEq",
    "Minus",
    "Modulo",
    "Multiply",
    "NotEq",
    "NotILikeMatch",
    "NotLikeMatch",
    "Or",
    "Plus",
    "RegexIMatch",
    "RegexMatch",
    "RegexNotIMatch",
    "RegexNotMatch",
    "StringConcat",
];

/// The growth of a scalar function; `None` if it does not run at storage.
pub(super) fn growth_of(name: &str) -> Option<Growth> {
    SCALAR.iter().find(|(_, names)| names.contains(&name)).map(|(growth, _)| *growth)
}

/// Whether an aggregate function runs at storage.
pub(super) fn is_aggregate(name: &str) -> bool {
    AGGREGATE.contains(&name)
}

/// Whether a binary operator runs at storage.
pub(super) fn is_operator(name: &str) -> bool {
    OPERATORS.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::register_functions;
    use datafusion::execution::FunctionRegistry;
    use datafusion::prelude::SessionContext;

    /// A name that no function has would allow nothing, and hide that something is missing.
    #[test]
    fn every_listed_function_is_there_and_not_volatile() {
        let context = SessionContext::new();
        register_functions(&context);
        for name in SCALAR.iter().flat_map(|(_, names)| *names) {
            let function = context.udf(name).unwrap_or_else(|_| panic!("no function {name}"));
            assert_eq!(function.name(), *name, "an alias");
            let volatility = function.signature().volatility;
            assert_eq!(volatility, datafusion::logical_expr::Volatility::Immutable, "{name}");
        }
        for name in AGGREGATE {
            let function = context.udaf(name).unwrap_or_else(|_| panic!("no aggregate {name}"));
            assert_eq!(function.name(), *name, "an alias");
        }
    }
}
