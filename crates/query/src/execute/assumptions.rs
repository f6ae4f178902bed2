//! What a statement's estimates take for granted: what variables hold, and how conditions go together.

use std::collections::HashMap;

use hobt_base::SqlError;
use hobt_types::{TypedValue, Value};

use crate::binder::{Assumed, convert_value};

/// How conditions on one table go together.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Correlation {
    /// Each leaves its share of what the others leave.
    None,
    /// Each further one counts less.
    #[default]
    Partial,
    /// The strictest counts alone.
    Full,
}

/// What a statement's estimates take for granted.
#[derive(Debug, Default)]
pub(crate) struct Assumptions {
    /// Whether they know what all variables hold.
    pub(crate) knows_all: bool,
    /// Whether they know nothing of any variable.
    pub(crate) knows_none: bool,
    /// Whether they know what parameters were given.
    pub(crate) no_sniffing: bool,
    /// What they take single variables to be, by names in lower case; `None` where it may be anything.
    pub(crate) given: HashMap<String, Option<TypedValue>>,
    /// How conditions on one table go together.
    pub(crate) correlation: Correlation,
}

impl Assumptions {
    /// What estimates take a variable to be; `None` where that is its value. `passed` is what a parameter was given,
    /// and `None` for a variable that is none.
    ///
    /// # Errors
    /// A hint's value that does not convert to the variable's type.
    pub(crate) fn of(
        &self,
        name: &str,
        variable: &TypedValue,
        passed: Option<&Value>,
    ) -> Result<Option<Assumed>, SqlError> {
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
