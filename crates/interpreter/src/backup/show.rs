//! `RESTORE HEADERONLY`, `FILELISTONLY` and `LABELONLY`: their result sets, as Microsoft documents them.

use std::path::PathBuf;
use std::sync::Arc;

use hobt_base::{PAGE_SIZE, SqlError};
use hobt_engine::{Guid, SetFacts, SetKind, SetPlace};
use hobt_functions::round_to_datetime;
use hobt_types::{Collation, MaxLength, SqlType, Value};

use super::options::Options;
use crate::dbcc::Maintenance;
use crate::failure::Failure;

const NAME: SqlType = SqlType::NVarChar(MaxLength::Limited(128));
const TEXT: SqlType = SqlType::NVarChar(MaxLength::Limited(255));
const PATH: SqlType = SqlType::NVarChar(MaxLength::Limited(260));
const LSN: SqlType = SqlType::Decimal { precision: 25, scale: 0 };
const SIZE: SqlType = SqlType::Decimal { precision: 20, scale: 0 };
const GUID: SqlType = SqlType::UniqueIdentifier;
const DATE: SqlType = SqlType::DateTime;

fn text(value: &str) -> Value {
    if value.is_empty() { Value::Null } else { Value::Text(value.to_owned()) }
}

fn int(value: impl Into<i64>) -> Value {
    Value::Int(value.into())
}

fn lsn(value: u64) -> Value {
    Value::Decimal(i128::from(value))
}

fn guid(value: Guid) -> Value {
    if value.0 == [0; 16] { Value::Null } else { Value::Guid(value.0) }
}

/// A time as a `datetime` keeps it, and as the views of the history show it.
fn date(time: i64) -> Value {
    if time == 0 { Value::Null } else { Value::Int(round_to_datetime(time, SqlType::DateTime)) }
}

impl Maintenance<'_, '_> {
    pub(super) fn show_headers(&mut self, options: &Options, paths: &[PathBuf]) -> Result<(), Failure> {
        let instance = Arc::clone(&self.batch.environment.instance);
        let media = instance.backup_media(paths).map_err(SqlError::from)?;
        let shown = media.sets().iter().filter(|set| options.file.is_none_or(|number| set.number == number));
        let rows = shown.map(header).collect();
        self.batch.send_values(HEADER, rows).map(|_| ())
    }

    pub(super) fn show_files(&mut self, options: &Options, paths: &[PathBuf]) -> Result<(), Failure> {
        let instance = Arc::clone(&self.batch.environment.instance);
        let place = instance.backup_set(paths, options.file).map_err(SqlError::from)?;
        self.batch.send_values(FILES, files(&place.facts)).map(|_| ())
    }

    pub(super) fn show_label(&mut self, paths: &[PathBuf]) -> Result<(), Failure> {
        let instance = Arc::clone(&self.batch.environment.instance);
        let mut rows = Vec::new();
        for path in paths {
            let label = instance.backup_label(path).map_err(SqlError::from)?;
            rows.push(vec![
                text(&label.name),
                guid(label.media),
                int(label.stripes),
                int(label.stripe),
                guid(label.media),
                int(1),
                int(1),
                text(&label.description),
                text(&label.software),
                int(0),
                date(label.created),
                int(1),
                int(0),
            ]);
        }
        self.batch.send_values(LABEL, rows).map(|_| ())
    }
}

const LABEL: &[(&str, SqlType)] = &[
    ("MediaName", NAME),
    ("MediaSetId", GUID),
    ("FamilyCount", SqlType::Int),
    ("FamilySequenceNumber", SqlType::Int),
    ("MediaFamilyId", GUID),
    ("MediaSequenceNumber", SqlType::Int),
    ("MediaLabelPresent", SqlType::TinyInt),
    ("MediaDescription", TEXT),
    ("SoftwareName", NAME),
    ("SoftwareVendorId", SqlType::Int),
    ("MediaDate", DATE),
    ("MirrorCount", SqlType::Int),
    ("IsCompressed", SqlType::Bit),
];

const HEADER: &[(&str, SqlType)] = &[
    ("BackupName", NAME),
    ("BackupDescription", TEXT),
    ("BackupType", SqlType::SmallInt),
    ("ExpirationDate", DATE),
    ("Compressed", SqlType::TinyInt),
    ("Position", SqlType::SmallInt),
    ("DeviceType", SqlType::TinyInt),
    ("UserName", NAME),
    ("ServerName", NAME),
    ("DatabaseName", NAME),
    ("DatabaseVersion", SqlType::Int),
    ("DatabaseCreationDate", DATE),
    ("BackupSize", SIZE),
    ("FirstLSN", LSN),
    ("LastLSN", LSN),
    ("CheckpointLSN", LSN),
    ("DatabaseBackupLSN", LSN),
    ("BackupStartDate", DATE),
    ("BackupFinishDate", DATE),
    ("SortOrder", SqlType::SmallInt),
    ("CodePage", SqlType::SmallInt),
    ("UnicodeLocaleId", SqlType::Int),
    ("UnicodeComparisonStyle", SqlType::Int),
    ("CompatibilityLevel", SqlType::TinyInt),
    ("SoftwareVendorId", SqlType::Int),
    ("SoftwareVersionMajor", SqlType::Int),
    ("SoftwareVersionMinor", SqlType::Int),
    ("SoftwareVersionBuild", SqlType::Int),
    ("MachineName", NAME),
    ("Flags", SqlType::Int),
    ("BindingID", GUID),
    ("RecoveryForkID", GUID),
    ("Collation", NAME),
    ("FamilyGUID", GUID),
    ("HasBulkLoggedData", SqlType::Bit),
    ("IsSnapshot", SqlType::Bit),
    ("IsReadOnly", SqlType::Bit),
    ("IsSingleUser", SqlType::Bit),
    ("HasBackupChecksums", SqlType::Bit),
    ("IsDamaged", SqlType::Bit),
    ("BeginsLogChain", SqlType::Bit),
    ("HasIncompleteMetaData", SqlType::Bit),
    ("IsForceOffline", SqlType::Bit),
    ("IsCopyOnly", SqlType::Bit),
    ("FirstRecoveryForkID", GUID),
    ("ForkPointLSN", LSN),
    ("RecoveryModel", NAME),
    ("DifferentialBaseLSN", LSN),
    ("DifferentialBaseGUID", GUID),
    ("BackupTypeDescription", NAME),
    ("BackupSetGUID", GUID),
    ("CompressedBackupSize", SqlType::BigInt),
    ("Containment", SqlType::TinyInt),
    ("KeyAlgorithm", NAME),
    ("EncryptorThumbprint", SqlType::VarBinary(MaxLength::Limited(20))),
    ("EncryptorType", NAME),
];

/// The compatibility level that databases have.
const LEVEL: i64 = 160;
/// `DeviceType` of a file.
const DISK: i64 = 2;

fn header(place: &SetPlace) -> Vec<Value> {
    let facts = &place.facts;
    let bytes = |bytes: u64| Value::Decimal(i128::from(bytes));
    let is_differential = facts.kind == SetKind::Differential;
    let described = match facts.kind {
        SetKind::Database => "Database",
        SetKind::Log => "Transaction Log",
        SetKind::Differential => "Database Differential",
    };
    let first_part = vec![
        text(&facts.name),
        text(&facts.description),
        int(facts.kind.number()),
        Value::Null,
        int(facts.is_compressed),
        int(place.number),
        int(DISK),
        text(&facts.user),
        text(&facts.server),
        text(&facts.database),
        int(1),
        date(facts.database_created),
        bytes(facts.bytes),
        lsn(facts.first),
        lsn(facts.last),
        lsn(facts.redo),
        lsn(facts.database_backup),
        date(facts.started),
        date(facts.finished),
        int(0),
        int(0),
        int(1033),
        int(0),
        int(LEVEL),
        int(0),
        int(0),
        int(0),
        int(0),
        text(&facts.machine),
    ];
    let rest = vec![
        int(facts.flags()),
        guid(facts.database_guid),
        guid(facts.fork),
        text(Collation::default().name()),
        guid(facts.database_guid),
        int(facts.has_bulk),
        int(false),
        int(false),
        int(false),
        int(facts.has_checksums),
        int(facts.is_damaged),
        int(facts.begins_log_chain()),
        int(false),
        int(facts.is_tail),
        int(facts.is_copy_only),
        guid(facts.fork),
        Value::Null,
        text(&facts.recovery_model),
        if is_differential { lsn(facts.base_first) } else { Value::Null },
        if is_differential { guid(facts.base) } else { Value::Null },
        text(described),
        guid(facts.guid),
        int(i64::try_from(facts.stored_bytes).unwrap_or(i64::MAX)),
        int(0),
        Value::Null,
        Value::Null,
        Value::Null,
    ];
    [first_part, rest].concat()
}

const FILES: &[(&str, SqlType)] = &[
    ("LogicalName", NAME),
    ("PhysicalName", PATH),
    ("Type", SqlType::Char(1)),
    ("FileGroupName", NAME),
    ("Size", SIZE),
    ("MaxSize", SIZE),
    ("FileID", SqlType::BigInt),
    ("CreateLSN", LSN),
    ("DropLSN", LSN),
    ("UniqueID", GUID),
    ("ReadOnlyLSN", LSN),
    ("ReadWriteLSN", LSN),
    ("BackupSizeInBytes", SqlType::BigInt),
    ("SourceBlockSize", SqlType::Int),
    ("FileGroupID", SqlType::Int),
    ("LogGroupGUID", GUID),
    ("DifferentialBaseLSN", LSN),
    ("DifferentialBaseGUID", GUID),
    ("IsReadOnly", SqlType::Bit),
    ("IsPresent", SqlType::Bit),
    ("TDEThumbprint", SqlType::VarBinary(MaxLength::Limited(32))),
    ("SnapshotURL", SqlType::NVarChar(MaxLength::Limited(360))),
];

/// SQL Server's largest file, which stands for no limit.
const NO_LIMIT: u64 = 35_184_372_080_640;
/// The unit of transfers.
const BLOCK: i64 = 4096;

fn files(facts: &SetFacts) -> Vec<Vec<Value>> {
    let page = PAGE_SIZE as u64;
    let row = |name: &str, path: &str, kind: &str, group: (Value, i64), bytes: (u64, u64, u64), id: u16| {
        vec![
            text(name),
            text(path),
            text(kind),
            group.0,
            Value::Decimal(bytes.0.into()),
            Value::Decimal(if bytes.1 == 0 { NO_LIMIT } else { bytes.1 }.into()),
            int(id),
            lsn(0),
            lsn(0),
            Value::Null,
            lsn(0),
            lsn(0),
            int(i64::try_from(bytes.2).unwrap_or(i64::MAX)),
            int(BLOCK),
            int(group.1),
            Value::Null,
            lsn(facts.base_first),
            guid(facts.base),
            int(false),
            int(true),
            Value::Null,
            Value::Null,
        ]
    };
    let data = facts.files.iter().map(|file| {
        let bytes =
            (u64::from(file.pages) * page, u64::from(file.pages_max) * page, file.pages_saved.saturating_mul(page));
        let group = (text(&file.filegroup_name), i64::from(file.filegroup));
        row(&file.name, &file.path, "D", group, bytes, file.id)
    });
    let logs = facts
        .logs
        .iter()
        .map(|log| row(&log.name, &log.path, "L", (Value::Null, 0), (log.bytes, log.bytes_max, 0), log.id));
    data.chain(logs).collect()
}
