//! The literals that stand for a variable's value: itself, or the key by which it compares.
//!
//! Their names tell the variable, the place where it is read, and the form: `@v:3:17|Latin1_General_CI_AS`. So it can
//! be counted which of the places where a variable is read have become literals, and how many others there are.

use std::collections::BTreeSet;

use datafusion::common::ScalarValue;
use hobt_base::Position;
use hobt_types::{Collation, TypedValue, Value};

use super::bound::scalar_of;
use hobt_udf::Operation;

/// Between a variable's name and the place where it is read.
const OF_PLACE: char = ':';
/// Before the collation of a key.
const OF_KEY: char = '|';

/// The name of the literal for a variable that is read at this place.
pub(super) fn read_name(variable: &str, at: Position) -> String {
    format!("{}{OF_PLACE}{}{OF_PLACE}{}", variable.to_lowercase(), at.line, at.column)
}

/// The name of the literal for the key under `operation` of what `read` reads.
pub(super) fn key_name(read: &str, operation: &Operation) -> String {
    let collation = match operation {
        Operation::SortKey(collation) => collation.name(),
        _ => "",
    };
    format!("{read}{OF_KEY}{collation}")
}

/// The variable for which a literal of this name stands, in lower case.
pub fn variable_of(name: &str) -> &str {
    name.split_once(OF_PLACE).map_or(name, |(variable, _)| variable)
}

/// In how many places a variable (in lower case) is read for literals of these names.
pub fn reads_of<'n>(variable: &str, names: impl Iterator<Item = &'n String>) -> usize {
    let of = names.filter(|name| variable_of(name) == variable);
    let places: BTreeSet<&str> =
        of.map(|name| name.split_once(OF_KEY).map_or(name.as_str(), |(read, _)| read)).collect();
    places.len()
}

/// The value of the literal of this name if its variable has this value. `None` if it cannot be computed.
pub fn parameter_value(name: &str, typed: &TypedValue) -> Option<ScalarValue> {
    match name.split_once(OF_KEY) {
        None => scalar_of(&typed.value, typed.sql_type).ok(),
        Some((_, "")) => binary_key(&typed.value),
        Some((_, collation)) => text_key(&typed.value, Collation::from_name(collation)?),
    }
}

/// The bytes by which a text compares.
pub(super) fn text_key(value: &Value, collation: Collation) -> Option<ScalarValue> {
    match value {
        Value::Null => Some(ScalarValue::BinaryView(None)),
        Value::Text(text) => {
            let mut key = Vec::new();
            collation.sort_key(text, &mut key);
            Some(ScalarValue::BinaryView(Some(key)))
        }
        _ => None,
    }
}

/// The bytes by which a binary value compares.
pub(super) fn binary_key(value: &Value) -> Option<ScalarValue> {
    match value {
        Value::Null => Some(ScalarValue::BinaryView(None)),
        Value::Binary(bytes) => {
            Some(ScalarValue::BinaryView(Some(hobt_functions::sort_keys::binary_key(bytes).to_vec())))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hobt_types::{MaxLength, SqlType};

    #[test]
    fn a_name_says_of_which_variable_and_in_which_form() {
        let text = TypedValue { sql_type: SqlType::VarChar(MaxLength::Max), value: Value::Text("Abc".into()) };
        let read = read_name("@T", Position { line: 3, column: 17 });
        let key = key_name(&read, &Operation::SortKey(Collation::default()));
        assert_eq!((variable_of(&key), variable_of(&read)), ("@t", "@t"));
        assert_eq!(parameter_value(&key, &text), text_key(&text.value, Collation::default()));
        assert_eq!(parameter_value(&read, &text), scalar_of(&text.value, text.sql_type).ok());
        let other = read_name("@t", Position { line: 3, column: 40 });
        assert_eq!(reads_of("@t", [&read, &key].into_iter()), 1, "one place, two forms");
        assert_eq!(reads_of("@t", [&read, &other].into_iter()), 2);
        assert_eq!(reads_of("@b", [&read, &other].into_iter()), 0);
        let bytes = TypedValue { sql_type: SqlType::VarBinary(MaxLength::Max), value: Value::Binary(vec![1, 0]) };
        let key = key_name("@b", &Operation::BinaryKey);
        assert_eq!(parameter_value(&key, &bytes), Some(ScalarValue::BinaryView(Some(vec![1]))));
        assert_eq!(parameter_value(&key, &text), None);
    }
}
