//! Division of work between both sides, for partitions of which the same columns are cached.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::common::{DataFusionError, Result};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::BinaryExpr;
use datafusion::physical_expr::utils::{collect_columns, reassign_expr_columns, split_disjunction};
use datafusion::physical_expr::{PhysicalExpr, conjunction_opt, split_conjunction};
use thermocline_pushdown::wire::Combine;
use thermocline_pushdown::{Fragment, Selection, balanced};
use thermocline_storage::Content;

use super::super::scan_plan::ScanPlan;
use crate::learning::Shape;

/// The predicate's part that is evaluated here.
#[derive(Debug)]
pub(in super::super) struct Here {
    /// Over `schema`.
    pub(in super::super) predicate: Arc<dyn PhysicalExpr>,
    /// Positions among the needed columns of those it reads, all of them cached.
    pub(in super::super) columns: Vec<usize>,
    pub(in super::super) schema: SchemaRef,
}

/// Where a column of the selected rows comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Origin {
    /// The cache: its position among the needed columns.
    Cached(usize),
    /// The storage node: its position in the answer.
    Answered(usize),
}

/// Kind of the storage node's answer.
#[derive(Debug)]
pub(in super::super) enum Answer {
    /// The whole fragment's result over the selected rows: it needs no cached column of them.
    Fragment,
    /// The missing columns of the selected rows. Together with the cached ones, by origin, they go
    /// through the operators above the filter here.
    Rows(Vec<Origin>),
}

/// A plan for partitions of which the same needed columns are cached.
///
/// ```text
///   predicate columns A   output columns B   here sends   storage returns
///   cached                missing            bitmap       fragment's result
///   cached                some cached        bitmap       missing B
///   missing               some cached        nothing      bitmap, missing B
///   split by AND / OR     some cached        bitmap       combined bitmap, missing B
///   split by AND / OR     missing            bitmap       fragment's result
/// ```
#[derive(Debug)]
pub(in super::super) struct BitmapPlan {
    /// The part of the predicate over cached columns; `None` if it has none.
    pub(in super::super) here: Option<Here>,
    pub(in super::super) combine: Combine,
    /// The storage node's part: its filter, if the predicate has such a part, and what follows.
    pub(in super::super) fragment: Content,
    /// Columns of the answer.
    pub(in super::super) schema: SchemaRef,
    /// Positions among the needed columns of those that the storage node reads.
    pub(in super::super) there: Vec<usize>,
    pub(in super::super) answer: Answer,
    /// Whether the storage node evaluates a part of the predicate.
    pub(in super::super) evaluates_there: bool,
    /// Whether it says which rows are selected.
    pub(in super::super) returns_bitmap: bool,
    /// Positions among the needed columns of those in the answer, if rows are answered.
    pub(in super::super) asked: Vec<usize>,
    /// The shape of the fragment and what is cached of its columns.
    pub(in super::super) shape: Shape,
}

impl BitmapPlan {
    /// With the whole fragment at the storage node; `None` if no bitmap can save it a column.
    pub(in super::super) fn of_fragment(scan: &ScanPlan, selection: &Selection, cached: &[bool]) -> Option<Self> {
        let plan = Self::new(scan, selection, cached, false).ok().flatten()?;
        (plan.here.is_some() && plan.there.len() < scan.columns().len()).then_some(plan)
    }

    /// With the missing columns from the storage node; `None` if no cached column can be used, or
    /// all of them are there.
    pub(in super::super) fn of_rows(scan: &ScanPlan, selection: &Selection, cached: &[bool]) -> Option<Self> {
        let plan = Self::new(scan, selection, cached, true).ok().flatten()?;
        let Answer::Rows(origins) = &plan.answer else { return None };
        origins.iter().any(|origin| matches!(origin, Origin::Cached(_))).then_some(plan)
    }

    fn new(scan: &ScanPlan, selection: &Selection, cached: &[bool], rows: bool) -> Result<Option<Self>> {
        let Some(predicate) = &selection.predicate else {
            return Ok(None);
        };
        let is_cached = |position: &usize| cached.get(*position).copied().unwrap_or(false);
        let (combine, terms) = terms(predicate);
        let (here, there): (Vec<_>, Vec<_>) =
            terms.into_iter().partition(|term| columns_of(term).iter().all(is_cached));
        let here = joined(here, combine)?;
        let there = joined(there, combine)?;
        // Without a part there, the first filter that the storage node sees is one above the
        // predicate, which all rows must pass.
        let combine = if here.is_some() && there.is_some() { combine } else { Combine::And };
        let asked: Vec<usize> =
            selection.output.iter().copied().filter(|position| !rows || !is_cached(position)).collect();
        if rows && there.is_none() && asked.is_empty() {
            return Ok(None);
        }

        // The storage node reads in the order of the table what its part needs.
        let mut read = there.as_ref().map(columns_of).unwrap_or_default();
        read.extend(&asked);
        read.sort_unstable();
        read.dedup();
        let input = scan.fragment().input_schema();
        let fragment = match &there {
            None => Fragment::scan(Arc::new(input.project(&asked)?)),
            Some(there) => {
                let kept = asked.iter().filter_map(|position| read.binary_search(position).ok()).collect();
                Fragment::filtered(Arc::new(input.project(&read)?), there, kept)?
            }
        };
        let fragment = if rows { fragment } else { fragment.below(&selection.above)? };
        let Some(encoded) = scan.travelling(&fragment) else { return Ok(None) };
        let here = here
            .map(|predicate| {
                let columns = columns_of(&predicate);
                let schema = Arc::new(input.project(&columns)?);
                let predicate = reassign_expr_columns(predicate, &schema)?;
                Ok::<_, DataFusionError>(Here { predicate, columns, schema })
            })
            .transpose()?;
        let mut answered = 0..;
        let origins = selection.output.iter().map(|position| {
            if is_cached(position) { Origin::Cached(*position) } else { Origin::Answered(answered.next().unwrap_or(0)) }
        });
        let answer = if rows { Answer::Rows(origins.collect()) } else { Answer::Fragment };
        let names: Vec<&str> =
            read.iter().filter_map(|position| scan.column_names().get(*position)).map(AsRef::as_ref).collect();
        Ok(Some(Self {
            here,
            combine,
            schema: fragment.schema(),
            fragment: Content::fragment(Arc::new(encoded)),
            there: read,
            evaluates_there: there.is_some(),
            returns_bitmap: rows && there.is_some(),
            asked,
            answer,
            shape: scan.shape().in_case_of((names, rows)),
        }))
    }

    /// Whether the rows' missing columns come, rather than the fragment's result.
    pub(in super::super) fn answers_rows(&self) -> bool {
        matches!(self.answer, Answer::Rows(_))
    }
}

/// The terms that the predicate joins at its top, and how.
///
/// NOT is not looked into: a bitmap says where a term is TRUE, and NOT of it is TRUE where the term
/// is FALSE, which differs from "not TRUE" wherever the term is NULL.
fn terms(predicate: &Arc<dyn PhysicalExpr>) -> (Combine, Vec<Arc<dyn PhysicalExpr>>) {
    let (combine, terms) = match predicate.downcast_ref::<BinaryExpr>().map(BinaryExpr::op) {
        Some(Operator::Or) => (Combine::Or, split_disjunction(predicate)),
        _ => (Combine::And, split_conjunction(predicate)),
    };
    (combine, terms.into_iter().cloned().collect())
}

/// The terms as one predicate; `None` if there are none.
fn joined(terms: Vec<Arc<dyn PhysicalExpr>>, combine: Combine) -> Result<Option<Arc<dyn PhysicalExpr>>> {
    let joined = match combine {
        Combine::And => conjunction_opt(terms),
        Combine::Or => terms
            .into_iter()
            .reduce(|left, right| Arc::new(BinaryExpr::new(left, Operator::Or, right)) as Arc<dyn PhysicalExpr>),
    };
    joined.map(|joined| balanced(&joined)).transpose()
}

/// Positions of the columns that an expression reads, in order.
fn columns_of(expression: &Arc<dyn PhysicalExpr>) -> Vec<usize> {
    let mut columns: Vec<usize> = collect_columns(expression).iter().map(|column| column.index()).collect();
    columns.sort_unstable();
    columns
}
