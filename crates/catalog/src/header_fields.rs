//! Columns of a CSV table among the fields that its objects' headers name.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{FieldRef, Schema};
use thermocline_pushdown::CsvFields;

/// The name of a field, and how many fields of the same name come before it in its header.
type FieldName<'a> = (&'a str, usize);

/// Which fields a table's columns are, by the names in the headers of all its objects.
///
/// A column is the field of its name. A declared column of a name that no object has is the field in its
/// place in the first object's header, unless that is another column's or the table has another number of
/// columns; other objects have that field wherever their headers name it.
#[derive(Debug)]
pub(super) struct HeaderFields<'a> {
    schema: &'a Schema,
    /// Per column of the table; `None` if it is in no object.
    names: Vec<Option<FieldName<'a>>>,
}

/// The table's columns in one object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ObjectFields {
    /// Where they are; `None` if the fields are the columns, in their order.
    pub(super) fields: Option<CsvFields>,
    /// Columns that cannot be read, by position, and why.
    pub(super) misfits: Vec<(usize, String)>,
}

impl<'a> HeaderFields<'a> {
    /// Matches the columns of a table with `headers`, those of its objects in their order. Of an object
    /// without a header it is empty.
    pub(super) fn new(schema: &'a Schema, is_inferred: bool, headers: impl Iterator<Item = &'a Arc<[String]>>) -> Self {
        let columns = schema.fields();
        let positions: HashMap<&str, usize> =
            columns.iter().enumerate().map(|(position, column)| (column.name().as_str(), position)).collect();
        let mut is_named = vec![is_inferred; columns.len()];
        let mut first: Option<&Arc<[String]>> = None;
        let mut last: Option<&Arc<[String]>> = None;
        for header in headers.filter(|header| !header.is_empty()) {
            // Most objects have the header of their neighbour.
            if is_inferred || last.is_some_and(|last| Arc::ptr_eq(last, header)) {
                continue;
            }
            last = Some(header);
            first.get_or_insert(header);
            for name in header.iter() {
                if let Some(is_named) = positions.get(name.as_str()).and_then(|position| is_named.get_mut(*position)) {
                    *is_named = true;
                }
            }
        }
        let in_place = first.filter(|header| header.len() == columns.len());
        let mut in_place = numbered(in_place.map_or(&[], |header| header));
        let name = |(column, is_named): (&'a FieldRef, bool)| {
            let in_place = in_place.next();
            match is_named {
                true => Some((column.name().as_str(), 0)),
                // The first field of a column's name is that column.
                false => in_place.filter(|(name, earlier)| *earlier > 0 || !positions.contains_key(name)),
            }
        };
        let names = columns.iter().zip(is_named).map(name).collect();
        Self { schema, names }
    }

    /// The columns in an object with this header.
    ///
    /// # Errors
    /// If it has none of them.
    pub(super) fn of_object(&self, header: &[String]) -> Result<ObjectFields, String> {
        let (Ok(count), false) = (u32::try_from(header.len()), header.is_empty()) else {
            return Ok(ObjectFields::default());
        };
        let fields: HashMap<FieldName<'_>, u32> = numbered(header).zip(0..count).collect();
        let of_columns: Vec<Option<u32>> = self.names.iter().map(|name| fields.get(&(*name)?).copied()).collect();
        if of_columns.iter().all(Option::is_none) {
            return Err(format!("its header has none of the table's columns, but {count} others"));
        }
        if header.len() == of_columns.len() && of_columns.iter().zip(0..).all(|(field, place)| *field == Some(place)) {
            return Ok(ObjectFields::default());
        }
        let misfit = |(column, name): (&FieldRef, &Option<FieldName<'_>>)| match name {
            Some((name, _)) if fields.contains_key(&(*name, 1)) => {
                Some(format!("column '{}' is one of several fields '{name}' of its header", column.name()))
            }
            Some(name) if fields.contains_key(name) => None,
            _ if column.is_nullable() => None,
            _ => Some(format!("it has no column '{}', which is NOT NULL in the table", column.name())),
        };
        let misfits = self.schema.fields().iter().zip(&self.names).map(misfit).enumerate();
        let misfits = misfits.filter_map(|(position, why)| Some((position, why?))).collect();
        Ok(ObjectFields { fields: Some(CsvFields { count, of_columns }), misfits })
    }
}

/// The names of a header, numbered among their likes.
fn numbered(header: &[String]) -> impl Iterator<Item = FieldName<'_>> {
    let mut counts: HashMap<&str, usize> = HashMap::new();
    header.iter().map(move |name| {
        let count = counts.entry(name).or_default();
        *count += 1;
        (name.as_str(), *count - 1)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::{DataType, Field};

    /// Where the columns are in each of the objects: the number of a field, `-` for none, `?` for a misfit, or `error`.
    fn places(columns: &str, is_inferred: bool, headers: &[&str]) -> Vec<String> {
        let field = |name| Field::new(name, DataType::Int64, true);
        let schema = Schema::new(columns.split(',').map(field).collect::<Vec<_>>());
        let headers: Vec<Arc<[String]>> =
            headers.iter().map(|header| header.split_terminator(',').map(str::to_owned).collect()).collect();
        let fields = HeaderFields::new(&schema, is_inferred, headers.iter());
        let place = |header: &Arc<[String]>| {
            let Ok(found) = fields.of_object(header) else { return "error".into() };
            let Some(places) = found.fields else { return "same".into() };
            let place = |(position, field): (usize, &Option<u32>)| match field {
                _ if found.misfits.iter().any(|(misfit, _)| *misfit == position) => "?".into(),
                Some(field) => field.to_string(),
                None => "-".into(),
            };
            places.of_columns.iter().enumerate().map(place).collect::<String>()
        };
        headers.iter().map(place).collect()
    }

    #[test]
    fn declared_columns() {
        for (columns, headers, expected) in [
            ("id,c", &["id,c", "id,extra"][..], &["same", "0-"][..]),
            ("id,c", &["id,extra", "id,c"], &["0-", "same"]),
            ("id,c", &["id,extra", "extra,id"], &["same", "10"]),
            ("x,y,z", &["id,c,s", "s,id,c", "c", "other,s"], &["same", "120", "-0-", "--1"]),
            ("id,c", &["x,y", "c,id", "p,q"], &["error", "10", "error"]),
            // A field in the place of a column may be another column's.
            ("id,c", &["c,x"], &["-0"]),
            ("id,c", &["c,x,y", "x,id,c"], &["-0", "12"]),
            ("p,q", &["a,b,c"], &["error"]),
            // Without a header.
            ("id,c", &["", "id,c", ""], &["same", "same", "same"]),
            // Fields of one name.
            ("x,y,z", &["a,a,b", "b,a,a", "b,a"], &["same", "??0", "1-0"]),
            ("a,y,b", &["a,a,b"], &["same"]),
            ("b,a", &["a,a,b", "b,a"], &["2?", "same"]),
        ] {
            assert_eq!(places(columns, false, headers), expected, "{columns} of {headers:?}");
        }
    }

    #[test]
    fn inferred_columns() {
        for (headers, expected) in [
            (&["a,b", "b,a", "b,x,a", "a"][..], &["same", "10", "20", "0-"][..]),
            (&["a,x", "x,y", "a,a,b"], &["0-", "error", "?2"]),
        ] {
            assert_eq!(places("a,b", true, headers), expected, "{headers:?}");
        }
    }
}
