use std::collections::{BTreeMap, HashMap};

use thermocline_transactions::types::Value;
use thermocline_workloads::tpcc::Transaction;

use super::state::{Line, Order, OrderKey, Payment, State};
use crate::clients::Workload;
use crate::sent::{Fate, Sent};

/// Anomalies after these calls, if `before` was the state before them. The consistency conditions are checked
/// elsewhere.
pub fn anomalies(before: &State, after: &State, sent: &[Sent]) -> Vec<String> {
    let sent = sent.iter().filter(|sent| sent.workload == Workload::Tpcc).collect();
    let mut comparison = Comparison { before, after, sent, found: Vec::new() };
    comparison.kept();
    comparison.orders();
    comparison.payments();
    comparison.deliveries();
    comparison.stock();
    comparison.customers();
    comparison.found
}

struct Comparison<'a> {
    before: &'a State,
    after: &'a State,
    sent: Vec<&'a Sent>,
    found: Vec<String>,
}

/// Arguments of a NewOrder.
#[derive(Debug)]
struct Asked {
    warehouse: i64,
    district: i64,
    customer: i64,
    lines: Vec<Line>,
}

impl Asked {
    fn of(arguments: &[Value]) -> Self {
        let [Value::Int(warehouse), Value::Int(district), Value::Int(customer), Value::Text(lines), _] = arguments
        else {
            panic!("{arguments:?}")
        };
        let line = |(number, line): (i64, &str)| {
            let parts: Vec<i64> = line.split(':').map(|part| part.parse().unwrap()).collect();
            Line { number, item: parts[0], supplier: parts[1], quantity: parts[2] }
        };
        let lines = (1..).zip(lines.split(' ')).map(line).collect();
        Self { warehouse: *warehouse, district: *district, customer: *customer, lines }
    }

    fn is(&self, (warehouse, district, _): OrderKey, order: &Order) -> bool {
        (self.warehouse, self.district) == (warehouse, district)
            && self.customer == order.customer
            && self.lines == order.lines
    }
}

/// Arguments of a Payment; the customer's number is known if it was given or returned.
#[derive(Debug)]
struct Paid<'a> {
    warehouse: i64,
    district: i64,
    of: (i64, i64),
    customer: Option<i64>,
    last_name: Option<&'a str>,
    amount: &'a Value,
}

impl<'a> Paid<'a> {
    fn of(arguments: &'a [Value], told: Option<&str>) -> Self {
        let [w, d, c_w, c_d, id, last_name, amount] = arguments else { panic!("{arguments:?}") };
        let given = (!id.is_null()).then(|| int(id));
        let customer = told.map_or(given, |told| Some(told.parse().unwrap()));
        let last_name = if let Value::Text(name) = last_name { Some(&**name) } else { None };
        Self { warehouse: int(w), district: int(d), of: (int(c_w), int(c_d)), customer, last_name, amount }
    }

    fn is(&self, (w, d, c): (i64, i64, i64), payment: &Payment, state: &State) -> bool {
        let named = |name: &str| state.customers.get(&(w, d, c)).is_some_and(|customer| *customer.last_name == *name);
        (self.warehouse, self.district, self.of) == (payment.warehouse, payment.district, (w, d))
            && *self.amount == payment.amount
            && self.customer.is_none_or(|customer| customer == c)
            && self.last_name.is_none_or(named)
    }
}

impl<'a> Comparison<'a> {
    /// Calls of a transaction.
    fn of(&self, transaction: Transaction) -> impl Iterator<Item = &'a Sent> + use<'a> {
        let position = Transaction::ALL.iter().position(|other| *other == transaction);
        let sent = self.sent.clone();
        sent.into_iter().filter(move |sent| Some(sent.call.procedure) == position)
    }

    /// Orders that did not exist before.
    fn new_orders(&self) -> BTreeMap<OrderKey, &'a Order> {
        let new = self.after.orders.iter().filter(|(key, _)| !self.before.orders.contains_key(key));
        new.map(|(key, order)| (*key, order)).collect()
    }

    /// Orders that were delivered since, with their carriers.
    fn newly_delivered(&self) -> BTreeMap<OrderKey, i64> {
        let before = |key: &OrderKey| self.before.orders.get(key).and_then(|order| order.carrier);
        let new = self.after.orders.iter().filter(|(key, _)| before(key).is_none());
        new.filter_map(|(key, order)| Some((*key, order.carrier?))).collect()
    }

    /// Checks that everything that existed still exists.
    fn kept(&mut self) {
        for (key, order) in &self.before.orders {
            let is_kept = self.after.orders.get(key).is_some_and(|now| {
                (now.customer, &now.lines) == (order.customer, &order.lines)
                    && (order.carrier.is_none() || order.carrier == now.carrier)
            });
            if !is_kept {
                let now = self.after.orders.get(key);
                self.found.push(format!("order {key:?}, which had been there, has changed: {order:?}, now {now:?}"));
            }
        }
        for (key, payment) in &self.before.payments {
            if self.after.payments.get(key) != Some(payment) {
                self.found.push(format!("payment {key:?}, which had been there, is lost: {payment:?}"));
            }
        }
    }

    fn orders(&mut self) {
        let mut new = self.new_orders();
        let mut open = Vec::new();
        for sent in self.of(Transaction::NewOrder) {
            let asked = Asked::of(&sent.call.arguments);
            match &sent.fate {
                Fate::Committed(told) => {
                    let key = (asked.warehouse, asked.district, told.parse().unwrap());
                    match new.remove(&key) {
                        None => self.found.push(format!("order {key:?} was acknowledged and is lost: {asked:?}")),
                        Some(order) if asked.is(key, order) => {}
                        Some(order) => {
                            self.found
                                .push(format!("order {key:?} is not what was acknowledged, {asked:?}: {order:?}"));
                        }
                    }
                }
                Fate::Unknown => open.push(asked),
                Fate::Refused => {}
            }
        }
        for (key, order) in new {
            match open.iter().position(|asked| asked.is(key, order)) {
                Some(position) => drop(open.swap_remove(position)),
                None => self.found.push(format!("order {key:?} is not what anybody asked for: {order:?}")),
            }
        }
        for sent in self.of(Transaction::OrderStatus) {
            if let Fate::Committed(told) = &sent.fate {
                let (customer, order) = told.split_once(',').unwrap();
                let [w, d] = [0, 1].map(|position| int(&sent.call.arguments[position]));
                let key: OrderKey = (w, d, order.parse().unwrap());
                let customer: i64 = customer.parse().unwrap();
                if self.after.orders.get(&key).is_none_or(|order| order.customer != customer) {
                    self.found.push(format!("order {key:?} was shown to customer {customer} and is lost"));
                }
            }
        }
    }

    fn payments(&mut self) {
        let new = self.after.payments.iter().filter(|(key, _)| !self.before.payments.contains_key(key));
        let mut new: Vec<_> = new.collect();
        let state = self.after;
        let of_all = self.of(Transaction::Payment).filter(|sent| sent.fate != Fate::Refused);
        // Acknowledged ones first: the others may take the rest.
        let (known, open): (Vec<_>, Vec<_>) = of_all.partition(|sent| sent.fate != Fate::Unknown);
        for sent in known {
            let Fate::Committed(told) = &sent.fate else { continue };
            let paid = Paid::of(&sent.call.arguments, Some(told));
            match new.iter().position(|((customer, _), payment)| paid.is(*customer, payment, state)) {
                Some(position) => drop(new.swap_remove(position)),
                None => self.found.push(format!("a payment was acknowledged and is lost: {paid:?}")),
            }
        }
        let mut open: Vec<Paid<'_>> = open.iter().map(|sent| Paid::of(&sent.call.arguments, None)).collect();
        for ((customer, count), payment) in new {
            match open.iter().position(|paid| paid.is(*customer, payment, state)) {
                Some(position) => drop(open.swap_remove(position)),
                None => self.found.push(format!(
                    "payment {count} of customer {customer:?} is not what anybody asked for: {payment:?}"
                )),
            }
        }
    }

    fn deliveries(&mut self) {
        let mut delivered = self.newly_delivered();
        // By warehouse and carrier: how many may have been done, and the earliest moment.
        let mut open: HashMap<(i64, i64), (usize, u64)> = HashMap::new();
        for sent in self.of(Transaction::Delivery) {
            let [warehouse, carrier] = [0, 1].map(|position| int(&sent.call.arguments[position]));
            match &sent.fate {
                Fate::Committed(told) => {
                    for order in told.split(',').filter(|order| !order.is_empty()) {
                        let (district, order) = order.split_once(':').unwrap();
                        let key = (warehouse, district.parse().unwrap(), order.parse().unwrap());
                        let by = delivered.remove(&key);
                        if by != Some(carrier) {
                            let what = format!("the delivery of order {key:?} by {carrier} was acknowledged");
                            self.found.push(format!("{what} and is lost: by {by:?}"));
                        }
                    }
                }
                Fate::Unknown => {
                    let (count, begin) = open.entry((warehouse, carrier)).or_insert((0, sent.begin));
                    (*count, *begin) = (*count + 1, sent.begin.min(*begin));
                }
                Fate::Refused => {}
            }
        }
        let mut districts: BTreeMap<(i64, i64), HashMap<i64, usize>> = BTreeMap::new();
        for ((warehouse, district, _), carrier) in delivered {
            *districts.entry((warehouse, carrier)).or_default().entry(district).or_default() += 1;
        }
        let known = self.known_orders();
        for ((warehouse, carrier), districts) in districts {
            let (count, begin) = open.get(&(warehouse, carrier)).copied().unwrap_or_default();
            let most = districts.values().copied().max().unwrap_or_default();
            let what = format!("deliveries of warehouse {warehouse} by carrier {carrier}");
            if most > count {
                self.found.push(format!("{what} that nobody asked for: {most} of {count}"));
            }
            // Each takes one order of each district that has any.
            for district in (1..=10).filter(|district| districts.get(district).is_none_or(|count| *count < most)) {
                let mut waiting = self.after.orders.range((warehouse, district, 0)..(warehouse, district + 1, 0));
                if let Some((key, _)) = waiting.find(|(_, order)| order.carrier.is_none())
                    && known.get(key).is_some_and(|end| *end <= begin)
                {
                    self.found.push(format!("{what} are there in part: not of district {district}"));
                }
            }
        }
    }

    /// Orders that certainly existed, and since which line.
    fn known_orders(&self) -> HashMap<OrderKey, u64> {
        let mut known: HashMap<OrderKey, u64> = self.before.orders.keys().map(|key| (*key, 0)).collect();
        for sent in self.of(Transaction::NewOrder) {
            if let Fate::Committed(told) = &sent.fate {
                let [w, d] = [0, 1].map(|position| int(&sent.call.arguments[position]));
                known.insert((w, d, told.parse().unwrap()), sent.end);
            }
        }
        known
    }

    /// Checks that ordered quantities were taken from the stock, also on another partition. No condition covers this.
    fn stock(&mut self) {
        let mut expected = self.before.stock.clone();
        for ((warehouse, ..), order) in self.new_orders() {
            for line in &order.lines {
                let Some(stock) = expected.get_mut(&(line.supplier, line.item)) else { continue };
                // It stays between 10 and 100, so the order does not matter.
                stock.quantity = 10 + (stock.quantity - 10 - line.quantity).rem_euclid(91);
                stock.ytd += line.quantity;
                stock.orders += 1;
                stock.remote_orders += i64::from(line.supplier != warehouse);
            }
        }
        for (key, expected) in &expected {
            let stock = self.after.stock.get(key);
            if stock != Some(expected) {
                self.found.push(format!("stock {key:?} is {stock:?}; by its orders it would be {expected:?}"));
            }
        }
    }

    /// Checks that customers have their earlier payments and deliveries, and the later ones.
    fn customers(&mut self) {
        let mut expected = self.before.customers.clone();
        for (customer, _) in self.after.payments.keys().filter(|key| !self.before.payments.contains_key(key)) {
            expected.entry(*customer).and_modify(|customer| customer.payments += 1);
        }
        for key @ (warehouse, district, _) in self.newly_delivered().into_keys() {
            let customer = (warehouse, district, self.after.orders[&key].customer);
            expected.entry(customer).and_modify(|customer| customer.deliveries += 1);
        }
        for (key, expected) in &expected {
            let customer = self.after.customers.get(key);
            if customer != Some(expected) {
                self.found.push(format!("customer {key:?} is {customer:?}; by what happened it would be {expected:?}"));
            }
        }
        for (customer, count) in self.after.payments.keys() {
            if self.after.customers.get(customer).is_none_or(|customer| *count > customer.payments) {
                self.found.push(format!("customer {customer:?} has a payment {count} that he does not know of"));
            }
        }
    }
}

fn int(value: &Value) -> i64 {
    let Value::Int(value) = value else { panic!("{value} is no integer") };
    *value
}
