//! Statements other than definitions.

use std::fmt::{Display, Formatter, Result};

use super::query::{from, options, value_rows, with};
use super::{commas, flag, list, optional, separated};
use crate::ast::*;
use crate::parser::{STATISTICS, SWITCHES, VALUES};

/// The text after a statement in a list: a label has no semicolon.
pub(super) fn terminator(statement: &Statement) -> &'static str {
    if matches!(statement.kind, StatementKind::Label { .. }) { "" } else { ";" }
}

/// Prints statements, each after a blank and with its terminator.
pub(super) fn sequence(f: &mut Formatter<'_>, statements: &[Statement]) -> Result {
    statements.iter().try_for_each(|statement| write!(f, " {statement}{}", terminator(statement)))
}

impl Display for Statement {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{}", self.kind)
    }
}

impl Display for StatementKind {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            StatementKind::Select(select) => {
                write!(f, "{}", select.query)?;
                options(f, &select.options)
            }
            StatementKind::Insert(insert) => write!(f, "{insert}"),
            StatementKind::Update(update) => write!(f, "{update}"),
            StatementKind::Delete(delete) => write!(f, "{delete}"),
            StatementKind::Merge(merge) => write!(f, "{merge}"),
            StatementKind::BulkInsert(insert) => write!(f, "{insert}"),
            StatementKind::Declare { declarations } => {
                f.write_str("DECLARE ")?;
                commas(f, declarations)
            }
            StatementKind::SetVariable { variable, operator, value } => {
                write!(f, "SET {variable} {} {value}", operator.symbol())
            }
            StatementKind::SetOption(option) => write!(f, "{option}"),
            StatementKind::Execute(call) => write!(f, "{call}"),
            StatementKind::Dbcc(dbcc) => {
                write!(f, "DBCC {}", dbcc.command)?;
                list(f, " ", &dbcc.arguments)?;
                with_plain(f, &dbcc.options)
            }
            StatementKind::Backup(backup) => write!(f, "{backup}"),
            StatementKind::AlterServerConfiguration(configuration) => write!(f, "{configuration}"),
            StatementKind::If { .. }
            | StatementKind::While { .. }
            | StatementKind::Block { .. }
            | StatementKind::TryCatch { .. }
            | StatementKind::Break
            | StatementKind::Continue
            | StatementKind::Return { .. }
            | StatementKind::Goto { .. }
            | StatementKind::Label { .. }
            | StatementKind::Throw { .. }
            | StatementKind::RaisError(_)
            | StatementKind::Print { .. }
            | StatementKind::WaitFor { .. } => flow(f, self),
            StatementKind::Use { .. }
            | StatementKind::BeginTransaction { .. }
            | StatementKind::Commit { .. }
            | StatementKind::Rollback { .. }
            | StatementKind::SaveTransaction { .. }
            | StatementKind::Checkpoint { .. }
            | StatementKind::Kill { .. }
            | StatementKind::Reconfigure { .. } => short(f, self),
            _ => super::ddl::definition(f, self),
        }
    }
}

/// Prints control of flow.
fn flow(f: &mut Formatter<'_>, kind: &StatementKind) -> Result {
    match kind {
        StatementKind::If { branches, otherwise } => {
            for (index, branch) in branches.iter().enumerate() {
                flag(f, index > 0, " ELSE ")?;
                write!(f, "IF {} {}", branch.condition, branch.body)?;
            }
            optional(f, " ELSE ", otherwise)
        }
        StatementKind::While { condition, body } => write!(f, "WHILE {condition} {body}"),
        StatementKind::Block { statements } => {
            f.write_str("BEGIN")?;
            sequence(f, statements)?;
            f.write_str(" END")
        }
        StatementKind::TryCatch { body, handler } => {
            f.write_str("BEGIN TRY")?;
            sequence(f, body)?;
            f.write_str(" END TRY BEGIN CATCH")?;
            sequence(f, handler)?;
            f.write_str(" END CATCH")
        }
        StatementKind::Break => f.write_str("BREAK"),
        StatementKind::Continue => f.write_str("CONTINUE"),
        StatementKind::Return { value } => {
            f.write_str("RETURN")?;
            optional(f, " ", value)
        }
        StatementKind::Goto { label } => write!(f, "GOTO {label}"),
        StatementKind::Label { name } => write!(f, "{name}:"),
        StatementKind::Throw { error: None } => f.write_str("THROW"),
        StatementKind::Throw { error: Some(error) } => {
            write!(f, "THROW {}, {}, {}", error.number, error.message, error.state)
        }
        StatementKind::RaisError(error) => {
            write!(f, "RAISERROR ({}, {}, {}", error.message, error.severity, error.state)?;
            error.arguments.iter().try_for_each(|argument| write!(f, ", {argument}"))?;
            f.write_str(")")?;
            with_plain(f, &error.options)
        }
        StatementKind::Print { value } => write!(f, "PRINT {value}"),
        StatementKind::WaitFor { until, value } => {
            write!(f, "WAITFOR {} {value}", if *until { "TIME" } else { "DELAY" })
        }
        _ => Ok(()),
    }
}

/// Prints short statements.
fn short(f: &mut Formatter<'_>, kind: &StatementKind) -> Result {
    match kind {
        StatementKind::Use { database } => write!(f, "USE {database}"),
        StatementKind::BeginTransaction { name, mark } => {
            f.write_str("BEGIN TRANSACTION")?;
            optional(f, " ", name)?;
            match mark.as_deref() {
                None => Ok(()),
                Some("") => f.write_str(" WITH MARK"),
                Some(description) => {
                    f.write_str(" WITH MARK ")?;
                    super::string(f, description)
                }
            }
        }
        StatementKind::Commit { name, delayed_durability } => {
            f.write_str("COMMIT TRANSACTION")?;
            optional(f, " ", name)?;
            match delayed_durability {
                None => Ok(()),
                Some(on) => write!(f, " WITH (DELAYED_DURABILITY = {})", if *on { "ON" } else { "OFF" }),
            }
        }
        StatementKind::Rollback { name } => {
            f.write_str("ROLLBACK TRANSACTION")?;
            optional(f, " ", name)
        }
        StatementKind::SaveTransaction { name } => write!(f, "SAVE TRANSACTION {name}"),
        StatementKind::Checkpoint { seconds } => {
            f.write_str("CHECKPOINT")?;
            optional(f, " ", seconds)
        }
        StatementKind::Kill { session, status_only } => {
            write!(f, "KILL {session}")?;
            flag(f, *status_only, " WITH STATUSONLY")
        }
        StatementKind::Reconfigure { with_override } => {
            f.write_str("RECONFIGURE")?;
            flag(f, *with_override, " WITH OVERRIDE")
        }
        _ => Ok(()),
    }
}

/// Prints ` WITH x, y`, or nothing if there are no options.
pub(super) fn with_plain(f: &mut Formatter<'_>, items: &[OptionItem]) -> Result {
    if items.is_empty() {
        return Ok(());
    }
    f.write_str(" WITH ")?;
    separated(f, items, ", ")
}

impl Display for TransactionName {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            TransactionName::Name(name) => write!(f, "{name}"),
            TransactionName::Variable(name) => write!(f, "{name}"),
        }
    }
}

impl Display for TargetName {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            TargetName::Object(name) => write!(f, "{name}"),
            TargetName::Variable(name) => write!(f, "{name}"),
        }
    }
}

impl Display for ChangeTarget {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{}", self.name)?;
        list(f, " WITH ", &self.hints)
    }
}

impl Display for Output {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str("OUTPUT ")?;
        commas(f, &self.items)?;
        optional(f, " INTO ", &self.into)?;
        list(f, " ", &self.columns)
    }
}

impl Display for Insert {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        with(f, &self.with)?;
        f.write_str("INSERT")?;
        optional(f, " ", &self.top)?;
        write!(f, " INTO {}", self.target)?;
        list(f, " ", &self.columns)?;
        optional(f, " ", &self.output)?;
        match &self.source {
            InsertSource::Values { rows } => {
                f.write_str(" VALUES ")?;
                value_rows(f, rows)?;
            }
            InsertSource::DefaultValues => f.write_str(" DEFAULT VALUES")?,
            InsertSource::Query { query } => write!(f, " {query}")?,
            InsertSource::Execute { call } => write!(f, " {call}")?,
        }
        options(f, &self.options)
    }
}

impl Display for Assignment {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        optional(f, "", &self.variable)?;
        flag(f, self.variable.is_some() && self.column.is_some(), " = ")?;
        optional(f, "", &self.column)?;
        write!(f, " {} {}", self.operator.symbol(), self.value)
    }
}

impl Display for Update {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        with(f, &self.with)?;
        f.write_str("UPDATE")?;
        optional(f, " ", &self.top)?;
        write!(f, " {} SET ", self.target)?;
        commas(f, &self.assignments)?;
        optional(f, " ", &self.output)?;
        from(f, &self.from)?;
        optional(f, " WHERE ", &self.condition)?;
        options(f, &self.options)
    }
}

impl Display for Delete {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        with(f, &self.with)?;
        f.write_str("DELETE")?;
        optional(f, " ", &self.top)?;
        write!(f, " FROM {}", self.target)?;
        optional(f, " ", &self.output)?;
        from(f, &self.from)?;
        optional(f, " WHERE ", &self.condition)?;
        options(f, &self.options)
    }
}

impl Display for Merge {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        with(f, &self.with)?;
        f.write_str("MERGE")?;
        optional(f, " ", &self.top)?;
        write!(f, " INTO {}", self.target)?;
        optional(f, " AS ", &self.alias)?;
        write!(f, " USING {} ON {}", self.source, self.condition)?;
        self.clauses.iter().try_for_each(|clause| write!(f, " {clause}"))?;
        optional(f, " ", &self.output)?;
        options(f, &self.options)
    }
}

impl Display for MergeClause {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str(match self.matched {
            MergeMatch::Matched => "WHEN MATCHED",
            MergeMatch::NotMatchedByTarget => "WHEN NOT MATCHED BY TARGET",
            MergeMatch::NotMatchedBySource => "WHEN NOT MATCHED BY SOURCE",
        })?;
        optional(f, " AND ", &self.condition)?;
        match &self.action {
            MergeAction::Update { assignments } => {
                f.write_str(" THEN UPDATE SET ")?;
                commas(f, assignments)
            }
            MergeAction::Delete => f.write_str(" THEN DELETE"),
            MergeAction::Insert { columns, values } => {
                f.write_str(" THEN INSERT")?;
                list(f, " ", columns)?;
                if values.is_empty() { f.write_str(" DEFAULT VALUES") } else { list(f, " VALUES ", values) }
            }
        }
    }
}

impl Display for Declaration {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match &self.kind {
            DeclarationKind::Scalar { data_type, value } => {
                write!(f, "{} {data_type}", self.name)?;
                optional(f, " = ", value)
            }
            DeclarationKind::Table(definition) => write!(f, "{} TABLE {definition}", self.name),
        }
    }
}

/// The name of `value` in `list`.
fn name_of<T: PartialEq>(list: &[(&'static str, T)], value: &T) -> &'static str {
    list.iter().find(|(_, entry)| entry == value).map_or("", |(name, _)| name)
}

impl Display for SetOption {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let state = |on: bool| if on { "ON" } else { "OFF" };
        match self {
            SetOption::Switches { options, on } => {
                let names: Vec<_> = options.iter().map(|option| name_of(SWITCHES, option)).collect();
                write!(f, "SET {} {}", names.join(", "), state(*on))
            }
            SetOption::Statistics { kinds, on } => {
                let names: Vec<_> = kinds.iter().map(|kind| name_of(STATISTICS, kind)).collect();
                write!(f, "SET STATISTICS {} {}", names.join(", "), state(*on))
            }
            SetOption::IdentityInsert { table, on } => write!(f, "SET IDENTITY_INSERT {table} {}", state(*on)),
            SetOption::IsolationLevel(level) => {
                f.write_str("SET TRANSACTION ISOLATION LEVEL ")?;
                f.write_str(match level {
                    IsolationLevel::ReadUncommitted => "READ UNCOMMITTED",
                    IsolationLevel::ReadCommitted => "READ COMMITTED",
                    IsolationLevel::RepeatableRead => "REPEATABLE READ",
                    IsolationLevel::Snapshot => "SNAPSHOT",
                    IsolationLevel::Serializable => "SERIALIZABLE",
                })
            }
            SetOption::Value { option, value } => write!(f, "SET {} {value}", name_of(VALUES, option)),
        }
    }
}

impl Display for Execute {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str("EXECUTE ")?;
        if let Some(variable) = &self.return_variable {
            write!(f, "{variable} = ")?;
        }
        match &self.target {
            ExecuteTarget::Procedure(name) => write!(f, "{name}")?,
            ExecuteTarget::Variable(name) => write!(f, "{name}")?,
            ExecuteTarget::Text(text) => write!(f, "({text})")?,
        }
        flag(f, !self.arguments.is_empty(), " ")?;
        commas(f, &self.arguments)?;
        optional(f, " AT ", &self.at)?;
        flag(f, self.recompile, " WITH RECOMPILE")
    }
}

impl Display for ExecuteArgument {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        if let Some(name) = &self.name {
            write!(f, "{name} = ")?;
        }
        write!(f, "{}", self.value)?;
        flag(f, self.output, " OUTPUT")
    }
}

impl Display for DbccArgument {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            DbccArgument::Name(name) => write!(f, "{name}"),
            DbccArgument::Value(value) => write!(f, "{value}"),
        }
    }
}

impl Display for Backup {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str(if self.restore { "RESTORE " } else { "BACKUP " })?;
        super::word_of_option(f, &self.what)?;
        optional(f, " ", &self.database)?;
        flag(f, !self.files.is_empty(), " ")?;
        commas(f, &self.files)?;
        if !self.devices.is_empty() {
            f.write_str(if self.restore { " FROM " } else { " TO " })?;
            commas(f, &self.devices)?;
        }
        flag(f, !self.options.is_empty(), " WITH ")?;
        commas(f, &self.options)
    }
}

impl Display for BackupDevice {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            BackupDevice::Name(name) => write!(f, "{name}"),
            BackupDevice::Physical { kind, place } => write!(f, "{kind} = {place}"),
        }
    }
}

impl Display for BackupOption {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            BackupOption::Move { file, path } => write!(f, "MOVE {file} TO {path}"),
            BackupOption::Variable { name, value } => write!(f, "{name} = {value}"),
            BackupOption::Mark { is_before, mark, after } => {
                f.write_str(if *is_before { "STOPBEFOREMARK = " } else { "STOPATMARK = " })?;
                write!(f, "{mark}")?;
                optional(f, " AFTER ", after)
            }
            BackupOption::Item(item) => write!(f, "{item}"),
        }
    }
}

impl Display for ServerConfiguration {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str("ALTER SERVER CONFIGURATION SET ")?;
        let (word, ranges) = match self {
            ServerConfiguration::AffinityAuto => return f.write_str("PROCESS AFFINITY CPU = AUTO"),
            ServerConfiguration::AffinityCpu(ranges) => ("CPU", ranges),
            ServerConfiguration::AffinityNumaNode(ranges) => ("NUMANODE", ranges),
            ServerConfiguration::BufferPoolExtension { file_name, size } => {
                let file_name = file_name.replace('\'', "''");
                return write!(f, "BUFFER POOL EXTENSION ON (FILENAME = N'{file_name}', SIZE = {size})");
            }
            ServerConfiguration::NoBufferPoolExtension => return f.write_str("BUFFER POOL EXTENSION OFF"),
        };
        let ranges: Vec<_> = ranges.iter().map(|(first, last)| format!("{first} TO {last}")).collect();
        write!(f, "PROCESS AFFINITY {word} = {}", ranges.join(", "))
    }
}
