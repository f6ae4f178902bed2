//! Numbers in place of keys: [`Codes`] for the distinct values of a column, [`Chain`] for the distinct combinations of
//! several columns' codes. Operators that tell rows apart by their keys use the numbers as indexes into arrays.

mod chain;
mod codes;

pub(crate) use chain::Chain;
pub(crate) use codes::Codes;
