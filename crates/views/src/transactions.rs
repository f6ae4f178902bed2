//! Open transactions, with those that are undone behind the opening of their database.

use crate::Definition;
use crate::value::{NULL, datetime, row};

/// `transaction_type` of a transaction that reads and writes.
const READ_WRITE: i32 = 1;
/// `transaction_state` of an active transaction.
const ACTIVE: i32 = 2;
/// `transaction_state` of a transaction that is being rolled back.
const ROLLED_BACK: i32 = 7;

pub(super) static VIEWS: &[Definition] = &[
    Definition::sys(
        "dm_tran_session_transactions",
        "session_id int, transaction_id bigint, transaction_descriptor varbinary(8), enlist_count int, \
         is_user_transaction bit, is_local bit, is_enlisted bit, is_bound bit, open_transaction_count int",
        |sources, _, _| {
            let sessions = sources.registry.all();
            let rows = sessions.iter().filter_map(|session| {
                let open = session.transaction.as_ref()?;
                let descriptor = super::Value::Binary(open.transaction.id().to_be_bytes().to_vec());
                let running = i32::from(session.request.is_some());
                let count = session.open_transaction_count();
                Some(row![session.id.0, open.transaction.id(), descriptor, running, true, true, false, false, count])
            });
            Ok(rows.collect())
        },
    ),
    Definition::sys(
        "dm_tran_active_transactions",
        "transaction_id bigint!, name nvarchar(32)!, transaction_begin_time datetime!, transaction_type int!, \
         transaction_uow uniqueidentifier, transaction_state int!, transaction_status int!, transaction_status2 int!, \
         dtc_state int!, dtc_status int!, dtc_isolation_level int!, filestream_transaction_id varbinary(128)",
        |sources, _, _| {
            let sessions = sources.registry.all();
            let rows = sessions.iter().filter_map(|session| {
                let open = session.transaction.as_ref()?;
                let name = open.transaction.name().unwrap_or("user_transaction");
                let begun = datetime(open.begun);
                Some(row![open.transaction.id(), name, begun, READ_WRITE, NULL, ACTIVE, 0, 0, 0, 0, -1, NULL])
            });
            // Its name and its begin are not in the log.
            let undone = sources.instance.transactions_undone().into_iter().map(|undone| {
                let (name, since) = ("user_transaction", datetime(undone.since));
                row![undone.transaction, name, since, READ_WRITE, NULL, ROLLED_BACK, 0, 0, 0, 0, -1, NULL]
            });
            Ok(rows.chain(undone).collect())
        },
    ),
];
