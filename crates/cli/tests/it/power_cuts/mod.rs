//! Long work of one session, concurrent with others, on a disk in memory whose power fails during it: thousands of
//! savepoints (`savepoints`), a rollback over several checkpoints (`rollbacks`), databases and tables dropped while
//! others are loaded (`drops`), recovery that is itself interrupted (`recoveries`).
//!
//! `crashes` kills processes and cuts traces of random work. Here, the work at the moment of the cut is chosen.

mod drops;
mod recoveries;
mod rollbacks;
mod savepoints;

use std::sync::Arc;

use hobt::{Instance, Session, SqlError};
use hobt_disk::{SimulatedConfig, SimulatedDisk};
use hobt_engine::InstanceSettings;

use crate::client;

const FOLDER: &str = "/hobt-test";

/// An instance on a disk in memory.
struct World {
    disk: Arc<SimulatedDisk>,
    instance: Option<Instance>,
}

impl World {
    /// A new instance with a database `d`.
    fn new() -> World {
        let disk = SimulatedDisk::start(SimulatedConfig::default()).expect("a disk in memory");
        let mut world = World { disk, instance: None };
        world.start().expect("an instance");
        client::ok(&mut world.session_in("master"), "CREATE DATABASE d");
        world
    }

    fn instance(&self) -> &Instance {
        self.instance.as_ref().expect("it was started")
    }

    fn session_in(&self, database: &str) -> Session {
        client::session_in(self.instance(), database)
    }

    fn session(&self) -> Session {
        self.session_in("d")
    }

    /// Opens the instance. The pool is much smaller than the changes of the tests, so pages are written all the time.
    fn start(&mut self) -> Result<(), SqlError> {
        let settings = InstanceSettings {
            memory_bytes: Some(128 << 20),
            pool_bytes: Some(4 << 20),
            log_ring_bytes: Some(1 << 20),
            ..InstanceSettings::default()
        };
        self.instance = Some(Instance::open_on(self.disk.clone(), FOLDER, settings)?);
        Ok(())
    }

    /// Makes the power fail, unless it already has, and drops everything in memory.
    fn lose_power(&mut self, seed: u64) {
        if !self.disk.is_off() {
            self.disk.lose_power(seed);
        }
        self.instance = None;
        self.disk.power_on();
    }

    /// Starts after a power failure, and checks that every database is usable and intact.
    fn start_again(&mut self, story: &str) {
        self.start().unwrap_or_else(|error| panic!("{story}: {error}"));
        let mut session = self.session_in("master");
        for row in client::ok(&mut session, "SELECT name FROM sys.databases") {
            let used = client::answer(&mut session, &format!("USE {}", row[0])).1;
            assert_eq!(used, None, "{story}: {}", row[0]);
            client::ok(&mut session, &format!("DBCC CHECKDB ({}) WITH NO_INFOMSGS", row[0]));
        }
        let states = "SELECT COUNT(*) FROM sys.databases WHERE state_desc <> 'ONLINE'";
        assert_eq!(client::number(&mut session, states), 0, "{story}");
    }
}
