//! The list of the experiments. It stands apart, so that an experiment does not import the others.

use super::Experiment;
use super::ascending::AscendingExperiment;
use super::backup::BackupExperiment;
use super::cores::CoresExperiment;
use super::extension::ExtensionExperiment;
use super::files::FilesExperiment;
use super::hash::HashExperiment;
use super::inserts::InsertsExperiment;
use super::io::IoExperiment;
use super::latches::LatchesExperiment;
use super::limits::LimitsExperiment;
use super::load::LoadExperiment;
use super::locks::LocksExperiment;
use super::operators::OperatorsExperiment;
use super::reader::ReaderExperiment;
use super::scan::ScanExperiment;
use super::star::StarExperiment;
use super::tpch::TpchExperiment;
use super::updates::UpdatesExperiment;

/// The experiments that come with hobt.
pub fn experiments() -> [&'static dyn Experiment; 18] {
    [
        &ScanExperiment,
        &CoresExperiment,
        &IoExperiment,
        &FilesExperiment,
        &ExtensionExperiment,
        &InsertsExperiment,
        &UpdatesExperiment,
        &LoadExperiment,
        &BackupExperiment,
        &ReaderExperiment,
        &StarExperiment,
        &TpchExperiment,
        &OperatorsExperiment,
        &AscendingExperiment,
        &LocksExperiment,
        &LatchesExperiment,
        &HashExperiment,
        &LimitsExperiment,
    ]
}

/// The experiment with this name, ignoring case.
pub fn experiment_named(name: &str) -> Option<&'static dyn Experiment> {
    experiments().into_iter().find(|experiment| experiment.name().eq_ignore_ascii_case(name))
}
