//! Tables: their columns, definitions, and the content of their objects.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use parquet::arrow::ArrowWriter;
use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::{IndexedRandom, SliceRandom};

use super::arrays::array;
use super::csv::offset_text;
use super::objects::Object;
use super::stored::{Stored, ZONES};
use super::values::{Kind, NANOS_PER_DAY, NULL_TEXTS, Value};

/// Awkward traits of a data set. Each occurs in some seeds only, so that one defect does not hide the others.
#[derive(Debug, Clone)]
pub struct Traits {
    /// Objects store one column in several types.
    pub mixed_types: bool,
    /// Objects store a column without values in the type of NULL.
    pub null_types: bool,
    /// Objects lack columns.
    pub missing_columns: bool,
    /// Objects have their columns in different orders, and some an additional one.
    pub reordered: bool,
    /// Values at the ends of types.
    pub extremes: bool,
    /// NaN, infinities, -0.0.
    pub special_floats: bool,
    /// Dictionaries, of numbers too.
    pub dictionaries: bool,
    /// Texts so long that a CSV object outgrows the sample for type inference.
    pub long_text: bool,
    /// CSV: values that some definitions take for NULL, and no other NULL.
    pub null_words: bool,
    /// CSV without declared columns.
    pub inferred_csv: bool,
    /// Lists, structs and maps.
    pub nested: bool,
}

impl Traits {
    fn draw(rng: &mut StdRng, csv: bool) -> Self {
        let inferred_csv = csv && rng.random_bool(0.4);
        let mixed_types = !csv && rng.random_bool(0.5);
        Self {
            mixed_types,
            null_types: mixed_types,
            missing_columns: !csv && rng.random_bool(0.25),
            reordered: !csv && rng.random_bool(0.3),
            extremes: !inferred_csv && rng.random_bool(0.4),
            special_floats: !inferred_csv && rng.random_bool(0.4),
            dictionaries: !csv && rng.random_bool(0.3),
            long_text: rng.random_bool(0.05),
            null_words: csv && !inferred_csv && rng.random_bool(0.5),
            inferred_csv,
            nested: !csv && rng.random_bool(0.3),
        }
    }
}

/// A column of a table.
#[derive(Debug, Clone)]
pub struct Column {
    pub name: String,
    /// Kind of its values.
    pub kind: Kind,
    /// Stored type in objects that do not differ.
    pub usual: DataType,
}

/// Dialect of CSV files.
#[derive(Debug, Clone, PartialEq)]
pub struct Dialect {
    pub header: bool,
    pub delimiter: u8,
    /// Text written for NULL.
    pub written_null: String,
    /// Text that the definition takes for NULL.
    pub null_text: String,
    /// Zone of moments written without an offset, in hours east of UTC: CSV has no named ones.
    pub time_zone: Option<i8>,
}

/// Content of `CREATE EXTERNAL TABLE`.
#[derive(Debug, Clone, PartialEq)]
pub struct Definition {
    /// Whether the statement lists the columns.
    pub declared: bool,
    /// Kind of each column as queries see it.
    pub kinds: Vec<Kind>,
    /// `None` for Parquet.
    pub dialect: Option<Dialect>,
}

/// A table and its objects.
#[derive(Debug, Clone)]
pub struct Table {
    pub name: String,
    pub traits: Traits,
    pub columns: Vec<Column>,
    pub definition: Definition,
    pub objects: Vec<Object>,
    /// Number of the next row and of the next object.
    pub next_id: i64,
    pub next_object: usize,
    /// Maximum rows of an object.
    pub rows_max: usize,
}

impl Table {
    /// A table `r` of its own columns.
    pub fn draw(rng: &mut StdRng) -> Self {
        let csv = rng.random_bool(0.35);
        let traits = Traits::draw(rng, csv);
        let mut kinds = candidates(rng, &traits, csv);
        kinds.shuffle(rng);
        kinds.truncate(rng.random_range(4..9));
        let rows_max = *[30, 120, 120, 400, 400, 3000].choose(rng).unwrap();
        Self::of_kinds(rng, "r", traits, csv, kinds, rows_max)
    }

    /// A small table `p` with columns of the same kinds as another's, to join with.
    pub fn partner(&self, rng: &mut StdRng) -> Self {
        let nested = self.columns.iter().any(|column| column.kind.is_nested() || column.kind == Kind::Bytes);
        let csv = !nested && rng.random_bool(0.3);
        let mut traits = Traits { inferred_csv: false, null_words: false, ..Traits::draw(rng, csv) };
        traits.extremes = self.traits.extremes;
        traits.special_floats = self.traits.special_floats;
        traits.long_text = false;
        let kinds = self.columns.iter().skip(1).map(|column| match &column.kind {
            Kind::Int { bits: 32, signed: true } if rng.random_bool(0.5) => Kind::BIGINT,
            kind => kind.clone(),
        });
        let kinds = kinds.collect();
        Self::of_kinds(rng, "p", traits, csv, kinds, 40)
    }

    fn of_kinds(
        rng: &mut StdRng,
        name: &str,
        traits: Traits,
        csv: bool,
        mut kinds: Vec<Kind>,
        rows_max: usize,
    ) -> Self {
        kinds.insert(0, Kind::BIGINT);
        let zone = if rng.random_bool(0.5) { "UTC" } else { *ZONES.choose(rng).unwrap() };
        let column = |(position, kind): (usize, &Kind)| Column {
            name: if position == 0 { "id".into() } else { format!("c{position}") },
            kind: kind.clone(),
            usual: usual(kind, zone),
        };
        let columns: Vec<Column> = kinds.iter().enumerate().map(column).collect();
        let dialect = csv.then(|| {
            let null = if traits.null_words { "" } else { ["", "NA", "\\N"].choose(rng).unwrap() };
            Dialect {
                header: traits.inferred_csv || rng.random_bool(0.6),
                delimiter: *[b',', b';', b'\t', b'|'].choose(rng).unwrap(),
                written_null: null.to_owned(),
                null_text: null.to_owned(),
                // Text without an offset would be inferred to have no zone.
                time_zone: (!traits.inferred_csv && rng.random_bool(0.5)).then(|| rng.random_range(-11..12)),
            }
        });
        let declarable = kinds.iter().all(Kind::is_declarable);
        let declared = declarable && if csv { !traits.inferred_csv } else { rng.random_bool(0.4) };
        let definition = Definition { declared, kinds, dialect };
        let mut table = Self {
            name: name.into(),
            traits,
            columns,
            definition,
            objects: vec![],
            next_id: 0,
            next_object: 0,
            rows_max,
        };
        for _ in 0..rng.random_range(1..5) {
            let object = table.new_object(rng);
            table.objects.push(object);
        }
        table
    }

    /// An object with new rows.
    pub fn new_object(&mut self, rng: &mut StdRng) -> Object {
        // Types are inferred from the first object, and an empty file is not an object.
        let has_bytes = self.definition.dialect.as_ref().is_none_or(|dialect| dialect.header);
        let may_be_empty = (has_bytes && !self.traits.inferred_csv) || self.next_object > 0;
        let rows = if may_be_empty && rng.random_bool(0.08) { 0 } else { rng.random_range(1..=self.rows_max) };
        let rows = if self.traits.long_text { rows.min(150) } else { rows };
        let name = format!("{:03}", self.next_object);
        let mut traits = self.traits.clone();
        traits.inferred_csv &= self.next_object == 0;
        // An inferred table has the columns of this object, with types other than NULL.
        traits.missing_columns &= self.next_object > 0;
        traits.null_types &= self.next_object > 0;
        let object = Object::draw(rng, name, &self.columns, &traits, self.next_id, rows);
        self.next_object += 1;
        self.next_id += rows as i64;
        object
    }

    /// Whether a definition without columns, made before the object came, can read it: it may be too narrow for types
    /// that no earlier object had.
    pub fn reads(&self, object: &Object) -> bool {
        let new = |(position, stored): (usize, &Option<Stored>)| {
            let data_type = |stored: &Option<Stored>| stored.as_ref().map(|stored| stored.data_type.clone());
            stored.is_some() && self.objects.iter().all(|old| data_type(&old.stored[position]) != data_type(stored))
        };
        self.definition.declared || !self.traits.mixed_types || !object.stored.iter().enumerate().any(new)
    }

    /// The first object that may be replaced or removed: inferred types must stay.
    pub fn first_changing(&self) -> usize {
        usize::from(self.traits.inferred_csv || self.traits.missing_columns || self.traits.null_types)
    }

    /// Another definition over the same objects.
    pub fn redefined(&self, rng: &mut StdRng) -> Definition {
        let mut definition = self.definition.clone();
        let base = self.columns.iter().map(|column| &column.kind);
        if let Some(dialect) = &mut definition.dialect {
            if self.traits.null_words {
                dialect.null_text = (*NULL_TEXTS.choose(rng).unwrap()).to_owned();
            }
            // Tables may switch between declared and inferred columns.
            definition.declared ^= self.traits.inferred_csv && rng.random_bool(0.5);
            let other = |kind: &Kind, rng: &mut StdRng| match rng.random_bool(0.5) {
                true => redeclared(rng, kind, self.traits.extremes),
                false => kind.clone(),
            };
            definition.kinds = base
                .enumerate()
                .map(|(n, kind)| if n == 0 || !definition.declared { kind.clone() } else { other(kind, rng) })
                .collect();
            return definition;
        }
        definition.declared = base.clone().all(Kind::is_declarable);
        if definition.declared {
            let wider = |kind: &Kind, rng: &mut StdRng| match kind {
                Kind::Int { signed, bits } if rng.random_bool(0.5) => {
                    Kind::Int { signed: *signed, bits: (*bits).max(*[32, 64].choose(rng).unwrap()) }
                }
                Kind::Float { .. } if rng.random_bool(0.5) => Kind::DOUBLE,
                Kind::Timestamp { zone, .. } if !self.traits.extremes => Kind::Timestamp { nanos: true, zone: *zone },
                kind => kind.clone(),
            };
            definition.kinds = base.map(|kind| wider(kind, rng)).collect();
        }
        definition
    }

    /// `CREATE EXTERNAL TABLE` at a location.
    pub fn create_sql(&self, location: &str) -> String {
        let mut sql = format!("CREATE EXTERNAL TABLE {}", self.name);
        if self.definition.declared {
            let columns = self.columns.iter().zip(&self.definition.kinds);
            let columns: Vec<_> = columns.map(|(column, kind)| format!("{} {}", column.name, kind.sql())).collect();
            sql += &format!(" ({})", columns.join(", "));
        }
        match &self.definition.dialect {
            None => sql += &format!(" STORED AS PARQUET LOCATION '{location}'"),
            Some(dialect) => {
                let delimiter = match dialect.delimiter {
                    b'\t' => "\\t".to_owned(),
                    other => char::from(other).to_string(),
                };
                // The option is refused if no column has a zone.
                let has_zone = |kind: &Kind| matches!(kind, Kind::Timestamp { zone: true, .. });
                let zone = dialect.time_zone.filter(|_| self.definition.kinds.iter().any(has_zone));
                let zone = zone.map(|hours| format!(", 'time_zone' '{}'", offset_text(hours))).unwrap_or_default();
                sql += &format!(
                    " STORED AS CSV LOCATION '{location}' OPTIONS ('has_header' '{}', 'delimiter' '{delimiter}', 'null_value' '{}'{zone})",
                    dialect.header, dialect.null_text
                );
            }
        }
        sql
    }

    /// Extension and bytes of an object.
    pub fn file(&self, object: &Object) -> (String, Vec<u8>) {
        match &self.definition.dialect {
            None => (format!("{}.parquet", object.name), object.parquet_bytes(&self.columns)),
            Some(dialect) => {
                let (extension, bytes) = object.csv_file(&self.columns, dialect);
                (format!("{}.{extension}", object.name), bytes)
            }
        }
    }

    /// The value that queries see.
    pub fn seen(&self, column: usize, value: &Value) -> Value {
        let base = &self.columns[column].kind;
        let null_text = self.definition.dialect.as_ref().map(|dialect| &dialect.null_text);
        if null_text.is_some_and(|null| !null.is_empty() && base.text(value).as_ref() == Some(null)) {
            return Value::Null;
        }
        match (&self.definition.kinds[column], base, value) {
            (_, _, Value::Null) => Value::Null,
            (Kind::Text, base, value) => Value::Text(base.text(value).unwrap()),
            (Kind::Decimal { scale, .. }, Kind::Decimal { scale: written, .. }, Value::Int(digits)) => {
                Value::Int(digits * 10i128.pow((scale - written) as u32))
            }
            (Kind::Decimal { scale, .. }, _, Value::Int(value)) => Value::Int(value * 10i128.pow(*scale as u32)),
            (Kind::Float { .. }, _, Value::Int(value)) => Value::Float(*value as f64),
            (Kind::Timestamp { .. }, Kind::Date, Value::Int(days)) => Value::Int(days * NANOS_PER_DAY),
            (_, _, value) => value.clone(),
        }
    }

    /// All rows in one clean Parquet file, for the oracle.
    pub fn reference(&self) -> Vec<u8> {
        let kinds = &self.definition.kinds;
        let columns = self.columns.iter().zip(kinds);
        let fields: Vec<Field> =
            columns.map(|(column, kind)| Field::new(&column.name, kind.reference_type(), true)).collect();
        let arrays = fields.iter().zip(kinds).enumerate().map(|(position, (field, kind))| {
            let values: Vec<Value> = self
                .objects
                .iter()
                .flat_map(|object| &object.rows)
                .map(|row| self.seen(position, &row[position]))
                .collect();
            array(kind, field.data_type(), &values.iter().collect::<Vec<_>>())
        });
        let arrays = arrays.collect();
        let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).unwrap();
        let mut writer = ArrowWriter::try_new(vec![], batch.schema(), None).unwrap();
        writer.write(&batch).unwrap();
        writer.into_inner().unwrap()
    }

    /// Removes all columns but `id` that no text mentions, for shrinking.
    pub fn keep_columns(&mut self, mentioned: &BTreeSet<String>) {
        for position in (1..self.columns.len()).rev() {
            if mentioned.contains(&self.columns[position].name) {
                continue;
            }
            self.columns.remove(position);
            self.definition.kinds.remove(position);
            for object in &mut self.objects {
                object.remove_column(position);
            }
        }
    }
}

/// Another type that reads the CSV text of values of `kind` without loss.
fn redeclared(rng: &mut StdRng, kind: &Kind, extremes: bool) -> Kind {
    let mut others = vec![kind.clone()];
    match kind {
        Kind::Int { bits, signed } => {
            others.extend([Kind::Text, Kind::Decimal { precision: 25, scale: 2 }]);
            if *signed || *bits < 64 {
                others.push(Kind::BIGINT);
            }
            if *bits < 64 {
                others.push(Kind::DOUBLE);
            }
        }
        Kind::Decimal { precision, scale } => {
            others.push(Kind::Text);
            if precision + 3 <= 38 {
                others.push(Kind::Decimal { precision: precision + 3, scale: scale + 2 });
            }
        }
        Kind::Bool => others.push(Kind::Text),
        Kind::Date => others.extend([Kind::Text, Kind::Timestamp { nanos: false, zone: false }]),
        Kind::Time { .. } => others.extend([Kind::Text, Kind::Time { nanos: true }]),
        Kind::Timestamp { zone: false, .. } => {
            others.push(Kind::Text);
            if !extremes {
                others.push(Kind::Timestamp { nanos: true, zone: false });
            }
        }
        _ => {}
    }
    others.choose(rng).unwrap().clone()
}

/// The stored type of a kind in an ordinary file.
fn usual(kind: &Kind, zone: &str) -> DataType {
    match kind {
        Kind::Timestamp { nanos, zone: true } => {
            let unit = if *nanos { TimeUnit::Nanosecond } else { TimeUnit::Microsecond };
            DataType::Timestamp(unit, Some(zone.into()))
        }
        kind if kind.is_nested() => kind.nested_type(&|kind| usual(kind, zone)),
        kind => kind.reference_type(),
    }
}

/// Kinds that a table may have columns of.
fn candidates(rng: &mut StdRng, traits: &Traits, csv: bool) -> Vec<Kind> {
    let zone = |rng: &mut StdRng| rng.random_bool(0.3);
    if traits.inferred_csv {
        let timestamp = Kind::Timestamp { nanos: false, zone: zone(rng) };
        return vec![
            Kind::BIGINT,
            Kind::BIGINT,
            Kind::DOUBLE,
            Kind::Bool,
            Kind::Date,
            timestamp,
            Kind::Text,
            Kind::Text,
        ];
    }
    let mut kinds = vec![Kind::Bool, Kind::Date, Kind::Text, Kind::Text, Kind::DOUBLE, Kind::INT];
    for _ in 0..3 {
        kinds.push(Kind::Int { bits: *[8, 16, 32, 64].choose(rng).unwrap(), signed: rng.random_bool(0.6) });
    }
    kinds.push(Kind::Float { bits: *[32, 64].choose(rng).unwrap() });
    for _ in 0..2 {
        let precision = *[3, 9, 12, 18, 25, 31, 38].choose(rng).unwrap();
        let scale_max = if rng.random_bool(0.2) { precision as i8 } else { (precision as i8).min(7) };
        kinds.push(Kind::Decimal { precision, scale: rng.random_range(0..scale_max) });
    }
    for _ in 0..2 {
        kinds.push(Kind::Timestamp { nanos: rng.random_bool(0.4), zone: zone(rng) });
    }
    kinds.push(Kind::Time { nanos: rng.random_bool(0.4) });
    if !csv {
        kinds.push(Kind::Bytes);
    }
    if traits.nested {
        for _ in 0..4 {
            let depth = rng.random_range(1..=2);
            kinds.push(nested(rng, depth));
        }
    }
    kinds
}

/// A list, struct or map, perhaps of others.
fn nested(rng: &mut StdRng, depth: usize) -> Kind {
    let inner = match depth {
        1 => {
            let flat = [Kind::INT, Kind::Text, Kind::BIGINT, Kind::Bool, Kind::Decimal { precision: 9, scale: 2 }];
            flat.choose(rng).unwrap().clone()
        }
        _ => nested(rng, depth - 1),
    };
    match rng.random_range(0..3) {
        0 => Kind::List(inner.into()),
        1 => Kind::Struct(vec![("a".into(), inner), ("b".into(), Kind::Text)]),
        _ => Kind::Map(inner.into()),
    }
}
