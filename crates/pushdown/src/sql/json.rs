//! Columns of JSON documents.
//!
//! A document is a struct of one field, its canonical text. A column of objects that is declared so is refused, but one
//! that a Parquet object has is taken for documents. DataFusion does not coerce a struct to text, so functions and operators of texts alone refuse documents.

use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{Array, ArrayRef, AsArray, BinaryBuilder, LargeStringArray, StructArray};
use datafusion::arrow::datatypes::{DataType as ArrowType, Field, FieldRef, Fields};
use datafusion::common::{DataFusionError, Result, ScalarValue, exec_err};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility, cast,
};
use thermocline_types::json::{compare, order_key};
use thermocline_types::{self as types, DataType, ValueRef};

use super::column::{Column, apply, array_of};
use super::external;

/// Name of the field.
const FIELD: &str = "jsonb";

static TYPE: LazyLock<ArrowType> =
    LazyLock::new(|| ArrowType::Struct(Fields::from(vec![Field::new(FIELD, ArrowType::LargeUtf8, true)])));

/// The type of columns of documents.
pub(super) fn jsonb_type() -> ArrowType {
    TYPE.clone()
}

/// Whether a type is that of columns of documents.
pub fn is_jsonb(of: &ArrowType) -> bool {
    match of {
        ArrowType::Struct(fields) => match fields.as_ref() {
            [field] => field.name() == FIELD && *field.data_type() == ArrowType::LargeUtf8,
            _ => false,
        },
        _ => false,
    }
}

/// Documents of their canonical texts.
pub fn jsonb_array(texts: LargeStringArray) -> StructArray {
    let nulls = texts.nulls().cloned();
    let ArrowType::Struct(fields) = jsonb_type() else { return StructArray::new_empty_fields(texts.len(), nulls) };
    StructArray::new(fields, vec![Arc::new(texts)], nulls)
}

/// One document of its canonical text.
pub fn jsonb_scalar(text: &str) -> ScalarValue {
    ScalarValue::Struct(Arc::new(jsonb_array(LargeStringArray::from(vec![text]))))
}

/// The texts of documents.
pub(super) fn jsonb_texts(documents: &StructArray) -> Result<LargeStringArray> {
    match documents.columns() {
        [texts] => Ok(texts.as_string::<i64>().clone()),
        _ => exec_err!("documents without texts"),
    }
}

static KEY: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Arc::new(ScalarUDF::from(JsonbFunction::new(Computed::Key))));

static PARSED: LazyLock<Arc<ScalarUDF>> =
    LazyLock::new(|| Arc::new(ScalarUDF::from(JsonbFunction::new(Computed::Parsed))));

pub(super) fn json_functions() -> [&'static Arc<ScalarUDF>; 2] {
    [&KEY, &PARSED]
}

/// Bytes that documents are compared by: equal numbers may be written in several ways.
pub fn jsonb_key(of: Expr) -> Expr {
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(&KEY), vec![of]))
}

/// A value as a document.
pub(super) fn parsed(value: Expr) -> Expr {
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(&PARSED), vec![value]))
}

/// Result of `greatest`, `least` or `nullif` of documents.
pub fn jsonb_choice(choice: JsonbChoice, of: Vec<Expr>) -> Expr {
    let function = JsonbFunction::new(Computed::Chosen(choice));
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(ScalarUDF::from(function)), of))
}

/// A function that chooses among documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum JsonbChoice {
    /// The greatest, the first of equal ones.
    Greatest,
    /// The least, the first of equal ones.
    Least,
    /// The first of two, NULL if they are equal.
    NullIf,
}

impl JsonbChoice {
    /// The choice of this name.
    pub fn named(name: &str) -> Option<Self> {
        [Self::Greatest, Self::Least, Self::NullIf].into_iter().find(|choice| choice.name() == name)
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Greatest => "greatest",
            Self::Least => "least",
            Self::NullIf => "nullif",
        }
    }

    fn choose<'a>(self, one: ValueRef<'a>, other: ValueRef<'a>) -> ValueRef<'a> {
        let order = match (one, other) {
            (ValueRef::Jsonb(one), ValueRef::Jsonb(other)) => compare(one, other),
            (ValueRef::Null, other) if self != Self::NullIf => return other,
            _ => return one,
        };
        match self {
            Self::Greatest if order.is_lt() => other,
            Self::Least if order.is_gt() => other,
            Self::NullIf if order.is_eq() => ValueRef::Null,
            _ => one,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Computed {
    Key,
    /// A cast, which columns and EXPLAIN show.
    Parsed,
    Chosen(JsonbChoice),
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct JsonbFunction {
    computed: Computed,
    signature: Signature,
}

impl JsonbFunction {
    fn new(computed: Computed) -> Self {
        let signature = match computed {
            Computed::Chosen(_) => Signature::variadic_any(Volatility::Immutable),
            _ => Signature::any(1, Volatility::Immutable),
        };
        Self { computed, signature }
    }

    fn shown(&self, arguments: &[Expr], cast_name: fn(&Expr) -> String) -> Result<String> {
        match (self.computed, arguments) {
            (Computed::Parsed, [value]) => Ok(cast_name(&cast(value.clone(), jsonb_type()))),
            (Computed::Key | Computed::Chosen(_), values) => {
                let values: Vec<String> = values.iter().map(cast_name).collect();
                Ok(format!("{}({})", self.name(), values.join(",")))
            }
            (_, arguments) => exec_err!("{} takes one argument, not {}", self.name(), arguments.len()),
        }
    }
}

impl ScalarUDFImpl for JsonbFunction {
    fn name(&self) -> &str {
        match self.computed {
            Computed::Key => "sql_jsonb_key",
            Computed::Parsed => "sql_jsonb",
            Computed::Chosen(choice) => choice.name(),
        }
    }

    fn display_name(&self, arguments: &[Expr]) -> Result<String> {
        self.shown(arguments, Expr::to_string)
    }

    fn schema_name(&self, arguments: &[Expr]) -> Result<String> {
        self.shown(arguments, |value| value.schema_name().to_string())
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[ArrowType]) -> Result<ArrowType> {
        Ok(match self.computed {
            Computed::Key => ArrowType::Binary,
            Computed::Parsed | Computed::Chosen(_) => jsonb_type(),
        })
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs) -> Result<FieldRef> {
        let nullable = arguments.arg_fields.iter().any(|field| field.is_nullable())
            || self.computed == Computed::Chosen(JsonbChoice::NullIf);
        Ok(Arc::new(Field::new(self.name(), self.return_type(&[])?, nullable)))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match (self.computed, arguments.args.as_slice()) {
            (Computed::Chosen(choice), _) => chosen(choice, &arguments),
            (Computed::Key, [of]) => apply(of, keys),
            (Computed::Parsed, [of]) => apply(of, |array| {
                let column = Column::new(array)?;
                array_of(&jsonb_type(), array.len(), |row| {
                    types::cast(column.value(row)?, DataType::Jsonb).map_err(external)
                })
            }),
            (_, arguments) => exec_err!("{} takes one argument, not {}", self.name(), arguments.len()),
        }
    }
}

fn chosen(choice: JsonbChoice, arguments: &ScalarFunctionArgs) -> Result<ColumnarValue> {
    let arrays = ColumnarValue::values_to_arrays(&arguments.args)?;
    let columns = arrays.iter().map(Column::new).collect::<Result<Vec<_>>>()?;
    let rows = arrays.first().map_or(arguments.number_rows, |array| array.len());
    let array = array_of(&jsonb_type(), rows, |row| {
        let mut values = columns.iter().map(|column| column.value(row));
        let first = values.next().transpose()?.unwrap_or(ValueRef::Null);
        let value = values.try_fold(first, |best, next| Ok::<_, DataFusionError>(choice.choose(best, next?)))?;
        Ok(value.to_value())
    })?;
    Ok(ColumnarValue::Array(array))
}

fn keys(array: &ArrayRef) -> Result<ArrayRef> {
    let column = Column::new(array)?;
    let mut keys = BinaryBuilder::new();
    for row in 0..array.len() {
        match column.value(row)? {
            ValueRef::Jsonb(document) => keys.append_value(order_key(document)),
            ValueRef::Null => keys.append_null(),
            other => return exec_err!("{other} is no document"),
        }
    }
    Ok(Arc::new(keys.finish()))
}

#[cfg(test)]
mod tests {
    use super::super::{arrow_type, sql_type};
    use super::*;

    #[test]
    fn documents_are_a_type_of_their_own() {
        let of = arrow_type(DataType::Jsonb).unwrap();
        assert_eq!(sql_type(&of), Some(DataType::Jsonb));
        let view = Fields::from(vec![Field::new(FIELD, ArrowType::Utf8View, true)]);
        assert_eq!(sql_type(&ArrowType::Struct(view)), None);
    }

    #[test]
    fn arrays_have_documents_and_nulls() {
        let texts = LargeStringArray::from(vec![Some("{\"a\": 1}"), None]);
        let array: ArrayRef = Arc::new(jsonb_array(texts));
        let column = Column::new(&array).unwrap();
        assert_eq!(column.value(0).unwrap(), ValueRef::Jsonb("{\"a\": 1}"));
        assert_eq!(column.value(1).unwrap(), ValueRef::Null);
        assert!(keys(&array).unwrap().is_null(1));
    }
}
