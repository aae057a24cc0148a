//! Five TPC-H queries whose filter on `lineitem` selects any share of it (Enhancing Computation
//! Pushdown section 6.3.1).
//!
//! The paper varies "the selectivity of the filter predicate associated with the fact table" and
//! does not say how. Here the filter keeps the columns of the standard query; the one named by
//! [`SelectivityQuery::measure`] decides, terms over the others are written so that they pass.

/// A query over `lineitem` and other tables with one number left open.
#[derive(Debug, Clone, Copy)]
pub struct SelectivityQuery {
    /// Name of the standard query.
    pub name: &'static str,
    /// A whole number of each row of `lineitem`: the filter selects the rows where it is larger
    /// than the open number.
    pub measure: &'static str,
    template: &'static str,
    /// Columns of `lineitem` that the filter reads.
    pub predicate: &'static [&'static str],
    /// Columns of `lineitem` that are needed of the selected rows.
    pub output: &'static [&'static str],
    /// Columns of the other tables that the query needs.
    pub others: &'static [(&'static str, &'static [&'static str])],
}

impl SelectivityQuery {
    /// The query that selects the rows where [`SelectivityQuery::measure`] is larger than `bound`.
    pub fn sql(&self, bound: i64) -> String {
        self.template.replace("{bound}", &bound.to_string())
    }
}

/// Q3, Q4, Q12, Q14 and Q19.
pub const SELECTIVITY_QUERIES: &[SelectivityQuery] = &[
    SelectivityQuery {
        name: "Q3",
        measure: "arrow_cast(l_shipdate, 'Int32')",
        template: "select l_orderkey, sum(l_extendedprice * (1 - l_discount)) as revenue, o_orderdate, o_shippriority
            from customer, orders, lineitem
            where c_mktsegment = 'BUILDING' and c_custkey = o_custkey and l_orderkey = o_orderkey
              and o_orderdate < date '1995-03-15'
              and l_shipdate > date '1970-01-01' + interval '{bound}' day
            group by l_orderkey, o_orderdate, o_shippriority
            order by revenue desc, o_orderdate, l_orderkey limit 10",
        predicate: &["l_shipdate"],
        output: &["l_orderkey", "l_extendedprice", "l_discount"],
        others: &[
            ("customer", &["c_custkey", "c_mktsegment"]),
            ("orders", &["o_orderkey", "o_custkey", "o_orderdate", "o_shippriority"]),
        ],
    },
    SelectivityQuery {
        name: "Q4",
        measure: "arrow_cast(l_receiptdate, 'Int32') - arrow_cast(l_commitdate, 'Int32')",
        template: "select o_orderpriority, count(*) as order_count from orders
            where o_orderdate >= date '1993-07-01' and o_orderdate < date '1993-10-01' and exists (
              select * from lineitem where l_orderkey = o_orderkey
                and l_commitdate < l_receiptdate - interval '{bound}' day)
            group by o_orderpriority order by o_orderpriority",
        predicate: &["l_commitdate", "l_receiptdate"],
        output: &["l_orderkey"],
        others: &[("orders", &["o_orderkey", "o_orderdate", "o_orderpriority"])],
    },
    SelectivityQuery {
        name: "Q12",
        measure: "arrow_cast(l_receiptdate, 'Int32')",
        template: "select l_shipmode,
              sum(case when o_orderpriority in ('1-URGENT', '2-HIGH') then 1 else 0 end) as high_line_count,
              sum(case when o_orderpriority not in ('1-URGENT', '2-HIGH') then 1 else 0 end) as low_line_count
            from orders, lineitem where o_orderkey = l_orderkey
              and l_shipmode in ('AIR', 'FOB', 'MAIL', 'RAIL', 'REG AIR', 'SHIP', 'TRUCK')
              and l_commitdate < l_receiptdate + interval '1' year
              and l_shipdate < l_commitdate + interval '1' year
              and l_receiptdate > date '1970-01-01' + interval '{bound}' day
            group by l_shipmode order by l_shipmode",
        predicate: &["l_shipmode", "l_commitdate", "l_receiptdate", "l_shipdate"],
        output: &["l_orderkey", "l_shipmode"],
        others: &[("orders", &["o_orderkey", "o_orderpriority"])],
    },
    SelectivityQuery {
        name: "Q14",
        measure: "arrow_cast(l_shipdate, 'Int32')",
        template: "select 100.00 * sum(case when p_type like 'PROMO%' then l_extendedprice * (1 - l_discount) else 0 end)
              / sum(l_extendedprice * (1 - l_discount)) as promo_revenue
            from lineitem, part where l_partkey = p_partkey
              and l_shipdate > date '1970-01-01' + interval '{bound}' day",
        predicate: &["l_shipdate"],
        output: &["l_partkey", "l_extendedprice", "l_discount"],
        others: &[("part", &["p_partkey", "p_type"])],
    },
    SelectivityQuery {
        name: "Q19",
        measure: "arrow_cast(l_quantity, 'Int32')",
        template: "select sum(l_extendedprice * (1 - l_discount)) as revenue from lineitem, part
            where p_partkey = l_partkey
              and ((p_brand = 'Brand#12' and p_container in ('SM CASE', 'SM BOX', 'SM PACK', 'SM PKG') and p_size between 1 and 5)
                or (p_brand = 'Brand#23' and p_container in ('MED BAG', 'MED BOX', 'MED PKG', 'MED PACK') and p_size between 1 and 10)
                or (p_brand = 'Brand#34' and p_container in ('LG CASE', 'LG BOX', 'LG PACK', 'LG PKG') and p_size between 1 and 15))
              and l_quantity > {bound}
              and l_shipmode in ('AIR', 'FOB', 'MAIL', 'RAIL', 'REG AIR', 'SHIP', 'TRUCK')
              and l_shipinstruct in ('DELIVER IN PERSON', 'COLLECT COD', 'NONE', 'TAKE BACK RETURN')",
        predicate: &["l_quantity", "l_shipmode", "l_shipinstruct"],
        output: &["l_partkey", "l_extendedprice", "l_discount"],
        others: &[("part", &["p_partkey", "p_brand", "p_container", "p_size"])],
    },
];
