//! Time that a query takes until its scan is routed, by the number of partitions and of cached segments.
//!
//! `EXPLAIN` plans and routes without reading. In mode `pullup` the router neither asks the cache nor the model: what
//! `auto` takes beyond it is the overhead of both. A query needs 8 columns; `cached` has all of them in the cache, with
//! 92 others of each partition, `missing` none of them, with 100 others.

#![allow(clippy::unwrap_used, reason = "a bench that cannot go on fails")]
#![allow(missing_docs, reason = "the macros make public items")]

use std::fs::File;
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use parquet::arrow::ArrowWriter;
use thermocline_database::{Database, OpenOptions, Session};
use thermocline_storage::{NodeConfig, Root, Server, StorageNode, serve};
use tokio::runtime::Runtime;

/// Columns that are cached, of each partition.
const CACHED: usize = 100;
/// Columns that a query needs.
const NEEDED: usize = 8;

/// A table of `partitions` objects of one partition each.
fn write(directory: &Path, partitions: usize) {
    let column: ArrayRef = Arc::new(Int64Array::from_iter_values(0..8));
    let columns = (0..CACHED + NEEDED).map(|number| (format!("c{number}"), Arc::clone(&column)));
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    for partition in 0..partitions {
        let file = File::create(directory.join(format!("{partition:05}.parquet"))).unwrap();
        let mut writer = ArrowWriter::try_new(file, batch.schema(), None).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
    }
}

/// A query over columns from `first` on.
fn query(first: usize, columns: usize) -> String {
    let sums: Vec<String> = (first..first + columns).map(|column| format!("sum(c{column})")).collect();
    format!("SELECT {} FROM t WHERE c{first} >= 3", sums.join(", "))
}

/// A storage node with the table, and a session that has cached the first columns of all partitions.
async fn session(directory: &Path, partitions: usize) -> (Server, Session) {
    let node = StorageNode::new(Root::open(directory.to_str().unwrap()).unwrap(), NodeConfig::default()).unwrap();
    let server = serve(node, "127.0.0.1:0".parse().unwrap()).await.unwrap();
    let session = Database::open(OpenOptions::default(), |_| {}).await.unwrap().session();
    let location = format!("thermocline://{}", server.address());
    session.run(&format!("CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION '{location}'")).await.unwrap();
    session.set("mode", "caching").unwrap();
    session.run(&query(0, CACHED)).await.unwrap();
    assert_eq!(session.engine().cache().segments().len(), partitions * CACHED);
    (server, session)
}

fn routing(criterion: &mut Criterion) {
    let runtime = Runtime::new().unwrap();
    for partitions in [10, 100, 1000] {
        let directory = tempfile::tempdir().unwrap();
        write(directory.path(), partitions);
        let (_server, session) = runtime.block_on(session(directory.path(), partitions));
        let mut group = criterion.benchmark_group("routing");
        for (what, first) in [("cached", 0), ("missing", CACHED)] {
            let sql = format!("EXPLAIN {}", query(first, NEEDED));
            for mode in ["pullup", "auto"] {
                session.set("mode", mode).unwrap();
                group.bench_function(BenchmarkId::new(format!("{what}/{mode}"), partitions), |bencher| {
                    bencher.iter(|| black_box(runtime.block_on(session.run(&sql)).unwrap()));
                });
            }
        }
        group.finish();
    }
}

criterion_group!(benches, routing);
criterion_main!(benches);
