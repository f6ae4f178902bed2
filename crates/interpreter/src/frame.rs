//! The variables of a batch or procedure call.

use std::collections::HashMap;

use hobt_base::{Position, SqlError, errors};
use hobt_functions::watch::Charge;
use hobt_types::{SqlType, TypedValue, Value};

/// The variables in scope, and data about the call that created them.
#[derive(Debug)]
pub(super) struct Frame {
    /// The positions of the variables, by their names in lower case. A variable keeps its position.
    places: HashMap<String, usize>,
    variables: Vec<TypedValue>,
    /// The values passed to parameters, by position, if they are short.
    passed: HashMap<usize, Value>,
    /// The memory of long values.
    memory: Charge,
    /// Table variables: maps the name in lower case to the table's name in `tempdb`.
    pub(super) tables: HashMap<String, String>,
    /// The temporary tables visible to the caller; `None` in a session's own batch. Tables created in this call are
    /// dropped at its end.
    pub(super) temporary_of_caller: Option<HashMap<String, String>>,
    /// The procedure's name; `None` in a batch.
    pub(super) procedure: Option<String>,
    /// Whether a caller's `CATCH` handles what is not caught here.
    pub(super) protected: bool,
    /// The number of caught errors that belong to callers.
    pub(super) caught_below: usize,
    /// `SCOPE_IDENTITY()`.
    pub(super) scope_identity: Value,
    /// Whether no plan of an earlier execution is used: `EXEC … WITH RECOMPILE`.
    pub(super) plans_anew: bool,
}

impl Frame {
    /// A frame without variables.
    pub(super) fn new(procedure: Option<String>, protected: bool) -> Frame {
        Frame {
            places: HashMap::new(),
            variables: Vec::new(),
            passed: HashMap::new(),
            memory: Charge::new(),
            tables: HashMap::new(),
            temporary_of_caller: None,
            procedure,
            protected,
            caught_below: 0,
            scope_identity: Value::Null,
            plans_anew: false,
        }
    }

    /// A frame with the same variables, without their values.
    pub(super) fn sketch(&self) -> Frame {
        let mut sketch = Frame::new(self.procedure.clone(), self.protected);
        let without_value = |variable: &TypedValue| TypedValue { value: Value::Null, ..*variable };
        sketch.places.clone_from(&self.places);
        sketch.variables.extend(self.variables.iter().map(without_value));
        sketch.tables.clone_from(&self.tables);
        sketch.temporary_of_caller.clone_from(&self.temporary_of_caller);
        sketch
    }

    /// Adds a variable with a value of its type.
    ///
    /// # Errors
    /// 701 if there is no memory for a long value.
    pub(super) fn declare(&mut self, name: &str, value: TypedValue) -> Result<(), SqlError> {
        self.memory.grow(charged(&value.value))?;
        match self.place_of(name) {
            Some(place) => {
                let before = std::mem::replace(&mut self.variables[place], value);
                self.memory.shrink(charged(&before.value));
            }
            None => {
                self.places.insert(name.to_lowercase(), self.variables.len());
                self.variables.push(value);
            }
        }
        Ok(())
    }

    /// Adds a parameter with the value passed to it.
    ///
    /// # Errors
    /// As [`Frame::declare`].
    pub(super) fn declare_parameter(&mut self, name: &str, given: TypedValue) -> Result<(), SqlError> {
        let passed = (charged(&given.value) == 0).then(|| given.value.clone());
        self.declare(name, given)?;
        if let (Some(place), Some(passed)) = (self.place_of(name), passed) {
            self.passed.insert(place, passed);
        }
        Ok(())
    }

    /// The value passed to a parameter. `None` for other variables.
    pub(super) fn passed(&self, name: &str) -> Option<&Value> {
        self.passed.get(&self.place_of(name)?)
    }

    /// Whether a scalar or table variable has the name.
    pub(super) fn declares(&self, name: &str) -> bool {
        let name = name.to_lowercase();
        self.places.contains_key(&name) || self.tables.contains_key(&name)
    }

    /// The position of a variable.
    pub(super) fn place_of(&self, name: &str) -> Option<usize> {
        self.places.get(name).or_else(|| self.places.get(&name.to_lowercase())).copied()
    }

    /// The variable at a position from [`Frame::place_of`].
    pub(super) fn at(&self, place: usize) -> &TypedValue {
        &self.variables[place]
    }

    /// A variable's type and value.
    pub(super) fn get(&self, name: &str) -> Option<&TypedValue> {
        self.place_of(name).map(|place| &self.variables[place])
    }

    /// A variable's type.
    ///
    /// # Errors
    /// 137 for a variable that was not declared.
    pub(super) fn type_of(&self, name: &str, position: Position) -> Result<SqlType, SqlError> {
        self.get(name).map(|variable| variable.sql_type).ok_or_else(|| undeclared(name).at(position))
    }

    /// Sets a variable to a value of its type.
    ///
    /// # Errors
    /// 137 if the variable is not declared; 701 if there is no memory for a long value.
    pub(super) fn set(&mut self, name: &str, value: Value) -> Result<(), SqlError> {
        let place = self.place_of(name).ok_or_else(|| undeclared(name))?;
        self.set_at(place, value)
    }

    /// Like [`Frame::set`], for the variable at a position.
    ///
    /// # Errors
    /// 701 if there is no memory for a long value.
    pub(super) fn set_at(&mut self, place: usize, value: Value) -> Result<(), SqlError> {
        let slot = &mut self.variables[place];
        // The new value exists already, in addition to the old one.
        self.memory.grow(charged(&value))?;
        self.memory.shrink(charged(&slot.value));
        slot.value = value;
        Ok(())
    }
}

/// The bytes that a variable's value takes from the memory budget. Short values are not counted.
fn charged(value: &Value) -> u64 {
    const SHORT: usize = 64 << 10;
    let length = match value {
        Value::Text(text) => text.len(),
        Value::Binary(bytes) => bytes.len(),
        _ => 0,
    };
    if length > SHORT { length as u64 } else { 0 }
}

/// 137.
pub(super) fn undeclared(name: &str) -> SqlError {
    errors::UNDECLARED_VARIABLE.with([&name])
}

#[cfg(test)]
mod tests {
    use super::*;
    use hobt_base::number;

    #[test]
    fn variables_are_found_in_any_case() {
        let mut frame = Frame::new(None, false);
        frame.declare("@Count", TypedValue { sql_type: SqlType::Int, value: Value::Null }).unwrap();
        frame.set("@COUNT", Value::Int(3)).unwrap();
        assert_eq!(frame.get("@count").unwrap().value, Value::Int(3));
        assert!(frame.declares("@cOUNT"));
        assert_eq!(frame.set("@other", Value::Null).unwrap_err().number, number::UNDECLARED_VARIABLE);
    }
}
