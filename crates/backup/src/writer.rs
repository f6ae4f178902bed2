//! Writes backup sets.
//!
//! Threads put blocks at the same time: each gets its place in a file under that file's lock, and writes outside of it.
//! The end blocks are written when all others are durable, and the links from the begin blocks to them last. So a
//! backup set with an end has everything.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use hobt_disk::DiskFile;
use parking_lot::Mutex;

use crate::BackupError;
use crate::block::{BlockBuffer, BlockHeader, BlockKind, Content, PAYLOAD_BYTES_MAX, Packed};
use crate::facts::{Guid, MediaLabel, SetFacts, encode};
use crate::reader::Media;

/// Room that is reserved at once, at least. It is as much as the backup set has so far.
const RESERVED_BYTES_MIN: u64 = 4 << 20;
/// Room that is reserved at once, at most.
const RESERVED_BYTES_MAX: u64 = 1 << 30;

/// What becomes of what the files hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Opening {
    /// The next backup set comes behind the others. Empty files become a new media set.
    Append,
    /// `INIT`: the backup sets go, the media set stays.
    Init,
    /// `FORMAT`: a new media set, whatever the files hold.
    Format,
}

/// A file of a media set that is being written.
struct Stripe {
    file: Arc<dyn DiskFile>,
    /// Where the next block goes.
    position: u64,
    /// The ordinal of the next block.
    ordinal: u64,
    /// Where the room that was reserved ends; `None` if no more is reserved.
    reserved: Option<u64>,
}

/// A media set to which a backup set is to be written.
pub struct MediaWriter {
    label: MediaLabel,
    stripes: Vec<Stripe>,
    /// The number of the next backup set.
    next_set: u32,
    /// Whether the files get labels first.
    is_new: bool,
}

impl std::fmt::Debug for MediaWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MediaWriter").field("label", &self.label).finish_non_exhaustive()
    }
}

impl MediaWriter {
    /// Opens a media set for writing. `label` is that of a new one; its numbers of files are filled in. The files are
    /// locked by the caller. Nothing is changed yet. Blocks.
    ///
    /// # Errors
    /// The files are not one whole media set, or no backups; a backup set in them is damaged, and would be overwritten
    /// with those behind it; a device's error.
    pub fn open(
        files: Vec<Arc<dyn DiskFile>>,
        opening: Opening,
        label: MediaLabel,
    ) -> Result<MediaWriter, BackupError> {
        let sizes = files.iter().map(|file| file.size()).collect::<Result<Vec<_>, _>>()?;
        if opening == Opening::Format || sizes.iter().all(|size| *size == 0) {
            let count = u16::try_from(files.len()).expect("at most 64 files");
            let stripes = files.into_iter().map(|file| Stripe::at(file, 0)).collect();
            let label = MediaLabel { stripes: count, stripe: 1, ..label };
            return Ok(MediaWriter { label, stripes, next_set: 1, is_new: true });
        }
        let media = Media::open(files)?;
        if opening == Opening::Append {
            media.check_end()?;
        }
        let sets = if opening == Opening::Init { &[][..] } else { media.sets() };
        let mut stripes = Vec::new();
        for (place, file) in media.files().iter().enumerate() {
            let position = sets.last().map_or(media.sets_begin(place), |last| last.behind[place]);
            stripes.push(Stripe::at(Arc::clone(file), position));
        }
        let next_set = u32::try_from(sets.len() + 1).unwrap_or(u32::MAX);
        Ok(MediaWriter { label: media.label().clone(), stripes, next_set, is_new: false })
    }

    /// The label of the media set.
    pub fn label(&self) -> &MediaLabel {
        &self.label
    }

    /// The number that the backup set will have.
    pub fn next_set(&self) -> u32 {
        self.next_set
    }

    /// Begins a backup set, whose payloads are compressed if `compresses`. What is not known of `facts` yet is given
    /// when it ends. Backup sets that it takes the place of are gone from here on.
    ///
    /// # Errors
    /// A device's error.
    pub fn begin(mut self, facts: &SetFacts, compresses: bool) -> Result<SetWriter, BackupError> {
        let mut buffer = BlockBuffer::new()?;
        let mut begins = Vec::new();
        let payload = encode(facts);
        for (number, stripe) in (1..).zip(&mut self.stripes) {
            stripe.file.set_size(stripe.position)?;
            if self.is_new {
                let own = MediaLabel { stripe: number, ..self.label.clone() };
                let header = stripe.header(BlockKind::Label, own.media, 0, number);
                put_facts(stripe, &mut buffer, header, &encode(&own))?;
                stripe.file.sync()?;
            }
            stripe.ordinal = 0;
            begins.push(stripe.position);
            let header = stripe.header(BlockKind::Begin, self.label.media, self.next_set, number);
            put_facts(stripe, &mut buffer, header, &payload)?;
        }
        Ok(SetWriter {
            media: self.label.media,
            set: self.next_set,
            compresses,
            begins,
            begin_payload: payload,
            stripes: self.stripes.into_iter().map(Mutex::new).collect(),
            next: AtomicUsize::new(0),
            stored: AtomicU64::new(0),
            payload: AtomicU64::new(0),
            is_complete: AtomicBool::new(false),
        })
    }
}

impl Stripe {
    fn at(file: Arc<dyn DiskFile>, position: u64) -> Stripe {
        Stripe { file, position, ordinal: 0, reserved: Some(position) }
    }

    /// Reserves room up to `end`, and for what follows: writes that make a file longer wait for each other. The end
    /// block is written when the room that is left over is given back.
    fn reserve(&mut self, begin: u64, end: u64) {
        if self.reserved.is_none_or(|reserved| end <= reserved) {
            return;
        }
        let step = (end - begin).clamp(RESERVED_BYTES_MIN, RESERVED_BYTES_MAX);
        // Most of the room that is left stays free for files that grow meanwhile.
        let has_room = self.file.device_free_bytes().is_ok_and(|free| free / 8 >= step);
        let is_reserved = has_room && self.file.reserve(end + step).unwrap_or(false);
        // Without it the writes make the file longer, and find out whether there is room.
        self.reserved = is_reserved.then_some(end + step);
    }

    /// The header of its next block.
    fn header(&self, kind: BlockKind, media: Guid, set: u32, stripe: u16) -> BlockHeader {
        BlockHeader {
            kind,
            is_compressed: false,
            stored: 0,
            payload: 0,
            set,
            position: self.position,
            media,
            ordinal: self.ordinal,
            link: 0,
            stripe,
            content: Content::default(),
        }
    }
}

/// Writes a block of facts.
fn put_facts(
    stripe: &mut Stripe,
    buffer: &mut BlockBuffer,
    header: BlockHeader,
    payload: &[u8],
) -> Result<(), BackupError> {
    if payload.len() > PAYLOAD_BYTES_MAX {
        return Err(BackupError::TooManyFiles { path: stripe.file.path().to_path_buf() });
    }
    buffer.payload_mut(payload.len()).copy_from_slice(payload);
    let packed = buffer.pack(payload.len(), false)?;
    stripe.position += packed.bytes();
    stripe.ordinal += 1;
    packed.write(&*stripe.file, header)
}

/// A backup set that is being written. Any thread may put blocks. If it is dropped before it is complete, its files are
/// as they were before it.
pub struct SetWriter {
    media: Guid,
    set: u32,
    compresses: bool,
    /// For each file the position of the begin block.
    begins: Vec<u64>,
    begin_payload: Vec<u8>,
    stripes: Vec<Mutex<Stripe>>,
    /// Counts blocks: they go to the files in turn.
    next: AtomicUsize,
    stored: AtomicU64,
    payload: AtomicU64,
    is_complete: AtomicBool,
}

impl Drop for SetWriter {
    fn drop(&mut self) {
        if self.is_complete.load(Ordering::Relaxed) {
            return;
        }
        for (stripe, begin) in self.stripes.iter_mut().zip(&self.begins) {
            // What is left is room that is lost until the next backup goes there, and nothing worse.
            let _left = stripe.get_mut().file.cut(*begin);
        }
    }
}

impl std::fmt::Debug for SetWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SetWriter").field("set", &self.set).finish_non_exhaustive()
    }
}

impl SetWriter {
    /// Completes the payload of `bytes` bytes that is in the buffer: compresses it, if the backup set is to be.
    ///
    /// # Errors
    /// There is no memory.
    pub fn pack<'b>(&self, buffer: &'b mut BlockBuffer, bytes: usize) -> Result<Packed<'b>, BackupError> {
        buffer.pack(bytes, self.compresses)
    }

    /// Writes a block. Log records are put by one thread, in order. Blocks.
    ///
    /// # Errors
    /// A device's error; the backup set cannot be completed then.
    pub fn put(&self, kind: BlockKind, content: Content, packed: Packed<'_>) -> Result<(), BackupError> {
        let place = self.next.fetch_add(1, Ordering::Relaxed) % self.stripes.len();
        let number = u16::try_from(place + 1).expect("at most 64 files");
        let (file, header) = {
            let mut stripe = self.stripes[place].lock();
            let header = BlockHeader { content, ..stripe.header(kind, self.media, self.set, number) };
            stripe.position += packed.bytes();
            stripe.ordinal += 1;
            let end = stripe.position;
            stripe.reserve(self.begins[place], end);
            (Arc::clone(&stripe.file), header)
        };
        self.stored.fetch_add(packed.bytes(), Ordering::Relaxed);
        self.payload.fetch_add(packed.payload_bytes(), Ordering::Relaxed);
        packed.write(&*file, header)
    }

    /// The files that blocks are written to.
    pub fn files(&self) -> Vec<Arc<dyn DiskFile>> {
        self.stripes.iter().map(|stripe| Arc::clone(&stripe.lock().file)).collect()
    }

    /// Bytes of the blocks so far, and of what they hold.
    pub fn bytes(&self) -> (u64, u64) {
        (self.stored.load(Ordering::Relaxed), self.payload.load(Ordering::Relaxed))
    }

    /// Completes the backup set, durably. All blocks have been put.
    ///
    /// # Errors
    /// A device's error: the backup set is not complete.
    pub fn finish(&self, facts: &SetFacts) -> Result<(), BackupError> {
        let mut buffer = BlockBuffer::new()?;
        let payload = encode(facts);
        let mut stripes: Vec<_> = self.stripes.iter().map(Mutex::lock).collect();
        for stripe in &stripes {
            // Nothing may lie behind the end block.
            stripe.file.set_size(stripe.position)?;
            stripe.file.sync()?;
        }
        let ends: Vec<u64> = stripes.iter().map(|stripe| stripe.position).collect();
        for (number, stripe) in (1..).zip(&mut stripes) {
            let header = stripe.header(BlockKind::End, self.media, self.set, number);
            put_facts(&mut *stripe, &mut buffer, header, &payload)?;
            stripe.file.sync()?;
        }
        for (place, stripe) in stripes.iter().enumerate() {
            let number = u16::try_from(place + 1).expect("at most 64 files");
            let position = self.begins[place];
            let begin = Stripe::at(Arc::clone(&stripe.file), position);
            let header = begin.header(BlockKind::Begin, self.media, self.set, number);
            buffer.payload_mut(self.begin_payload.len()).copy_from_slice(&self.begin_payload);
            let packed = buffer.pack(self.begin_payload.len(), false)?;
            packed.write(&*stripe.file, BlockHeader { link: ends[place], ..header })?;
            stripe.file.sync()?;
        }
        self.is_complete.store(true, Ordering::Relaxed);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use hobt_disk::{Disk, Fault, FaultKind, OpenOptions, Operation, SimulatedConfig, SimulatedDisk};

    use super::*;

    const BLOCKS: u64 = 20;

    fn writer(disk: &SimulatedDisk) -> (Arc<dyn DiskFile>, SetWriter) {
        let options = OpenOptions { create_new: true, direct: true, ..OpenOptions::default() };
        let file = disk.open(Path::new("/any.bak"), options).expect("a new file");
        let label = MediaLabel { media: Guid([7; 16]), ..MediaLabel::default() };
        let media = MediaWriter::open(vec![Arc::clone(&file)], Opening::Format, label).expect("open");
        (file, media.begin(&SetFacts::default(), false).expect("begun"))
    }

    fn put(set: &SetWriter) -> Result<(), BackupError> {
        let mut buffer = BlockBuffer::new()?;
        buffer.payload_mut(PAYLOAD_BYTES_MAX).fill(5);
        let packed = set.pack(&mut buffer, PAYLOAD_BYTES_MAX)?;
        set.put(BlockKind::Data, Content::default(), packed)
    }

    /// Room is reserved ahead, and nothing of it is left behind the end block; nor is anything of a backup set that is
    /// given up.
    #[test]
    fn room_that_is_left_over_is_given_back() {
        for is_finished in [true, false] {
            let disk = SimulatedDisk::start(SimulatedConfig::default()).expect("a disk in memory");
            let (file, set) = writer(&disk);
            let begin = set.begins[0];
            for _ in 0..BLOCKS {
                put(&set).expect("put");
            }
            assert!(file.size().expect("a size") > begin + (BLOCKS + 1) * PAYLOAD_BYTES_MAX as u64);
            if is_finished {
                set.finish(&SetFacts::default()).expect("finished");
                let media = Media::open(vec![Arc::clone(&file)]).expect("a media set");
                assert!(media.sets().len() == 1 && !media.is_cut_short());
            }
            drop(set);
            assert_eq!(file.size().expect("a size") == begin, !is_finished);
        }
    }

    /// Where no room can be reserved, blocks are written as long as there is room for them.
    #[test]
    fn blocks_need_no_reserved_room() {
        let disk = SimulatedDisk::start(SimulatedConfig::default()).expect("a disk in memory");
        let (file, set) = writer(&disk);
        disk.inject(Fault::once(Operation::SetSize, 0, FaultKind::Error(28)));
        for _ in 0..BLOCKS {
            put(&set).expect("put");
        }
        set.finish(&SetFacts::default()).expect("finished");
        assert_eq!(Media::open(vec![file]).expect("a media set").sets().len(), 1);
    }
}
