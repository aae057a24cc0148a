//! Names and content of objects.

use std::fs;
use std::sync::Mutex;

use super::read::{Generated, PARTITION_SIZE, TestResult, files, options};
use crate::generate::{GenerateError, Progress};
use crate::ssb::{Format, LINEORDER, PART, SUPPLIER, TABLES, create_table_sql, generate, schema};

#[test]
fn bytes_do_not_depend_on_threads() -> TestResult {
    for format in [Format::Parquet, Format::Csv] {
        let (one, two) = (tempfile::tempdir()?, tempfile::tempdir()?);
        let mut run = options(one.path(), format);
        run.threads = 1;
        let first = generate(&run, &|_| {})?;
        run.threads = 2;
        run.out = two.path().to_path_buf();
        assert_eq!(first, generate(&run, &|_| {})?);
        assert!(files(one.path())? == files(two.path())?, "{format:?} bytes differ");
    }
    Ok(())
}

#[test]
fn summary_and_progress_agree_with_the_files() -> TestResult {
    let folder = tempfile::tempdir()?;
    let last = Mutex::new(Vec::<Progress>::new());
    let summary = generate(&options(folder.path(), Format::Csv), &|progress| {
        if let Ok(mut last) = last.lock() {
            last.push(progress);
        }
    })?;
    let files = files(folder.path())?;
    let progress = last.into_inner()?;
    assert_eq!(summary.tables.iter().map(|table| table.table).collect::<Vec<_>>(), TABLES);
    for table in summary.tables {
        let objects: Vec<&Vec<u8>> =
            files.iter().filter(|(path, _)| path.starts_with(table.table.name())).map(|(_, bytes)| bytes).collect();
        let lines: usize = objects.iter().map(|bytes| bytes.iter().filter(|byte| **byte == b'\n').count()).sum();
        assert_eq!(table.objects, objects.len() as u64);
        assert_eq!(table.bytes, objects.iter().map(|bytes| bytes.len() as u64).sum::<u64>());
        assert_eq!(table.rows + table.objects, lines as u64, "a header each");
        let of_table = progress.iter().filter(|progress| progress.table == table.table);
        assert!(of_table.clone().all(|progress| progress.rows_total == table.rows));
        assert_eq!(of_table.map(|progress| progress.rows_done).max(), Some(table.rows));
    }
    Ok(())
}

#[test]
fn objects_are_near_the_partition_size() -> TestResult {
    for format in [Format::Parquet, Format::Csv] {
        let generated = Generated::new(format)?;
        let objects = generated.objects(LINEORDER)?;
        assert!(objects.len() > 3);
        for (number, path) in objects.iter().enumerate() {
            let name = format!("lineorder-{number:05}.{}", format.extension());
            assert!(path.ends_with(&name), "{} is not {name}", path.display());
            let bytes = fs::metadata(path)?.len();
            assert!(bytes > PARTITION_SIZE / 2, "{name} has {bytes} bytes");
            assert!(bytes < PARTITION_SIZE * 11 / 10, "{name} has {bytes} bytes");
        }
    }
    Ok(())
}

#[test]
fn parquet_and_csv_hold_the_same_rows() -> TestResult {
    let (parquet, csv) = (Generated::new(Format::Parquet)?, Generated::new(Format::Csv)?);
    for table in TABLES {
        assert!(parquet.read(table)? == csv.read(table)?, "{table} differs");
    }
    Ok(())
}

#[test]
fn options_out_of_range_are_errors() -> TestResult {
    let folder = tempfile::tempdir()?;
    for scale in [0.0, -1.0, f64::NAN, f64::INFINITY, 1000.5] {
        let mut run = options(folder.path(), Format::Csv);
        run.scale = scale;
        assert!(matches!(generate(&run, &|_| {}), Err(GenerateError::Scale { .. })));
    }
    let mut run = options(folder.path(), Format::Csv);
    run.partition_size = 65_535;
    assert!(matches!(generate(&run, &|_| {}), Err(GenerateError::PartitionSize(65_535))));
    assert!(fs::read_dir(folder.path())?.next().is_none(), "nothing was created");
    Ok(())
}

#[test]
fn a_folder_in_use_is_refused() -> TestResult {
    let folder = tempfile::tempdir()?;
    let in_the_way = folder.path().join("part").join("part-00000.csv");
    fs::create_dir(folder.path().join("part"))?;
    fs::write(&in_the_way, "p_partkey\n")?;
    let error = match generate(&options(folder.path(), Format::Parquet), &|_| {}) {
        Ok(_) => return Err("generated over it".into()),
        Err(error) => error.to_string(),
    };
    assert!(error.contains(&in_the_way.display().to_string()), "{error}");
    assert_eq!(fs::read_to_string(in_the_way)?, "p_partkey\n");
    Ok(())
}

#[test]
fn an_unusable_folder_is_named() -> TestResult {
    let folder = tempfile::tempdir()?;
    let out = folder.path().join("file");
    fs::write(&out, "")?;
    match generate(&options(&out, Format::Csv), &|_| {}) {
        Err(GenerateError::Io { path, .. }) => assert_eq!(path, out.join("lineorder")),
        other => return Err(format!("{other:?}").into()),
    }
    Ok(())
}

#[test]
fn tiny_scales_work() -> TestResult {
    let folder = tempfile::tempdir()?;
    let mut run = options(folder.path(), Format::Parquet);
    run.scale = 1e-6;
    let summary = generate(&run, &|_| {})?;
    assert!(summary.tables.iter().all(|table| table.rows > 0 && table.objects == 1));
    Ok(())
}

#[test]
fn schemas_have_the_standard_widths() {
    let widths: Vec<usize> = TABLES.iter().map(|table| schema(*table).fields().len()).collect();
    assert_eq!(widths, [17, 8, 7, 9, 17]);
}

#[test]
fn ddl_names_format_and_location() {
    assert_eq!(
        create_table_sql(PART, Format::Parquet, "/it's/part/"),
        "CREATE EXTERNAL TABLE part STORED AS PARQUET LOCATION '/it''s/part/'"
    );
    assert_eq!(
        create_table_sql(SUPPLIER, Format::Csv, "s3://b/supplier/"),
        "CREATE EXTERNAL TABLE supplier (s_suppkey INT NOT NULL, s_name VARCHAR NOT NULL, \
         s_address VARCHAR NOT NULL, s_city VARCHAR NOT NULL, s_nation VARCHAR NOT NULL, \
         s_region VARCHAR NOT NULL, s_phone VARCHAR NOT NULL) STORED AS CSV \
         LOCATION 's3://b/supplier/' OPTIONS ('format.has_header' 'true')"
    );
}
