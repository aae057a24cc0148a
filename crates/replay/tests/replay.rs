//! The simulator and the bound, against each other and against exhaustive search.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

use std::collections::HashMap;

use thermocline_replay::bound::{Effort, lower_bound, offline_plan};
use thermocline_replay::random::Random;
use thermocline_replay::sim::{
    Algorithm, Framework, Lfu, Lru, Offline, Report, SetAware, Wlfu, algorithms, algorithms_of_forms, simulate,
};
use thermocline_replay::synthetic::Synthetic;
use thermocline_replay::trace::{Header, RecordedPartition, RecordedSegment, Trace, TraceWriter};

/// A partition: seconds by the two routes, and its segments with their bytes.
type Asked<'a> = (f64, f64, &'a [(&'a str, u64)]);

/// A trace of lookups; a load takes a tenth of a second per byte, a miss a second.
fn trace(lookups: &[Vec<Asked<'_>>]) -> Trace {
    let header = Header::new("test", 1.0, "parquet", None);
    let mut writer = TraceWriter::new(vec![], &header).unwrap();
    for (query, lookup) in lookups.iter().enumerate() {
        let segment = |(key, bytes): &(&str, u64)| RecordedSegment {
            key: (*key).to_owned(),
            bytes: *bytes,
            stored_bytes: *bytes,
            load_seconds: *bytes as f64 / 10.0,
            decode_seconds: 0.0,
            miss_seconds: 1.0,
        };
        let partition = |(local, other, segments): &Asked<'_>| RecordedPartition {
            local_seconds: *local,
            other_seconds: *other,
            other_bytes: 5,
            load_seconds_per_segment: 0.0,
            segments: segments.iter().map(segment).collect(),
        };
        writer.lookup(query as u64, "", &lookup.iter().map(partition).collect::<Vec<_>>()).unwrap();
    }
    Trace::read(writer.finish().unwrap().as_slice()).unwrap()
}

#[test]
fn a_partition_is_local_only_if_it_is_whole() {
    let both: &[(&str, u64)] = &[("a", 10), ("b", 10)];
    let trace =
        trace(&[vec![(1.0, 9.0, both)], vec![(1.0, 9.0, both), (1.0, 9.0, &[("c", 10)])], vec![(1.0, 9.0, both)]]);
    let report = simulate(&trace, 20, &mut Framework::new(Lfu::new(3, None)));
    // Loaded for 2 seconds, then local with the other partition by its other route.
    let seconds: Vec<f64> = report.lookups.iter().map(|lookup| lookup.seconds).collect();
    assert_eq!(seconds, [3.0, 10.0, 1.0]);
    assert_eq!((report.bytes_moved(), report.evictions), (25, 0));
    let ratios: Vec<f64> = report.lookups.iter().map(|lookup| (lookup.hit_ratio() * 3.0).round()).collect();
    assert_eq!(ratios, [0.0, 2.0, 3.0]);
    // One segment fits, and is of no use. Algorithm 1 stops at it, before the partition that would fit.
    let report = simulate(&trace, 10, &mut Framework::new(Lfu::new(3, None)));
    assert_eq!((report.seconds(), report.lookups[0].partitions_loaded), (9.0 + 9.0 + 9.0 + 9.0, 0));
}

#[test]
fn what_is_slower_here_is_done_elsewhere() {
    let trace = trace(&[vec![(9.0, 1.0, &[("a", 10)])], vec![(9.0, 1.0, &[("a", 10)]), (9.0, 10.0, &[])]]);
    let report = simulate(&trace, 10, &mut Framework::new(Lru::new(1)));
    assert_eq!(report.seconds(), 1.0 + 1.0 + 1.0 + 9.0, "the load was for nothing");
    assert_eq!(report.lookups[1].partitions_local, 1);
}

#[test]
fn the_set_aware_policy_keeps_what_completes_a_partition() {
    let pair: &[(&str, u64)] = &[("a", 10), ("b", 10)];
    let single: &[(&str, u64)] = &[("c", 10)];
    // `a` is needed most often, but without `b` it saves nothing.
    let mut lookups: Vec<Vec<Asked<'_>>> = vec![];
    for _ in 0..40 {
        lookups.push(vec![(1.0, 1.1, pair)]);
        lookups.push(vec![(1.0, 5.0, single)]);
        lookups.push(vec![(1.0, 1.1, pair)]);
    }
    let trace = trace(&lookups);
    let ours = simulate(&trace, 10, &mut SetAware::new(3, 128.0));
    assert!(ours.seconds() < 40.0 * (1.1 + 1.1 + 1.0) + 10.0, "{}", ours.seconds());
}

/// Least time of any schedule for one tiny trace, by trying all contents after each lookup.
fn least(trace: &Trace, capacity: u64) -> f64 {
    let count = trace.segments.len() as u32;
    let bytes =
        |set: u32| (0..count).filter(|id| set >> id & 1 == 1).map(|id| trace.segments[id as usize].bytes).sum::<u64>();
    let number: HashMap<&str, u32> =
        trace.segments.iter().zip(0..).map(|(segment, id)| (segment.key.as_str(), id)).collect();
    let mut best: HashMap<u32, f64> = HashMap::from([(0, 0.0)]);
    for lookup in &trace.lookups {
        let mut next: HashMap<u32, f64> = HashMap::new();
        for (held, seconds) in &best {
            // Loads are those of any part of what is needed and missing.
            let needed: u32 = lookup.partitions.iter().flat_map(|p| &p.segments).map(|n| 1 << id(n)).sum();
            for loaded in (0..1 << count).filter(|set: &u32| set & !(needed & !held) == 0) {
                let mut seconds = *seconds;
                for partition in &lookup.partitions {
                    let set: u32 = partition.segments.iter().map(|need| 1 << id(need)).sum();
                    let loads = partition.segments.iter().filter(|need| loaded >> id(need) & 1 == 1);
                    seconds += loads.map(|need| partition.load_seconds(need)).sum::<f64>();
                    let whole = set & !(held | loaded) == 0;
                    seconds += if whole {
                        partition.local_seconds.min(partition.other_seconds)
                    } else {
                        partition.other_seconds
                    };
                }
                for kept in (0..1 << count).filter(|set: &u32| set & !(held | loaded) == 0 && bytes(*set) <= capacity) {
                    let known = next.entry(kept).or_insert(f64::INFINITY);
                    *known = known.min(seconds);
                }
            }
        }
        best = next;
    }
    assert_eq!(number.len(), count as usize);
    best.into_values().fold(f64::INFINITY, f64::min)
}

/// Number of a segment, from how it prints.
fn id(need: &thermocline_replay::trace::Need) -> u32 {
    format!("{:?}", need.id).chars().filter(char::is_ascii_digit).collect::<String>().parse().unwrap()
}

#[test]
fn the_bound_is_below_the_least_time_and_close_to_it() {
    let names = ["a", "b", "c", "d", "e"];
    let (mut bounds, mut leasts, mut offlines) = (0.0, 0.0, 0.0);
    for seed in 0..60 {
        println!("seed {seed}");
        let mut random = Random(seed);
        let sizes: Vec<u64> = (0..5).map(|_| 1 + random.below(5)).collect();
        let sets: Vec<Vec<(&str, u64)>> = [&[0, 1][..], &[1], &[2], &[3, 4], &[3]]
            .iter()
            .map(|set| set.iter().map(|at| (names[*at], sizes[*at])).collect())
            .collect();
        let lookups: Vec<Vec<Asked<'_>>> = (0..12)
            .map(|_| vec![(0.1, 0.2 + random.below(10) as f64 / 10.0, sets[random.below(5) as usize].as_slice())])
            .collect();
        let trace = trace(&lookups);
        let capacity = 2 + random.below(8);
        let least = least(&trace, capacity);
        let bound = lower_bound(&trace, capacity, Effort { rounds: 500, target: least });
        assert!(bound.seconds <= least * (1.0 + 1e-9), "{} > {least}", bound.seconds);
        let mut best = f64::INFINITY;
        for (mut algorithm, mut again) in algorithms(&trace, capacity).into_iter().zip(algorithms(&trace, capacity)) {
            let report = simulate(&trace, capacity, algorithm.as_mut());
            assert!(report.seconds() >= least * (1.0 - 1e-9), "{}", report.algorithm);
            let plan = offline_plan(&trace, capacity, &bound, again.as_mut());
            let offline = simulate(&trace, capacity, &mut Offline::new(plan)).seconds();
            assert!(offline >= least * (1.0 - 1e-9), "{offline} < {least}");
            best = best.min(offline);
        }
        offlines += best;
        bounds += bound.seconds;
        leasts += least;
    }
    println!("bounds {bounds}, least times {leasts}, plans {offlines}");
    assert!(bounds > 0.9 * leasts, "{bounds} of {leasts}");
    assert!(offlines < 1.25 * leasts, "{offlines} of {leasts}");
}

#[test]
fn a_cache_for_everything_is_bounded_exactly() {
    let trace = Synthetic { lookups: 40, partitions_per_year: 2, ..Synthetic::drifting(5) }.trace();
    let capacity = trace.working_set_bytes();
    let target = simulate(&trace, capacity, &mut SetAware::new(trace.segments.len(), 128.0)).seconds();
    let bound = lower_bound(&trace, capacity, Effort { rounds: 5000, target });
    let plan = offline_plan(&trace, capacity, &bound, &mut SetAware::new(trace.segments.len(), 128.0));
    let offline = simulate(&trace, capacity, &mut Offline::new(plan)).seconds();
    assert!(bound.seconds <= offline && offline <= bound.seconds * 1.05, "{} {offline}", bound.seconds);
}

#[test]
fn nothing_helps_a_cache_without_room() {
    let trace = Synthetic { lookups: 30, partitions_per_year: 2, ..Synthetic::stationary(5) }.trace();
    let partitions = trace.lookups.iter().flat_map(|lookup| &lookup.partitions);
    let nothing: f64 = partitions.map(|partition| partition.other_seconds).sum();
    for capacity in [0, 1, trace.segments.iter().map(|segment| segment.bytes).min().unwrap() - 1] {
        for mut algorithm in algorithms(&trace, capacity) {
            let report = simulate(&trace, capacity, algorithm.as_mut());
            assert!((report.seconds() - nothing).abs() < 1e-9 * nothing, "{}", report.algorithm);
            assert_eq!((report.hit_ratio(), report.evictions), (0.0, 0));
        }
    }
}

/// A trace of `passes` over eight segments, each in a partition of its own, that take ten times as much decoded as stored,
/// and of whose loads decoding takes a fifth.
fn passes(passes: usize) -> Trace {
    let mut writer = TraceWriter::new(vec![], &Header::new("test", 1.0, "parquet", None)).unwrap();
    for number in 0..8 * passes {
        let segment = RecordedSegment {
            key: (number % 8).to_string(),
            bytes: 100,
            stored_bytes: 10,
            load_seconds: 1.0,
            decode_seconds: 0.2,
            miss_seconds: 1.0,
        };
        let partition = RecordedPartition {
            local_seconds: 0.0,
            other_seconds: 2.0,
            other_bytes: 10,
            load_seconds_per_segment: 0.0,
            segments: vec![segment],
        };
        writer.lookup((number / 8) as u64, "", &[partition]).unwrap();
    }
    Trace::read(writer.finish().unwrap().as_slice()).unwrap()
}

#[test]
fn stored_bytes_of_everything_beat_decoded_segments_of_a_quarter() {
    let trace = passes(6);
    let seconds = |report: &Report| report.lookups[40..].iter().map(|lookup| lookup.seconds).sum::<f64>();
    let decoded = simulate(&trace, 200, &mut Framework::new(Lfu::new(8, None)));
    assert!(seconds(&decoded) >= 6.0, "{}", seconds(&decoded));
    for mut forms in algorithms_of_forms(&trace) {
        let report = simulate(&trace, 200, forms.as_mut());
        // One segment has room to be decoded beside the others.
        assert!(seconds(&report) <= 8.0 * 0.2 + 1e-9, "{}: {}", report.algorithm, seconds(&report));
        assert_eq!(
            report.lookups[16..].iter().map(|lookup| lookup.bytes_moved).sum::<u64>(),
            0,
            "{}",
            report.algorithm
        );
        assert!(report.bytes_moved() <= 8 * 10 + 2 * 10, "what was decoded first is fetched again: {report:?}");
    }
}

#[test]
fn with_room_for_all_of_it_nothing_is_decoded_twice() {
    let trace = passes(4);
    for mut forms in algorithms_of_forms(&trace) {
        let report = simulate(&trace, 1600, forms.as_mut());
        assert_eq!(report.lookups[8..].iter().map(|lookup| lookup.seconds).sum::<f64>(), 0.0, "{}", report.algorithm);
        assert_eq!((report.bytes_moved(), report.evictions), (80, 0));
    }
    let tight = simulate(&trace, 800, algorithms_of_forms(&trace)[0].as_mut());
    let last: f64 = tight.lookups[24..].iter().map(|lookup| lookup.seconds).sum();
    assert!(last <= 0.2 + 1e-9, "all but the last have room beside the stored bytes of one: {last}");
}

#[test]
fn ageing_follows_a_drift() {
    let trace = Synthetic::drifting(1).trace();
    let segments = trace.segments.len();
    let capacity = trace.working_set_bytes() / 4 * 3;
    let run = |algorithm: &mut dyn Algorithm| -> Report { simulate(&trace, capacity, algorithm) };
    let plain = run(&mut Framework::new(Wlfu::new(segments, None))).seconds();
    let aged = run(&mut Framework::new(Wlfu::new(segments, Some(64.0)))).seconds();
    assert!(aged < plain, "{aged} {plain}");
}
