//! Which statements may run without a plan, as far as their text tells.

use hobt_tsql::ast::{
    Assignment, ChangeTarget, Condition, Insert, InsertSource, NamedTable, QueryBody, Select, SelectStatement,
    TableSource, TargetName,
};

use crate::change::Change;

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

/// The parts of a statement that can run this way.
pub(super) struct Parts<'s> {
    pub(super) target: &'s ChangeTarget,
    pub(super) condition: &'s Condition,
    pub(super) assignments: Option<&'s [Assignment]>,
}

/// `None` if the statement has other parts.
pub(super) fn parts_of(change: Change<'_>) -> Option<Parts<'_>> {
    let (with, top, output, from, options) = match change {
        Change::Update(update) => (&update.with, &update.top, &update.output, &update.from, &update.options),
        Change::Delete(delete) => (&delete.with, &delete.top, &delete.output, &delete.from, &delete.options),
    };
    if !with.is_empty() || top.is_some() || output.is_some() || !from.is_empty() || !options.is_empty() {
        return None;
    }
    Some(match change {
        Change::Update(update) => Parts {
            target: &update.target,
            condition: update.condition.as_ref()?,
            assignments: Some(&update.assignments),
        },
        Change::Delete(delete) => {
            Parts { target: &delete.target, condition: delete.condition.as_ref()?, assignments: None }
        }
    })
}
