//! `KILL` and `ALTER SERVER CONFIGURATION`.

use std::path::Path;
use std::time::Duration;

use hobt_base::{Position, SessionId, SqlError, errors};
use hobt_tsql::ast::{Expression, ServerConfiguration};

use super::failure::Failure;
use crate::event::Message;
use crate::interpreter::{Interpreter, Outcome};

impl Interpreter<'_> {
    pub(super) fn kill(
        &mut self,
        session: &Expression,
        status_only: bool,
        position: Position,
    ) -> Result<Outcome, Failure> {
        let id = self.integer(session)?;
        let session = i32::try_from(id).map(SessionId).map_err(|_| no_such_session(id, position))?;
        if status_only {
            let (percent, left) = self.rollback_progress(session).map_err(|error| error.at(position))?;
            let text = format!(
                "SPID {session}: transaction rollback in progress. Estimated rollback completion: {percent:.0}%. \
                 Estimated time remaining: {} seconds.",
                left.as_secs()
            );
            self.send_message(Message::plain(position.line, text))?;
            return Ok(Outcome::QUIET);
        }
        if session == self.state.id {
            return Err(errors::KILL_SELF.error().at(position).into());
        }
        let open = self.environment.sessions.kill(session).map_err(|error| error.at(position))?;
        if let Some(open) = open {
            open.roll_back(&self.environment.instance).map_err(|error| error.at(position))?;
        }
        Ok(Outcome::QUIET)
    }

    /// How far the rollback of a session is, or that of a transaction which recovery has left open: per cent, and how
    /// long the rest takes.
    fn rollback_progress(&self, session: SessionId) -> Result<(f64, Duration), SqlError> {
        let undone = self.environment.instance.transactions_undone();
        if let Some(undone) = undone.iter().find(|undone| undone.session == session) {
            return Ok((undone.percent, undone.left()));
        }
        let progress = self.environment.sessions.progress(session)?;
        if progress.is_undo() {
            Ok((progress.percent(), progress.left()))
        } else {
            Err(errors::NO_ROLLBACK_TO_REPORT.with([&session]))
        }
    }

    pub(super) fn alter_server(
        &mut self,
        configuration: &ServerConfiguration,
        position: Position,
    ) -> Result<Outcome, Failure> {
        let instance = &self.environment.instance;
        let mask = match configuration {
            ServerConfiguration::AffinityAuto => 0,
            ServerConfiguration::AffinityCpu(ranges) => affinity_mask(ranges)?,
            ServerConfiguration::AffinityNumaNode(_) => {
                return Err(SqlError::not_supported("PROCESS AFFINITY NUMANODE").into());
            }
            ServerConfiguration::BufferPoolExtension { file_name, size } => {
                // What does not fit 64 bits is more than any pool times 32.
                let bytes = size.bytes().unwrap_or(u64::MAX);
                instance.start_buffer_pool_extension(Path::new(file_name), bytes).map_err(SqlError::from)?;
                return Ok(Outcome::QUIET);
            }
            ServerConfiguration::NoBufferPoolExtension => {
                if !instance.stop_buffer_pool_extension() {
                    self.send_message(Message::of(position.line, errors::EXTENSION_DISABLED.error()))?;
                }
                return Ok(Outcome::QUIET);
            }
        };
        self.environment.instance.change_runtime(|runtime| runtime.affinity_mask = mask);
        Ok(Outcome::QUIET)
    }
}

/// The processors in the ranges, one bit each.
fn affinity_mask(ranges: &[(i64, i64)]) -> Result<u64, SqlError> {
    let processors = i64::try_from(hobt_instruments::processor::processor_count()).unwrap_or(64).min(64);
    let mut mask = 0;
    for &(first, last) in ranges {
        if first < 0 || first > last || last >= processors {
            return Err(errors::INVALID_AFFINITY.with([&(processors - 1), &first, &last]));
        }
        for processor in first..=last {
            mask |= 1 << processor;
        }
    }
    Ok(mask)
}

fn no_such_session(id: i64, position: Position) -> SqlError {
    errors::NO_SUCH_SESSION.with([&id]).at(position)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_become_bits_and_unknown_processors_are_refused() {
        assert_eq!(affinity_mask(&[(0, 0)]).unwrap(), 1);
        assert!(affinity_mask(&[(0, 1 << 40)]).is_err());
        assert!(affinity_mask(&[(1, 0)]).is_err());
    }
}
