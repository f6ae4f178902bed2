//! Functions about databases, files and filegroups.

use hobt_base::EXTENT_PAGES;
use hobt_catalog::name_equals;
use hobt_engine::{DatabaseUse, LogDescription};
use hobt_types::{SqlType, Value};

use super::{Function, NAME, World, int, int_of, text, text_of};

/// The function of this name, in upper case.
pub(super) fn find(name: &str) -> Option<Function> {
    Some(match name {
        "DB_NAME" => ((0, 1), NAME, |world, a| text(database_name(world, a))),
        "DB_ID" => ((0, 1), SqlType::SmallInt, |world, a| int(database_id(world, a))),
        "HAS_DBACCESS" => ((1, 1), SqlType::Int, |world, a| int(database_id(world, a).map(|_| 1))),
        "DATABASEPROPERTYEX" => ((2, 2), NAME, |world, a| text(database_property(world, a))),
        "FILE_NAME" => ((1, 1), NAME, |world, a| {
            let mut files = file_names(&world.database).into_iter();
            text(files.find(|(file, _)| Some(i32::from(*file)) == int_of(a, 0)).map(|(_, name)| name))
        }),
        "FILE_ID" | "FILE_IDEX" => ((1, 1), SqlType::Int, |world, a| {
            let mut files = file_names(&world.database).into_iter();
            int(files.find(|(_, file)| name_equals(file, &text_of(a, 0))).map(|(id, _)| i64::from(id)))
        }),
        "FILEPROPERTY" => ((2, 2), SqlType::Int, |world, a| int(file_property(world, a))),
        "FILEGROUP_NAME" => ((1, 1), NAME, |world, a| {
            let snapshot = world.database.snapshot();
            let mut filegroups = snapshot.filegroups.iter();
            text(filegroups.find(|group| Some(i32::from(group.id.0)) == int_of(a, 0)).map(|group| group.name.clone()))
        }),
        "FILEGROUP_ID" => ((1, 1), SqlType::Int, |world, a| {
            int(world.database.snapshot().filegroup(&text_of(a, 0)).map(|group| i64::from(group.id.0)))
        }),
        _ => return None,
    })
}

fn database_name(world: &World, arguments: &[Value]) -> Option<String> {
    if arguments.is_empty() {
        return Some(world.database.name().to_owned());
    }
    let id = int_of(arguments, 0)?;
    let databases = world.environment.instance.databases();
    databases.into_iter().find(|database| i32::from(database.id.0) == id).map(|database| database.name)
}

fn database_id(world: &World, arguments: &[Value]) -> Option<i64> {
    if arguments.is_empty() {
        return Some(i64::from(world.database.id().0));
    }
    let name = text_of(arguments, 0);
    let databases = world.environment.instance.databases();
    databases.into_iter().find(|database| name_equals(&database.name, &name)).map(|database| i64::from(database.id.0))
}

fn database_property(world: &World, arguments: &[Value]) -> Option<String> {
    let name = text_of(arguments, 0);
    let databases = world.environment.instance.databases();
    let database = databases.into_iter().find(|database| name_equals(&database.name, &name))?;
    let statistics = database.options.statistics;
    let flag = |is_on: bool| u8::from(is_on).to_string();
    Some(match text_of(arguments, 1).to_lowercase().as_str() {
        "status" => database.state.name().to_owned(),
        "collation" => "SQL_Latin1_General_CP1_CI_AS".to_owned(),
        "recovery" => database.options.recovery_model.name().to_owned(),
        "updateability" => if database.options.is_read_only { "READ_ONLY" } else { "READ_WRITE" }.to_owned(),
        "useraccess" => "MULTI_USER".to_owned(),
        "version" => "957".to_owned(),
        "isinstandby" => flag(database.is_in_standby),
        "isclone" => flag(database.options.is_clone),
        "isverifiedclone" => flag(database.options.is_verified_clone),
        "isparameterizationforced" => flag(database.options.is_parameterization_forced),
        "isautocreatestatistics" => flag(statistics.creates),
        "isautocreatestatisticsincremental" => flag(statistics.is_incremental),
        "isautoupdatestatistics" => flag(statistics.updates),
        "isansinullsenabled"
        | "isansipaddingenabled"
        | "isansiwarningsenabled"
        | "isarithmeticabortenabled"
        | "isnullconcat"
        | "isquotedidentifiersenabled" => flag(true),
        "isansinulldefault"
        | "isautoclose"
        | "isautoshrink"
        | "isclosecursorsoncommitenabled"
        | "isfulltextenabled"
        | "islocalcursorsdefault"
        | "ismemoryoptimizedelevatetosnapshotenabled"
        | "ismergepublished"
        | "isnumericroundabortenabled"
        | "ispublished"
        | "isrecursivetriggersenabled"
        | "issubscribed"
        | "issyncwithbackup"
        | "istornpagedetectionenabled"
        | "isxtpsupported" => flag(false),
        _ => return None,
    })
}

/// The ids and logical names of a database's files, including its log files.
fn file_names(database: &DatabaseUse) -> Vec<(u16, String)> {
    let log = LogDescription::of(database.storage()).map_or_else(Vec::new, |log| log.files);
    let data = database.snapshot();
    let data = data.files.iter().map(|file| (file.id.0, file.name.clone()));
    data.chain(log.into_iter().map(|file| (file.id.0, file.name))).collect()
}

fn file_property(world: &World, arguments: &[Value]) -> Option<i64> {
    let name = text_of(arguments, 0);
    let (id, _) = file_names(&world.database).into_iter().find(|(_, file)| name_equals(file, &name))?;
    let is_data = world.database.snapshot().files.iter().any(|file| file.id.0 == id);
    match text_of(arguments, 1).to_lowercase().as_str() {
        "isprimaryfile" => Some(i64::from(id == 1)),
        "islogfile" => Some(i64::from(!is_data)),
        "isreadonly" => Some(0),
        "spaceused" => {
            let open = world.database.storage().files().into_iter().find(|open| open.id().0 == id)?;
            let pages = world.environment.instance.shown_pages(world.database.id(), &open);
            let extents = i64::from(pages.div_ceil(EXTENT_PAGES)) - i64::from(open.free_extents());
            Some(extents * i64::from(EXTENT_PAGES))
        }
        _ => None,
    }
}
