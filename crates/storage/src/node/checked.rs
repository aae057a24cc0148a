//! Requests and answers before anything is done on their word.

use std::ops::Range;

use thermocline_formats::text_bytes_max;
use thermocline_pushdown::NodeError;
use thermocline_pushdown::wire::{
    ErrorKind, OBJECTS_MAX, ORIGIN_BYTES_MAX, ObjectEntry, Origin, PARTS_MAX, RangesRequest, Shaped, Ticket, TicketKind,
};

/// Bytes of a path or a version of an object.
const NAME_BYTES_MAX: usize = 4096;

/// Decodes a `DoGet` ticket and checks what it names. Fragments and schemas in it are still bytes.
pub(crate) fn checked_ticket(bytes: &[u8]) -> Result<Ticket, NodeError> {
    let refused = |why: String| NodeError::new(ErrorKind::Refused, why);
    let ticket = Ticket::decode_bounded(bytes).map_err(|why| refused(format!("a ticket does not decode: {why}")))?;
    let (origin, object) = match &ticket.kind {
        Some(TicketKind::Fragment(request)) => (&request.origin, &request.object),
        Some(TicketKind::Ranges(request)) => (&request.origin, &request.object),
        Some(TicketKind::Bitmap(request)) => (&request.origin, &request.object),
        Some(TicketKind::Index(request)) => (&request.origin, &request.object),
        None => return Err(refused("a ticket asks for nothing".into())),
    };
    origin.as_ref().map_or(Ok(()), check_origin)?;
    let Some(object) = object else { return Ok(ticket) };
    check_object(object)?;
    let parts = match &ticket.kind {
        Some(TicketKind::Ranges(request)) => {
            check_ranges(request, object)?;
            // Their number is checked where they are read.
            1
        }
        Some(TicketKind::Fragment(request)) => {
            request
                .partitions
                .iter()
                .filter(|range| !range.row_groups)
                .try_for_each(|range| check_text_range(&(range.start..range.end), object))?;
            request.partitions.len()
        }
        Some(TicketKind::Bitmap(request)) => {
            let range = request.partition.filter(|range| !range.row_groups);
            range.map_or(Ok(()), |range| check_text_range(&(range.start..range.end), object))?;
            1
        }
        _ => 1,
    };
    if parts > PARTS_MAX {
        return Err(refused(format!("{}: a request names {parts} parts", object.path)));
    }
    Ok(ticket)
}

/// Checks the number of objects that a request names, and their names.
pub(super) fn check_objects(objects: &[ObjectEntry]) -> Result<(), NodeError> {
    if objects.len() > OBJECTS_MAX {
        let why = format!("a request names {} objects, more than {OBJECTS_MAX}", objects.len());
        return Err(NodeError::new(ErrorKind::Refused, why));
    }
    objects.iter().try_for_each(check_object)
}

/// Checks an object's names: there is a path, and none is long.
pub(super) fn check_object(object: &ObjectEntry) -> Result<(), NodeError> {
    if object.path.is_empty() {
        return Err(NodeError::new(ErrorKind::Refused, "a request names an object without a path"));
    }
    let longest = object.path.len().max(object.version.len());
    if longest <= NAME_BYTES_MAX {
        return Ok(());
    }
    Err(NodeError::new(ErrorKind::Refused, format!("a request names an object in {longest} bytes")))
}

fn check_origin(origin: &Origin) -> Result<(), NodeError> {
    let longest = origin.query_id.len().max(origin.tenant.len());
    if longest <= ORIGIN_BYTES_MAX {
        return Ok(());
    }
    Err(NodeError::new(ErrorKind::Refused, format!("a request names its query or tenant in {longest} bytes")))
}

/// Checks that all ranges lie in the object.
fn check_ranges(request: &RangesRequest, object: &ObjectEntry) -> Result<(), NodeError> {
    for (start, end) in request.starts.iter().zip(&request.ends) {
        check_range(&(*start..*end), object)?;
    }
    Ok(())
}

/// Checks a range of stored bytes.
fn check_range(range: &Range<u64>, object: &ObjectEntry) -> Result<(), NodeError> {
    check_within(range, object, object.size)
}

/// Checks a range of an object's text, which may be longer than what is stored.
fn check_text_range(range: &Range<u64>, object: &ObjectEntry) -> Result<(), NodeError> {
    check_within(range, object, text_bytes_max(object))
}

fn check_within(range: &Range<u64>, object: &ObjectEntry, end: u64) -> Result<(), NodeError> {
    if range.start <= range.end && range.end <= end {
        return Ok(());
    }
    Err(NodeError::new(
        ErrorKind::Refused,
        format!("{}: bytes {}..{} are not in an object of {} bytes", object.path, range.start, range.end, object.size),
    ))
}
