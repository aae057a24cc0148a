//! Single predicates, before there is a fragment.

use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::physical_expr::PhysicalExpr;

use crate::{Fragment, FragmentError, Limits, node_functions};

/// Checks whether a filter over `columns` may run at storage.
///
/// # Errors
/// [`FragmentError::Refused`] with the reason.
pub fn check_predicate(
    predicate: &Arc<dyn PhysicalExpr>,
    columns: &SchemaRef,
    limits: &Limits,
) -> Result<(), FragmentError> {
    let fragment = Fragment::scan(Arc::clone(columns)).with_filter_below(Arc::clone(predicate))?;
    Fragment::decode(&fragment.encode()?, node_functions(), limits).map(|_| ())
}
