//! A case: tables, and the steps that query and change them. It contains everything that was drawn, so that it can be
//! run again, whole or in part.

use std::fmt::Write;

use rand::rngs::StdRng;
use rand::seq::{IndexedRandom, IteratorRandom};
use rand::{Rng, SeedableRng};
use thermocline_pushdown::Mode;

use super::draw::query;
use super::objects::Object;
use super::query::{Query, dialect};
use super::schema::{Definition, Table};

#[derive(Debug, Clone)]
pub struct Case {
    /// The tables at the beginning.
    pub tables: Vec<Table>,
    pub steps: Vec<Step>,
    /// Arguments of both storage node processes.
    pub node_arguments: Vec<String>,
    /// Whether the embedded database has a directory and can be opened again.
    pub directory: bool,
}

#[derive(Debug, Clone)]
pub enum Step {
    /// `DROP TABLE` and `CREATE EXTERNAL TABLE`.
    Define(usize, Definition),
    /// A new object of a table, or new content for an existing one.
    Put(usize, Object),
    /// Removal of an object by name.
    Remove(usize, String),
    /// Closing and reopening of the embedded database.
    Reopen,
    /// `CREATE INDEX` on a column of a table that has none.
    Index(usize, String),
    Query(Query, Vec<Run>),
}

/// Location of the objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Topology {
    /// A node in this process.
    Embedded,
    /// Two storage node processes, each with a part.
    TwoNodes,
}

/// One execution of a query.
#[derive(Debug, Clone)]
pub struct Run {
    pub topology: Topology,
    pub cache: Cache,
    pub settings: Vec<(String, String)>,
}

/// Change of the cache before a query.
#[derive(Debug, Clone, PartialEq)]
pub enum Cache {
    Keep,
    Clear,
    /// Only these columns of a table are cached, without room for others.
    Only(usize, Vec<String>),
}

impl Case {
    /// The case of a seed, with this many queries.
    pub fn draw(seed: u64, queries: usize) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let rng = &mut rng;
        let r = Table::draw(rng);
        let p = r.partner(rng);
        let mut tables = vec![r, p];
        let pushback = *["none", "none", "half", "all"].choose(rng).unwrap();
        let mut node_arguments = vec!["--pushback".to_owned(), pushback.to_owned()];
        if rng.random_bool(0.5) {
            node_arguments.extend(["--egress-limit".to_owned(), "10Gbps".to_owned()]);
        }
        let mut case = Self { tables: tables.clone(), steps: vec![], node_arguments, directory: rng.random_bool(0.3) };
        for (number, table) in tables.iter().enumerate() {
            case.steps.push(Step::Define(number, table.definition.clone()));
        }
        // Only some data sets have storage node processes, which take time to start.
        let two_nodes = rng.random_bool(0.5);
        for _ in 0..queries {
            if rng.random_bool(0.12) {
                let before = tables.clone();
                let step = case.change(rng, &mut tables);
                let redefined = match &step {
                    Step::Put(number, object) if !before[*number].reads(object) => Some(*number),
                    _ => None,
                };
                case.steps.push(step);
                case.steps.extend(redefined.map(|number| Step::Define(number, tables[number].definition.clone())));
            }
            let drawn = query(rng, &tables[0], tables.get(1));
            let mut runs: Vec<Run> = (0..2).map(|_| Run::draw(rng, Topology::Embedded, &tables)).collect();
            // The second run finds the first one's cache.
            if let [first, second] = runs.as_mut_slice()
                && rng.random_bool(0.5)
            {
                second.clone_from(first);
                second.cache = Cache::Keep;
            }
            if two_nodes {
                runs.push(Run::draw(rng, Topology::TwoNodes, &tables));
            }
            case.steps.push(Step::Query(drawn, runs));
        }
        case
    }

    fn change(&self, rng: &mut StdRng, tables: &mut [Table]) -> Step {
        let number = rng.random_range(0..tables.len());
        let table = &mut tables[number];
        let step = match rng.random_range(0..10) {
            0..=2 => Step::Define(number, table.redefined(rng)),
            3 | 4 => Step::Put(number, table.new_object(rng)),
            5 | 6 => {
                let old = table.objects.iter().enumerate().skip(table.first_changing()).choose(rng);
                let Some((_, old)) = old else { return Step::Reopen };
                let (name, node) = (old.name.clone(), old.node);
                Step::Put(number, Object { name, node, ..table.new_object(rng) })
            }
            7 if table.objects.len() > 1 => {
                let names = table.objects.iter().skip(1).map(|object| object.name.clone());
                Step::Remove(number, names.choose(rng).unwrap())
            }
            8 => {
                let flat = table.columns.iter().filter(|column| !column.kind.is_nested());
                Step::Index(number, flat.choose(rng).unwrap().name.clone())
            }
            _ => Step::Reopen,
        };
        step.apply(tables);
        step
    }

    /// The seed, the data and the statements, to report a failure.
    pub fn script(&self) -> String {
        let mut script = String::new();
        let mut tables = self.tables.clone();
        let objects = |script: &mut String, table: &Table, object: &Object| {
            let _infallible = writeln!(script, "{}", describe(table, object));
        };
        for table in &tables {
            for object in &table.objects {
                objects(&mut script, table, object);
            }
        }
        for step in &self.steps {
            step.apply(&mut tables);
            let _infallible = match step {
                Step::Define(number, _) => {
                    let table = &tables[*number];
                    let location = format!("DIR/{}", table.name);
                    writeln!(
                        script,
                        "DROP TABLE IF EXISTS {};\n{};",
                        table.name,
                        dialect(&table.create_sql(&location), false)
                    )
                }
                Step::Put(number, object) => {
                    objects(&mut script, &tables[*number], object);
                    Ok(())
                }
                Step::Remove(number, name) => writeln!(script, "-- object {}/{name} is removed", tables[*number].name),
                Step::Reopen if self.directory => writeln!(script, "-- the database is closed and opened"),
                Step::Reopen => Ok(()),
                Step::Index(number, column) => {
                    let name = &tables[*number].name;
                    writeln!(script, "CREATE INDEX {name}_{column} ON {name} ({column});")
                }
                Step::Query(query, runs) => {
                    for run in runs {
                        let settings: Vec<_> =
                            run.settings.iter().map(|(name, value)| format!("SET {name} = '{value}';")).collect();
                        let topology = match run.topology {
                            Topology::Embedded => "embedded".into(),
                            Topology::TwoNodes => format!("two nodes {}", self.node_arguments.join(" ")),
                        };
                        let _infallible =
                            writeln!(script, "-- {topology}, cache: {:?}\n{}", run.cache, settings.join(" "));
                    }
                    writeln!(script, "{};", query.ours())
                }
            };
        }
        script
    }
}

fn describe(table: &Table, object: &Object) -> String {
    let mut text = format!("-- object {}/{} (of node {})", table.name, object.name, object.node);
    let rows = |text: &mut String| {
        for row in object.rows.iter().take(50) {
            let cells = table.columns.iter().zip(row);
            let cells: Vec<_> = cells
                .map(|(column, value)| match column.kind.text(value) {
                    Some(value) if value.len() < 300 => format!("{value:?}"),
                    Some(value) => format!("{} bytes", value.len()),
                    None => format!("{value:?}"),
                })
                .collect();
            let _infallible = write!(text, "\n--   ({})", cells.join(", "));
        }
        if object.rows.len() > 50 {
            let _infallible = write!(text, "\n--   and {} rows more", object.rows.len() - 50);
        }
    };
    if let Some(dialect) = &table.definition.dialect {
        let _infallible = write!(text, ", {dialect:?}, {:?}", object.csv);
        let bytes = object.csv_bytes(&table.columns, dialect);
        if bytes.len() < 2000 {
            let _infallible = write!(text, "\n--   {:?}", String::from_utf8_lossy(&bytes));
        } else {
            rows(&mut text);
        }
        return text;
    }
    let columns = object.order.iter().filter_map(|position| {
        let stored = object.stored[*position].as_ref()?;
        let null = if stored.nullable { "" } else { " NOT NULL" };
        let int96 = if stored.int96 { " as INT96" } else { "" };
        Some(format!("{} {}{int96}{null}", table.columns[*position].name, stored.data_type))
    });
    let _infallible = write!(text, " [{}] {:?}", columns.collect::<Vec<_>>().join(", "), object.parquet);
    let names: Vec<_> = table.columns.iter().map(|column| column.name.as_str()).collect();
    let _infallible = write!(text, "\n--   ({})", names.join(", "));
    rows(&mut text);
    text
}

impl Step {
    /// Applies the step to the tables.
    pub fn apply(&self, tables: &mut [Table]) {
        match self {
            Step::Define(number, definition) => tables[*number].definition = definition.clone(),
            Step::Put(number, object) => {
                let objects = &mut tables[*number].objects;
                match objects.iter_mut().find(|old| old.name == object.name) {
                    Some(old) => *old = object.clone(),
                    None => objects.push(object.clone()),
                }
            }
            Step::Remove(number, name) => tables[*number].objects.retain(|object| object.name != *name),
            Step::Reopen | Step::Index(..) | Step::Query(..) => {}
        }
    }
}

impl Run {
    fn draw(rng: &mut StdRng, topology: Topology, tables: &[Table]) -> Self {
        let mut settings = vec![];
        let mut set = |rng: &mut StdRng, name: &str, values: &[&str]| {
            settings.push((name.to_owned(), (*values.choose(rng).unwrap()).to_owned()));
        };
        set(rng, "thermocline.mode", &Mode::ALL.map(Mode::name));
        set(rng, "thermocline.cache_size", &["0", "20000", "300000", "1GiB", "1GiB"]);
        set(rng, "thermocline.cache_policy", &["lru", "lfu", "wlfu", "gdsf"]);
        set(rng, "thermocline.partition_size", &["1MB", "1MiB", "65536"]);
        set(rng, "thermocline.pushback", &["on", "on", "off"]);
        set(rng, "thermocline.bitmaps", &["on", "on", "off"]);
        set(rng, "thermocline.indexes", &["on", "off"]);
        set(rng, "thermocline.bloom_filters", &["on", "on", "off"]);
        set(rng, "thermocline.bloom_filter_size", &["64", "1MiB"]);
        // Without lists, so that Bloom filters replace them.
        set(rng, "datafusion.optimizer.hash_join_inlist_pushdown_max_size", &["0", "131072"]);
        // Both ways of running a join: one hash table for all, or one per output partition.
        let threshold = ["0", "1048576"];
        set(rng, "datafusion.optimizer.hash_join_single_partition_threshold", &threshold);
        set(rng, "datafusion.optimizer.hash_join_single_partition_threshold_rows", &threshold);
        let cache = match rng.random_range(0..8) {
            0 => Cache::Clear,
            1 | 2 => {
                let number = rng.random_range(0..tables.len());
                let columns = tables[number].columns.iter().map(|column| column.name.clone());
                Cache::Only(number, columns.choose_multiple(rng, 3))
            }
            _ => Cache::Keep,
        };
        Self { topology, cache, settings }
    }
}
