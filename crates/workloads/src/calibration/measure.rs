//! Measurement of the synthetic queries, each with a defined state of the cache.

use thermocline_compute::QueryStats;
use thermocline_pushdown::{Mode, Route};

use super::design::{Axes, Setting};
use super::error::CalibrationError;
use super::inputs::Inputs;
use super::run::{Executed, Runs};
use super::subject::Subject;
use crate::bench::median;

/// Assumed bytes of an answer per byte in memory, for sets of columns without any answer.
const COMPRESSED: f64 = 0.5;

/// A query that was measured in one mode.
#[derive(Debug, Clone)]
pub(super) struct Measured {
    pub(super) setting: Setting,
    pub(super) mode: Mode,
    /// Partitions that were cached.
    pub(super) cached: usize,
    /// Share of the stored bytes that was cached: h.
    pub(super) hit: f64,
    /// Rows that the filter selected.
    pub(super) selected: u64,
    /// Median of the repetitions.
    pub(super) seconds: f64,
    /// Counters of one of them.
    pub(super) stats: QueryStats,
}

/// Progress of a measurement.
#[derive(Debug, Clone, Copy)]
pub struct Progress {
    /// Queries that were measured.
    pub done: usize,
    /// All queries.
    pub total: usize,
}

/// All measured queries, and the number of those left out.
#[derive(Debug, Default)]
pub(super) struct Measurements {
    pub(super) queries: Vec<Measured>,
    /// Queries whose partitions took routes other than their mode's: a storage node does not send an answer that is larger
    /// than the stored bytes, for example.
    pub(super) left_out: usize,
}

/// Measures queries over a subject. Dropping it restores the limit of the cache, and removes the table from it.
#[derive(Debug)]
pub(super) struct Measurer<'a> {
    pub(super) runs: &'a Runs<'a>,
    pub(super) subject: &'a Subject,
    pub(super) hits: Vec<f64>,
    pub(super) repeats: usize,
}

impl Measurer<'_> {
    /// Measures all settings in all modes at all hit ratios.
    ///
    /// # Errors
    /// If a query fails.
    pub(super) async fn measure(
        &self,
        axes: &Axes,
        on_progress: &mut (dyn FnMut(Progress) + Send),
    ) -> Result<Measurements, CalibrationError> {
        let settings = axes.settings(self.subject.partitions(), self.subject.column_sets());
        let mut measurements = Measurements::default();
        let total = settings.len() * self.hits.len();
        let mut done = 0;
        // Settings over the same partitions and columns share what is loaded.
        let mut left = settings;
        while let Some(first) = left.first().copied() {
            let is_like =
                |setting: &Setting| (setting.partitions, setting.columns) == (first.partitions, first.columns);
            let (alike, others): (Vec<Setting>, Vec<Setting>) = left.into_iter().partition(is_like);
            left = others;
            // Columns loaded for other settings would be evicted in favour of columns that have to stay uncached.
            self.runs.engine().cache().remove_table(&self.subject.table);
            // With few partitions, several hit ratios come to the same number of them.
            let mut counts: Vec<usize> =
                self.hits.iter().map(|hit| (first.partitions as f64 * hit).round() as usize).collect();
            counts.dedup();
            done += alike.len() * (self.hits.len() - counts.len());
            for cached in counts {
                self.load(first, cached).await?;
                for setting in &alike {
                    for mode in self.modes(*setting, cached) {
                        match self.query(*setting, mode, cached).await? {
                            Some(measured) => measurements.queries.push(measured),
                            None => measurements.left_out += 1,
                        }
                    }
                    done += 1;
                    on_progress(Progress { done, total });
                }
            }
        }
        Ok(measurements)
    }

    /// Modes that differ with this many partitions cached: with none, `hybrid` is the same as `pushdown`; with all of them,
    /// the same as `caching`.
    fn modes(&self, setting: Setting, cached: usize) -> Vec<Mode> {
        let mut modes = vec![];
        if self.subject.pushes && cached == 0 {
            modes.push(Mode::Pushdown);
        }
        if self.subject.pushes && cached > 0 && cached < setting.partitions {
            modes.push(Mode::Hybrid);
        }
        // Last, because these change the cache.
        modes.push(Mode::Caching);
        if self.subject.pushes && setting.is_validation {
            modes.push(Mode::Auto);
        }
        modes
    }

    /// Measures one query in one mode; `None` if partitions took routes other than the mode's.
    async fn query(&self, setting: Setting, mode: Mode, cached: usize) -> Result<Option<Measured>, CalibrationError> {
        let no_filter = || CalibrationError::NoFilter(self.subject.table.clone());
        let sql = self.subject.query(setting.columns, setting.row_selectivity).ok_or_else(no_filter)?;
        let sample = self.subject.first(setting.partitions);
        let mut executed: Vec<Executed> = vec![];
        for _ in 0..self.repeats {
            // Without room, nothing that is missing enters the cache.
            let ample = self.subject.cache_limit();
            let limit = if mode == Mode::Hybrid { self.runs.engine().cache().bytes().0 } else { ample };
            self.runs.engine().cache().set_limit(limit);
            let run = self.runs.run(&sql, mode, &sample).await?;
            let is_of_mode = took_routes(&run.stats, mode, cached, setting.partitions);
            self.runs.engine().cache().set_limit(ample);
            if matches!(mode, Mode::Caching | Mode::Auto) && cached < setting.partitions {
                self.load(setting, cached).await?;
            }
            if !is_of_mode {
                tracing::debug!(?mode, cached, sql, stats = ?run.stats, "routes other than the mode's");
                return Ok(None);
            }
            executed.push(run);
        }
        let seconds: Vec<f64> = executed.iter().map(|run| run.seconds).collect();
        let (Some(seconds), Some(last)) = (median(&seconds), executed.last()) else { return Ok(None) };
        let (_, stored, _) = self.subject.sizes(setting.partitions, setting.columns);
        let (_, stored_hit, _) = self.subject.sizes(cached, setting.columns);
        let hit = stored_hit as f64 / stored.max(1) as f64;
        Ok(Some(Measured { setting, mode, cached, hit, selected: last.rows, seconds, stats: last.stats }))
    }

    /// Fills the cache with exactly the first `cached` partitions, for the columns of a setting.
    async fn load(&self, setting: Setting, cached: usize) -> Result<(), CalibrationError> {
        let cache = self.runs.engine().cache();
        cache.set_limit(self.subject.cache_limit());
        for (object, version) in self.subject.objects_beyond(cached) {
            cache.remove_version(&self.subject.table, &object, &version);
        }
        if cached == 0 {
            return Ok(());
        }
        let no_filter = || CalibrationError::NoFilter(self.subject.table.clone());
        let sql = self.subject.load_query(setting.columns).ok_or_else(no_filter)?;
        self.runs.run(&sql, Mode::Caching, &self.subject.first(cached)).await?;
        Ok(())
    }

    /// Removes the table's segments, and restores the limit that the database has for the cache.
    fn forget(&self) {
        let engine = self.runs.engine();
        engine.cache().remove_table(&self.subject.table);
        engine.cache().set_limit(engine.resources().settings().cache_size);
    }
}

impl Drop for Measurer<'_> {
    /// Also after a failure or Ctrl-C.
    fn drop(&mut self) {
        self.forget();
    }
}

/// Whether all partitions took the routes of a mode.
fn took_routes(stats: &QueryStats, mode: Mode, cached: usize, partitions: usize) -> bool {
    let (cached, missing) = (cached as u64, partitions.saturating_sub(cached) as u64);
    let route = |route| stats.partitions(route);
    let expected = match mode {
        Mode::Pushdown => route(Route::Pushdown) == cached + missing,
        Mode::Hybrid => route(Route::Local) == cached && route(Route::Pushdown) == missing,
        Mode::Caching | Mode::Pullup => route(Route::Local) == cached && route(Route::Load) == missing,
        Mode::Auto => true,
    };
    expected && stats.partitions_pushed_back == 0
}

/// Bytes on the wire per byte in memory, by set of columns, in the answers to the pushed-down filters that are fitted.
pub(super) fn answer_shares(subject: &Subject, queries: &[Measured]) -> Vec<f64> {
    let share = |set: usize| {
        let of_set = queries.iter().filter(|query| {
            query.mode == Mode::Pushdown && query.setting.columns == set && !query.setting.is_validation
        });
        let (bytes, memory) = of_set.fold((0.0, 0.0), |(bytes, memory), query| {
            (bytes + query.stats.bytes_from_storage as f64, memory + selected_bytes(subject, query))
        });
        if memory > 0.0 { bytes / memory } else { COMPRESSED }
    };
    (0..subject.column_sets()).map(share).collect()
}

fn selected_bytes(subject: &Subject, query: &Measured) -> f64 {
    let (rows, _, memory) = subject.sizes(query.setting.partitions, query.setting.columns);
    memory as f64 * query.selected as f64 / rows.max(1) as f64
}

/// Inputs of the model for a query at a hit ratio.
pub(super) fn inputs(subject: &Subject, query: &Measured, hit: f64, answer_shares: &[f64]) -> Inputs {
    let (rows, stored, _) = subject.sizes(query.setting.partitions, query.setting.columns);
    let selected_bytes = selected_bytes(subject, query);
    let share = answer_shares.get(query.setting.columns).copied().unwrap_or(COMPRESSED);
    Inputs { rows: rows as f64, stored_bytes: stored as f64, hit, selected_bytes, answer_bytes: selected_bytes * share }
}
