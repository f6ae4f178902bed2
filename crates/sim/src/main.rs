//! `hobt-sim --seeds FROM..TO [--steps N] [--lives N] [--threads N]`: runs the worlds of many seeds.

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use hobt_sim::failure::conclude;
use hobt_sim::{Failure, Options, Report, simulate};

const USAGE: &str = "usage: hobt-sim --seeds FROM..TO [--steps N] [--lives N] [--threads N]";

struct Arguments {
    from: u64,
    to: u64,
    threads: u64,
    options: Options,
}

fn arguments() -> Option<Arguments> {
    let mut parsed = Arguments { from: 0, to: 1000, threads: 1, options: Options::default() };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let value = words.next()?;
        match word.as_str() {
            "--seeds" => {
                let (from, to) = value.split_once("..")?;
                (parsed.from, parsed.to) = (from.parse().ok()?, to.parse().ok()?);
            }
            "--steps" => parsed.options.steps = value.parse().ok()?,
            "--lives" => parsed.options.lives = value.parse().ok()?,
            "--threads" => parsed.threads = value.parse().ok()?,
            _ => return None,
        }
    }
    Some(parsed)
}

fn main() -> ExitCode {
    let Some(arguments) = arguments() else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let since = Instant::now();
    let next = AtomicU64::new(arguments.from);
    let total = Mutex::new((Report::default(), Vec::<Failure>::new(), 0_u64));
    std::thread::scope(|scope| {
        for _ in 0..arguments.threads.max(1) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= arguments.to {
                        return;
                    }
                    let outcome = simulate(seed, &arguments.options);
                    let mut total = total.lock().expect("no thread panics with it");
                    total.2 += 1;
                    match outcome {
                        Ok(report) => total.0.add(&report),
                        Err(failure) => {
                            eprintln!("seed {seed} FAILED: {}", failure.text);
                            total.1.push(failure);
                        }
                    }
                    if total.2.is_multiple_of(1000) {
                        let (report, failures, seeds) = &*total;
                        let crashes = report.crashes + report.crashes_in_recovery;
                        let seconds = since.elapsed().as_secs();
                        eprintln!("{seeds} seeds, {crashes} crashes, {} failures, {seconds} s", failures.len());
                    }
                }
            });
        }
    });
    let (report, failures, seeds) = total.into_inner().expect("no thread panics with it");
    println!("seeds               {seeds} ({}..{})", arguments.from, arguments.to);
    println!("starts              {}", report.starts);
    println!("crashes             {} and {} in recovery", report.crashes, report.crashes_in_recovery);
    println!("statements          {}", report.statements);
    println!("commits             {} acknowledged, {} in doubt at a crash", report.commits, report.doubtful);
    println!("  over databases    {}", report.commits_across);
    println!("  delayed           {}", report.commits_delayed);
    println!("files removed       {}", report.files_removed);
    println!("rows read back      {}", report.rows_checked);
    println!("seconds             {:.1}", since.elapsed().as_secs_f64());
    conclude(&failures)
}
