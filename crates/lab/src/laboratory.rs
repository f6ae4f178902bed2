//! The place where experiments run: an instance in a folder, with the experiments' data in it.
//!
//! Tables are made once and kept for the next run in the same folder when they have the rows that are asked for.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hobt_engine::{Instance, InstanceSettings};
use hobt_session::Server;

use crate::connection::{Answer, Connection};
use crate::data::{self, big_data};
use crate::error::{LabError, Result};
use crate::limits::disk::{ReadMode, Stretch, read_stretches};
use crate::limits::{LimitSettings, Limits};
use crate::machine::{self, Machine};
use crate::progress::Progress;

/// The database that experiments use.
pub const DATABASE: &str = "hobt_lab";

/// Steps of [`Laboratory::ensure_big_data`].
pub(crate) const BIG_DATA_STEPS: u64 = 2;
/// Steps of [`Laboratory::ensure_tpch`].
pub(crate) const TPCH_STEPS: u64 = data::TpchTable::ALL.len() as u64;

/// Where it stands which scale factor the tables of TPC-H have, when all of them are there.
const SCALE_TABLE: &str = "tpch_scale";
/// The scale factors that there is data for.
const SCALES: std::ops::RangeInclusive<f64> = 0.000_5..=1_000.0;

const PAGE_BYTES: u64 = hobt_base::PAGE_SIZE as u64;

/// What a user can say about a run.
#[derive(Clone, PartialEq, Debug)]
pub struct RunOptions {
    /// Rows of the main table; chosen from memory and free disk if absent.
    pub rows: Option<u64>,
    /// Repetitions of each measurement.
    pub repeat: usize,
    /// Whether the scan experiment also goes through 1 to 96 partitions, and that of inserts through all that it turns.
    pub sweep: bool,
    /// The only cases to run, where an experiment can leave some out (`inserts`); all if empty.
    pub cases: Vec<String>,
    /// The scale factor of TPC-H; chosen from memory and free disk if absent.
    pub scale: Option<f64>,
}

impl Default for RunOptions {
    fn default() -> RunOptions {
        RunOptions { rows: None, repeat: 5, sweep: false, cases: Vec::new(), scale: None }
    }
}

/// A table that was built in this run.
#[derive(Clone, PartialEq, Debug)]
pub struct Build {
    /// The table.
    pub table: String,
    /// Its rows.
    pub rows: u64,
    /// Seconds until it was safe on disk.
    pub seconds: f64,
}

/// An instance for experiments. Dropping it closes the instance.
#[derive(Debug)]
pub struct Laboratory {
    folder: PathBuf,
    options: RunOptions,
    server: Arc<Server>,
    connection: Connection,
    progress: Progress,
    disk_kind: &'static str,
    builds: Vec<Build>,
    /// When it was opened, and what the hypervisor had taken until then.
    opened: (Instant, Option<Duration>),
    /// How the disk was read fastest.
    read_mode: Cell<ReadMode>,
}

impl Laboratory {
    /// Opens or creates the instance in `folder`, which is created too, and its database. Blocks.
    ///
    /// # Errors
    /// The folder cannot be used: it belongs to something else, or another process has the instance open.
    pub fn open(
        folder: &Path,
        settings: InstanceSettings,
        options: RunOptions,
        progress: Progress,
    ) -> Result<Laboratory> {
        Laboratory::open_database(folder, DATABASE, settings, options, progress)
    }

    /// As [`Laboratory::open`], for a database of any name.
    ///
    /// # Errors
    /// As [`Laboratory::open`].
    pub fn open_database(
        folder: &Path,
        database: &str,
        settings: InstanceSettings,
        options: RunOptions,
        progress: Progress,
    ) -> Result<Laboratory> {
        std::fs::create_dir_all(folder).map_err(LabError::io(format!("creating {}", folder.display())))?;
        let disk_kind = hobt_disk::open_disk(settings.disk.clone())?.kind();
        let opening = || format!("opening the instance in {}", folder.display());
        let instance = Instance::open(folder, settings).map_err(|error| LabError::sql(opening(), error))?;
        let server = Server::new(instance).map_err(|error| LabError::sql(opening(), error))?;
        let mut connection = Connection::open(&server, "master")?;
        if !server.instance().databases().iter().any(|found| found.name.eq_ignore_ascii_case(database)) {
            connection.run(&format!("CREATE DATABASE [{database}]"))?;
        }
        connection.run(&format!("USE [{database}]"))?;
        Ok(Laboratory {
            folder: folder.to_path_buf(),
            options,
            server,
            connection,
            progress,
            disk_kind,
            builds: Vec::new(),
            opened: (Instant::now(), hobt_sync::processor::steal_time()),
            read_mode: Cell::new((512, 8)),
        })
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// A remark on processor time that the hypervisor gave to others since the laboratory was opened, if it was 1 % or
    /// more of what there was: the figures then say less.
    pub(crate) fn stolen_note(&self) -> Option<String> {
        let (since, before) = self.opened;
        let stolen = hobt_sync::processor::steal_time()?.saturating_sub(before?);
        let whole = since.elapsed().as_secs_f64() * hobt_sync::processor::processor_count() as f64;
        let percent = stolen.as_secs_f64() / whole.max(1e-9) * 100.0;
        (percent >= 1.0).then(|| format!("the hypervisor gave {percent:.0} % of the processors' time to others"))
    }

    /// What the user said.
    pub fn options(&self) -> &RunOptions {
        &self.options
    }

    /// The instance's sessions and views.
    pub fn server(&self) -> &Arc<Server> {
        &self.server
    }

    /// The instance.
    pub fn instance(&self) -> &Arc<Instance> {
        self.server.instance()
    }

    /// What shows how far the run is.
    pub fn progress(&self) -> &Progress {
        &self.progress
    }

    /// The machine, as a report describes it.
    pub fn machine(&self) -> Machine {
        Machine::this(self.disk_kind)
    }

    /// Runs a batch in the laboratory's own session.
    ///
    /// # Errors
    /// The batch's first error.
    pub fn run(&mut self, batch: &str) -> Result<Answer> {
        self.connection.run(batch)
    }

    /// The laboratory's own session.
    pub fn connection(&mut self) -> &mut Connection {
        &mut self.connection
    }

    /// A session more, in the same database.
    ///
    /// # Errors
    /// The database is gone.
    pub fn connect(&self) -> Result<Connection> {
        Connection::open(&self.server, self.connection.database())
    }

    /// Measures the machine beside tables of about `bytes`.
    ///
    /// # Errors
    /// The disk cannot be measured.
    pub fn limits(&self, bytes: u64) -> Result<Limits> {
        let settings = LimitSettings::beside(bytes, self.options.repeat.min(3));
        self.limits_with(settings)
    }

    /// Measures the machine.
    ///
    /// # Errors
    /// The disk cannot be measured.
    pub fn limits_with(&self, settings: LimitSettings) -> Result<Limits> {
        let limits = Limits::measure(&self.folder, settings, |what| self.progress.step(what))?;
        self.read_mode.set((limits.disk_read_kib, limits.disk_read_depth));
        Ok(limits)
    }

    /// Bytes of a table that a warm scan can still hold in the pool.
    pub fn pool_fit_bytes(&self) -> u64 {
        // A scan of more than three quarters of the pool reads past it.
        self.instance().pool().statistics().frames * PAGE_BYTES * 7 / 10
    }

    /// Rows for `tables` tables of `row_bytes` a row each: what the user said, or `wanted`, cut to what the pool and
    /// the free disk hold.
    ///
    /// # Errors
    /// The free space of the folder is not told, or is too small for the rows that the user asked for.
    pub fn rows_for(&self, wanted: u64, row_bytes: u64, tables: u64) -> Result<u64> {
        let free = machine::free_disk(&self.folder)?;
        if let Some(rows) = self.options.rows {
            if rows == 0 {
                let text = "0 rows cannot be measured: give more with --rows, or leave it out.";
                return Err(LabError::Input(text.to_owned()));
            }
            let needed = rows.saturating_mul(row_bytes).saturating_mul(tables);
            if needed > free {
                return Err(LabError::Input(format!(
                    "{rows} rows cannot be measured: {tables} tables need about {} MB and {} has {} MB free. \
                     Give fewer with --rows, or another folder with --data.",
                    needed / 1_000_000,
                    self.folder.display(),
                    free / 1_000_000,
                )));
            }
            return Ok(rows);
        }
        let by_pool = self.pool_fit_bytes() / row_bytes;
        let by_disk = free / 2 / (row_bytes * tables);
        Ok(wanted.min(by_pool).min(by_disk).max(1_000))
    }

    /// Whether the database has a table `dbo.NAME`.
    pub fn has_table(&self, name: &str) -> Result<bool> {
        let database = self.database()?;
        let snapshot = database.snapshot();
        Ok(snapshot.tables.values().any(|table| !table.is_system && table.name.eq_ignore_ascii_case(name)))
    }

    /// Makes a table, unless one of this name with so many rows is there: runs `build`, whose statements make and fill
    /// it, and counts the rows. One step.
    ///
    /// # Errors
    /// A statement failed, or the rows are not as many.
    pub fn ensure_table(&mut self, name: &str, rows: u64, build: &[String]) -> Result<()> {
        if self.has_table(name)? {
            if self.row_count(name)? == rows {
                self.progress.step(&format!("{name} is there already"));
                return Ok(());
            }
            self.run(&format!("DROP TABLE dbo.{name}"))?;
        }
        self.progress.step(&format!("building {name}, {} rows", crate::figures::thousands(rows)));
        let since = Instant::now();
        for statement in build {
            self.run(statement)?;
        }
        self.run("CHECKPOINT")?;
        self.builds.push(Build { table: name.to_owned(), rows, seconds: since.elapsed().as_secs_f64() });
        let counted = self.row_count(name)?;
        if counted != rows {
            return Err(LabError::Wrong(format!("the table {name} was to have {rows} rows and has {counted}")));
        }
        Ok(())
    }

    /// The large tables that were built in this run, in their order.
    pub fn builds(&self) -> &[Build] {
        &self.builds
    }

    /// Rows of `dbo.NAME`, counted.
    ///
    /// # Errors
    /// The table is not there or cannot be read.
    pub fn row_count(&mut self, name: &str) -> Result<u64> {
        let answer = self.run(&format!("SELECT COUNT_BIG(*) FROM dbo.{name}"))?;
        answer.count().ok_or_else(|| LabError::Wrong(format!("counting {name} gave no number")))
    }

    /// Makes `DimCustomer`, unless it is there. One step.
    ///
    /// # Errors
    /// A statement failed.
    pub fn ensure_customers(&mut self) -> Result<()> {
        if self.has_table("DimCustomer")? {
            if self.row_count("DimCustomer")? == data::CUSTOMERS {
                self.progress.step("DimCustomer is there already");
                return Ok(());
            }
            self.run("DROP TABLE dbo.DimCustomer")?;
        }
        self.progress.step("generating DimCustomer");
        self.run(data::CREATE_DIM_CUSTOMER)?;
        let customers = data::dim_customer(data::SEED, data::CUSTOMERS);
        data::load::load(
            self.instance(),
            self.connection.database(),
            "DimCustomer",
            vec![Box::new(std::iter::once(customers))],
        )?;
        Ok(())
    }

    /// Makes `BigData` with at least `rows` rows, and `DimCustomer` before it; returns how many it has. Two steps.
    ///
    /// # Errors
    /// A statement failed.
    pub fn ensure_big_data(&mut self, rows: u64) -> Result<u64> {
        self.ensure_customers()?;
        let exact = big_data::rows_for(rows);
        let build = big_data::select_into("dbo.BigData", "dbo.DimCustomer", big_data::repeats_for(rows));
        self.ensure_table("BigData", exact, &[build])?;
        Ok(exact)
    }

    /// Makes `LINEITEM` of a scale factor, in the place of one that is there; returns how many rows it has. One step.
    ///
    /// # Errors
    /// A statement failed.
    pub fn ensure_line_item(&mut self, scale_factor: f64) -> Result<u64> {
        check_scale(scale_factor)?;
        if self.has_table("LINEITEM")? {
            self.run("DROP TABLE dbo.LINEITEM")?;
        }
        self.progress.step(&format!("generating LINEITEM, scale factor {scale_factor}"));
        self.run(data::CREATE_LINEITEM)?;
        self.load_tpch(data::TpchTable::LineItem, "LINEITEM", scale_factor)
    }

    /// Makes the eight tables of TPC-H as heaps, unless those of this scale factor are there. `TPCH_STEPS` steps.
    ///
    /// # Errors
    /// A scale factor that there is no data for, a statement that failed.
    pub fn ensure_tpch(&mut self, scale_factor: f64) -> Result<()> {
        check_scale(scale_factor)?;
        if self.has_table(SCALE_TABLE)? {
            let question = format!("SELECT COUNT_BIG(*) FROM dbo.{SCALE_TABLE} WHERE scale = {scale_factor:e}");
            if self.run(&question)?.count() == Some(1) {
                for table in data::TpchTable::ALL {
                    self.progress.step(&format!("{} is there already", table.name()));
                }
                return Ok(());
            }
            self.run(&format!("DROP TABLE dbo.{SCALE_TABLE}"))?;
        }
        for table in data::TpchTable::ALL {
            self.run(&format!("DROP TABLE IF EXISTS dbo.{}", table.name()))?;
        }
        for batch in data::tpch_schema() {
            self.run(batch)?;
        }
        for table in data::TpchTable::ALL {
            self.progress.step(&format!("generating {}, scale factor {scale_factor}", table.name()));
            self.load_tpch(table, table.name(), scale_factor)?;
        }
        self.run(&format!("SELECT CAST({scale_factor:e} AS float) AS scale INTO dbo.{SCALE_TABLE}"))?;
        Ok(())
    }

    /// Fills `dbo.NAME` with a table's rows, which it returns the number of, and makes them durable.
    fn load_tpch(&mut self, table: data::TpchTable, name: &str, scale_factor: f64) -> Result<u64> {
        let since = Instant::now();
        let threads = i32::try_from(hobt_sync::processor::processor_count()).unwrap_or(1);
        let parts = (1..=threads).map(|part| table.batches(scale_factor, part, threads)).collect();
        let rows = data::load::load(self.instance(), self.connection.database(), name, parts)?;
        self.run("CHECKPOINT")?;
        self.builds.push(Build { table: name.to_owned(), rows, seconds: since.elapsed().as_secs_f64() });
        Ok(rows)
    }

    /// The stretches of disk that a table's pages lie in, in the order of its heaps and runs.
    ///
    /// # Errors
    /// The table or a file of it is not there.
    pub(crate) fn stretches(&self, name: &str) -> Result<Vec<Stretch>> {
        let database = self.database()?;
        let snapshot = database.snapshot();
        let table = snapshot
            .tables
            .values()
            .find(|table| !table.is_system && table.name.eq_ignore_ascii_case(name))
            .ok_or_else(|| LabError::Wrong(format!("there is no table {name}")))?;
        let doing = || format!("looking where {name} lies");
        let mut stretches = Vec::new();
        for partition in &table.base_index().partitions {
            let hobt = database.hobt(partition.hobt).map_err(|error| LabError::sql(doing(), error))?;
            for run in hobt.runs() {
                let file = database.storage().file(run.first.file);
                let file = file.map_err(|error| LabError::Wrong(format!("{}: {error}", doing())))?;
                stretches.push(Stretch {
                    file: Arc::clone(file.disk()),
                    offset: u64::from(run.first.number) * PAGE_BYTES,
                    bytes: u64::from(run.used) * PAGE_BYTES,
                });
            }
        }
        stretches.retain(|stretch| stretch.bytes > 0);
        Ok(stretches)
    }

    /// Megabytes per second of a raw direct read of a table's pages, in order, as the disk was read fastest when the
    /// limits were measured.
    ///
    /// # Errors
    /// A read failed.
    pub(crate) fn raw_read_mb_s(&self, table: &str) -> Result<f64> {
        let (read_kib, depth) = self.read_mode.get();
        Ok(read_stretches(&self.stretches(table)?, read_kib << 10, depth)?.mb_s())
    }

    /// The database that the laboratory's session is in.
    pub(crate) fn database(&self) -> Result<hobt_engine::DatabaseUse> {
        let name = self.connection.database();
        self.instance().database(name).map_err(|error| LabError::sql(format!("using {name}"), error))
    }

    /// Closes the instance, cleanly.
    ///
    /// # Errors
    /// The last checkpoint failed.
    pub fn close(self) -> Result<()> {
        let instance = Arc::clone(self.server.instance());
        drop(self);
        instance.close().map_err(|error| LabError::sql("closing the instance", error))
    }
}

fn check_scale(scale_factor: f64) -> Result<()> {
    if SCALES.contains(&scale_factor) {
        return Ok(());
    }
    let (least, most) = (SCALES.start(), SCALES.end());
    Err(LabError::Input(format!("the scale factor {scale_factor} is not between {least} and {most}")))
}
