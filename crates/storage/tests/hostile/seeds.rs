//! Honest bytes that fuzzers begin with.

use std::path::Path;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, Date32Array, Decimal128Array, Float64Array, Int64Array, ListArray, RecordBatch,
    StringArray, StructArray, TimestampMicrosecondArray,
};
use arrow::datatypes::{DataType, Field, Int64Type};
use datafusion_proto_common::protobuf_common as protobuf;
use futures::TryStreamExt;
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use prost::Message;
use thermocline_pushdown::wire::{
    BitmapRequest, DescribeRequest, DropIndexRequest, Format, FragmentRequest, IndexRequest, IndexStatusRequest,
    ListRequest, ObjectEntry, Origin, Range, RangesRequest, Ticket, TicketKind, encode_schema,
};
use thermocline_pushdown::{Bitmap, CsvFormat, FileFormat, Fragment};
use thermocline_storage::{NodeConfig, Root, StorageNode};

use super::plans;

/// Larger ones make fuzzers slow.
const BYTES_MAX: usize = 4 << 10;

/// Writes the seeds of a target; what is there besides stays.
pub fn write(target: &str, directory: &Path) {
    std::fs::create_dir_all(directory).unwrap();
    let seeds = match target {
        "ticket" => tickets(),
        "fragment" => fragments(),
        "csv" => texts(),
        "index_file" => tokio::runtime::Runtime::new().unwrap().block_on(indexes()),
        _ => footers(),
    };
    for (position, seed) in seeds.into_iter().filter(|seed| seed.len() <= BYTES_MAX).enumerate() {
        std::fs::write(directory.join(format!("seed-{position:02}")), seed).unwrap();
    }
}

fn fragments() -> Vec<Vec<u8>> {
    let allowed = plans::allowed().into_iter().map(|(_, plan)| plan.encode_to_vec());
    let attacks = plans::attacks().into_iter().step_by(3).map(|(_, plan, _)| plan.encode_to_vec());
    allowed.chain(attacks).collect()
}

fn object() -> ObjectEntry {
    ObjectEntry { path: "t.csv".into(), version: "size:100-time:5".into(), size: 100 }
}

fn tickets() -> Vec<Vec<u8>> {
    let (object, format) = (Some(object()), Some(Format::from(&FileFormat::Csv(CsvFormat::default()))));
    let origin = Some(Origin { query_id: "q1".into(), tenant: "t".into(), deadline_ms: 1000, busy_permille: 5 });
    let schema = arrow::datatypes::Schema::new(vec![
        Field::new("a", DataType::Int64, true),
        Field::new("l", DataType::List(Arc::new(Field::new("item", DataType::Decimal128(10, 2), true))), true),
    ]);
    let table_schema = encode_schema(&schema).unwrap();
    let scan = Fragment::scan(Arc::new(schema)).encode().unwrap();
    let range = Range { row_groups: false, start: 0, end: 100, first_row: 0 };
    let mut seeds: Vec<Vec<u8>> = plans::allowed()
        .into_iter()
        .map(|(_, plan)| FragmentRequest {
            origin: origin.clone(),
            object: object.clone(),
            format: format.clone(),
            table_schema: table_schema.clone(),
            partitions: vec![range; 2],
            fragment: plan.encode_to_vec(),
            ..FragmentRequest::default()
        })
        .map(|request| Ticket { kind: Some(TicketKind::Fragment(request)) }.encode_to_vec())
        .collect();
    let ranges =
        RangesRequest { origin, object: object.clone(), starts: vec![0, 50], ends: vec![9, 70], pushback_token: 7 };
    let bits = arrow::buffer::BooleanBuffer::collect_bool(300, |row| row % 50 < 3);
    let bitmap = BitmapRequest {
        object: object.clone(),
        format: format.clone(),
        table_schema: table_schema.clone(),
        partition: Some(range),
        fragment: scan,
        bitmap: Bitmap::new(bits).encode(),
        ..BitmapRequest::default()
    };
    let index = IndexRequest {
        object,
        format: format.clone(),
        table_schema: table_schema.clone(),
        column: "a".into(),
        ..IndexRequest::default()
    };
    for kind in [TicketKind::Ranges(ranges), TicketKind::Bitmap(bitmap), TicketKind::Index(index)] {
        seeds.push(Ticket { kind: Some(kind) }.encode_to_vec());
    }
    let objects = vec![self::object(); 3];
    seeds.push(ListRequest { prefix: "folder/t".into() }.encode_to_vec());
    seeds.push(
        DescribeRequest { objects: objects.clone(), format: format.clone(), partition_bytes: 1 << 20 }.encode_to_vec(),
    );
    let (column, status) = ("a".to_owned(), objects.clone());
    seeds.push(
        IndexStatusRequest { objects: status, format: format.clone(), table_schema: table_schema.clone(), column }
            .encode_to_vec(),
    );
    seeds.push(DropIndexRequest { objects, format, table_schema, column: "a".into() }.encode_to_vec());
    let value = protobuf::scalar_value::Value::Utf8Value("a value".into());
    seeds.push(protobuf::ScalarValue { value: Some(value) }.encode_to_vec());
    seeds
}

fn texts() -> Vec<Vec<u8>> {
    let texts: [(u8, &str); 14] = [
        (0, "1,a,1.5,2.125,2020-01-01,2020-01-01 00:00:00,true\n2,b,,,,,\n"),
        (0, "1,\"a \"\"quoted\"\" text\",1e10,-2.1,1999-12-31,1999-12-31T23:59:59.999999,false"),
        (0, "1,\"two\nlines\",nan,0,2020-02-30,x,maybe\r\n"),
        (0, "\u{feff}1,a,1,1,2020-01-01,2020-01-01,true\r\n\r\n2,b,2,2,2020-01-02,2020-01-02,false\r\n"),
        (1, "1|a,b|1|1|2020-01-01|2020-01-01 10:00:00|t\n"),
        (2, "1,\"a,1,1,2020-01-01,2020-01-01 00:00:00,f\n"),
        (4, "1,\"a\\\"b\\\\\",1,1,2020-01-01,2020-01-01 00:00:00,f\n"),
        (8, "n,t,f,d,day,time,flag\n1,a,1,1,2020-01-01,2020-01-01 00:00:00,true\n"),
        (16, "NULL,NULL,NULL,NULL,NULL,NULL,NULL\n\"NULL\",NULL,1,1,NULL,NULL,NULL\n"),
        (32, "one\n\n\"\"\ntwo\n\"three\n\nfour\"\n"),
        (40, "head\n\n\n\nrow"),
        (96, "x\ny\nz\n"),
        (192, "9223372036854775807,a,1.7976931348623157e308,99999999999999999.999,9999-12-31,9999-12-31 23:59:59,1\n"),
        (0, "-9223372036854775808,\u{10ffff},-0.0,-99999999999999999.999,0001-01-01,0001-01-01 00:00:00,0\n"),
    ];
    texts.iter().map(|(pick, text)| [&[*pick], text.as_bytes()].concat()).collect()
}

/// Columns of ten types.
fn batch(rows: i64) -> RecordBatch {
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter((0..rows).map(|n| (n % 5 != 0).then_some(n * 7919 % 101))));
    let texts: ArrayRef = Arc::new(StringArray::from_iter_values((0..rows).map(|n| format!("text {}", n % 13))));
    let floats: ArrayRef = Arc::new(Float64Array::from_iter_values((0..rows).map(|n| n as f64 / 3.0)));
    let flags: ArrayRef = Arc::new(BooleanArray::from_iter((0..rows).map(|n| Some(n % 3 == 0))));
    let days: ArrayRef = Arc::new(Date32Array::from_iter_values(0..rows as i32));
    let times: ArrayRef = Arc::new(TimestampMicrosecondArray::from_iter_values(0..rows));
    let decimals: ArrayRef =
        Arc::new(Decimal128Array::from_iter_values((0..rows).map(i128::from)).with_precision_and_scale(12, 2).unwrap());
    let lists: ArrayRef =
        Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>((0..rows).map(|n| Some(vec![Some(n), None]))));
    let inner = Arc::new(Field::new("inner", DataType::Int64, true));
    let structs: ArrayRef = Arc::new(StructArray::from(vec![(inner, Arc::clone(&numbers))]));
    RecordBatch::try_from_iter_with_nullable([
        ("n", numbers, true),
        ("t", texts, true),
        ("f", floats, true),
        ("b", flags, true),
        ("d", days, true),
        ("z", times, true),
        ("m", decimals, true),
        ("l", lists, true),
        ("s", structs, true),
    ])
    .unwrap()
}

fn parquet(columns: &[usize], rows: i64, properties: WriterProperties) -> Vec<u8> {
    let batch = batch(rows).project(columns).unwrap();
    let mut file = vec![];
    let mut writer = ArrowWriter::try_new(&mut file, batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    file
}

fn footers() -> Vec<Vec<u8>> {
    let plain = || WriterProperties::builder();
    let footer = |file: Vec<u8>| {
        let length = u32::from_le_bytes(file[file.len() - 8..file.len() - 4].try_into().unwrap()) as usize;
        file[file.len() - 8 - length..file.len() - 8].to_vec()
    };
    let groups = plain().set_max_row_group_row_count(Some(10));
    let mut seeds: Vec<Vec<u8>> = (0..9).map(|column| footer(parquet(&[column], 30, plain().build()))).collect();
    seeds.push(footer(parquet(&[0, 7, 8], 30, groups.build())));
    seeds.push(footer(parquet(&[0, 1], 0, plain().build())));
    let bare = plain().set_statistics_enabled(EnabledStatistics::None).set_dictionary_enabled(false);
    seeds.push(footer(parquet(&[0, 1], 30, bare.set_compression(Compression::SNAPPY).build())));
    seeds.push(footer(parquet(&[1], 30, plain().set_bloom_filter_enabled(true).build())));
    seeds
}

/// Index objects as a node makes them, of CSV and of Parquet.
async fn indexes() -> Vec<Vec<u8>> {
    let (root, kept) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let groups = WriterProperties::builder().set_max_row_group_row_count(Some(20)).build();
    std::fs::write(root.path().join("t.parquet"), parquet(&[0, 1, 2, 3, 4, 5, 6], 50, groups)).unwrap();
    let text: String = (0..50).map(|n| format!("{},text {}\n", n * 7 % 11, n % 3)).collect();
    std::fs::write(root.path().join("t.csv"), text).unwrap();
    let config = NodeConfig { index_directory: Some(kept.path().to_owned()), ..NodeConfig::default() };
    let node = StorageNode::new(Root::open(root.path().to_str().unwrap()).unwrap(), config).unwrap();
    let csv = FileFormat::Csv(CsvFormat { has_header: false, ..CsvFormat::default() });
    let of_csv = arrow::datatypes::Schema::new(vec![
        Field::new("a", DataType::Int64, true),
        Field::new("b", DataType::Utf8View, true),
    ]);
    let of_parquet = batch(0).project(&[0, 1, 2, 3, 4, 5, 6]).unwrap().schema();
    for (path, format, schema) in [("t.csv", csv, Arc::new(of_csv)), ("t.parquet", FileFormat::Parquet, of_parquet)] {
        let object = node.list(path).await.unwrap().objects.remove(0);
        for field in schema.fields() {
            let request = IndexRequest {
                object: Some(object.clone()),
                format: Some(Format::from(&format)),
                table_schema: encode_schema(&schema).unwrap(),
                column: field.name().clone(),
                partition_bytes: 1 << 20,
                ..IndexRequest::default()
            };
            let ticket = Ticket { kind: Some(TicketKind::Index(request)) };
            let answer = node.get(&ticket.encode_to_vec()).await.unwrap();
            answer.try_for_each(|_| async { Ok(()) }).await.unwrap();
        }
    }
    let mut paths = vec![];
    files_below(kept.path(), &mut paths);
    paths.sort();
    let mut seeds: Vec<Vec<u8>> = paths.iter().map(|path| std::fs::read(path).unwrap()).collect();
    seeds.push(vec![]);
    seeds.push(b"TCINDEX\n".repeat(10));
    seeds
}

fn files_below(directory: &Path, files: &mut Vec<std::path::PathBuf>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files_below(&path, files);
        } else {
            files.push(path);
        }
    }
}
