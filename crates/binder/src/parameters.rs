//! The literals that stand for a variable's value: itself, or the key by which it compares.

use datafusion::common::ScalarValue;
use hobt_types::{Collation, TypedValue, Value};

use super::bound::scalar_of;
use hobt_udf::Operation;

/// Between a variable's name and the collation of a key of it.
const OF_KEY: char = '|';

/// The name of the literal for a variable's key under `operation`.
pub(super) fn key_name(variable: &str, operation: &Operation) -> String {
    let collation = match operation {
        Operation::SortKey(collation) => collation.name(),
        _ => "",
    };
    format!("{variable}{OF_KEY}{collation}")
}

/// The variable for which a literal of this name stands.
pub fn variable_of(name: &str) -> &str {
    name.split_once(OF_KEY).map_or(name, |(variable, _)| variable)
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
        let key = key_name("@t", &Operation::SortKey(Collation::default()));
        assert_eq!((variable_of(&key), variable_of("@t")), ("@t", "@t"));
        assert_eq!(parameter_value(&key, &text), text_key(&text.value, Collation::default()));
        assert_eq!(parameter_value("@t", &text), scalar_of(&text.value, text.sql_type).ok());
        let bytes = TypedValue { sql_type: SqlType::VarBinary(MaxLength::Max), value: Value::Binary(vec![1, 0]) };
        let key = key_name("@b", &Operation::BinaryKey);
        assert_eq!(parameter_value(&key, &bytes), Some(ScalarValue::BinaryView(Some(vec![1]))));
        assert_eq!(parameter_value(&key, &text), None);
    }
}
