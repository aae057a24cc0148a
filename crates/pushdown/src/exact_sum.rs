//! `sum` of integers and decimals that errs where DataFusion's wraps around.

use std::marker::PhantomData;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, PrimitiveArray};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::datatypes::{
    DECIMAL128_MAX_PRECISION, DataType, Decimal128Type, DecimalType, Field, FieldRef, Int64Type, UInt64Type,
};
use datafusion::common::{DataFusionError, Result, ScalarValue, exec_err, internal_err};
use datafusion::functions_aggregate::sum::Sum;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::{AggregateOrderSensitivity, format_state_name};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Documentation, EmitTo, GroupsAccumulator, ReversedUDAF, Signature,
};
use datafusion::physical_expr::NullState;
use thermocline_types::Class;

use crate::sql::external;

/// DataFusion's `sum`, except that sums of integers and decimals are taken in 128 bits and are an error
/// if their type does not hold them. What partial sums pass on is these 128 bits, so that no order of
/// rows, division into partitions or route decides whether a sum that fits is found.
pub fn exact_sum() -> AggregateUDF {
    AggregateUDF::from(ExactSum::default())
}

#[derive(Debug, Default, PartialEq, Eq, Hash)]
struct ExactSum {
    inner: Sum,
}

/// Whether sums of this result type are taken in 128 bits.
fn is_exact(result: &DataType) -> bool {
    matches!(result, DataType::Int64 | DataType::UInt64 | DataType::Decimal128(..))
}

/// The scale of a partial sum, which is a decimal of all digits that there are.
fn state_scale(result: &DataType) -> i8 {
    match result {
        DataType::Decimal128(_, scale) => *scale,
        _ => 0,
    }
}

/// The type of a partial sum.
fn state_type(result: &DataType) -> DataType {
    DataType::Decimal128(DECIMAL128_MAX_PRECISION, state_scale(result))
}

/// The error of a sum that its type does not hold.
fn out_of_range(result: &DataType) -> DataFusionError {
    let (name, wider) = match result {
        DataType::Int64 => ("BIGINT".to_owned(), "; the sum of a CAST to DECIMAL(38, 0) has room for it"),
        DataType::UInt64 => ("BIGINT UNSIGNED".to_owned(), "; the sum of a CAST to DECIMAL(38, 0) has room for it"),
        DataType::Decimal128(precision, scale) => (format!("DECIMAL({precision}, {scale})"), ""),
        other => (other.to_string(), ""),
    };
    external(Class::OutOfRange.error(format_args!("sum out of range for {name}{wider}")))
}

/// Sums as an array of the result type. Where `nulls` has no value, the sum is 0.
fn finished(sums: Vec<i128>, nulls: Option<NullBuffer>, result: &DataType) -> Result<ArrayRef> {
    let beyond = |_| out_of_range(result);
    Ok(match result {
        DataType::Int64 => {
            let sums = sums.into_iter().map(i64::try_from).collect::<Result<Vec<_>, _>>().map_err(beyond)?;
            Arc::new(PrimitiveArray::<Int64Type>::new(sums.into(), nulls))
        }
        DataType::UInt64 => {
            let sums = sums.into_iter().map(u64::try_from).collect::<Result<Vec<_>, _>>().map_err(beyond)?;
            Arc::new(PrimitiveArray::<UInt64Type>::new(sums.into(), nulls))
        }
        DataType::Decimal128(precision, _) => {
            if !sums.iter().all(|sum| Decimal128Type::is_valid_decimal_precision(*sum, *precision)) {
                return Err(out_of_range(result));
            }
            Arc::new(PrimitiveArray::<Decimal128Type>::new(sums.into(), nulls).with_data_type(result.clone()))
        }
        other => return internal_err!("no sums of 128 bits are {other}"),
    })
}

/// Makes `$make::<T>` for the type of a sum's arguments.
macro_rules! of_argument {
    ($arguments:expr, $make:ident) => {
        match $arguments.return_field.data_type() {
            result @ DataType::Int64 => Ok(Box::new($make::<Int64Type>::new(result))),
            result @ DataType::UInt64 => Ok(Box::new($make::<UInt64Type>::new(result))),
            result @ DataType::Decimal128(..) => Ok(Box::new($make::<Decimal128Type>::new(result))),
            other => internal_err!("no sums of 128 bits are {other}"),
        }
    };
}

impl AggregateUDFImpl for ExactSum {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        match arguments {
            [_] => self.inner.return_type(arguments),
            arguments => exec_err!("sum takes one argument, not {}", arguments.len()),
        }
    }

    fn accumulator(&self, arguments: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        if !is_exact(arguments.return_field.data_type()) {
            return self.inner.accumulator(arguments);
        }
        if arguments.is_distinct {
            let result = arguments.return_field.data_type().clone();
            return Ok(Box::new(DistinctSum { result, values: self.inner.accumulator(arguments)? }));
        }
        of_argument!(arguments, RunningSum)
    }

    fn state_fields(&self, arguments: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        if arguments.is_distinct || !is_exact(arguments.return_type()) {
            return self.inner.state_fields(arguments);
        }
        let name = format_state_name(arguments.name, "sum");
        Ok(vec![Arc::new(Field::new(name, state_type(arguments.return_type()), true))])
    }

    fn groups_accumulator_supported(&self, arguments: AccumulatorArgs) -> bool {
        self.inner.groups_accumulator_supported(arguments)
    }

    fn create_groups_accumulator(&self, arguments: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        if !is_exact(arguments.return_field.data_type()) {
            return self.inner.create_groups_accumulator(arguments);
        }
        of_argument!(arguments, GroupSums)
    }

    fn create_sliding_accumulator(&self, arguments: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        if !is_exact(arguments.return_field.data_type()) {
            return self.inner.create_sliding_accumulator(arguments);
        }
        if arguments.is_distinct {
            let result = arguments.return_field.data_type().clone();
            let values = self.inner.create_sliding_accumulator(arguments)?;
            return Ok(Box::new(DistinctSum { result, values }));
        }
        of_argument!(arguments, RunningSum)
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        self.inner.reverse_expr()
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        self.inner.order_sensitivity()
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }
}

/// The sum of all rows, or of those in a window's frame.
#[derive(Debug)]
struct RunningSum<T> {
    sum: i128,
    /// Values that are not null.
    values: usize,
    result: DataType,
    argument: PhantomData<fn(T)>,
}

impl<T> RunningSum<T> {
    fn new(result: &DataType) -> Self {
        Self { sum: 0, values: 0, result: result.clone(), argument: PhantomData }
    }
}

/// The one array that a sum is of.
fn only(arrays: &[ArrayRef]) -> Result<&ArrayRef> {
    match arrays {
        [array] => Ok(array),
        arrays => internal_err!("sum takes one array, not {}", arrays.len()),
    }
}

/// The sum of the values that are not null; `None` beyond 128 bits.
fn sum_of<T: ArrowPrimitiveType<Native: Into<i128>> + Send>(array: &PrimitiveArray<T>) -> Option<i128> {
    let mut beyond = false;
    let mut sum = 0_i128;
    let mut add = |value: T::Native| {
        let (next, overflows) = sum.overflowing_add(value.into());
        sum = next;
        beyond |= overflows;
    };
    match array.null_count() {
        0 => array.values().iter().copied().for_each(&mut add),
        _ => array.iter().flatten().for_each(&mut add),
    }
    (!beyond).then_some(sum)
}

impl<T> RunningSum<T> {
    fn add<U: ArrowPrimitiveType<Native: Into<i128>> + Send>(&mut self, arrays: &[ArrayRef]) -> Result<()> {
        let array = only(arrays)?.as_primitive::<U>();
        let sum = sum_of(array).and_then(|sum| self.sum.checked_add(sum));
        self.sum = sum.ok_or_else(|| out_of_range(&self.result))?;
        self.values += array.len() - array.null_count();
        Ok(())
    }
}

impl<T: ArrowPrimitiveType<Native: Into<i128>> + Send> Accumulator for RunningSum<T>
where
    Self: std::fmt::Debug,
{
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.add::<T>(values)
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.add::<Decimal128Type>(states)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        if self.values == 0 {
            return ScalarValue::try_from(&self.result);
        }
        ScalarValue::try_from_array(&finished(vec![self.sum], None, &self.result)?, 0)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let sum = (self.values > 0).then_some(self.sum);
        Ok(vec![ScalarValue::Decimal128(sum, DECIMAL128_MAX_PRECISION, state_scale(&self.result))])
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let array = only(values)?.as_primitive::<T>();
        let sum = sum_of(array).and_then(|sum| self.sum.checked_sub(sum));
        self.sum = sum.ok_or_else(|| out_of_range(&self.result))?;
        self.values = self.values.saturating_sub(array.len() - array.null_count());
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }
}

/// The sum of each distinct value, of which DataFusion's accumulator keeps the set.
#[derive(Debug)]
struct DistinctSum {
    result: DataType,
    values: Box<dyn Accumulator>,
}

impl Accumulator for DistinctSum {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.values.update_batch(values)
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.values.merge_batch(states)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let state = self.values.state()?;
        let [ScalarValue::List(list)] = state.as_slice() else {
            return internal_err!("distinct values are one list, not {state:?}");
        };
        let values = list.values();
        let sum = match &self.result {
            _ if values.is_empty() => return ScalarValue::try_from(&self.result),
            DataType::Int64 => sum_of(values.as_primitive::<Int64Type>()),
            DataType::UInt64 => sum_of(values.as_primitive::<UInt64Type>()),
            _ => sum_of(values.as_primitive::<Decimal128Type>()),
        };
        let sum = sum.ok_or_else(|| out_of_range(&self.result))?;
        ScalarValue::try_from_array(&finished(vec![sum], None, &self.result)?, 0)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.values.state()
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.values.size()
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.values.retract_batch(values)
    }

    fn supports_retract_batch(&self) -> bool {
        self.values.supports_retract_batch()
    }
}

/// Sums of groups.
#[derive(Debug)]
struct GroupSums<T> {
    sums: Vec<i128>,
    nulls: NullState,
    result: DataType,
    argument: PhantomData<fn(T)>,
}

impl<T> GroupSums<T> {
    fn new(result: &DataType) -> Self {
        Self { sums: vec![], nulls: NullState::new(), result: result.clone(), argument: PhantomData }
    }

    fn add<U: ArrowPrimitiveType<Native: Into<i128>> + Send>(
        &mut self,
        arrays: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total: usize,
    ) -> Result<()> {
        let array = only(arrays)?;
        self.sums.resize(total, 0);
        let sums = self.sums.as_mut_slice();
        let mut beyond = false;
        self.nulls.accumulate(groups, array.as_primitive::<U>(), filter, total, |group, value| {
            if let Some(sum) = sums.get_mut(group) {
                let (next, overflows) = sum.overflowing_add(value.into());
                *sum = next;
                beyond |= overflows;
            }
        });
        if beyond { Err(out_of_range(&self.result)) } else { Ok(()) }
    }
}

/// Partial sums of single rows, without those that the filter leaves out.
fn widened<T: ArrowPrimitiveType<Native: Into<i128>> + Send>(
    array: &PrimitiveArray<T>,
    filter: Option<&BooleanArray>,
    result: &DataType,
) -> ArrayRef {
    let passing = filter.map(|filter| {
        let (values, nulls) = filter.clone().into_parts();
        NullBuffer::new(nulls.map_or(values.clone(), |nulls| nulls.inner() & &values))
    });
    let nulls = NullBuffer::union(array.nulls(), passing.as_ref());
    let values: Vec<i128> = array.values().iter().map(|value| (*value).into()).collect();
    Arc::new(PrimitiveArray::<Decimal128Type>::new(values.into(), nulls).with_data_type(state_type(result)))
}

impl<T: ArrowPrimitiveType<Native: Into<i128>> + Send> GroupsAccumulator for GroupSums<T>
where
    Self: std::fmt::Debug,
{
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total: usize,
    ) -> Result<()> {
        self.add::<T>(values, groups, filter, total)
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], total: usize) -> Result<()> {
        self.add::<Decimal128Type>(states, groups, None, total)
    }

    fn evaluate(&mut self, emit: EmitTo) -> Result<ArrayRef> {
        finished(emit.take_needed(&mut self.sums), self.nulls.build(emit), &self.result)
    }

    fn state(&mut self, emit: EmitTo) -> Result<Vec<ArrayRef>> {
        let sums = emit.take_needed(&mut self.sums);
        let array = PrimitiveArray::<Decimal128Type>::new(sums.into(), self.nulls.build(emit));
        Ok(vec![Arc::new(array.with_data_type(state_type(&self.result)))])
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        Ok(vec![widened(only(values)?.as_primitive::<T>(), filter, &self.result)])
    }

    fn size(&self) -> usize {
        self.sums.capacity() * size_of::<i128>() + self.nulls.size()
    }
}
