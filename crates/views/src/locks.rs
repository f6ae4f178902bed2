//! Locks.

use crate::Definition;
use crate::value::{NULL, row};

/// `request_reference_count` is a `smallint`.
const GREATEST_COUNT: u32 = i16::MAX.unsigned_abs() as u32;

pub(super) static VIEWS: &[Definition] = &[Definition::sys(
    "dm_tran_locks",
    "resource_type nvarchar(60)!, resource_subtype nvarchar(60)!, resource_database_id int!, \
     resource_description nvarchar(256)!, resource_associated_entity_id bigint, resource_lock_partition int!, \
     request_mode nvarchar(60)!, request_type nvarchar(60)!, request_status nvarchar(60)!, \
     request_reference_count smallint!, request_lifetime int!, request_session_id int!, request_exec_context_id int!, \
     request_request_id int!, request_owner_type nvarchar(60)!, request_owner_id bigint, \
     request_owner_guid uniqueidentifier, request_owner_lockspace_id nvarchar(32), lock_owner_address varbinary(8)",
    |sources, _, _| {
        let rows = sources.instance.locks().rows().into_iter().map(|lock| {
            row![
                lock.resource.type_name(),
                lock.resource.subtype_name(),
                lock.resource.database().0,
                lock.description,
                lock.resource.associated_entity(),
                0,
                lock.mode.name(),
                "LOCK",
                lock.status.name(),
                lock.reference_count.min(GREATEST_COUNT),
                0,
                lock.session.0,
                0,
                0,
                lock.owner.name(),
                lock.owner.transaction(),
                NULL,
                NULL,
                NULL
            ]
        });
        Ok(rows.collect())
    },
)];
