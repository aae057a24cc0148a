//! What a calibration has found, as text.

use thermocline_pushdown::units::format_size;
use thermocline_workloads::calibration::kept::{Calibration, FittedMode};
use thermocline_workloads::calibration::{AutoOutcomes, Calibrated, Errors};

/// Prints errors, choices and parameters.
pub fn print_report(calibrated: &Calibrated) {
    let Calibrated {
        calibration,
        filter,
        partitions,
        stored_bytes,
        left_out,
        unfitted,
        choices,
        auto,
        crosses_link,
        pushes,
        ..
    } = calibrated;
    say!(
        "table {} at {}: {partitions} partitions, {} of {}, filtered by {filter}",
        calibration.table,
        calibration.node,
        format_size(*stored_bytes),
        calibration.format
    );
    if !crosses_link {
        say!("there is no link to this storage: only reading and computing here are fitted, in mode caching");
    } else if !pushes {
        say!("this storage runs no filters over such objects: only mode caching is fitted");
    }
    if *left_out > 0 {
        say!("{left_out} queries are left out: partitions took other routes than their mode's, because their answers");
        say!("are no smaller than what is stored");
    }
    for (mode, queries) in unfitted {
        say!("mode {mode} is not fitted: only {queries} queries took its routes, which a larger --size may change");
    }
    print_modes(calibration);
    if choices.total > 0 {
        let percent = 100.0 * choices.right as f64 / choices.total as f64;
        say!(
            "the modes' models pick the fastest one for {} of {} queries that were not fitted ({percent:.0} %); the others \
             take {:.1} % longer on average, {:.1} % at most",
            choices.right,
            choices.total,
            100.0 * choices.regret_mean(),
            100.0 * choices.regret_max
        );
    }
    print_auto(auto);
}

/// Prints how mode `auto` did beside the others, and the errors of the model that it chooses by.
fn print_auto(auto: &AutoOutcomes) {
    let choices = &auto.choices;
    if choices.total > 0 {
        say!(
            "auto is as fast as the fastest mode (within 5 %) for {} of these {} queries, and faster for {}; the others \
             take {:.1} % longer on average, {:.1} % at most",
            choices.right,
            choices.total,
            auto.faster,
            100.0 * choices.regret_mean(),
            100.0 * choices.regret_max
        );
    }
    if let Some(Errors { mean, median, p80, p90 }) = auto.errors() {
        say!(
            "auto expects the time of their scans with an error of {mean:.1} % on average, {median:.1} % median, {p80:.1} % \
             at the 80th and {p90:.1} % at the 90th percentile"
        );
    }
}

/// Prints parameters and errors of each mode, and the rates of `auto`.
pub fn print_modes(calibration: &Calibration) {
    say!(
        "{:<10}{:>7}{:>11}{:>7}{:>8}{:>8}{:>8}{:>8}",
        "mode",
        "fitted",
        "validated",
        "r2",
        "mean",
        "median",
        "80th",
        "90th"
    );
    for FittedMode { mode, fitted, validated, r2, errors, .. } in &calibration.modes {
        say!(
            "{mode:<10}{fitted:>7}{validated:>11}{r2:>7.3}{:>6.1} %{:>6.1} %{:>6.1} %{:>6.1} %",
            errors.mean,
            errors.median,
            errors.p80,
            errors.p90
        );
    }
    say!(
        "{:<10}{:>12}{:>14}{:>14}{:>14}{:>12}{:>9}",
        "mode",
        "overhead",
        "BW_network",
        "BW_storage",
        "BW_compute",
        "row here",
        "serial"
    );
    for mode in &calibration.modes {
        say!(
            "{:<10}{:>9.2} ms{:>14}{:>14}{:>14}{:>9.2} ns{:>7.0} %",
            mode.mode,
            mode.overhead_s * 1e3,
            rate(mode.link_s_per_byte),
            rate(mode.storage_s_per_byte),
            rate(mode.here_s_per_byte),
            mode.here_s_per_row * 1e9,
            mode.serial_share * 100.0
        );
    }
    let rates = &calibration.rates;
    let link = match (rates.bytes_per_s, rates.round_trip_s) {
        (Some(bytes_per_s), Some(round_trip_s)) => {
            format!("link of {}, round trip {:.2} ms, ", rate(1.0 / bytes_per_s), round_trip_s * 1e3)
        }
        _ => String::new(),
    };
    say!(
        "auto begins with: {link}{:.1} slots, {:.2} times the time of this side, decoding {} a core",
        rates.slots,
        rates.slowness,
        rate(rates.decode_s_per_byte)
    );
}

/// Bytes a second; a dash for what takes no time.
fn rate(s_per_byte: f64) -> String {
    if s_per_byte > 0.0 { format!("{:.1} MB/s", 1e-6 / s_per_byte) } else { "-".to_owned() }
}
