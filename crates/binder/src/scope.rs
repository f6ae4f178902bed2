//! The names that `FROM` defines, and how they are resolved.

use std::collections::HashMap;
use std::rc::Rc;

use datafusion::common::Column;
use datafusion::logical_expr::Expr;
use hobt_base::{Position, SqlError, errors};
use hobt_functions::carrier;
use hobt_tsql::ast::{ColumnName, CommonTableExpression, Identifier, NamedWindow, ObjectName};
use hobt_types::{SqlType, Value};

use super::assignment::Assigned;
use super::bound::{BoundExpr, ExprCollation};
use super::stored::Stored;

/// A column that a query can name.
#[derive(Clone, Debug)]
pub(super) struct ScopeColumn {
    /// The name as the user knows it; a derived column without a name has none.
    pub(super) name: Option<String>,
    /// The column in the plan.
    pub(super) column: Column,
    pub(super) sql_type: SqlType,
    pub(super) nullable: bool,
    pub(super) collation: ExprCollation,
    /// Its value, if that is known and the same in every row.
    pub(super) literal: Option<Value>,
}

/// One source of `FROM`.
#[derive(Clone, Debug)]
pub(super) struct ScopeTable {
    /// The alias, or the table's name.
    pub(super) name: Option<String>,
    /// The full name if the table has no alias: `dbo.t.c` is resolved by it.
    pub(super) full: Option<ObjectName>,
    pub(super) columns: Vec<ScopeColumn>,
    /// The stored rows that a change of the source changes.
    pub(super) stored: Stored,
    /// Whether its columns must be qualified with its name: `inserted` and `deleted`.
    pub(super) only_qualified: bool,
}

/// A column of a source, by the name that the query over the source can use.
#[derive(Clone, Debug)]
pub(super) struct SourceName {
    /// The source, without its columns.
    table: ScopeTable,
    column: String,
}

impl SourceName {
    /// Whether `name`, qualified with the source's name, denotes the column.
    pub(super) fn is_named(&self, name: &ColumnName) -> bool {
        let qualifier = name.qualifier.as_ref();
        same_name(&self.column, &name.name.value) && qualifier.is_some_and(|source| self.table.answers_to(source))
    }
}

/// The sources of one `FROM`.
#[derive(Clone, Debug, Default)]
pub(super) struct Scope {
    pub(super) tables: Vec<ScopeTable>,
}

/// The scopes of the queries around a subquery, from the inside out.
#[derive(Clone, Copy)]
pub(super) struct Outer<'p> {
    pub(super) scope: &'p Scope,
    pub(super) parent: Option<&'p Outer<'p>>,
}

/// A common table expression, with the names that it can use.
pub(super) struct Cte {
    pub(super) definition: CommonTableExpression,
    /// The common table expressions before it.
    pub(super) before: CteList,
    /// The rows that its recursive member reads; set while the expression itself is bound.
    pub(super) work_table: Option<ScopeTable>,
}

/// Common table expressions, the nearest first.
pub(super) type CteList = Option<Rc<CteNode>>;

/// A node of a [`CteList`].
pub(super) struct CteNode {
    pub(super) cte: Cte,
    pub(super) next: CteList,
}

/// The names that a query can use from outside itself.
#[derive(Clone, Default)]
pub(super) struct Names<'p> {
    /// Columns of the queries around it.
    pub(super) outer: Option<&'p Outer<'p>>,
    /// Common table expressions.
    pub(super) ctes: CteList,
    /// The parameters of the inline function whose body the query is.
    pub(super) parameters: Option<Rc<HashMap<String, BoundExpr>>>,
    /// The named windows of the enclosing `SELECT`.
    pub(super) windows: &'p [NamedWindow],
    /// The variables that the select list assigns, while it is bound.
    pub(super) assigned: Option<Assigned<'p>>,
    /// Whether the sources of `FROM` must give the positions of their rows, because the statement changes one of them.
    pub(super) places: bool,
}

/// Whether two names are equal under the default collation.
pub(super) fn same_name(left: &str, right: &str) -> bool {
    left == right || left.eq_ignore_ascii_case(right) || left.to_lowercase() == right.to_lowercase()
}

fn same_part(wanted: &Option<Identifier>, have: &Option<Identifier>) -> bool {
    match (wanted, have) {
        (Some(wanted), Some(have)) => same_name(&wanted.value, &have.value),
        // A part that one of the two omits counts as equal.
        _ => true,
    }
}

impl ScopeTable {
    /// A source that cannot be changed.
    pub(super) fn new(name: Option<String>, full: Option<ObjectName>, columns: Vec<ScopeColumn>) -> ScopeTable {
        ScopeTable { name, full, columns, stored: Stored::Computed, only_qualified: false }
    }

    /// Whether `qualifier` denotes this source.
    pub(super) fn answers_to(&self, qualifier: &ObjectName) -> bool {
        match (&self.full, &self.name, qualifier.as_simple()) {
            (_, Some(name), Some(simple)) => same_name(name, &simple.value),
            (Some(full), _, None) => {
                same_name(&full.name.value, &qualifier.name.value)
                    && same_part(&qualifier.schema, &full.schema)
                    && same_part(&qualifier.database, &full.database)
            }
            _ => false,
        }
    }
}

impl Scope {
    /// All columns, in order.
    pub(super) fn columns(&self) -> impl Iterator<Item = &ScopeColumn> {
        self.tables.iter().flat_map(|table| &table.columns)
    }

    /// Adds the sources of another scope after these.
    ///
    /// # Errors
    /// 1013 if two sources have the same name.
    pub(super) fn extend(&mut self, other: Scope) -> Result<(), SqlError> {
        for table in other.tables {
            if let Some(name) = &table.name {
                let same = |known: &&ScopeTable| {
                    let schemas = match (&known.full, &table.full) {
                        (Some(a), Some(b)) => same_part(&a.schema, &b.schema) && same_part(&a.database, &b.database),
                        (None, None) => true,
                        _ => true,
                    };
                    known.name.as_deref().is_some_and(|other| same_name(other, name)) && schemas
                };
                if let Some(known) = self.tables.iter().find(same) {
                    let known = known.name.as_deref().unwrap_or_default();
                    return Err(errors::SAME_EXPOSED_NAMES.with([&known, &name]));
                }
            }
            self.tables.push(table);
        }
        Ok(())
    }

    /// The column that a name denotes here; `None` if no source has it.
    fn find(&self, name: &ColumnName) -> Result<Option<&ScopeColumn>, SqlError> {
        let mut found = None;
        for table in &self.tables {
            let is_meant = match &name.qualifier {
                Some(qualifier) => table.answers_to(qualifier),
                None => !table.only_qualified,
            };
            if !is_meant {
                continue;
            }
            for column in &table.columns {
                if column.name.as_deref().is_some_and(|known| same_name(known, &name.name.value)) {
                    if found.is_some() {
                        return Err(errors::AMBIGUOUS_COLUMN.with([&name.name.value]));
                    }
                    found = Some(column);
                }
            }
        }
        Ok(found)
    }

    /// The name of a column of the plan; `None` if it belongs to no source or has no name.
    pub(super) fn source_name(&self, column: &Column) -> Option<SourceName> {
        self.tables.iter().find_map(|table| {
            let found = table.columns.iter().find(|known| known.column == *column)?;
            let source = ScopeTable::new(table.name.clone(), table.full.clone(), Vec::new());
            Some(SourceName { table: source, column: found.name.clone()? })
        })
    }

    /// Whether a source has the qualifier as its name.
    fn knows(&self, qualifier: &ObjectName) -> bool {
        self.tables.iter().any(|table| table.answers_to(qualifier))
    }

    /// It for rows whose columns may be NULL where they had one value: those of grouping sets.
    pub(super) fn without_literals(mut self) -> Scope {
        self.tables.iter_mut().flat_map(|table| &mut table.columns).for_each(|column| column.literal = None);
        self
    }

    /// How the user names a column of the plan, `t.c`, for messages.
    pub(super) fn display_name(&self, column: &Column) -> Option<String> {
        self.tables.iter().find_map(|table| {
            let found = table.columns.iter().find(|known| known.column == *column)?;
            let name = found.name.as_deref()?;
            Some(match &table.name {
                Some(table) => format!("{table}.{name}"),
                None => name.to_string(),
            })
        })
    }
}

impl ScopeColumn {
    pub(super) fn bound(&self, position: Position) -> BoundExpr {
        let mut bound = BoundExpr::new(Expr::Column(self.column.clone()), self.sql_type, self.nullable, position)
            .with_collation(self.collation);
        bound.literal = self.literal.clone();
        bound
    }

    /// Makes the column nullable, because an outer join can return NULL for it.
    pub(super) fn pad(&mut self) {
        self.nullable = true;
        self.literal = None;
    }

    fn bound_outer(&self, position: Position) -> BoundExpr {
        let field = arrow::datatypes::Field::new(&self.column.name, carrier(self.sql_type), true);
        let expr = Expr::OuterReferenceColumn(field.into(), self.column.clone());
        BoundExpr::new(expr, self.sql_type, self.nullable, position).with_collation(self.collation)
    }
}

/// `t.c` as the user wrote it.
fn written(name: &ColumnName) -> String {
    let mut text = String::new();
    if let Some(qualifier) = &name.qualifier {
        let parts = [&qualifier.server, &qualifier.database, &qualifier.schema];
        for part in parts.into_iter().flatten() {
            text.push_str(&part.value);
            text.push('.');
        }
        text.push_str(&qualifier.name.value);
        text.push('.');
    }
    text.push_str(&name.name.value);
    text
}

/// The expression that a column's name denotes, here or in an enclosing query.
///
/// # Errors
/// Errors 207, 209, 4104.
pub(super) fn resolve_column(
    scope: &Scope,
    outer: Option<&Outer<'_>>,
    name: &ColumnName,
) -> Result<BoundExpr, SqlError> {
    let position = name.position();
    let at = |error: SqlError| error.at(position);
    if let Some(column) = scope.find(name).map_err(at)? {
        return Ok(column.bound(position));
    }
    let mut level = outer;
    let mut known = name.qualifier.as_ref().is_some_and(|qualifier| scope.knows(qualifier));
    while let Some(outer) = level.filter(|_| !known) {
        if let Some(column) = outer.scope.find(name).map_err(at)? {
            return Ok(column.bound_outer(position));
        }
        known = name.qualifier.as_ref().is_some_and(|qualifier| outer.scope.knows(qualifier));
        level = outer.parent;
    }
    Err(at(match &name.qualifier {
        Some(_) if !known => errors::MULTI_PART_IDENTIFIER.with([&written(name)]),
        _ => invalid_column(&name.name.value),
    }))
}

/// Error 207.
pub(super) fn invalid_column(name: &str) -> SqlError {
    errors::INVALID_COLUMN.with([&name])
}
