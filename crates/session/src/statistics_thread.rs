//! The thread that updates statistics in the background. It keeps no instance alive: between updates it holds none.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Weak};

use hobt_catalog::Table;
use hobt_interpreter::{StatisticsQueue, StatisticsUpdate};
use hobt_views::SessionOptions;

use crate::server::Server;
use crate::session::Session;

/// Starts the thread. If the system cannot create one, nothing is updated in the background.
pub(crate) fn start(server: Weak<Server>, queue: Arc<StatisticsQueue>) {
    // In a schedule of actors no other thread may run.
    if hobt_instruments::schedule::is_actor() {
        return;
    }
    let run = move || {
        while let Some((update, cancelled)) = queue.next() {
            let _running = Running(&queue);
            if let Some(server) = server.upgrade() {
                run_update(&server, &update, &cancelled);
            }
        }
    };
    let _no_thread_to_have = std::thread::Builder::new().name("hobt-statistics".to_owned()).spawn(run);
}

/// An update that has begun: waiters learn of its end even if it panics.
struct Running<'q>(&'q StatisticsQueue);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.done();
    }
}

/// Updates a statistics object in a session of its own. A dropped object needs no update. If an update fails, the next
/// query finds the object outdated again.
fn run_update(server: &Arc<Server>, update: &StatisticsUpdate, cancelled: &Arc<AtomicBool>) {
    let Some(text) = text_of(server, update) else { return };
    let options = SessionOptions { program: "hobt statistics".to_owned(), ..SessionOptions::default() };
    let Ok(mut session) = Session::cancelled_by(Arc::clone(server), &options, Arc::clone(cancelled)) else { return };
    let _found_old_again = session.run_expected(&text);
}

/// `UPDATE STATISTICS` with full names, so that the session stays in `master`.
fn text_of(server: &Server, update: &StatisticsUpdate) -> Option<String> {
    let database = server.instance().database_by_id(update.database).ok()?;
    let snapshot = database.snapshot();
    let table: &Arc<Table> = snapshot.tables.get(&update.table)?;
    let statistics = snapshot.statistics_of(table).into_iter().find(|each| each.id == update.statistics)?;
    let schema = &snapshot.schema_by_id(table.schema)?.name;
    let quoted = |name: &str| format!("[{}]", name.replace(']', "]]"));
    let full = [database.name(), schema, &table.name].map(quoted).join(".");
    Some(format!("UPDATE STATISTICS {full} ({})", quoted(&statistics.name)))
}
