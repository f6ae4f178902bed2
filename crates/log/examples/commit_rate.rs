//! The cost of a commit: records appended and flushed by 1, 8 and 64 threads, compared with a loop of durable writes of
//! 4 KiB on the same device. The two alternate, so that other load affects both.
//!
//!     cargo run --release -p hobt-log --example commit_rate -- DIR

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hobt_base::Lsn;
use hobt_disk::{AlignedBuffer, Disk, DiskKind, OpenOptions, open_disk};
use hobt_log::{Log, LogFile, NewRecord, RecoveryStart, Reservation};

const ROUND: Duration = Duration::from_millis(1500);
const ROUNDS: usize = 7;
/// Room for the writes of one round. All of it is free again before the next round.
const FILE_BYTES: u64 = 1 << 30;
/// The size of an inserted row of the INSERT challenge; below it, that of the record that commits it.
const ROW_BYTES: usize = 300;
const COMMIT_BYTES: usize = 16;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = PathBuf::from(std::env::args().nth(1).unwrap_or_else(|| ".".to_owned()));
    let paths = [folder.join("commit_rate.ldf"), folder.join("commit_rate.raw")];
    let disk = open_disk(DiskKind::Auto)?;
    let measured = measure(&*disk, &paths);
    for path in paths.iter().filter(|path| disk.exists(path)) {
        disk.remove(path)?;
    }
    measured
}

fn measure(disk: &dyn Disk, paths: &[PathBuf; 2]) -> Result<(), Box<dyn std::error::Error>> {
    let options = OpenOptions { create_new: true, direct: true, ..OpenOptions::default() };
    let file = disk.open(&paths[0], options)?;
    let raw = disk.open(&paths[1], options)?;
    println!(
        "{ROUNDS} pairs of {ROUND:?}, records of {ROW_BYTES} and {COMMIT_BYTES} bytes, direct: {}",
        raw.is_direct()
    );
    let log_file =
        LogFile { disk: file, id: 2, name: String::new(), bytes: FILE_BYTES, growth_bytes: 0, bytes_max: FILE_BYTES };
    let log = Log::create(&[log_file], 1, 8 << 20)?;
    let page = AlignedBuffer::new(4096)?;
    let zeros = AlignedBuffer::new(1 << 20)?;
    raw.set_size(FILE_BYTES)?;
    for offset in (0..FILE_BYTES).step_by(zeros.len()) {
        raw.write_at(&zeros, offset)?;
    }
    raw.sync()?;
    for threads in [1, 8, 64] {
        let mut ratios = Vec::new();
        let (mut rates, mut flushes) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let raw_rate = raw_round(&*raw, &page)?;
            let (rate, per_commit) = commit_round(&log, threads)?;
            ratios.push(rate / raw_rate);
            rates.push(rate);
            flushes.push(per_commit);
            let last = Lsn(log.durable().0 - 8);
            log.set_recovery_start(RecoveryStart::at(last))?;
        }
        println!(
            "{threads:3} threads: {:9.0} commits/s, {:.3} flushes a commit, {:.3} of the raw loop",
            median(&mut rates),
            median(&mut flushes),
            median(&mut ratios)
        );
    }
    Ok(())
}

/// Durable writes per second, one after the other.
fn raw_round(raw: &dyn hobt_disk::DiskFile, page: &[u8]) -> Result<f64, Box<dyn std::error::Error>> {
    let (started, mut count) = (Instant::now(), 0u64);
    while started.elapsed() < ROUND {
        raw.write_durable_at(page, count * 4096 % FILE_BYTES)?;
        count += 1;
    }
    Ok(count as f64 / started.elapsed().as_secs_f64())
}

/// Commits per second, and flushes per commit.
fn commit_round(log: &Log, threads: u64) -> Result<(f64, f64), Box<dyn std::error::Error>> {
    let before = log.statistics();
    let commits = AtomicU64::new(0);
    let started = Instant::now();
    std::thread::scope(|scope| {
        let commits = &commits;
        let commit_all = move |transaction| -> Result<(), hobt_log::LogError> {
            let free = Reservation::default();
            while started.elapsed() < ROUND {
                let row = [1; ROW_BYTES];
                let record = NewRecord { kind: 1, transaction, previous: Lsn(0), payload: &row };
                let previous = log.append_always(&record, &free)?.lsn;
                let commit = NewRecord { kind: 2, transaction, previous, payload: &row[..COMMIT_BYTES] };
                log.flush_past(log.append_always(&commit, &free)?.lsn)?;
                commits.fetch_add(1, Ordering::Relaxed);
            }
            Ok(())
        };
        let workers: Vec<_> = (0..threads).map(|transaction| scope.spawn(move || commit_all(transaction))).collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("no panic"))
    })?;
    let commits = commits.into_inner() as f64;
    let flushes = log.statistics().flushes - before.flushes;
    Ok((commits / started.elapsed().as_secs_f64(), flushes as f64 / commits))
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
