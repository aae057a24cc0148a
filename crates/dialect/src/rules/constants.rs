//! Functions without arguments that say where a statement runs: `version()`, `current_database()` and the like.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};

/// A function of a constant text.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Constant {
    name: &'static str,
    aliases: Vec<String>,
    text: Arc<str>,
    signature: Signature,
}

impl Constant {
    /// The function `name`, also called by each of `aliases`, which returns `text`.
    pub fn new(name: &'static str, aliases: &[&str], text: impl Into<Arc<str>>) -> Self {
        let aliases = aliases.iter().map(|&alias| alias.to_owned()).collect();
        Self { name, aliases, text: text.into(), signature: Signature::nullary(Volatility::Stable) }
    }
}

impl ScalarUDFImpl for Constant {
    fn name(&self) -> &str {
        self.name
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8View)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if !arguments.args.is_empty() {
            return exec_err!("{} takes no arguments", self.name);
        }
        Ok(ColumnarValue::Scalar(ScalarValue::Utf8View(Some(self.text.to_string()))))
    }
}
