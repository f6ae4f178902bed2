//! `CREATE`, `ALTER` and `DROP DATABASE`.
//!
//! These statements stand alone: they have no statement context and cannot be rolled back.

use std::path::{Path, PathBuf};

use hobt_base::{PAGE_SIZE, SqlError, errors};
use hobt_catalog::{Growth, name_equals};
use hobt_engine::{
    DatabaseDefinition, DatabaseOptions, DatabaseUse, DelayedDurability, FileDefinition, FilegroupDefinition, Fill,
    IsolationOption, RecoveryModel, SnapshotDefinition, StatisticsOptions, TargetRecoveryTime,
};
use hobt_tsql::ast::{
    self, AlterDatabase, AlterDatabaseAction, Attach, CreateDatabase, FileSize, FilegroupChange, Identifier, Literal,
    MaxSize, OptionItem, OptionValue, SizeUnit,
};
use hobt_types::Collation;

use crate::ddl::Definitions;
use crate::event::Message;
use crate::failure::Failure;
use crate::interpreter::Outcome;

impl Definitions<'_, '_> {
    pub(crate) fn create_database(&mut self, create: &CreateDatabase) -> Result<Outcome, Failure> {
        if let Some(attach) = &create.attach {
            return self.attach_database(create, *attach);
        }
        if let Some(source) = &create.snapshot_of {
            return self.create_snapshot(create, source);
        }
        if let Some(collation) = &create.collation {
            check_collation(collation)?;
        }
        let mut primary = Vec::new();
        let mut filegroups = Vec::new();
        for filegroup in &create.filegroups {
            if let Some(contains) = &filegroup.contains {
                return Err(SqlError::not_supported(format!("CONTAINS {}", contains.value)).into());
            }
            let files = filegroup.files.iter().map(file).collect::<Result<Vec<_>, SqlError>>()?;
            match &filegroup.name {
                None => primary = files,
                Some(name) => filegroups.push(FilegroupDefinition {
                    name: name.value.clone(),
                    is_default: filegroup.default,
                    files,
                }),
            }
        }
        let log = create.log.iter().map(file).collect::<Result<Vec<_>, SqlError>>()?;
        let definition = DatabaseDefinition { name: create.name.value.clone(), primary, filegroups, log };
        let created = self.batch.environment.instance.create_database(&definition);
        let created = created.map_err(|error| error.to_sql_error().at(create.name.position))?;
        self.warn(created.left_over.iter().map(|path| was_left_over(path)).collect())?;
        Ok(Outcome::QUIET)
    }

    /// `CREATE DATABASE … FOR ATTACH`. Only the paths of the listed files are used.
    fn attach_database(&mut self, create: &CreateDatabase, attach: Attach) -> Result<Outcome, Failure> {
        let files = create.filegroups.iter().flat_map(|filegroup| &filegroup.files).chain(&create.log);
        let paths: Vec<PathBuf> = files.filter_map(|file| file.file_name.as_ref().map(PathBuf::from)).collect();
        if paths.is_empty() {
            return Err(errors::ATTACH_WITHOUT_PRIMARY_FILE.error().at(create.name.position).into());
        }
        let rebuilds_log = attach == Attach::RebuildLog;
        let attached = self.batch.environment.instance.attach_database(&create.name.value, &paths, rebuilds_log);
        attached.map_err(|error| error.to_sql_error().at(create.name.position))?;
        Ok(Outcome::QUIET)
    }

    /// `CREATE DATABASE … AS SNAPSHOT OF`.
    fn create_snapshot(&mut self, create: &CreateDatabase, source: &Identifier) -> Result<Outcome, Failure> {
        let mut files = Vec::new();
        for file in create.filegroups.iter().flat_map(|filegroup| &filegroup.files) {
            let Some(path) = &file.file_name else {
                return Err(errors::SYNTAX.with([&"SNAPSHOT"]).at(file.span.position).into());
            };
            files.push((file.name.value.clone(), PathBuf::from(path)));
        }
        if let Some(file) = create.log.first() {
            return Err(errors::SYNTAX.with([&"LOG"]).at(file.span.position).into());
        }
        let definition = SnapshotDefinition { name: create.name.value.clone(), source: source.value.clone(), files };
        let created = self.batch.environment.instance.create_snapshot(&definition);
        created.map_err(|error| error.to_sql_error().at(create.name.position))?;
        Ok(Outcome::QUIET)
    }

    /// `sp_detach_db [@dbname =] name`.
    pub(crate) fn detach_database(&mut self, name: &str) -> Result<i32, Failure> {
        self.batch.environment.instance.detach_database(name).map_err(SqlError::from)?;
        Ok(0)
    }

    pub(super) fn drop_database(&mut self, name: &Identifier) -> Result<(), Failure> {
        let current = name_equals(self.batch.state.database.name(), &name.value);
        if current || self.batch.environment.sessions.uses_database(&name.value, self.batch.state.id) {
            return Err(errors::DROP_DATABASE_IN_USE.with([&name.value]).into());
        }
        Ok(self.batch.environment.instance.drop_database(&name.value).map_err(SqlError::from)?)
    }

    pub(crate) fn alter_database(&mut self, alter: &AlterDatabase) -> Result<Outcome, Failure> {
        if let Some(online) = sets_online(&alter.action) {
            let name = alter
                .name
                .as_ref()
                .map_or_else(|| self.batch.state.database.name().to_owned(), |name| name.value.clone());
            let instance = &self.batch.environment.instance;
            let set = if online { instance.set_online(&name) } else { instance.set_offline(&name) };
            set.map_err(SqlError::from)?;
            return Ok(Outcome::QUIET);
        }
        let database = match &alter.name {
            Some(name) => self.database_named(name)?,
            None => self.batch.state.database.clone(),
        };
        let instance = &self.batch.environment.instance;
        match &alter.action {
            AlterDatabaseAction::AddFilegroup { name, contains: None } => {
                instance
                    .add_filegroup(&database, &name.value)
                    .map_err(|error| error.to_sql_error().at(name.position))?;
            }
            AlterDatabaseAction::AddFiles { files, filegroup } => {
                let definitions = files.iter().map(file).collect::<Result<Vec<_>, SqlError>>()?;
                let filegroup = filegroup.as_ref().map(|filegroup| filegroup.value.as_str());
                let position = files.first().map(|file| file.span.position).unwrap_or_default();
                let left_over = instance.add_files(&database, filegroup, &definitions);
                let left_over = left_over.map_err(|error| error.to_sql_error().at(position))?;
                self.warn(left_over.iter().map(|path| was_left_over(path)).collect())?;
            }
            AlterDatabaseAction::ModifyFilegroup { name, change: FilegroupChange::Default } => {
                instance
                    .set_default_filegroup(&database, &name.value)
                    .map_err(|error| error.to_sql_error().at(name.position))?;
            }
            AlterDatabaseAction::AddLogFiles { files } => {
                let definitions = files.iter().map(file).collect::<Result<Vec<_>, SqlError>>()?;
                let position = files.first().map(|file| file.span.position).unwrap_or_default();
                let left_over = instance.add_log_files(&database, &definitions);
                let left_over = left_over.map_err(|error| error.to_sql_error().at(position))?;
                self.warn(left_over.iter().map(|path| was_left_over(path)).collect())?;
            }
            AlterDatabaseAction::RemoveFile { name } => {
                instance.remove_file(&database, &name.value).map_err(|error| error.to_sql_error().at(name.position))?;
                self.say_removed("file", name)?;
            }
            AlterDatabaseAction::RemoveFilegroup { name } => {
                let removed = instance.remove_filegroup(&database, &name.value);
                removed.map_err(|error| error.to_sql_error().at(name.position))?;
                self.say_removed("filegroup", name)?;
            }
            // These options affect only later statements, so the termination clause has no effect: no session is ended.
            AlterDatabaseAction::Set { options, termination: _ } => {
                self.set_options(&database, options)?;
            }
            other => return Err(SqlError::not_supported(name_of(other)).into()),
        }
        Ok(Outcome::QUIET)
    }
}

impl Definitions<'_, '_> {
    fn say_removed(&mut self, kind: &str, name: &Identifier) -> Result<(), Failure> {
        self.batch.send_message(Message::of(name.position.line, errors::FILE_REMOVED.with([&kind, &name.value])))
    }
}

/// An option for transaction isolation, and its new value.
fn isolation_option(option: &OptionItem) -> Option<(IsolationOption, bool)> {
    let known = [IsolationOption::AllowSnapshot, IsolationOption::ReadCommittedSnapshot];
    let known = known.into_iter().find(|known| known.name() == option.name)?;
    match option.value {
        OptionValue::On => Some((known, true)),
        OptionValue::Off => Some((known, false)),
        _ => None,
    }
}

impl Definitions<'_, '_> {
    /// `ALTER DATABASE … SET`: all options are checked before the first is changed.
    fn set_options(&mut self, database: &DatabaseUse, options: &[OptionItem]) -> Result<(), Failure> {
        let changes = options.iter().map(changed_option).collect::<Result<Vec<_>, SqlError>>()?;
        let changes: Vec<_> = changes.into_iter().flatten().collect();
        let is_in_use = || self.batch.environment.sessions.uses_database(database.name(), self.batch.state.id);
        if changes.iter().any(|change| matches!(change, OptionChange::ReadOnly(_))) && is_in_use() {
            let name = database.name();
            return Err(errors::DATABASE_NOT_LOCKED.with([&name]).into());
        }
        if let Some(first) = options.first().filter(|_| !changes.is_empty()) {
            let change = |options: &mut DatabaseOptions| changes.iter().for_each(|change| change.apply(options));
            let set = self.batch.environment.instance.set_options(database, change);
            set.map_err(|error| error.to_sql_error().at(first.span.position))?;
        }
        for (option, on) in options.iter().filter_map(isolation_option) {
            let set = self.batch.environment.instance.set_isolation_option(database, option, on);
            set.map_err(SqlError::from)?;
        }
        Ok(())
    }
}

/// The change made by an option of `ALTER DATABASE … SET`.
enum OptionChange {
    Recovery(RecoveryModel),
    Durability(DelayedDurability),
    ReadOnly(bool),
    Statistics(fn(&mut StatisticsOptions, bool), bool),
    TargetRecoveryTime(TargetRecoveryTime),
    Fill(Fill),
    /// Whether it is forced.
    Parameterization(bool),
}

/// Whether an action sets a database online or offline. `None` for any other action.
fn sets_online(action: &AlterDatabaseAction) -> Option<bool> {
    let AlterDatabaseAction::Set { options, .. } = action else { return None };
    match options.as_slice() {
        [option] if option.name == "ONLINE" => Some(true),
        [option] if option.name == "OFFLINE" => Some(false),
        _ => None,
    }
}

impl OptionChange {
    fn apply(&self, options: &mut DatabaseOptions) {
        match self {
            OptionChange::Recovery(model) => {
                options.recovery_model = *model;
                // Log that is not kept now is missing from every later log backup.
                options.has_log_chain &= *model != RecoveryModel::Simple;
            }
            OptionChange::Durability(delayed) => options.delayed_durability = *delayed,
            OptionChange::ReadOnly(is_read_only) => options.is_read_only = *is_read_only,
            OptionChange::Statistics(set, on) => set(&mut options.statistics, *on),
            OptionChange::TargetRecoveryTime(time) => options.target_recovery_time = *time,
            OptionChange::Fill(fill) => options.fill = *fill,
            OptionChange::Parameterization(is_forced) => options.is_parameterization_forced = *is_forced,
        }
    }
}

/// The setter of a statistics option.
fn statistics_option(name: &str) -> Option<fn(&mut StatisticsOptions, bool)> {
    Some(match name {
        "AUTO_CREATE_STATISTICS" => |options, on| {
            options.creates = on;
            options.is_incremental = false;
        },
        "AUTO_UPDATE_STATISTICS" => |options, on| options.updates = on,
        "AUTO_UPDATE_STATISTICS_ASYNC" => |options, on| options.updates_async = on,
        "HOBT_STATISTICS_MAINTENANCE" => |options, on| options.is_maintained = on,
        _ => return None,
    })
}

/// `AUTO_CREATE_STATISTICS ON (INCREMENTAL = ON | OFF)`. `None` for any other list.
fn incremental_creation(items: &[OptionItem]) -> Option<OptionChange> {
    let [item] = items else { return None };
    let is_on = match item.value {
        OptionValue::On => true,
        OptionValue::Off => false,
        _ => return None,
    };
    let set = |options: &mut StatisticsOptions, on| {
        options.creates = true;
        options.is_incremental = on;
    };
    (item.name == "INCREMENTAL").then_some(OptionChange::Statistics(set, is_on))
}

/// `TARGET_RECOVERY_TIME = n SECONDS | MINUTES`. `None` for any other value.
fn recovery_time(value: &OptionValue) -> Option<TargetRecoveryTime> {
    let OptionValue::Quantity { amount: Literal::Integer(amount), unit } = value else { return None };
    let seconds = match unit.as_str() {
        "SECONDS" => *amount,
        "MINUTES" => amount.checked_mul(60)?,
        _ => return None,
    };
    // The longest that SQL Server takes.
    u32::try_from(seconds).ok().filter(|seconds| *seconds <= i32::MAX.cast_unsigned()).map(TargetRecoveryTime::of)
}

/// The change that an option asks for. `None` if it asks for the permanent behaviour.
fn changed_option(option: &OptionItem) -> Result<Option<OptionChange>, SqlError> {
    let word = match &option.value {
        OptionValue::Word(word) => word.value.to_ascii_uppercase(),
        _ => String::new(),
    };
    // A word after the name, without an equals sign, is part of the name.
    let (name, word) = match option.name.split_once(' ') {
        Some((name, rest)) => (name, rest),
        None => (option.name.as_str(), word.as_str()),
    };
    let change = match name {
        "RECOVERY" => RecoveryModel::ALL.into_iter().find(|model| model.name() == word).map(OptionChange::Recovery),
        "DELAYED_DURABILITY" => {
            let delayed = DelayedDurability::ALL.into_iter().find(|delayed| delayed.name() == word);
            delayed.map(OptionChange::Durability)
        }
        _ if statistics_option(name).is_some() => match &option.value {
            OptionValue::On => statistics_option(name).map(|set| OptionChange::Statistics(set, true)),
            OptionValue::Off => statistics_option(name).map(|set| OptionChange::Statistics(set, false)),
            OptionValue::List(items) if name == "AUTO_CREATE_STATISTICS" => incremental_creation(items),
            _ => None,
        },
        "TARGET_RECOVERY_TIME" => recovery_time(&option.value).map(OptionChange::TargetRecoveryTime),
        "HOBT_FILL" => Fill::ALL.into_iter().find(|fill| fill.name() == word).map(OptionChange::Fill),
        "PARAMETERIZATION" if matches!(word, "SIMPLE" | "FORCED") => {
            Some(OptionChange::Parameterization(word == "FORCED"))
        }
        "PARAMETERIZATION" => None,
        "READ_ONLY" | "READ_WRITE" if word.is_empty() => Some(OptionChange::ReadOnly(name == "READ_ONLY")),
        _ => return check_option(option).map(|()| None),
    };
    let near = if word.is_empty() { name } else { word };
    let syntax = || errors::SYNTAX.with([&near]).at(option.span.position);
    change.map(Some).ok_or_else(syntax)
}

/// Accepts options of `ALTER DATABASE … SET` that ask for the permanent behaviour, and rejects all others.
fn check_option(option: &OptionItem) -> Result<(), SqlError> {
    let off = matches!(option.value, OptionValue::Off);
    // A word after the name, without an equals sign, is part of the name.
    let holds = match option.name.as_str() {
        "PAGE_VERIFY CHECKSUM" | "MULTI_USER" => true,
        "AUTO_CLOSE"
        | "AUTO_SHRINK"
        | "CURSOR_CLOSE_ON_COMMIT"
        | "DATE_CORRELATION_OPTIMIZATION"
        | "DB_CHAINING"
        | "ENCRYPTION"
        | "HONOR_BROKER_PRIORITY"
        | "MIXED_PAGE_ALLOCATION"
        | "NUMERIC_ROUNDABORT"
        | "OPTIMIZED_LOCKING"
        | "QUERY_STORE"
        | "TORN_PAGE_DETECTION"
        | "TRUSTWORTHY" => off,
        "ANSI_NULL_DEFAULT"
        | "ANSI_NULLS"
        | "ANSI_PADDING"
        | "ANSI_WARNINGS"
        | "ARITHABORT"
        | "CONCAT_NULL_YIELDS_NULL"
        | "QUOTED_IDENTIFIER"
        | "RECURSIVE_TRIGGERS"
        | "COMPATIBILITY_LEVEL" => true,
        "READ_COMMITTED_SNAPSHOT" | "ALLOW_SNAPSHOT_ISOLATION" => isolation_option(option).is_some(),
        _ => false,
    };
    if holds {
        return Ok(());
    }
    let first = option.name.split(' ').next().unwrap_or_default();
    let error = match OPTIONS.contains(&first) {
        true => SqlError::not_supported(format!("ALTER DATABASE … SET {}", option.name)),
        false => errors::UNKNOWN_SET_OPTION.with([&first]),
    };
    Err(error.at(option.span.position))
}

/// The first words of the options of `ALTER DATABASE … SET` in SQL Server.
const OPTIONS: &[&str] = &[
    "ACCELERATED_DATABASE_RECOVERY",
    "ALLOW_SNAPSHOT_ISOLATION",
    "ANSI_NULLS",
    "ANSI_NULL_DEFAULT",
    "ANSI_PADDING",
    "ANSI_WARNINGS",
    "ARITHABORT",
    "AUTOMATIC_TUNING",
    "AUTO_CLOSE",
    "AUTO_CREATE_STATISTICS",
    "AUTO_SHRINK",
    "AUTO_UPDATE_STATISTICS",
    "AUTO_UPDATE_STATISTICS_ASYNC",
    "CHANGE_TRACKING",
    "COMPATIBILITY_LEVEL",
    "CONCAT_NULL_YIELDS_NULL",
    "CONTAINMENT",
    "CURSOR_CLOSE_ON_COMMIT",
    "CURSOR_DEFAULT",
    "DATA_RETENTION",
    "DATE_CORRELATION_OPTIMIZATION",
    "DB_CHAINING",
    "DEFAULT_FULLTEXT_LANGUAGE",
    "DEFAULT_LANGUAGE",
    "DELAYED_DURABILITY",
    "DISABLE_BROKER",
    "EMERGENCY",
    "ENABLE_BROKER",
    "ENCRYPTION",
    "ERROR_BROKER_CONVERSATIONS",
    "FILESTREAM",
    "HADR",
    "HONOR_BROKER_PRIORITY",
    "LEDGER",
    "MEMORY_OPTIMIZED_ELEVATE_TO_SNAPSHOT",
    "MIXED_PAGE_ALLOCATION",
    "MULTI_USER",
    "NESTED_TRIGGERS",
    "NEW_BROKER",
    "NUMERIC_ROUNDABORT",
    "OFFLINE",
    "ONLINE",
    "OPTIMIZED_LOCKING",
    "PAGE_VERIFY",
    "PARAMETERIZATION",
    "PARTNER",
    "PERSISTENT_LOG_BUFFER",
    "QUERY_STORE",
    "QUOTED_IDENTIFIER",
    "READ_COMMITTED_SNAPSHOT",
    "READ_ONLY",
    "READ_WRITE",
    "RECOVERY",
    "RECURSIVE_TRIGGERS",
    "REMOTE_DATA_ARCHIVE",
    "RESTRICTED_USER",
    "SINGLE_USER",
    "SUPPLEMENTAL_LOGGING",
    "TARGET_RECOVERY_TIME",
    "TEMPORAL_HISTORY_RETENTION",
    "TORN_PAGE_DETECTION",
    "TRANSFORM_NOISE_WORDS",
    "TRUSTWORTHY",
    "TWO_DIGIT_YEAR_CUTOFF",
    "VARDECIMAL_STORAGE_FORMAT",
    "WITNESS",
];

fn name_of(action: &AlterDatabaseAction) -> &'static str {
    match action {
        AlterDatabaseAction::AddFiles { .. } => "ALTER DATABASE … ADD FILE",
        AlterDatabaseAction::AddLogFiles { .. } => "ALTER DATABASE … ADD LOG FILE",
        AlterDatabaseAction::RemoveFile { .. } => "ALTER DATABASE … REMOVE FILE",
        AlterDatabaseAction::ModifyFile { .. } => "ALTER DATABASE … MODIFY FILE",
        AlterDatabaseAction::AddFilegroup { .. } => "ALTER DATABASE … ADD FILEGROUP … CONTAINS",
        AlterDatabaseAction::RemoveFilegroup { .. } => "ALTER DATABASE … REMOVE FILEGROUP",
        AlterDatabaseAction::ModifyFilegroup { .. } => "ALTER DATABASE … MODIFY FILEGROUP",
        AlterDatabaseAction::ModifyName { .. } => "ALTER DATABASE … MODIFY NAME",
        AlterDatabaseAction::Collate { .. } => "ALTER DATABASE … COLLATE",
        AlterDatabaseAction::Set { .. } => "ALTER DATABASE … SET",
        AlterDatabaseAction::ScopedConfiguration { .. } | AlterDatabaseAction::ClearScopedConfiguration { .. } => {
            "ALTER DATABASE SCOPED CONFIGURATION"
        }
    }
}

fn check_collation(name: &Identifier) -> Result<(), SqlError> {
    match Collation::from_name(&name.value) {
        Some(collation) if collation == Collation::default() => Ok(()),
        Some(_) => Err(SqlError::not_supported(format!("CREATE DATABASE … COLLATE {}", name.value)).at(name.position)),
        None => Err(errors::INVALID_COLLATION.with([&name.value]).at(name.position)),
    }
}

/// A file's definition, in pages. Sizes are rounded up.
fn file(definition: &ast::FileDefinition) -> Result<FileDefinition, SqlError> {
    let position = definition.span.position;
    let growth = match definition.growth {
        None => None,
        Some(FileSize { amount: 0, .. }) => Some(Growth::None),
        Some(FileSize { amount, unit: SizeUnit::Percent }) => {
            Some(Growth::Percent(u32::try_from(amount).map_err(|_| too_large(definition))?))
        }
        Some(size) => Some(Growth::Pages(pages(size, definition)?)),
    };
    let max_pages = match definition.max_size {
        None | Some(MaxSize::Unlimited) => None,
        Some(MaxSize::Limit(size)) => Some(pages(size, definition)?),
    };
    let size_pages = definition.size.map(|size| pages(size, definition)).transpose()?;
    if let (Some(size), Some(limit)) = (size_pages, max_pages)
        && size > limit
    {
        return Err(errors::FILE_SIZE_OVER_MAXSIZE.with([&definition.name.value]).at(position));
    }
    Ok(FileDefinition {
        name: Some(definition.name.value.clone()).filter(|name| !name.is_empty()),
        path: definition.file_name.as_ref().map(PathBuf::from),
        size_pages,
        growth,
        max_pages,
    })
}

fn pages(size: FileSize, definition: &ast::FileDefinition) -> Result<u32, SqlError> {
    let bytes = size.bytes().ok_or_else(|| too_large(definition))?;
    u32::try_from(bytes.div_ceil(PAGE_SIZE as u64)).map_err(|_| too_large(definition))
}

fn too_large(definition: &ast::FileDefinition) -> SqlError {
    errors::FILE_SIZE_BEYOND.with([&definition.name.value]).at(definition.span.position)
}

/// A message without a number of its own.
fn was_left_over(path: &Path) -> SqlError {
    errors::FILE_MADE_ANEW.with([&path.display()])
}
