//! The schema `system`: this engine's tables about itself, and those of others.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::{SchemaProvider, TableProvider};
use datafusion::common::Result;

use super::tables::TABLES;
use crate::query::Resources;

/// The schema `system`.
#[derive(Debug)]
pub(crate) struct SystemSchema {
    resources: Arc<Resources>,
    /// Tables about what this engine does not know, by name.
    others: Vec<(String, Arc<dyn TableProvider>)>,
}

impl SystemSchema {
    pub(crate) fn new(resources: Arc<Resources>, others: Vec<(String, Arc<dyn TableProvider>)>) -> Self {
        Self { resources, others }
    }
}

#[async_trait]
impl SchemaProvider for SystemSchema {
    fn table_names(&self) -> Vec<String> {
        let others = self.others.iter().map(|(name, _)| name.clone());
        TABLES.iter().map(|(name, _)| (*name).to_owned()).chain(others).collect()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        if let Some((_, make)) = TABLES.iter().find(|(known, _)| *known == name) {
            return Ok(Some(make(&self.resources)));
        }
        let other = self.others.iter().find(|(known, _)| known == name);
        Ok(other.map(|(_, table)| Arc::clone(table)))
    }

    fn table_exist(&self, name: &str) -> bool {
        TABLES.iter().any(|(known, _)| *known == name) || self.others.iter().any(|(known, _)| known == name)
    }
}
