//! What is measured, and in which order: one repetition after the other, so that noise affects all cases equally.

use std::time::{Duration, Instant};

use crate::error::{LabError, Result};
use crate::laboratory::Laboratory;
use crate::measure::{Measured, measure_cold, measure_warm};
use crate::report::Case;

/// Settings of the instance that are changed during a case.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Tuning {
    /// Deal page ranges under a latch, as SQL Server 2008 to 2014 did.
    pub(crate) latched_dealer: bool,
    /// Size of a scan's read.
    pub(crate) read_kib: Option<u32>,
    /// Reads that a scan keeps in flight.
    pub(crate) queue_depth: Option<u32>,
    /// Trace flag 652.
    pub(crate) no_read_ahead: bool,
    /// Turn off wait accounting.
    pub(crate) no_accounting: bool,
    /// Run on the first processors only, as many as this.
    pub(crate) processors: Option<usize>,
}

impl Tuning {
    /// Runs `act` with these settings. Afterwards the instance's own settings are restored in any case.
    pub(crate) fn during<T>(&self, lab: &mut Laboratory, act: impl FnOnce(&mut Laboratory) -> Result<T>) -> Result<T> {
        let before = (*lab.instance().runtime()).clone();
        let tuning = *self;
        lab.instance().change_runtime(|runtime| {
            if let Some(kib) = tuning.read_kib {
                runtime.read_bytes = kib << 10;
            }
            if let Some(depth) = tuning.queue_depth {
                runtime.queue_depth = depth;
            }
            if tuning.no_read_ahead {
                runtime.set_trace_flag(652, true);
            }
            if let Some(processors) = tuning.processors {
                runtime.affinity_mask = if processors >= 64 { 0 } else { (1 << processors) - 1 };
            }
        });
        hobt_instruments::set_accounting(!tuning.no_accounting);
        let result = match tuning.latched_dealer {
            true => lab.run("EXEC sp_configure 'dealer', 1; RECONFIGURE").and_then(|_| act(lab)),
            false => act(lab),
        };
        hobt_instruments::set_accounting(true);
        lab.instance().change_runtime(|runtime| runtime.clone_from(&before));
        result
    }
}

/// A case to be measured.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) name: String,
    /// As [`Case::meaning`].
    pub(crate) meaning: String,
    /// The table whose pages are also read raw with each cold run, for comparison. `None` if there is no disk to
    /// compare with.
    pub(crate) table: Option<String>,
    pub(crate) statement: String,
    /// Rows of the table. 0 to use the number that a scan returns.
    pub(crate) rows: u64,
    pub(crate) text: Option<&'static str>,
    pub(crate) tuning: Tuning,
    pub(crate) cold: bool,
    pub(crate) warm: bool,
}

impl Plan {
    /// A statement over `dbo.TABLE`, measured cold and warm.
    pub(crate) fn new(
        name: impl Into<String>,
        meaning: impl Into<String>,
        table: &str,
        statement: String,
        rows: u64,
    ) -> Plan {
        Plan {
            name: name.into(),
            meaning: meaning.into(),
            table: Some(table.to_owned()),
            statement,
            rows,
            text: None,
            tuning: Tuning::default(),
            cold: true,
            warm: true,
        }
    }

    /// Its case, not yet run.
    fn case(&self) -> Case {
        let case = Case {
            meaning: self.meaning.clone(),
            rows: self.rows,
            text: self.text,
            ..Case::new(&self.name, &self.statement)
        };
        if self.tuning.no_accounting { case.without_accounting() } else { case }
    }
}

/// The number of steps of [`run_plans`] for `plans` plans.
pub(crate) fn plan_steps(plans: usize, repeat: usize) -> u64 {
    (plans * repeat.max(1)) as u64
}

/// Measures all plans `repeat` times, reversing the order each time. Each cold run is paired with a raw read of the
/// same pages. Each statement is planned once before, so that no run creates the statistics of its columns.
///
/// # Errors
/// If a statement failed, or its answer differs from the one before.
pub(crate) fn run_plans(lab: &mut Laboratory, plans: &[Plan], repeat: usize) -> Result<Vec<Case>> {
    let mut cases: Vec<Case> = plans.iter().map(Plan::case).collect();
    let mut answers: Vec<Option<Vec<Option<String>>>> = vec![None; plans.len()];
    for plan in plans {
        lab.connection().plan(&plan.statement)?;
    }
    for repetition in 0..repeat.max(1) {
        let mut order: Vec<usize> = (0..plans.len()).collect();
        if repetition % 2 == 1 {
            order.reverse();
        }
        for place in order {
            let plan = &plans[place];
            lab.progress().step(&format!("{}, {} of {}", plan.name, repetition + 1, repeat.max(1)));
            let case = &mut cases[place];
            let disk_first = repetition % 2 == 0;
            let runs = plan.tuning.during(lab, |lab| run_once(lab, plan, case, disk_first))?;
            for measured in runs {
                let first = answers[place].get_or_insert_with(|| measured.answer.clone());
                if *first != measured.answer {
                    return Err(LabError::Wrong(format!(
                        "{} answered {:?} and later {:?}",
                        plan.name, first, measured.answer
                    )));
                }
                if plan.rows == 0 {
                    case.rows = case.rows.max(measured.rows_per_worker.iter().sum());
                }
            }
        }
    }
    Ok(cases)
}

/// Warm runs are repeated up to this many times ...
const SHORT_RUNS: usize = 5;
/// ... until their total time reaches this, because a single run of a few milliseconds says little.
const SHORT: Duration = Duration::from_millis(100);

fn run_once(lab: &mut Laboratory, plan: &Plan, case: &mut Case, disk_first: bool) -> Result<Vec<Measured>> {
    let mut runs = Vec::new();
    if plan.cold {
        // Caches behind the disk favour the second reader, so the order alternates.
        let raw = |lab: &Laboratory, now: bool| match &plan.table {
            Some(table) if now => lab.raw_read_mb_s(table).map(Some),
            _ => Ok(None),
        };
        let before = raw(lab, disk_first)?;
        let measured = measure_cold(lab, &plan.statement)?;
        let disk_mb_s = before.or(raw(lab, !disk_first)?);
        runs.push(measured.clone());
        check_pages(lab, plan, &measured, case)?;
        case.add_cold(measured);
        if let (Some(disk), Some(cold)) = (disk_mb_s, case.values("cold_mb_s").last().copied()) {
            case.push("disk_mb_s", disk);
            case.push("cold_over_disk", cold / disk);
        }
    }
    if plan.warm {
        let since = Instant::now();
        for _ in 0..SHORT_RUNS {
            let measured = measure_warm(lab, &plan.statement)?;
            runs.push(measured.clone());
            check_pages(lab, plan, &measured, case)?;
            case.add_warm(measured);
            if since.elapsed() >= SHORT {
                break;
            }
        }
    }
    Ok(runs)
}

/// Checks that a scan accesses the pages that it should scan.
fn check_pages(lab: &Laboratory, plan: &Plan, measured: &Measured, case: &mut Case) -> Result<()> {
    let Some(table) = &plan.table else { return Ok(()) };
    let stretches = lab.stretches(table)?;
    let bytes: u64 = stretches.iter().map(|stretch| stretch.bytes).sum();
    // The first page of a partition lists its runs and has no rows, which is noticeable for small partitions.
    let lists = (stretches.len() * hobt_base::PAGE_SIZE) as u64;
    if measured.bytes() * 100 < bytes.saturating_sub(lists) * 95 {
        case.note(format!(
            "looked at {} MB of the table's {} MB: not a scan of every page",
            measured.bytes() / 1_000_000,
            bytes / 1_000_000
        ));
    }
    Ok(())
}
