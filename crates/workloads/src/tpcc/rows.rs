//! The rows of a load according to clause 4.3.3, from random numbers with fixed seeds.

use thermocline_transactions::Error;
use thermocline_transactions::types::{Decimal, Value};

use super::draw::{Draw, last_name};
use super::scale::{DISTRICTS, Scale};

/// A database that takes the rows of a load.
pub trait Destination {
    /// Error of a row that it refuses.
    type Error: From<Error>;

    /// Takes a row. Rows of a table come in the order of its primary key, those of a warehouse together.
    ///
    /// # Errors
    /// If it refuses this row or one before.
    fn put(&mut self, table: &'static str, row: Vec<Value>) -> Result<(), Self::Error>;
}

/// Puts the rows of ITEM.
///
/// # Errors
/// Those of the destination.
pub fn items<D: Destination>(scale: Scale, destination: &mut D) -> Result<(), D::Error> {
    let mut draw = Draw::of(Part::Item as u64, 0, 0);
    for item in 1..=scale.items {
        let id = Value::Int(item.into());
        let mut row = vec![id, draw.int(1, 10_000), draw.text(14, 24).into(), draw.decimal(100, 10_000, 2)?];
        row.push(draw.data().into());
        destination.put("item", row)?;
    }
    Ok(())
}

/// Puts the rows of one warehouse in all tables but ITEM.
///
/// # Errors
/// Those of the destination.
pub fn warehouse<D: Destination>(scale: Scale, warehouse: u32, destination: &mut D) -> Result<(), D::Error> {
    Warehouse { scale, warehouse, destination }.put()
}

/// Parts of tables that have random numbers of their own.
#[derive(Clone, Copy)]
enum Part {
    Item = 1,
    Warehouse,
    District,
    Stock,
    Customer,
    History,
    Orders,
}

/// The rows of one warehouse.
struct Warehouse<'d, D> {
    scale: Scale,
    warehouse: u32,
    destination: &'d mut D,
}

impl<D: Destination> Warehouse<'_, D> {
    fn put(&mut self) -> Result<(), D::Error> {
        let Self { scale, warehouse, .. } = *self;
        let mut draw = self.draw(Part::Warehouse, 0);
        let mut row = vec![Value::Int(warehouse.into()), draw.text(6, 10).into()];
        row.extend(draw.address());
        row.extend([draw.decimal(0, 2000, 4)?, money(1000 * i128::from(DISTRICTS * scale.customers))?]);
        self.destination.put("warehouse", row)?;
        self.stock()?;
        (1..=DISTRICTS).try_for_each(|district| {
            let mut draw = self.draw(Part::District, district);
            let mut row = self.key(district).to_vec();
            row.push(draw.text(6, 10).into());
            row.extend(draw.address());
            row.extend([draw.decimal(0, 2000, 4)?, money(1000 * i128::from(scale.customers))?]);
            row.push(Value::Int(i64::from(scale.customers) + 1));
            self.destination.put("district", row)?;
            self.customers(district)?;
            self.orders(district)
        })
    }

    fn draw(&self, part: Part, district: u32) -> Draw {
        Draw::of(part as u64, self.warehouse, district)
    }

    fn key(&self, district: u32) -> [Value; 2] {
        [Value::Int(self.warehouse.into()), Value::Int(district.into())]
    }

    fn stock(&mut self) -> Result<(), D::Error> {
        let mut draw = self.draw(Part::Stock, 0);
        for item in 1..=self.scale.items {
            let mut row = Vec::with_capacity(17);
            row.extend([Value::Int(self.warehouse.into()), Value::Int(item.into()), draw.int(10, 100)]);
            row.extend((0..DISTRICTS).map(|_| Value::from(draw.text(24, 24))));
            row.extend([Value::Int(0), Value::Int(0), Value::Int(0), draw.data().into()]);
            self.destination.put("stock", row)?;
        }
        Ok(())
    }

    fn customers(&mut self, district: u32) -> Result<(), D::Error> {
        let mut draw = self.draw(Part::Customer, district);
        let mut history = self.draw(Part::History, district);
        for customer in 1..=self.scale.customers {
            let id = Value::Int(customer.into());
            // Each of the names once, and then some of them more often.
            let names = self.scale.last_names();
            let last = if customer <= names { last_name(customer - 1) } else { draw.loaded_last_name(names) };
            let mut row = Vec::with_capacity(21);
            row.extend(self.key(district));
            row.extend([id.clone(), draw.text(8, 16).into(), "OE".into(), last.into()]);
            row.extend(draw.address());
            let credit = if draw.percent(10) { "BC" } else { "GC" };
            row.extend([draw.digits(16).into(), loaded_at(), credit.into(), money(5_000_000)?]);
            row.extend([draw.decimal(0, 5000, 4)?, money(-1000)?, money(1000)?, Value::Int(1), Value::Int(0)]);
            row.push(draw.text(300, 500).into());
            self.destination.put("customer", row)?;

            let [warehouse, district] = self.key(district);
            let customer = [id, district.clone(), warehouse.clone()];
            let payment = [district, warehouse, loaded_at(), money(1000)?, history.text(12, 24).into(), Value::Int(1)];
            let row: Vec<Value> = customer.into_iter().chain(payment).collect();
            self.destination.put("history", row)?;
        }
        Ok(())
    }

    fn orders(&mut self, district: u32) -> Result<(), D::Error> {
        let mut draw = self.draw(Part::Orders, district);
        let customers = draw.permutation(self.scale.customers);
        for (order, customer) in (1..).zip(customers) {
            let delivered = order < self.scale.first_undelivered();
            let lines = draw.between(5, 15);
            let mut row = Vec::with_capacity(8);
            row.extend(self.key(district));
            row.extend([Value::Int(order.into()), Value::Int(customer.into()), loaded_at()]);
            let carrier = draw.int(1, 10);
            row.push(if delivered { carrier } else { Value::Null });
            row.extend([Value::Int(lines.into()), Value::Int(1)]);
            self.destination.put("orders", row)?;
            for line in 1..=lines {
                let item = draw.int(1, self.scale.items);
                let amount = draw.decimal(1, 999_999, 2)?;
                let mut row = Vec::with_capacity(10);
                row.extend(self.key(district));
                row.extend([Value::Int(order.into()), Value::Int(line.into()), item]);
                row.push(Value::Int(self.warehouse.into()));
                row.push(if delivered { loaded_at() } else { Value::Null });
                row.extend([Value::Int(5), if delivered { money(0)? } else { amount }]);
                row.push(draw.text(24, 24).into());
                self.destination.put("order_line", row)?;
            }
            if !delivered {
                let [warehouse, district] = self.key(district);
                self.destination.put("new_order", vec![warehouse, district, Value::Int(order.into())])?;
            }
        }
        Ok(())
    }
}

fn money(cents: i128) -> Result<Value, Error> {
    Decimal::new(cents, 2).map(Value::Decimal)
}

/// The moment of the load, 2010-02-11, instead of the clock's, so that the rows are always the same.
const fn loaded_at() -> Value {
    Value::Timestamp(1_265_846_400_000_000)
}
