//! Arrow messages of a storage node before they are decoded.
//!
//! The decoder makes room for whatever a compressed buffer claims to become, slices buffers where the
//! header says, and builds the types that the node's schema names. A node that is broken, or is not
//! one of ours, must cost its query, not this process.

use arrow::datatypes::{DataType, Schema, SchemaRef};
use arrow::ipc::{
    BodyCompressionMethod, CompressionType, FieldNode, Message, MessageHeader, RecordBatch, root_as_message,
};
use arrow_flight::FlightData;
use thermocline_formats::decode_arrow_schema;

/// Bytes that the buffers of one message may become; a node makes messages of about 1 MiB.
const UNCOMPRESSED_BYTES_MAX: u64 = 512 << 20;
/// Rows of a message; without columns they take no bytes.
const ROWS_MAX: i64 = 1 << 24;
/// Most bytes that a byte of LZ4 becomes.
const LZ4_RATIO_MAX: u64 = 255;

/// Checks the messages of one answer, in their order.
#[derive(Debug)]
pub(super) struct ArrowMessages {
    expected: SchemaRef,
    /// The schema that the answer began with.
    found: Option<Schema>,
}

impl ArrowMessages {
    /// Checks of an answer whose columns are those of `expected`.
    pub(super) fn new(expected: SchemaRef) -> Self {
        Self { expected, found: None }
    }

    /// Checks the next message.
    ///
    /// # Errors
    /// A sentence that says what is wrong with it.
    pub(super) fn check(&mut self, data: &FlightData) -> Result<(), String> {
        let message = root_as_message(&data.data_header).map_err(|error| format!("an Arrow message: {error}"))?;
        let schema = self.found.as_ref().ok_or("a batch comes before its schema");
        match message.header_type() {
            MessageHeader::Schema => {
                self.found = Some(checked_schema(data, &self.expected)?);
                Ok(())
            }
            MessageHeader::RecordBatch => {
                let types: Vec<_> = schema?.fields().iter().map(|field| field.data_type()).collect();
                check_batch(&message, message.header_as_record_batch(), &data.data_body, &types)
            }
            MessageHeader::DictionaryBatch => {
                let dictionary = message.header_as_dictionary_batch().ok_or("a dictionary without a header")?;
                let values = dictionary_values(schema?, dictionary.id()).ok_or("a dictionary of no column")?;
                check_batch(&message, dictionary.data(), &data.data_body, &[values])
            }
            _ => Ok(()),
        }
    }
}

/// The type of the values of a dictionary, as the decoder finds it.
#[expect(deprecated, reason = "the decoder goes by these ids")]
fn dictionary_values(schema: &Schema, id: i64) -> Option<&DataType> {
    schema.fields_with_dict_id(id).into_iter().find_map(|field| match field.data_type() {
        DataType::Dictionary(_, values) => Some(values.as_ref()),
        _ => None,
    })
}

/// The types decide what is made of all buffers to come.
fn checked_schema(data: &FlightData, expected: &Schema) -> Result<Schema, String> {
    let found = decode_arrow_schema(&data.data_header).map_err(|why| format!("the schema of the answer: {why}"))?;
    if found.fields().len() != expected.fields().len() {
        let counts = (found.fields().len(), expected.fields().len());
        return Err(format!("the answer has {} columns, and {} were asked for", counts.0, counts.1));
    }
    for (found, expected) in found.fields().iter().zip(expected.fields()) {
        let (name, found, expected) = (expected.name(), found.data_type(), expected.data_type());
        // A dictionary may travel as its values.
        let same = expected.equals_datatype(found)
            || matches!(expected, DataType::Dictionary(_, values) if values.equals_datatype(found));
        if !same {
            return Err(format!("column '{name}' of the answer is {found}, and {expected} was asked for"));
        }
    }
    Ok(found)
}

fn check_batch(
    message: &Message<'_>,
    batch: Option<RecordBatch<'_>>,
    body: &[u8],
    types: &[&DataType],
) -> Result<(), String> {
    let batch = batch.ok_or("a batch without a header")?;
    if !(0..=ROWS_MAX).contains(&batch.length()) {
        return Err(format!("a batch of {} rows", batch.length()));
    }
    if usize::try_from(message.bodyLength()).is_err() {
        return Err("a batch of negative length".into());
    }
    let codec = match batch.compression() {
        None => None,
        Some(compression) if compression.method() == BodyCompressionMethod::BUFFER => Some(compression.codec()),
        Some(_) => return Err("a batch is compressed by an unknown method".into()),
    };
    let buffers = batch.buffers().ok_or("a batch without buffers")?;
    let views: Vec<i64> = batch.variadicBufferCounts().map_or(vec![], |counts| counts.iter().collect());
    let of_views = views.iter().copied().fold(0, i64::saturating_add);
    if views.iter().any(|count| *count < 0) || of_views > buffers.len() as i64 {
        return Err(format!("a batch claims {of_views} of its {} buffers for views", buffers.len()));
    }
    let mut sizes = Vec::with_capacity(buffers.len());
    let mut left = UNCOMPRESSED_BYTES_MAX;
    for buffer in buffers {
        let start = usize::try_from(buffer.offset()).ok();
        let end =
            start.zip(usize::try_from(buffer.length()).ok()).and_then(|(start, length)| start.checked_add(length));
        let bytes =
            start.zip(end).and_then(|(start, end)| body.get(start..end)).ok_or("a buffer lies outside its message")?;
        let becomes = match codec {
            _ if bytes.is_empty() => 0,
            None => bytes.len() as u64,
            Some(codec) => uncompressed_bytes_max(codec, bytes)?,
        };
        left = left.checked_sub(becomes).ok_or("the buffers of a message claim more than 512 MiB")?;
        sizes.push(match codec {
            None => becomes,
            Some(_) => claimed_bytes(bytes, becomes),
        });
    }
    let nodes: Vec<FieldNode> = batch.nodes().map_or(vec![], |nodes| nodes.iter().copied().collect());
    let mut columns = Columns { nodes: nodes.iter(), sizes: sizes.into_iter(), views: views.into_iter() };
    types.iter().try_for_each(|data_type| columns.check(data_type, Some(batch.length())))
}

/// The bytes that a compressed buffer becomes, unless the decoder refuses it; `most` if it is stored as it is.
fn claimed_bytes(buffer: &[u8], most: u64) -> u64 {
    let claimed = buffer.first_chunk::<8>().map_or(0, |claimed| i64::from_le_bytes(*claimed));
    u64::try_from(claimed).unwrap_or(most)
}

/// What there is of a batch for the columns that were not looked at. Buffers follow each other as the types
/// say.
struct Columns<'a> {
    nodes: std::slice::Iter<'a, FieldNode>,
    /// Bytes of the buffers, decompressed.
    sizes: std::vec::IntoIter<u64>,
    /// Buffers of values of each column of views.
    views: std::vec::IntoIter<i64>,
}

impl Columns<'_> {
    /// Checks that the buffers of a column, or of a part of one, suffice for its rows: the decoder takes that
    /// for granted. `rows` are those of the batch.
    fn check(&mut self, data_type: &DataType, rows: Option<i64>) -> Result<(), String> {
        let node = self.nodes.next().ok_or("a batch has fewer columns than its schema")?;
        let known = |count: i64| u64::try_from(count).ok().filter(|count| *count <= UNCOMPRESSED_BYTES_MAX);
        let (Some(length), Some(nulls)) = (known(node.length()), known(node.null_count())) else {
            return Err(format!("a column of {} rows and {} NULLs", node.length(), node.null_count()));
        };
        if nulls > length || rows.is_some_and(|rows| rows != node.length()) {
            return Err(format!("a column of {length} rows and {nulls} NULLs in a batch of {rows:?} rows"));
        }
        let has_validity = !matches!(data_type, DataType::Null | DataType::RunEndEncoded(..) | DataType::Union(..));
        if has_validity {
            self.buffer(if nulls > 0 { length.div_ceil(8) } else { 0 }, 1, data_type)?;
        }
        let offsets = |width: u64| if length == 0 { 0 } else { (length + 1) * width };
        match data_type {
            DataType::Null => Ok(()),
            DataType::Boolean => self.buffer(length.div_ceil(8), 1, data_type),
            DataType::Utf8 | DataType::Binary => {
                self.buffer(offsets(4), 4, data_type)?;
                self.buffer(0, 1, data_type)
            }
            DataType::LargeUtf8 | DataType::LargeBinary => {
                self.buffer(offsets(8), 8, data_type)?;
                self.buffer(0, 1, data_type)
            }
            DataType::Utf8View | DataType::BinaryView => {
                let values = self.views.next().ok_or("a column of views without a number of buffers")?;
                self.buffer(16 * length, 16, data_type)?;
                (0..values).try_for_each(|_| self.buffer(0, 1, data_type))
            }
            DataType::FixedSizeBinary(width) => self.buffer(length * u64::from(width.unsigned_abs()), 1, data_type),
            DataType::List(child) | DataType::Map(child, _) => {
                self.buffer(offsets(4), 4, data_type)?;
                self.check(child.data_type(), None)
            }
            DataType::LargeList(child) => {
                self.buffer(offsets(8), 8, data_type)?;
                self.check(child.data_type(), None)
            }
            DataType::ListView(child) | DataType::LargeListView(child) => {
                let width = if matches!(data_type, DataType::ListView(_)) { 4 } else { 8 };
                self.buffer(width * length, width, data_type)?;
                self.buffer(width * length, width, data_type)?;
                self.check(child.data_type(), None)
            }
            DataType::FixedSizeList(child, _) => self.check(child.data_type(), None),
            DataType::Struct(children) => {
                children.iter().try_for_each(|child| self.check(child.data_type(), Some(node.length())))
            }
            DataType::RunEndEncoded(ends, values) => {
                self.check(ends.data_type(), None)?;
                self.check(values.data_type(), None)
            }
            DataType::Dictionary(keys, _) => self.values(keys, length),
            other => self.values(other, length),
        }
    }

    /// Checks the buffer of `length` values of one width.
    fn values(&mut self, data_type: &DataType, length: u64) -> Result<(), String> {
        let width = data_type.primitive_width().ok_or_else(|| format!("a column of type {data_type}"))?;
        self.buffer(length * width as u64, width as u64, data_type)
    }

    /// Checks the next buffer, of whole values of `width` bytes.
    fn buffer(&mut self, bytes_min: u64, width: u64, data_type: &DataType) -> Result<(), String> {
        let bytes = self.sizes.next().ok_or("a batch has fewer buffers than its columns")?;
        if bytes >= bytes_min && bytes.is_multiple_of(width.max(1)) {
            return Ok(());
        }
        Err(format!(
            "a buffer of a column of type {data_type} has {bytes} bytes where {bytes_min} are needed, in values of {width}"
        ))
    }
}

/// The most that a compressed buffer can become.
fn uncompressed_bytes_max(codec: CompressionType, buffer: &[u8]) -> Result<u64, String> {
    let (claimed, content) = buffer.split_first_chunk::<8>().ok_or("a compressed buffer is cut short")?;
    match i64::from_le_bytes(*claimed) {
        // Stored as it is.
        -1 => Ok(content.len() as u64),
        claimed => {
            let claimed = u64::try_from(claimed).map_err(|_| format!("a buffer claims {claimed} bytes"))?;
            match codec {
                // Its decoder stops at what is claimed; that of LZ4 stops at the end of the frame.
                CompressionType::ZSTD => Ok(claimed),
                CompressionType::LZ4_FRAME if claimed == 0 => Ok(0),
                CompressionType::LZ4_FRAME => {
                    Ok(claimed.max(lz4_bytes_max(content).ok_or("a buffer is no LZ4 frame")?))
                }
                _ => Err("a batch is compressed by an unknown codec".into()),
            }
        }
    }
}

/// The most that an LZ4 frame can become, by the sizes of its blocks; `None` if it is none.
fn lz4_bytes_max(frame: &[u8]) -> Option<u64> {
    const MAGIC: [u8; 4] = [0x04, 0x22, 0x4d, 0x18];
    const PLAIN_BLOCK: u32 = 1 << 31;
    let (magic, rest) = frame.split_first_chunk::<4>()?;
    let (&[flags, block], rest) = rest.split_first_chunk::<2>()?;
    if *magic != MAGIC || flags >> 6 != 1 {
        return None;
    }
    let block_bytes_max = match block >> 4 & 7 {
        size @ 4..=7 => 1_u64 << (8 + 2 * size),
        _ => return None,
    };
    let has = |bit: u8| usize::from(flags >> bit & 1);
    // Content size, dictionary id, checksum of the header.
    let mut rest = rest.get(8 * has(3) + 4 * has(0) + 1..)?;
    let mut bytes = 0_u64;
    while let Some((size, after)) = rest.split_first_chunk::<4>() {
        let size = u32::from_le_bytes(*size);
        let length = size & !PLAIN_BLOCK;
        if length == 0 {
            break;
        }
        let becomes = if size == length { u64::from(length) * LZ4_RATIO_MAX } else { u64::from(length) };
        bytes = bytes.saturating_add(becomes.min(block_bytes_max));
        rest = after.get(length as usize + 4 * has(4)..)?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

    use std::sync::Arc;

    use arrow::array::{Array, ArrayRef, Int64Array, RecordBatch, StringViewArray};
    use arrow::datatypes::Field;
    use arrow::ipc::writer::IpcWriteOptions;
    use arrow_flight::encode::FlightDataEncoderBuilder;
    use futures::TryStreamExt;
    use rand::{Rng, SeedableRng};

    use super::*;

    fn batch() -> RecordBatch {
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter((0..50_000).map(|n| (n % 7 != 0).then_some(n % 1000))));
        let texts: ArrayRef =
            Arc::new(StringViewArray::from_iter_values((0..50_000).map(|n| format!("a longer text {n}"))));
        RecordBatch::try_from_iter_with_nullable([("n", numbers, true), ("t", texts, true)]).unwrap()
    }

    /// An answer's messages, as a node encodes them.
    fn messages(codec: Option<CompressionType>) -> Vec<FlightData> {
        let options = IpcWriteOptions::default().try_with_compression(codec).unwrap();
        let encoder = FlightDataEncoderBuilder::new()
            .with_schema(batch().schema())
            .with_options(options)
            .build(futures::stream::iter([Ok(batch())]));
        tokio::runtime::Runtime::new().unwrap().block_on(encoder.try_collect()).unwrap()
    }

    const CODECS: [Option<CompressionType>; 3] = [None, Some(CompressionType::LZ4_FRAME), Some(CompressionType::ZSTD)];

    #[test]
    fn what_nodes_send_passes() {
        for codec in CODECS {
            let mut checked = ArrowMessages::new(batch().schema());
            messages(codec).iter().for_each(|message| checked.check(message).unwrap());
        }
        let views = batch().column(1).to_data().buffers().len();
        assert!(views > 1, "a batch with variadic buffers");
    }

    #[test]
    fn buffers_that_claim_what_they_do_not_hold() {
        for codec in CODECS.into_iter().flatten() {
            let codec = Some(codec);
            let mut message = messages(codec).remove(1);
            let mut body = message.data_body.to_vec();
            let at = (0..body.len() - 8)
                .step_by(8)
                .find(|at| i64::from_le_bytes(body[*at..at + 8].try_into().unwrap()) > 1000);
            let at = at.unwrap();
            body[at..at + 8].copy_from_slice(&(1_i64 << 46).to_le_bytes());
            message.data_body = body.into();
            let error = begun(codec).check(&message).unwrap_err();
            assert!(error.contains("512 MiB"), "{error}");
        }
    }

    #[test]
    fn an_lz4_frame_that_becomes_more_than_it_claims() {
        // 1 000 blocks of 4 MiB, each of a few bytes.
        let mut frame = vec![0x04, 0x22, 0x4d, 0x18, 0x40, 0x70, 0x00];
        (0..1000).for_each(|_| frame.extend([&20_000_u32.to_le_bytes()[..], &[0; 20_000]].concat()));
        assert_eq!(lz4_bytes_max(&frame), Some(1000 * (4 << 20)));
        let claims_little = [&8_i64.to_le_bytes()[..], &frame].concat();
        assert_eq!(uncompressed_bytes_max(CompressionType::LZ4_FRAME, &claims_little), Ok(1000 * (4 << 20)));
    }

    #[test]
    fn another_schema_and_a_cut_body() {
        let other = Schema::new(vec![Field::new("n", DataType::FixedSizeBinary(i32::MAX), true)]);
        assert!(ArrowMessages::new(other.into()).check(&messages(None)[0]).is_err());
        let mut message = messages(None).remove(1);
        message.data_body = message.data_body.slice(..100);
        let error = begun(None).check(&message).unwrap_err();
        assert!(error.contains("outside its message"), "{error}");
    }

    /// Checks that have seen the schema.
    fn begun(codec: Option<CompressionType>) -> ArrowMessages {
        let mut checked = ArrowMessages::new(batch().schema());
        checked.check(&messages(codec)[0]).unwrap();
        checked
    }

    /// Columns of every layout, with NULLs.
    fn layouts() -> RecordBatch {
        let numbers = |rows: usize| Int64Array::from_iter((0..rows as i64).map(|n| (n % 3 != 0).then_some(n)));
        let types = [
            DataType::Boolean,
            DataType::Int8,
            DataType::Float64,
            DataType::Decimal128(20, 2),
            DataType::Utf8,
            DataType::LargeUtf8,
            DataType::Utf8View,
            DataType::Binary,
            DataType::Date32,
            DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8)),
            DataType::List(Field::new("item", DataType::Int64, true).into()),
            DataType::FixedSizeList(Field::new("item", DataType::Int64, true).into(), 1),
        ];
        let text = arrow::compute::cast(&numbers(100), &DataType::Utf8).unwrap();
        let mut columns: Vec<(String, ArrayRef)> =
            vec![("null".into(), arrow::array::new_null_array(&DataType::Null, 100))];
        for data_type in types {
            let from: &dyn Array = if matches!(data_type, DataType::Binary) { &text } else { &numbers(100) };
            columns.push((data_type.to_string(), arrow::compute::cast(from, &data_type).unwrap()));
        }
        let parts: Vec<_> =
            columns.iter().map(|(name, array)| Field::new(name, array.data_type().clone(), true)).collect();
        let arrays = columns.iter().map(|(_, array)| Arc::clone(array)).collect();
        let nulls = (0..100).map(|n| n % 5 != 0).collect::<Vec<_>>();
        let parts = arrow::array::StructArray::new(parts.into(), arrays, Some(nulls.into()));
        columns.push(("struct".into(), Arc::new(parts)));
        RecordBatch::try_from_iter_with_nullable(columns.iter().map(|(name, array)| (name, Arc::clone(array), true)))
            .unwrap()
    }

    fn encoded(batch: &RecordBatch, codec: Option<CompressionType>) -> Vec<FlightData> {
        let options = IpcWriteOptions::default().try_with_compression(codec).unwrap();
        let encoder = FlightDataEncoderBuilder::new()
            .with_options(options)
            .with_dictionary_handling(arrow_flight::encode::DictionaryHandling::Resend)
            .build(futures::stream::iter([Ok(batch.clone())]));
        tokio::runtime::Runtime::new().unwrap().block_on(encoder.try_collect()).unwrap()
    }

    /// Whatever the bytes are: no more memory is claimed than is allowed, and what passes the check makes no
    /// decoder panic.
    #[test]
    fn damaged_messages() {
        let seed = 0x5eed_a440;
        println!("seed {seed:#x}");
        let mut random = rand::rngs::StdRng::seed_from_u64(seed);
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let (mut refused, mut read) = (0, 0);
        for codec in CODECS {
            let whole = encoded(&layouts(), codec);
            for round in 0..4000 {
                let mut damaged = whole.clone();
                let which = round % damaged.len();
                let message = &mut damaged[which];
                let mut header = message.data_header.to_vec();
                let mut body = message.data_body.to_vec();
                for _ in 0..random.random_range(1..3) {
                    let at = random.random_range(0..header.len());
                    header[at] =
                        if random.random() { random.random() } else { header[at] ^ (1 << random.random_range(0..8)) };
                }
                if !body.is_empty() && random.random() {
                    let at = random.random_range(0..body.len());
                    body[at] = 0xff;
                }
                *message = FlightData { data_header: header.into(), data_body: body.into(), ..message.clone() };
                let mut checks = ArrowMessages::new(layouts().schema());
                let checked: Vec<_> = damaged
                    .into_iter()
                    .map(|message| {
                        let checked = checks.check(&message).map(|()| message);
                        checked.map_err(arrow_flight::error::FlightError::DecodeError)
                    })
                    .collect();
                refused += usize::from(checked.iter().any(Result::is_err));
                let decoded =
                    arrow_flight::decode::FlightRecordBatchStream::new_from_flight_data(futures::stream::iter(checked));
                let decoded: Result<Vec<_>, _> = runtime.block_on(decoded.try_collect());
                read += usize::from(decoded.is_ok());
            }
        }
        assert!(refused > 1000 && read > 1000, "{refused} were refused, {read} were read");
    }

    /// A validity buffer that is too short for its rows, of each column and part of one.
    #[test]
    fn buffers_that_are_too_short() {
        let whole = encoded(&layouts(), None);
        let mut checks = ArrowMessages::new(layouts().schema());
        whole.iter().for_each(|message| checks.check(message).unwrap());
        let last = whole.last().unwrap();
        let message = root_as_message(&last.data_header).unwrap();
        let batch = message.header_as_record_batch().unwrap();
        let mut refused = 0;
        for buffer in batch.buffers().unwrap().iter().filter(|buffer| buffer.length() > 0) {
            let mut header = last.data_header.to_vec();
            let wanted = [buffer.offset().to_le_bytes(), buffer.length().to_le_bytes()].concat();
            let at = header.windows(16).position(|bytes| bytes == wanted).unwrap();
            header[at + 8..at + 16].copy_from_slice(&1_i64.to_le_bytes());
            let short = FlightData { data_header: header.into(), ..last.clone() };
            refused += usize::from(checks.check(&short).is_err());
        }
        // The bytes of texts are the decoder's own to check.
        assert!(refused > 25, "{refused}");
    }
}
