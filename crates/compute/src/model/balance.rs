//! Routes for all partitions of a scan, so that the busiest resource is done soonest.

use super::cost::{Cost, Load};

/// Share by which another preference must be faster than the first, and a mixture of routes faster than the best single
/// preference, to be taken: models err, and a mixture errs on both.
const GAIN_MIN: f64 = 0.1;
/// Passes over all partitions.
const PASSES_MAX: usize = 4;

/// A partition's storage, by its position, and its work on each route that it may take, in order of preference:
/// what leaves most to storage comes first, because it moves least.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    pub(crate) storage: usize,
    pub(crate) costs: Vec<Cost>,
}

/// Choices, and the work of them.
struct Balanced {
    choices: Vec<usize>,
    load: Load,
}

/// Chooses a route for each partition, by its position among the options.
///
/// Every partition is first given the option with one number, or its last; the best
/// number is kept, the first unless another gains [`GAIN_MIN`]. Then partitions move one by one while that lets all be
/// done sooner: a storage that is busier than this side hands over some of its partitions, and the other way round.
///
/// O(partitions x options) per pass.
pub(crate) fn balance(empty: &Load, partitions: &[Options]) -> Vec<usize> {
    let most = partitions.iter().map(|partition| partition.costs.len()).max().unwrap_or(0);
    let uniform = |number: usize| {
        let choices: Vec<usize> =
            partitions.iter().map(|partition| number.min(partition.costs.len().saturating_sub(1))).collect();
        let load = load_of(empty, partitions, &choices);
        Balanced { choices, load }
    };
    let mut best = uniform(0);
    for other in (1..most).map(uniform) {
        let gain = if best.choices.iter().all(|choice| *choice == 0) { GAIN_MIN } else { 0.0 };
        if other.load.seconds() < best.load.seconds() * (1.0 - gain) {
            best = other;
        }
    }
    let mut mixed = Balanced { choices: best.choices.clone(), load: best.load.clone() };
    for _ in 0..PASSES_MAX {
        if !improve(&mut mixed, partitions) {
            break;
        }
    }
    let gained = mixed.load.seconds() <= best.load.seconds() * (1.0 - GAIN_MIN);
    if gained { mixed.choices } else { best.choices }
}

fn load_of(empty: &Load, partitions: &[Options], choices: &[usize]) -> Load {
    let mut load = empty.clone();
    for (partition, choice) in partitions.iter().zip(choices) {
        if let Some(cost) = partition.costs.get(*choice) {
            load.add(partition.storage, cost);
        }
    }
    load
}

/// Moves partitions to better routes; says whether any was moved.
fn improve(balanced: &mut Balanced, partitions: &[Options]) -> bool {
    let Balanced { choices, load } = balanced;
    let mut moved = false;
    for (partition, choice) in partitions.iter().zip(choices) {
        let Some(cost) = partition.costs.get(*choice).filter(|_| partition.costs.len() > 1) else { continue };
        let mut best = (load.seconds(), *choice);
        load.remove(partition.storage, cost);
        for (number, other) in partition.costs.iter().enumerate().filter(|(number, _)| *number != *choice) {
            load.add(partition.storage, other);
            let seconds = load.seconds();
            if seconds < best.0 * (1.0 - 1e-6) {
                best = (seconds, number);
            }
            load.remove(partition.storage, other);
        }
        moved |= best.1 != *choice;
        *choice = best.1;
        if let Some(cost) = partition.costs.get(best.1) {
            load.add(partition.storage, cost);
        }
    }
    moved
}

#[cfg(test)]
mod tests {
    use super::super::cost::Capacity;
    use super::*;

    fn empty(bytes_per_s: f64, slots: f64) -> Load {
        Load::new(vec![Capacity { bytes_per_s, slots, round_trip_s: 0.0, cores_share: 0.0 }], 1.0)
    }

    fn there(storage_s: f64) -> Cost {
        Cost { link_bytes: 0.0, storage_s, here_s: 0.0 }
    }

    fn here(link_bytes: f64, here_s: f64) -> Cost {
        Cost { link_bytes, storage_s: 0.0, here_s }
    }

    #[test]
    fn a_slow_link_has_all_run_there_and_a_fast_one_shares_the_work() {
        let partitions = vec![Options { storage: 0, costs: vec![there(0.1), here(1e6, 0.1)] }; 20];
        let slow = balance(&empty(1e5, 1.0), &partitions);
        assert!(slow.iter().all(|choice| *choice == 0), "{slow:?}");
        let fast = balance(&empty(1e9, 1.0), &partitions);
        let pulled = fast.iter().filter(|choice| **choice == 1).count();
        assert!((9..=11).contains(&pulled), "{fast:?}");
        assert!(load_of(&empty(1e9, 1.0), &partitions, &fast).seconds() < 1.5);
    }

    #[test]
    fn what_gains_nothing_stays_of_one_kind() {
        let partitions = vec![Options { storage: 0, costs: vec![there(0.1), here(1e6, 3.0)] }; 20];
        let balanced = balance(&empty(1e9, 2.0), &partitions);
        assert!(balanced.iter().all(|choice| *choice == 0), "{balanced:?}");
        let one = balance(&empty(1.0, 1.0), &[Options { storage: 0, costs: vec![here(1e6, 1.0)] }]);
        assert_eq!(one, [0]);
        assert!(balance(&empty(1.0, 1.0), &[]).is_empty());
    }

    #[test]
    fn no_partition_can_move_to_a_better_route_afterwards() {
        // Costs of all kinds, from a fixed sequence.
        let mut state = 7_u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as f64 / (1_u64 << 24) as f64
        };
        let partitions: Vec<Options> = (0..50)
            .map(|_| Options {
                storage: 0,
                costs: vec![
                    Cost { link_bytes: 1e5 * next(), storage_s: next(), here_s: 0.1 * next() },
                    Cost { link_bytes: 1e6 * next(), storage_s: 0.0, here_s: next() },
                ],
            })
            .collect();
        let choices = balance(&empty(1e6, 2.0), &partitions);
        let balanced = load_of(&empty(1e6, 2.0), &partitions, &choices).seconds();
        for number in 0..2 {
            let alone = load_of(&empty(1e6, 2.0), &partitions, &[number; 50]).seconds();
            assert!(balanced <= alone / (1.0 - GAIN_MIN), "{number}");
        }
    }
}
