//! Async front of a row session: statements on blocking threads, cancellation, and the state of the transaction.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use datafusion::common::Result;
use parking_lot::Mutex;
use thermocline_transactions::database::RowSession;
use thermocline_transactions::interrupt::{Cause, Interrupt};
use thermocline_transactions::schema::Schema;

use super::store::RowStore;
use crate::bridge::{blocking, external};

/// Row engine side of a session, with its open transaction. The row engine is started by the first statement.
///
/// Work that waits for partitions runs on threads for blocking work.
#[derive(Clone)]
pub struct AsyncRowSession {
    shared: Arc<Shared>,
}

struct Shared {
    store: Arc<RowStore>,
    /// `None` before the first statement.
    session: Mutex<Option<RowSession>>,
    /// Interrupt of the running statement; `None` if idle.
    running: Arc<Mutex<Option<Arc<Interrupt>>>>,
    /// Whether a transaction is open, as of the last statement.
    in_transaction: AtomicBool,
    /// Whether the transaction has failed and accepts only `ROLLBACK`.
    has_failed: AtomicBool,
}

impl fmt::Debug for AsyncRowSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AsyncRowSession").field("in_transaction", &self.in_transaction()).finish_non_exhaustive()
    }
}

impl AsyncRowSession {
    /// A session of this row engine.
    pub fn new(store: Arc<RowStore>) -> Self {
        Self::with_running(store, Arc::default())
    }

    fn with_running(store: Arc<RowStore>, running: Arc<Mutex<Option<Arc<Interrupt>>>>) -> Self {
        let shared = Shared {
            store,
            session: Mutex::default(),
            running,
            in_transaction: AtomicBool::new(false),
            has_failed: AtomicBool::new(false),
        };
        Self { shared: Arc::new(shared) }
    }

    /// A session of the same row engine for the transaction of one statement of this session, which
    /// [`cancel`](Self::cancel) of this one stops.
    pub fn beside(&self) -> Self {
        Self::with_running(Arc::clone(self.store()), Arc::clone(&self.shared.running))
    }

    /// The row engine.
    pub fn store(&self) -> &Arc<RowStore> {
        &self.shared.store
    }

    /// Waits for the end of recovery.
    ///
    /// # Errors
    /// The error of recovery, or of `interrupt`.
    pub async fn recovered(&self, interrupt: &Arc<Interrupt>) -> Result<()> {
        let (store, interrupt) = (Arc::clone(self.store()), Arc::clone(interrupt));
        blocking(move || store.recovered(&interrupt)).await?.map_err(external)
    }

    /// The current definitions of row tables; empty during [recovery](AsyncRowSession::recovered).
    pub fn schema(&self) -> Schema {
        self.shared.store.schema()
    }

    /// Whether a transaction is open.
    pub fn in_transaction(&self) -> bool {
        self.shared.in_transaction.load(Ordering::Relaxed)
    }

    /// Whether an open transaction has failed and accepts only `ROLLBACK`.
    pub fn has_failed(&self) -> bool {
        self.shared.has_failed.load(Ordering::Relaxed)
    }

    /// Stops the running statement; false if idle.
    pub fn cancel(&self) -> bool {
        let running = self.shared.running.lock();
        running.as_ref().map(|interrupt| interrupt.stop(Cause::User)).is_some()
    }

    /// Runs a statement. It is stopped by `interrupt`, by [`AsyncRowSession::cancel`], or by dropping the future, in which
    /// case its outcome is unknown.
    ///
    /// # Errors
    /// As [`AsyncRowSession::run`].
    pub async fn statement<T: Send + 'static>(
        &self,
        interrupt: &Arc<Interrupt>,
        work: impl FnOnce(&mut RowSession) -> thermocline_transactions::Result<T> + Send + 'static,
    ) -> Result<T> {
        *self.shared.running.lock() = Some(Arc::clone(interrupt));
        self.until(interrupt, work).await
    }

    /// Runs work that does not occupy the session, which the query that feeds it may need. Stopped as in
    /// [`AsyncRowSession::statement`].
    ///
    /// # Errors
    /// Errors of `work`.
    pub async fn without_session<T: Send + 'static>(
        &self,
        interrupt: &Arc<Interrupt>,
        work: impl FnOnce() -> thermocline_transactions::Result<T> + Send + 'static,
    ) -> Result<T> {
        *self.shared.running.lock() = Some(Arc::clone(interrupt));
        let mut stop = StopOnDrop { shared: &self.shared, interrupt, is_over: false };
        let result = blocking(work).await;
        stop.is_over = true;
        result?.map_err(external)
    }

    /// Runs the row engine part of an analytic query. The analytic engine enforces the time limit: it drops this
    /// future, which stops the work.
    ///
    /// # Errors
    /// As [`AsyncRowSession::run`].
    pub async fn part<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut RowSession) -> thermocline_transactions::Result<T> + Send + 'static,
    ) -> Result<T> {
        self.until(&Arc::new(Interrupt::new(None)), work).await
    }

    async fn until<T: Send + 'static>(
        &self,
        interrupt: &Arc<Interrupt>,
        work: impl FnOnce(&mut RowSession) -> thermocline_transactions::Result<T> + Send + 'static,
    ) -> Result<T> {
        let mut stop = StopOnDrop { shared: &self.shared, interrupt, is_over: false };
        let interrupt = Arc::clone(interrupt);
        let result = self.run(move |session| session.as_one_statement(interrupt, work)).await;
        stop.is_over = true;
        result
    }

    /// Runs uninterruptible work.
    ///
    /// # Errors
    /// Errors of `work`, and if the row engine cannot be started.
    pub async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut RowSession) -> thermocline_transactions::Result<T> + Send + 'static,
    ) -> Result<T> {
        let shared = Arc::clone(&self.shared);
        blocking(move || shared.run(work)).await?.map_err(external)
    }

    /// Ends the session and rolls back its transaction.
    ///
    /// # Errors
    /// If the rollback panics, which is a bug.
    pub async fn close(&self) -> Result<()> {
        let shared = Arc::clone(&self.shared);
        blocking(move || drop(shared.session.lock().take())).await
    }

    /// Marks an open transaction as failed, like an error of a statement.
    pub async fn fail(&self) {
        if self.in_transaction() {
            let shared = Arc::clone(&self.shared);
            let failed = blocking(move || {
                if let Some(session) = &mut *shared.session.lock() {
                    session.fail();
                    shared.has_failed.store(session.has_failed(), Ordering::Relaxed);
                }
            });
            if let Err(error) = failed.await {
                tracing::error!("a transaction was not ended: {error}");
            }
        }
    }
}

/// Guard that stops a statement whose future is dropped.
struct StopOnDrop<'a> {
    shared: &'a Shared,
    interrupt: &'a Arc<Interrupt>,
    is_over: bool,
}

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.interrupt.stop(Cause::User);
        }
        self.shared.running.lock().take_if(|running| Arc::ptr_eq(running, self.interrupt));
    }
}

impl Shared {
    fn run<T>(
        &self,
        work: impl FnOnce(&mut RowSession) -> thermocline_transactions::Result<T>,
    ) -> thermocline_transactions::Result<T> {
        let mut session = self.session.lock();
        let session = match &mut *session {
            Some(session) => session,
            none => none.insert(self.store.engine()?.session()),
        };
        let result = work(session);
        self.in_transaction.store(session.in_transaction(), Ordering::Relaxed);
        self.has_failed.store(session.has_failed(), Ordering::Relaxed);
        result
    }
}
