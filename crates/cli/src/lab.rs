//! `hobt lab`: the laboratory on the command line.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use hobt_engine::InstanceSettings;
use hobt_lab::{
    DataFolder, Experiment, FixtureOptions, LabError, Laboratory, PathPart, Progress, RunOptions, RunPlaces, SizePlan,
    UserExperiment,
};

use crate::interrupt::Interrupts;
use crate::open::{announce_new_instance, is_new_instance};

/// The arguments of `hobt lab`.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: LabCommand,
}

#[derive(Subcommand, Debug)]
enum LabCommand {
    /// Lists the experiments and what each asks
    List,
    /// Runs an experiment: one of the list, or a file of your own
    Run(RunArguments),
    /// Makes the tables that the texts' scripts expect
    Fixtures(FixtureArguments),
    /// Says how many disks and adapters keep the cores busy, and what starves first
    Size(SizeArguments),
    /// Prints the ratios of two reports of one experiment
    Compare {
        /// The report that is 1
        first: PathBuf,
        /// The report that is compared with it
        second: PathBuf,
    },
}

#[derive(Args, Debug)]
struct RunArguments {
    /// The experiment's name, or a file ending in .toml
    name: String,
    /// Rows of the main table; chosen from memory and free disk unless given
    #[arg(long)]
    rows: Option<u64>,
    /// Folder of the instance, which is made or used again and stays; ./hobt-lab, removed afterwards, unless given
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Keep ./hobt-lab
    #[arg(long)]
    keep: bool,
    /// Folder for the report as a page and as JSON
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// File for the report as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Repetitions of each measurement
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: u32,
    /// Also scan tables of 1 to 96 partitions (experiment scan), or turn everything (experiment inserts)
    #[arg(long)]
    sweep: bool,
    /// Run this case only; may be given more than once (experiments inserts, hash, tpch and operators)
    #[arg(long = "case", value_name = "NAME")]
    cases: Vec<String>,
    /// Scale factor of experiment tpch; chosen from memory and free disk unless given
    #[arg(long)]
    scale: Option<f64>,
    /// What moves the pages: auto, io_uring or threads
    #[arg(long, default_value = "auto", value_parser = ["auto", "io_uring", "threads"])]
    disk: String,
}

#[derive(Args, Debug)]
struct FixtureArguments {
    /// Folder of the instance, which is made or used again
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Also make BigData with at least so many rows
    #[arg(long)]
    rows: Option<u64>,
    /// Also make LINEITEM of this scale factor
    #[arg(long, value_name = "SCALE", conflicts_with = "tpch")]
    lineitem: Option<f64>,
    /// Also make the eight tables of TPC-H of this scale factor
    #[arg(long, value_name = "SCALE")]
    tpch: Option<f64>,
}

#[derive(Args, Debug)]
struct SizeArguments {
    /// Use the first text's figures
    #[arg(long, conflicts_with_all = [
        "core_mb_s", "from", "cores", "disk_mb_s", "disks", "adapter_mb_s", "bus_mb_s", "data",
    ])]
    text: bool,
    /// What one core consumes, in MB/s; measured unless given
    #[arg(long, conflicts_with = "from")]
    core_mb_s: Option<f64>,
    /// Take what a core consumes from a report
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,
    /// The case of that report; its first unless given
    #[arg(long, requires = "from")]
    case: Option<String>,
    /// Cores to keep busy; this machine's unless given
    #[arg(long)]
    cores: Option<u32>,
    /// What one disk gives, in MB/s; this machine's disk, measured, unless given
    #[arg(long)]
    disk_mb_s: Option<f64>,
    /// How many disks there are
    #[arg(long)]
    disks: Option<u32>,
    /// What one adapter carries, in MB/s
    #[arg(long)]
    adapter_mb_s: Option<f64>,
    /// How many adapters there are
    #[arg(long, requires = "adapter_mb_s")]
    adapters: Option<u32>,
    /// What the bus carries, in MB/s
    #[arg(long)]
    bus_mb_s: Option<f64>,
    /// Folder for what is measured; ./hobt-lab, removed afterwards, unless given
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Print the answer as JSON
    #[arg(long)]
    json: bool,
}

/// Runs `hobt lab`. Results go to the standard output, errors and progress to the error stream.
pub(crate) fn run(arguments: Arguments, interrupts: &Interrupts) -> ExitCode {
    interrupts.watch_laboratory();
    let done = match arguments.command {
        LabCommand::List => {
            print!("{}", list());
            Ok(())
        }
        LabCommand::Run(arguments) => run_experiment(arguments),
        LabCommand::Fixtures(arguments) => make_fixtures(&arguments),
        LabCommand::Size(arguments) => size(&arguments),
        LabCommand::Compare { first, second } => hobt_lab::compare(&first, &second).map(|text| print!("{text}")),
    };
    exit_code(done, interrupts)
}

/// The exit code of work in the laboratory, whose error it reports.
pub(crate) fn exit_code(done: Result<(), LabError>, interrupts: &Interrupts) -> ExitCode {
    let Err(error) = done else { return ExitCode::SUCCESS };
    let number = if let LabError::Sql { error, .. } = &error { Some(error.number) } else { None };
    interrupts.failed(number, &format_args!("hobt: {error}"))
}

/// Looks at a folder that the user names before an instance is opened in it.
fn check_folder(folder: &Path) -> Result<(), LabError> {
    if is_new_instance(folder).map_err(LabError::Input)? {
        announce_new_instance(folder);
    }
    Ok(())
}

fn make_fixtures(arguments: &FixtureArguments) -> Result<(), LabError> {
    check_folder(&arguments.data)?;
    let options = FixtureOptions {
        big_data_rows: arguments.rows,
        line_item_scale: arguments.lineitem,
        tpch_scale: arguments.tpch,
    };
    let text = hobt_lab::make_fixtures(&arguments.data, options, Progress::on_error_stream())?;
    print!("{text}");
    Ok(())
}

fn list() -> String {
    let experiments = hobt_lab::experiments();
    let widest = experiments.iter().map(|experiment| experiment.name().len()).max().unwrap_or(0);
    let mut text = String::new();
    for experiment in experiments {
        text.push_str(&format!("{:<widest$}  {}\n", experiment.name(), experiment.question()));
    }
    text.push_str("\nhobt lab run NAME runs one; hobt lab run FILE.toml runs one of your own.\n");
    text
}

fn run_experiment(arguments: RunArguments) -> Result<(), LabError> {
    let own;
    let experiment: &dyn Experiment = match hobt_lab::experiment_named(&arguments.name) {
        Some(experiment) => experiment,
        None if arguments.name.ends_with(".toml") => {
            own = UserExperiment::read(arguments.name.as_ref())?;
            &own
        }
        None => {
            let names: Vec<&str> = hobt_lab::experiments().iter().map(|experiment| experiment.name()).collect();
            return Err(LabError::Input(format!(
                "there is no experiment {}. Known are {}, and files that end in .toml.",
                arguments.name,
                names.join(", ")
            )));
        }
    };
    let only_for = |flag: &str, names: &[&str]| match names.contains(&experiment.name()) {
        true => Ok(()),
        false => Err(LabError::Input(format!(
            "{flag} means nothing to {}: it is for {}. Leave it out.",
            experiment.name(),
            names.join(" and ")
        ))),
    };
    if !arguments.cases.is_empty() {
        only_for("--case", &["inserts", "hash", "tpch", "operators"])?;
    }
    if arguments.scale.is_some() {
        only_for("--scale", &["tpch"])?;
    }
    if arguments.rows.is_some() && experiment.name() == "tpch" {
        return Err(LabError::Input("--rows means nothing to tpch: say how large it is with --scale.".to_owned()));
    }
    if arguments.sweep {
        only_for("--sweep", &["scan", "inserts"])?;
    }
    arguments.data.as_deref().map_or(Ok(()), check_folder)?;
    let places = RunPlaces { data: arguments.data, keep: arguments.keep, out: arguments.out, json: arguments.json };
    let options = RunOptions {
        rows: arguments.rows,
        repeat: arguments.repeat as usize,
        sweep: arguments.sweep,
        cases: arguments.cases,
        scale: arguments.scale,
    };
    let disk = hobt_lab::disk_kind(&arguments.disk);
    let settings = InstanceSettings { disk, ..InstanceSettings::default() };
    let (report, written) =
        hobt_lab::run_experiment(experiment, &places, settings, options, Progress::on_error_stream())?;
    print!("{}", report.to_text());
    for path in written {
        println!("written: {}", path.display());
    }
    Ok(())
}

fn size(arguments: &SizeArguments) -> Result<(), LabError> {
    let plan = if arguments.text { SizePlan::of_the_text() } else { plan(arguments)? };
    let answer = plan.answer()?;
    if arguments.json {
        println!("{:#}", serde_json::json!(answer));
    } else {
        print!("{}", answer.to_text());
    }
    Ok(())
}

/// The plan of the arguments, with what they leave out measured.
fn plan(arguments: &SizeArguments) -> Result<SizePlan, LabError> {
    let mut measured = None;
    let (core_mb_s, core_source) = match (&arguments.core_mb_s, &arguments.from) {
        (Some(rate), _) => (*rate, "as given".to_owned()),
        (None, Some(path)) => {
            (hobt_lab::core_rate_from_report(path, arguments.case.as_deref())?, format!("from {}", path.display()))
        }
        (None, None) => {
            let (core, _) = *measured.get_or_insert(measure(arguments)?);
            (core, "measured: a warm scan that looks at values".to_owned())
        }
    };
    let disk_mb_s = match (arguments.disk_mb_s, measured) {
        (Some(rate), _) => rate,
        (None, Some((_, disk))) => disk,
        (None, None) => measure(arguments)?.1,
    };
    let part = |name: &str, mb_s, count| PathPart { name: name.to_owned(), mb_s, count };
    // What is measured is there, once.
    let disks = arguments.disks.or(arguments.disk_mb_s.is_none().then_some(1));
    let mut path = vec![part("disk", disk_mb_s, disks)];
    path.extend(arguments.adapter_mb_s.map(|rate| part("adapter", rate, arguments.adapters)));
    path.extend(arguments.bus_mb_s.map(|rate| part("bus", rate, Some(1))));
    let cores = std::thread::available_parallelism().map_or(1, |count| u32::try_from(count.get()).unwrap_or(1));
    Ok(SizePlan { core_mb_s, core_source, cores: arguments.cores.unwrap_or(cores), path })
}

/// What a core consumes and what the disk gives, in MB/s.
fn measure(arguments: &SizeArguments) -> Result<(f64, f64), LabError> {
    let folder = match &arguments.data {
        Some(path) => {
            check_folder(path)?;
            DataFolder::of_user(path)
        }
        None => DataFolder::fresh(hobt_lab::DEFAULT_FOLDER.as_ref(), false)?,
    };
    let progress = Progress::on_error_stream();
    let mut lab =
        Laboratory::open(folder.path(), InstanceSettings::default(), RunOptions::default(), progress.clone())?;
    let rates = hobt_lab::measure_rates(&mut lab);
    progress.finish();
    lab.close()?;
    rates
}
