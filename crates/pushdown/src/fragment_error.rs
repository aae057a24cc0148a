//! Errors of fragments.

use datafusion::common::DataFusionError;

/// Why a fragment cannot be shipped or run.
#[derive(Debug, thiserror::Error)]
pub enum FragmentError {
    /// The fragment holds something that is not local or not bounded.
    #[error("operator {operator} may not run at storage: {reason}")]
    Refused {
        /// Name of the operator, as plans print it.
        operator: String,
        /// Why it is not local or bounded.
        reason: String,
    },
    /// The encoded fragment is larger than the limit.
    #[error("a fragment of {bytes} bytes passes the limit of {limit}")]
    TooLarge {
        /// Encoded size.
        bytes: usize,
        /// [`Limits::encoded_bytes_max`](crate::Limits::encoded_bytes_max).
        limit: usize,
    },
    /// The bytes do not decode to a plan, or the plan does not encode.
    #[error("a fragment does not encode or decode: {0}")]
    Codec(#[from] DataFusionError),
}
