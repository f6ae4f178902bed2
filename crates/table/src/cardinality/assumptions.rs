//! What a statement's estimates assume: the values of variables, and how conditions combine.

use std::collections::HashMap;

use hobt_base::SqlError;
use hobt_functions::convert_value;
use hobt_types::{TypedValue, Value};

/// What estimates assume for a constant instead of its value.
#[derive(Clone, PartialEq, Debug)]
pub enum Assumed {
    /// Any value, with the average frequency of values.
    Unknown,
    /// Another value of its type.
    Value(Value),
}

/// How the selectivities of conditions on one table are combined.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Correlation {
    /// Independent: each condition leaves its share of what the others leave.
    None,
    /// Each further condition counts less.
    #[default]
    Partial,
    /// Only the most selective condition counts.
    Full,
}

/// The assumptions of a statement's estimates.
#[derive(Debug, Default)]
pub struct Assumptions {
    /// Whether estimates know the values of all variables.
    pub knows_all: bool,
    /// Whether estimates know the value of no variable.
    pub knows_none: bool,
    /// Whether estimates ignore the values that parameters were given.
    pub no_sniffing: bool,
    /// The assumed values of single variables, by names in lower case; `None` where the value may be anything.
    pub given: HashMap<String, Option<TypedValue>>,
    /// How the selectivities of conditions on one table are combined.
    pub correlation: Correlation,
}

impl Assumptions {
    /// The value that estimates assume for a variable; `None` where they use its actual value. `passed` is the value
    /// that a parameter was given, `None` for a variable that is no parameter.
    ///
    /// # Errors
    /// A hint's value that does not convert to the variable's type.
    pub fn of(&self, name: &str, variable: &TypedValue, passed: Option<&Value>) -> Result<Option<Assumed>, SqlError> {
        Ok(match self.given.get(&name.to_lowercase()) {
            Some(Some(given)) => {
                let value = match given.value.is_null() {
                    true => Value::Null,
                    false => convert_value(&given.value, given.sql_type, variable.sql_type)?,
                };
                Some(Assumed::Value(value))
            }
            Some(None) => Some(Assumed::Unknown),
            None if self.knows_none => Some(Assumed::Unknown),
            None if self.knows_all => None,
            None => match passed {
                Some(passed) if !self.no_sniffing => {
                    (*passed != variable.value).then(|| Assumed::Value(passed.clone()))
                }
                _ => Some(Assumed::Unknown),
            },
        })
    }
}
