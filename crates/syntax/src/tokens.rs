//! Tokens of a text.

use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Location, Token, TokenWithSpan, Tokenizer};

use crate::SqlDialect;
use crate::depth::Depth;

/// Tokens of a text, with their locations and an upper bound on the depth of their syntax trees.
#[derive(Debug)]
pub struct Tokens {
    tokens: Vec<TokenWithSpan>,
    depth: Depth,
    dialect: SqlDialect,
}

impl Tokens {
    /// Tokenizes a text.
    ///
    /// # Errors
    /// Unterminated quotes and comments, with line and column.
    pub fn of(text: &str) -> Result<Self, ParserError> {
        let tokens = Tokenizer::new(&SqlDialect::of(0), text).tokenize_with_location()?;
        let depth = Depth::of(&tokens);
        Ok(Self { tokens, depth, dialect: SqlDialect::of(text.len()) })
    }

    /// The longest chain of operators, summed over open parentheses and CASEs, which count as operators themselves. The
    /// tree of a chain is as deep as the chain is long, and trees are cloned, planned and dropped by recursion.
    pub const fn operators(&self) -> u32 {
        self.depth.operators
    }

    /// The largest number of occurrences of the word EXPLAIN in one statement.
    pub const fn explains(&self) -> u32 {
        self.depth.explains
    }

    /// All tokens except whitespace and comments.
    pub fn iter(&self) -> impl Iterator<Item = &Token> {
        self.places().map(|(token, _)| token)
    }

    /// [`Self::iter`], with the location at which each token begins.
    pub fn places(&self) -> impl Iterator<Item = (&Token, Location)> {
        let tokens = self.tokens.iter().filter(|token| !matches!(token.token, Token::Whitespace(_)));
        tokens.map(|token| (&token.token, token.span.start))
    }

    /// The keyword of each token; `NoKeyword` for quoted words and other tokens.
    pub fn keywords(&self) -> impl Iterator<Item = Keyword> {
        self.iter().map(keyword)
    }

    /// Whether the text begins with these keywords.
    pub fn begin_with(&self, keywords: &[Keyword]) -> bool {
        self.keywords().take(keywords.len()).eq(keywords.iter().copied())
    }

    /// Runs `parse` on a parser over the tokens.
    ///
    /// # Errors
    /// Those of `parse`.
    pub fn parsed<T, E>(self, parse: impl FnOnce(&mut Parser<'_>) -> Result<T, E>) -> Result<T, E> {
        parse(&mut Parser::new(&self.dialect).with_tokens_with_locations(self.tokens))
    }

    /// The tokens and the dialect to parse them with.
    pub fn into_parts(self) -> (Vec<TokenWithSpan>, SqlDialect) {
        (self.tokens, self.dialect)
    }
}

/// The keyword of a token.
fn keyword(token: &Token) -> Keyword {
    match token {
        Token::Word(word) if word.quote_style.is_none() => word.keyword,
        _ => Keyword::NoKeyword,
    }
}
