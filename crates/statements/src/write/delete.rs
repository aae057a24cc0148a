//! `DELETE`.

use sqlparser::ast::{self, FromTable};
use thermocline_tables::partition::Scope;
use thermocline_types::{Error, Result, Value};

use super::shares::for_each_share;
use super::update::{Unread, matching, one_step, unread_by_key};
use super::{Returning, bind_returning};
use crate::bind::Binder;
use crate::expression::{Environment, Expr, Source};
use crate::heap_size::heap_size;
use crate::plan::{Access, Needs, Routing, Step, Work, explain_steps};
use crate::rows::{Outcome, OutputColumn};
use crate::select::bind_table;

/// A planned `DELETE`.
#[derive(Debug, Clone)]
pub(crate) struct Delete {
    pub step: Step,
    pub routing: Routing,
    returning: Returning,
    /// Whether partitions are independent; see [`for_each_share`].
    is_apart: bool,
    /// Whether it needs no more of its rows than their keys, so that evicted ones need not be read.
    is_blind: bool,
    /// Whether it scans for rows, and needs no more of those that it has read than their keys.
    takes_scanned: bool,
}

heap_size! { Delete: step routing returning; }

impl Delete {
    pub fn bind(binder: &mut Binder<'_>, delete: &ast::Delete) -> Result<(Self, Vec<OutputColumn>)> {
        let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &delete.from;
        let plain = delete.tables.is_empty()
            && delete.using.is_none()
            && delete.output.is_none()
            && delete.order_by.is_empty()
            && delete.limit.is_none();
        let ([table], true) = (from.as_slice(), plain) else { return Err(Error::unsupported("this DELETE")) };
        if !table.joins.is_empty() {
            return Err(Error::unsupported("DELETE with a join"));
        }
        let joined = bind_table(binder, &table.relation)?;
        let condition = delete.selection.as_ref().map(|condition| binder.condition(condition, "WHERE")).transpose()?;
        let (returning, columns) = bind_returning(binder, delete.returning.as_ref())?;
        let is_apart = returning.outputs.is_empty() && !condition.as_ref().is_some_and(Expr::is_volatile);
        let (mut step, routing) = one_step(joined, condition)?;
        let is_blind = returning.outputs.is_empty() && step.take_keys().is_some();
        let takes_scanned = returning.outputs.is_empty() && matches!(step.access, Access::Scan);
        if takes_scanned {
            // Their keys, even without a condition.
            step.needs = Needs::Row;
        }
        Ok((Self { step, routing, returning, is_apart, is_blind, takes_scanned }, columns))
    }

    pub fn explain(&self) -> Vec<String> {
        let work = if self.is_blind { Work::ChangesUnread } else { Work::Changes };
        explain_steps(std::slice::from_ref(&self.step), &self.routing, work)
    }

    pub fn run(
        &self,
        scope: &mut Scope<'_>,
        environment: &Environment,
        parameters: &[Value],
        outcome: &mut Outcome,
    ) -> Result<()> {
        let table = self.step.table.id;
        let shares = (&self.step, &self.routing, self.is_apart);
        for_each_share(
            shares,
            scope,
            environment,
            parameters,
            outcome,
            |partition, transaction, environment, mut outcome| {
                let mut memory = environment.structure("rows to delete");
                let unread = match self.takes_scanned && partition.deletes_by_keys(partition.table(table)?) {
                    true => Unread::Scanned,
                    false => unread_by_key(self.is_blind, &self.step, partition)?,
                };
                let found = matching(&self.step, partition, environment, parameters, &mut memory, unread)?;
                for (number, id) in found.ids.into_iter().enumerate() {
                    environment.check_at(number)?;
                    environment.next_row();
                    if let Some(outcome) = &mut outcome {
                        outcome.affected += 1;
                        if !self.returning.outputs.is_empty() {
                            let row = Source::Row(partition.table(table)?.row(id)?);
                            self.returning.push(&mut outcome.rows, row, parameters, environment)?;
                        }
                    }
                    match found.unread.get(&id) {
                        Some(key_row) => {
                            partition.table_mut(table)?.delete_unread(id, key_row, &mut transaction.undo)?;
                        }
                        None => partition.delete(table, id, transaction)?,
                    }
                }
                Ok(())
            },
        )
    }
}
