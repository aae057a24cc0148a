//! Order key of intervals.

use std::sync::{Arc, LazyLock};

use datafusion::arrow::datatypes::{DECIMAL128_MAX_PRECISION, DataType as ArrowType, IntervalUnit};
use datafusion::common::{Result, exec_err};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use thermocline_types::{Decimal, Value, ValueRef};

use super::column::{Column, apply, array_of};
use super::external;

static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
    let of = ArrowType::Interval(IntervalUnit::MonthDayNano);
    Arc::new(ScalarUDF::from(IntervalLength { signature: Signature::exact(vec![of], Volatility::Immutable) }))
});

pub(super) fn interval_function() -> &'static Arc<ScalarUDF> {
    &FUNCTION
}

/// The length of an interval in microseconds, which orders intervals as SQL does: Arrow has a month shorter than 40
/// days, and not the same as 30.
pub fn interval_length(of: Expr) -> Expr {
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(&FUNCTION), vec![of]))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct IntervalLength {
    signature: Signature,
}

impl ScalarUDFImpl for IntervalLength {
    fn name(&self) -> &str {
        "sql_interval_length"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[ArrowType]) -> Result<ArrowType> {
        Ok(ArrowType::Decimal128(DECIMAL128_MAX_PRECISION, 0))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [of] = arguments.args.as_slice() else {
            return exec_err!("{} takes one argument, not {}", self.name(), arguments.args.len());
        };
        apply(of, |array| {
            let column = Column::new(array)?;
            array_of(arguments.return_field.data_type(), array.len(), |row| match column.value(row)? {
                ValueRef::Interval(span) => Decimal::new(span.length(), 0).map(Value::from).map_err(external),
                _ => Ok(Value::Null),
            })
        })
    }
}
