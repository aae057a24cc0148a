//! Whose fault an error is.

use datafusion::common::DataFusionError;
use thermocline_pushdown::external;
use thermocline_types::Class;

/// The error as one of the statement.
///
/// DataFusion calls what its planner and its functions do not accept an internal error, and asks to
/// report a bug; what fails here is the user's statement.
pub(super) fn of_statement(error: DataFusionError) -> DataFusionError {
    if let Some(error) = of_subquery(&error) {
        return error;
    }
    if let DataFusionError::Internal(message) = error.find_root() {
        return DataFusionError::Plan(of_message(message.clone()));
    }
    match error {
        DataFusionError::Plan(message) => DataFusionError::Plan(of_message(message)),
        DataFusionError::Context(context, inner) if is_of_rule(&context) => of_statement(*inner),
        DataFusionError::Context(context, inner) => DataFusionError::Context(context, Box::new(of_statement(*inner))),
        DataFusionError::Diagnostic(diagnostic, inner) => {
            DataFusionError::Diagnostic(diagnostic, Box::new(of_statement(*inner)))
        }
        other => other,
    }
}

/// The error of a statement that runs.
pub(super) fn of_execution(error: DataFusionError) -> DataFusionError {
    match error.find_root() {
        // Of the first part it tells what the system said, and of what fails on the way to the end only this.
        DataFusionError::Internal(message) if message.contains("finalizing writes") => DataFusionError::Execution(
            "the rows could not be written whole, and what was written may be there: is there room for them?"
                .to_owned(),
        ),
        _ => error,
    }
}

/// The error of a correlated subquery that has no plan. DataFusion's own error names parts of DataFusion.
fn of_subquery(error: &DataFusionError) -> Option<DataFusionError> {
    let message = match error.find_root() {
        DataFusionError::NotImplemented(message) | DataFusionError::Plan(message) => message.as_str(),
        // A column that the planner adds to a subquery, and does not find where that has queries of its own.
        DataFusionError::SchemaError(error, _) if error.to_string().contains("__always_true") => {
            "Physical plan does not support logical expression"
        }
        _ => return None,
    };
    // These have errors of their own.
    if message.contains("AggregateFunction") || message.contains("WindowFunction") {
        return None;
    }
    let what = if message.starts_with("Physical plan does not support logical expression") {
        "a subquery that compares its rows with the rows around it in another way than by `=`, or that has no plan of its \
         own there, is not supported: join its tables instead"
    } else if message.starts_with("Correlated scalar subquery must be aggregated") {
        "a subquery for one value that refers to the rows around it is supported only with an aggregate, such as max(...)"
    } else {
        return None;
    };
    Some(external(Class::Unsupported.error(what)))
}

/// Whether it names the rule that looked at the plan, which says nothing to a user.
fn is_of_rule(context: &str) -> bool {
    context.starts_with("Optimizer rule '") || context.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
}

/// The message without what DataFusion says of its own code. Before the candidates of a function, it
/// lists why each of them does not fit.
fn of_message(message: String) -> String {
    const CANDIDATES: &str = "No function matches";
    match message.split_once(CANDIDATES) {
        Some((before, candidates)) if before.contains("Internal error") => format!("{CANDIDATES}{candidates}"),
        _ => message,
    }
}
