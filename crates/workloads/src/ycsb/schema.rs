use thermocline_transactions::Result;
use thermocline_transactions::database::RowSession;

use super::procedures::definitions;
use crate::oltp::Language;

/// Columns besides the key.
pub const FIELDS: usize = 10;
/// Bytes of each.
pub const FIELD_BYTES: usize = 100;
/// The table.
pub const TABLE: &str = "usertable";

/// Creates the table, and the procedures unless they are in Rust. Procedures in Rust are
/// [`registrations`](super::registrations), given when the database is opened.
///
/// # Errors
/// If the table exists already.
pub fn define(session: &mut RowSession, language: Language) -> Result<()> {
    let fields: String = (0..FIELDS).map(|number| format!(", field{number} VARCHAR({FIELD_BYTES}) NOT NULL")).collect();
    let key = "PRIMARY KEY (ycsb_key) USING HASH";
    let table = format!("CREATE TABLE {TABLE} (ycsb_key BIGINT{fields}, {key}) PARTITION BY (ycsb_key)");
    session.execute(&table, &[])?;
    for definition in definitions(language) {
        session.execute(&definition, &[])?;
    }
    Ok(())
}
