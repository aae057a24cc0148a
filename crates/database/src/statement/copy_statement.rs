//! Forms of COPY: PostgreSQL's or DataFusion's, with files or with the caller's streams.

use datafusion::common::Result;
use datafusion::sql::sqlparser::ast::{CopyTarget, Statement as Ast};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Location, Token};
use thermocline_pushdown::user_err;
use thermocline_syntax::{Tokens, offset_of};

use super::statement::Statement;

/// Whether a text that begins with COPY has PostgreSQL's form, rather than DataFusion's:
///
/// ```text
/// COPY t FROM ...                              PostgreSQL's
/// COPY t TO STDOUT ...                         PostgreSQL's
/// COPY t TO 'file' WITH ... | (...) | CSV ...  PostgreSQL's
/// COPY t TO 'file' [STORED AS ...]             DataFusion's, which goes by the end of the file's name
/// ```
pub fn is_postgresql_copy(tokens: &Tokens) -> bool {
    let mut depth = 0_u32;
    let mut outer = tokens.iter().filter(|token| match token {
        Token::EOF => false,
        Token::LParen => {
            depth += 1;
            depth == 1
        }
        Token::RParen => {
            depth = depth.saturating_sub(1);
            false
        }
        _ => depth == 0,
    });
    let keyword = |token: &Token| match token {
        Token::Word(word) if word.quote_style.is_none() => word.keyword,
        _ => Keyword::NoKeyword,
    };
    match outer.by_ref().map(keyword).find(|keyword| matches!(keyword, Keyword::FROM | Keyword::TO)) {
        Some(Keyword::FROM) => true,
        Some(_) => match (outer.next(), outer.next()) {
            (Some(Token::Word(_)), _) | (Some(_), Some(Token::LParen)) => true,
            (Some(_), Some(option)) => {
                let option = keyword(option);
                matches!(option, Keyword::WITH | Keyword::CSV | Keyword::HEADER | Keyword::DELIMITER | Keyword::NULL)
            }
            _ => false,
        },
        None => false,
    }
}

/// `COPY ... TO 'path' (FORMAT parquet)`, which DuckDB has for files of other formats than text and for folders of
/// partitions, in DataFusion's form, `COPY ... TO 'path' STORED AS PARQUET`; and `COPY ... TO
/// 'file.csv.gz'` in PostgreSQL's; `None` for any other. The text is the
/// same up to the options, so that places in it are.
///
/// # Errors
/// If there is an option that these files do not have.
pub fn copy_to_files(tokens: &Tokens, text: &str) -> Result<Option<String>> {
    let places: Vec<_> = tokens.places().filter(|(token, _)| **token != Token::EOF).collect();
    if !tokens.begin_with(&[Keyword::COPY]) {
        return Ok(None);
    }
    let Some(open) = options_behind_path(&places) else {
        let is_compressed = matches!(&places[..], [.., (to, _), (Token::SingleQuotedString(path), _)]
            if is_word(to, "to") && path.to_ascii_lowercase().ends_with(".csv.gz"));
        return Ok(is_compressed.then(|| format!("{text} WITH (FORMAT csv, HEADER)")));
    };
    let within: Vec<&Token> = places.iter().skip(open + 1).map(|(token, _)| *token).collect();
    let Some(options) = Options::of(&within)? else { return Ok(None) };
    let Some(format) = options.format() else { return Ok(None) };
    let with = if places.get(open.saturating_sub(1)).is_some_and(|(token, _)| is_word(token, "with")) { 1 } else { 0 };
    let Some((_, at)) = places.get(open - with) else { return Ok(None) };
    let before = text.get(..offset_of(text, *at)).unwrap_or_default();
    Ok(Some(format!("{before}STORED AS {format}{}", options.behind_format(&format)?)))
}

/// The place of the parenthesis of the options behind `TO 'path'`, with which the text ends.
fn options_behind_path(places: &[(&Token, Location)]) -> Option<usize> {
    let mut depth = 0_u32;
    let mut to = None;
    for (at, (token, _)) in places.iter().enumerate() {
        match token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            token if depth == 0 && is_word(token, "to") => to = Some(at),
            _ => {}
        }
    }
    let path = to? + 1;
    matches!(places.get(path)?.0, Token::SingleQuotedString(_)).then_some(())?;
    let open = if is_word(places.get(path + 1)?.0, "with") { path + 2 } else { path + 1 };
    (*places.get(open)?.0 == Token::LParen).then_some(open)
}

fn is_word(token: &Token, word: &str) -> bool {
    matches!(token, Token::Word(found) if found.quote_style.is_none() && found.value.eq_ignore_ascii_case(word))
}

/// Options in parentheses: each a name in lower case, and its values as SQL.
struct Options(Vec<(String, Vec<String>)>);

impl Options {
    /// The options of these tokens, up to the closing parenthesis; `None` if they are not only names and values.
    fn of(tokens: &[&Token]) -> Result<Option<Self>> {
        let mut options: Vec<(String, Vec<String>)> = vec![];
        let (mut depth, mut begins) = (0, true);
        for (at, token) in tokens.iter().enumerate() {
            match token {
                Token::RParen if depth == 0 => {
                    let ends = tokens.iter().skip(at + 1).all(|token| **token == Token::SemiColon);
                    return Ok(ends.then_some(Self(options)));
                }
                Token::Comma if depth == 0 => begins = true,
                Token::LParen => depth += 1,
                Token::RParen => depth -= 1,
                Token::Comma | Token::Eq => {}
                Token::Word(word) if begins => {
                    let name = word.value.to_lowercase();
                    if options.iter().any(|(other, _)| *other == name) {
                        return user_err!(Syntax, "COPY option {} is there twice", name.to_uppercase());
                    }
                    options.push((name, vec![]));
                    begins = false;
                }
                Token::Word(_) | Token::SingleQuotedString(_) | Token::Number(..) if !begins => {
                    if let Some((_, values)) = options.last_mut() {
                        values.push(token.to_string());
                    }
                }
                _ => return Ok(None),
            }
        }
        Ok(None)
    }

    fn get(&self, name: &str) -> Option<&[String]> {
        self.0.iter().find(|(other, _)| other == name).map(|(_, values)| values.as_slice())
    }

    /// The format in upper case, if it is not of text or there are partitions.
    fn format(&self) -> Option<String> {
        let format = self.get("format").and_then(<[String]>::first);
        let format = format.map(|format| format.trim_matches('\'').to_uppercase());
        match format.as_deref() {
            Some("PARQUET" | "JSON") => format,
            Some("CSV") | None => self.get("partition_by").map(|_| "CSV".to_owned()),
            Some(_) => None,
        }
    }

    /// What follows the format: partitions, and options under their names in DataFusion.
    fn behind_format(&self, format: &str) -> Result<String> {
        let (mut partitions, mut options) = (String::new(), vec![]);
        for (name, values) in &self.0 {
            let value = values.first().map(|value| value.trim_matches('\'').to_lowercase());
            let option = match (name.as_str(), format) {
                ("format", _) => continue,
                ("partition_by", _) if !values.is_empty() => {
                    partitions = format!(" PARTITIONED BY ({})", values.join(", "));
                    continue;
                }
                ("compression" | "codec", _) => ("format.compression", value.map(with_level)),
                ("row_group_size", "PARQUET") => ("format.max_row_group_size", value),
                ("header", "CSV") => ("format.has_header", Some(value.unwrap_or_else(|| "true".to_owned()))),
                ("delimiter" | "delim" | "sep", "CSV") => ("format.delimiter", value),
                _ => return user_err!(Unsupported, "COPY with {} to files of {format}", name.to_uppercase()),
            };
            let (key, Some(value)) = option else {
                return user_err!(Syntax, "COPY option {} needs a value", name.to_uppercase());
            };
            options.push(format!("'{key}' '{}'", value.replace('\'', "''")));
        }
        let options = if options.is_empty() { String::new() } else { format!(" OPTIONS ({})", options.join(", ")) };
        Ok(format!("{partitions}{options}"))
    }
}

/// A compression with the level that DuckDB, or the library, takes where none is given.
fn with_level(compression: String) -> String {
    match compression.as_str() {
        "zstd" => "zstd(3)".to_owned(),
        "gzip" => "gzip(6)".to_owned(),
        "brotli" => "brotli(1)".to_owned(),
        "lz4" => "lz4_raw".to_owned(),
        _ => compression,
    }
}

impl Statement {
    /// Whether it reads rows from standard input, which the caller has to provide.
    pub fn reads_input(&self) -> bool {
        self.copy().is_some_and(|(to, target)| !to && matches!(target, CopyTarget::Stdin))
    }

    /// Whether it writes rows to standard output, which the caller has to provide.
    pub fn writes_output(&self) -> bool {
        self.copy().is_some_and(|(to, target)| to && matches!(target, CopyTarget::Stdout))
    }

    fn copy(&self) -> Option<(bool, &CopyTarget)> {
        match self.ast()? {
            Ast::Copy { to, target, .. } => Some((*to, target)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_told_from_datafusions() {
        for text in [
            "COPY t FROM 'file'",
            "copy t (a, b) from stdin with (format csv)",
            "COPY t TO STDOUT",
            "COPY (SELECT a FROM t) TO stdout",
            "COPY t TO 'file' WITH (FORMAT csv)",
            "COPY t TO 'file' (FORMAT csv)",
            "COPY t TO 'file' CSV HEADER",
            "COPY t TO 'file' WITH CSV",
        ] {
            assert!(is_postgresql_copy(&Tokens::of(text).unwrap()), "{text}");
            assert!(Statement::parse(text).unwrap()[0].ast().is_some(), "{text}");
        }
        for (text, files) in [
            ("COPY t TO 'f' (FORMAT parquet)", Some("COPY t TO 'f' STORED AS PARQUET")),
            (
                "COPY (SELECT 'ä', (1) FROM t) TO 'f' WITH (FORMAT 'Parquet', COMPRESSION zstd, PARTITION_BY (a, \"B c\"));",
                Some(
                    "COPY (SELECT 'ä', (1) FROM t) TO 'f' STORED AS PARQUET PARTITIONED BY (a, \"B c\") \
                     OPTIONS ('format.compression' 'zstd(3)')",
                ),
            ),
            ("COPY t TO 'f' (format json)", Some("COPY t TO 'f' STORED AS JSON")),
            (
                "COPY t TO 'f' (PARTITION_BY a, HEADER)",
                Some("COPY t TO 'f' STORED AS CSV PARTITIONED BY (a) OPTIONS ('format.has_header' 'true')"),
            ),
            ("COPY t TO 'f' (FORMAT csv, HEADER true, NULL '')", None),
            ("COPY t TO 'f.CSV.gz'", Some("COPY t TO 'f.CSV.gz' WITH (FORMAT csv, HEADER)")),
            ("COPY t TO STDOUT (FORMAT parquet)", None),
            ("COPY t FROM 'f' (FORMAT parquet)", None),
            ("SELECT 1", None),
        ] {
            assert_eq!(copy_to_files(&Tokens::of(text).unwrap(), text).unwrap().as_deref(), files, "{text}");
        }
        for text in ["COPY t TO 'f' (FORMAT parquet, FORMAT json)", "COPY t TO 'f' (FORMAT json, ROW_GROUP_SIZE 5)"] {
            assert!(copy_to_files(&Tokens::of(text).unwrap(), text).is_err(), "{text}");
        }
        for text in [
            "COPY t TO 'file.csv'",
            "COPY (SELECT a FROM t) TO 'file' STORED AS CSV OPTIONS ('format.has_header' 'true')",
            "COPY (SELECT 1) TO 'file' PARTITIONED BY (a)",
        ] {
            assert!(!is_postgresql_copy(&Tokens::of(text).unwrap()), "{text}");
            assert!(Statement::parse(text).unwrap()[0].ast().is_none(), "{text}");
        }
    }
}
