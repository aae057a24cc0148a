//! Definitions as SQL.

use std::fmt::{self, Write};

use super::definition::{IndexKind, lowest_free};
use super::{IndexDefinition, Language, ProcedureDefinition, Schema, TableDefinition, write_identifier};

/// Tables by id, each with its indexes; then procedures by name.
pub(super) fn schema(schema: &Schema) -> String {
    let mut out = String::new();
    let mut tables: Vec<_> = schema.tables().collect();
    tables.sort_by_key(|table| table.id);
    let mut taken = Vec::new();
    let written: fmt::Result = (|| {
        for table in tables {
            let expected = lowest_free(taken.iter().copied());
            taken.push(table.id.0);
            write_table(&mut out, table, expected != Some(table.id.0))?;
        }
        schema.procedures().try_for_each(|procedure| write_procedure(&mut out, procedure))
    })();
    debug_assert!(written.is_ok(), "a String takes all");
    out
}

/// A table with its indexes.
pub(super) fn table(table: &TableDefinition) -> String {
    let mut out = String::new();
    let written = write_table(&mut out, table, false);
    debug_assert!(written.is_ok(), "a String takes all");
    out
}

/// `say_id`: the id differs from the one that the table would get by default.
fn write_table(out: &mut String, table: &TableDefinition, say_id: bool) -> fmt::Result {
    out.write_str("CREATE TABLE ")?;
    write_identifier(out, &table.name)?;
    out.write_str(" (\n")?;
    let mut separator = "";
    for (_, column) in table.listed_columns() {
        write!(out, "{separator}    ")?;
        separator = ",\n";
        write_identifier(out, &column.name)?;
        write!(out, " {}", column.data_type)?;
        if !column.nullable {
            out.write_str(" NOT NULL")?;
        }
        if let Some(default) = &column.default {
            write!(out, " DEFAULT {default}")?;
        }
    }
    let mut indexes = table.indexes.iter();
    if let Some(primary) = indexes.next().filter(|_| !table.has_row_key) {
        out.write_str(",\n    CONSTRAINT ")?;
        write_identifier(out, &primary.name)?;
        out.write_str(" PRIMARY KEY ")?;
        write_columns(out, table, primary)?;
        write!(out, " USING {}", kind(primary.kind))?;
    }
    for check in &table.checks {
        out.write_str(",\n    CONSTRAINT ")?;
        write_identifier(out, &check.name)?;
        write!(out, " CHECK ({})", check.condition)?;
    }
    out.write_str("\n)")?;
    let by_row_key = table.has_row_key && table.partition_by == Some(0);
    if let Some(column) = table.partition_by.and_then(|column| table.columns.get(column)).filter(|_| !by_row_key) {
        out.write_str(" PARTITION BY (")?;
        write_identifier(out, &column.name)?;
        out.write_char(')')?;
    }
    let options = [
        (!table.evictable).then(|| "evictable = false".to_owned()),
        (table.has_row_key && table.partition_by.is_none()).then(|| "replicated = true".to_owned()),
        say_id.then(|| format!("id = {}", table.id.0)),
    ];
    let options: Vec<String> = options.into_iter().flatten().collect();
    if !options.is_empty() {
        write!(out, " WITH ({})", options.join(", "))?;
    }
    out.write_str(";\n")?;
    let mut taken = vec![0];
    for index in indexes {
        let expected = lowest_free(taken.iter().copied());
        taken.push(index.id.0);
        write_index(out, table, index, expected != Some(index.id.0))?;
    }
    out.write_char('\n')
}

fn write_index(out: &mut String, table: &TableDefinition, index: &IndexDefinition, say_id: bool) -> fmt::Result {
    write!(out, "CREATE {}INDEX ", if index.unique { "UNIQUE " } else { "" })?;
    write_identifier(out, &index.name)?;
    out.write_str(" ON ")?;
    write_identifier(out, &table.name)?;
    write!(out, " USING {} ", kind(index.kind))?;
    write_columns(out, table, index)?;
    if say_id {
        write!(out, " WITH (id = {})", index.id.0)?;
    }
    out.write_str(";\n")
}

const fn kind(kind: IndexKind) -> &'static str {
    match kind {
        IndexKind::Hash => "HASH",
        IndexKind::Ordered => "BTREE",
    }
}

fn write_columns(out: &mut String, table: &TableDefinition, index: &IndexDefinition) -> fmt::Result {
    for (position, key) in index.columns.iter().enumerate() {
        out.write_str(if position == 0 { "(" } else { ", " })?;
        if let Some(column) = table.columns.get(key.column) {
            write_identifier(out, &column.name)?;
        }
        if key.descending {
            out.write_str(" DESC")?;
        }
    }
    out.write_char(')')
}

fn write_procedure(out: &mut String, procedure: &ProcedureDefinition) -> fmt::Result {
    out.write_str("CREATE PROCEDURE ")?;
    write_identifier(out, &procedure.name)?;
    for (position, argument) in procedure.arguments.iter().enumerate() {
        out.write_str(if position == 0 { "(" } else { ", " })?;
        write_identifier(out, &argument.name)?;
        write!(out, " {}", argument.data_type)?;
    }
    out.write_str(if procedure.arguments.is_empty() { "()" } else { ")" })?;
    let on = procedure.partition_on.iter().filter_map(|position| procedure.arguments.get(*position));
    for (position, argument) in on.enumerate() {
        out.write_str(if position == 0 { " PARTITION ON (" } else { ", " })?;
        write_identifier(out, &argument.name)?;
    }
    if !procedure.partition_on.is_empty() {
        out.write_char(')')?;
    }
    if procedure.version != 1 {
        write!(out, " WITH (version = {})", procedure.version)?;
    }
    let language = match procedure.language {
        Language::Sql => "SQL",
        Language::Lua => "lua",
    };
    // A tag that does not occur in the body.
    let mut tag = String::new();
    while procedure.body.contains(&format!("${tag}$")) || procedure.body.ends_with(&format!("${tag}")) {
        tag.push('x');
    }
    write!(out, " LANGUAGE {language} AS ${tag}${}${tag}$;\n\n", procedure.body)
}
