//! The follower of a plan that was made with the future known.

use super::Algorithm;
use crate::plan::Plan;
use crate::sim::Contents;
use crate::trace::Lookup;

/// Does what a plan says.
#[derive(Debug)]
pub struct Offline {
    plan: Plan,
}

impl Offline {
    /// Follows `plan`.
    pub fn new(plan: Plan) -> Self {
        Self { plan }
    }
}

impl Algorithm for Offline {
    fn name(&self) -> String {
        "offline plan".to_owned()
    }

    fn lookup(&mut self, now: usize, _: &Lookup, contents: &mut Contents) {
        let Some(step) = self.plan.steps.get(now) else {
            return;
        };
        let leaving: Vec<_> = contents.iter().filter(|id| !step.keeps.contains(id)).collect();
        for id in leaving {
            contents.evict(id);
        }
        for id in &step.loads {
            contents.load(*id);
            if !step.keeps.contains(id) {
                contents.evict(*id);
            }
        }
    }
}
