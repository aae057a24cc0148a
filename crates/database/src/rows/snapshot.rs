//! The rows that a query reads, of all its row tables as of one moment.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use arrow::datatypes::SchemaRef;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool};
use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use parking_lot::Mutex;
use thermocline_transactions::database::{RowSession, TableReader};
use thermocline_transactions::ids::PartitionId;
use thermocline_transactions::reader::{ReadRequest, RowSink};
use thermocline_transactions::schema::{TableDefinition, TableId};
use thermocline_transactions::{Error, Result as RowResult};

use super::async_row_session::AsyncRowSession;
use super::outbox::{BatchSink, Outbox};

/// Request of a scan for rows of a table.
#[derive(Debug, Clone)]
pub struct Request {
    /// Table.
    pub table: Arc<TableDefinition>,
    /// Positions of the columns.
    pub columns: Vec<usize>,
    /// Schema of these columns.
    pub schema: SchemaRef,
    /// One outbox for each partition.
    pub outboxes: Vec<Arc<Outbox>>,
}

impl Request {
    /// A request for columns of a table in `partitions` partitions.
    pub fn new(
        table: Arc<TableDefinition>,
        columns: Vec<usize>,
        schema: SchemaRef,
        partitions: usize,
        memory: &Arc<dyn MemoryPool>,
    ) -> Self {
        let outbox = |partition| {
            let consumer = MemoryConsumer::new(format!("rows of {}[{partition}]", table.name));
            Arc::new(Outbox::new(consumer.register(memory)))
        };
        let outboxes = (0..partitions).map(outbox).collect();
        Self { table, columns, schema, outboxes }
    }

    fn sink(&self, partition: PartitionId) -> RowResult<BatchSink> {
        let columns = self.columns.iter().filter_map(|position| {
            let column = self.table.columns.get(*position)?;
            Some((*position, column.data_type))
        });
        let outbox = self.outboxes.get(usize::from(partition.0));
        let outbox = outbox.ok_or_else(|| Error::internal("rows of a partition that nobody reads"))?;
        BatchSink::new(&self.table.name, Arc::clone(&self.schema), columns, Arc::clone(outbox))
    }

    fn read(self) -> ReadRequest {
        let table = Arc::clone(&self.table);
        let sink = move |partition| match self.sink(partition) {
            Ok(sink) => Box::new(sink) as Box<dyn RowSink>,
            Err(error) => Box::new(Failed(error)),
        };
        ReadRequest { table, sink: Box::new(sink) }
    }
}

/// A sink that could not be created; it returns the error for the first row.
struct Failed(Error);

impl RowSink for Failed {
    fn row(&mut self, _: thermocline_transactions::table::Row<'_>) -> RowResult<()> {
        Err(self.0.clone())
    }

    fn finish(&mut self) -> RowResult<()> {
        Err(self.0.clone())
    }
}

/// Consistent snapshot of the row tables that a query reads.
///
/// ```text
///              register: a request for each scan
///  planning -----------------------------------+
///     |                                        |
///     +-- first batch wanted: begin --> begun: a reader for each request and partition
/// ```
pub struct RowSnapshot {
    session: AsyncRowSession,
    /// `None` once it has begun.
    requests: Mutex<Option<Vec<Request>>>,
    /// The start of the snapshot, shared by all scans: it continues if one of them is dropped, such as a part of the
    /// query that needs no more rows. Unset before it has begun.
    beginning: OnceLock<Shared<BoxFuture<'static, Begun>>>,
}

/// Readers by request and partition; each scan takes its own. Inside a transaction there are none: the rows are in the
/// outboxes already.
type Begun = std::result::Result<Arc<Mutex<Vec<Vec<Option<TableReader>>>>>, Arc<DataFusionError>>;

impl fmt::Debug for RowSnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RowSnapshot").field("requests", &self.requests.lock()).finish_non_exhaustive()
    }
}

impl RowSnapshot {
    /// Takes the reader of a partition of a request; the first call begins the snapshot. `None` if all rows are in the
    /// outbox already.
    ///
    /// # Errors
    /// If a table has changed since the query was planned.
    pub async fn reader(&self, request: usize, partition: usize) -> Result<Option<TableReader>> {
        match self.beginning.get_or_init(|| self.begin()).clone().await {
            Ok(readers) => {
                let mut readers = readers.lock();
                Ok(readers.get_mut(request).and_then(|partitions| partitions.get_mut(partition)).and_then(Option::take))
            }
            Err(error) => Err(DataFusionError::Shared(error)),
        }
    }

    fn begin(&self) -> Shared<BoxFuture<'static, Begun>> {
        let requests = self.requests.lock().take().unwrap_or_default();
        let session = self.session.clone();
        let begun = async move {
            let read =
                |session: &mut RowSession| session.read_tables(requests.into_iter().map(Request::read).collect());
            let readers = session.part(read).await.map_err(Arc::new)?;
            Ok(Arc::new(Mutex::new(
                readers.into_iter().map(|readers| readers.into_iter().map(Some).collect()).collect(),
            )))
        };
        begun.boxed().shared()
    }
}

/// A registered scan of a snapshot.
#[derive(Debug, Clone)]
pub struct Registered {
    /// The snapshot, which the scans keep alive.
    pub snapshot: Arc<RowSnapshot>,
    /// Index of the request.
    pub place: usize,
    /// The request.
    pub request: Request,
}

/// Snapshot with which the scans of a query register during planning.
#[derive(Debug, Default)]
pub struct QuerySnapshot {
    /// The current snapshot; dropped with the plan.
    current: Mutex<Weak<RowSnapshot>>,
    /// Approximate size of each table, for the planner.
    sizes: tokio::sync::OnceCell<HashMap<TableId, TableSize>>,
    /// Bytes of a row of the scan with the longest rows, about.
    row_bytes: AtomicUsize,
}

/// Approximate size of a table.
#[derive(Debug, Clone, Copy, Default)]
pub struct TableSize {
    /// Number of rows.
    pub rows: usize,
    /// Mean bytes of a row.
    pub row_bytes: usize,
}

/// Bytes of a batch between the operators of a query, about.
const BATCH_BYTES: usize = 1 << 20;

impl QuerySnapshot {
    /// Registers a scan with the query's snapshot; with a new one if that has begun or was dropped.
    pub fn register(&self, session: &AsyncRowSession, request: Request) -> Registered {
        let mut current = self.current.lock();
        if let Some(snapshot) = current.upgrade()
            && let Some(requests) = &mut *snapshot.requests.lock()
        {
            requests.push(request.clone());
            let place = requests.len() - 1;
            return Registered { snapshot: Arc::clone(&snapshot), place, request };
        }
        let snapshot = Arc::new(RowSnapshot {
            session: session.clone(),
            requests: Mutex::new(Some(vec![request.clone()])),
            beginning: OnceLock::new(),
        });
        *current = Arc::downgrade(&snapshot);
        Registered { snapshot, place: 0, request }
    }

    /// Approximate size of a table.
    ///
    /// # Errors
    /// If the row engine has stopped.
    pub async fn size_of(&self, session: &AsyncRowSession, table: &TableDefinition) -> Result<TableSize> {
        let sizes = self.sizes.get_or_try_init(|| async {
            let statistics = session.part(RowSession::statistics).await?;
            let mut sizes = HashMap::new();
            for partition in &statistics.partitions {
                let evicted = partition.blocks.map_or(0, |blocks| blocks.block_bytes / blocks.rows.max(1));
                for table in &partition.tables {
                    let size: &mut TableSize = sizes.entry(table.table.id).or_default();
                    // Every partition has all rows of a replicated table.
                    let counts = table.table.partition_by.is_some() || partition.partition == PartitionId(0);
                    size.rows += if counts { table.rows } else { 0 };
                    // Blocks do not tell for each table.
                    let evicted =
                        if table.evicted_rows > 0 { usize::try_from(evicted).unwrap_or(usize::MAX) } else { 0 };
                    let live = table.live_row_bytes / table.live_rows.max(1);
                    size.row_bytes = size.row_bytes.max(live).max(evicted);
                }
            }
            Ok::<_, DataFusionError>(sizes)
        });
        Ok(sizes.await?.get(&table.id).copied().unwrap_or_default())
    }

    /// Notes that the query scans rows of this many bytes, about.
    pub fn scans_rows_of(&self, bytes: usize) {
        self.row_bytes.fetch_max(bytes, Ordering::Relaxed);
    }

    /// The most rows of a batch between the operators of the query, so that it has about a mebibyte; `None` if it scans
    /// no rows.
    pub fn batch_rows(&self) -> Option<usize> {
        match self.row_bytes.load(Ordering::Relaxed) {
            0 => None,
            bytes => Some((BATCH_BYTES / bytes).max(1)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::settings::RowSettings;
    use super::super::store::RowStore;
    use super::*;
    use arrow::datatypes::{DataType, Field, Schema};
    use datafusion::execution::memory_pool::UnboundedMemoryPool;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn it_begins_also_if_the_first_who_waits_for_it_gives_up() {
        let session = AsyncRowSession::new(Arc::new(RowStore::new(None, RowSettings::default())));
        let mut holder = session.store().engine().unwrap().session();
        for sql in ["CREATE TABLE t (k BIGINT PRIMARY KEY)", "INSERT INTO t VALUES (1)", "BEGIN", "DELETE FROM t"] {
            holder.execute(sql, &[]).unwrap();
        }
        let table = Arc::clone(session.schema().table("t").unwrap());
        let columns = Arc::new(Schema::new(vec![Field::new("k", DataType::Int64, false)]));
        let memory: Arc<dyn MemoryPool> = Arc::new(UnboundedMemoryPool::default());
        let request = Request::new(table, vec![0], columns, 1, &memory);
        let snapshot = QuerySnapshot::default().register(&session, request).snapshot;
        assert!(tokio::time::timeout(Duration::from_millis(100), snapshot.reader(0, 0)).await.is_err());
        holder.execute("ROLLBACK", &[]).unwrap();
        assert!(snapshot.reader(0, 0).await.unwrap().is_some(), "its rows are not read");
        assert!(snapshot.reader(0, 0).await.unwrap().is_none(), "once");
    }
}
