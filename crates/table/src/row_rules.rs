//! The rules of a table for each of its rows: computed columns that are stored, and `CHECK` constraints.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;
use datafusion::physical_expr::PhysicalExpr;
use hobt_base::SqlError;

use hobt_udf::sql_error_of;

/// A computed column that is stored.
#[derive(Clone, Debug)]
pub struct ComputedRule {
    /// Its position in the table.
    pub column: usize,
    /// Its value, over the table's columns, in its own type.
    pub value: Arc<dyn PhysicalExpr>,
}

/// A `CHECK` constraint that is enabled.
#[derive(Clone, Debug)]
pub struct CheckRule {
    /// Its name.
    pub name: String,
    /// The condition over the table's columns.
    pub condition: Arc<dyn PhysicalExpr>,
    /// The columns that it reads, by their positions.
    pub reads: Vec<usize>,
}

/// The rules of a table, over its stored columns in their carriers.
#[derive(Clone, Debug)]
pub struct RowRules {
    /// The table's columns, any of which may be NULL.
    pub schema: SchemaRef,
    /// Computed columns that are stored.
    pub computed: Vec<ComputedRule>,
    /// Constraints.
    pub checks: Vec<CheckRule>,
}

impl RowRules {
    /// Whether there are no rules.
    pub fn is_empty(&self) -> bool {
        self.computed.is_empty() && self.checks.is_empty()
    }

    fn batch(&self, columns: &[ArrayRef], rows: usize) -> Result<RecordBatch, SqlError> {
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns.to_vec(), &options)
            .map_err(|error| SqlError::internal(error.to_string()))
    }

    /// The values of the computed columns, by their positions.
    pub fn computed(&self, columns: &[ArrayRef], rows: usize) -> Result<Vec<(usize, ArrayRef)>, SqlError> {
        if self.computed.is_empty() {
            return Ok(Vec::new());
        }
        let mut columns = columns.to_vec();
        // The computed columns still have old values. No expression reads them.
        for rule in &self.computed {
            columns[rule.column] = arrow::array::new_null_array(self.schema.field(rule.column).data_type(), rows);
        }
        let batch = self.batch(&columns, rows)?;
        let values = self.computed.iter().map(|rule| {
            let value = rule.value.evaluate(&batch).and_then(|value| value.into_array(rows));
            Ok((rule.column, value.map_err(sql_error_of)?))
        });
        values.collect()
    }

    /// Rejects rows that violate a constraint; `changed` are the columns that change, `None` for new rows.
    ///
    /// # Errors
    /// That of `violation` for the constraint; an error of the constraint's expression.
    pub fn check(
        &self,
        columns: &[ArrayRef],
        rows: usize,
        changed: Option<&[usize]>,
        violation: impl Fn(&CheckRule) -> SqlError,
    ) -> Result<(), SqlError> {
        let concerns =
            |rule: &&CheckRule| changed.is_none_or(|changed| rule.reads.iter().any(|column| changed.contains(column)));
        let mut concerned = self.checks.iter().filter(concerns).peekable();
        if concerned.peek().is_none() {
            return Ok(());
        }
        let batch = self.batch(columns, rows)?;
        for rule in concerned {
            let truth =
                rule.condition.evaluate(&batch).and_then(|value| value.into_array(rows)).map_err(sql_error_of)?;
            let truth = truth.as_boolean_opt().ok_or_else(|| SqlError::internal("a check that is no condition"))?;
            // An unknown result passes.
            if truth.len() > truth.null_count() + truth.true_count() {
                return Err(violation(rule));
            }
        }
        Ok(())
    }
}
