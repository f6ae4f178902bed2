//! Rows that a program computes, as a table of a query.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::Result;
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::datasource::{MemTable, TableType, provider_as_source};
use datafusion::logical_expr::{Expr, TableSource};
use datafusion::physical_plan::ExecutionPlan;
use hobt_base::SqlError;
use hobt_udf::{external, sql_error_of};

/// Rows that a query can read.
pub type RowSource = Arc<dyn TableSource>;

/// Computes all rows.
pub type ComputeRows = Box<dyn Fn() -> Result<RecordBatch, SqlError> + Send + Sync>;

/// Rows that are computed when their scan is planned, so that a statement sees a single state of them.
///
/// `compute` returns one batch with the columns of `schema`.
pub fn computed_rows(schema: SchemaRef, compute: ComputeRows) -> RowSource {
    provider_as_source(Arc::new(ComputedRows { schema, compute }))
}

/// Rows that are in memory.
///
/// # Errors
/// An internal error if a batch has other columns than `schema`.
pub fn rows_in_memory(schema: SchemaRef, batches: Vec<RecordBatch>) -> Result<RowSource, SqlError> {
    let table = MemTable::try_new(schema, vec![batches]).map_err(sql_error_of)?;
    Ok(provider_as_source(Arc::new(table)))
}

struct ComputedRows {
    schema: SchemaRef,
    compute: ComputeRows,
}

impl fmt::Debug for ComputedRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ComputedRows").field("schema", &self.schema).finish_non_exhaustive()
    }
}

#[async_trait]
impl TableProvider for ComputedRows {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::View
    }

    async fn scan(
        &self,
        _: &dyn Session,
        projection: Option<&Vec<usize>>,
        _: &[Expr],
        _: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let batch = (self.compute)().map_err(external)?;
        Ok(MemorySourceConfig::try_new_exec(&[vec![batch]], Arc::clone(&self.schema), projection.cloned())?)
    }
}
