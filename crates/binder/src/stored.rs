//! Finds the stored rows behind a source of `FROM`, so that a statement can change them: those of a table, or those of
//! the single table that a derived table, common table expression or view reads row by row.
//!
//! After its visible columns, such a source has the position of each row and all columns of the table. If the statement
//! does not use them, they cost nothing: the optimiser removes them from the scan.
//!
//! ```text
//!   DELETE d FROM (SELECT a, ROW_NUMBER() OVER (…) AS n FROM t) AS d WHERE n > 1
//!     d: a, n │ place, t.a, t.b, …
//! ```

use std::fmt;
use std::sync::Arc;

use datafusion::common::Column;
use datafusion::logical_expr::Expr;

use super::Binder;
use super::scope::{Scope, ScopeColumn};
use crate::item::Item;
use hobt_table::TableRead;

/// The rows behind a source.
#[derive(Clone, Debug)]
pub(super) enum Stored {
    /// Each row of the source is one of these stored rows.
    Rows(Box<StoredRows>),
    /// Its rows are groups, or distinct.
    Grouped,
    /// Its rows come from several tables.
    Joined,
    /// It is a system view, or a function.
    System,
    /// Its rows are in files.
    Files,
    /// Its rows are computed in another way, or its stored rows were not asked for.
    Computed,
}

/// The rows of a table behind a source.
#[derive(Clone)]
pub(super) struct StoredRows {
    /// The table.
    pub(super) table: Arc<TableRead>,
    /// The column with the position of a row.
    pub(super) place: Column,
    /// All columns of the table, in its order.
    pub(super) columns: Vec<ScopeColumn>,
    /// For each of the source's columns, the index of the table's column; `None` for a computed column.
    pub(super) shown: Vec<Option<usize>>,
}

impl fmt::Debug for StoredRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoredRows").field("place", &self.place).finish_non_exhaustive()
    }
}

impl Stored {
    /// A table's own rows.
    pub(super) fn of_table(table: Arc<TableRead>, place: Column, columns: &[ScopeColumn]) -> Stored {
        let shown = (0..columns.len()).map(Some).collect();
        Stored::Rows(Box::new(StoredRows { table, place, columns: columns.to_vec(), shown }))
    }
}

impl Binder<'_> {
    /// The stored rows behind a `SELECT` of `items`. The columns that it must return for them are added to `parts`.
    pub(super) fn stored_through(
        &self,
        scope: &Scope,
        items: &[Item],
        is_grouped: bool,
        parts: &mut Vec<(Expr, String)>,
    ) -> Stored {
        let [source] = scope.tables.as_slice() else {
            return if scope.tables.is_empty() { Stored::Computed } else { Stored::Joined };
        };
        if is_grouped {
            return Stored::Grouped;
        }
        let Stored::Rows(below) = &source.stored else { return source.stored.clone() };
        let mut show = |column: &Column| {
            let name = self.fresh(&column.name);
            parts.push((Expr::Column(column.clone()), name.clone()));
            Column::new_unqualified(name)
        };
        let place = show(&below.place);
        let columns = below.columns.iter().map(|known| ScopeColumn { column: show(&known.column), ..known.clone() });
        let columns = columns.collect();
        let shown = items.iter().map(|item| {
            let Expr::Column(column) = &item.value.expr else { return None };
            let at = source.columns.iter().position(|known| known.column == *column)?;
            below.shown.get(at).copied().flatten()
        });
        let shown = shown.collect();
        Stored::Rows(Box::new(StoredRows { table: Arc::clone(&below.table), place, columns, shown }))
    }
}
