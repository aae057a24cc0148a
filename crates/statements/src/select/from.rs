//! `FROM`.

use sqlparser::ast::{JoinConstraint, JoinOperator, TableFactor, TableWithJoins};
use thermocline_types::{Error, Result};

use crate::bind::Binder;
use crate::names::{fold, object};
use crate::plan::{Joined, conjuncts};

/// Adds the tables to the binder's scope; the position of a table is its slot.
pub fn bind_from(binder: &mut Binder<'_>, from: &[TableWithJoins]) -> Result<Vec<Joined>> {
    let mut tables = Vec::new();
    for item in from {
        tables.push(bind_table(binder, &item.relation)?);
        for join in &item.joins {
            let (outer, constraint) = match &join.join_operator {
                JoinOperator::Join(constraint) | JoinOperator::Inner(constraint) => (false, constraint),
                JoinOperator::Left(constraint) | JoinOperator::LeftOuter(constraint) => (true, constraint),
                JoinOperator::CrossJoin(JoinConstraint::None) => (false, &JoinConstraint::None),
                _ => return Err(Error::unsupported("this kind of join")),
            };
            let mut joined = bind_table(binder, &join.relation)?;
            joined.outer = outer;
            joined.on = match constraint {
                JoinConstraint::On(condition) => conjuncts(binder.condition(condition, "JOIN/ON")?),
                JoinConstraint::None if !outer => Vec::new(),
                _ => return Err(Error::unsupported("a join with USING or NATURAL")),
            };
            tables.push(joined);
        }
    }
    Ok(tables)
}

/// Adds one table, under its alias or name.
pub fn bind_table(binder: &mut Binder<'_>, factor: &TableFactor) -> Result<Joined> {
    let TableFactor::Table { name, alias, args: None, version: None, sample: None, with_ordinality: false, .. } =
        factor
    else {
        return Err(Error::unsupported("something other than a table in FROM"));
    };
    let table = binder.schema().table(&object(name)?)?.clone();
    let alias = match alias {
        None => table.name.clone(),
        Some(alias) if alias.columns.is_empty() => fold(&alias.name)?,
        Some(_) => return Err(Error::unsupported("an alias with columns")),
    };
    binder.add_table(alias, table.clone())?;
    Ok(Joined { table, outer: false, on: Vec::new() })
}
