//! Identities of a storage node and of this side, as far as their speed depends on them.

use serde::{Deserialize, Serialize};
use thermocline_pushdown::wire::NodeStatus;
use thermocline_storage::Machine;

/// A storage node: version, hardware, and the options that decide how fast it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeIdentity {
    /// Version of Thermocline.
    pub version: String,
    /// Model of its processor.
    pub machine: String,
    /// Cores that it may use.
    pub cores: u64,
    /// Fragments that run at once.
    pub pushdown_slots: u64,
    /// Limit on what leaves it, in bytes a second; 0 for none.
    pub egress_bytes_per_s: u64,
    /// Thousandths of a core that one fragment may take.
    pub compute_permille: u64,
}

/// This side: version and hardware.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HereIdentity {
    /// Version of Thermocline.
    pub version: String,
    /// Model of the processor.
    pub machine: String,
    /// Cores that this process may use.
    pub cores: u64,
}

impl NodeIdentity {
    /// The node that has this status; `None` if it does not tell.
    pub fn of(status: &NodeStatus) -> Option<Self> {
        (!status.version.is_empty()).then(|| Self {
            version: status.version.clone(),
            machine: status.machine.clone(),
            cores: status.cores,
            pushdown_slots: status.pushdown_slots,
            egress_bytes_per_s: status.egress_bytes_per_s,
            compute_permille: status.compute_permille,
        })
    }

    /// The differences to what the node is `now`, such as `cores 2 -> 4`; empty if there are none.
    pub fn changes(&self, now: &Self) -> Vec<String> {
        let rate = |bytes: u64| match bytes {
            0 => "none".to_owned(),
            bytes => format!("{} Mbit/s", bytes as f64 * 8.0 / 1e6),
        };
        let power = |permille: u64| (permille as f64 / 1000.0).to_string();
        changes([
            ("version", self.version.clone(), now.version.clone()),
            ("processor", self.machine.clone(), now.machine.clone()),
            ("cores", self.cores.to_string(), now.cores.to_string()),
            ("pushdown slots", self.pushdown_slots.to_string(), now.pushdown_slots.to_string()),
            ("egress limit", rate(self.egress_bytes_per_s), rate(now.egress_bytes_per_s)),
            ("compute power", power(self.compute_permille), power(now.compute_permille)),
        ])
    }
}

impl HereIdentity {
    /// This process.
    pub fn current() -> Self {
        let machine = Machine::current();
        Self { version: env!("CARGO_PKG_VERSION").to_owned(), machine: machine.model.clone(), cores: machine.cores }
    }

    /// The differences to what this side is `now`.
    pub fn changes(&self, now: &Self) -> Vec<String> {
        changes([
            ("version", self.version.clone(), now.version.clone()),
            ("processor", self.machine.clone(), now.machine.clone()),
            ("cores", self.cores.to_string(), now.cores.to_string()),
        ])
    }
}

fn changes<const N: usize>(fields: [(&str, String, String); N]) -> Vec<String> {
    let changed = fields.into_iter().filter(|(_, before, now)| before != now);
    changed.map(|(name, before, now)| format!("{name} {before} -> {now}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_named() {
        let status = NodeStatus {
            version: "1.0.0".into(),
            machine: "Xeon".into(),
            cores: 2,
            pushdown_slots: 4,
            egress_bytes_per_s: 25_000_000,
            compute_permille: 1000,
            ..NodeStatus::default()
        };
        let before = NodeIdentity::of(&status).unwrap();
        assert!(before.changes(&before.clone()).is_empty());
        let now = NodeStatus { version: "1.1.0".into(), cores: 8, egress_bytes_per_s: 0, ..status };
        let changes = before.changes(&NodeIdentity::of(&now).unwrap());
        assert_eq!(changes, ["version 1.0.0 -> 1.1.0", "cores 2 -> 8", "egress limit 200 Mbit/s -> none"]);
        assert_eq!(NodeIdentity::of(&NodeStatus::default()), None);
        let here = HereIdentity::current();
        assert!(here.changes(&here.clone()).is_empty());
        assert_eq!(here.changes(&HereIdentity { cores: here.cores + 1, ..here.clone() }).len(), 1);
    }
}
