//! Opens a media set and lists its backup sets.

use std::sync::Arc;

use hobt_disk::{AlignedBuffer, DiskFile};

use crate::BackupError;
use crate::block::{BlockBuffer, BlockHeader, BlockKind, UNIT, read_header};
use crate::facts::{MediaLabel, SetFacts, decode};

/// Bytes that are searched for blocks at once.
const SEARCHED_BYTES: usize = 2 << 20;
/// Behind so many zeros there is nothing: more room than a backup reserves.
const ZEROS_MAX: u64 = 2 << 30;

/// A whole media set that is open for reading.
pub struct Media {
    label: MediaLabel,
    /// By the numbers of the stripes.
    files: Vec<Arc<dyn DiskFile>>,
    /// For each file the position behind its label.
    behind_label: Vec<u64>,
    sets: Vec<SetPlace>,
    is_cut_short: bool,
    /// A backup set behind the last complete one that was complete once: the file, and the position in it.
    damaged: Option<(usize, u64)>,
}

impl std::fmt::Debug for Media {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Media").field("label", &self.label).field("sets", &self.sets.len()).finish_non_exhaustive()
    }
}

/// A complete backup set, and where it lies.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SetPlace {
    /// Its number in the media set, from 1.
    pub number: u32,
    /// What it says of itself.
    pub facts: SetFacts,
    /// For each file the position of its begin block.
    pub(crate) begins: Vec<u64>,
    /// For each file the position of its end block.
    pub(crate) ends: Vec<u64>,
    /// For each file the position behind its end block.
    pub(crate) behind: Vec<u64>,
}

/// A backup set as one file has it.
struct Listed {
    facts: SetFacts,
    begin: u64,
    end: u64,
    behind: u64,
}

impl Media {
    /// Opens a media set whose files are given in any order. Reads the begin and the end of each backup set. Blocks.
    ///
    /// # Errors
    /// A file is no backup, or of a later version, or its label is damaged; the files are not one whole media set; a
    /// device's error.
    pub fn open(files: Vec<Arc<dyn DiskFile>>) -> Result<Media, BackupError> {
        let mut labelled = Vec::new();
        for file in files {
            let (label, behind) = Media::label_of(&*file)?;
            labelled.push((label, behind, file));
        }
        labelled.sort_by_key(|(label, ..)| label.stripe);
        let Some((first, ..)) = labelled.first() else { return Err(BackupError::NoSuchSet { number: 1 }) };
        let (label, given) = (first.clone(), labelled.len());
        let wrong = |file: &Arc<dyn DiskFile>, is_other| BackupError::Stripes {
            path: file.path().to_path_buf(),
            given,
            expected: usize::from(label.stripes),
            is_other,
        };
        if let Some((.., file)) = labelled.iter().find(|(other, ..)| other.media != label.media) {
            return Err(wrong(file, true));
        }
        if let Some(pair) = labelled.windows(2).find(|pair| pair[0].0.stripe == pair[1].0.stripe) {
            return Err(wrong(&pair[1].2, true));
        }
        if given != usize::from(label.stripes) || first.stripe != 1 {
            return Err(wrong(&labelled[0].2, false));
        }
        let mut media = Media {
            label,
            behind_label: labelled.iter().map(|(_, behind, _)| *behind).collect(),
            files: labelled.into_iter().map(|(.., file)| file).collect(),
            sets: Vec::new(),
            is_cut_short: false,
            damaged: None,
        };
        media.list()?;
        Ok(media)
    }

    /// The label of one file, and the position behind it.
    ///
    /// # Errors
    /// The file is no backup, or of a later version, or its label is damaged; a device's error.
    pub fn label_of(file: &dyn DiskFile) -> Result<(MediaLabel, u64), BackupError> {
        let none = |what: &str| BackupError::NotBackup { path: file.path().to_path_buf(), what: what.to_owned() };
        if file.size()? < UNIT as u64 {
            return Err(none("it is too short"));
        }
        let mut buffer = BlockBuffer::new()?;
        let read = buffer.read(file, 0);
        let (header, payload) = read.map_err(|error| match error {
            BackupError::Damaged { what, .. } => none(what),
            other => other,
        })?;
        if header.kind != BlockKind::Label {
            return Err(none("its first block is not a label"));
        }
        let label: MediaLabel = decode(payload).ok_or_else(|| none("its label cannot be read"))?;
        if label.media != header.media || label.stripes == 0 || label.stripe != header.stripe {
            return Err(none("its label contradicts itself"));
        }
        Ok((label, header.block_bytes()))
    }

    /// What the media set says of itself.
    pub fn label(&self) -> &MediaLabel {
        &self.label
    }

    /// The files, by the numbers of the stripes.
    pub fn files(&self) -> &[Arc<dyn DiskFile>] {
        &self.files
    }

    /// Its complete backup sets, in order.
    pub fn sets(&self) -> &[SetPlace] {
        &self.sets
    }

    /// Whether something that is no complete backup set comes behind the last one.
    pub fn is_cut_short(&self) -> bool {
        self.is_cut_short
    }

    /// The backup set of this number.
    ///
    /// # Errors
    /// There is none, or it was cut short.
    pub fn set(&self, number: u32) -> Result<&SetPlace, BackupError> {
        let found = self.sets.iter().find(|set| set.number == number);
        found.ok_or_else(|| match self.is_cut_short && number as usize == self.sets.len() + 1 {
            true => self
                .check_end()
                .err()
                .unwrap_or_else(|| BackupError::CutShort { path: self.files[0].path().to_path_buf() }),
            false => BackupError::NoSuchSet { number },
        })
    }

    /// Refuses a media set in which a set that was complete once cannot be read. What comes behind it is not listed,
    /// and must not be overwritten.
    ///
    /// # Errors
    /// There is one.
    pub(crate) fn check_end(&self) -> Result<(), BackupError> {
        let Some((place, position)) = self.damaged else { return Ok(()) };
        Err(BackupError::damaged(self.files[place].path(), position, "a backup set that was complete cannot be read"))
    }

    /// Where the backup sets of a file begin.
    pub(crate) fn sets_begin(&self, place: usize) -> u64 {
        self.behind_label[place]
    }

    fn list(&mut self) -> Result<(), BackupError> {
        let mut positions = self.behind_label.clone();
        loop {
            let number = u32::try_from(self.sets.len() + 1).unwrap_or(u32::MAX);
            let mut listed = Vec::new();
            for (place, position) in positions.iter().enumerate() {
                listed.push(self.listed(place, *position, number)?);
            }
            if let Some(whole) = listed.iter().map(Option::as_ref).collect::<Option<Vec<&Listed>>>() {
                let facts = whole[0].facts.clone();
                if let Some(place) = whole.iter().position(|one| one.facts.guid != facts.guid) {
                    let path = self.files[place].path();
                    return Err(BackupError::damaged(path, positions[place], "a backup set of another time"));
                }
                positions = whole.iter().map(|one| one.behind).collect();
                self.sets.push(SetPlace {
                    number,
                    facts,
                    begins: whole.iter().map(|one| one.begin).collect(),
                    ends: whole.iter().map(|one| one.end).collect(),
                    behind: positions.clone(),
                });
                continue;
            }
            for (place, position) in positions.iter().enumerate() {
                self.is_cut_short |= self.files[place].size()? > *position;
                if self.damaged.is_none() && self.was_complete(place, *position, number)? {
                    self.damaged = Some((place, *position));
                }
            }
            return Ok(());
        }
    }

    /// Whether the backup set that begins at `position` in a file was complete once: its begin block names its end,
    /// which is written when everything else is durable, or a later backup set comes behind it.
    fn was_complete(&self, place: usize, position: u64, number: u32) -> Result<bool, BackupError> {
        let file = &*self.files[place];
        let size = file.size()?;
        let mut part = AlignedBuffer::new(SEARCHED_BYTES)?;
        // The next header is looked for from here on.
        let (mut at, mut zeros, mut part_begin) = (position, 0, position);
        while part_begin < size && zeros < ZEROS_MAX {
            let bytes = (size - part_begin).min(SEARCHED_BYTES as u64) as usize / UNIT * UNIT;
            if bytes == 0 {
                break;
            }
            part.set_len(bytes);
            file.read_at(&mut part, part_begin)?;
            let is_zero = part.iter().all(|byte| *byte == 0);
            zeros = if is_zero { zeros + bytes as u64 } else { 0 };
            let part_end = part_begin + bytes as u64;
            at = at.max(part_begin);
            while !is_zero && at < part_end {
                let header = BlockHeader::read(&part[(at - part_begin) as usize..]).ok();
                let Some(header) = header.filter(|header| header.media == self.label.media && header.position == at)
                else {
                    at += UNIT as u64;
                    continue;
                };
                if header.set > number {
                    return Ok(true);
                }
                if at == position && header.kind == BlockKind::Begin {
                    return Ok(header.link > position);
                }
                at += header.block_bytes();
            }
            part_begin = part_end.max(at.min(size) / UNIT as u64 * UNIT as u64);
        }
        Ok(false)
    }

    /// The backup set that begins at `position` in a file; `None` if there is no complete one.
    fn listed(&self, place: usize, position: u64, number: u32) -> Result<Option<Listed>, BackupError> {
        let file = &*self.files[place];
        let mut buffer = BlockBuffer::new()?;
        let is_own = |header: &crate::block::BlockHeader| header.media == self.label.media && header.set == number;
        let link = match none_if_damaged(buffer.read(file, position))? {
            Some((header, _)) if header.kind == BlockKind::Begin && is_own(&header) => {
                let is_place = header.link.is_multiple_of(UNIT as u64) && header.link < file.size()?;
                if header.link > position && is_place {
                    Some(header.link)
                } else {
                    self.find_end(file, position, number)?
                }
            }
            _ => None,
        };
        let Some(end) = link else { return Ok(None) };
        let read = none_if_damaged(buffer.read(file, end))?;
        let ended = read.filter(|(header, _)| header.kind == BlockKind::End && is_own(header));
        let Some((header, payload)) = ended else { return Ok(None) };
        let (bytes, facts) = (header.block_bytes(), decode::<SetFacts>(payload));
        Ok(facts.map(|facts| Listed { facts, begin: position, end, behind: end + bytes }))
    }

    /// Looks for the end block of a backup set whose begin block does not name it: a crash came in between.
    fn find_end(&self, file: &dyn DiskFile, begin: u64, number: u32) -> Result<Option<u64>, BackupError> {
        let mut unit = AlignedBuffer::new(UNIT)?;
        let mut position = begin;
        while let Some(header) = none_if_damaged(read_header(file, position, &mut unit))? {
            if header.set != number || header.media != self.label.media {
                return Ok(None);
            }
            if header.kind == BlockKind::End {
                return Ok(Some(position));
            }
            position += header.block_bytes();
        }
        Ok(None)
    }
}

/// A block that is damaged, or not there, is none.
fn none_if_damaged<T>(read: Result<T, BackupError>) -> Result<Option<T>, BackupError> {
    match read {
        Ok(read) => Ok(Some(read)),
        Err(BackupError::Damaged { .. }) => Ok(None),
        Err(other) => Err(other),
    }
}
