//! `hobt-interleave`: runs the worlds of many seeds, or one of them again.

use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

use hobt_instruments::planted::{Bug, plant};
use hobt_instruments::processor::{processor_count, set_thread_affinity};
use hobt_interleave::failure::conclude;
use hobt_interleave::{Failure, Options, Report, shrink, simulate};
use mimalloc::MiMalloc;

/// As in the server: statements allocate and free much memory in small pieces.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

const USAGE: &str =
    "usage: hobt-interleave --seeds FROM..TO [--sessions N] [--transactions N] [--lives N] [--processes N] [--fill-up yes|no]
       hobt-interleave --seed N [--shrink TRIES] [--bug NAME]  one world again, with all that was run
       hobt-interleave --planted SEEDS [--bug NAME]  bugs on purpose, and the first of so many seeds that finds each";

struct Arguments {
    from: u64,
    to: u64,
    processes: u64,
    /// The part of the seeds: those that leave this remainder when divided by the number of processes.
    part: Option<u64>,
    one: Option<u64>,
    shrink: u64,
    planted: Option<u64>,
    bug: Option<Bug>,
    options: Options,
}

fn arguments() -> Option<Arguments> {
    let options = Options::default();
    let mut parsed = Arguments {
        from: 0,
        to: 1000,
        processes: 1,
        part: None,
        one: None,
        shrink: 0,
        planted: None,
        bug: None,
        options,
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let value = words.next()?;
        let number = || value.parse::<u64>().ok();
        match word.as_str() {
            "--seeds" => {
                let (from, to) = value.split_once("..")?;
                (parsed.from, parsed.to) = (from.parse().ok()?, to.parse().ok()?);
            }
            "--sessions" => parsed.options.sessions = number()?,
            "--transactions" => parsed.options.transactions = number()?,
            "--lives" => parsed.options.lives = number()?,
            "--fill-up" => parsed.options.fills_up = ["no", "yes"].iter().position(|known| *known == value)? == 1,
            "--processes" => parsed.processes = number()?.max(1),
            "--part" => parsed.part = Some(number()?),
            "--seed" => parsed.one = Some(number()?),
            "--shrink" => parsed.shrink = number()?,
            "--planted" => parsed.planted = Some(number()?),
            "--bug" => parsed.bug = Some(Bug::named(&value)?),
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
    if let Some(seed) = arguments.one {
        return one(seed, &arguments);
    }
    if arguments.processes > 1 && arguments.part.is_none() {
        return many(&arguments);
    }
    if let Some(part) = arguments.part {
        // Turns pass from thread to thread faster on one processor.
        let processor = usize::try_from(part).unwrap_or(0) % processor_count();
        let _stays_unbound = set_thread_affinity(&[processor]);
    }
    if let Some(seeds) = arguments.planted {
        return planted(seeds, &arguments);
    }
    let since = Instant::now();
    let (mut total, mut failures, mut seeds) = (Report::default(), Vec::<Failure>::new(), 0);
    let part = arguments.part.unwrap_or(0);
    for seed in (arguments.from..arguments.to).filter(|seed| seed % arguments.processes == part) {
        seeds += 1;
        match simulate(seed, &arguments.options) {
            Ok(report) => total.add(&report),
            Err(failure) => {
                eprintln!("seed {seed} FAILED: {}", failure.text);
                failures.push(failure);
            }
        }
        if seeds % 500 == 0 {
            eprintln!("{seeds} seeds, {} failures, {} s", failures.len(), since.elapsed().as_secs());
        }
    }
    let seconds = since.elapsed().as_secs_f64();
    println!("seeds               {seeds} ({}..{})", arguments.from, arguments.to);
    println!("interleavings       {} points, {} switches", total.points, total.switches);
    println!(
        "a second            {:.1} seeds, {:.0} switches",
        f64::from(seeds) / seconds,
        per(total.switches, seconds)
    );
    println!("starts              {}", total.starts);
    println!("crashes             {} and {} in recovery", total.crashes, total.crashes_in_recovery);
    println!("statements          {}", total.statements);
    println!("commits             {} acknowledged, {} in doubt at a crash", total.commits, total.doubtful);
    println!("judged              {} reads, {} changes", total.reads, total.writes);
    println!("deadlocks           {}, conflicts of snapshots {}", total.deadlocks, total.conflicts);
    println!("no room             {} statements", total.full);
    println!("seconds             {seconds:.1}");
    conclude(&failures)
}

#[expect(clippy::cast_precision_loss, reason = "a rate for people")]
fn per(count: u64, seconds: f64) -> f64 {
    count as f64 / seconds
}

/// Runs one world and prints everything that was run, reduced if requested.
fn one(seed: u64, arguments: &Arguments) -> ExitCode {
    let options = Options { keeps_log: true, ..arguments.options.clone() };
    let _planted = plant(arguments.bug);
    if arguments.shrink > 0 {
        return match shrink(seed, &options, arguments.shrink) {
            None => {
                println!("seed {seed} does not fail");
                ExitCode::SUCCESS
            }
            Some((failure, tries)) => {
                println!("{failure}\n(what {tries} tries left of it)");
                ExitCode::FAILURE
            }
        };
    }
    match simulate(seed, &options) {
        Ok(report) => {
            println!("{report:#?}");
            ExitCode::SUCCESS
        }
        Err(failure) => {
            println!("{failure}");
            ExitCode::FAILURE
        }
    }
}

/// Plants each bug, and prints which seed finds it first.
fn planted(seeds: u64, arguments: &Arguments) -> ExitCode {
    let mut missed = 0;
    let part = arguments.part.unwrap_or(0);
    for (at, bug) in (0..).zip(Bug::ALL) {
        let name = format!("{bug:?}");
        if at % arguments.processes != part || arguments.bug.is_some_and(|wanted| wanted != bug) {
            continue;
        }
        let since = Instant::now();
        // A seed that fails without the bug proves nothing.
        let finds = |seed: u64| {
            let failure = {
                let _planted = plant(Some(bug));
                simulate(seed, &arguments.options).err()?
            };
            simulate(seed, &arguments.options).is_ok().then_some(failure)
        };
        let found =
            (arguments.from..arguments.from + seeds).find_map(|seed| finds(seed).map(|failure| (seed, failure)));
        let seconds = since.elapsed().as_secs();
        match found {
            Some((seed, failure)) => {
                let text: String = failure.text.chars().take(140).collect();
                println!("{name:28} seed {seed:5} {seconds:4} s  {}", text.replace('\n', " "));
            }
            None => {
                missed += 1;
                println!("{name:28} not found by {seeds} seeds, {seconds} s");
            }
        }
    }
    if missed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Divides the seeds among processes, so that process-wide state is shared only by the actors of one world.
fn many(arguments: &Arguments) -> ExitCode {
    let program = std::env::current_exe().expect("the program that runs");
    let mut children = Vec::new();
    for part in 0..arguments.processes {
        let mut command = Command::new(&program);
        command.args(std::env::args().skip(1)).args(["--part", &part.to_string()]).stdin(Stdio::null());
        children.push(command.spawn().expect("a process"));
    }
    let ended: Vec<bool> =
        children.into_iter().map(|mut child| child.wait().is_ok_and(|status| status.success())).collect();
    if ended.into_iter().all(|well| well) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
