//! Names of settings without their prefix.

use datafusion::common::config::ConfigExtension;
use datafusion::sql::parser::{ResetStatement, Statement};
use datafusion::sql::sqlparser::ast::{Expr, Ident, ObjectName, ObjectNamePart, Set, Statement as Ast, Value};

use crate::settings::Settings;

/// Names of one part that are DataFusion's.
const OTHERS: [&str; 2] = ["all", "timezone"];

/// Puts `thermocline.` before the name of a setting that has one part, in SET, RESET and SHOW. RESET of one is SET to its
/// default: DataFusion resets its own.
pub(super) fn with_prefix(statement: &mut Statement) {
    match statement {
        Statement::Reset(ResetStatement::Variable(name)) => {
            prefix(name);
            let written = name.to_string();
            let mut defaults = Settings::default().rows().into_iter();
            if let Some((_, value, _)) = defaults.find(|(name, ..)| name.eq_ignore_ascii_case(&written)) {
                *statement = Statement::Statement(Box::new(Ast::Set(Set::SingleAssignment {
                    scope: None,
                    hivevar: false,
                    variable: name.clone(),
                    values: vec![Expr::value(Value::SingleQuotedString(value))],
                })));
            }
        }
        Statement::Statement(ast) => match ast.as_mut() {
            Ast::Set(Set::SingleAssignment { variable, .. }) => prefix(variable),
            Ast::ShowVariable { variable } => {
                // Others are phrases, such as TIME ZONE.
                if let [name] | [name, Ident { quote_style: None, .. }] = variable.as_slice()
                    && variable.get(1).is_none_or(|word| word.value.eq_ignore_ascii_case("verbose"))
                    && Settings::has(&name.value)
                {
                    variable.insert(0, own());
                }
            }
            _ => {}
        },
        _ => {}
    }
}

fn prefix(name: &mut ObjectName) {
    if let [ObjectNamePart::Identifier(only)] = name.0.as_slice()
        && !OTHERS.iter().any(|other| only.value.eq_ignore_ascii_case(other))
    {
        name.0.insert(0, ObjectNamePart::Identifier(own()));
    }
}

fn own() -> Ident {
    Ident::new(<Settings as ConfigExtension>::PREFIX)
}
