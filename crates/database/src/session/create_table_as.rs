//! CREATE TABLE AS for row tables: a definition, and a load of the rows of a query.

use std::sync::Arc;

use arrow::datatypes::Schema as ArrowSchema;
use datafusion::common::Result;
use datafusion::sql::sqlparser::ast::{ColumnDef, CreateTable, Ident, Statement as Ast};
use thermocline_compute::EngineStream;
use thermocline_syntax::make_printable;
use thermocline_transactions::database::{Load, RowSession, StatementResult};
use thermocline_transactions::interrupt::Interrupt;
use thermocline_transactions::schema::{Change, TableDefinition, TableId, write_identifier};
use thermocline_transactions::sql::define;
use thermocline_types::{Class, Error, Result as RowResult};

use super::dispatch::Dispatch;
use super::insert::{load_all, of_texts};
use super::prepared_statements::written_type;
use super::session::{Session, is_of_planning};
use crate::arrow::{check_assignment, column_type};
use crate::bridge::{external, row_error};
use crate::rows::RowStore;
use crate::statement::{Statement, simple};

/// `CREATE TABLE t AS SELECT ...`, `CREATE TABLE t (PRIMARY KEY (k)) AS SELECT ...`:
///
/// ```text
/// query --first rows--> CREATE TABLE, with the query's columns unless it has its own
///   |                        |
///   +----- all rows ------> load, hidden until all of them are there --an error, Ctrl-C--> DROP TABLE
/// ```
///
/// The table is created after the query has been planned and has begun. With `OR REPLACE` it has another name until all
/// rows are there, and then takes the name of the table that it replaces, which the query may read.
impl Session {
    pub(super) async fn create_table_as(
        &self,
        statement: Statement,
        interrupt: &Arc<Interrupt>,
    ) -> Result<EngineStream> {
        let Some((mut table, query)) = parts(&statement)? else { return self.rows(statement, interrupt).await };
        if self.in_transaction() {
            return Err(external(Class::ActiveTransaction.error("a definition is a transaction of its own")));
        }
        let name = simple(&table.name).unwrap_or_default();
        let exists = || Class::DuplicateTable.error(format_args!("table \"{name}\" already exists"));
        let replaced = (table.or_replace && self.row_schema().table(&name).is_ok()).then(|| name.clone());
        if replaced.is_none() && self.row_schema().table(&name).is_ok() {
            return if table.if_not_exists { Ok(self.engine().nothing()) } else { Err(external(exists())) };
        }
        let rows = match self.analytic_load(query.clone(), interrupt).await {
            Err(error) if is_of_planning(&error) && self.dispatch(&query)? == Dispatch::RowsFirst => {
                self.unbounded(query.clone(), interrupt, error).await?
            }
            rows => rows?,
        };
        let columns = query.headings().of_schema(&rows.schema);
        if table.columns.is_empty() {
            table.columns = columns.fields().iter().map(|field| defined(field)).collect::<Result<_>>()?;
        }
        // A table that another session has created meanwhile must not be filled.
        let may_exist = std::mem::replace(&mut table.if_not_exists, false);
        table.or_replace = false;
        if replaced.is_some() {
            let unfinished = format!("{name}?new");
            if self.row_schema().table(&unfinished).is_ok() {
                // Of a process that has ended while it filled it; that of another session is in use.
                let mut drop = "DROP TABLE IF EXISTS ".to_owned();
                write_identifier(&mut drop, &unfinished).map_err(|error| external(Error::internal(error)))?;
                let dropped = move |session: &mut RowSession| session.execute(&drop, &[]).map(|_| ());
                self.rows.statement(interrupt, dropped).await?;
            }
            table.name = vec![Ident::with_quote('"', unfinished)].into();
        }
        let mut definition = Ast::CreateTable(table);
        make_printable(&mut definition);
        let definition = definition.to_string();
        let (_, change) = define(&self.row_schema(), &definition).map_err(external)?;
        let Change::CreateTable(defined) = change else { return Err(external(exists())) };
        check_columns(&defined, &columns)?;
        let types = defined.listed_columns().map(|(_, column)| column.data_type);
        let rows = match of_texts(&query, types, &rows.schema)? {
            Some(texts) => {
                drop(rows);
                self.analytic_load(texts, interrupt).await?
            }
            None => rows,
        };
        let store = Arc::clone(self.rows.store());
        let begin = move |session: &mut RowSession| Filling::begin(session, store, &definition, &defined);
        let filling = match self.rows.statement(interrupt, begin).await {
            Err(error) if may_exist && matches!(row_error(&error), Some(Error::User(Class::DuplicateTable, _))) => {
                return Ok(self.engine().nothing());
            }
            filling => filling?,
        };
        let fill = move |batches| {
            let Filling { load, mut table } = filling;
            let rows = load_all(load, batches)?;
            match replaced {
                // The one that it has replaced goes.
                Some(name) => table.take_name(&name)?,
                None => table.is_kept = true,
            }
            Ok(rows)
        };
        let affected = self.feed((vec![], rows), interrupt, fill).await?;
        self.streamed(&StatementResult { affected, ..StatementResult::default() })
    }
}

/// Splits the statement into the table definition and the query.
fn parts(statement: &Statement) -> Result<Option<(CreateTable, Statement)>> {
    let Some(Ast::CreateTable(table)) = statement.ast() else { return Ok(None) };
    let mut table = table.clone();
    let Some(query) = table.query.take() else { return Ok(None) };
    Ok(Some((table, statement.part(Ast::Query(query))?)))
}

/// The table column for a column of the query.
fn defined(field: &arrow::datatypes::Field) -> Result<ColumnDef> {
    let Some(data_type) = column_type(field.data_type()) else {
        return Err(external(Class::Unsupported.error(format_args!(
            "column \"{}\" of the query is {}, of which no row table has values: write a CAST",
            field.name(),
            field.data_type()
        ))));
    };
    let name = Ident::with_quote('"', field.name());
    Ok(ColumnDef { name, data_type: written_type(data_type)?, options: vec![] })
}

/// Checks that the columns of the query match the table and may be stored in it.
fn check_columns(table: &TableDefinition, query: &ArrowSchema) -> Result<()> {
    let (given, wanted) = (query.fields().len(), table.listed_columns().count());
    if given != wanted {
        return Err(external(Class::Syntax.error(format_args!(
            "CREATE TABLE {} AS: the query has {given} columns, and the table {wanted}",
            table.name
        ))));
    }
    table
        .listed_columns()
        .zip(query.fields())
        .try_for_each(|((_, column), field)| check_assignment(field, &table.name, &column.name, column.data_type))
}

/// A new table being filled. Fields are dropped in order: the load before the table.
struct Filling {
    load: Load,
    table: NewTable,
}

impl Filling {
    fn begin(
        session: &mut RowSession,
        store: Arc<RowStore>,
        definition: &str,
        table: &TableDefinition,
    ) -> RowResult<Self> {
        session.execute(definition, &[])?;
        let id = store.engine()?.schema().table(&table.name)?.id;
        let made = NewTable { store, name: table.name.clone(), id, is_kept: false };
        let columns: Vec<&str> = table.listed_columns().map(|(_, column)| &*column.name).collect();
        Ok(Self { load: session.load(&table.name, &columns)?, table: made })
    }
}

/// Guard that drops the new table unless it is kept, also if the statement is dropped.
struct NewTable {
    store: Arc<RowStore>,
    name: Box<str>,
    id: TableId,
    is_kept: bool,
}

impl NewTable {
    /// Takes the name of a table, which gets the name of this one, and is left to be dropped.
    fn take_name(&mut self, name: &str) -> RowResult<()> {
        let database = self.store.engine()?;
        let mut alter = "ALTER TABLE ".to_owned();
        write_identifier(&mut alter, &self.name).map_err(Error::internal)?;
        let (old, rest) = match database.schema().table(name) {
            Ok(table) => (Some(table.id), " SWAP WITH "),
            // Somebody has dropped it meanwhile.
            Err(_) => (None, " RENAME TO "),
        };
        alter.push_str(rest);
        write_identifier(&mut alter, name).map_err(Error::internal)?;
        database.session().execute(&alter, &[])?;
        match old {
            Some(id) => self.id = id,
            None => self.is_kept = true,
        }
        Ok(())
    }

    fn remove(&self) -> RowResult<()> {
        let database = self.store.engine()?;
        if database.schema().table(&self.name).is_ok_and(|table| table.id == self.id) {
            let mut drop = "DROP TABLE ".to_owned();
            write_identifier(&mut drop, &self.name).map_err(Error::internal)?;
            database.session().execute(&drop, &[])?;
        }
        Ok(())
    }
}

impl Drop for NewTable {
    fn drop(&mut self) {
        if !self.is_kept
            && let Err(error) = self.remove()
        {
            tracing::error!("table {} is left without the rows that it was created for: {error}", self.name);
        }
    }
}
