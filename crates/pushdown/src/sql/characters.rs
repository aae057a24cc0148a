//! Bytes as text of one character for each, and back, so that what is defined on characters serves bytes, too.

use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{ArrayRef, BinaryBuilder, StringBuilder};
use datafusion::arrow::datatypes::DataType as ArrowType;
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use thermocline_types::ValueRef;

use super::column::Column;

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
        match arguments.args.as_slice() {
            [ColumnarValue::Array(array)] => Ok(ColumnarValue::Array(self.converted(array)?)),
            [ColumnarValue::Scalar(value)] => {
                let one = self.converted(&value.to_array()?)?;
                Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&one, 0)?))
            }
            arguments => exec_err!("{} takes one argument, not {}", self.name(), arguments.len()),
        }
    }
}

impl Characters {
    fn converted(&self, array: &ArrayRef) -> Result<ArrayRef> {
        let column = Column::new(array)?;
        let (mut texts, mut bytes) = (StringBuilder::new(), BinaryBuilder::new());
        for row in 0..array.len() {
            match (column.value(row)?, self.is_of_bytes) {
                (ValueRef::Bytes(value), true) => {
                    texts.append_value(value.iter().copied().map(char::from).collect::<String>());
                }
                (ValueRef::Text(value), false) => match value.chars().map(u8::try_from).collect::<Result<Vec<u8>, _>>()
                {
                    Ok(value) => bytes.append_value(value),
                    Err(_) => return exec_err!("{}: a character is no byte", self.name()),
                },
                (ValueRef::Null, true) => texts.append_null(),
                (ValueRef::Null, false) => bytes.append_null(),
                _ => return exec_err!("{} does not take {}", self.name(), array.data_type()),
            }
        }
        Ok(if self.is_of_bytes { Arc::new(texts.finish()) } else { Arc::new(bytes.finish()) })
    }
}
