//! Type names unknown to DataFusion's planner.

use datafusion::arrow::datatypes::{Field, FieldRef};
use datafusion::common::Result;
use datafusion::logical_expr::planner::TypePlanner;
use datafusion::sql::sqlparser::ast::DataType as Written;
use thermocline_pushdown::{arrow_type, external};
use thermocline_types::{Class, DataType};

/// Plans `UUID` and `JSONB`; rejects `JSON` with a hint.
#[derive(Debug)]
pub struct TypeNames;

impl TypePlanner for TypeNames {
    fn plan_type_field(&self, written: &Written) -> Result<Option<FieldRef>> {
        let of = match written {
            Written::Uuid => DataType::Uuid,
            Written::JSONB => DataType::Jsonb,
            Written::JSON => {
                let message = "type JSON, which keeps texts as they are written: use JSONB";
                return Err(external(Class::Unsupported.error(message)));
            }
            _ => return Ok(None),
        };
        Ok(arrow_type(of).map(|of| Field::new("", of, true).into()))
    }
}
