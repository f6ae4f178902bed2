//! Errors of backup files as users see them.

use std::path::Path;

use hobt_backup::BackupError;
use hobt_base::errors;
use hobt_disk::DiskError;

use crate::error::EngineError;

/// The error of a backup that is being written.
pub(in crate::instance) fn of_write(error: BackupError) -> EngineError {
    match error {
        BackupError::Disk(error @ DiskError::OutOfMemory { .. }) => EngineError::from(error),
        BackupError::Disk(error) => {
            let path = error.path().map_or_else(String::new, |path| path.display().to_string());
            EngineError::Statement(errors::BACKUP_WRITE.with([&path, &why(&error)]))
        }
        other => of_read(other),
    }
}

/// The error of a backup that is being read.
pub(in crate::instance) fn of_read(error: BackupError) -> EngineError {
    EngineError::Statement(match &error {
        BackupError::Disk(DiskError::OutOfMemory { .. }) => errors::OUT_OF_MEMORY.with([&error]),
        BackupError::Disk(error) => {
            let path = error.path().map_or_else(String::new, |path| path.display().to_string());
            errors::BACKUP_READ.with([&path, &why(error)])
        }
        BackupError::NotBackup { path, what } => errors::NOT_A_BACKUP.with([&path.display(), what]),
        BackupError::Version { path, .. } => errors::BACKUP_NEWER.with([&path.display(), &error]),
        BackupError::CutShort { path } => errors::BACKUP_SET_CUT_SHORT.with([&path.display()]),
        BackupError::Damaged { .. } => errors::BACKUP_SET_DAMAGED.with([&error]),
        BackupError::Stripes { path, is_other: true, .. } => errors::BACKUP_OTHER_MEDIA.with([&path.display()]),
        BackupError::Stripes { given, expected, .. } => errors::BACKUP_STRIPES_MISSING.with([expected, given]),
        BackupError::TooManyFiles { path } => errors::BACKUP_LISTS_TOO_MUCH.with([&path.display()]),
        BackupError::NoSuchSet { number } => errors::NO_SUCH_BACKUP_SET.with([number, &"of the media set"]),
    })
}

/// 3201: a backup file that cannot be opened.
pub(in crate::instance) fn cannot_open(path: &Path, why: &dyn std::fmt::Display) -> EngineError {
    EngineError::Statement(errors::BACKUP_DEVICE.with([&path.display(), why]))
}

/// The system's text, or that of the error.
pub(in crate::instance) fn why(error: &DiskError) -> String {
    match (error, error.os_error_text()) {
        (DiskError::NotFound { .. }, _) => "2(The system cannot find the file specified.)".to_owned(),
        (_, Some(text)) => text,
        (error, None) => error.to_string(),
    }
}
