//! A storage that no crate of ours knows: a directory that runs filters and nothing else, or whichever operators a test
//! leaves it. It is all in this file, over the public trait, and its tables work as others do.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Write;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use arrow_flight::FlightData;
use async_trait::async_trait;
use bytes::Bytes;
use datafusion::common::DataFusionError;
use datafusion::execution::memory_pool::{MemoryPool, UnboundedMemoryPool};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{StreamExt, TryStreamExt, stream};
use prost::Message;
use thermocline_compute::Scheme;
use thermocline_database::{Database, OpenOptions, Session};
use thermocline_formats::csv::SplitScanner;
use thermocline_formats::{
    FooterCache, Footers, PartitionReader, RangeSource, ReadOptions, csv_options, fetch_footer, text,
};
use thermocline_pushdown::wire::{
    Compression, DescribeRequest, DescribeResponse, Description, ErrorKind, FragmentReport, FragmentRequest,
    ListResponse, ObjectEntry, RangesRequest, SkippedEntry, Split, decode_schema,
};
use thermocline_pushdown::{
    FileFormat, Fragment, Limits, Mode, NodeError, OperatorKind, PartitionRange, Route, TextCompression, node_functions,
};
use thermocline_storage::{
    Capabilities, Descriptions, Messages, Place, RemoteOptions, Storage, StoredFormat, answer_messages,
};
use thermocline_workloads::Workload;
use thermocline_workloads::generate::Format;

use crate::support::data;
use crate::support::everywhere::Everywhere;
use crate::support::rows::canonical;
use crate::support::topology::spread;

/// Requests that the directories of one scheme were sent.
#[derive(Debug, Default)]
struct Sent {
    /// Fragments with a filter.
    filters: AtomicU64,
    /// Other fragments.
    unfiltered: AtomicU64,
    /// Rows that fragments read and yielded.
    rows_in: AtomicU64,
    rows_out: AtomicU64,
    /// Fragments that are beyond the capabilities; requests for compression that there is not.
    others: AtomicU64,
    ranges: AtomicU64,
    /// Tenants of the queries whose fragments came.
    tenants: Mutex<BTreeSet<String>>,
}

impl Sent {
    fn get(counter: &AtomicU64) -> u64 {
        counter.load(Ordering::Relaxed)
    }
}

fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Ordering::Relaxed);
}

/// `directory:///path`.
#[derive(Debug)]
struct Directories {
    operators: BTreeSet<OperatorKind>,
    sent: Arc<Sent>,
}

impl Scheme for Directories {
    fn names(&self) -> &[&str] {
        &["directory"]
    }

    fn locate(&self, location: &str) -> Result<Place, NodeError> {
        let path = location.split_once("://").map_or(location, |(_, path)| path);
        Ok(Place { roots: vec![path.to_owned()], prefix: String::new() })
    }

    fn open(&self, root: &str, _: &RemoteOptions) -> Result<Arc<dyn Storage>, NodeError> {
        Ok(Arc::new(Directory {
            root: PathBuf::from(root),
            label: format!("directory {root}"),
            capabilities: Capabilities {
                operators: self.operators.clone(),
                formats: [StoredFormat::Parquet, StoredFormat::Csv].into(),
                // Slow enough for pushdown to be worth it.
                crosses_link: true,
                ..Capabilities::none()
            },
            sent: Arc::clone(&self.sent),
        }))
    }
}

#[derive(Debug)]
struct Directory {
    root: PathBuf,
    label: String,
    capabilities: Capabilities,
    sent: Arc<Sent>,
}

/// An object in one version.
#[derive(Debug)]
struct ObjectFile {
    path: PathBuf,
    entry: ObjectEntry,
}

fn unreadable(path: &Path, error: &std::io::Error) -> NodeError {
    let kind = match error.kind() {
        std::io::ErrorKind::NotFound => ErrorKind::NotFound,
        _ => ErrorKind::Unavailable,
    };
    NodeError::new(kind, format!("{}: {error}", path.display()))
}

fn version_of(metadata: &fs::Metadata) -> String {
    format!("{} {}.{}", metadata.len(), metadata.mtime(), metadata.mtime_nsec())
}

#[async_trait]
impl RangeSource for ObjectFile {
    fn object(&self) -> &ObjectEntry {
        &self.entry
    }

    async fn read(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>, NodeError> {
        let failed = |error| unreadable(&self.path, &error);
        let file = File::open(&self.path).map_err(failed)?;
        if version_of(&file.metadata().map_err(failed)?) != self.entry.version {
            return Err(NodeError::new(ErrorKind::VersionChanged, format!("{} changed", self.path.display())));
        }
        let read = |range: &Range<u64>| {
            let mut bytes = vec![0; (range.end - range.start) as usize];
            file.read_exact_at(&mut bytes, range.start).map_err(failed)?;
            Ok(bytes.into())
        };
        ranges.iter().map(read).collect()
    }
}

impl Directory {
    fn file(&self, entry: Option<&ObjectEntry>) -> Result<Arc<ObjectFile>, NodeError> {
        let entry = entry.ok_or_else(|| NodeError::new(ErrorKind::Refused, "no object"))?;
        Ok(Arc::new(ObjectFile { path: self.root.join(&entry.path), entry: entry.clone() }))
    }
}

async fn described(file: Arc<ObjectFile>, format: &FileFormat, partition_bytes: u64) -> Result<Description, NodeError> {
    let FileFormat::Csv(csv) = format else {
        return Ok(Description { footer: fetch_footer(file.as_ref()).await?, ..Description::default() });
    };
    let bad = |error| NodeError::new(ErrorKind::BadData, format!("{error}"));
    // Compressed text is not cut.
    let (partition_bytes, end) = match TextCompression::of_path(&file.entry.path) {
        TextCompression::None => (partition_bytes, file.entry.size),
        _ => (u64::MAX, u64::MAX),
    };
    let memory: Arc<dyn MemoryPool> = Arc::new(UnboundedMemoryPool::default());
    let mut scanner = SplitScanner::try_new(&csv_options(csv), partition_bytes).map_err(bad)?;
    let mut pieces = text(file, 0..end, &memory);
    while let Some(piece) = pieces.try_next().await? {
        scanner.push(&piece).map_err(bad)?;
    }
    let found = scanner.finish().map_err(bad)?;
    let splits = found.splits.iter().map(|split| Split { start: split.start, end: split.end, rows: split.rows });
    Ok(Description { splits: splits.collect(), header: found.header.unwrap_or_default(), ..Description::default() })
}

#[async_trait]
impl Storage for Directory {
    fn label(&self) -> &str {
        &self.label
    }

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    async fn list(&self, _prefix: &str) -> Result<ListResponse, NodeError> {
        let mut found = ListResponse::default();
        let Ok(entries) = fs::read_dir(&self.root) else {
            return Ok(ListResponse { missing: true, ..found });
        };
        for entry in entries {
            let entry = entry.map_err(|error| unreadable(&self.root, &error))?;
            let metadata = entry.metadata().map_err(|error| unreadable(&entry.path(), &error))?;
            let path = entry.file_name().to_string_lossy().into_owned();
            if metadata.is_file() && metadata.len() > 0 {
                found.objects.push(ObjectEntry { path, version: version_of(&metadata), size: metadata.len() });
            } else {
                found.skipped.push(SkippedEntry { path, size: 0, reason: "it is no file with content".into() });
                found.skipped_total += 1;
            }
        }
        found.objects.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(found)
    }

    async fn describe(&self, request: DescribeRequest) -> Result<Descriptions, NodeError> {
        let format = FileFormat::try_from(&request.format.unwrap_or_default())?;
        let files = request.objects.iter().map(|entry| self.file(Some(entry))).collect::<Result<Vec<_>, _>>()?;
        Ok(stream::iter(files)
            .then(move |file| {
                let format = format.clone();
                async move {
                    let description = described(file, &format, request.partition_bytes).await?;
                    Ok(DescribeResponse { objects: vec![description] })
                }
            })
            .boxed())
    }

    async fn ranges(&self, request: &RangesRequest) -> Result<Messages, NodeError> {
        add(&self.sent.ranges, 1);
        let ranges: Vec<_> = request.starts.iter().zip(&request.ends).map(|(start, end)| *start..*end).collect();
        let read = self.file(request.object.as_ref())?.read(&ranges).await?;
        let message = |data_body| Ok(FlightData { data_body, ..FlightData::default() });
        Ok(stream::iter(read.into_iter().map(message)).boxed())
    }

    async fn execute(&self, request: &FragmentRequest) -> Result<Messages, NodeError> {
        let origin = request.origin.as_ref().expect("a request says whose it is");
        self.sent.tenants.lock().unwrap().insert(origin.tenant.clone());
        let (fragment, columns) = Fragment::decode(&request.fragment, node_functions(), &Limits::default())?;
        let kinds = fragment.operator_kinds();
        if let Some(kind) = kinds.iter().find(|kind| !self.capabilities.runs(**kind)) {
            add(&self.sent.others, 1);
            return Err(NodeError::new(ErrorKind::Refused, format!("no {kind} runs here")));
        }
        add(if kinds.contains(&OperatorKind::Filter) { &self.sent.filters } else { &self.sent.unfiltered }, 1);
        if request.compression != Compression::None as i32 || request.use_indexes {
            add(&self.sent.others, 1);
            return Err(NodeError::new(ErrorKind::Refused, "there are no compressions and no indexes here"));
        }
        let table_schema = decode_schema(&request.table_schema)?;
        let positions = columns.fields().iter().map(|column| table_schema.index_of(column.name()).unwrap()).collect();
        let reader = PartitionReader {
            source: self.file(request.object.as_ref())?,
            format: FileFormat::try_from(&request.format.clone().unwrap_or_default())?,
            table_schema,
            footers: Footers::new(FooterCache::new(0, None), &self.label),
        };
        let options =
            ReadOptions { columns: positions, predicate: fragment.predicate().cloned(), ..ReadOptions::default() };
        let ranges = request.partitions.iter().copied().map(PartitionRange::try_from);
        let ranges: Vec<_> = ranges.collect::<Result<_, _>>()?;
        let sent = Arc::clone(&self.sent);
        let rows = stream::iter(ranges)
            .map(move |range| reader.stream(range, &options, node_functions()).map_err(DataFusionError::from))
            .try_flatten()
            .inspect_ok(move |batch| add(&sent.rows_in, batch.num_rows() as u64));
        let rows = RecordBatchStreamAdapter::new(columns, rows);
        let answer = fragment.instantiate(Box::pin(rows))?.execute(0, Arc::clone(node_functions()))?;
        let sent = Arc::clone(&self.sent);
        let report = move |rows_out| {
            add(&sent.rows_out, rows_out);
            FragmentReport::default()
        };
        let messages: Vec<_> = answer_messages(answer, Compression::None, report)?.try_collect().await?;
        let bytes: u64 = messages.iter().map(|message| message.encoded_len() as u64).sum();
        if request.answer_bytes_max > 0 && bytes > request.answer_bytes_max {
            return Err(NodeError::new(ErrorKind::RawIsSmaller, format!("the answer has {bytes} bytes")));
        }
        Ok(stream::iter(messages.into_iter().map(Ok)).boxed())
    }
}

fn options(operators: &[OperatorKind], sent: &Arc<Sent>) -> OpenOptions {
    let directories = Directories { operators: operators.iter().copied().collect(), sent: Arc::clone(sent) };
    OpenOptions { schemes: vec![Arc::new(directories)], ..OpenOptions::default() }
}

async fn session(sent: &Arc<Sent>) -> Session {
    let options = options(&[OperatorKind::Filter], sent).with("partition_size", "1MiB");
    Database::open(options, |_| {}).await.unwrap().session()
}

/// A session of the same tables in this process.
async fn session_over(format: Format) -> Session {
    let session = Database::in_memory().await.unwrap().session();
    for definition in data::definitions(&Workload::SSB, format, data::ssb(format).to_str().unwrap()) {
        session.run(&definition).await.unwrap();
    }
    session
}

async fn everywhere(format: Format) {
    let sent = Arc::default();
    let everywhere = Everywhere::new(&Workload::SSB, format).with_options(options(&[OperatorKind::Filter], &sent));
    everywhere.modes(&format!("directory://{}", data::ssb(format).display())).await;
    let [filters, others, ranges] = [&sent.filters, &sent.others, &sent.ranges].map(Sent::get);
    assert!(filters > 0 && ranges > 0, "{sent:?}");
    assert_eq!(others, 0, "{sent:?}");
    let [rows_in, rows_out] = [&sent.rows_in, &sent.rows_out].map(Sent::get);
    assert!(rows_out < rows_in / 2, "filters run where the rows are: {sent:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn parquet_in_all_modes() {
    everywhere(Format::Parquet).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn csv_in_all_modes() {
    everywhere(Format::Csv).await;
}

/// Whichever operator is missing, it is never sent, and what the joins' filters would add is not either.
#[tokio::test(flavor = "multi_thread")]
async fn each_operator_may_be_missing() {
    let format = Format::Parquet;
    for missing in OperatorKind::ALL {
        let operators: Vec<_> = OperatorKind::ALL.into_iter().filter(|kind| *kind != missing).collect();
        let sent = Arc::default();
        let everywhere = Everywhere::new(&Workload::SSB, format).with_options(options(&operators, &sent));
        everywhere.modes(&format!("directory://{}", data::ssb(format).display())).await;
        let session = Database::open(options(&operators, &sent), |_| {}).await.unwrap().session();
        let reference = session_over(format).await;
        let location = format!("directory://{}", data::ssb(format).display());
        for definition in data::definitions(&Workload::SSB, format, &location) {
            session.run(&definition).await.unwrap();
        }
        session.set("mode", "pushdown").unwrap();
        for (sql, _) in STATEMENTS {
            assert_eq!(rows(&session, sql).await, rows(&reference, sql).await, "without {missing}: {sql}");
        }
        assert_eq!(Sent::get(&sent.others), 0, "without {missing}: {sent:?}");
        let filters = Sent::get(&sent.filters);
        assert_eq!(filters > 0, missing != OperatorKind::Filter, "without {missing}: {sent:?}");
    }
}

/// Statements with every operator that a fragment may hold, and what the plan says of the one that is not pushed.
const STATEMENTS: [(&str, &str); 5] = [
    ("SELECT lo_orderdate, lo_discount FROM lineorder WHERE lo_quantity = 3", ""),
    (
        "SELECT lo_discount, count(*), sum(lo_revenue) FROM lineorder WHERE lo_quantity < 25 GROUP BY lo_discount",
        "runs no partial aggregates",
    ),
    ("SELECT lo_revenue FROM lineorder WHERE lo_quantity < 5 ORDER BY lo_revenue DESC LIMIT 7", "runs no top-Ks"),
    ("SELECT lo_revenue + lo_tax FROM lineorder WHERE lo_quantity < 5", "runs no projections"),
    ("SELECT count(*) FROM (SELECT lo_tax FROM lineorder WHERE lo_quantity < 5 LIMIT 9)", "runs no limits"),
];

async fn explained(session: &Session, sql: &str) -> String {
    let rows = canonical(&session.run(&format!("EXPLAIN {sql}")).await.unwrap());
    rows.into_iter().flatten().flatten().collect::<Vec<_>>().join("\n")
}

async fn rows(session: &Session, sql: &str) -> Vec<Vec<Option<String>>> {
    let mut rows = canonical(&session.run(sql).await.unwrap());
    rows.sort();
    rows
}

#[tokio::test(flavor = "multi_thread")]
async fn what_it_does_not_run_is_done_here_and_said() {
    for format in [Format::Parquet, Format::Csv] {
        let sent = Arc::default();
        let session = session(&sent).await;
        let directory = data::ssb(format);
        for location in [directory.display().to_string(), format!("directory://{}", directory.display())] {
            for definition in data::definitions(&Workload::SSB, format, &location) {
                session.run(&definition.replacen("CREATE EXTERNAL", "CREATE OR REPLACE EXTERNAL", 1)).await.unwrap();
            }
            session.set("mode", Mode::Pushdown.name()).unwrap();
            for (sql, refusal) in STATEMENTS {
                let plan = explained(&session, sql).await;
                let label = format!("not pushed=[directory {}/lineorder {refusal}]", directory.display());
                let says = location.starts_with("directory") && !refusal.is_empty();
                assert_eq!(plan.contains(&label), says, "{label}\n{plan}");
            }
        }
        // The tables are at the fourth storage now.
        let reference = session_over(format).await;
        for mode in Mode::ALL {
            session.set("mode", mode.name()).unwrap();
            for (sql, _) in STATEMENTS {
                let context = format!("{format:?} {mode} {sql}");
                assert_eq!(rows(&session, sql).await, rows(&reference, sql).await, "{context}");
            }
        }
        session.set("mode", "pushdown").unwrap();
        session.set("tenant", "sales").unwrap();
        let before = Sent::get(&sent.filters);
        let result = session.run(STATEMENTS[1].0).await.unwrap();
        assert!(result.stats.partitions(Route::Pushdown) > 0, "{:?}", result.stats);
        assert!(Sent::get(&sent.filters) > before && Sent::get(&sent.others) == 0, "{sent:?}");
        assert_eq!(*sent.tenants.lock().unwrap(), BTreeSet::from([String::new(), "sales".to_owned()]));

        let error = session.run("CREATE INDEX i ON lineorder (lo_partkey)").await.unwrap_err().to_string();
        assert!(error.contains("directory ") && error.contains("keeps no indexes"), "{error}");
        let known =
            rows(&session, "SELECT operators, crosses_link, queue_length, error FROM system.storage_nodes").await;
        let expected = [Some("filter".to_owned()), Some("true".to_owned()), None, None];
        assert!(known.iter().any(|row| *row == expected), "{known:?}");
    }
}

/// A table's storages run what all of them can.
#[tokio::test(flavor = "multi_thread")]
async fn beside_a_storage_that_does_more() {
    for format in [Format::Parquet, Format::Csv] {
        let sent = Arc::default();
        let session = session(&sent).await;
        let temporary = tempfile::tempdir().unwrap();
        let parts = ["left", "right"].map(|name| temporary.path().join(name));
        spread(data::ssb(format), &parts.each_ref().map(PathBuf::as_path));
        let whole = data::definitions(&Workload::SSB, format, data::ssb(format).to_str().unwrap());
        let whole = whole.iter().find(|definition| definition.contains("/lineorder'")).unwrap();
        session.run(whole).await.unwrap();
        let one = format!("'{}/lineorder'", data::ssb(format).display());
        let [left, right] = parts.each_ref().map(|part| part.join("lineorder").display().to_string());
        let both = whole.replace(&one, &format!("('directory://{left}', '{right}')"));
        session.run(&both.replacen("lineorder", "mixed", 1)).await.unwrap();
        for mode in Mode::ALL {
            session.set("mode", mode.name()).unwrap();
            for (sql, refusal) in STATEMENTS {
                let mixed = sql.replace("FROM lineorder", "FROM mixed");
                assert_eq!(rows(&session, &mixed).await, rows(&session, sql).await, "{format:?} {mode} {sql}");
                let plan = explained(&session, &mixed).await;
                assert!(plan.contains(&format!("directory {left} {refusal}")) || refusal.is_empty(), "{plan}");
            }
        }
        assert!(Sent::get(&sent.filters) > 0 && Sent::get(&sent.others) == 0, "{sent:?}");
    }
}

/// Objects in a format that it runs nothing over are read here, beside others of the table that it filters.
#[tokio::test(flavor = "multi_thread")]
async fn compressed_text_is_filtered_here() {
    let temporary = tempfile::tempdir().unwrap();
    let lines = |first: u64| (first..first + 1000).map(|n| format!("{n},{}\n", n % 10)).collect::<String>();
    fs::write(temporary.path().join("plain.csv"), format!("a,b\n{}", lines(0))).unwrap();
    let file = File::create(temporary.path().join("compressed.csv.gz")).unwrap();
    let mut compressed = flate2::write::GzEncoder::new(file, flate2::Compression::default());
    write!(compressed, "a,b\n{}", lines(1000)).unwrap();
    compressed.finish().unwrap();

    let sent = Arc::default();
    let session = session(&sent).await;
    let location = format!("directory://{}", temporary.path().display());
    session.run(&format!("CREATE EXTERNAL TABLE t STORED AS CSV LOCATION '{location}'")).await.unwrap();
    session.set("mode", "pushdown").unwrap();
    let result = session.run("SELECT a FROM t WHERE b = 3").await.unwrap();
    let rows: BTreeSet<_> = canonical(&result).into_iter().flatten().flatten().collect();
    assert_eq!(rows, (0..200).map(|n| (n * 10 + 3).to_string()).collect());
    assert_eq!([Route::Pushdown, Route::Pullup].map(|route| result.stats.partitions(route)), [1, 1]);
    assert_eq!((Sent::get(&sent.filters), Sent::get(&sent.rows_out), Sent::get(&sent.others)), (1, 100, 0));
}

#[tokio::test]
async fn schemes_that_there_are_not_are_named() {
    let session = session(&Arc::default()).await;
    let sql = "CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION 'gopher://x/y'";
    let error = session.run(sql).await.unwrap_err().to_string();
    assert!(error.contains("unknown scheme 'gopher'") && error.contains("directory://"), "{error}");
}
