//! Work that all output partitions of an operator wait for.

use std::fmt;
use std::sync::Arc;

use datafusion::common::{DataFusionError, Result};
use futures::future::{BoxFuture, FutureExt, Shared};
use parking_lot::Mutex;

/// The future result, shared by all waiting partitions.
pub(super) type Once<T> = Shared<BoxFuture<'static, std::result::Result<T, Arc<DataFusionError>>>>;

/// A result that is made when the first partition asks, and dropped when all have asked.
pub(super) struct Common<T> {
    /// The shared result, once it is begun, and how many partitions have still to ask.
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
    /// The result that `partitions` partitions wait for; `making` begins it.
    ///
    /// # Errors
    /// The error of `making`.
    pub(super) fn get<F>(&self, partitions: usize, making: impl FnOnce() -> Result<F>) -> Result<Once<T>>
    where
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let mut begun = self.begun.lock();
        let (once, left) = match begun.take() {
            Some(known) => known,
            None => (making()?.map(|made| made.map_err(Arc::new)).boxed().shared(), partitions),
        };
        if left > 1 {
            *begun = Some((once.clone(), left - 1));
        }
        Ok(once)
    }
}
