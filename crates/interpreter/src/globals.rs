//! The `@@` functions.

use hobt_tsql::ast::SwitchOption;
use hobt_types::{MaxLength, SqlType, TypedValue, Value};

use super::environment::Environment;
use super::state::SessionState;

const NAME: SqlType = SqlType::NVarChar(MaxLength::Limited(128));

/// The unit of `@@CPU_BUSY`.
const TICK_MICROSECONDS: u32 = 31_250;

/// The value of a global variable. `None` if there is none with this name.
pub(super) fn value(environment: &Environment, state: &SessionState, name: &str) -> Option<TypedValue> {
    let options = &state.options;
    let count = |count: u64| Value::Int(i64::try_from(count).unwrap_or(i64::MAX).min(i64::from(i32::MAX)));
    let text = |text: &str| Value::Text(text.to_owned());
    let (sql_type, value) = match name.to_uppercase().as_str() {
        "@@ROWCOUNT" => (SqlType::Int, count(state.row_count)),
        "@@ERROR" => (SqlType::Int, Value::Int(i64::from(state.error))),
        "@@TRANCOUNT" => (SqlType::Int, count(state.transaction_count() as u64)),
        "@@VERSION" => (SqlType::NVarChar(MaxLength::Limited(300)), text(&environment.version)),
        "@@SPID" => (SqlType::SmallInt, Value::Int(i64::from(state.id.0))),
        "@@SERVERNAME" => (NAME, text(&environment.server_name)),
        "@@SERVICENAME" => (NAME, text("MSSQLSERVER")),
        "@@IDENTITY" => (SqlType::Decimal { precision: 38, scale: 0 }, state.identity.clone()),
        "@@MAX_PRECISION" => (SqlType::TinyInt, Value::Int(38)),
        "@@OPTIONS" => (SqlType::Int, Value::Int(options.bits())),
        "@@NESTLEVEL" => (SqlType::Int, count(state.nest_level as u64)),
        "@@PROCID" => (SqlType::Int, Value::Int(i64::from(state.procedure))),
        "@@DATEFIRST" => (SqlType::TinyInt, Value::Int(i64::from(options.date_first))),
        "@@LANGUAGE" => (NAME, text(&options.language)),
        "@@LANGID" => (SqlType::SmallInt, Value::Int(0)),
        "@@LOCK_TIMEOUT" => {
            let timeout = options.lock_timeout.map(|timeout| i64::try_from(timeout.as_millis()).unwrap_or(i64::MAX));
            (SqlType::Int, Value::Int(timeout.map_or(-1, |timeout| timeout.min(i64::from(i32::MAX)))))
        }
        "@@TEXTSIZE" => (SqlType::Int, Value::Int(options.text_size)),
        "@@MAX_CONNECTIONS" => (SqlType::Int, Value::Int(32767)),
        "@@CURSOR_ROWS" => (SqlType::Int, Value::Int(0)),
        "@@FETCH_STATUS" => (SqlType::Int, Value::Int(-1)),
        "@@MICROSOFTVERSION" => (SqlType::Int, Value::Int(super::system_functions::MICROSOFT_VERSION)),
        "@@TIMETICKS" => (SqlType::Int, Value::Int(i64::from(TICK_MICROSECONDS))),
        "@@CPU_BUSY" => {
            let ticks = hobt_instruments::processor::process_cpu_time().as_micros() / u128::from(TICK_MICROSECONDS);
            (SqlType::Int, count(u64::try_from(ticks).unwrap_or(u64::MAX)))
        }
        "@@DEF_SORTORDER_ID" => (SqlType::TinyInt, Value::Int(52)),
        "@@DBTS" => (SqlType::VarBinary(MaxLength::Limited(8)), Value::Binary(vec![0; 8])),
        "@@REMSERVER" => (NAME, Value::Null),
        "@@IMPLICIT_TRANSACTIONS" => {
            (SqlType::Int, Value::Int(i64::from(options.switch(SwitchOption::ImplicitTransactions))))
        }
        _ => return None,
    };
    Some(TypedValue { sql_type, value })
}
