//! text functions.
pub(crate) static FUNCTIONS: &[crate::FunctionDef] = &[];
