//! Placeholder functions that [`TypeChecks`](super::TypeChecks) replaces. They accept arguments that DataFusion's
//! planner would reject before any rule could run.

use std::sync::Arc;

use arrow::datatypes::{DataType as ArrowType, Field, FieldRef};
use datafusion::common::{Result, exec_err, plan_err};
use datafusion::execution::FunctionRegistry;
use datafusion::logical_expr::type_coercion::functions::fields_with_udf;
use datafusion::logical_expr::{
    ColumnarValue, Expr, Operator, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::prelude::SessionContext;
use thermocline_pushdown::sql_type;
use thermocline_types::DataType;

/// Names of functions of text and bytes, with DataFusion's function of text.
const OF_TEXT_AND_BYTES: [(&str, &str); 5] =
    [("substr", "substr"), ("btrim", "btrim"), ("ltrim", "ltrim"), ("rtrim", "rtrim"), (POSITION, "strpos")];

/// Functions that choose among values.
const CHOICES: [&str; 4] = ["coalesce", "greatest", "least", "nullif"];

/// `POSITION(part IN text)`, with its arguments exchanged.
pub const POSITION: &str = "position";

/// Placeholder for unary `+`.
pub const POSITIVE: &str = "sql_positive";
/// Placeholder for `IS DISTINCT FROM`.
pub const DISTINCT: &str = "sql_is_distinct";
/// Placeholder for `IS NOT DISTINCT FROM`.
pub const NOT_DISTINCT: &str = "sql_is_not_distinct";

/// Whether this names a placeholder for another function.
pub fn is_stand_in(name: &str) -> bool {
    CHOICES.contains(&name) || OF_TEXT_AND_BYTES.iter().any(|(of, _)| *of == name)
}

/// Registers the placeholders; some replace DataFusion's functions.
///
/// # Errors
/// If DataFusion lacks a function that a placeholder stands for.
pub fn register_stand_ins(context: &SessionContext) -> Result<()> {
    for (name, of_text) in OF_TEXT_AND_BYTES {
        context.register_udf(TextOrBytes::new(name, context.udf(of_text)?).into());
    }
    for name in CHOICES {
        context.register_udf(Choice::new(context.udf(name)?).into());
    }
    for written in [Written::Positive, Written::Distinct, Written::NotDistinct] {
        context.register_udf(OperatorStandIn::new(written).into());
    }
    Ok(())
}

/// Placeholder for a text function that also takes bytes.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct TextOrBytes {
    name: &'static str,
    /// The function of text.
    pub of_text: Arc<ScalarUDF>,
    signature: Signature,
}

impl TextOrBytes {
    fn new(name: &'static str, of_text: Arc<ScalarUDF>) -> Self {
        let signature = Signature::user_defined(of_text.signature().volatility);
        Self { name, of_text, signature }
    }
}

impl ScalarUDFImpl for TextOrBytes {
    fn name(&self) -> &str {
        self.name
    }

    fn aliases(&self) -> &[String] {
        if self.name == self.of_text.name() { self.of_text.aliases() } else { &[] }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[ArrowType]) -> Result<ArrowType> {
        exec_err!("{}: the type depends on the arguments", self.name())
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs) -> Result<FieldRef> {
        if !arguments.arg_fields.first().is_some_and(|first| first.data_type().is_binary()) {
            return self.of_text.return_field_from_args(arguments);
        }
        let of = if self.name == POSITION { ArrowType::Int32 } else { ArrowType::Binary };
        Ok(Arc::new(Field::new(self.name(), of, true)))
    }

    fn coerce_types(&self, types: &[ArrowType]) -> Result<Vec<ArrowType>> {
        if types.first().is_some_and(ArrowType::is_binary) {
            return Ok(types.to_vec());
        }
        coerced(&self.of_text, types)
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        exec_err!("{} is only planned with", self.name())
    }
}

/// Placeholder for a function that returns one of its arguments. DataFusion derives another type, or none, for values
/// and a literal.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Choice {
    /// The function for values of one type.
    pub of: Arc<ScalarUDF>,
    signature: Signature,
}

impl Choice {
    fn new(of: Arc<ScalarUDF>) -> Self {
        let signature = Signature::user_defined(of.signature().volatility);
        Self { of, signature }
    }
}

impl ScalarUDFImpl for Choice {
    fn name(&self) -> &str {
        self.of.name()
    }

    fn aliases(&self) -> &[String] {
        self.of.aliases()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[ArrowType]) -> Result<ArrowType> {
        self.of.return_type(types)
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs) -> Result<FieldRef> {
        let Some(of) = literals_become(arguments.arg_fields.iter().map(|field| field.data_type())) else {
            return self.of.return_field_from_args(arguments);
        };
        let brought = |field: &FieldRef| Arc::new(Field::new(field.name(), of.clone(), field.is_nullable()));
        let fields: Vec<FieldRef> = arguments.arg_fields.iter().map(brought).collect();
        self.of.return_field_from_args(ReturnFieldArgs { arg_fields: &fields, ..arguments })
    }

    fn coerce_types(&self, types: &[ArrowType]) -> Result<Vec<ArrowType>> {
        // [`TypeChecks`](super::TypeChecks) converts the literals; DataFusion has no coercion for them.
        match literals_become(types.iter()) {
            Some(_) => Ok(types.to_vec()),
            None => coerced(&self.of, types),
        }
    }

    fn short_circuits(&self) -> bool {
        self.of.short_circuits()
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        exec_err!("{} is only planned with", self.name())
    }
}

/// The type of the values if all others are literals. Text beside them is a literal, or rejected by the type checks.
fn literals_become<'a>(mut types: impl Iterator<Item = &'a ArrowType> + Clone) -> Option<&'a ArrowType> {
    let is_literal = |of: &ArrowType| matches!(of, ArrowType::Utf8 | ArrowType::Null);
    let of = types.clone().find(|of| !is_literal(of))?;
    let is_read = sql_type(of).is_some_and(|of| !of.is_text() && of != DataType::Bytea);
    (is_read && types.all(|other| is_literal(other) || other == of)).then_some(of)
}

/// The types to which the function coerces arguments of these types.
fn coerced(function: &ScalarUDF, types: &[ArrowType]) -> Result<Vec<ArrowType>> {
    let fields: Vec<FieldRef> = types.iter().map(|of| Arc::new(Field::new("", of.clone(), true))).collect();
    let fields = fields_with_udf(&fields, function)?;
    Ok(fields.iter().map(|field| field.data_type().clone()).collect())
}

/// Operator in the statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Written {
    /// `+x`
    Positive,
    Distinct,
    NotDistinct,
}

/// Placeholder function for an operator.
#[derive(Debug, PartialEq, Eq, Hash)]
struct OperatorStandIn {
    written: Written,
    signature: Signature,
}

impl OperatorStandIn {
    fn new(written: Written) -> Self {
        let arguments = if written == Written::Positive { 1 } else { 2 };
        Self { written, signature: Signature::any(arguments, Volatility::Immutable) }
    }

    fn shown(&self, arguments: &[Expr], name: impl Fn(&Expr) -> String) -> Result<String> {
        match (self.written, arguments) {
            // The name that DataFusion gives it.
            (Written::Positive, [of]) => Ok(name(of)),
            (written, [left, right]) => {
                let operator = match written {
                    Written::Distinct => Operator::IsDistinctFrom,
                    _ => Operator::IsNotDistinctFrom,
                };
                Ok(format!("{} {operator} {}", name(left), name(right)))
            }
            (_, arguments) => plan_err!("{} does not take {} arguments", self.name(), arguments.len()),
        }
    }
}

impl ScalarUDFImpl for OperatorStandIn {
    fn name(&self) -> &str {
        match self.written {
            Written::Positive => POSITIVE,
            Written::Distinct => DISTINCT,
            Written::NotDistinct => NOT_DISTINCT,
        }
    }

    fn display_name(&self, arguments: &[Expr]) -> Result<String> {
        self.shown(arguments, Expr::to_string)
    }

    fn schema_name(&self, arguments: &[Expr]) -> Result<String> {
        self.shown(arguments, |argument| argument.schema_name().to_string())
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[ArrowType]) -> Result<ArrowType> {
        match (self.written, types) {
            (Written::Positive, [of]) => Ok(of.clone()),
            _ => Ok(ArrowType::Boolean),
        }
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs) -> Result<FieldRef> {
        let nullable = arguments.arg_fields.iter().any(|field| field.is_nullable());
        let types: Vec<ArrowType> = arguments.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        let nullable = self.written == Written::Positive && nullable;
        Ok(Arc::new(Field::new(self.name(), self.return_type(&types)?, nullable)))
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        exec_err!("{} is only planned with", self.name())
    }
}
