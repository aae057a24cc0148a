use std::fmt;
use std::sync::{Arc, Weak};

use async_trait::async_trait;
use datafusion::catalog::{SchemaProvider, TableProvider};
use datafusion::common::Result;
use datafusion::execution::SessionState;
use parking_lot::RwLock;

use super::tables::TABLES;
use crate::session::Engine;
use crate::settings::Settings;

/// The schema `system`.
#[derive(Debug)]
pub(crate) struct SystemSchema {
    engine: Arc<Engine>,
    state: StateRef,
    /// Tables about another engine, by name.
    others: Vec<(String, Arc<dyn TableProvider>)>,
}

/// The session whose settings `system.settings` shows.
#[derive(Clone)]
struct StateRef(Weak<RwLock<SessionState>>);

impl fmt::Debug for StateRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StateRef")
    }
}

impl SystemSchema {
    pub(crate) fn new(
        engine: Arc<Engine>,
        state: Weak<RwLock<SessionState>>,
        others: Vec<(String, Arc<dyn TableProvider>)>,
    ) -> Self {
        Self { engine, state: StateRef(state), others }
    }
}

#[async_trait]
impl SchemaProvider for SystemSchema {
    fn table_names(&self) -> Vec<String> {
        let others = self.others.iter().map(|(name, _)| name.clone());
        TABLES.iter().map(|(name, _)| (*name).to_owned()).chain(others).collect()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let Some((_, make)) = TABLES.iter().find(|(known, _)| *known == name) else {
            let other = self.others.iter().find(|(known, _)| known == name);
            return Ok(other.map(|(_, table)| Arc::clone(table)));
        };
        let settings = match self.state.0.upgrade() {
            Some(state) => state.read().config_options().extensions.get::<Settings>().cloned().unwrap_or_default(),
            None => Settings::default(),
        };
        Ok(Some(make(&self.engine, settings)))
    }

    fn table_exist(&self, name: &str) -> bool {
        TABLES.iter().any(|(known, _)| *known == name) || self.others.iter().any(|(known, _)| known == name)
    }
}
