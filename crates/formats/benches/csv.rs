//! Reading an SSB `lineorder` file in memory, against arrow-csv.
//!
//! `cargo bench --bench csv`
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a benchmark may panic")]

use std::hint::black_box;
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::csv::ReaderBuilder;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use thermocline_formats::csv::{CsvDecoder, CsvOptions, SplitScanner};

const FILE_BYTES: usize = 100 << 20;
const CHUNK_BYTES: usize = 1 << 20;
const BATCH_ROWS: usize = 8192;
/// `lo_orderdate`, `lo_quantity`, `lo_extendedprice`, `lo_discount`, `lo_revenue`.
const FLIGHT_1: [usize; 5] = [5, 8, 9, 11, 12];

fn schema() -> SchemaRef {
    let names = [
        "orderkey",
        "linenumber",
        "custkey",
        "partkey",
        "suppkey",
        "orderdate",
        "orderpriority",
        "shippriority",
        "quantity",
        "extendedprice",
        "ordtotalprice",
        "discount",
        "revenue",
        "supplycost",
        "tax",
        "commitdate",
        "shipmode",
    ];
    let fields = names.iter().map(|name| {
        let data_type = match *name {
            "orderpriority" | "shippriority" | "shipmode" => DataType::Utf8View,
            _ => DataType::Int32,
        };
        Field::new(format!("lo_{name}"), data_type, true)
    });
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

fn lineorder(quoted_strings: bool) -> Vec<u8> {
    let mut rng = StdRng::seed_from_u64(1);
    let priorities = ["1-URGENT", "2-HIGH", "3-MEDIUM", "4-NOT SPECI", "5-LOW"];
    let modes = ["REG AIR", "AIR", "RAIL", "SHIP", "TRUCK", "MAIL", "FOB"];
    let quote = if quoted_strings { "\"" } else { "" };
    let mut data = Vec::with_capacity(FILE_BYTES + 1024);
    let names: Vec<_> = schema().fields().iter().map(|field| field.name().clone()).collect();
    writeln!(data, "{}", names.join(",")).unwrap();
    let mut order = 1;
    while data.len() < FILE_BYTES {
        let total = rng.random_range(100_000..40_000_000);
        for line in 1..=rng.random_range(1..8) {
            let mut date =
                || rng.random_range(1992..1999) * 10_000 + rng.random_range(1..13) * 100 + rng.random_range(1..29);
            let (ordered, committed) = (date(), date());
            let quantity = rng.random_range(1..51);
            let price = quantity * rng.random_range(90_000..110_000) / 10;
            let discount = rng.random_range(0..11);
            writeln!(
                data,
                "{order},{line},{},{},{},{ordered},{quote}{}{quote},{quote}0{quote},{quantity},{price},{total},{discount},{},{},{},{committed},{quote}{}{quote}",
                rng.random_range(1..300_000),
                rng.random_range(1..1_000_000),
                rng.random_range(1..20_000),
                priorities[rng.random_range(0..5)],
                price * (100 - discount) / 100,
                rng.random_range(50_000..100_000),
                rng.random_range(0..9),
                modes[rng.random_range(0..7)],
            )
            .unwrap();
        }
        order += 1;
    }
    data
}

/// Reads `passes` times `data`, which starts with a record.
fn ours(
    schema: &SchemaRef,
    options: &CsvOptions,
    data: &[u8],
    passes: usize,
    projection: &[usize],
    with_statistics: bool,
) -> usize {
    let mut decoder = CsvDecoder::try_new(schema.clone(), options, projection.to_vec(), BATCH_ROWS).unwrap();
    if with_statistics {
        decoder = decoder.with_statistics();
    }
    let mut rows = 0;
    let mut take = |decoder: &mut CsvDecoder| {
        while let Some(batch) = decoder.next_batch() {
            rows += black_box(&batch).num_rows();
        }
    };
    for chunk in (0..passes).flat_map(|_| data.chunks(CHUNK_BYTES)) {
        decoder.decode(chunk).unwrap();
        take(&mut decoder);
    }
    decoder.finish().unwrap();
    take(&mut decoder);
    rows
}

fn split(options: &CsvOptions, data: &[u8], passes: usize) -> usize {
    let mut scanner = SplitScanner::try_new(options, 8 << 20).unwrap();
    for chunk in (0..passes).flat_map(|_| data.chunks(CHUNK_BYTES)) {
        scanner.push(chunk).unwrap();
    }
    scanner.finish().unwrap().splits.len()
}

fn arrow_csv(schema: &SchemaRef, data: &[u8], projection: &[usize]) -> usize {
    let reader = ReaderBuilder::new(schema.clone())
        .with_header(true)
        .with_batch_size(BATCH_ROWS)
        .with_projection(projection.to_vec())
        .build_buffered(data)
        .unwrap();
    reader.map(|batch| black_box(batch.unwrap()).num_rows()).sum()
}

fn first_batch(schema: &SchemaRef, data: &[u8]) -> RecordBatch {
    let all = (0..schema.fields().len()).collect();
    let mut decoder = CsvDecoder::try_new(schema.clone(), &CsvOptions::default(), all, BATCH_ROWS).unwrap();
    decoder.decode(data.get(..8 << 20).unwrap_or(data)).unwrap();
    decoder.next_batch().unwrap()
}

fn reading(criterion: &mut Criterion) {
    let schema = schema();
    let all: Vec<usize> = (0..schema.fields().len()).collect();
    let options = CsvOptions::default();
    for (name, data) in [("plain", lineorder(false)), ("quoted", lineorder(true))] {
        let expected = ReaderBuilder::new(schema.clone())
            .with_header(true)
            .with_batch_size(BATCH_ROWS)
            .build_buffered(data.as_slice())
            .unwrap()
            .next();
        assert_eq!(first_batch(&schema, &data), expected.unwrap().unwrap());

        let mut group = criterion.benchmark_group(name);
        group.throughput(Throughput::Bytes(data.len() as u64));
        group.sample_size(10).measurement_time(Duration::from_secs(3));
        group.warm_up_time(Duration::from_millis(500));
        for (columns, projection) in [("0", &[] as &[usize]), ("5", &FLIGHT_1), ("17", &all)] {
            group.bench_function(format!("ours/{columns}_columns"), |bencher| {
                bencher.iter(|| ours(&schema, &options, &data, 1, projection, false));
            });
            group.bench_function(format!("ours/{columns}_columns_with_statistics"), |bencher| {
                bencher.iter(|| ours(&schema, &options, &data, 1, projection, true));
            });
            if !projection.is_empty() {
                group.bench_function(format!("arrow_csv/{columns}_columns"), |bencher| {
                    bencher.iter(|| arrow_csv(&schema, &data, projection));
                });
            }
        }
        group.bench_function("split_scanner", |bencher| {
            bencher.iter(|| split(&options, &data, 1));
        });
        group.finish();
    }
}

/// The same, 100 times over the first MiB: the limit of the processor alone, as for bytes that were just received.
fn reading_from_cache(criterion: &mut Criterion) {
    const PASSES: usize = 100;
    let schema = schema();
    let all: Vec<usize> = (0..schema.fields().len()).collect();
    let options = CsvOptions { has_header: false, ..CsvOptions::default() };
    for (name, file) in [("plain", lineorder(false)), ("quoted", lineorder(true))] {
        let is_newline = |byte: &u8| *byte == b'\n';
        let start = file.iter().position(is_newline).unwrap() + 1;
        let end = file[..CHUNK_BYTES].iter().rposition(is_newline).unwrap() + 1;
        let data = file[start..end].to_vec();
        drop(file);

        let mut group = criterion.benchmark_group(format!("{name}_in_cache"));
        group.throughput(Throughput::Bytes((PASSES * data.len()) as u64));
        group.sample_size(10).measurement_time(Duration::from_secs(3));
        for (columns, projection) in [("0", &[] as &[usize]), ("5", &FLIGHT_1), ("17", &all)] {
            group.bench_function(format!("ours/{columns}_columns"), |bencher| {
                bencher.iter(|| ours(&schema, &options, &data, PASSES, projection, false));
            });
        }
        group.bench_function("split_scanner", |bencher| {
            bencher.iter(|| split(&options, &data, PASSES));
        });
        group.finish();
    }
}

/// Maximum memory bandwidth of one core.
fn memory(criterion: &mut Criterion) {
    let buffer: Vec<u64> = (0..(1_u64 << 30) / 8).collect();
    let mut group = criterion.benchmark_group("memory");
    group.throughput(Throughput::Bytes(1 << 30));
    group.sample_size(10).measurement_time(Duration::from_secs(3));
    group.bench_function("sum_of_1_gib", |bencher| {
        bencher.iter(|| black_box(&buffer).iter().fold(0_u64, |sum, word| sum.wrapping_add(*word)));
    });
    group.finish();
}

criterion_group!(benches, reading, reading_from_cache, memory);
criterion_main!(benches);
