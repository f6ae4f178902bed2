//! Name resolution for a statement of a session: answers the binder's questions.
//!
//! Resolved tables are recorded, so that the statement can lock them before it runs.

use std::cell::{OnceCell, RefCell};
use std::collections::HashSet;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use hobt_base::{SqlError, errors, number};
use hobt_catalog::{Index, IndexKind, ModuleKind, PartitionFunction, Table, name_equals};
use hobt_engine::DatabaseUse;
use hobt_files::FileBatches;
use hobt_functions::FunctionContext;
use hobt_tsql::ast::{
    FileSource, ForceSeek, Identifier, IndexReference, IsolationLevel, ObjectName, TableHint, VariableName,
};
use hobt_txn::locks::LockMode;
use hobt_types::{SqlType, TypedValue, Value};

use super::environment::Environment;
use super::frame::Frame;
use super::reading::{Reading, Rows, check_readpast, mode_of_change};
use super::state::SessionState;
use super::system_views::{SystemView, ViewContext};
use super::{globals, system_functions};
use crate::changed_keys::ChangedKeys;
use crate::interpreter::{Caught, Interpreter};
use crate::place::{Place, place_of};
use crate::plans::standing::Standing;
use crate::used_sequences::SharedSequences;
use hobt_binder::{NameResolver, Resolved, ScanHints, SourceColumn, SystemFunction};
use hobt_operators::ResourceSemaphore;
use hobt_table::{
    AccessHint, Assumed, RowReading, RunSettings, StatementRun, TableRead, clustered_disabled, computed_rows,
};
use hobt_udf::NextValues;

/// The database in which SQL Server keeps the history of backups. Its views have this name in place of a schema.
pub const MSDB: &str = "msdb";

/// A table that a statement reads or changes.
#[derive(Clone)]
pub(super) struct UsedTable {
    pub(super) database: DatabaseUse,
    pub(super) table: Arc<Table>,
    /// The lock mode that it needs.
    pub(super) mode: LockMode,
    /// Whether the lock is held until the transaction ends.
    pub(super) is_kept: bool,
    /// Whether the statement fails instead of waiting for the lock.
    pub(super) waits_for_nobody: bool,
    /// Whether pages are locked instead of rows, if rows are locked.
    pub(super) locks_pages: bool,
    /// Whether the statement reads it as of the transaction's snapshot.
    pub(super) is_of_snapshot: bool,
}

impl UsedTable {
    /// A table that the statement changes, with its table hints.
    pub(super) fn changed(database: DatabaseUse, table: Arc<Table>, hints: &[TableHint]) -> UsedTable {
        let mode = mode_of_change(hints, &database, &table);
        let (waits_for_nobody, locks_pages) = (hints.contains(&TableHint::NoWait), hints.contains(&TableHint::PagLock));
        UsedTable { database, table, mode, is_kept: true, waits_for_nobody, locks_pages, is_of_snapshot: false }
    }

    /// A table that the statement reads.
    pub(super) fn read(database: DatabaseUse, table: Arc<Table>, reading: Reading) -> UsedTable {
        let Reading { mode, is_kept, waits_for_nobody, locks_pages, rows } = reading;
        let is_of_snapshot =
            matches!(rows, Rows::OfTransaction | Rows::Locked(RowReading { is_of_snapshot: true, .. }));
        UsedTable { database, table, mode, is_kept, waits_for_nobody, locks_pages, is_of_snapshot }
    }
}

/// The names that one statement can use. Clones record the tables that they resolve in the same list.
#[derive(Clone)]
pub(super) struct Names<'a> {
    pub(super) environment: &'a Environment,
    pub(super) state: &'a SessionState,
    /// The database of names without one: the session's, or that of the module whose text is bound.
    pub(super) database: DatabaseUse,
    pub(super) frame: &'a Frame,
    pub(super) caught: Option<&'a Caught>,
    function_context: Arc<FunctionContext>,
    /// The statement that reads the tables. If there is none yet, it is created for the first table.
    pub(super) run: Rc<OnceCell<Arc<StatementRun>>>,
    pub(super) cancelled: &'a Arc<AtomicBool>,
    used: Rc<RefCell<Vec<UsedTable>>>,
    standing: Rc<RefCell<Standing>>,
    pub(super) sequences: SharedSequences,
    changed_keys: &'a [ChangedKeys],
    /// The reading of files that the statement continues.
    pub(super) file_batches: Option<&'a Arc<FileBatches>>,
    /// The names, in lower case, of tables that are assumed not to exist. If set, names are only checked and nothing
    /// must have an effect. `None` for a statement that runs.
    looks_without: Option<&'a HashSet<String>>,
    /// The kind of the module being created, which must not name temporary tables.
    of_module: Option<ModuleKind>,
}

impl Interpreter<'_> {
    /// Lets a statement see the rows that a table of it is read by.
    pub(super) fn begin_reading(&self, run: &StatementRun, rows: Rows) {
        begin_reading(self.state, run, rows);
    }

    /// The names that the statement `run` can use.
    pub(super) fn names(&self, run: &Arc<StatementRun>) -> Names<'_> {
        Names { run: Rc::new(OnceCell::from(Arc::clone(run))), ..self.names_alone() }
    }

    /// The names that an expression can use.
    pub(super) fn names_alone(&self) -> Names<'_> {
        let frame = self.frame();
        Names {
            environment: self.environment,
            state: self.state,
            database: self.database(),
            frame,
            caught: self.caught.last(),
            function_context: Arc::new(FunctionContext::now()),
            run: Rc::default(),
            cancelled: &self.cancelled,
            used: Rc::default(),
            standing: Rc::default(),
            sequences: Rc::clone(&self.sequences),
            changed_keys: &self.changed_keys,
            file_batches: self.file_batches.as_ref(),
            looks_without: None,
            of_module: None,
        }
    }
}

impl<'a> Names<'a> {
    /// Names over the variables of `frame`, for checking names before anything runs: sequences do not advance, and
    /// tables with a name in `made` (in lower case) are assumed not to exist.
    pub(super) fn looking(self, frame: &'a Frame, made: &'a HashSet<String>) -> Names<'a> {
        Names { frame, looks_without: Some(made), ..self }
    }

    /// Names whose files are read from their beginning, also while a load in batches reads files of its own.
    pub(super) fn apart(&self) -> Names<'a> {
        Names { file_batches: None, ..self.clone() }
    }

    /// Name resolution for the definition of a view or function being created.
    pub(super) fn of_module(self, kind: ModuleKind) -> Names<'a> {
        Names { of_module: Some(kind), ..self }
    }
}

impl Names<'_> {
    /// The tables resolved so far, once for each time they were named.
    pub(super) fn into_used(self) -> Vec<UsedTable> {
        self.used.take()
    }

    /// Notes the database of names without one: what it sets by default also concerns statements without a name.
    pub(super) fn note_own_database(&self) {
        self.standing.borrow_mut().note_database(&self.database);
    }

    /// What the statement that was bound with these names stands on.
    pub(super) fn standing(&self) -> Standing {
        self.standing.take()
    }

    pub(super) fn statement(&self) -> Result<Arc<StatementRun>, SqlError> {
        if let Some(run) = self.run.get() {
            return Ok(Arc::clone(run));
        }
        let (instance, cancelled) = (&self.environment.instance, Arc::clone(self.cancelled));
        let run = StatementRun::new(instance, self.state.id, None, cancelled, RunSettings::default())?;
        Ok(Arc::clone(self.run.get_or_init(|| run)))
    }

    fn view_context(&self, database: &DatabaseUse) -> ViewContext {
        let semaphore = ResourceSemaphore::of(self.environment.executor.memory());
        ViewContext { database: database.clone(), session: self.state.id, semaphore }
    }

    fn heap(&self, database: &DatabaseUse, table: &Arc<Table>, hints: &ScanHints<'_>) -> Result<Resolved, SqlError> {
        let isolation = self.state.options.isolation;
        check_readpast(hints.hints, hints.places, isolation, database)?;
        let run = self.statement()?;
        let is_whole = run.is_whole(database.id(), table.id);
        let reading = Reading::of(hints.hints, hints.places, isolation, (database, table), is_whole);
        self.used.borrow_mut().push(UsedTable::read(database.clone(), Arc::clone(table), reading));
        self.standing.borrow_mut().note_read((database, table), (hints.hints, hints.places), reading);
        begin_reading(self.state, &run, reading.rows);
        let columns = table.columns.iter().map(|column| SourceColumn {
            name: column.name.clone(),
            sql_type: column.sql_type,
            nullable: column.nullable,
            collation: column.collation,
        });
        let columns = columns.collect();
        if table.base_index().options.is_disabled {
            return Err(clustered_disabled(table));
        }
        let (database, table) = (database.clone(), Arc::clone(table));
        let access = access_hint(&table, hints.hints);
        let read = match reading.rows {
            Rows::Locked(locked) => TableRead::new_locked(database, table, run, hints.places, locked),
            Rows::OfStatement if hints.places => TableRead::new(database, table, run, true, true).beside_unseen(),
            rows => TableRead::new(database, table, run, hints.places, rows != Rows::Present),
        };
        let source = match &hints.sample {
            Some(sample) => read.sampled(sample).hinted(AccessHint::Scan),
            None => read.hinted(access),
        };
        Ok(Resolved::Table { source, columns })
    }

    fn view(&self, view: SystemView, database: &DatabaseUse, arguments: Vec<Value>) -> Resolved {
        self.standing.borrow_mut().note_one_run();
        let columns = view.source_columns();
        let context = self.view_context(database);
        let schema = view.schema();
        let source = computed_rows(schema, Box::new(move || view.batch(&context, &arguments)));
        Resolved::Table { source, columns }
    }

    /// Resolves a name. An unknown database counts as an unknown object.
    pub(super) fn place(&self, name: &ObjectName) -> Result<Place, SqlError> {
        let place =
            place_of(self.environment, &self.database, self.state, name).map_err(|error| match error.number {
                number::DATABASE_DOES_NOT_EXIST => invalid_object(name),
                _ => error,
            })?;
        self.standing.borrow_mut().note_database(&place.database);
        Ok(place)
    }

    /// The database of a resolved module. `None` if it is the same database, where its text means the same.
    fn other(&self, database: &DatabaseUse) -> Option<DatabaseUse> {
        (database.id() != self.database.id()).then(|| database.clone())
    }

    /// A table of `msdb`, which exists for the history of backups alone, unless there is a database of that name.
    fn history_view(&self, name: &ObjectName) -> Option<SystemView> {
        let is_msdb = name.database.as_ref().is_some_and(|database| name_equals(&database.value, MSDB));
        let is_dbo = name.schema.as_ref().is_none_or(|schema| name_equals(&schema.value, "dbo"));
        if !is_msdb || !is_dbo || self.environment.instance.databases().iter().any(|one| name_equals(&one.name, MSDB)) {
            return None;
        }
        self.environment.views.view(MSDB, &name.name.value)
    }

    fn system_view(&self, place: &Place) -> Option<SystemView> {
        // It is no schema.
        if name_equals(&place.schema, MSDB) {
            return None;
        }
        self.environment.views.view(&place.schema, &place.name)
    }
}

impl NameResolver for Names<'_> {
    fn resolve(&self, name: &ObjectName, hints: &ScanHints<'_>) -> Result<Resolved, SqlError> {
        let is_it = |keys: &&ChangedKeys| name.as_simple().is_some_and(|name| name.is(&keys.name));
        if let Some(keys) = self.changed_keys.iter().find(is_it) {
            self.standing.borrow_mut().note_one_run();
            return Ok(keys.resolved());
        }
        if let Some(kind) = self.of_module
            && name.name.value.starts_with('#')
        {
            return Err(temporary_in_module(kind).at(name.position()));
        }
        if self.looks_without.is_some_and(|made| made.contains(&name.name.value.to_lowercase())) {
            return Err(invalid_object(name));
        }
        if let Some(view) = self.history_view(name) {
            return Ok(self.view(view, &self.database, Vec::new()));
        }
        let place = self.place(name)?;
        let snapshot = place.database.snapshot();
        if let Some(schema) = snapshot.schema_id(&place.schema) {
            if let Some(table) = snapshot.table(schema, &place.name) {
                check_level_hints(hints.hints).map_err(|error| error.at(name.position()))?;
                check_index_hints(table, hints.hints).map_err(|error| error.at(name.position()))?;
                return self.heap(&place.database, table, hints);
            }
            if let Some(module) = snapshot.module(schema, &place.name) {
                match module.kind {
                    ModuleKind::View => {
                        let (definition, database) = (module.definition.clone(), self.other(&place.database));
                        return Ok(Resolved::View { definition, database });
                    }
                    ModuleKind::ExternalTable if !hints.hints.is_empty() => {
                        return Err(errors::EXTERNAL_TABLE_HINTS.error().at(name.position()));
                    }
                    ModuleKind::ExternalTable => {
                        self.standing.borrow_mut().note_one_run();
                        let read = self.external_table(&module.definition);
                        return read.map_err(|error| error.at(name.position()));
                    }
                    // It is no object, and may have the name of a system view.
                    ModuleKind::FileFormat => {}
                    _ => return Err(without_parameters(name)),
                }
            }
        }
        let view = self.system_view(&place).ok_or_else(|| invalid_object(name))?;
        if !view.parameters.is_empty() {
            return Err(without_parameters(name));
        }
        Ok(self.view(view, &place.database, Vec::new()))
    }

    fn resolve_function(&self, name: &ObjectName, arguments: &[Option<TypedValue>]) -> Result<Resolved, SqlError> {
        let place = self.place(name)?;
        let snapshot = place.database.snapshot();
        let module = snapshot.schema_id(&place.schema).and_then(|schema| snapshot.module(schema, &place.name));
        if let Some(module) = module {
            return match module.kind {
                ModuleKind::InlineFunction => Ok(Resolved::InlineFunction {
                    definition: module.definition.clone(),
                    database: self.other(&place.database),
                }),
                _ => Err(not_a_function(name)),
            };
        }
        if let Some(definition) = self.environment.views.inline_function(&place.schema, &place.name) {
            let (definition, database) = (definition.to_owned(), self.other(&place.database));
            return Ok(Resolved::InlineFunction { definition, database });
        }
        let view = self.system_view(&place).ok_or_else(|| invalid_object(name))?;
        if view.parameters.is_empty() {
            return Err(not_a_function(name));
        }
        if view.parameters.len() != arguments.len() {
            let few = arguments.len() < view.parameters.len();
            let entry = if few { errors::TOO_FEW_ARGUMENTS } else { errors::TOO_MANY_ARGUMENTS };
            return Err(entry.with([&written(name)]).at(name.position()));
        }
        let mut values = Vec::with_capacity(arguments.len());
        for (argument, sql_type) in arguments.iter().zip(&view.parameters) {
            let Some(argument) = argument else {
                let what = format!("{} with arguments that are not constant", written(name));
                return Err(SqlError::not_supported(what).at(name.position()));
            };
            values.push(match &argument.value {
                Value::Null => Value::Null,
                value => hobt_functions::convert_value(value, argument.sql_type, *sql_type)?,
            });
        }
        Ok(self.view(view, &place.database, values))
    }

    fn resolve_variable_table(&self, name: &VariableName, hints: &ScanHints<'_>) -> Result<Resolved, SqlError> {
        let undeclared = || errors::UNDECLARED_TABLE_VARIABLE.with([&name.value]).at(name.position);
        let table_name = self.frame.tables.get(&name.value.to_lowercase()).ok_or_else(undeclared)?;
        let database = self.environment.instance.tempdb().map_err(SqlError::from)?;
        let snapshot = database.snapshot();
        let schema = snapshot.schema_id("dbo").ok_or_else(undeclared)?;
        let table = snapshot.table(schema, table_name).ok_or_else(undeclared)?;
        self.heap(&database, table, hints)
    }

    fn resolve_files(&self, files: &FileSource, types: &[SqlType]) -> Result<Resolved, SqlError> {
        self.standing.borrow_mut().note_one_run();
        self.files(files, types)
    }

    fn partition_function(
        &self,
        database: Option<&Identifier>,
        name: &Identifier,
    ) -> Result<Arc<PartitionFunction>, SqlError> {
        let unknown = || errors::INVALID_OBJECT.with([&name.value]).at(name.position);
        let database = match database {
            Some(database) => {
                let database = self.environment.instance.database(&database.value).map_err(|_| unknown())?;
                database.seen_by(self.state.viewer())
            }
            None => self.database.clone(),
        };
        self.standing.borrow_mut().note_database(&database);
        database.snapshot().partition_function(&name.value).cloned().ok_or_else(unknown)
    }

    fn variable(&self, name: &str) -> Option<TypedValue> {
        let of_keys = || self.changed_keys.iter().find_map(|keys| keys.variable(name));
        let value = self.frame.get(name).or_else(of_keys).cloned();
        self.standing.borrow_mut().note_variable(name, value.as_ref(), self.frame.passed(name));
        value
    }

    fn assumed(&self, name: &str) -> Result<Option<Assumed>, SqlError> {
        let Some(variable) = self.frame.get(name) else { return Ok(None) };
        let run = self.statement()?;
        run.assumptions().of(name, variable, self.frame.passed(name))
    }

    fn global_variable(&self, name: &str) -> Option<TypedValue> {
        self.standing.borrow_mut().note_one_run();
        globals::value(self.environment, self.state, name)
    }

    fn system_function(&self, name: &str, arguments: &[SqlType]) -> Result<Option<SystemFunction>, SqlError> {
        self.standing.borrow_mut().note_one_run();
        system_functions::find(self, name, arguments)
    }

    fn next_values(&self, sequence: &ObjectName) -> Result<NextValues, SqlError> {
        self.standing.borrow_mut().note_one_run();
        self.values_of_sequence(sequence)
    }

    fn next_row_value(&self, sequence: &ObjectName) -> Result<TypedValue, SqlError> {
        self.standing.borrow_mut().note_one_run();
        match self.looks_without {
            Some(_) => self.type_of_sequence(sequence).map(|sql_type| TypedValue { sql_type, value: Value::Null }),
            None => self.row_value_of_sequence(sequence),
        }
    }

    fn function_context(&self) -> Arc<FunctionContext> {
        Arc::clone(&self.function_context)
    }

    fn in_database(&self, database: &DatabaseUse) -> Box<dyn NameResolver + '_> {
        Box::new(Names { database: database.clone(), ..self.clone() })
    }
}

/// Lets a statement see the rows that a table of it is read by.
fn begin_reading(state: &SessionState, run: &StatementRun, rows: Rows) {
    match rows {
        Rows::Present => {}
        Rows::OfStatement | Rows::Locked(RowReading { is_of_snapshot: false, .. }) => {
            run.context.read_versions(state.viewer());
        }
        Rows::OfTransaction | Rows::Locked(_) => {
            run.context.read_snapshot(state.lasting_transaction(&run.context));
        }
    }
}

/// 4508 for a view, 2772 for a function.
fn temporary_in_module(kind: ModuleKind) -> SqlError {
    match kind {
        ModuleKind::View => errors::VIEW_ON_TEMPORARY_TABLE.error(),
        _ => errors::TEMPORARY_TABLE_IN_FUNCTION.error(),
    }
}

/// The access method that hints request. They name existing indexes.
fn access_hint(table: &Table, hints: &[TableHint]) -> AccessHint {
    let place = |reference: &IndexReference| {
        table.indexes.iter().position(|index| match reference {
            IndexReference::Number(id) => i64::from(index.id.0) == *id,
            IndexReference::Name(name) => index.name.as_ref().is_some_and(|known| name.is(known)),
        })
    };
    let mut indexes = hints.iter().filter_map(|hint| if let TableHint::Index(all) = hint { all.first() } else { None });
    let index = indexes.next();
    for hint in hints {
        match hint {
            TableHint::ForceScan => return AccessHint::Scan,
            TableHint::ForceSeek(Some(seek)) => return AccessHint::Seek(place(&seek.index)),
            TableHint::ForceSeek(None) => return AccessHint::Seek(index.and_then(place)),
            _ => {}
        }
    }
    match index {
        Some(IndexReference::Number(0)) => AccessHint::Scan,
        Some(reference) => place(reference).map_or(AccessHint::Free, AccessHint::Index),
        None => AccessHint::Free,
    }
}

/// Checks that the columns in `FORCESEEK` are the first key columns of the index, in order.
fn check_seek_columns(table: &Table, index: &Index, seek: &ForceSeek) -> Result<(), SqlError> {
    let key: Vec<&str> = index.key.iter().map(|part| table.columns[part.column].name.as_str()).collect();
    let (name, shown) = (&table.name, shown_index(&seek.index));
    let way_out = format!("Its key is ({}).", key.join(", "));
    if seek.columns.len() > key.len() {
        return Err(errors::TOO_MANY_SEEK_COLUMNS.with([&name, &shown, &way_out]));
    }
    let Some((column, _)) = seek.columns.iter().zip(&key).find(|(column, known)| !column.is(known)) else {
        return Ok(());
    };
    Err(errors::NO_SEEK_COLUMN.with([&column.value, &name, &shown, &way_out]).at(column.position))
}

fn shown_index(reference: &IndexReference) -> String {
    match reference {
        IndexReference::Number(id) => format!("ID {id}"),
        IndexReference::Name(name) => format!("'{}'", name.value),
    }
}

/// Checks that no two hints request different isolation levels.
fn check_level_hints(hints: &[TableHint]) -> Result<(), SqlError> {
    let level = |hint: &TableHint| match hint {
        TableHint::NoLock | TableHint::ReadUncommitted => Some(IsolationLevel::ReadUncommitted),
        TableHint::ReadCommitted => Some(IsolationLevel::ReadCommitted),
        TableHint::RepeatableRead => Some(IsolationLevel::RepeatableRead),
        TableHint::HoldLock | TableHint::Serializable => Some(IsolationLevel::Serializable),
        _ => None,
    };
    let mut levels = hints.iter().filter_map(level);
    let first = levels.next();
    match levels.all(|other| Some(other) == first) {
        true => Ok(()),
        false => Err(errors::CONFLICTING_LOCK_HINTS.error()),
    }
}

/// Checks that an index named by a hint exists and is enabled. 0 means the heap, or a scan of the table.
fn check_index_hints(table: &Table, hints: &[TableHint]) -> Result<(), SqlError> {
    let named = hints.iter().flat_map(|hint| match hint {
        TableHint::Index(all) => all.iter().map(|index| (index, None)).collect(),
        TableHint::ForceSeek(Some(seek)) => vec![(&seek.index, Some(seek))],
        _ => Vec::new(),
    });
    for (reference, seek) in named {
        let (missing, found) = match reference {
            IndexReference::Number(0) if seek.is_none() => continue,
            IndexReference::Number(id) => {
                let is_it = |index: &&Index| i64::from(index.id.0) == *id && index.kind != IndexKind::Heap;
                (errors::NO_INDEX_ID, table.indexes.iter().find(is_it))
            }
            IndexReference::Name(name) => {
                let named = |known: &Option<String>| known.as_ref().is_some_and(|known| name.is(known));
                (errors::NO_INDEX_NAME, table.indexes.iter().find(|index| named(&index.name)))
            }
        };
        let shown = shown_index(reference);
        match found {
            Some(index) if index.options.is_disabled => {
                return Err(errors::HINTED_INDEX_DISABLED.with([&shown, &table.name]));
            }
            Some(index) => seek.iter().try_for_each(|seek| check_seek_columns(table, index, seek))?,
            None => return Err(missing.with([&shown, &table.name])),
        }
    }
    Ok(())
}

/// A name as it was written, without brackets.
pub(super) fn written(name: &ObjectName) -> String {
    let mut text = String::new();
    let mut begun = false;
    for part in [&name.server, &name.database, &name.schema] {
        match part {
            Some(part) => {
                text.push_str(&part.value);
                text.push('.');
                begun = true;
            }
            None if begun => text.push('.'),
            None => {}
        }
    }
    text.push_str(&name.name.value);
    text
}

/// 208.
pub(super) fn invalid_object(name: &ObjectName) -> SqlError {
    errors::INVALID_OBJECT.with([&written(name)]).at(name.position())
}

fn without_parameters(name: &ObjectName) -> SqlError {
    errors::PARAMETERS_NOT_SUPPLIED.with([&written(name)]).at(name.position())
}

fn not_a_function(name: &ObjectName) -> SqlError {
    errors::NOT_A_TABLE_FUNCTION.with([&written(name)]).at(name.position())
}
