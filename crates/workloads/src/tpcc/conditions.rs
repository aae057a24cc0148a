//! The twelve consistency conditions as queries.

use super::check::{Check, Extent};

/// One of the twelve consistency conditions of clause 3.3.2.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Condition(u8);

/// W_YTD by warehouse.
const WAREHOUSE_YTD: &str = "SELECT w_id, w_ytd FROM warehouse WHERE w_id = $1";
/// C_BALANCE, by district and customer.
const BALANCE: &str = "SELECT c_d_id, c_id, c_balance FROM customer WHERE c_w_id = $1";
/// Sums of deliveries to customers of a district: all rows that a query needs by an index have to fit into memory.
const DELIVERED: &str = "SELECT o_d_id, o_c_id, sum(ol_amount) FROM orders JOIN order_line \
     ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id \
     WHERE o_w_id = $1 AND o_d_id = $2 AND ol_delivery_d IS NOT NULL GROUP BY o_d_id, o_c_id";

impl Condition {
    /// All twelve conditions, which hold after the load.
    pub const ALL: [Self; 12] =
        [Self(1), Self(2), Self(3), Self(4), Self(5), Self(6), Self(7), Self(8), Self(9), Self(10), Self(11), Self(12)];

    /// The conditions that always hold: all but the eleventh, which counts the orders of the load.
    pub fn always() -> Vec<Self> {
        Self::ALL.into_iter().filter(|condition| condition.0 != 11).collect()
    }

    /// Its number in the standard.
    pub const fn number(self) -> u8 {
        self.0
    }

    /// Its checks.
    pub(super) const fn checks(self) -> &'static [Check] {
        match self.0 {
            1 => &[Check::Agree {
                left: &[WAREHOUSE_YTD],
                right: &["SELECT d_w_id, sum(d_ytd) FROM district WHERE d_w_id = $1 GROUP BY d_w_id"],
            }],
            2 => &[
                Check::Agree {
                    left: &["SELECT d_id, d_next_o_id - 1 FROM district WHERE d_w_id = $1"],
                    right: &["SELECT o_d_id, max(o_id) FROM orders WHERE o_w_id = $1 GROUP BY o_d_id"],
                },
                // A district whose orders have all been delivered has nothing to compare.
                Check::Breaks(
                    "SELECT d_next_o_id, max(no_o_id) FROM district JOIN new_order \
                     ON no_w_id = d_w_id AND no_d_id = d_id WHERE d_w_id = $1 AND d_id = $2 \
                     GROUP BY d_next_o_id HAVING d_next_o_id - 1 <> max(no_o_id)",
                    Extent::District,
                ),
            ],
            3 => &[Check::Breaks(
                "SELECT min(no_o_id), max(no_o_id), count(*) FROM new_order WHERE no_w_id = $1 AND no_d_id = $2 \
                 HAVING max(no_o_id) - min(no_o_id) + 1 <> count(*)",
                Extent::District,
            )],
            4 => &[Check::Agree {
                left: &["SELECT o_d_id, sum(o_ol_cnt) FROM orders WHERE o_w_id = $1 GROUP BY o_d_id"],
                right: &["SELECT ol_d_id, count(*) FROM order_line WHERE ol_w_id = $1 GROUP BY ol_d_id"],
            }],
            5 => &[
                Check::Breaks(
                    "SELECT o_id, o_carrier_id, no_o_id FROM orders LEFT JOIN new_order \
                     ON no_w_id = o_w_id AND no_d_id = o_d_id AND no_o_id = o_id WHERE o_w_id = $1 AND o_d_id = $2 \
                     AND (o_carrier_id IS NULL) <> (no_o_id IS NOT NULL)",
                    Extent::District,
                ),
                Check::Breaks(
                    "SELECT no_o_id FROM new_order LEFT JOIN orders \
                     ON o_w_id = no_w_id AND o_d_id = no_d_id AND o_id = no_o_id \
                     WHERE no_w_id = $1 AND no_d_id = $2 AND o_id IS NULL",
                    Extent::District,
                ),
            ],
            6 => &[
                Check::Breaks(
                    "SELECT o_id, o_ol_cnt, count(ol_number) FROM orders LEFT JOIN order_line \
                     ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id WHERE o_w_id = $1 AND o_d_id = $2 \
                     GROUP BY o_id, o_ol_cnt HAVING o_ol_cnt <> count(ol_number)",
                    Extent::District,
                ),
                Check::Breaks(
                    "SELECT ol_o_id, ol_number FROM order_line LEFT JOIN orders \
                     ON o_w_id = ol_w_id AND o_d_id = ol_d_id AND o_id = ol_o_id \
                     WHERE ol_w_id = $1 AND ol_d_id = $2 AND o_id IS NULL",
                    Extent::District,
                ),
            ],
            7 => &[Check::Breaks(
                "SELECT o_id, o_carrier_id, ol_number, ol_delivery_d FROM orders JOIN order_line \
                 ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id WHERE o_w_id = $1 AND o_d_id = $2 \
                 AND (o_carrier_id IS NULL) <> (ol_delivery_d IS NULL)",
                Extent::District,
            )],
            8 => &[Check::Agree {
                left: &[WAREHOUSE_YTD],
                right: &["SELECT h_w_id, sum(h_amount) FROM history WHERE h_w_id = $1 GROUP BY h_w_id"],
            }],
            9 => &[Check::Agree {
                left: &["SELECT d_id, d_ytd FROM district WHERE d_w_id = $1"],
                right: &["SELECT h_d_id, sum(h_amount) FROM history WHERE h_w_id = $1 GROUP BY h_d_id"],
            }],
            10 => &[Check::Agree {
                left: &[
                    BALANCE,
                    "SELECT h_c_d_id, h_c_id, sum(h_amount) FROM history WHERE h_c_w_id = $1 GROUP BY h_c_d_id, h_c_id",
                ],
                right: &[DELIVERED],
            }],
            11 => &[Check::Breaks(
                "SELECT count(*), count(no_o_id) FROM orders LEFT JOIN new_order \
                 ON no_w_id = o_w_id AND no_d_id = o_d_id AND no_o_id = o_id WHERE o_w_id = $1 AND o_d_id = $2 \
                 HAVING count(*) - count(no_o_id) <> $3",
                Extent::DistrictAsLoaded,
            )],
            12 => &[Check::Agree {
                left: &[BALANCE, "SELECT c_d_id, c_id, c_ytd_payment FROM customer WHERE c_w_id = $1"],
                right: &[DELIVERED],
            }],
            _ => &[],
        }
    }
}
