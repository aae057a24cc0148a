//! Sizes, rates and durations as users write them: `8GiB`, `1Gbps`, `200Mbit/s`, `30s`.

use std::time::Duration;

/// Bytes that no size reaches: what signed numbers of 64 bits count.
const SIZE_END: f64 = (1_u64 << 63) as f64;

/// Parses a size in bytes. Plain numbers are bytes; `KB`, `MB`, `GB`, `TB` are powers of 1000,
/// `KiB`, `MiB`, `GiB`, `TiB` powers of 1024. Case and inner spaces do not matter.
///
/// # Errors
/// A sentence that names the text, for anything else, and for 2^63 bytes or more.
///
/// ```
/// use thermocline_pushdown::units::parse_size;
/// assert_eq!(parse_size("1.5 KiB"), Ok(1536));
/// assert!(parse_size("much").is_err());
/// assert!(parse_size("9000000TiB").is_err());
/// ```
pub fn parse_size(text: &str) -> Result<u64, String> {
    let (number, unit) =
        split(text).ok_or_else(|| format!("'{text}' is not a size: expected a number and a unit, such as 256MiB"))?;
    let factor = match unit.as_str() {
        "" | "b" => 1.0,
        "kb" | "k" => 1e3,
        "mb" | "m" => 1e6,
        "gb" | "g" => 1e9,
        "tb" | "t" => 1e12,
        "kib" => 1024.0,
        "mib" => 1024.0 * 1024.0,
        "gib" => 1024.0 * 1024.0 * 1024.0,
        "tib" => 1024.0 * 1024.0 * 1024.0 * 1024.0,
        _ => return Err(format!("'{text}' is not a size: unknown unit '{unit}'")),
    };
    match number * factor {
        bytes if bytes < SIZE_END => Ok(bytes as u64),
        _ => Err(format!("'{text}' is too large: a size has less than 2^63 bytes")),
    }
}

/// Parses a rate in bytes per second. `bps`, `Kbps`, `Mbps`, `Gbps` (or `bit/s` and so on) are
/// decimal bits per second; sizes followed by `/s` are bytes per second.
///
/// # Errors
/// A sentence that names the text, for anything else, and for a rate below one byte a second.
///
/// ```
/// use thermocline_pushdown::units::parse_rate;
/// assert_eq!(parse_rate("1Gbps"), Ok(125_000_000));
/// assert_eq!(parse_rate("10MiB/s"), Ok(10 * 1024 * 1024));
/// ```
pub fn parse_rate(text: &str) -> Result<u64, String> {
    let wrong = || format!("'{text}' is not a rate: expected a number and a unit, such as 1Gbps or 100MiB/s");
    let (number, unit) = split(text).ok_or_else(wrong)?;
    let bits = |prefix: &str| match prefix {
        "" => Some(1.0),
        "k" => Some(1e3),
        "m" => Some(1e6),
        "g" => Some(1e9),
        "t" => Some(1e12),
        _ => None,
    };
    let bytes = if let Some(prefix) = unit.strip_suffix("bps").or_else(|| unit.strip_suffix("bit/s")) {
        number * bits(prefix).ok_or_else(wrong)? / 8.0
    } else if let Some(size) = unit.strip_suffix("/s") {
        number * parse_size(&format!("1{size}")).map_err(|_| wrong())? as f64
    } else {
        return Err(wrong());
    };
    if bytes < 1.0 {
        return Err(format!("the rate '{text}' is below one byte a second"));
    }
    Ok(bytes as u64)
}

/// Parses `250ms`, `30s`, `5min`, `1h`; a plain number is milliseconds, as in PostgreSQL.
///
/// # Errors
/// A sentence that names the text, for anything else.
///
/// ```
/// use std::time::Duration;
/// use thermocline_pushdown::units::parse_duration;
/// assert_eq!(parse_duration("1.5 min"), Ok(Duration::from_secs(90)));
/// ```
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("'{text}' is not a duration: expected a number and us, ms, s, min or h");
    let (number, unit) = split(text).ok_or_else(wrong)?;
    let seconds = match unit.as_str() {
        "us" => 1e-6,
        "" | "ms" => 1e-3,
        "s" => 1.0,
        "min" => 60.0,
        "h" => 3600.0,
        _ => return Err(wrong()),
    };
    Duration::try_from_secs_f64(number * seconds).map_err(|_| wrong())
}

/// Prints a size with one decimal in the binary unit that keeps it below 1024.
///
/// ```
/// assert_eq!(thermocline_pushdown::units::format_size(1536), "1.5 KiB");
/// ```
pub fn format_size(bytes: u64) -> String {
    let mut value = bytes as f64;
    let mut unit = "B";
    for next in ["KiB", "MiB", "GiB", "TiB"] {
        if value < 1024.0 {
            break;
        }
        value /= 1024.0;
        unit = next;
    }
    if unit == "B" { format!("{bytes} B") } else { format!("{value:.1} {unit}") }
}

/// Prints a switch.
pub const fn on_off(on: bool) -> &'static str {
    if on { "on" } else { "off" }
}

/// Parses `on`, `off`, `true`, `false`, `yes`, `no`, `1` and `0`, as PostgreSQL does.
///
/// # Errors
/// A sentence that names the text, for anything else.
pub fn parse_switch(text: &str) -> Result<bool, String> {
    match text.trim().to_ascii_lowercase().as_str() {
        "on" | "true" | "yes" | "1" => Ok(true),
        "off" | "false" | "no" | "0" => Ok(false),
        _ => Err(format!("'{text}' is neither on nor off")),
    }
}

/// Parses a whole number of at least `min`.
///
/// # Errors
/// A sentence that names the text, for anything else.
pub fn parse_count(text: &str, min: u64) -> Result<u64, String> {
    let count = text.trim().parse().map_err(|_| format!("'{text}' is not a whole number"))?;
    at_least(count, min, text)
}

/// The value, unless it is below `min`.
///
/// # Errors
/// A sentence that names the text.
pub fn at_least(value: u64, min: u64, text: &str) -> Result<u64, String> {
    if value < min { Err(format!("{text} is below {min}")) } else { Ok(value) }
}

/// The size, unless it is below `min` or above `max`.
///
/// # Errors
/// A sentence that names the text.
pub fn size_within(value: u64, (min, max): (u64, u64), text: &str) -> Result<u64, String> {
    let size = at_least(value, min, text)?;
    if size > max { Err(format!("{text} is above {}", exact_size(max))) } else { Ok(size) }
}

/// Prints a time in the largest unit of which it is a whole number.
///
/// ```
/// use std::time::Duration;
/// assert_eq!(thermocline_pushdown::units::format_duration(Duration::from_millis(1500)), "1500ms");
/// ```
pub fn format_duration(time: Duration) -> String {
    let micros = time.as_micros();
    let units = [(3_600_000_000, "h"), (60_000_000, "min"), (1_000_000, "s"), (1_000, "ms")];
    let unit = units.into_iter().find(|(of, _)| micros >= *of && micros.is_multiple_of(*of));
    match unit {
        Some((of, name)) => format!("{}{name}", micros / of),
        None if micros == 0 => "0".to_owned(),
        None => format!("{micros}us"),
    }
}

/// Prints a size in the largest binary unit of which it is a whole number, so that [`parse_size`] gives it back.
///
/// ```
/// use thermocline_pushdown::units::exact_size;
/// assert_eq!((exact_size(3 << 29), exact_size(1000)), ("1536MiB".to_owned(), "1000B".to_owned()));
/// ```
pub fn exact_size(bytes: u64) -> String {
    let units = [(1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match units.into_iter().find(|(of, _)| bytes >= *of && bytes.is_multiple_of(*of)) {
        Some((of, unit)) => format!("{}{unit}", bytes / of),
        None => format!("{bytes}B"),
    }
}

/// A non-negative finite number and the lower-case unit after it.
fn split(text: &str) -> Option<(f64, String)> {
    let text = text.trim();
    let at = text.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_')).unwrap_or(text.len());
    let (number, unit) = text.split_at(at);
    let number: f64 = number.replace('_', "").parse().ok()?;
    number.is_finite().then(|| (number, unit.trim().to_ascii_lowercase()))
}
