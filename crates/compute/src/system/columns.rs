//! Builder of system tables' columns: names, types, and functions from rows to values.

use std::fmt;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, Float64Array, RecordBatch, StringArray, UInt64Array};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::Result;

/// The columns of a table whose rows are values of `T`: names, types, and what a row has there.
///
/// ```
/// use thermocline_compute::Columns;
///
/// let columns = Columns::<(String, u64)>::default().text("name", |row| &row.0).number("bytes", |row| row.1);
/// assert_eq!(columns.batch(&[("log".to_owned(), 7)]).unwrap().num_columns(), 2);
/// ```
pub struct Columns<T> {
    columns: Vec<Column<T>>,
}

/// Makes a column of rows.
type Values<T> = Box<dyn Fn(&[T]) -> ArrayRef + Send + Sync>;

struct Column<T> {
    field: Field,
    values: Values<T>,
}

impl<T> Default for Columns<T> {
    fn default() -> Self {
        Self { columns: vec![] }
    }
}

impl<T> fmt::Debug for Columns<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.columns.iter().map(|column| &column.field)).finish()
    }
}

impl<T> Columns<T> {
    /// A column of text.
    pub fn text(self, name: &str, of: impl Fn(&T) -> &str + Send + Sync + 'static) -> Self {
        self.optional_text(name, move |row| Some(of(row)))
    }

    /// A column of text or NULL.
    pub fn optional_text(self, name: &str, of: impl Fn(&T) -> Option<&str> + Send + Sync + 'static) -> Self {
        self.with(name, DataType::Utf8, move |rows| Arc::new(rows.iter().map(&of).collect::<StringArray>()))
    }

    /// A column of numbers.
    pub fn number(self, name: &str, of: impl Fn(&T) -> u64 + Send + Sync + 'static) -> Self {
        self.optional_number(name, move |row| Some(of(row)))
    }

    /// A column of numbers or NULL.
    pub fn optional_number(self, name: &str, of: impl Fn(&T) -> Option<u64> + Send + Sync + 'static) -> Self {
        self.with(name, DataType::UInt64, move |rows| Arc::new(rows.iter().map(&of).collect::<UInt64Array>()))
    }

    /// A column of numbers with a fraction.
    pub fn float(self, name: &str, of: impl Fn(&T) -> f64 + Send + Sync + 'static) -> Self {
        self.optional_float(name, move |row| Some(of(row)))
    }

    /// A column of numbers with a fraction or NULL.
    pub fn optional_float(self, name: &str, of: impl Fn(&T) -> Option<f64> + Send + Sync + 'static) -> Self {
        self.with(name, DataType::Float64, move |rows| Arc::new(rows.iter().map(&of).collect::<Float64Array>()))
    }

    /// A column of true and false.
    pub fn boolean(self, name: &str, of: impl Fn(&T) -> bool + Send + Sync + 'static) -> Self {
        let values = move |rows: &[T]| Arc::new(rows.iter().map(|row| Some(of(row))).collect::<BooleanArray>()) as _;
        self.with(name, DataType::Boolean, values)
    }

    fn with(
        mut self,
        name: &str,
        data_type: DataType,
        values: impl Fn(&[T]) -> ArrayRef + Send + Sync + 'static,
    ) -> Self {
        self.columns.push(Column { field: Field::new(name, data_type, true), values: Box::new(values) });
        self
    }

    /// Names and types.
    pub fn schema(&self) -> SchemaRef {
        Arc::new(Schema::new(self.columns.iter().map(|column| column.field.clone()).collect::<Vec<_>>()))
    }

    /// The rows.
    ///
    /// # Errors
    /// If there is no column.
    pub fn batch(&self, rows: &[T]) -> Result<RecordBatch> {
        let arrays = self.columns.iter().map(|column| (column.values)(rows)).collect();
        Ok(RecordBatch::try_new(self.schema(), arrays)?)
    }
}
