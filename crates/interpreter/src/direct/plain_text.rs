//! Which statements may run without a plan, as far as their text tells.

use hobt_tsql::ast::{
    Delete, Insert, InsertSource, NamedTable, QueryBody, Select, SelectStatement, TableSource, TargetName, Update,
};

/// Whether the text of an `INSERT` is only a table that is no temporary one, columns, and rows of values.
pub(super) fn has_plain_text(insert: &Insert) -> bool {
    let has_values = matches!(insert.source, InsertSource::Values { .. } | InsertSource::DefaultValues);
    let TargetName::Object(name) = &insert.target.name else { return false };
    let is_alone =
        insert.with.is_empty() && insert.top.is_none() && insert.output.is_none() && insert.options.is_empty();
    has_values && is_alone && !name.name.value.starts_with('#')
}

/// The parts of a query of some rows of one table that satisfy a condition. `None` for any other query.
pub(super) fn plain_parts(select: &SelectStatement) -> Option<(&Select, &NamedTable)> {
    let query = &select.query;
    let QueryBody::Select(body) = &query.body else { return None };
    let is_plain = select.options.is_empty()
        && query.with.is_empty()
        && query.order_by.is_empty()
        && query.offset.is_none()
        && !body.distinct
        && body.top.is_none()
        && body.into.is_none()
        && body.condition.is_some()
        && body.group_by.is_none()
        && body.having.is_none()
        && body.windows.is_empty();
    let [TableSource::Table(named)] = body.from.as_slice() else { return None };
    let is_plain_table = named.sample.is_none() && named.hints.is_empty() && !named.name.name.value.starts_with('#');
    (is_plain && is_plain_table).then_some((&**body, &**named))
}

/// Whether an `UPDATE` is only a table, assignments and a condition.
pub(super) fn is_plain_update(update: &Update) -> bool {
    let is_alone = update.with.is_empty() && update.top.is_none() && update.output.is_none();
    is_alone && update.from.is_empty() && update.options.is_empty() && update.condition.is_some()
}

/// Whether a `DELETE` is only a table and a condition.
pub(super) fn is_plain_delete(delete: &Delete) -> bool {
    let is_alone = delete.with.is_empty() && delete.top.is_none() && delete.output.is_none();
    is_alone && delete.from.is_empty() && delete.options.is_empty() && delete.condition.is_some()
}
