//! The printer: a tree as T-SQL text.
//!
//! Printed text parses to an equal tree. The layout is plain: one line per statement, keywords in capitals, a semicolon
//! after each statement, parentheses only where the tree needs them. A tree built by a program prints to valid text if
//! it satisfies the invariants that [`crate::ast`] states (lists that are not empty, chains of one level).
//!
//! Printing recurses as deep as the tree. A parsed tree is never deeper than the parser's limit. If the printer adds
//! parentheses that the text did not have (`TOP (1)` for `TOP 1`, `~(-a)` for `~-a`), a tree at exactly that limit
//! prints to a text beyond it.

mod bulk;
mod ddl;
mod expression;
mod external;
mod hint;
mod query;
mod statement;

use std::fmt::{Display, Formatter, Result, Write};

use crate::ast::*;
use crate::keyword;
use crate::lexer::is_word_character;

/// Prints `items` separated by `between`.
fn separated<T: Display>(f: &mut Formatter<'_>, items: &[T], between: &str) -> Result {
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            f.write_str(between)?;
        }
        write!(f, "{item}")?;
    }
    Ok(())
}

/// Prints `x, y, z`.
fn commas<T: Display>(f: &mut Formatter<'_>, items: &[T]) -> Result {
    separated(f, items, ", ")
}

/// Prints `before(x, y, z)`, or nothing if there are no items.
fn list<T: Display>(f: &mut Formatter<'_>, before: &str, items: &[T]) -> Result {
    if items.is_empty() {
        return Ok(());
    }
    write!(f, "{before}(")?;
    commas(f, items)?;
    f.write_str(")")
}

/// Prints `before` and the item, or nothing.
fn optional<T: Display>(f: &mut Formatter<'_>, before: &str, item: &Option<T>) -> Result {
    match item {
        Some(item) => write!(f, "{before}{item}"),
        None => Ok(()),
    }
}

/// Prints `text` if `condition` is true.
fn flag(f: &mut Formatter<'_>, condition: bool, text: &str) -> Result {
    if condition { f.write_str(text) } else { Ok(()) }
}

/// Prints a string constant. Apostrophes are doubled. After a backslash at a line's end a line continuation is added,
/// so that the backslash does not join the lines.
fn string(f: &mut Formatter<'_>, value: &str) -> Result {
    f.write_char('\'')?;
    let mut characters = value.chars().peekable();
    while let Some(c) = characters.next() {
        match c {
            '\'' => f.write_str("''")?,
            '\\' => {
                f.write_char('\\')?;
                let rest: String = characters.clone().take(2).collect();
                if rest.starts_with('\n') || rest == "\r\n" {
                    f.write_str("\\\n")?;
                }
            }
            c => f.write_char(c)?,
        }
    }
    f.write_char('\'')
}

impl Display for Batch {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        for statement in &self.statements {
            writeln!(f, "{statement}{}", statement::terminator(statement))?;
        }
        Ok(())
    }
}

impl Display for Identifier {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        if !self.quoted && is_plain(&self.value) {
            return f.write_str(&self.value);
        }
        write!(f, "[{}]", self.value.replace(']', "]]"))
    }
}

/// Whether `value` can be an identifier without quotes.
fn is_plain(value: &str) -> bool {
    let mut characters = value.chars();
    let begins = characters.next().is_some_and(|c| c.is_alphabetic() || matches!(c, '_' | '#' | '$'));
    begins && characters.all(is_word_character) && keyword::lookup(value).is_none()
}

impl Display for ObjectName {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let mut open = false;
        for part in [&self.server, &self.database, &self.schema] {
            if let Some(part) = part {
                write!(f, "{part}")?;
                open = true;
            }
            if open {
                f.write_char('.')?;
            }
        }
        write!(f, "{}", self.name)
    }
}

impl Display for VariableName {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str(&self.value)
    }
}

impl Display for DataType {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{}", self.name)?;
        list(f, "", &self.arguments)
    }
}

impl Display for TypeArgument {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            TypeArgument::Number(number) => write!(f, "{number}"),
            TypeArgument::Max => f.write_str("MAX"),
        }
    }
}

impl Display for Literal {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Literal::Null => f.write_str("NULL"),
            Literal::Integer(value) => write!(f, "{value}"),
            Literal::Decimal(text) | Literal::Float(text) => f.write_str(text),
            Literal::Money(text) => write!(f, "${text}"),
            Literal::String { value, national } => {
                flag(f, *national, "N")?;
                string(f, value)
            }
            Literal::Binary(bytes) => {
                f.write_str("0x")?;
                bytes.iter().try_for_each(|byte| write!(f, "{byte:02X}"))
            }
        }
    }
}

impl Display for OptionItem {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str(&self.name)?;
        match &self.value {
            OptionValue::Absent => {}
            OptionValue::On => f.write_str(" = ON")?,
            OptionValue::Off => f.write_str(" = OFF")?,
            OptionValue::Word(word) => {
                f.write_str(" = ")?;
                word_of_option(f, word)?;
            }
            OptionValue::Literal(value) => write!(f, " = {value}")?,
            // `SAMPLE 99 PERCENT` has no equals sign, `DELAY = 60 MINUTES` needs one.
            OptionValue::Quantity { amount, unit } if self.name == "SAMPLE" => write!(f, " {amount} {unit}")?,
            OptionValue::Quantity { amount, unit } => write!(f, " = {amount} {unit}")?,
            OptionValue::List(items) => list(f, " = ", items)?,
        }
        list(f, " ON PARTITIONS ", &self.partitions)
    }
}

/// Prints a word that may be reserved, which option values may be.
fn word_of_option(f: &mut Formatter<'_>, word: &Identifier) -> Result {
    let reserved = keyword::lookup(&word.value).is_some();
    if !word.quoted && reserved { f.write_str(&word.value) } else { write!(f, "{word}") }
}

impl Display for PartitionRange {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{}", self.first)?;
        optional(f, " TO ", &self.last)
    }
}
