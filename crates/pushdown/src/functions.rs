//! The functions that plans use beside DataFusion's, on either side of the wire.

use std::sync::{Arc, LazyLock};

use datafusion::execution::TaskContext;
use datafusion::prelude::SessionContext;

use crate::arithmetic::arithmetic_functions;
use crate::as_computed::as_computed;
use crate::exact_sum::exact_sum;
use crate::float_order::float_functions;
use crate::sql::{operator_functions, sql_functions};

/// Makes the product's functions known to `context`; its `sum` takes the place of DataFusion's.
pub fn register_functions(context: &SessionContext) {
    for function in float_functions().iter().chain(arithmetic_functions()).chain(operator_functions()) {
        context.register_udf(function.as_ref().clone());
    }
    for function in sql_functions() {
        context.register_udf(function.as_ref().clone());
    }
    context.register_udf(as_computed().as_ref().clone());
    context.register_udaf(exact_sum());
}

/// All functions of a storage node: what does not decode with them is not sent.
pub fn node_functions() -> &'static Arc<TaskContext> {
    static FUNCTIONS: LazyLock<Arc<TaskContext>> = LazyLock::new(|| {
        let context = SessionContext::new();
        register_functions(&context);
        context.task_ctx()
    });
    &FUNCTIONS
}
