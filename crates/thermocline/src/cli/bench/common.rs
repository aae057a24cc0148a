//! Arguments of all benches, and the sessions in which they measure.

use std::path::PathBuf;

use datafusion::common::Result as DataFusionResult;
use thermocline_database::{Database, OpenOptions, Session, check_setting};
use thermocline_pushdown::Mode;
use thermocline_workloads::Workload;
use thermocline_workloads::generate::{Format, create_table_sql};

use super::super::Failure;
use super::super::sql::assignment;

/// Arguments of every bench of queries.
#[derive(Debug, Clone, clap::Args)]
pub struct CommonArgs {
    /// Use small data and few runs, under a minute, unless other arguments say otherwise
    #[arg(long)]
    pub quick: bool,
    /// Keep generated data in this directory between runs [default: a folder of the user's cache]
    #[arg(long)]
    pub data: Option<PathBuf>,
    /// Write one JSON object per query to this file
    #[arg(long)]
    pub json: Option<PathBuf>,
    /// Change a setting, such as price_transferred_gb=0.09, except those that the bench sets itself
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = setting)]
    settings: Vec<(String, String)>,
}

impl CommonArgs {
    /// Refuses settings of `--set` that a bench sets itself: `own`, by name without a prefix.
    ///
    /// # Errors
    /// If there is such a setting.
    pub fn refuse_own(&self, own: &[&str]) -> Result<(), Failure> {
        let given = self.settings.iter().map(|(name, _)| name.strip_prefix("thermocline.").unwrap_or(name));
        match given.into_iter().find(|name| own.iter().any(|own| own.eq_ignore_ascii_case(name))) {
            Some(name) => Err(Failure::Usage(format!("--set {name}: this bench sets {name} itself, see its --help"))),
            None => Ok(()),
        }
    }

    /// A session with the given settings and no tables.
    ///
    /// # Errors
    /// If a setting is invalid.
    pub async fn plain_session(&self) -> DataFusionResult<Session> {
        let options = OpenOptions { settings: self.settings.clone(), ..OpenOptions::default() };
        Ok(Database::open(options, |_| {}).await?.session())
    }

    /// Bytes that the segments of `queries` take when all of them are cached.
    ///
    /// # Errors
    /// If a setting or the location is invalid, or a query fails.
    pub async fn working_set(
        &self,
        workload: &Workload,
        format: Format,
        location: &str,
        queries: impl IntoIterator<Item = &str>,
    ) -> DataFusionResult<usize> {
        let session = self.session(workload, format, location).await?;
        session.database().set("cache_size", "1TiB")?;
        session.set("mode", Mode::Caching.name())?;
        for sql in queries {
            session.run(sql).await?;
        }
        Ok(session.engine().cache().bytes().0)
    }

    /// A session with the given settings and the workload's tables below `location`.
    ///
    /// # Errors
    /// If a setting or the location is invalid.
    pub async fn session(&self, workload: &Workload, format: Format, location: &str) -> DataFusionResult<Session> {
        let session = self.plain_session().await?;
        for table in workload.tables {
            session.run(&create_table_sql(*table, format, &format!("{location}/{table}"))).await?;
        }
        Ok(session)
    }
}

/// A setting that exists, with a valid value as far as that can be checked without a database.
fn setting(text: &str) -> Result<(String, String), String> {
    let (name, value) = assignment(text)?;
    check_setting(&name, &value).map_err(|error| error.to_string())?;
    Ok((name, value))
}
