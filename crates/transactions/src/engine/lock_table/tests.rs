use std::collections::BTreeMap;

use thermocline_machine::random::Random;

use super::*;

fn request(owner: u64, last: Option<u32>, partitions: &[u32]) -> (Request<u64>, Asking) {
    let asking = Asking { owner: Owner(owner), last };
    (Request { partitions: partitions.into(), session: Some(asking), what: owner }, asking)
}

/// The transactions that must end; `None` if the partitions were granted.
fn ask(table: &mut LockTable<u64>, owner: u64, last: Option<u32>, partitions: &[u32]) -> Option<Vec<u64>> {
    let (request, asking) = request(owner, last, partitions);
    match table.ask(request, asking) {
        Asked::Entered(_) => None,
        Asked::Waits(victims) => Some(victims.into_iter().map(|request| request.what).collect()),
    }
}

fn names(requests: Vec<Request<u64>>) -> Vec<u64> {
    requests.into_iter().map(|request| request.what).collect()
}

fn waits() -> Option<Vec<u64>> {
    Some(Vec::new())
}

#[test]
fn who_asks_out_of_order_ends() {
    for in_order_is_first in [true, false] {
        let mut table = LockTable::new(3);
        assert_eq!((ask(&mut table, 1, None, &[0]), ask(&mut table, 2, None, &[2])), (None, None));
        if in_order_is_first {
            assert_eq!(ask(&mut table, 1, Some(0), &[2]), waits());
            assert_eq!(ask(&mut table, 2, Some(2), &[0]), Some(vec![2]));
        } else {
            assert_eq!(ask(&mut table, 2, Some(2), &[0]), waits());
            assert_eq!(ask(&mut table, 1, Some(0), &[2]), Some(vec![2]));
        }
        assert_eq!(names(table.release(2)), [1]);
    }
    // Of two, the later one.
    let mut table = LockTable::new(3);
    (0..3).for_each(|owner| assert_eq!(ask(&mut table, owner, None, &[owner as u32]), None));
    assert_eq!(ask(&mut table, 2, Some(2), &[1]), waits());
    assert_eq!(ask(&mut table, 1, Some(1), &[0]), waits());
    assert_eq!(ask(&mut table, 0, Some(0), &[2]), Some(vec![2]));
    assert_eq!(names(table.release(2)), [0]);
}

#[test]
fn who_closes_two_circles_ends_both() {
    let mut table = LockTable::new(4);
    (0..3).for_each(|owner| assert_eq!(ask(&mut table, owner, None, &[owner as u32 + 1]), None));
    assert_eq!(ask(&mut table, 1, Some(2), &[1]), waits());
    assert_eq!(ask(&mut table, 2, Some(3), &[1]), waits());
    // Requests all others, of which one is free.
    assert_eq!(ask(&mut table, 0, Some(1), &[2, 3]), Some(vec![1, 2]));
    assert_eq!((names(table.release(2)), names(table.release(3))), (vec![], vec![0]));
}

#[test]
fn who_owns_nothing_waits_behind_others_and_is_never_refused() {
    let mut table = LockTable::new(3);
    assert_eq!(ask(&mut table, 1, None, &[0]), None);
    table.wait(Request { partitions: [0, 1, 2].into(), session: None, what: 10 });
    assert_eq!(ask(&mut table, 2, None, &[2]), waits(), "behind what is of no session");
    assert_eq!(ask(&mut table, 1, Some(0), &[2]), None, "an owner passes all of them");
    assert_eq!(ask(&mut table, 3, None, &[2]), waits());
    assert_eq!(names(table.release(0)), Vec::<u64>::new());
    assert_eq!(names(table.release(2)), [10, 2], "who came later may be behind it in the queues");
    let (withdrawn, entered) = table.withdraw(|what| *what == 3);
    assert_eq!((withdrawn.map(|request| request.what), names(entered)), (Some(3), vec![]));
    assert_eq!(names(table.release(2)), Vec::<u64>::new());
    assert!(table.is_free(&[0, 1, 2]));
}

/// Sessions that take partitions in any order, and requests for some partitions at once: all of them end, none that
/// takes partitions in order is a victim, and no partition has two owners.
#[test]
fn everybody_gets_what_he_asks_for_or_ends() {
    #[derive(Default)]
    struct RowSession {
        owns: Vec<u32>,
        waits: Vec<u32>,
        in_order: bool,
        left: u32,
    }
    for seed in 0..300 {
        let mut random = Random::new(seed);
        let partitions = 2 + random.index(5) as u32;
        let mut table = LockTable::new(partitions as usize);
        let mut sessions: BTreeMap<u64, RowSession> = BTreeMap::new();
        let (mut next, mut ordinary, mut refused) = (0, 0_u32, 0);
        let mut steps = 0;
        while steps < 400 || !sessions.is_empty() {
            steps += 1;
            assert!(steps < 100_000, "seed {seed}: nobody can go on");
            if steps < 400 && random.one_in(4) {
                let left = 1 + random.index(4) as u32;
                sessions.insert(next, RowSession { in_order: random.one_in(2), left, ..RowSession::default() });
                next += 1;
            }
            let wanted = |random: &mut Random, from: u32| -> Vec<u32> {
                (from..partitions).filter(|_| random.one_in(3)).collect()
            };
            if steps < 400 && random.one_in(8) {
                let partitions = wanted(&mut random, 0);
                if !table.is_free(&partitions) {
                    ordinary += 1;
                    table.wait(Request { partitions: partitions.into(), session: None, what: u64::MAX });
                }
            }
            let able: Vec<u64> =
                sessions.iter().filter(|(_, session)| session.waits.is_empty()).map(|(owner, _)| *owner).collect();
            let Some(owner) = random.pick(&able).copied() else {
                assert!(steps < 400 && sessions.is_empty() || sessions.is_empty(), "seed {seed}: all wait");
                continue;
            };
            let mut ended = Vec::new();
            let session = sessions.get_mut(&owner).unwrap();
            let last = session.owns.iter().max().copied();
            let from = if session.in_order { last.map_or(0, |last| last + 1) } else { 0 };
            let mut asked = wanted(&mut random, from);
            asked.retain(|partition| !session.owns.contains(partition));
            session.left = session.left.saturating_sub(1);
            if session.left == 0 {
                ended.push(owner);
            } else if !asked.is_empty() {
                match ask(&mut table, owner, last, &asked) {
                    None => session.owns.extend(asked),
                    Some(victims) => {
                        session.waits = asked;
                        ended = victims;
                        refused += ended.len();
                    }
                }
            }
            for owner in ended {
                let session = sessions.remove(&owner).unwrap();
                let is_refused = session.left > 0;
                assert!(!is_refused || !session.in_order && !session.owns.is_empty(), "seed {seed}: refused");
                for partition in session.owns {
                    for entered in table.release(partition) {
                        match entered.session {
                            None => ordinary -= 1,
                            Some(asking) => {
                                let session = sessions.get_mut(&asking.owner.0).unwrap();
                                session.owns.append(&mut session.waits);
                            }
                        }
                    }
                }
            }
            let mut owned: Vec<u32> = sessions.values().flat_map(|session| session.owns.iter().copied()).collect();
            owned.sort_unstable();
            assert!(owned.windows(2).all(|pair| pair[0] < pair[1]), "seed {seed}: {owned:?}");
        }
        assert_eq!(ordinary, 0, "seed {seed}");
        assert!(seed % 10 != 0 || next > 20, "{next} sessions, {refused} refused");
    }
}
