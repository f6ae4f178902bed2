//! T-SQL lexer, parser, syntax tree and printer.

pub mod ast;
