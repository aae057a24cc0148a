//! Order lines as the procedures of other databases take them.

/// The lines of a New-Order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrderLines {
    /// A JSON array of item, warehouse, quantity and round, by warehouse and item: transactions that lock rows of STOCK
    /// in one order do not wait for each other in a circle. The round counts lines of one item and warehouse from 1.
    pub json: String,
    /// Number of lines.
    pub count: i32,
    /// Largest round.
    pub rounds: i32,
    /// Whether all of them are of the home warehouse.
    pub is_local: bool,
}

impl OrderLines {
    /// The lines of an order of the warehouse `home` from `item:warehouse:quantity` between spaces; `None` if the text
    /// is not such a list.
    pub fn parse(home: i64, text: &str) -> Option<Self> {
        let mut lines = text.split(' ').map(line).collect::<Option<Vec<_>>>()?;
        lines.sort_by_key(|[item, warehouse, _]| (*warehouse, *item));
        let (mut json, mut last, mut round, mut rounds) = (Vec::new(), None, 0, 0);
        for [item, warehouse, quantity] in &lines {
            round = if last == Some((warehouse, item)) { round + 1 } else { 1 };
            rounds = rounds.max(round);
            last = Some((warehouse, item));
            json.push(format!("[{item},{warehouse},{quantity},{round}]"));
        }
        Some(Self {
            json: format!("[{}]", json.join(",")),
            count: i32::try_from(lines.len()).ok()?,
            rounds,
            is_local: lines.iter().all(|[_, warehouse, _]| *warehouse == home),
        })
    }
}

fn line(text: &str) -> Option<[i64; 3]> {
    let mut numbers = text.split(':').map(|number| number.parse().ok());
    let line = [numbers.next()??, numbers.next()??, numbers.next()??];
    numbers.next().is_none().then_some(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_by_warehouse_and_item() {
        let lines = OrderLines::parse(2, "7:2:1 900:1:5 3:2:10 7:2:4").unwrap();
        assert_eq!(lines.json, "[[900,1,5,1],[3,2,10,1],[7,2,1,1],[7,2,4,2]]");
        assert_eq!((lines.count, lines.rounds, lines.is_local), (4, 2, false));
        let lines = OrderLines::parse(2, "7:2:1").unwrap();
        assert_eq!((lines.count, lines.rounds, lines.is_local), (1, 1, true));
    }

    #[test]
    fn anything_else_is_none() {
        for text in ["", "7:2", "7:2:1:1", "7:2:1  8:2:1", "a:2:1"] {
            assert_eq!(OrderLines::parse(2, text), None, "{text}");
        }
    }
}
