//! Protobuf messages before they are decoded.

use super::shape::{Kind, Shape};

/// Fields of a table's schema, those of nested messages included.
pub const MESSAGE_FIELDS_MAX: usize = 1 << 22;

/// Deepest nesting that is looked into; prost refuses what is nested deeper.
const DEPTH_MAX: usize = 100;

/// Refuses a message of more than `fields_max` fields, which prost would allocate for.
///
/// Two bytes on the wire are an empty element of a repeated field, and become a struct of up to two
/// hundred bytes; one byte is an element of a packed list of numbers, and becomes eight. `shape` says
/// which fields are texts, bytes and packed numbers: a text is one field, whatever it says. A field that
/// the shape does not know counts as a nested message, as far as it looks like one.
///
/// # Errors
/// A sentence with the limit.
pub fn check_message(bytes: &[u8], fields_max: usize, shape: &Shape) -> Result<(), String> {
    let mut left = fields_max;
    match count(bytes, 0, &mut left, shape) {
        Some(()) => Ok(()),
        None => Err(format!("a message of {} bytes has more than {fields_max} fields", bytes.len())),
    }
}

/// Takes the fields of `bytes` off `left`; `None` if there are more.
fn count(bytes: &[u8], depth: usize, left: &mut usize, shape: &Shape) -> Option<()> {
    let mut rest = bytes;
    while let Some((key, after)) = varint(rest) {
        *left = left.checked_sub(1)?;
        // Field number 0 ends the message for prost, too.
        if key < 8 {
            return Some(());
        }
        let skipped = match key % 8 {
            0 => match varint(after) {
                Some((_, after)) => after,
                None => return Some(()),
            },
            1 => after.get(8..).unwrap_or_default(),
            5 => after.get(4..).unwrap_or_default(),
            2 => {
                let Some((length, after)) = varint(after) else { return Some(()) };
                let length = usize::try_from(length).unwrap_or(usize::MAX);
                let Some((nested, after)) = after.split_at_checked(length) else { return Some(()) };
                match shape.kind(key / 8) {
                    Kind::Text => {}
                    // The last byte of a number has no continuation bit.
                    Kind::Numbers => {
                        *left = left.checked_sub(nested.iter().filter(|byte| **byte < 0x80).count())?;
                    }
                    Kind::Message(shape) if depth < DEPTH_MAX => count(nested, depth + 1, left, shape)?,
                    Kind::Message(_) => {}
                }
                after
            }
            // Fields of a group are counted as the message's own.
            3 | 4 => after,
            _ => return Some(()),
        };
        rest = skipped;
    }
    Some(())
}

/// The LEB128 number at the front of `bytes`, and what follows.
fn varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut value = 0_u64;
    for (position, byte) in bytes.iter().enumerate().take(10) {
        value |= u64::from(byte & 0x7f).checked_shl(7 * position as u32).unwrap_or(0);
        if byte & 0x80 == 0 {
            return Some((value, bytes.get(position + 1..).unwrap_or_default()));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use datafusion_proto::protobuf;
    use prost::Message;

    use super::*;
    use crate::validate::shape::{EXPRESSION, SCALAR, UNKNOWN};

    #[test]
    fn every_field_counts_in_any_depth() {
        let list = protobuf::PhysicalInListNode { list: vec![Default::default(); 1000], ..Default::default() };
        let bytes = list.encode_to_vec();
        assert_eq!(bytes.len(), 2000);
        assert!(check_message(&bytes, 1000, &UNKNOWN).is_ok());
        assert!(check_message(&bytes, 999, &UNKNOWN).is_err());
        let nested = protobuf::PhysicalExprNode {
            expr_type: Some(protobuf::physical_expr_node::ExprType::InList(Box::new(list))),
            ..Default::default()
        };
        assert!(check_message(&nested.encode_to_vec(), 1001, &UNKNOWN).is_ok());
        assert!(check_message(&nested.encode_to_vec(), 1000, &UNKNOWN).is_err());
    }

    #[test]
    fn a_message_that_breaks_off_counts_as_far_as_it_goes() {
        let mut bytes =
            protobuf::PhysicalInListNode { list: vec![Default::default(); 1000], ..Default::default() }.encode_to_vec();
        bytes.extend([0x12, 0xff, 0xff]);
        assert!(check_message(&bytes, 900, &UNKNOWN).is_err());
        // A group does not hide what follows it.
        let grouped = [&[0x0b, 0x0c][..], &bytes].concat();
        assert!(check_message(&grouped, 900, &UNKNOWN).is_err());
    }

    #[test]
    fn bytes_that_are_no_message_cost_little() {
        for bytes in [vec![0; 1 << 20], vec![0xff; 1 << 20]] {
            assert!(check_message(&bytes, 10, &UNKNOWN).is_ok());
        }
        // Text may look like a message of as many fields.
        let text = b"text ".repeat(1000);
        assert!(check_message(&text, text.len(), &UNKNOWN).is_ok());
    }
    /// A text of any content is one field, in a literal as deep as there can be one.
    #[test]
    fn texts_are_not_refused_by_their_content() {
        use datafusion_proto_common::protobuf_common::scalar_value::Value;
        use datafusion_proto_common::protobuf_common::{ScalarValue, Schema};
        let text = "\n\0".repeat(100_000);
        let values = [
            Value::Utf8Value(text.clone()),
            Value::LargeUtf8Value(text.clone()),
            Value::Utf8ViewValue(text.clone()),
            Value::BinaryValue(text.clone().into()),
            Value::LargeBinaryValue(text.clone().into()),
            Value::BinaryViewValue(text.clone().into()),
        ];
        for value in values {
            let literal = ScalarValue { value: Some(value) };
            assert!(check_message(&literal.encode_to_vec(), 10, &SCALAR).is_ok());
            assert!(check_message(&literal.encode_to_vec(), 10, &UNKNOWN).is_err());
            let literal = protobuf::PhysicalExprNode {
                expr_type: Some(protobuf::physical_expr_node::ExprType::Literal(literal)),
                ..Default::default()
            };
            let list = protobuf::PhysicalInListNode { list: vec![literal; 5], ..Default::default() };
            let expression = protobuf::PhysicalExprNode {
                expr_type: Some(protobuf::physical_expr_node::ExprType::InList(Box::new(list))),
                ..Default::default()
            };
            assert!(check_message(&expression.encode_to_vec(), 20, &EXPRESSION).is_ok());
        }
        let schema = Schema { metadata: [(text.clone(), text)].into(), ..Default::default() };
        assert!(check_message(&schema.encode_to_vec(), 10, &crate::validate::shape::SCHEMA).is_ok());
    }

    #[test]
    fn packed_numbers_count() {
        let filter = protobuf::FilterExecNode { projection: vec![1; 1000], ..Default::default() };
        let plan = protobuf::PhysicalPlanNode {
            physical_plan_type: Some(protobuf::physical_plan_node::PhysicalPlanType::Filter(Box::new(filter))),
        };
        let bytes = plan.encode_to_vec();
        assert!(check_message(&bytes, 1002, &crate::validate::shape::PLAN).is_ok());
        assert!(check_message(&bytes, 1001, &crate::validate::shape::PLAN).is_err());
    }
}
