//! The functions that plans use beside DataFusion's, on either side of the wire.

use datafusion::prelude::SessionContext;

use crate::arithmetic::arithmetic_functions;
use crate::exact_sum::exact_sum;
use crate::float_order::float_functions;

/// Makes the product's functions known to `context`; its `sum` takes the place of DataFusion's.
pub fn register_functions(context: &SessionContext) {
    for function in float_functions().iter().chain(&arithmetic_functions()) {
        context.register_udf(function.as_ref().clone());
    }
    context.register_udaf(exact_sum());
}
