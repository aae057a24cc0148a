//! Running `CREATE INDEX` and `DROP INDEX`.

use std::sync::Arc;

use datafusion::common::Result;
use thermocline_catalog::ExternalTable;
use thermocline_pushdown::user_err;

use super::engine::AnalyticEngine;
use super::execution::is_stale;
use super::options::StatementOptions;
use crate::index::{IndexDefinition, IndexStatement, build, remove_objects};
use crate::query::{QueryContext, ScanMetrics, within};

impl AnalyticEngine {
    /// Runs a statement about indexes. Without `keep` it comes from the catalog: what it defines was
    /// made already, or will be when the table is queried.
    pub(super) async fn index_statement(
        &self,
        statement: IndexStatement,
        keep: bool,
        options: &StatementOptions,
    ) -> Result<()> {
        match statement {
            IndexStatement::Create { definition, .. } if !keep => self.resources.add_index(definition, false),
            IndexStatement::Create { definition, if_not_exists } => {
                if self.resources.indexes.get(&definition.name).is_some() {
                    if if_not_exists {
                        return Ok(());
                    }
                    return user_err!(DuplicateTable, "index {} already exists", definition.name);
                }
                self.create_index(definition, options).await
            }
            IndexStatement::Drop { names, if_exists } => {
                let missing = names.iter().find(|name| self.resources.indexes.get(name).is_none());
                if let Some(missing) = missing.filter(|_| !if_exists) {
                    return user_err!(UndefinedObject, "index \"{missing}\" does not exist");
                }
                for name in names {
                    if let Some(index) = self.resources.drop_index(&name)?
                        && let Some(table) = self.resources.table(&index.table)
                    {
                        self.remove_index_objects(&index, &table).await;
                    }
                }
                Ok(())
            }
        }
    }

    /// Makes the index objects of all of the table's objects, then keeps the definition.
    async fn create_index(&self, definition: IndexDefinition, options: &StatementOptions) -> Result<()> {
        let Some(table) = self.resources.table(&definition.table) else {
            return user_err!(
                UndefinedTable,
                "index {}: table \"{}\" does not exist",
                definition.name,
                definition.table
            );
        };
        definition.check(&table)?;
        let mut attempt = 1;
        let built = loop {
            let context = QueryContext::new(Arc::clone(&self.resources), options.settings(), options.deadline);
            options.current.set(&context);
            let work = build_all(&definition, &table, &context);
            match within(options.deadline, work).await? {
                Err(error) if attempt == 1 && is_stale(&error) => attempt += 1,
                outcome => break outcome?,
            }
        };
        let name = definition.name.clone();
        self.resources.add_index(definition, true)?;
        for (object, report) in built {
            self.resources.indexes.learn(&name, &object, report);
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

type Built = Vec<(Arc<thermocline_catalog::PlannedObject>, thermocline_pushdown::wire::IndexReport)>;

async fn build_all(definition: &IndexDefinition, table: &ExternalTable, context: &QueryContext) -> Result<Built> {
    let snapshot = context.snapshot(table).await?;
    let metrics = ScanMetrics::new();
    let partitions = snapshot.objects.iter().map(|object| object.partitions.len()).sum();
    context.register(metrics.clone(), partitions);
    let partition_size = context.limits().partition_size;
    let mut built = vec![];
    build(definition, table, &snapshot.objects, context.origin(), partition_size, |object, report| {
        metrics.partitions_done.add(object.partitions.len());
        built.push((Arc::clone(object), report));
    })
    .await?;
    Ok(built)
}
