//! Running `CREATE INDEX` and `DROP INDEX`.

use std::sync::Arc;
use std::time::Instant;

use datafusion::common::{Result, plan_err};

use super::query_context::QueryContext;
use super::sql_session::{Session, is_stale};
use super::timeout::within;
use crate::catalog::ExternalTable;
use crate::index::{IndexDefinition, IndexStatement, build, remove_objects};
use crate::scan::ScanMetrics;

impl Session {
    /// Runs a statement about indexes. Without `keep` it comes from the catalog: what it defines was
    /// made already, or will be when the table is queried.
    pub(super) async fn index_statement(
        &self,
        statement: IndexStatement,
        keep: bool,
        deadline: Option<Instant>,
    ) -> Result<()> {
        match statement {
            IndexStatement::Create { definition, .. } if !keep => self.engine().add_index(definition, false),
            IndexStatement::Create { definition, if_not_exists } => {
                if self.engine().indexes.get(&definition.name).is_some() {
                    if if_not_exists {
                        return Ok(());
                    }
                    return plan_err!("index {} already exists", definition.name);
                }
                self.create_index(definition, deadline).await
            }
            IndexStatement::Drop { names, if_exists } => {
                let missing = names.iter().find(|name| self.engine().indexes.get(name).is_none());
                if let Some(missing) = missing.filter(|_| !if_exists) {
                    return plan_err!("there is no index {missing}");
                }
                for name in names {
                    if let Some(index) = self.engine().drop_index(&name)?
                        && let Some(table) = self.engine().table(&index.table)
                    {
                        self.remove_index_objects(&index, &table).await;
                    }
                }
                Ok(())
            }
        }
    }

    /// Makes the index objects of all of the table's objects, then keeps the definition.
    async fn create_index(&self, definition: IndexDefinition, deadline: Option<Instant>) -> Result<()> {
        let Some(table) = self.engine().table(&definition.table) else {
            return plan_err!("index {}: there is no table {}", definition.name, definition.table);
        };
        definition.check(&table)?;
        let mut attempt = 1;
        let built = loop {
            let context = QueryContext::new(Arc::clone(self.engine()), self.settings(), deadline);
            self.set_current(&context);
            let work = build_all(&definition, &table, &context);
            match within(deadline, work).await? {
                Err(error) if attempt == 1 && is_stale(&error) => attempt += 1,
                outcome => break outcome?,
            }
        };
        let name = definition.name.clone();
        self.engine().add_index(definition, true)?;
        for (object, report) in built {
            self.engine().indexes.learn(&name, &object, report);
        }
        Ok(())
    }

    /// Removes what nodes keep of an index that is not defined any more. A node that cannot be
    /// reached keeps files that nobody uses; the definition goes all the same.
    pub(super) async fn remove_index_objects(&self, index: &IndexDefinition, table: &ExternalTable) {
        if let Err(error) = remove_objects(index, table).await {
            tracing::warn!("index {} is dropped, but its objects are not all removed: {error}", index.name);
        }
    }
}

type Built = Vec<(Arc<crate::catalog::PlannedObject>, thermocline_pushdown::wire::IndexReport)>;

async fn build_all(definition: &IndexDefinition, table: &ExternalTable, context: &QueryContext) -> Result<Built> {
    let snapshot = context.snapshot(table).await?;
    let metrics = ScanMetrics::new();
    let partitions = snapshot.objects.iter().map(|object| object.partitions.len()).sum();
    context.register(metrics.clone(), partitions);
    let partition_size = context.settings().partition_size;
    let mut built = vec![];
    build(definition, table, &snapshot.objects, context.origin(), partition_size, |object, report| {
        metrics.partitions_done.add(object.partitions.len());
        built.push((Arc::clone(object), report));
    })
    .await?;
    Ok(built)
}
