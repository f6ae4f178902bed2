//! T-SQL as data: a lexer, a recursive-descent parser, a typed syntax tree and a printer.
//!
//! ```text
//!   script ── split_batches ──▶ batch ── parse_batch ──▶ ast::Batch ── Display ──▶ text that parses to an equal tree
//! ```
//!
//! The crate knows T-SQL's grammar and SQL Server's syntax errors, and nothing else: it looks up no name, checks no
//! type and runs nothing. It depends only on `hobt-base`. It guarantees: no input panics or overflows the stack
//! (nesting is limited to [`DEPTH_MAX`] levels; repetition is not limited and never recurses), every error has its
//! position, and printed text parses to an equal tree.

pub mod ast;
mod batches;
mod constants;
mod keyword;
mod lexer;
mod parser;
mod printer;
mod variables;

pub use batches::{BatchText, split_batches};
pub use constants::{Parameterized, parameterized, text_constants, without_constants};
pub use parser::{DEPTH_MAX, ParseOptions, parse_batch, parse_batch_with, parse_expression};
pub use variables::check_variables;
