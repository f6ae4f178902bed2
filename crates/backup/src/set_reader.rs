//! Reads the blocks of one backup set. Several threads may take blocks of data at the same time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hobt_disk::{AlignedBuffer, DiskFile};
use hobt_instruments::{Wait, WaitType};
use parking_lot::{Mutex, MutexGuard};

use crate::BackupError;
use crate::block::{BlockBuffer, BlockHeader, BlockKind, Content, UNIT, header_in, read_header};
use crate::facts::Guid;
use crate::read_ahead::ReadAhead;
use crate::reader::{Media, SetPlace};

/// A block that was read, and checked.
#[derive(Debug)]
pub struct SavedBlock<'a> {
    /// What it is of.
    pub content: Content,
    /// Pages, or records.
    pub payload: &'a [u8],
}

/// How much of a backup set is wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reading {
    /// All of it: it is read in order, ahead of the blocks that are taken.
    Whole,
    /// Blocks here and there: of the others only the headers are read.
    Parts,
}

/// Where the reading of a file is.
struct Cursor {
    position: u64,
    ordinal: u64,
    /// The header of the next block, once it was read.
    next: Option<BlockHeader>,
    unit: AlignedBuffer,
    /// What brings the blocks, if all of them are wanted.
    ahead: Option<ReadAhead>,
}

impl Cursor {
    fn go_behind(&mut self, block: &BlockHeader) {
        self.position += block.block_bytes();
        self.ordinal += 1;
        self.next = None;
    }

    /// Fetches the unit at a position from what was read ahead. Returns whether it is there.
    fn read_ahead(&mut self, position: u64) -> Result<bool, BackupError> {
        let Some(ahead) = &mut self.ahead else { return Ok(false) };
        let Some(unit) = ahead.get(position..position + UNIT as u64)? else { return Ok(false) };
        unit.copy_to(&mut self.unit);
        Ok(true)
    }
}

struct Stripe {
    file: Arc<dyn DiskFile>,
    end: u64,
    cursor: Mutex<Cursor>,
}

/// Reads a backup set: first all data, pass by pass, then the log.
pub struct SetReader {
    media: Guid,
    set: u32,
    stripes: Vec<Stripe>,
    turn: AtomicUsize,
}

impl std::fmt::Debug for SetReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SetReader").field("set", &self.set).finish_non_exhaustive()
    }
}

impl SetReader {
    /// Reads `place`, a backup set of `media`.
    ///
    /// # Errors
    /// There is no memory.
    pub fn new(media: &Media, place: &SetPlace, reading: Reading) -> Result<SetReader, BackupError> {
        let mut stripes = Vec::new();
        let files = media.files();
        for (number, file) in files.iter().enumerate() {
            let (begin, end, behind) = (place.begins[number], place.ends[number], place.behind[number]);
            let unit = AlignedBuffer::new(UNIT)?;
            let ahead = (reading == Reading::Whole).then(|| ReadAhead::new(file, begin..behind, files.len()));
            let cursor = Mutex::new(Cursor { position: begin, ordinal: 0, next: None, unit, ahead });
            let stripe = Stripe { file: Arc::clone(file), end, cursor };
            stripe.skip_begin(media.label().media, place.number)?;
            stripes.push(stripe);
        }
        Ok(SetReader { media: media.label().media, set: place.number, stripes, turn: AtomicUsize::new(0) })
    }

    /// The pass of the data that comes next; `None` behind all data.
    ///
    /// # Errors
    /// A block is damaged or missing; a device's error.
    pub fn next_pass(&self) -> Result<Option<u32>, BackupError> {
        let mut pass = None;
        for stripe in &self.stripes {
            let next = stripe.peek(&mut stripe.cursor.lock(), self.media, self.set)?;
            if next.kind == BlockKind::Data {
                pass = Some(pass.map_or(next.content.pass, |pass: u32| pass.min(next.content.pass)));
            }
        }
        Ok(pass)
    }

    /// A block of data of this pass; `None` if there is no more. Blocks while it is read.
    ///
    /// # Errors
    /// A block is damaged or missing; a device's error.
    pub fn next_data<'b>(&self, pass: u32, buffer: &'b mut BlockBuffer) -> Result<Option<SavedBlock<'b>>, BackupError> {
        self.next_data_of(pass, &|_| true, buffer)
    }

    /// A block of data of this pass that `is_wanted`; `None` if there is no more. The others are gone over, without
    /// reading what they hold. Blocks while it is read.
    ///
    /// # Errors
    /// A block is damaged or missing; a device's error.
    pub fn next_data_of<'b>(
        &self,
        pass: u32,
        is_wanted: &dyn Fn(&Content) -> bool,
        buffer: &'b mut BlockBuffer,
    ) -> Result<Option<SavedBlock<'b>>, BackupError> {
        let is_next = |header: &BlockHeader| header.kind == BlockKind::Data && header.content.pass == pass;
        self.take(&is_next, is_wanted, buffer)
    }

    /// The block of the log whose first record is at `first`; `None` if there is none. Behind all data.
    ///
    /// # Errors
    /// A block is damaged or missing; a device's error.
    pub fn next_log<'b>(&self, first: u64, buffer: &'b mut BlockBuffer) -> Result<Option<SavedBlock<'b>>, BackupError> {
        let is_wanted = |header: &BlockHeader| header.kind == BlockKind::Log && header.content.first == first;
        self.take(&is_wanted, &|_| true, buffer)
    }

    /// Checks that every block was read.
    ///
    /// # Errors
    /// Some were not, or the end block is damaged; a device's error.
    pub fn check_end(&self) -> Result<(), BackupError> {
        for stripe in &self.stripes {
            let mut cursor = stripe.cursor.lock();
            let next = stripe.peek(&mut cursor, self.media, self.set)?;
            if next.kind != BlockKind::End {
                let what = "a block of a kind, or at a place, that does not belong here";
                return Err(BackupError::damaged(stripe.file.path(), cursor.position, what));
            }
        }
        Ok(())
    }

    /// Takes the next block for which `is_next` holds, from the stripes in turn. Blocks whose content is not wanted are
    /// passed over.
    fn take<'b>(
        &self,
        is_next: &dyn Fn(&BlockHeader) -> bool,
        is_wanted: &dyn Fn(&Content) -> bool,
        buffer: &'b mut BlockBuffer,
    ) -> Result<Option<SavedBlock<'b>>, BackupError> {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        for step in 0..self.stripes.len() {
            let stripe = &self.stripes[(turn + step) % self.stripes.len()];
            let mut cursor = stripe.lock();
            let mut header = stripe.peek(&mut cursor, self.media, self.set)?;
            while is_next(&header) && !is_wanted(&header.content) {
                cursor.go_behind(&header);
                header = stripe.peek(&mut cursor, self.media, self.set)?;
            }
            if !is_next(&header) {
                continue;
            }
            cursor.go_behind(&header);
            let block = header.position..header.position + header.block_bytes();
            let pieces = match &mut cursor.ahead {
                Some(ahead) => ahead.get(block)?,
                None => None,
            };
            drop(cursor);
            let payload = match pieces {
                Some(pieces) => buffer.take_known(&*stripe.file, &header, &pieces)?,
                // What cannot be read has its error here.
                None => buffer.read_known(&*stripe.file, &header)?,
            };
            return Ok(Some(SavedBlock { content: header.content, payload }));
        }
        Ok(None)
    }
}

impl Stripe {
    /// The cursor. Another thread that has it may be waiting for the device.
    fn lock(&self) -> MutexGuard<'_, Cursor> {
        self.cursor.try_lock().unwrap_or_else(|| {
            let _wait = Wait::begin(WaitType::BackupIo);
            self.cursor.lock()
        })
    }

    /// Goes behind the begin block, which was checked when the set was listed.
    fn skip_begin(&self, media: Guid, set: u32) -> Result<(), BackupError> {
        let mut cursor = self.cursor.lock();
        let header = self.peek(&mut cursor, media, set)?;
        if header.kind != BlockKind::Begin {
            return Err(BackupError::damaged(self.file.path(), header.position, "a backup set without its beginning"));
        }
        cursor.go_behind(&header);
        Ok(())
    }

    /// The header of the next block. Its checksum is checked when the block is read.
    fn peek(&self, cursor: &mut Cursor, media: Guid, set: u32) -> Result<BlockHeader, BackupError> {
        if let Some(next) = cursor.next {
            return Ok(next);
        }
        let position = cursor.position;
        let header = match cursor.read_ahead(position)? {
            true => header_in(&cursor.unit, &*self.file, position)?,
            false => read_header(&*self.file, position, &mut cursor.unit)?,
        };
        let is_end = header.kind == BlockKind::End;
        if header.media != media
            || header.set != set
            || header.ordinal != cursor.ordinal
            || is_end != (position == self.end)
        {
            return Err(BackupError::damaged(
                self.file.path(),
                position,
                "a block is missing, or of another backup set",
            ));
        }
        cursor.next = Some(header);
        Ok(header)
    }
}
