//! Names in SQL.

use std::fmt::{self, Write};

use sqlparser::keywords::ALL_KEYWORDS;
/// Maximum bytes of a name, as in PostgreSQL.
pub const NAME_BYTES_MAX: usize = 63;

/// Writes a name so that SQL reads it back: quoted if necessary.
pub fn write_identifier(out: &mut impl Write, name: &str) -> fmt::Result {
    let mut characters = name.chars();
    let plain = characters.next().is_some_and(|first| first.is_ascii_lowercase() || first == '_')
        && characters.all(|next| next.is_ascii_lowercase() || next.is_ascii_digit() || next == '_')
        && ALL_KEYWORDS.binary_search(&name.to_ascii_uppercase().as_str()).is_err();
    if plain { out.write_str(name) } else { write!(out, "\"{}\"", name.replace('"', "\"\"")) }
}
