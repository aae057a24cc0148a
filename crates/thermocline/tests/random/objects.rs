//! Objects: the rows of one file, and their encoding.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use parquet::arrow::arrow_writer::{ArrowRowGroupWriterFactory, ArrowWriter, ArrowWriterOptions, compute_leaves};
use parquet::arrow::{ArrowSchemaConverter, add_encoded_arrow_schema_to_metadata};
use parquet::basic::{Compression, Repetition, Type as PhysicalType};
use parquet::data_type::{Int96, Int96Type};
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;
use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::{IndexedRandom, SliceRandom};

use super::arrays::array;
use super::csv::CsvStyle;
use super::schema::{Column, Traits};
use super::stored::Stored;
use super::values::{Domain, NANOS_PER_DAY, Value};

/// One file of a table.
#[derive(Debug, Clone)]
pub struct Object {
    /// Name without extension.
    pub name: String,
    /// Its storage node, 0 or 1, if there are two.
    pub node: usize,
    /// Per column of the table, its stored type; `None` if the file lacks the column, which is then NULL.
    pub stored: Vec<Option<Stored>>,
    /// Positions of the table's columns in the order of the file.
    pub order: Vec<usize>,
    /// Whether the file has an additional column that no table has.
    pub extra: bool,
    /// Rows, with a value for each of the table's columns.
    pub rows: Vec<Vec<Value>>,
    pub parquet: ParquetStyle,
    pub csv: CsvStyle,
}

/// Style of a Parquet file.
#[derive(Debug, Clone)]
pub struct ParquetStyle {
    pub compression: Compression,
    pub version_2: bool,
    pub statistics: EnabledStatistics,
    /// Bytes of a text that statistics keep.
    pub truncate: Option<usize>,
    pub row_group_rows: usize,
    pub page_rows: usize,
    pub dictionary: bool,
    pub bloom_filter: bool,
    /// Whether the Arrow schema is kept in the footer.
    pub arrow_schema: bool,
    /// Whether a row group without rows is among the others.
    pub empty_row_group: bool,
}

impl Default for ParquetStyle {
    fn default() -> Self {
        Self {
            compression: Compression::UNCOMPRESSED,
            version_2: false,
            statistics: EnabledStatistics::Page,
            truncate: None,
            row_group_rows: 1 << 20,
            page_rows: 1 << 20,
            dictionary: false,
            bloom_filter: false,
            arrow_schema: true,
            empty_row_group: false,
        }
    }
}

impl ParquetStyle {
    fn draw(rng: &mut StdRng, rows: usize) -> Self {
        // Enough row groups and pages, but not thousands.
        let least = if rows > 500 { rows / 12 } else { 1 };
        let compressions = [
            Compression::UNCOMPRESSED,
            Compression::SNAPPY,
            Compression::LZ4_RAW,
            Compression::ZSTD(Default::default()),
            Compression::GZIP(Default::default()),
            Compression::BROTLI(Default::default()),
        ];
        let statistics =
            [EnabledStatistics::Page, EnabledStatistics::Page, EnabledStatistics::Chunk, EnabledStatistics::None];
        Self {
            compression: *compressions.choose(rng).unwrap(),
            version_2: rng.random_bool(0.4),
            statistics: *statistics.choose(rng).unwrap(),
            truncate: *[None, Some(64), Some(3)].choose(rng).unwrap(),
            row_group_rows: (*[7, 40, 200, 1 << 20].choose(rng).unwrap()).max(least),
            page_rows: (*[5, 20, 1000].choose(rng).unwrap()).max(least / 8),
            dictionary: rng.random_bool(0.6),
            bloom_filter: rng.random_bool(0.2),
            arrow_schema: rng.random_bool(0.6),
            empty_row_group: rng.random_bool(0.1),
        }
    }

    fn properties(&self) -> WriterProperties {
        WriterProperties::builder()
            .set_compression(self.compression)
            .set_writer_version(if self.version_2 { WriterVersion::PARQUET_2_0 } else { WriterVersion::PARQUET_1_0 })
            .set_statistics_enabled(self.statistics)
            .set_statistics_truncate_length(self.truncate)
            .set_column_index_truncate_length(self.truncate)
            .set_max_row_group_row_count(Some(self.row_group_rows))
            .set_data_page_row_count_limit(self.page_rows)
            .set_write_batch_size(self.page_rows.min(64))
            .set_dictionary_enabled(self.dictionary)
            .set_bloom_filter_enabled(self.bloom_filter)
            .build()
    }
}

impl Object {
    /// An object of `rows` rows for a table with these columns, the first of which numbers the rows
    /// from `first_id` on.
    pub fn draw(
        rng: &mut StdRng,
        name: String,
        columns: &[Column],
        traits: &Traits,
        first_id: i64,
        rows: usize,
    ) -> Self {
        let base = *[0, 20, 40, 60, 100].choose(rng).unwrap() + first_id / 40;
        let mut stored = Vec::with_capacity(columns.len());
        let mut domains = Vec::with_capacity(columns.len());
        for (position, column) in columns.iter().enumerate() {
            let missing = position > 0 && traits.missing_columns && rng.random_bool(0.2);
            let without_nulls = position == 0 || traits.null_words || rng.random_bool(0.3);
            stored.push((!missing).then(|| {
                let mut stored = Stored::draw(rng, column, traits);
                if position == 0 {
                    stored.hold_row_numbers();
                }
                stored
            }));
            domains.push(Domain {
                base,
                nulls: if without_nulls { 0.0 } else { 0.15 },
                extremes: traits.extremes,
                special_floats: traits.special_floats,
                long_text: traits.long_text,
                null_words: traits.null_words,
            });
        }
        let mut all = Vec::with_capacity(rows);
        for row in 0..rows {
            let mut cells = vec![Value::Int(i128::from(first_id) + row as i128)];
            for ((column, stored), domain) in columns.iter().zip(&stored).zip(&domains).skip(1) {
                let value = stored.as_ref().map(|stored| {
                    // Types are inferred from the first row of the first object.
                    let known = Domain { nulls: 0.0, ..domain.clone() };
                    let domain = if traits.inferred_csv && row == 0 { &known } else { domain };
                    domain.draw(rng, &column.kind, &stored.data_type)
                });
                cells.push(value.unwrap_or(Value::Null));
            }
            all.push(cells);
        }
        // Sorted by another column than the number, so that statistics prune.
        if rng.random_bool(0.5) && columns.len() > 1 {
            let by = rng.random_range(1..columns.len());
            all.sort_by_key(|row| match &row[by] {
                Value::Int(value) => *value,
                _ => 0,
            });
        }
        let mut order: Vec<usize> = (0..columns.len()).collect();
        if traits.reordered {
            order.shuffle(rng);
        }
        for (position, stored) in stored.iter_mut().enumerate() {
            if let Some(stored) = stored {
                let holds_null = all.iter().any(|row| matches!(row[position], Value::Null));
                stored.nullable = holds_null || rng.random_bool(0.5);
            }
        }
        let mut parquet = ParquetStyle::draw(rng, rows);
        // Parquet itself has neither seconds nor dates of 64 bits.
        parquet.arrow_schema |= stored.iter().flatten().any(|stored| {
            matches!(
                stored.data_type,
                DataType::Timestamp(TimeUnit::Second, _)
                    | DataType::Time32(TimeUnit::Second)
                    | DataType::Date64
                    | DataType::Null
            )
        });
        Self {
            name,
            node: rng.random_range(0..2),
            stored,
            order,
            extra: traits.reordered && rng.random_bool(0.3),
            rows: all,
            parquet,
            csv: CsvStyle::draw(rng, traits),
        }
    }

    /// Removes the column at a position of the table, for shrinking.
    pub fn remove_column(&mut self, position: usize) {
        self.stored.remove(position);
        self.order.retain(|column| *column != position);
        for column in &mut self.order {
            *column -= usize::from(*column > position);
        }
        for row in &mut self.rows {
            row.remove(position);
        }
    }

    /// The file's columns, in its order.
    fn columns<'a>(&'a self, columns: &'a [Column]) -> impl Iterator<Item = (usize, &'a Column, &'a Stored)> {
        self.order
            .iter()
            .filter_map(|position| Some((*position, columns.get(*position)?, self.stored.get(*position)?.as_ref()?)))
    }

    /// The bytes of a Parquet file.
    pub fn parquet_bytes(&self, columns: &[Column]) -> Vec<u8> {
        let mut fields = vec![];
        let mut arrays: Vec<ArrayRef> = vec![];
        let mut int96 = vec![];
        for (position, column, stored) in self.columns(columns) {
            let nullable = stored.nullable || matches!(stored.data_type, DataType::Null);
            fields.push(Field::new(&column.name, stored.data_type.clone(), nullable));
            let values: Vec<&Value> = self.rows.iter().map(|row| &row[position]).collect();
            arrays.push(array(&column.kind, &stored.data_type, &values));
            int96.push(stored.int96);
        }
        if self.extra {
            fields.push(Field::new("extra", DataType::Int32, false));
            arrays.push(Arc::new((0..self.rows.len() as i32).map(Some).collect::<Int32Array>()));
            int96.push(false);
        }
        let schema = Arc::new(Schema::new(fields));
        let batch = RecordBatch::try_new(Arc::clone(&schema), arrays).unwrap();
        if self.parquet.empty_row_group || int96.contains(&true) {
            return self.by_row_groups(&schema, &batch, &int96);
        }
        let options = ArrowWriterOptions::new()
            .with_properties(self.parquet.properties())
            .with_skip_arrow_metadata(!self.parquet.arrow_schema);
        let mut writer = ArrowWriter::try_new_with_options(vec![], schema, options).unwrap();
        writer.write(&batch).unwrap();
        writer.into_inner().unwrap()
    }

    /// Writes like [`ArrowWriter`], which has neither INT96 nor row groups without rows.
    fn by_row_groups(&self, schema: &SchemaRef, batch: &RecordBatch, int96: &[bool]) -> Vec<u8> {
        let descriptor = ArrowSchemaConverter::new().convert(schema).unwrap();
        let columns = descriptor.root_schema().get_fields().iter().zip(int96).map(|(field, int96)| {
            if !int96 {
                return Arc::clone(field);
            }
            let repetition = if field.is_optional() { Repetition::OPTIONAL } else { Repetition::REQUIRED };
            let leaf = Type::primitive_type_builder(field.name(), PhysicalType::INT96).with_repetition(repetition);
            Arc::new(leaf.build().unwrap())
        });
        let root = Type::group_type_builder("schema").with_fields(columns.collect()).build().unwrap();
        let mut properties = self.parquet.properties();
        if self.parquet.arrow_schema {
            add_encoded_arrow_schema_to_metadata(schema, &mut properties);
        }
        let mut writer = SerializedFileWriter::new(vec![], Arc::new(root), Arc::new(properties)).unwrap();
        let factory = ArrowRowGroupWriterFactory::new(&writer, Arc::clone(schema));
        let mut groups: Vec<RecordBatch> = (0..batch.num_rows())
            .step_by(self.parquet.row_group_rows)
            .map(|start| batch.slice(start, self.parquet.row_group_rows.min(batch.num_rows() - start)))
            .collect();
        if self.parquet.empty_row_group {
            groups.insert(groups.len() / 2, batch.slice(0, 0));
        }
        for (number, group) in groups.iter().enumerate() {
            let mut columns = factory.create_column_writers(number).unwrap().into_iter();
            let mut row_group = writer.next_row_group().unwrap();
            for ((field, array), int96) in schema.fields().iter().zip(group.columns()).zip(int96) {
                if *int96 {
                    // The factory's writer for this column is unused.
                    columns.next();
                    let mut column = row_group.next_column().unwrap().unwrap();
                    let (values, levels) = impala(array);
                    let levels = field.is_nullable().then_some(levels.as_slice());
                    column.typed::<Int96Type>().write_batch(&values, levels, None).unwrap();
                    column.close().unwrap();
                    continue;
                }
                for leaf in compute_leaves(field, array).unwrap() {
                    let mut column = columns.next().unwrap();
                    column.write(&leaf).unwrap();
                    column.close().unwrap().append_to_row_group(&mut row_group).unwrap();
                }
            }
            row_group.close().unwrap();
        }
        writer.into_inner().unwrap()
    }
}

/// Timestamps as Impala's Julian days and nanoseconds of the day, and definition levels.
fn impala(array: &ArrayRef) -> (Vec<Int96>, Vec<i16>) {
    use arrow::array::{Array, AsArray};
    use arrow::datatypes::TimestampNanosecondType;
    let array = array.as_primitive::<TimestampNanosecondType>();
    let values = array.iter().flatten().map(|nanos| {
        let (day, rest) =
            (i128::from(nanos).div_euclid(NANOS_PER_DAY), i128::from(nanos).rem_euclid(NANOS_PER_DAY) as u64);
        let mut value = Int96::new();
        value.set_data(rest as u32, (rest >> 32) as u32, (day + 2_440_588) as u32);
        value
    });
    (values.collect(), (0..array.len()).map(|row| i16::from(array.is_valid(row))).collect())
}
