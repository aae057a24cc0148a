//! Errors of a storage node, by what the caller must do.

use arrow::error::ArrowError;
use datafusion::common::DataFusionError;
use prost::Message;
use tonic::{Code, Status};

use crate::wire::{ErrorDetail, ErrorKind};
use crate::{BitmapError, FragmentError, PushbackToken};

/// A failed request: what to do about it, and a sentence that names the object or the node.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct NodeError {
    /// Reaction required of the caller.
    pub kind: ErrorKind,
    /// For people.
    pub message: String,
    /// With [`ErrorKind::PushedBack`]: what to name when the stored bytes are fetched; `None` if the
    /// node keeps no slot for that.
    pub pushback: Option<PushbackToken>,
    /// The SQLSTATE of an error that SQL has one for, such as a division by zero; `None` for others.
    pub sqlstate: Option<String>,
}

impl NodeError {
    /// An error of `kind`.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), pushback: None, sqlstate: None }
    }

    /// The answer of a node that would rather send the stored bytes.
    pub fn pushed_back(token: Option<PushbackToken>) -> Self {
        Self { pushback: token, ..Self::new(ErrorKind::PushedBack, "the storage node pushed the fragment back") }
    }

    /// The same error, saying of which object or node, unless it does already.
    pub fn context(mut self, what: impl std::fmt::Display) -> Self {
        let what = what.to_string();
        if !self.message.contains(&what) {
            self.message = format!("{what}: {}", self.message);
        }
        self
    }

    /// Whether the same request may succeed if it is sent again.
    pub fn is_transient(&self) -> bool {
        matches!(self.kind, ErrorKind::Unavailable | ErrorKind::Busy)
    }

    /// Whether the same request will succeed once others are done.
    pub fn is_busy(&self) -> bool {
        self.kind == ErrorKind::Busy
    }

    /// Whether the caller should fetch the stored bytes instead.
    pub fn wants_pullup(&self) -> bool {
        matches!(self.kind, ErrorKind::RawIsSmaller | ErrorKind::ResourcesExhausted | ErrorKind::PushedBack)
    }

    /// Whether nothing went wrong: the answer is to fetch the stored bytes, to ask with more or later, or to
    /// plan again.
    pub fn is_advice(&self) -> bool {
        use ErrorKind::{Busy, PushedBack, RawIsSmaller, UnknownContent};
        self.is_stale() || matches!(self.kind, RawIsSmaller | PushedBack | UnknownContent | Busy)
    }

    /// Whether the object is not what was planned with, so that planning again may help.
    pub fn is_stale(&self) -> bool {
        matches!(self.kind, ErrorKind::VersionChanged | ErrorKind::NotFound)
    }

    /// The error that `error` wraps, however deep, if it came from a storage node.
    pub fn find(error: &DataFusionError) -> Option<&NodeError> {
        let mut source: Option<&(dyn std::error::Error + 'static)> = Some(error);
        while let Some(current) = source {
            if let Some(found) = current.downcast_ref::<NodeError>() {
                return Some(found);
            }
            // DataFusion boxes what it does not know and shows the box's content as no source.
            if let Some(DataFusionError::External(inner)) = current.downcast_ref::<DataFusionError>()
                && let Some(found) = inner.downcast_ref::<NodeError>()
            {
                return Some(found);
            }
            source = current.source();
        }
        None
    }
}

impl From<NodeError> for DataFusionError {
    fn from(error: NodeError) -> Self {
        DataFusionError::External(Box::new(error))
    }
}

impl From<NodeError> for parquet::errors::ParquetError {
    fn from(error: NodeError) -> Self {
        parquet::errors::ParquetError::External(Box::new(error))
    }
}

impl From<FragmentError> for NodeError {
    fn from(error: FragmentError) -> Self {
        NodeError::new(ErrorKind::Refused, error.to_string())
    }
}

impl From<BitmapError> for NodeError {
    fn from(error: BitmapError) -> Self {
        NodeError::new(ErrorKind::Refused, error.to_string())
    }
}

impl From<DataFusionError> for NodeError {
    fn from(error: DataFusionError) -> Self {
        if let Some(found) = NodeError::find(&error) {
            return found.clone();
        }
        let kind = match error.find_root() {
            DataFusionError::ResourcesExhausted(_) => ErrorKind::ResourcesExhausted,
            DataFusionError::Internal(_) => ErrorKind::Internal,
            _ => ErrorKind::BadData,
        };
        let message = match error.find_root() {
            // Without the request to report a bug of DataFusion: functions say so of bad arguments.
            DataFusionError::Internal(message) => message.clone(),
            DataFusionError::ArrowError(of_value, _) => match of_value.as_ref() {
                ArrowError::CastError(message) => message.clone(),
                _ => error.strip_backtrace(),
            },
            _ => error.strip_backtrace(),
        };
        NodeError { sqlstate: sqlstate(&error), ..NodeError::new(kind, message) }
    }
}

/// The SQLSTATE of an error that SQL has one for: the one that the error has where the caller computes.
fn sqlstate(error: &DataFusionError) -> Option<String> {
    let state = match error.find_root() {
        DataFusionError::External(inner) => inner.downcast_ref::<thermocline_types::Error>()?.sqlstate(),
        DataFusionError::ArrowError(error, _) => match error.as_ref() {
            ArrowError::DivideByZero => "22012",
            ArrowError::ArithmeticOverflow(_) => "22003",
            ArrowError::CastError(message) if message.starts_with("Can't cast value ") => "22003",
            ArrowError::CastError(_) => "22P02",
            _ => return None,
        },
        _ => return None,
    };
    Some(state.to_owned())
}

impl From<object_store::Error> for NodeError {
    fn from(error: object_store::Error) -> Self {
        Self::from_store(&error)
    }
}

impl NodeError {
    /// The error of an object store.
    pub fn from_store(error: &object_store::Error) -> Self {
        let kind = match error {
            object_store::Error::NotFound { .. } => ErrorKind::NotFound,
            object_store::Error::Precondition { .. } | object_store::Error::NotModified { .. } => {
                ErrorKind::VersionChanged
            }
            object_store::Error::InvalidPath { .. }
            | object_store::Error::PermissionDenied { .. }
            | object_store::Error::Unauthenticated { .. } => ErrorKind::Refused,
            _ => ErrorKind::Unavailable,
        };
        let message = error.to_string();
        if message.contains(INSTANCE_METADATA) {
            return NodeError::new(ErrorKind::Refused, NO_CREDENTIALS);
        }
        NodeError::new(kind, message)
    }
}

/// Address at which machines of Amazon's clouds have credentials: where they are looked for when there are no others.
const INSTANCE_METADATA: &str = "//169.254.169.254/";
const NO_CREDENTIALS: &str = "there are no credentials for the bucket: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or \
                              AWS_SKIP_SIGNATURE=true for a public one";

impl From<NodeError> for Status {
    fn from(error: NodeError) -> Self {
        let code = match error.kind {
            ErrorKind::Internal => Code::Internal,
            ErrorKind::VersionChanged => Code::FailedPrecondition,
            ErrorKind::NotFound => Code::NotFound,
            ErrorKind::Refused => Code::PermissionDenied,
            ErrorKind::BadData => Code::DataLoss,
            ErrorKind::RawIsSmaller => Code::OutOfRange,
            ErrorKind::DeadlineExceeded => Code::DeadlineExceeded,
            ErrorKind::ResourcesExhausted => Code::ResourceExhausted,
            ErrorKind::Unavailable | ErrorKind::Busy => Code::Unavailable,
            ErrorKind::PushedBack => Code::Aborted,
            ErrorKind::Unsupported => Code::Unimplemented,
            ErrorKind::UnknownContent => Code::NotFound,
        };
        let detail = ErrorDetail {
            kind: error.kind as i32,
            message: error.message.clone(),
            pushback_token: error.pushback.map_or(0, PushbackToken::number),
            sqlstate: error.sqlstate.unwrap_or_default(),
        };
        Status::with_details(code, error.message, detail.encode_to_vec().into())
    }
}

impl From<Status> for NodeError {
    /// Reads our details if the peer is one of ours; otherwise judges by the code, so that a dead,
    /// restarting or foreign server is told apart from a refused request.
    fn from(status: Status) -> Self {
        if !status.details().is_empty()
            && let Ok(detail) = ErrorDetail::decode(status.details())
            && let Ok(kind) = ErrorKind::try_from(detail.kind)
        {
            let pushback = PushbackToken::new(detail.pushback_token);
            // What a peer says is none unless it has five letters or digits.
            let is_state = |state: &String| state.len() == 5 && state.bytes().all(|byte| byte.is_ascii_alphanumeric());
            let sqlstate = Some(detail.sqlstate).filter(is_state);
            return NodeError { pushback, sqlstate, ..NodeError::new(kind, detail.message) };
        }
        let kind = match status.code() {
            Code::DeadlineExceeded => ErrorKind::DeadlineExceeded,
            Code::Unavailable | Code::Unknown | Code::Cancelled | Code::Aborted => ErrorKind::Unavailable,
            Code::ResourceExhausted => ErrorKind::ResourcesExhausted,
            Code::Internal => ErrorKind::Unavailable,
            _ => ErrorKind::Refused,
        };
        // What does not decode is found here, not at the peer.
        let message = match status.code() {
            Code::Internal => format!("what it sent is no answer: {}", status.message()),
            code => format!("{code}: {}", status.message()),
        };
        NodeError::new(kind, message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A value that does not fit is no damage of a file, on whichever side it is met.
    #[test]
    fn casts_that_fail_have_the_sqlstate_of_their_value() {
        let cast = |message: &str| {
            let error = DataFusionError::ArrowError(Box::new(ArrowError::CastError(message.to_owned())), None);
            NodeError::from(error.context("t/1.parquet"))
        };
        let error = cast("Can't cast value 4611686018427387904 to type Int32");
        assert_eq!(error.sqlstate.as_deref(), Some("22003"));
        assert!(!error.message.contains("Arrow"), "{error}");
        assert_eq!(cast("Cannot cast string 'x' to value of Int64 type").sqlstate.as_deref(), Some("22P02"));
    }

    /// What a peer sends and is no message is the peer's fault, and no internal error of ours.
    #[test]
    fn an_answer_that_does_not_decode_makes_its_node_unavailable() {
        let error = NodeError::from(Status::internal("failed to decode Protobuf message: buffer underflow"));
        assert_eq!(error.kind, ErrorKind::Unavailable);
        assert!(!error.message.to_lowercase().contains("internal"), "{error}");
    }
}
