//! From measured queries to a calibration.

use std::time::{SystemTime, UNIX_EPOCH};

use thermocline_compute::{
    AnalyticEngine, Calibration, FittedErrors, FittedMode, HereIdentity, NodeIdentity, QuerySettings, Rates,
};
use thermocline_pushdown::Mode;

use super::accuracy::{AutoOutcomes, Choices, Errors, r_squared};
use super::design::{Axes, Setting};
use super::error::{CalibrationError, Size};
use super::inputs::Inputs;
use super::measure::{Measured, Measurements, Measurer, Progress, answer_shares, inputs};
use super::mode_model::ModeModel;
use super::regression::slope;
use super::run::Runs;
use super::subject::{Extent, Subject};

/// Factor by which the bandwidth of answers may exceed that of stored bytes.
const BANDWIDTH_FACTOR_MAX: f64 = 2.0;

/// Options of a calibration.
#[derive(Debug, Clone)]
pub struct CalibrateOptions {
    /// Values that the queries vary.
    pub axes: Axes,
    /// Repetitions of each query; their median is used.
    pub repeats: usize,
    /// Approximate number of stored bytes to measure.
    pub bytes_max: u64,
    /// Most bytes that the columns measured may take in the cache, such as [`cached_bytes_max`](super::cached_bytes_max).
    pub cached_bytes_max: u64,
}

/// A measured query, and what the model predicts for it.
#[derive(Debug, Clone)]
pub struct Observation {
    /// What the query varies.
    pub setting: Setting,
    /// The mode.
    pub mode: Mode,
    /// Inputs of the model.
    pub inputs: Inputs,
    /// r: share of the rows that were selected.
    pub row_selectivity: f64,
    /// c: share of the selected columns in the bytes of all columns.
    pub column_selectivity: f64,
    /// Measured seconds.
    pub seconds: f64,
    /// Predicted seconds.
    pub modelled: f64,
}

/// A calibration, and the measurements that it is based on.
#[derive(Debug, Clone)]
pub struct Calibrated {
    /// The part that a database keeps.
    pub calibration: Calibration,
    /// Name of the column that queries filtered by.
    pub filter: String,
    /// Partitions that were measured.
    pub partitions: usize,
    /// Their stored bytes.
    pub stored_bytes: u64,
    /// Queries of the fitted modes.
    pub observations: Vec<Observation>,
    /// Number of queries whose partitions took routes other than their mode's.
    pub left_out: usize,
    /// Modes that too few queries were left to fit, with the number of their queries.
    pub unfitted: Vec<(Mode, usize)>,
    /// How well the models pick the fastest mode for the queries that were not fitted.
    pub choices: Choices,
    /// Mode `auto` beside the modes, for the queries that were not fitted.
    pub auto: AutoOutcomes,
    /// Whether a network link leads to the storage.
    pub crosses_link: bool,
    /// Whether filters can run at the storage; if not, only `caching` is fitted.
    pub pushes: bool,
}

/// Names of the storages that hold partitions of an external table.
///
/// # Errors
/// If there is no such table, or it has no partitions.
pub fn storages(engine: &AnalyticEngine, table: &str) -> Result<Vec<String>, CalibrationError> {
    let known = engine.tables().into_iter().find(|known| known.definition.name == table);
    let known = known.ok_or_else(|| CalibrationError::UnknownTable(table.to_owned()))?;
    let latest = known.latest();
    let mut labels: Vec<String> = latest.partitions().map(|(object, _)| object.node.label().to_owned()).collect();
    labels.sort();
    labels.dedup();
    if labels.is_empty() { Err(CalibrationError::NoPartitions(table.to_owned())) } else { Ok(labels) }
}

/// Measures a table at one of its storages and fits the thesis's model of each mode (thesis sections 4.3 and 4.4).
/// The rest of the process does without earlier calibrations. The result is not saved.
///
/// # Errors
/// If the table is unknown, too small, too large in memory, or has no column to filter by; or if a query fails.
pub async fn calibrate(
    engine: &AnalyticEngine,
    settings: &QuerySettings,
    (table, node): (&str, &str),
    options: &CalibrateOptions,
    on_progress: &mut (dyn FnMut(Progress) + Send),
) -> Result<Calibrated, CalibrationError> {
    let known = engine.tables().into_iter().find(|known| known.definition.name == table);
    let known = known.ok_or_else(|| CalibrationError::UnknownTable(table.to_owned()))?;
    let client = known.storages().find(|storage| storage.label() == node).cloned();
    let client = client.ok_or_else(|| CalibrationError::UnknownNode {
        table: table.to_owned(),
        node: node.to_owned(),
        nodes: known.storages().map(|storage| storage.label()).collect::<Vec<_>>().join(", "),
    })?;
    engine.resources().calibrations().set_aside();
    let runs = Runs::new(engine, settings);
    let extent = Extent { stored_bytes: options.bytes_max, cached_bytes_max: options.cached_bytes_max };
    let subject = Subject::new(&runs, table, node, extent).await?;
    let measurer =
        Measurer { runs: &runs, subject: &subject, hits: options.axes.hits.clone(), repeats: options.repeats.max(1) };
    let Measurements { queries, left_out } = measurer.measure(&options.axes, on_progress).await?;
    drop(measurer);

    // Asked after measuring: the identity is that of the node that answered last.
    let status = client.status().await.map_err(datafusion::common::DataFusionError::from)?;
    let identity = status.as_ref().and_then(NodeIdentity::of);
    let fitted = Fitted::new(&subject, &queries)?;
    let rates = rates(&subject, &queries, &fitted, engine.resources().rates(&client, &known));
    let calibration = Calibration {
        node: node.to_owned(),
        identity,
        here: HereIdentity::current(),
        table: table.to_owned(),
        format: if subject.is_text { "csv" } else { "parquet" }.to_owned(),
        taken_at: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
        stored_per_memory: subject.stored_per_memory,
        rates,
        modes: fitted.records(&subject)?,
    };
    Ok(Calibrated {
        calibration,
        filter: subject.filter_name().to_owned(),
        partitions: subject.partitions(),
        stored_bytes: subject.stored_bytes(),
        choices: fitted.choices(),
        auto: auto_outcomes(&queries),
        observations: fitted.observations.into_iter().map(|(_, observation)| observation).collect(),
        unfitted: fitted.unfitted,
        left_out,
        crosses_link: subject.crosses_link,
        pushes: subject.pushes,
    })
}

/// Models of the modes, and all queries with their predictions.
struct Fitted {
    models: Vec<ModeModel>,
    /// Modes that could not be fitted, with the number of their queries.
    unfitted: Vec<(Mode, usize)>,
    /// Queries of the other modes, each with its number of cached partitions.
    observations: Vec<(usize, Observation)>,
}

impl Fitted {
    fn new(subject: &Subject, queries: &[Measured]) -> Result<Self, CalibrationError> {
        let shares = answer_shares(subject, queries);
        let all: Vec<(&Measured, Inputs)> =
            queries.iter().map(|query| (query, inputs(subject, query, query.hit, &shares))).collect();
        let modes: &[Mode] =
            if subject.pushes { &[Mode::Caching, Mode::Pushdown, Mode::Hybrid] } else { &[Mode::Caching] };
        let (mut models, mut unfitted) = (vec![], vec![]);
        for mode in modes {
            let of_mode = || all.iter().filter(|(query, _)| query.mode == *mode);
            let fitted = of_mode().filter(|(query, _)| !query.setting.is_validation);
            let fitted: Vec<(Inputs, f64)> = fitted.map(|(query, inputs)| (*inputs, query.seconds)).collect();
            let is_validated = of_mode().any(|(query, _)| query.setting.is_validation);
            match ModeModel::fit(*mode, &fitted).filter(|_| is_validated) {
                Some(model) => models.push(model),
                None if *mode == Mode::Caching => return Err(too_few(subject, *mode, of_mode().count())),
                None => unfitted.push((*mode, of_mode().count())),
            }
        }
        let observation = |(query, inputs): &(&Measured, Inputs)| {
            let model = models.iter().find(|model| model.mode == query.mode)?;
            let observation = Observation {
                setting: query.setting,
                mode: query.mode,
                inputs: *inputs,
                row_selectivity: query.selected as f64 / inputs.rows.max(1.0),
                column_selectivity: subject.column_selectivity(query.setting.columns),
                seconds: query.seconds,
                modelled: model.seconds(inputs),
            };
            Some((query.cached, observation))
        };
        let observations = all.iter().filter_map(observation).collect();
        Ok(Self { models, unfitted, observations })
    }

    /// The models with their errors.
    fn records(&self, subject: &Subject) -> Result<Vec<FittedMode>, CalibrationError> {
        let record = |model: &ModeModel| {
            let pairs = |is_validation: bool| -> Vec<(f64, f64)> {
                let of_mode = self.observations.iter().map(|(_, query)| query).filter(|query| query.mode == model.mode);
                let of_set = of_mode.filter(|query| query.setting.is_validation == is_validation);
                of_set.map(|query| (query.seconds, query.modelled)).collect()
            };
            let (fitted, validated) = (pairs(false), pairs(true));
            let Errors { mean, median, p80, p90 } =
                Errors::of(&validated).ok_or_else(|| too_few(subject, model.mode, validated.len()))?;
            let [link_s_per_byte, storage_s_per_byte, here_s_per_byte, here_s_per_row] = model.parameters;
            Ok(FittedMode {
                mode: model.mode.name().to_owned(),
                overhead_s: model.overhead_s,
                link_s_per_byte,
                storage_s_per_byte,
                here_s_per_byte,
                here_s_per_row,
                serial_share: model.serial_share,
                r2: r_squared(&fitted).unwrap_or(0.0),
                errors: FittedErrors { mean, median, p80, p90 },
                fitted: fitted.len() as u64,
                validated: validated.len() as u64,
            })
        };
        self.models.iter().map(record).collect()
    }

    /// Compares the modes for each query that was not fitted. `pushdown` is measured once for all hit ratios, which it does
    /// not depend on.
    fn choices(&self) -> Choices {
        let mut choices = Choices::default();
        let of_setting = |setting: &Setting, mode: Mode, cached: usize| {
            let is_it = |(known, query): &&(usize, Observation)| {
                query.setting == *setting && query.mode == mode && *known == cached
            };
            self.observations.iter().find(is_it).map(|(_, query)| (query.seconds, query.modelled))
        };
        let is_one = |(_, query): &&(usize, Observation)| query.mode == Mode::Caching && query.setting.is_validation;
        for (cached, query) in self.observations.iter().filter(is_one) {
            let alternatives = [(Mode::Caching, *cached), (Mode::Pushdown, 0), (Mode::Hybrid, *cached)];
            let known = alternatives.iter().filter_map(|(mode, cached)| of_setting(&query.setting, *mode, *cached));
            choices.add(&known.collect::<Vec<_>>());
        }
        choices
    }
}

/// Mode `auto` beside the modes with as much cached: `pushdown` is the same at every hit ratio.
fn auto_outcomes(queries: &[Measured]) -> AutoOutcomes {
    let mut outcomes = AutoOutcomes::default();
    for auto in queries.iter().filter(|query| query.mode == Mode::Auto) {
        let is_other = |query: &&Measured| {
            query.setting == auto.setting
                && (query.cached == auto.cached || query.mode == Mode::Pushdown)
                && query.mode != Mode::Auto
        };
        let others = queries.iter().filter(is_other).map(|query| query.seconds);
        let scan = (auto.stats.taken_us as f64 / 1e6, auto.stats.expected_us as f64 / 1e6);
        outcomes.add(auto.seconds, others, scan);
    }
    outcomes
}

fn too_few(subject: &Subject, mode: Mode, queries: usize) -> CalibrationError {
    CalibrationError::TooFew { mode, queries, bytes: Size(subject.stored_bytes()), table: subject.table.clone() }
}

/// Rates that the model of `auto` begins with: those that requests have `shown`, except for decoding, which is fitted to
/// its own times, and for the bandwidth, which comes from the fitted modes. The bandwidth of `caching` is too low if
/// decoding is slower than the link, and that of `pushdown` means little if storage sends while it computes. So the larger
/// of the two is used, but at most twice that of `caching`.
fn rates(subject: &Subject, queries: &[Measured], fitted: &Fitted, shown: Rates) -> Rates {
    let decoded =
        queries.iter().filter(|query| query.mode == Mode::Caching && !query.setting.is_validation).map(|query| {
            let bytes = subject.decoding_bytes(query.setting.partitions, query.setting.columns);
            ((1.0 - query.hit) * bytes as f64, query.stats.decoding_us as f64 / 1e6)
        });
    let link = |mode: Mode| {
        let model = fitted.models.iter().find(|model| model.mode == mode);
        model.map(|model| model.parameters).map(|[link, ..]| 1.0 / link).filter(|rate| rate.is_finite())
    };
    let regressed = link(Mode::Caching).map(|caching| match link(Mode::Pushdown) {
        Some(pushdown) => pushdown.clamp(caching, BANDWIDTH_FACTOR_MAX * caching),
        None => caching,
    });
    let bytes_per_s = shown.bytes_per_s.map(|shown| regressed.unwrap_or(shown));
    let decode_s_per_byte = slope(decoded).unwrap_or(shown.decode_s_per_byte);
    Rates { bytes_per_s, decode_s_per_byte, ..shown }
}

#[cfg(test)]
mod tests {
    use thermocline_database::Database;

    use super::*;

    /// Refused by what their footers say, before a column is read: the cache stays as it was.
    #[tokio::test]
    async fn columns_that_do_not_fit_into_memory_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let location = folder.path().display();
        let session = Database::in_memory().await.unwrap().session();
        for number in 0..8 {
            let copy = format!(
                "COPY (SELECT value AS k, value * 2 AS v FROM generate_series(1, 7000)) TO '{location}/{number}.parquet' \
                 STORED AS PARQUET"
            );
            session.run(&copy).await.unwrap();
        }
        session.run(&format!("CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION '{location}'")).await.unwrap();
        let (engine, settings) = (session.engine(), session.settings());
        let label = storages(engine, "t").unwrap().remove(0);
        let options =
            CalibrateOptions { axes: Axes::quick(1), repeats: 1, bytes_max: 1 << 40, cached_bytes_max: 500_000 };
        let error = calibrate(engine, &settings, ("t", &label), &options, &mut |_| {}).await.unwrap_err();
        let CalibrationError::TooLarge { partitions: 8, needed: Size(needed), allowed: Size(500_000), .. } = error
        else {
            panic!("{error}");
        };
        // Two columns of eight bytes.
        assert!((8 * 7000 * 16..1_000_000).contains(&needed), "{needed}");
        let said = error.to_string();
        assert!(
            ["table t", label.as_str(), "8 partitions", "488.3 KiB", "--size"].iter().all(|part| said.contains(part)),
            "{said}"
        );
        assert_eq!(engine.cache().limit(), engine.resources().settings().cache_size);
        assert_eq!(engine.cache().bytes(), (0, 0));
    }
}
