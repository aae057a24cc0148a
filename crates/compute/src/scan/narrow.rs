//! Filters that joins have made, applied to a scan before it begins.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::common::{DataFusionError, Result};
use datafusion::physical_expr::utils::reassign_expr_columns;
use datafusion::physical_expr::{PhysicalExpr, conjunction_opt};
use thermocline_catalog::{Partition, PartitionSet, PlannedObject};
use thermocline_pushdown::{Fragment, Limits};

use super::dynamic_filter::{Bloom, DynamicFilter, PASSING_SET_MAX, current_predicate, lists, without_lists};
use super::scan_plan::{Narrowing, ScanPlan, input_statistics, rows_of, selectivity};
use crate::query::ScanMetrics;

/// Share of rows that a Bloom filter over several columns, or over one without bounds, is taken to let pass.
const SHARE_OF_SEVERAL: f64 = 0.25;

/// The scan as it is now that joins have made their filters: fewer partitions, fewer rows.
///
/// # Errors
/// If a filter does not fit the scan's columns.
pub(super) fn narrowed(scan: &ScanPlan, filters: &[DynamicFilter], metrics: &ScanMetrics) -> Result<ScanPlan> {
    let predicate = current_predicate(filters)?;
    let mut partitions = scan.partitions().to_vec();
    let mut set = scan.partition_set().clone();
    if let Some(predicate) = &predicate {
        let (pruned, kept) = set.prune(predicate);
        set = pruned;
        let mut kept = kept.into_iter();
        partitions.retain(|_| kept.next().unwrap_or(true));
    }
    let blooms = useful_blooms(scan, filters, &partitions, &set)?;
    let input = scan.fragment().input_schema();
    let keys_here = keys_here(filters, metrics, &set, &input)?;
    if predicate.is_none() && blooms.is_empty() && keys_here.is_none() {
        return Ok(scan.clone());
    }
    metrics.partitions_pruned.add(scan.partitions().len() - partitions.len());
    metrics.bloom_filters.add(blooms.len());
    let mut here = scan.fragment().with_statistics(input_statistics(&input, scan.columns(), &partitions, &set))?;
    let (plain, mut there) = (here.clone(), here.clone());
    let selectivity = expected_selectivity(&plain, (predicate.as_ref(), &blooms), &set, rows_of(&partitions))?;
    // The keys are tested first; what is left of a list prunes row groups and pages.
    let mut keyed = keys_here.map(|keys| here.with_filter_below(keys)).transpose()?;
    if let Some(predicate) = predicate {
        let reassigned = reassign_expr_columns(Arc::clone(&predicate), &input)?;
        there = here.with_filter_below(Arc::clone(&reassigned))?;
        if expects_less(&here, &predicate, &set)? {
            here = there.clone();
            keyed = keyed.map(|keyed| keyed.with_filter_below(reassigned)).transpose()?;
        }
    }
    // Values of one execution are not part of what is remembered of the fragment.
    let mut shape = scan.shape();
    for bloom in &blooms {
        shape = shape.in_case_of(bloom.single_column());
        there = there.with_filter_below(bloom.predicate(&input)?)?;
    }
    let fragment = if blooms.is_empty() { here.clone() } else { there };
    let here = keyed.or_else(|| (!blooms.is_empty()).then_some(here));
    Ok(scan.narrowed(Narrowing { partitions, set, plain, there: fragment, here, shape, selectivity }))
}

/// Share of the rows that `fragment` selects with a predicate and Bloom filters that joins have made.
///
/// Statistics know ranges, but no lists of values and no Bloom filters. The values of these are taken to be spread
/// evenly over those that the probe column may have: between its bounds, and no more than there are rows. They are taken
/// to be independent of each other, but not of the ranges: a join that makes a list or a Bloom filter makes its range too.
fn expected_selectivity(
    fragment: &Fragment,
    (predicate, blooms): (Option<&Arc<dyn PhysicalExpr>>, &[Bloom]),
    set: &PartitionSet,
    rows: u64,
) -> Result<f64> {
    let ranges = predicate.and_then(without_lists);
    let ranges = ranges.map(|ranges| reassign_expr_columns(ranges, &fragment.input_schema())).transpose()?;
    let ranged = ranges.map(|ranges| fragment.with_filter_below(ranges)).transpose()?;
    let ranged = ranged.map_or(1.0, |ranged| selectivity(&ranged, rows));
    let share = |column, values: u64| {
        let of_values = share_of(column, values, set).unwrap_or(0.0);
        of_values.max(values as f64 / rows.max(1) as f64).min(1.0)
    };
    let listed = predicate.map(lists).unwrap_or_default();
    let listed = listed.into_iter().map(|(column, values)| share(column, values));
    let of_blooms = blooms
        .iter()
        .map(|bloom| bloom.single_column().map_or(SHARE_OF_SEVERAL, |column| share(column, bloom.key_count())));
    Ok(ranged.min(selectivity(fragment, rows) * listed.chain(of_blooms).product::<f64>()))
}

/// Whether at most half of the rows that `fragment` yields are expected to pass `predicate` too.
/// A filter that keeps most rows costs a copy of them here and saves little on the wire; the
/// join drops the rest anyway.
fn expects_less(fragment: &Fragment, predicate: &Arc<dyn PhysicalExpr>, set: &PartitionSet) -> Result<bool> {
    let listed = |(column, values)| share_of(column, values, set).is_some_and(|share| share <= 0.5);
    if lists(predicate).into_iter().any(listed) {
        return Ok(true);
    }
    let Some(ranges) = without_lists(predicate) else {
        return Ok(false);
    };
    let filtered = fragment.with_filter_below(reassign_expr_columns(ranges, &fragment.input_schema())?)?;
    let rows = |fragment: &Fragment| Ok::<_, DataFusionError>(fragment.statistics()?.num_rows.get_value().copied());
    Ok(match (rows(&filtered)?, rows(fragment)?) {
        (Some(filtered), Some(all)) => filtered <= all / 2,
        _ => false,
    })
}

/// The Bloom filters that are expected to pay, the most selective first.
///
/// One goes to every node once, so it has to save four times its bytes of what the filters before it
/// leave of a node's answers; it is sent as small as pays best. One that holds more than half of the
/// values between the probe column's bounds drops too little.
fn useful_blooms(
    scan: &ScanPlan,
    filters: &[DynamicFilter],
    partitions: &[(Arc<PlannedObject>, Arc<Partition>)],
    set: &PartitionSet,
) -> Result<Vec<Bloom>> {
    if !scan.sends_bloom_filters() {
        return Ok(vec![]);
    }
    let mut blooms = vec![];
    for filter in filters {
        let Some(bloom) = filter.bloom()? else { continue };
        let share = bloom.single_column().and_then(|column| share_of(column, bloom.key_count(), set));
        let share = share.unwrap_or(SHARE_OF_SEVERAL);
        if share <= 0.5 {
            blooms.push((share, bloom));
        }
    }
    blooms.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    let stored: u64 = partitions.iter().map(|(_, partition)| partition.stored_bytes(scan.columns())).sum();
    let rows = rows_of(partitions);
    let nodes: HashSet<&str> = partitions.iter().map(|(object, _)| object.node.label()).collect();
    let of_each = |bytes: f64| bytes / nodes.len().max(1) as f64;
    // Without filters, a node's answers are what they were seen to be, and never more than is stored.
    let observed = scan.query().resources().experience.observed(scan.shape(), scan.expected(), None).answer_bytes;
    let mut answers = of_each(observed.map_or(stored as f64, |bytes| (bytes * rows as f64).min(stored as f64)));
    let mut request_bytes_left = Limits::default().encoded_bytes_max / 2;
    let mut useful = vec![];
    for (share, bloom) in blooms {
        let bloom = bloom.fitted(answers, share);
        let saved = answers * (1.0 - share);
        let pays = bloom.bytes() as f64 * 4.0 <= saved;
        if let (true, Some(left)) = (pays, request_bytes_left.checked_sub(bloom.bytes())) {
            request_bytes_left = left;
            answers -= saved;
            useful.push(bloom);
        }
    }
    Ok(useful)
}

/// Filters from keys of joins over rows that are here, the most selective first; `None` for nothing that is
/// expected to pay. A set of keys is tested in less time than a join takes to look one up. Where there
/// is none, a Bloom filter saves work between the scan and its join, if there is any.
fn keys_here(
    filters: &[DynamicFilter],
    metrics: &ScanMetrics,
    set: &PartitionSet,
    input: &SchemaRef,
) -> Result<Option<Arc<dyn PhysicalExpr>>> {
    let mut terms: Vec<(f64, Arc<dyn PhysicalExpr>)> = vec![];
    for filter in filters {
        if let Some(keys) = filter.key_set() {
            let share = keys.column().and_then(|column| share_of(column, keys.count(), set)).unwrap_or(0.5);
            if share <= PASSING_SET_MAX {
                terms.push((share, keys.predicate(input)?));
                metrics.key_sets.add(1);
            }
        } else if filter.saves_work()
            && let Some(bloom) = filter.bloom()?
        {
            let share = bloom.single_column().and_then(|column| share_of(column, bloom.key_count(), set));
            let share = share.unwrap_or(SHARE_OF_SEVERAL);
            if share <= 0.25 {
                terms.push((share, bloom.predicate_here(input)?));
                metrics.bloom_filters.add(1);
            }
        }
    }
    terms.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    Ok(conjunction_opt(terms.into_iter().map(|(_, term)| term)))
}

/// Share of the values between a table column's bounds that `values` of them make up; `None` if the
/// bounds are not known or cannot be counted.
fn share_of(column: usize, values: u64, set: &PartitionSet) -> Option<f64> {
    let range = set.range_of(column)?;
    if range.max.data_type().is_floating() {
        return None;
    }
    let width = range.max.distance_u64(&range.min)?.saturating_add(1);
    Some(values as f64 / width as f64)
}
