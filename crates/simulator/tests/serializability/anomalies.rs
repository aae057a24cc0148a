//! Small histories with one anomaly each.

use thermocline_simulator::Outcome::{Aborted, Committed, Unknown};
use thermocline_simulator::checker::check;
use thermocline_simulator::{Outcome, Step, Transaction};

fn append(key: i64, value: i64) -> Step {
    Step::Append { key, value }
}

fn list(key: i64, list: &[i64]) -> Step {
    Step::ReadList { key, list: list.to_vec() }
}

fn replace(key: i64, before: i64, value: i64) -> Step {
    Step::Replace { key, before, value }
}

fn register(key: i64, value: i64) -> Step {
    Step::ReadRegister { key, value }
}

/// Begin, end, outcome, steps.
type Short<'a> = (u64, u64, Outcome, &'a [Step]);

/// Transactions of these times.
fn history(transactions: &[Short<'_>]) -> Vec<Transaction> {
    let of = |(client, (begin, end, outcome, steps)): (usize, &Short<'_>)| Transaction {
        client,
        begin: *begin,
        end: *end,
        outcome: *outcome,
        steps: steps.to_vec(),
    };
    transactions.iter().enumerate().map(of).collect()
}

fn found(transactions: &[Short<'_>]) -> String {
    check(&history(transactions)).map_or_else(|anomaly| anomaly.name(), |()| "nothing".into())
}

#[test]
fn what_may_be() {
    // A serial history, a concurrent one in either order, an unknown outcome in either way.
    let serial: [Short<'_>; 4] = [
        (0, 1, Committed, &[append(1, 1), list(1, &[1]), append(1, 2)]),
        (2, 3, Aborted, &[append(1, 9)]),
        (4, 5, Committed, &[list(1, &[1, 2]), replace(2, 0, 7), register(2, 7)]),
        (6, 7, Committed, &[register(2, 7), list(1, &[1, 2])]),
    ];
    assert_eq!(found(&serial), "nothing");
    for seen in [&[][..], &[1]] {
        assert_eq!(found(&[(0, 9, Committed, &[append(1, 1)]), (0, 9, Committed, &[list(1, seen)])]), "nothing");
        let unknown: [Short<'_>; 2] = [(0, 1, Unknown, &[append(1, 1)]), (5, 9, Committed, &[list(1, seen)])];
        assert_eq!(found(&unknown), "nothing");
    }
}

#[test]
fn what_must_not_be() {
    let cases: [(&str, &[Short<'_>]); 15] = [
        (
            "G-single, real time",
            &[
                (0, 1, Committed, &[append(1, 1)]),
                (2, 3, Committed, &[list(1, &[])]),
                (4, 5, Committed, &[list(1, &[1])]),
            ],
        ),
        // Acknowledged and lost.
        (
            "G-single, real time",
            &[
                (0, 1, Committed, &[append(1, 1)]),
                (0, 1, Committed, &[append(1, 2)]),
                (2, 3, Committed, &[list(1, &[1])]),
            ],
        ),
        // Two increments of one version.
        ("G2 anti-dependency cycle", &[(0, 9, Committed, &[replace(1, 0, 1)]), (0, 9, Committed, &[replace(1, 0, 2)])]),
        // Write skew.
        (
            "G2 anti-dependency cycle",
            &[
                (0, 9, Committed, &[register(1, 0), register(2, 0), replace(1, 0, 5)]),
                (0, 9, Committed, &[register(1, 0), register(2, 0), replace(2, 0, 6)]),
            ],
        ),
        (
            "G2 anti-dependency cycle",
            &[
                (0, 9, Committed, &[list(1, &[]), append(2, 1)]),
                (0, 9, Committed, &[list(2, &[]), append(1, 2)]),
                (10, 11, Committed, &[list(1, &[2]), list(2, &[1])]),
            ],
        ),
        // One half of a transaction is seen.
        (
            "G-single",
            &[
                (0, 9, Committed, &[append(1, 1), append(2, 1)]),
                (0, 9, Committed, &[list(1, &[1]), list(2, &[])]),
                (0, 9, Committed, &[list(2, &[1])]),
            ],
        ),
        // Each saw the other.
        (
            "G1c circular information flow",
            &[(0, 9, Committed, &[append(1, 1), list(2, &[2])]), (0, 9, Committed, &[append(2, 2), list(1, &[1])])],
        ),
        (
            "G0 write cycle",
            &[
                (0, 9, Committed, &[append(1, 1), append(2, 1)]),
                (0, 9, Committed, &[append(1, 2), append(2, 2)]),
                (0, 9, Unknown, &[]),
                (0, 9, Committed, &[list(1, &[1, 2]), list(2, &[2, 1])]),
            ],
        ),
        ("G1a aborted read", &[(0, 1, Aborted, &[append(1, 1)]), (0, 9, Committed, &[list(1, &[1])])]),
        ("G1a aborted read", &[(0, 1, Aborted, &[replace(1, 0, 1)]), (0, 9, Committed, &[register(1, 1)])]),
        (
            "G1b intermediate read",
            &[(0, 9, Committed, &[append(1, 1), append(1, 2)]), (0, 9, Committed, &[list(1, &[1])])],
        ),
        (
            "G1b intermediate read",
            &[(0, 9, Committed, &[replace(1, 0, 1), replace(1, 1, 2)]), (0, 9, Committed, &[register(1, 1)])],
        ),
        ("phantom", &[(0, 9, Committed, &[list(1, &[3])])]),
        (
            "incompatible orders",
            &[
                (0, 9, Committed, &[append(1, 1)]),
                (0, 9, Committed, &[append(1, 2)]),
                (0, 9, Committed, &[list(1, &[1, 2])]),
                (0, 9, Committed, &[list(1, &[2])]),
            ],
        ),
        ("internal", &[(0, 9, Committed, &[append(1, 1), list(1, &[])])]),
    ];
    for (expected, transactions) in cases {
        let found = found(transactions);
        assert_eq!(found, expected, "{transactions:?}");
    }
}

#[test]
fn one_that_nobody_knows_of_is_there_whole_or_not_at_all() {
    let unknown = [append(1, 1), append(2, 2)];
    let others = |second: &'static [i64]| {
        found(&[
            (0, 9, Unknown, &unknown),
            (1, 2, Committed, &[append(2, 3)]),
            (10, 11, Committed, &[list(1, &[1]), list(2, second)]),
        ])
    };
    assert_eq!((&*others(&[3, 2]), &*others(&[3])), ("nothing", "G-single"));
}

#[test]
fn a_cycle_is_printed_with_its_reasons() {
    let transactions = history(&[
        (0, 1, Committed, &[append(1, 1)]),
        (2, 3, Committed, &[list(1, &[])]),
        (4, 5, Committed, &[list(1, &[1])]),
    ]);
    let text = check(&transactions).unwrap_err().describe(&transactions).to_string();
    let expected = "G-single, real time:\n  T0 client 0, 0..1, Committed: append(1, 1)\n    ended before the begin of\n  \
                    T1 client 1, 2..3, Committed: list(1) = []\n    read what was replaced by\n";
    assert_eq!(text, expected);
}
