//! The machine that this process runs on.

use std::sync::OnceLock;

/// Longest model name that is told.
const MODEL_CHARACTERS_MAX: usize = 100;

/// Hardware of a process, as far as the time of its work depends on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    /// Cores that the process may use.
    pub cores: u64,
    /// Model of the processor, with its architecture; the architecture alone where the system does not tell the model.
    pub model: String,
}

impl Machine {
    /// The machine of this process, looked at once.
    pub fn current() -> &'static Self {
        static CURRENT: OnceLock<Machine> = OnceLock::new();
        CURRENT.get_or_init(|| {
            let cores = std::thread::available_parallelism().map_or(1, usize::from) as u64;
            // Only Linux has this file.
            let told = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
            let model = match model_of(&told) {
                Some(model) => format!("{model} ({})", std::env::consts::ARCH),
                None => std::env::consts::ARCH.to_owned(),
            };
            Self { cores, model }
        })
    }
}

/// The processor's model in the text of `/proc/cpuinfo`. ARM has numbers in place of a name.
fn model_of(told: &str) -> Option<String> {
    let value = |key: &str| {
        let line = told.lines().find(|line| line.split(':').next().is_some_and(|name| name.trim() == key))?;
        let (_, value) = line.split_once(':')?;
        Some(value.trim()).filter(|value| !value.is_empty())
    };
    let arm = || Some(format!("implementer {} part {}", value("CPU implementer")?, value("CPU part")?));
    let model = value("model name").map(str::to_owned).or_else(arm)?;
    Some(model.chars().filter(|c| !c.is_control()).take(MODEL_CHARACTERS_MAX).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_are_found_and_bounded() {
        let x86 = "processor\t: 0\nmodel\t\t: 85\nmodel name\t: Xeon(R) @ 2.8GHz\ncpu MHz: 1\n";
        assert_eq!(model_of(x86).as_deref(), Some("Xeon(R) @ 2.8GHz"));
        let arm = "processor : 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n";
        assert_eq!(model_of(arm).as_deref(), Some("implementer 0x41 part 0xd0c"));
        assert_eq!(model_of(""), None);
        assert_eq!(model_of("model name\t:\n"), None);
        let long = format!("model name: {}", "x".repeat(1000));
        assert_eq!(model_of(&long).map(|model| model.len()), Some(MODEL_CHARACTERS_MAX));
        assert!(Machine::current().cores > 0 && !Machine::current().model.is_empty());
    }
}
