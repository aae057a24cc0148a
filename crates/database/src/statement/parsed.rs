//! Syntax trees of statements for both engines, and the choice of the parser.

use std::path::PathBuf;

use datafusion::common::Result;
use datafusion::common::format::ExplainStatementOptions;
use datafusion::sql::parser::{ExplainStatement, Statement as AnalyticStatement};
use datafusion::sql::sqlparser::ast::{SetExpr, Statement as Ast};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::Token;
use thermocline_dialect::{check_depth, parse_tokens};
use thermocline_pushdown::user_err;
use thermocline_syntax::{Statement as Sql, Tokens, make_printable};

use super::copy_statement::{copy_to_files, is_postgresql_copy};
use super::setting_statement::{Change, alter_database};

/// Tree of a statement.
#[derive(Debug, Clone)]
pub enum Parsed {
    /// A statement in the form of the row engine; most have one for the analytic engine, too
    /// ([`Parsed::into_analytic`]).
    Sql(Sql),
    /// `EXPLAIN` of such a statement, in the form of the row engine, with the options of the analytic engine.
    Explain(Sql, ExplainStatementOptions),
    /// A statement in DataFusion's form only: `CREATE EXTERNAL TABLE`, `COPY ... TO 'file'`, `RESET`, or `EXPLAIN` of
    /// these.
    Analytic(AnalyticStatement),
    /// `ALTER DATABASE SET` and `RESET`.
    AlterDatabase(Change),
    /// `BACKUP TO 'directory'`.
    Backup(PathBuf),
}

impl Parsed {
    /// Parses a text; also returns the length of its longest chain of operators.
    ///
    /// # Errors
    /// If it is not a single valid statement, or is too deep.
    pub fn of(text: &str) -> Result<(Self, u32)> {
        let tokens = Tokens::of(text)?;
        check_depth(&tokens)?;
        if let Some(text) = copy_to_files(&tokens, text)? {
            return Self::of(&text);
        }
        let operators = tokens.operators();
        let parsed = if begins_with_backup(&tokens) {
            Self::Backup(backup_to(&tokens, text)?)
        } else if tokens.begin_with(&[Keyword::ALTER, Keyword::DATABASE]) {
            Self::AlterDatabase(alter_database(&tokens, text)?)
        } else if is_datafusions(&tokens) {
            let mut statements = parse_tokens(tokens)?;
            match (statements.pop(), statements.is_empty()) {
                (Some(AnalyticStatement::Explain(explain)), true) => Self::explain(explain),
                (Some(statement), true) => Self::Analytic(statement),
                _ => return user_err!(Syntax, "expected one statement: {text}"),
            }
        } else {
            let mut statement = thermocline_syntax::parse(tokens)?;
            if let Sql::Sql(ast, _) = &mut statement
                && let Ast::CreateView(view) = ast.as_mut()
            {
                // The catalog keeps its text.
                make_printable(&mut view.query);
            }
            Self::Sql(statement)
        };
        Ok((parsed, operators))
    }

    fn explain(explain: ExplainStatement) -> Self {
        match *explain.statement {
            AnalyticStatement::Statement(ast) => Self::explain_of(ast, explain.options),
            statement => {
                let statement = Box::new(statement);
                Self::Analytic(AnalyticStatement::Explain(ExplainStatement { statement, ..explain }))
            }
        }
    }

    /// `EXPLAIN` of a statement.
    pub fn explain_of(explained: Box<Ast>, options: ExplainStatementOptions) -> Self {
        Self::Explain(Sql::Explain(Box::new(Sql::Sql(explained, vec![]))), options)
    }

    /// Whether it is EXPLAIN of another statement.
    pub const fn is_explain(&self) -> bool {
        matches!(self, Self::Explain(..) | Self::Sql(Sql::Explain(_)) | Self::Analytic(AnalyticStatement::Explain(_)))
    }

    /// The syntax tree, unless it is EXPLAIN or specific to one engine.
    pub fn ast(&self) -> Option<&Ast> {
        match self {
            Self::Sql(Sql::Sql(ast, _)) => Some(ast),
            _ => None,
        }
    }

    /// The form for the row engine; `None` if it cannot run the statement.
    pub const fn of_rows(&self) -> Option<&Sql> {
        match self {
            Self::Sql(statement) | Self::Explain(statement, _) => Some(statement),
            Self::Analytic(_) | Self::AlterDatabase(_) | Self::Backup(_) => None,
        }
    }

    /// The form for the analytic engine; `None` if it cannot run the statement.
    pub fn into_analytic(self) -> Option<AnalyticStatement> {
        let plain = |statement| match statement {
            Sql::Sql(ast, options) if options.is_empty() => Some(AnalyticStatement::Statement(ast)),
            _ => None,
        };
        match self {
            Self::Sql(statement) => plain(statement),
            Self::Explain(Sql::Explain(explained), options) => plain(*explained)
                .map(|statement| ExplainStatement { statement: Box::new(statement), options })
                .map(AnalyticStatement::Explain),
            Self::Analytic(statement) => Some(statement),
            Self::Explain(..) | Self::AlterDatabase(_) | Self::Backup(_) => None,
        }
    }

    /// `WITH ... INSERT INTO t SELECT ...` as `INSERT INTO t WITH ... SELECT ...`; `None` for any other statement.
    pub fn insert_of_with(&self) -> Option<Ast> {
        let Ast::Query(query) = self.ast()? else { return None };
        let SetExpr::Insert(Ast::Insert(insert)) = query.body.as_ref() else { return None };
        let mut insert = insert.clone();
        let source = insert.source.as_mut()?;
        if source.with.is_some() {
            return None;
        }
        source.with.clone_from(&query.with);
        Some(Ast::Insert(insert))
    }
}

impl From<Ast> for Parsed {
    fn from(ast: Ast) -> Self {
        Self::Sql(Sql::Sql(Box::new(ast), vec![]))
    }
}

/// Whether DataFusion's parser handles statements that begin like this.
fn is_datafusions(tokens: &Tokens) -> bool {
    let mut keywords = tokens.keywords();
    match keywords.next() {
        Some(Keyword::RESET | Keyword::EXPLAIN) => true,
        Some(Keyword::COPY) => !is_postgresql_copy(tokens),
        Some(Keyword::CREATE) => {
            let mut keywords =
                keywords.skip_while(|keyword| matches!(keyword, Keyword::OR | Keyword::REPLACE | Keyword::UNBOUNDED));
            keywords.next() == Some(Keyword::EXTERNAL)
        }
        _ => false,
    }
}

fn begins_with_backup(tokens: &Tokens) -> bool {
    let first = tokens.iter().next();
    matches!(first, Some(Token::Word(word)) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case("backup"))
}

/// The directory of `BACKUP TO 'directory'`.
fn backup_to(tokens: &Tokens, text: &str) -> Result<PathBuf> {
    let tokens: Vec<_> = tokens.iter().take_while(|token| **token != Token::EOF).collect();
    match tokens.as_slice() {
        [_, Token::Word(to), Token::SingleQuotedString(path)] if to.keyword == Keyword::TO && !path.is_empty() => {
            Ok(path.into())
        }
        _ => user_err!(Syntax, "expected BACKUP TO 'directory', not {text}"),
    }
}
