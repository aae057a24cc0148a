//! Dispatch of statements to engines.

use datafusion::common::Result;
use datafusion::sql::sqlparser::ast::{
    AlterTableOperation, Delete, FromTable, Insert, ObjectName, ObjectType, Query, RenameTableNameKind, SetExpr,
    Statement as Ast, TableFactor, TableObject, TableWithJoins,
};
use thermocline_pushdown::user_err;
use thermocline_syntax::Statement as Sql;
use thermocline_transactions::schema::Schema;

use crate::statement::{Parsed, Statement, check_view, simple, tables_of};

/// Destination of a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Dispatch {
    /// The row engine.
    Rows,
    /// The row engine if it can run the statement, else the analytic engine.
    RowsFirst,
    /// INSERT into a row table: the row engine if it can run the statement, else the analytic engine for the query.
    Insert,
    /// UPDATE, DELETE or MERGE of a row table: the row engine if it can run the statement, else the analytic engine for
    /// the query that finds the rows.
    Write,
    /// EXPLAIN of a statement that the row engine may run.
    Explain,
    /// DESCRIBE of a row table.
    Describe(String),
    /// DESCRIBE of an external table or a view.
    DescribeRelation(String),
    /// PREPARE.
    Prepare,
    /// DEALLOCATE.
    Deallocate,
    /// CREATE TABLE AS for a row table.
    CreateTableAs,
    /// COPY between a file and a row table, or from a query to a file.
    Copy,
    /// No operation.
    Nothing,
    /// The analytic engine.
    Analytic,
}

/// Names that determine which engine runs a statement: row tables, and names of the analytic engine.
pub struct Names<'a> {
    /// Row tables and their indexes.
    pub rows: &'a Schema,
    /// Whether an external table or a view has this name.
    pub has_relation: &'a dyn Fn(&str) -> bool,
    /// Whether an index of an external table has this name.
    pub has_index: &'a dyn Fn(&str) -> bool,
}

impl Names<'_> {
    fn is_row_table(&self, name: &ObjectName) -> bool {
        simple(name).is_some_and(|name| self.rows.table(&name).is_ok())
    }

    /// The engine that runs a statement.
    ///
    /// # Errors
    /// If it defines a name that exists in the other engine.
    pub fn dispatch(&self, statement: &Statement) -> Result<Dispatch> {
        match statement.parsed.as_ref() {
            Parsed::Sql(Sql::Sql(ast, _)) => self.ast(ast),
            Parsed::Sql(_) => Ok(Dispatch::Rows),
            Parsed::Explain(Sql::Explain(explained), _) => Ok(match explained.as_ref() {
                Sql::Sql(inner, _) if self.ast(inner)? != Dispatch::Analytic => Dispatch::Explain,
                _ => Dispatch::Analytic,
            }),
            _ => Ok(Dispatch::Analytic),
        }
    }

    fn ast(&self, ast: &Ast) -> Result<Dispatch> {
        Ok(match ast {
            Ast::StartTransaction { .. } | Ast::Commit { .. } | Ast::Rollback { .. } => Dispatch::Rows,
            Ast::Savepoint { .. } | Ast::ReleaseSavepoint { .. } => Dispatch::Rows,
            Ast::CreateProcedure { .. } | Ast::DropProcedure { .. } | Ast::Call(_) => Dispatch::Rows,
            Ast::CreateTable(table) => {
                if let Some(name) = simple(&table.name).filter(|name| (self.has_relation)(name)) {
                    return match table.if_not_exists {
                        true => Ok(Dispatch::Nothing),
                        false => user_err!(DuplicateTable, "{name} is an external table or a view already"),
                    };
                }
                if table.query.is_some() { Dispatch::CreateTableAs } else { Dispatch::Rows }
            }
            Ast::Prepare { .. } => Dispatch::Prepare,
            Ast::Deallocate { .. } => Dispatch::Deallocate,
            Ast::Copy { .. } => Dispatch::Copy,
            Ast::CreateIndex(index) => {
                let name = index.name.as_ref().and_then(simple);
                if !self.is_row_table(&index.table_name) {
                    if let Some(name) = name.filter(|name| self.rows.index(name).is_some()) {
                        return user_err!(DuplicateTable, "index {name} already exists");
                    }
                    return Ok(Dispatch::Analytic);
                }
                if let Some(name) = name.filter(|name| (self.has_index)(name)) {
                    return user_err!(DuplicateTable, "index {name} already exists");
                }
                Dispatch::Rows
            }
            Ast::Insert(Insert { table: TableObject::TableName(name), .. }) if self.is_relation(name) => {
                read_only(name)?
            }
            Ast::Update(update) if let Some(name) = self.relation_of(&update.table) => read_only(name)?,
            Ast::Delete(delete)
                if let Some(name) = deleted_from(delete).iter().find_map(|from| self.relation_of(from)) =>
            {
                read_only(name)?
            }
            Ast::AlterTable(alter) if !self.is_analytic(&alter.name) => {
                for operation in &alter.operations {
                    if let AlterTableOperation::RenameTable {
                        table_name: RenameTableNameKind::To(to) | RenameTableNameKind::As(to),
                    } = operation
                        && self.is_relation(to)
                    {
                        return user_err!(DuplicateTable, "{to} is an external table or a view already");
                    }
                }
                Dispatch::Rows
            }
            Ast::Drop { object_type: ObjectType::Table, names, .. } => {
                if names.iter().any(|name| self.is_row_table(name)) { Dispatch::Rows } else { Dispatch::Analytic }
            }
            Ast::Drop { object_type: ObjectType::Index, names, .. } => {
                let is_ours = |name: &ObjectName| simple(name).is_some_and(|name| self.rows.index(&name).is_some());
                if names.iter().any(is_ours) { Dispatch::Rows } else { Dispatch::Analytic }
            }
            Ast::Insert(Insert { table: TableObject::TableName(name), .. }) if !self.is_analytic(name) => {
                Dispatch::Insert
            }
            Ast::Update(update) if !self.is_analytic_factor(&update.table) => Dispatch::Write,
            Ast::Delete(delete) => {
                let from = deleted_from(delete);
                if from.iter().any(|from| self.is_analytic_factor(from)) { Dispatch::Analytic } else { Dispatch::Write }
            }
            Ast::Truncate(truncate) if !truncate.table_names.iter().all(|table| self.is_analytic(&table.name)) => {
                Dispatch::Rows
            }
            Ast::Merge(merge) => match &merge.table {
                TableFactor::Table { name, .. } if self.is_row_table(name) => Dispatch::Write,
                TableFactor::Table { name, .. } if self.is_relation(name) => read_only(name)?,
                _ => Dispatch::Analytic,
            },
            Ast::CreateView(view) => {
                check_view(view)?;
                Dispatch::Analytic
            }
            Ast::Query(query) => match query.body.as_ref() {
                // WITH ... UPDATE.
                SetExpr::Update(inner) | SetExpr::Delete(inner) | SetExpr::Merge(inner) => self.ast(inner)?,
                _ => self.query(query),
            },
            Ast::ExplainTable { table_name, .. } if self.is_row_table(table_name) => {
                simple(table_name).map_or(Dispatch::Analytic, Dispatch::Describe)
            }
            Ast::ExplainTable { table_name, .. } if self.is_relation(table_name) => {
                simple(table_name).map_or(Dispatch::Analytic, Dispatch::DescribeRelation)
            }
            _ => Dispatch::Analytic,
        })
    }

    /// Whether an external table or a view has this name.
    fn is_relation(&self, name: &ObjectName) -> bool {
        simple(name).is_some_and(|name| (self.has_relation)(&name))
    }

    fn relation_of<'t>(&self, table: &'t TableWithJoins) -> Option<&'t ObjectName> {
        match &table.relation {
            TableFactor::Table { name, .. } if self.is_relation(name) => Some(name),
            _ => None,
        }
    }

    fn is_analytic(&self, name: &ObjectName) -> bool {
        simple(name).is_none_or(|name| (self.has_relation)(&name))
    }

    fn is_analytic_factor(&self, table: &TableWithJoins) -> bool {
        matches!(&table.relation, TableFactor::Table { name, .. } if self.is_analytic(name))
    }

    /// The row engine is tried first if all tables are row tables; queries without tables go to the analytic engine.
    fn query(&self, query: &Query) -> Dispatch {
        let tables = tables_of(query);
        let is_rows = !tables.is_empty() && tables.iter().all(|table| self.is_row_table(table));
        if is_rows { Dispatch::RowsFirst } else { Dispatch::Analytic }
    }
}

fn deleted_from(delete: &Delete) -> &[TableWithJoins] {
    let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &delete.from;
    from
}

fn read_only(name: &ObjectName) -> Result<Dispatch> {
    user_err!(
        WrongObject,
        "{name} is an external table or a view, and these are read only: write objects to an external table's location"
    )
}

/// Whether a statement is independent of row tables: a query without tables, or of external tables and views only.
pub fn needs_no_rows(statement: &Statement, has_relation: impl Fn(&str) -> bool) -> bool {
    match statement.ast() {
        Some(Ast::Query(query)) => {
            tables_of(query).iter().all(|table| simple(table).is_some_and(|name| has_relation(&name)))
        }
        _ => false,
    }
}
