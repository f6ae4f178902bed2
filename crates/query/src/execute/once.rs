//! Work that several partitions of an operator wait for.

use std::sync::Arc;

use datafusion::common::runtime::SpawnedTask;
use datafusion::common::{DataFusionError, Result};
use futures::future::{BoxFuture, FutureExt, Shared};
use hobt_base::SqlError;

use crate::wrap::external;

/// What all who wait for it get.
pub(super) type Once<T> = Shared<BoxFuture<'static, std::result::Result<T, Arc<DataFusionError>>>>;

/// `making` for many. It begins when the first asks.
///
/// A task of its own makes it and wakes all that wait for it: one of them would wake the others behind itself, onto its
/// own worker, and they would wait there until it has read all that there is.
pub(super) fn once<T>(making: impl Future<Output = Result<T>> + Send + 'static) -> Once<T>
where
    T: Clone + Send + Sync + 'static,
{
    let made = async move {
        let made = SpawnedTask::spawn(making).join_unwind().await;
        made.map_err(|_cancelled| external(SqlError::cancelled())).flatten().map_err(Arc::new)
    };
    made.boxed().shared()
}
