//! Filters that operators above make while a query runs: hash joins the range, the list, the set or a Bloom filter of
//! their build keys, a top-K its bound.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::physical_expr::expressions::{
    BinaryExpr, CastExpr, Column, DynamicFilterPhysicalExpr, DynamicFilterTracking, InListExpr, Literal,
};
use datafusion::physical_expr::utils::reassign_expr_columns;
use datafusion::physical_expr::{PhysicalExpr, conjunction_opt, split_conjunction};
use datafusion::physical_expr_common::physical_expr::snapshot_physical_expr;
use futures::future::join_all;
use thermocline_pushdown::{BloomFilter, BloomFilterExpr, KeySet, KeySetExpr};

use crate::join::FilterMaker;

/// Wait of a scan for all of its filters together. A join wants no row of a scan before the scan's
/// filter is final, but operators in between (one that brings partitions together, an inner join's
/// build side) ask for rows as soon as the query starts. A scan that has waited this long for a slow
/// build side then works beside it, unfiltered.
pub(super) const WAIT_MAX: Duration = Duration::from_secs(10);

/// Share of rows in memory above which testing them with a Bloom filter is no faster than the joins that
/// drop them.
const PASSING_HERE_MAX: f64 = 0.125;
/// The same with a set of keys, which is tested in a tenth of the time.
pub(super) const PASSING_SET_MAX: f64 = 0.5;

/// A filter that an operator above the scan is still making.
#[derive(Debug, Clone)]
pub(super) struct DynamicFilter {
    /// In terms of the table's columns.
    expression: Arc<dyn PhysicalExpr>,
    /// The hash join that finishes it before it wants the scan's rows; `None` for a filter that is not waited
    /// for, such as a top-K's, which is final only when all rows have come.
    maker: Option<FilterMaker>,
}

impl DynamicFilter {
    /// `expression` (over the scan's output columns) as a filter over the table; `None` if it is an
    /// ordinary expression.
    pub(super) fn new(expression: &Arc<dyn PhysicalExpr>, table: &SchemaRef) -> Result<Option<Self>> {
        if expression.downcast_ref::<DynamicFilterPhysicalExpr>().is_none() {
            return Ok(None);
        }
        let expression = reassign_expr_columns(Arc::clone(expression), table)?;
        Ok(Some(Self { expression, maker: None }))
    }

    /// The expression, by which its maker sees that it is used.
    pub(super) fn expression(&self) -> &Arc<dyn PhysicalExpr> {
        &self.expression
    }

    /// The same, waited for if its maker is among `makers` (by the filter's id).
    pub(super) fn awaited_if(&self, makers: &HashMap<u64, FilterMaker>) -> Self {
        match self.expression.expression_id().and_then(|id| makers.get(&id)) {
            Some(maker) => Self { maker: Some(maker.clone()), ..self.clone() },
            None => self.clone(),
        }
    }

    /// Whether rows go through other operators before they reach the filter's maker, work that a
    /// filter at the scan saves. A join that stands on the scan itself looks a key up about as fast as
    /// a Bloom filter does.
    pub(super) fn saves_work(&self) -> bool {
        self.maker.as_ref().is_some_and(|maker| !maker.direct)
    }

    /// All build keys and no others, over the table's columns, if the join has one key and its values are known and lie
    /// close together.
    pub(super) fn key_set(&self) -> Option<Keys> {
        let set = self.maker.as_ref()?.keys.as_ref()?.set()?;
        match self.expression.children().as_slice() {
            [key] => Some(Keys { key: Arc::clone(key), set }),
            _ => None,
        }
    }

    /// The Bloom filter of the build keys, over the table's columns, if there is one that says more
    /// than what [`current_predicate`] has. A list is exact and needs none beside it.
    ///
    /// # Errors
    /// If the filter cannot be read.
    pub(super) fn bloom(&self) -> Result<Option<Bloom>> {
        let Some(filter) = self.maker.as_ref().and_then(|maker| maker.keys.as_ref()?.filter()) else {
            return Ok(None);
        };
        let keys: Vec<_> = self.expression.children().into_iter().cloned().collect();
        let snapshot = snapshot_physical_expr(Arc::clone(&self.expression))?;
        let listed = split_conjunction(&snapshot)
            .into_iter()
            .any(|term| term.downcast_ref::<InListExpr>().is_some() && is_plain(term));
        if listed || !keys.iter().all(is_safe_key) {
            return Ok(None);
        }
        Ok(Some(Bloom { keys, filter }))
    }

    /// Waits until the filter is final, if that can be waited for.
    ///
    /// DataFusion 55's `wait_complete` alone may wait for ever. It looks at the filter's flag and
    /// then subscribes to a `tokio::sync::watch` channel; `mark_complete` sets the flag and then
    /// sends. A channel without a subscriber keeps nothing of what is sent, so that who looks before
    /// the flag is set and subscribes after the sending finds "in progress" for good. A subscription
    /// that exists before the look makes the channel keep the value.
    async fn ready(&self) {
        if self.maker.is_some()
            && let Some(filter) = self.expression.downcast_ref::<DynamicFilterPhysicalExpr>()
        {
            let _subscription = DynamicFilterTracking::classify(&self.expression);
            filter.wait_complete().await;
        }
    }
}

/// Waits until all filters are final that can be waited for, at most `wait_max` in all. Returns
/// whether they are.
pub(super) async fn all_ready(filters: &[DynamicFilter], wait_max: Duration) -> bool {
    tokio::time::timeout(wait_max, join_all(filters.iter().map(DynamicFilter::ready))).await.is_ok()
}

/// The filters' present state as an ordinary predicate over the table's columns: comparisons and
/// lists of values, which prune and travel. `None` if they say nothing of that kind.
pub(super) fn current_predicate(filters: &[DynamicFilter]) -> Result<Option<Arc<dyn PhysicalExpr>>> {
    let mut terms = vec![];
    for filter in filters {
        let snapshot = snapshot_physical_expr(Arc::clone(&filter.expression))?;
        terms.extend(split_conjunction(&snapshot).into_iter().filter(|term| is_plain(term)).map(Arc::clone));
    }
    Ok(conjunction_opt(terms))
}

/// Lists of values of single columns in a predicate over the table: column and number of values.
/// Statistics know ranges but not lists.
pub(super) fn lists(predicate: &Arc<dyn PhysicalExpr>) -> Vec<(usize, u64)> {
    let list = |term: &Arc<dyn PhysicalExpr>| {
        let list = term.downcast_ref::<InListExpr>().filter(|list| !list.negated())?;
        Some((list.expr().downcast_ref::<Column>()?.index(), list.len() as u64))
    };
    split_conjunction(predicate).into_iter().filter_map(list).collect()
}

/// The predicate without lists; `None` if nothing is left.
pub(super) fn without_lists(predicate: &Arc<dyn PhysicalExpr>) -> Option<Arc<dyn PhysicalExpr>> {
    let terms = split_conjunction(predicate).into_iter().filter(|term| term.downcast_ref::<InListExpr>().is_none());
    conjunction_opt(terms.map(Arc::clone))
}

/// Whether a term is made of columns, literals, binary operators, casts and lists only, and is not a mere literal.
fn is_plain(term: &Arc<dyn PhysicalExpr>) -> bool {
    let mut plain = term.downcast_ref::<Literal>().is_none();
    let walked = term.apply(|node| {
        let known = node.downcast_ref::<Column>().is_some()
            || node.downcast_ref::<Literal>().is_some()
            || node.downcast_ref::<BinaryExpr>().is_some()
            || node.downcast_ref::<InListExpr>().is_some()
            || node.downcast_ref::<CastExpr>().is_some();
        plain &= known;
        Ok(if known { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    });
    plain && walked.is_ok()
}

/// Whether a key can be evaluated for any row without an error, as a column can: the filter sees
/// rows that other filters would have kept from the join.
fn is_safe_key(key: &Arc<dyn PhysicalExpr>) -> bool {
    key.downcast_ref::<Column>().is_some()
}

/// A Bloom filter of a join's build keys, for the rows of a table.
#[derive(Debug, Clone)]
pub(super) struct Bloom {
    /// In terms of the table's columns.
    keys: Vec<Arc<dyn PhysicalExpr>>,
    filter: Arc<BloomFilter>,
}

impl Bloom {
    /// Size in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.filter.bytes()
    }

    /// The same keys in the filter that, sent to a node for `answer` bytes of which foreign keys make up
    /// all but `share`, costs the fewest bytes in both directions: a smaller one lets more
    /// foreign keys pass.
    pub(super) fn fitted(&self, answer: f64, share: f64) -> Self {
        let foreign = answer * (1.0 - share);
        let cost = |filter: &BloomFilter| filter.bytes() as f64 + foreign * filter.false_positive_rate();
        let mut best = Arc::clone(&self.filter);
        for rate in [0.03, 0.1, 0.3] {
            let smaller = best.as_ref().clone().shrunk(rate);
            if cost(&smaller) < cost(&best) {
                best = Arc::new(smaller);
            }
        }
        Self { keys: self.keys.clone(), filter: best }
    }

    /// About how many keys it holds.
    pub(super) fn key_count(&self) -> u64 {
        self.filter.keys()
    }

    /// Position of the key in the table; `None` if there are several.
    pub(super) fn single_column(&self) -> Option<usize> {
        match self.keys.as_slice() {
            [key] => key.downcast_ref::<Column>().map(Column::index),
            _ => None,
        }
    }

    /// The filter over the columns of `schema`.
    ///
    /// # Errors
    /// If a key column is not in it.
    pub(super) fn predicate(&self, schema: &SchemaRef) -> Result<Arc<dyn PhysicalExpr>> {
        Ok(Arc::new(self.expression(schema)?))
    }

    /// The same for rows that are in memory already, where it pays only if it drops most of them.
    ///
    /// # Errors
    /// If a key column is not in it.
    pub(super) fn predicate_here(&self, schema: &SchemaRef) -> Result<Arc<dyn PhysicalExpr>> {
        Ok(Arc::new(self.expression(schema)?.resting_above(PASSING_HERE_MAX)))
    }

    fn expression(&self, schema: &SchemaRef) -> Result<BloomFilterExpr> {
        let keys: Result<_> = self.keys.iter().map(|key| reassign_expr_columns(Arc::clone(key), schema)).collect();
        Ok(BloomFilterExpr::new(keys?, Arc::clone(&self.filter)))
    }
}

/// All keys of a join's build side, for the rows of a table.
#[derive(Debug, Clone)]
pub(super) struct Keys {
    /// In terms of the table's columns.
    key: Arc<dyn PhysicalExpr>,
    set: Arc<KeySet>,
}

impl Keys {
    /// Number of different keys.
    pub(super) fn count(&self) -> u64 {
        self.set.len()
    }

    /// Position of the key in the table; `None` if it is not a column.
    pub(super) fn column(&self) -> Option<usize> {
        self.key.downcast_ref::<Column>().map(Column::index)
    }

    /// The set over the columns of `schema`.
    ///
    /// # Errors
    /// If the key is not in it.
    pub(super) fn predicate(&self, schema: &SchemaRef) -> Result<Arc<dyn PhysicalExpr>> {
        let key = reassign_expr_columns(Arc::clone(&self.key), schema)?;
        Ok(Arc::new(KeySetExpr::new(key, Arc::clone(&self.set), PASSING_SET_MAX)))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::hint::spin_loop;
    use std::pin::pin;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context, Waker};

    use arrow::datatypes::{DataType, Field, Schema};
    use datafusion::physical_expr::expressions::{col, lit};

    use super::*;

    const ROUNDS: usize = 50_000;

    fn awaited(filter: Arc<DynamicFilterPhysicalExpr>) -> DynamicFilter {
        DynamicFilter { expression: filter, maker: Some(FilterMaker { keys: None, direct: true }) }
    }

    fn new_filter() -> Arc<DynamicFilterPhysicalExpr> {
        let schema = Schema::new(vec![Field::new("key", DataType::Int64, true)]);
        Arc::new(DynamicFilterPhysicalExpr::new(vec![col("key", &schema).unwrap()], lit(true)))
    }

    /// Two threads meet here in every round. They spin, because one that slept would go on too late.
    fn meet(arrived: &AtomicUsize, round: usize) {
        arrived.fetch_add(1, Ordering::SeqCst);
        let mut spins = 0_u32;
        while arrived.load(Ordering::SeqCst) < 2 * (round + 1) {
            spin_loop();
            spins += 1;
            if spins.is_multiple_of(10_000) {
                std::thread::yield_now();
            }
        }
    }

    /// Filters that are waited for until `wait` ends, each completed at another moment around that in
    /// which the waiting begins. Returns how many are complete and still waited for.
    fn stuck(wait: impl AsyncFn(&DynamicFilter)) -> usize {
        // Longer than it takes to begin to wait.
        const SPINS_MAX: usize = 32;
        let filters: Vec<_> = (0..ROUNDS).map(|_| new_filter()).collect();
        let (begin, end) = (AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for (round, filter) in filters.iter().enumerate() {
                    meet(&begin, round);
                    (0..round % SPINS_MAX).for_each(|_| spin_loop());
                    filter.mark_complete();
                    meet(&end, round);
                }
            });
            let mut context = Context::from_waker(Waker::noop());
            filters
                .iter()
                .enumerate()
                .map(|(round, filter)| {
                    let filter = awaited(Arc::clone(filter));
                    let mut waiting = pin!(wait(&filter));
                    meet(&begin, round);
                    (0..round / SPINS_MAX % SPINS_MAX).for_each(|_| spin_loop());
                    let early = waiting.as_mut().poll(&mut context).is_ready();
                    meet(&end, round);
                    usize::from(!early && waiting.poll(&mut context).is_pending())
                })
                .sum()
        })
    }

    #[test]
    fn a_filter_completed_at_any_moment_is_heard_of() {
        let alone = stuck(async |filter| {
            filter.expression.downcast_ref::<DynamicFilterPhysicalExpr>().unwrap().wait_complete().await;
        });
        // Of how many it is depends on the machine; with 0, this test shows nothing.
        println!("of {ROUNDS} scans, {alone} are stuck with wait_complete alone");
        assert_eq!(stuck(DynamicFilter::ready), 0, "of {ROUNDS} scans wait for a filter that is complete");
    }

    #[tokio::test]
    async fn only_filters_of_hash_joins_are_awaited() {
        let wait = Duration::from_millis(20);
        let mut filters: Vec<_> = (0..4).map(|_| awaited(new_filter())).collect();
        assert!(!all_ready(&filters, wait).await);
        filters.iter_mut().for_each(|filter| filter.maker = None);
        let complete = new_filter();
        complete.mark_complete();
        filters.push(awaited(complete));
        assert!(all_ready(&filters, Duration::from_secs(3600)).await);
    }
}
