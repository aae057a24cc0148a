//! Index objects at a storage node: found rows are the right ones, whatever happens to the files.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, StringViewArray};
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef};
use arrow_flight::decode::{DecodedPayload, FlightDataDecoder};
use arrow_flight::error::FlightError;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::prelude::{Expr, SessionContext, col, lit};
use futures::TryStreamExt;
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;
use prost::Message;
use thermocline_pushdown::wire::{
    Compression, DescribeRequest, DropIndexRequest, ErrorKind, Format, FragmentReport, FragmentRequest, IndexReport,
    IndexRequest, IndexState, IndexStatusRequest, ObjectEntry, Range, Ticket, TicketKind, encode_schema,
};
use thermocline_pushdown::{CsvFormat, FileFormat, Fragment, NodeError};
use thermocline_storage::{NodeClient, NodeConfig, Root, StorageNode};

const ROWS: i64 = 40_000;
/// Rows that have one value of `k`.
const ROWS_PER_KEY: i64 = 20;

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("k", DataType::Int64, true),
        Field::new("s", DataType::Utf8View, true),
    ]))
}

/// Rows whose `k` and `s` are spread; every 50th is NULL.
fn rows(seed: i64) -> RecordBatch {
    let key = |id: i64| (id % 50 != 7).then_some((id * 7919 + seed) % (ROWS / ROWS_PER_KEY));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(0..ROWS)),
        Arc::new((0..ROWS).map(key).collect::<Int64Array>()),
        Arc::new((0..ROWS).map(|id| key(id).map(text_of)).collect::<StringViewArray>()),
    ];
    RecordBatch::try_new(schema(), columns).unwrap()
}

/// A ROOT with one object of 40 000 rows, in its format.
struct Case {
    root: PathBuf,
    format: FileFormat,
    /// A partition aims at so many bytes.
    partition_bytes: u64,
}

impl Case {
    fn new(name: &str, format: FileFormat) -> Self {
        let extension = format.name().to_lowercase();
        let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("index-{name}-{extension}"));
        let _ = fs::remove_dir_all(&root);
        fs::create_dir_all(&root).unwrap();
        let case = Self { root, format, partition_bytes: 300_000 };
        case.write(0);
        case
    }

    fn both(name: &str) -> [Self; 2] {
        [Self::new(name, FileFormat::Parquet), Self::new(name, FileFormat::Csv(CsvFormat::default()))]
    }

    fn write(&self, seed: i64) {
        let batch = rows(seed);
        match self.format {
            FileFormat::Parquet => {
                let properties = WriterProperties::builder()
                    .set_max_row_group_row_count(Some(9000))
                    .set_data_page_row_count_limit(250)
                    .set_write_batch_size(250)
                    // A dictionary is read whole, whatever the rows.
                    .set_dictionary_enabled(false)
                    .build();
                let file = fs::File::create(self.root.join("t.parquet")).unwrap();
                let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties)).unwrap();
                writer.write(&batch).unwrap();
                writer.close().unwrap();
            }
            FileFormat::Csv(_) => {
                let file = fs::File::create(self.root.join("t.csv")).unwrap();
                arrow::csv::Writer::new(file).write(&batch).unwrap();
            }
        }
    }

    fn node(&self, config: NodeConfig) -> NodeClient {
        let root = Root::open(self.root.to_str().unwrap()).unwrap();
        NodeClient::embedded(StorageNode::new(root, config).unwrap())
    }

    async fn object(&self, node: &NodeClient) -> ObjectEntry {
        node.list("").await.unwrap().pop().unwrap()
    }

    async fn create(&self, node: &NodeClient, column: &str) -> Result<IndexReport, NodeError> {
        let request = IndexRequest {
            object: Some(self.object(node).await),
            format: Some(Format::from(&self.format)),
            table_schema: encode_schema(&schema()).unwrap(),
            column: column.into(),
            partition_bytes: self.partition_bytes,
            ..IndexRequest::default()
        };
        node.create_index(request).await
    }

    async fn state(&self, node: &NodeClient, column: &str) -> IndexState {
        let request = IndexStatusRequest {
            objects: vec![self.object(node).await],
            format: Some(Format::from(&self.format)),
            table_schema: encode_schema(&schema()).unwrap(),
            column: column.into(),
        };
        node.index_status(request).await.unwrap().pop().unwrap().state()
    }

    /// The files of all index objects.
    fn files(&self) -> Vec<PathBuf> {
        let Ok(entries) = fs::read_dir(self.root.join(".thermocline/index")) else { return vec![] };
        entries.map(|entry| entry.unwrap().path()).collect()
    }

    /// The object's partitions, cut at `partition_bytes`; of Parquet, two row groups each.
    async fn partitions(&self, node: &NodeClient, partition_bytes: u64) -> Vec<Range> {
        if self.format == FileFormat::Parquet {
            let range = |start: u64| Range { row_groups: true, start, end: (start + 2).min(5), first_row: 0 };
            return (0..5).step_by(2).map(range).collect();
        }
        let request = DescribeRequest {
            objects: vec![self.object(node).await],
            format: Some(Format::from(&self.format)),
            partition_bytes,
        };
        let description = node.describe(request).try_next().await.unwrap().unwrap();
        let mut first_row = 0;
        let splits = description.splits.iter().map(|split| {
            let range = Range { row_groups: false, start: split.start, end: split.end, first_row };
            first_row += split.rows;
            range
        });
        splits.collect()
    }

    /// Ids of the rows that pass `filter`, and the report.
    async fn select(&self, node: &NodeClient, filter: Expr, use_indexes: bool) -> (Vec<i64>, FragmentReport) {
        let partitions = self.partitions(node, 170_000).await;
        let columns = DFSchema::try_from(schema()).unwrap();
        let predicate: Arc<dyn PhysicalExpr> = SessionContext::new().create_physical_expr(filter, &columns).unwrap();
        let request = FragmentRequest {
            object: Some(self.object(node).await),
            format: Some(Format::from(&self.format)),
            table_schema: encode_schema(&schema()).unwrap(),
            partitions,
            fragment: Fragment::filtered(schema(), &predicate, vec![0, 2]).unwrap().encode().unwrap(),
            compression: Compression::None as i32,
            use_indexes,
            ..FragmentRequest::default()
        };
        let messages = node.get(&Ticket { kind: Some(TicketKind::Fragment(request)) }).await.unwrap();
        let messages: Vec<_> = messages.try_collect().await.unwrap();
        let report = FragmentReport::decode(messages.last().unwrap().app_metadata.clone()).unwrap();
        let arrow = messages.into_iter().filter(|message| !message.data_header.is_empty()).map(Ok::<_, FlightError>);
        let mut decoder = FlightDataDecoder::new(futures::stream::iter(arrow));
        let mut ids = vec![];
        while let Some(message) = decoder.try_next().await.unwrap() {
            if let DecodedPayload::RecordBatch(batch) = message.payload {
                ids.extend_from_slice(batch.column(0).as_primitive::<Int64Type>().values());
            }
        }
        ids.sort_unstable();
        (ids, report)
    }

    /// With and without indexes, the same rows: `Some` report with, unless there are none.
    async fn agrees(&self, node: &NodeClient, filter: Expr) -> (usize, FragmentReport, FragmentReport) {
        let (expected, without) = self.select(node, filter.clone(), false).await;
        let (ids, with) = self.select(node, filter.clone(), true).await;
        assert_eq!(ids, expected, "{} {filter}", self.format.name());
        assert_eq!((without.partitions_indexed, without.index_bytes_read), (0, 0));
        (ids.len(), with, without)
    }
}

/// The value of `s` in the rows whose `k` is `key`.
fn text_of(key: i64) -> String {
    format!("{key}: a \"quoted\"\nline, {}", "long ".repeat(key as usize % 20))
}

fn text(key: i64) -> ScalarValue {
    ScalarValue::Utf8View(Some(text_of(key)))
}

#[tokio::test]
async fn the_rows_of_a_value_and_fewer_bytes() {
    for case in Case::both("rows") {
        let node = case.node(NodeConfig::default());
        for column in ["k", "s", "id"] {
            let report = case.create(&node, column).await.unwrap();
            assert_eq!(report.rows as i64, if column == "id" { ROWS } else { ROWS - ROWS / 50 });
            assert_eq!(case.state(&node, column).await, IndexState::Current);
        }
        assert_eq!(case.files().len(), 3);
        assert_eq!(node.list("").await.unwrap().len(), 1, "index objects are no data");
        // The first to look for pages reads where they are, once for all.
        case.agrees(&node, col("k").eq(lit(12_i64))).await;

        for filter in [
            col("k").eq(lit(11_i64)),
            col("k").in_list((0..3_i64).map(lit).chain([lit(ScalarValue::Int64(None))]).collect(), false),
            col("id").between(lit(17_000_i64), lit(17_100_i64)),
            col("s").eq(lit(text(39))),
            col("s").gt(lit(text(1999))).and(col("s").lt(lit(ScalarValue::Utf8View(Some("2".into()))))),
            col("id").gt(lit(39_990_i64)).and(col("k").is_null().or(col("k").gt(lit(5_i64)))),
        ] {
            let (found, with, without) = case.agrees(&node, filter.clone()).await;
            assert!(found > 0, "{filter}");
            assert!(with.partitions_indexed > 1, "{} {filter}: {with:?}", case.format.name());
            // Rows of Parquet that are sorted by the column are found through the page index as well, which
            // is here for both.
            let sorted = filter.to_string().starts_with("id ") && case.format == FileFormat::Parquet;
            assert!(sorted || with.bytes_read * 4 < without.bytes_read * 3, "{filter}: {with:?} {without:?}");
            assert!(with.index_bytes_read > 0 && !with.index_unusable);
        }
        // Nothing to read but the index.
        let (found, with, _) = case.agrees(&node, col("k").eq(lit(-5_i64))).await;
        assert_eq!((found, with.bytes_read), (0, with.index_bytes_read));
        // What keeps most rows, or rows in every page, is read as ever.
        for filter in [col("id").gt(lit(100_i64)), col("k").gt(lit(1000_i64)), col("k").not_eq(lit(1_i64))] {
            let (_, with, _) = case.agrees(&node, filter.clone()).await;
            assert_eq!(with.partitions_indexed, 0, "{filter}");
        }
        let request = DropIndexRequest {
            objects: vec![case.object(&node).await],
            format: Some(Format::from(&case.format)),
            table_schema: encode_schema(&schema()).unwrap(),
            column: "k".into(),
        };
        assert_eq!(node.drop_index(request.clone()).await.unwrap(), 1);
        assert_eq!(node.drop_index(request).await.unwrap(), 0);
        assert_eq!(case.state(&node, "k").await, IndexState::Missing);
        let (_, with, _) = case.agrees(&node, col("k").eq(lit(11_i64))).await;
        assert_eq!((with.partitions_indexed, with.index_unusable), (0, false));
    }
}

#[tokio::test]
async fn several_runs_when_memory_is_short() {
    for case in Case::both("runs") {
        let plenty = case.node(NodeConfig::default());
        let one_run = case.create(&plenty, "s").await.unwrap();
        let before = fs::read(&case.files()[0]).unwrap();
        fs::remove_file(&case.files()[0]).unwrap();
        let little = case.node(NodeConfig { memory_limit: 200 << 10, ..NodeConfig::default() });
        let runs = case.create(&little, "s").await.unwrap();
        assert_eq!(runs.rows, one_run.rows);
        assert_ne!(fs::read(&case.files()[0]).unwrap(), before, "the keys are in several runs");
        let (found, with, _) = case.agrees(&plenty, col("s").eq(lit(text(39)))).await;
        assert!(found > 0 && with.partitions_indexed > 1, "{with:?}");

        fs::remove_file(&case.files()[0]).unwrap();
        let none = case.node(NodeConfig { memory_limit: 1 << 10, ..NodeConfig::default() });
        let error = case.create(&none, "s").await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::ResourcesExhausted, "{error}");
        assert!(case.files().is_empty(), "nothing is left of an index that was not finished");
    }
}

#[tokio::test]
async fn damaged_files_are_not_used() {
    for case in Case::both("damaged") {
        let filter = || col("k").in_list((40..43_i64).map(lit).collect(), false);
        let builder = case.node(NodeConfig::default());
        case.create(&builder, "k").await.unwrap();
        let file = case.files().pop().unwrap();
        let whole = fs::read(&file).unwrap();
        let (expected, _) = case.select(&builder, filter(), false).await;

        let mut noticed = 0;
        let mut damages: Vec<Vec<u8>> = (0..whole.len())
            .step_by(whole.len() / 60)
            .chain(whole.len() - 60..whole.len())
            .map(|at| {
                let mut damaged = whole.clone();
                damaged[at] ^= 0x20;
                damaged
            })
            .collect();
        damages.extend([0, 1, 35, 36, whole.len() / 2, whole.len() - 1].map(|length| whole[..length].to_vec()));
        damages.push([whole.as_slice(), b"more"].concat());
        for damaged in damages {
            fs::write(&file, &damaged).unwrap();
            // A node that knows nothing of the file.
            let node = case.node(NodeConfig::default());
            let (ids, report) = case.select(&node, filter(), true).await;
            assert_eq!(ids, expected);
            noticed += u32::from(report.index_unusable);
            if report.index_unusable {
                assert_ne!(case.state(&node, "k").await, IndexState::Current);
            }
        }
        assert!(noticed > 60, "{noticed} damages were noticed");

        // Made anew, it is used again by the node that found it damaged.
        let node = case.node(NodeConfig::default());
        fs::write(&file, &whole[..whole.len() / 2]).unwrap();
        assert!(case.select(&node, filter(), true).await.1.index_unusable);
        assert_eq!(case.state(&node, "k").await, IndexState::Damaged);
        case.create(&node, "k").await.unwrap();
        assert_eq!(fs::read(&file).unwrap(), whole);
        let (ids, report) = case.select(&node, filter(), true).await;
        assert_eq!(ids, expected);
        assert!(report.partitions_indexed > 0 && !report.index_unusable);
    }
}

#[tokio::test]
async fn other_versions_are_not_used() {
    for case in Case::both("versions") {
        let node = case.node(NodeConfig::default());
        case.create(&node, "k").await.unwrap();
        let file = case.files().pop().unwrap();
        let whole = fs::read(&file).unwrap();

        // From a newer format.
        let mut newer = whole.clone();
        let version = newer.len() - 12;
        newer[version] = 99;
        fs::write(&file, &newer).unwrap();
        assert_eq!(case.state(&node, "k").await, IndexState::Stale);
        let (_, with, _) = case.agrees(&node, col("k").eq(lit(11_i64))).await;
        assert!(with.index_unusable && with.partitions_indexed == 0);
        fs::write(&file, &whole).unwrap();
        assert_eq!(case.state(&node, "k").await, IndexState::Current);

        // Of an older version of the object.
        case.write(1);
        assert_eq!(case.state(&node, "k").await, IndexState::Stale);
        let (found, with, _) = case.agrees(&node, col("k").eq(lit(11_i64))).await;
        assert!(found > 0 && with.index_unusable && with.partitions_indexed == 0);
        case.create(&node, "k").await.unwrap();
        assert_eq!(case.files().len(), 1, "the new one takes the old one's place");
        let (found, with, _) = case.agrees(&node, col("k").eq(lit(11_i64))).await;
        assert!(found > 0 && !with.index_unusable && with.partitions_indexed > 0);

        // The index of another column under this one's name.
        case.create(&node, "id").await.unwrap();
        let other = case.files().into_iter().find(|found| *found != file).unwrap();
        fs::copy(&other, &file).unwrap();
        let (_, with, _) = case.agrees(&node, col("k").eq(lit(11_i64))).await;
        assert!(with.index_unusable);
    }
}

#[tokio::test]
async fn where_indexes_are_kept() {
    let [case, _] = Case::both("place");
    // ROOT cannot be written: a file is in the way, which holds for every user.
    fs::write(case.root.join(".thermocline"), "").unwrap();
    let node = case.node(NodeConfig::default());
    let error = case.create(&node, "k").await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Refused);
    assert!(error.message.contains("--index-dir") && error.message.contains(".thermocline"), "{error}");
    assert_eq!(case.state(&node, "k").await, IndexState::Missing);

    let elsewhere = case.root.with_extension("elsewhere");
    let _ = fs::remove_dir_all(&elsewhere);
    let config = NodeConfig { index_directory: Some(elsewhere.clone()), ..NodeConfig::default() };
    let node = case.node(config.clone());
    case.create(&node, "k").await.unwrap();
    let (found, with, _) = case.agrees(&node, col("k").eq(lit(11_i64))).await;
    assert!(found > 0 && with.partitions_indexed > 0);
    // A second node over another ROOT shares the directory, not the files.
    let [other, _] = Case::both("place-2");
    other.write(5);
    let other_node = other.node(config);
    assert_eq!(other.state(&other_node, "k").await, IndexState::Missing);
    other.create(&other_node, "k").await.unwrap();
    other.agrees(&other_node, col("k").eq(lit(11_i64))).await;
    assert_eq!(case.state(&node, "k").await, IndexState::Current);

    let bad = NodeConfig { index_directory: Some(case.root.join("t.parquet/x")), ..NodeConfig::default() };
    let error = StorageNode::new(Root::open(case.root.to_str().unwrap()).unwrap(), bad).unwrap_err();
    assert!(error.message.contains("t.parquet/x"), "{error}");
}

#[tokio::test]
async fn bad_requests_are_refused() {
    let [case, _] = Case::both("refused");
    let node = case.node(NodeConfig::default());
    let error = case.create(&node, "nothing").await.unwrap_err();
    assert!(error.kind == ErrorKind::Refused && error.message.contains("'nothing'"), "{error}");
    let list = Field::new("k", DataType::new_list(DataType::Int64, true), true);
    let request = IndexRequest {
        object: Some(case.object(&node).await),
        format: Some(Format::from(&case.format)),
        table_schema: encode_schema(&Schema::new(vec![list])).unwrap(),
        column: "k".into(),
        ..IndexRequest::default()
    };
    let error = node.create_index(request.clone()).await.unwrap_err();
    assert!(error.message.contains("cannot be indexed") && error.message.contains("t.parquet"), "{error}");
    let outside = ObjectEntry { path: "../outside.parquet".into(), ..request.object.clone().unwrap() };
    let request = IndexRequest { object: Some(outside), table_schema: encode_schema(&schema()).unwrap(), ..request };
    let error = node.create_index(request.clone()).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Refused, "{error}");
    let changed = ObjectEntry { version: "size:1-time:1".into(), ..case.object(&node).await };
    let error = node.create_index(IndexRequest { object: Some(changed), ..request }).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::VersionChanged, "{error}");
    assert!(case.files().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn many_builders_of_one_index() {
    for case in Case::both("builders") {
        let node = case.node(NodeConfig { pushdown_slots: 8, ..NodeConfig::default() });
        let other = case.node(NodeConfig::default());
        let nodes = [&node, &other, &node, &other, &node];
        let built = futures::future::join_all(nodes.map(|node| case.create(node, "k"))).await;
        for report in built {
            assert_eq!(report.unwrap().rows as i64, ROWS - ROWS / 50);
        }
        assert_eq!(case.files().len(), 1);
        case.agrees(&node, col("k").eq(lit(11_i64))).await;
        // Dropped in the middle, a build leaves nothing behind.
        for _ in 0..20 {
            let mut building = Box::pin(case.create(&node, "s"));
            let _ = futures::poll!(&mut building);
            tokio::task::yield_now().await;
        }
        let error = case.create(&node, "s").await.err();
        assert!(error.is_none(), "{error:?}");
    }
}
