//! A system view as a table of the executor.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::Result;
use datafusion::datasource::TableType;
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::logical_expr::Expr;
use datafusion::physical_plan::ExecutionPlan;
use hobt_types::Value;

use super::system_views::{SystemView, ViewContext};
use hobt_binder::SourceColumn;
use hobt_udf::external;

/// A view with the arguments and the database given in a statement.
pub(super) struct ViewTable {
    view: SystemView,
    schema: SchemaRef,
    context: ViewContext,
    arguments: Vec<Value>,
}

impl fmt::Debug for ViewTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ViewTable").field("view", &self.view).finish_non_exhaustive()
    }
}

impl ViewTable {
    pub(super) fn new(view: SystemView, context: ViewContext, arguments: Vec<Value>) -> ViewTable {
        let schema = view.schema();
        ViewTable { view, schema, context, arguments }
    }

    /// The columns, for the binder.
    pub(super) fn columns(&self) -> Vec<SourceColumn> {
        let column = |column: &super::ViewColumn| SourceColumn {
            name: column.name.to_owned(),
            sql_type: column.sql_type,
            nullable: column.nullable,
            collation: column.sql_type.is_text().then(Default::default),
        };
        self.view.columns.iter().map(column).collect()
    }
}

#[async_trait]
impl TableProvider for ViewTable {
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
        let batch = self.view.batch(&self.context, &self.arguments).map_err(external)?;
        let plan = MemorySourceConfig::try_new_exec(&[vec![batch]], Arc::clone(&self.schema), projection.cloned())?;
        Ok(plan)
    }
}
