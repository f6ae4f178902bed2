//! `io`: the effect of read sizes and file layout on a scan, on this disk and on modelled ones.

use hobt_disk::{DeviceModel, DiskKind, SimulatedConfig};
use hobt_engine::InstanceSettings;
use serde_json::{Map, json};

use super::scan::ROW_BYTES;
use super::{Experiment, Plan, Tuning, plan_steps, run_plans};
use crate::data::big_data;
use crate::error::Result;
use crate::figures::{amount, thousands};
use crate::laboratory::{BIG_DATA_STEPS, Laboratory, RunOptions};
use crate::limits::LimitSettings;
use crate::report::{Case, Grid, Report};

pub(super) struct IoExperiment;

/// Sizes of a scan's reads.
const READ_KIB: [u32; 4] = [64, 128, 256, 512];

/// Ten million rows are about a gigabyte.
const WANTED_ROWS: u64 = 10_000_000;

/// A modelled device, and the number of rows that it can read in seconds.
struct Device {
    name: &'static str,
    model: fn() -> DeviceModel,
    rows: u64,
}

const DEVICES: [Device; 3] = [
    Device { name: "fast_card", model: DeviceModel::fast_card, rows: 600_000 },
    Device { name: "slow_disk", model: DeviceModel::slow_disk, rows: 60_000 },
    Device { name: "array_with_cache", model: DeviceModel::array_with_cache, rows: 600_000 },
];

/// The cases on a modelled device, and what they are.
fn device_reads() -> [(&'static str, &'static str, Tuning); 3] {
    [
        ("read_64_kib", "reads of 64 KiB", read_kib(64)),
        ("read_512_kib", "reads of 512 KiB", read_kib(512)),
        ("read_ahead_off", "no read-ahead", without_read_ahead()),
    ]
}

/// Repetitions on a modelled device, which always takes the same time.
fn device_repeat(repeat: usize) -> usize {
    repeat.min(2)
}

impl Experiment for IoExperiment {
    fn name(&self) -> &'static str {
        "io"
    }

    fn question(&self) -> &'static str {
        "What do the size of reads, read-ahead, longer allocation runs (-E) and scattered extents do to a cold scan, here \
         and on other devices?"
    }

    fn compares_rates(&self) -> bool {
        true
    }

    fn run(&self, lab: &mut Laboratory) -> Result<Report> {
        let wanted = lab.rows_for(WANTED_ROWS, ROW_BYTES, 5)?;
        let plans = plans(big_data::rows_for(wanted));
        let repeat = lab.options().repeat;
        // Two tables are created in addition to BigData.
        let before = BIG_DATA_STEPS + LimitSettings::steps_beside() + 2;
        let on_devices =
            DEVICES.len() as u64 * (BIG_DATA_STEPS + plan_steps(device_reads().len(), device_repeat(repeat)));
        lab.progress().expect(before + plan_steps(plans.len(), repeat) + on_devices);
        let rows = lab.ensure_big_data(wanted)?;
        let limits = lab.limits(rows * ROW_BYTES)?;
        place_tables(lab, rows)?;
        let mut cases = run_plans(lab, &plans, repeat)?;
        for device in &DEVICES {
            cases.extend(on_device(lab, device, rows)?);
        }
        for case in &mut cases {
            case.figures.insert("read_latency_us_mean".to_owned(), json!(case.cold.last.read_latency_s * 1e6));
            case.figures.insert("reads".to_owned(), json!(case.cold.last.reads));
        }
        let mut settings = Map::new();
        settings.insert("rows".to_owned(), json!(rows));
        settings.insert("repeat".to_owned(), json!(repeat));
        settings.insert("queue_depth".to_owned(), json!(lab.instance().runtime().queue_depth));
        Ok(Report {
            tables: vec![sizes(&cases)],
            cases,
            notes: vec![
                "the text: 68,736 reads of mixed sizes for its heap, 107,434 nearer to 64 KiB for its clustered index, \
                 which was 12 % faster; with trace flag 652 reads of 8 KiB and a fraction of the rate; -E slightly better"
                    .to_owned(),
                "cases named after a device ran on a model of it, with fewer rows: compare them with each other only"
                    .to_owned(),
            ],
            ..self.report(lab, limits, settings)
        })
    }
}

/// Creates tables with the same rows in runs of the usual length, in longer runs, and in single extents that alternate
/// with another table's.
fn place_tables(lab: &mut Laboratory, rows: u64) -> Result<()> {
    let fill = |name: &str| big_data::copy_into(&format!("dbo.{name}"), "dbo.BigData", true);
    let create = |name: &str| big_data::create_table(&format!("dbo.{name}"), true, "");
    let storage = std::sync::Arc::clone(lab.database()?.storage());
    let usual = storage.settings();
    let mut long = usual;
    // The effect of the start-up flag -E.
    let with_flag = InstanceSettings { long_runs: true, ..InstanceSettings::default() }.storage();
    long.run_extents_first = with_flag.run_extents_first;
    long.run_extents_max = with_flag.run_extents_max;
    storage.set_settings(long);
    let made = lab.ensure_table("LongRuns", rows, &[create("LongRuns"), fill("LongRuns")]);
    storage.set_settings(usual);
    made?;
    if lab.has_table("Scattered")? && lab.row_count("Scattered")? == rows {
        lab.progress().step("using Scattered");
        return Ok(());
    }
    for name in ["Scattered", "ScatteredBeside"] {
        lab.run(&format!("DROP TABLE IF EXISTS dbo.{name}"))?;
        lab.run(&create(name))?;
    }
    lab.progress().step("scattering extents");
    let mut single = usual;
    single.run_extents_first = 1;
    single.run_extents_max = 1;
    storage.set_settings(single);
    let mut other = lab.connect()?;
    let (beside, own) = std::thread::scope(|scope| {
        let beside = scope.spawn(|| other.run(&fill("ScatteredBeside")));
        let own = lab.run(&fill("Scattered"));
        (beside.join().expect("a session does not panic"), own)
    });
    storage.set_settings(usual);
    beside?;
    own?;
    lab.run("DROP TABLE dbo.ScatteredBeside")?;
    Ok(())
}

fn cold(name: impl Into<String>, meaning: impl Into<String>, table: &str, rows: u64, tuning: Tuning) -> Plan {
    let statement = big_data::count_ten(&format!("dbo.{table}"));
    Plan { tuning, warm: false, ..Plan::new(name, meaning, table, statement, rows) }
}

fn read_kib(kib: u32) -> Tuning {
    Tuning { read_kib: Some(kib), ..Tuning::default() }
}

fn without_read_ahead() -> Tuning {
    Tuning { no_read_ahead: true, ..Tuning::default() }
}

fn plans(rows: u64) -> Vec<Plan> {
    let mut plans: Vec<Plan> = READ_KIB
        .iter()
        .map(|kib| Plan {
            text: match kib {
                64 => Some("the best size is nearer to 64 KiB than to 8 KiB"),
                512 => Some("comes wherever nothing is fragmented"),
                _ => None,
            },
            ..cold(format!("read_{kib}_kib"), format!("reads of {kib} KiB"), "BigData", rows, read_kib(*kib))
        })
        .collect();
    plans.push(Plan {
        text: Some("reads of 8 KiB, a fraction of the rate"),
        ..cold("read_ahead_off", "no read-ahead (trace flag 652)", "BigData", rows, without_read_ahead())
    });
    let usual = Tuning::default();
    plans.push(cold("contiguous", "the usual runs of extents and settings", "BigData", rows, usual));
    plans.push(Plan {
        text: Some("marginally better"),
        ..cold("long_runs", "longer runs of extents (-E)", "LongRuns", rows, usual)
    });
    plans.push(Plan {
        text: Some("fragmentation splits reads"),
        ..cold("scattered", "single extents, between those of another table", "Scattered", rows, usual)
    });
    plans
}

/// The scan on a modelled device.
fn on_device(lab: &Laboratory, device: &Device, rows: u64) -> Result<Vec<Case>> {
    let config =
        SimulatedConfig { device: Some((device.model)()), track_unsynced: false, ..SimulatedConfig::default() };
    let settings = InstanceSettings { disk: DiskKind::Simulated(config), ..InstanceSettings::default() };
    let rows = rows.min(device.rows);
    let options = RunOptions {
        rows: Some(rows),
        repeat: device_repeat(lab.options().repeat),
        sweep: false,
        ..RunOptions::default()
    };
    let folder = lab.folder().join(format!("modelled-{}", device.name));
    let mut modelled = Laboratory::open(&folder, settings, options, lab.progress().clone())?;
    let rows = modelled.ensure_big_data(rows)?;
    let of_device = device.name.replace('_', " ");
    let plans: Vec<Plan> = device_reads()
        .into_iter()
        .map(|(case, meaning, tuning)| Plan {
            table: None,
            text: (device.name == "array_with_cache" && case == "read_512_kib")
                .then_some("a large cache would favour much read-ahead and turn the result round"),
            ..cold(
                format!("{}_{case}", device.name),
                format!("{meaning}, from a model of a {of_device}"),
                "BigData",
                rows,
                tuning,
            )
        })
        .collect();
    let repeat = modelled.options().repeat;
    let cases = run_plans(&mut modelled, &plans, repeat)?;
    modelled.close()?;
    // The files were in memory: the folder is empty.
    std::fs::remove_dir(&folder).map_err(crate::error::LabError::io(format!("removing {}", folder.display())))?;
    Ok(cases)
}

fn sizes(cases: &[Case]) -> Grid {
    let headers = ["case", "reads", "KiB/read", "MB/s", "latency us", "reads by size"];
    let mut grid = Grid::new("Reads, counted", &headers);
    grid.prose = vec![5];
    for case in cases {
        let last = &case.cold.last;
        let by_size: Vec<String> =
            last.reads_by_size.iter().map(|(size, count)| format!("{}K: {}", size / 1024, thousands(*count))).collect();
        grid.rows.push(vec![
            case.name.clone(),
            thousands(last.reads),
            amount(last.read_bytes as f64 / 1024.0 / last.reads.max(1) as f64),
            case.cold_mb_s().map_or_else(|| "-".to_owned(), amount),
            amount(last.read_latency_s * 1e6),
            by_size.join(", "),
        ]);
    }
    grid
}
