//! `gen_random_uuid`.

use std::sync::Arc;

use arrow::array::FixedSizeBinaryBuilder;
use arrow::datatypes::DataType;
use datafusion::common::{Result, exec_err};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};
use thermocline_pushdown::UUID_WIDTH;
use thermocline_types::random_uuid;

/// A random UUID (version 4) for each row. DataFusion's name, `uuid`, is an alias.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct RandomUuids {
    signature: Signature,
    aliases: [String; 1],
}

impl Default for RandomUuids {
    fn default() -> Self {
        Self { signature: Signature::nullary(Volatility::Volatile), aliases: ["uuid".to_owned()] }
    }
}

impl ScalarUDFImpl for RandomUuids {
    fn name(&self) -> &str {
        "gen_random_uuid"
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::FixedSizeBinary(UUID_WIDTH))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if !arguments.args.is_empty() {
            return exec_err!("{} takes no arguments", self.name());
        }
        let mut uuids = FixedSizeBinaryBuilder::with_capacity(arguments.number_rows, UUID_WIDTH);
        for _ in 0..arguments.number_rows {
            uuids.append_value(random_uuid(rand::random()))?;
        }
        Ok(ColumnarValue::Array(Arc::new(uuids.finish())))
    }
}
