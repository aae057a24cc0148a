//! Bodies of the fuzz targets: each function takes any bytes and treats them as the node or its client
//! treats those of a peer or a file. The test is that it returns.
//!
//! The targets in `fuzz/` run them without a limit of time; the test `hostile` of this crate runs
//! them over the same corpus and a bounded number of mutations.

use std::io::Write;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use thermocline_formats::csv::{CsvDecoder, CsvOptions, SplitScanner};
use thermocline_formats::decode_footer;
use thermocline_pushdown::wire::{
    BitmapRequest, DescribeRequest, DropIndexRequest, IndexStatusRequest, ListRequest, Shaped, TicketKind,
    decode_scalar, decode_schema,
};
use thermocline_pushdown::{Bitmap, FileFormat, Fragment, Limits, PartitionRange, node_functions};

use crate::index::{IndexFile, KeyRanges};
use crate::node::checked_ticket;

/// A body: any bytes, and no result.
pub type Body = fn(&[u8]);

/// Every target by name.
pub const TARGETS: [(&str, Body); 5] =
    [("ticket", ticket), ("fragment", fragment), ("csv", csv), ("index_file", index_file), ("footer", footer)];

/// A `DoGet` ticket and all that is in it; the bodies of actions.
pub fn ticket(bytes: &[u8]) {
    if let Ok(ticket) = checked_ticket(bytes) {
        let (schema, of_fragment, format) = match ticket.kind {
            Some(TicketKind::Fragment(request)) => (request.table_schema, request.fragment, request.format),
            Some(TicketKind::Bitmap(request)) => {
                bitmap(&request);
                (request.table_schema, request.fragment, request.format)
            }
            Some(TicketKind::Index(request)) => (request.table_schema, vec![], request.format),
            _ => return,
        };
        let _schema = decode_schema(&schema);
        fragment(&of_fragment);
        let _format = format.as_ref().map(FileFormat::try_from);
    }
    let _listed = ListRequest::decode_bounded(bytes);
    let _described = DescribeRequest::decode_bounded(bytes);
    let _status = IndexStatusRequest::decode_bounded(bytes);
    let _dropped = DropIndexRequest::decode_bounded(bytes);
    let _value = decode_scalar(bytes);
}

/// A bitmap is decoded once there is room for the rows that it claims; here there is for a million.
fn bitmap(request: &BitmapRequest) {
    if let Ok(rows) = Bitmap::encoded_rows(&request.bitmap)
        && rows <= 1 << 20
    {
        let _bitmap = Bitmap::decode(&request.bitmap, rows);
    }
}

/// An encoded fragment.
pub fn fragment(bytes: &[u8]) {
    if let Ok((fragment, columns)) = Fragment::decode(bytes, node_functions(), &Limits::default()) {
        let _text = fragment.to_string();
        let _selection = fragment.selection();
        let rows = datafusion::physical_plan::stream::EmptyRecordBatchStream::new(columns);
        let _plan = fragment.instantiate(Box::pin(rows));
    }
}

/// A CSV object, after a byte that picks the dialect: split, decoded whole and by its splits, both of
/// which must find the same number of rows.
pub fn csv(bytes: &[u8]) {
    let Some((&pick, text)) = bytes.split_first() else { return };
    let options = CsvOptions {
        delimiter: if pick & 1 == 0 { b',' } else { b'|' },
        quote: (pick & 2 == 0).then_some(b'"'),
        escape: (pick & 4 != 0).then_some(b'\\'),
        has_header: pick & 8 != 0,
        null_text: if pick & 16 == 0 { String::new() } else { "NULL".into() },
        fields: None,
    };
    let types = [
        DataType::Int64,
        DataType::Utf8View,
        DataType::Float64,
        DataType::Decimal128(20, 3),
        DataType::Date32,
        DataType::Timestamp(TimeUnit::Microsecond, None),
        DataType::Boolean,
    ];
    let types: &[DataType] = if pick & 32 == 0 { &types } else { types.get(1..2).unwrap_or_default() };
    let fields = types.iter().enumerate().map(|(n, kind)| Field::new(format!("c{n}"), kind.clone(), true));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let piece_bytes = usize::from(pick >> 6) * 7 + 64;
    let Ok(mut scanner) = SplitScanner::try_new(&options, 256) else { return };
    let scanned = text.chunks(piece_bytes).try_for_each(|chunk| scanner.push(chunk)).and_then(|()| scanner.finish());
    let decoded = |range: std::ops::Range<usize>| {
        let projection = (0..types.len()).collect();
        let mut decoder = CsvDecoder::try_new(Arc::clone(&schema), &options, projection, 100)?
            .with_start(range.start as u64, 1)
            .with_statistics();
        for chunk in text.get(range).unwrap_or_default().chunks(piece_bytes) {
            decoder.decode(chunk)?;
        }
        decoder.finish()?;
        Ok::<_, thermocline_formats::csv::CsvError>(
            std::iter::from_fn(|| decoder.next_batch()).map(|batch| batch.num_rows()).sum(),
        )
    };
    let whole: Result<usize, _> = decoded(0..text.len());
    if let (Ok(splits), Ok(whole)) = (scanned, whole) {
        for split in &splits.splits {
            let rows: Result<usize, _> = decoded(split.start as usize..split.end as usize);
            assert!(rows.is_ok_and(|rows| rows as u64 == split.rows), "a split has other rows than were counted");
        }
        // Of nothing but empty lines the scanner does not know whether they are records.
        if splits.splits.is_empty() {
            return;
        }
        assert_eq!(splits.splits.iter().map(|split| split.rows).sum::<u64>(), whole as u64, "rows of all splits");
    }
}

/// An index object, once with its checksums verified and once without.
pub fn index_file(bytes: &[u8]) {
    let Ok(mut file) = tempfile() else { return };
    if file.write_all(bytes).is_err() {
        return;
    }
    for verified in [true, false] {
        let Ok(file) = file.try_clone() else { return };
        let Ok(mut index) = IndexFile::parse(file, verified) else { continue };
        let _report = index.report();
        let keys = KeyRanges::everything();
        for range in [
            PartitionRange::RowGroups { start: 0, end: 1 },
            PartitionRange::RowGroups { start: 1, end: 3 },
            PartitionRange::Bytes { start: 0, end: 1 << 20, first_row: 0 },
        ] {
            let _rows = index.rows(range);
            let _found = index.search(range, &keys, 10_000);
        }
    }
}

/// A file without a name.
fn tempfile() -> std::io::Result<std::fs::File> {
    let path =
        std::env::temp_dir().join(format!("thermocline-fuzz-{}-{:?}", std::process::id(), std::thread::current().id()));
    let file = std::fs::File::options().read(true).write(true).create(true).truncate(true).open(&path)?;
    std::fs::remove_file(path)?;
    Ok(file)
}

/// A Parquet footer, as an object holds it and as a node hands it on.
pub fn footer(bytes: &[u8]) {
    if let Ok(footer) = decode_footer("fuzzed", bytes) {
        for column in footer.row_groups().iter().flat_map(|group| group.columns()) {
            let _range = column.byte_range();
        }
        let schema = footer.file_metadata().schema_descr();
        let _arrow = parquet::arrow::parquet_to_arrow_schema(schema, footer.file_metadata().key_value_metadata());
    }
}
