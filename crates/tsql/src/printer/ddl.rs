//! Definitions.

use std::fmt::{Display, Formatter, Result};

use super::statement::{sequence, with_plain};
use super::{commas, flag, list, optional, string};
use crate::ast::*;

/// Prints statements that create, alter and drop objects.
pub(super) fn definition(f: &mut Formatter<'_>, kind: &StatementKind) -> Result {
    match kind {
        StatementKind::TruncateTable { name, partitions } => {
            write!(f, "TRUNCATE TABLE {name}")?;
            flag(f, !partitions.is_empty(), " WITH (PARTITIONS ")?;
            list(f, "", partitions)?;
            flag(f, !partitions.is_empty(), ")")
        }
        StatementKind::CreateTable(table) => {
            write!(f, "CREATE TABLE {} {}", table.name, table.definition)?;
            optional(f, " ON ", &table.storage)?;
            optional(f, " TEXTIMAGE_ON ", &table.text_storage)?;
            list(f, " WITH ", &table.options)
        }
        StatementKind::AlterTable(table) => write!(f, "ALTER TABLE {} {}", table.name, table.action),
        StatementKind::CreateIndex(index) => create_index(f, index),
        StatementKind::AlterIndex(index) => alter_index(f, index),
        StatementKind::DropIndex(drop) => {
            f.write_str("DROP INDEX ")?;
            flag(f, drop.if_exists, "IF EXISTS ")?;
            commas(f, &drop.indexes)
        }
        StatementKind::Drop(drop) => {
            write!(f, "DROP {} ", drop.kind.words())?;
            flag(f, drop.if_exists, "IF EXISTS ")?;
            commas(f, &drop.names)
        }
        StatementKind::CreatePartitionFunction(_)
        | StatementKind::AlterPartitionFunction(_)
        | StatementKind::CreatePartitionScheme(_)
        | StatementKind::AlterPartitionScheme(_) => partition(f, kind),
        StatementKind::Sequence(definition) => define_sequence(f, definition),
        StatementKind::CreateDatabase(database) => create_database(f, database),
        StatementKind::AlterDatabase(database) => alter_database(f, database),
        StatementKind::CreateSchema { name, owner } => {
            write!(f, "CREATE SCHEMA {name}")?;
            optional(f, " AUTHORIZATION ", owner)
        }
        StatementKind::CreateStatistics(statistics) => {
            write!(f, "CREATE STATISTICS {} ON {}", statistics.name, statistics.table)?;
            list(f, " ", &statistics.columns)?;
            optional(f, " WHERE ", &statistics.condition)?;
            with_plain(f, &statistics.options)
        }
        StatementKind::UpdateStatistics(statistics) => {
            write!(f, "UPDATE STATISTICS {}", statistics.table)?;
            list(f, " ", &statistics.targets)?;
            with_plain(f, &statistics.options)
        }
        _ => module(f, kind),
    }
}

impl ObjectKind {
    /// The keywords for this kind in `DROP`.
    pub fn words(self) -> &'static str {
        match self {
            ObjectKind::Table => "TABLE",
            ObjectKind::View => "VIEW",
            ObjectKind::Function => "FUNCTION",
            ObjectKind::Procedure => "PROCEDURE",
            ObjectKind::Database => "DATABASE",
            ObjectKind::Schema => "SCHEMA",
            ObjectKind::Statistics => "STATISTICS",
            ObjectKind::PartitionFunction => "PARTITION FUNCTION",
            ObjectKind::PartitionScheme => "PARTITION SCHEME",
            ObjectKind::Sequence => "SEQUENCE",
            ObjectKind::Synonym => "SYNONYM",
            ObjectKind::Trigger => "TRIGGER",
            ObjectKind::Type => "TYPE",
        }
    }
}

impl Display for TableDefinition {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str("(")?;
        commas(f, &self.columns)?;
        self.constraints.iter().try_for_each(|constraint| write!(f, ", {constraint}"))?;
        self.indexes.iter().try_for_each(|index| write!(f, ", {index}"))?;
        f.write_str(")")
    }
}

impl Display for ColumnDefinition {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{}", self.name)?;
        match &self.kind {
            ColumnKind::Typed(data_type) => write!(f, " {data_type}")?,
            ColumnKind::Computed { value, persisted } => {
                write!(f, " AS ({value})")?;
                flag(f, *persisted, " PERSISTED")?;
            }
        }
        optional(f, " COLLATE ", &self.collation)?;
        flag(f, self.sparse, " SPARSE")?;
        if let Some(identity) = &self.identity {
            f.write_str(" IDENTITY")?;
            if let Some((seed, increment)) = &identity.seed_increment {
                write!(f, "({seed}, {increment})")?;
            }
            flag(f, identity.not_for_replication, " NOT FOR REPLICATION")?;
        }
        flag(f, self.rowguidcol, " ROWGUIDCOL")?;
        nullability(f, self.nullable)?;
        self.constraints.iter().try_for_each(|constraint| write!(f, " {constraint}"))?;
        self.indexes.iter().try_for_each(|index| write!(f, " {index}"))
    }
}

impl Display for TableIndex {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "INDEX {}", self.name)?;
        flag(f, self.unique, " UNIQUE")?;
        f.write_str(clustering(self.clustered, " CLUSTERED", " NONCLUSTERED"))?;
        flag(f, self.columnstore, " COLUMNSTORE")?;
        list(f, " ", &self.columns)?;
        list(f, " INCLUDE ", &self.include)?;
        optional(f, " WHERE ", &self.condition)?;
        list(f, " WITH ", &self.options)?;
        optional(f, " ON ", &self.storage)
    }
}

fn nullability(f: &mut Formatter<'_>, nullable: Option<bool>) -> Result {
    f.write_str(match nullable {
        Some(true) => " NULL",
        Some(false) => " NOT NULL",
        None => "",
    })
}

impl Display for Constraint {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        if let Some(name) = &self.name {
            write!(f, "CONSTRAINT {name} ")?;
        }
        match &self.kind {
            ConstraintKind::Default { value, column, with_values } => {
                write!(f, "DEFAULT {value}")?;
                optional(f, " FOR ", column)?;
                flag(f, *with_values, " WITH VALUES")
            }
            ConstraintKind::Key { primary, clustered, columns, options, storage } => {
                f.write_str(if *primary { "PRIMARY KEY" } else { "UNIQUE" })?;
                f.write_str(clustering(*clustered, " CLUSTERED", " NONCLUSTERED"))?;
                list(f, " ", columns)?;
                list(f, " WITH ", options)?;
                optional(f, " ON ", storage)
            }
            ConstraintKind::Check { condition, not_for_replication } => {
                f.write_str("CHECK ")?;
                flag(f, *not_for_replication, "NOT FOR REPLICATION ")?;
                write!(f, "({condition})")
            }
            ConstraintKind::ForeignKey { columns, table, referenced, on_delete, on_update, not_for_replication } => {
                list(f, "FOREIGN KEY ", columns)?;
                flag(f, !columns.is_empty(), " ")?;
                write!(f, "REFERENCES {table}")?;
                list(f, " ", referenced)?;
                optional(f, " ON DELETE ", on_delete)?;
                optional(f, " ON UPDATE ", on_update)?;
                flag(f, *not_for_replication, " NOT FOR REPLICATION")
            }
        }
    }
}

fn clustering<'a>(clustered: Option<bool>, yes: &'a str, no: &'a str) -> &'a str {
    match clustered {
        Some(true) => yes,
        Some(false) => no,
        None => "",
    }
}

impl Display for ReferentialAction {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str(match self {
            ReferentialAction::NoAction => "NO ACTION",
            ReferentialAction::Cascade => "CASCADE",
            ReferentialAction::SetNull => "SET NULL",
            ReferentialAction::SetDefault => "SET DEFAULT",
        })
    }
}

impl Display for IndexColumn {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{}", self.name)?;
        flag(f, self.descending, " DESC")
    }
}

impl Display for Storage {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{}", self.name)?;
        match &self.column {
            Some(column) => write!(f, "({column})"),
            None => Ok(()),
        }
    }
}

fn check_words(f: &mut Formatter<'_>, check: Option<bool>) -> Result {
    f.write_str(clustering(check, "WITH CHECK ", "WITH NOCHECK "))
}

impl Display for AlterTableAction {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            AlterTableAction::Add { check, columns, constraints } => {
                check_words(f, *check)?;
                f.write_str("ADD ")?;
                commas(f, columns)?;
                flag(f, !columns.is_empty() && !constraints.is_empty(), ", ")?;
                commas(f, constraints)
            }
            AlterTableAction::AlterColumn { name, data_type, collation, nullable } => {
                write!(f, "ALTER COLUMN {name} {data_type}")?;
                optional(f, " COLLATE ", collation)?;
                nullability(f, *nullable)
            }
            AlterTableAction::Drop { items } => {
                f.write_str("DROP ")?;
                commas(f, items)
            }
            AlterTableAction::EnableConstraints { check, enable, names } => {
                check_words(f, *check)?;
                f.write_str(if *enable { "CHECK CONSTRAINT " } else { "NOCHECK CONSTRAINT " })?;
                flag(f, names.is_empty(), "ALL")?;
                commas(f, names)
            }
            AlterTableAction::Rebuild { partition, options } => {
                f.write_str("REBUILD")?;
                optional(f, " PARTITION = ", partition)?;
                list(f, " WITH ", options)
            }
            AlterTableAction::Set { options } => list(f, "SET ", options),
            AlterTableAction::Switch { source_partition, target, target_partition, options } => {
                f.write_str("SWITCH")?;
                optional(f, " PARTITION ", source_partition)?;
                write!(f, " TO {target}")?;
                optional(f, " PARTITION ", target_partition)?;
                list(f, " WITH ", options)
            }
        }
    }
}

impl Display for AlterTableDrop {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            AlterTableDrop::Column { name, if_exists } => {
                f.write_str("COLUMN ")?;
                flag(f, *if_exists, "IF EXISTS ")?;
                write!(f, "{name}")
            }
            AlterTableDrop::Constraint { name, if_exists, options } => {
                f.write_str("CONSTRAINT ")?;
                flag(f, *if_exists, "IF EXISTS ")?;
                write!(f, "{name}")?;
                list(f, " WITH ", options)
            }
        }
    }
}

impl Display for PartitionSelector {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            PartitionSelector::All => f.write_str("ALL"),
            PartitionSelector::Number(number) => write!(f, "{number}"),
        }
    }
}

fn create_index(f: &mut Formatter<'_>, index: &CreateIndex) -> Result {
    f.write_str("CREATE ")?;
    flag(f, index.unique, "UNIQUE ")?;
    f.write_str(clustering(index.clustered, "CLUSTERED ", "NONCLUSTERED "))?;
    flag(f, index.columnstore, "COLUMNSTORE ")?;
    write!(f, "INDEX {} ON {}", index.name, index.table)?;
    list(f, " ", &index.columns)?;
    list(f, " INCLUDE ", &index.include)?;
    optional(f, " WHERE ", &index.condition)?;
    list(f, " WITH ", &index.options)?;
    optional(f, " ON ", &index.storage)
}

fn alter_index(f: &mut Formatter<'_>, index: &AlterIndex) -> Result {
    f.write_str("ALTER INDEX ")?;
    match &index.name {
        Some(name) => write!(f, "{name}")?,
        None => f.write_str("ALL")?,
    }
    write!(f, " ON {} ", index.table)?;
    match &index.action {
        AlterIndexAction::Rebuild { partition, options } => {
            f.write_str("REBUILD")?;
            optional(f, " PARTITION = ", partition)?;
            list(f, " WITH ", options)
        }
        AlterIndexAction::Reorganize { partition, options } => {
            f.write_str("REORGANIZE")?;
            optional(f, " PARTITION = ", partition)?;
            list(f, " WITH ", options)
        }
        AlterIndexAction::Disable => f.write_str("DISABLE"),
        AlterIndexAction::Set { options } => list(f, "SET ", options),
    }
}

impl Display for DroppedIndex {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{} ON {}", self.name, self.table)?;
        list(f, " WITH ", &self.options)
    }
}

fn define_sequence(f: &mut Formatter<'_>, definition: &SequenceDefinition) -> Result {
    write!(f, "{} SEQUENCE {}", if definition.alter { "ALTER" } else { "CREATE" }, definition.name)?;
    let bound = |f: &mut Formatter<'_>, word: &str, value: &Option<Expression>| match value {
        Some(value) => write!(f, "{word} {value}"),
        None => write!(f, "NO {word}"),
    };
    for option in &definition.options {
        f.write_str(" ")?;
        match &option.kind {
            SequenceOptionKind::As(data_type) => write!(f, "AS {data_type}")?,
            SequenceOptionKind::Start(value) => write!(f, "START WITH {value}")?,
            SequenceOptionKind::Restart(value) => {
                f.write_str("RESTART")?;
                optional(f, " WITH ", value)?;
            }
            SequenceOptionKind::Increment(value) => write!(f, "INCREMENT BY {value}")?,
            SequenceOptionKind::Minimum(value) => bound(f, "MINVALUE", value)?,
            SequenceOptionKind::Maximum(value) => bound(f, "MAXVALUE", value)?,
            SequenceOptionKind::Cycle(cycles) => f.write_str(if *cycles { "CYCLE" } else { "NO CYCLE" })?,
            SequenceOptionKind::Cache(value) => {
                f.write_str("CACHE")?;
                optional(f, " ", value)?;
            }
            SequenceOptionKind::NoCache => f.write_str("NO CACHE")?,
        }
    }
    Ok(())
}

fn partition(f: &mut Formatter<'_>, kind: &StatementKind) -> Result {
    match kind {
        StatementKind::CreatePartitionFunction(function) => {
            write!(f, "CREATE PARTITION FUNCTION {}({}", function.name, function.data_type)?;
            optional(f, " COLLATE ", &function.collation)?;
            let side = if function.range_right { "RIGHT" } else { "LEFT" };
            write!(f, ") AS RANGE {side} FOR VALUES (")?;
            commas(f, &function.values)?;
            f.write_str(")")
        }
        StatementKind::AlterPartitionFunction(function) => {
            let action = if function.split { "SPLIT" } else { "MERGE" };
            write!(f, "ALTER PARTITION FUNCTION {}() {action} RANGE (", function.name)?;
            optional(f, "", &function.value)?;
            f.write_str(")")
        }
        StatementKind::CreatePartitionScheme(scheme) => {
            write!(f, "CREATE PARTITION SCHEME {} AS PARTITION {}", scheme.name, scheme.function)?;
            f.write_str(if scheme.all { " ALL TO (" } else { " TO (" })?;
            commas(f, &scheme.filegroups)?;
            f.write_str(")")
        }
        StatementKind::AlterPartitionScheme(scheme) => {
            write!(f, "ALTER PARTITION SCHEME {} NEXT USED", scheme.name)?;
            optional(f, " ", &scheme.filegroup)
        }
        _ => Ok(()),
    }
}

fn create_database(f: &mut Formatter<'_>, database: &CreateDatabase) -> Result {
    write!(f, "CREATE DATABASE {}", database.name)?;
    optional(f, " CONTAINMENT = ", &database.containment)?;
    flag(f, !database.filegroups.is_empty(), " ON ")?;
    commas(f, &database.filegroups)?;
    flag(f, !database.log.is_empty(), " LOG ON ")?;
    commas(f, &database.log)?;
    optional(f, " COLLATE ", &database.collation)?;
    match database.attach {
        Some(Attach::WithLog) => f.write_str(" FOR ATTACH")?,
        Some(Attach::RebuildLog) => f.write_str(" FOR ATTACH_REBUILD_LOG")?,
        None => {}
    }
    optional(f, " AS SNAPSHOT OF ", &database.snapshot_of)?;
    with_plain(f, &database.options)
}

impl Display for FilegroupDefinition {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        if let Some(name) = &self.name {
            write!(f, "FILEGROUP {name} ")?;
            if let Some(contains) = &self.contains {
                write!(f, "CONTAINS {contains} ")?;
            }
            flag(f, self.default, "DEFAULT ")?;
        }
        commas(f, &self.files)
    }
}

impl Display for FileDefinition {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str("(")?;
        if !self.name.value.is_empty() {
            write!(f, "NAME = {}", self.name)?;
        }
        optional(f, ", NEWNAME = ", &self.new_name)?;
        if let Some(file_name) = &self.file_name {
            f.write_str(if self.name.value.is_empty() { "FILENAME = N" } else { ", FILENAME = N" })?;
            string(f, file_name)?;
        }
        optional(f, ", SIZE = ", &self.size)?;
        match &self.max_size {
            Some(MaxSize::Unlimited) => f.write_str(", MAXSIZE = UNLIMITED")?,
            Some(MaxSize::Limit(size)) => write!(f, ", MAXSIZE = {size}")?,
            None => {}
        }
        optional(f, ", FILEGROWTH = ", &self.growth)?;
        flag(f, self.offline, ", OFFLINE")?;
        f.write_str(")")
    }
}

impl Display for FileSize {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let unit = match self.unit {
            SizeUnit::Kilobytes => "KB",
            SizeUnit::Megabytes => "MB",
            SizeUnit::Gigabytes => "GB",
            SizeUnit::Terabytes => "TB",
            SizeUnit::Percent => "%",
        };
        write!(f, "{}{unit}", self.amount)
    }
}

fn alter_database(f: &mut Formatter<'_>, database: &AlterDatabase) -> Result {
    f.write_str("ALTER DATABASE ")?;
    match (&database.action, &database.name) {
        (AlterDatabaseAction::ScopedConfiguration { options }, _) => {
            f.write_str("SCOPED CONFIGURATION SET ")?;
            return commas(f, options);
        }
        (AlterDatabaseAction::ClearScopedConfiguration { name }, _) => {
            return write!(f, "SCOPED CONFIGURATION CLEAR {name}");
        }
        (_, Some(name)) => write!(f, "{name} ")?,
        (_, None) => f.write_str("CURRENT ")?,
    }
    match &database.action {
        AlterDatabaseAction::AddFiles { files, filegroup } => {
            f.write_str("ADD FILE ")?;
            commas(f, files)?;
            optional(f, " TO FILEGROUP ", filegroup)
        }
        AlterDatabaseAction::AddLogFiles { files } => {
            f.write_str("ADD LOG FILE ")?;
            commas(f, files)
        }
        AlterDatabaseAction::RemoveFile { name } => write!(f, "REMOVE FILE {name}"),
        AlterDatabaseAction::ModifyFile { file } => write!(f, "MODIFY FILE {file}"),
        AlterDatabaseAction::AddFilegroup { name, contains } => {
            write!(f, "ADD FILEGROUP {name}")?;
            optional(f, " CONTAINS ", contains)
        }
        AlterDatabaseAction::RemoveFilegroup { name } => write!(f, "REMOVE FILEGROUP {name}"),
        AlterDatabaseAction::ModifyFilegroup { name, change } => write!(f, "MODIFY FILEGROUP {name} {change}"),
        AlterDatabaseAction::ModifyName { name } => write!(f, "MODIFY NAME = {name}"),
        AlterDatabaseAction::Collate { collation } => write!(f, "COLLATE {collation}"),
        AlterDatabaseAction::Set { options, termination } => {
            f.write_str("SET ")?;
            commas(f, options)?;
            match termination {
                Some(Termination::RollbackAfterSeconds(n)) => write!(f, " WITH ROLLBACK AFTER {n} SECONDS"),
                Some(Termination::RollbackImmediate) => f.write_str(" WITH ROLLBACK IMMEDIATE"),
                Some(Termination::NoWait) => f.write_str(" WITH NO_WAIT"),
                None => Ok(()),
            }
        }
        AlterDatabaseAction::ScopedConfiguration { .. } | AlterDatabaseAction::ClearScopedConfiguration { .. } => {
            Ok(())
        }
    }
}

impl Display for FilegroupChange {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str(match self {
            FilegroupChange::Default => "DEFAULT",
            FilegroupChange::Name(name) => return write!(f, "NAME = {name}"),
            FilegroupChange::ReadOnly => "READ_ONLY",
            FilegroupChange::ReadWrite => "READ_WRITE",
            FilegroupChange::AutogrowSingleFile => "AUTOGROW_SINGLE_FILE",
            FilegroupChange::AutogrowAllFiles => "AUTOGROW_ALL_FILES",
        })
    }
}

impl Display for CreateMode {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str(match self {
            CreateMode::Create => "CREATE",
            CreateMode::Alter => "ALTER",
            CreateMode::CreateOrAlter => "CREATE OR ALTER",
        })
    }
}

impl Display for Parameter {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{} {}", self.name, self.data_type)?;
        optional(f, " = ", &self.default)?;
        flag(f, self.output, " OUTPUT")?;
        flag(f, self.readonly, " READONLY")
    }
}

/// Prints the options of a module. `EXECUTE AS x` has no equals sign.
fn module_options(f: &mut Formatter<'_>, options: &[OptionItem]) -> Result {
    for (index, option) in options.iter().enumerate() {
        f.write_str(if index > 0 { ", " } else { " WITH " })?;
        f.write_str(&option.name)?;
        if let OptionValue::Word(word) = &option.value {
            match word.quoted {
                true => {
                    f.write_str(" ")?;
                    string(f, &word.value)?;
                }
                false => write!(f, " {word}")?,
            }
        }
    }
    Ok(())
}

/// Prints views, functions and procedures.
fn module(f: &mut Formatter<'_>, kind: &StatementKind) -> Result {
    match kind {
        StatementKind::CreateView(view) => {
            write!(f, "{} VIEW {}", view.mode, view.name)?;
            list(f, " ", &view.columns)?;
            module_options(f, &view.options)?;
            write!(f, " AS {}", view.query)?;
            flag(f, view.check_option, " WITH CHECK OPTION")
        }
        StatementKind::CreateFunction(function) => {
            write!(f, "{} FUNCTION {}(", function.mode, function.name)?;
            commas(f, &function.parameters)?;
            f.write_str(") RETURNS ")?;
            match &function.body {
                FunctionBody::Inline { .. } => f.write_str("TABLE")?,
                FunctionBody::Scalar { data_type, .. } => write!(f, "{data_type}")?,
                FunctionBody::MultiStatement { variable, definition, .. } => {
                    write!(f, "{variable} TABLE {definition}")?;
                }
            }
            module_options(f, &function.options)?;
            match &function.body {
                FunctionBody::Inline { query } => write!(f, " AS RETURN {query}"),
                FunctionBody::Scalar { statements, .. } | FunctionBody::MultiStatement { statements, .. } => {
                    f.write_str(" AS BEGIN")?;
                    sequence(f, statements)?;
                    f.write_str(" END")
                }
            }
        }
        StatementKind::CreateProcedure(procedure) => {
            write!(f, "{} PROCEDURE {}", procedure.mode, procedure.name)?;
            flag(f, !procedure.parameters.is_empty(), " ")?;
            commas(f, &procedure.parameters)?;
            module_options(f, &procedure.options)?;
            f.write_str(" AS")?;
            sequence(f, &procedure.statements)
        }
        _ => Ok(()),
    }
}
