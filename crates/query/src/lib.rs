//! T-SQL binder, procedural interpreter, planner rules and operators on DataFusion.

pub mod interpreter;
