//! Sorts rows to be changed by their positions, if they are many and come from all over the table.

use std::sync::Arc;

use arrow::datatypes::{Field, Schema};
use hobt_base::SqlError;
use hobt_functions::carrier;
use hobt_tsql::ast::StatementKind;

use super::failure::Failure;
use crate::changed_keys::ChangedKeys;
use crate::interpreter::Interpreter;
use hobt_binder::{BindOptions, BoundQuery, SourceColumn};
use hobt_operators::{HeldBatches, sorted_by_first};
use hobt_table::StatementRun;

impl Interpreter<'_> {
    /// The rows in the order of their positions, if that is worth it. `query` is the one that has found them.
    pub(super) fn in_place_order(
        &mut self,
        run: &Arc<StatementRun>,
        query: &BoundQuery,
        mut held: HeldBatches,
    ) -> Result<HeldBatches, Failure> {
        // What is computed row by row has columns that the query's list does not tell, and takes rows in any order.
        let is_listed = query.plan.schema().fields().len() == query.columns.len();
        if !held.are_scattered() || !is_listed {
            return Ok(held);
        }
        let column = |(at, column): (usize, &hobt_binder::ResultColumn)| SourceColumn {
            name: format!("c{at}"),
            sql_type: column.sql_type,
            nullable: true,
            collation: column.collation,
        };
        let columns: Vec<SourceColumn> = query.columns.iter().enumerate().map(column).collect();
        let field = |column: &SourceColumn| Field::new(&column.name, carrier(column.sql_type), true);
        let source = held.source(Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>())))?;
        let name = format!("hobt_found_rows_{}", self.changed_keys.len());
        let text = format!("SELECT * FROM {name}");
        self.changed_keys.push(ChangedKeys { name, source, columns, values: Vec::new(), held: Some(held) });
        let sorted = self.sorted(run, &text);
        self.changed_keys.pop();
        sorted
    }

    fn sorted(&mut self, run: &Arc<StatementRun>, text: &str) -> Result<HeldBatches, Failure> {
        let batch = hobt_tsql::parse_batch(text)?;
        let Some(StatementKind::Select(select)) = batch.statements.first().map(|first| &first.kind) else {
            return Err(SqlError::internal("the query over rows to change is none").into());
        };
        let options = BindOptions::default();
        let prepared = self.prepare(run, options, &|binder| binder.bind_query(&select.query), &sorted_by_first)?;
        let mut sorted = HeldBatches::new(run);
        self.run_prepared(run, prepared, &mut |batch| sorted.keep(batch))?;
        Ok(sorted)
    }
}
