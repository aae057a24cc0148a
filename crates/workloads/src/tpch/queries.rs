//! The 22 queries with the parameters of the specification's validation runs, as DataFusion and
//! DuckDB understand them.
//!
//! Q15's view is a common table expression. Where the specification wants the first rows only,
//! there is a `limit`.

/// Name and SQL of each query, Q1 to Q22, in order.
pub const QUERIES: [(&str, &str); 22] = [
    ("Q1", include_str!("queries/q01.sql")),
    ("Q2", include_str!("queries/q02.sql")),
    ("Q3", include_str!("queries/q03.sql")),
    ("Q4", include_str!("queries/q04.sql")),
    ("Q5", include_str!("queries/q05.sql")),
    ("Q6", include_str!("queries/q06.sql")),
    ("Q7", include_str!("queries/q07.sql")),
    ("Q8", include_str!("queries/q08.sql")),
    ("Q9", include_str!("queries/q09.sql")),
    ("Q10", include_str!("queries/q10.sql")),
    ("Q11", include_str!("queries/q11.sql")),
    ("Q12", include_str!("queries/q12.sql")),
    ("Q13", include_str!("queries/q13.sql")),
    ("Q14", include_str!("queries/q14.sql")),
    ("Q15", include_str!("queries/q15.sql")),
    ("Q16", include_str!("queries/q16.sql")),
    ("Q17", include_str!("queries/q17.sql")),
    ("Q18", include_str!("queries/q18.sql")),
    ("Q19", include_str!("queries/q19.sql")),
    ("Q20", include_str!("queries/q20.sql")),
    ("Q21", include_str!("queries/q21.sql")),
    ("Q22", include_str!("queries/q22.sql")),
];
