//! Heap memory of plans.

use thermocline_tables::table::{HeapSize, allocated};

use super::bind::Aggregate;
use super::expression::{Expr, Like};
use super::plan::{Access, Bounds, KeyPart, KeyRange, PartValues, PartitionKey, Routing, Step};
use super::rows::OutputColumn;
use super::select::{Group, Select, SortKey};

/// Implements `HeapSize` as the sum over the listed fields.
macro_rules! heap_size {
    ($($type:ty: $($field:ident)*;)*) => {
        $(impl thermocline_tables::table::HeapSize for $type {
            fn heap_bytes(&self) -> usize {
                0 $(+ thermocline_tables::table::HeapSize::heap_bytes(&self.$field))*
            }
        })*
    };
}
pub(super) use heap_size;

heap_size! {
    Aggregate: argument filter;
    Group: keys aggregates having;
    KeyPart: value;
    KeyRange: parts bounds;
    OutputColumn: name;
    PartValues: values;
    PartitionKey: value;
    Select: steps filter routing group outputs order limit offset;
    Step: access on filter;
}

impl HeapSize for SortKey {
    fn heap_bytes(&self) -> usize {
        0
    }
}

impl HeapSize for Bounds {
    fn heap_bytes(&self) -> usize {
        let of = |bound: &Option<(Expr, bool)>| bound.as_ref().map_or(0, |(value, _)| value.heap_bytes());
        of(&self.low) + of(&self.high)
    }
}

impl HeapSize for Access {
    fn heap_bytes(&self) -> usize {
        match self {
            Self::Scan => 0,
            Self::Key { parts, .. } => parts.heap_bytes(),
            Self::Range { parts, bounds, .. } => parts.heap_bytes() + bounds.heap_bytes(),
            Self::Union { ranges, .. } => ranges.heap_bytes(),
        }
    }
}

impl HeapSize for Routing {
    fn heap_bytes(&self) -> usize {
        match self {
            Self::Any | Self::All => 0,
            Self::Several(keys) | Self::One(keys) | Self::OneOfOuter(keys) => keys.heap_bytes(),
        }
    }
}

impl HeapSize for Like {
    fn heap_bytes(&self) -> usize {
        let Self { value, pattern, parsed, .. } = self;
        let parsed = parsed.as_ref().map_or(0, |parsed| allocated(parsed.heap_bytes()));
        value.heap_bytes() + pattern.heap_bytes() + parsed
    }
}

/// Recursive, like binding and evaluation: the parser limits the depth.
impl HeapSize for Expr {
    fn heap_bytes(&self) -> usize {
        match self {
            Self::Literal(value) => HeapSize::heap_bytes(value),
            Self::Parameter(_) | Self::Column { .. } | Self::Computed(_) => 0,
            Self::Compare(_, sides) | Self::Arithmetic(_, sides) | Self::Same(sides) => sides.heap_bytes(),
            Self::Negate(inner)
            | Self::Not(inner)
            | Self::IsNull(inner)
            | Self::Is(_, inner)
            | Self::Cast(inner, _) => inner.heap_bytes(),
            Self::And(terms) | Self::Or(terms) | Self::Call(_, terms) => terms.heap_bytes(),
            Self::In(value, list) => value.heap_bytes() + list.heap_bytes(),
            Self::Like(like) => like.heap_bytes(),
            Self::Case(branches, otherwise) => branches.heap_bytes() + otherwise.heap_bytes(),
        }
    }
}
