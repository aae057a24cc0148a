use thermocline_transactions::Result;
use thermocline_transactions::database::RowSession;

use super::procedures::definitions;
use crate::oltp::Language;

/// Columns besides the key.
pub const FIELDS: usize = 10;
/// Bytes of each, unless a run wants others.
pub const FIELD_BYTES: usize = 100;
/// Bytes of its keys.
const KEY_BYTES: usize = 8;

/// Bytes of a row with columns of this many.
pub const fn row_bytes(field_bytes: usize) -> usize {
    KEY_BYTES + FIELDS * field_bytes
}

/// Bytes of the columns of a row with this many.
pub const fn field_bytes(row_bytes: usize) -> usize {
    row_bytes.saturating_sub(KEY_BYTES) / FIELDS
}

/// The table.
pub const TABLE: &str = "usertable";

/// Creates the table, with columns of this many bytes, and the procedures unless they are in Rust. Procedures in Rust are
/// [`registrations`](super::registrations), given when the database is opened.
///
/// # Errors
/// If the table exists already.
pub fn define(session: &mut RowSession, field_bytes: usize, language: Language) -> Result<()> {
    let fields: String = (0..FIELDS).map(|number| format!(", field{number} VARCHAR({field_bytes}) NOT NULL")).collect();
    let key = "PRIMARY KEY (ycsb_key) USING HASH";
    let table = format!("CREATE TABLE {TABLE} (ycsb_key BIGINT{fields}, {key}) PARTITION BY (ycsb_key)");
    session.execute(&table, &[])?;
    for definition in definitions(language) {
        session.execute(&definition, &[])?;
    }
    Ok(())
}
