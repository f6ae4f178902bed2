//! SQL Server's messages that a statement or a system procedure raises by number only.

/// The text of a message, as a format for `RAISERROR`. `None` if the message is not listed here.
pub(super) fn system_message(number: i64) -> Option<&'static str> {
    MESSAGES.iter().find(|(known, _)| i64::from(*known) == number).map(|(_, text)| *text)
}

static MESSAGES: &[(i32, &str)] = &[
    (14138, "Invalid option name '%s'."),
    (15009, "The object '%s' does not exist in database '%s' or is invalid for this operation."),
    (15197, "There is no text for object '%s'."),
    (15323, "The selected index does not exist on table '%s'."),
    (15472, "The object '%s' does not have any indexes, or you do not have permissions."),
    (15574, "This object does not have any statistics."),
    (15575, "This object does not have any statistics or indexes."),
    (17000, "Usage: sp_autostats <table_name> [, {ON|OFF} [, <index_name>] ]"),
];
