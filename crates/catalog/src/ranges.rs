//! Ranges of stored bytes.

use std::collections::VecDeque;
use std::ops::Range;

use bytes::{Bytes, BytesMut};
use futures::TryStreamExt;
use thermocline_pushdown::wire::{ErrorKind, ObjectEntry, Origin, RangesRequest, Ticket, TicketKind};
use thermocline_pushdown::{NodeError, PushbackToken};
use thermocline_storage::{NodeClient, wire_bytes};

/// Stored bytes of an object outside of any query, for inferring a schema.
///
/// # Errors
/// [`NodeError`], which names node and object.
pub(crate) async fn read_range(node: &NodeClient, object: &ObjectEntry, range: Range<u64>) -> Result<Bytes, NodeError> {
    let ranges = std::slice::from_ref(&range);
    let ticket = ranges_ticket(object, ranges, Origin::default(), None);
    let read = fetch(node, object, &ticket, ranges, |_| {}).await?;
    Ok(read.into_iter().next().unwrap_or_default())
}

/// The request for ranges of an object's stored bytes, under the token of a pushback if there is one.
pub fn ranges_ticket(
    object: &ObjectEntry,
    ranges: &[Range<u64>],
    origin: Origin,
    pushback: Option<PushbackToken>,
) -> Ticket {
    Ticket {
        kind: Some(TicketKind::Ranges(RangesRequest {
            origin: Some(origin),
            object: Some(object.clone()),
            starts: ranges.iter().map(|range| range.start).collect(),
            ends: ranges.iter().map(|range| range.end).collect(),
            pushback_token: pushback.map_or(0, PushbackToken::number),
        })),
    }
}

/// Stored bytes of ranges, in their order; `count` hears the bytes of each message on the wire.
///
/// # Errors
/// [`NodeError`], which names node and object.
pub async fn fetch(
    node: &NodeClient,
    object: &ObjectEntry,
    ticket: &Ticket,
    ranges: &[Range<u64>],
    count: impl Fn(u64),
) -> Result<Vec<Bytes>, NodeError> {
    let mut messages = node.get(ticket).await.map_err(|error| error.context(&object.path))?;
    let mut arrived: VecDeque<Bytes> = VecDeque::default();
    let mut read = Vec::with_capacity(ranges.len());
    for range in ranges {
        let wanted = (range.end - range.start) as usize;
        let mut held = arrived.iter().map(Bytes::len).sum::<usize>();
        while held < wanted {
            let Some(message) = messages.try_next().await.map_err(|error| error.context(&object.path))? else {
                return Err(NodeError::new(
                    ErrorKind::Unavailable,
                    format!("storage node {}: {}: the answer ended early", node.label(), object.path),
                ));
            };
            count(wire_bytes(&message));
            held += message.data_body.len();
            arrived.push_back(message.data_body);
        }
        read.push(take(&mut arrived, wanted));
    }
    while let Some(message) = messages.try_next().await.map_err(|error| error.context(&object.path))? {
        count(wire_bytes(&message));
        if !message.data_body.is_empty() {
            return Err(NodeError::new(
                ErrorKind::Unavailable,
                format!("storage node {}: {}: the answer is longer than asked for", node.label(), object.path),
            ));
        }
    }
    Ok(read)
}

/// The first `wanted` bytes, without a copy where one message holds them. The caller has made sure
/// that they have arrived.
fn take(arrived: &mut VecDeque<Bytes>, wanted: usize) -> Bytes {
    if let Some(first) = arrived.front_mut()
        && first.len() >= wanted
    {
        return first.split_to(wanted);
    }
    let mut whole = BytesMut::with_capacity(wanted);
    while whole.len() < wanted {
        let Some(mut piece) = arrived.pop_front() else { break };
        let taken = piece.split_to(piece.len().min(wanted - whole.len()));
        whole.extend_from_slice(&taken);
        if !piece.is_empty() {
            arrived.push_front(piece);
        }
    }
    whole.freeze()
}
