//! The server's settings.

use hobt_interpreter::OPTIONS;
use hobt_types::Value;

use crate::value::{NULL, row};
use crate::{Definition, Rows, Sources};

pub(super) static VIEWS: &[Definition] = &[
    Definition::sys(
        "configurations",
        "configuration_id int!, name nvarchar(35)!, value nvarchar(20), minimum nvarchar(20), maximum nvarchar(20), \
         value_in_use nvarchar(20), description nvarchar(255)!, is_dynamic bit!, is_advanced bit!",
        |sources, _, _| {
            let runtime = sources.instance.runtime();
            let rows = OPTIONS.iter().map(|option| {
                let value = (option.get)(&runtime).to_string();
                row![
                    option.id,
                    option.name,
                    value.clone(),
                    option.minimum.to_string(),
                    option.maximum.to_string(),
                    value,
                    option.description,
                    true,
                    true
                ]
            });
            Ok(rows.collect())
        },
    ),
    Definition::sys(
        "hobt_settings",
        "name nvarchar(60)!, value nvarchar(400), changed_by nvarchar(60)",
        |sources, _, _| settings(sources),
    ),
    Definition::sys(
        "dm_server_services",
        "servicename nvarchar(256)!, process_id int, status_desc nvarchar(256)!",
        |_, _, _| Ok(vec![row!["hobt", std::process::id(), "Running"]]),
    ),
];

fn settings(sources: &Sources) -> Rows {
    let instance = &sources.instance;
    let settings = instance.settings();
    let runtime = instance.runtime();
    let flags: Vec<String> = runtime.trace_flags.iter().map(ToString::to_string).collect();
    let folders: Vec<String> = settings.allowed_folders.iter().map(|folder| folder.display().to_string()).collect();
    let start = "start";
    let text = |value: String| Value::Text(value);
    let mut rows = vec![
        row!["folder", text(instance.folder().display().to_string()), start],
        row!["disk", text(instance.disk().kind().to_owned()), start],
        row!["allowed folders", text(folders.join(", ")), start],
        row!["memory bytes", text(instance.memory().limit().to_string()), start],
        row!["memory bytes used", text(instance.memory().used().to_string()), NULL],
        row!["allocation runs", text(if settings.long_runs { "long (-E)" } else { "default" }.to_owned()), start],
        row!["trace flags", text(flags.join(", ")), "DBCC TRACEON"],
        row!["wait accounting", text(if hobt_instruments::accounting() { "on" } else { "off" }.to_owned()), NULL],
    ];
    rows.extend(OPTIONS.iter().map(|option| row![option.name, (option.get)(&runtime).to_string(), "sp_configure"]));
    Ok(rows)
}
