//! Names in statements.

use sqlparser::ast::{Ident, ObjectName, ObjectNamePart};
use thermocline_syntax::folded;
use thermocline_tables::schema::NAME_BYTES_MAX;
use thermocline_types::{Class, Error, Result};

/// The name that an identifier denotes: as written if quoted, else in lower case.
pub fn fold(identifier: &Ident) -> Result<Box<str>> {
    let name = folded(identifier);
    if name.is_empty() || name.len() > NAME_BYTES_MAX {
        return Err(Class::Syntax.error(format_args!("a name has 1 to {NAME_BYTES_MAX} bytes: \"{name}\"")));
    }
    Ok(name.into())
}

/// The name of a table, an index or a procedure, optionally qualified with schema `public`.
pub fn object(name: &ObjectName) -> Result<Box<str>> {
    match name.0.as_slice() {
        [ObjectNamePart::Identifier(name)] => fold(name),
        [ObjectNamePart::Identifier(schema), ObjectNamePart::Identifier(name)] if &*fold(schema)? == "public" => {
            fold(name)
        }
        // For example a system table, which only the analytic engine knows.
        _ => Err(Error::unsupported(format_args!("the name {name}"))),
    }
}
