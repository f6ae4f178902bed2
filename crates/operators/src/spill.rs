//! Spill files for DataFusion's operators, and for the batches that a statement holds (`held`), among the instance's
//! spill files in `tempdb`, which also count them.
//!
//! An operator writes a file completely before it reads it. Bytes are buffered, so that every write but the last is at
//! least as large as a read.

use std::io::{self, BufReader, Read, Write};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use datafusion::common::{DataFusionError, Result};
use datafusion::execution::spill_file::{SpillFile as PlanSpillFile, SpillWriter, TempFileFactory};
use datafusion::object_store::PutPayload;
use futures::Stream;
use hobt_base::errors;
use hobt_disk::DiskError;
use hobt_engine::{SpillFile, SpillFiles, disk_error};

use hobt_udf::external;

/// Bytes per write and per read.
const TRANSFER_BYTES: usize = 128 << 10;

/// The bytes of a read, in DataFusion's type. DataFusion does not re-export the crate of that type, so it is taken from
/// a payload's items.
type Bytes = <PutPayload as IntoIterator>::Item;

/// Creates spill files for all operators of an instance.
pub(super) struct SpillFactory {
    files: Arc<SpillFiles>,
}

impl SpillFactory {
    /// Creates the files among an instance's spill files.
    pub(super) fn new(files: &Arc<SpillFiles>) -> SpillFactory {
        SpillFactory { files: Arc::clone(files) }
    }
}

impl TempFileFactory for SpillFactory {
    fn create_temp_file(&self, _: &str) -> Result<Arc<dyn PlanSpillFile>> {
        let file = self.files.create().map_err(cannot_create)?;
        Ok(Arc::new(OperatorFile(Arc::new(file))))
    }
}

/// The spill file of one operator.
struct OperatorFile(Arc<SpillFile>);

impl PlanSpillFile for OperatorFile {
    fn size(&self) -> Option<u64> {
        Some(self.0.size_bytes())
    }

    fn read_stream(&self) -> Result<Pin<Box<dyn Stream<Item = Result<Bytes>> + Send>>> {
        Ok(Box::pin(Reader { file: Arc::clone(&self.0), offset: 0 }))
    }

    fn open_writer(&self) -> Result<Box<dyn SpillWriter>> {
        Ok(Box::new(Writer::new(&self.0)))
    }
}

/// A file among an instance's spill files, for the statement itself.
///
/// # Errors
/// 5123, 1105.
pub(super) fn create(files: &Arc<SpillFiles>) -> Result<Arc<SpillFile>> {
    files.create().map(Arc::new).map_err(cannot_create)
}

/// Reads a file from its beginning to its end. A read blocks the worker, which accounts for the wait.
#[derive(Debug)]
pub(super) struct Reader {
    file: Arc<SpillFile>,
    offset: u64,
}

impl Reader {
    /// Reads the file, which stays until it is dropped, in large transfers.
    pub(super) fn buffered(file: &Arc<SpillFile>) -> BufReader<Reader> {
        BufReader::with_capacity(TRANSFER_BYTES, Reader { file: Arc::clone(file), offset: 0 })
    }
}

impl Read for Reader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.file.size_bytes() - self.offset).unwrap_or(usize::MAX);
        let bytes = left.min(buffer.len());
        if bytes > 0 {
            self.file.read_at(&mut buffer[..bytes], self.offset).map_err(io_error)?;
        }
        self.offset += bytes as u64;
        Ok(bytes)
    }
}

impl Stream for Reader {
    type Item = Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let left = self.file.size_bytes().saturating_sub(self.offset);
        if left == 0 {
            return Poll::Ready(None);
        }
        let mut bytes = vec![0; usize::try_from(left).unwrap_or(usize::MAX).min(TRANSFER_BYTES)];
        let read = self.file.read_at(&mut bytes, self.offset);
        self.offset += bytes.len() as u64;
        Poll::Ready(Some(read.map(|()| Bytes::from(bytes)).map_err(plan_error)))
    }
}

/// Writes a file.
#[derive(Debug)]
pub(super) struct Writer {
    file: Arc<SpillFile>,
    gathered: Vec<u8>,
}

impl Writer {
    /// Writes the file, which is empty.
    pub(super) fn new(file: &Arc<SpillFile>) -> Writer {
        Writer { file: Arc::clone(file), gathered: Vec::new() }
    }

    fn append(&self, bytes: &[u8]) -> io::Result<()> {
        if bytes.is_empty() { Ok(()) } else { self.file.append(bytes).map_err(io_error) }
    }
}

impl Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.gathered.len() + bytes.len() > TRANSFER_BYTES {
            self.flush()?;
        }
        if bytes.len() >= TRANSFER_BYTES {
            self.append(bytes)?;
        } else {
            self.gathered.extend_from_slice(bytes);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.append(&self.gathered)?;
        self.gathered.clear();
        Ok(())
    }
}

impl SpillWriter for Writer {
    fn finish(&mut self) -> Result<()> {
        self.flush().map_err(DataFusionError::IoError)
    }
}

fn plan_error(error: DiskError) -> DataFusionError {
    match error {
        DiskError::NoSpace { .. } => DataFusionError::IoError(io_error(error)),
        other => external(disk_error(&other)),
    }
}

/// 5123, or 1105.
fn cannot_create(error: DiskError) -> DataFusionError {
    if let DiskError::NoSpace { .. } = error {
        return plan_error(error);
    }
    external(errors::SPILL_FILE.with([&error]))
}

/// Converts to an I/O error: for a full disk with its kind, otherwise with the text that the user sees.
fn io_error(error: DiskError) -> io::Error {
    match error {
        DiskError::NoSpace { ref source, .. } => io::Error::new(source.kind(), error),
        other => io::Error::other(disk_error(&other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::StreamExt;
    use hobt_engine::{Instance, InstanceSettings};

    #[test]
    fn what_is_written_in_pieces_is_read_as_it_was_in_large_transfers() {
        let folder = std::env::temp_dir().join(format!("hobt-spill-{}", std::process::id()));
        let settings = InstanceSettings { memory_bytes: Some(64 << 20), ..InstanceSettings::default() };
        let instance = Instance::open(&folder, settings).expect("an instance");
        instance.spills().prepare().expect("a folder");
        let file = SpillFactory::new(instance.spills()).create_temp_file("a test").expect("a file");
        let mut writer = file.open_writer().expect("a writer");
        let (mut written, mut random) = (Vec::new(), hobt_base::SplitMix64::new(1));
        for length in (0..300).map(|piece| piece * 37 % 5000).chain([TRANSFER_BYTES + 1, 3]) {
            let piece: Vec<u8> = (0..length).map(|_| random.next_u64().to_le_bytes()[0]).collect();
            writer.write_all(&piece).expect("written");
            written.extend(piece);
        }
        writer.finish().expect("written");
        assert_eq!(file.size(), Some(written.len() as u64));
        let chunks = file.read_stream().expect("a stream").map(|chunk| chunk.expect("read").to_vec());
        let read: Vec<u8> = futures::executor::block_on(chunks.concat());
        assert!(read == written, "{} bytes read, {} written", read.len(), written.len());
        let transfers = instance.spills().transfers();
        let least = written.len().div_ceil(TRANSFER_BYTES) as u64;
        assert_eq!(transfers.reads.count, least);
        assert!(transfers.writes.count <= 2 * least, "{} writes", transfers.writes.count);
        drop((writer, file));
        instance.close().expect("closed");
        std::fs::remove_dir_all(&folder).expect("removed");
    }
}
