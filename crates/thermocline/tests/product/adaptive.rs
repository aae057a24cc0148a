//! Adaptive pushdown over a storage node process: whatever is pushed back, the rows are the same, and the node's
//! decisions are visible.

use crate::support::data;
use crate::support::rows::{assert_same, canonical};
use crate::support::topology::NodeProcess;
use arrow::array::{Array, AsArray};
use arrow::datatypes::UInt64Type;
use thermocline_compute::QueryResult;
use thermocline_database::{Database, OpenOptions, Session};
use thermocline_pushdown::Route;
use thermocline_workloads::Workload;
use thermocline_workloads::generate::Format;
use thermocline_workloads::ssb::QUERIES;

async fn session(format: Format, location: &str) -> Session {
    let options = OpenOptions::default().with("partition_size", "256KiB");
    let session = Database::open(options, |_| {}).await.unwrap().session();
    for definition in data::definitions(&Workload::SSB, format, location) {
        session.run(&definition).await.unwrap();
    }
    session
}

/// A count in the only row of `system.storage_nodes`.
async fn count(session: &Session, column: &str) -> u64 {
    let result = session.run(&format!("SELECT {column} FROM system.storage_nodes")).await.unwrap();
    assert_eq!(result.rows(), 1);
    result.batches[0].column(0).as_primitive::<UInt64Type>().value(0)
}

/// The answers of a node that pushes nothing back.
async fn expected(format: Format) -> Vec<QueryResult> {
    let session = session(format, data::ssb(format).to_str().unwrap()).await;
    session.set("mode", "pullup").unwrap();
    let mut results = vec![];
    for (_, sql) in QUERIES {
        results.push(session.run(sql).await.unwrap());
    }
    results
}

#[tokio::test(flavor = "multi_thread")]
async fn forced_pushback_changes_no_row() {
    for format in [Format::Parquet, Format::Csv] {
        let expected = expected(format).await;
        for forced in ["none", "half", "all"] {
            let root = data::ssb(format).to_str().unwrap();
            let node = NodeProcess::start(root, "127.0.0.1:0", &["--pushback", forced], &[]);
            let session = session(format, &format!("thermocline://{}", node.address)).await;
            session.set("mode", "pushdown").unwrap();
            let (mut asked, mut pushed_back) = (0, 0);
            for ((name, sql), expected) in QUERIES.iter().zip(&expected) {
                let result = session.run(sql).await.unwrap();
                assert_same(canonical(&result), canonical(expected), false, &format!("{format:?} {forced} {name}"));
                asked += result.stats.partitions(Route::Pushdown);
                pushed_back += result.stats.partitions_pushed_back;
            }
            let counted = count(&session, "pushed_back").await;
            assert_eq!(count(&session, "admitted + pushed_back").await, asked);
            let share = match forced {
                "none" => 0,
                "half" => asked / 2,
                _ => asked,
            };
            assert_eq!(counted, share, "{format:?} {forced}: {asked} fragments");
            assert!(pushed_back >= counted, "{pushed_back} {counted}");

            // The setting refuses pushback, whatever the node would do.
            session.set("pushback", "off").unwrap();
            let (name, sql) = QUERIES[0];
            let result = session.run(sql).await.unwrap();
            assert_same(canonical(&result), canonical(&expected[0]), false, name);
            assert_eq!(count(&session, "pushed_back").await, counted, "{forced}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_busy_node_pushes_back_and_comes_to_rest() {
    let format = Format::Csv;
    let expected = expected(format).await;
    for order in ["pa-aware", "fifo"] {
        let root = data::ssb(format).to_str().unwrap();
        let busy = [
            "--pushdown-slots=1",
            "--pushback-slots=2",
            "--compute-power=0.5",
            "--egress-limit=200MiB/s",
            "--arbitration",
            order,
        ];
        let node = NodeProcess::start(root, "127.0.0.1:0", &busy, &[]);
        let session = session(format, &format!("thermocline://{}", node.address)).await;
        session.set("mode", "pushdown").unwrap();
        // All queries at once.
        let running: Vec<_> = QUERIES
            .iter()
            .map(|(name, sql)| {
                let session = session.clone();
                (*name, tokio::spawn(async move { session.run(sql).await }))
            })
            .collect();
        let (mut asked, mut pushed_back) = (0, 0);
        for ((name, running), expected) in running.into_iter().zip(&expected) {
            let result = running.await.unwrap().unwrap();
            assert_same(canonical(&result), canonical(expected), false, &format!("{order} {name}"));
            asked += result.stats.partitions(Route::Pushdown);
            pushed_back += result.stats.partitions_pushed_back;
        }
        assert!(pushed_back > 0 && pushed_back < asked, "{order}: {pushed_back} of {asked} were pushed back");
        assert_eq!(count(&session, "pushed_back").await, pushed_back);
        assert_eq!(count(&session, "admitted").await, asked - pushed_back);
        for column in ["queue_length", "pushdown_slots_used", "pushback_slots_used", "memory_used", "abandoned"] {
            while count(&session, column).await > 0 {
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
        }
        assert_eq!(count(&session, "pushdown_slots").await, 1);
        assert_eq!(count(&session, "pushback_slots").await, 2);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_gone_is_a_row_with_an_error() {
    let format = Format::Parquet;
    let node = NodeProcess::over(data::ssb(format));
    let session = session(format, &format!("thermocline://{}", node.address)).await;
    assert_eq!(count(&session, "queue_length").await, 0);
    let address = node.address.clone();
    drop(node);
    let result = session.run("SELECT queue_length, admitted, node, error FROM system.storage_nodes").await.unwrap();
    let batch = &result.batches[0];
    assert_eq!(batch.num_rows(), 1);
    assert!(batch.column(0).is_null(0) && batch.column(1).is_null(0));
    for column in [2, 3] {
        let text = arrow::util::display::array_value_to_string(batch.column(column), 0).unwrap();
        assert!(text.contains(&address), "{text}");
    }
}
