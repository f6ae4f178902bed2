//! The instance that a sub-command works on.

use std::path::PathBuf;

use clap::Args;
use hobt_base::SqlError;
use hobt_engine::InstanceSettings;
use hobt_session::SessionOptions;

use crate::instance::{Instance, Session};

/// Which instance, and how it starts.
#[derive(Args, Clone, Debug)]
pub(super) struct InstanceArguments {
    /// The instance's folder; made when it is not there
    #[arg(long, value_name = "DIR", default_value = "hobt-data")]
    pub(super) data: PathBuf,
    /// The first database
    #[arg(short = 'd', long = "database", value_name = "NAME", default_value = "master")]
    pub(super) database: String,
    /// Memory of the instance in megabytes; half of the machine's without
    #[arg(long, value_name = "MB")]
    pub(super) memory: Option<u64>,
    /// Longer allocation runs
    #[arg(short = 'E', long = "long-runs")]
    pub(super) long_runs: bool,
    /// A trace flag that is on from the start; may be given several times
    #[arg(short = 'T', long = "trace", value_name = "FLAG")]
    pub(super) trace_flags: Vec<i32>,
}

impl InstanceArguments {
    /// Opens the instance and a session in it.
    pub(super) fn open(&self, program: &str) -> Result<(Instance, Session), SqlError> {
        let settings = InstanceSettings {
            memory_bytes: self.memory.map(|megabytes| megabytes.saturating_mul(1 << 20)),
            long_runs: self.long_runs,
            trace_flags: self.trace_flags.clone(),
            ..InstanceSettings::default()
        };
        let instance = Instance::open_with(&self.data, settings)?;
        let session = instance.session_with(&SessionOptions {
            database: self.database.clone(),
            program: program.to_owned(),
            host: instance.server().name().to_owned(),
            ..SessionOptions::default()
        })?;
        Ok((instance, session))
    }
}
