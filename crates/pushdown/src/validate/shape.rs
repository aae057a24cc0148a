//! Which fields of a protobuf message are texts, packed numbers and further messages.

/// The fields of one message.
#[derive(Debug)]
pub struct Shape {
    /// Fields by number.
    pub known: &'static [(u64, Kind)],
    /// Whether fields that are not known are skipped by the decoder, because the message is one of ours
    /// and `known` is complete. Otherwise such a field may be a message.
    pub is_complete: bool,
}

/// A field of variable length.
#[derive(Debug, Clone, Copy)]
pub enum Kind {
    /// A text or bytes: one allocation of as many bytes as there are.
    Text,
    /// Packed numbers.
    Numbers,
    /// A message.
    Message(&'static Shape),
}

use Kind::{Message, Numbers, Text};

impl Shape {
    /// Shape of the field with this number.
    pub(super) fn kind(&self, number: u64) -> Kind {
        match self.known.iter().find(|(known, _)| *known == number) {
            Some((_, kind)) => *kind,
            None if self.is_complete => Text,
            None => Message(&UNKNOWN),
        }
    }
}

/// A message of DataFusion's, of which the fields that hold texts and lead to them are known. What else
/// there is, now or in a version to come, may be a message.
const fn partly(known: &'static [(u64, Kind)]) -> Shape {
    Shape { known, is_complete: false }
}

/// A message of which nothing is known.
pub static UNKNOWN: Shape = partly(&[]);

/// `map<string, string>`
static PAIR: Shape = partly(&[(1, Text), (2, Text)]);

/// `datafusion_common.Schema`
pub static SCHEMA: Shape = partly(&[(1, Message(&FIELD)), (2, Message(&PAIR))]);

/// `datafusion_common.Field`
static FIELD: Shape = partly(&[(1, Text), (4, Message(&FIELD)), (5, Message(&PAIR))]);

/// `datafusion_common.ScalarValue`
pub static SCALAR: Shape = partly(&[
    (2, Text),
    (3, Text),
    (16, Message(&NESTED_SCALAR)),
    (17, Message(&NESTED_SCALAR)),
    (18, Message(&NESTED_SCALAR)),
    (22, Text),
    (23, Text),
    (27, Message(&DICTIONARY_SCALAR)),
    (28, Text),
    (29, Text),
    (32, Message(&NESTED_SCALAR)),
    (34, Message(&BYTES_SCALAR)),
    (41, Message(&NESTED_SCALAR)),
    (46, Message(&NESTED_SCALAR)),
    (47, Message(&NESTED_SCALAR)),
]);

/// `datafusion_common.ScalarNestedValue`
static NESTED_SCALAR: Shape = partly(&[(1, Text), (2, Text), (3, Message(&SCHEMA))]);

/// `datafusion_common.ScalarDictionaryValue`
static DICTIONARY_SCALAR: Shape = partly(&[(2, Message(&SCALAR))]);

/// `datafusion_common.ScalarFixedSizeBinary`
static BYTES_SCALAR: Shape = partly(&[(1, Text)]);

/// `datafusion.PhysicalExprNode`
pub static EXPRESSION: Shape = partly(&[
    (1, Message(&NAMED)),
    (2, Message(&SCALAR)),
    (3, Message(&BINARY)),
    (4, Message(&AGGREGATE_CALL)),
    (5, Message(&FIRST_OPERAND)),
    (6, Message(&FIRST_OPERAND)),
    (7, Message(&FIRST_OPERAND)),
    (8, Message(&CASE)),
    (9, Message(&FIRST_OPERAND)),
    (10, Message(&FIRST_OPERAND)),
    (11, Message(&FIRST_OPERAND)),
    (12, Message(&IN_LIST)),
    (14, Message(&FIRST_OPERAND)),
    (16, Message(&CALL)),
    (18, Message(&LIKE)),
    (19, Message(&EXTENSION_EXPRESSION)),
]);

/// `PhysicalColumn`
static NAMED: Shape = partly(&[(1, Text)]);

/// Messages whose first field is an expression: `PhysicalIsNull`, `PhysicalIsNotNull`, `PhysicalNot`,
/// `PhysicalNegativeNode`, `PhysicalCastNode`, `PhysicalTryCastNode`, `PhysicalSortExprNode`, `MaybeFilter`
static FIRST_OPERAND: Shape = partly(&[(1, Message(&EXPRESSION))]);

/// `PhysicalBinaryExprNode`
static BINARY: Shape =
    partly(&[(1, Message(&EXPRESSION)), (2, Message(&EXPRESSION)), (3, Text), (4, Message(&EXPRESSION))]);

/// `PhysicalAggregateExprNode`
static AGGREGATE_CALL: Shape =
    partly(&[(2, Message(&EXPRESSION)), (4, Text), (5, Message(&FIRST_OPERAND)), (7, Text), (8, Text)]);

/// `PhysicalCaseNode`
static CASE: Shape = partly(&[(1, Message(&EXPRESSION)), (2, Message(&WHEN)), (3, Message(&EXPRESSION))]);

/// `PhysicalWhenThen`
static WHEN: Shape = partly(&[(1, Message(&EXPRESSION)), (2, Message(&EXPRESSION))]);

/// `PhysicalInListNode`
static IN_LIST: Shape = partly(&[(1, Message(&EXPRESSION)), (2, Message(&EXPRESSION))]);

/// `PhysicalScalarUdfNode`
static CALL: Shape = partly(&[(1, Text), (2, Message(&EXPRESSION)), (3, Text), (6, Text)]);

/// `PhysicalLikeExprNode`
static LIKE: Shape = partly(&[(3, Message(&EXPRESSION)), (4, Message(&EXPRESSION))]);

/// `PhysicalExtensionExprNode`
static EXTENSION_EXPRESSION: Shape = partly(&[(1, Text), (2, Message(&EXPRESSION))]);

/// `datafusion.PhysicalPlanNode`, of which the operators that may run at storage are known.
pub static PLAN: Shape = partly(&[
    (4, Message(&PROJECTION)),
    (6, Message(&LIMIT)),
    (7, Message(&LIMIT)),
    (8, Message(&AGGREGATE)),
    (10, Message(&SORT)),
    (12, Message(&FILTER)),
    (18, Message(&EXTENSION)),
]);

/// `ProjectionExecNode`
static PROJECTION: Shape = partly(&[(1, Message(&PLAN)), (2, Message(&EXPRESSION)), (3, Text)]);

/// `GlobalLimitExecNode`, `LocalLimitExecNode`
static LIMIT: Shape = partly(&[(1, Message(&PLAN)), (3, Message(&FIRST_OPERAND)), (4, Message(&FIRST_OPERAND))]);

/// `AggregateExecNode`
static AGGREGATE: Shape = partly(&[
    (1, Message(&EXPRESSION)),
    (2, Message(&EXPRESSION)),
    (4, Message(&PLAN)),
    (5, Text),
    (6, Text),
    (7, Message(&SCHEMA)),
    (8, Message(&EXPRESSION)),
    (9, Numbers),
    (10, Message(&FIRST_OPERAND)),
    (13, Message(&EXPRESSION)),
    (14, Message(&SCHEMA)),
]);

/// `SortExecNode`
static SORT: Shape = partly(&[(1, Message(&PLAN)), (2, Message(&EXPRESSION)), (5, Message(&EXPRESSION))]);

/// `FilterExecNode`
static FILTER: Shape = partly(&[(1, Message(&PLAN)), (2, Message(&EXPRESSION)), (9, Numbers)]);

/// `PhysicalExtensionNode`, whose bytes are a message that is checked by itself.
static EXTENSION: Shape = partly(&[(1, Text), (2, Message(&PLAN))]);
