//! A run of an experiment from the command line: the folder of its data and the files of its report.

use std::path::{Path, PathBuf};

use hobt_engine::InstanceSettings;

use crate::error::{LabError, Result};
use crate::experiment::Experiment;
use crate::folder::DataFolder;
use crate::laboratory::{Laboratory, RunOptions};
use crate::progress::Progress;
use crate::report::Report;

/// The paths of a run.
#[derive(Clone, Debug, Default)]
pub struct RunPlaces {
    /// The instance's folder, which is kept. If absent, `./hobt-lab` is used and removed afterwards.
    pub data: Option<PathBuf>,
    /// Whether the default folder is kept too.
    pub keep: bool,
    /// The folder for the report as a page and as JSON. If absent, none is written.
    pub out: Option<PathBuf>,
    /// The file for the report as JSON.
    pub json: Option<PathBuf>,
}

/// The folder that experiments use when none is named.
pub const DEFAULT_FOLDER: &str = "hobt-lab";

impl RunPlaces {
    /// Checks, before hours of measuring, that the report can be written: makes its folder, and opens files there.
    fn check(&self) -> Result<()> {
        let mut wanted: Vec<PathBuf> = self.json.iter().cloned().collect();
        if let Some(out) = &self.out {
            std::fs::create_dir_all(out).map_err(LabError::io(format!("creating {}", out.display())))?;
            wanted.push(out.join(".hobt-lab"));
        }
        for path in wanted {
            let is_new = !path.exists();
            let opened = std::fs::OpenOptions::new().append(true).create(true).open(&path);
            opened.map_err(LabError::io(format!("writing {}", path.display())))?;
            if is_new {
                std::fs::remove_file(&path).map_err(LabError::io(format!("removing {}", path.display())))?;
            }
        }
        Ok(())
    }

    pub(crate) fn folder(&self) -> Result<DataFolder> {
        match &self.data {
            Some(path) => Ok(DataFolder::of_user(path)),
            None => DataFolder::fresh(Path::new(DEFAULT_FOLDER), self.keep),
        }
    }
}

/// Runs an experiment and writes its report to the requested paths, which it returns. Blocks.
///
/// # Errors
/// If the experiment failed or a file cannot be written.
pub fn run_experiment(
    experiment: &dyn Experiment,
    places: &RunPlaces,
    settings: InstanceSettings,
    options: RunOptions,
    progress: Progress,
) -> Result<(Report, Vec<PathBuf>)> {
    let folder = places.folder()?;
    places.check()?;
    let report = run_in(folder.path(), experiment, settings, options, progress)?;
    let mut written = Vec::new();
    if let Some(out) = &places.out {
        written.extend(write_report(&report, out, &report.experiment)?);
    }
    if let Some(json) = &places.json {
        write(json, &json_text(&report))?;
        written.push(json.clone());
    }
    Ok((report, written))
}

/// Runs an experiment in an instance of its own in `folder`, which it closes. Blocks.
///
/// # Errors
/// If the experiment failed or the instance cannot be closed.
pub(crate) fn run_in(
    folder: &Path,
    experiment: &dyn Experiment,
    settings: InstanceSettings,
    options: RunOptions,
    progress: Progress,
) -> Result<Report> {
    let mut lab = Laboratory::open(folder, settings, options, progress.clone())?;
    let report = experiment.run(&mut lab);
    progress.finish();
    let stolen = lab.stolen_note();
    let closed = lab.close();
    let mut report = report?;
    report.notes.extend(stolen);
    closed?;
    Ok(report)
}

/// Writes `NAME.html` and `NAME.json` into a folder. Creates the folder.
///
/// # Errors
/// If a file cannot be written.
pub(crate) fn write_report(report: &Report, out: &Path, name: &str) -> Result<[PathBuf; 2]> {
    std::fs::create_dir_all(out).map_err(LabError::io(format!("creating {}", out.display())))?;
    let paths = [out.join(format!("{name}.html")), out.join(format!("{name}.json"))];
    write(&paths[0], &report.to_html())?;
    write(&paths[1], &json_text(report))?;
    Ok(paths)
}

fn json_text(report: &Report) -> String {
    format!("{:#}\n", report.to_json())
}

pub(crate) fn write(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).map_err(LabError::io(format!("writing {}", path.display())))
}
