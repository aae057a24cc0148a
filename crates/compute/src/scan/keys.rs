//! Keys of a scan's segments.

use std::sync::Arc;

use thermocline_cache::{Decoding, ObjectKey};
use thermocline_catalog::PlannedObject;
use thermocline_pushdown::FileFormat;

use super::scan_plan::ScanPlan;

/// Key of an object as the scan's table reads it.
pub(super) fn object_key(scan: &ScanPlan, object: &PlannedObject) -> ObjectKey {
    ObjectKey { table: Arc::clone(scan.reader()), object: object.path.clone(), version: object.version.clone() }
}

/// Fingerprint of the names of all columns of a table of text.
pub(super) fn names_of_text(scan: &ScanPlan) -> Option<Decoding> {
    let fields = scan.table_schema().fields().iter();
    matches!(scan.format(), FileFormat::Csv(_))
        .then(|| Decoding::of(&fields.map(|field| field.name().as_str()).collect::<Vec<_>>()))
}

/// Fingerprints of what decides the values of `columns`, beside the object's path and version:
/// the node that has it, the type, and for text the dialect and which field of a record the column is:
/// fields are found by position, or by name among all of the table's `names`.
pub(super) fn decodings(
    scan: &ScanPlan,
    object: &PlannedObject,
    names: Option<Decoding>,
    columns: &[usize],
) -> Vec<Decoding> {
    let format = object.format(scan.format());
    let fields = scan.table_schema().fields();
    let decoding = |column: &usize| {
        let of_type = fields.get(*column).map(|field| (field.data_type(), field.is_nullable()));
        let field = names.map(|names| (column, names));
        Decoding::of(&(object.node.label(), of_type, &format, field))
    };
    columns.iter().map(decoding).collect()
}
