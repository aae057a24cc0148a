//! State that the planner of every statement starts from: rules, functions, schemas.

use std::path::PathBuf;
use std::sync::Arc;

use datafusion::catalog::{CatalogProvider, MemoryCatalogProvider, SchemaProvider};
use datafusion::common::Result;
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::execution::{SessionState, SessionStateBuilder};
use datafusion::functions_aggregate::bool_and_or::bool_and_udaf;
use datafusion::logical_expr::AggregateUDF;
use datafusion::optimizer::{Analyzer, AnalyzerRule};
use datafusion::prelude::{SessionConfig, SessionContext};
use thermocline_dialect::rules::{
    Casts, CheckedIntegers, Coalesce, ColumnsFirst, Constant, CorrelatedKeys, Decimals, DocumentOrder, EmptySubqueries,
    FloatOrder, Guards, InLists, InSubqueries, IntegerBounds, IntervalOrder, JsonCopies, MergedColumns, NestedSorts,
    OrderKeys, RandomUuids, SetComparisonNames, SetCounts, SetTypes, SubqueryValues, TemporalLiterals, TypeChecks,
    TypeNames, Unsupported, WindowOrder, ZonedLiterals, optimizer_rules, physical_rules, register_growing_functions,
    register_operators, register_stand_ins,
};
use thermocline_pushdown::{UTC, register_functions, written_functions};

use super::csv_copy::CsvCopyFactory;
use super::memory_pool::fair_pool;
use crate::plan::{NarrowingCasts, Separate};
use crate::settings::{EngineSettings, QuerySettings};

/// Name of the one catalog.
pub const CATALOG: &str = "thermocline";
/// Schema of users' tables.
pub const SCHEMA: &str = "public";
/// Schema of the system tables.
pub const SYSTEM: &str = "system";

/// Name of the one user, whoever runs the program: there are no users yet.
pub const USER: &str = "thermocline";

/// A rule that looks at what the planner has made of a statement.
pub(super) type Rule = Arc<dyn AnalyzerRule + Send + Sync>;

/// The rules that see types before they are coerced.
pub(super) fn before_coercion() -> Vec<Rule> {
    vec![
        Arc::new(Unsupported),
        Arc::new(EmptySubqueries),
        Arc::new(Guards),
        Arc::new(ZonedLiterals),
        Arc::new(TypeChecks),
        Arc::new(WindowOrder),
        Arc::new(SetTypes),
        Arc::new(SetCounts),
        Arc::new(OrderKeys),
        Arc::new(TemporalLiterals),
        Arc::new(Decimals),
    ]
}

/// Settings of a session that has changed none. `threads` are the output partitions of plans; `None` for one per core.
pub fn default_config(threads: Option<usize>) -> SessionConfig {
    let threads = threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(2, usize::from)).max(1);
    let mut config = SessionConfig::new()
        .with_create_default_catalog_and_schema(false)
        .with_default_catalog_and_schema(CATALOG, SCHEMA)
        .with_information_schema(true)
        .with_target_partitions(threads);
    config.options_mut().extensions.insert(QuerySettings::default());
    // Without a zone here, DataFusion would give TIMESTAMP WITH TIME ZONE a type without one.
    config.options_mut().execution.time_zone = Some(UTC.to_owned());
    // As `register_operators` has it.
    config.options_mut().sql_parser.parse_float_as_decimal = true;
    // Expressions that an aggregate computes once for two uses are nullable there and not in the
    // logical plan; the check calls this an internal error.
    config.options_mut().execution.skip_physical_aggregate_schema_check = true;
    config
}

/// The runtime of all queries: their memory, and where they put what they have none for.
///
/// # Errors
/// If the directory cannot be used.
pub(super) fn runtime(settings: &EngineSettings, before: Option<&RuntimeEnv>) -> Result<Arc<RuntimeEnv>> {
    let builder = match before {
        // Its buckets and its files stay.
        Some(before) => {
            before.disk_manager.set_max_temp_directory_size(settings.temporary_files_limit)?;
            RuntimeEnvBuilder::from_runtime_env(before)
        }
        None => {
            let mode = match &settings.temporary_directory {
                Some(directory) => DiskManagerMode::Directories(vec![PathBuf::from(directory)]),
                None => DiskManagerMode::OsTmpDirectory,
            };
            let disk = DiskManagerBuilder::default().with_mode(mode);
            let disk = disk.with_max_temp_directory_size(settings.temporary_files_limit);
            RuntimeEnvBuilder::new().with_disk_manager_builder(disk)
        }
    };
    builder.with_memory_pool(fair_pool(settings.query_memory_limit)).build_arc()
}

/// Functions that say where a statement runs.
fn constants() -> [Constant; 4] {
    let (architecture, system) = (std::env::consts::ARCH, std::env::consts::OS);
    let version = format!("Thermocline {} on {architecture}-{system}", env!("CARGO_PKG_VERSION"));
    [
        Constant::new("version", &[], version),
        Constant::new("current_database", &["current_catalog"], CATALOG),
        Constant::new("current_schema", &[], SCHEMA),
        Constant::new("current_user", &["session_user", "current_role"], USER),
    ]
}

/// The state that every statement's is a copy of.
///
/// # Errors
/// If a function or a schema cannot be registered.
pub(super) fn base_state(
    config: SessionConfig,
    runtime: Arc<RuntimeEnv>,
    public: Arc<dyn SchemaProvider>,
    system: Arc<dyn SchemaProvider>,
) -> Result<SessionState> {
    // Before types are coerced: rules that need a statement's expressions as written, such as those of literals and
    // decimals. After it: rules that need the coerced types.
    let mut rules = before_coercion();
    rules.extend(Analyzer::new().rules);
    let after: [Rule; 12] = [
        Arc::new(SetComparisonNames),
        Arc::new(InLists),
        Arc::new(InSubqueries),
        Arc::new(SubqueryValues),
        Arc::new(IntegerBounds),
        Arc::new(Casts),
        Arc::new(NarrowingCasts),
        Arc::new(CheckedIntegers),
        Arc::new(IntervalOrder),
        Arc::new(JsonCopies),
        Arc::new(DocumentOrder),
        Arc::new(ColumnsFirst),
    ];
    rules.extend(after);
    if let Some(rule) = FloatOrder::new() {
        rules.push(Arc::new(rule));
    }
    rules.push(Arc::new(CorrelatedKeys));
    let state = SessionStateBuilder::new_with_default_features()
        .with_config(config)
        .with_runtime_env(runtime)
        .with_analyzer_rules(rules)
        .with_type_planner(Arc::new(TypeNames))
        .with_optimizer_rules(optimizer_rules())
        .with_physical_optimizer_rules(physical_rules())
        .with_physical_optimizer_rule(Arc::new(NestedSorts))
        .with_physical_optimizer_rule(Arc::new(Separate::default()))
        .build();
    let context = SessionContext::new_with_state(state);
    context.register_udf(Coalesce::default().into());
    context.register_udf(RandomUuids::default().into());
    for constant in constants() {
        context.register_udf(constant.into());
    }
    context.register_udaf(AggregateUDF::clone(&bool_and_udaf()).with_aliases(["every"]));
    register_operators(&context)?;
    context.state_ref().write().register_relation_planner(Arc::new(MergedColumns))?;
    register_functions(&context);
    written_functions().for_each(|function| context.register_udf(function));
    register_stand_ins(&context)?;
    register_growing_functions(&context)?;
    context.state_ref().write().register_file_format(Arc::new(CsvCopyFactory::default()), true)?;
    let schemas = MemoryCatalogProvider::new();
    schemas.register_schema(SCHEMA, public)?;
    schemas.register_schema(SYSTEM, system)?;
    context.register_catalog(CATALOG, Arc::new(schemas));
    Ok(context.state())
}
