//! Order lines as the procedures of other databases take them.

/// The lines of a New-Order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrderLines {
    /// `item:warehouse:quantity` between spaces, by warehouse and item: transactions that lock rows of STOCK in one order
    /// do not wait for each other in a circle.
    pub text: String,
    /// Number of lines.
    pub count: i32,
    /// Whether all of them are of the home warehouse.
    pub is_local: bool,
}

impl OrderLines {
    /// The lines of an order of the warehouse `home`; `None` if the text is not such a list.
    pub fn parse(home: i64, text: &str) -> Option<Self> {
        let mut lines = text.split(' ').map(line).collect::<Option<Vec<_>>>()?;
        lines.sort_by_key(|[item, warehouse, _]| (*warehouse, *item));
        let texts: Vec<String> =
            lines.iter().map(|[item, from, quantity]| format!("{item}:{from}:{quantity}")).collect();
        Some(Self {
            text: texts.join(" "),
            count: i32::try_from(lines.len()).ok()?,
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
        assert_eq!((lines.text.as_str(), lines.count, lines.is_local), ("900:1:5 3:2:10 7:2:1 7:2:4", 4, false));
        assert!(OrderLines::parse(2, "7:2:1").unwrap().is_local);
    }

    #[test]
    fn anything_else_is_none() {
        for text in ["", "7:2", "7:2:1:1", "7:2:1  8:2:1", "a:2:1"] {
            assert_eq!(OrderLines::parse(2, text), None, "{text}");
        }
    }
}
