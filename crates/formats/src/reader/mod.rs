//! Readers of partitions: the needed columns, whether the bytes come from an object or a storage node.

mod csv;
mod decompress;
mod footer_check;
mod footer_schema;
mod footers;
mod parquet;
mod partition;
mod records;
mod text;

pub use csv::csv_options;
pub use footer_schema::{bounds_hold, footer_schema};
pub use footers::{Footer, FooterCache, Footers};
pub use parquet::{decode_footer, fetch_footer, selected_share};
pub use partition::{PartitionReader, ReadOptions};
pub use text::{text, text_bytes_max, text_sample};
