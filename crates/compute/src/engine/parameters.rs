//! Types of the parameters of a statement that is to be prepared.

use datafusion::common::Result;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{DataType, Ident, Statement as Ast};
use futures::FutureExt;
use futures::future::BoxFuture;
use thermocline_pushdown::sql_type;
use thermocline_types::DataType as SqlType;

use super::engine::AnalyticEngine;
use super::options::StatementOptions;

impl AnalyticEngine {
    /// The types of the places of a statement's parameters without declared types, by position; `None` where DataFusion
    /// knows none. Parameters above `$max` are left out.
    ///
    /// # Errors
    /// If it cannot be planned with parameters of the declared types.
    pub fn parameter_types<'a>(
        &'a self,
        declared: &'a [DataType],
        statement: &'a Ast,
        max: usize,
        options: &'a StatementOptions,
    ) -> BoxFuture<'a, Result<Vec<Option<SqlType>>>> {
        self.places(declared, statement, max, options).boxed()
    }

    /// [`AnalyticEngine::parameter_types`], compiled here alone.
    async fn places(
        &self,
        declared: &[DataType],
        statement: &Ast,
        max: usize,
        options: &StatementOptions,
    ) -> Result<Vec<Option<SqlType>>> {
        if !declared.is_empty() {
            let (name, data_types) = (Ident::new("prepared"), declared.to_vec());
            let prepare = Ast::Prepare { name, data_types, statement: Box::new(statement.clone()) };
            return self.plan(Statement::Statement(Box::new(prepare)), options).await.map(|_| vec![]);
        }
        let plan = self.plan(Statement::Statement(Box::new(statement.clone())), options).await?;
        // One that stands in two places of two types has none of them.
        let fields = plan.get_parameter_fields().unwrap_or_default();
        let mut types = vec![];
        for (name, field) in fields {
            let number = name.strip_prefix('$').and_then(|digits| digits.parse::<usize>().ok());
            let Some(position) = number.filter(|number| *number <= max).and_then(|n| n.checked_sub(1)) else {
                continue;
            };
            if types.len() <= position {
                types.resize(position + 1, None);
            }
            if let Some(place) = types.get_mut(position) {
                *place = field.and_then(|field| sql_type(field.data_type()));
            }
        }
        Ok(types)
    }
}
