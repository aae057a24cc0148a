//! Case folding of names: quoted names are kept, others become lower case.

use sqlparser::ast::Ident;
use sqlparser::tokenizer::Word;

/// The name that an identifier denotes.
pub fn folded(name: &Ident) -> String {
    fold(&name.value, name.quote_style)
}

/// [`folded`] for a word.
pub fn folded_word(word: &Word) -> String {
    fold(&word.value, word.quote_style)
}

fn fold(name: &str, quote: Option<char>) -> String {
    if quote.is_some() { name.to_owned() } else { name.to_lowercase() }
}
