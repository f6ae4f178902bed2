//! The file that takes what is written to a standby or a snapshot: how it is told from others, made and put over files.

use std::path::Path;
use std::sync::Arc;

use hobt_disk::{AlignedBuffer, Disk, DiskError, DiskFile, OVERLAY_BLOCK_BYTES, OpenOptions, Overlay};

use crate::data_file::{DataFile, lock_patiently};

type Result<T> = std::result::Result<T, DiskError>;

/// The number by which `master` lists an overlay among the files of its database.
pub(super) const OVERLAY_FILE: i16 = 0;

/// What a standby file begins with.
const LABEL: &[u8] = b"hobt standby 1\n";

/// Makes the overlay of a standby, and puts data files over it.
///
/// # Errors
/// The file holds something else (`AlreadyExists`), or the device fails.
pub(super) fn put_over(disk: &dyn Disk, path: &Path, files: &mut [DataFile]) -> Result<Overlay> {
    let open = |create_new| disk.open(path, OpenOptions { create_new, read_only: false, direct: true });
    let file = match open(false) {
        Err(DiskError::NotFound { .. }) => open(true)?,
        opened => opened?,
    };
    lock_patiently(&*file)?;
    if !is_standby_file(&*file)? {
        return Err(DiskError::AlreadyExists { path: path.to_path_buf() });
    }
    file.set_size(0)?;
    let mut label = AlignedBuffer::new(OVERLAY_BLOCK_BYTES)?;
    label[..LABEL.len()].copy_from_slice(LABEL);
    file.write_at(&label, 0)?;
    // Before anything else is written: a file without the label is not overwritten.
    file.sync()?;
    let overlay = Overlay::new(file);
    for file in files {
        file.disk = overlay.over(Arc::clone(&file.disk))?;
    }
    Ok(overlay)
}

/// Whether a file is an overlay, or was about to become one when a crash came: nothing in it is needed.
pub(super) fn is_standby_file(file: &dyn DiskFile) -> Result<bool> {
    let size = file.size()?;
    if size < OVERLAY_BLOCK_BYTES as u64 {
        return Ok(size == 0);
    }
    let mut label = AlignedBuffer::new(OVERLAY_BLOCK_BYTES)?;
    file.read_at(&mut label, 0)?;
    let is_unwritten = size == OVERLAY_BLOCK_BYTES as u64 && label.iter().all(|byte| *byte == 0);
    Ok(is_unwritten || label.starts_with(LABEL))
}
