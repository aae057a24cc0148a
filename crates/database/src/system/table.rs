use std::fmt;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringArray, UInt64Array};
use arrow::datatypes::{Field, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{MemTable, Session, TableProvider};
use datafusion::common::Result;
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;
use thermocline_transactions::database::{Session as RowsSession, Statistics};

use crate::rows::RowSession;

/// Makes the rows of a table; `None` if there is no row engine yet.
pub type MakeRows = fn(Option<&Statistics>) -> Result<RecordBatch>;

/// A system table made of what the row engine holds in memory when the query is planned.
pub struct StatisticsTable {
    session: RowSession,
    rows: MakeRows,
}

impl fmt::Debug for StatisticsTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StatisticsTable")
    }
}

impl StatisticsTable {
    pub fn new(session: RowSession, rows: MakeRows) -> Self {
        Self { session, rows }
    }
}

#[async_trait]
impl TableProvider for StatisticsTable {
    fn schema(&self) -> SchemaRef {
        (self.rows)(None).map_or_else(|_| Arc::new(Schema::empty()), |rows| rows.schema())
    }

    fn table_type(&self) -> TableType {
        TableType::View
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let statistics = match self.session.store().started() {
            Some(_) => Some(self.session.run(RowsSession::statistics).await?),
            None => None,
        };
        let rows = (self.rows)(statistics.as_ref())?;
        MemTable::try_new(rows.schema(), vec![vec![rows]])?.scan(state, projection, filters, limit).await
    }
}

/// Columns by name.
pub fn batch(columns: Vec<(&str, ArrayRef)>) -> Result<RecordBatch> {
    let fields: Vec<Field> =
        columns.iter().map(|(name, array)| Field::new(*name, array.data_type().clone(), true)).collect();
    let arrays = columns.into_iter().map(|(_, array)| array).collect();
    Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)?)
}

pub fn text<T>(rows: &[T], of: impl Fn(&T) -> Option<&str>) -> ArrayRef {
    Arc::new(rows.iter().map(of).collect::<StringArray>())
}

pub fn number<T>(rows: &[T], of: impl Fn(&T) -> Option<usize>) -> ArrayRef {
    Arc::new(rows.iter().map(|row| of(row).map(|number| number as u64)).collect::<UInt64Array>())
}
