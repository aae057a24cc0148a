//! Schema and valid statistics of a Parquet footer.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Fields, Schema, SchemaRef, TimeUnit};
use datafusion::datasource::physical_plan::parquet::Int96Coercer;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{PhysicalExpr, conjunction_opt, split_conjunction};
use parquet::arrow::{ProjectionMask, parquet_to_arrow_schema, parquet_to_arrow_schema_by_columns};
use parquet::basic::{ColumnOrder, SortOrder, Type};
use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};
use parquet::schema::types::SchemaDescriptor;
use thermocline_pushdown::NodeError;
use thermocline_pushdown::wire::ErrorKind;

/// The object's columns in its own types. INT96, the old timestamp without a unit, is microseconds,
/// which hold every year that its writers wrote, as nanoseconds do not.
///
/// # Errors
/// [`ErrorKind::BadData`] if a column has no Arrow type.
pub fn footer_schema(object: &str, footer: &ParquetMetaData) -> Result<SchemaRef, NodeError> {
    let file = footer.file_metadata();
    let schema = parquet_to_arrow_schema(file.schema_descr(), file.key_value_metadata())
        .map_err(|error| NodeError::new(ErrorKind::BadData, format!("{object}: {error}")))?;
    let coerced = Int96Coercer::new(file.schema_descr(), &schema, &TimeUnit::Microsecond).coerce();
    Ok(Arc::new(whole_days(coerced.unwrap_or(schema), file.schema_descr())))
}

/// The schema with dates that are stored as days as such: their Arrow writer had them in milliseconds.
fn whole_days(schema: Schema, stored: &SchemaDescriptor) -> Schema {
    if !schema.fields().iter().any(|field| *field.data_type() == DataType::Date64) {
        return schema;
    }
    let days = |(position, field): (usize, &Arc<Field>)| {
        let root = stored.root_schema().get_fields().get(position);
        let is_int32 = root.is_some_and(|root| root.is_primitive() && root.get_physical_type() == Type::INT32);
        if is_int32 && *field.data_type() == DataType::Date64 {
            Arc::new(field.as_ref().clone().with_data_type(DataType::Date32))
        } else {
            Arc::clone(field)
        }
    };
    let fields: Fields = schema.fields().iter().enumerate().map(days).collect();
    Schema::new_with_metadata(fields, schema.metadata)
}

/// Whether the least and greatest value that a row group's statistics state for leaf column `leaf`
/// bound its values. They do not where the type has no order, and where an old writer stated them in
/// the order of signed bytes for values that compare otherwise.
pub fn bounds_hold(footer: &ParquetMetaData, group: &RowGroupMetaData, leaf: usize) -> bool {
    let Some(statistics) = group.columns().get(leaf).and_then(|column| column.statistics()) else {
        return false;
    };
    let column = footer.file_metadata().schema_descr().column(leaf);
    let order =
        ColumnOrder::sort_order_for_type(column.logical_type_ref(), column.converted_type(), column.physical_type());
    let known = !matches!(footer.file_metadata().column_order(leaf), ColumnOrder::UNKNOWN);
    match order {
        SortOrder::UNDEFINED => false,
        _ if !known => false,
        SortOrder::SIGNED if statistics.is_min_max_deprecated() => {
            matches!(column.physical_type(), Type::INT32 | Type::INT64 | Type::FLOAT | Type::DOUBLE)
        }
        _ => !statistics.is_min_max_deprecated(),
    }
}

/// The terms of `predicate` (over the table's columns) by which DataFusion may skip row groups and
/// pages of this object, which it does by the statistics as they are stored.
///
/// A term is left out if it needs a column
/// - of another type in the object, since bounds are then compared in one type and values in another;
/// - of floats, since writers leave NaN out of the bounds and zeros have two signs there;
/// - that is nested in the object;
/// - with bounds that do not hold ([`bounds_hold`]), or without a count of NULLs, which is then taken
///   for none.
pub(super) fn prunable(
    predicate: &Arc<dyn PhysicalExpr>,
    table: &Schema,
    object: &str,
    footer: &ParquetMetaData,
    row_groups: Range<u32>,
) -> Result<Option<Arc<dyn PhysicalExpr>>, NodeError> {
    let needed = collect_columns(predicate);
    let descriptor = footer.file_metadata().schema_descr();
    // Types as Parquet states them, which is less to decode than what an Arrow writer adds.
    let is_needed = |name: &String| needed.iter().any(|column| column.name() == name);
    let leaves = (0..descriptor.num_columns())
        .filter(|leaf| descriptor.column(*leaf).path().parts().first().is_some_and(is_needed));
    let mask = ProjectionMask::leaves(descriptor, leaves);
    let schema = parquet_to_arrow_schema_by_columns(descriptor, mask, None)
        .map_err(|error| NodeError::new(ErrorKind::BadData, format!("{object}: {error}")))?;
    let groups = row_groups.start as usize..row_groups.end as usize;
    let groups = footer.row_groups().get(groups).unwrap_or_default();
    let sound = |name: &str| {
        let (Ok(of_table), found) = (table.field_with_name(name), schema.field_with_name(name)) else {
            return false;
        };
        // A column that the object lacks is NULL, which needs no statistics.
        let Ok(found) = found else { return true };
        if !same_values(found.data_type(), of_table.data_type()) || of_table.data_type().is_floating() {
            return false;
        }
        let Some(leaf) = (0..descriptor.num_columns()).find(|leaf| {
            let path = descriptor.column(*leaf);
            path.path().parts() == [name]
        }) else {
            return false;
        };
        groups.iter().all(|group| {
            let statistics = group.columns().get(leaf).and_then(|column| column.statistics());
            statistics.is_none_or(|statistics| {
                statistics.null_count_opt().is_some()
                    && (statistics.min_bytes_opt().is_none() || bounds_hold(footer, group, leaf))
            })
        })
    };
    let mut known: HashMap<String, bool> = HashMap::new();
    let terms = split_conjunction(predicate).into_iter().filter(|term| {
        collect_columns(term)
            .iter()
            .all(|column| *known.entry(column.name().to_owned()).or_insert_with(|| sound(column.name())))
    });
    Ok(conjunction_opt(terms.map(Arc::clone)))
}

/// Whether values of the one type are read as the other's without a change of value, so that bounds
/// of the one compare as those of the other.
fn same_values(file: &DataType, table: &DataType) -> bool {
    let binary =
        |data_type: &DataType| matches!(data_type, DataType::Binary | DataType::LargeBinary | DataType::BinaryView);
    let instants = match (file, table) {
        (DataType::Timestamp(unit, zone), DataType::Timestamp(of_table, shown)) => {
            unit == of_table && zone.is_some() == shown.is_some()
        }
        _ => false,
    };
    file == table || instants || (file.is_string() && table.is_string()) || (binary(file) && binary(table))
}

/// The unit in which the object's INT96 columns are to be decoded for a table: nanoseconds if the
/// table wants them of one, microseconds otherwise.
pub(super) fn int96_unit(footer: &ParquetMetaData, table: &Schema) -> &'static str {
    let descriptor = footer.file_metadata().schema_descr();
    let wants_nanoseconds = descriptor.columns().iter().any(|column| {
        column.physical_type() == Type::INT96
            && column.path().parts().first().is_some_and(|name| {
                let field = table.field_with_name(name);
                field.is_ok_and(|field| matches!(field.data_type(), DataType::Timestamp(TimeUnit::Nanosecond, _)))
            })
    });
    if wants_nanoseconds { "ns" } else { "us" }
}
