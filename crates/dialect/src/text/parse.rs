//! DataFusion's statements from tokens.

use datafusion::common::Result;
use datafusion::sql::parser::{DFParserBuilder, Statement};
use thermocline_pushdown::user_err;
use thermocline_syntax::Tokens;

/// Operators that may follow each other. Trees are cloned, planned and dropped by recursion: 8 MiB of stack end between
/// 5000 and 8000.
const OPERATORS_MAX: u32 = 4000;

/// How often the word EXPLAIN may stand in a statement: DataFusion's parser calls itself for each.
const EXPLAINS_MAX: u32 = 100;

/// Checks that no expression of a text is too deep to be worked on.
///
/// # Errors
/// If more than 4000 operators follow each other, or EXPLAIN stands in a statement more than 100 times.
pub fn check_depth(tokens: &Tokens) -> Result<()> {
    if tokens.explains() > EXPLAINS_MAX {
        return user_err!(TooDeep, "a statement with more than {EXPLAINS_MAX} times EXPLAIN");
    }
    if tokens.operators() > OPERATORS_MAX {
        return user_err!(TooDeep, "an expression or a type with more than {OPERATORS_MAX} operators in a row");
    }
    Ok(())
}

/// Cuts a script into statements, also those that only DataFusion has, such as `CREATE EXTERNAL TABLE`.
///
/// # Errors
/// If it does not parse; the error names line and column.
pub fn parse(script: &str) -> Result<Vec<Statement>> {
    parse_tokens(Tokens::of(script)?)
}

/// The same of a text that is cut into tokens.
///
/// # Errors
/// As [`parse`].
pub fn parse_tokens(tokens: Tokens) -> Result<Vec<Statement>> {
    check_depth(&tokens)?;
    let (tokens, dialect) = tokens.into_parts();
    Ok(DFParserBuilder::new(tokens).with_dialect(&dialect).build()?.parse_statements()?.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deep_statements_are_refused_and_long_ones_are_not() {
        let chain = |terms: usize| format!("SELECT 1 {}", "+1".repeat(terms));
        assert!(parse(&chain(4000)).is_ok());
        let error = parse(&chain(4001)).unwrap_err().to_string();
        assert!(error.contains("4000 operators"), "{error}");
        assert!(parse(&"EXPLAIN ".repeat(101)).unwrap_err().to_string().contains("100 times EXPLAIN"));
        assert_eq!(parse(&"EXPLAIN SELECT 1;".repeat(1000)).unwrap().len(), 1000);
    }
}
