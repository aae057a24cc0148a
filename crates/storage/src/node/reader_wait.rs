//! Answers that nobody reads are given up: a reader who stops without hanging up must not hold a
//! slot and memory for ever.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use datafusion::common::runtime::SpawnedTask;
use futures::StreamExt;
use thermocline_pushdown::wire::ErrorKind;
use tokio::sync::mpsc;

use super::StorageNode;
use super::answer::finished_by;
use super::storage_node::Answer;
use crate::NodeError;

/// `answer`, dropped with everything that it holds if its reader takes nothing for
/// [`NodeConfig::reader_wait_max`](super::NodeConfig::reader_wait_max). A reader who comes back
/// after that finds an error at the end of what was sent. `asked` says in the log whose it was.
pub(super) fn attended(node: &Arc<StorageNode>, mut answer: Answer, asked: String) -> Answer {
    let Some(wait_max) = node.config.reader_wait_max else {
        return answer;
    };
    let node = Arc::clone(node);
    let (sender, receiver) = mpsc::channel(1);
    let task = SpawnedTask::spawn(async move {
        while let Some(message) = answer.next().await {
            match tokio::time::timeout(wait_max, sender.send(message)).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) => break,
                Err(_) => {
                    drop(answer);
                    node.counters().abandoned.fetch_add(1, Ordering::Relaxed);
                    let why = format!("the answer was given up: its reader took nothing for {wait_max:?}");
                    tracing::warn!("{asked}: {why}");
                    return Err(NodeError::new(ErrorKind::DeadlineExceeded, why));
                }
            }
        }
        Ok(())
    });
    finished_by(task, receiver)
}
