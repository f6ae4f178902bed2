//! The statements of a script about sequences.

use hobt_engine::{DatabaseUse, SequenceDefinition};
use hobt_txn::StatementContext;
use hobt_types::SqlType;

use crate::model::Objects;
use crate::simulation::{Simulation, session_prefix};
use crate::statement::{Wrong, unlocked};

impl Simulation {
    /// Creates a sequence, drops one, or takes values of one.
    pub(crate) fn sequence(
        &mut self,
        session: usize,
        database: &DatabaseUse,
        ctx: &StatementContext,
        objects: &mut Objects,
    ) -> Result<(), Wrong> {
        if objects.sequences.is_empty() || (objects.sequences.len() < 3 && self.chance(20)) {
            self.sequences_made += 1;
            let name = format!("{}q{}", session_prefix(session), self.sequences_made);
            self.note(format!("CREATE SEQUENCE {}.{name}", database.name()));
            let definition = SequenceDefinition {
                schema: "dbo".to_owned(),
                name: name.clone(),
                sql_type: SqlType::BigInt,
                start: Some(1),
                increment: 1,
                minimum: None,
                maximum: None,
                cycles: false,
                cache: [None, Some(0), Some(3)][self.below(3)],
            };
            database.create_sequence(ctx, &definition)?;
            objects.sequences.insert(name);
            return Ok(());
        }
        let name = objects.sequences.iter().nth(self.below(objects.sequences.len())).expect("below").clone();
        if self.chance(10) {
            self.note(format!("DROP SEQUENCE {}.{name}", database.name()));
            database.drop_sequence(ctx, "dbo", &name, &mut unlocked)?;
            objects.sequences.remove(&name);
            return Ok(());
        }
        let snapshot = database.snapshot_of(ctx);
        let sequence = snapshot.sequence(1, &name);
        let sequence = sequence.ok_or_else(|| Wrong::Model(format!("sequence {name} is not in the catalog")))?;
        let count = 1 + self.below(7) as u64;
        let (mut first, mut last) = (None, 0);
        database.take_sequence_values(ctx, sequence, count, &mut |value, count| {
            first.get_or_insert(value);
            last = value + i128::from(count) - 1;
        })?;
        self.note(format!("NEXT VALUE FOR {}.{name}: {first:?} to {last}", database.name()));
        // If the transaction that created the sequence has not committed, its roll-back may undo the values too.
        if database.snapshot().sequence(1, &name).is_some() {
            let before = self.sequence_values.insert(name.clone(), last).unwrap_or(0);
            if first.is_none_or(|first| first <= before) {
                return Err(Wrong::Model(format!("sequence {name} gave {first:?} behind {before}")));
            }
        }
        Ok(())
    }
}
