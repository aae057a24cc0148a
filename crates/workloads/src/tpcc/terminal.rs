//! Random calls of the five transactions at the standard mix.

use std::fmt::Write;

use thermocline_transactions::types::{Decimal, Value};

use super::draw::{Draw, RunConstants};
use super::scale::{DISTRICTS, Scale};
use crate::oltp::{Call, Calls};

/// The five transactions, in the order of their procedures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Transaction {
    /// 45 %: an order of 5 to 15 items.
    NewOrder,
    /// 43 %: a customer pays.
    Payment,
    /// 4 %: a customer's last order.
    OrderStatus,
    /// 4 %: the oldest order of each district of a warehouse is delivered.
    Delivery,
    /// 4 %: items of recent orders that run out.
    StockLevel,
}

impl Transaction {
    /// All of them, by position.
    pub const ALL: [Self; 5] = [Self::NewOrder, Self::Payment, Self::OrderStatus, Self::Delivery, Self::StockLevel];
    /// Names of their procedures, by position.
    pub const PROCEDURES: [&'static str; 5] = ["new_order", "payment", "order_status", "delivery", "stock_level"];
    /// Their shares in a hundred, by position.
    const PERCENT: [u32; 5] = [45, 43, 4, 4, 4];
}

/// Whether transactions touch other warehouses than their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remote {
    /// As the standard says: 1 % of the order lines, 15 % of the payments.
    Standard,
    /// Never: each transaction has one partition.
    Never,
}

/// Requests of one client: transactions of all warehouses at the standard mix.
#[derive(Debug, Clone)]
pub struct Terminal {
    scale: Scale,
    remote: Remote,
    constants: RunConstants,
    draw: Draw,
}

impl Terminal {
    /// A terminal of a run; terminals of one run have the same `run` and different numbers.
    pub fn new(scale: Scale, remote: Remote, run: u64, number: u64) -> Self {
        let constants = RunConstants::draw(&mut Draw::new(run));
        let draw = Draw::new(run.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ number.wrapping_add(1) << 32);
        Self { scale, remote, constants, draw }
    }

    /// The arguments of a transaction.
    pub fn arguments(&mut self, transaction: Transaction) -> Box<[Value]> {
        let warehouse = self.draw.between(1, self.scale.warehouses);
        match transaction {
            Transaction::NewOrder => self.new_order(warehouse),
            Transaction::Payment => self.payment(warehouse),
            Transaction::OrderStatus => {
                let district = self.draw.int(1, DISTRICTS);
                let [id, last] = self.customer();
                [Value::Int(warehouse.into()), district, id, last].into()
            }
            Transaction::Delivery => [Value::Int(warehouse.into()), self.draw.int(1, 10)].into(),
            Transaction::StockLevel => {
                [Value::Int(warehouse.into()), self.draw.int(1, DISTRICTS), self.draw.int(10, 20)].into()
            }
        }
    }

    fn new_order(&mut self, warehouse: u32) -> Box<[Value]> {
        let Self { scale, remote, constants, draw } = self;
        let district = draw.int(1, DISTRICTS);
        let customer = constants.customer(draw, scale.customers);
        let count = draw.between(5, 15);
        // One order in a hundred has an item that does not exist, as its last.
        let invalid = draw.percent(1);
        let mut lines = String::with_capacity(16 * count as usize);
        let mut from = Value::Null;
        for line in 1..=count {
            let item = if invalid && line == count { scale.items + 1 } else { constants.item(draw, scale.items) };
            let elsewhere = *remote == Remote::Standard && draw.percent(1);
            let supplier = if elsewhere { other(draw, warehouse, scale.warehouses) } else { warehouse };
            if supplier != warehouse {
                from = Value::Int(supplier.into());
            }
            let separator = if line == 1 { "" } else { " " };
            let quantity = draw.between(1, 10);
            // Writing to a string does not fail.
            let _ = write!(lines, "{separator}{item}:{supplier}:{quantity}");
        }
        [Value::Int(warehouse.into()), district, Value::Int(customer.into()), lines.into(), from].into()
    }

    fn payment(&mut self, warehouse: u32) -> Box<[Value]> {
        let district = self.draw.between(1, DISTRICTS);
        let elsewhere = self.remote == Remote::Standard && self.draw.percent(15) && self.scale.warehouses > 1;
        let (of_warehouse, of_district) = match elsewhere {
            true => (other(&mut self.draw, warehouse, self.scale.warehouses), self.draw.between(1, DISTRICTS)),
            false => (warehouse, district),
        };
        let [id, last] = self.customer();
        let cents = self.draw.between(100, 500_000);
        let amount = Decimal::new(cents.into(), 2).map_or(Value::Null, Value::Decimal);
        let [w, d, c_w, c_d] = [warehouse, district, of_warehouse, of_district].map(|id| Value::Int(id.into()));
        [w, d, c_w, c_d, id, last, amount].into()
    }

    /// A customer: 60 % by last name, the others by number.
    fn customer(&mut self) -> [Value; 2] {
        let Self { scale, constants, draw, .. } = self;
        match draw.percent(60) {
            true => [Value::Null, constants.last_name(draw, scale.last_names()).into()],
            false => [Value::Int(constants.customer(draw, scale.customers).into()), Value::Null],
        }
    }
}

impl Calls for Terminal {
    fn next_call(&mut self) -> Call {
        let mut drawn = self.draw.between(1, 100);
        let mut transactions = Transaction::ALL.into_iter().zip(Transaction::PERCENT).enumerate();
        let chosen = transactions.find(|(_, (_, percent))| {
            let found = drawn <= *percent;
            drawn = drawn.saturating_sub(*percent);
            found
        });
        let (procedure, transaction) =
            chosen.map_or((0, Transaction::NewOrder), |(position, (transaction, _))| (position, transaction));
        Call { procedure, arguments: self.arguments(transaction) }
    }
}

/// A warehouse other than this one, if there is one.
fn other(draw: &mut Draw, warehouse: u32, warehouses: u32) -> u32 {
    if warehouses < 2 {
        return warehouse;
    }
    let drawn = draw.between(1, warehouses - 1);
    if drawn >= warehouse { drawn + 1 } else { drawn }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mix_is_the_standards() {
        assert_eq!(Transaction::PERCENT.iter().sum::<u32>(), 100);
        let mut terminal = Terminal::new(Scale::reduced(4), Remote::Standard, 1, 1);
        let mut seen = [0_u32; 5];
        (0..100_000).for_each(|_| seen[terminal.next_call().procedure] += 1);
        for (seen, percent) in seen.into_iter().zip(Transaction::PERCENT) {
            assert!(seen.abs_diff(percent * 1000) < 700, "{seen} of {percent} %");
        }
    }

    #[test]
    fn remote_transactions_are_as_many_as_the_standard_says() {
        for remote in [Remote::Standard, Remote::Never] {
            let mut terminal = Terminal::new(Scale::standard(4), remote, 1, 1);
            let (mut lines, mut elsewhere, mut invalid, mut payments, mut by_name) = (0, 0, 0, 0, 0);
            for _ in 0..20_000 {
                let order = terminal.arguments(Transaction::NewOrder);
                let (home, Value::Text(text)) = (&order[0], &order[3]) else { panic!("{order:?}") };
                let suppliers = text.split(' ').map(|line| line.split(':').nth(1).unwrap().parse::<i64>().unwrap());
                for supplier in suppliers {
                    lines += 1;
                    elsewhere += u32::from(*home != Value::Int(supplier));
                }
                invalid += u32::from(text.contains("100001:"));
                let payment = terminal.arguments(Transaction::Payment);
                payments += u32::from(payment[0] != payment[2]);
                by_name += u32::from(payment[4].is_null());
                assert!(payment[4].is_null() != payment[5].is_null());
            }
            assert!((195_000..205_000).contains(&lines), "10 lines on average: {lines}");
            assert!((150..250).contains(&invalid), "{invalid}");
            assert!((11_700..12_300).contains(&by_name), "{by_name}");
            match remote {
                Remote::Standard => {
                    assert!((1800..2200).contains(&elsewhere), "{elsewhere}");
                    assert!((2800..3200).contains(&payments), "{payments}");
                }
                Remote::Never => assert_eq!((elsewhere, payments), (0, 0)),
            }
        }
    }
}
