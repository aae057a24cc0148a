//! Making, dropping and reporting index objects.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow_flight::FlightData;
use datafusion::common::runtime::SpawnedTask;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use futures::{FutureExt, StreamExt, TryStreamExt};
use prost::Message;
use thermocline_formats::{PartitionReader, ReadOptions};
use thermocline_pushdown::wire::{
    DropIndexRequest, DropIndexResponse, ErrorKind, Format, IndexReport, IndexRequest, IndexState, IndexStatus,
    IndexStatusRequest, IndexStatusResponse, ObjectEntry, decode_schema,
};
use thermocline_pushdown::{FileFormat, NodeError, PartitionRange};

use super::StorageNode;
use super::arbitrator::{Ask, PushdownSlot, shape_of};
use super::checked::check_objects;
use super::describe::Reading;
use super::reader::Reader;
use super::storage_node::{Answer, required};
use crate::blocking::blocking;
use crate::budget::Account;
use crate::index::{Claim, Identity, IndexWriter, Position, Run, Unusable, for_each_key, is_indexable};
use crate::peer::Peer;
use crate::source::RootSource;

/// Memory that sorting keys may take, if the node's limit leaves as much.
const RUN_BYTES: usize = 32 << 20;
/// The least that is worth beginning with.
const RUN_BYTES_MIN: usize = 64 << 10;

impl StorageNode {
    /// Makes the index object of a column, unless there is a current one. It takes a fragment's
    /// slot, and its memory and deadline are a fragment's.
    pub(super) fn create_index(self: &Arc<Self>, request: IndexRequest, reader: &Reader) -> Result<Answer, NodeError> {
        let deadline = self.deadline(request.origin.as_ref(), reader);
        let origin = request.origin.unwrap_or_default();
        let object = required(request.object, "object")?;
        let (format, table_schema) = described(request.format, &request.table_schema)?;
        let column = indexable(&object, &table_schema, &request.column)?;
        let identity = Identity::new(&object.path, &format, &table_schema, column);
        let path = object.path.clone();
        let owner = format!("{} {}", reader.account().peer(), origin.tenant).trim_end().to_owned();
        let ask = Ask {
            caller_busy_permille: origin.busy_permille,
            peer: reader.account().peer().clone(),
            tenant: origin.tenant,
            query: origin.query_id,
            shape: shape_of(format!("index of {}", request.column).as_bytes(), &path),
            bytes_in: object.size,
            bytes_out: None,
            accepts_pushback: false,
            to_follow: 0,
            resumes: false,
        };
        let building = Building {
            node: Arc::clone(self),
            reader: PartitionReader {
                source: Arc::new(
                    RootSource::new(self.root.clone(), object.clone()).charged(self.context.memory_pool()),
                ),
                format,
                table_schema,
                footers: self.footers.clone(),
            },
            object,
            column,
            identity,
            owner,
            partition_bytes: request.partition_bytes,
        };
        let node = Arc::clone(self);
        let task = SpawnedTask::spawn(async move {
            let work = async {
                let slot = node.slot(ask, &deadline).await?;
                let reading = node.reading(&building.object, deadline.reader()).await?;
                building.build(Arc::new(Work { _slot: slot, reading })).await
            };
            deadline.before(work).await?
        });
        let answer = async move {
            let report = task
                .join()
                .await
                .map_err(|error| NodeError::new(ErrorKind::Internal, format!("the task of an index failed: {error}")));
            let report = report.flatten().map_err(|error| error.context(path))?;
            Ok(FlightData { app_metadata: report.encode_to_vec().into(), ..FlightData::default() })
        };
        Ok(answer.into_stream().boxed())
    }

    /// States of the index objects of a column.
    ///
    /// # Errors
    /// [`ErrorKind::Refused`] for a column that is not in the table or cannot be indexed.
    pub async fn index_status(self: &Arc<Self>, request: IndexStatusRequest) -> Result<IndexStatusResponse, NodeError> {
        self.index_status_for(request, &Peer::local(), ()).await
    }

    /// The same for `peer`, keeping `held` for as long as there is work.
    pub(crate) async fn index_status_for(
        self: &Arc<Self>,
        request: IndexStatusRequest,
        peer: &Peer,
        held: impl Send + 'static,
    ) -> Result<IndexStatusResponse, NodeError> {
        check_objects(&request.objects)?;
        let (format, schema) = described(request.format, &request.table_schema)?;
        let turn = self.walk(peer).await;
        let node = Arc::clone(self);
        blocking((turn, held), move |cancelled| {
            let of = |object: ObjectEntry| {
                cancelled.check()?;
                let column = indexable(&object, &schema, &request.column)?;
                let identity = Identity::new(&object.path, &format, &schema, column);
                let (state, report) = match node.indexes.open(&identity, &object) {
                    Ok(Some(index)) => (IndexState::Current, Some(index.report())),
                    Ok(None) => (IndexState::Missing, None),
                    Err(Unusable::Stale(_)) => (IndexState::Stale, None),
                    Err(Unusable::Damaged(_)) => (IndexState::Damaged, None),
                };
                Ok(IndexStatus { state: state as i32, report })
            };
            Ok(IndexStatusResponse { objects: request.objects.into_iter().map(of).collect::<Result<_, NodeError>>()? })
        })
        .await
    }

    /// Removes the index objects of a column.
    ///
    /// # Errors
    /// As [`StorageNode::index_status`], and if one cannot be removed.
    pub async fn drop_index(self: &Arc<Self>, request: DropIndexRequest) -> Result<DropIndexResponse, NodeError> {
        self.drop_index_for(request, &Peer::local(), ()).await
    }

    /// The same for `peer`, keeping `held` for as long as there is work.
    pub(crate) async fn drop_index_for(
        self: &Arc<Self>,
        request: DropIndexRequest,
        peer: &Peer,
        held: impl Send + 'static,
    ) -> Result<DropIndexResponse, NodeError> {
        check_objects(&request.objects)?;
        let (format, schema) = described(request.format, &request.table_schema)?;
        let turn = self.walk(peer).await;
        let node = Arc::clone(self);
        blocking((turn, held), move |cancelled| {
            let mut removed = 0;
            for object in request.objects {
                cancelled.check()?;
                let column = indexable(&object, &schema, &request.column)?;
                let identity = Identity::new(&object.path, &format, &schema, column);
                removed += u64::from(node.indexes.remove(&identity)?);
            }
            Ok(DropIndexResponse { removed })
        })
        .await
    }
}

fn described(format: Option<Format>, schema: &[u8]) -> Result<(FileFormat, SchemaRef), NodeError> {
    Ok((FileFormat::try_from(&required(format, "format")?)?, decode_schema(schema)?))
}

/// The position of `column`, if it is there and its values can be indexed.
fn indexable(object: &ObjectEntry, schema: &SchemaRef, column: &str) -> Result<usize, NodeError> {
    let refused = |why: String| Err(NodeError::new(ErrorKind::Refused, format!("{}: {why}", object.path)));
    match schema.column_with_name(column) {
        None => refused(format!("there is no column '{column}' to index")),
        Some((_, field)) if !is_indexable(field.data_type()) => {
            refused(format!("column '{column}' is {}, which cannot be indexed", field.data_type()))
        }
        Some((position, _)) => Ok(position),
    }
}

/// What making an index object takes. Work on files has it until it ends, also if nobody waits for it.
struct Work {
    _slot: PushdownSlot,
    reading: Account,
}

/// One index object on its way.
struct Building {
    node: Arc<StorageNode>,
    reader: PartitionReader,
    object: ObjectEntry,
    /// Position in the table.
    column: usize,
    identity: Identity,
    owner: String,
    partition_bytes: u64,
}

/// Keys of the section that is being read, and where they go when there is no more room.
struct Sorting {
    node: Arc<StorageNode>,
    writer: IndexWriter,
    claim: Claim,
    run: Run,
    run_bytes: usize,
    _memory: MemoryReservation,
    work: Arc<Work>,
}

impl Building {
    async fn build(mut self, work: Arc<Work>) -> Result<IndexReport, NodeError> {
        let node = Arc::clone(&self.node);
        let indexes = &node.indexes;
        let (place, claim) = {
            let (node, identity, owner) = (Arc::clone(&self.node), self.identity.clone(), self.owner.clone());
            let placed = move || {
                let place = node.indexes.place_for(&identity, &owner)?;
                let claim = node.indexes.claim(&place);
                Ok((place, claim))
            };
            blocking(Arc::clone(&work), move |_| placed()).await?
        };
        let path = place.to.clone();
        let builder = indexes.builder(&path);
        let _only_one = builder.lock().await;
        if let Ok(Some(index)) = indexes.open(&self.identity, &self.object) {
            return Ok(index.report());
        }
        let memory = MemoryConsumer::new("index").register(self.node.context.memory_pool());
        let run_bytes = reserved(&memory)?;
        let (node, identity, object) = (Arc::clone(&self.node), self.identity.clone(), self.object.clone());
        let writer = blocking(Arc::clone(&work), move |_| {
            IndexWriter::create(place, &identity, object).map_err(|error| node.indexes.not_written(&error))
        })
        .await?;
        let mut sorting = Sorting {
            node: Arc::clone(&self.node),
            writer,
            claim,
            run: Run::default(),
            run_bytes,
            _memory: memory,
            work: Arc::clone(&work),
        };
        match &self.reader.format {
            FileFormat::Parquet => sorting = self.parquet(sorting).await?,
            FileFormat::Csv(_) => sorting = self.csv(sorting).await?,
        }
        let Sorting { writer, claim, node, .. } = sorting;
        let report = blocking(work, move |_| writer.finish().map_err(|error| node.indexes.not_written(&error))).await?;
        claim.finish(path.clone(), report.bytes);
        indexes.renewed(&path);
        Ok(report)
    }

    async fn parquet(&mut self, mut sorting: Sorting) -> Result<Sorting, NodeError> {
        let footer = self.reader.footers.get(&self.reader.source, false).await?;
        let options = ReadOptions { columns: vec![self.column], ..ReadOptions::default() };
        for group in 0..footer.metadata().num_row_groups() as u32 {
            let range = PartitionRange::RowGroups { start: group, end: group + 1 };
            sorting.writer.begin_section(range);
            let mut batches = self.reader.stream(range, &options, &self.node.context)?;
            let mut rows = 0;
            while let Some(batch) = batches.try_next().await? {
                let places = (rows..).map(|at| Position { at, length: 0 });
                rows += batch.num_rows() as u64;
                sorting = sorting.add(&batch, places).await?;
            }
            sorting = sorting.end_section(rows).await?;
        }
        Ok(sorting)
    }

    async fn csv(&mut self, mut sorting: Sorting) -> Result<Sorting, NodeError> {
        let format = Arc::new(self.reader.format.clone());
        let account = &sorting.work.reading;
        let described =
            self.node.described(self.object.clone(), &format, self.partition_bytes, account, Reading::Held).await?;
        let mut first_row = 0;
        for split in &described.splits {
            sorting.writer.begin_section(PartitionRange::Bytes { start: split.start, end: split.end, first_row });
            let mut batches =
                self.reader.located(split.start..split.end, first_row, self.column, &self.node.context)?;
            while let Some((batch, spans)) = batches.try_next().await? {
                sorting = sorting.add(&batch, spans.into_iter().map(position_of)).await?;
            }
            first_row += split.rows;
            sorting = sorting.end_section(split.rows).await?;
        }
        Ok(sorting)
    }
}

fn position_of(span: Range<u64>) -> Position {
    // The decoder accepts no record that is nearly as long as this.
    Position { at: span.start, length: u32::try_from(span.end - span.start).unwrap_or(u32::MAX) }
}

/// As much of [`RUN_BYTES`] as there is.
fn reserved(memory: &MemoryReservation) -> Result<usize, NodeError> {
    let mut bytes = RUN_BYTES;
    loop {
        match memory.try_grow(bytes) {
            Ok(()) => return Ok(bytes),
            Err(_) if bytes > RUN_BYTES_MIN => bytes /= 2,
            Err(error) => return Err(error.into()),
        }
    }
}

impl Sorting {
    /// Adds the keys of a batch of one column; `places` says where its rows are.
    async fn add(mut self, batch: &RecordBatch, places: impl Iterator<Item = Position>) -> Result<Self, NodeError> {
        let array = Arc::clone(batch.column(0));
        let places: Vec<Position> = places.take(array.len()).collect();
        let mut done = 0;
        while done < array.len() {
            let rest = array.slice(done, array.len() - done);
            let mut full = None;
            for_each_key(rest.as_ref(), |row, key| {
                let place = places.get(done + row).copied();
                if full.is_none() && place.is_none_or(|place| !self.run.push(key, place, self.run_bytes)) {
                    full = Some(row);
                }
            });
            match full {
                None => return Ok(self),
                Some(row) => done += row,
            }
            self = self.flushed().await?;
        }
        Ok(self)
    }

    async fn end_section(mut self, rows: u64) -> Result<Self, NodeError> {
        self = self.flushed().await?;
        self.writer.end_section(rows).map_err(|error| self.node.indexes.not_written(&error))?;
        Ok(self)
    }

    /// Sorts and writes the run.
    async fn flushed(self) -> Result<Self, NodeError> {
        if self.run.is_empty() {
            return Ok(self);
        }
        blocking(Arc::clone(&self.work), move |_| {
            let mut sorting = self;
            let written = sorting.writer.add_run(&mut sorting.run);
            written.map_err(|error| sorting.node.indexes.not_written(&error))?;
            sorting.claim.grow_to(sorting.writer.bytes())?;
            Ok(sorting)
        })
        .await
    }
}
