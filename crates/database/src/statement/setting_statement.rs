//! Statements about settings, taken from their syntax trees or tokens.

use datafusion::common::Result;
use datafusion::sql::parser::{ResetStatement, Statement as AnalyticStatement};
use datafusion::sql::sqlparser::ast::{
    ContextModifier, Expr, ObjectName, ObjectNamePart, Set, Statement as Ast, UnaryOperator, Value,
};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::Token;
use thermocline_syntax::Tokens;
use thermocline_types::Class;

use super::parsed::Parsed;
use super::statement::Statement;
use crate::bridge::external;

/// A statement about settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SettingStatement {
    /// `SET` and `RESET` of the session.
    Session(Change),
    /// `ALTER DATABASE SET` and `RESET`.
    AlterDatabase(Change),
    /// `SHOW name`.
    Show(String),
    /// `SHOW ALL`.
    ShowAll,
}

/// A change of settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Sets a name to a value.
    Set(String, String),
    /// Resets a name to its initial value.
    Reset(String),
    /// Resets all names.
    ResetAll,
}

/// Name of the setting in `SET TIME ZONE`.
const TIME_ZONE: &str = "timezone";

impl SettingStatement {
    /// Interprets a statement as one about settings; `None` for others.
    ///
    /// # Errors
    /// 0A000 for unsupported forms, 42601 for invalid values.
    pub fn of(statement: &Statement) -> Result<Option<Self>> {
        match statement.parsed.as_ref() {
            Parsed::AlterDatabase(change) => Ok(Some(Self::AlterDatabase(change.clone()))),
            Parsed::Analytic(AnalyticStatement::Reset(ResetStatement::Variable(name))) => {
                Ok(Some(Self::Session(reset(&written(name)))))
            }
            parsed => parsed.ast().map_or(Ok(None), of_ast),
        }
    }
}

fn of_ast(ast: &Ast) -> Result<Option<SettingStatement>> {
    let unsupported =
        |what: &dyn std::fmt::Display| external(Class::Unsupported.error(format_args!("{what} is not supported")));
    let set = match ast {
        Ast::ShowVariable { variable } => {
            let words: Vec<_> = variable.iter().map(|word| word.value.to_ascii_lowercase()).collect();
            let words: Vec<_> = words.iter().map(String::as_str).filter(|word| *word != "verbose").collect();
            return Ok(Some(match words.as_slice() {
                [] => {
                    return Err(external(Class::Syntax.error("expected SHOW ALL, or SHOW and the name of a setting")));
                }
                ["all"] => SettingStatement::ShowAll,
                ["time", "zone"] => SettingStatement::Show(TIME_ZONE.to_owned()),
                words => SettingStatement::Show(words.join(".")),
            }));
        }
        Ast::Set(set) => set,
        _ => return Ok(None),
    };
    let change = match set {
        Set::SingleAssignment { scope: Some(ContextModifier::Local | ContextModifier::Global), .. } => {
            return Err(unsupported(
                &"SET LOCAL and SET GLOBAL: SET is for the session, ALTER DATABASE SET for all; any other",
            ));
        }
        Set::SingleAssignment { variable, values, .. } => match values.as_slice() {
            [Expr::Identifier(word)] if word.quote_style.is_none() && word.value.eq_ignore_ascii_case("default") => {
                reset(&written(variable))
            }
            values => {
                let values = values.iter().map(text_of).collect::<Result<Vec<_>>>()?;
                Change::Set(written(variable), values.join(", "))
            }
        },
        Set::SetTimeZone { local: false, value } => match value {
            Expr::Identifier(word)
                if ["default", "local"].iter().any(|known| word.value.eq_ignore_ascii_case(known)) =>
            {
                Change::Reset(TIME_ZONE.to_owned())
            }
            value => Change::Set(TIME_ZONE.to_owned(), text_of(value)?),
        },
        other => return Err(unsupported(other)),
    };
    Ok(Some(SettingStatement::Session(change)))
}

fn reset(name: &str) -> Change {
    if name.eq_ignore_ascii_case("all") { Change::ResetAll } else { Change::Reset(name.to_owned()) }
}

/// The name as written, without quotes.
fn written(name: &ObjectName) -> String {
    let part = |part: &ObjectNamePart| part.as_ident().map_or_else(|| part.to_string(), |ident| ident.value.clone());
    name.0.iter().map(part).collect::<Vec<_>>().join(".")
}

/// A value of SET as text.
fn text_of(value: &Expr) -> Result<String> {
    match value {
        Expr::Identifier(word) => return Ok(word.value.clone()),
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => return Ok(format!("-{}", text_of(expr)?)),
        Expr::Value(value) => match &value.value {
            Value::Number(digits, _) => return Ok(digits.clone()),
            Value::Boolean(on) => return Ok(on.to_string()),
            other => {
                if let Some(text) = other.clone().into_string() {
                    return Ok(text);
                }
            }
        },
        _ => {}
    }
    Err(external(Class::Syntax.error(format_args!("a setting's value is a word, a number or a text, not {value}"))))
}

/// `ALTER DATABASE SET name = value`, `ALTER DATABASE RESET name`.
///
/// # Errors
/// 42601 for any other form.
pub fn alter_database(tokens: &Tokens, text: &str) -> Result<Change> {
    let wrong = || {
        let expected =
            "expected ALTER DATABASE SET name = value, ALTER DATABASE RESET name or ALTER DATABASE RESET ALL";
        external(Class::Syntax.error(format_args!("{expected}, not {text}")))
    };
    let mut tokens = tokens.iter().take_while(|token| **token != Token::EOF).skip(2).peekable();
    let is_set = match tokens.next() {
        Some(Token::Word(word)) if word.keyword == Keyword::SET => true,
        Some(Token::Word(word)) if word.keyword == Keyword::RESET => false,
        _ => return Err(wrong()),
    };
    let mut name = String::new();
    while let Some(token) = tokens.next_if(|token| matches!(token, Token::Word(_) | Token::Period)) {
        match token {
            Token::Word(word) if word.keyword == Keyword::TO && word.quote_style.is_none() && !name.is_empty() => {
                let rest: Vec<_> = tokens.collect();
                return change(is_set, name, &rest).ok_or_else(wrong);
            }
            Token::Word(word) => name.push_str(&word.value),
            _ => name.push('.'),
        }
    }
    match tokens.next() {
        None if !is_set && !name.is_empty() => Ok(reset(&name)),
        Some(Token::Eq) => {
            let rest: Vec<_> = tokens.collect();
            change(is_set, name, &rest).ok_or_else(wrong)
        }
        _ => Err(wrong()),
    }
}

fn change(is_set: bool, name: String, value: &[&Token]) -> Option<Change> {
    let value = match value {
        [Token::SingleQuotedString(text)] => text.clone(),
        [Token::Word(word)] if word.quote_style.is_none() && word.value.eq_ignore_ascii_case("default") => {
            return is_set.then_some(Change::Reset(name));
        }
        [Token::Word(word)] => word.value.clone(),
        [Token::Number(digits, _)] => digits.clone(),
        _ => return None,
    };
    (is_set && !name.is_empty()).then_some(Change::Set(name, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(sql: &str) -> Result<Option<SettingStatement>, crate::Error> {
        Ok(SettingStatement::of(&Statement::parse(sql)?.remove(0))?)
    }

    #[test]
    fn forms_of_statements_about_settings() {
        let set = |name: &str, value: &str| Change::Set(name.to_owned(), value.to_owned());
        let reset = |name: &str| Change::Reset(name.to_owned());
        for (sql, change) in [
            ("SET mode = 'caching'", set("mode", "caching")),
            ("SET thermocline.mode TO caching", set("thermocline.mode", "caching")),
            ("SET SESSION bloom_filter_fpr = 0.5", set("bloom_filter_fpr", "0.5")),
            ("SET x = -1", set("x", "-1")),
            ("SET bitmaps = true", set("bitmaps", "true")),
            ("SET allowed_locations = '/a', '/b'", set("allowed_locations", "/a, /b")),
            ("SET mode = DEFAULT", reset("mode")),
            ("SET TIME ZONE 'UTC'", set("timezone", "UTC")),
            ("SET TIME ZONE LOCAL", reset("timezone")),
            ("RESET Mode", reset("Mode")),
            ("RESET ALL", Change::ResetAll),
        ] {
            assert_eq!(of(sql).unwrap(), Some(SettingStatement::Session(change)), "{sql}");
        }
        for (sql, change) in [
            ("ALTER DATABASE SET cache_size = '8GiB'", set("cache_size", "8GiB")),
            ("alter database set thermocline.mode to caching", set("thermocline.mode", "caching")),
            ("ALTER DATABASE SET queries_in_flight = 3", set("queries_in_flight", "3")),
            ("ALTER DATABASE SET mode = DEFAULT", reset("mode")),
            ("ALTER DATABASE RESET mode", reset("mode")),
            ("ALTER DATABASE RESET ALL", Change::ResetAll),
        ] {
            assert_eq!(of(sql).unwrap(), Some(SettingStatement::AlterDatabase(change)), "{sql}");
        }
        assert_eq!(of("SHOW mode").unwrap(), Some(SettingStatement::Show("mode".to_owned())));
        assert_eq!(of("SHOW TIME ZONE").unwrap(), Some(SettingStatement::Show("timezone".to_owned())));
        assert_eq!(of("SHOW ALL").unwrap(), Some(SettingStatement::ShowAll));
        assert_eq!(of("SELECT 1").unwrap(), None);
        for sql in ["SET mode = 1 + 1", "SET LOCAL mode = 'x'", "ALTER DATABASE SET mode", "ALTER DATABASE x SET y = 1"]
        {
            assert!(of(sql).is_err(), "{sql}");
        }
    }
}
