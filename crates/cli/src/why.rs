//! `hobt why`: runs a query and says where its time went.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use hobt_base::{SqlError, number};
use hobt_instruments::processor::steal_time;
use hobt_lab::{Grid, terminal_width};
use hobt_session::{Event, Flow, StatementStatistics, ThreadTime};
use hobt_showplan::{counted, ms};

use crate::interrupt::{Interrupts, Source};
use crate::open::{InstanceArguments, OpenError};
use hobt::plan::{self, Drawing};
use hobt::{Instance, Session};

/// The arguments of `hobt why`.
#[derive(Args, Clone, Debug)]
pub(crate) struct Arguments {
    #[command(flatten)]
    instance: InstanceArguments,
    /// The batch
    #[arg(short = 'Q', long = "query", value_name = "SQL")]
    query: String,
    /// Empties the buffer pool first
    #[arg(long)]
    cold: bool,
}

/// Reads of one class of sizes: transfers and bytes.
type ReadsBySize = BTreeMap<u64, (u64, u64)>;

/// Runs the sub-command.
pub(crate) fn run(arguments: &Arguments, interrupts: &Interrupts) -> ExitCode {
    let (instance, mut session) = match arguments.instance.open_existing("hobt why") {
        Ok(opened) => opened,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    interrupts.begin();
    interrupts.watch(session.cancel_handle(), &instance, Source::Script);
    let explained = explain(arguments, &instance, &mut session);
    interrupts.close();
    drop(session);
    match explained.and(instance.close()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            if error.number == number::CANCELED && interrupts.exit_code().is_some() {
                eprintln!("The batch was interrupted, and its changes since its last commit are undone.");
            }
            interrupts.failed(Some(error.number), &OpenError::from(error))
        }
    }
}

fn explain(arguments: &Arguments, instance: &Instance, session: &mut Session) -> Result<(), SqlError> {
    if arguments.cold {
        session.run("CHECKPOINT; DBCC DROPCLEANBUFFERS WITH NO_INFOMSGS")?;
    }
    let before = reads_by_size(instance)?;
    let (begun, stolen) = (Instant::now(), steal_time());
    let (rows, statements) = measure(session, &arguments.query)?;
    let whole = begun.elapsed();
    let stolen = steal_time().zip(stolen).map_or(Duration::ZERO, |(after, before)| after.saturating_sub(before));
    let mut reads = reads_by_size(instance)?;
    for (size, (count, bytes)) in &mut reads {
        let (old_count, old_bytes) = before.get(size).copied().unwrap_or_default();
        *count -= old_count.min(*count);
        *bytes -= old_bytes.min(*bytes);
    }
    reads.retain(|_, (count, _)| *count > 0);
    for (index, cost) in statements.iter().enumerate() {
        if statements.len() > 1 {
            println!("Statement {}", index + 1);
        }
        print_cost(cost);
    }
    let elapsed = statements.iter().map(|cost| cost.elapsed).sum();
    let outside = ms(whole.saturating_sub(elapsed));
    let whole = ms(whole);
    println!(
        "The batch took {whole} ms, {outside} of them for parsing it, showing plans, further turns of loops, and what has \
         no figures here"
    );
    if !stolen.is_zero() {
        let stolen = ms(stolen);
        println!(
            "The hypervisor gave {stolen} ms of this machine's processors to others meanwhile: some of it stands in the \
             waits above, some in what is unexplained"
        );
    }
    println!("Rows sent: {rows}");
    print_reads(&reads, elapsed);
    Ok(())
}

/// Runs the batch; gives the rows that it sent and what its statements cost.
fn measure(session: &mut Session, batch: &str) -> Result<(u64, Vec<StatementStatistics>), SqlError> {
    let (mut rows, mut statements, mut first) = (0, Vec::new(), None);
    session.collect_plans(true);
    session.execute(batch, &mut |event: Event| {
        match event {
            Event::Rows(batch) => rows += batch.num_rows() as u64,
            Event::Statistics(cost) => statements.push(*cost),
            Event::Error(error) => {
                first.get_or_insert(error);
            }
            _ => {}
        }
        Flow::Continue
    });
    first.map_or(Ok((rows, statements)), Err)
}

/// The instance's reads so far, by size class.
fn reads_by_size(instance: &Instance) -> Result<ReadsBySize, SqlError> {
    let engine = instance.server().instance();
    let mut sizes = ReadsBySize::new();
    for description in engine.databases() {
        let Ok(database) = engine.database_by_id(description.id) else { continue };
        for file in database.storage().files() {
            for size in file.disk().statistics().snapshot().reads.sizes {
                let sum = sizes.entry(size.bytes_min).or_default();
                sum.0 += size.count;
                sum.1 += size.bytes;
            }
        }
    }
    Ok(sizes)
}

/// A size class as people say it: `512 KiB`.
fn size_text(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} bytes"),
        1024..1_048_576 => format!("{} KiB", bytes >> 10),
        _ => format!("{} MiB", bytes >> 20),
    }
}

/// Whose time the parts of a statement's time are parts of.
fn threads_text(threads: ThreadTime) -> String {
    let own = ms(threads.own);
    match threads.workers {
        0 => format!("Time of its thread: {own} ms"),
        workers => {
            let (whole, working) = (ms(threads.total()), ms(threads.working));
            let workers = counted(workers as u64, "worker");
            format!("Time of its threads: {whole} ms, {own} of its own and {working} of {workers}")
        }
    }
}

/// Time of a statement's threads: what they computed, what they waited for, what is left unexplained.
fn print_cost(cost: &StatementStatistics) {
    let whole = cost.threads.total();
    let share = |part: Duration| match whole.is_zero() {
        true => "-".to_owned(),
        false => format!("{:.1}", 100.0 * part.as_secs_f64() / whole.as_secs_f64()),
    };
    println!("Elapsed {} ms, of which {} compiling", ms(cost.elapsed), ms(cost.compile));
    if let Some(made) = cost.statistics_cost.text() {
        println!("Of it, {made}");
    }
    println!("{}", threads_text(cost.threads));
    let mut times = Grid::new("", &["where", "times", "ms", "% of threads' time"]);
    times.rows.push(vec!["CPU".to_owned(), String::new(), ms(cost.cpu), share(cost.cpu)]);
    let mut waits = cost.waits.clone();
    waits.sort_by_key(|(_, _, time)| std::cmp::Reverse(*time));
    for (name, count, time) in waits {
        times.rows.push(vec![name.to_owned(), count.to_string(), ms(time), share(time)]);
    }
    let rest = cost.unexplained();
    times.rows.push(vec!["unexplained".to_owned(), String::new(), ms(rest), share(rest)]);
    print!("{}", times.to_text());
    if !cost.reads.is_empty() {
        let mut pages = Grid::new("", &["table", "scans", "logical reads", "physical reads", "read-ahead reads"]);
        for reads in &cost.reads {
            let counts = [reads.scans, reads.logical, reads.physical, reads.read_ahead].map(|count| count.to_string());
            pages.rows.push(std::iter::once(reads.table.clone()).chain(counts).collect());
        }
        print!("{}", pages.to_text());
    }
    if let Some(plan) = &cost.plan {
        print!("{}", plan::draw(plan, Drawing { has_colours: io::stdout().is_terminal(), width: terminal_width() }));
    }
    if !cost.filters.is_empty() {
        let headers = ["filter on", "by", "rows left out", "pages left out", "pages not read"];
        let mut filters = Grid::new("", &headers);
        for (table, filter) in &cost.filters {
            let counts = [filter.rows, filter.pages, filter.skipped_pages].map(|count| count.to_string());
            let what = [format!("{table}.{}", filter.name), filter.kind.unwrap_or("nothing").to_owned()];
            filters.rows.push(what.into_iter().chain(counts).collect());
        }
        print!("{}", filters.to_text());
    }
    if cost.join_splits > 0 {
        println!("Joins put their rows on disk {} time(s): there was no memory for a build side", cost.join_splits);
    }
    if !cost.rows_per_worker.is_empty() {
        let rows: Vec<String> = cost.rows_per_worker.iter().map(ToString::to_string).collect();
        println!("Rows per worker of the widest scan: {}", rows.join(", "));
    }
}

fn print_reads(reads: &ReadsBySize, elapsed: Duration) {
    if reads.is_empty() {
        println!("No reads from disk.");
        return;
    }
    let mut sizes = Grid::new("", &["reads of at least", "count", "MB"]);
    let mut total = 0;
    for (size, (count, bytes)) in reads {
        total += bytes;
        sizes.rows.push(vec![size_text(*size), count.to_string(), format!("{:.1}", *bytes as f64 / 1e6)]);
    }
    print!("{}", sizes.to_text());
    if !elapsed.is_zero() {
        println!("{:.0} MB/s from disk", total as f64 / 1e6 / elapsed.as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    use super::size_text;

    #[test]
    fn sizes_are_said_in_their_unit() {
        assert_eq!(
            [0, 512, 8192, 524_288, 1 << 20].map(size_text),
            ["0 bytes", "512 bytes", "8 KiB", "512 KiB", "1 MiB"]
        );
    }
}
