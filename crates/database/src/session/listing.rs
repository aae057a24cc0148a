//! What a database contains, as clients list and describe it: `\d` and its kin.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use thermocline_catalog::quote_name;
use thermocline_compute::{CATALOG, Columns, FunctionEntry, SCHEMA, SYSTEM, USER};
use thermocline_pushdown::sql_type_name;
use thermocline_syntax::nearest;
use thermocline_transactions::interrupt::Interrupt;
use thermocline_transactions::schema::{
    CheckDefinition, IndexColumn, IndexDefinition, IndexId, IndexKind, Schema, TableDefinition,
};
use thermocline_types::Class;

use super::pattern::Pattern;
use super::session::Session;
use crate::error::{Error, Known, meant};

/// Schema of the tables that SQL's standard defines about the others.
const INFORMATION: &str = "information_schema";

/// A kind of listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listing {
    /// Tables and views.
    Relations,
    /// Tables.
    Tables,
    /// Views.
    Views,
    /// Indexes of both kinds of tables.
    Indexes,
    /// Functions and procedures.
    Functions,
    /// Schemas.
    Schemas,
    /// Roles.
    Roles,
    /// The database.
    Databases,
}

/// A description of a table or view.
#[derive(Debug, Clone)]
pub struct Description {
    /// Its schema and name, such as `public.orders`.
    pub name: String,
    /// What it is, such as `Table "public.orders"`.
    pub title: String,
    /// A row for each column: its name, type, whether it may be NULL, and its default.
    pub columns: RecordBatch,
    /// Lines about keys, indexes, location and definition.
    pub notes: Vec<String>,
}

/// A table or view.
#[derive(Debug, Clone)]
struct Relation {
    schema: &'static str,
    name: String,
    kind: Kind,
}

#[derive(Debug, Clone)]
enum Kind {
    Rows(Arc<TableDefinition>),
    External {
        format: &'static str,
        locations: Vec<String>,
    },
    View {
        sql: String,
    },
    System,
    /// Not restored, for this reason.
    Absent(String),
}

impl Kind {
    const fn name(&self) -> &'static str {
        match self {
            Self::Rows(_) => "table",
            Self::External { .. } => "external table",
            Self::View { .. } => "view",
            Self::System => "system table",
            Self::Absent(_) => "not restored",
        }
    }
}

/// An index of either kind of table.
struct Index {
    name: String,
    table: String,
    columns: String,
    kind: &'static str,
    /// `primary key`, `unique` or nothing.
    constraint: &'static str,
}

/// A column of a description.
struct ColumnRow {
    name: String,
    data_type: String,
    nullable: bool,
    default: Option<String>,
}

impl Session {
    /// The rows of a listing of names that match a pattern: `*` stands for any characters, `?` for one, and `s.` in
    /// front for a schema; an empty pattern for all of users' names.
    ///
    /// # Errors
    /// If the row tables' recovery fails.
    pub async fn list(&self, listing: Listing, pattern: &str) -> Result<RecordBatch, Error> {
        self.known().await?;
        let pattern = Pattern::of(pattern);
        Ok(match listing {
            Listing::Relations => relations(&self.relations(&pattern, |_| true))?,
            Listing::Tables => relations(&self.relations(&pattern, |kind| !matches!(kind, Kind::View { .. })))?,
            Listing::Views => relations(&self.relations(&pattern, |kind| matches!(kind, Kind::View { .. })))?,
            Listing::Indexes => indexes(&self.indexes(&pattern))?,
            Listing::Functions => functions(&self.functions_of(&pattern))?,
            Listing::Schemas => schemas(&pattern)?,
            Listing::Roles => roles(&pattern)?,
            Listing::Databases => self.databases(&pattern)?,
        })
    }

    /// Descriptions of the tables and views that match a pattern, as that of [`Session::list`].
    ///
    /// # Errors
    /// 42P01 if there is none, with a similar name as a hint.
    pub async fn describe_all(&self, pattern: &str) -> Result<Vec<Description>, Error> {
        self.known().await?;
        let found = self.relations(&Pattern::of(pattern), |_| true);
        if found.is_empty() {
            return Err(self.no_relation(pattern));
        }
        let mut described = vec![];
        for relation in found {
            described.push(self.described(&relation).await?);
        }
        Ok(described)
    }

    /// The statements that create the tables, views and procedures that match a pattern, as that of [`Session::list`].
    ///
    /// # Errors
    /// 42P01 if there is none, with a similar name as a hint, unless the pattern is empty.
    pub async fn definitions(&self, pattern: &str) -> Result<String, Error> {
        self.known().await?;
        let wanted = Pattern::of(pattern);
        let (relations, mut texts) = (self.relations(&wanted, |_| true), vec![]);
        let tables = self.engine().tables();
        for relation in &relations {
            match &relation.kind {
                Kind::Rows(table) => texts.push(table.to_sql()),
                // One that could not be restored is in the catalog as well.
                Kind::External { .. } | Kind::Absent(_) => {
                    let table = tables.iter().find(|table| table.definition.name == relation.name);
                    let sql = table.map(|table| table.definition.sql.clone());
                    texts.extend(sql.or_else(|| self.engine().absent_table(&relation.name)));
                    let indexes = self.engine().indexes().into_iter().filter(|index| index.table == relation.name);
                    texts.extend(indexes.map(|index| index.sql()));
                }
                Kind::View { .. } | Kind::System => {}
            }
        }
        // Behind the tables, and each behind the views that it reads.
        let is_wanted = |name: &str| relations.iter().any(|relation| relation.name == name);
        texts.extend(self.engine().views().into_iter().filter(|(name, _)| is_wanted(name)).map(|(_, sql)| sql));
        let rows = self.row_schema();
        for procedure in rows.procedures().filter(|procedure| wanted.matches(SCHEMA, &procedure.name)) {
            let mut alone = Schema::default();
            alone.put_procedure(Arc::clone(procedure));
            texts.push(alone.to_sql());
        }
        if texts.is_empty() && relations.is_empty() && !pattern.trim().is_empty() {
            return Err(self.no_relation(pattern));
        }
        let ended = |text: String| format!("{};\n", text.trim_end().trim_end_matches(';'));
        Ok(texts.into_iter().map(ended).collect())
    }

    /// Waits until the row tables are known.
    async fn known(&self) -> Result<()> {
        if self.rows.store().is_unusable() {
            let timeout = self.own().lock().statement_timeout;
            self.rows.recovered(&Arc::new(Interrupt::new(timeout))).await?;
        }
        Ok(())
    }

    fn no_relation(&self, pattern: &str) -> Error {
        let name = pattern.trim();
        let error = Error::from(Class::UndefinedTable.error(format_args!("table \"{name}\" does not exist")));
        let tables = self.tables();
        match nearest(name, tables.iter().map(String::as_str)) {
            Some(near) => error.about(name).with_hint(meant(near)),
            None => error.about(name),
        }
    }

    /// Tables and views by schema and name.
    fn relations(&self, pattern: &Pattern, of: impl Fn(&Kind) -> bool) -> Vec<Relation> {
        let users = |name: &str, kind| Relation { schema: SCHEMA, name: name.to_owned(), kind };
        let rows = self.row_schema();
        let mut all: Vec<Relation> =
            rows.tables().map(|table| users(&table.name, Kind::Rows(Arc::clone(table)))).collect();
        all.extend(self.engine().tables().iter().map(|table| {
            let definition = &table.definition;
            let kind = Kind::External { format: definition.format.name(), locations: definition.locations.clone() };
            users(&definition.name, kind)
        }));
        let absent = self.engine().absent();
        let is_absent = |name: &str| absent.iter().any(|(known, _)| known == name);
        let views = self.engine().views().into_iter().filter(|(name, _)| !is_absent(name));
        all.extend(views.map(|(name, sql)| users(&name, Kind::View { sql })));
        all.extend(absent.iter().map(|(name, error)| users(name, Kind::Absent(error.clone()))));
        let system = self.engine().system_tables().into_iter();
        all.extend(system.map(|name| Relation { schema: SYSTEM, name, kind: Kind::System }));
        all.retain(|relation| pattern.matches(relation.schema, &relation.name) && of(&relation.kind));
        all.sort_by(|a, b| (a.schema, &a.name).cmp(&(b.schema, &b.name)));
        all
    }

    async fn described(&self, relation: &Relation) -> Result<Description> {
        let Relation { schema, name, kind } = relation;
        let full = format!("{schema}.{name}");
        let title = format!("{} {}", capitalised(kind.name()), quoted(&full));
        let (columns, notes) = match kind {
            Kind::Rows(table) => (of_rows(table), notes_of_rows(table)),
            Kind::External { format, locations } => {
                let mut notes = vec![format!("Location: {}", locations.join(", ")), format!("Format: {format}")];
                let indexes = self.engine().indexes();
                let indexes = indexes.iter().filter(|index| index.table == *name);
                let indexes: Vec<_> = indexes
                    .map(|index| format!("    {} ({})", quoted(&index.name), quote_name(&index.column)))
                    .collect();
                notes.extend(headed("Indexes:", indexes));
                (self.engine().schema_of(name).map(|schema| of_arrow(&schema)).unwrap_or_default(), notes)
            }
            Kind::View { sql } => {
                let columns = self.engine().schema_of(name).map(|schema| of_arrow(&schema)).unwrap_or_default();
                (columns, headed("Definition:", sql.lines().map(str::to_owned).collect()))
            }
            Kind::System => {
                let schema = self.engine().system_columns(name).await?;
                (schema.map(|schema| of_arrow(&schema)).unwrap_or_default(), vec![])
            }
            Kind::Absent(error) => {
                (vec![], format!("It could not be restored: {error}").lines().map(str::to_owned).collect())
            }
        };
        let columns = Columns::default()
            .text("column_name", |row: &ColumnRow| &row.name)
            .text("data_type", |row| &row.data_type)
            .text("is_nullable", |row| if row.nullable { "YES" } else { "NO" })
            .optional_text("column_default", |row| row.default.as_deref())
            .batch(&columns)?;
        Ok(Description { name: full, title, columns, notes })
    }

    fn indexes(&self, pattern: &Pattern) -> Vec<Index> {
        let rows = self.row_schema();
        let of_table = |table: &Arc<TableDefinition>| {
            let index = |index: &IndexDefinition| Index {
                name: index.name.to_string(),
                table: table.name.to_string(),
                columns: key(table, &index.columns),
                kind: method(index.kind),
                constraint: constraint(index),
            };
            table.listed_indexes().map(index).collect::<Vec<_>>()
        };
        let mut all: Vec<Index> = rows.tables().flat_map(of_table).collect();
        all.extend(self.engine().indexes().into_iter().map(|index| Index {
            columns: quote_name(&index.column),
            name: index.name,
            table: index.table,
            kind: "objects",
            constraint: "",
        }));
        all.retain(|index| pattern.matches(SCHEMA, &index.name));
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    }

    fn functions_of(&self, pattern: &Pattern) -> Vec<FunctionEntry> {
        let rows = self.row_schema();
        let procedures = rows.procedures().map(|procedure| {
            let arguments = procedure.arguments.iter();
            let arguments = arguments.map(|one| format!("{} {}", quote_name(&one.name), one.data_type));
            let arguments = arguments.collect::<Vec<_>>().join(", ");
            let usage = Some(format!("CALL {}({arguments})", quote_name(&procedure.name)));
            FunctionEntry { name: procedure.name.to_string(), kind: "procedure", usage }
        });
        let mut all: Vec<_> = procedures.chain(self.engine().function_entries()).collect();
        all.retain(|function| pattern.matches_name(&function.name));
        all.sort_by(|a, b| (&a.name, a.kind).cmp(&(&b.name, b.kind)));
        all
    }

    fn databases(&self, pattern: &Pattern) -> Result<RecordBatch> {
        let directory = self.rows.store().directory();
        let absolute = directory.map(|path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned()));
        let location = absolute.map_or_else(|| "memory".to_owned(), |path| path.display().to_string());
        let rows: Vec<_> = pattern.matches_name(CATALOG).then_some((CATALOG, location)).into_iter().collect();
        Columns::default()
            .text("name", |row: &(&'static str, String)| row.0)
            .text("location", |row| &row.1)
            .batch(&rows)
    }
}

fn relations(rows: &[Relation]) -> Result<RecordBatch> {
    Columns::default()
        .text("schema", |row: &Relation| row.schema)
        .text("name", |row| &row.name)
        .text("type", |row| row.kind.name())
        .batch(rows)
}

fn indexes(rows: &[Index]) -> Result<RecordBatch> {
    Columns::default()
        .text("name", |row: &Index| &row.name)
        .text("table", |row| &row.table)
        .text("columns", |row| &row.columns)
        .text("method", |row| row.kind)
        .text("constraint", |row| row.constraint)
        .batch(rows)
}

fn functions(rows: &[FunctionEntry]) -> Result<RecordBatch> {
    Columns::default()
        .text("name", |row: &FunctionEntry| &row.name)
        .text("kind", |row| row.kind)
        .optional_text("usage", |row| row.usage.as_deref())
        .batch(rows)
}

fn schemas(pattern: &Pattern) -> Result<RecordBatch> {
    let all = [
        (INFORMATION, "tables and columns, as the SQL standard has them"),
        (SCHEMA, "tables and views"),
        (SYSTEM, "state of the database"),
    ];
    let rows: Vec<_> = all.into_iter().filter(|(name, _)| pattern.matches_name(name)).collect();
    Columns::default()
        .text("name", |row: &(&'static str, &'static str)| row.0)
        .text("contents", |row| row.1)
        .batch(&rows)
}

/// There are no users yet.
fn roles(pattern: &Pattern) -> Result<RecordBatch> {
    let all = [(USER, "all rights")];
    let rows: Vec<_> = all.into_iter().filter(|(name, _)| pattern.matches_name(name)).collect();
    Columns::default()
        .text("name", |row: &(&'static str, &'static str)| row.0)
        .text("attributes", |row| row.1)
        .batch(&rows)
}

fn of_rows(table: &TableDefinition) -> Vec<ColumnRow> {
    let columns = table.listed_columns();
    let row = columns.map(|(_, column)| ColumnRow {
        name: column.name.to_string(),
        data_type: column.data_type.to_string(),
        nullable: column.nullable,
        default: column.default.as_deref().map(str::to_owned),
    });
    row.collect()
}

fn of_arrow(schema: &SchemaRef) -> Vec<ColumnRow> {
    let fields = schema.fields().iter();
    let row = fields.map(|field| ColumnRow {
        name: field.name().clone(),
        data_type: sql_type_name(field.data_type()),
        nullable: field.is_nullable(),
        default: None,
    });
    row.collect()
}

fn notes_of_rows(table: &TableDefinition) -> Vec<String> {
    let index = |index: &IndexDefinition| {
        let constraint = match constraint(index) {
            "" => String::new(),
            constraint => format!("{}, ", constraint.to_uppercase()),
        };
        let columns = key(table, &index.columns);
        format!("    {} {constraint}{} ({columns})", quoted(&index.name), method(index.kind))
    };
    let mut notes = headed("Indexes:", table.listed_indexes().map(index).collect());
    let check = |check: &CheckDefinition| format!("    {} CHECK ({})", quoted(&check.name), check.condition);
    notes.extend(headed("Check constraints:", table.checks.iter().map(check).collect()));
    notes.push(match table.partition_by.and_then(|position| table.columns.get(position)) {
        Some(_) if table.has_row_key && table.partition_by == Some(0) => "Partitioned by row: it has no key".to_owned(),
        Some(column) => format!("Partition by: {}", quote_name(&column.name)),
        None => "Replicated: every executor partition has all rows".to_owned(),
    });
    if !table.evictable {
        notes.push("Not evictable: its rows stay in memory".to_owned());
    }
    notes
}

/// Lines below a heading; none without any.
fn headed(heading: &str, lines: Vec<String>) -> Vec<String> {
    if lines.is_empty() { vec![] } else { std::iter::once(heading.to_owned()).chain(lines).collect() }
}

fn quoted(name: &str) -> String {
    format!("\"{name}\"")
}

const fn method(kind: IndexKind) -> &'static str {
    match kind {
        IndexKind::Hash => "hash",
        IndexKind::Ordered => "btree",
    }
}

/// `primary key`, `unique` or nothing: what an index stands for.
fn constraint(index: &IndexDefinition) -> &'static str {
    match (index.id == IndexId::PRIMARY, index.unique) {
        (true, _) => "primary key",
        (_, true) => "unique",
        (_, false) => "",
    }
}

/// Columns of an index.
fn key(table: &TableDefinition, columns: &[IndexColumn]) -> String {
    let column = |key: &IndexColumn| {
        let name = table.columns.get(key.column).map(|column| quote_name(&column.name)).unwrap_or_default();
        if key.descending { format!("{name} DESC") } else { name }
    };
    columns.iter().map(column).collect::<Vec<_>>().join(", ")
}

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}
