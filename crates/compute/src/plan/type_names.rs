//! Names of types that DataFusion's planner does not know.

use datafusion::arrow::datatypes::{DataType as ArrowType, Field, FieldRef};
use datafusion::common::Result;
use datafusion::logical_expr::planner::TypePlanner;
use datafusion::sql::sqlparser::ast::DataType as Written;
use thermocline_pushdown::UUID_WIDTH;

/// `UUID`.
#[derive(Debug)]
pub(crate) struct TypeNames;

impl TypePlanner for TypeNames {
    fn plan_type_field(&self, written: &Written) -> Result<Option<FieldRef>> {
        Ok(match written {
            Written::Uuid => Some(Field::new("", ArrowType::FixedSizeBinary(UUID_WIDTH), true).into()),
            _ => None,
        })
    }
}
