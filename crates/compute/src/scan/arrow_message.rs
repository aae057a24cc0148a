//! Arrow messages of a storage node before they are decoded.
//!
//! The decoder makes room for whatever a compressed buffer claims to become, slices buffers where the
//! header says, and builds the types that the node's schema names. A node that is broken, or is not
//! one of ours, must cost its query, not this process.

use arrow::datatypes::{DataType, Schema};
use arrow::ipc::{BodyCompressionMethod, CompressionType, Message, MessageHeader, RecordBatch, root_as_message};
use arrow_flight::FlightData;
use thermocline_storage::decode_arrow_schema;

/// Bytes that the buffers of one message may become; a node makes messages of about 1 MiB.
const UNCOMPRESSED_BYTES_MAX: u64 = 512 << 20;
/// Rows of a message; without columns they take no bytes.
const ROWS_MAX: i64 = 1 << 24;
/// Most bytes that a byte of LZ4 becomes.
const LZ4_RATIO_MAX: u64 = 255;

/// Checks a message of an answer whose columns are those of `expected`.
///
/// # Errors
/// A sentence that says what is wrong with it.
pub(super) fn check_arrow_message(data: &FlightData, expected: &Schema) -> Result<(), String> {
    let message = root_as_message(&data.data_header).map_err(|error| format!("an Arrow message: {error}"))?;
    match message.header_type() {
        MessageHeader::Schema => check_schema(data, expected),
        MessageHeader::RecordBatch => check_batch(&message, message.header_as_record_batch(), &data.data_body),
        MessageHeader::DictionaryBatch => {
            let dictionary = message.header_as_dictionary_batch();
            check_batch(&message, dictionary.and_then(|dictionary| dictionary.data()), &data.data_body)
        }
        _ => Ok(()),
    }
}

/// The types decide what is made of all buffers to come.
fn check_schema(data: &FlightData, expected: &Schema) -> Result<(), String> {
    let found = decode_arrow_schema(&data.data_header).map_err(|why| format!("the schema of the answer: {why}"))?;
    let same = found.fields().len() == expected.fields().len()
        && found.fields().iter().zip(expected.fields()).all(|(found, expected)| {
            let (found, expected) = (found.data_type(), expected.data_type());
            // A dictionary may travel as its values.
            expected.equals_datatype(found)
                || matches!(expected, DataType::Dictionary(_, values) if values.equals_datatype(found))
        });
    if same { Ok(()) } else { Err("the answer has other columns than asked for".into()) }
}

fn check_batch(message: &Message<'_>, batch: Option<RecordBatch<'_>>, body: &[u8]) -> Result<(), String> {
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
    let views = batch.variadicBufferCounts().map_or(0, |counts| counts.iter().fold(0, i64::saturating_add));
    if views < 0 || views > buffers.len() as i64 {
        return Err(format!("a batch claims {views} of its {} buffers for views", buffers.len()));
    }
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
    }
    Ok(())
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
            for message in messages(codec) {
                check_arrow_message(&message, &batch().schema()).unwrap();
            }
        }
        let views = batch().column(1).to_data().buffers().len();
        assert!(views > 1, "a batch with variadic buffers");
    }

    #[test]
    fn buffers_that_claim_what_they_do_not_hold() {
        for codec in CODECS.into_iter().flatten() {
            let mut message = messages(Some(codec)).remove(1);
            let mut body = message.data_body.to_vec();
            let at = (0..body.len() - 8)
                .step_by(8)
                .find(|at| i64::from_le_bytes(body[*at..at + 8].try_into().unwrap()) > 1000);
            let at = at.unwrap();
            body[at..at + 8].copy_from_slice(&(1_i64 << 46).to_le_bytes());
            message.data_body = body.into();
            let error = check_arrow_message(&message, &batch().schema()).unwrap_err();
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
        assert!(check_arrow_message(&messages(None)[0], &other).is_err());
        let mut message = messages(None).remove(1);
        message.data_body = message.data_body.slice(..100);
        let error = check_arrow_message(&message, &batch().schema()).unwrap_err();
        assert!(error.contains("outside its message"), "{error}");
    }

    /// Whatever the bytes are: nothing panics, and no more memory is claimed than is allowed.
    #[test]
    fn damaged_messages() {
        let seed = 0x5eed_a440;
        println!("seed {seed:#x}");
        let mut random = rand::rngs::StdRng::seed_from_u64(seed);
        for codec in CODECS {
            for message in messages(codec) {
                for _ in 0..200 {
                    let mut header = message.data_header.to_vec();
                    let at = random.random_range(0..header.len());
                    header[at] = random.random();
                    let mut body = message.data_body.to_vec();
                    if !body.is_empty() {
                        let at = random.random_range(0..body.len());
                        body[at] = 0xff;
                    }
                    let damaged = FlightData { data_header: header.into(), data_body: body.into(), ..message.clone() };
                    let _checked = check_arrow_message(&damaged, &batch().schema());
                }
            }
        }
    }
}
