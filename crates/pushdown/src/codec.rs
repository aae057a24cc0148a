//! How a fragment's own parts travel inside a DataFusion physical plan.

use std::sync::Arc;

use datafusion::arrow::datatypes::Schema;
use datafusion::common::{DataFusionError, Result, not_impl_err};
use datafusion::execution::TaskContext;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr_common::physical_expr::proto_decode::PhysicalExprDecodeCtx;
use datafusion::physical_expr_common::physical_expr::proto_encode::PhysicalExprEncodeCtx;
use datafusion::physical_plan::ExecutionPlan;
use datafusion_proto::physical_plan::{PhysicalExtensionCodec, PhysicalProtoConverterExtension};
use datafusion_proto::protobuf;
use prost::Message;

use crate::{BloomFilterExpr, FragmentInputExec};

/// Encodes [`FragmentInputExec`] as the protobuf schema of its columns and [`BloomFilterExpr`] as its
/// bits; refuses every other extension, so that nothing foreign can enter a storage node.
#[derive(Debug, Default)]
pub struct FragmentCodec;

impl PhysicalExtensionCodec for FragmentCodec {
    fn try_decode(
        &self,
        buf: &[u8],
        inputs: &[Arc<dyn ExecutionPlan>],
        _: &TaskContext,
        _: &dyn PhysicalProtoConverterExtension,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if !inputs.is_empty() {
            return not_impl_err!("an extension operator with inputs is not part of a fragment");
        }
        let schema = protobuf::Schema::decode(buf)
            .map_err(|error| DataFusionError::Plan(format!("a fragment's column list does not decode: {error}")))?;
        let schema = Schema::try_from(&schema)?;
        Ok(Arc::new(FragmentInputExec::new(Arc::new(schema))))
    }

    fn try_encode(
        &self,
        node: Arc<dyn ExecutionPlan>,
        buf: &mut Vec<u8>,
        _: &dyn PhysicalProtoConverterExtension,
    ) -> Result<()> {
        if node.downcast_ref::<FragmentInputExec>().is_none() {
            return not_impl_err!("operator {} is not part of a fragment", node.name());
        }
        let schema = protobuf::Schema::try_from(node.schema().as_ref())?;
        buf.extend_from_slice(&schema.encode_to_vec());
        Ok(())
    }

    fn try_decode_expr(
        &self,
        buf: &[u8],
        inputs: &[Arc<dyn PhysicalExpr>],
        context: &PhysicalExprDecodeCtx<'_>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        Ok(Arc::new(BloomFilterExpr::decode(buf, inputs, context.schema())?))
    }

    fn try_encode_expr(
        &self,
        node: &Arc<dyn PhysicalExpr>,
        buf: &mut Vec<u8>,
        _: &PhysicalExprEncodeCtx<'_>,
    ) -> Result<()> {
        let Some(bloom) = node.downcast_ref::<BloomFilterExpr>() else {
            return not_impl_err!("expression {node} is not part of a fragment");
        };
        buf.extend_from_slice(&bloom.encode()?);
        Ok(())
    }
}
