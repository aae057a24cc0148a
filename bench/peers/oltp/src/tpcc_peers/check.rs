//! Check of the consistency conditions after a run.

use super::peer::TpccPeer;
use crate::peer::Failure;
use crate::tpcc::{Condition, Scale, Violation, violations_of};

/// Connections of a check, at most.
const CONNECTIONS_MAX: u32 = 4;

/// Violations in the message, at most.
const SHOWN_MAX: usize = 10;

/// Checks the conditions that always hold, in all warehouses.
///
/// # Errors
/// If one is violated, or a query fails.
pub fn check(peer: &dyn TpccPeer, scale: Scale) -> Result<(), Failure> {
    peer.prepare_check()?;
    let parts = scale.warehouses.min(CONNECTIONS_MAX);
    let broken = std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for part in 0..parts {
            let of_part = |part| scale.warehouses * part / parts;
            let warehouses = of_part(part) + 1..=of_part(part + 1);
            let work = move || violations_of(&mut *peer.queries()?, scale, warehouses, &Condition::always());
            threads.push(scope.spawn(work));
        }
        let mut broken = Vec::new();
        for thread in threads {
            broken.extend(thread.join().unwrap_or_else(|_| Err("a check has panicked".into()))?);
        }
        Ok::<_, Failure>(broken)
    })?;
    if broken.is_empty() {
        return Ok(());
    }
    let shown: Vec<String> = broken.iter().take(SHOWN_MAX).map(Violation::to_string).collect();
    Err(format!("{} violations of consistency conditions after the run:\n{}", broken.len(), shown.join("\n")).into())
}
