//! A function that is its argument.

use std::sync::{Arc, LazyLock};

use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{Result, exec_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

/// Name of the function.
pub(crate) const AS_COMPUTED: &str = "as_computed";

/// The function that yields its argument, so that a cast in it is no side of a comparison, from which the optimizer
/// would unwrap it. Constants and parts of the argument are simplified as anywhere else. Columns and
/// EXPLAIN of logical plans show the argument alone.
pub fn as_computed() -> Arc<ScalarUDF> {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
        let function = AsComputed { signature: Signature::any(1, Volatility::Immutable) };
        Arc::new(ScalarUDF::from(function))
    });
    Arc::clone(&FUNCTION)
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct AsComputed {
    signature: Signature,
}

impl ScalarUDFImpl for AsComputed {
    fn name(&self) -> &str {
        AS_COMPUTED
    }

    fn schema_name(&self, arguments: &[Expr]) -> Result<String> {
        match arguments {
            [argument] => Ok(argument.schema_name().to_string()),
            arguments => exec_err!("{AS_COMPUTED} takes one argument, not {}", arguments.len()),
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        match arguments {
            [argument] => Ok(argument.clone()),
            arguments => exec_err!("{AS_COMPUTED} takes one argument, not {}", arguments.len()),
        }
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs) -> Result<FieldRef> {
        match arguments.arg_fields {
            [argument] => Ok(Arc::clone(argument)),
            arguments => exec_err!("{AS_COMPUTED} takes one argument, not {}", arguments.len()),
        }
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match arguments.args.as_slice() {
            [argument] => Ok(argument.clone()),
            arguments => exec_err!("{AS_COMPUTED} takes one argument, not {}", arguments.len()),
        }
    }
}
