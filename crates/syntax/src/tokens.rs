//! Tokens of a text.

use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Location, Token, TokenWithSpan, Tokenizer};

use crate::SqlDialect;
use crate::depth::Depth;

/// Tokens of a text, with their places, and how deep the trees may be that a parser makes of them.
#[derive(Debug)]
pub struct Tokens {
    tokens: Vec<TokenWithSpan>,
    depth: Depth,
    dialect: SqlDialect,
}

impl Tokens {
    /// Cuts a text into tokens.
    ///
    /// # Errors
    /// If a quote or a comment has no end; the error names line and column.
    pub fn of(text: &str) -> Result<Self, ParserError> {
        let tokens = Tokenizer::new(&SqlDialect::of(0), text).tokenize_with_location()?;
        let depth = Depth::of(&tokens);
        Ok(Self { tokens, depth, dialect: SqlDialect::of(text.len()) })
    }

    /// Operators that follow each other at the most, counted over all open parentheses and CASEs, which count as well. A
    /// chain of operators is a tree as deep as it is long, and trees are cloned, planned and dropped by recursion.
    pub const fn operators(&self) -> u32 {
        self.depth.operators
    }

    /// How often the word EXPLAIN stands in a statement at the most.
    pub const fn explains(&self) -> u32 {
        self.depth.explains
    }

    /// All tokens but space and comments.
    pub fn iter(&self) -> impl Iterator<Item = &Token> {
        self.places().map(|(token, _)| token)
    }

    /// The same, with the place at which each begins.
    pub fn places(&self) -> impl Iterator<Item = (&Token, Location)> {
        let tokens = self.tokens.iter().filter(|token| !matches!(token.token, Token::Whitespace(_)));
        tokens.map(|token| (&token.token, token.span.start))
    }

    /// Keywords by position; `NoKeyword` for whatever is none, or quoted.
    pub fn keywords(&self) -> impl Iterator<Item = Keyword> {
        self.iter().map(keyword)
    }

    /// Whether it begins with these keywords.
    pub fn begin_with(&self, keywords: &[Keyword]) -> bool {
        self.keywords().take(keywords.len()).eq(keywords.iter().copied())
    }

    /// Hands them to a parser.
    ///
    /// # Errors
    /// Those of `parse`.
    pub fn parsed<T, E>(self, parse: impl FnOnce(&mut Parser<'_>) -> Result<T, E>) -> Result<T, E> {
        parse(&mut Parser::new(&self.dialect).with_tokens_with_locations(self.tokens))
    }

    /// The tokens, and the dialect that they are to be parsed in.
    pub fn into_parts(self) -> (Vec<TokenWithSpan>, SqlDialect) {
        (self.tokens, self.dialect)
    }
}

/// The keyword that a token is.
fn keyword(token: &Token) -> Keyword {
    match token {
        Token::Word(word) if word.quote_style.is_none() => word.keyword,
        _ => Keyword::NoKeyword,
    }
}
