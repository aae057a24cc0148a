//! Parsing of tokens into DataFusion's statements.

use datafusion::common::Result;
use datafusion::sql::parser::{DFParserBuilder, Statement};
use thermocline_pushdown::user_err;
use thermocline_syntax::Tokens;

/// Limit on operators in a row. Trees are cloned, planned and dropped by recursion, and a stack of 8 MiB overflows
/// between 5000 and 8000.
const OPERATORS_MAX: u32 = 4000;

/// Limit on occurrences of EXPLAIN in a statement: DataFusion's parser recurses for each.
const EXPLAINS_MAX: u32 = 100;

/// Checks the depth of the expressions of a text.
///
/// # Errors
/// 54001 if there are more than 4000 operators in a row, or more than 100 times EXPLAIN in a statement.
pub fn check_depth(tokens: &Tokens) -> Result<()> {
    if tokens.explains() > EXPLAINS_MAX {
        return user_err!(TooDeep, "a statement with more than {EXPLAINS_MAX} times EXPLAIN");
    }
    if tokens.operators() > OPERATORS_MAX {
        return user_err!(TooDeep, "an expression or a type with more than {OPERATORS_MAX} operators in a row");
    }
    Ok(())
}

/// Parses a script into statements, including DataFusion's own, such as `CREATE EXTERNAL TABLE`.
///
/// # Errors
/// Syntax errors, with line and column.
pub fn parse(script: &str) -> Result<Vec<Statement>> {
    parse_tokens(Tokens::of(script)?)
}

/// [`parse`] for a tokenized text.
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
