//! Scripting variables: `$(name)` in a batch stands for what `:setvar`, `-v` or the environment says, in this order.

use std::collections::BTreeMap;

use super::command::is_name;

/// The variables of a run.
#[derive(Clone, Debug, Default)]
pub(super) struct Variables {
    /// By their names in lower case.
    values: BTreeMap<String, String>,
}

impl Variables {
    /// Sets a variable, or forgets it.
    pub(super) fn set(&mut self, name: &str, value: Option<String>) {
        let name = name.to_ascii_lowercase();
        match value {
            Some(value) => self.values.insert(name, value),
            None => self.values.remove(&name),
        };
    }

    fn get(&self, name: &str) -> Option<String> {
        self.values.get(&name.to_ascii_lowercase()).cloned().or_else(|| std::env::var(name).ok())
    }

    /// The text with every variable's value in its place, in strings and comments too.
    ///
    /// # Errors
    /// A variable that is not set.
    pub(super) fn replace(&self, text: &str) -> Result<String, String> {
        let mut replaced = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("$(") {
            replaced.push_str(before);
            match after.split_once(')').filter(|(name, _)| is_name(name)) {
                Some((name, behind)) => {
                    let value = self.get(name).ok_or_else(|| {
                        format!(
                            "The variable {name} of $({name}) is not set. Set it with :setvar {name} VALUE or -v \
                             {name}=VALUE; with -x such texts stay as they are."
                        )
                    })?;
                    replaced.push_str(&value);
                    rest = behind;
                }
                None => {
                    replaced.push_str("$(");
                    rest = after;
                }
            }
        }
        replaced.push_str(rest);
        Ok(replaced)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_take_the_place_of_names() {
        let mut variables = Variables::default();
        variables.set("Db", Some("Sales".to_owned()));
        let replace = |variables: &Variables, text: &str| variables.replace(text);
        assert_eq!(replace(&variables, "USE $(db); PRINT '$(DB)$'"), Ok("USE Sales; PRINT 'Sales$'".to_owned()));
        // A value is not looked through once more.
        variables.set("again", Some("$(db)".to_owned()));
        assert_eq!(replace(&variables, "$(again)"), Ok("$(db)".to_owned()));
        for text in ["$", "$(", "$()", "SELECT $(1 + 2)", "no variables"] {
            assert_eq!(replace(&variables, text), Ok(text.to_owned()));
        }
        variables.set("DB", None);
        assert!(replace(&variables, "$(db)").expect_err("it is forgotten").contains(":setvar db"));
    }
}
