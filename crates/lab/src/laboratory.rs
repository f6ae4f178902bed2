//! The environment of experiments: an instance in a folder, with the experiments' data.
//!
//! Tables are created once. The next run in the same folder uses them again if they have the requested number of rows.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hobt_engine::{Instance, InstanceSettings};
use hobt_session::Server;
use hobt_showplan::counted;

use crate::connection::{Answer, Connection};
use crate::data::{self, big_data};
use crate::error::{LabError, Result};
use crate::limits::disk::{DiskProbe, ReadMode, Stretch, read_stretches};
use crate::limits::{LimitSettings, Limits};
use crate::machine::{self, Machine};
use crate::occasion::Occasion;
use crate::progress::Progress;

/// The database that experiments use.
pub const DATABASE: &str = "hobt_lab";

/// Steps of [`Laboratory::ensure_big_data`].
pub(crate) const BIG_DATA_STEPS: u64 = 2;
/// Bytes of a row of BigData on disk, about.
const BIG_DATA_ROW_BYTES: u64 = 90;
/// Bytes of TPC-H's tables on disk at scale factor 1, about.
pub(crate) const SCALE_BYTES: f64 = 1.4e9;
/// Steps of [`Laboratory::ensure_tpch`].
pub(crate) const TPCH_STEPS: u64 = data::TpchTable::ALL.len() as u64;

/// The table that stores the scale factor of the TPC-H tables, once all of them exist.
const SCALE_TABLE: &str = "tpch_scale";
/// The supported scale factors.
const SCALES: std::ops::RangeInclusive<f64> = 0.000_5..=1_000.0;

const PAGE_BYTES: u64 = hobt_base::PAGE_SIZE as u64;

/// The options of a run.
#[derive(Clone, PartialEq, Debug)]
pub struct RunOptions {
    /// Rows of the main table. Chosen from memory and free disk if absent.
    pub rows: Option<u64>,
    /// Repetitions of each measurement.
    pub repeat: usize,
    /// Whether the scan experiment also runs on 1 to 96 partitions, and the inserts experiment with all combinations of
    /// its variants.
    pub sweep: bool,
    /// The cases to run, for experiments that can skip some (`inserts`, `operators`). All cases if empty.
    pub cases: Vec<String>,
    /// The scale factor of TPC-H. Chosen from memory and free disk if absent.
    pub scale: Option<f64>,
}

impl Default for RunOptions {
    fn default() -> RunOptions {
        RunOptions { rows: None, repeat: 5, sweep: false, cases: Vec::new(), scale: None }
    }
}

/// A table that this run has built.
#[derive(Clone, PartialEq, Debug)]
pub struct Build {
    /// The table.
    pub table: String,
    /// Its rows.
    pub rows: u64,
    /// Seconds until it was durable.
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
    occasion: Occasion,
    /// When it was opened, and the processor time that the hypervisor had taken until then.
    opened: (Instant, Option<Duration>),
    /// The read size and depth with which the disk was fastest.
    read_mode: Cell<ReadMode>,
}

impl Laboratory {
    /// Opens or creates the instance in `folder`, and its database. Creates the folder if necessary. Blocks.
    ///
    /// # Errors
    /// If the folder cannot be used, because it belongs to something else or another process has the instance open.
    pub fn open(
        folder: &Path,
        settings: InstanceSettings,
        options: RunOptions,
        progress: Progress,
    ) -> Result<Laboratory> {
        Laboratory::open_database(folder, DATABASE, settings, options, progress)
    }

    /// Like [`Laboratory::open`], for a database with the given name.
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
            occasion: Occasion::now(),
            opened: (Instant::now(), hobt_instruments::processor::steal_time()),
            read_mode: Cell::new((512, 8)),
        })
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// A note on the processor time that the hypervisor gave to others since the laboratory was opened, if it was at
    /// least 1 % of the total: then the figures are less reliable.
    pub(crate) fn stolen_note(&self) -> Option<String> {
        let (since, before) = self.opened;
        let stolen = hobt_instruments::processor::steal_time()?.saturating_sub(before?);
        let whole = since.elapsed().as_secs_f64() * hobt_instruments::processor::processor_count() as f64;
        let percent = stolen.as_secs_f64() / whole.max(1e-9) * 100.0;
        (percent >= 1.0).then(|| format!("the hypervisor gave {percent:.0} % of the processors' time to others"))
    }

    /// The options of this run.
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

    /// The display of the run's progress.
    pub fn progress(&self) -> &Progress {
        &self.progress
    }

    /// The machine, as a report describes it.
    pub fn machine(&self) -> Machine {
        Machine::this(self.disk_kind)
    }

    /// When and by which command it was opened, and the load until now.
    pub fn occasion(&self) -> Occasion {
        self.occasion.ended()
    }

    /// Runs a batch in the laboratory's own session.
    ///
    /// # Errors
    /// The first error of the batch.
    pub fn run(&mut self, batch: &str) -> Result<Answer> {
        self.connection.run(batch)
    }

    /// The laboratory's own session.
    pub fn connection(&mut self) -> &mut Connection {
        &mut self.connection
    }

    /// Opens an additional session in the same database.
    ///
    /// # Errors
    /// If the database no longer exists.
    pub fn connect(&self) -> Result<Connection> {
        Connection::open(&self.server, self.connection.database())
    }

    /// Measures the machine for an experiment on tables of about `bytes`.
    ///
    /// # Errors
    /// If the disk cannot be measured.
    pub fn limits(&self, bytes: u64) -> Result<Limits> {
        let settings = LimitSettings::beside(bytes, self.options.repeat.min(3));
        self.limits_with(settings)
    }

    /// Measures the machine's limits.
    ///
    /// # Errors
    /// If the disk cannot be measured.
    pub fn limits_with(&self, settings: LimitSettings) -> Result<Limits> {
        let limits = Limits::measure(&self.folder, settings, |what| self.progress.step(what))?;
        self.read_mode.set((limits.disk_read_kib, limits.disk_read_depth));
        Ok(limits)
    }

    /// The largest table, in bytes, that a warm scan can still keep in the pool.
    pub fn pool_fit_bytes(&self) -> u64 {
        // A scan of more than three quarters of the pool bypasses it.
        self.instance().pool().statistics().frames * PAGE_BYTES * 7 / 10
    }

    /// The number of rows for `tables` tables with `row_bytes` per row: the user's number, or `wanted`, reduced to what
    /// fits into the pool and the free disk space.
    ///
    /// # Errors
    /// If the free space of the folder is unknown, or too small for the rows that the user asked for.
    pub fn rows_for(&self, wanted: u64, row_bytes: u64, tables: u64) -> Result<u64> {
        if let Some(rows) = self.options.rows {
            if rows == 0 {
                let text = "0 rows cannot be measured: give more with --rows, or leave it out.";
                return Err(LabError::Input(text.to_owned()));
            }
            self.check_room(
                &format!("{rows} rows in {}", counted(tables, "table")),
                row_bytes.saturating_mul(tables),
                rows,
            )?;
            return Ok(rows);
        }
        let by_pool = self.pool_fit_bytes() / row_bytes;
        let by_disk = machine::free_disk(&self.folder)? / 2 / (row_bytes * tables);
        Ok(wanted.min(by_pool).min(by_disk).max(1_000))
    }

    /// Refuses data, `what`, of `count` times `bytes` that the folder has no room for. The folder of a modelled device,
    /// which lies in memory, has no limit.
    fn check_room(&self, what: &str, bytes: u64, count: u64) -> Result<()> {
        let Ok(free) = machine::free_disk(&self.folder) else { return Ok(()) };
        let needed = bytes.saturating_mul(count);
        if needed <= free {
            return Ok(());
        }
        Err(LabError::Input(format!(
            "{what} cannot be measured: they need about {} MB and {} has {} MB free. Give fewer, or another folder with \
             --data.",
            needed / 1_000_000,
            self.folder.display(),
            free / 1_000_000,
        )))
    }

    /// Whether the database has a table `dbo.NAME`.
    pub fn has_table(&self, name: &str) -> Result<bool> {
        let database = self.database()?;
        let snapshot = database.snapshot();
        Ok(snapshot.tables.values().any(|table| !table.is_system && table.name.eq_ignore_ascii_case(name)))
    }

    /// Creates a table, unless one with this name and number of rows exists: runs the statements in `build`, which
    /// create and fill it, and counts the rows. One step.
    ///
    /// # Errors
    /// If a statement failed, or the number of rows differs.
    pub fn ensure_table(&mut self, name: &str, rows: u64, build: &[String]) -> Result<()> {
        if self.has_table(name)? {
            if self.row_count(name)? == rows {
                self.progress.step(&format!("using {name}"));
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

    /// The large tables that this run has built, in order.
    pub fn builds(&self) -> &[Build] {
        &self.builds
    }

    /// The number of rows of `dbo.NAME`, counted.
    ///
    /// # Errors
    /// If the table does not exist or cannot be read.
    pub fn row_count(&mut self, name: &str) -> Result<u64> {
        let answer = self.run(&format!("SELECT COUNT_BIG(*) FROM dbo.{name}"))?;
        answer.count().ok_or_else(|| LabError::Wrong(format!("counting {name} gave no number")))
    }

    /// Creates `DimCustomer`, unless it exists. One step.
    ///
    /// # Errors
    /// If a statement failed.
    pub fn ensure_customers(&mut self) -> Result<()> {
        if self.has_table("DimCustomer")? {
            if self.row_count("DimCustomer")? == data::CUSTOMERS {
                self.progress.step("using DimCustomer");
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

    /// Creates `BigData` with at least `rows` rows, and `DimCustomer` before it. Returns the number of rows. Two steps.
    ///
    /// # Errors
    /// If a statement failed.
    pub fn ensure_big_data(&mut self, rows: u64) -> Result<u64> {
        if !self.has_table("BigData")? {
            self.check_room(&format!("{rows} rows of BigData"), BIG_DATA_ROW_BYTES, rows)?;
        }
        self.ensure_customers()?;
        let exact = big_data::rows_for(rows);
        let build = big_data::select_into("dbo.BigData", "dbo.DimCustomer", big_data::repeats_for(rows));
        self.ensure_table("BigData", exact, &[build])?;
        Ok(exact)
    }

    /// Creates `LINEITEM` with a scale factor, replacing an existing one. Returns the number of rows. One step.
    ///
    /// # Errors
    /// If a statement failed.
    pub fn ensure_line_item(&mut self, scale_factor: f64) -> Result<u64> {
        check_scale(scale_factor)?;
        if self.has_table("LINEITEM")? {
            self.run("DROP TABLE dbo.LINEITEM")?;
        }
        self.progress.step(&format!("generating LINEITEM, scale factor {scale_factor:.3}"));
        self.run(data::CREATE_LINEITEM)?;
        self.load_tpch(data::TpchTable::LineItem, "LINEITEM", scale_factor)
    }

    /// Creates the eight tables of TPC-H as heaps, unless those of this scale factor exist. `TPCH_STEPS` steps.
    ///
    /// # Errors
    /// If the scale factor is not supported, or a statement failed.
    pub fn ensure_tpch(&mut self, scale_factor: f64) -> Result<()> {
        check_scale(scale_factor)?;
        if self.has_table(SCALE_TABLE)? {
            let question = format!("SELECT COUNT_BIG(*) FROM dbo.{SCALE_TABLE} WHERE scale = {scale_factor:e}");
            if self.run(&question)?.count() == Some(1) {
                for table in data::TpchTable::ALL {
                    self.progress.step(&format!("using {}", table.name()));
                }
                return Ok(());
            }
            self.run(&format!("DROP TABLE dbo.{SCALE_TABLE}"))?;
        }
        self.check_room(&format!("the tables of scale factor {scale_factor}"), (scale_factor * SCALE_BYTES) as u64, 1)?;
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

    /// Fills `dbo.NAME` with a table's rows and makes them durable. Returns their number.
    fn load_tpch(&mut self, table: data::TpchTable, name: &str, scale_factor: f64) -> Result<u64> {
        let since = Instant::now();
        let threads = i32::try_from(hobt_instruments::processor::processor_count()).unwrap_or(1);
        let parts = (1..=threads).map(|part| table.batches(scale_factor, part, threads)).collect();
        let rows = data::load::load(self.instance(), self.connection.database(), name, parts)?;
        self.run("CHECKPOINT")?;
        self.builds.push(Build { table: name.to_owned(), rows, seconds: since.elapsed().as_secs_f64() });
        Ok(rows)
    }

    /// The stretches of disk that contain a table's pages, in the order of its heaps and runs.
    ///
    /// # Errors
    /// If the table or one of its files does not exist.
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

    /// Megabytes per second of a raw direct read of a table's pages, in order, with the read size and depth that were
    /// fastest when the limits were measured.
    ///
    /// # Errors
    /// If a read failed.
    pub(crate) fn raw_read_mb_s(&self, table: &str) -> Result<f64> {
        let (read_kib, depth) = self.read_mode.get();
        Ok(read_stretches(&self.stretches(table)?, read_kib << 10, depth)?.mb_s())
    }

    /// A file of so many bytes in the laboratory's folder, for [`Laboratory::copy_time`]. Blocks.
    ///
    /// # Errors
    /// If the disk is full.
    pub(crate) fn disk_probe(&self, bytes: u64) -> Result<DiskProbe> {
        DiskProbe::new(&self.folder, bytes)
    }

    /// The time in which the disk reads and writes so many bytes at once, with the read size and depth that were
    /// fastest when the limits were measured. Blocks.
    ///
    /// # Errors
    /// As [`DiskProbe::copy`].
    pub(crate) fn copy_time(&self, probe: &DiskProbe, read: u64, written: u64) -> Result<Duration> {
        probe.copy(read, written, self.read_mode.get())
    }

    /// The current database of the laboratory's session.
    pub(crate) fn database(&self) -> Result<hobt_engine::DatabaseUse> {
        let name = self.connection.database();
        self.instance().database(name).map_err(|error| LabError::sql(format!("using {name}"), error))
    }

    /// Closes the instance with a checkpoint.
    ///
    /// # Errors
    /// If the last checkpoint failed.
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
