//! New-Order: an order with its lines, taken from the stock.

use thermocline_transactions::Result;
use thermocline_transactions::database::StatementResult;
use thermocline_transactions::error::Class;
use thermocline_transactions::procedure::{Context, Procedure};
use thermocline_transactions::sql::Rows;
use thermocline_transactions::types::{Decimal, Value, ValueRef};

use super::result::{decimal, first, int, one_each, only, text};

/// `lines` is a list of `item:warehouse:quantity`, separated by spaces. `remote_w_id` is another warehouse that one of
/// them names, or NULL: few orders have lines of more than one other warehouse.
pub const HEAD: &str = "new_order(w_id INTEGER, d_id INTEGER, c_id INTEGER, lines TEXT, remote_w_id INTEGER) \
                        PARTITION ON (w_id, remote_w_id)";

macro_rules! take_from_stock {
    ($district:literal) => {
        concat!(
            "UPDATE stock SET s_quantity = CASE WHEN s_quantity >= $3 + 10 THEN s_quantity - $3 \
             ELSE s_quantity - $3 + 91 END, s_ytd = s_ytd + $3, s_order_cnt = s_order_cnt + 1, \
             s_remote_cnt = s_remote_cnt + $4 WHERE s_w_id = $1 AND s_i_id = $2 \
             RETURNING s_quantity, s_data, s_dist_",
            $district
        )
    };
}

const WAREHOUSE: usize = 0;
const DISTRICT: usize = 1;
const CUSTOMER: usize = 2;
const ORDER: usize = 3;
const NEW_ORDER: usize = 4;
const ITEM: usize = 5;
const ORDER_LINE: usize = 6;
/// Lines of an order, in the standard mix.
const LINES_MAX: usize = 15;
/// The first of ten, one for each district.
const STOCK: usize = 7;

const STATEMENTS: [&str; 17] = [
    "SELECT w_tax FROM warehouse WHERE w_id = $1",
    "UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = $1 AND d_id = $2 \
     RETURNING d_tax, d_next_o_id - 1",
    "SELECT c_discount, c_last, c_credit FROM customer WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3",
    "INSERT INTO orders VALUES ($1, $2, $3, $4, now(), NULL, $5, $6)",
    "INSERT INTO new_order VALUES ($1, $2, $3)",
    "SELECT i_price, i_name, i_data FROM item WHERE i_id = $1",
    "INSERT INTO order_line VALUES ($1, $2, $3, $4, $5, $6, NULL, $7, $8, $9)",
    take_from_stock!("01"),
    take_from_stock!("02"),
    take_from_stock!("03"),
    take_from_stock!("04"),
    take_from_stock!("05"),
    take_from_stock!("06"),
    take_from_stock!("07"),
    take_from_stock!("08"),
    take_from_stock!("09"),
    take_from_stock!("10"),
];

/// Clause 2.4. The first row of its result has the order's number, the customer's last name, credit and
/// discount, both taxes, the time and the total; the others have a line's warehouse, item, item's name,
/// quantity, quantity in stock, brand or generic, price and amount.
pub struct NewOrder;

/// A requested line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Line {
    number: i64,
    item: i64,
    supplier: i64,
    quantity: i64,
}

/// Data of an order that each of its lines needs.
struct Order<'a> {
    warehouse: &'a Value,
    district: &'a Value,
    id: i64,
    home: i64,
    /// The statement that takes from the stock with the district's column.
    stock: usize,
}

impl Procedure for NewOrder {
    fn statements(&self) -> &[&str] {
        &STATEMENTS
    }

    fn run(&self, context: &mut Context<'_, '_>, arguments: &[Value]) -> Result<StatementResult> {
        let [warehouse @ Value::Int(home), district @ Value::Int(number), customer, Value::Text(lines), _] = arguments
        else {
            return Err(wrong("an argument is NULL"));
        };
        let stock = usize::try_from(number - 1).ok().filter(|number| *number < 10).map(|number| STOCK + number);
        let stock = stock.ok_or_else(|| wrong(format_args!("there is no district {number}")))?;
        let lines = parse(lines)?;
        let all_local = lines.iter().all(|line| line.supplier == *home);

        let found = context.execute(WAREHOUSE, first(1, arguments))?.rows;
        let w_tax = decimal(only(&found, "warehouse", first(1, arguments))?, 0, 0)?;
        let found = context.execute(DISTRICT, first(2, arguments))?.rows;
        only(&found, "district", first(2, arguments))?;
        let (d_tax, id) = (decimal(&found, 0, 0)?, int(&found, 0, 1)?);
        let person = context.execute(CUSTOMER, first(3, arguments))?.rows;
        let discount = decimal(only(&person, "customer", first(3, arguments))?, 0, 0)?;

        let count = Value::Int(lines.len() as i64);
        let key = [warehouse.clone(), district.clone(), Value::Int(id)];
        context.execute(NEW_ORDER, &key)?;
        let [w, d, o] = key;
        context.execute(ORDER, &[w, d, o, customer.clone(), count, Value::Int(all_local.into())])?;

        let order = Order { warehouse, district, id, home: *home, stock };
        let taken = order.lines(context, &lines)?;
        let one = Decimal::from(1);
        let sum = taken.amounts.iter().try_fold(Decimal::ZERO, |sum, amount| sum.plus(*amount))?;
        let total = sum.times(one.minus(discount)?)?.times(one.plus(w_tax)?.plus(d_tax)?)?;

        let mut rows = Rows::with_capacity(8, 1 + lines.len());
        rows.reserve_text(32 * (1 + lines.len()));
        rows.push(ValueRef::Int(id))?;
        rows.push_from(&person, 0, 1)?;
        rows.push_from(&person, 0, 2)?;
        let rest = [discount, w_tax, d_tax].map(ValueRef::Decimal);
        let end = [ValueRef::Timestamp(context.now().0), ValueRef::Decimal(total)];
        rest.into_iter().chain(end).try_for_each(|value| rows.push(value))?;
        taken.push_to(&mut rows, &lines)?;
        Ok(StatementResult { affected: rows.len() as u64, rows, ..StatementResult::default() })
    }
}

/// Lines taken from the stock, with their rows of ITEM and STOCK.
struct Taken {
    items: Rows,
    stocks: Rows,
    amounts: Vec<Decimal>,
}

impl Taken {
    fn push_to(&self, rows: &mut Rows, lines: &[Line]) -> Result<()> {
        let original = |of: &Rows, row, column| of.text_bytes(row, column).is_some_and(is_original);
        for (row, (line, amount)) in lines.iter().zip(&self.amounts).enumerate() {
            let brand = original(&self.items, row, 2) && original(&self.stocks, row, 1);
            rows.push(ValueRef::Int(line.supplier))?;
            rows.push(ValueRef::Int(line.item))?;
            rows.push_from(&self.items, row, 1)?;
            rows.push(ValueRef::Int(line.quantity))?;
            rows.push_from(&self.stocks, row, 0)?;
            rows.push(ValueRef::Text(if brand { "B" } else { "G" }))?;
            rows.push_from(&self.items, row, 0)?;
            rows.push(ValueRef::Decimal(*amount))?;
        }
        Ok(())
    }
}

impl Order<'_> {
    /// Takes the lines from the stock and writes them.
    fn lines(&self, context: &mut Context<'_, '_>, lines: &[Line]) -> Result<Taken> {
        let keys: Vec<[Value; 1]> = lines.iter().map(|line| [Value::Int(line.item)]).collect();
        let items = context.execute_batch(ITEM, &keys)?;
        // Clause 2.4.2.3: everything is done except for a line whose item does not exist.
        let mut known = Vec::with_capacity(lines.len());
        known
            .extend(lines.iter().enumerate().filter(|(run, _)| !items.rows_of(*run).is_empty()).map(|(_, line)| *line));

        let mut taken = Vec::with_capacity(known.len());
        taken.extend(known.iter().map(|line| self.taken(line)));
        let stocks = one_each(context.execute_batch(self.stock, &taken)?, "stock")?;
        let mut written = Vec::with_capacity(known.len());
        let mut amounts = Vec::with_capacity(known.len());
        for (row, line) in known.iter().enumerate() {
            let amount = decimal(&items.outcome.rows, row, 0)?.times(Decimal::from(line.quantity))?;
            amounts.push(amount);
            written.push(self.written(line, amount, text(&stocks, row, 2)?));
        }
        context.execute_batch_borrowed(ORDER_LINE, &written)?;
        if known.len() < lines.len() {
            // Clause 2.4.1.4: the user's mistake, after which nothing of the order may remain.
            return Err(Class::Raised.error("Item number is not valid"));
        }
        Ok(Taken { items: items.outcome.rows, stocks, amounts })
    }

    /// Parameters of [`take_from_stock`].
    fn taken(&self, line: &Line) -> [Value; 4] {
        [line.supplier, line.item, line.quantity, (line.supplier != self.home).into()].map(Value::Int)
    }

    /// Parameters of [`ORDER_LINE`].
    fn written<'v>(&'v self, line: &Line, amount: Decimal, info: &'v str) -> [ValueRef<'v>; 9] {
        let (w, d, o) = (self.warehouse.as_ref(), self.district.as_ref(), ValueRef::Int(self.id));
        let Line { number, item, supplier, quantity } = *line;
        let [number, item, supplier, quantity] = [number, item, supplier, quantity].map(ValueRef::Int);
        [w, d, o, number, item, supplier, quantity, ValueRef::Decimal(amount), ValueRef::Text(info)]
    }
}

/// Whether the data of an item or its stock contains the word.
fn is_original(data: &[u8]) -> bool {
    const WORD: &[u8; 8] = b"ORIGINAL";
    data.windows(WORD.len()).any(|part| part == WORD)
}

fn parse(lines: &str) -> Result<Vec<Line>> {
    let mut parsed = Vec::with_capacity(LINES_MAX);
    let mut rest = lines.as_bytes();
    for number in 1.. {
        rest = rest.trim_ascii_start();
        if rest.is_empty() {
            break;
        }
        let line = [b':', b':', b' '].map(|end| digits(&mut rest, end));
        match line {
            [Some(item), Some(supplier), Some(quantity)] => parsed.push(Line { number, item, supplier, quantity }),
            _ => return Err(wrong(format_args!("\"{lines}\" is not item:warehouse:quantity, line by line"))),
        }
    }
    Ok(parsed)
}

/// Takes digits off the front up to `end`, which may be missing after the last; `None` if they are not a number.
fn digits(rest: &mut &[u8], end: u8) -> Option<i64> {
    let mut number: Option<i64> = None;
    while let Some((byte, behind)) = rest.split_first() {
        *rest = behind;
        match byte {
            b'0'..=b'9' => number = Some(number.unwrap_or(0).checked_mul(10)?.checked_add((byte - b'0').into())?),
            byte => return number.filter(|_| *byte == end),
        }
    }
    number.filter(|_| end == b' ')
}

fn wrong(what: impl std::fmt::Display) -> thermocline_transactions::Error {
    Class::Procedure.error(format_args!("new_order: {what}"))
}
