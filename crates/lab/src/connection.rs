//! A session of the laboratory: runs batches and collects their results.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use hobt_base::SqlError;
use hobt_session::{Event, Flow, Message, ResultColumn, Server, Session, SessionOptions, StatementStatistics};

use crate::error::{LabError, Result};

/// The result of a batch.
#[derive(Debug, Default)]
pub struct Answer {
    /// The columns of the last result set.
    pub columns: Vec<ResultColumn>,
    /// The rows of the last result set, in carriers.
    pub batches: Vec<RecordBatch>,
    /// Messages in order.
    pub messages: Vec<Message>,
    /// The cost of the last query or insert.
    pub statistics: Option<StatementStatistics>,
    /// Rows that the last statement sent or changed.
    pub row_count: Option<u64>,
    /// Elapsed time of the whole batch.
    pub elapsed: Duration,
}

impl Answer {
    /// The rows as text; `None` is NULL.
    pub fn rows(&self) -> Vec<Vec<Option<String>>> {
        let options = FormatOptions::default();
        let mut rows = Vec::new();
        for batch in &self.batches {
            let columns: Vec<_> = batch
                .columns()
                .iter()
                .map(|array| (array, ArrayFormatter::try_new(array, &options).expect("every carrier can be shown")))
                .collect();
            let cell = |row| {
                move |(array, shown): &(&arrow::array::ArrayRef, ArrayFormatter<'_>)| {
                    array.is_valid(row).then(|| shown.value(row).to_string())
                }
            };
            rows.extend((0..batch.num_rows()).map(|row| columns.iter().map(cell(row)).collect::<Vec<_>>()));
        }
        rows
    }

    /// The first column of the first row, as a number.
    pub fn count(&self) -> Option<u64> {
        self.rows().first()?.first()?.as_ref()?.parse().ok()
    }
}

/// A session.
#[derive(Debug)]
pub struct Connection {
    session: Session,
}

impl Connection {
    /// A session of `server` in `database`.
    ///
    /// # Errors
    /// If the database does not exist.
    pub fn open(server: &Arc<Server>, database: &str) -> Result<Connection> {
        let options = SessionOptions {
            database: database.to_owned(),
            program: "hobt lab".to_owned(),
            ..SessionOptions::default()
        };
        let session =
            server.session(&options).map_err(|error| LabError::sql(format!("connecting to {database}"), error))?;
        Ok(Connection { session })
    }

    /// The current database.
    pub fn database(&self) -> &str {
        self.session.database()
    }

    /// Sets whether the statistics of an answer include the plan of its statement, with the operators' figures.
    pub fn collect_plans(&mut self, collects: bool) {
        self.session.collect_plans(collects);
    }

    /// Runs a batch to its end. Blocks.
    ///
    /// # Errors
    /// The first error that the batch sent. The rest of the batch has run nevertheless where T-SQL continues.
    pub fn run(&mut self, batch: &str) -> Result<Answer> {
        self.try_run(batch).map_err(|error| LabError::sql(doing(batch), error))
    }

    /// Plans a batch without running it. That creates the statistics that its plans need. Blocks.
    ///
    /// # Errors
    /// As for [`Connection::run`].
    pub fn plan(&mut self, batch: &str) -> Result<()> {
        self.run("SET SHOWPLAN_TEXT ON")?;
        let planned = self.run(batch);
        self.run("SET SHOWPLAN_TEXT OFF")?;
        planned.map(|_| ())
    }

    /// As [`Connection::run`], with the bare error.
    ///
    /// # Errors
    /// The first error that the batch sent.
    pub fn try_run(&mut self, batch: &str) -> Result<Answer, SqlError> {
        let mut answer = Answer::default();
        let mut failed: Option<SqlError> = None;
        let since = Instant::now();
        self.session.execute(batch, &mut |event: Event| {
            match event {
                Event::ResultSet(columns) => {
                    answer.columns = columns;
                    answer.batches.clear();
                }
                Event::Rows(rows) => answer.batches.push(rows),
                Event::Message(message) => answer.messages.push(message),
                Event::Error(error) => {
                    failed.get_or_insert(error);
                }
                Event::Statistics(statistics) => answer.statistics = Some(*statistics),
                Event::Done { row_count, .. } => answer.row_count = row_count,
                Event::ResultSetDone { .. } => {}
            }
            Flow::Continue
        });
        answer.elapsed = since.elapsed();
        failed.map_or(Ok(answer), Err)
    }
}

/// What a batch does, short enough for an error message: its first words.
fn doing(batch: &str) -> String {
    const SHOWN: usize = 100;
    let line = batch.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}
