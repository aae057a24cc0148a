//! Calls of the table functions that read files: `read_csv('a.txt', delim => '|')`.

use std::collections::HashSet;
use std::fmt;

use datafusion::common::Result;
use datafusion::sql::sqlparser::ast::{
    Array, BinaryOperator, DictionaryField, Expr, FunctionArg, FunctionArgExpr, FunctionArgOperator, Ident, ObjectName,
    TableFunctionArgs, Value,
};
use thermocline_catalog::{CsvReading, FilePath};
use thermocline_pushdown::{CsvFormat, user_err, user_error};
use thermocline_syntax::{folded, nearest};

/// A table function that reads files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reader {
    Parquet,
    Csv,
}

impl Reader {
    /// The function of this name.
    pub(super) fn of(name: &ObjectName) -> Option<Self> {
        let [name] = name.0.as_slice() else { return None };
        match folded(name.as_ident()?).as_str() {
            "read_parquet" => Some(Self::Parquet),
            "read_csv" | "read_csv_auto" => Some(Self::Csv),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Parquet => "read_parquet",
            Self::Csv => "read_csv",
        }
    }

    /// Names of its options, each with the one that it is an alias of.
    fn options(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Parquet => &[],
            Self::Csv => &[
                (DELIM, DELIM),
                ("sep", DELIM),
                ("delimiter", DELIM),
                (HEADER, HEADER),
                (NULL_TEXT, NULL_TEXT),
                (QUOTE, QUOTE),
                (ESCAPE, ESCAPE),
                (COLUMNS, COLUMNS),
                (ALL_TEXT, ALL_TEXT),
            ],
        }
    }
}

impl fmt::Display for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

const DELIM: &str = "delim";
const HEADER: &str = "header";
const NULL_TEXT: &str = "nullstr";
const QUOTE: &str = "quote";
const ESCAPE: &str = "escape";
const COLUMNS: &str = "columns";
const ALL_TEXT: &str = "all_varchar";

const COLUMNS_EXPECTED: &str = "the names of all columns with their types, such as {'id': 'BIGINT', 's': 'TEXT'}";

/// A call of such a function, understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ReaderCall {
    pub(super) reader: Reader,
    /// At least one.
    pub(super) paths: Vec<FilePath>,
    /// Its options without the columns.
    pub(super) csv: CsvReading,
    /// Names of the columns with their types as they are written; `None` to infer them.
    pub(super) columns: Option<Vec<(String, String)>>,
}

impl ReaderCall {
    /// Understands the arguments of `reader`. Those with names are `name => value`, `name := value` or `name = value`.
    ///
    /// # Errors
    /// A sentence that names the function and the argument.
    pub(super) fn parse(reader: Reader, args: &TableFunctionArgs) -> Result<Self> {
        if args.settings.is_some() {
            return user_err!(Syntax, "{reader}: SETTINGS is not supported");
        }
        let mut call = Self { reader, paths: vec![], csv: CsvReading::default(), columns: None };
        let mut given: Vec<(&'static str, String)> = vec![];
        for argument in &args.args {
            match named(argument) {
                Some((name, value)) => {
                    let written = folded(name);
                    let option = option_of(reader, &written)?;
                    if let Some((_, before)) = given.iter().find(|(known, _)| *known == option) {
                        let why = match *before == written {
                            true => format!("option {written} is given twice"),
                            false => format!("options {before} and {written} are the same, and both are given"),
                        };
                        return user_err!(InvalidParameter, "{reader}: {why}");
                    }
                    given.push((option, written));
                    call.set(option, value)?;
                }
                None if call.paths.is_empty() => call.paths = paths(reader, argument)?,
                None => {
                    return user_err!(
                        InvalidParameter,
                        "{reader}: unexpected argument {argument}: it takes one path, or a list of paths \
                         (['a', 'b']), and options with their names (name => value)"
                    );
                }
            }
        }
        if call.paths.is_empty() {
            return user_err!(InvalidParameter, "{reader}: the path of a file is missing, as in {reader}('data/*')");
        }
        call.check_format()?;
        Ok(call)
    }

    /// Checks that the options go together, as far as they are given.
    fn check_format(&self) -> Result<()> {
        let CsvReading { delimiter: Some(delimiter), quote, escape, null_text, .. } = self.csv.clone() else {
            return Ok(());
        };
        let format = CsvFormat { delimiter, quote, escape, null_text, ..CsvFormat::default() };
        let is_valid = thermocline_formats::csv_options(&format).validate();
        is_valid.map_err(|error| user_error!(InvalidParameter, "{}: {error}", self.reader))
    }

    fn set(&mut self, option: &'static str, value: &Expr) -> Result<()> {
        let argument = Argument { reader: self.reader, option };
        match option {
            DELIM => self.csv.delimiter = Some(argument.byte(value)?),
            HEADER => self.csv.has_header = Some(argument.boolean(value)?),
            NULL_TEXT => self.csv.null_text = argument.text(value)?.to_owned(),
            QUOTE => self.csv.quote = argument.optional_byte(value)?,
            // As in DuckDB, a quote that escapes itself is doubled.
            ESCAPE => self.csv.escape = argument.optional_byte(value)?,
            COLUMNS => self.columns = Some(argument.columns(value)?),
            ALL_TEXT => self.csv.is_all_text = argument.boolean(value)?,
            other => return user_err!(InvalidParameter, "{}: option {other} cannot be given", self.reader),
        }
        Ok(())
    }

    /// The arguments that mean this call, whatever the working directory is: equal calls have equal ones.
    pub(super) fn arguments(&self) -> TableFunctionArgs {
        let path = |path: &FilePath| text(path.text());
        let paths = match self.paths.as_slice() {
            [one] => path(one),
            many => Expr::Array(Array { elem: many.iter().map(path).collect(), named: false }),
        };
        let byte = |byte: Option<u8>| text(&byte.map(char::from).map(String::from).unwrap_or_default());
        let boolean = |value: bool| Expr::value(Value::Boolean(value));
        let (csv, usual) = (&self.csv, CsvReading::default());
        let columns = self.columns.as_ref().map(|columns| {
            let field = |(name, data_type): &(String, String)| DictionaryField {
                key: Ident::with_quote('\'', name),
                value: Box::new(text(data_type)),
            };
            Expr::Dictionary(columns.iter().map(field).collect())
        });
        let options = [
            (DELIM, csv.delimiter.map(|delimiter| byte(Some(delimiter)))),
            (HEADER, csv.has_header.map(boolean)),
            (NULL_TEXT, (csv.null_text != usual.null_text).then(|| text(&csv.null_text))),
            (QUOTE, (csv.quote != usual.quote).then(|| byte(csv.quote))),
            (ESCAPE, (csv.escape != usual.escape).then(|| byte(csv.escape))),
            (COLUMNS, columns),
            (ALL_TEXT, csv.is_all_text.then(|| boolean(true))),
        ];
        let named = options.into_iter().filter_map(|(name, value)| {
            let (name, arg) = (Ident::new(name), FunctionArgExpr::Expr(value?));
            Some(FunctionArg::Named { name, arg, operator: FunctionArgOperator::RightArrow })
        });
        let args = std::iter::once(FunctionArg::Unnamed(FunctionArgExpr::Expr(paths))).chain(named).collect();
        TableFunctionArgs { args, settings: None }
    }

    /// All texts among these arguments.
    pub(super) fn texts(&self) -> impl Iterator<Item = &str> {
        let columns = self.columns.iter().flatten().flat_map(|(name, data_type)| [name.as_str(), data_type.as_str()]);
        self.paths.iter().map(FilePath::text).chain(columns).chain([self.csv.null_text.as_str()])
    }
}

/// The text of a call with such arguments, which is the name of what it reads.
pub(super) fn text_of(reader: Reader, args: &TableFunctionArgs) -> String {
    let args: Vec<_> = args.args.iter().map(ToString::to_string).collect();
    format!("{reader}({})", args.join(", "))
}

fn text(text: &str) -> Expr {
    Expr::value(Value::SingleQuotedString(text.to_owned()))
}

/// The name and the value of an argument that has a name.
fn named(argument: &FunctionArg) -> Option<(&Ident, &Expr)> {
    match argument {
        FunctionArg::Named { name, arg: FunctionArgExpr::Expr(value), .. } => Some((name, value)),
        FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::BinaryOp { left, op: BinaryOperator::Eq, right })) => {
            match left.as_ref() {
                Expr::Identifier(name) => Some((name, right)),
                _ => None,
            }
        }
        _ => None,
    }
}

/// The option that a name means.
fn option_of(reader: Reader, written: &str) -> Result<&'static str> {
    let options = reader.options();
    if let Some((_, option)) = options.iter().find(|(name, _)| *name == written) {
        return Ok(option);
    }
    let near = nearest(written, options.iter().map(|(name, _)| *name));
    let near = near.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
    let names: Vec<_> = options.iter().map(|(name, _)| *name).collect();
    let there_are = match names.as_slice() {
        [] => "it takes a path, or a list of paths, alone".to_owned(),
        names => format!("there are {}", names.join(", ")),
    };
    user_err!(UndefinedObject, "{reader} has no option {written} ({there_are}){near}")
}

/// The paths that the first argument names.
fn paths(reader: Reader, argument: &FunctionArg) -> Result<Vec<FilePath>> {
    let refused = || {
        user_error!(
            InvalidParameter,
            "{reader}: the path is {argument}, expected a text such as 'data/*', or a list of texts"
        )
    };
    let FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) = argument else { return Err(refused()) };
    let written = match value {
        Expr::Array(Array { elem, .. }) => elem.iter().map(literal_text).collect::<Option<Vec<_>>>(),
        value => literal_text(value).map(|path| vec![path]),
    };
    let written = written.ok_or_else(refused)?;
    if written.is_empty() {
        return user_err!(InvalidParameter, "{reader}: the list of paths is empty");
    }
    written.into_iter().map(FilePath::parse).collect()
}

fn literal_text(value: &Expr) -> Option<&str> {
    match value {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) | Value::EscapedStringLiteral(text) | Value::UnicodeStringLiteral(text) => {
                Some(text)
            }
            Value::DollarQuotedString(text) => Some(&text.value),
            _ => None,
        },
        Expr::Nested(inner) => literal_text(inner),
        _ => None,
    }
}

/// An argument with a name.
#[derive(Debug, Clone, Copy)]
struct Argument {
    reader: Reader,
    option: &'static str,
}

impl Argument {
    fn refused<T>(self, value: &Expr, expected: &str) -> Result<T> {
        user_err!(InvalidParameter, "{}: option {} is {value}, expected {expected}", self.reader, self.option)
    }

    fn text(self, value: &Expr) -> Result<&str> {
        match literal_text(value) {
            Some(text) => Ok(text),
            None => self.refused(value, "a text in single quotes"),
        }
    }

    fn boolean(self, value: &Expr) -> Result<bool> {
        let literal = match value {
            Expr::Value(value) => match &value.value {
                Value::Boolean(value) => Some(*value),
                Value::Number(word, _) | Value::SingleQuotedString(word) => of_word(word),
                _ => None,
            },
            _ => None,
        };
        match literal {
            Some(value) => Ok(value),
            None => self.refused(value, "true or false"),
        }
    }

    /// One ASCII character; the tab may be written `\t`.
    fn byte(self, value: &Expr) -> Result<u8> {
        match self.optional_byte(value)? {
            Some(byte) => Ok(byte),
            None => self.refused(value, "one ASCII character"),
        }
    }

    /// The same, or `None` for the empty text.
    fn optional_byte(self, value: &Expr) -> Result<Option<u8>> {
        match self.text(value)?.as_bytes() {
            [] => Ok(None),
            [byte] if byte.is_ascii() => Ok(Some(*byte)),
            b"\\t" => Ok(Some(b'\t')),
            _ => self.refused(value, "one ASCII character"),
        }
    }

    /// `{'a': 'INT', 'b': 'TEXT'}`, or the same as a MAP.
    fn columns(self, value: &Expr) -> Result<Vec<(String, String)>> {
        let fields: Option<Vec<(String, &Expr)>> = match value {
            Expr::Dictionary(fields) => {
                Some(fields.iter().map(|field| (field.key.value.clone(), field.value.as_ref())).collect())
            }
            Expr::Map(map) => {
                let mut fields = vec![];
                for entry in &map.entries {
                    match literal_text(&entry.key) {
                        Some(name) => fields.push((name.to_owned(), entry.value.as_ref())),
                        None => return self.refused(value, COLUMNS_EXPECTED),
                    }
                }
                Some(fields)
            }
            _ => None,
        };
        let Some(fields) = fields.filter(|fields| !fields.is_empty()) else {
            return self.refused(value, COLUMNS_EXPECTED);
        };
        let mut columns: Vec<(String, String)> = Vec::with_capacity(fields.len());
        let mut names = HashSet::new();
        for (name, data_type) in fields {
            let Some(data_type) = literal_text(data_type) else {
                return user_err!(
                    InvalidParameter,
                    "{}: the type of column '{name}' is {data_type}, expected a text such as 'BIGINT'",
                    self.reader
                );
            };
            if !names.insert(name.clone()) {
                return user_err!(DuplicateColumn, "{}: column '{name}' is given twice", self.reader);
            }
            columns.push((name, data_type.to_owned()));
        }
        Ok(columns)
    }
}

fn of_word(word: &str) -> Option<bool> {
    match word.to_ascii_lowercase().as_str() {
        "true" | "t" | "1" => Some(true),
        "false" | "f" | "0" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::ast::{SetExpr, Statement as Ast, TableFactor};
    use thermocline_syntax::{Statement, Tokens, parse};

    use super::*;

    fn parsed(call: &str) -> Result<ReaderCall> {
        let Statement::Sql(ast, _) = parse(Tokens::of(&format!("SELECT * FROM {call}")).unwrap()).unwrap() else {
            panic!("{call}")
        };
        let Ast::Query(query) = *ast else { panic!("{call}") };
        let SetExpr::Select(select) = *query.body else { panic!("{call}") };
        let TableFactor::Table { name, args: Some(args), .. } = &select.from[0].relation else { panic!("{call}") };
        ReaderCall::parse(Reader::of(name).expect(call), args)
    }

    fn printed(call: &str) -> String {
        let call = parsed(call).unwrap();
        text_of(call.reader, &call.arguments())
    }

    #[test]
    fn equal_calls_have_one_text_which_means_them() {
        for (calls, text) in [
            (&["read_parquet('/a.parquet')", "READ_PARQUET(['/a.parquet'])"][..], "read_parquet('/a.parquet')"),
            (&["read_parquet(ARRAY['/a', '/b'])", "read_parquet(['/a', ('/b')])"], "read_parquet(['/a', '/b'])"),
            (
                &[
                    "read_csv('/a')",
                    "read_csv_auto('/a')",
                    "read_csv('/a', quote => '\"', nullstr = '', escape := '')",
                    "read_csv('/a', all_varchar = false)",
                ],
                "read_csv('/a')",
            ),
            (
                &[
                    "read_csv('/a', delim => ';', header => true)",
                    "read_csv('/a', header := 1, sep := E';')",
                    "read_csv('/a', HEADER = 'true', delimiter = ';')",
                    "read_csv(delim = ';', header = TRUE, '/a')",
                ],
                "read_csv('/a', delim => ';', header => true)",
            ),
            (&["read_csv('/a', delim = '\\t')", "read_csv('/a', delim = E'\\t')"], "read_csv('/a', delim => '\t')"),
            (
                &[
                    "read_csv('/a', columns = {'x': 'INT', \"Y y\": 'TEXT'})",
                    "read_csv('/a', columns => MAP {'x': 'INT', 'Y y': 'TEXT'})",
                ],
                "read_csv('/a', columns => {'x': 'INT', 'Y y': 'TEXT'})",
            ),
            (
                &["read_csv('/a', all_varchar = true, quote = '''', escape = '\\', nullstr = 'it''s')"],
                "read_csv('/a', nullstr => 'it''s', quote => '''', escape => '\\', all_varchar => true)",
            ),
            (&["read_csv('/a', quote = '', header = false)"], "read_csv('/a', header => false, quote => '')"),
        ] {
            for call in calls {
                assert_eq!(printed(call), text, "{call}");
            }
            assert_eq!(printed(text), text);
        }
    }

    #[test]
    fn arguments_that_mean_nothing_are_refused_by_name() {
        for (call, said) in [
            ("read_csv()", "read_csv: the path of a file is missing"),
            ("read_csv(header => true)", "read_csv: the path of a file is missing"),
            ("read_csv('')", "the path of a file is empty"),
            ("read_csv([])", "read_csv: the list of paths is empty"),
            ("read_csv(5)", "read_csv: the path is 5"),
            ("read_csv(['a', 5])", "read_csv: the path is ['a', 5]"),
            ("read_parquet(NULL)", "read_parquet: the path is NULL"),
            ("read_parquet($1)", "read_parquet: the path is $1"),
            ("read_parquet(*)", "read_parquet: the path is *"),
            ("read_parquet('a' || 'b')", "read_parquet: the path is 'a' || 'b'"),
            ("read_parquet('a', 'b')", "read_parquet: unexpected argument 'b'"),
            ("read_parquet('a', header => true)", "read_parquet has no option header (it takes a path"),
            ("read_csv('a', delimm => ',')", "read_csv has no option delimm (there are delim, sep, "),
            ("read_csv('a', delimm => ',')", "did you mean delim?"),
            ("read_csv('a', haeder = true)", "did you mean header?"),
            ("read_csv('a', zzzzzzz = true)", "read_csv has no option zzzzzzz"),
            ("read_csv('a', header = true, header => false)", "read_csv: option header is given twice"),
            ("read_csv('a', delim = ',', sep = ',')", "read_csv: options delim and sep are the same"),
            ("read_csv('a', header = 'maybe')", "read_csv: option header is 'maybe', expected true or false"),
            ("read_csv('a', header = NULL)", "read_csv: option header is NULL, expected true or false"),
            ("read_csv('a', header = 2)", "read_csv: option header is 2, expected true or false"),
            ("read_csv('a', all_varchar = 'x')", "read_csv: option all_varchar is 'x', expected true or false"),
            ("read_csv('a', delim = '||')", "read_csv: option delim is '||', expected one ASCII character"),
            ("read_csv('a', delim = '')", "read_csv: option delim is '', expected one ASCII character"),
            ("read_csv('a', delim = 'é')", "read_csv: option delim is 'é', expected one ASCII character"),
            ("read_csv('a', delim = 5)", "read_csv: option delim is 5, expected a text"),
            ("read_csv('a', nullstr = ['a', 'b'])", "read_csv: option nullstr is ['a', 'b'], expected a text"),
            ("read_csv('a', delim = ';', quote = ';')", "read_csv: invalid CSV options: the delimiter must differ"),
            ("read_csv('a', delim = ';', nullstr = ';')", "read_csv: invalid CSV options: null_text must not contain"),
            ("read_csv('a', columns = 'x')", "read_csv: option columns is 'x', expected the names"),
            ("read_csv('a', columns = {})", "expected the names"),
            ("read_csv('a', columns = {'x': 5})", "read_csv: the type of column 'x' is 5"),
            ("read_csv('a', columns = {'x': 'INT', 'x': 'INT'})", "read_csv: column 'x' is given twice"),
        ] {
            let error = parsed(call).expect_err(call).to_string();
            assert!(error.contains(said), "{call}: {error}");
        }
    }
}
