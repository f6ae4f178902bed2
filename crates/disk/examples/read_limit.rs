//! The throughput of a sequential direct read through this crate: `cargo run --release --example read_limit -- FILE
//! [READ_KIB] [DEPTH] [auto|io_uring|threads]`.

use hobt_disk::{AlignedBuffer, CompletionQueue, Direction, DiskKind, IoBuffer, OpenOptions, Request, open_disk};
use hobt_instruments::processor::process_cpu_time;
use std::path::Path;
use std::time::Instant;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let argument = |n: usize, default: &str| arguments.get(n).cloned().unwrap_or_else(|| default.to_string());
    let path = argument(1, "");
    if path.is_empty() {
        return Err("usage: read_limit FILE [READ_KIB] [DEPTH] [auto|io_uring|threads]".into());
    }
    let read_bytes = argument(2, "512").parse::<usize>()? << 10;
    let depth: usize = argument(3, "16").parse()?;
    let kind = DiskKind::from_name(&argument(4, "auto")).ok_or("the disk is auto, io_uring or threads")?;
    if read_bytes == 0 || depth == 0 {
        return Err("read size and depth must be above 0".into());
    }

    let disk = open_disk(kind)?;
    let file = disk.open(Path::new(&path), OpenOptions { direct: true, read_only: true, ..OpenOptions::default() })?;
    let queue = CompletionQueue::new();
    let end = file.size()? / read_bytes as u64 * read_bytes as u64;
    let mut offset = 0;
    let mut submit = |buffer: AlignedBuffer| {
        if offset < end {
            let (buffer, queue) = (IoBuffer::Owned(buffer), queue.clone());
            file.submit(Request { direction: Direction::Read, offset, buffer, tag: 0, queue });
            offset += read_bytes as u64;
        }
    };
    let (since, cpu) = (Instant::now(), process_cpu_time());
    for _ in 0..depth {
        submit(AlignedBuffer::new(read_bytes)?);
    }
    while let Some(completion) = queue.wait_pop() {
        completion.result?;
        submit(completion.buffer.into_owned().expect("the request owned its buffer"));
    }
    let (seconds, cpu) = (since.elapsed().as_secs_f64(), (process_cpu_time() - cpu).as_secs_f64());
    let reads = file.statistics().snapshot().reads;
    println!(
        "{} direct={} {} reads of {} KiB, {depth} at once: {:.0} MB/s, {seconds:.3} s, {cpu:.3} CPU s",
        disk.kind(),
        file.is_direct(),
        reads.count,
        read_bytes >> 10,
        reads.bytes as f64 / 1e6 / seconds,
    );
    Ok(())
}
