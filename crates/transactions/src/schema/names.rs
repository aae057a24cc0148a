//! Names in SQL.

use std::fmt::{self, Write};

use sqlparser::ast::{Ident, ObjectName, ObjectNamePart};
use sqlparser::keywords::ALL_KEYWORDS;

use crate::error::{Class, Error, Result};

/// The longest name in bytes, as in PostgreSQL.
pub(crate) const NAME_BYTES_MAX: usize = 63;

/// Writes a name so that SQL reads it back: quoted where it has to be.
pub fn write_identifier(out: &mut impl Write, name: &str) -> fmt::Result {
    let mut characters = name.chars();
    let plain = characters.next().is_some_and(|first| first.is_ascii_lowercase() || first == '_')
        && characters.all(|next| next.is_ascii_lowercase() || next.is_ascii_digit() || next == '_')
        && ALL_KEYWORDS.binary_search(&name.to_ascii_uppercase().as_str()).is_err();
    if plain { out.write_str(name) } else { write!(out, "\"{}\"", name.replace('"', "\"\"")) }
}

/// The name that an identifier means: as written if quoted, else in lower case.
pub(crate) fn fold(identifier: &Ident) -> Result<Box<str>> {
    let name = match identifier.quote_style {
        Some(_) => identifier.value.clone(),
        None => identifier.value.to_lowercase(),
    };
    if name.is_empty() || name.len() > NAME_BYTES_MAX {
        return Err(Class::Syntax.error(format_args!("a name has 1 to {NAME_BYTES_MAX} bytes: \"{name}\"")));
    }
    Ok(name.into())
}

/// The name of a table, an index or a procedure; schema `public` may be said.
pub(crate) fn object(name: &ObjectName) -> Result<Box<str>> {
    match name.0.as_slice() {
        [ObjectNamePart::Identifier(name)] => fold(name),
        [ObjectNamePart::Identifier(schema), ObjectNamePart::Identifier(name)] if &*fold(schema)? == "public" => {
            fold(name)
        }
        // Such as a system table, which another engine knows.
        _ => Err(Error::not_here(format_args!("the name {name}"))),
    }
}
