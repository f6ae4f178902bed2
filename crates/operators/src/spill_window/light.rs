//! The columns of rows that window functions read.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, UInt64Array, new_null_array};
use arrow::compute::kernels::cmp::distinct;
use arrow::compute::partition;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::window::WindowExpr;

/// What becomes of a column.
enum Use {
    /// No function reads it.
    No,
    /// A function reads its values.
    Values,
    /// It is a key, of which only the order matters: which rows are equal, and which come first. A number of its value
    /// stands for it, and is smaller where the order is descending.
    Order { is_descending: bool, last: Option<ArrayRef>, number: u64 },
}

/// Makes light rows: with the columns at their places, of which those that no function reads have no values.
pub(super) struct Light {
    uses: Vec<Use>,
    schema: SchemaRef,
}

impl Light {
    /// For functions over rows of `schema`, that come in the order of the functions' keys.
    pub(super) fn of(windows: &[Arc<dyn WindowExpr>], schema: &SchemaRef) -> Light {
        // A column's direction if it is a key and nothing else.
        let mut keys: Vec<Option<bool>> = vec![None; schema.fields().len()];
        let mut values = HashSet::new();
        let note = |values: &mut HashSet<usize>, expr: &Arc<dyn PhysicalExpr>| {
            values.extend(collect_columns(expr).iter().map(Column::index));
        };
        for window in windows {
            window.expressions().iter().for_each(|argument| note(&mut values, argument));
            for key in window.partition_by() {
                match key.downcast_ref::<Column>() {
                    Some(column) => _ = keys[column.index()].get_or_insert(false),
                    None => note(&mut values, key),
                }
            }
            for sort in window.order_by() {
                match sort.expr.downcast_ref::<Column>() {
                    Some(column) => {
                        let descending = keys[column.index()].get_or_insert(sort.options.descending);
                        if *descending != sort.options.descending {
                            values.insert(column.index());
                        }
                    }
                    None => note(&mut values, &sort.expr),
                }
            }
        }
        let is_text = |data_type: &DataType| matches!(data_type, DataType::Utf8View | DataType::BinaryView);
        let uses: Vec<Use> = (keys.into_iter().enumerate())
            .map(|(at, key)| match key {
                _ if values.contains(&at) => Use::Values,
                None => Use::No,
                // Numbers may be what a range of values is counted from, and keep no buffers of other rows.
                Some(is_descending) if is_text(schema.field(at).data_type()) => {
                    Use::Order { is_descending, last: None, number: 0 }
                }
                Some(_) => Use::Values,
            })
            .collect();
        let field = |(field, used): (&Arc<Field>, &Use)| match used {
            Use::No => Arc::new(Field::new(field.name(), DataType::Null, true)),
            Use::Values => Arc::clone(field),
            Use::Order { .. } => Arc::new(Field::new(field.name(), DataType::UInt64, false)),
        };
        let fields: Vec<Arc<Field>> = schema.fields().iter().zip(&uses).map(field).collect();
        Light { schema: Arc::new(Schema::new(fields)), uses }
    }

    /// The columns of light rows.
    pub(super) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The light form of the next rows.
    pub(super) fn rows(&mut self, batch: &RecordBatch) -> Result<RecordBatch> {
        let rows = batch.num_rows();
        let columns = self.uses.iter_mut().zip(batch.columns()).map(|(used, column)| match used {
            Use::No => Ok(new_null_array(&DataType::Null, rows)),
            Use::Values => Ok(Arc::clone(column)),
            Use::Order { is_descending, last, number } => numbers(column, *is_descending, last, number),
        });
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?)
    }
}

/// A number for each value: the next one wherever the value is another than in the row before.
fn numbers(column: &ArrayRef, is_descending: bool, last: &mut Option<ArrayRef>, number: &mut u64) -> Result<ArrayRef> {
    let mut made = Vec::with_capacity(column.len());
    for (at, range) in partition(std::slice::from_ref(column))?.ranges().into_iter().enumerate() {
        let is_next = match &*last {
            Some(last) if at == 0 => distinct(last, &column.slice(0, 1))?.value(0),
            _ => true,
        };
        *number += u64::from(is_next);
        let shown = if is_descending { u64::MAX - *number } else { *number };
        made.extend(std::iter::repeat_n(shown, range.len()));
    }
    if !column.is_empty() {
        // Without the buffers of the other rows.
        *last = Some(arrow::compute::take(column, &UInt64Array::from(vec![column.len() as u64 - 1]), None)?);
        *last = last.take().map(alone);
    }
    Ok(Arc::new(UInt64Array::from(made)))
}

/// A column without the bytes of rows that are not in it.
pub(super) fn alone(column: ArrayRef) -> ArrayRef {
    use arrow::array::AsArray;
    if let Some(texts) = column.as_string_view_opt() {
        return Arc::new(texts.gc());
    }
    match column.as_binary_view_opt() {
        Some(values) => Arc::new(values.gc()),
        None => column,
    }
}
