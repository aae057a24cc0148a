//! Limits on one fragment.

/// Bounds on one fragment. A compute node stops absorbing operators at them; a storage node
/// refuses what passes them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Largest K of a top-K; the heap holds K rows.
    pub top_k_max: usize,
    /// Operators above the input.
    pub operators_max: usize,
    /// Nesting of one expression, from its root to its deepest leaf.
    pub expression_depth_max: usize,
    /// Expressions of all operators together, each operand and literal counted.
    pub expressions_max: usize,
    /// Encoded bytes of a fragment.
    pub encoded_bytes_max: usize,
    /// Protobuf fields of an encoded fragment, those of nested messages included: a field of two
    /// bytes may stand for a struct of two hundred.
    pub encoded_fields_max: usize,
    /// Bytes of one literal.
    pub literal_bytes_max: usize,
    /// Bytes that one row may take beyond what was read: literals that become columns, padding,
    /// fixed-size types. Multiplied by the rows of a batch.
    pub row_bytes_max: u64,
    /// Operands of all string concatenations together; each may be the same long column.
    pub concatenations_max: u64,
    /// Grouping sets of an aggregate, each of which groups all rows.
    pub grouping_sets_max: usize,
    /// Rows of a batch that an operator may ask for.
    pub batch_rows_max: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            top_k_max: 1_000_000,
            operators_max: 32,
            // The protobuf decoder stops at 100 nested messages, and an expression takes two a level.
            expression_depth_max: 32,
            expressions_max: 1 << 17,
            encoded_bytes_max: 4 << 20,
            encoded_fields_max: 1 << 19,
            literal_bytes_max: 64 << 10,
            row_bytes_max: 32 << 10,
            concatenations_max: 64,
            grouping_sets_max: 64,
            batch_rows_max: 1 << 16,
        }
    }
}
