//! Files, as one statement reads their rows.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableSource};
use hobt_files::{ReadRequest, file_schema};

use crate::StatementRun;

/// Files whose rows one statement reads.
pub struct FileRead {
    request: ReadRequest,
    run: Arc<StatementRun>,
    schema: SchemaRef,
    expected_rows: f64,
}

impl fmt::Debug for FileRead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileRead").field("files", &self.request.files).finish_non_exhaustive()
    }
}

impl FileRead {
    /// The rows that `request` asks for, as the statement `run` reads them; `expected_rows` is an estimate of their
    /// number.
    pub fn new(request: ReadRequest, run: Arc<StatementRun>, expected_rows: f64) -> FileRead {
        FileRead { schema: file_schema(&request.columns), request, run, expected_rows }
    }

    /// The files behind a source of rows; `None` for another kind of source.
    pub fn of(source: &Arc<dyn TableSource>) -> Option<Arc<FileRead>> {
        Arc::downcast(Arc::clone(source) as Arc<dyn Any + Send + Sync>).ok()
    }

    /// What is to be read.
    pub fn request(&self) -> &ReadRequest {
        &self.request
    }

    /// The statement.
    pub fn run(&self) -> &Arc<StatementRun> {
        &self.run
    }

    /// The columns in their carriers.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// About how many rows there are.
    pub fn expected_rows(&self) -> f64 {
        self.expected_rows
    }
}

impl TableSource for FileRead {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn supports_filters_pushdown(&self, conditions: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        // Parts of a file may be left out by their statistics; conditions stay above.
        let answer = match self.request.form.has_statistics() {
            true => TableProviderFilterPushDown::Inexact,
            false => TableProviderFilterPushDown::Unsupported,
        };
        Ok(vec![answer; conditions.len()])
    }
}
