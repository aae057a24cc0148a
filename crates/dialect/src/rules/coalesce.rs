//! `coalesce` of BYTEA and JSONB.

use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::Result;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::functions::core::coalesce::CoalesceFunc;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature};
use thermocline_pushdown::{external, is_jsonb};
use thermocline_types::Class;

/// Argument types if one is JSONB: all JSONB; `None` if none is, or one cannot become JSONB. Text here is a literal:
/// the type checks reject other texts.
pub(super) fn all_documents(types: &[DataType]) -> Option<Vec<DataType>> {
    let document = types.iter().find(|of| is_jsonb(of))?;
    let fits = |of: &DataType| is_jsonb(of) || of.is_null() || *of == DataType::Utf8;
    types.iter().all(fits).then(|| vec![document.clone(); types.len()])
}

/// Limit on expression parts in the arguments of one call.
const PARTS_MAX: u32 = 20_000;

/// `coalesce` with a common type for a bytes column, which is a view, a literal such as `X'00'` or `'\\x00'`, and NULL;
/// DataFusion's finds none.
#[derive(Debug, Default, PartialEq, Eq, Hash)]
pub struct Coalesce(CoalesceFunc);

impl ScalarUDFImpl for Coalesce {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn signature(&self) -> &Signature {
        self.0.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.0.return_type(types)
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        self.0.return_field_from_args(arguments)
    }

    fn simplify(&self, arguments: Vec<Expr>, context: &SimplifyContext) -> Result<ExprSimplifyResult> {
        // `coalesce` becomes a CASE that contains each argument twice.
        let mut parts = 0_u32;
        for argument in &arguments {
            argument.apply(|_| {
                parts += 1;
                Ok(if parts > PARTS_MAX { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
            })?;
        }
        if parts > PARTS_MAX {
            let message = "COALESCE within COALESCE, whose arguments are evaluated too often";
            return Err(external(Class::TooDeep.error(message)));
        }
        self.0.simplify(arguments, context)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        self.0.invoke_with_args(arguments)
    }

    fn conditional_arguments<'a>(&self, arguments: &'a [Expr]) -> Option<(Vec<&'a Expr>, Vec<&'a Expr>)> {
        self.0.conditional_arguments(arguments)
    }

    fn short_circuits(&self) -> bool {
        self.0.short_circuits()
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let is_view = |of: &DataType| matches!(of, DataType::BinaryView);
        // Text beside bytes is a literal: the type checks reject other texts.
        let is_bytes = |of: &DataType| of.is_binary() || of.is_null() || *of == DataType::Utf8;
        if let Some(documents) = all_documents(types) {
            return Ok(documents);
        }
        let is_mixed = types.iter().any(|of| is_view(of) || of.is_null()) || types.contains(&DataType::Utf8);
        match types.iter().any(DataType::is_binary) && is_mixed && types.iter().all(is_bytes) {
            true => Ok(vec![DataType::BinaryView; types.len()]),
            false => self.0.coerce_types(types),
        }
    }
}
