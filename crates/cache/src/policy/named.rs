//! Policies by name.

use std::sync::Arc;

use super::{Gdsf, Lfu, Lru, Policy, Wlfu};

/// All policies that need nothing but the segments' uses, in the order in which reports list them.
pub fn policies() -> Vec<Arc<dyn Policy>> {
    vec![Arc::new(Lru), Arc::new(Lfu), Arc::new(Wlfu), Arc::new(Gdsf)]
}

/// The policy with this name. [`Belady`](super::Belady) has none: it needs a trace.
///
/// # Errors
/// A sentence that names the text and the available policies.
pub fn policy_named(text: &str) -> Result<Arc<dyn Policy>, String> {
    policies().into_iter().find(|policy| policy.name().eq_ignore_ascii_case(text.trim())).ok_or_else(|| {
        let names: Vec<_> = policies().iter().map(|policy| policy.name()).collect();
        format!("unknown cache policy '{text}': expected one of {}", names.join(", "))
    })
}
