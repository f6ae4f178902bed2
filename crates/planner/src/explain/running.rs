//! The plan of a statement that runs.

use hobt_tsql::ast::Span;

use super::{Texts, changes, explain};
use hobt_showplan::ShownStatement;
use hobt_table::StatementRun;

/// The running statement with its plan and the operators' counters so far; `None` if no plan runs. May be called from
/// any thread.
pub fn running_plan(run: &StatementRun) -> Option<ShownStatement> {
    let running = run.running()?;
    let plan = running.plan.upgrade()?;
    let Span { start, end, .. } = running.span;
    let text = running.text.get(start as usize..end as usize).unwrap_or_default();
    let degree = run.degree();
    let mut root = explain(&plan, &Texts::new(hobt_tsql::text_constants(text)), true, degree);
    if let Some((database, table, columns)) = &running.change {
        root = changes(running.kind, database, table, columns.as_deref(), root);
        root.actual.clone_from(&root.children[0].actual);
    }
    root.finish();
    let statistics = run.statistics_read();
    let plain = ShownStatement::plain(text, running.kind);
    Some(ShownStatement { root: Some(root), degree, statistics, ..plain })
}
