//! YCSB and TPC-C at small size: loaded, run by several clients, and checked, on one partition and on two.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

mod states;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use thermocline_transactions::database::{RowEngine, RowSession, Settings};
use thermocline_transactions::disk::{Disk, Faults, RealDisk, SimulatedDisk};
use thermocline_transactions::ids::Micros;
use thermocline_transactions::procedure::Registration;
use thermocline_transactions::sql::Rows;
use thermocline_transactions::types::{Decimal, Value, ValueRef};
use thermocline_workloads::oltp::{Call, Calls, DriveOptions, Language, Measured, drive};
use thermocline_workloads::tpcc::{self, Condition, Remote, Scale, Terminal, Transaction};
use thermocline_workloads::ycsb::{self, FIELD_BYTES, Mix, Skew, YcsbCalls};

fn open(disk: Arc<dyn Disk>, partitions: u16, procedures: Vec<Registration>) -> RowEngine {
    RowEngine::open(disk, Settings { partitions, seed: 1, procedures, ..Settings::default() }).unwrap()
}

fn memory() -> Arc<dyn Disk> {
    Arc::new(SimulatedDisk::new(1, Faults::default()))
}

fn tpcc(disk: Arc<dyn Disk>, partitions: u16, scale: Scale, threads: usize) -> RowEngine {
    tpcc_in(Language::Rust, disk, partitions, scale, threads)
}

fn tpcc_in(language: Language, disk: Arc<dyn Disk>, partitions: u16, scale: Scale, threads: usize) -> RowEngine {
    let database = open(disk, partitions, tpcc::registrations(language).unwrap());
    tpcc::define(&mut database.session(), language).unwrap();
    tpcc::load(&database, scale, threads).unwrap();
    database
}

fn run_tpcc(database: &RowEngine, scale: Scale, remote: Remote) -> Measured {
    let terminals = (0..2).map(|number| Box::new(Terminal::new(scale, remote, 7, number)) as Box<dyn Calls>).collect();
    drive(database, &Transaction::PROCEDURES, terminals, brief()).unwrap()
}

fn brief() -> DriveOptions {
    DriveOptions { in_flight: 32, warm_up: Duration::from_millis(50), timed: Duration::from_millis(700) }
}

fn rows(session: &mut RowSession, sql: &str) -> Rows {
    session.execute(sql, &[]).unwrap_or_else(|error| panic!("{sql}: {error}")).rows
}

/// All rows of all tables, in the order of their first columns and then of all.
fn contents(database: &RowEngine) -> Vec<Vec<Vec<Value>>> {
    let mut session = database.session();
    let of_table = |table: &&str| {
        let rows = rows(&mut session, &format!("SELECT * FROM {table}"));
        let mut rows: Vec<Vec<Value>> = rows.iter().map(|row| row.map(ValueRef::to_value).collect()).collect();
        rows.sort();
        rows
    };
    tpcc::TABLES.iter().map(of_table).collect()
}

fn broken(database: &RowEngine, scale: Scale, conditions: &[Condition]) -> BTreeSet<u8> {
    let violations = tpcc::violations(&mut database.session(), scale, conditions).unwrap();
    violations.iter().map(|violation| violation.condition.number()).collect()
}

#[test]
fn the_load_is_the_same_by_any_threads_and_on_any_partitions() {
    let scale = Scale::reduced(3);
    let one = contents(&tpcc(memory(), 1, scale, 1));
    let two = contents(&tpcc(memory(), 2, scale, 3));
    assert!(one == two);
    let counts: Vec<usize> = one.iter().map(Vec::len).collect();
    // item, warehouse, district, customer, history, orders, new_order, order_line, stock
    assert_eq!((&counts[..7], counts[8]), (&[1000, 3, 30, 900, 900, 900, 270][..], 3000));
    assert!((900 * 5..=900 * 15).contains(&counts[7]), "{}", counts[7]);
}

#[test]
fn conditions_hold_after_the_load_after_runs_and_after_recovery() {
    for (language, partitions, remote) in [
        (Language::Rust, 1, Remote::Standard),
        (Language::Rust, 2, Remote::Standard),
        (Language::Rust, 2, Remote::Never),
        (Language::Lua, 2, Remote::Standard),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let scale = Scale::reduced(4);
        let disk = || Arc::new(RealDisk::open(directory.path()).unwrap());
        let database = tpcc_in(language, disk(), partitions, scale, 2);
        assert_eq!(broken(&database, scale, &Condition::ALL), BTreeSet::new());

        let measured = run_tpcc(&database, scale, remote);
        assert!(measured.tallies.iter().all(|tally| tally.committed > 0), "{:?}", measured.tallies);
        let new_orders = measured.tallies[0];
        assert!(new_orders.aborted > 0 && new_orders.aborted < new_orders.committed / 10, "{new_orders:?}");
        assert!(measured.tallies[1..].iter().all(|tally| tally.aborted == 0), "{:?}", measured.tallies);
        assert_eq!(measured.restarts > 0, partitions == 2 && remote == Remote::Standard);
        assert_eq!(measured.latencies.count(), measured.committed());
        assert_eq!(broken(&database, scale, &Condition::always()), BTreeSet::new());
        let before = contents(&database);
        database.close().unwrap();

        let database = open(disk(), partitions, tpcc::registrations(language).unwrap());
        assert!(contents(&database) == before);
        assert_eq!(broken(&database, scale, &Condition::always()), BTreeSet::new());
    }
}

/// For each condition, a change that violates it, and the other conditions that it violates as well.
#[test]
fn conditions_notice_what_breaks_them() {
    let scale = Scale::reduced(2);
    for (change, expected) in [
        ("UPDATE warehouse SET w_ytd = w_ytd + 0.01 WHERE w_id = 2", &[1, 8][..]),
        ("UPDATE district SET d_ytd = d_ytd - 0.01 WHERE d_w_id = 2 AND d_id = 3", &[1, 9]),
        ("UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = 1 AND d_id = 10", &[2]),
        ("DELETE FROM new_order WHERE no_w_id = 1 AND no_d_id = 1 AND no_o_id = 24", &[3, 5, 11]),
        ("DELETE FROM new_order WHERE no_w_id = 1 AND no_d_id = 1 AND no_o_id = 30", &[2, 5, 11]),
        ("INSERT INTO new_order VALUES (2, 5, 31)", &[2, 5]),
        ("UPDATE orders SET o_ol_cnt = o_ol_cnt + 1 WHERE o_w_id = 2 AND o_d_id = 1 AND o_id = 7", &[4, 6]),
        ("DELETE FROM orders WHERE o_w_id = 2 AND o_d_id = 1 AND o_id = 7", &[4, 6, 11]),
        ("UPDATE orders SET o_carrier_id = 1 WHERE o_w_id = 1 AND o_d_id = 2 AND o_id = 30", &[5, 7]),
        ("UPDATE orders SET o_carrier_id = NULL WHERE o_w_id = 1 AND o_d_id = 2 AND o_id = 1", &[5, 7]),
        (
            "UPDATE order_line SET ol_delivery_d = NULL \
             WHERE ol_w_id = 1 AND ol_d_id = 2 AND ol_o_id = 1 AND ol_number = 2",
            &[7],
        ),
        (
            "UPDATE order_line SET ol_amount = 1 WHERE ol_w_id = 1 AND ol_d_id = 2 AND ol_o_id = 1 AND ol_number = 2",
            &[10, 12],
        ),
        ("UPDATE history SET h_amount = h_amount + 1 WHERE h_c_w_id = 1 AND h_c_d_id = 2 AND h_c_id = 3", &[8, 9, 10]),
        ("UPDATE customer SET c_balance = 0 WHERE c_w_id = 1 AND c_d_id = 2 AND c_id = 3", &[10, 12]),
        ("UPDATE customer SET c_ytd_payment = 0 WHERE c_w_id = 1 AND c_d_id = 2 AND c_id = 3", &[12]),
    ] {
        let database = tpcc(memory(), 2, scale, 2);
        let changed = database.session().execute(change, &[]).unwrap();
        assert_eq!(changed.affected, 1, "{change}");
        assert_eq!(broken(&database, scale, &Condition::ALL), expected.iter().copied().collect(), "{change}");
    }
}

#[test]
fn an_order_of_an_item_that_does_not_exist_leaves_no_trace() {
    for (partitions, supplier) in [(1, 1), (2, 1), (2, 2)] {
        let database = tpcc(memory(), partitions, Scale::reduced(2), 1);
        let before = contents(&database);
        let mut session = database.session();
        let lines = format!("1:1:5 2:{supplier}:5 1001:1:1");
        let error = session.execute(&format!("CALL new_order(1, 1, 1, '{lines}', NULL)"), &[]).unwrap_err();
        assert_eq!((error.sqlstate(), error.to_string().contains("Item number is not valid")), ("P0001", true));
        assert!(contents(&database) == before);
        session.execute(&format!("CALL new_order(1, 1, 1, '{}', NULL)", lines.replace("1001", "3")), &[]).unwrap();
        assert!(contents(&database) != before);
    }
}

#[test]
fn bad_arguments_are_errors() {
    let database = tpcc(memory(), 1, Scale::reduced(1), 1);
    let mut session = database.session();
    for (call, expected) in [
        ("new_order(1, 1, 1, '1:1', NULL)", "\"1:1\" is not item:warehouse:quantity"),
        ("new_order(1, 11, 1, '1:1:1', NULL)", "there is no district 11"),
        ("new_order(1, 0, 1, '1:1:1', NULL)", "there is no district 0"),
        ("new_order(NULL, 1, 1, '1:1:1', NULL)", "an argument is NULL"),
        ("new_order(9, 1, 1, '1:1:1', NULL)", "0 rows of warehouse (9)"),
        ("new_order(1, 1, 99, '1:1:1', NULL)", "0 rows of customer (1, 1, 99)"),
        ("payment(1, 1, 1, 1, NULL, 'NOBODY', 1)", "is called NOBODY"),
        ("payment(1, 1, 1, 1, NULL, NULL, 1)", "is called NULL"),
        ("order_status(1, 1, 77, NULL)", "0 rows of customer (1, 1, 77)"),
        ("stock_level(1, 12, 10)", "0 rows of district (1, 12)"),
    ] {
        let error = session.execute(&format!("CALL {call}"), &[]).unwrap_err().to_string();
        assert!(error.contains(expected), "{call}: {error}");
    }
    assert_eq!(broken(&database, Scale::reduced(1), &Condition::ALL), BTreeSet::new());
}

/// Equal calls on equal databases give equal databases, whatever the language of the procedures.
#[test]
fn lua_does_what_rust_does() {
    let scale = Scale::reduced(3);
    let [rust, lua] = [Language::Rust, Language::Lua].map(|language| {
        // With a clock that stands still, the times are equal as well.
        let procedures = tpcc::registrations(language).unwrap();
        let clock = Box::new(|| Micros(1_300_000_000_000_000));
        let settings = Settings { partitions: 2, seed: 1, procedures, clock, ..Settings::default() };
        let database = RowEngine::open(memory(), settings).unwrap();
        tpcc::define(&mut database.session(), language).unwrap();
        tpcc::load(&database, scale, 1).unwrap();
        let mut terminal = Terminal::new(scale, Remote::Standard, 3, 1);
        let mut client = database.client();
        let works = Transaction::PROCEDURES.map(|name| database.procedure(name).unwrap());
        let mut ends = Vec::new();
        for _ in 0..2000 {
            let Call { procedure, arguments } = terminal.next_call();
            let result = client.call(Arc::clone(&works[procedure]), arguments);
            ends.push((procedure, result.map_or_else(|error| error.sqlstate().to_owned(), |_| "ok".to_owned())));
        }
        assert!(ends.iter().all(|(_, end)| end == "ok" || end == "P0001"), "{ends:?}");
        (ends, contents(&database))
    });
    assert!(rust.0.iter().any(|end| *end == (0, "P0001".to_owned())));
    assert!(rust == lua);
}

/// One order followed through all five transactions, with its numbers worked out by hand.
#[test]
fn an_order_is_placed_shown_delivered_and_paid() {
    for partitions in [1, 2] {
        let database = tpcc(memory(), partitions, Scale::reduced(2), 1);
        let mut session = database.session();
        for statement in [
            "UPDATE item SET i_price = 2.50, i_data = 'x', i_name = 'nail' WHERE i_id = 10",
            "UPDATE item SET i_price = 10.01 WHERE i_id = 20",
            "UPDATE stock SET s_quantity = 14 WHERE s_w_id = 1 AND s_i_id = 10",
            "UPDATE stock SET s_quantity = 15 WHERE s_w_id = 2 AND s_i_id = 20",
            "UPDATE warehouse SET w_tax = 0.1 WHERE w_id = 1",
            "UPDATE district SET d_tax = 0.05 WHERE d_w_id = 1 AND d_id = 4",
            "UPDATE customer SET c_discount = 0.2, c_last = 'SOMEBODY' WHERE c_w_id = 1 AND c_d_id = 4 AND c_id = 5",
        ] {
            assert_eq!(session.execute(statement, &[]).unwrap().affected, 1, "{statement}");
        }
        let order = rows(&mut session, "CALL new_order(1, 4, 5, '10:1:5 20:2:5', 2)");
        assert_eq!(
            (order.len(), order.value(0, 0), order.value(0, 1)),
            (3, ValueRef::Int(31), ValueRef::Text("SOMEBODY"))
        );
        // (5 x 2.50 + 5 x 10.01) x (1 - 0.2) x (1 + 0.1 + 0.05)
        let total = Decimal::parse("57.546").unwrap();
        assert!(matches!(order.value(0, 7), ValueRef::Decimal(found) if found == total), "{}", order.value(0, 7));
        let line: Vec<String> = order.row(1).map(|value| value.to_string()).collect();
        // 14 - 5 would be less than ten.
        assert_eq!(line, ["1", "10", "nail", "5", "100", "G", "2.50", "12.50"]);
        assert_eq!((order.value(2, 0), order.value(2, 4)), (ValueRef::Int(2), ValueRef::Int(10)));
        let stock = rows(
            &mut session,
            "SELECT s_ytd, s_order_cnt, s_remote_cnt FROM stock WHERE s_i_id IN (10, 20) AND s_order_cnt > 0 ORDER BY s_i_id",
        );
        let stock: Vec<Vec<String>> = stock.iter().map(|row| row.map(|value| value.to_string()).collect()).collect();
        assert_eq!(stock, [["5", "1", "0"], ["5", "1", "1"]]);

        let status = rows(&mut session, "CALL order_status(1, 4, NULL, 'SOMEBODY')");
        assert_eq!((status.len(), status.value(0, 0), status.value(1, 0)), (4, ValueRef::Int(5), ValueRef::Int(31)));
        assert_eq!((status.value(1, 2), status.value(3, 4)), (ValueRef::Null, ValueRef::Null));
        // In the last twenty orders, no item has less than 0 in stock, and one of this order's has less than 101.
        assert_eq!(rows(&mut session, "CALL stock_level(1, 4, 0)").value(0, 0), ValueRef::Int(0));
        let ValueRef::Int(scarce) = rows(&mut session, "CALL stock_level(1, 4, 1000)").value(0, 0) else { panic!() };
        assert!(scarce >= 2, "{scarce}");

        let owed = rows(&mut session, "SELECT c_balance FROM customer WHERE c_w_id = 1 AND c_d_id = 4 AND c_id = 5");
        let ValueRef::Decimal(before) = owed.value(0, 0) else { panic!() };
        // Orders 22 to 30 of each district first.
        for delivery in 22..=31 {
            let delivered = rows(&mut session, "CALL delivery(1, 3)");
            let expected = if delivery == 31 { 1 } else { 10 };
            assert_eq!(delivered.len(), expected);
            let of_district = (0..expected).find(|row| delivered.value(*row, 0) == ValueRef::Int(4)).unwrap();
            assert_eq!(delivered.value(of_district, 1), ValueRef::Int(delivery));
        }
        assert_eq!(rows(&mut session, "CALL delivery(1, 3)").len(), 0, "nothing is left");
        let of_customer = rows(
            &mut session,
            "SELECT sum(ol_amount) FROM orders JOIN order_line ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id \
             WHERE o_w_id = 1 AND o_d_id = 4 AND o_c_id = 5 AND o_id >= 22",
        );
        let ValueRef::Decimal(delivered) = of_customer.value(0, 0) else { panic!() };
        let paid = rows(&mut session, "CALL payment(2, 9, 1, 4, 5, NULL, 100.25)");
        let expected = before.plus(delivered).unwrap().minus(Decimal::parse("100.25").unwrap()).unwrap();
        let columns: Vec<ValueRef<'_>> = paid.row(0).collect();
        assert!(columns.contains(&ValueRef::Decimal(expected)), "{columns:?}");
        assert_eq!(broken(&database, Scale::reduced(2), &Condition::always()), BTreeSet::new());
    }
}

#[test]
fn payments_of_customers_with_bad_credit_are_noted() {
    let database = tpcc(memory(), 2, Scale::reduced(2), 1);
    let mut session = database.session();
    session.execute("UPDATE customer SET c_credit = 'BC' WHERE c_w_id = 2 AND c_d_id = 3 AND c_id = 4", &[]).unwrap();
    rows(&mut session, "CALL payment(1, 5, 2, 3, 4, NULL, 7.5)");
    let data =
        rows(&mut session, "SELECT c_data, length(c_data) FROM customer WHERE c_w_id = 2 AND c_d_id = 3 AND c_id = 4");
    let ValueRef::Text(text) = data.value(0, 0) else { panic!() };
    assert!(text.starts_with("4 3 2 5 1 7.50 | "), "{text}");
    assert!(matches!(data.value(0, 1), ValueRef::Int(301..=500)));
    for _ in 0..40 {
        rows(&mut session, "CALL payment(1, 5, 2, 3, 4, NULL, 1000)");
    }
    let data = rows(&mut session, "SELECT length(c_data) FROM customer WHERE c_w_id = 2 AND c_d_id = 3 AND c_id = 4");
    assert_eq!(data.value(0, 0), ValueRef::Int(500));
    assert_eq!(broken(&database, Scale::reduced(2), &Condition::ALL), BTreeSet::new());
}

#[test]
fn ycsb_runs_in_every_language() {
    const ROWS: u64 = 500;
    for (language, partitions) in [(Language::Rust, 1), (Language::Rust, 2), (Language::Sql, 2), (Language::Lua, 2)] {
        let database = open(memory(), partitions, ycsb::registrations(language).unwrap());
        ycsb::define(&mut database.session(), FIELD_BYTES, language).unwrap();
        ycsb::load(&database, ROWS, FIELD_BYTES, 3).unwrap();
        let mut session = database.session();
        let loaded = rows(&mut session, "SELECT * FROM usertable ORDER BY ycsb_key");
        assert_eq!(loaded.len(), 500);
        for (key, row) in (0..).zip(loaded.iter()) {
            assert!(row.map(ValueRef::to_value).eq(ycsb::row(key, FIELD_BYTES)), "row {key}");
        }
        let skew = Skew { exponent: 1.0, scrambled: true };
        let clients = (0..2)
            .map(|seed| Box::new(YcsbCalls::new((ROWS, FIELD_BYTES), skew, Mix::A, language, seed)) as Box<dyn Calls>)
            .collect();
        let names = ycsb::procedures(language);
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let measured = drive(&database, &names, clients, brief()).unwrap();
        let reads = measured.tallies[0].committed as f64 / measured.committed() as f64;
        assert!(measured.committed() > 100 && (0.35..0.65).contains(&reads), "{:?}", measured.tallies);
        assert_eq!((measured.aborted(), measured.refused, measured.restarts), (0, 0, 0));

        let ran = rows(&mut session, "SELECT * FROM usertable ORDER BY ycsb_key");
        assert_eq!(ran.len(), 500);
        let changed = ran.iter().zip(loaded.iter()).filter_map(|(ran, loaded)| (!ran.eq(loaded)).then_some(())).count();
        assert!(changed > 10, "{changed}");
        assert!(
            ran.iter().all(|row| row.skip(1).all(|value| matches!(value, ValueRef::Text(text) if text.len() == 100)))
        );
    }
}

#[test]
fn an_update_changes_one_field_of_one_row() {
    for language in [Language::Rust, Language::Sql, Language::Lua] {
        let database = open(memory(), 2, ycsb::registrations(language).unwrap());
        ycsb::define(&mut database.session(), FIELD_BYTES, language).unwrap();
        ycsb::load(&database, 10, FIELD_BYTES, 1).unwrap();
        let mut session = database.session();
        let call = match language {
            Language::Sql => "CALL ycsb_update_3(7, 'new')",
            _ => "CALL ycsb_update(7, 'new', 3)",
        };
        rows(&mut session, call);
        let row = rows(&mut session, "CALL ycsb_read(7)");
        let mut expected = ycsb::row(7, FIELD_BYTES).split_off(1);
        expected[3] = "new".into();
        assert!(row.row(0).map(ValueRef::to_value).eq(expected));
        assert_eq!(
            rows(&mut session, "SELECT count(*) FROM usertable WHERE field3 = 'new'").value(0, 0),
            ValueRef::Int(1)
        );
    }
    let database = open(memory(), 1, ycsb::registrations(Language::Rust).unwrap());
    ycsb::define(&mut database.session(), FIELD_BYTES, Language::Rust).unwrap();
    let error = database.session().execute("CALL ycsb_update(7, 'new', 10)", &[]).unwrap_err();
    assert!(error.to_string().contains("fields are 0 to 9"), "{error}");
}
