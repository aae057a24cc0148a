//! The one order of floats: NaN equals itself and is greater than every number, -0.0 equals 0.0.
//!
//! Arrow compares floats by IEEE 754's totalOrder, and hashes and groups by their bits. Over values in
//! one form each, which is what [`canonical_floats`] makes of an array, all of these agree with the
//! order above: there is one zero, 0.0, and one NaN, the positive quiet one without payload. Readers
//! yield such values; [`CANONICAL_FLOAT`] does the same to what an expression computes.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray, RecordBatch, RecordBatchOptions, make_array,
};
use datafusion::arrow::datatypes::{
    DataType, Field, FieldRef, Float16Type, Float32Type, Float64Type, Int32Type, Int64Type,
};
use datafusion::common::{Result, exec_err};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature, Volatility,
};
use thermocline_types::{canonical_f32, canonical_f64};

/// Name of the function that gives floats in their one form.
pub const CANONICAL_FLOAT: &str = "canonical_float";
/// Name of the function that maps floats to integers in the same order, of which `min` and `max` of
/// groups are exact: DataFusion's compare floats with `<`, which NaN passes or fails as it comes.
pub const FLOAT_KEY: &str = "float_key";
/// Name of the function that maps such integers back.
pub const FLOAT_OF_KEY: &str = "float_of_key";

/// The functions that plans over floats use, on either side of the wire.
pub fn float_functions() -> Vec<Arc<ScalarUDF>> {
    [Kind::Canonical, Kind::Key, Kind::OfKey]
        .into_iter()
        .map(|kind| Arc::new(ScalarUDF::from(FloatFunction::new(kind))))
        .collect()
}

/// Native floats of half precision.
type Half = <Float16Type as ArrowPrimitiveType>::Native;

fn canonical_half(value: Half) -> Half {
    match value {
        _ if value.is_nan() => Half::NAN,
        _ if value.to_bits() << 1 == 0 => Half::default(),
        _ => value,
    }
}

/// Whether values of this type are floats or hold some.
pub fn has_floats(data_type: &DataType) -> bool {
    let of = |field: &FieldRef| has_floats(field.data_type());
    match data_type {
        DataType::Float16 | DataType::Float32 | DataType::Float64 => true,
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::LargeListView(item)
        | DataType::FixedSizeList(item, _)
        | DataType::Map(item, _) => of(item),
        DataType::Struct(fields) => fields.iter().any(of),
        DataType::Union(fields, _) => fields.iter().any(|(_, field)| of(field)),
        DataType::Dictionary(_, values) => has_floats(values),
        DataType::RunEndEncoded(_, values) => of(values),
        _ => false,
    }
}

/// The array with each float in its one form, those within nested values too; itself, without a copy,
/// where they are in it already.
///
/// # Errors
/// If an array cannot be put together again.
pub fn canonical_floats(array: &ArrayRef) -> Result<ArrayRef> {
    match array.data_type() {
        DataType::Float64 => {
            let same = |value: f64| canonical_f64(value).to_bits() == value.to_bits();
            Ok(canonical_array::<Float64Type>(array, same, canonical_f64))
        }
        DataType::Float32 => {
            let same = |value: f32| canonical_f32(value).to_bits() == value.to_bits();
            Ok(canonical_array::<Float32Type>(array, same, canonical_f32))
        }
        DataType::Float16 => {
            let same = |value: Half| canonical_half(value).to_bits() == value.to_bits();
            Ok(canonical_array::<Float16Type>(array, same, canonical_half))
        }
        data_type if has_floats(data_type) => {
            let data = array.to_data();
            let children = data.child_data().iter();
            let children = children
                .map(|child| Ok(canonical_floats(&make_array(child.clone()))?.to_data()))
                .collect::<Result<Vec<_>>>()?;
            Ok(make_array(data.into_builder().child_data(children).build()?))
        }
        _ => Ok(Arc::clone(array)),
    }
}

/// The batch with [`canonical_floats`] in every column.
///
/// # Errors
/// As [`canonical_floats`].
pub fn canonical_batch(batch: RecordBatch) -> Result<RecordBatch> {
    if !batch.schema_ref().fields().iter().any(|field| has_floats(field.data_type())) {
        return Ok(batch);
    }
    let columns = batch.columns().iter().map(canonical_floats).collect::<Result<_>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(batch.schema(), columns, &options)?)
}

fn canonical_array<T: ArrowPrimitiveType>(
    array: &ArrayRef,
    same: impl Fn(T::Native) -> bool,
    canonical: impl Fn(T::Native) -> T::Native,
) -> ArrayRef {
    let floats = array.as_primitive::<T>();
    // Without an early end, so that the loop runs over many values at once.
    if floats.values().iter().fold(true, |all, value| all & same(*value)) {
        return Arc::clone(array);
    }
    Arc::new(floats.unary::<_, T>(canonical))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    Canonical,
    Key,
    OfKey,
}

impl Kind {
    /// The type of the result for an argument of `data_type`.
    fn result(self, data_type: &DataType) -> Result<DataType> {
        Ok(match (self, data_type) {
            (Kind::Canonical, DataType::Float16 | DataType::Float32 | DataType::Float64) => data_type.clone(),
            (Kind::Key, DataType::Float32) => DataType::Int32,
            (Kind::Key, DataType::Float64) => DataType::Int64,
            (Kind::OfKey, DataType::Int32) => DataType::Float32,
            (Kind::OfKey, DataType::Int64) => DataType::Float64,
            _ => return exec_err!("there is no {self:?} of {data_type}"),
        })
    }

    fn of(self, array: &ArrayRef) -> Result<ArrayRef> {
        Ok(match (self, array.data_type()) {
            (Kind::Key, DataType::Float64) => {
                Arc::new(array.as_primitive::<Float64Type>().unary::<_, Int64Type>(|value| {
                    let bits = canonical_f64(value).to_bits().cast_signed();
                    bits ^ ((bits >> 63) & i64::MAX)
                }))
            }
            (Kind::Key, DataType::Float32) => {
                Arc::new(array.as_primitive::<Float32Type>().unary::<_, Int32Type>(|value| {
                    let bits = canonical_f32(value).to_bits().cast_signed();
                    bits ^ ((bits >> 31) & i32::MAX)
                }))
            }
            (Kind::OfKey, DataType::Int64) => {
                let value = |key: i64| f64::from_bits((key ^ ((key >> 63) & i64::MAX)).cast_unsigned());
                let array: PrimitiveArray<Float64Type> = array.as_primitive::<Int64Type>().unary(value);
                Arc::new(array)
            }
            (Kind::OfKey, DataType::Int32) => {
                let value = |key: i32| f32::from_bits((key ^ ((key >> 31) & i32::MAX)).cast_unsigned());
                let array: PrimitiveArray<Float32Type> = array.as_primitive::<Int32Type>().unary(value);
                Arc::new(array)
            }
            _ => canonical_floats(array)?,
        })
    }
}

/// One of the [`float_functions`].
#[derive(Debug, PartialEq, Eq, Hash)]
struct FloatFunction {
    kind: Kind,
    signature: Signature,
}

impl FloatFunction {
    fn new(kind: Kind) -> Self {
        let types = match kind {
            Kind::Canonical => vec![DataType::Float16, DataType::Float32, DataType::Float64],
            Kind::Key => vec![DataType::Float32, DataType::Float64],
            Kind::OfKey => vec![DataType::Int32, DataType::Int64],
        };
        let exact = types.into_iter().map(|data_type| TypeSignature::Exact(vec![data_type])).collect();
        Self { kind, signature: Signature::one_of(exact, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for FloatFunction {
    fn name(&self) -> &str {
        match self.kind {
            Kind::Canonical => CANONICAL_FLOAT,
            Kind::Key => FLOAT_KEY,
            Kind::OfKey => FLOAT_OF_KEY,
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        match arguments {
            [argument] => self.kind.result(argument),
            arguments => exec_err!("{} takes one argument, not {}", self.name(), arguments.len()),
        }
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs) -> Result<FieldRef> {
        let types: Vec<DataType> = arguments.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        let nullable = arguments.arg_fields.iter().any(|field| field.is_nullable());
        Ok(Arc::new(Field::new(self.name(), self.return_type(&types)?, nullable)))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match arguments.args.as_slice() {
            [ColumnarValue::Array(array)] => Ok(ColumnarValue::Array(self.kind.of(array)?)),
            [ColumnarValue::Scalar(value)] => {
                let array = self.kind.of(&value.to_array()?)?;
                Ok(ColumnarValue::Scalar(datafusion::common::ScalarValue::try_from_array(&array, 0)?))
            }
            arguments => exec_err!("{} takes one argument, not {}", self.name(), arguments.len()),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use datafusion::arrow::array::{Float32Array, Float64Array, ListArray, StructArray};
    use datafusion::arrow::datatypes::Fields;

    use super::*;

    const SORTED: [f64; 9] =
        [f64::NEG_INFINITY, f64::MIN, -1.5, -f64::MIN_POSITIVE, 0.0, f64::MIN_POSITIVE, 1.5, f64::MAX, f64::INFINITY];

    fn nans() -> [f64; 4] {
        [f64::NAN, -f64::NAN, f64::from_bits(0x7ff8_0000_0000_0001), f64::from_bits(0xfff0_0000_0000_0001)]
    }

    #[test]
    fn there_is_one_nan_and_one_zero() {
        let array: ArrayRef =
            Arc::new(Float64Array::from_iter(SORTED.into_iter().chain(nans()).chain([-0.0]).map(Some).chain([None])));
        let canonical = canonical_floats(&array).unwrap();
        let expected = SORTED.into_iter().chain([f64::NAN; 4]).chain([0.0]).map(Some).chain([None]);
        let bits = |array: &ArrayRef| -> Vec<Option<u64>> {
            array.as_primitive::<Float64Type>().iter().map(|value| value.map(f64::to_bits)).collect()
        };
        assert_eq!(bits(&canonical), expected.map(|value| value.map(f64::to_bits)).collect::<Vec<_>>());
        assert!(Arc::ptr_eq(&canonical, &canonical_floats(&canonical).unwrap()), "no copy");
        for narrow in [-0.0_f32, -f32::NAN, f32::from_bits(0x7f80_0001)] {
            let array: ArrayRef = Arc::new(Float32Array::from(vec![narrow]));
            let bits = canonical_floats(&array).unwrap().as_primitive::<Float32Type>().value(0).to_bits();
            assert_eq!(bits, if narrow == 0.0 { 0 } else { f32::NAN.to_bits() });
        }
    }

    #[test]
    fn floats_within_nested_values_too() {
        let list = ListArray::from_iter_primitive::<Float64Type, _, _>([
            Some(vec![Some(-0.0), None, Some(-f64::NAN)]),
            None,
            Some(vec![Some(1.0)]),
        ]);
        let fields = Fields::from(vec![Field::new("list", list.data_type().clone(), true)]);
        let nested: ArrayRef = Arc::new(StructArray::new(fields, vec![Arc::new(list)], None).slice(0, 2));
        let canonical = canonical_floats(&nested).unwrap();
        assert_eq!((canonical.len(), canonical.data_type()), (2, nested.data_type()));
        let values = canonical.as_struct().column(0).as_list::<i32>().value(0);
        let values = values.as_primitive::<Float64Type>();
        assert_eq!((values.value(0).to_bits(), values.value(2).to_bits()), (0, f64::NAN.to_bits()));
    }

    #[test]
    fn keys_are_in_the_order_of_floats_and_lead_back() {
        let sorted: ArrayRef = Arc::new(Float64Array::from_iter_values(SORTED.into_iter().chain(nans())));
        let keys = Kind::Key.of(&sorted).unwrap();
        let of_numbers = &keys.as_primitive::<Int64Type>().values()[..=SORTED.len()];
        assert!(of_numbers.is_sorted_by(|a, b| a < b), "{of_numbers:?}");
        let back = Kind::OfKey.of(&keys).unwrap();
        assert_eq!(back.to_data(), canonical_floats(&sorted).unwrap().to_data());
        let narrow: ArrayRef = Arc::new(Float32Array::from(vec![f32::MIN, -1.0, -0.0, 3.5, f32::INFINITY, -f32::NAN]));
        let keys = Kind::Key.of(&narrow).unwrap();
        assert!(keys.as_primitive::<Int32Type>().values().is_sorted_by(|a, b| a < b));
        assert_eq!(Kind::OfKey.of(&keys).unwrap().to_data(), canonical_floats(&narrow).unwrap().to_data());
    }
}
