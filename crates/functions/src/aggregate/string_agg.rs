//! `STRING_AGG`: texts with a separator between them, in the order in which they come.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, StringViewArray};
use hobt_base::{SqlError, number};
use hobt_types::{MaxLength, SqlType};

use super::{Aggregate, Emit, GroupsAccumulator, argument, each_row, take};
use crate::carrier::not_the_carrier;
use crate::cast::cast_array;
use crate::type_rules::declared_length;
use crate::watch::Meter;

pub(super) struct StringAgg {
    aggregate: Aggregate,
    texts: Vec<Option<String>>,
    /// The separator between partial texts when states merge: a group's last.
    separators: Vec<Option<String>>,
    bytes: usize,
}

impl StringAgg {
    pub(super) fn new(aggregate: Aggregate) -> StringAgg {
        StringAgg { aggregate, texts: Vec::new(), separators: Vec::new(), bytes: 0 }
    }

    fn resize(&mut self, groups: usize) {
        self.texts.resize(groups, None);
        self.separators.resize(groups, None);
    }

    /// # Errors
    /// 9829 beyond 8,000 bytes of a type that is not `max`.
    fn append(&mut self, group: usize, text: &str, separator: &str) -> Result<(), SqlError> {
        self.bytes += text.len() + separator.len();
        let held = &mut self.texts[group];
        match held {
            None => *held = Some(text.to_string()),
            Some(held) => {
                held.push_str(separator);
                held.push_str(text);
            }
        }
        let limit = match declared_length(self.aggregate.result) {
            Some(MaxLength::Limited(limit)) => usize::from(limit),
            _ => return Ok(()),
        };
        let too_long = held.as_ref().is_some_and(|held| crate::text::code_page::units(held) > limit);
        if too_long {
            return Err(SqlError::new(
                number::STRING_AGG_TOO_LONG,
                "STRING_AGG aggregation result exceeded the limit of 8000 bytes. Use LOB types to avoid result truncation.",
            ));
        }
        if self.separators[group].as_deref() != Some(separator) {
            self.separators[group] = Some(separator.to_string());
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
                    meter.value(length + self.texts[group].as_ref().map_or(0, String::len))?;
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
        self.resize(total_groups);
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

    fn update_all(&mut self, values: &[ArrayRef]) -> Result<(), SqlError> {
        let groups = vec![0; argument(values)?.len()];
        self.update_batch(values, &groups, None, 1)
    }

    fn merge_batch(
        &mut self,
        states: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total_groups: usize,
    ) -> Result<(), SqlError> {
        self.resize(total_groups);
        let [texts, separators] = states else {
            return Err(SqlError::internal("a state of STRING_AGG has two columns"));
        };
        let texts = texts.as_string_view_opt().ok_or_else(|| not_the_carrier(texts, self.aggregate.result))?;
        let separators =
            separators.as_string_view_opt().ok_or_else(|| not_the_carrier(separators, self.aggregate.result))?;
        self.append_rows(texts, separators, groups, filter)
    }

    fn evaluate(&mut self, emit: Emit) -> Result<ArrayRef, SqlError> {
        take(&mut self.separators, emit);
        let texts = take(&mut self.texts, emit);
        Ok(Arc::new(texts.into_iter().collect::<StringViewArray>()))
    }

    fn state(&mut self, emit: Emit) -> Result<Vec<ArrayRef>, SqlError> {
        let separators = take(&mut self.separators, emit).into_iter().collect::<StringViewArray>();
        let texts = take(&mut self.texts, emit).into_iter().collect::<StringViewArray>();
        Ok(vec![Arc::new(texts), Arc::new(separators)])
    }

    fn size(&self) -> usize {
        self.bytes + (self.texts.capacity() + self.separators.capacity()) * size_of::<Option<String>>()
    }
}
