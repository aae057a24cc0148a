//! Changes of a statement in several partitions.

use thermocline_machine::beside;
use thermocline_tables::partition::{Partition, Scope, Transaction};
use thermocline_types::{Result, Value};

use crate::expression::Environment;
use crate::plan::{Routing, Step};
use crate::rows::Outcome;

/// Rows of the table in a partition from which threads pay off.
const ROWS_MIN: usize = 8192;

/// Calls `change` for each participant. For a replicated table, all copies change alike, and only the first reports to
/// `outcome`.
///
/// With `is_apart`, partitions share only the time: no random numbers, no result rows. Then the partitions of a large
/// table change in parallel, each on its own thread, because the transaction holds them all. Results and errors are
/// those of a sequential run.
pub(super) fn for_each_share(
    (step, routing, is_apart): (&Step, &Routing, bool),
    scope: &mut Scope<'_>,
    environment: &Environment,
    parameters: &[Value],
    outcome: &mut Outcome,
    change: impl Fn(&mut Partition, &mut Transaction, &Environment, Option<&mut Outcome>) -> Result<()> + Sync,
) -> Result<()> {
    if step.table.partition_by.is_none() {
        let mark = environment.mark();
        let mut outcome = Some(outcome);
        for (partition, transaction) in scope.all()? {
            environment.rewind(mark);
            change(partition, transaction, environment, outcome.take())?;
        }
        return Ok(());
    }
    match routing {
        Routing::One(_) => {
            if let Some(hash) = routing.one(scope, parameters)? {
                let (partition, transaction) = scope.one(hash)?;
                change(partition, transaction, environment, Some(outcome))?;
            }
            Ok(())
        }
        Routing::Several(_) => {
            let hashes = routing.several(parameters)?;
            for (partition, transaction) in scope.several(&hashes)? {
                change(partition, transaction, environment, Some(outcome))?;
            }
            Ok(())
        }
        _ => {
            let shares: Vec<_> = scope.all()?.collect();
            let is_large = |share: &Share<'_>| share.0.table(step.table.id).is_ok_and(|table| table.rows() >= ROWS_MIN);
            if is_apart && !environment.is_bounded() && shares.iter().filter(|share| is_large(share)).count() > 1 {
                return side_by_side(shares, environment, outcome, change);
            }
            for (partition, transaction) in shares {
                change(partition, transaction, environment, Some(&mut *outcome))?;
            }
            Ok(())
        }
    }
}

/// A partition and the transaction's part in it.
type Share<'a> = (&'a mut Partition, &'a mut Transaction);

fn side_by_side(
    mut shares: Vec<Share<'_>>,
    environment: &Environment,
    outcome: &mut Outcome,
    change: impl Fn(&mut Partition, &mut Transaction, &Environment, Option<&mut Outcome>) -> Result<()> + Sync,
) -> Result<()> {
    let (partition, transaction) = shares.remove(0);
    let apart = environment.apart();
    let (first, others) = beside(
        || change(partition, transaction, environment, Some(&mut *outcome)),
        shares,
        |(partition, transaction)| {
            let environment = apart.environment().with_memory(transaction.memory.take());
            let mut outcome = Outcome::default();
            let changed = change(partition, transaction, &environment, Some(&mut outcome));
            let changed = environment.complete(changed);
            transaction.memory = environment.into_memory();
            if let Some(memory) = &mut transaction.memory {
                memory.end();
            }
            changed.map(|()| outcome.affected)
        },
    );
    first?;
    for affected in others {
        outcome.affected += affected?;
    }
    Ok(())
}
