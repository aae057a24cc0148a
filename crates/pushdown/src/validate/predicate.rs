//! Single predicates, before there is a fragment.

use std::sync::{Arc, LazyLock};

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::execution::TaskContext;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::prelude::SessionContext;

use super::Limits;
use crate::{Fragment, FragmentError};

/// The functions that every storage node has.
static FUNCTIONS: LazyLock<Arc<TaskContext>> = LazyLock::new(|| SessionContext::new().task_ctx());

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
    Fragment::decode(&fragment.encode()?, &FUNCTIONS, limits).map(|_| ())
}
