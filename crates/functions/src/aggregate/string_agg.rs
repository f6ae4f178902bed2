//! `STRING_AGG`: joins texts with a separator between them, in input order.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, StringViewArray};
use hobt_base::{SqlError, errors};
use hobt_types::{MaxLength, SqlType};

use super::groups::{Groups, Held};
use super::{Aggregate, Emit, GroupsAccumulator, each_row};
use crate::carrier::not_the_carrier;
use crate::cast::cast_array;
use crate::type_rules::declared_length;
use crate::watch::Meter;

/// A group's texts.
#[derive(Default)]
struct Joined {
    /// `None` before the first text.
    text: Option<String>,
    /// The separator between partial texts when states merge: the last one.
    separator: Option<String>,
}

impl Held for Joined {
    fn heap_bytes(&self) -> usize {
        self.text.heap_bytes() + self.separator.heap_bytes()
    }
}

impl Joined {
    fn append(&mut self, text: &str, separator: &str) {
        match &mut self.text {
            None => self.text = Some(text.to_owned()),
            Some(held) => {
                held.push_str(separator);
                held.push_str(text);
            }
        }
        if self.separator.as_deref() != Some(separator) {
            self.separator = Some(separator.to_owned());
        }
    }
}

/// 9829: a result above 8,000 bytes of a type that is not `max`.
pub fn string_agg_too_long() -> SqlError {
    errors::STRING_AGG_TOO_LONG.error()
}

pub(super) struct StringAgg {
    aggregate: Aggregate,
    groups: Groups<Joined>,
}

impl StringAgg {
    pub(super) fn new(aggregate: Aggregate) -> StringAgg {
        StringAgg { aggregate, groups: Groups::default() }
    }

    /// # Errors
    /// 9829 above 8,000 bytes of a type that is not `max`.
    fn append(&mut self, group: usize, text: &str, separator: &str) -> Result<(), SqlError> {
        self.groups.change(group, |joined| joined.append(text, separator));
        let limit = match declared_length(self.aggregate.result) {
            Some(MaxLength::Limited(limit)) => usize::from(limit),
            _ => return Ok(()),
        };
        let held = self.groups.get(group).text.as_deref();
        let too_long = held.is_some_and(|held| crate::text::code_page::units(held) > limit);
        if too_long {
            return Err(string_agg_too_long());
        }
        Ok(())
    }

    fn append_rows(
        &mut self,
        texts: &StringViewArray,
        separators: &StringViewArray,
        groups: &[usize],
        filter: Option<&BooleanArray>,
    ) -> Result<(), SqlError> {
        let mut outcome = Ok(());
        let mut meter = Meter::new();
        each_row(groups, filter, texts.nulls(), |row, group| {
            let separator = if separators.is_null(row) { "" } else { separators.value(row) };
            if outcome.is_ok() {
                let length = texts.value(row).len() + separator.len();
                outcome = meter.build(length).and_then(|()| {
                    meter.value(length + self.groups.get(group).text.as_ref().map_or(0, String::len))?;
                    self.append(group, texts.value(row), separator)
                });
            }
        });
        outcome
    }
}

impl GroupsAccumulator for StringAgg {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total_groups: usize,
    ) -> Result<(), SqlError> {
        self.groups.resize(total_groups);
        let [texts, separators] = values else {
            return Err(SqlError::internal("STRING_AGG takes a text and a separator"));
        };
        let texts = if self.aggregate.input.is_text() {
            Arc::clone(texts)
        } else {
            cast_array(texts, self.aggregate.input, SqlType::NVarChar(MaxLength::Max), None, false)?
        };
        let texts = texts.as_string_view_opt().ok_or_else(|| not_the_carrier(&texts, self.aggregate.input))?;
        let separators =
            separators.as_string_view_opt().ok_or_else(|| not_the_carrier(separators, self.aggregate.result))?;
        self.append_rows(texts, separators, groups, filter)
    }

    fn merge_batch(
        &mut self,
        states: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total_groups: usize,
    ) -> Result<(), SqlError> {
        self.groups.resize(total_groups);
        let [texts, separators] = states else {
            return Err(SqlError::internal("a state of STRING_AGG has two columns"));
        };
        let texts = texts.as_string_view_opt().ok_or_else(|| not_the_carrier(texts, self.aggregate.result))?;
        let separators =
            separators.as_string_view_opt().ok_or_else(|| not_the_carrier(separators, self.aggregate.result))?;
        self.append_rows(texts, separators, groups, filter)
    }

    fn evaluate(&mut self, emit: Emit) -> Result<ArrayRef, SqlError> {
        let texts = self.groups.take(emit).into_iter().map(|joined| joined.text);
        Ok(Arc::new(texts.collect::<StringViewArray>()))
    }

    fn state(&mut self, emit: Emit) -> Result<Vec<ArrayRef>, SqlError> {
        let joined = self.groups.take(emit);
        let texts = joined.iter().map(|joined| joined.text.as_deref()).collect::<StringViewArray>();
        let separators = joined.iter().map(|joined| joined.separator.as_deref()).collect::<StringViewArray>();
        Ok(vec![Arc::new(texts), Arc::new(separators)])
    }

    fn size(&self) -> usize {
        self.groups.size()
    }
}
