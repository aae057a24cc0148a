//! Bytes as text of one character for each, and back, so that what is defined on characters serves bytes, too.

use std::sync::{Arc, LazyLock};

use datafusion::arrow::datatypes::DataType as ArrowType;
use datafusion::common::{Result, exec_err};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use thermocline_types::{self as types, Value, ValueRef};

use super::column::{Column, apply, array_of};

static FUNCTIONS: LazyLock<[Arc<ScalarUDF>; 2]> = LazyLock::new(|| {
    [true, false].map(|is_of_bytes| {
        let signature = Signature::any(1, Volatility::Immutable);
        Arc::new(ScalarUDF::from(Characters { is_of_bytes, signature }))
    })
});

pub(super) fn character_functions() -> &'static [Arc<ScalarUDF>] {
    FUNCTIONS.as_slice()
}

/// Text with the character of each byte's number.
pub fn characters_of_bytes(bytes: Expr) -> Expr {
    let [of_bytes, _] = &*FUNCTIONS;
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(of_bytes), vec![bytes]))
}

/// The bytes of [`characters_of_bytes`].
pub fn bytes_of_characters(characters: Expr) -> Expr {
    let [_, of_characters] = &*FUNCTIONS;
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(of_characters), vec![characters]))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Characters {
    /// Bytes become text; otherwise text becomes bytes.
    is_of_bytes: bool,
    signature: Signature,
}

impl ScalarUDFImpl for Characters {
    fn name(&self) -> &str {
        if self.is_of_bytes { "sql_characters_of_bytes" } else { "sql_bytes_of_characters" }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[ArrowType]) -> Result<ArrowType> {
        Ok(if self.is_of_bytes { ArrowType::Utf8 } else { ArrowType::Binary })
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [value] = arguments.args.as_slice() else {
            return exec_err!("{} takes one argument, not {}", self.name(), arguments.args.len());
        };
        apply(value, |array| {
            let column = Column::new(array)?;
            array_of(arguments.return_field.data_type(), array.len(), |row| self.converted(column.value(row)?))
        })
    }
}

impl Characters {
    fn converted(&self, value: ValueRef<'_>) -> Result<Value> {
        match (value, self.is_of_bytes) {
            (ValueRef::Null, _) => Ok(Value::Null),
            (ValueRef::Bytes(bytes), true) => Ok(types::characters_of_bytes(bytes).into()),
            (ValueRef::Text(text), false) => match types::bytes_of_characters(text) {
                Some(bytes) => Ok(Value::Bytes(bytes)),
                None => exec_err!("{}: a character is no byte", self.name()),
            },
            (value, _) => exec_err!("{} does not take {value:?}", self.name()),
        }
    }
}
