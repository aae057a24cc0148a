//! The reader compared with arrow-csv, with itself on differently cut input, and on broken files.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a failing test panics")]

use std::io::Cursor;
use std::sync::Arc;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::compute::{self, concat_batches};
use arrow::csv::ReaderBuilder;
use arrow::datatypes::{DataType, Field, Int32Type, Int64Type, Schema, SchemaRef, TimeUnit};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use thermocline_formats::csv::{CsvDecoder, CsvError, CsvOptions, CsvSplits, SplitScanner};

fn schema_of(types: &[DataType]) -> SchemaRef {
    let fields = types.iter().enumerate();
    let fields = fields.map(|(i, data_type)| Field::new(format!("c{i}"), data_type.clone(), true));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

fn no_header() -> CsvOptions {
    CsvOptions { has_header: false, ..CsvOptions::default() }
}

/// Decodes `data` in pieces whose sizes `next_size` gives.
fn run(
    mut decoder: CsvDecoder,
    mut data: &[u8],
    mut next_size: impl FnMut() -> usize,
) -> (Vec<RecordBatch>, Result<(), CsvError>, CsvDecoder) {
    let mut result = Ok(());
    while result.is_ok() && !data.is_empty() {
        let (chunk, rest) = data.split_at(next_size().clamp(1, data.len()));
        result = decoder.decode(chunk);
        data = rest;
    }
    let result = result.and_then(|()| decoder.finish());
    let batches = std::iter::from_fn(|| decoder.next_batch()).collect();
    (batches, result, decoder)
}

fn decode(schema: &SchemaRef, options: &CsvOptions, data: &[u8]) -> Result<RecordBatch, CsvError> {
    let all = (0..schema.fields().len()).collect();
    let decoder = CsvDecoder::try_new(schema.clone(), options, all, 1000)?;
    let (batches, result, decoder) = run(decoder, data, || usize::MAX);
    result?;
    Ok(concat_batches(&decoder.schema(), &batches).unwrap())
}

fn split(options: &CsvOptions, data: &[u8], target: u64, chunk: usize) -> Result<CsvSplits, CsvError> {
    let mut scanner = SplitScanner::try_new(options, target)?;
    for piece in data.chunks(chunk) {
        scanner.push(piece)?;
    }
    scanner.finish()
}

/// A well-formed table in text.
struct Table {
    schema: SchemaRef,
    options: CsvOptions,
    rows: usize,
    data: Vec<u8>,
}

fn types() -> Vec<DataType> {
    use DataType::*;
    let mut types = vec![
        Boolean,
        Int8,
        Int16,
        Int32,
        Int64,
        UInt8,
        UInt16,
        UInt32,
        UInt64,
        Float32,
        Float64,
        Decimal128(9, 2),
        Decimal128(38, 10),
        Decimal128(20, 0),
        Decimal256(60, 5),
        Date32,
        Time32(TimeUnit::Second),
        Time32(TimeUnit::Millisecond),
        Time64(TimeUnit::Microsecond),
        Time64(TimeUnit::Nanosecond),
        Utf8,
        LargeUtf8,
        Utf8View,
    ];
    for unit in [TimeUnit::Second, TimeUnit::Millisecond, TimeUnit::Microsecond, TimeUnit::Nanosecond] {
        types.push(Timestamp(unit, None));
        types.push(Timestamp(unit, Some("+00:00".into())));
        types.push(Timestamp(unit, Some("+05:30".into())));
    }
    types
}

fn random_text(rng: &mut StdRng, data_type: &DataType) -> String {
    use DataType::*;
    let fraction = |rng: &mut StdRng, digits: usize| -> String {
        (0..rng.random_range(1..=digits)).map(|_| char::from(rng.random_range(b'0'..=b'9'))).collect()
    };
    let date = |rng: &mut StdRng| {
        format!("{:04}-{:02}-{:02}", rng.random_range(1700..2250), rng.random_range(1..13), rng.random_range(1..29))
    };
    let time = |rng: &mut StdRng, unit: &TimeUnit| {
        let digits = match unit {
            TimeUnit::Second => 0,
            TimeUnit::Millisecond => 3,
            TimeUnit::Microsecond => 6,
            TimeUnit::Nanosecond => 9,
        };
        let mut text =
            format!("{:02}:{:02}:{:02}", rng.random_range(0..24), rng.random_range(0..60), rng.random_range(0..60));
        if digits > 0 && rng.random_bool(0.7) {
            text.push('.');
            text.push_str(&fraction(rng, digits));
        }
        text
    };
    // Uniform over lengths, instead of nearly always the longest.
    let shift = rng.random_range(0..64);
    match data_type {
        Boolean => ["true", "FALSE", "True", "false"][rng.random_range(0..4)].into(),
        Int8 => rng.random::<i8>().to_string(),
        Int16 => rng.random::<i16>().to_string(),
        Int32 => (rng.random::<i32>() >> (shift / 2)).to_string(),
        Int64 => (rng.random::<i64>() >> shift).to_string(),
        UInt8 => rng.random::<u8>().to_string(),
        UInt16 => rng.random::<u16>().to_string(),
        UInt32 => (rng.random::<u32>() >> (shift / 2)).to_string(),
        UInt64 => (rng.random::<u64>() >> shift).to_string(),
        Float32 | Float64 => match rng.random_range(0..5) {
            0 => ["inf", "-inf", "NaN", "1e400", "-0"][rng.random_range(0..5)].into(),
            1 => f64::from_bits(rng.random()).to_string(),
            2 => format!("{:e}", rng.random::<f32>()),
            3 => format!("{:.3}", rng.random_range(-1e6..1e6)),
            _ => rng.random_range(-100_000..100_000).to_string(),
        },
        Decimal128(precision, scale) | Decimal256(precision, scale) => {
            let whole_digits = usize::from(*precision) - *scale as usize;
            let mut text = if rng.random() { String::from("-") } else { String::new() };
            text.push_str(&fraction(rng, whole_digits));
            if *scale > 0 && rng.random() {
                text.push('.');
                text.push_str(&fraction(rng, *scale as usize));
            }
            text
        }
        Date32 => date(rng),
        Time32(unit) | Time64(unit) => time(rng, unit),
        Timestamp(unit, zone) => {
            let separator = if rng.random() { ' ' } else { 'T' };
            let suffix = if zone.is_some() { ["", "Z", "+02:00"][rng.random_range(0..3)] } else { "" };
            format!("{}{separator}{}{suffix}", date(rng), time(rng, unit))
        }
        _ => {
            let pieces = ["a", "bc", " ", "é", "日本", "-", "0123456789", "x'y"];
            (0..rng.random_range(1..8)).map(|_| pieces[rng.random_range(0..pieces.len())]).collect()
        }
    }
}

fn random_table(rng: &mut StdRng) -> Table {
    let all = types();
    let columns = rng.random_range(2..12);
    let types: Vec<_> = (0..columns).map(|_| all[rng.random_range(0..all.len())].clone()).collect();
    let schema = schema_of(&types);
    let escape = rng.random_bool(0.2).then_some(b'\\');
    let options = CsvOptions {
        delimiter: [b',', b'|', b'\t'][rng.random_range(0..3)],
        has_header: rng.random(),
        escape,
        ..CsvOptions::default()
    };
    let delimiter = char::from(options.delimiter).to_string();
    let line_end = if rng.random() { "\n" } else { "\r\n" };
    let null_share = [0.0, 0.1, 0.9][rng.random_range(0..3)];
    let quoted_share = [0.0, 0.02, 0.5, 1.0][rng.random_range(0..4)];
    let special_share = [0.0, 0.3][rng.random_range(0..2)];

    let mut data = String::new();
    if rng.random_bool(0.2) {
        data.push('\u{FEFF}');
    }
    if options.has_header {
        let names: Vec<_> = schema.fields().iter().map(|field| field.name().as_str()).collect();
        data += &names.join(&delimiter);
        data += line_end;
    }
    let rows = rng.random_range(0..400);
    for row in 0..rows {
        if rng.random_bool(0.02) {
            data += line_end;
        }
        for (column, data_type) in types.iter().enumerate() {
            if column > 0 {
                data += &delimiter;
            }
            // The first field is never NULL, so that no record is an empty line.
            if rng.random_bool(null_share) && column > 0 {
                continue;
            }
            let mut text = random_text(rng, data_type);
            let is_string = matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
            let is_quoted = rng.random_bool(quoted_share);
            if is_quoted && is_string && rng.random_bool(special_share) {
                text += [",", "\n", "\r\n", "\"", "\"\"", "|", "\r", "\\"][rng.random_range(0..8)];
                text += "z";
            }
            if is_quoted {
                text = match escape {
                    None => text.replace('"', "\"\""),
                    Some(_) => text.replace('\\', "\\\\").replace('"', "\\\""),
                };
                data += &format!("\"{text}\"");
            } else {
                data += &text;
            }
        }
        if row + 1 < rows || rng.random() {
            data += line_end;
        }
    }
    Table { schema, options, rows, data: data.into_bytes() }
}

fn read_with_arrow(table: &Table, projection: &[usize], batch_rows: usize) -> Vec<RecordBatch> {
    let data = table.data.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(&table.data);
    // arrow-csv does not read LargeUtf8.
    let types = table.schema.fields().iter().map(|field| match field.data_type() {
        DataType::LargeUtf8 => DataType::Utf8,
        other => other.clone(),
    });
    let mut builder = ReaderBuilder::new(schema_of(&types.collect::<Vec<_>>()))
        .with_header(table.options.has_header)
        .with_delimiter(table.options.delimiter)
        .with_batch_size(batch_rows)
        .with_projection(projection.to_vec());
    if let Some(escape) = table.options.escape {
        builder = builder.with_escape(escape);
    }
    let schema = Arc::new(table.schema.project(projection).unwrap());
    let reader = builder.build(Cursor::new(data)).unwrap();
    let batches = reader.map(|batch| {
        let batch = batch.unwrap();
        let columns = batch.columns().iter().zip(schema.fields());
        let columns = columns.map(|(array, field)| compute::cast(array, field.data_type()).unwrap());
        let batch = RecordBatch::try_new(schema.clone(), columns.collect()).unwrap();
        thermocline_pushdown::canonical_batch(batch).unwrap()
    });
    batches.collect()
}

#[test]
fn agrees_with_arrow_csv() {
    const SEED: u64 = 1;
    println!("seed {SEED}");
    let mut rng = StdRng::seed_from_u64(SEED);
    for round in 0..1500 {
        let table = random_table(&mut rng);
        let columns = table.schema.fields().len();
        let mut projection: Vec<_> = (0..columns).filter(|_| rng.random()).collect();
        if projection.is_empty() {
            projection.push(columns - 1);
        }
        let batch_rows = rng.random_range(1..500);
        let expected = read_with_arrow(&table, &projection, batch_rows);

        let size = [1, 7, 64, 1000, usize::MAX][round % 5];
        let decoder = CsvDecoder::try_new(table.schema.clone(), &table.options, projection, batch_rows);
        let decoder = decoder.unwrap().with_statistics();
        let sizes = &mut rng;
        let (batches, result, decoder) =
            run(decoder, &table.data, || if size == 1000 { sizes.random_range(1..1000) } else { size });
        let text = String::from_utf8_lossy(&table.data);
        result.unwrap_or_else(|error| panic!("round {round}: {error}\n{text}"));
        assert_eq!(batches, expected, "round {round}\n{text}");
        check_statistics(&decoder, &batches);
    }
}

fn check_statistics(decoder: &CsvDecoder, batches: &[RecordBatch]) {
    let all = concat_batches(&decoder.schema(), batches).unwrap();
    let statistics = decoder.column_statistics().unwrap();
    for (array, statistics) in all.columns().iter().zip(statistics) {
        assert_eq!(statistics.null_count, array.null_count() as u64);
        let has_type = |bound: &Arc<dyn Array>| bound.data_type() == array.data_type();
        assert!(statistics.max.iter().all(has_type));
        if let Some(array) = array.as_primitive_opt::<Int64Type>() {
            let value = |array: Option<_>| array.map(|a: Arc<dyn Array>| a.as_primitive::<Int64Type>().value(0));
            assert_eq!(value(statistics.min), compute::min(array));
            assert_eq!(value(statistics.max), compute::max(array));
        } else if let Some(array) = array.as_primitive_opt::<arrow::datatypes::Decimal128Type>() {
            let min = statistics.min.map(|a| a.as_primitive::<arrow::datatypes::Decimal128Type>().value(0));
            assert_eq!(min, compute::min(array));
        }
    }
}

#[test]
fn splits_make_up_the_object() {
    const SEED: u64 = 2;
    println!("seed {SEED}");
    let mut rng = StdRng::seed_from_u64(SEED);
    for round in 0..600 {
        let table = random_table(&mut rng);
        let target = [1, 100, 3000, u64::MAX][round % 4];
        let chunk = [1, 63, 1000, 1 << 20][rng.random_range(0..4)];
        let found = split(&table.options, &table.data, target, chunk).unwrap();
        assert_eq!(found, split(&table.options, &table.data, target, 1 << 20).unwrap());
        let names = table.schema.fields().iter().map(|field| field.name().clone()).collect();
        assert_eq!(found.header, table.options.has_header.then_some(names));

        let whole = decode(&table.schema, &table.options, &table.data).unwrap();
        assert_eq!(whole.num_rows(), table.rows);
        let mut row = 1;
        let mut batches = Vec::new();
        for (i, range) in found.splits.iter().enumerate() {
            let is_last = i + 1 == found.splits.len();
            assert!(is_last || range.end - range.start >= target);
            assert!(is_last || range.end == found.splits[i + 1].start);
            let bytes = &table.data[range.start as usize..range.end as usize];
            let all = (0..table.schema.fields().len()).collect();
            let decoder = CsvDecoder::try_new(table.schema.clone(), &table.options, all, 1000)
                .unwrap()
                .with_start(range.start, row);
            let (decoded, result, _) = run(decoder, bytes, || usize::MAX);
            result.unwrap();
            let rows: usize = decoded.iter().map(RecordBatch::num_rows).sum();
            assert_eq!(rows as u64, range.rows, "round {round} {found:?}");
            row += range.rows;
            batches.extend(decoded);
        }
        assert_eq!(concat_batches(&table.schema, &batches).unwrap(), whole);
        if let Some(last) = found.splits.last() {
            assert_eq!(last.end, table.data.len() as u64);
        }
    }
}

#[test]
fn random_bytes_never_panic_and_cuts_do_not_matter() {
    const SEED: u64 = 3;
    println!("seed {SEED}");
    let mut rng = StdRng::seed_from_u64(SEED);
    let all = types();
    let pieces: [&[u8]; 20] = [
        b",",
        b",",
        b",",
        b"\n",
        b"\n",
        b"\r\n",
        b"\"",
        b"\"\"",
        b"\r",
        b"\\",
        b"1",
        b"2020-01-02",
        b"\xFF",
        b"\xEF\xBB\xBF",
        b" ",
        b"-",
        b"12.5",
        b"a",
        b"\"b\"",
        b"12345678901234567890",
    ];
    for round in 0..20_000 {
        let columns = rng.random_range(1..4);
        let types: Vec<_> = (0..columns)
            .map(|_| if rng.random() { DataType::Utf8View } else { all[rng.random_range(0..all.len())].clone() })
            .collect();
        let schema = schema_of(&types);
        let options = CsvOptions {
            has_header: rng.random_bool(0.3),
            escape: rng.random_bool(0.3).then_some(b'\\'),
            quote: rng.random_bool(0.9).then_some(b'"'),
            null_text: ["", "1", "a"][rng.random_range(0..3)].into(),
            ..CsvOptions::default()
        };
        let options = if options.quote.is_none() { CsvOptions { escape: None, ..options } } else { options };
        let mut data = Vec::new();
        let kinds: Vec<_> = (0..6).map(|_| pieces[rng.random_range(0..pieces.len())]).collect();
        for _ in 0..rng.random_range(0..60) {
            if rng.random_bool(0.05) {
                data.push(rng.random());
            }
            data.extend_from_slice(kinds[rng.random_range(0..6)]);
        }
        let projection: Vec<_> = (0..columns).filter(|_| rng.random_bool(0.7)).collect();
        let outcome = |next_size: &mut dyn FnMut() -> usize| {
            let decoder = CsvDecoder::try_new(schema.clone(), &options, projection.clone(), 3).unwrap();
            let (batches, result, _) = run(decoder, &data, next_size);
            (batches, result.map_err(|error| format!("{error:?}")))
        };
        let whole = outcome(&mut || usize::MAX);
        let bytes = outcome(&mut || 1);
        let mixed = outcome(&mut || rng.random_range(1..20));
        // Debug text, because NaN differs from itself.
        let text = |outcome: &(Vec<RecordBatch>, _)| format!("{outcome:?}");
        let message = || format!("round {round} {options:?} {types:?}\n{:?}", String::from_utf8_lossy(&data));
        assert_eq!(text(&whole), text(&bytes), "{}", message());
        assert_eq!(text(&whole), text(&mixed), "{}", message());

        let target = rng.random_range(1..100);
        let splits = split(&options, &data, target, usize::MAX).map_err(|error| format!("{error:?}"));
        for chunk in [1, 3, 70] {
            let again = split(&options, &data, target, chunk).map_err(|error| format!("{error:?}"));
            assert_eq!(splits, again, "{}", message());
        }
        if let (Ok(splits), (batches, Ok(()))) = (splits, &whole) {
            let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
            let split_rows: u64 = splits.splits.iter().map(|split| split.rows).sum();
            let is_empty = data.iter().all(|byte| matches!(byte, b'\r' | b'\n'));
            assert!(rows as u64 == split_rows || is_empty, "{}", message());
        }
    }
}

#[test]
fn records_longer_than_a_window() {
    let schema = schema_of(&[DataType::Int32, DataType::Utf8View]);
    let long = "\"x,\"\"\n".repeat(100_000).replace('"', "\"\"");
    let data = format!("1,\"{long}\"\n2,b\n3,\"{long}\"\n");
    let expected = decode(&schema, &no_header(), data.as_bytes()).unwrap();
    assert_eq!(expected.num_rows(), 3);
    assert_eq!(expected.column(1).as_string_view().value(2), long.replace("\"\"", "\""));
    let decoder = CsvDecoder::try_new(schema, &no_header(), vec![0, 1], 1000).unwrap();
    let (batches, result, _) = run(decoder, data.as_bytes(), || 9_999);
    result.unwrap();
    assert_eq!(batches, [expected]);
}

#[test]
fn empty_projection_counts_rows() {
    let schema = schema_of(&[DataType::Int32, DataType::Utf8]);
    let decoder = CsvDecoder::try_new(schema, &CsvOptions::default(), vec![], 2).unwrap();
    let (batches, result, _) = run(decoder, b"a,b\n1,x\n\n2,\"\n\"\n3,", || 4);
    result.unwrap();
    let rows: Vec<_> = batches.iter().map(|b| (b.num_columns(), b.num_rows())).collect();
    assert_eq!(rows, [(0, 2), (0, 1)]);
}

#[test]
fn projection_in_any_order() {
    let schema = schema_of(&[DataType::Int32, DataType::Utf8, DataType::Int32]);
    let decoder = CsvDecoder::try_new(schema, &no_header(), vec![2, 0, 2], 10).unwrap();
    let (batches, result, _) = run(decoder, b"1,a,2\n3,b,4\n", || usize::MAX);
    result.unwrap();
    let column = |i: usize| batches[0].column(i).as_primitive::<Int32Type>().values().to_vec();
    assert_eq!([column(0), column(1), column(2)], [[2, 4], [1, 3], [2, 4]]);
}

#[test]
fn null_text_and_quotes() {
    let schema = schema_of(&[DataType::Utf8View, DataType::Int32]);
    let options = CsvOptions { null_text: "NA".into(), ..no_header() };
    let batch = decode(&schema, &options, b"NA,NA\n\"NA\",\"NA\"\n\"\",1\n,2\n").unwrap();
    let strings: Vec<_> = batch.column(0).as_string_view().iter().collect();
    assert_eq!(strings, [None, Some("NA"), Some(""), Some("")]);
    assert_eq!(batch.column(1).null_count(), 2);

    let batch = decode(&schema, &no_header(), b",\n\"\",\"\"\n").unwrap();
    assert_eq!(batch.column(0).null_count(), 1);
    assert_eq!(batch.column(1).null_count(), 2);

    // A NULL text that would otherwise be a value.
    let options = CsvOptions { null_text: "-1".into(), ..no_header() };
    let batch = decode(&schema, &options, b"a,-1\nb,1\n-1,-2\n").unwrap();
    assert_eq!((batch.column(0).null_count(), batch.column(1).null_count()), (1, 1));
}

#[test]
fn one_column_tables_keep_empty_lines() {
    let schema = schema_of(&[DataType::Int32]);
    let batch = decode(&schema, &no_header(), b"\n1\n\r\n2").unwrap();
    let values: Vec<_> = batch.column(0).as_primitive::<Int32Type>().iter().collect();
    assert_eq!(values, [None, Some(1), None, Some(2)]);
    let rows = |data| split(&no_header(), data, 1000, 1).unwrap().splits[0].rows;
    assert_eq!(rows(b"\n1\n\r\n2"), 4);
    assert_eq!(rows(b"\n1,1\n\r\n2,2"), 2);
}

#[test]
fn splits_name_the_header() {
    let found = split(&CsvOptions::default(), b"\xEF\xBB\xBF\r\n\"a,\"\"b\",c\r\n1,2\r\n\r\n3,4\r\n", 1, 2);
    let found = found.unwrap();
    assert_eq!(found.header.unwrap(), ["a,\"b", "c"]);
    let splits: Vec<_> = found.splits.iter().map(|s| (s.start, s.end, s.rows)).collect();
    assert_eq!(splits, [(16, 21, 1), (21, 28, 1)]);
    assert_eq!(split(&CsvOptions::default(), b"", 1, 2).unwrap(), CsvSplits::default());
}

#[test]
fn errors_name_the_place() {
    let schema: SchemaRef = Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int32, false),
        Field::new("name", DataType::Utf8View, true),
    ]));
    let cases: [(&[u8], &str); 14] = [
        (b"1,a\nx1,b\n", "row 2, byte 12: column 'id': 'x1' is not a valid Int32"),
        (b"1,a\n2147483648,b\n", "row 2, byte 12: column 'id': '2147483648' is not a valid Int32"),
        (b"1,a\n1.5,b\n", "row 2, byte 12: column 'id': '1.5' is not a valid Int32"),
        (b"1,a\n,b\n", "row 2, byte 12: column 'id' is NULL but declared NOT NULL"),
        (b"1,a\n2,\xFFb\n", "row 2, byte 14: column 'name': '\u{FFFD}b' is not UTF-8"),
        (b"1,a\n2,\"\xFF\"\n", "row 2, byte 14: column 'name': '\"\u{FFFD}\"' is not UTF-8"),
        (b"1,a\n\n2\n", "row 2, byte 13: found 1 fields, expected 2: '2'"),
        (b"1,a\r\n2,b,c\r\n", "row 2, byte 13: found 3 fields, expected 2: '2,b,c'"),
        (b"1,a\n2,\"b\"c\n", "row 2, byte 17: text after a closing quote"),
        (b"1,a\n2,\"b\"\rc\n", "row 2, byte 17: text after a closing quote"),
        (b"1,a\n2,\"b\nc", "row 2: the quote opened at byte 14 is never closed"),
        // The first bad record counts, not the first bad column.
        (b"1,\xFF\nx,b\n", "row 1, byte 10: column 'name': '\u{FFFD}' is not UTF-8"),
        (b"x,a\n2\n", "row 1, byte 8: column 'id': 'x' is not a valid Int32"),
        (b"x,a\n2,\"b\"c", "row 1, byte 8: column 'id': 'x' is not a valid Int32"),
    ];
    // Advice for a value of another type follows the message.
    const ADVICE: &str =
        "; declare the column as VARCHAR to read it as text, or as null_value the text that stands for NULL";
    for (data, expected) in cases {
        let expected = format!("{expected}{}", if expected.contains("valid") { ADVICE } else { "" });
        let data = [b"id,name\n", data].concat();
        for size in [1, 5, usize::MAX] {
            let decoder = CsvDecoder::try_new(schema.clone(), &CsvOptions::default(), vec![0, 1], 10).unwrap();
            let (_, result, mut decoder) = run(decoder, &data, || size);
            assert_eq!(result.unwrap_err().to_string(), expected);
            assert!(matches!(decoder.decode(b"1,a\n"), Err(CsvError::Failed)));
        }
        let splits = split(&CsvOptions::default(), &data, 5, 3);
        if expected.contains("quote") && !expected.contains("valid") {
            assert_eq!(splits.unwrap_err().to_string(), expected);
        }
    }
    let long = format!("id,name\n{},a\n", "9".repeat(100));
    let error = decode(&schema, &CsvOptions::default(), long.as_bytes()).unwrap_err();
    assert!(error.to_string().contains(&format!("'{}'", "9".repeat(40))));
    let error = decode(&schema, &CsvOptions::default(), b"id\n").unwrap_err();
    assert_eq!(error.to_string(), "row 0, byte 0: found 1 fields, expected 2: 'id'");
    let error = split(&CsvOptions::default(), b"id,\xFF\n", 1, 1).unwrap_err();
    assert_eq!(error.to_string(), "row 0, byte 3: column '2': '\u{FFFD}' is not UTF-8");
}

#[test]
fn unusable_arguments() {
    let options = CsvOptions::default();
    let schema = schema_of(&[DataType::Int32, DataType::Duration(TimeUnit::Second)]);
    let new = |projection, rows| CsvDecoder::try_new(schema.clone(), &options, projection, rows);
    assert!(new(vec![0], 1).is_ok());
    assert!(matches!(new(vec![2], 1), Err(CsvError::InvalidProjection { .. })));
    assert!(matches!(new(vec![1], 1), Err(CsvError::UnsupportedType { .. })));
    assert!(matches!(new(vec![0], 0), Err(CsvError::InvalidOptions { .. })));
    let zone = schema_of(&[DataType::Timestamp(TimeUnit::Second, Some("Europe/Berlin".into()))]);
    let decoder = CsvDecoder::try_new(zone, &options, vec![0], 1);
    assert!(matches!(decoder, Err(CsvError::UnsupportedType { .. })));
}

#[test]
fn endless_records_are_refused() {
    let schema = schema_of(&[DataType::Utf8View]);
    let mut decoder = CsvDecoder::try_new(schema, &no_header(), vec![0], 10).unwrap();
    decoder.decode(b"\"").unwrap();
    let piece = vec![b'x'; 1 << 20];
    let error = (0..100).find_map(|_| decoder.decode(&piece).err()).unwrap();
    assert!(matches!(error, CsvError::RecordTooLong { row: 1, offset: 0, .. }));
}
