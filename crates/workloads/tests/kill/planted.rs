//! Planted losses, to check that they are detected.

use std::collections::HashMap;
use std::sync::Arc;

use thermocline_transactions::database::{RowEngine, RowSession, Settings};
use thermocline_transactions::disk::{Faults, SimulatedDisk};
use thermocline_transactions::types::Value;
use thermocline_workloads::oltp::Language;
use thermocline_workloads::tpcc::Transaction;
use thermocline_workloads::ycsb;

use super::child::{MEMORY_TO_COMPARE, settings};
use super::clients::{CLIENTS, Languages, Workload, calls, told};
use super::known::{Known, Loaded};
use super::sent::{Fate, Sent};

/// A database after some calls, made one after the other.
struct Ran {
    database: RowEngine,
    loaded: Loaded,
    sent: Vec<Sent>,
}

pub fn in_memory(languages: Languages) -> RowEngine {
    let disk = Arc::new(SimulatedDisk::new(1, Faults::default()));
    RowEngine::open(disk, Settings { memory_bytes_max: MEMORY_TO_COMPARE, ..settings(languages) }).unwrap()
}

impl Ran {
    fn new(languages: Languages) -> Self {
        let database = in_memory(languages);
        let loaded = Loaded::new(&database, languages);
        let mut sent = Vec::new();
        for client in 0..CLIENTS {
            let workload = Workload::of(client);
            let mut calls = calls(client, 1, languages);
            let mut connection = database.client();
            for _ in 0..150 {
                let call = calls.next_call();
                let begin = 2 * sent.len() as u64 + 1;
                let work = database.procedure(&workload.procedures(languages)[call.procedure]).unwrap();
                let fate = match connection.call(work, call.arguments.clone()) {
                    Ok(answer) => Fate::Committed(told(client, call.procedure, &answer).into()),
                    Err(error) if error.sqlstate() == "P0001" => Fate::Refused,
                    Err(error) => panic!("{call:?}: {error}"),
                };
                sent.push(Sent { workload, call, begin, end: begin + 1, fate });
            }
        }
        Self { database, loaded, sent }
    }

    /// Anomalies found after these statements, which are undone.
    fn found_after(&self, statements: &[String], sent: &[Sent]) -> Vec<String> {
        let mut session = self.database.session();
        let run = |session: &mut RowSession, sql: &str| session.execute(sql, &[]).map(|answer| answer.affected);
        run(&mut session, "BEGIN").unwrap();
        for sql in statements {
            let affected = run(&mut session, sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
            assert!(affected > 0, "{sql} changes nothing");
        }
        let after = Known::read(&mut session);
        let found = self.loaded.known.anomalies(&after, &mut session, sent);
        run(&mut session, "ROLLBACK").unwrap();
        found
    }

    /// Position of the last committed call of a transaction that satisfies `is`.
    fn last(&self, transaction: Transaction, is: impl Fn(&Sent, &str) -> bool) -> usize {
        let found = self.sent.iter().rposition(|sent| {
            let Fate::Committed(told) = &sent.fate else { return false };
            sent.workload == Workload::Tpcc && Transaction::ALL[sent.call.procedure] == transaction && is(sent, told)
        });
        found.unwrap_or_else(|| panic!("no {transaction:?} is like that"))
    }
}

fn told_of(sent: &Sent) -> &str {
    let Fate::Committed(told) = &sent.fate else { panic!("{sent:?}") };
    told
}

fn int(sent: &Sent, argument: usize) -> i64 {
    let Value::Int(value) = sent.call.arguments[argument] else { panic!("{sent:?}") };
    value
}

/// Removes a whole order, including its district's counter: the conditions still hold.
fn without_order(w: i64, d: i64, o: i64) -> Vec<String> {
    let mut statements: Vec<String> = [("order_line", "ol"), ("new_order", "no"), ("orders", "o")]
        .iter()
        .map(|(table, p)| format!("DELETE FROM {table} WHERE {p}_w_id = {w} AND {p}_d_id = {d} AND {p}_o_id = {o}"))
        .collect();
    statements[2] = format!("DELETE FROM orders WHERE o_w_id = {w} AND o_d_id = {d} AND o_id = {o}");
    statements.push(format!("UPDATE district SET d_next_o_id = {o} WHERE d_w_id = {w} AND d_id = {d}"));
    statements
}

/// Removes a payment with all its effects: the conditions still hold.
fn without_payment(paid: &Sent) -> Vec<String> {
    let [w, d, c_w, c_d] = [0, 1, 2, 3].map(|argument| int(paid, argument));
    let (c, amount) = (told_of(paid), &paid.call.arguments[6]);
    let of_customer = format!("c_w_id = {c_w} AND c_d_id = {c_d} AND c_id = {c}");
    vec![
        format!(
            "DELETE FROM history WHERE h_w_id = {w} AND h_d_id = {d} AND h_c_w_id = {c_w} AND h_c_d_id = {c_d} \
             AND h_c_id = {c} AND h_amount = {amount}"
        ),
        format!("UPDATE warehouse SET w_ytd = w_ytd - {amount} WHERE w_id = {w}"),
        format!("UPDATE district SET d_ytd = d_ytd - {amount} WHERE d_w_id = {w} AND d_id = {d}"),
        format!(
            "UPDATE customer SET c_balance = c_balance + {amount}, c_ytd_payment = c_ytd_payment - {amount}, \
             c_payment_cnt = c_payment_cnt - 1 WHERE {of_customer}"
        ),
    ]
}

/// Restores an order's state before its delivery, except the customer's balance and count.
fn undelivered(w: i64, d: i64, o: i64) -> Vec<String> {
    vec![
        format!("UPDATE orders SET o_carrier_id = NULL WHERE o_w_id = {w} AND o_d_id = {d} AND o_id = {o}"),
        format!("UPDATE order_line SET ol_delivery_d = NULL WHERE ol_w_id = {w} AND ol_d_id = {d} AND ol_o_id = {o}"),
        format!("INSERT INTO new_order VALUES ({w}, {d}, {o})"),
    ]
}

/// The last order of an acknowledged delivery: warehouse, district, order.
fn last_delivered(delivery: &Sent) -> (i64, i64, i64) {
    let (district, order) = told_of(delivery).rsplit(',').next().unwrap().split_once(':').unwrap();
    (int(delivery, 0), district.parse().unwrap(), order.parse().unwrap())
}

fn assert_found(found: &[String], expected: &str) {
    assert!(found.iter().any(|found| found.contains(expected)), "\"{expected}\" is not found, but {found:#?}");
}

/// The last update whose row and column no other call has: position, row, column, value.
fn last_update(ran: &Ran) -> (usize, i64, i64, &str) {
    let of_ycsb = ran.sent.iter().enumerate().filter(|(_, sent)| sent.workload == Workload::Ycsb);
    let mut calls = HashMap::<i64, usize>::new();
    of_ycsb.clone().for_each(|(_, sent)| *calls.entry(int(sent, 0)).or_default() += 1);
    let mut alone = of_ycsb.filter(|(_, sent)| sent.call.arguments.len() == 3 && calls[&int(sent, 0)] == 1);
    let (position, update) = alone.next_back().unwrap();
    let Value::Text(value) = &update.call.arguments[1] else { panic!("{update:?}") };
    (position, int(update, 0), int(update, 2), value)
}

/// A value as loaded.
fn loaded_value(key: i64, field: i64) -> String {
    ycsb::row(key.cast_unsigned(), ycsb::FIELD_BYTES)[field as usize + 1].to_string()
}

#[test]
fn each_loss_is_found() {
    let ran = Ran::new(Languages::of(0));
    let found = ran.found_after(&[], &ran.sent);
    assert!(found.is_empty(), "{found:#?}");
    let mut cases: Vec<(Vec<String>, &str)> = Vec::new();

    let (_, key, field, value) = last_update(&ran);
    let set = |value: &str| vec![format!("UPDATE usertable SET field{field} = '{value}' WHERE ycsb_key = {key}")];
    let loaded = loaded_value(key, field);
    cases.push((set(&loaded), "is lost"));
    cases.push((set(&format!("{}{}", &value[..50], &loaded[50..])), "is what nobody wrote"));
    cases.push((vec![format!("DELETE FROM usertable WHERE ycsb_key = {key}")], "is gone"));
    cases.push((vec![format!("CALL ycsb_update({key}, 'else', 3)")], "is what nobody wrote: else"));

    let order = &ran.sent[ran.last(Transaction::NewOrder, |_, _| true)];
    let (w, d, o) = (int(order, 0), int(order, 1), told_of(order).parse().unwrap());
    let line = format!("WHERE ol_w_id = {w} AND ol_d_id = {d} AND ol_o_id = {o} AND ol_number = 2");
    cases.push((vec![format!("DELETE FROM order_line {line}")], "condition 6"));
    cases.push((vec![format!("DELETE FROM order_line {line}")], "is not what was acknowledged"));
    cases.push((vec![format!("UPDATE order_line SET ol_quantity = 11 {line}")], "is not what was acknowledged"));
    cases.push((vec![format!("DELETE FROM orders WHERE o_w_id = {w} AND o_d_id = {d} AND o_id = 1")], "has changed"));
    cases.push((without_order(w, d, o), "was acknowledged and is lost"));
    cases.push((vec!["CALL new_order(1, 1, 1, '1:1:1', NULL)".to_owned()], "is not what anybody asked for"));

    // The part of an order on the other partition.
    let remote = &ran.sent[ran.last(Transaction::NewOrder, |sent, _| sent.is_remote())];
    let Value::Text(lines) = &remote.call.arguments[3] else { panic!("{remote:?}") };
    let away = format!(":{}:", int(remote, 0));
    let line: Vec<&str> = lines.split(' ').find(|line| !line.contains(&away)).unwrap().split(':').collect();
    let [item, supplier, quantity] = line[..] else { panic!("{lines}") };
    let back = format!("s_ytd = s_ytd - {quantity}, s_order_cnt = s_order_cnt - 1, s_remote_cnt = s_remote_cnt - 1");
    let stock = format!("UPDATE stock SET {back} WHERE s_w_id = {supplier} AND s_i_id = {item}");
    cases.push((vec![stock], "by its orders it would be"));

    let paid = &ran.sent[ran.last(Transaction::Payment, |sent, _| sent.is_remote())];
    let back = without_payment(paid);
    cases.push((back[..1].to_vec(), "condition 8"));
    cases.push((back[3..].to_vec(), "by what happened it would be"));
    cases.push((back, "a payment was acknowledged and is lost"));
    let first = "DELETE FROM history WHERE h_w_id = 1 AND h_c_w_id = 1 AND h_c_d_id = 2 AND h_c_id = 3 \
                 AND h_c_payment_cnt = 1";
    cases.push((vec![first.to_owned()], "which had been there, is lost"));
    cases.push((vec!["CALL payment(1, 1, 2, 2, 3, NULL, 4.56)".to_owned()], "is not what anybody asked for"));

    let (w, d, o) = last_delivered(&ran.sent[ran.last(Transaction::Delivery, |_, _| true)]);
    cases.push((undelivered(w, d, o), "was acknowledged and is lost"));
    cases.push((undelivered(w, d, o), "by what happened it would be"));
    cases.push((vec!["CALL delivery(1, 1)".to_owned()], "that nobody asked for"));

    for (statements, expected) in cases {
        assert_found(&ran.found_after(&statements, &ran.sent), expected);
    }
}

/// Losing whole transactions leaves a database that satisfies all conditions.
#[test]
fn conditions_alone_would_not_do() {
    let ran = Ran::new(Languages { ycsb: Language::Sql, tpcc: Language::Lua });
    let order = &ran.sent[ran.last(Transaction::NewOrder, |_, _| true)];
    let order = without_order(int(order, 0), int(order, 1), told_of(order).parse().unwrap());
    let payment = without_payment(&ran.sent[ran.last(Transaction::Payment, |_, _| true)]);
    for statements in [order, payment] {
        let found = ran.found_after(&statements, &ran.sent);
        assert_found(&found, "was acknowledged and is lost");
        assert!(!found.iter().any(|found| found.starts_with("condition")), "{found:#?}");
    }
}

/// Calls without an answer, and refused ones.
#[test]
fn what_was_not_acknowledged_may_be_there_or_not_but_whole() {
    let ran = Ran::new(Languages::of(0));
    let delivery = ran.last(Transaction::Delivery, |_, told| told.split(',').count() == 10);
    let (update, key, field, _) = last_update(&ran);
    let changed =
        [update, ran.last(Transaction::NewOrder, |_, _| true), ran.last(Transaction::Payment, |_, _| true), delivery];
    let with = |fate: &Fate| {
        let mut sent = ran.sent.clone();
        changed.iter().for_each(|position| sent[*position].fate = fate.clone());
        sent
    };
    let unknown = with(&Fate::Unknown);
    assert_eq!(ran.found_after(&[], &unknown), [""; 0]);
    let payment = without_payment(&ran.sent[changed[2]]);
    assert_eq!(ran.found_after(&payment, &unknown), [""; 0]);
    let loaded = loaded_value(key, field);
    let update = format!("UPDATE usertable SET field{field} = '{loaded}' WHERE ycsb_key = {key}");
    assert_eq!(ran.found_after(&[update], &unknown), [""; 0]);

    let (w, d, o) = last_delivered(&ran.sent[delivery]);
    assert_found(&ran.found_after(&undelivered(w, d, o), &unknown), "are there in part");

    let refused = ran.found_after(&[], &with(&Fate::Refused));
    for expected in ["which was refused", "order (", "payment ", "that nobody asked for"] {
        assert_found(&refused, expected);
    }
}

/// A load that was killed.
#[test]
fn rows_that_are_not_loaded_are_found() {
    let languages = Languages::of(0);
    let database = in_memory(languages);
    let loaded = Loaded::new(&database, languages);
    let mut session = database.session();
    assert_eq!(loaded.anomalies_of_part(&mut session), [""; 0]);
    for (statement, expected) in [
        ("DELETE FROM stock WHERE s_w_id = 1 AND s_i_id = 1", None),
        ("DELETE FROM item WHERE i_id = 7", Some("an INSERT is there in part: 999 rows of item")),
        ("UPDATE district SET d_ytd = 0 WHERE d_w_id = 1 AND d_id = 1", Some("district has a row that nobody loads")),
        ("DROP TABLE warehouse", Some("district is there, and warehouse, which was made before it, is not")),
    ] {
        session.execute(statement, &[]).unwrap();
        let found = loaded.anomalies_of_part(&mut session);
        match expected {
            Some(expected) => assert_found(&found, expected),
            None => assert_eq!(found, [""; 0]),
        }
    }
}
