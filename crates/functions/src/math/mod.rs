//! math functions.
pub(crate) static FUNCTIONS: &[crate::FunctionDef] = &[];
