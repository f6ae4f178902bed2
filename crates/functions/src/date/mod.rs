//! Date functions.
mod part;
pub use part::DatePart;
pub(crate) static FUNCTIONS: &[crate::FunctionDef] = &[];
