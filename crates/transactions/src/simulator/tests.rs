use super::*;

/// Runs these seeds; the first failure is the result.
fn run(seeds: std::ops::Range<u64>, bug: Option<Bug>) -> Result<Counts, Failure> {
    let mut counts = Counts::default();
    for seed in seeds {
        let simulation = Simulation::new(seed);
        counts.add(&bug.map_or(Simulation::new(seed), |bug| simulation.with_bug(bug)).run()?);
    }
    Ok(counts)
}

#[test]
fn nothing_is_lost_and_every_fault_happens() {
    let counts = run(0..600, None).unwrap_or_else(|failure| panic!("{failure}"));
    for (name, count) in counts.faults.kinds() {
        assert!(count > 0, "{name} never happened\n{counts}");
    }
    assert!(counts.recoveries_with_snapshot > 100 && counts.tails_cut > 100 && counts.damage_found > 5, "{counts}");
    assert!(counts.recoveries_interrupted > 100 && counts.commits > 10_000, "{counts}");
    assert!(counts.commits_in_parts > 500 && counts.shown_read_only > 3, "{counts}");
}

/// A snapshot once removed the segment that the control file names while the next one had no durable record.
#[test]
fn a_crash_before_the_first_record_of_a_segment_is_durable() {
    let result = Simulation::new(104_062).run();
    assert!(result.is_ok(), "{}", result.unwrap_err());
}

#[test]
fn one_seed_is_one_run() {
    assert_eq!(Simulation::new(3).run(), Simulation::new(3).run());
}

#[test]
fn a_crash_at_every_operation_of_a_run() {
    for seed in 1000..1004 {
        for operation in 0..150 {
            let result = Simulation::new(seed).with_crash_at(operation).run();
            assert!(result.is_ok(), "operation {operation}: {}", result.unwrap_err());
        }
    }
}

#[test]
fn known_bugs_are_found() {
    for (bug, name) in Bug::ALL {
        let failure = run(0..300, Some(bug)).map(|counts| panic!("{name} is not found\n{counts}")).unwrap_err();
        let expected = match bug {
            Bug::ReleasedBeforeSync | Bug::ReadsDoNotWait => "clients were told up to",
            Bug::TornTailNotCut | Bug::CacheTrusted => "recovery: ",
            Bug::NoPreImages => "",
            Bug::NotDeterministic => "changes other rows than when it ran first",
        };
        assert!(failure.message.contains(expected), "{name}: {failure}");
    }
}
