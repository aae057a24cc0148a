//! Policies by name.

use std::sync::Arc;

use super::{Gdsf, Lfu, Lru, Policy, Wlfu};

/// The policy with this name. [`Belady`](super::Belady) has none: it needs a trace.
///
/// # Errors
/// A sentence that names the text and the available policies.
pub fn policy_named(text: &str) -> Result<Arc<dyn Policy>, String> {
    let policies: [Arc<dyn Policy>; 4] = [Arc::new(Lru), Arc::new(Lfu), Arc::new(Wlfu), Arc::new(Gdsf)];
    let names = policies.each_ref().map(|policy| policy.name()).join(", ");
    policies
        .into_iter()
        .find(|policy| policy.name().eq_ignore_ascii_case(text.trim()))
        .ok_or_else(|| format!("unknown cache policy '{text}': expected one of {names}"))
}
