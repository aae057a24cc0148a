//! The contract between a compute node and a storage node.
//!
//! What both sides have to agree on is here and nowhere else: the compute node builds a
//! [`Fragment`], ships it in a [`wire::FragmentRequest`], and the storage node decodes it,
//! refuses it unless it is [local and bounded](validate), and runs it over one object.
//! The compute node runs the very same fragment over cached columns, which is why a
//! result does not depend on the [`Route`] that a partition took.
//!
//! ```
//! use std::sync::Arc;
//! use datafusion::arrow::datatypes::{DataType, Field, Schema};
//! use datafusion::execution::TaskContext;
//! use thermocline_pushdown::{Fragment, Limits};
//!
//! let columns = Arc::new(Schema::new(vec![Field::new("price", DataType::Int64, true)]));
//! let fragment = Fragment::scan(columns);
//! let bytes = fragment.encode()?;
//! let (decoded, _) = Fragment::decode(&bytes, &TaskContext::default(), &Limits::default())?;
//! assert_eq!(decoded.to_string(), fragment.to_string());
//! # Ok::<(), thermocline_pushdown::FragmentError>(())
//! ```
//!
//! Deliberately left out: how a request travels (crate `thermocline-storage`), how a plan
//! is cut into fragments and which route a partition takes (crate `thermocline-compute`).

mod arithmetic;
mod as_computed;
mod balance;
mod bitmap;
mod bloom_expr;
mod bloom_filter;
mod check_predicate;
mod codec;
mod digest;
mod exact_sum;
mod float_order;
mod format;
mod fragment;
mod fragment_error;
mod functions;
mod ids;
mod input;
mod key_set;
mod lookup;
mod node_error;
mod observed;
mod operator_kind;
mod partition;
mod route;
mod selection;
mod sql;
pub mod units;
pub mod validate;
pub mod wire;

pub use arithmetic::checked;
pub use as_computed::as_computed;
pub use balance::balanced;
pub use bitmap::{BITMAP_ROWS_MAX, Bitmap, BitmapError};
pub use bloom_expr::BloomFilterExpr;
pub use bloom_filter::{BloomFilter, hash_keys, is_hashable};
pub use check_predicate::check_predicate;
pub use codec::FragmentCodec;
pub use digest::ContentDigest;
pub use exact_sum::exact_sum;
pub use float_order::{
    CANONICAL_FLOAT, FLOAT_KEY, FLOAT_OF_KEY, canonical_batch, canonical_floats, float_functions, has_floats,
};
pub use format::{CsvFields, CsvFormat, FileFormat, TextCompression};
pub use fragment::Fragment;
pub use fragment_error::FragmentError;
pub use functions::{node_functions, register_functions};
pub use ids::{ObjectPath, ObjectVersion, PushbackToken, QueryId};
pub use input::{FragmentInputExec, StreamInputExec};
pub use key_set::{KeySet, KeySetExpr};
pub use lookup::{Lookup, ValueRange};
pub use node_error::NodeError;
pub use operator_kind::OperatorKind;
pub use partition::PartitionRange;
pub use route::{Mode, Route};
pub use selection::Selection;
pub use sql::{
    Column, JsonbChoice, SQL_EXTRACT, UTC, UUID_WIDTH, arrow_span, arrow_type, bytes_of_characters, call_function,
    casts_otherwise, characters_of_bytes, external, interval_length, is_jsonb, jsonb_array, jsonb_choice, jsonb_key,
    jsonb_scalar, operate, sql_cast, sql_type, sql_type_name, with_sql_texts, written_functions,
};
pub use thermocline_types::{Class, UUID_BYTES, canonical_f32, canonical_f64, parse_uuid};
pub use validate::Limits;
