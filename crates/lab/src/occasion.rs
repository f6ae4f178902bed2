//! When and by which command a report was made, and how busy the machine was: what a report that is passed on must say
//! about itself.

use std::ffi::OsString;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use arrow::temporal_conversions::timestamp_s_to_datetime;
use serde::Serialize;

/// The beginning of a run, and its load.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Occasion {
    /// When it began: `2026-11-27 11:27 UTC`.
    pub date: String,
    /// The command line, as it can be repeated in a shell.
    pub command: String,
    /// Threads that the system ran or wanted to run, the mean of the minute before. `None` where it does not say.
    pub load_before: Option<f64>,
    /// The load at the end, which includes the run itself.
    pub load_after: Option<f64>,
}

impl Occasion {
    /// Now, by this process's command line.
    pub fn now() -> Occasion {
        let load = load();
        Occasion {
            date: date(SystemTime::now()),
            command: command(std::env::args_os()),
            load_before: load,
            load_after: load,
        }
    }

    /// This occasion with the load at its end.
    pub(crate) fn ended(&self) -> Occasion {
        Occasion { load_after: load(), ..self.clone() }
    }

    /// Whether other work took half of these processors or more before it began.
    pub(crate) fn is_busy(&self, processors: usize) -> bool {
        self.load_before.is_some_and(|load| load >= processors as f64 / 2.0)
    }
}

fn date(time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let date = i64::try_from(seconds).ok().and_then(timestamp_s_to_datetime);
    date.map_or_else(|| "unknown".to_owned(), |date| date.format("%Y-%m-%d %H:%M UTC").to_string())
}

/// The arguments as a line for a shell, with the program's name in place of its path.
fn command(arguments: impl Iterator<Item = OsString>) -> String {
    let quoted = |(place, argument): (usize, OsString)| {
        let name = Path::new(&argument).file_name().filter(|_| place == 0);
        let text = name.unwrap_or(&argument).to_string_lossy().into_owned();
        let is_plain = |c: char| c.is_alphanumeric() || "-_./=:,+@%".contains(c);
        if !text.is_empty() && text.chars().all(is_plain) { text } else { format!("'{}'", text.replace('\'', "'\\''")) }
    };
    arguments.enumerate().map(quoted).collect::<Vec<_>>().join(" ")
}

fn load() -> Option<f64> {
    std::fs::read_to_string("/proc/loadavg").ok()?.split(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn dates_are_of_the_calendar() {
        assert_eq!(date(UNIX_EPOCH + Duration::from_secs(951_827_696)), "2000-02-29 12:34 UTC");
    }

    #[test]
    fn a_command_can_be_repeated_in_a_shell() {
        let line = |arguments: &[&str]| command(arguments.iter().map(OsString::from));
        assert_eq!(line(&["/opt/bin/hobt", "lab", "run", "scan", "--out", "/tmp/a"]), "hobt lab run scan --out /tmp/a");
        assert_eq!(line(&["hobt", "my file", "it's", ""]), r"hobt 'my file' 'it'\''s' ''");
    }

    #[test]
    fn half_of_the_processors_at_work_is_busy() {
        let with = |load| Occasion { load_before: load, ..Occasion::now() }.is_busy(2);
        assert_eq!([with(None), with(Some(0.9)), with(Some(1.0))], [false, false, true]);
    }
}
