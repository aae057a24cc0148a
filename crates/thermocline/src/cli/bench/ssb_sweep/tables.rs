//! Tables 2 to 4, and dollars, by mode.

use thermocline_pushdown::units::format_size;

use super::super::sink::or_dash;
use super::axes::Axes;
use super::configuration::Configuration;
use super::experiments::Table;
use super::outcome::{Outcome, median_of};
use super::runner::Outcomes;

/// Configurations of every table.
pub fn table_configurations(axes: &Axes) -> Vec<Configuration> {
    axes.modes.iter().map(|mode| axes.star(*mode)).collect()
}

/// Prints a table. Values are medians over the passes; `cores` are those of compute.
pub fn print_table(table: Table, axes: &Axes, outcomes: &Outcomes, cores: usize) {
    let modes = table_configurations(axes);
    let modes = modes.iter().map(|configuration| (configuration.mode.name(), outcomes.of(configuration)));
    match table {
        Table::Network => {
            say!("\ntable 2: network, bytes of the batch");
            say!("  {:<10}{:>14}{:>14}{:>14}", "mode", "from storage", "to storage", "total");
            for (mode, passes) in modes {
                let bytes = |of: fn(&Outcome) -> u64| {
                    or_dash(median_of(passes, |pass| Some(of(pass) as f64)).map(|bytes| format_size(bytes as u64)))
                };
                say!(
                    "  {mode:<10}{:>14}{:>14}{:>14}",
                    bytes(|pass| pass.bytes_from_storage),
                    bytes(|pass| pass.bytes_to_storage),
                    bytes(Outcome::bytes_moved)
                );
            }
        }
        Table::DedicatedCpu => {
            say!("\ntable 3: CPU seconds with dedicated compute, elapsed seconds x {cores} core(s) of compute");
            print_cpu(modes, |pass| Some(pass.cpu_seconds_dedicated(cores)));
        }
        Table::MultiTenantCpu => {
            say!("\ntable 4: CPU seconds with multi-tenant compute, CPU time of either process");
            print_cpu(modes, |pass| pass.cpu_seconds_compute);
        }
        Table::Dollars => {
            say!("\ndollars of the batch, under the configured prices");
            say!("  {:<10}{:>14}", "mode", "dollars");
            for (mode, passes) in modes {
                let dollars = median_of(passes, |pass| Some(pass.dollars));
                say!("  {mode:<10}{:>14}", or_dash(dollars.map(|dollars| format!("{dollars:.6}"))));
            }
        }
        Table::All => {}
    }
}

/// Prints CPU seconds of compute, of storage, and of both.
fn print_cpu<'a>(
    modes: impl Iterator<Item = (&'static str, &'a [Outcome])>,
    compute: impl Fn(&Outcome) -> Option<f64>,
) {
    say!("  {:<10}{:>10}{:>10}{:>10}", "mode", "compute", "storage", "total");
    for (mode, passes) in modes {
        let seconds = |of: &dyn Fn(&Outcome) -> Option<f64>| {
            or_dash(median_of(passes, of).map(|seconds| format!("{seconds:.2}")))
        };
        say!(
            "  {mode:<10}{:>10}{:>10}{:>10}",
            seconds(&compute),
            seconds(&|pass| pass.cpu_seconds_storage),
            seconds(&|pass| Some(compute(pass)? + pass.cpu_seconds_storage?))
        );
    }
}
