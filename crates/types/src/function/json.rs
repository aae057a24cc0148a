//! Functions and operators of JSON documents.

use super::{Call, Function};
use crate::error::{Class, Result};
use crate::json::{array_length, at_path, contains, element, field, has_key, kind_name, steps_of, text_of};
use crate::{DataType, Value, ValueRef};

/// An operator of documents that stands for a [`Function`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JsonOperator {
    /// `->`
    Part,
    /// `->>`
    PartText,
    /// `#>`
    Path,
    /// `#>>`
    PathText,
    /// `@>`
    Contains,
    /// `<@`
    Contained,
    /// `?`
    Exists,
    /// `?|`
    ExistsAny,
    /// `?&`
    ExistsAll,
}

impl JsonOperator {
    /// As SQL writes it.
    pub const fn symbol(self) -> &'static str {
        match self {
            Self::Part => "->",
            Self::PartText => "->>",
            Self::Path => "#>",
            Self::PathText => "#>>",
            Self::Contains => "@>",
            Self::Contained => "<@",
            Self::Exists => "?",
            Self::ExistsAny => "?|",
            Self::ExistsAll => "?&",
        }
    }

    /// Function for operands of these types; the type of a string literal, a parameter or NULL is `None`.
    ///
    /// # Errors
    /// If there is no such operator (42883), or several match, one of them on the type JSON (42725).
    pub fn resolve(self, left: Option<DataType>, right: Option<DataType>) -> Result<Function> {
        let written = || {
            let name = |of: Option<DataType>| of.map_or_else(|| "unknown".to_owned(), |of| of.to_string());
            format!("{} {} {}", name(left), self.symbol(), name(right))
        };
        let is_place = matches!(right, Some(DataType::SmallInt | DataType::Integer));
        let function = match self {
            Self::Part if is_place => Function::JsonElement,
            Self::Part => Function::JsonField,
            Self::PartText if is_place => Function::JsonElementText,
            Self::PartText => Function::JsonFieldText,
            Self::Path => Function::JsonPathArray,
            Self::PathText => Function::JsonPathArrayText,
            Self::Contains => Function::JsonContains,
            Self::Contained => Function::JsonContained,
            Self::Exists => Function::JsonExists,
            Self::ExistsAny => Function::JsonExistsAny,
            Self::ExistsAll => Function::JsonExistsAll,
        };
        if resolve(function, &[left, right]).is_none() {
            return Err(Class::UndefinedFunction.error(format_args!("operator does not exist: {}", written())));
        }
        let is_of_documents = match self {
            Self::Contains | Self::Contained => left.or(right).is_some(),
            Self::Exists | Self::ExistsAny | Self::ExistsAll => true,
            _ => left.is_some(),
        };
        match is_of_documents {
            true => Ok(function),
            false => Err(Class::AmbiguousFunction.error(format_args!("operator is not unique: {}", written()))),
        }
    }
}

/// The function with arguments of these types; `None` if there is none.
pub(super) fn resolve(function: Function, arguments: &[Option<DataType>]) -> Option<Call> {
    use DataType::{Boolean, Integer, Jsonb, SmallInt, Text};
    use Function as F;
    let (first, others) = arguments.split_first()?;
    if first.is_some_and(|first| first != Jsonb) {
        return None;
    }
    let others_are = |of: fn(DataType) -> bool| others.iter().flatten().all(|other| of(*other));
    // There are no arrays of text, only their literals.
    let are_literals = others.iter().all(Option::is_none);
    let (others_are_right, other, result) = match function {
        F::JsonField => (others_are(DataType::is_text), Text, Jsonb),
        F::JsonFieldText => (others_are(DataType::is_text), Text, Text),
        F::JsonElement => (others_are(|of| matches!(of, SmallInt | Integer)), Integer, Jsonb),
        F::JsonElementText => (others_are(|of| matches!(of, SmallInt | Integer)), Integer, Text),
        F::JsonPath => (others_are(DataType::is_text), Text, Jsonb),
        F::JsonPathText => (others_are(DataType::is_text), Text, Text),
        F::JsonPathArray => (are_literals, Text, Jsonb),
        F::JsonPathArrayText => (are_literals, Text, Text),
        F::JsonContains | F::JsonContained => (others_are(|of| of == Jsonb), Jsonb, Boolean),
        F::JsonExists => (others_are(DataType::is_text), Text, Boolean),
        F::JsonExistsAny | F::JsonExistsAll => (are_literals, Text, Boolean),
        F::JsonTypeof => (true, Text, Text),
        F::JsonLength => (true, Text, Integer),
        _ => return None,
    };
    let types = std::iter::once(Jsonb).chain(others.iter().map(|_| other)).collect();
    others_are_right.then_some(Call { function, arguments: types, result })
}

pub(super) fn call(function: Function, arguments: &[ValueRef<'_>]) -> Result<Value> {
    use Function as F;
    use ValueRef as V;
    let [V::Jsonb(document), others @ ..] = arguments else { return Err(function.not_of(arguments)) };
    let part = |found: Option<&str>| found.map_or(Value::Null, |found| Value::Jsonb(found.into()));
    let text = |found: Option<&str>| found.and_then(text_of).map_or(Value::Null, |text| Value::Text(text.into()));
    let texts = || others.iter().map(|other| if let V::Text(text) = other { text } else { "" });
    Ok(match (function, others) {
        (F::JsonField, [V::Text(key)]) => part(field(document, key)),
        (F::JsonFieldText, [V::Text(key)]) => text(field(document, key)),
        (F::JsonElement, [V::Int(place)]) => part(element(document, *place)),
        (F::JsonElementText, [V::Int(place)]) => text(element(document, *place)),
        (F::JsonPath, [_, ..]) => part(at_path(document, texts())),
        (F::JsonPathText, [_, ..]) => text(at_path(document, texts())),
        (F::JsonPathArray, [V::Text(path)]) => part(at_steps(document, path)?),
        (F::JsonPathArrayText, [V::Text(path)]) => text(at_steps(document, path)?),
        (F::JsonContains, [V::Jsonb(other)]) => contains(document, other)?.into(),
        (F::JsonContained, [V::Jsonb(other)]) => contains(other, document)?.into(),
        (F::JsonExists, [V::Text(key)]) => has_key(document, key).into(),
        (F::JsonExistsAny, [V::Text(keys)]) => {
            steps_of(keys)?.iter().flatten().any(|key| has_key(document, key)).into()
        }
        (F::JsonExistsAll, [V::Text(keys)]) => {
            steps_of(keys)?.iter().flatten().all(|key| has_key(document, key)).into()
        }
        (F::JsonTypeof, []) => kind_name(document).into(),
        (F::JsonLength, []) => Value::Int(i64::try_from(array_length(document)?).unwrap_or(i64::MAX)),
        _ => return Err(function.not_of(arguments)),
    })
}

/// Part of a document at the end of a path that is written as an array; `None` if a step is NULL.
fn at_steps<'a>(document: &'a str, path: &str) -> Result<Option<&'a str>> {
    let steps: Option<Vec<String>> = steps_of(path)?.into_iter().collect();
    Ok(steps.and_then(|steps| at_path(document, steps)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_are_functions_of_documents() {
        use DataType::{BigInt, Integer, Jsonb, Text};
        for (left, operator, right, function) in [
            (Some(Jsonb), JsonOperator::Part, None, Ok(Function::JsonField)),
            (Some(Jsonb), JsonOperator::Part, Some(Integer), Ok(Function::JsonElement)),
            (Some(Jsonb), JsonOperator::PartText, Some(Text), Ok(Function::JsonFieldText)),
            (Some(Jsonb), JsonOperator::Part, Some(BigInt), Err("42883")),
            (Some(Text), JsonOperator::Part, None, Err("42883")),
            (None, JsonOperator::Part, None, Err("42725")),
            (Some(Jsonb), JsonOperator::Path, None, Ok(Function::JsonPathArray)),
            (Some(Jsonb), JsonOperator::Path, Some(Text), Err("42883")),
            (None, JsonOperator::Contains, Some(Jsonb), Ok(Function::JsonContains)),
            (None, JsonOperator::Contained, None, Err("42725")),
            (None, JsonOperator::Exists, None, Ok(Function::JsonExists)),
        ] {
            let found = operator.resolve(left, right);
            assert_eq!(found.map_err(|error| error.sqlstate().to_owned()), function.map_err(str::to_owned));
        }
    }

    #[test]
    fn a_path_with_null_leads_nowhere() {
        let document = ValueRef::Jsonb("{\"a\": [null, \"x\"]}");
        let of = |function: Function, path: &str| function.call(&[document, ValueRef::Text(path)]).unwrap();
        assert_eq!(of(Function::JsonPathArrayText, "{a,1}"), "x".into());
        assert_eq!(of(Function::JsonPathArrayText, "{a,0}"), Value::Null);
        assert_eq!(of(Function::JsonPathArray, "{a,0}"), Value::Jsonb("null".into()));
        assert_eq!(of(Function::JsonPathArray, "{a,NULL}"), Value::Null);
        assert_eq!(of(Function::JsonExistsAny, "{b,NULL,a}"), true.into());
        assert_eq!(of(Function::JsonExistsAll, "{b,a}"), false.into());
    }
}
