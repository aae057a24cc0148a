use datafusion::sql::sqlparser::ast::{ObjectName, ObjectNamePart};
use thermocline_syntax::folded;

/// The name of an object in schema `public`; `None` for other schemas.
pub fn simple(name: &ObjectName) -> Option<String> {
    let part = |part: &ObjectNamePart| part.as_ident().map(folded);
    match name.0.as_slice() {
        [name] => part(name),
        [schema, name] if part(schema).as_deref() == Some("public") => part(name),
        _ => None,
    }
}
