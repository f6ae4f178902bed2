//! T-SQL lexer, parser, syntax tree and printer.

pub mod ast;
mod keyword;
mod lexer;
mod parser;

pub use parser::{DEPTH_MAX, ParseOptions, parse_batch, parse_batch_with, parse_expression};
