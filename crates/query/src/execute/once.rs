//! Work that all output partitions of an operator wait for.

use std::fmt;
use std::sync::Arc;

use datafusion::common::runtime::SpawnedTask;
use datafusion::common::{DataFusionError, Result};
use futures::future::{BoxFuture, FutureExt, Shared};
use hobt_base::SqlError;
use parking_lot::Mutex;

use crate::wrap::external;

/// What all who wait for it get.
pub(super) type Once<T> = Shared<BoxFuture<'static, std::result::Result<T, Arc<DataFusionError>>>>;

/// What is made when the first partition asks, and let go when all have.
pub(super) struct Common<T> {
    /// What was begun, and how many have still to ask.
    begun: Mutex<Option<(Once<T>, usize)>>,
}

impl<T> Default for Common<T> {
    fn default() -> Common<T> {
        Common { begun: Mutex::default() }
    }
}

impl<T> fmt::Debug for Common<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Common")
    }
}

impl<T: Clone + Send + Sync + 'static> Common<T> {
    /// What so many partitions wait for; `making` begins it.
    ///
    /// A task of its own makes it and wakes all that wait: one of them would wake the others behind itself, onto its
    /// own worker, and they would wait there until it has read all that there is.
    ///
    /// # Errors
    /// That of `making`.
    pub(super) fn get<F>(&self, partitions: usize, making: impl FnOnce() -> Result<F>) -> Result<Once<T>>
    where
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let mut begun = self.begun.lock();
        let (once, left) = match begun.take() {
            Some(known) => known,
            None => {
                let making = making()?;
                let made = async move {
                    let made = SpawnedTask::spawn(making).join_unwind().await;
                    made.map_err(|_cancelled| external(SqlError::cancelled())).flatten().map_err(Arc::new)
                };
                (made.boxed().shared(), partitions)
            }
        };
        if left > 1 {
            *begun = Some((once.clone(), left - 1));
        }
        Ok(once)
    }
}
