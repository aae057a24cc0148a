//! Decoding of messages within bounds.

use prost::Message;

use super::{
    DescribeRequest, DescribeResponse, DropIndexRequest, DropIndexResponse, Handshake, IndexStatusRequest,
    IndexStatusResponse, ListRequest, ListResponse, NodeStatus, Ticket,
};
use crate::validate::Kind::{Message as Nested, Numbers, Text};
use crate::validate::{Kind, Shape, check_message};

/// Objects that one request names.
pub const OBJECTS_MAX: usize = 1 << 16;
/// Partitions or ranges that one request names.
pub const PARTS_MAX: usize = 1 << 18;
/// Columns of a CSV object, and of a table over CSV objects.
pub const CSV_COLUMNS_MAX: usize = 1 << 16;
/// Fields of a message, where nothing else is said. A message of a list has 4096 objects.
const FIELDS_MAX: usize = 1 << 18;
/// Fields of a message that describes objects: a split point is three numbers and their message.
const DESCRIPTION_FIELDS_MAX: usize = 1 << 22;

/// A message of a peer, of which it is known what it may hold.
pub trait Shaped: Message + Default {
    /// The most fields that it may have, with those of its messages and its packed numbers.
    const FIELDS_MAX: usize;

    /// Shapes of its fields.
    fn shape() -> &'static Shape;

    /// Decodes a message, unless it has so many fields that decoding it would fill the memory.
    ///
    /// # Errors
    /// A sentence that says what is wrong with the bytes.
    fn decode_bounded(bytes: &[u8]) -> Result<Self, String> {
        check_message(bytes, Self::FIELDS_MAX, Self::shape())?;
        Self::decode(bytes).map_err(|error| error.to_string())
    }
}

macro_rules! shaped {
    ($($message:ty, $fields_max:expr, $shape:expr;)*) => {$(
        impl Shaped for $message {
            const FIELDS_MAX: usize = $fields_max;

            fn shape() -> &'static Shape {
                &$shape
            }
        }
    )*};
}

/// Fields of a request that names objects: three of each, the format's, and a few.
const OBJECTS_FIELDS_MAX: usize = 4 * OBJECTS_MAX + CSV_COLUMNS_MAX + 100;

shaped! {
    (), FIELDS_MAX, FLAT;
    Handshake, FIELDS_MAX, FLAT;
    ListRequest, FIELDS_MAX, FLAT;
    NodeStatus, FIELDS_MAX, FLAT;
    DropIndexResponse, FIELDS_MAX, FLAT;
    ListResponse, FIELDS_MAX, LIST_RESPONSE;
    DescribeRequest, OBJECTS_FIELDS_MAX, DESCRIBE_REQUEST;
    DescribeResponse, DESCRIPTION_FIELDS_MAX, DESCRIBE_RESPONSE;
    IndexStatusRequest, OBJECTS_FIELDS_MAX, INDEX_OBJECTS_REQUEST;
    DropIndexRequest, OBJECTS_FIELDS_MAX, INDEX_OBJECTS_REQUEST;
    IndexStatusResponse, 8 * OBJECTS_MAX, INDEX_STATUS_RESPONSE;
    // A partition is up to four numbers and their message, a range two numbers.
    Ticket, 5 * PARTS_MAX + CSV_COLUMNS_MAX + 1000, TICKET;
}

const fn message(known: &'static [(u64, Kind)]) -> Shape {
    Shape { known, is_complete: true }
}

/// Numbers and texts.
static FLAT: Shape = message(&[]);
static LIST_RESPONSE: Shape = message(&[(1, Nested(&FLAT)), (2, Nested(&FLAT))]);
static FORMAT: Shape = message(&[(1, Nested(&CSV))]);
static CSV: Shape = message(&[(7, Numbers)]);
static DESCRIBE_REQUEST: Shape = message(&[(1, Nested(&FLAT)), (2, Nested(&FORMAT))]);
static DESCRIBE_RESPONSE: Shape = message(&[(1, Nested(&DESCRIPTION))]);
static DESCRIPTION: Shape = message(&[(1, Text), (2, Nested(&FLAT))]);
static INDEX_OBJECTS_REQUEST: Shape = message(&[(1, Nested(&FLAT)), (2, Nested(&FORMAT))]);
static INDEX_STATUS_RESPONSE: Shape = message(&[(1, Nested(&INDEX_STATUS))]);
static INDEX_STATUS: Shape = message(&[(2, Nested(&FLAT))]);
static TICKET: Shape =
    message(&[(1, Nested(&PARTITIONS)), (2, Nested(&RANGES)), (3, Nested(&PARTITIONS)), (8, Nested(&INDEX))]);
/// A fragment's request, and one with a bitmap, whose partition is one.
static PARTITIONS: Shape = message(&[(1, Nested(&FLAT)), (2, Nested(&FLAT)), (3, Nested(&FORMAT)), (5, Nested(&FLAT))]);
static RANGES: Shape = message(&[(1, Nested(&FLAT)), (2, Nested(&FLAT)), (3, Numbers), (4, Numbers)]);
static INDEX: Shape = message(&[(1, Nested(&FLAT)), (2, Nested(&FLAT)), (3, Nested(&FORMAT))]);

#[cfg(test)]
mod tests {
    use super::super::{Csv, Format, ObjectEntry, Range, RangesRequest, TicketKind};
    use super::*;

    /// As many as there may be pass, one more does not.
    #[test]
    fn objects_columns_and_parts_have_limits() {
        let entry = ObjectEntry { path: "p".into(), version: "v".into(), size: 1 };
        let csv = Csv { delimiter: 44, fields: vec![1; CSV_COLUMNS_MAX], ..Csv::default() };
        let format = Some(Format { csv: Some(csv) });
        let objects = vec![entry; OBJECTS_MAX];
        let request = DescribeRequest { objects, format, partition_bytes: 1 };
        assert!(DescribeRequest::decode_bounded(&request.encode_to_vec()).is_ok());
        for fields in [1 << 20, 15 << 20] {
            let csv = Csv { delimiter: 44, fields: vec![1; fields], ..Csv::default() };
            let request = DescribeRequest { format: Some(Format { csv: Some(csv) }), ..DescribeRequest::default() };
            assert!(DescribeRequest::decode_bounded(&request.encode_to_vec()).is_err());
        }
        let starts: Vec<u64> = vec![u64::MAX; PARTS_MAX];
        let ranges = RangesRequest { ends: starts.clone(), starts, ..RangesRequest::default() };
        let ticket = Ticket { kind: Some(TicketKind::Ranges(ranges)) };
        assert!(Ticket::decode_bounded(&ticket.encode_to_vec()).is_ok());
        let range = Range { row_groups: true, start: 1, end: 2, first_row: 3 };
        let request = super::super::FragmentRequest { partitions: vec![range; PARTS_MAX], ..Default::default() };
        let ticket = Ticket { kind: Some(TicketKind::Fragment(request)) };
        assert!(Ticket::decode_bounded(&ticket.encode_to_vec()).is_ok());
    }

    /// Texts and bytes of any content are one field.
    #[test]
    fn texts_are_not_counted_by_their_content() {
        let text = "\n\0".repeat(3 << 20);
        let list = ListRequest { prefix: text.clone() };
        assert!(ListRequest::decode_bounded(&list.encode_to_vec()).is_ok());
        let fragment = super::super::FragmentRequest { fragment: text.into_bytes(), ..Default::default() };
        let ticket = Ticket { kind: Some(TicketKind::Fragment(fragment)) };
        assert!(Ticket::decode_bounded(&ticket.encode_to_vec()).is_ok());
    }
}
