//! User-defined experiments: a file with set-up, statements to time, and settings to vary.
//!
//! Each statement is a case for each combination of the settings. Errors in the file are reported with their line.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Map, json};
use toml::Spanned;

use super::{Experiment, Plan, Tuning, plan_steps, run_plans};
use crate::error::{LabError, Result};
use crate::laboratory::{BIG_DATA_STEPS, Laboratory};
use crate::limits::LimitSettings;
use crate::report::Report;

/// The largest degree of parallelism that a statement can ask for.
const MAXDOP_MAX: u32 = 32_767;

/// An experiment written by a user.
#[derive(Debug)]
pub struct UserExperiment {
    path: PathBuf,
    text: String,
    file: File,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: Spanned<String>,
    #[serde(default)]
    question: String,
    #[serde(default)]
    setup: Vec<Spanned<String>>,
    statement: Vec<Statement>,
    #[serde(default)]
    vary: Vary,
    /// Words of the form `{name}` in the statements, and their replacements.
    #[serde(default)]
    parameters: std::collections::BTreeMap<String, toml::Value>,
    #[serde(default)]
    customers: bool,
    /// Rows of BigData to create first.
    big_data_rows: Option<Spanned<u64>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Statement {
    name: Spanned<String>,
    sql: Spanned<String>,
    /// A table whose pages are also read raw with each cold run.
    table: Option<Spanned<String>>,
    #[serde(default = "yes")]
    cold: bool,
    #[serde(default = "yes")]
    warm: bool,
}

fn yes() -> bool {
    true
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Vary {
    #[serde(default)]
    maxdop: Vec<Spanned<u32>>,
    #[serde(default)]
    read_kib: Vec<Spanned<u32>>,
    #[serde(default)]
    queue_depth: Vec<Spanned<u32>>,
    #[serde(default)]
    read_ahead: Vec<bool>,
    #[serde(default)]
    dealer: Vec<Spanned<String>>,
    #[serde(default)]
    processors: Vec<Spanned<usize>>,
}

/// One combination of settings, with the suffix of its name.
#[derive(Clone, Default)]
struct Setting {
    suffix: String,
    maxdop: Option<u32>,
    tuning: Tuning,
}

impl UserExperiment {
    /// Reads an experiment.
    ///
    /// # Errors
    /// If the file cannot be read, or has an error in a line.
    pub fn read(path: &Path) -> Result<UserExperiment> {
        let text = std::fs::read_to_string(path).map_err(LabError::io(format!("reading {}", path.display())))?;
        UserExperiment::parse(path, text)
    }

    /// Like [`UserExperiment::read`], for a text in memory. `path` is its name in errors.
    ///
    /// # Errors
    /// If the text has an error in a line.
    pub fn parse(path: &Path, text: String) -> Result<UserExperiment> {
        let file: File = toml::from_str(&text).map_err(|error| {
            let line = error.span().map_or(1, |span| line_of(&text, span.start));
            LabError::file(path, line, error.message().to_owned())
        })?;
        let experiment = UserExperiment { path: path.to_path_buf(), text, file };
        experiment.check()?;
        Ok(experiment)
    }

    fn wrong(&self, offset: usize, message: impl Into<String>) -> LabError {
        LabError::file(&self.path, line_of(&self.text, offset), message)
    }

    fn check(&self) -> Result<()> {
        let file = &self.file;
        let named = |name: &Spanned<String>| match is_name(name.get_ref()) {
            true => Ok(()),
            false => Err(self.wrong(name.span().start, "a name has letters, digits and _, and is not empty")),
        };
        named(&file.name)?;
        if file.statement.is_empty() {
            return Err(self.wrong(file.name.span().start, "there is nothing to time: add a [[statement]]"));
        }
        let mut seen = std::collections::BTreeSet::new();
        for statement in &file.statement {
            named(&statement.name)?;
            if !seen.insert(statement.name.get_ref()) {
                let text = format!("there are two statements of the name {}", statement.name.get_ref());
                return Err(self.wrong(statement.name.span().start, text));
            }
            if !statement.cold && !statement.warm {
                return Err(self.wrong(statement.name.span().start, "a statement is cold, warm or both"));
            }
            self.filled(&statement.sql)?;
        }
        for batch in &file.setup {
            self.filled(batch)?;
        }
        for kib in &file.vary.read_kib {
            if !(64..=512).contains(kib.get_ref()) || !kib.get_ref().is_multiple_of(64) {
                return Err(self.wrong(kib.span().start, "read_kib is a multiple of 64 from 64 to 512"));
            }
        }
        if let Some(dop) = file.vary.maxdop.iter().find(|dop| *dop.get_ref() > MAXDOP_MAX) {
            return Err(self.wrong(dop.span().start, format!("maxdop is from 0 to {MAXDOP_MAX}")));
        }
        if let Some(depth) = file.vary.queue_depth.iter().find(|depth| !(1..=256).contains(depth.get_ref())) {
            return Err(self.wrong(depth.span().start, "queue_depth is from 1 to 256"));
        }
        for dealer in &file.vary.dealer {
            if !["atomic", "latched"].contains(&dealer.get_ref().as_str()) {
                return Err(self.wrong(dealer.span().start, "a dealer is \"atomic\" or \"latched\""));
            }
        }
        let all = hobt_instruments::processor::processor_count();
        if let Some(processors) = file.vary.processors.iter().find(|it| !(1..=all).contains(it.get_ref())) {
            return Err(self.wrong(processors.span().start, format!("this machine has 1 to {all} processors to give")));
        }
        Ok(())
    }

    /// A text with the parameters replaced.
    fn filled(&self, text: &Spanned<String>) -> Result<String> {
        let mut filled = String::new();
        let mut rest = text.get_ref().as_str();
        while let Some((before, after)) = rest.split_once('{') {
            let Some((name, behind)) = after.split_once('}').filter(|(name, _)| is_name(name)) else {
                filled.push_str(before);
                filled.push('{');
                rest = after;
                continue;
            };
            let Some(value) = self.file.parameters.get(name) else {
                let before_here = text.get_ref().len() - rest.len() + before.len();
                let lines = text.get_ref()[..before_here].matches('\n').count();
                let line = line_of(&self.text, text.span().start) + lines;
                return Err(LabError::file(&self.path, line, format!("there is no parameter {name}")));
            };
            filled.push_str(before);
            match value {
                toml::Value::String(text) => filled.push_str(text),
                other => filled.push_str(&other.to_string()),
            }
            rest = behind;
        }
        filled.push_str(rest);
        Ok(filled)
    }

    /// Runs a batch of the set-up. An error names the line in the file.
    fn execute(&self, lab: &mut Laboratory, text: &Spanned<String>) -> Result<()> {
        let filled = self.filled(text)?;
        lab.connection().try_run(&filled).map(drop).map_err(|error| self.at_statement(text, &error))
    }

    /// Runs a statement as it will be timed, so that an error is reported before timing begins, with its line.
    fn try_statement(&self, lab: &mut Laboratory, statement: &Statement) -> Result<()> {
        let text = &statement.sql;
        let maxdop = self.file.vary.maxdop.first().map(|dop| *dop.get_ref());
        let answer = lab.connection().try_run(&with_hint(&self.filled(text)?, maxdop));
        if answer.map_err(|error| self.at_statement(text, &error))?.statistics.is_none() {
            return Err(self.wrong(text.span().start, "no figures came with this statement: it must be a query"));
        }
        if let Some(table) = &statement.table
            && !lab.has_table(table.get_ref().trim_start_matches("dbo."))?
        {
            let text = format!("there is no table {} after the set-up", table.get_ref());
            return Err(self.wrong(table.span().start, text));
        }
        Ok(())
    }

    fn at_statement(&self, text: &Spanned<String>, error: &hobt_base::SqlError) -> LabError {
        let in_text = error.position.map_or(1, |position| position.line) as usize;
        // A text in triple quotation marks begins on the line after them.
        let start = line_of(&self.text, text.span().start);
        let opening = &self.text[text.span().start..];
        let skipped = usize::from(opening.starts_with("\"\"\"\n") || opening.starts_with("'''\n"));
        LabError::file(&self.path, start + skipped + in_text - 1, format!("{}\n{error}", error.header()))
    }

    /// All combinations of the settings.
    fn settings(&self) -> Vec<Setting> {
        let vary = &self.file.vary;
        let mut settings = vec![Setting::default()];
        multiply(&mut settings, &vary.maxdop, |setting, dop| {
            setting.maxdop = Some(*dop.get_ref());
            format!("maxdop_{}", dop.get_ref())
        });
        multiply(&mut settings, &vary.read_kib, |setting, kib| {
            setting.tuning.read_kib = Some(*kib.get_ref());
            format!("read_{}_kib", kib.get_ref())
        });
        multiply(&mut settings, &vary.queue_depth, |setting, depth| {
            setting.tuning.queue_depth = Some(*depth.get_ref());
            format!("queue_depth_{}", depth.get_ref())
        });
        multiply(&mut settings, &vary.read_ahead, |setting, on| {
            setting.tuning.no_read_ahead = !on;
            format!("read_ahead_{}", if *on { "on" } else { "off" })
        });
        multiply(&mut settings, &vary.dealer, |setting, dealer| {
            setting.tuning.latched_dealer = dealer.get_ref() == "latched";
            format!("{}_dealer", dealer.get_ref())
        });
        multiply(&mut settings, &vary.processors, |setting, processors| {
            setting.tuning.processors = Some(*processors.get_ref());
            format!("processors_{}", processors.get_ref())
        });
        settings
    }

    fn plans(&self) -> Result<Vec<Plan>> {
        let mut plans = Vec::new();
        for statement in &self.file.statement {
            let sql = self.filled(&statement.sql)?;
            for setting in self.settings() {
                plans.push(Plan {
                    name: format!("{}{}", statement.name.get_ref(), setting.suffix),
                    meaning: String::new(),
                    table: statement.table.as_ref().map(|table| table.get_ref().trim_start_matches("dbo.").to_owned()),
                    statement: with_hint(&sql, setting.maxdop),
                    rows: 0,
                    text: None,
                    tuning: setting.tuning,
                    cold: statement.cold,
                    warm: statement.warm,
                });
            }
        }
        Ok(plans)
    }
}

/// A statement's text with its degree of parallelism.
fn with_hint(sql: &str, maxdop: Option<u32>) -> String {
    let hint = maxdop.map(|dop| format!(" OPTION (MAXDOP {dop})")).unwrap_or_default();
    format!("{}{hint}", sql.trim_end().trim_end_matches(';'))
}

fn multiply<T>(settings: &mut Vec<Setting>, values: &[T], set: impl Fn(&mut Setting, &T) -> String) {
    if values.is_empty() {
        return;
    }
    let before = std::mem::take(settings);
    for setting in before {
        for value in values {
            let mut one = setting.clone();
            let name = set(&mut one, value);
            one.suffix = format!("{}_{name}", setting.suffix);
            settings.push(one);
        }
    }
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
}

/// The line of a byte offset, from 1.
fn line_of(text: &str, offset: usize) -> usize {
    1 + text.as_bytes()[..offset.min(text.len())].iter().filter(|byte| **byte == b'\n').count()
}

impl Experiment for UserExperiment {
    fn name(&self) -> &str {
        self.file.name.get_ref()
    }

    fn question(&self) -> &str {
        &self.file.question
    }

    fn compares_rates(&self) -> bool {
        true
    }

    fn run(&self, lab: &mut Laboratory) -> Result<Report> {
        let repeat = lab.options().repeat;
        let plans = self.plans()?;
        let table_steps = match (&self.file.big_data_rows, self.file.customers) {
            (Some(_), _) => BIG_DATA_STEPS,
            (None, customers) => u64::from(customers),
        };
        // One step is the set-up.
        let measured = LimitSettings::steps_beside() + plan_steps(plans.len(), repeat);
        lab.progress().expect(table_steps + 1 + measured);
        if let Some(rows) = &self.file.big_data_rows {
            let rows = lab.options().rows.unwrap_or(*rows.get_ref());
            lab.ensure_big_data(rows)?;
        } else if self.file.customers {
            lab.ensure_customers()?;
        }
        lab.progress().step("set-up");
        for batch in &self.file.setup {
            self.execute(lab, batch)?;
        }
        for statement in &self.file.statement {
            self.try_statement(lab, statement)?;
        }
        let limits = lab.limits_with(LimitSettings::beside(64 << 20, repeat.min(3)))?;
        let cases = run_plans(lab, &plans, repeat)?;
        let mut settings = Map::new();
        settings.insert("file".to_owned(), json!(self.path.display().to_string()));
        settings.insert("repeat".to_owned(), json!(repeat));
        settings.insert("parameters".to_owned(), json!(self.file.parameters));
        Ok(Report { cases, ..self.report(lab, limits, settings) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<UserExperiment> {
        UserExperiment::parse(Path::new("mine.toml"), text.to_owned())
    }

    fn place_of_error(text: &str) -> String {
        let message = parse(text).expect_err("the file is wrong").to_string();
        message.split_whitespace().next().expect("a place").to_owned()
    }

    #[test]
    fn every_combination_of_settings_is_a_case() {
        let text = "name = \"mine\"
[parameters]
table = \"t\"
[[statement]]
name = \"count\"
sql = \"SELECT COUNT(*) FROM {table};\"
[vary]
maxdop = [1, 2]
read_ahead = [true, false]
";
        let plans = parse(text).expect("a sound file").plans().expect("sound parameters");
        let names: Vec<&str> = plans.iter().map(|plan| plan.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "count_maxdop_1_read_ahead_on",
                "count_maxdop_1_read_ahead_off",
                "count_maxdop_2_read_ahead_on",
                "count_maxdop_2_read_ahead_off"
            ]
        );
        assert_eq!(plans[3].statement, "SELECT COUNT(*) FROM t OPTION (MAXDOP 2)");
        assert!(plans[3].tuning.no_read_ahead && !plans[2].tuning.no_read_ahead);
    }

    #[test]
    fn mistakes_are_told_with_file_and_line() {
        assert_eq!(place_of_error("name = \"a\"\nstatement = 5\n"), "mine.toml:2:");
        assert_eq!(place_of_error("name = \"a\"\nstatement = []\nbad = 1\n"), "mine.toml:3:");
        assert_eq!(place_of_error("name = \"a b\"\nstatement = []\n"), "mine.toml:1:");
        let vary = |values: &str| {
            place_of_error(&format!("name = \"a\"\n[[statement]]\nname = \"s\"\nsql = \"\"\n[vary]\n{values}\n"))
        };
        assert_eq!(vary("read_kib = [64,\n 65]"), "mine.toml:7:");
        assert_eq!(vary("dealer = [\"fair\"]"), "mine.toml:6:");
        assert_eq!(vary("maxdop = [1, 40000]"), "mine.toml:6:");
        assert_eq!(place_of_error("\nname = \"a\"\nstatement = []\n"), "mine.toml:2:", "nothing to time");
        let unknown = "name = \"a\"\n[[statement]]\nname = \"s\"\nsql = \"\"\"\nSELECT 1\nFROM {there}\"\"\"\n";
        assert_eq!(place_of_error(unknown), "mine.toml:5:");
        let twins = "name = \"a\"\n[[statement]]\nname = \"s\"\nsql = \"\"\n[[statement]]\nname = \"s\"\nsql = \"\"\n";
        assert_eq!(place_of_error(twins), "mine.toml:6:");
        assert_eq!(place_of_error("name = \"a\n"), "mine.toml:1:");
    }

    #[test]
    fn braces_that_are_no_parameters_stay() {
        let text = "name = \"a\"\n[[statement]]\nname = \"s\"\nsql = \"SELECT '{', '{x y}'\"\n";
        assert_eq!(parse(text).expect("sound").plans().expect("sound")[0].statement, "SELECT '{', '{x y}'");
    }
}
