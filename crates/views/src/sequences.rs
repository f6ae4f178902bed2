//! `sys.sequences`.

use hobt_base::SqlError;
use hobt_interpreter::ViewContext;
use hobt_types::Value;

use crate::catalog::object;
use crate::value::{NULL, row};
use crate::{Definition, Rows, Sources};

pub(super) static VIEWS: &[Definition] = &[Definition::sys(
    "sequences",
    "name sysname!, object_id int!, principal_id int, schema_id int!, parent_object_id int!, type char(2), \
     type_desc nvarchar(60), create_date datetime!, modify_date datetime!, is_ms_shipped bit!, is_published bit!, \
     is_schema_published bit!, start_value decimal!, increment decimal!, minimum_value decimal!, maximum_value decimal!, \
     is_cycling bit, is_cached bit, cache_size int, system_type_id tinyint!, user_type_id int!, precision tinyint!, \
     scale tinyint!, current_value decimal!, is_exhausted bit!, last_used_value decimal",
    sequences,
)];

fn sequences(_: &Sources, context: &ViewContext, _: &[Value]) -> Rows {
    let snapshot = context.database.snapshot();
    let mut sequences: Vec<_> = snapshot.sequences.values().collect();
    sequences.sort_by_key(|sequence| sequence.id);
    let mut rows = Vec::with_capacity(sequences.len());
    for sequence in sequences {
        let state = context.database.database().sequence_state(sequence).map_err(SqlError::from)?;
        let system_type = sequence.sql_type.system_type_id();
        let mut row = object(&sequence.name, sequence.id.0, sequence.schema, 0, "SO", sequence.created, false);
        let last = if state.used { Value::Decimal(state.current) } else { NULL };
        row.extend(row![
            Value::Decimal(sequence.start),
            Value::Decimal(sequence.increment),
            Value::Decimal(sequence.minimum),
            Value::Decimal(sequence.maximum),
            sequence.cycles,
            sequence.cache != Some(0),
            sequence.cache.filter(|size| *size > 0),
            system_type,
            i32::from(system_type),
            sequence.sql_type.precision(),
            sequence.sql_type.scale(),
            Value::Decimal(state.current),
            state.exhausted,
            last
        ]);
        rows.push(row);
    }
    Ok(rows)
}
