//! `RESTORE HEADERONLY`, `FILELISTONLY`, `LABELONLY`, `VERIFYONLY`: what backups hold.

use std::path::PathBuf;

use hobt_backup::{BlockBuffer, Media, MediaLabel, Reading, SetPlace, SetReader};

use super::pages::missing_log;
use super::{Source, check_positions, of_damaged_database, of_set};
use crate::error::{EngineError, Result};
use crate::instance::Instance;
use crate::instance::backup::{ObserveBackup, of_read};

impl Instance {
    /// Opens a media set, whose backup sets are listed.
    ///
    /// # Errors
    /// 3201, 3203, 3241, 3132.
    pub fn backup_media(&self, paths: &[PathBuf]) -> Result<Media> {
        self.open_media(paths)
    }

    /// A backup set of a media set, the first one if `set` is `None`.
    ///
    /// # Errors
    /// 3201, 3203, 3241, 3132, 3256, 4038.
    pub fn backup_set(&self, paths: &[PathBuf], set: Option<u32>) -> Result<SetPlace> {
        let media = self.open_media(paths)?;
        let place = media.set(set.unwrap_or(1)).map_err(|error| of_set(error, paths))?;
        Ok(place.clone())
    }

    /// The label of one file of a media set.
    ///
    /// # Errors
    /// 3201, 3203, 3241.
    pub fn backup_label(&self, path: &PathBuf) -> Result<MediaLabel> {
        let files = self.open_to_read(std::slice::from_ref(path))?;
        Media::label_of(&*files[0]).map(|(label, _)| label).map_err(of_read)
    }

    /// Reads a whole backup set and checks it. Blocks. Returns what it says of itself.
    ///
    /// # Errors
    /// 3201, 3203, 3241, 3132, 3189, 3256, 4038.
    pub fn verify_backup(
        &self,
        paths: &[PathBuf],
        set: Option<u32>,
        continues_after_error: bool,
        observe: ObserveBackup<'_>,
    ) -> Result<SetPlace> {
        let media = self.open_media(paths)?;
        let place = media.set(set.unwrap_or(1)).map_err(|error| of_set(error, paths))?.clone();
        check_positions(&media, &place)?;
        let source = Source { media: &media, place: &place };
        let reader = SetReader::new(&media, &place, Reading::Whole).map_err(of_read)?;
        let mut buffer = BlockBuffer::new().map_err(of_read)?;
        let mut done = 0;
        let mut note = |bytes: usize| {
            done += bytes as u64;
            observe(done.min(place.facts.bytes), place.facts.bytes).map_err(EngineError::Statement)
        };
        while let Some(pass) = reader.next_pass().map_err(of_read)? {
            while let Some(block) = reader.next_data(pass, &mut buffer).map_err(of_read)? {
                note(block.payload.len())?;
            }
        }
        let mut at = place.facts.first;
        while at < place.facts.last {
            let block = reader.next_log(at, &mut buffer).map_err(of_read)?.ok_or_else(|| missing_log(&source, at))?;
            let bytes = block.payload.len();
            let seen = hobt_log::for_each_saved(block.payload, hobt_base::Lsn(at), &mut |_| true);
            seen.map_err(|_| missing_log(&source, at))?;
            at += bytes as u64;
            note(bytes)?;
        }
        reader.check_end().map_err(of_read)?;
        if place.facts.is_damaged && !continues_after_error {
            return Err(of_damaged_database(&place, paths));
        }
        Ok(place)
    }
}
