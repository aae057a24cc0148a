//! Answers of storage to a fragment, kept in the cache: what it answered for a partition stays true as long as the object
//! has that version.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions, StructArray};
use arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::physical_expr_common::physical_expr::is_volatile;
use thermocline_cache::{Access, Claim, PinnedSegment};
use thermocline_pushdown::Fragment;
use thermocline_storage::Content;

use super::loading::Loading;
use crate::query::ScanMetrics;

/// The digest under which the cache has the answers to a fragment, if they may be kept. The same fragment always gives
/// the same answer unless it calls a volatile function.
pub(super) fn answer_digest(fragment: &Fragment, encoded: &Content) -> Option<Arc<str>> {
    let mut is_stable = true;
    for operator in fragment.chain() {
        // The closure never fails.
        _ = operator.apply_expressions(&mut |expression| {
            is_stable &= !is_volatile(expression);
            Ok(TreeNodeRecursion::Continue)
        });
    }
    (is_stable && fragment.reduces()).then(|| encoded.digest().to_string().into())
}

/// The batches of a kept answer, of `schema`.
pub(super) fn batches(
    answer: &PinnedSegment,
    schema: &SchemaRef,
) -> impl Iterator<Item = Result<RecordBatch>> + Send + use<> {
    let (chunks, schema): (Vec<ArrayRef>, _) = (answer.chunks().to_vec(), Arc::clone(schema));
    chunks.into_iter().map(move |chunk| {
        let rows = chunk.as_struct();
        let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&schema), rows.columns().to_vec(), &options)?)
    })
}

/// An answer on its way into the cache, as its batches pass.
#[derive(Default)]
pub(super) struct Keeping {
    /// `None` once it was too large.
    loading: Option<Loading>,
    chunks: Vec<ArrayRef>,
    bytes_max: usize,
}

impl Keeping {
    /// Keeps the answer if it was admitted, nobody else is fetching it, and it takes at most `bytes_max` bytes of memory.
    pub(super) fn new(access: Option<Access>, bytes_max: usize) -> Self {
        let loading = match access {
            Some(Access::Load(share)) => match share.claim() {
                Claim::Load(ticket) => Some(Loading::new(0, ticket, 0)),
                Claim::Wait(_) => None,
            },
            Some(Access::Hit(_) | Access::Decode { .. } | Access::Missing) | None => None,
        };
        Self { loading, chunks: vec![], bytes_max }
    }

    /// Keeps a batch.
    pub(super) fn add(&mut self, batch: &RecordBatch) {
        let Some(loading) = &mut self.loading else { return };
        if batch.num_rows() == 0 {
            return;
        }
        let chunk: ArrayRef = Arc::new(StructArray::from(batch.clone()));
        match loading.add(&chunk) && loading.bytes() <= self.bytes_max {
            true => self.chunks.push(chunk),
            false => (self.loading, self.chunks) = (None, vec![]),
        }
    }

    /// The answer is complete.
    pub(super) fn complete(self, metrics: &ScanMetrics) {
        if let Some(loading) = self.loading {
            let (_, kept) = loading.complete(self.chunks);
            metrics.segments_admitted.add(usize::from(kept));
        }
    }
}
