//! Names as they are looked up: as written if quoted, else in lower case.

use sqlparser::ast::Ident;
use sqlparser::tokenizer::Word;

/// An identifier as it is looked up.
pub fn folded(name: &Ident) -> String {
    fold(&name.value, name.quote_style)
}

/// A word as a name is looked up.
pub fn folded_word(word: &Word) -> String {
    fold(&word.value, word.quote_style)
}

fn fold(name: &str, quote: Option<char>) -> String {
    if quote.is_some() { name.to_owned() } else { name.to_lowercase() }
}
