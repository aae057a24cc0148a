//! Least and greatest values of columns, and how a Parquet footer's become those of the table.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, new_null_array};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Field, SchemaRef};
use datafusion::common::{Result, ScalarValue};
use parquet::arrow::arrow_reader::statistics::StatisticsConverter;
use parquet::file::metadata::ParquetMetaData;
use thermocline_formats::bounds_hold;

use super::table_schema::reads_as;

/// Smallest and largest value of a column in a partition.
#[derive(Debug, Clone, PartialEq)]
pub struct ColumnRange {
    /// No value is smaller.
    pub min: ScalarValue,
    /// No value is larger. Of floats from a Parquet footer it is NaN: writers leave that out of their
    /// statistics, and it is the greatest value.
    pub max: ScalarValue,
    /// NULLs, if counted.
    pub null_count: Option<u64>,
}

impl ColumnRange {
    fn united(self, other: ColumnRange) -> ColumnRange {
        ColumnRange {
            min: if other.min < self.min { other.min } else { self.min },
            max: if other.max > self.max { other.max } else { self.max },
            null_count: self.null_count.zip(other.null_count).map(|(a, b)| a + b),
        }
    }
}

impl From<&ColumnRange> for datafusion::common::ColumnStatistics {
    fn from(range: &ColumnRange) -> Self {
        use datafusion::common::stats::Precision;
        let is_nan = match &range.max {
            ScalarValue::Float64(Some(value)) => value.is_nan(),
            ScalarValue::Float32(Some(value)) => value.is_nan(),
            ScalarValue::Float16(Some(value)) => value.is_nan(),
            _ => false,
        };
        // Parquet may have cut long strings, so the bounds hold but need not occur.
        Self {
            min_value: Precision::Inexact(range.min.clone()),
            // No width of a range can be told from NaN.
            max_value: if is_nan { Precision::Absent } else { Precision::Inexact(range.max.clone()) },
            null_count: range.null_count.map_or(Precision::Absent, |count| Precision::Inexact(count as usize)),
            ..Self::new_unknown()
        }
    }
}

/// Ranges of one column in each row group, as the footer states them.
#[derive(Debug)]
pub(super) struct RowGroupRanges(Vec<InRowGroup>);

#[derive(Debug, Clone)]
enum InRowGroup {
    Unknown,
    /// This many NULLs and no other value.
    OnlyNulls(u64),
    Range(ColumnRange),
}

impl RowGroupRanges {
    fn unknown(row_groups: usize) -> Self {
        Self(vec![InRowGroup::Unknown; row_groups])
    }

    /// The range over some row groups; `None` if it is not known or there is no value but NULL.
    pub(super) fn covering(&self, row_groups: Range<usize>) -> Option<ColumnRange> {
        let mut all: Option<ColumnRange> = None;
        let mut nulls = 0;
        for group in self.0.get(row_groups)? {
            match group {
                InRowGroup::Unknown => return None,
                InRowGroup::OnlyNulls(count) => nulls += count,
                InRowGroup::Range(range) => {
                    all = Some(match all {
                        None => range.clone(),
                        Some(all) => all.united(range.clone()),
                    });
                }
            }
        }
        let range = all?;
        Some(ColumnRange { null_count: range.null_count.map(|count| count + nulls), ..range })
    }
}

/// Ranges that the footer states, per column of the table, as values of the table's type.
///
/// Bounds are read in the object's own types (`file`) and then cast as its values are. Every cast
/// that the reader makes keeps the order, so that the cast bounds are bounds of the cast values.
/// Whatever does not survive the cast is unknown, and so is what nested columns hold, and columns that
/// cannot be read as the table's: their query has to fail rather than to skip the object. `leaves` are the
/// leaf columns of each of the object's columns.
///
/// # Errors
/// If a value that was read has no scalar.
pub(super) fn parquet_ranges(
    footer: &ParquetMetaData,
    file: &SchemaRef,
    table: &SchemaRef,
    leaves: &HashMap<&str, Range<usize>>,
) -> Result<Vec<RowGroupRanges>> {
    let unknown = || RowGroupRanges::unknown(footer.row_groups().len());
    let of_file: HashMap<&str, &Field> =
        file.fields().iter().rev().map(|field| (field.name().as_str(), field.as_ref())).collect();
    let column = |field: &Arc<Field>| {
        let name = field.name().as_str();
        match (of_file.get(name), leaves.get(name)) {
            (Some(of_file), Some(leaf))
                if !of_file.data_type().is_nested() && reads_as(of_file.data_type(), field.data_type()) =>
            {
                column_ranges(footer, (leaf.start, of_file), field)
            }
            _ => Ok(unknown()),
        }
    };
    table.fields().iter().map(column).collect()
}

/// The ranges of one leaf column, of type `of_file`, as values of `field`.
fn column_ranges(footer: &ParquetMetaData, (leaf, of_file): (usize, &Field), field: &Field) -> Result<RowGroupRanges> {
    let groups = footer.row_groups();
    let unknown = || Ok(RowGroupRanges::unknown(groups.len()));
    let descriptor = footer.file_metadata().schema_descr();
    let Ok(converter) = StatisticsConverter::from_column_index(leaf, of_file, descriptor) else {
        return unknown();
    };
    // A missing count would otherwise be read as "no NULLs".
    let converter = converter.with_missing_null_counts_as_zero(false);
    let (Ok(mins), Ok(maxes), Ok(nulls)) =
        (converter.row_group_mins(groups), converter.row_group_maxes(groups), converter.row_group_null_counts(groups))
    else {
        return unknown();
    };
    let (mins, maxes) = (as_read(&mins, field.data_type()), as_read(&maxes, field.data_type()));
    let ranges = groups.iter().enumerate().map(|(position, group)| {
        let null_count = nulls.iter().nth(position).flatten();
        if null_count.is_some_and(|count| i64::try_from(count) == Ok(group.num_rows())) {
            return Ok(InRowGroup::OnlyNulls(null_count.unwrap_or_default()));
        }
        if !bounds_hold(footer, group, leaf) {
            return Ok(InRowGroup::Unknown);
        }
        let min = ScalarValue::try_from_array(&mins, position)?;
        let max = ScalarValue::try_from_array(&maxes, position)?;
        Ok(bounds(min, max)
            .map_or(InRowGroup::Unknown, |(min, max)| InRowGroup::Range(ColumnRange { min, max, null_count })))
    });
    Ok(RowGroupRanges(ranges.collect::<Result<_>>()?))
}

/// Stated bounds as the reader would read them; NULL where they do not fit the type.
fn as_read(bounds: &ArrayRef, data_type: &DataType) -> ArrayRef {
    let options = CastOptions { safe: true, ..CastOptions::default() };
    cast_with_options(bounds, data_type, &options).unwrap_or_else(|_| new_null_array(data_type, bounds.len()))
}

/// Stated bounds as bounds of all values, NaN among them: a zero of either sign is 0.0, a bound of NaN
/// says nothing, and floats have no upper bound below NaN.
fn bounds(min: ScalarValue, max: ScalarValue) -> Option<(ScalarValue, ScalarValue)> {
    // Adding 0.0 leaves every number as it is, except that -0.0 becomes 0.0.
    match (&min, &max) {
        (ScalarValue::Float64(Some(min)), _) if !min.is_nan() => {
            Some((ScalarValue::Float64(Some(min + 0.0)), ScalarValue::Float64(Some(f64::NAN))))
        }
        (ScalarValue::Float32(Some(min)), _) if !min.is_nan() => {
            Some((ScalarValue::Float32(Some(min + 0.0)), ScalarValue::Float32(Some(f32::NAN))))
        }
        _ if min.data_type().is_floating() || min.is_null() || max.is_null() => None,
        _ => Some((min, max)),
    }
}
