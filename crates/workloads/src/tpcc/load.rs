//! Rows of the nine tables, from random numbers with fixed seeds.

use std::sync::Arc;

use thermocline_transactions::database::{RowEngine, Work};
use thermocline_transactions::types::{Decimal, Value};
use thermocline_transactions::{Error, Result};

use super::draw::{Draw, last_name};
use super::scale::{DISTRICTS, Scale};
use crate::oltp::Inserts;

/// Rows of ITEM in one statement: each statement goes to all partitions, which must meet.
const ITEMS_AT_ONCE: u32 = 100;

/// Fills the tables according to clause 4.3.3, with this many threads. The rows do not depend on their number.
///
/// # Errors
/// If a table does not exist or is not empty, or memory is full.
pub fn load(database: &RowEngine, scale: Scale, threads: usize) -> Result<()> {
    let statements = Statements::prepare(database)?;
    items(database, scale)?;
    let threads = u32::try_from(threads).unwrap_or(u32::MAX).clamp(1, scale.warehouses.max(1));
    std::thread::scope(|scope| {
        let mut parts = Vec::new();
        for thread in 0..threads {
            let statements = &statements;
            parts.push(scope.spawn(move || {
                let mut inserts = Inserts::new(database);
                for warehouse in (1..=scale.warehouses).filter(|warehouse| warehouse % threads == thread) {
                    Loader { scale, warehouse, statements, inserts: &mut inserts }.load()?;
                }
                inserts.finish()
            }));
        }
        parts.into_iter().try_for_each(|part| {
            part.join().unwrap_or_else(|_| Err(Error::internal("a thread that loads has panicked")))
        })
    })
}

struct Statements {
    warehouse: Arc<Work>,
    district: Arc<Work>,
    customer: Arc<Work>,
    history: Arc<Work>,
    orders: Arc<Work>,
    new_order: Arc<Work>,
    order_line: Arc<Work>,
    stock: Arc<Work>,
}

impl Statements {
    fn prepare(database: &RowEngine) -> Result<Self> {
        let insert = |table: &str, columns: u32| database.prepare(&insert_sql(table, columns, 1));
        Ok(Self {
            warehouse: insert("warehouse", 9)?,
            district: insert("district", 11)?,
            customer: insert("customer", 21)?,
            history: insert("history", 9)?,
            orders: insert("orders", 8)?,
            new_order: insert("new_order", 3)?,
            order_line: insert("order_line", 10)?,
            stock: insert("stock", 17)?,
        })
    }
}

fn insert_sql(table: &str, columns: u32, rows: u32) -> String {
    let row = |row: u32| {
        let places: Vec<String> = (1..=columns).map(|column| format!("${}", row * columns + column)).collect();
        format!("({})", places.join(", "))
    };
    let rows: Vec<String> = (0..rows).map(row).collect();
    format!("INSERT INTO {table} VALUES {}", rows.join(", "))
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

fn items(database: &RowEngine, scale: Scale) -> Result<()> {
    let mut draw = Draw::of(Part::Item as u64, 0, 0);
    let whole = database.prepare(&insert_sql("item", 5, ITEMS_AT_ONCE))?;
    let mut inserts = Inserts::new(database);
    let mut first = 1;
    while first <= scale.items {
        let rows = ITEMS_AT_ONCE.min(scale.items - first + 1);
        let mut values = Vec::with_capacity(5 * rows as usize);
        for item in first..first + rows {
            let id = Value::Int(item.into());
            values.extend([id, draw.int(1, 10_000), draw.text(14, 24).into(), draw.decimal(100, 10_000, 2)?]);
            values.push(draw.data().into());
        }
        match rows {
            ITEMS_AT_ONCE => inserts.put(&whole, values)?,
            _ => inserts.put(&database.prepare(&insert_sql("item", 5, rows))?, values)?,
        }
        first += rows;
    }
    inserts.finish()
}

/// The rows of one warehouse.
struct Loader<'l> {
    scale: Scale,
    warehouse: u32,
    statements: &'l Statements,
    inserts: &'l mut Inserts,
}

impl Loader<'_> {
    fn load(&mut self) -> Result<()> {
        let Self { scale, warehouse, .. } = *self;
        let mut draw = self.draw(Part::Warehouse, 0);
        let mut row = vec![Value::Int(warehouse.into()), draw.text(6, 10).into()];
        row.extend(draw.address());
        row.extend([draw.decimal(0, 2000, 4)?, money(1000 * i128::from(DISTRICTS * scale.customers))?]);
        self.inserts.put(&self.statements.warehouse, row)?;
        self.stock()?;
        (1..=DISTRICTS).try_for_each(|district| {
            let mut draw = self.draw(Part::District, district);
            let mut row = self.key(district).to_vec();
            row.push(draw.text(6, 10).into());
            row.extend(draw.address());
            row.extend([draw.decimal(0, 2000, 4)?, money(1000 * i128::from(scale.customers))?]);
            row.push(Value::Int(i64::from(scale.customers) + 1));
            self.inserts.put(&self.statements.district, row)?;
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

    fn stock(&mut self) -> Result<()> {
        let mut draw = self.draw(Part::Stock, 0);
        for item in 1..=self.scale.items {
            let mut row = Vec::with_capacity(17);
            row.extend([Value::Int(self.warehouse.into()), Value::Int(item.into()), draw.int(10, 100)]);
            row.extend((0..DISTRICTS).map(|_| Value::from(draw.text(24, 24))));
            row.extend([Value::Int(0), Value::Int(0), Value::Int(0), draw.data().into()]);
            self.inserts.put(&self.statements.stock, row)?;
        }
        Ok(())
    }

    fn customers(&mut self, district: u32) -> Result<()> {
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
            self.inserts.put(&self.statements.customer, row)?;

            let [warehouse, district] = self.key(district);
            let customer = [id, district.clone(), warehouse.clone()];
            let payment = [district, warehouse, loaded_at(), money(1000)?, history.text(12, 24).into(), Value::Int(1)];
            let row: Vec<Value> = customer.into_iter().chain(payment).collect();
            self.inserts.put(&self.statements.history, row)?;
        }
        Ok(())
    }

    fn orders(&mut self, district: u32) -> Result<()> {
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
            self.inserts.put(&self.statements.orders, row)?;
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
                self.inserts.put(&self.statements.order_line, row)?;
            }
            if !delivered {
                let [warehouse, district] = self.key(district);
                self.inserts.put(&self.statements.new_order, [warehouse, district, Value::Int(order.into())])?;
            }
        }
        Ok(())
    }
}

fn money(cents: i128) -> Result<Value> {
    Decimal::new(cents, 2).map(Value::Decimal)
}

/// The moment of the load, 2010-02-11, instead of the clock's, so that the rows are always the same.
const fn loaded_at() -> Value {
    Value::Timestamp(1_265_846_400_000_000)
}
