//! Prepared encoding of the rows of an INSERT from its parameters.

use std::borrow::Cow;

use thermocline_types::{Error, Result, Value, ValueRef};

use super::charge::allocated;
use super::layout::{Field, Kind, Layout, put, set_null};

/// Encoder of the rows of an INSERT: the place of each parameter in the image, and the bytes that all rows share.
///
/// ```text
/// template: nulls | fixed part with the constants      steps: parameter -> offset, or the end of the image
/// ```
#[derive(Debug, Clone)]
pub struct Encoder {
    template: Box<[u8]>,
    steps: Box<[Step]>,
}

#[derive(Debug, Clone, Copy)]
struct Step {
    way: Way,
    column: u32,
    source: Source,
    field: Field,
}

/// Encoding of a parameter that has the usual kind for its column.
#[derive(Debug, Clone, Copy)]
enum Way {
    Int4(u32),
    Int8(u32),
    Text(u32),
    /// Any other value.
    Other,
}

impl Way {
    fn of(source: Source, field: Field) -> Self {
        match (source, field.kind) {
            (Source::Parameter(position), Kind::Int4) => Self::Int4(position),
            (Source::Parameter(position), Kind::Int8) => Self::Int8(position),
            (Source::Parameter(position), Kind::Text) => Self::Text(position),
            _ => Self::Other,
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum Source {
    Parameter(u32),
    /// Read by column.
    Other,
}

/// A parameter of a statement, owned or borrowed.
pub trait Parameter: Sized {
    /// Parameters as expressions read them.
    fn values(parameters: &[Self]) -> Cow<'_, [Value]>;

    /// The value.
    fn value(&self) -> ValueRef<'_>;

    /// The value if it is an integer.
    fn integer(&self) -> Option<i64>;

    /// The value if it is a text.
    fn text(&self) -> Option<&str>;
}

impl Parameter for Value {
    #[inline]
    fn values(parameters: &[Self]) -> Cow<'_, [Value]> {
        Cow::Borrowed(parameters)
    }

    #[inline]
    fn value(&self) -> ValueRef<'_> {
        self.as_ref()
    }

    #[inline]
    fn integer(&self) -> Option<i64> {
        if let Self::Int(number) = self { Some(*number) } else { None }
    }

    #[inline]
    fn text(&self) -> Option<&str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }
}

impl Parameter for ValueRef<'_> {
    fn values(parameters: &[Self]) -> Cow<'_, [Value]> {
        parameters.iter().map(|value| value.to_value()).collect()
    }

    #[inline]
    fn value(&self) -> ValueRef<'_> {
        *self
    }

    #[inline]
    fn integer(&self) -> Option<i64> {
        if let Self::Int(number) = self { Some(*number) } else { None }
    }

    #[inline]
    fn text(&self) -> Option<&str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }
}

/// Source of a column's value.
#[derive(Debug, Clone, Copy)]
pub enum Written<'v> {
    /// A parameter, by its position.
    Parameter(usize),
    /// A constant.
    Constant(&'v Value),
    /// Values computed for each row.
    Computed,
}

impl Encoder {
    /// An encoder for this layout, given the source of each column's value.
    pub fn new<'v>(layout: &Layout, written: impl Iterator<Item = Written<'v>>) -> Result<Self> {
        let mut template = vec![0; layout.fixed_bytes()];
        let mut steps = Vec::with_capacity(layout.columns());
        for (column, written) in written.enumerate() {
            let Some(field) = layout.field(column) else { return Err(Error::internal("a value without a column")) };
            let source = match written {
                Written::Constant(Value::Null) if field.nullable && !field.kind.is_variable() => {
                    set_null(&mut template, column, true);
                    continue;
                }
                Written::Constant(value) if field.put_as_is(&mut template, value.as_ref()) => continue,
                Written::Parameter(position) => u32::try_from(position).map_or(Source::Other, Source::Parameter),
                Written::Constant(_) | Written::Computed => Source::Other,
            };
            steps.push(Step { way: Way::of(source, field), column: column as u32, source, field });
        }
        Ok(Self { template: template.into(), steps: steps.into() })
    }

    /// Bytes of memory that it points to.
    pub fn heap_bytes(&self) -> usize {
        allocated(self.template.len()) + allocated(size_of_val(&*self.steps))
    }

    /// Writes the image of a row from parameters and `other` values by column. `convert` converts values that a column
    /// does not store unchanged, as for [`Patch::set`](super::Patch::set).
    #[inline]
    pub(super) fn encode<'v, V: Parameter>(
        &self,
        layout: &Layout,
        image: &mut Vec<u8>,
        parameters: &'v [V],
        other: impl Fn(usize) -> ValueRef<'v>,
        convert: impl Fn(usize, ValueRef<'v>) -> Result<ValueRef<'v>>,
    ) -> Result<()> {
        if self.template.len() != layout.fixed_bytes() {
            return Err(Error::internal("a row of another layout than its table's"));
        }
        image.clear();
        image.extend_from_slice(&self.template);
        for Step { way, column, source, field } in &self.steps {
            let at = field.at();
            let written = match way {
                Way::Int4(position) => {
                    let number = parameters.get(*position as usize).and_then(Parameter::integer);
                    number.is_some_and(|number| {
                        i32::try_from(number).is_ok_and(|number| put(image, at, number.to_le_bytes()))
                    })
                }
                Way::Int8(position) => {
                    let number = parameters.get(*position as usize).and_then(Parameter::integer);
                    number.is_some_and(|number| put(image, at, number.to_le_bytes()))
                }
                Way::Text(position) => match parameters.get(*position as usize).and_then(Parameter::text) {
                    Some(text) if text.len() <= field.bytes_max() => {
                        image.extend_from_slice(text.as_bytes());
                        layout.put_end(image, *field);
                        true
                    }
                    _ => false,
                },
                Way::Other => false,
            };
            if !written {
                let column = *column as usize;
                let value = match source {
                    Source::Parameter(position) => {
                        parameters.get(*position as usize).map(Parameter::value).unwrap_or_default()
                    }
                    Source::Other => other(column),
                };
                if !field.put_as_is(image, value) {
                    layout.encode_one(image, column, convert(column, value)?)?;
                }
            }
        }
        layout.check_length(image)
    }
}
