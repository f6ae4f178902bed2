//! `sysprocesses`, SQL Server 2000's view of sessions and what they run.

use hobt_interpreter::{TableReads, ViewContext};
use hobt_types::Value;

use crate::execution::{CurrentWait, database_id, text_handle};
use crate::value::{NULL, datetime, int, milliseconds, padded, row};
use crate::{Definition, Rows, Sources};

const PROCESSES: &str = "spid smallint!, kpid smallint!, blocked smallint!, waittype varbinary(2)!, waittime bigint!, \
    lastwaittype nchar(32)!, waitresource nchar(256)!, dbid smallint!, uid smallint, cpu int!, physical_io bigint!, \
    memusage int!, login_time datetime!, last_batch datetime!, ecid smallint!, open_tran smallint!, status nchar(30)!, \
    sid varbinary(86)!, hostname nchar(128)!, program_name nchar(128)!, hostprocess nchar(10)!, cmd nchar(26)!, \
    nt_domain nchar(128)!, nt_username nchar(128)!, net_address nchar(12)!, net_library nchar(12)!, loginame nchar(128)!, \
    context_info varbinary(128)!, sql_handle varbinary(20)!, stmt_start int!, stmt_end int!, request_id int!";

pub(super) static VIEWS: &[Definition] = &[
    Definition::of("dbo", "sysprocesses", PROCESSES, processes),
    Definition::sys("sysprocesses", PROCESSES, processes),
];

/// The number of a wait that is not in SQL Server's list, in which every name has a number.
const UNNUMBERED: [u8; 2] = [0xff, 0xff];

fn processes(sources: &Sources, _: &ViewContext, _: &[Value]) -> Rows {
    let zeros = |bytes: usize| Value::Binary(vec![0; bytes]);
    let process = std::process::id().to_string();
    let rows = sources.registry.all().into_iter().map(|session| {
        let request = session.request.as_ref();
        let run = request.and_then(|request| request.run.upgrade());
        let wait = CurrentWait::of(sources, &session);
        let last_wait = run.as_ref().and_then(|run| run.waits.last_wait_type()).map_or("", |wait| wait.name());
        let (_, reads) = run.as_ref().map_or((0, 0), |run| TableReads::total(&TableReads::of(run)));
        let cpu = session.total.cpu + run.as_ref().map_or_else(Default::default, |run| run.worker_cpu());
        let status = match (request, wait.name) {
            (None, _) => "sleeping",
            (Some(_), None) => "running",
            (Some(_), Some(_)) => "suspended",
        };
        let mut row = row![
            session.id.0,
            0,
            wait.blocker,
            wait.name.map_or_else(|| zeros(2), |_| Value::Binary(UNNUMBERED.to_vec())),
            wait.milliseconds,
            padded(wait.name.unwrap_or(last_wait), 32),
            padded(&wait.resource, 256),
            database_id(sources, &session.database),
            1,
            int(milliseconds(cpu)),
            session.total.reads + reads,
            0,
            datetime(session.login_time),
            datetime(session.last_request_start),
            0,
            session.open_transaction_count()
        ];
        let mut sid = vec![0; 86];
        sid[0] = 1;
        let text = |request: &crate::registry::Request| match text_handle(&request.text) {
            Value::Binary(mut handle) => {
                handle.resize(20, 0);
                Value::Binary(handle)
            }
            _ => NULL,
        };
        row.extend(row![
            padded(status, 30),
            Value::Binary(sid),
            padded(&session.host, 128),
            padded(&session.program, 128),
            padded(&process, 10),
            padded(request.map_or("AWAITING COMMAND", |request| &request.command), 26),
            padded("", 128),
            padded("", 128),
            padded("", 12),
            padded("", 12),
            padded(&session.login, 128),
            zeros(128),
            request.map_or_else(|| zeros(20), text),
            0,
            request.map_or(0, |_| -1),
            0
        ]);
        row
    });
    Ok(rows.collect())
}
