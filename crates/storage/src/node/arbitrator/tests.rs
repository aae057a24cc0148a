//! The pure parts, on a clock that the tests hold.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::estimate::{Knowledge, shape_of};
use super::fairness::Flow;
use super::lease::Leases;
use super::schedule::{Arbitration, Held, Path, QueueFull, Request, RequestId, Schedule, Slots, Times};

fn request(query: &str, pushdown: f64, pushback: f64) -> Request {
    Request {
        flow: Flow { peer: Arc::from(""), tenant: Arc::from(""), query: Arc::from(query) },
        times: Times { pushdown, pushback, caller: 0.0 },
        accepts_pushback: true,
        caller_is_busy: false,
        to_follow: 0,
    }
}

fn schedule(order: Arbitration, pushdown: usize, pushback: usize) -> Schedule {
    Schedule::new(order, Slots { pushdown, pushback }, 1024)
}

fn decisions(schedule: &mut Schedule, now: f64) -> Vec<(RequestId, Path)> {
    std::iter::from_fn(|| schedule.decide(now)).collect()
}

/// Lines 4 to 8 of Algorithm 1, case by case: which path, by what is faster and what is free.
#[test]
fn the_faster_path_then_the_slower_then_the_queue() {
    for order in [Arbitration::Fifo, Arbitration::PaAware] {
        // Pushdown is faster: the first takes it, the second the other, the third waits.
        let mut fast_here = schedule(order, 1, 1);
        let ids: Vec<_> = (0..3).map(|_| fast_here.offer(request("q", 1.0, 1.5)).unwrap()).collect();
        assert_eq!(decisions(&mut fast_here, 0.0), [(ids[0], Path::Pushdown), (ids[1], Path::Pushback)], "{order:?}");
        assert_eq!(fast_here.queue_length(), 1);
        fast_here.finish(ids[0], 1.0);
        assert_eq!(decisions(&mut fast_here, 1.0), [(ids[2], Path::Pushdown)]);
        assert_eq!((fast_here.admitted(), fast_here.pushed_back()), (2, 1));

        // Pushback is faster, or equal: line 5 says "else".
        for pushback in [1.0, 2.0] {
            let mut fast_there = schedule(order, 1, 1);
            let ids: Vec<_> = (0..3).map(|_| fast_there.offer(request("q", 2.0, pushback)).unwrap()).collect();
            assert_eq!(decisions(&mut fast_there, 0.0), [(ids[0], Path::Pushback), (ids[1], Path::Pushdown)]);
        }

        // Without pushback slots everything is pushed down, in the order of arrival.
        let mut eager = schedule(order, 2, 0);
        let ids: Vec<_> = (0..3).map(|n| eager.offer(request("q", 9.0, 1.0 + f64::from(n))).unwrap()).collect();
        assert_eq!(decisions(&mut eager, 0.0), [(ids[0], Path::Pushdown), (ids[1], Path::Pushdown)]);
        eager.finish(ids[1], 0.0);
        assert_eq!(decisions(&mut eager, 0.0), [(ids[2], Path::Pushdown)]);
        assert_eq!(eager.pushed_back(), 0);
    }
}

#[test]
fn a_request_that_refuses_pushback_waits_for_pushdown() {
    for order in [Arbitration::Fifo, Arbitration::PaAware] {
        let mut schedule = schedule(order, 1, 1);
        let refuses = || Request { accepts_pushback: false, ..request("q", 9.0, 1.0) };
        let first = schedule.offer(refuses()).unwrap();
        let second = schedule.offer(refuses()).unwrap();
        let third = schedule.offer(request("q", 9.0, 1.0)).unwrap();
        assert_eq!(decisions(&mut schedule, 0.0), [(first, Path::Pushdown), (third, Path::Pushback)], "{order:?}");
        schedule.finish(first, 9.0);
        assert_eq!(decisions(&mut schedule, 9.0), [(second, Path::Pushdown)]);
        assert_eq!(schedule.pushed_back(), 1);
    }
}

/// The last request waits for the faster path if it is done sooner that way, unless the slot is
/// held for much longer than was expected.
#[test]
fn the_slower_path_is_not_taken_if_waiting_is_sooner() {
    for order in [Arbitration::Fifo, Arbitration::PaAware] {
        let mut schedule = schedule(order, 1, 1);
        let first = schedule.offer(request("q", 20.0, 1.0)).unwrap();
        let second = schedule.offer(request("q", 20.0, 1.0)).unwrap();
        assert_eq!(decisions(&mut schedule, 0.0), [(first, Path::Pushback)], "{order:?}");
        assert_eq!(decisions(&mut schedule, 1.0), []);
        assert_eq!(decisions(&mut schedule, 15.0), []);
        assert_eq!(decisions(&mut schedule, 27.0), [(second, Path::Pushdown)], "the first is overdue by 26 s");
    }
    // With enough to do for both, the slower path helps.
    let mut schedule = schedule(Arbitration::PaAware, 1, 1);
    schedule.offer(Request { to_follow: 30, ..request("q", 20.0, 1.0) }).unwrap();
    schedule.offer(Request { to_follow: 29, ..request("q", 20.0, 1.0) }).unwrap();
    assert_eq!(decisions(&mut schedule, 0.0).len(), 2);
}

/// The last requests count what comes after the transfer, and the transfers that they share the link with.
#[test]
fn a_pushback_is_done_when_the_caller_is() {
    let decided = |caller: f64, slots: usize| {
        let mut schedule = schedule(Arbitration::PaAware, 1, slots);
        for _ in 0..4 {
            let mut request = request("q", 1.0, 2.0);
            request.times.caller = caller;
            schedule.offer(request).unwrap();
        }
        decisions(&mut schedule, 0.0).iter().filter(|(_, path)| *path == Path::Pushback).count()
    };
    // Four seconds of work here: two of transfer are worth it, with two of computing they are not.
    assert_eq!(decided(0.0, 1), 1);
    assert_eq!(decided(2.0, 1), 0);
    // A transfer takes two seconds if all slots are in use and half if one is; what is known of lone
    // transfers does not make the second as fast as the first.
    let mut shared = schedule(Arbitration::PaAware, 1, 2);
    shared.estimate(Times { pushdown: 1.0, pushback: 0.5, caller: 1.0 }, |_| None);
    for _ in 0..3 {
        shared.offer(request("q", 1.2, 2.6)).unwrap();
    }
    let made = decisions(&mut shared, 0.0);
    assert_eq!(made.iter().filter(|(_, path)| *path == Path::Pushback).count(), 1, "{made:?}");
}

/// A caller without idle cores is given work back if storage is weak, not if it is as strong.
#[test]
fn a_busy_caller_is_spared() {
    for (busy, pushdown, pushed_back) in [(false, 1.0, 1), (true, 1.0, 0), (true, 1.5, 1)] {
        let mut schedule = schedule(Arbitration::PaAware, 1, 1);
        for _ in 0..20 {
            let mut request = Request { caller_is_busy: busy, ..request("q", pushdown, 2.0) };
            request.times.caller = 1.0;
            schedule.offer(request).unwrap();
        }
        decisions(&mut schedule, 0.0);
        assert_eq!(schedule.pushed_back(), pushed_back, "{busy} {pushdown}");
    }
}

/// The example of section 3.4: r2 gains more from pushdown than r1, so r1 is pushed back.
#[test]
fn amenability_pairs_requests_with_paths() {
    let outcome = |order| {
        let mut schedule = schedule(order, 1, 1);
        let more_to_come = |request| Request { to_follow: 5, ..request };
        let r1 = schedule.offer(more_to_come(request("q12", 3.0, 4.0))).unwrap();
        let r2 = schedule.offer(more_to_come(request("q14", 1.0, 4.0))).unwrap();
        let made: HashMap<_, _> = decisions(&mut schedule, 0.0).into_iter().collect();
        (made[&r1], made[&r2])
    };
    assert_eq!(outcome(Arbitration::PaAware), (Path::Pushback, Path::Pushdown));
    assert_eq!(outcome(Arbitration::Fifo), (Path::Pushdown, Path::Pushback));
}

#[test]
fn the_queue_is_bounded_and_leaves_nothing_behind() {
    let mut schedule = Schedule::new(Arbitration::PaAware, Slots { pushdown: 1, pushback: 1 }, 3);
    let ids: Vec<_> = (0..3).map(|n| schedule.offer(request(&n.to_string(), 1.0, 1.5)).unwrap()).collect();
    assert_eq!(schedule.offer(request("late", 1.0, 1.5)), Err(QueueFull));
    assert_eq!(decisions(&mut schedule, 0.0).len(), 2);
    for id in &ids {
        // Running or waiting, whatever it was.
        schedule.withdraw(*id);
        schedule.finish(*id, 1.0);
        assert_eq!(schedule.finish(*id, 2.0), None);
    }
    assert_eq!(schedule.queue_length(), 0);
    assert_eq!(schedule.used(Path::Pushdown) + schedule.used(Path::Pushback), 0);
    assert_eq!(schedule.flows_remembered(), 0);
    assert!(schedule.offer(request("again", 1.0, 1.5)).is_ok());
}

/// What a simulated node did.
#[derive(Debug, Default)]
struct Run {
    seconds: f64,
    pushed_down: BTreeMap<String, usize>,
    finished_at: BTreeMap<String, f64>,
}

/// Lets the node work on `requests`, of which at most `in_flight` of each query are sent at once.
/// True times are the estimated ones times `truth`.
fn simulate(schedule: &mut Schedule, requests: Vec<Request>, in_flight: usize, truth: f64) -> Run {
    let mut unsent: BTreeMap<String, Vec<Request>> = BTreeMap::new();
    for request in requests.into_iter().rev() {
        unsent.entry(request.flow.query.to_string()).or_default().push(request);
    }
    let mut open: HashMap<RequestId, (String, Times)> = HashMap::new();
    let mut ends: Vec<(f64, RequestId)> = vec![];
    let mut run = Run::default();
    let mut now = 0.0;
    loop {
        for (query, left) in &mut unsent {
            while open.values().filter(|(of, _)| of == query).count() < in_flight {
                let Some(mut request) = left.pop() else { break };
                request.to_follow = left.len() as u32;
                let times = request.times;
                open.insert(schedule.offer(request).unwrap(), (query.clone(), times));
            }
        }
        for (id, path) in decisions(schedule, now) {
            let (query, times) = &open[&id];
            let time = match path {
                Path::Pushdown => {
                    *run.pushed_down.entry(query.clone()).or_default() += 1;
                    times.pushdown
                }
                Path::Pushback => times.pushback,
            };
            ends.push((now + time * truth, id));
        }
        ends.sort_by(|a, b| b.0.total_cmp(&a.0));
        let Some((end, id)) = ends.pop() else {
            assert_eq!(schedule.queue_length(), 0, "requests wait although nothing runs");
            run.seconds = now;
            return run;
        };
        now = end;
        let (query, _) = open.remove(&id).unwrap();
        run.finished_at.insert(query, now);
        schedule.finish(id, now);
    }
}

/// Section 3.1: n = k/(k+1) N are admitted, T = T_npd / (k+1).
#[test]
fn admitted_requests_meet_the_optimum() {
    for order in [Arbitration::Fifo, Arbitration::PaAware] {
        for (requests, slots, in_flight) in [(190, 1, 190), (156, 1, 16), (1000, 2, 32), (1000, 4, 64)] {
            for power in [1.0, 0.8, 0.6, 0.5, 0.4, 0.3, 0.25, 0.2, 0.1, 0.05] {
                for truth in [1.0, 1.7] {
                    let (pushdown, pushback) = (1.0 / power, 2.5);
                    let mut schedule = schedule(order, slots, slots);
                    let sent = vec![request("q", pushdown, pushback); requests];
                    let run = simulate(&mut schedule, sent, in_flight, truth);
                    let n = run.pushed_down["q"] as f64;
                    let k = pushback / pushdown;
                    let optimum = k / (k + 1.0) * requests as f64;
                    // Whole requests per slot.
                    let tolerance = (0.02 * optimum).max(slots as f64);
                    let context = format!("{order:?} N={requests} slots={slots} k={k}: {n} of {optimum:.1}");
                    assert!((n - optimum).abs() <= tolerance, "{context}");
                    assert_eq!(schedule.admitted() as f64, n);
                    assert_eq!(schedule.admitted() + schedule.pushed_back(), requests as u64);
                    // Never slower than the better of the two, and as fast as both together.
                    let alone = truth * requests as f64 / slots as f64;
                    let best = alone * pushback / (k + 1.0);
                    assert!(run.seconds <= alone * pushback.min(pushdown) * 1.001, "{context}: {} s", run.seconds);
                    assert!(run.seconds <= best + truth * pushback.max(pushdown), "{context}: {} s", run.seconds);
                }
            }
        }
    }
}

/// The concurrent run of section 6.2: PA-awareness moves pushdown slots to the query that gains
/// more from them, and takes nothing from the other.
#[test]
fn amenability_speeds_up_a_concurrent_pair() {
    let requests = || -> Vec<Request> {
        let q12 = (0..190).map(|_| request("q12", 3.0, 3.5));
        let q14 = (0..156).map(|_| request("q14", 1.0, 4.0));
        q12.chain(q14).collect()
    };
    let run = |order| simulate(&mut schedule(order, 2, 2), requests(), 16, 1.0);
    let (fifo, aware) = (run(Arbitration::Fifo), run(Arbitration::PaAware));
    assert!(aware.pushed_down["q14"] > fifo.pushed_down["q14"], "{aware:?} {fifo:?}");
    assert!(aware.pushed_down["q12"] < fifo.pushed_down["q12"], "{aware:?} {fifo:?}");
    assert!(aware.finished_at["q14"] * 1.3 < fifo.finished_at["q14"], "{aware:?} {fifo:?}");
    assert!(aware.finished_at["q12"] <= fifo.finished_at["q12"] * 1.01, "{aware:?} {fifo:?}");
}

#[test]
fn a_large_query_does_not_starve_a_small_one() {
    for order in [Arbitration::Fifo, Arbitration::PaAware] {
        // The small query is in the middle of the amenabilities, where neither end would take it,
        // or is what pushdown would take last.
        for (pushdown, pushback) in [(1.0, 1.6), (5.0, 4.0)] {
            let mut schedule = schedule(order, 2, 2);
            let mut large = BTreeMap::new();
            for n in 0..1000 {
                let skew = f64::from(n % 2) * 0.5;
                large.insert(schedule.offer(request("large", 1.0 + skew, 2.0)).unwrap(), 1.0 + skew);
            }
            // The large query is well under way.
            let mut running = decisions(&mut schedule, 0.0);
            let mut now = 0.0;
            for _ in 0..100 {
                now += 0.4;
                let (id, _) = running.remove(0);
                schedule.finish(id, now);
                running.extend(decisions(&mut schedule, now));
            }
            let small: Vec<_> = (0..2).map(|_| schedule.offer(request("small", pushdown, pushback)).unwrap()).collect();
            let mut others = 0;
            let mut left = small.len();
            while left > 0 {
                now += 0.4;
                let (id, _) = running.remove(0);
                schedule.finish(id, now);
                for (id, path) in decisions(&mut schedule, now) {
                    if small.contains(&id) {
                        left -= 1;
                    } else {
                        others += 1;
                    }
                    running.push((id, path));
                }
            }
            assert!(others <= 40, "{order:?}: {others} requests of the large query came first");
        }
    }
}

/// A tenant with ten queries gets what a tenant with one gets.
#[test]
fn tenants_share_before_queries_do() {
    share_alike(
        |n, flow| {
            flow.tenant = Arc::from("many");
            flow.query = (n % 10).to_string().into();
        },
        |flow| flow.tenant = Arc::from("one"),
    );
}

/// A peer that names another tenant and another query in each request gets what one with a single query gets.
#[test]
fn peers_share_before_what_they_say_of_themselves() {
    share_alike(
        |n, flow| {
            flow.peer = Arc::from("many");
            flow.tenant = n.to_string().into();
            flow.query = n.to_string().into();
        },
        |flow| flow.peer = Arc::from("one"),
    );
}

/// Twice as many requests of `many` as of `one` in the queue; both are served as often.
fn share_alike(many: impl Fn(usize, &mut Flow), one: impl Fn(&mut Flow)) {
    let mut schedule = schedule(Arbitration::PaAware, 2, 0);
    let mut of = HashMap::new();
    for n in 0..400 {
        let mut request_of_many = request("q", 1.0, 1.0);
        many(n, &mut request_of_many.flow);
        of.insert(schedule.offer(request_of_many).unwrap(), "many");
        if n < 200 {
            let mut request_of_one = request("q", 1.0, 1.0);
            one(&mut request_of_one.flow);
            of.insert(schedule.offer(request_of_one).unwrap(), "one");
        }
    }
    let mut served: HashMap<&str, usize> = HashMap::new();
    let mut running = decisions(&mut schedule, 0.0);
    let mut now = 0.0;
    while served.values().sum::<usize>() < 200 {
        let (id, _) = running.remove(0);
        *served.entry(of[&id]).or_default() += 1;
        now += 0.5;
        schedule.finish(id, now);
        running.extend(decisions(&mut schedule, now));
    }
    assert!(served["one"].abs_diff(served["many"]) <= 20, "{served:?}");
}

#[test]
fn requests_of_any_age_are_compared_by_one_correction() {
    let mut schedule = schedule(Arbitration::PaAware, 1, 1);
    let old = schedule.offer(request("old", 1.0, 3.0)).unwrap();
    // Pushback takes a third of what it used to.
    schedule.estimate(Times { pushdown: 1.0, pushback: 1.0 / 3.0, caller: 1.0 }, |_| None);
    let new = schedule.offer(request("new", 1.0, 9.0)).unwrap();
    assert_eq!(decisions(&mut schedule, 0.0), [(new, Path::Pushdown), (old, Path::Pushback)]);
    // An estimate that was corrected is compared with what the model said.
    assert_eq!(schedule.finish(old, 1.0), Some(Held { path: Path::Pushback, modelled: 3.0, actual: 1.0 }));
}

#[test]
fn what_was_learnt_meanwhile_counts_for_those_who_wait() {
    let mut schedule = schedule(Arbitration::PaAware, 1, 1);
    let [a, b, c] = ["a", "b", "c"].map(|query| schedule.offer(request(query, 5.0, 3.0)).unwrap());
    let learnt = |id| (id == c).then_some(Times { pushdown: 1.0, pushback: 3.0, caller: 0.0 });
    schedule.estimate(Times { pushdown: 1.0, pushback: 1.0, caller: 1.0 }, learnt);
    assert_eq!(decisions(&mut schedule, 0.0), [(c, Path::Pushdown), (a, Path::Pushback)]);
    assert_eq!(schedule.queue_length(), 1, "{b:?} waits");
}

#[test]
fn estimates_follow_what_was_observed() {
    let slots = Slots { pushdown: 2, pushback: 4 };
    let close = |found: f64, expected: f64| assert!((found / expected - 1.0).abs() < 0.01, "{found} {expected}");
    let shape = shape_of(b"fragment", "lineitem/0.parquet");
    assert_eq!(shape, shape_of(b"fragment", "lineitem/1.parquet"));
    assert_ne!(shape, shape_of(b"fragment", "orders/0.parquet"));

    let mut known = Knowledge::new(slots, 0.5, 8, Some(40_000_000));
    // Prior: 100 MB/s of a core, of which a slot has half; a quarter of the link each.
    let times = known.times(shape, 10_000_000, Some(1_000_000), 0.0);
    close(times.pushback, 1.0);
    close(times.pushdown, 0.2 + 0.1);
    close(known.times(shape, 10_000_000, None, 0.0).pushdown, 0.2 + 0.2);

    // Half the prior's speed, and twice the answer.
    known.executed(shape, 10_000_000, (Some(1_000_000), 2_000_000), Some(0.2), 1.0);
    close(known.times(shape, 10_000_000, Some(1_000_000), 1.0).pushdown, 0.4 + 0.2);
    // Other literals of the shape: half of what was expected before, and so half the answer; never
    // more than the stored bytes.
    close(known.times(shape, 10_000_000, Some(500_000), 1.0).pushdown, 0.4 + 0.1);
    close(known.times(shape, 10_000_000, Some(90_000_000), 1.0).pushdown, 0.4 + 1.0);
    // Another shape profits from the node's speed, not from this shape's selectivity.
    let other = shape_of(b"other", "lineitem/0.parquet");
    close(known.times(other, 10_000_000, Some(1_000_000), 1.0).pushdown, 0.4 + 0.1);
    // Newer observations weigh more, but one is not everything.
    known.executed(shape, 10_000_000, (None, 2_000_000), Some(0.1), 2.0);
    let times = known.times(shape, 10_000_000, None, 2.0);
    assert!(times.pushdown < 0.6 && times.pushdown > 0.4, "{times:?}");
    // After a minute without pushdown its speed is guessed anew; the selectivity stays.
    close(known.times(shape, 10_000_000, None, 100.0).pushdown, 0.2 + 0.2);

    // Two slots on one core have half of it each, whatever their power.
    let mut crowded = Knowledge::new(slots, 0.9, 1, None);
    close(crowded.times(shape, 10_000_000, Some(0), 0.0).pushdown, 0.2);
    // Without a stated bandwidth: 1 Gbit/s until a transfer was seen.
    close(crowded.times(shape, 12_500_000, None, 0.0).pushback, 0.4);
    crowded.transferred(10_000_000, 1.0, 1.0);
    crowded.transferred(100, 1.0, 1.0);
    close(crowded.times(shape, 10_000_000, None, 1.0).pushback, 1.0);
    // Slots that are held for longer than the model says correct it, up to a limit.
    let held = |modelled, actual| Held { path: Path::Pushback, modelled, actual };
    let corrected = |known: &Knowledge, now: f64| known.corrections(now).pushback;
    crowded.held(held(1.0, 1.5), 1.0);
    close(corrected(&crowded, 1.0), 1.15);
    // What was modelled before the correction and is observed after it teaches the same.
    crowded.held(held(1.0, 1.15), 1.0);
    close(corrected(&crowded, 1.0), 1.15);
    close(crowded.corrections(1.0).pushdown, 1.0);
    for _ in 0..100 {
        crowded.held(held(1.0, 1e9), 1.0);
    }
    close(corrected(&crowded, 1.0), 4.0);
    close(corrected(&crowded, 100.0), 1.0);
    close(crowded.times(shape, 12_500_000, None, 100.0).pushback, 0.4);
    // Nothing is divided by nothing.
    crowded.held(held(0.0, 0.0), 1.0);
    crowded.executed(shape, 0, (None, 0), Some(0.0), 1.0);
    let empty = crowded.times(shape, 0, None, 1.0);
    assert!(empty.pushdown == 0.0 && empty.pushback == 0.0, "{empty:?}");
}

#[test]
fn shapes_are_forgotten_before_they_fill_memory() {
    let slots = Slots { pushdown: 1, pushback: 1 };
    let mut known = Knowledge::new(slots, 1.0, 1, Some(1_000_000));
    let kept = shape_of(b"kept", "t/0");
    known.executed(kept, 1_000_000, (None, 500_000), None, 0.0);
    for n in 0..25_000_u32 {
        known.executed(shape_of(&n.to_le_bytes(), "t/0"), 1000, (None, 10), Some(0.1), 0.0);
        known.times(kept, 1_000_000, None, 0.0);
        assert!(known.shapes_remembered() <= 10_000);
    }
    let times = known.times(kept, 1_000_000, Some(0), 100.0);
    assert!(times.pushdown > 0.5, "what is used stays: {times:?}");
}

#[test]
fn a_lease_ends_with_its_bytes_or_in_silence() {
    let mut schedule = schedule(Arbitration::Fifo, 1, 8);
    let ids: Vec<_> = (0..5).map(|n| schedule.offer(request(&n.to_string(), 9.0, 1.0)).unwrap()).collect();
    let mut leases = Leases::new(10.0, 1.0, u64::MAX - 1);
    let tokens: Vec<_> = ids.iter().map(|id| leases.grant(*id, 100, 0.0)).collect();
    // Two transfers side by side; the slot is free when the last one ends with all bytes sent.
    assert!(leases.begin(tokens[0], 0.0));
    assert!(leases.begin(tokens[0], 0.0));
    assert_eq!(leases.end(tokens[0], 60, 1.0), None);
    assert_eq!(leases.end(tokens[0], 40, 2.0), Some(ids[0]));
    assert!(!leases.begin(tokens[0], 2.0), "a token works once");
    // A transfer that is cut off, one that takes its time, and one whose reader is away.
    assert!(leases.begin(tokens[1], 2.0));
    assert_eq!(leases.end(tokens[1], 30, 9.0), None);
    for token in [tokens[2], tokens[4]] {
        assert!(leases.begin(token, 5.0));
        leases.set_at_work(token, true, 5.5);
        leases.set_at_work(token, false, 7.0);
    }
    assert_eq!(leases.expire(7.9), []);
    leases.set_at_work(tokens[2], true, 7.9);
    assert_eq!(leases.expire(8.0), [ids[4]]);
    assert_eq!(leases.end(tokens[4], 100, 8.0), None, "it went on without a slot");
    // The fourth never comes.
    assert_eq!(leases.expire(9.9), []);
    assert_eq!(leases.expire(10.0), [ids[3]]);
    assert_eq!(leases.expire(18.9), []);
    assert_eq!(leases.expire(19.0), [ids[1]]);
    assert_eq!(leases.expire(1e6), [], "a transfer under way is no silence");
    assert_eq!(leases.end(tokens[2], 100, 1e6), Some(ids[2]));
    assert_eq!(leases.end(tokens[2], 100, 1e6), None);
    assert_eq!(leases.revoke(tokens[3]), None);
}
