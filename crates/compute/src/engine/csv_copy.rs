//! `COPY ... TO` CSV that distinguishes a text of no characters from NULL.

use std::collections::HashMap;
use std::fmt::{self, Write};
use std::sync::Arc;

use arrow::array::{Array, RecordBatch};
use arrow::csv::{QuoteStyle, WriterBuilder};
use arrow::datatypes::SchemaRef;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use async_trait::async_trait;
use bytes::Bytes;
use datafusion::catalog::Session;
use datafusion::common::file_options::csv_writer::CsvWriterOptions;
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::{DataFusionError, GetExt, Result, Statistics};
use datafusion::datasource::file_format::csv::{CsvFormatFactory, CsvSerializer, CsvSink};
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use datafusion::datasource::file_format::write::BatchSerializer;
use datafusion::datasource::file_format::write::demux::DemuxedStreamReceiver;
use datafusion::datasource::file_format::write::orchestration::spawn_writer_tasks_and_join;
use datafusion::datasource::file_format::{FileFormat, FileFormatFactory};
use datafusion::datasource::physical_plan::{FileScanConfig, FileSink, FileSinkConfig, FileSource};
use datafusion::datasource::sink::{DataSink, DataSinkExec};
use datafusion::datasource::table_schema::TableSchema;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::object_store::{ObjectMeta, ObjectStore};
use datafusion::physical_expr::LexRequirement;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan};
use thermocline_pushdown::{user_err, with_sql_texts};

/// DataFusion's CSV, except that what is written has quotes around texts that would be read as NULL.
#[derive(Debug, Default)]
pub(super) struct CsvCopyFactory(CsvFormatFactory);

impl GetExt for CsvCopyFactory {
    fn get_ext(&self) -> String {
        self.0.get_ext()
    }
}

impl FileFormatFactory for CsvCopyFactory {
    fn create(&self, state: &dyn Session, options: &HashMap<String, String>) -> Result<Arc<dyn FileFormat>> {
        Ok(Arc::new(CsvCopy(self.0.create(state, options)?)))
    }

    fn default(&self) -> Arc<dyn FileFormat> {
        Arc::new(CsvCopy(FileFormatFactory::default(&self.0)))
    }
}

/// The format of one COPY.
#[derive(Debug)]
struct CsvCopy(Arc<dyn FileFormat>);

#[async_trait]
impl FileFormat for CsvCopy {
    fn get_ext(&self) -> String {
        self.0.get_ext()
    }

    fn get_ext_with_compression(&self, compression: &FileCompressionType) -> Result<String> {
        self.0.get_ext_with_compression(compression)
    }

    fn compression_type(&self) -> Option<FileCompressionType> {
        self.0.compression_type()
    }

    async fn infer_schema(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        objects: &[ObjectMeta],
    ) -> Result<SchemaRef> {
        self.0.infer_schema(state, store, objects).await
    }

    async fn infer_stats(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        table_schema: SchemaRef,
        object: &ObjectMeta,
    ) -> Result<Statistics> {
        self.0.infer_stats(state, store, table_schema, object).await
    }

    async fn create_physical_plan(
        &self,
        state: &dyn Session,
        config: FileScanConfig,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.0.create_physical_plan(state, config).await
    }

    async fn create_writer_physical_plan(
        &self,
        input: Arc<dyn ExecutionPlan>,
        state: &dyn Session,
        config: FileSinkConfig,
        order: Option<LexRequirement>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let plan = self.0.create_writer_physical_plan(Arc::clone(&input), state, config, order.clone()).await?;
        let sink = plan.downcast_ref::<DataSinkExec>().and_then(|exec| exec.sink().downcast_ref::<CsvSink>());
        match sink {
            // Another style says itself what has quotes.
            Some(sink) if matches!(sink.writer_options().writer_options.quote_style(), QuoteStyle::Necessary) => {
                let sink = QuotingSink { config: sink.config().clone(), options: sink.writer_options().clone() };
                Ok(Arc::new(DataSinkExec::new(input, Arc::new(sink), order)))
            }
            _ => Ok(plan),
        }
    }

    fn file_source(&self, table_schema: TableSchema) -> Arc<dyn FileSource> {
        self.0.file_source(table_schema)
    }
}

/// Writes the files of one COPY.
struct QuotingSink {
    config: FileSinkConfig,
    options: CsvWriterOptions,
}

impl fmt::Debug for QuotingSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QuotingSink").finish_non_exhaustive()
    }
}

impl DisplayAs for QuotingSink {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CsvSink(file={})", self.config.original_url)
    }
}

#[async_trait]
impl DataSink for QuotingSink {
    fn schema(&self) -> &SchemaRef {
        self.config.output_schema()
    }

    async fn write_all(&self, data: SendableRecordBatchStream, context: &Arc<TaskContext>) -> Result<u64> {
        FileSink::write_all(self, data, context).await
    }
}

#[async_trait]
impl FileSink for QuotingSink {
    fn config(&self) -> &FileSinkConfig {
        &self.config
    }

    async fn spawn_writer_tasks_and_join(
        &self,
        context: &Arc<TaskContext>,
        demux: SpawnedTask<Result<()>>,
        files: DemuxedStreamReceiver,
        store: Arc<dyn ObjectStore>,
    ) -> Result<u64> {
        let serializer = Arc::new(Quoting { options: self.options.writer_options.clone() });
        let (compression, level) = (self.options.compression.into(), self.options.compression_level);
        spawn_writer_tasks_and_join(context, serializer, compression, level, store, demux, files).await
    }
}

/// Rows as lines.
struct Quoting {
    options: WriterBuilder,
}

impl BatchSerializer for Quoting {
    fn serialize(&self, batch: RecordBatch, initial: bool) -> Result<Bytes> {
        let options = &self.options;
        if let Some(nested) = batch.columns().iter().find(|column| column.data_type().is_nested()) {
            return user_err!(Unsupported, "CSV has no values of type {}", nested.data_type());
        }
        let mut lines = Vec::new();
        if initial && options.header() {
            let header = CsvSerializer::new().with_builder(options.clone()).serialize(batch.slice(0, 0), true)?;
            lines.extend_from_slice(&header);
        }
        let format = FormatOptions::default()
            .with_date_format(options.date_format())
            .with_datetime_format(options.datetime_format())
            .with_timestamp_format(options.timestamp_format())
            .with_timestamp_tz_format(options.timestamp_tz_format())
            .with_time_format(options.time_format());
        let arrays = batch.columns().iter().map(with_sql_texts).collect::<Result<Vec<_>>>()?;
        let columns = arrays
            .iter()
            .map(|column| Ok((column.logical_nulls(), ArrayFormatter::try_new(column.as_ref(), &format)?)))
            .collect::<Result<Vec<_>>>()?;
        let mut text = String::new();
        for row in 0..batch.num_rows() {
            for (position, (nulls, values)) in columns.iter().enumerate() {
                if position > 0 {
                    lines.push(options.delimiter());
                }
                if nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
                    lines.extend_from_slice(options.null().as_bytes());
                    continue;
                }
                text.clear();
                let written = write!(text, "{}", values.value(row));
                written.map_err(|_| DataFusionError::Execution(format!("a value of row {row} has no text")))?;
                self.push(&mut lines, self.trimmed(&text));
            }
            lines.push(b'\n');
        }
        Ok(Bytes::from(lines))
    }
}

impl Quoting {
    fn trimmed<'a>(&self, text: &'a str) -> &'a str {
        let text = if self.options.ignore_leading_whitespace() { text.trim_start() } else { text };
        if self.options.ignore_trailing_whitespace() { text.trim_end() } else { text }
    }

    /// Adds a field, in quotes if it would be read as something else without them.
    fn push(&self, lines: &mut Vec<u8>, text: &str) {
        let (quote, delimiter) = (self.options.quote(), self.options.delimiter());
        let splits = |byte: u8| byte == quote || byte == delimiter || byte == b'\n' || byte == b'\r';
        if text != self.options.null() && !text.bytes().any(splits) {
            lines.extend_from_slice(text.as_bytes());
            return;
        }
        lines.push(quote);
        for byte in text.bytes() {
            let doubled = self.options.double_quote();
            match byte {
                byte if byte == quote && doubled => lines.push(quote),
                byte if !doubled && (byte == quote || byte == self.options.escape()) => {
                    lines.push(self.options.escape());
                }
                _ => {}
            }
            lines.push(byte);
        }
        lines.push(quote);
    }
}
