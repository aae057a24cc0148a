//! Argument values shared by several benches, and their validation.

use std::fmt::Display;
use std::path::Path;

use clap::builder::RangedU64ValueParser;
use thermocline_database::CachePolicy;
use thermocline_pushdown::units::{parse_rate, parse_size};
use thermocline_replay::trace::Trace;
use thermocline_workloads::Workload;
use thermocline_workloads::generate::{Format, PARTITION_SIZE_MIN};

use super::super::Failure;

/// Largest count: more than that, nobody waits for.
const COUNT_MAX: u64 = 1_000_000;

/// A count from `least` to [`COUNT_MAX`].
pub fn at_least(least: u64) -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(least..=COUNT_MAX)
}

/// The format of this name.
///
/// # Errors
/// A sentence that names the text, if there is no such format.
pub fn format(name: &str) -> Result<Format, String> {
    match name.to_ascii_lowercase().as_str() {
        "parquet" => Ok(Format::Parquet),
        "csv" => Ok(Format::Csv),
        other => Err(format!("unknown format '{other}': expected parquet or csv")),
    }
}

/// Checks a rate and returns it as written.
///
/// # Errors
/// A sentence that names the text, if it is not a rate.
pub fn rate(text: &str) -> Result<String, String> {
    parse_rate(text).map(|_| text.to_owned())
}

/// Stored bytes of an object.
///
/// # Errors
/// A sentence that names the text, if it is not a size or too small.
pub fn partition_size(text: &str) -> Result<u64, String> {
    match parse_size(text)? {
        size if size >= PARTITION_SIZE_MIN => Ok(size),
        _ => Err(format!("'{text}' is too small: objects have at least {PARTITION_SIZE_MIN} bytes")),
    }
}

/// Checks a cache policy and returns its name, or `belady:` and the path of a trace.
///
/// # Errors
/// A sentence that names the text, if there is no such policy, or its trace cannot be used.
pub fn policy(text: &str) -> Result<String, String> {
    Ok(text.parse::<CachePolicy>()?.to_string())
}

/// Refuses the trace of a policy `belady:FILE` that was recorded with another workload, scale or format.
///
/// # Errors
/// If it was, or cannot be read any more.
pub fn check_trace(policy: &str, workload: &Workload, scale: f64, format: Format) -> Result<(), Failure> {
    let Some(path) = CachePolicy::trace_in(policy) else { return Ok(()) };
    let trace = Trace::open(Path::new(path)).and_then(|trace| trace.check(workload.name, scale, format.extension()));
    trace.map_err(|error| Failure::Usage(format!("cache policy {policy}: {error}")))
}

/// A number from `least` to `most`; `what` names it in the error.
///
/// # Errors
/// A sentence that names the text, for any other number or text.
pub fn number(text: &str, least: f64, most: f64, what: &str) -> Result<f64, String> {
    match text.trim().parse::<f64>() {
        Ok(number) if (least..=most).contains(&number) => Ok(number),
        _ => Err(format!("\"{text}\" is no {what} between {least} and {most}")),
    }
}

/// Refuses a list with duplicates, which would be measured and counted twice.
///
/// # Errors
/// If `values` of the argument `name` has duplicates.
pub fn distinct<T: Display>(name: &str, values: &[T]) -> Result<(), Failure> {
    let texts: Vec<String> = values.iter().map(T::to_string).collect();
    let twice = texts.iter().enumerate().find(|(index, text)| texts.iter().take(*index).any(|before| before == *text));
    match twice {
        Some((_, text)) => Err(Failure::Usage(format!("{name} names {text} twice"))),
        None => Ok(()),
    }
}

/// Refuses a scale that the workload does not support.
///
/// # Errors
/// If the scale is not supported.
pub fn check_scale(workload: &Workload, scale: f64) -> Result<(), Failure> {
    (workload.check_scale)(scale).map_err(|error| Failure::Usage(format!("--scale: {error}")))
}
