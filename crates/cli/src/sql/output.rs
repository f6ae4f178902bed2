//! Events as text: rows in the chosen format, counts, messages, errors.

use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::PathBuf;
use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use hobt_base::SqlError;
use hobt_session::{Event, Flow, Message};

use super::arguments::{Arguments, Format};
use super::command::WantedPlans;
use super::export::{JsonWriter, TextWriter};
use super::table::{Limits, TableWriter};
use crate::export::{ExportError, FileSink};
use crate::plan_page;
use hobt::ResultColumn;
use hobt::plan::{self, Drawing, ShownStatement};

/// What writes the rows of one result set.
pub(super) trait RowWriter {
    /// Leaves out spaces at the end of values from now on, as `-W` does. Returns whether it did so before.
    fn set_trim(&mut self, _trims: bool) -> bool {
        false
    }

    /// Writes what stands before the rows.
    fn begin(&mut self, columns: &[ResultColumn], out: &mut dyn Write) -> io::Result<()>;

    /// Writes the rows of a batch in carriers.
    fn rows(&mut self, columns: &[ResultColumn], batch: &RecordBatch, out: &mut dyn Write) -> io::Result<()>;

    /// Writes what stands behind the rows.
    fn end(&mut self, out: &mut dyn Write) -> io::Result<()>;
}

/// Calls `row` with the texts of each row's values; `None` is NULL.
pub(super) fn each_row(
    columns: &[ResultColumn],
    batch: &RecordBatch,
    mut row: impl FnMut(&[Option<String>]) -> io::Result<()>,
) -> io::Result<()> {
    let mut values = Vec::with_capacity(columns.len());
    for index in 0..batch.num_rows() {
        values.clear();
        for column in 0..batch.num_columns() {
            values.push(hobt::cell_text(columns, batch, index, column).map_err(io::Error::other)?);
        }
        row(&values)?;
    }
    Ok(())
}

/// Writes what a batch sends.
pub(super) struct Output {
    out: BufWriter<Box<dyn Write>>,
    rows: Box<dyn RowWriter>,
    /// Where rows go in place of `rows`.
    file: Option<FileSink>,
    columns: Vec<ResultColumn>,
    server: String,
    /// Whether counts and messages go among the rows; other formats keep them apart.
    is_table: bool,
    /// Whether it is written to a terminal, so that a user watches it.
    is_terminal: bool,
    /// Whether a result set has begun and not ended.
    in_rows: bool,
    failed: bool,
    error: Option<io::Error>,
    plans: Plans,
}

/// The plans of statements, and where they go.
#[derive(Default)]
struct Plans {
    are_drawn: bool,
    page: Option<PathBuf>,
    /// Those that are on the page, or will be.
    shown: Vec<Arc<ShownStatement>>,
    /// Whether some are not on the page yet.
    is_behind: bool,
}

impl Output {
    pub(super) fn new(target: Box<dyn Write>, file: Option<FileSink>, arguments: &Arguments, server: &str) -> Output {
        let rows: Box<dyn RowWriter> = match arguments.format {
            Format::Table => {
                let limits = Limits { large: arguments.large_width.into(), others: arguments.width.into() };
                Box::new(TableWriter::new(arguments.separator.clone(), arguments.headers, arguments.trim, limits))
            }
            Format::Csv => Box::new(TextWriter::csv()),
            // Parquet's rows go to the file.
            Format::Jsonl | Format::Parquet => Box::new(TextWriter::json_lines()),
            Format::Json => Box::new(JsonWriter::default()),
        };
        Output {
            out: BufWriter::new(target),
            rows,
            file,
            columns: Vec::new(),
            server: server.to_owned(),
            is_table: arguments.format == Format::Table,
            is_terminal: arguments.output.is_none() && io::stdout().is_terminal(),
            in_rows: false,
            failed: false,
            error: None,
            plans: Plans { are_drawn: arguments.plan, page: arguments.plan_page.clone(), ..Plans::default() },
        }
    }

    /// Says where plans go from now on, beside where they went.
    ///
    /// # Errors
    /// A file that cannot be written, with its name.
    pub(super) fn want_plans(&mut self, wanted: WantedPlans) -> Result<(), String> {
        match wanted {
            WantedPlans::None => self.plans = Plans::default(),
            WantedPlans::Drawn => self.plans.are_drawn = true,
            WantedPlans::Page(path) => {
                plan_page::check(&path)?;
                self.plans.page = Some(path);
            }
        }
        Ok(())
    }

    /// Whether anybody wants plans.
    pub(super) fn wants_plans(&self) -> bool {
        self.plans.are_drawn || self.plans.page.is_some()
    }

    /// Leaves out spaces at the end of values from now on, as `-W` does. Returns whether it did so before.
    pub(super) fn set_trim(&mut self, trims: bool) -> bool {
        self.rows.set_trim(trims)
    }

    /// A batch is about to run.
    pub(super) fn begin_batch(&mut self) {
        self.failed = false;
    }

    /// Whether an error above severity 10 has come in this batch.
    pub(super) fn failed(&self) -> bool {
        self.failed
    }

    /// Whether the terminal shows a result set that has begun and not ended.
    pub(super) fn is_in_rows(&self) -> bool {
        self.in_rows && self.is_terminal
    }

    /// Whether the reader of the output has closed it.
    pub(super) fn is_closed(&self) -> bool {
        self.error.is_some()
    }

    pub(super) fn echo(&mut self, text: &str) -> io::Result<()> {
        write!(self.out, "{text}")
    }

    /// Takes an event; an output that cannot be written stops the batch.
    pub(super) fn event(&mut self, event: Event) -> Flow {
        if let Some(file) = &mut self.file
            && matches!(event, Event::ResultSet(_) | Event::Rows(_) | Event::Error(_))
        {
            let flow = file.event(event);
            self.failed |= flow == Flow::Stop;
            return flow;
        }
        match self.write(event) {
            Ok(()) => Flow::Continue,
            Err(error) => {
                self.error = Some(error);
                Flow::Stop
            }
        }
    }

    /// Hands on what is buffered, so that a pipe sees each batch when it is done.
    pub(super) fn end_batch(&mut self) -> io::Result<()> {
        if self.error.is_none() {
            self.end_rows()?;
        }
        match self.error.take() {
            Some(error) => return Err(error),
            None => self.out.flush()?,
        }
        // A user at a terminal reads it batch by batch.
        match &self.plans.page {
            Some(path) if std::mem::take(&mut self.plans.is_behind) => {
                let failed =
                    |error: io::Error| io::Error::other(format!("{} cannot be written: {error}", path.display()));
                std::fs::write(path, plan_page::file(path, &self.plans.shown)).map_err(failed)
            }
            _ => Ok(()),
        }
    }

    /// All batches have ended: gives the file its name, if rows go to one. Returns whether that was possible, and
    /// reports it if not.
    pub(super) fn end_file(&mut self) -> bool {
        let Some(file) = self.file.take() else { return true };
        let published = file.end().and_then(|writer| match writer {
            None => Err(ExportError::Usage("no statement has sent rows, so there is no file".to_owned())),
            Some(writer) => Ok(writer.finish()?.publish()?),
        });
        if let Err(error) = &published {
            eprintln!("{error}");
        }
        published.is_ok()
    }

    fn plan(&mut self, plan: Arc<ShownStatement>) -> io::Result<()> {
        if self.plans.are_drawn {
            let has_colours = self.is_table && self.is_terminal;
            let width = if self.is_terminal { hobt_lab::terminal_width() } else { None };
            let tree = plan::draw(&plan, Drawing { has_colours, width });
            if self.is_table { writeln!(self.out, "\n{tree}")? } else { writeln!(io::stderr(), "{tree}")? }
        }
        if self.plans.page.is_some() && self.plans.shown.len() < plan_page::PLANS_MAX {
            self.plans.shown.push(plan);
            self.plans.is_behind = true;
        }
        Ok(())
    }

    /// Ends a result set that has begun. One whose statement fails is not said to be done.
    fn end_rows(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.in_rows) { self.rows.end(&mut self.out) } else { Ok(()) }
    }

    fn write(&mut self, event: Event) -> io::Result<()> {
        // What may come long before the next event is shown at once.
        let ends_something = !matches!(event, Event::ResultSet(_) | Event::Rows(_) | Event::ResultSetDone { .. });
        match event {
            Event::ResultSet(columns) => {
                self.end_rows()?;
                self.in_rows = true;
                self.rows.begin(&columns, &mut self.out)?;
                self.columns = columns;
            }
            Event::Rows(batch) => {
                self.rows.rows(&self.columns, &batch, &mut self.out)?;
            }
            Event::ResultSetDone { .. } => self.end_rows()?,
            Event::Done { row_count: Some(count), .. } if self.is_table => {
                let plural = if count == 1 { "" } else { "s" };
                writeln!(self.out, "\n({count} row{plural} affected)")?;
            }
            Event::Statistics(cost) => {
                if let Some(plan) = cost.plan {
                    self.plan(plan)?;
                }
            }
            Event::Done { .. } => {}
            Event::Message(message) => self.message(&message)?,
            Event::Error(error) => self.sql_error(&error)?,
        }
        if ends_something { self.out.flush() } else { Ok(()) }
    }

    fn message(&mut self, message: &Message) -> io::Result<()> {
        // RAISERROR shows its frame from severity 1 on, PRINT and the statistics do not.
        let frame = (1..10).contains(&message.severity);
        let line = match frame {
            true => format!(
                "Msg {}, Level {}, State {}, Server {}, Line {}\n{}",
                message.number, message.severity, message.state, self.server, message.line, message.text
            ),
            false => message.text.clone(),
        };
        if self.is_table { writeln!(self.out, "{line}") } else { writeln!(io::stderr(), "{line}") }
    }

    fn sql_error(&mut self, error: &SqlError) -> io::Result<()> {
        self.failed |= error.severity > 10;
        let text = format!(
            "Msg {}, Level {}, State {}, Server {}, {}\n{}",
            error.number,
            error.severity,
            error.state,
            self.server,
            error.place(),
            error.message
        );
        if self.is_table { writeln!(self.out, "{text}") } else { writeln!(io::stderr(), "{text}") }
    }
}
