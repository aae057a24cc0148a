//! Reading partitions of objects, Parquet and text, from their bytes.
//!
//! ```text
//! RangeSource: a storage node's object store, or requests to a storage node
//!      |
//!      v
//! Footers, SplitScanner: where partitions begin      PartitionReader --> record batches of some columns
//! ```
//!
//! A storage node and a compute node read partitions with the same [`PartitionReader`], so that a row is the same
//! wherever it is decoded.
//!
//! Left out: the location of objects (`thermocline-storage`), and the columns of a table made of many objects
//! (`thermocline-catalog`).

mod arrow_types;
pub mod csv;
mod reader;
mod source;

pub use arrow_types::decode_arrow_schema;
pub use reader::{
    Footer, FooterCache, Footers, PartitionReader, ReadOptions, bounds_hold, csv_options, decode_footer, fetch_footer,
    footer_schema, selected_share, text, text_bytes_max, text_sample,
};
pub use source::RangeSource;
