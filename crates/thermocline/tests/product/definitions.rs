//! Definitions that many sessions change at once: none waits for ever, and the catalog is consistent.

use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use thermocline_database::{Database, OpenOptions, Session};

/// Statements of each session that must succeed before it ends.
const SUCCESSES: usize = 300;

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

async fn open(directory: &Path) -> Session {
    let directory = Some(directory.join("db"));
    Database::open(OpenOptions { directory, ..OpenOptions::default() }, |_| {}).await.unwrap().session()
}

#[test]
fn statements_that_define_never_wait_for_each_other_in_a_circle() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("t.csv"), "a,b\n1,2\n").unwrap();
    let location = folder.path().join("t.csv").display().to_string();
    let session = runtime().block_on(open(folder.path()));
    // Statements that each session repeats; a name may belong to another session or be gone, which is an error.
    let table = |name: &str| format!("CREATE OR REPLACE EXTERNAL TABLE {name} STORED AS CSV LOCATION '{location}'");
    let work: [Vec<String>; 5] = [
        vec![table("t"), table("u"), "DROP TABLE u".into()],
        vec!["CREATE OR REPLACE VIEW v AS SELECT a FROM t".into(), "DROP VIEW v".into()],
        vec!["CREATE OR REPLACE VIEW w AS SELECT 1".into(), "SELECT * FROM w".into(), "DROP VIEW w".into()],
        vec!["CREATE INDEX i ON t (a)".into(), "DROP INDEX i".into(), table("t")],
        vec!["DROP TABLE t".into(), table("t"), "SELECT count(*) FROM system.indexes".into(), "SHOW TABLES".into()],
    ];
    let (sender, done) = mpsc::channel();
    let workers = work.len();
    for statements in work {
        let (session, sender) = (session.clone(), sender.clone());
        std::thread::spawn(move || {
            runtime().block_on(async {
                let mut succeeded = 0;
                while succeeded < SUCCESSES {
                    for statement in &statements {
                        succeeded += usize::from(session.run(statement).await.is_ok());
                    }
                }
            });
            // The database is closed once its last session is.
            drop(session);
            sender.send(()).unwrap();
        });
    }
    for _ in 0..workers {
        // Deadlocked threads cannot be joined.
        done.recv_timeout(Duration::from_secs(600)).expect("a statement waits for ever");
    }
    let names = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public' ORDER BY 1";
    let here = runtime().block_on(session.run(names)).unwrap().batches;
    drop(session);
    let restored = runtime().block_on(async { open(folder.path()).await.run(names).await }).unwrap().batches;
    assert_eq!(here, restored, "the catalog file says what was there");
}
